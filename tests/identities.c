/* Two identities that every kernel of a step must keep, without a reference: an error that the reference shares would show here.
 *
 * Adjoint      <dy, fprop(x, w)>  =  <dgrad(dy, w), x>  =  <wgrad(x, dy), w>,   where <a, b> adds up all a[i] * b[i].
 *              All three are the sum of every product x * w * dy whose elements meet. On small integers they are the same integer, to the last
 *              digit, whoever computes them in whatever order. Each kernel's is compared with those of step 01's three.
 * Repeatable   The same random data give the same bits, whatever output and workspace held before, and (on the emulator) in whatever order
 *              blocks and threads run.
 *
 * The program is this file instead of the harness's step_main(), with the table of a step: tests/identities_05 is step 05's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/verify.h"
#include "common/harness/buffers.h"
#include "common/harness/plan.h"
#include "common/harness/step.h"
#include "tests/tap.h"
#ifdef CUDA_EMULATOR
#include "common/emu/emu.h"
#endif

enum { RANDOM_PROBLEMS = 30, REPEATED = 12, MOST_ROWS = 64, OUT = 3, RUNS = 2 };
static const char *const suites[][2] = {
    {"", "nasty"},         {"04", "tests/depthwise"}, {"05", "tests/three_by_three"}, {"06", "tests/depthwise"},  {"06", "hopper"},
    {"06", "tests/first"}, {"06", "tests/groups"},    {"06", "tests/patches"},        {"06", "tests/neighbours"}, {"07", "hopper"}}; /* for this step alone */
static const char *const more[] = {
    /* sums long enough to be split among blocks, two planes, and layers that keep a GPU busy */
    "mb3ic16ih14oc24oh14kh3ph1",        "mb1ic160ih7oc8kh1",
    "mb2ic1ih36oc2oh36kh9ph4",          "mb1ic1ih20oc1oh20kh11ph5",
#ifndef CUDA_EMULATOR
    "mb16ic64ih56oc128oh56kh3ph1",      "mb4ic256ih14oc256oh7kh3sh2ph1",
    "g128mb16ic128ih28oc128oh28kh3ph1", "g64mb8ic64ih56oc64oh28kh5sh2ph2",
    "mb4ic1ih500oc4oh500kh5ph2",
#endif
};

extern const conv_kernel naive_fprop, naive_dgrad, naive_wgrad; /* step 01 */
static const conv_kernel *const naive[PASS_COUNT] = {&naive_fprop, &naive_dgrad, &naive_wgrad};

/* How one kernel did. */
typedef struct tally {
  int done, broken; /* problems */
  char first[448];  /* the first that broke */
} tally;

static machine gpu;

static void say(tally *t, const conv_problem *p, const char *what) {
  char shape[256];
  problem_print(p, shape, sizeof shape);
  if (t->broken++ == 0) snprintf(t->first, sizeof t->first, "%s: %s", shape, what);
}

static bool can_do(const conv_kernel *k, const conv_problem *p) {
  conv_plan plan;
  return !kernel_plan_pass(k, p, &gpu.device, &plan);
}

/* ---------------------------------------------------------------- one run of a kernel */

/* t: x, w, y, and the result, which takes the place of one of the three on the GPU. */
typedef struct tensors {
  conv_tensor t[4];
} tensors;

static void free_tensors(tensors *s) {
  for (int i = 0; i <= OUT; i++) tensor_free(&s->t[i]);
}

/* magnitude 0: random normal data. */
static tensors make_tensors(const conv_problem *p, const conv_kernel *k, uint64_t seed, int magnitude) {
  tensors s;
  for (int i = 0; i <= OUT; i++) {
    s.t[i] = tensor_describe(p, i < OUT ? (tensor_role)i : pass_output(k->pass), k->dtype, k->layout);
    if (tensor_alloc(&s.t[i])) abort();
    if (i < OUT && magnitude) tensor_fill_integers(&s.t[i], 3 * seed + (uint64_t)i, magnitude);
    if (i < OUT && !magnitude) tensor_fill_normal(&s.t[i], 3 * seed + (uint64_t)i);
  }
  return s;
}

