// callgrind sets its counts to zero when work_begins is called, and writes them to a file when work_ends is called.
// These marks are functions, because callgrind's options take names of functions (scripts/parser-work).
#pragma once

void work_begins(void);
void work_ends(void);
