// allocations_so_far returns the number of allocations of this process so far, in all of its threads. For benchmarks
// only, because every malloc in a program that links this library is counted, also in the Swift runtime and in SQLite.

#pragma once
#include <stdint.h>

uint64_t allocations_so_far(void);
