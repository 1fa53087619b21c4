/* Is a row called right only after everything that was due was compared? The GPU's reference is this file's own here: it can lie or fail, so that
 * there is nothing to compare with; and the kernel can break the timing off. Judged by what is printed and written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "00_cpu_reference/definition.h"
#include "common/conv/verify.h"
#include "common/files/npy.h"
#include "common/harness/plain.h"
#include "common/harness/trial.h"
#include "tests/tap.h"

/* ---------------------------------------------------------------- a GPU's reference */

static enum { TRUTH, NO_MEMORY, LIES } behaviour;
static int calls, lies_at; /* the call that lies, from 1 on */

cudaError_t gpu_reference(const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, const conv_tensor *out, double *value,
                          float *scale, bool random) {
  if (behaviour == NO_MEMORY) return cudaErrorMemoryAllocation;
  const size_t count = (size_t)out->count;
  void *const at[2] = {malloc(tensor_bytes(a)), malloc(tensor_bytes(b))};
  double *values = malloc(count * sizeof *values);
  float *scales = malloc(count * sizeof *scales);
  cudaError_t status = at[0] && at[1] && values && scales ? cudaSuccess : cudaErrorMemoryAllocation;
  if (!status) status = cudaMemcpy(at[0], a->data, tensor_bytes(a), cudaMemcpyDeviceToHost);
  if (!status) status = cudaMemcpy(at[1], b->data, tensor_bytes(b), cudaMemcpyDeviceToHost);
  conv_tensor host[2] = {*a, *b};
  host[0].data = at[0], host[1].data = at[1];
  conv_reference truth = {0};
  char error[256];
  if (!status && reference_compute(&truth, p, pass, &host[0], &host[1], random, false, error, sizeof error)) status = cudaErrorUnknown;
  const bool lie = behaviour == LIES && ++calls == lies_at;
  for (size_t i = 0; i < count && !status; i++) values[i] = truth.value[i] + (lie ? 0.25 : 0), scales[i] = truth.scale[i];
  if (!status) status = cudaMemcpy(value, values, count * sizeof *values, cudaMemcpyHostToDevice);
  if (!status) status = cudaMemcpy(scale, scales, count * sizeof *scales, cudaMemcpyHostToDevice);
  reference_free(&truth);
  free(at[0]), free(at[1]), free(values), free(scales);
  return status;
}

/* ---------------------------------------------------------------- a kernel */

static int launches, fails_at; /* the launch that fails, from 1 on; 0: none */
static int spoils_at;          /* the launch whose first result is off by one, from 1 on */
static int changes_at;         /* the launch that changes its input, from 1 on */
static int full_after;         /* launches after which there is no memory for buffers; 0: there is */
static bool on_device;         /* its buffers are, and so is whoever looks */
static bool one_of_many;       /* the problem is of a list */

/* In place of the C library's: where buffers come from. */
void *aligned_alloc(size_t alignment, size_t size) {
  void *memory = NULL;
  if (full_after && launches >= full_after) return NULL;
  return posix_memalign(&memory, alignment, size) ? NULL : memory;
}

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  (void)stream;
  const conv_problem *p = &plan->operation.problem;
  if (++launches == fails_at) return cudaErrorLaunchFailure;
  conv_tensor tensors[3];
  void *const data[3] = {b->x, b->w, b->y};
  for (int role = 0; role < 3; role++) {
    tensors[role] = tensor_describe(p, (tensor_role)role, DTYPE_FP32, LAYOUT_NCHW);
    const size_t bytes = tensor_bytes(&tensors[role]);
    tensors[role].data = malloc(bytes);
    if (!tensors[role].data) return cudaErrorMemoryAllocation;
    if (on_device) cudaMemcpy(tensors[role].data, data[role], bytes, cudaMemcpyDeviceToHost);
    else memcpy(tensors[role].data, data[role], bytes);
  }
  conv_tensor *y = &tensors[TENSOR_Y];
  const conv_inputs in = {.a_shape = tensors[TENSOR_X], .b_shape = tensors[TENSOR_W], .a = tensors[TENSOR_X].data, .b = tensors[TENSOR_W].data};
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t i = 0; i < y->count; i++) {
    int at[4];
    tensor_coordinates(y, i, at);
    tensor_set(y, i, definition_element(p, PASS_FPROP, &in, at).value + (i == 0 && launches == spoils_at));
  }
  if (on_device) cudaMemcpy(b->y, y->data, tensor_bytes(y), cudaMemcpyHostToDevice);
  else memcpy(b->y, y->data, tensor_bytes(y));
  for (int role = 0; role < 3; role++) tensor_free(&tensors[role]);
  if (launches == changes_at && on_device) cudaMemset(b->x, 0, 4);
  else if (launches == changes_at) memset(b->x, 0, 4);
  return cudaSuccess;
}

