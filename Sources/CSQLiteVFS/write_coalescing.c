// A layer (https://www.sqlite.org/vfs.html) between SQLite and the files of one connection. It holds the frames of a
// commit, and writes many frames with one call, in their order.
//
// Without the layer, SQLite writes each frame to the WAL in two calls: the frame's header and its page (wal.c,
// walWriteOneFrame).
//
// SQLite and other connections cannot observe the difference, for these reasons:
//
// - Before a sync, the layer writes the held frames. With synchronous=FULL, every commit syncs before other connections
//   can see the commit. Other connections therefore see only frames that are on the disk.
// - Without synchronous=FULL, readers see a commit when the two copies of the WAL index header in shared memory are
//   equal. Between writing the two copies, SQLite calls a barrier (walIndexWriteHdr). In this call, the layer writes
//   the held frames.
// - Before the WAL's write lock is released, the layer writes the held frames, because another connection may write at
//   the same offset after the release. Other connections never see the frames of an uncommitted transaction.
// - Before a call that reads the file, its size or anything else about it, the layer writes the held frames.
//
// If writing the held frames fails, the layer drops them, because SQLite rolls the transaction back. The call that
// caused the write returns SQLITE_FULL or SQLITE_IOERR_WRITE. For a commit, that call is the sync.
//
// A barrier and a release of the write lock cannot return an error. If the write fails in a barrier, all later calls on
// the WAL return the error. If it fails in a release, the error is ignored, because the frames are not committed.
//
// The first sync after the file has grown takes twice as long, because the file system also writes its own journal. To
// make such syncs rare, the layer extends the file by many frames of zeros at a time.
//
// SQLite treats a frame of zeros as invalid (https://www.sqlite.org/walformat.html), like the old frames after a reset
// of the WAL. The layer writes zeros only past the end of the file, and only under the WAL's write lock.

#include "CSQLiteVFS.h"
#include "free_space.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

// Maximum number of held bytes. It is less than 128 KiB, because SQLite's own layer counts the bytes of one write
// modulo 128 KiB (os_unix.c, seekAndWriteFd).
enum { HELD_MAX = 120 * 1024 };
// The file grows by this number of bytes at a time. The sync after each growth is slow. A smaller number means more
// slow syncs, and a larger number makes each of them slower.
enum { GROWTH = 512 * 1024 };
// The WAL's write lock (https://www.sqlite.org/walformat.html, "WAL locks").
enum { WRITE_LOCK = 0 };

struct database;

// The layer over the WAL. `methods` must be the first member, because `pMethods` of the WAL's `sqlite3_file` is cast to
// this structure.
struct write_ahead_log {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *below;
    sqlite3_file *file;
    struct database *database;
    // The error of a write that failed in a barrier. A barrier cannot return an error, so all later calls on the WAL
    // return it.
    int failure;
    // The length of the file when this connection last determined or extended it. If the extension failed, the file is
    // shorter.
    sqlite3_int64 end;
    sqlite3_int64 offset;
    int held;
    unsigned char bytes[HELD_MAX];
};

// The layer over the database file. SQLite calls the methods for the shared memory on this file too. The layer zeros
// the unallocated space of pages that this connection copies from the WAL.
//
// `methods` must be the first member, because the file's `pMethods` is cast to this structure.
struct database {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *below;
    struct write_ahead_log *log;
    struct checkpoint checkpoint;
};

static struct write_ahead_log *log_of(sqlite3_file *file) { return (struct write_ahead_log *)file->pMethods; }
static struct database *database_of(sqlite3_file *file) { return (struct database *)file->pMethods; }

// Extends the file with zeros. A failure is ignored, because the frames are already written.
static void grow(struct write_ahead_log *log, sqlite3_int64 written) {
    static const unsigned char zeros[HELD_MAX];
    sqlite3_int64 offset = 0;
    if (log->below->xFileSize(log->file, &offset) != SQLITE_OK) return;
    log->end = offset;
    // The file already has space after the written bytes. Another connection extended it, or the WAL was extended and
    // then reset.
    if (offset > written) return;
    log->end = (written / GROWTH + 1) * GROWTH;
    while (offset < log->end) {
        int count = log->end - offset < HELD_MAX ? (int)(log->end - offset) : HELD_MAX;
        if (log->below->xWrite(log->file, zeros, count, offset) != SQLITE_OK) return;
        offset += count;
    }
}

static int write_below(struct write_ahead_log *log, const void *bytes, int count, sqlite3_int64 offset) {
    int code = log->below->xWrite(log->file, bytes, count, offset);
    if (code == SQLITE_OK && offset + count > log->end) grow(log, offset + count);
    return code;
}

static int write_held(struct write_ahead_log *log) {
    if (log->failure != SQLITE_OK) return log->failure;
    int count = log->held;
    log->held = 0;
    return count == 0 ? SQLITE_OK : write_below(log, log->bytes, count, log->offset);
}

// MARK: The WAL

static int log_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    struct write_ahead_log *log = log_of(file);
    if (log->held > 0 && (offset != log->offset + log->held || count > HELD_MAX - log->held)) {
        int code = write_held(log);
        if (code != SQLITE_OK) return code;
    }
    if (log->failure != SQLITE_OK) return log->failure;
    if (count > HELD_MAX) return write_below(log, bytes, count, offset);
    if (log->held == 0) log->offset = offset;
    memcpy(log->bytes + log->held, bytes, (size_t)count);
    log->held += count;
    return SQLITE_OK;
}

static int log_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
    int code = write_held(log_of(file));
    return code != SQLITE_OK ? code : log_of(file)->below->xRead(file, bytes, count, offset);
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

static int database_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    struct database *database = database_of(file);
    return dwell_write_cleared(&database->checkpoint, database->below, file, bytes, count, offset);
}

static int database_control(sqlite3_file *file, int operation, void *argument) {
    struct database *database = database_of(file);
    return dwell_note_checkpoint(&database->checkpoint, database->below, file, operation, argument);
}

// SQLite acquires and releases the WAL's locks through the database file.
static int database_lock(sqlite3_file *file, int offset, int count, int flags) {
    struct database *database = database_of(file);
    const int gives_up = SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE;
    // A failure is ignored, because the frames that are still held are not committed. Other connections never see these
    // frames.
    if (database->log && offset == WRITE_LOCK && (flags & gives_up) == gives_up) (void)write_held(database->log);
    return database->below->xShmLock(file, offset, count, flags);
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
    database->methods.xWrite = database_write;
    database->methods.xFileControl = database_control;
    database->methods.xShmLock = database_lock;
    database->methods.xShmBarrier = database_barrier;
    database->methods.xClose = database_close;
    database->log = log;

    log_file->pMethods = &log->methods;
    file->pMethods = &database->methods;
    return SQLITE_OK;
}
