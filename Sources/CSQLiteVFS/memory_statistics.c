// Turns off memory statistics for the whole library. Swift cannot do this: sqlite3_config takes variable arguments.

#include "CSQLiteVFS.h"
#include <sqlite3.h>

int dwell_stop_memory_statistics(void) {
    return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
