/* A C++ function's name as its source writes it. */
#pragma once
#include <stdlib.h>
#include <string.h>

/* Of the C++ runtime (the Itanium ABI's <cxxabi.h>, which C cannot include). */
extern char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

/* Without type and arguments: _Z13window_kernelILi5EEvPKf is window_kernel<5>. A name that is not mangled stays as it is. Free the result; NULL: no memory. */
static inline char *symbol_readable(const char *mangled) {
  int status = 0;
  char *whole = __cxa_demangle(mangled, NULL, NULL, &status);
  if (whole == NULL) return strdup(mangled);
  int inside = 0; /* of so many < > */
  char *from = whole, *end = whole;
  for (; *end && (inside || *end != '('); end++) {
    inside += (*end == '<') - (*end == '>');
    if (*end == ' ' && !inside) from = end + 1;
  }
  *end = 0;
  memmove(whole, from, strlen(from) + 1);
  return whole;
}
