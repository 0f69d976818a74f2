// callgrind starts to count at work_begins, and writes its counts to a file at work_ends. These marks are functions,
// because callgrind's options name functions (scripts/parser-work).
#pragma once

void work_begins(void);
void work_ends(void);
