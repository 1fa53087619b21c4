/* Does the checker refuse wrong results, and only those? Kernels with one planted defect each run through the harness's own trial, by either way to verify. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conv/bound.h"
#include "common/conv/random.h"
#include "common/conv/verify.h"
#include "common/harness/buffers.h"
#include "common/harness/trial.h"
#include "tests/products.h"
#include "tests/tap.h"

/* ---------------------------------------------------------------- a kernel that can do wrong */

typedef enum {
  NONE,
  NAN_ELEMENT,
  WRONG_ELEMENT,
  DROPPED_PRODUCT,
  UNWRITTEN_TILE,
  WRITE_BEFORE,
  WRITE_PAST,
  WRITE_PAST_WORKSPACE,
  CHANGED_INPUT,
  DEFECTS,
  WEARS_OUT,
  FAILS
} defect;
static const char *const defect_names[DEFECTS] = {"no defect",
                                                  "a NaN",
                                                  "one wrong element",
                                                  "one dropped product",
                                                  "an unwritten tile",
                                                  "a write one before the output",
                                                  "a write one past the output",
                                                  "a write one past the workspace",
                                                  "a changed input"};

/* Where the buffers are, and who looks. */
static const struct {
  const char *name;
  conv_place place;
  verify_place verify;
} ways[] = {{"memory of the CPU", ON_CPU, VERIFY_BY_SIZE},
            {"the device's, seen from the host", ON_GPU, VERIFY_ON_HOST},
            {"the device's, seen there", ON_GPU, VERIFY_ON_DEVICE}};
enum { WAYS = sizeof ways / sizeof *ways };

static struct {
  int way;
  defect planted;
  conv_pass pass;
  conv_dtype dtype;
  conv_layout layout;
  int launches;
  bool timing;
} test;

enum { WORKSPACE_BYTES = 100, TEXT = 2048 };
static const char *plan_test(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  return (void)o, (void)device, plan->workspace_bytes = WORKSPACE_BYTES, NULL;
}
static double growth(const conv_problem *p, bool random) { return growth_chain_fp32((double)problem_terms(p, test.pass), random); }

/* Buffers may be the device's: the kernel works on copies. */
static void get(void *to, const void *from, size_t bytes) {
  if (ways[test.way].place == ON_CPU) memcpy(to, from, bytes);
  else cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
}
static void put(void *to, const void *from, size_t bytes) {
  if (ways[test.way].place == ON_CPU) memcpy(to, from, bytes);
  else cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
}

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  (void)stream;
  const conv_problem *p = &plan->operation.problem;
  if (test.planted == FAILS) return cudaErrorInvalidValue;
  if (test.timing && ways[test.way].place == ON_GPU) usleep(6000);          /* launches that long are not captured into graphs */
  if (++test.launches > 5 && test.planted == WEARS_OUT) return cudaSuccess; /* right when verified, idle when timed */
  conv_tensor tensors[3];
  void *const data[3] = {b->x, b->w, b->y};
  for (int role = 0; role < 3; role++) {
    tensors[role] = tensor_describe(p, (tensor_role)role, test.dtype, test.layout);
    if (tensor_alloc(&tensors[role])) return cudaErrorMemoryAllocation;
    get(tensors[role].data, data[role], tensor_bytes(&tensors[role]));
  }
  conv_tensor *out = &tensors[pass_output(test.pass)], *in = &tensors[pass_input_a(test.pass)];
  product_lists lists = list_products(p, test.pass, tensors);
  const int64_t victim = out->count / 2;
  for (int64_t i = 0; i < out->count; i++) {
    if (test.planted == UNWRITTEN_TILE && i >= victim && i < victim + 8) continue;
    double sum = sum_products(&lists, i, ORDER_FORWARD);
    if (i == victim && test.planted == NAN_ELEMENT) sum = NAN;
    if (i == victim && test.planted == WRONG_ELEMENT) sum += 0.02 * fabs(sum) + 0.01; /* a per cent or two: a loose tolerance would pass it */
    if (i == victim && test.planted == DROPPED_PRODUCT) sum -= (double)lists.a[lists.start[i]] * (double)lists.b[lists.start[i]];
    tensor_set(out, i, sum);
  }
  if (test.planted == CHANGED_INPUT) tensor_set(in, 3, 0.5);
  put(data[out->role], out->data, tensor_bytes(out));
  put(data[in->role], in->data, tensor_bytes(in));
  const float one = 1;
  char *const from = data[out->role];
  if (test.planted == WRITE_BEFORE) put(from - dtype_bytes(test.dtype), &one, dtype_bytes(test.dtype));
  if (test.planted == WRITE_PAST) put(from + tensor_bytes(out), &one, dtype_bytes(test.dtype));
  if (test.planted == WRITE_PAST_WORKSPACE) put((char *)b->workspace + WORKSPACE_BYTES, &one, 1);
  for (int role = 0; role < 3; role++) tensor_free(&tensors[role]);
  free_products(&lists);
  return cudaSuccess;
}