static double infinite(const conv_problem *p, bool random) { return (void)p, (void)random, INFINITY; }

/* ---------------------------------------------------------------- trials */

static struct {
  int status, closed;                     /* of trial_run and report_close */
  char text[8192], csv[8192], json[8192]; /* what was printed and written */
  bool npy;                               /* the result was written, too: all of it */
} out;
static bool asked_out; /* for the result */

static void slurp(const char *path, char *text, size_t size) {
  FILE *f = fopen(path, "r");
  const size_t length = f ? fread(text, 1, size - 1, f) : 0;
  text[length] = 0;
  if (f) fclose(f);
}

/* A trial of `kernels` rows; the problem is large enough for the GPU's reference if `large`. */
static void run(bool large, int kernels, step_options options, bool gpu_reference_too, double (*growth)(const conv_problem *, bool)) {
  static conv_problem p;
  char error[512], folder[] = "/tmp/unverified-XXXXXX", csv[64], json[64], npy[64];
  machine m;
  machine_open_cpu(&m);
  const conv_place place = on_device ? ON_GPU : ON_CPU;
  if (on_device && machine_open_gpu(&m, error, sizeof error)) exit(2);
  if (!mkdtemp(folder) || problem_parse(&p, large ? "mb1ic32ih50oc32kh3ph1" : "mb1ic2ih9oc3kh3ph1", error, sizeof error)) exit(2);
  snprintf(csv, sizeof csv, "%s/csv", folder), snprintf(json, sizeof json, "%s/json", folder), snprintf(npy, sizeof npy, "%s/npy", folder);
  const conv_kernel first = {
      .name = "first", .idea = "", .place = place, .pass = PASS_FPROP, .layout = LAYOUT_NCHW, .plan = plain_plan, .launch = launch, .growth = growth};
  conv_kernel second = first;
  second.name = "second";
  options.seed = 1, options.one_shape = !one_of_many, options.npy_out = asked_out ? npy : NULL;
  if (on_device) options.verify = VERIFY_ON_DEVICE;
  const trial t = {.problem = &p,
                   .pass = PASS_FPROP,
                   .layout = LAYOUT_NCHW,
                   .place = place,
                   .kernels = {&first, &second},
                   .kernel_count = kernels,
                   .options = &options,
                   .machine = &m,
                   .gpu_reference = gpu_reference_too};
  report r;
  if (report_open(&r, &m, csv, json, options.npy_out, false)) exit(2);
  char *text;
  size_t size;
  r.text = open_memstream(&text, &size);
  launches = calls = 0;
  out.status = trial_run(&t, &r);
  out.closed = report_close(&r);
  fclose(r.text);
  snprintf(out.text, sizeof out.text, "%s", text);
  free(text);
  slurp(csv, out.csv, sizeof out.csv), slurp(json, out.json, sizeof out.json);
  lies_at = fails_at = spoils_at = changes_at = full_after = 0; /* from here on there is memory again */
  conv_tensor y = tensor_describe(&p, TENSOR_Y, DTYPE_FP32, LAYOUT_NCHW);
  if (tensor_alloc(&y)) exit(2);
  out.npy = npy_read(&y, npy, error, sizeof error) == 0;
  tensor_free(&y);
  remove(csv), remove(json), remove(npy), remove(folder);
}

