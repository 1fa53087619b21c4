/* The Test Anything Protocol in a dozen lines: one "ok N - text" or "not ok N - text" per check. */
#pragma once
#include <stdarg.h>
#include <stdio.h>

static int tap_planned, tap_run, tap_failed;

/* Announces n checks; 0: the number is printed at the end. */
static inline void plan(int n) {
  tap_planned = n;
  if (n > 0) printf("1..%d\n", n);
}

/* Reports one check; returns the condition. The format is printed like printf's. */
__attribute__((format(printf, 2, 3))) static inline int ok(int condition, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("%sok %d - ", condition ? "" : "not ", ++tap_run);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  fflush(stdout);
  if (!condition) tap_failed++;
  return condition;
}

/* A line that belongs to the check before it: why it failed. */
__attribute__((format(printf, 1, 2))) static inline void diag(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("# ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}

/* Closes the test; returns the exit status of the program. */
static inline int done_testing(void) {
  if (tap_planned == 0) printf("1..%d\n", tap_run);
  return tap_failed != 0 || (tap_planned != 0 && tap_planned != tap_run);
}