/* Runs the kernel through a trial; returns the status of its one row, and what was printed. */
static result_status run_trial(const conv_problem *p, char text[TEXT]) {
  const conv_place place = ways[test.way].place;
  const conv_kernel kernel = {.name = "test",
                              .idea = "",
                              .place = place,
                              .pass = test.pass,
                              .dtype = test.dtype,
                              .layout = test.layout,
                              .plan = plan_test,
                              .launch = launch,
                              .growth = growth};
  step_options options = {.seed = 1, .one_shape = true, .timing = test.timing, .verify = ways[test.way].verify};
  machine m;
  char error[256], *printed;
  size_t size;
  machine_open_cpu(&m);
  if (place == ON_GPU && machine_open_gpu(&m, error, sizeof error)) return RESULT_SKIPPED;
  m.device.emulated = false; /* timed wherever it is */
  report r = {.machine = &m, .text = open_memstream(&printed, &size)};
  const trial t = {.problem = p,
                   .pass = test.pass,
                   .dtype = test.dtype,
                   .layout = test.layout,
                   .place = place,
                   .kernels = {&kernel, &kernel},
                   .kernel_count = test.planted == FAILS ? 2 : 1,
                   .options = &options,
                   .machine = &m};
  test.launches = 0;
  const int status = trial_run(&t, &r);
  fclose(r.text);
  snprintf(text, TEXT, "%s", printed);
  free(printed);
  if (test.planted == FAILS) return status == 1 && r.right == 0 && r.wrong == 1 && r.unverified == 1 ? RESULT_WRONG : RESULT_RIGHT;
  return status == 0 && r.right == 1 && r.wrong == 0 ? RESULT_RIGHT : RESULT_WRONG;
}

/* Cuts off how long it took: that alone differs from one run to the next. */
static void without_seconds(char *text) {
  for (char *from; (from = strstr(text, "  (ran in "));) memmove(from, strchr(from, ')') + 1, strlen(strchr(from, ')')));
}