/* Nothing is called right, and the program would say so with its exit status. */
static void nothing_right(const char *what) {
  const bool good =
      out.closed == 1 && !strstr(out.text, " right: ") && strstr(out.text, "\n0 right, ") && !strstr(out.csv, ",right,") && !strstr(out.json, "\"right\"");
  if (!ok(good, "%s: nothing is called right", what)) diag("closed with %d; %s", out.closed, out.text);
}

/* By either way to verify. */
static void references(void) {
  const step_options plain = {0}, exact = {.exact_only = true};
  run(true, 1, plain, true, plain_growth_fprop);
  ok(out.status == 0 && out.closed == 0 && strstr(out.csv, ",first,") && strstr(out.csv, ",right,yes,") && strstr(out.text, "\n1 right, 0 wrong, 0 skipped\n"),
     "a reference by the GPU that agrees with the CPU's: right");
  behaviour = NO_MEMORY;
  run(true, 1, plain, true, plain_growth_fprop);
  ok(out.closed == 0 && strstr(out.text, "\n1 right, "), "one that the GPU has no memory for is the CPU's");
  behaviour = LIES;
  lies_at = 1;
  run(true, 2, plain, true, plain_growth_fprop);
  nothing_right("the GPU's reference of integers disagrees with the CPU's");
  ok(strstr(out.csv, ",unverified,no,") && strstr(out.json, "\"status\": \"unverified\"") &&
         strstr(out.text, "  UNVERIFIED first: the GPU's fp64 reference disagrees") && strstr(out.text, "\n0 right, 0 wrong, 0 skipped, 2 unverified\n"),
     "which is printed, written and counted");
  lies_at = 2;
  run(true, 1, plain, true, plain_growth_fprop);
  nothing_right("integers were equal, then the reference of random numbers disagrees");
  ok(strstr(out.csv, ",unverified,yes,") != NULL, "that integers were equal is kept");
  lies_at = 1;
  run(true, 1, exact, true, plain_growth_fprop);
  nothing_right("--exact, and the reference disagrees");
  behaviour = TRUTH;
  run(false, 1, plain, false, infinite);
  ok(!strstr(out.text, " right: ") && !strstr(out.csv, ",right,") && strstr(out.text, "\n0 right, 0 wrong, 1 skipped\n"),
     "without a bound for its error: nothing is called right");
}

static void timing(void) {
  const step_options timed = {.timing = true};
  run(false, 2, timed, false, plain_growth_fprop);
  ok(out.closed == 0 && strstr(out.text, "\n2 right, 0 wrong, 0 skipped\n"), "timed: both right");
  fails_at = 5; /* two launches each to verify them */
  run(false, 2, timed, false, plain_growth_fprop);
  nothing_right("a launch that fails while it is timed");
  ok(out.status == 1 && strstr(out.csv, ",wrong,") && strstr(out.csv, ",second,,unverified,") &&
         strstr(out.text, "\n0 right, 1 wrong, 0 skipped, 1 unverified\n"),
     "it is wrong, and the other one, whose last sample was not compared, unverified");
  fails_at = 1;
  run(false, 2, timed, false, plain_growth_fprop);
  nothing_right("a launch that fails at once");
  ok(strstr(out.text, "\n0 right, 1 wrong, 0 skipped, 1 unverified\n") != NULL, "it is wrong, and the other one unverified");
  full_after = 2; /* two to verify it */
  run(false, 1, timed, false, plain_growth_fprop);
  nothing_right("no memory for the buffers to time it in");
  ok(out.status == 1 && strstr(out.text, "\n0 right, 0 wrong, 0 skipped, 1 unverified\n"), "it is unverified: nothing of the last sample was compared");
  full_after = 1;
  run(false, 1, timed, false, plain_growth_fprop);
  ok(out.status == 2 && !strstr(out.text, "first"), "no memory to verify it on random numbers: bad input, where nothing else was asked for");
  one_of_many = true;
  full_after = 1;
  run(false, 1, timed, false, plain_growth_fprop);
  ok(out.status == 0 && !strstr(out.text, " right: ") && strstr(out.csv, ",skipped,yes,") && strstr(out.text, "\n0 right, "),
     "in a list: nothing is called right, and it goes on");
  one_of_many = false;
  full_after = 3; /* there is for the first kernel */
  run(false, 2, (step_options){0}, false, plain_growth_fprop);
  ok(out.status == 0 && strstr(out.csv, ",first,,right,yes,") && strstr(out.csv, ",second,,skipped,yes,"),
     "none for one of two kernels: the other one is right");
}

