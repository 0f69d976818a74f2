// A layer between SQLite and the files of one connection, https://www.sqlite.org/vfs.html. A commit writes the header
// of a frame and its page, of the next frame and its page, and so on, each in a separate call (wal.c,
// walWriteOneFrame), and then syncs. This layer holds the frames back and joins them into one write, in the same order.
//
// Why the difference is not observable:
//
// - A sync first writes the held frames. With synchronous=FULL every commit syncs before other connections can see it,
//   so that everything they may read is in the file, and on the disk.
// - Without that sync, SQLite publishes a commit with a barrier on the shared memory between the two copies of the WAL
//   index's header (walIndexWriteHdr): readers wait for both to be equal. The barrier writes the held frames too.
// - Frames of a transaction that is larger than the cache, or is rolled back, are not visible to others. They are
//   written before the connection releases its write lock on the WAL, since others may write to the same place
//   after that.
// - Reads of the file, of its size and of everything else about it first write the held frames.
//
// The call that causes a write reports its failure, as SQLITE_FULL or SQLITE_IOERR_WRITE; for a commit, this is its
// sync. The held frames are then dropped, because SQLite rolls the transaction back.
//
// A sync takes twice as long when the file has grown since the last one: the file system must then also write its own
// journal, with everything else that is in it. So the file grows by many frames of zeros at a time. A frame of zeros is
// invalid (https://www.sqlite.org/walformat.html), like the remains of a WAL that was reset. Zeros are written past the
// end of the file only, and only under the WAL's write lock.

#include "CSQLiteVFS.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

// SQLite's own layer counts the bytes of one write modulo 128 KiB (os_unix.c, seekAndWriteFd).
enum { HELD_MAX = 120 * 1024 };
// Bytes by which the file grows. With fewer, more syncs are slow; with more, each slow sync takes longer.
enum { GROWTH = 512 * 1024 };
// The WAL's write lock (https://www.sqlite.org/walformat.html, "WAL locks").
enum { WRITE_LOCK = 0 };

struct database;

// `file->pMethods` of the WAL points to the first member.
struct write_ahead_log {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *below;
    sqlite3_file *file;
    struct database *database;
    // Result of a failed write in a call that cannot report it; later writes return it.
    int failure;
    // The length of the file when this connection last determined it, or more.
    sqlite3_int64 end;
    sqlite3_int64 place;
    int held;
    unsigned char bytes[HELD_MAX];
};

// The layer of the database file, whose methods include those of the shared memory. Its `file->pMethods` points to the
// first member.
struct database {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *below;
    struct write_ahead_log *log;
};

static struct write_ahead_log *log_of(sqlite3_file *file) { return (struct write_ahead_log *)file->pMethods; }
static struct database *database_of(sqlite3_file *file) { return (struct database *)file->pMethods; }

// Extends the file with zeros. A failure is ignored: the frames are written, and the file is only shorter than it could
// be.
static void grow(struct write_ahead_log *log, sqlite3_int64 written) {
    static const unsigned char zeros[HELD_MAX];
    sqlite3_int64 place = 0;
    if (log->below->xFileSize(log->file, &place) != SQLITE_OK) return;
    log->end = place;
    // Another connection has already extended the file.
    if (place > written) return;
    log->end = (written / GROWTH + 1) * GROWTH;
    while (place < log->end) {
        int count = log->end - place < HELD_MAX ? (int)(log->end - place) : HELD_MAX;
        if (log->below->xWrite(log->file, zeros, count, place) != SQLITE_OK) return;
        place += count;
    }
}

static int write_below(struct write_ahead_log *log, const void *bytes, int count, sqlite3_int64 place) {
    int code = log->below->xWrite(log->file, bytes, count, place);
    if (code == SQLITE_OK && place + count > log->end) grow(log, place + count);
    return code;
}

static int write_held(struct write_ahead_log *log) {
    if (log->failure != SQLITE_OK) return log->failure;
    int count = log->held;
    log->held = 0;
    return count == 0 ? SQLITE_OK : write_below(log, log->bytes, count, log->place);
}

// MARK: The WAL