static void planted_defects(void) {
  conv_problem p;
  char error[256], text[WAYS][TEXT];
  ok(problem_parse(&p, "g2mb2ic4ih7oc6kh3ph1", error, sizeof error) == 0, "the problem for the planted defects");
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
    for (int layout = 0; layout < LAYOUT_COUNT; layout++)
      for (int pass = 0; pass < PASS_COUNT; pass++)
        for (int planted = 0; planted < DEFECTS; planted++) {
          test.dtype = (conv_dtype)dtype, test.layout = (conv_layout)layout, test.pass = (conv_pass)pass, test.planted = (defect)planted;
          const result_status want = planted == NONE ? RESULT_RIGHT : RESULT_WRONG;
          const int ways_here = (layout == LAYOUT_NHWC) == (dtype == DTYPE_FP16) ? WAYS : 1; /* on the device each type in one layout */
          int as_wanted = 0;
          for (test.way = 0; test.way < ways_here; test.way++) {
            as_wanted += run_trial(&p, text[test.way]) == want;
            without_seconds(text[test.way]);
          }
          ok(as_wanted == ways_here, "%s %s %s: %s is %s%s", dtype_name(test.dtype), layout_name(test.layout), pass_name(test.pass), defect_names[planted],
             want == RESULT_RIGHT ? "accepted" : "refused", ways_here > 1 ? ", in memory of the CPU and of the device, whoever looks" : "");
          if (ways_here > 1 && !ok(strcmp(text[1], text[2]) == 0, "... and the host and the device say the same of it")) diag("%s\nand\n%s", text[1], text[2]);
        }
}

/* A kernel that stops working after its first launches, and one whose launch fails. */
static void planted_in_time(void) {
  conv_problem p;
  char error[256];
  ok(problem_parse(&p, "mb1ic2ih9oc3kh3ph1", error, sizeof error) == 0, "the problem for the timed defects");
  test.dtype = DTYPE_FP32, test.layout = LAYOUT_NCHW, test.pass = PASS_FPROP;
  for (test.way = 0; test.way < WAYS; test.way++) {
    char text[TEXT];
    test.timing = true, test.planted = NONE;
    ok(run_trial(&p, text) == RESULT_RIGHT, "%s, timed: no defect is accepted", ways[test.way].name);
    test.planted = WEARS_OUT;
    ok(run_trial(&p, text) == RESULT_WRONG && strstr(text, "the last timed sample"),
       "%s, timed: a kernel that writes nothing from its sixth launch on is refused", ways[test.way].name);
    test.planted = FAILS, test.timing = false;
    ok(run_trial(&p, text) == RESULT_WRONG, "%s: a failed launch is wrong, and the kernel after it is not called right", ways[test.way].name);
  }
}

/* ---------------------------------------------------------------- right results in other orders of summation */

/* One random problem: every order of summation must be within the bound. zero_mean: which scale and which data. Returns the worst share of
 * the bound, or infinity. */
static double right_result(uint64_t seed, conv_pass pass, conv_dtype dtype, bool zero_mean) {
  const conv_problem p = problem_random(seed);
  conv_tensor tensors[3];
  char error[256];
  for (int role = 0; role < 3; role++) {
    tensors[role] = tensor_describe(&p, (tensor_role)role, dtype, seed % 2 ? LAYOUT_NCHW : LAYOUT_NHWC);
    if (tensor_alloc(&tensors[role])) return INFINITY;
    tensor_fill_normal(&tensors[role], seed + (uint64_t)role);
    for (int64_t i = 0; !zero_mean && i < tensors[role].count; i++) tensor_set(&tensors[role], i, fabs(tensor_get(&tensors[role], i)));
  }
  conv_reference reference;
  double worst = INFINITY;
  conv_tensor *out = &tensors[pass_output(pass)];
  if (reference_compute(&reference, &p, pass, &tensors[pass_input_a(pass)], &tensors[pass_input_b(pass)], zero_mean, false, error, sizeof error) == 0) {
    product_lists lists = list_products(&p, pass, tensors);
    worst = 0;
    for (int order = 0; order < ORDER_COUNT; order++) {
      for (int64_t i = 0; i < out->count; i++) tensor_set(out, i, sum_products(&lists, i, order));
      const conv_verdict verdict =
          verify_output(out, &reference, COMPARE_BOUND, (error_rule){.growth = growth_chain_fp32((double)problem_terms(&p, pass), zero_mean)}, NULL);
      if (!verdict.right) worst = INFINITY;
      if (verdict.worst_share > worst) worst = verdict.worst_share;
    }
    free_products(&lists);
    reference_free(&reference);
  }
  for (int role = 0; role < 3; role++) tensor_free(&tensors[role]);
  return worst;
}