/* --out: a right result; a wrong one if --keep-wrong asks for it. */
static void written(void) {
  const step_options plain = {0}, keep = {.keep_wrong = true};
  asked_out = true;
  run(false, 1, plain, false, plain_growth_fprop);
  ok(out.closed == 0 && out.npy, "a right result is written");
  for (int at = 1; at <= 2; at++) { /* on integers, on random numbers */
    spoils_at = at;
    run(false, 1, plain, false, plain_growth_fprop);
    ok(out.closed == 1 && !out.npy && strstr(out.text, "--keep-wrong writes it all the same"), "a wrong one is not: %d", at);
    spoils_at = at;
    run(false, 1, keep, false, plain_growth_fprop);
    ok(out.closed == 1 && out.npy && strstr(out.text, "\n0 right, 1 wrong, "), "with --keep-wrong it is, and is wrong: %d", at);
  }
  changes_at = 1;
  run(false, 1, keep, false, plain_growth_fprop);
  ok(out.closed == 1 && out.npy && strstr(out.text, "changed its input"), "one beside which an input was changed, too");
  fails_at = 1;
  run(false, 1, keep, false, plain_growth_fprop);
  ok(out.closed == 1 && !out.npy, "where a launch fails there is nothing to write");
  asked_out = false;
}

/* Nothing was compared: that is not right. */
static void no_elements(void) {
  conv_problem p;
  char error[256];
  problem_parse(&p, "mb1ic1ih3oc1kh1", error, sizeof error);
  conv_tensor y = tensor_describe(&p, TENSOR_Y, DTYPE_FP32, LAYOUT_NCHW);
  float data[9] = {0}, scale[9] = {0};
  double value[9] = {0};
  y.data = data;
  conv_reference reference = {.shape = y, .value = value, .scale = scale, .terms = 1};
  ok(verify_output(&y, &reference, COMPARE_EXACT, (error_rule){0}, NULL).right, "nine zeros are nine zeros");
  reference.shape.count = 8;
  ok(!verify_output(&y, &reference, COMPARE_EXACT, (error_rule){0}, NULL).right, "nine elements beside a reference of eight are not right");
  y.count = reference.shape.count = 0;
  ok(!verify_output(&y, &reference, COMPARE_EXACT, (error_rule){0}, NULL).right &&
         !verify_output(&y, &reference, COMPARE_BOUND, (error_rule){.growth = 1}, NULL).right,
     "no elements are not right");
}

int main(void) {
  plan(0);
  if (!freopen("/dev/null", "w", stderr)) return 1; /* the harness tells what goes wrong; here that is on purpose */
  for (int device = 0; device < 2; device++) {
    on_device = device;
    printf("# verified on the %s\n", on_device ? "device" : "host");
    references();
    written();
  }
  on_device = false;
  timing();
  no_elements();
  return done_testing();
}
