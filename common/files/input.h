/* Files that are read. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

/* Opens a file, a device or a pipe; `regular`: nothing but a regular file. A FIFO would be waited for until somebody writes into it: one without a writer is
 * refused, after a second. Returns NULL and the reason in *why, in words. */
FILE *input_open(const char *path, bool regular, const char **why);
