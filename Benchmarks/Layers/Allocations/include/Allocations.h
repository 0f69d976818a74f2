// How often this process has asked for memory, in all of its threads. For benchmarks only: a program that links this
// has every malloc counted, the Swift runtime's and SQLite's too.

#pragma once
#include <stdint.h>

uint64_t allocations_so_far(void);