/* `before` fills output and workspace first. */
static cudaError_t run(const conv_kernel *k, const conv_problem *p, tensors *s, int before) {
  const tensor_role a = pass_input_a(k->pass), b = pass_input_b(k->pass), out = pass_output(k->pass);
  conv_plan plan;
  if (kernel_plan_pass(k, p, &gpu.device, &plan)) return cudaErrorNotSupported;
  buffer_sets sets = buffer_sets_plan(ON_GPU, s->t, plan.workspace_bytes);
  cudaError_t status = buffer_sets_alloc(&sets, 1);
  const conv_buffers view = buffer_view(&sets, 0);
  void *const data[3] = {view.x, view.w, view.y};
  if (!status) status = buffer_upload(&sets, (int)a, s->t[a].data);
  if (!status) status = buffer_upload(&sets, (int)b, s->t[b].data);
  if (!status) status = cudaMemset(data[out], before, sets.bytes[out]);
  if (!status && view.workspace) status = cudaMemset(view.workspace, before, sets.bytes[PART_WORKSPACE]);
  if (!status) status = k->launch(&plan, &view, 0);
  if (!status) status = cudaDeviceSynchronize();
  if (!status) status = buffer_download(&sets, 0, (int)out, s->t[OUT].data);
  buffer_sets_free(&sets);
  return status;
}

/* ---------------------------------------------------------------- adjoint */

/* <result, the tensor of its role>, or false for a result that is no integer, or in fp16 one that may be rounded. */
static bool inner_product(const tensors *s, int64_t *sum) {
  const conv_tensor *result = &s->t[OUT], *other = &s->t[result->role];
  const float limit = result->dtype == DTYPE_FP16 ? 2048 : 16777216;
  *sum = 0;
  for (int64_t i = 0; i < result->count; i++) {
    const float value = tensor_get(result, i);
    if (!(fabsf(value) < limit) || value != truncf(value)) return false; /* NaN is refused too */
    *sum += (int64_t)value * (int64_t)tensor_get(other, i);
  }
  return true;
}

/* The largest integers that leave the sums of every kernel exact; in fp16 small ones, so that results stay below 2048 too: eight standard deviations of a sum
 * of 2^14 products of up to 2, or of 2^17 of up to 1. */
static int magnitude_of(const conv_step *step, const conv_problem *p, conv_dtype dtype) {
  int64_t most = 0;
  for (int i = 0; i < step->kernel_count; i++) {
    const conv_kernel *k = step->kernels[i];
    if (k->dtype != dtype || k->exact_factor == EXACT_NEVER || !can_do(k, p)) continue;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
      const int64_t terms = (k->exact_factor ? k->exact_factor : 1) * problem_terms(p, (conv_pass)pass);
      if (terms > most) most = terms;
    }
  }
  const int magnitude = most ? exact_magnitude(most) : 0;
  const int small = most > 1 << 14 ? 1 : 2;
  return dtype == DTYPE_FP16 && magnitude > small ? small : magnitude;
}

/* What a kernel makes of the integers of `seed`. Returns false with the reason. */
static bool number_of(const conv_kernel *k, const conv_problem *p, uint64_t seed, int magnitude, int64_t *number, const char **why) {
  tensors s = make_tensors(p, k, seed, magnitude);
  const cudaError_t status = run(k, p, &s, 0xFF);
  const bool whole = !status && inner_product(&s, number);
  *why = status ? cudaGetErrorString(status) : "the result is not made of integers, or too large";
  free_tensors(&s);
  return whole;
}

