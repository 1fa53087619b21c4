/* Lists of problems: files of benchdnn lines, and random problems for tests. See problem.h. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/problem.h"
#include "common/random.h"

/* NAME in a folder of the source tree, seen from here or from the program (build/BACKEND/NN, build/BACKEND/tools/NAME). */
void suite_path(const char *name, char path[PATH_MAX]) {
  static const char *const from_program[] = {"../../", "../../../"};
  char program[PATH_MAX - 512];
  snprintf(path, PATH_MAX, "%s", name);
  if (access(path, F_OK) == 0 || strchr(name, '/')) return;
  snprintf(path, PATH_MAX, "common/suites/%s", name);
  if (access(path, F_OK) == 0) return;
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  program[length > 0 ? length : 0] = 0;
  char *slash = strrchr(program, '/');
  for (int i = 0; slash && i < 2; i++) {
    *slash = 0;
    snprintf(path, PATH_MAX, "%s/%scommon/suites/%.255s", program, from_program[i], name);
    if (access(path, F_OK) == 0) return;
  }
  snprintf(path, PATH_MAX, "%s", name);
}

int suite_read(conv_suite *suite, const char *path, char *error, size_t error_size) {
  *suite = (conv_suite){0};
  FILE *file = fopen(path, "r");
  if (!file) {
    snprintf(error, error_size, "%s: expected a readable file of benchdnn lines: %s", path, strerror(errno));
    return -1;
  }
  char *line = NULL;
  size_t line_size = 0;
  ssize_t length;
  int number = 0, status = 0, room = 0;
  while (status == 0 && (length = getline(&line, &line_size, file)) >= 0) {
    number++;
    char why[512];
    const char *text = line + strspn(line, " \t\r\n_");
    bool option = false;
    while (strncmp(text, "--", 2) == 0) { /* options may stand before a problem on its line */
      option = true;
      text += strcspn(text, " \t\r\n");
      text += strspn(text, " \t\r\n");
    }
    if (option) suite->passed_over++;
    if ((size_t)length != strlen(line)) {
      snprintf(error, error_size, "%s:%d: expected text, got a zero byte", path, number);
      status = -1;
    } else if (*text == 0 || *text == '#') {
      continue;
    } else {
      conv_problem p;
      const int parsed = problem_parse(&p, text, why, sizeof why);
      if (parsed == PROBLEM_NOT_2D) {
        suite->passed_over++;
      } else if (parsed) {
        snprintf(error, error_size, "%s:%d: %s", path, number, why);
        status = -1;
      } else {
        if (suite->count == room) {
          room = room ? 2 * room : 16;
          conv_problem *grown = realloc(suite->problems, (size_t)room * sizeof *grown);
          if (!grown) {
            snprintf(error, error_size, "%s:%d: no memory for %d problems", path, number, room);
            status = -1;
            break;
          }
          suite->problems = grown;
        }
        suite->problems[suite->count++] = p;
      }
    }
  }
  if (status == 0 && ferror(file)) {
    snprintf(error, error_size, "%s: expected a readable file of benchdnn lines: %s", path, strerror(errno));
    status = -1;
  }
  free(line);
  fclose(file);
  if (status == 0 && suite->count == 0) {
    snprintf(error, error_size, "%s: expected at least one 2-D problem, got none (%d lines passed over)", path, suite->passed_over);
    status = -1;
  }
  if (status) suite_free(suite);
  return status;
}

void suite_free(conv_suite *suite) {
  free(suite->problems);
  suite->problems = NULL;
  suite->count = 0;
}

/* One axis of a random problem: any padding on either side that the grammar can express. */
static void random_axis(uint64_t seed, int *in, int *filter, int *out, int *stride, int *dil, int *pad_lo, int *pad_hi) {
  for (uint64_t attempt = 0;; attempt += 16) {
    const int i = 1 + (int)random_below(seed, attempt, 13), k = 1 + (int)random_below(seed, attempt + 1, 5);
    const int s = 1 + (int)random_below(seed, attempt + 2, 3), d = 1 + (int)random_below(seed, attempt + 3, 3) / 2;
    const int lo = (int)random_below(seed, attempt + 4, 4), extent = (k - 1) * d + 1;
    const int highest = lo > extent - 1 ? lo : extent - 1;
    const int hi = (int)random_below(seed, attempt + 5, (uint64_t)highest + 1);
    if (i + lo + hi < extent) continue;
    const int o = (i + lo + hi - extent) / s + 1, used = (o - 1) * s + extent - i - lo;
    *in = i, *filter = k, *out = o, *stride = s, *dil = d, *pad_lo = lo, *pad_hi = used > 0 ? used : 0;
    return;
  }
}

conv_problem problem_random(uint64_t seed) {
  conv_problem p;
  memset(&p, 0, sizeof p);
  const uint64_t kind = random_below(seed, 0, 6); /* half plain, a third grouped, a sixth depthwise with a channel multiplier */
  p.groups = kind < 3 ? 1 : 2 + (int)random_below(seed, 1, 3);
  const int most = kind == 5 ? 1 : 5;
  p.N = 1 + (int)random_below(seed, 2, 3);
  p.C = p.groups * (1 + (int)random_below(seed, 3, (uint64_t)most));
  p.K = p.groups * (1 + (int)random_below(seed, 4, kind == 5 ? 2 : 6));
  random_axis(random_bits(seed, 5), &p.H, &p.R, &p.P, &p.stride_h, &p.dil_h, &p.pad_top, &p.pad_bottom);
  random_axis(random_bits(seed, 6), &p.W, &p.S, &p.Q, &p.stride_w, &p.dil_w, &p.pad_left, &p.pad_right);
  p.repeat = 1;
  return p;
}
