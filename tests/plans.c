/* Plan, then launch: what every kernel of a step must keep.
 *
 * The same     plan() says the same twice: the reason why not, or every byte of the plan.
 * Complete     all problems are planned first; then each is launched from a copy of its plan, the plan itself overwritten, and the result is right.
 * No question  a launch asks CUDA nothing: not what the device is, not what a function needs. (The linker leads these calls through here.)
 * A device     a plan for 132 multiprocessors says and launches what is launched where the device has 132. A CPU's: threads, 3.
 * Failure      a CUDA call that fails in plan() makes its row wrong, not skipped; and not the next row.
 *
 * The program is this file instead of the harness's step_main(), with the table of a step: tests/plans_04 is step 04's. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/verify.h"
#include "common/harness/buffers.h"
#include "common/harness/list.h"
#include "common/harness/plan.h"
#include "common/harness/step.h"
#include "common/harness/trial.h"
#include "tests/tap.h"

enum { RANDOM_PROBLEMS = 10, MOST_ROWS = 64, SMS = 132, THREADS = 3 };
static const char *const suites[][2] = {
    {"", "nasty"},         {"04", "tests/depthwise"}, {"04", "tests/planes"}, {"05", "tests/three_by_three"}, {"06", "tests/depthwise"}, {"06", "hopper"},
    {"06", "tests/first"}, {"06", "tests/patches"},   {"07", "hopper"}}; /* for this step alone */
/* Layers that keep a GPU busy, for which the number of its multiprocessors counts: they are only planned. */
static const char *const large[] = {"mb16ic64ih56oc128oh56kh3ph1", "g64mb8ic64ih56oc64oh56kh3ph1", "g256mb16ic256ih14oc256oh7kh5sh2ph2",
                                    "mb1ic1ih2000oc1oh2000kh9ph4"};

static machine here; /* what the step's kernels run on */

/* How one kernel did. */
typedef struct tally {
  int done, other, wrong, questions;
  char first[512]; /* the first problem that broke */
} tally;

static void say(tally *t, int *count, const conv_problem *p, const char *what) {
  char shape[256];
  problem_print(p, shape, sizeof shape);
  if (t->other + t->wrong == 0) snprintf(t->first, sizeof t->first, "%s: %s", shape, what);
  ++*count;
}

/* ---------------------------------------------------------------- what a launch must not ask */

static bool launching;
static int questions;

#define QUESTION(name, parameters, ...) \
  cudaError_t __real_##name parameters; \
  cudaError_t __wrap_##name parameters; \
  cudaError_t __wrap_##name parameters { return questions += launching, __real_##name(__VA_ARGS__); }
QUESTION(cudaGetDevice, (int *device), device)
QUESTION(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device), value, attribute, device)
QUESTION(cudaFuncGetAttributes, (struct cudaFuncAttributes * attributes, const void *function), attributes, function)
QUESTION(cudaFuncSetAttribute, (const void *function, enum cudaFuncAttribute attribute, int value), function, attribute, value)
QUESTION(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, const void *function, int threads, size_t bytes), blocks, function, threads, bytes)

/* ---------------------------------------------------------------- the same, complete, no question */

/* Plans twice, into memory that held other bytes. NULL: the plan is in *plan. */
static const char *plan_twice(const conv_kernel *k, const conv_problem *p, conv_plan *plan, tally *t) {
  conv_plan again;
  memset(plan, 0xAA, sizeof *plan);
  memset(&again, 0x55, sizeof again);
  const char *why = kernel_plan_pass(k, p, &here.device, plan), *why_again = kernel_plan_pass(k, p, &here.device, &again);
  const bool same = why && why_again ? strcmp(why, why_again) == 0 : why == why_again && memcmp(plan, &again, sizeof again) == 0;
  if (!same) say(t, &t->other, p, "another plan");
  if (!why && strpbrk(plan->words, "\"\n")) say(t, &t->other, p, "words that no field of a CSV can hold");
  return why;
}

/* Launches on t: x, w, y, and receives the result in out. */
static cudaError_t run(const conv_kernel *k, const conv_plan *plan, const conv_tensor t[3], conv_tensor *out) {
  const tensor_role a = pass_input_a(k->pass), b = pass_input_b(k->pass);
  buffer_sets sets = buffer_sets_plan(k->place, t, plan->workspace_bytes);
  cudaError_t status = buffer_sets_alloc(&sets, 1);
  const conv_buffers view = buffer_view(&sets, 0);
  if (!status) status = buffer_upload(&sets, (int)a, t[a].data);
  if (!status) status = buffer_upload(&sets, (int)b, t[b].data);
  launching = true;
  if (!status) status = k->launch(plan, &view, 0);
  launching = false;
  if (!status && k->place == ON_GPU) status = cudaDeviceSynchronize();
  if (!status) status = buffer_download(&sets, 0, (int)out->role, out->data);
  buffer_sets_free(&sets);
  return status;
}

