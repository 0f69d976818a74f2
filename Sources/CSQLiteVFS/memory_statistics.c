// Turns off SQLite's memory statistics for the whole process. This file is in C, because sqlite3_config takes variable
// arguments and Swift cannot call such functions.

#include "CSQLiteVFS.h"
#include <sqlite3.h>

int dwell_stop_memory_statistics(void) {
    return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
