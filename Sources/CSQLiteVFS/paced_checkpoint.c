// A layer (https://www.sqlite.org/vfs.html) between SQLite and the database file, for a connection that only runs
// checkpoints. The layer also zeros the unallocated space of pages (free_space.c).
//
// SQLite's checkpoint writes all its pages and then syncs once (wal.c, walCheckpoint). A concurrent commit waits for
// this sync, which writes several thousand pages. This layer syncs after each step, so the commit waits only for the
// pages of one step.
//
// The additional syncs do not weaken SQLite's guarantees, because SQLite's own sync still comes last.

#include "CSQLiteVFS.h"
#include "free_space.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <time.h>

// The state of the layer. `methods` must be the first member, because `file->pMethods` is cast to this structure.
struct stepped {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *below;
    int pages_in_first_step;
    int pages_in_step;
    int written;
    struct checkpoint checkpoint;
    uint64_t begun;
    int (*after_step)(void *context, uint64_t nanoseconds);
    void *context;
};

static struct stepped *stepped_of(sqlite3_file *file) { return (struct stepped *)file->pMethods; }

static uint64_t now_nanoseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int stepped_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    struct stepped *stepped = stepped_of(file);
    if (stepped->written == 0) stepped->begun = now_nanoseconds();
    int code = dwell_write_cleared(&stepped->checkpoint, stepped->below, file, bytes, count, offset);
    if (code != SQLITE_OK || ++stepped->written < stepped->pages_in_step) return code;
    stepped->written = 0;
    code = stepped->below->xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
    if (code != SQLITE_OK) return code;
    stepped->pages_in_step = stepped->after_step(stepped->context, now_nanoseconds() - stepped->begun);
    return SQLITE_OK;
}

// Handles the sync that SQLite requests at the end of a checkpoint. The next write therefore begins another checkpoint.
static int stepped_sync(sqlite3_file *file, int flags) {
    struct stepped *stepped = stepped_of(file);
    stepped->written = 0;
    stepped->pages_in_step = stepped->pages_in_first_step;
    return stepped->below->xSync(file, flags);
}

static int stepped_control(sqlite3_file *file, int operation, void *argument) {
    struct stepped *stepped = stepped_of(file);
    return dwell_note_checkpoint(&stepped->checkpoint, stepped->below, file, operation, argument);
}

static int stepped_close(sqlite3_file *file) {
    struct stepped *stepped = stepped_of(file);
    file->pMethods = stepped->below;
    int closed = stepped->below->xClose(file);
    free(stepped);
    return closed;
}

int dwell_step_writes(
    struct sqlite3 *connection, int pages, int (*after_step)(void *context, uint64_t nanoseconds), void *context
) {
    sqlite3_file *file = NULL;
    int code = sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code != SQLITE_OK) return code;
    if (!file || !file->pMethods || file->pMethods->xWrite == stepped_write || pages < 1) return SQLITE_MISUSE;

    struct stepped *stepped = calloc(1, sizeof *stepped);
    if (!stepped) return SQLITE_NOMEM;
    stepped->below = file->pMethods;
    stepped->methods = *stepped->below;
    stepped->methods.xWrite = stepped_write;
    stepped->methods.xSync = stepped_sync;
    stepped->methods.xFileControl = stepped_control;
    stepped->methods.xClose = stepped_close;
    stepped->pages_in_first_step = pages;
    stepped->pages_in_step = pages;
    stepped->after_step = after_step;
    stepped->context = context;
    file->pMethods = &stepped->methods;
    return SQLITE_OK;
}
