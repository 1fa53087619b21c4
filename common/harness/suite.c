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
#include "common/files/input.h"

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

/* A list is read as benchdnn reads it, word by word: options, problems, comments from # to the end of a line. A backslash at the end of a word, or by
 * itself behind one, joins the next word to it. */
typedef struct list_reader {
  FILE *file;
  const char *path;
  char *line; /* the line that was read last, */
  size_t line_room;
  int number;     /* which it is, */
  const char *at; /* and what is left of it */
  char *word;
  size_t word_room;
  int first_line; /* of the word */
} list_reader;

static const char blanks[] = " \t\r\n";

/* How long the word at `text` is. A name in quotes may hold blanks, and # ends a problem wherever it stands; in an option neither means anything. */
static size_t word_length(const char *text) {
  bool quoted = false;
  size_t n = 0;
  if (strncmp(text, "--", 2) == 0) return strcspn(text, blanks);
  for (; text[n] && (quoted || !strchr(" \t\r\n#", text[n])); n++) quoted ^= text[n] == '"';
  return n;
}

static int append(list_reader *r, size_t *length, const char *text, size_t count) {
  if (*length + count + 1 > r->word_room) {
    char *grown = realloc(r->word, 2 * (*length + count + 1));
    if (!grown) return -1;
    r->word = grown, r->word_room = 2 * (*length + count + 1);
  }
  memcpy(r->word + *length, text, count);
  r->word[ *length += count] = 0;
  return 0;
}

/* Reads the next word. Returns 1, 0 at the end of the list, or -1 with a line in `error`. */
static int next_word(list_reader *r, char *error, size_t error_size) {
  size_t length = 0;
  for (;;) {
    r->at += strspn(r->at, blanks);
    if (*r->at == 0 || *r->at == '#') {
      errno = 0;
      const ssize_t got = getline(&r->line, &r->line_room, r->file);
      if (got < 0 && feof(r->file)) return length > 0;
      if (got < 0 && errno == ENOMEM) {
        snprintf(error, error_size, "%s:%d: expected a line that fits memory", r->path, r->number + 1);
        return -1;
      }
      if (got < 0) {
        snprintf(error, error_size, "%s: expected a readable file of benchdnn lines: %s", r->path, strerror(errno));
        return -1;
      }
      r->number++, r->at = r->line;
      if ((size_t)got == strlen(r->line)) continue;
      snprintf(error, error_size, "%s:%d: expected text, got a zero byte", r->path, r->number);
      return -1;
    }
    if (length == 0) r->first_line = r->number;
    const size_t n = word_length(r->at);
    const bool joined = r->at[n - 1] == '\\';
    if (append(r, &length, r->at, n - joined)) {
      snprintf(error, error_size, "%s:%d: no memory for the line", r->path, r->number);
      return -1;
    }
    r->at += n;
    if (joined) continue;
    const char *behind = r->at + strspn(r->at, blanks);
    if (*behind != '\\' || (behind[1] && !strchr(blanks, behind[1]))) return 1;
    r->at = behind + 1;
  }
}

static int append_problem(conv_suite *suite, const conv_problem *p) {
  if ((suite->count & (suite->count - 1)) == 0) { /* room for a power of two is used up */
    conv_problem *grown = realloc(suite->problems, (suite->count ? 2 * (size_t)suite->count : 1) * sizeof *grown);
    if (!grown) return -1;
    suite->problems = grown;
  }
  suite->problems[suite->count++] = *p;
  return 0;
}

