/* Filters for pictures: text files, such as those in common/filters/.
 *
 * Rows of numbers, `#` comments, and perhaps `scale NUMBER` (all numbers times that) and `offset NUMBER` (added to the result). A number may be a fraction:
 * 1/16. A blank line starts the next of several filters of one size. */
#pragma once
#include <stddef.h>

enum { FILTER_SIDE = 63, FILTER_COUNT = 16 };

typedef struct filter_set {
  int count, rows, cols;
  float value[FILTER_COUNT * FILTER_SIDE * FILTER_SIDE]; /* [count][rows][cols] */
  double scale, offset;
} filter_set;

/* Returns 0, or -1 with one line in `error` that names file, line and what was expected. */
int filter_read(filter_set *f, const char *path, char *error, size_t error_size);
