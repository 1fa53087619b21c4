/* The counts of steps 01 and 02 against an enumeration that knows nothing of the counter: for every warp and every step of the loops, the
 * lanes that are inside the image, the sectors of 32 bytes that their elements lie in, and how many of these each of the 32 banks has to give. Runs
 * build/count/01 and 02. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

typedef struct shape {
  const char *text;
  int N, C, H, W, K, R, S, P, Q, stride, pad;
} shape;

typedef enum { FPROP, DGRAD, WGRAD } pass;
typedef enum { X, W, Y } array;

/* What a thread touches in one step of its loops: one element each of two arrays, or nothing. */
typedef struct step {
  bool inside;
  int64_t element[2];
} step;

typedef struct counts {
  long long requests, lanes, sectors, wavefronts;
} counts;

/* ---- the formulas of the kernels, thread by thread ---- */

static int64_t x_at(const shape *p, int n, int c, int h, int w) { return ((n * (int64_t)p->C + c) * p->H + h) * p->W + w; }
static int64_t w_at(const shape *p, int k, int c, int r, int s) { return ((k * (int64_t)p->C + c) * p->R + r) * p->S + s; }
static int64_t y_at(const shape *p, int n, int k, int out_p, int out_q) { return ((n * (int64_t)p->K + k) * p->P + out_p) * p->Q + out_q; }

/* The output of thread i: its coordinates in the order of the tensor. `first` is the axis that neighbouring threads differ in. */
static void output_of(int i, const int size[4], bool channel_first, int at[4]) {
  static const int slow_channel[4] = {3, 2, 1, 0}, fast_channel[4] = {1, 3, 2, 0};
  for (int axis = 0; axis < 4; axis++) {
    const int a = channel_first ? fast_channel[axis] : slow_channel[axis];
    at[a] = i % size[a];
    i /= size[a];
  }
}

static void sizes(const shape *p, pass what, int size[4]) {
  const int of[3][4] = {{p->N, p->K, p->P, p->Q}, {p->N, p->C, p->H, p->W}, {p->K, p->C, p->R, p->S}};
  memcpy(size, of[what], 4 * sizeof *size);
}

/* Numbering of 01's wgrad: k first, then s, r, c. */
static void naive_wgrad_output(const shape *p, int i, int at[4]) {
  at[0] = i % p->K;
  at[3] = i / p->K % p->S;
  at[2] = i / p->K / p->S % p->R;
  at[1] = i / p->K / p->S / p->R;
}

static int step_count(const shape *p, pass what) { return what == FPROP ? p->C * p->R * p->S : what == DGRAD ? p->K * p->R * p->S : p->N * p->P * p->Q; }

static step step_of(const shape *p, pass what, const int at[4], int i) {
  step t = {false, {0, 0}};
  if (what == FPROP) {
    const int s = i % p->S, r = i / p->S % p->R, c = i / p->S / p->R, h = at[2] * p->stride - p->pad + r, w = at[3] * p->stride - p->pad + s;
    t.inside = h >= 0 && h < p->H && w >= 0 && w < p->W;
    t.element[0] = x_at(p, at[0], c, h, w);
    t.element[1] = w_at(p, at[1], c, r, s);
  } else if (what == DGRAD) {
    const int s = i % p->S, r = i / p->S % p->R, k = i / p->S / p->R, down = at[2] + p->pad - r, right = at[3] + p->pad - s;
    t.inside = down >= 0 && right >= 0 && down % p->stride == 0 && right % p->stride == 0 && down / p->stride < p->P && right / p->stride < p->Q;
    t.element[0] = y_at(p, at[0], k, down / p->stride, right / p->stride);
    t.element[1] = w_at(p, k, at[1], r, s);
  } else {
    const int q = i % p->Q, out_p = i / p->Q % p->P, n = i / p->Q / p->P, h = out_p * p->stride - p->pad + at[2], w = q * p->stride - p->pad + at[3];
    t.inside = h >= 0 && h < p->H && w >= 0 && w < p->W;
    t.element[0] = y_at(p, n, at[0], out_p, q);
    t.element[1] = x_at(p, n, at[1], h, w);
  }
  return t;
}

/* ---- requests of a warp ---- */

static void add_request(counts *c, const int64_t element[], int lanes) {
  int64_t sector[32];
  int n = 0, fullest = 0, of_bank[32] = {0};
  for (int i = 0; i < lanes; i++) {
    bool seen = false, same = false;
    for (int j = 0; j < n; j++) seen |= sector[j] == element[i] / 8;
    if (!seen) sector[n++] = element[i] / 8;
    for (int j = 0; j < i; j++) same |= element[j] == element[i];
    const int there = of_bank[element[i] % 32] += !same;
    if (there > fullest) fullest = there;
  }
  c->requests += lanes > 0;
  c->lanes += lanes;
  c->sectors += n;
  c->wavefronts += fullest;
}