/* Takes every 2-D problem and counts what is passed over: the others, and lines that hold nothing but options. */
static int read_words(conv_suite *suite, list_reader *r, char *error, size_t error_size) {
  int found, options = 0; /* the line of the last options */
  while ((found = next_word(r, error, error_size)) > 0) {
    if (strncmp(r->word, "--", 2) == 0) {
      suite->passed_over += r->first_line != options;
      options = r->number;
      continue;
    }
    suite->passed_over -= r->first_line == options; /* it stands on that line */
    options = 0;
    conv_problem p;
    char why[512];
    const int parsed = problem_parse(&p, r->word, why, sizeof why);
    if (parsed == PROBLEM_NOT_2D) {
      suite->passed_over++;
    } else if (parsed) {
      snprintf(error, error_size, "%s:%d: %s", r->path, r->first_line, why);
      return -1;
    } else if (append_problem(suite, &p)) {
      snprintf(error, error_size, "%s:%d: no memory for more than %d problems", r->path, r->first_line, suite->count);
      return -1;
    }
  }
  if (found == 0 && suite->count == 0) {
    snprintf(error, error_size, "%s: expected at least one 2-D problem, got none (%d passed over)", r->path, suite->passed_over);
    return -1;
  }
  return found;
}

int suite_read(conv_suite *suite, const char *path, char *error, size_t error_size) {
  *suite = (conv_suite){0};
  const char *unreadable;
  list_reader reader = {.file = input_open(path, false, &unreadable), .path = path, .at = ""};
  if (!reader.file) {
    snprintf(error, error_size, "%s: expected a readable file of benchdnn lines: %s", path, unreadable);
    return -1;
  }
  const int status = read_words(suite, &reader, error, error_size);
  free(reader.line);
  free(reader.word);
  fclose(reader.file);
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

/* Also a network's first layer, groups of a few channels, patches. */
conv_problem problem_random_special(uint64_t seed) {
  static const int pictures[] = {1, 3, 5, 7, 9, 9, 9, 11, 13, 15, 31};
  conv_problem p = {.N = 1 + (int)random_below(seed, 0, 3), .stride_h = 1, .stride_w = 1, .dil_h = 1, .dil_w = 1, .groups = 1, .repeat = 1};
  int h = 1 + (int)random_below(seed, 1, 20), w = 1 + (int)random_below(seed, 2, 20);
  switch (random_below(seed, 11, 6) ? random_below(seed, 3, 4) : 4 + random_below(seed, 3, 3)) {
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
    case 3: /* of 1x1 filters */
      p.C = 1 + (int)random_below(seed, 4, 40), p.K = 1 + (int)random_below(seed, 5, 70), p.R = p.S = 1;
      p.stride_h = p.stride_w = 1 + (int)random_below(seed, 6, 2);
      break;
    case 4: /* a network's first layer */
      p.C = 1 + (int)random_below(seed, 4, 4), p.K = 8 * (1 + (int)random_below(seed, 5, 9));
      p.R = p.S = 2 + (int)random_below(seed, 6, 8);
      p.stride_h = p.stride_w = 1 + (int)random_below(seed, 7, 4);
      w = 8 * (1 + w / 4);
      break;
    case 5: /* groups of 2, 4 or 8 channels */
      p.C = p.K = 8 * (1 + (int)random_below(seed, 4, 16)), p.groups = p.C >> (1 + random_below(seed, 5, 3));
      p.R = 1 + (int)random_below(seed, 6, 3), p.S = 1 + (int)random_below(seed, 7, 4);
      p.stride_h = 1 + (int)random_below(seed, 8, 2), p.stride_w = 1 + (int)random_below(seed, 12, 2);
      h = 2 + h / 2, w = 2 + w / 2;
      break;
    default: /* patches */
      p.C = 1 + (int)random_below(seed, 4, 4), p.K = 8 * (1 + (int)random_below(seed, 5, 4));
      p.R = p.S = p.stride_h = p.stride_w = 2 << random_below(seed, 6, 4);
      p.P = 1 + h / 14, p.Q = 1 + w / 7, p.H = p.P * p.R, p.W = p.Q * p.S;
      return p;
  }
  centred_axis(random_bits(seed, 9), h, p.R, p.stride_h, &p.H, &p.P, &p.pad_top, &p.pad_bottom);
  centred_axis(random_bits(seed, 10), w, p.S, p.stride_w, &p.W, &p.Q, &p.pad_left, &p.pad_right);
  return p;
}