static void right_results(void) {
  enum { SHAPES = 10000 };
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
    for (int zero_mean = 0; zero_mean < 2; zero_mean++) {
      int refused = 0;
      double worst = 0;
#pragma omp parallel for reduction(+ : refused) reduction(max : worst) schedule(dynamic, 16)
      for (int i = 0; i < SHAPES; i++) {
        const double share = right_result((uint64_t)i, (conv_pass)(i % PASS_COUNT), (conv_dtype)dtype, zero_mean);
        if (!(share <= 1)) refused++;
        if (share > worst) worst = share;
      }
      ok(refused == 0, "%s, %s data: %d random shapes in %d orders of summation are right (worst: %.0f %% of the bound)", dtype_name((conv_dtype)dtype),
         zero_mean ? "zero-mean" : "positive", SHAPES, ORDER_COUNT, 100 * worst);
    }
}

/* The unit that everybody's errors are told in; a rule with the largest scale; and one workspace for all sets. */
static void units(void) {
  conv_tensor out = {.dtype = DTYPE_FP32, .dim = {1, 1, 1, 2}, .count = 2, .role = TENSOR_Y};
  double value[2] = {1, 1};
  float scale[2] = {1, 100}, data[2];
  out.data = data;
  const conv_reference reference = {.shape = out, .value = value, .scale = scale, .random = true, .terms = 64, .largest_scale = 100};
  const double plain = growth_chain_fp32(64, true), bound = error_bound(1, 1, plain, 64, DTYPE_FP32);
  data[0] = (float)(1 + 5 * bound), data[1] = 1;
  conv_verdict v = verify_output(&out, &reference, COMPARE_BOUND, (error_rule){.growth = 10 * plain}, NULL);
  ok(v.right && fabs(v.plain_share - 5) < 0.05 && v.worst_share < 0.6, "five plain sums' bounds off: %.3f of them, %.2f of a rule ten times as wide",
     v.plain_share, v.worst_share);
  v = verify_output(&out, &reference, COMPARE_BOUND, (error_rule){.growth = plain}, NULL);
  ok(!v.right && v.mismatches == 1 && fabs(v.worst_share - v.plain_share) < 1e-9, "too much for a plain sum");
  v = verify_output(&out, &reference, COMPARE_BOUND, (error_rule){.growth = plain, .shared = true}, NULL);
  ok(v.right && fabs(v.plain_share - 5) < 0.05, "but not where the largest scale counts; the unit stays the element's own");

  conv_problem p;
  char error[256];
  problem_parse(&p, "mb1ic2ih5oc3kh3", error, sizeof error);
  conv_tensor shapes[3];
  for (int role = 0; role < 3; role++) shapes[role] = tensor_describe(&p, (tensor_role)role, DTYPE_FP32, LAYOUT_NCHW);
  buffer_sets sets = buffer_sets_plan(ON_CPU, shapes, WORKSPACE_BYTES);
  if (buffer_sets_alloc(&sets, 3)) {
    ok(0, "memory for three buffer sets");
    return;
  }
  const conv_buffers first = buffer_view(&sets, 0), last = buffer_view(&sets, 2);
  ok(first.workspace && first.workspace == last.workspace && first.x != last.x, "three sets of tensors, one workspace");
  bool damaged = false;
  int64_t where = 0;
  ((char *)first.workspace)[WORKSPACE_BYTES] = 1;
  ok(buffer_replicate(&sets) == cudaSuccess && buffer_check(&sets, 2, PART_WORKSPACE, &damaged, &where) == cudaSuccess && damaged && where == 0,
     "its guards are looked at from every set");
  buffer_sets_free(&sets);
}

int main(void) {
  plan(0);
  units();
  planted_defects();
  planted_in_time();
  right_results();
  return done_testing();
}