/* Loads of both inputs and the store, for one thread per output. */
static void expect(const shape *p, pass what, bool channel_first, counts got[3]) {
  int size[4];
  sizes(p, what, size);
  const int outputs = size[0] * size[1] * size[2] * size[3];
  for (int first = 0; first < outputs; first += 32) {
    const int lanes = outputs - first < 32 ? outputs - first : 32;
    int at[32][4];
    int64_t element[2][32];
    for (int lane = 0; lane < lanes; lane++) {
      output_of(first + lane, size, channel_first, at[lane]);
      if (channel_first && what == WGRAD) naive_wgrad_output(p, first + lane, at[lane]);
      element[0][lane] = ((at[lane][0] * (int64_t)size[1] + at[lane][1]) * size[2] + at[lane][2]) * size[3] + at[lane][3];
    }
    add_request(&got[2], element[0], lanes);
    for (int i = 0; i < step_count(p, what); i++) {
      int inside = 0;
      for (int lane = 0; lane < lanes; lane++) {
        const step t = step_of(p, what, at[lane], i);
        if (!t.inside) continue;
        element[0][inside] = t.element[0];
        element[1][inside++] = t.element[1];
      }
      add_request(&got[0], element[0], inside);
      add_request(&got[1], element[1], inside);
    }
  }
}

/* 02b: one warp per output; lane l takes pixels l, l + 32, ... of every image. */
static void expect_warp(const shape *p, counts got[3]) {
  for (int i = 0; i < p->K * p->C * p->R * p->S; i++) {
    const int at[4] = {i / p->S / p->R / p->C, i / p->S / p->R % p->C, i / p->S % p->R, i % p->S};
    int64_t element[2][32];
    element[0][0] = i;
    add_request(&got[2], element[0], 1);
    for (int n = 0; n < p->N; n++)
      for (int first = 0; first < p->P * p->Q; first += 32) {
        int inside = 0;
        for (int pixel = first; pixel < first + 32 && pixel < p->P * p->Q; pixel++) {
          const step t = step_of(p, WGRAD, at, n * p->P * p->Q + pixel);
          if (!t.inside) continue;
          element[0][inside] = t.element[0];
          element[1][inside++] = t.element[1];
        }
        add_request(&got[0], element[0], inside);
        add_request(&got[1], element[1], inside);
      }
  }
}

/* ---- what the counter says ---- */

static const char *field(const char *line, const char *name) {
  const char *at = strstr(line, name);
  return at ? at + strlen(name) : "?";
}

static bool counted(const char *program, const shape *p, const char *kernel, const char *pass_name, char kind, const char *name, counts *c) {
  char command[512], line[1024], json[] = "/tmp/count_expected_XXXXXX";
  const int descriptor = mkstemp(json);
  if (descriptor < 0) return false;
  close(descriptor);
  snprintf(command, sizeof command, "EMU_COUNT_BLOCKS=all EMU_COUNT_JSON=%s build/count/%s --exact --shape %s --kernel %s --pass %s >/dev/null", json, program,
           p->text, kernel, pass_name);
  bool found = false;
  FILE *f = system(command) == 0 ? fopen(json, "r") : NULL;
  *c = (counts){0, 0, 0, 0};
  while (f && fgets(line, sizeof line, f)) {
    if (field(line, "\"kind\": \"")[0] != kind || strncmp(field(line, "\"array\": \""), name, strlen(name)) != 0) continue;
    found = true;
    c->requests += atoll(field(line, "\"requests\": "));
    c->lanes += atoll(field(line, "\"lanes\": "));
    c->sectors += atoll(field(line, "\"sectors\": "));
    c->wavefronts += atoll(field(line, "\"wavefronts\": "));
  }
  if (f) fclose(f);
  unlink(json);
  return found;
}

static void compare(const char *program, const shape *p, const char *kernel, pass what) {
  static const char *const pass_name[] = {"fprop", "dgrad", "wgrad"}, *const name[] = {"x", "w", "y"};
  static const array touched[3][3] = {{X, W, Y}, {Y, W, X}, {Y, X, W}};
  counts want[3] = {{0, 0, 0, 0}};
  if (kernel[2] == 'b') expect_warp(p, want);
  else expect(p, what, program[1] == '1', want);
  for (int i = 0; i < 3; i++) {
    const char *array_name = name[touched[what][i]];
    counts got;
    const bool found = counted(program, p, kernel, pass_name[what], i < 2 ? 'l' : 's', array_name, &got);
    ok(found && memcmp(&got, &want[i], sizeof got) == 0, "%s %s, %s, %s of %s: %lld requests, %.2f lanes, %.2f sectors, %.2f wavefronts each", kernel,
       pass_name[what], p->text, i < 2 ? "loads" : "stores", array_name, want[i].requests, (double)want[i].lanes / (double)want[i].requests,
       (double)want[i].sectors / (double)want[i].requests, (double)want[i].wavefronts / (double)want[i].requests);
    if (found && memcmp(&got, &want[i], sizeof got) != 0)
      diag("counted %lld requests, %lld lanes, %lld sectors, %lld wavefronts; expected %lld, %lld, %lld, %lld", got.requests, got.lanes, got.sectors,
           got.wavefronts, want[i].requests, want[i].lanes, want[i].sectors, want[i].wavefronts);
  }
}

int main(void) {
  static const shape shapes[] = {
      {"mb1ic3ih28oc5kh3ph1", 1, 3, 28, 28, 5, 3, 3, 28, 28, 1, 1},
      {"mb2ic3ih28oc6kh5sh2ph2", 2, 3, 28, 28, 6, 5, 5, 14, 14, 2, 2},
  };
  if (access("build/count/01", X_OK) != 0 || access("build/count/02", X_OK) != 0) { /* on a machine whose kernels run on a GPU */
    printf("1..1\nok 1 # SKIP no count build here\n");
    return 0;
  }
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (pass what = FPROP; what <= WGRAD; what++) {
      compare("01", &shapes[i], "01a", what);
      compare("02", &shapes[i], "02a", what);
    }
    compare("02", &shapes[i], "02b", WGRAD);
  }
  return done_testing();
}