static int log_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 place) {
    struct write_ahead_log *log = log_of(file);
    if (log->held > 0 && (place != log->place + log->held || count > HELD_MAX - log->held)) {
        int code = write_held(log);
        if (code != SQLITE_OK) return code;
    }
    if (log->failure != SQLITE_OK) return log->failure;
    if (count > HELD_MAX) return write_below(log, bytes, count, place);
    if (log->held == 0) log->place = place;
    memcpy(log->bytes + log->held, bytes, (size_t)count);
    log->held += count;
    return SQLITE_OK;
}

static int log_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 place) {
    int code = write_held(log_of(file));
    return code != SQLITE_OK ? code : log_of(file)->below->xRead(file, bytes, count, place);
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size) {
    struct write_ahead_log *log = log_of(file);
    int code = write_held(log);
    if (code == SQLITE_OK) code = log->below->xTruncate(file, size);
    if (code == SQLITE_OK) log->end = size;
    return code;
}

static int log_sync(sqlite3_file *file, int flags) {
    int code = write_held(log_of(file));
    return code != SQLITE_OK ? code : log_of(file)->below->xSync(file, flags);
}

static int log_size(sqlite3_file *file, sqlite3_int64 *size) {
    int code = write_held(log_of(file));
    return code != SQLITE_OK ? code : log_of(file)->below->xFileSize(file, size);
}

static int log_control(sqlite3_file *file, int operation, void *argument) {
    int code = write_held(log_of(file));
    return code != SQLITE_OK ? code : log_of(file)->below->xFileControl(file, operation, argument);
}

static int log_close(sqlite3_file *file) {
    struct write_ahead_log *log = log_of(file);
    int held = write_held(log);
    if (log->database) log->database->log = NULL;
    file->pMethods = log->below;
    int closed = log->below->xClose(file);
    free(log);
    return held != SQLITE_OK ? held : closed;
}

// MARK: The database file

// SQLite acquires and releases the WAL's locks through the database file.
static int database_lock(sqlite3_file *file, int place, int count, int flags) {
    struct database *database = database_of(file);
    const int gives_up = SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE;
    // A failure is ignored: these frames were not visible to other connections.
    if (database->log && place == WRITE_LOCK && (flags & gives_up) == gives_up) (void)write_held(database->log);
    return database->below->xShmLock(file, place, count, flags);
}

static void database_barrier(sqlite3_file *file) {
    struct database *database = database_of(file);
    if (database->log && database->log->held > 0) database->log->failure = write_held(database->log);
    database->below->xShmBarrier(file);
}

static int database_close(sqlite3_file *file) {
    struct database *database = database_of(file);
    if (database->log) database->log->database = NULL;
    file->pMethods = database->below;
    int closed = database->below->xClose(file);
    free(database);
    return closed;
}

// MARK: Installing

int dwell_join_log_writes(struct sqlite3 *connection) {
    sqlite3_file *file = NULL, *log_file = NULL;
    int code = sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code == SQLITE_OK) code = sqlite3_file_control(connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log_file);
    if (code != SQLITE_OK) return code;
    if (!file || !file->pMethods || file->pMethods->iVersion < 2) return SQLITE_MISUSE;
    if (!log_file || !log_file->pMethods || file->pMethods->xShmLock == database_lock) return SQLITE_MISUSE;

    struct write_ahead_log *log = calloc(1, sizeof *log);
    struct database *database = calloc(1, sizeof *database);
    if (!log || !database) {
        free(log);
        free(database);
        return SQLITE_NOMEM;
    }
    log->below = log_file->pMethods;
    log->methods = *log->below;
    log->methods.xWrite = log_write;
    log->methods.xRead = log_read;
    log->methods.xTruncate = log_truncate;
    log->methods.xSync = log_sync;
    log->methods.xFileSize = log_size;
    log->methods.xFileControl = log_control;
    log->methods.xClose = log_close;
    log->file = log_file;
    log->database = database;

    database->below = file->pMethods;
    database->methods = *database->below;
    database->methods.xShmLock = database_lock;
    database->methods.xShmBarrier = database_barrier;
    database->methods.xClose = database_close;
    database->log = log;

    log_file->pMethods = &log->methods;
    file->pMethods = &database->methods;
    return SQLITE_OK;
}
