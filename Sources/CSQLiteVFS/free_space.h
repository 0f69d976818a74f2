// Zeros the unallocated space of pages that a checkpoint writes to the database file.
#ifndef DWELL_FREE_SPACE_H
#define DWELL_FREE_SPACE_H

#include <sqlite3.h>

// The state of a layer over the database file during a checkpoint. All fields are zero at first.
struct checkpoint {
    // Whether the pages that the checkpoint writes may be changed.
    int clears_pages;
    // An upper bound of the size of the file during and after the checkpoint.
    sqlite3_int64 file_bytes;
};

// Passes the file control to `below`, and notes the start and the end of a checkpoint. Returns SQLite's result code.
int dwell_note_checkpoint(
    struct checkpoint *checkpoint, const sqlite3_io_methods *below, sqlite3_file *file, int operation, void *argument);

// Writes the bytes through `below`. If a checkpoint is running and the bytes are certainly a b-tree page, writes zeros
// in place of the page's unallocated space. Returns SQLite's result code.
int dwell_write_cleared(
    struct checkpoint *checkpoint, const sqlite3_io_methods *below, sqlite3_file *file, const void *bytes, int count,
    sqlite3_int64 offset);

#endif
