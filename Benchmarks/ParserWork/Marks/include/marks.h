// Where callgrind begins to count and where it writes down what it counted. Functions of their own names, so that its
// options can name them (scripts/parser-work).
#pragma once

void work_begins(void);
void work_ends(void);
