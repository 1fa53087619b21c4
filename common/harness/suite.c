/* Lists of problems: files of benchdnn lines, and random problems for tests. See problem.h. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/conv/problem.h"
#include "common/conv/random.h"

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

/* An axis of the kind that networks and pictures have: odd filter, no dilation, as many zeros on either side as the filter reaches over, or now and
 * then others. */
static void centred_axis(uint64_t seed, int size, int filter, int stride, int *in, int *out, int *pad_lo, int *pad_hi) {
  const int pad = random_below(seed, 0, 4) ? filter / 2 : (int)random_below(seed, 1, (uint64_t)filter);
  *in = size + 2 * pad < filter ? filter : size;
  *out = (*in + 2 * pad - filter) / stride + 1;
  const int used = (*out - 1) * stride + filter - *in - pad;
  *pad_lo = pad, *pad_hi = used > 0 ? used : 0;
}

conv_problem problem_random_special(uint64_t seed) {
  static const int pictures[] = {1, 3, 5, 7, 9, 9, 9, 11, 13, 15, 31};
  conv_problem p = {.N = 1 + (int)random_below(seed, 0, 3), .stride_h = 1, .stride_w = 1, .dil_h = 1, .dil_w = 1, .groups = 1, .repeat = 1};
  int h = 1 + (int)random_below(seed, 1, 20), w = 1 + (int)random_below(seed, 2, 20);
  switch (random_below(seed, 3, 4)) {
    case 0: /* depthwise, channels in eights */
      p.groups = p.C = p.K = 8 * (1 + (int)random_below(seed, 4, 6));
      p.R = p.S = 3 + 2 * (int)random_below(seed, 5, 3);
      p.stride_h = p.stride_w = 1 + (int)random_below(seed, 6, 2);
      break;
    case 1: /* a picture, or a few that have nothing to do with each other; one or two filters on each */
      p.groups = p.C = 1 + (int)random_below(seed, 4, 3);
      p.K = p.C * (1 + (int)random_below(seed, 5, 2));
      p.R = p.S = pictures[random_below(seed, 6, sizeof pictures / sizeof *pictures)];
      h += (int)random_below(seed, 7, 60), w = 4 * (w + (int)random_below(seed, 8, 20));
      break;
    case 2: /* a layer of 3x3 filters */ p.C = 1 + (int)random_below(seed, 4, 40), p.K = 1 + (int)random_below(seed, 5, 70), p.R = p.S = 3; break;
    default: /* of 1x1 filters */
      p.C = 1 + (int)random_below(seed, 4, 40), p.K = 1 + (int)random_below(seed, 5, 70), p.R = p.S = 1;
      p.stride_h = p.stride_w = 1 + (int)random_below(seed, 6, 2);
  }
  centred_axis(random_bits(seed, 9), h, p.R, p.stride_h, &p.H, &p.P, &p.pad_top, &p.pad_bottom);
  centred_axis(random_bits(seed, 10), w, p.S, p.stride_w, &p.W, &p.Q, &p.pad_left, &p.pad_right);
  return p;
}
