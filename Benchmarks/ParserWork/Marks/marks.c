#include "marks.h"

// The compiler must neither inline these functions nor remove their calls.
__attribute__((noinline)) void work_begins(void) { __asm__ volatile(""); }
__attribute__((noinline)) void work_ends(void) { __asm__ volatile("" ::: "memory"); }