/* Launches what was planned for p, from a copy of the plan, and compares. */
static void launch_copy(const conv_kernel *k, const conv_problem *p, conv_plan *plan, uint64_t seed, tally *t) {
  static conv_plan copy;
  conv_tensor tensors[3], out = tensor_describe(p, pass_output(k->pass), k->dtype, k->layout);
  conv_reference reference;
  char error[512];
  copy = *plan;
  memset(plan, 0xFF, sizeof *plan);
  for (int i = 0; i < 3; i++) {
    tensors[i] = tensor_describe(p, (tensor_role)i, k->dtype, k->layout);
    if (tensor_alloc(&tensors[i])) abort();
    tensor_fill_normal(&tensors[i], 3 * seed + (uint64_t)i);
  }
  if (tensor_alloc(&out) ||
      reference_compute(&reference, p, k->pass, &tensors[pass_input_a(k->pass)], &tensors[pass_input_b(k->pass)], true, false, error, sizeof error))
    abort();
  questions = 0;
  const cudaError_t status = run(k, &copy, tensors, &out);
  if (status) say(t, &t->wrong, p, cudaGetErrorString(status));
  else if (!verify_output(&out, &reference, COMPARE_BOUND, (error_rule){.growth = k->growth(p, true), .shared = k->shares_error}, NULL).right)
    say(t, &t->wrong, p, "a wrong result");
  t->questions += questions;
  t->done++;
  for (int i = 0; i < 3; i++) tensor_free(&tensors[i]);
  tensor_free(&out);
  reference_free(&reference);
}

/* 06b computes many groups as it does few, tile after tile: a quarter of the test's time. */
static bool slow_here(const conv_kernel *k, const conv_problem *p) { return p->groups >= 24 && strcmp(k->name, "06b") == 0; }

static void all_of(const conv_kernel *k, const conv_suite *suite, tally *t) {
  conv_plan *plans = aligned_alloc(_Alignof(conv_plan), (size_t)suite->count * sizeof *plans);
  bool *can = malloc((size_t)suite->count * sizeof *can);
  if (!plans || !can) abort();
  for (int n = 0; n < suite->count; n++) can[n] = plan_twice(k, &suite->problems[n], &plans[n], t) == NULL;
  for (int n = 0; n < suite->count; n++)
    if (can[n] && !slow_here(k, &suite->problems[n])) launch_copy(k, &suite->problems[n], &plans[n], (uint64_t)n, t);
  free(plans), free(can);
}

/* ---------------------------------------------------------------- a device */

/* Every plan's words, workspace and launches. */
static void print_plans(FILE *out, const conv_step *step, const conv_suite *suite) {
  enum { LARGE = sizeof large / sizeof *large };
  for (int i = 0; i < step->kernel_count; i++)
    for (int n = 0; n < suite->count + LARGE; n++) {
      const conv_kernel *k = step->kernels[i];
      conv_problem p;
      conv_plan plan;
      char shape[256];
      if (n < suite->count) p = suite->problems[n];
      else if (problem_parse(&p, large[n - suite->count], shape, sizeof shape)) abort();
      problem_print(&p, shape, sizeof shape);
      const char *why = kernel_plan_pass(k, &p, &here.device, &plan);
      fprintf(out, "%s %s %s: %s, %zu bytes\n", k->name, pass_name(k->pass), shape, why ? why : plan.words, why ? 0 : plan.workspace_bytes);
      if (!why && k->place == ON_GPU && list_launches(out, k, &plan)) abort();
    }
}

/* The same program where the device has as many, beside plans that were told so. */
static void other_device(const char *program, const conv_step *step, const conv_suite *suite) {
  const bool cpu = step->kernels[0]->place == ON_CPU;
  if (!cpu && !here.device.emulated) {
    ok(1, "a device # SKIP a GPU has the multiprocessors it has");
    return;
  }
  char command[PATH_MAX + 64], line[1024], *text = NULL, *at;
  size_t size = 0;
  FILE *told = open_memstream(&text, &size);
  const int has = here.device.sm_count;
  here.device.sm_count = cpu ? THREADS : SMS;
  print_plans(told, step, suite);
  here.device.sm_count = has;
  fclose(told);
  snprintf(command, sizeof command, "EMU_SMS=%d OMP_NUM_THREADS=%d '%s' print", SMS, THREADS, program);
  FILE *real = popen(command, "r");
  int lines = 0, differ = 0;
  for (at = text; real && fgets(line, sizeof line, real); lines++) {
    const size_t length = strlen(line);
    if (strncmp(at, line, length) != 0 && differ++ == 0) diag("%.*s, but there %s", (int)strcspn(at, "\n"), at, line);
    at += strcspn(at, "\n");
    at += *at == '\n';
  }
#ifndef _OPENMP
  if (cpu) differ = 0; /* one thread, whatever it is told */
#endif
  ok(real && pclose(real) == 0 && lines > suite->count && *at == 0 && differ == 0, "plans for %d %s are those of a machine that has them: %d lines",
     cpu ? THREADS : SMS, cpu ? "threads" : "multiprocessors", lines);
  free(text);
}

