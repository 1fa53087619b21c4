/* The program that every step is. See step.h. */
#include "common/harness/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/list.h"
#include "common/harness/plan.h"
#include "common/harness/trial.h"

/* Leaves the kernel that the step's rule takes, where one was asked for; else only notes it. */
static void choose(trial *t, const conv_step *step, const step_options *o) {
  conv_plan plan;
  const conv_operation operation = {.problem = *t->problem, .pass = t->pass, .epilogue = t->epilogue, .transposed = o->transposed};
  const conv_choice *choice = step_choose(step, &operation, t->dtype, &t->machine->device, !options_from_files(o), &plan);
  if (choice) t->chosen = choice->kernel->name;
  if (!o->kernel || strcmp(o->kernel, "auto") != 0) return;
  int last = t->kernel_count - 1;
  for (int i = 0; i < t->kernel_count && t->chosen; i++)
    if (strcmp(t->kernels[i]->name, t->chosen) == 0) last = i;
  t->kernels[0] = t->kernels[last];
  t->kernel_count = 1;
}

static int list_kernels(const conv_step *step, const step_options *o, const machine *m) {
  for (int i = 0; i < o->suite.count; i++) {
    const conv_problem *p = &o->suite.problems[i];
    char shape[256];
    problem_print(p, shape, sizeof shape);
    printf("\n%s\n", shape);
    for (int k = 0; k < step->kernel_count; k++) {
      const conv_kernel *kernel = step->kernels[k];
      if (!options_select(o, kernel)) continue;
      conv_plan plan;
      conv_operation operation = {.problem = *p, .pass = kernel->pass, .epilogue = o->epilogue, .transposed = o->transposed};
      operation.epilogue.fp32 = kernel->stores_fp32;
      printf("  %-4s %s %s %s  %s\n", kernel->name, operation_name(&operation), dtype_name(kernel->dtype), layout_name(kernel->layout), kernel->idea);
      const char *reason = kernel_plan(kernel, &operation, &m->device, &plan);
      if (reason) {
        printf("       not this shape: %s\n", reason);
      } else if (kernel->place == ON_CPU) {
        printf("       %d CPU threads, workspace %zu bytes\n", m->device.sm_count, plan.workspace_bytes);
      } else {
        const cudaError_t status = list_launches(stdout, kernel, &plan);
        if (status) {
          fprintf(stderr, "%s: cannot be captured: %s\n", kernel->name, cudaGetErrorString(status));
          return 1;
        }
      }
    }
  }
  return 0;
}

/* What the rule takes for every problem, as CSV: for random data, and for data from files. Runs nothing. */
static int print_choices(const conv_step *step, const step_options *o, const machine *m) {
  if (step->rule_count == 0) {
    fprintf(stderr, "--which: expected a step with a rule, step %s has a kernel for each pass\n", step->number);
    return 2;
  }
  if (machine_fitted_to(m)) fprintf(stderr, "--which: the rule was fitted to times of an %s, not of this GPU\n", machine_fitted_to(m));
  printf("shape,pass,dtype,kernel,plan,when,kernel_for_files\n");
  for (int i = 0; i < o->suite.count; i++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        conv_problem p = o->suite.problems[i];
        char shape[256];
        p.name[0] = 0, p.repeat = 1;
        problem_print(&p, shape, sizeof shape);
        conv_plan plan, plan_of_files;
        const conv_operation operation = {.problem = p, .pass = (conv_pass)pass, .epilogue = o->epilogue, .transposed = o->transposed};
        const conv_choice *c = step_choose(step, &operation, (conv_dtype)dtype, &m->device, true, &plan);
        const conv_choice *of_files = step_choose(step, &operation, (conv_dtype)dtype, &m->device, false, &plan_of_files);
        if (!o->passes[pass] || !o->dtypes[dtype] || !c) continue;
        printf("%s,%s,%s,%s,\"%s\",\"%s\",%s\n", shape, operation_name(&operation), dtype_name((conv_dtype)dtype), c->kernel->name, plan.words, c->words,
               of_files ? of_files->kernel->name : "");
      }
  return 0;
}

