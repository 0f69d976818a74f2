// callgrind starts to count at work_begins, and writes its counts to a file at work_ends. Each is a function, so that
// callgrind's options can name it (scripts/parser-work).
#pragma once

void work_begins(void);
void work_ends(void);
