/* What goes to stderr between two calls, and whether it has the words that are wanted. */
#pragma once
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

static FILE *captured;
static int real_stderr;

static inline void capture_begin(void) {
  fflush(stderr);
  captured = tmpfile();
  real_stderr = dup(2);
  dup2(fileno(captured), 2);
}

static inline const char *capture_end(void) {
  static char text[8192];
  fflush(stderr);
  dup2(real_stderr, 2);
  close(real_stderr);
  rewind(captured);
  text[fread(text, 1, sizeof text - 1, captured)] = '\0';
  fclose(captured);
  return text;
}

/* Whether the report has all the words, in that order. */
static inline int mentions(const char *report, int count, const char *const *words) {
  const char *at = report;
  for (int i = 0; i < count; i++) {
    at = strstr(at, words[i]);
    if (at == NULL) {
      diag("no \"%s\" in: %s", words[i], report);
      return 0;
    }
  }
  return 1;
}