static void adjoint(const conv_step *step, const conv_problem *p, uint64_t seed, tally tallies[MOST_ROWS]) {
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
    const int magnitude = magnitude_of(step, p, (conv_dtype)dtype);
    int64_t want[PASS_COUNT] = {0}, number;
    const char *why;
    char what[160];
    if (magnitude == 0) continue; /* no kernel of this type for this problem */
    bool whole = true;
    for (int pass = 0; pass < PASS_COUNT; pass++) whole &= number_of(naive[pass], p, seed, magnitude, &want[pass], &why);
    for (int i = 0; i < step->kernel_count; i++) {
      const conv_kernel *k = step->kernels[i];
      if ((int)k->dtype != dtype || k->exact_factor == EXACT_NEVER || !can_do(k, p)) continue;
      tallies[i].done++;
      if (!whole || !number_of(k, p, seed, magnitude, &number, &why)) {
        say(&tallies[i], p, why);
      } else if (number != want[PASS_FPROP] || number != want[PASS_DGRAD] || number != want[PASS_WGRAD]) {
        snprintf(what, sizeof what, "%lld, but by 01a's fprop, dgrad, wgrad %lld, %lld, %lld", (long long)number, (long long)want[PASS_FPROP],
                 (long long)want[PASS_DGRAD], (long long)want[PASS_WGRAD]);
        say(&tallies[i], p, what);
      }
    }
  }
}

/* ---------------------------------------------------------------- repeatable */

static void repeat(const conv_kernel *k, const conv_problem *p, uint64_t seed, tally *t) {
  static const int before[RUNS] = {0xFF, 0x3E}; /* NaN, and 0.186 in fp32 */
  tensors s = make_tensors(p, k, seed, 0);
  const size_t bytes = tensor_bytes(&s.t[OUT]);
  void *first = malloc(bytes);
  if (!first) abort();
  cudaError_t status = cudaSuccess;
  bool same = true;
  for (int i = 0; i < RUNS && !status && same; i++) {
#ifdef CUDA_EMULATOR
    emu_set_seed(i ? seed + 1 : 0); /* another order */
#endif
    status = run(k, p, &s, before[i]);
    if (i == 0) memcpy(first, s.t[OUT].data, bytes);
    same = memcmp(first, s.t[OUT].data, bytes) == 0;
  }
#ifdef CUDA_EMULATOR
  emu_set_seed(0);
#endif
  t->done++;
  if (status || !same) say(t, p, status ? cudaGetErrorString(status) : "other bits");
  free(first);
  free_tensors(&s);
}

/* ---------------------------------------------------------------- planted */

/* 01a's fprop, of one that takes the padding below for the padding above. Its authors' reference would agree. */
static cudaError_t launch_mistaken(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  conv_plan other = *plan;
  conv_problem *p = &other.operation.problem;
  p->pad_top = plan->operation.problem.pad_bottom, p->pad_bottom = plan->operation.problem.pad_top;
  return naive_fprop.launch(&other, b, stream);
}

/* 01a's wgrad, whose first gradient is what the workspace held. */
static cudaError_t launch_leftover(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const cudaError_t status = naive_wgrad.launch(plan, b, stream);
  return status ? status : cudaMemcpyAsync(b->w, b->workspace, sizeof(float), cudaMemcpyDeviceToDevice, stream);
}

static const char *plan_one_float(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  plan->workspace_bytes = sizeof(float);
  return naive_wgrad.plan(o, device, plan);
}

static void planted(void) {
  conv_problem p;
  char error[256];
  conv_kernel mistaken = naive_fprop, leftover = naive_wgrad;
  mistaken.launch = launch_mistaken, leftover.launch = launch_leftover, leftover.plan = plan_one_float;
  const conv_kernel *const rows[] = {&mistaken, &leftover, &naive_wgrad};
  const conv_step step = {.kernels = rows, .kernel_count = 3};
  tally adjoints[MOST_ROWS] = {0}, repeats[3] = {0};
  ok(problem_parse(&p, "mb2ic4ih8oc5oh8kh4ph1", error, sizeof error) == 0 && p.pad_top != p.pad_bottom, "a problem with uneven padding for what is planted");
  adjoint(&step, &p, 1, adjoints);
  for (int i = 0; i < 3; i++) repeat(rows[i], &p, 1, &repeats[i]);
  ok(adjoints[0].broken == 1 && adjoints[2].broken == 0, "not adjoint: a forward pass with the padding of the other side (%s)", adjoints[0].first);
  ok(repeats[1].broken == 1 && repeats[2].broken == 0, "not repeatable: a gradient left to what the workspace held (%s)", repeats[1].first);

  int64_t right, wrong;
  tensors s = make_tensors(&p, &naive_dgrad, 1, 1);
  int found = 0;
  if (!run(&naive_dgrad, &p, &s, 0xFF) && inner_product(&s, &right))
    for (int64_t i = 0; i < s.t[OUT].count; i++) {
      const double value = tensor_get(&s.t[OUT], i);
      tensor_set(&s.t[OUT], i, value + 1);
      found += inner_product(&s, &wrong) && wrong != right;
      tensor_set(&s.t[OUT], i, value);
    }
  ok(found == s.t[OUT].count, "one element off by one is found, wherever it is");
  free_tensors(&s);
}

