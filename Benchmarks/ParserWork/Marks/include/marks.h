// scripts/parser-work passes these names to callgrind. callgrind sets its counts to zero when work_begins is called,
// and writes them to a file when work_ends is called.
#pragma once

void work_begins(void);
void work_ends(void);