/* Collects the kernels that take part in one trial: same pass, dtype, layout and place. */
static int collect(trial *t, const conv_step *step, const step_options *o) {
  t->kernel_count = 0;
  for (int k = 0; k < step->kernel_count; k++) {
    const conv_kernel *kernel = step->kernels[k];
    if (!options_select(o, kernel) || kernel->pass != t->pass || kernel->dtype != t->dtype || kernel->layout != t->layout ||
        kernel->stores_fp32 != t->epilogue.fp32)
      continue;
    if (t->kernel_count == TRIAL_KERNELS) {
      fprintf(stderr, "step %s: more than %d kernels for one trial; raise TRIAL_KERNELS\n", step->number, TRIAL_KERNELS);
      abort();
    }
    t->kernels[t->kernel_count++] = kernel;
  }
  return t->kernel_count;
}

static int run_all(const conv_step *step, const step_options *o, const machine *m, bool gpu_reference, report *r) {
  int trials = 0;
  for (int i = 0; i < o->suite.count; i++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (int kind = 0; kind < 2 * LAYOUT_COUNT; kind++) { /* each layout, and results of their own type */
          const int layout = kind / 2;
          trial t = {.problem = &o->suite.problems[i],
                     .pass = (conv_pass)pass,
                     .epilogue = o->epilogue,
                     .dtype = (conv_dtype)dtype,
                     .layout = (conv_layout)layout,
                     .place = step->kernels[0]->place,
                     .options = o,
                     .machine = m,
                     .gpu_reference = gpu_reference};
          t.epilogue.fp32 = kind % 2;
          if (collect(&t, step, o) == 0) continue;
          choose(&t, step, o);
          trials++;
          if (o->npy_out && t.kernel_count != 1) {
            fprintf(stderr, "--out: expected one kernel, %d do this pass: choose one with --kernel\n", t.kernel_count);
            return 2;
          }
          const int status = trial_run(&t, r);
          if (status) return status;
        }
  if (trials == 0) {
    fprintf(stderr, "--pass, --dtype, --layout, --kernel: expected a combination that step %s has a kernel for (see --help)\n", step->number);
    return 2;
  }
  return 0;
}

int step_main(const conv_step *step, int argc, char **argv) {
  step_options options;
  char error[512];
  output_start();
  const int parsed = options_parse(&options, step, argc, argv);
  if (parsed) return parsed - 1;

  machine m, gpu;
  const bool on_cpu = step->kernels[0]->place == ON_CPU;
  const bool has_gpu = machine_open_gpu(&gpu, error, sizeof error) == 0;
  if (on_cpu) {
    machine_open_cpu(&m);
  } else if (has_gpu) {
    m = gpu;
  } else {
    fprintf(stderr, "%s\n", error);
    options_free(&options);
    return 2;
  }

  if (options_draw(&options, step, &m.device)) {
    options_free(&options);
    return 2;
  }

  int status;
  if (!options.which) printf("step %s: %s\n", step->number, step->title);
  if (options.which) {
    status = print_choices(step, &options, &m);
  } else if (options.list) {
    status = list_kernels(step, &options, &m);
  } else {
    report r;
    status = report_open(&r, &m, options.csv, options.json, options.npy_out, options.cudnn_fused) ? 2 : 0;
    r.sources = step->sources;
    if (!status) {
      if (on_cpu && step->measure_peaks && options.timing && !options.exact_only) step->measure_peaks(&m.peaks);
      report_machine(&r);
      status = run_all(step, &options, &m, has_gpu && !gpu.device.emulated, &r);
      if (status == 2) {
        report_discard(&r);
      } else {
        const int closed = report_close(&r);
        if (!status) status = closed;
      }
    }
  }
  options_free(&options);
  return status;
}
