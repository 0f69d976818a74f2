// What SQLite writes to its WAL in two calls for each page, written in one call for many pages; what a checkpoint writes
// to the database file in one go, written in steps; and SQLite's counting of its own memory, turned off.
#ifndef DWELL_CJOINEDWRITES_H
#define DWELL_CJOINEDWRITES_H

#include <stdint.h>

struct sqlite3;

// From now on, writes of this connection to its WAL that follow each other are held back, and written together before
// anything can depend on them: before a sync, a read, and whatever shows them to another connection. And the WAL grows
// by half a mebibyte at a time, with zeros behind the last frame.
//
// The database is in WAL mode, and no transaction is open. SQLITE_OK, or SQLite's result code. What happens when the
// files are closed is taken care of.
int dwell_join_log_writes(struct sqlite3 *connection);

// From now on, after so many writes of this connection to the database file these are synced, and `after_step` is told
// how long all of it took, and answers how many the next step of this checkpoint has. SQLite's checkpoint waits for it to
// return. It and `context` must be there until the connection is closed.
//
// SQLITE_OK, or SQLite's result code. What happens when the file is closed is taken care of.
int dwell_step_writes(
    struct sqlite3 *connection, int pages, int (*after_step)(void *context, uint64_t nanoseconds), void *context);

// From now on SQLite does not count the memory that it asks for, which it does under a lock that all connections share.
// Before the process first uses SQLite; SQLITE_MISUSE, and everything stays as it is, when that is over.
int dwell_stop_memory_statistics(void);

#endif
