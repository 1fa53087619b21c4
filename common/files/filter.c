/* Filters for pictures. See filter.h. */
#include "common/files/filter.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/files/input.h"

enum { FILTER_BYTES = 1 << 20 };

/* Reads one number or fraction at *cursor. Returns 0, or -1. */
static int parse_number(const char **cursor, double *number) {
  char *end;
  *number = strtod(*cursor, &end);
  if (end == *cursor) return -1;
  if (*end == '/') {
    const char *below = end + 1;
    *number /= strtod(below, &end);
    if (end == below) return -1;
  }
  if ((*end && !isspace((unsigned char)*end)) || !(fabs(*number) <= 1e6)) return -1; /* a NaN and infinities too */
  *cursor = end;
  return 0;
}

/* Reads the numbers of one line. Returns how many, or -1 with the word that is none of them in `word`; the number after the last that
 * there is room for is counted, but not kept. */
static int parse_row(const char *line, double number[], int room, char word[32]) {
  int count = 0;
  for (const char *cursor = line;;) {
    cursor += strspn(cursor, " \t\r\n\v\f");
    if (!*cursor || count > room) return count;
    double value;
    const char *start = cursor;
    if (parse_number(&cursor, &value)) {
      int length = (int)strcspn(start, " \t\r\n\v\f");
      if (length > 24) length = 24;
      for (int i = 0; i < length; i++) word[i] = isprint((unsigned char)start[i]) ? start[i] : '?';
      word[length] = 0;
      return -1;
    }
    if (count < room) number[count] = value;
    count++;
  }
}

/* One line of the file. `row` is the row of the filter being read. Returns NULL, or the complaint (in `why`). */
static const char *filter_line(filter_set *f, int *row, char *line, char *why, size_t why_size) {
  double number[FILTER_SIDE];
  char word[32];
  char *comment = strchr(line, '#');
  if (comment) *comment = 0;
  char *start = line + strspn(line, " \t\r\n\v\f");
  if (!*start) {
    if (comment || *row == 0) return NULL;
    if (f->count > 0 && *row != f->rows) {
      snprintf(why, why_size, "expected filters of one size, got %d rows after one of %d", *row, f->rows);
      return why;
    }
    f->count++, f->rows = *row, *row = 0;
    return NULL;
  }
  const bool scale = strncmp(start, "scale", 5) == 0 && isspace((unsigned char)start[5]);
  const bool offset = strncmp(start, "offset", 6) == 0 && isspace((unsigned char)start[6]);
  const int room = scale || offset ? 1 : FILTER_SIDE;
  const int count = parse_row(start + (scale ? 5 : offset ? 6 : 0), number, room, word);
  if (count < 0) {
    snprintf(why, why_size, "expected numbers from -1e6 to 1e6 (or scale NUMBER, offset NUMBER), got \"%s\"", word);
    return why;
  }
  if (scale || offset) {
    *(scale ? &f->scale : &f->offset) = number[0];
    return count == 1 ? NULL : scale ? "expected one number after scale" : "expected one number after offset";
  }
  if (count > FILTER_SIDE || *row == FILTER_SIDE || f->count == FILTER_COUNT) {
    snprintf(why, why_size, "expected at most %d filters of %d x %d numbers", FILTER_COUNT, FILTER_SIDE, FILTER_SIDE);
    return why;
  }
  if ((f->count || *row) && count != f->cols) {
    snprintf(why, why_size, "expected %d numbers, as in the rows above, got %d", f->cols, count);
    return why;
  }
  f->cols = count;
  if (f->count && *row == f->rows) {
    snprintf(why, why_size, "expected filters of one size, got more than %d rows", f->rows);
    return why;
  }
  const int rows = f->count ? f->rows : *row;
  for (int s = 0; s < count; s++) f->value[(f->count * rows + *row) * count + s] = (float)number[s];
  ++*row;
  return NULL;
}

int filter_read(filter_set *f, const char *path, char *error, size_t error_size) {
  struct stat status;
  const char *why;
  FILE *file = input_open(path, true, &why);
  if (file && (fstat(fileno(file), &status) || status.st_size > FILTER_BYTES)) {
    why = "larger than 1 MiB";
    fclose(file), file = NULL;
  }
  if (!file) {
    snprintf(error, error_size, "%s: expected a readable file with a filter: %s", path, why);
    return -1;
  }
  *f = (filter_set){.scale = 1};
  char buffer[160], end_of_file[] = "\n";
  char *line = NULL;
  size_t line_size = 0;
  ssize_t length;
  int row = 0, line_number = 0;
  while (!why && (length = getline(&line, &line_size, file)) > 0) {
    line_number++;
    why = strlen(line) == (size_t)length ? filter_line(f, &row, line, buffer, sizeof buffer) : "expected text, got a zero byte";
  }
  if (!why) why = filter_line(f, &row, end_of_file, buffer, sizeof buffer);
  if (!why && f->count == 0) why = "expected rows of numbers, found none";
  if (why) snprintf(error, error_size, "%s:%d: %s", path, line_number, why);
  for (int i = 0; i < f->count * f->rows * f->cols; i++) f->value[i] *= (float)f->scale;
  free(line);
  fclose(file);
  return why ? -1 : 0;
}
