/* See arguments.h. */
#include "common/files/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int argument_bad(const char *what, const char *expected, const char *got) {
  fprintf(stderr, "%s: expected %s, got \"%s\"\n", what, expected, got);
  return 2;
}

int argument_integer(const char *what, const char *text, int least, int most, int *value) {
  char *end, expected[64];
  errno = 0;
  const long n = strtol(text, &end, 10);
  snprintf(expected, sizeof expected, "an integer from %d to %d", least, most);
  if (end == text || *end || errno || n < least || n > most) return argument_bad(what, expected, text);
  *value = (int)n;
  return 0;
}