/* ---------------------------------------------------------------- failure */

static const char *plan_broken(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  (void)o, (void)device;
  return plan_failed(plan, plan_allow_shared(NULL, 1));
}

static void failure(const conv_step *step) {
  conv_problem p;
  conv_plan plan;
  char error[256], *text = NULL;
  size_t size = 0;
  problem_parse(&p, step->small_layer ? step->small_layer : "mb1ic2ih9oc3kh3ph1", error, sizeof error);
  int first = 0; /* that can do the layer */
  while (first + 1 < step->kernel_count && kernel_plan_pass(step->kernels[first], &p, &here.device, &plan)) first++;
  const conv_kernel *good = step->kernels[first];
  conv_kernel bad = *good;
  bad.name = "bad", bad.plan = plan_broken;
  const step_options options = {.seed = 1, .one_shape = true};
  report r = {.machine = &here, .text = open_memstream(&text, &size)};
  const trial t = {.problem = &p,
                   .pass = good->pass,
                   .dtype = good->dtype,
                   .layout = good->layout,
                   .place = good->place,
                   .kernels = {&bad, good},
                   .kernel_count = 2,
                   .options = &options,
                   .machine = &here};
  const int status = trial_run(&t, &r);
  fclose(r.text);
  const bool told = strstr(text, "WRONG bad: cannot be planned: ") != NULL;
  if (!ok(status == 0 && r.wrong == 1 && r.right == 1 && r.skipped == 0 && told,
          "a CUDA call that fails in plan(): wrong, not skipped, and the next row is right"))
    diag("%d right, %d wrong, %d skipped; %s", r.right, r.wrong, r.skipped, text);
  free(text);
}

/* ---------------------------------------------------------------- the whole */

static void read_problems(const conv_step *step, conv_suite *all) {
  char error[512], path[PATH_MAX];
  enum { MOST = 256 };
  *all = (conv_suite){.problems = calloc(MOST, sizeof(conv_problem))};
  for (size_t i = 0; i < sizeof suites / sizeof *suites; i++) {
    conv_suite suite;
    if (*suites[i][0] && strcmp(suites[i][0], step->number) != 0) continue;
    suite_path(suites[i][1], path);
    if (suite_read(&suite, path, error, sizeof error) || !all->problems || all->count + suite.count > MOST - RANDOM_PROBLEMS) abort();
    memcpy(all->problems + all->count, suite.problems, (size_t)suite.count * sizeof *suite.problems);
    all->count += suite.count;
    suite_free(&suite);
  }
  for (int i = 0; i < RANDOM_PROBLEMS; i++) all->problems[all->count++] = problem_random(9000 + (uint64_t)i);
}

int step_main(const conv_step *step, int argc, char **argv) {
  conv_suite suite;
  char error[512];
  if (step->kernels[0]->place == ON_CPU) {
    machine_open_cpu(&here);
  } else if (machine_open_gpu(&here, error, sizeof error)) {
    printf("Bail out! %s\n", error);
    return 1;
  }
  read_problems(step, &suite);
  if (argc > 1) {
    print_plans(stdout, step, &suite);
    return 0;
  }
  plan(0);
  other_device(argv[0], step, &suite); /* first: the emulator learns from a launch how much shared memory a kernel declares */
  for (int i = 0; i < step->kernel_count; i++) {
    const conv_kernel *k = step->kernels[i];
    tally t = {0};
    char row[64];
    snprintf(row, sizeof row, "%s %s %s", k->name, pass_name(k->pass), dtype_name(k->dtype));
    if (k->min_arch > here.device.arch && k->place == ON_GPU) {
      ok(1, "%s # SKIP for another GPU", row);
      continue;
    }
    all_of(k, &suite, &t);
    ok(t.other == 0, "%s: the same plan twice, %d problems", row, suite.count);
    if (t.other) diag("%d others, the first %s", t.other, t.first);
    ok(t.wrong == 0 && t.done > 0, "%s: launched from copies of %d plans", row, t.done);
    if (t.wrong) diag("%d wrong, the first %s", t.wrong, t.first);
    ok(t.questions == 0, "%s: %d questions in all launches", row, t.questions);
  }
  failure(step);
  suite_free(&suite);
  return done_testing();
}
