// allocations_so_far counts the allocations of all threads of this process. Link this library only into benchmarks,
// because it replaces malloc for the whole program, also for the Swift runtime and SQLite.

#pragma once
#include <stdint.h>

uint64_t allocations_so_far(void);
