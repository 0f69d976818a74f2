// Coalesces SQLite's writes to its WAL, two calls for each page, into one call for many pages; paces the writes of
// a checkpoint to the database file; skips needless scans of the page cache; and turns off SQLite's memory statistics.
#ifndef DWELL_CJOINEDWRITES_H
#define DWELL_CJOINEDWRITES_H

#include <stdint.h>

struct sqlite3;

// Holds back contiguous writes of this connection to its WAL from now on, and writes them together before anything can
// depend on them: before a sync, a read, and every call that makes them visible to another connection. The WAL then
// grows by half a mebibyte at a time, with zeros after the last frame.
//
// The database must be in WAL mode, without an open transaction. Returns SQLITE_OK, or SQLite's result code.
// Closing the files removes the layer.
int dwell_join_log_writes(struct sqlite3 *connection);

// Divides this connection's writes to the database file into steps from now on. The first step of a checkpoint has
// `pages` writes. After each step the file is synced, and `after_step` is called with the duration of the step; it
// returns the number of writes in the checkpoint's next step, which waits for its return. `after_step` and `context`
// must be valid until the connection is closed.
//
// Returns SQLITE_OK, or SQLite's result code. Closing the file removes the layer.
int dwell_step_writes(
    struct sqlite3 *connection, int pages, int (*after_step)(void *context, uint64_t nanoseconds), void *context);

// Stops SQLite from counting its memory, which it does under a lock that all connections share. Must be called before
// the process first uses SQLite; afterwards it returns SQLITE_MISUSE and changes nothing.
int dwell_stop_memory_statistics(void);

// Stops SQLite from visiting every cached page at the end of a transaction that split a B-tree node. Must be called
// before the process first uses SQLite; afterwards it returns SQLITE_MISUSE and changes nothing.
int dwell_skip_empty_truncations(void);

// Returns how many truncations of the page caches of this process were not skipped.
unsigned long long dwell_page_cache_truncations(void);

#endif
