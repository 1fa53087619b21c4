/* What the targets share. See fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_expect(bool good, const char *file, int line, const char *condition) {
  if (good) return;
  fprintf(stderr, "%s:%d: expected %s\n", file, line, condition);
  abort();
}

const char *fuzz_file(const uint8_t *data, size_t size) {
  static char path[64];
  static int fd = -1;
  if (fd < 0) {
    fd = memfd_create("input", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  EXPECT(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
  return path;
}

void fuzz_problem(const conv_problem *p) {
  char text[512], again[512], error[512];
  conv_problem read;
  EXPECT(problem_print(p, text, sizeof text) < (int)sizeof text);
  EXPECT(problem_parse(&read, text, error, sizeof error) == 0);
  EXPECT(problem_equal(p, &read) && read.repeat == p->repeat && strcmp(read.name, p->name) == 0);
  problem_print(&read, again, sizeof again);
  EXPECT(strcmp(text, again) == 0);
  EXPECT(problem_x_count(p) > 0 && problem_w_count(p) > 0 && problem_y_count(p) > 0 && problem_macs(p) > 0);
}
