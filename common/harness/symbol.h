/* A C++ function's name as its source writes it. */
#pragma once
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* __cxa_demangle of the C++ runtime (the Itanium ABI's <cxxabi.h>). Nothing else here needs that library, and linking it takes as long as all the rest
 * of a program: so it is asked for when a name is. NULL: there is none. */
typedef char *symbol_demangler(const char *mangled, char *buffer, size_t *length, int *status);
static inline symbol_demangler *symbol_find_demangler(void) {
  void *found = dlsym(RTLD_DEFAULT, "__cxa_demangle"), *const library = found == NULL ? dlopen("libstdc++.so.6", RTLD_NOW) : NULL;
  if (library != NULL) found = dlsym(library, "__cxa_demangle");
  symbol_demangler *demangle;
  memcpy(&demangle, &found, sizeof demangle); /* C has no cast from an object to a function */
  return demangle;
}

/* Without type and arguments: _Z13window_kernelILi5EEvPKf is window_kernel<5>. A name that is not mangled stays as it is. Free the result; NULL: no memory. */
static inline char *symbol_readable(const char *mangled) {
  int status = 0;
  symbol_demangler *const demangle = symbol_find_demangler();
  char *whole = demangle != NULL ? demangle(mangled, NULL, NULL, &status) : NULL;
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
