// Zeros the unallocated space of the b-tree pages that a checkpoint writes to the database file. Without the zeros, the
// text of a deleted driver could remain in the file.
//
// PRAGMA secure_delete overwrites a deleted cell. But SQLite also copies cells to a neighbouring page to balance the
// tree (btree.c, rebuildPage). The old page then keeps the original cells in its unallocated space, and secure_delete
// does not overwrite them.
//
// The unallocated space is between the cell pointers and the cells
// (https://www.sqlite.org/fileformat2.html#b_tree_pages). Nothing reads this space, and pages of the database file have
// no checksum.
//
// Pages in the WAL are not changed, because WAL frames have a checksum. Instead, the deletion of a driver truncates the
// WAL.
//
// Only b-tree pages need the zeros. Pages of other kinds are treated as follows:
//
// - Overflow pages and trunk pages of the freelist must not be changed. Their first four bytes are the number of the
//   next page, or 0. In a b-tree page, these bytes are at least 2^25, because the first byte is the page's kind.
//
//   A page is changed only if its first four bytes are more than the number of pages in the file. Such bytes cannot be
//   a page number. With pages of 4 KiB, every b-tree page of a file below 128 GiB meets this condition.
// - Pointer map pages must not be changed, but can look like b-tree pages. Only files with auto_vacuum have pointer map
//   pages. In these files, no page is changed.
// - Leaf pages of the freelist may be changed, because nothing reads them. SQLite never writes the lock-byte page.

#include "free_space.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PAGE_MIN = 512, PAGE_MAX = 65536 };
// The size of the file header, and the offset of the header's field for the largest root page. The field is 0 in a file
// without auto_vacuum (https://www.sqlite.org/fileformat2.html#the_database_header).
enum { FILE_HEADER = 100, LARGEST_ROOT = 52 };
enum { INDEX_INTERIOR = 2, TABLE_INTERIOR = 5, INDEX_LEAF = 10, TABLE_LEAF = 13 };

static size_t number2(const unsigned char *bytes) { return (size_t)bytes[0] << 8 | bytes[1]; }

static uint32_t number4(const unsigned char *bytes) {
    return (uint32_t)number2(bytes) << 16 | (uint32_t)number2(bytes + 2);
}

static void begin(struct checkpoint *checkpoint, const sqlite3_io_methods *below, sqlite3_file *file) {
    unsigned char largest_root[4] = {0};
    checkpoint->clears_pages = 0;
    if (below->xFileSize(file, &checkpoint->file_bytes) != SQLITE_OK) return;
    int code = below->xRead(file, largest_root, sizeof largest_root, LARGEST_ROOT);
    // Before the first checkpoint, a new file is empty and has no header. This is not an error.
    if (code == SQLITE_IOERR_SHORT_READ && checkpoint->file_bytes == 0) code = SQLITE_OK;
    checkpoint->clears_pages = code == SQLITE_OK && number4(largest_root) == 0;
}

int dwell_note_checkpoint(
    struct checkpoint *checkpoint, const sqlite3_io_methods *below, sqlite3_file *file, int operation, void *argument
) {
    // SQLite sends CKPT_START before the checkpoint's first write, when the file still has its old size. If the
    // checkpoint makes the file larger, SQLite then sends the new size (wal.c, walCheckpoint).
    if (operation == SQLITE_FCNTL_CKPT_START) begin(checkpoint, below, file);
    if (operation == SQLITE_FCNTL_CKPT_DONE) checkpoint->clears_pages = 0;
    if (operation == SQLITE_FCNTL_SIZE_HINT && *(sqlite3_int64 *)argument > checkpoint->file_bytes)
        checkpoint->file_bytes = *(sqlite3_int64 *)argument;
    return below->xFileControl(file, operation, argument);
}

// If the bytes are certainly a b-tree page, sets the bounds of the unallocated space and returns 1. If not, returns 0.
static int unallocated(
    const struct checkpoint *checkpoint, const unsigned char *page, size_t size, size_t header, size_t *begin,
    size_t *end
) {
    unsigned char kind = page[header];
    int is_interior = kind == INDEX_INTERIOR || kind == TABLE_INTERIOR;
    if (!is_interior && kind != INDEX_LEAF && kind != TABLE_LEAF) return 0;
    if (header == 0 && number4(page) <= (uint64_t)checkpoint->file_bytes / size) return 0;
    size_t first_freeblock = number2(page + header + 1), cells = number2(page + header + 3);
    size_t pointers = header + (is_interior ? 12 : 8);
    *begin = pointers + 2 * cells;
    *end = number2(page + header + 5);
    if (*end == 0) *end = PAGE_MAX;
    if (*end > size || *begin > *end || (first_freeblock != 0 && first_freeblock < *end)) return 0;
    for (size_t cell = 0; cell < cells; cell++) {
        size_t offset = number2(page + pointers + 2 * cell);
        if (offset < *end || offset >= size) return 0;
    }
    return 1;
}

int dwell_write_cleared(
    struct checkpoint *checkpoint, const sqlite3_io_methods *below, sqlite3_file *file, const void *bytes, int count,
    sqlite3_int64 offset
) {
    unsigned char cleared[PAGE_MAX];
    size_t begin = 0, end = 0, size = (size_t)count;
    int is_page = count >= PAGE_MIN && count <= PAGE_MAX && (size & (size - 1)) == 0 && offset % count == 0;
    // A checkpoint writes page 1 first, which contains the file header. If the new header says that the file has
    // pointer map pages, this checkpoint must change no page.
    if (is_page && offset == 0 && number4((const unsigned char *)bytes + LARGEST_ROOT) != 0)
        checkpoint->clears_pages = 0;
    if (!checkpoint->clears_pages || !is_page
        || !unallocated(checkpoint, bytes, size, offset == 0 ? FILE_HEADER : 0, &begin, &end))
        return below->xWrite(file, bytes, count, offset);
    memcpy(cleared, bytes, size);
    memset(cleared + begin, 0, end - begin);
    return below->xWrite(file, cleared, count, offset);
}
