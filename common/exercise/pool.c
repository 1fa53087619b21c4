/* Runs the kernel of exercise pool on whole eighths, the sums of which are exact, and compares with the formula, value for value:  pool NAME --shape STRING |
 * --suite FILE | --random N [--seed S] [--exact] [--no-time]. Reports as the harness does. */
#include <math.h>
#include <string.h>

#include "common/conv/random.h"
#include "common/exercise/replay.h"

uint64_t exercise_arithmetic;
enum { GUARD = 64 }; /* elements behind the result that must stay as they are */

/* Of the layer's y, windows of 3 x 3, stride 2, padding 1. */
static int pooled(int size) { return (size + 1) / 2; }

static float output_of(const conv_problem *p, const float *x, const float *w, int n, int k, int out_p, int out_q) {
  const int group_c = p->C / p->groups, first_c = k / (p->K / p->groups) * group_c;
  float sum = 0;
  for (int c = 0; c < group_c; c++)
    for (int r = 0; r < p->R; r++)
      for (int s = 0; s < p->S; s++) {
        const int h = out_p * p->stride_h - p->pad_top + r * p->dil_h, in_w = out_q * p->stride_w - p->pad_left + s * p->dil_w;
        if (h >= 0 && h < p->H && in_w >= 0 && in_w < p->W)
          sum += x[(((size_t)n * p->C + first_c + c) * p->H + h) * p->W + in_w] * w[(((size_t)k * group_c + c) * p->R + r) * p->S + s];
      }
  return fmaxf(sum, 0);
}

static float pooled_of(const conv_problem *p, const float *y, size_t plane, int at_p, int at_q) {
  float most = 0;
  for (int i = 2 * at_p - 1; i <= 2 * at_p + 1; i++)
    for (int j = 2 * at_q - 1; j <= 2 * at_q + 1; j++)
      if (i >= 0 && i < p->P && j >= 0 && j < p->Q) most = fmaxf(most, y[(plane * p->P + i) * p->Q + j]);
  return most;
}

typedef struct tensors {
  float *x, *w, *y, *got; /* on the host; y: before the pooling */
  size_t x_count, w_count, y_count, out_count;
  conv_buffers b; /* on the device */
} tensors;

static void tensors_free(tensors *t) {
  free(t->x), free(t->w), free(t->y), free(t->got);
  cudaFree(t->b.x), cudaFree(t->b.w), cudaFree(t->b.y), cudaFree(t->b.workspace);
}

static float *eighths(size_t count, uint64_t seed, int most) {
  float *values = malloc(count * sizeof *values);
  for (size_t i = 0; values && i < count; i++) values[i] = (float)random_integer(seed, i, most) / 8;
  return values;
}

static cudaError_t tensors_make(tensors *t, const conv_problem *p) {
  t->x_count = (size_t)problem_x_count(p), t->w_count = (size_t)problem_w_count(p), t->y_count = (size_t)problem_y_count(p);
  t->out_count = (size_t)p->N * (size_t)p->K * (size_t)pooled(p->P) * (size_t)pooled(p->Q);
  t->x = eighths(t->x_count, 1, 8191), t->w = eighths(t->w_count, 2, 7), t->y = malloc(t->y_count * sizeof *t->y);
  t->got = malloc((t->out_count + GUARD) * sizeof *t->got);
  if (!t->x || !t->w || !t->y || !t->got) return cudaErrorMemoryAllocation;
  cudaError_t status = cudaMalloc(&t->b.x, t->x_count * sizeof(float));
  if (!status) status = cudaMalloc(&t->b.w, t->w_count * sizeof(float));
  if (!status) status = cudaMalloc(&t->b.y, (t->out_count + GUARD) * sizeof(float));
  if (!status) status = cudaMalloc(&t->b.workspace, t->y_count * sizeof(float));
  if (!status) status = cudaMemcpy(t->b.x, t->x, t->x_count * sizeof(float), cudaMemcpyHostToDevice);
  if (!status) status = cudaMemcpy(t->b.w, t->w, t->w_count * sizeof(float), cudaMemcpyHostToDevice);
  if (status) return status;
  emu_mark_array(t->b.x, t->x_count * sizeof(float), "x"), emu_mark_array(t->b.w, t->w_count * sizeof(float), "w");
  emu_mark_array(t->b.y, t->out_count * sizeof(float), "y"), emu_mark_array(t->b.workspace, t->y_count * sizeof(float), "workspace");
  return cudaSuccess;
}

