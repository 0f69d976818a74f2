// Turns off SQLite's memory statistics for the whole process. This is written in C, because Swift cannot call
// sqlite3_config, which takes variable arguments.

#include "CSQLiteVFS.h"
#include <sqlite3.h>

int dwell_stop_memory_statistics(void) {
    return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
