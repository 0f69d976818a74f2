// allocations_so_far returns the number of allocations of this process so far, in all of its threads. For benchmarks
// only: in a program that links this library, every malloc is counted, also those of the Swift runtime and of SQLite.

#pragma once
#include <stdint.h>

uint64_t allocations_so_far(void);
