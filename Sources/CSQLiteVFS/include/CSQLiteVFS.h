// This module changes how SQLite uses files and memory:
//
// - It writes many pages to the WAL in one call. SQLite alone writes each page in two calls.
// - It divides the writes of a checkpoint into paced steps.
// - It zeros the unallocated space of pages that are written to the database file.
// - It skips needless scans of the page cache, and turns off SQLite's memory statistics.
#ifndef DWELL_CSQLITEVFS_H
#define DWELL_CSQLITEVFS_H

#include <stdint.h>

struct sqlite3;

// Makes this connection hold contiguous writes to its WAL, and write them with one call. It writes the held bytes
// before a sync, before a read, and before every call that shows the bytes to another connection.
//
// The WAL grows by half a mebibyte at a time. The new space after the last frame is filled with zeros.
//
// The database must be in WAL mode, and the connection must have no open transaction. Returns SQLITE_OK, or the result
// code of the error.
//
// The change lasts until the connection closes its files. During this time, a checkpoint by this connection also zeros
// the unallocated space of the pages that it writes to the database file.
int dwell_join_log_writes(struct sqlite3 *connection);

// Divides this connection's writes to the database file into steps. Zeros the unallocated space of the written pages.
// Returns SQLITE_OK, or the result code of the error.
//
// The first step of a checkpoint has `pages` writes. After each step, the file is synced, and `after_step` gets the
// step's duration in nanoseconds. `after_step` returns the number of writes for the next step.
//
// `after_step` and `context` must be valid until the connection is closed.
int dwell_step_writes(
    struct sqlite3 *connection, int pages, int (*after_step)(void *context, uint64_t nanoseconds), void *context);

// Stops SQLite from counting the memory that it uses, because the counting takes a lock that all connections share.
// Must be called before the process first uses SQLite. A later call returns SQLITE_MISUSE and changes nothing.
int dwell_stop_memory_statistics(void);

// Stops SQLite from visiting every cached page at the end of a transaction that split a B-tree node. Must be called
// before the process first uses SQLite. A later call returns SQLITE_MISUSE and changes nothing.
int dwell_skip_empty_truncations(void);

// Returns how often this process has truncated a page cache. Skipped truncations are not counted.
unsigned long long dwell_page_cache_truncations(void);

#endif