/* Reports one shape. Returns whether it is right. */
static bool compare(const conv_problem *p, const tensors *t) {
  size_t wrong = 0, i = 0;
  char first[160] = "";
  for (int n = 0; n < p->N; n++)
    for (int k = 0; k < p->K; k++)
      for (int at_p = 0; at_p < pooled(p->P); at_p++)
        for (int at_q = 0; at_q < pooled(p->Q); at_q++, i++) {
          const float want = pooled_of(p, t->y, (size_t)n * p->K + k, at_p, at_q);
          if (t->got[i] == want) continue;
          if (wrong++ == 0) snprintf(first, sizeof first, "at (n,k,p,q) = (%d,%d,%d,%d): got %g, want %g", n, k, at_p, at_q, (double)t->got[i], (double)want);
        }
  uint32_t bits;
  for (int j = 0; j < GUARD; j++) {
    memcpy(&bits, &t->got[t->out_count + j], sizeof bits);
    if (bits != 0xFFFFFFFFu && wrong++ == 0) snprintf(first, sizeof first, "at %d elements behind the end", j);
  }
  if (wrong) printf("    wrong %s\n  WRONG pool: exact data: %zu elements wrong\n\n", first, wrong);
  else printf("  pool right: exact on eighths\n\n");
  return wrong == 0;
}

static bool run(const conv_problem *p) {
  char text[512];
  problem_print(p, text, sizeof text);
  printf("%s  fprop fp32 NCHW, pooled\n", text);
  tensors t = {0};
  cudaError_t status = tensors_make(&t, p);
  if (!status) {
    const exercise_bounds e = {2, {t.b.x, t.b.w}, t.b.y, {t.x_count * sizeof(float), t.w_count * sizeof(float)}, (t.out_count + GUARD) * sizeof(float)};
    status = replay(p, &t.b, &e, NULL);
  }
  if (!status) status = cudaDeviceSynchronize();
  if (!status) status = cudaMemcpy(t.got, t.b.y, (t.out_count + GUARD) * sizeof(float), cudaMemcpyDeviceToHost);
  bool right = false;
  if (status) {
    printf("  WRONG pool: %s\n\n", cudaGetErrorString(status));
  } else {
    size_t i = 0;
    for (int n = 0; n < p->N; n++)
      for (int k = 0; k < p->K; k++)
        for (int out_p = 0; out_p < p->P; out_p++)
          for (int out_q = 0; out_q < p->Q; out_q++) t.y[i++] = output_of(p, t.x, t.w, n, k, out_p, out_q);
    right = compare(p, &t);
  }
  tensors_free(&t);
  return right;
}

int main(int argc, char **argv) {
  const exercise_word word = read_word();
  setvbuf(stdout, NULL, _IOLBF, 0); /* the shape is known when a kernel ends the program */
  char error[512] = "";
  conv_suite suite = {0};
  conv_problem one;
  uint64_t seed = 1;
  int random = 0;
  for (int i = 2; i + 1 < argc; i++) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--random") == 0) random = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--shape") == 0) {
      if (problem_parse(&one, argv[i + 1], error, sizeof error)) break;
      suite = (conv_suite){&one, 1, 0};
    }
    if (strcmp(argv[i], "--suite") == 0 && suite_read(&suite, argv[i + 1], error, sizeof error)) break;
  }
  if (error[0]) {
    fprintf(stderr, "%s\n", error);
    return 2;
  }
  int right = 0;
  const int all = random ? random : suite.count;
  for (int i = 0; i < all; i++) {
    const conv_problem p = random ? problem_random(random_bits(seed, (uint64_t)i)) : suite.problems[i];
    right += run(&p);
  }
  printf("%d right, %d wrong, 0 skipped\n", right, all - right);
  return say_word(&word, right == all ? 0 : 1);
}