/* ---------------------------------------------------------------- the whole */

static void add(conv_suite *all, const conv_problem *problems, int count) {
  all->problems = realloc(all->problems, (size_t)(all->count + count) * sizeof *all->problems);
  if (!all->problems) abort();
  memcpy(all->problems + all->count, problems, (size_t)count * sizeof *problems);
  all->count += count;
}

static int read_problems(const conv_step *step, conv_suite *all) {
  char error[512], path[PATH_MAX];
  int failed = 0;
  *all = (conv_suite){0};
  for (size_t i = 0; i < sizeof suites / sizeof *suites && !failed; i++) {
    conv_suite suite;
    if (*suites[i][0] && strcmp(suites[i][0], step->number) != 0) continue;
    suite_path(suites[i][1], path);
    failed = suite_read(&suite, path, error, sizeof error);
    add(all, suite.problems, suite.count);
    suite_free(&suite);
  }
  for (int i = 0; i < RANDOM_PROBLEMS; i++) {
    const conv_problem p = problem_random(7000 + (uint64_t)i);
    add(all, &p, 1);
  }
  for (size_t i = 0; i < sizeof more / sizeof *more && !failed; i++) {
    conv_problem p;
    failed = problem_parse(&p, more[i], error, sizeof error);
    add(all, &p, 1);
  }
  if (failed) printf("Bail out! %s\n", error);
  return failed;
}

/* left_out: why it was not asked, else NULL. */
static void report(const conv_kernel *k, const tally *t, const char *what, const char *left_out) {
  char row[64];
  snprintf(row, sizeof row, "%s %s %s %s", k->name, pass_name(k->pass), dtype_name(k->dtype), layout_name(k->layout));
  if (left_out) ok(1, "%s: %s # SKIP %s", row, what, left_out);
  else ok(t->broken == 0 && t->done > 0, "%s: %s, %d problems", row, what, t->done);
  if (t->broken) diag("%d broke, the first %s", t->broken, t->first);
}

int step_main(const conv_step *step, int argc, char **argv) {
  static tally adjoints[MOST_ROWS], repeats[MOST_ROWS];
  conv_suite all;
  char error[512];
  (void)argc, (void)argv;
  if (machine_open_gpu(&gpu, error, sizeof error) || step->kernel_count > MOST_ROWS) {
    printf("Bail out! %s\n", step->kernel_count > MOST_ROWS ? "raise MOST_ROWS" : error);
    return 1;
  }
  if (read_problems(step, &all)) return 1;
  plan(0);
  if (step->kernels[0]->launch == naive_fprop.launch) planted();
  for (int n = 0; n < all.count; n++) adjoint(step, &all.problems[n], (uint64_t)n, adjoints);
  for (int i = 0; i < step->kernel_count; i++) {
    const conv_kernel *k = step->kernels[i];
    for (int n = all.count - 1; n >= 0 && repeats[i].done < REPEATED; n--)
      if (can_do(k, &all.problems[n])) repeat(k, &all.problems[n], (uint64_t)n, &repeats[i]);
    const char *left_out = k->min_arch > gpu.device.arch ? "for another GPU" : k->exact_factor == EXACT_NEVER ? "integers do not stay integers" : NULL;
    report(k, &adjoints[i], "adjoint", left_out);
    report(k, &repeats[i], "the same bits again", k->min_arch > gpu.device.arch ? left_out : NULL);
  }
  suite_free(&all);
  return done_testing();
}
