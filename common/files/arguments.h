/* A tool's options: one line on stderr for what is not as it should be. */
#pragma once

/* Prints "WHAT: expected EXPECTED, got "GOT"". Returns 2, the exit status of bad input. */
int argument_bad(const char *what, const char *expected, const char *got);

/* An integer from least to most. Returns 0, or 2 after that line. */
int argument_integer(const char *what, const char *text, int least, int most, int *value);
