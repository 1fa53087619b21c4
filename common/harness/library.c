/* Libraries of the CUDA toolkit. See library.h. */
#include "common/harness/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

void *library_open(const char *name) {
  const char *const roots[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"}, *const folders[] = {"lib64", "lib"};
  char path[PATH_MAX];
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  for (int i = 0; i < 6 && !library; i++) {
    if (!roots[i / 2]) continue;
    snprintf(path, sizeof path, "%s/%s/%s", roots[i / 2], folders[i % 2], name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  return library;
}
