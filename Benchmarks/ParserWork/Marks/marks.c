#include "marks.h"

// Neither inlined nor left out.
__attribute__((noinline)) void work_begins(void) { __asm__ volatile(""); }
__attribute__((noinline)) void work_ends(void) { __asm__ volatile("" ::: "memory"); }
