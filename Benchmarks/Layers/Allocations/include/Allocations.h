// allocations_so_far returns the number of allocations of this process so far, in all of its threads. For benchmarks
// only, because a program that links this library counts every malloc, also those of the Swift runtime and of SQLite.

#pragma once
#include <stdint.h>

uint64_t allocations_so_far(void);
