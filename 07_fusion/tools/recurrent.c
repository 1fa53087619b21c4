/* A recurrent layer, h[t] = relu(W x[t] + b + U h[t-1]), three ways: an operation a launch, a step a launch, all steps in one launch (07i). What comes from the input is one
 * matrix product for all steps, made before. With --image and --filter U is a convolution: a launch can take a step, but not all of them, since windows reach into other
 * blocks' pixels. Every state is verified on the state before it that was really written, and in whole numbers as a chain. Beside them cuDNN's own recurrent layer, with each
 * of its algorithms: it gets the same z, U and first state, and has the same to write. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "07_fusion/recurrent.h"
#include "common/conv/operation_reference.h"
#include "common/conv/verify.h"
#include "common/cudnn/cudnn_rnn.h"
#include "common/files/arguments.h"
#include "common/files/output.h"
#include "common/harness/plan.h"
#include "common/harness/registry.h"
#include "common/harness/report.h"
#include "common/harness/timing.h"

static const char help_text[] = "usage: recurrent [options]\n"
                                "  --hidden N   hidden units: 64, 128, 256, 512 or 1024 (default: 1024; on the emulator 128)\n"
                                "  --batch N    sequences (default: 32; on the emulator 9)\n"
                                "  --steps N    of each (default: 128; on the emulator 6)\n"
                                "  --image N    a state is an image of N x N pixels with so many channels (default: 1)\n"
                                "  --filter N   and U a convolution with filters of N x N, N odd (default: 1)\n"
                                "  --seed N     of the data (default: 1)\n"
                                "  --no-time    verify only\n"
                                "  --no-cudnn   without cuDNN's recurrent layer\n"
                                "  --csv FILE   a row for each way\n"
                                "Exit status: 0 all right, 1 a result was wrong or a call failed, 2 bad input.\n";

extern const conv_kernel pointwise_fp16; /* common/harness/unfused.cu */

enum { OPERATIONS, STEPS, ALL, WAYS };
static const char *const way_names[WAYS] = {"an operation a launch", "a step a launch", "all steps in one launch"};

/* The layer on the host and on the device, and how a step is computed. */
typedef struct run {
  recurrent_layer layer;
  int image, filter;                       /* pixels of a state and taps of a filter, one way */
  int ways;                                /* that can compute it: the first of way_names */
  conv_operation product, pointwise, step; /* of one step: U h; what follows; both */
  const conv_kernel *of_product, *of_step;
  conv_plan product_plan, pointwise_plan, step_plan;
  size_t state_bytes, workspace_bytes;
  conv_tensor u, first, z, h; /* z, h: of all steps */
  unsigned char *device_u, *device_first, *device_z, *device_h, *between, *workspace;
  cudnn_rnn rnn;
  cudnn_rnn_way *rival[RNN_ALGORITHMS]; /* of each of cuDNN's algorithms the fastest that is right, or NULL; as a way, it is WAYS and more */
} run;

static const char *name_of(int way) { return way < WAYS ? way_names[way] : cudnn_rnn_names[way - WAYS]; }

/* The kernel that the steps take for an operation, the last step first. NULL: none does. */
static const conv_kernel *kernel_for(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  for (int s = 0; all_steps[s]; s++) {
    const conv_choice *c = step_choose(all_steps[s], o, DTYPE_FP16, device, false, plan);
    if (c && c->kernel->layout == LAYOUT_NHWC) return c->kernel;
  }
  return NULL;
}

/* A tensor of `count` states. */
static conv_tensor states(const run *r, int count) {
  conv_problem p = r->product.problem;
  p.N = count * r->layer.batch;
  return tensor_describe(&p, TENSOR_Y, DTYPE_FP16, LAYOUT_NHWC);
}

static int allocate(run *r) {
  r->u = tensor_describe(&r->product.problem, TENSOR_W, DTYPE_FP16, LAYOUT_NHWC);
  r->first = states(r, 1), r->z = states(r, r->layer.steps), r->h = states(r, r->layer.steps);
  r->state_bytes = tensor_bytes(&r->first);
  if (tensor_alloc(&r->u) || tensor_alloc(&r->first) || tensor_alloc(&r->z) || tensor_alloc(&r->h)) return -1;
  r->workspace_bytes = r->product_plan.workspace_bytes > r->step_plan.workspace_bytes ? r->product_plan.workspace_bytes : r->step_plan.workspace_bytes;
  return cudaMalloc((void **)&r->device_u, tensor_bytes(&r->u)) || cudaMalloc((void **)&r->device_first, r->state_bytes) ||
                 cudaMalloc((void **)&r->device_z, tensor_bytes(&r->z)) || cudaMalloc((void **)&r->device_h, tensor_bytes(&r->h)) ||
                 cudaMalloc((void **)&r->between, r->state_bytes) || (r->workspace_bytes && cudaMalloc((void **)&r->workspace, r->workspace_bytes))
             ? -1
             : 0;
}

/* Random, or whole numbers that stay small: each unit sees one other, at one tap, with either sign. */
static cudaError_t fill(run *r, uint64_t seed, bool integers) {
  const int hidden = r->layer.hidden, taps = r->filter * r->filter;
  if (integers) {
    for (int64_t i = 0; i < r->u.count; i++) tensor_set(&r->u, i, 0);
    for (int row = 0; row < hidden; row++)
      tensor_set(&r->u, ((int64_t)row * taps + row % taps) * hidden + (row * 5 + (int)(seed % 7)) % hidden, row % 3 ? 1 : -1);
    tensor_fill_integers(&r->first, seed + 1, 4), tensor_fill_integers(&r->z, seed + 2, 4);
  } else {
    tensor_fill_normal(&r->u, seed), tensor_fill_normal(&r->first, seed + 1), tensor_fill_normal(&r->z, seed + 2);
    const int halvings = (int)ceil(0.5 * log2((double)hidden * taps));
    for (int64_t i = 0; i < r->u.count; i++) tensor_set(&r->u, i, ldexp(tensor_get(&r->u, i), -halvings));
  }
  cudaError_t status = cudaMemcpy(r->device_u, r->u.data, tensor_bytes(&r->u), cudaMemcpyHostToDevice);
  if (!status) status = cudaMemcpy(r->device_first, r->first.data, r->state_bytes, cudaMemcpyHostToDevice);
  return status ? status : cudaMemcpy(r->device_z, r->z.data, tensor_bytes(&r->z), cudaMemcpyHostToDevice);
}

static cudaError_t launch(const run *r, int way, cudaStream_t stream) {
  if (way >= WAYS) return cudnn_rnn_enqueue(r->rival[way - WAYS], 0, stream);
  if (way == ALL) return recurrent_launch(&r->layer, r->device_u, r->device_first, r->device_z, r->device_h, stream);
  cudaError_t status = cudaSuccess;
  for (int t = 0; t < r->layer.steps && !status; t++) {
    conv_buffers b = {.x = t ? r->device_h + (size_t)(t - 1) * r->state_bytes : r->device_first, .w = r->device_u, .workspace = r->workspace};
    void *const next = r->device_h + (size_t)t * r->state_bytes;
    const void *const from_input = r->device_z + (size_t)t * r->state_bytes;
    if (way == STEPS) {
      b.y = next, b.residual = from_input;
      status = r->of_step->launch(&r->step_plan, &b, stream);
      continue;
    }
    b.y = r->between;
    status = r->of_product->launch(&r->product_plan, &b, stream);
    b.x = r->between, b.y = next, b.residual = from_input;
    if (!status) status = pointwise_fp16.launch(&r->pointwise_plan, &b, stream);
  }
  return status;
}

/* How far a way's sums may stray; a product that is stored is rounded once more. */
static error_rule rule_of(const run *r, int way) {
  const conv_problem *p = &r->product.problem;
  if (way >= WAYS) return cudnn_rnn_rule(&r->step);
  if (way == ALL) return (error_rule){.growth = growth_truncated(p->C / 16.0 * 17 + 8, false) + epilogue_growth(&r->step.epilogue, false)};
  const conv_kernel *k = way == STEPS ? r->of_step : r->of_product;
  return (error_rule){.growth = k->growth(p, false) + epilogue_growth(&r->step.epilogue, false) + (way == STEPS ? 0 : UNIT_ROUNDOFF_FP16)};
}

/* One way, once: every state from the one before it. Returns 0, 1 if it is wrong, -1 after a CUDA error. */
static int verify(run *r, int way, bool integers, bool use_gpu, double *worst) {
  cudaError_t status = cudaMemset(r->device_h, 0xff, tensor_bytes(&r->h));
  if (!status) status = launch(r, way, 0);
  if (!status) status = cudaDeviceSynchronize();
  if (!status) status = cudaMemcpy(r->h.data, r->device_h, tensor_bytes(&r->h), cudaMemcpyDeviceToHost);
  if (status) return fprintf(stderr, "recurrent: %s: %s\n", name_of(way), cudaGetErrorString(status)), -1;
  for (int t = 0; t < r->layer.steps; t++) {
    conv_tensor before = states(r, 1), after = states(r, 1);
    epilogue_data data = {.residual = states(r, 1)};
    before.role = TENSOR_X, before.data = t ? (char *)r->h.data + (size_t)(t - 1) * r->state_bytes : r->first.data;
    after.data = (char *)r->h.data + (size_t)t * r->state_bytes, data.residual.data = (char *)r->z.data + (size_t)t * r->state_bytes;
    conv_reference reference;
    char error[512];
    if (operation_reference(&reference, &r->step, &before, &r->u, &data, false, use_gpu, error, sizeof error)) return fprintf(stderr, "%s\n", error), -1;
    const conv_verdict v = verify_output(&after, &reference, integers ? COMPARE_EXACT : COMPARE_BOUND, rule_of(r, way), stdout);
    reference_free(&reference);
    if (!v.right) return printf("WRONG: %s, step %d: %lld elements\n", name_of(way), t, (long long)v.mismatches), 1;
    if (v.worst_share > *worst) *worst = v.worst_share;
  }
  return 0;
}

/* ---------------------------------------------------------------- cuDNN */

/* Is the rival right, in whole numbers and on random data? As verify(). Random data are left behind. */
static int verify_rival(run *r, int algorithm, uint64_t seed, double *worst) {
  int wrong = 0;
  for (int integers = 1; integers >= 0; integers--) {
    cudaError_t status = fill(r, seed, integers);
    if (!status) status = cudnn_rnn_load(r->rival[algorithm]);
    if (status) return fprintf(stderr, "recurrent: %s\n", cudaGetErrorString(status)), -1;
    if (!wrong) wrong = verify(r, WAYS + algorithm, integers, true, worst);
    if (wrong < 0) return -1;
  }
  return wrong;
}

/* What of cuDNN's is slower than another of its ways, or wrong, is left out. Returns 0, or -1 after a CUDA error. */
static int find_rivals(run *r, uint64_t seed, const machine *m) {
  const cudnn_rnn_layer layer = {r->layer.hidden, r->layer.batch, r->layer.steps, r->device_u, r->device_first, r->device_z, r->device_h};
  char error[CUDNN_ERROR];
  const int status =
      cudnn_rnn_open(&r->rnn, &layer, m->device.name, access("build/results", W_OK) ? NULL : "build/results/cudnn_endless.csv", error, sizeof error);
  if (status) return fprintf(status < 0 ? stderr : stdout, "%s\n", error), status < 0 ? -1 : 0;
  printf("%s\n", cudnn_describe());
  for (int a = 0; a < RNN_ALGORITHMS; a++) {
    double worst = 0;
    int wrong = 1, dropped = -1;
    while (wrong && (r->rival[a] = cudnn_rnn_fastest(&r->rnn, a))) {
      worst = 0, dropped++;
      wrong = verify_rival(r, a, seed, &worst);
      if (wrong < 0) return -1;
      r->rival[a]->wrong = wrong;
    }
    if (!r->rival[a]) {
      printf("  %-29s none: %s\n", cudnn_rnn_names[a], dropped >= 0 ? "all are wrong" : r->rnn.why[a]);
      continue;
    }
    printf("  %-29s exact on integers, %.0f %% of the error bound\n", cudnn_rnn_names[a], 100 * worst);
    printf("    %s; launched %s: the fastest of %d ways, %d refused, %d wrong\n", r->rival[a]->words, r->rival[a]->in_graph ? "in a graph" : "one by one",
           r->rnn.tried[a], r->rnn.tried[a] - r->rnn.ran[a], dropped);
    if (*r->rnn.why[a]) printf("    the first that was refused: %s\n", r->rnn.why[a]);
  }
  const double half_us = cudnn_rnn_half_us(&r->rnn);
  if (half_us > 0) printf("  cuDNN's with sums in halves, other math: %.1f us, timed quickly\n", half_us);
  return 0;
}

/* ---------------------------------------------------------------- timing */

typedef struct timed {
  const run *r;
  int way;
  const char *how; /* behind its name */
} timed;
static cudaError_t enqueue(void *context, int set, cudaStream_t stream) {
  const timed *t = context;
  return (void)set, launch(t->r, t->way, stream);
}
static cudaError_t poison(void *context) {
  const timed *t = context;
  return cudaMemset(t->r->device_h, 0xff, tensor_bytes(&t->r->h));
}
static cudaError_t not_checked(void *context, int first, int count) { return (void)context, (void)first, (void)count, cudaSuccess; }

static void write_row(FILE *f, const timed *of, double us, const machine *m) {
  const run *r = of->r;
  char date[32], cuda[16], driver[16];
  const time_t now = time(NULL);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  version_text(m->runtime_version, cuda), version_text(m->driver_version, driver);
  csv_text(f, m->device.name);
  fprintf(f, ",%s,%s,%s,%d,%d,%d,%d,%d,%s%s,%.3f,", driver, cuda, date, r->layer.hidden, r->layer.batch, r->layer.steps, r->image, r->filter, name_of(of->way),
          of->how, us);
  if (of->way >= WAYS) {
    fprintf(f, "%d,", cudnn_version());
    csv_text(f, r->rival[of->way - WAYS]->words);
    fprintf(f, ",%s", r->rival[of->way - WAYS]->in_graph ? "yes" : "no");
  } else fputs(",,yes", f);
  fputc('\n', f);
}

static int time_it(const run *r, output *csv, const machine *m) {
  const double no_graph = 6e-3; /* seconds: too long for a graph, timing.c will think */
  timed of[WAYS + RNN_ALGORITHMS + 1];
  contender turn[WAYS + RNN_ALGORITHMS + 1] = {0};
  int count = 0, fastest = 0;
  for (int way = 0; way < WAYS + RNN_ALGORITHMS; way++) {
    const cudnn_rnn_way *rival = way < WAYS ? NULL : r->rival[way - WAYS];
    if (way < WAYS ? way >= r->ways : !rival) continue;
    of[count] = (timed){r, way, ""};
    turn[count] = (contender){.enqueue = enqueue, .poison = poison, .check = not_checked, .context = &of[count], .first_seconds = 1e-3};
    if (rival) turn[count].first_seconds = rival->in_graph || 1e-6 * rival->us > no_graph ? 1e-6 * rival->us : no_graph;
    count++;
  }
  of[count] = (timed){r, STEPS, " in order"}; /* each begins when the one before it has ended */
  turn[count] = turn[STEPS], turn[count].context = &of[count], turn[count].in_order = true, count++;
  const cudaError_t status = time_in_turns(turn, count, ON_GPU, 1, m);
  if (status) return fprintf(stderr, "timing: %s\n", cudaGetErrorString(status)), 1;
  if (csv) fputs("gpu,driver,cuda,date,hidden,batch,steps,image,filter,way,us,cudnn,setting,graph\n", csv->file);
  for (int i = 0; csv && i < count; i++) write_row(csv->file, &of[i], turn[i].median_us, m);
  for (int i = 0; i < count; i++) {
    printf("  %s%-*s %8.1f us, %5.2f a step, %4.2f times as fast as a launch a step\n", name_of(of[i].way), 29 - (int)strlen(name_of(of[i].way)), of[i].how,
           turn[i].median_us, turn[i].median_us / r->layer.steps, turn[STEPS].median_us / turn[i].median_us);
    if (of[i].way >= WAYS && (!fastest || turn[i].median_us < turn[fastest].median_us)) fastest = i;
  }
  if (fastest) printf("%s takes %.2f times as long as all steps in one launch\n", name_of(of[fastest].way), turn[fastest].median_us / turn[ALL].median_us);
  return 0;
}

int main(int argc, char **argv) {
  enum { HIDDEN = 256, BATCH, LENGTH, IMAGE, FILTER, SEED, NO_TIME, NO_CUDNN, CSV, HELP };
  static const struct option table[] = {{"hidden", required_argument, 0, HIDDEN},
                                        {"batch", required_argument, 0, BATCH},
                                        {"steps", required_argument, 0, LENGTH},
                                        {"image", required_argument, 0, IMAGE},
                                        {"filter", required_argument, 0, FILTER},
                                        {"seed", required_argument, 0, SEED},
                                        {"no-time", no_argument, 0, NO_TIME},
                                        {"no-cudnn", no_argument, 0, NO_CUDNN},
                                        {"csv", required_argument, 0, CSV},
                                        {"help", no_argument, 0, HELP},
                                        {0}};
  static run r = {.image = 1, .filter = 1};
  r.layer.relu = true;
  bool timing = true, beside_cudnn = true;
  const char *csv_path = NULL;
  output *csv = NULL;
  int option, failed = 0, seed = 1;
  char error[512];
  output_start();
  while (!failed && (option = getopt_long(argc, argv, "", table, NULL)) != -1) switch (option) {
      case HIDDEN: failed = argument_integer("--hidden", optarg, 1, 1024, &r.layer.hidden); break;
      case BATCH: failed = argument_integer("--batch", optarg, 1, 65536, &r.layer.batch); break;
      case LENGTH: failed = argument_integer("--steps", optarg, 1, 65536, &r.layer.steps); break;
      case IMAGE: failed = argument_integer("--image", optarg, 1, 1024, &r.image); break;
      case FILTER: failed = argument_integer("--filter", optarg, 1, 31, &r.filter); break;
      case SEED: failed = argument_integer("--seed", optarg, 1, 1 << 30, &seed); break;
      case NO_TIME: timing = false; break;
      case NO_CUDNN: beside_cudnn = false; break;
      case CSV: csv_path = optarg; break;
      case HELP: fputs(help_text, stdout); return 0;
      default: return 2;
    }
  if (failed) return failed;
  if (optind < argc) return argument_bad("recurrent", "options alone (see --help)", argv[optind]);
  machine m;
  if (machine_open_gpu(&m, error, sizeof error)) return fprintf(stderr, "%s\n", error), 2;
  if (csv_path && (!timing || m.device.emulated)) return argument_bad("--csv", "a run that is timed, on a GPU", csv_path);
  if (!r.layer.hidden) r.layer.hidden = m.device.emulated ? 128 : 1024;
  if (!r.layer.batch) r.layer.batch = m.device.emulated ? 9 : 32;
  if (!r.layer.steps) r.layer.steps = m.device.emulated ? 6 : 128;
  if ((int64_t)r.layer.steps * r.layer.batch > INT_MAX)
    return fprintf(stderr, "--steps: expected with %d sequences at most %d, got %d\n", r.layer.batch, INT_MAX / r.layer.batch, r.layer.steps), 2;
  if (r.filter % 2 == 0) return fprintf(stderr, "--filter: expected an odd number, got %d\n", r.filter), 2;
  const bool one_pixel = r.image == 1 && r.filter == 1;
  r.ways = one_pixel ? WAYS : ALL;
  cudaError_t status = cudaSuccess;
  const char *why = one_pixel ? recurrent_plan(&r.layer, m.device.arch, &status) : NULL;
  if (status) return fprintf(stderr, "recurrent: %s\n", cudaGetErrorString(status)), 1;
  if (why) return fprintf(stderr, "recurrent: 07i: %s\n", why), 2;
  const int hidden = r.layer.hidden;
  r.product = (conv_operation){.pass = PASS_FPROP, .problem = {.N = r.layer.batch, .C = hidden, .K = hidden, .groups = 1, .repeat = 1}};
  conv_problem *p = &r.product.problem;
  p->H = p->W = p->P = p->Q = r.image, p->R = p->S = r.filter, p->pad_top = p->pad_left = p->pad_bottom = p->pad_right = r.filter / 2;
  p->stride_h = p->stride_w = p->dil_h = p->dil_w = 1;
  r.step = r.product;
  r.step.epilogue = (conv_epilogue){.residual = true, .activation = ACTIVATION_RELU};
  r.pointwise = epilogue_alone(&r.step);
  r.of_product = kernel_for(&r.product, &m.device, &r.product_plan), r.of_step = kernel_for(&r.step, &m.device, &r.step_plan);
  if (!r.of_product || !r.of_step || kernel_plan(&pointwise_fp16, &r.pointwise, &m.device, &r.pointwise_plan))
    return fprintf(stderr, "recurrent: expected hidden units that step 07 has a kernel for, such as a multiple of 8, got %d\n", hidden), 2;
  if (allocate(&r)) return fprintf(stderr, "recurrent: expected a layer that fits memory, got %d steps of %d x %d\n", r.layer.steps, r.layer.batch, hidden), 2;
  if (!one_pixel)
    printf("states of %d x %d pixels, filters of %d x %d: windows reach into other blocks' pixels, so a launch takes one step\n", r.image, r.image, r.filter,
           r.filter);
  if (csv_path && !(csv = output_open("--csv", csv_path))) return 2;
  printf("%d steps, %d sequences, %d hidden units; a product by %s, a step by %s\n", r.layer.steps, r.layer.batch, hidden, r.of_product->name, r.of_step->name);
  int wrong = 0;
  for (int integers = 1; integers >= 0 && !wrong; integers--) {
    status = fill(&r, (uint64_t)seed, integers);
    if (status) return fprintf(stderr, "recurrent: %s\n", cudaGetErrorString(status)), 1;
    for (int way = 0; way < r.ways && !wrong; way++) {
      double worst = 0;
      wrong = verify(&r, way, integers, !m.device.emulated, &worst) != 0;
      if (!wrong && integers) printf("  %-29s exact on integers\n", way_names[way]);
      else if (!wrong) printf("  %-29s %.0f %% of the error bound\n", way_names[way], 100 * worst);
    }
  }
  if (!wrong && timing && beside_cudnn && one_pixel && !m.device.emulated) wrong = find_rivals(&r, (uint64_t)seed, &m) != 0;
  if (!wrong && timing && !m.device.emulated) wrong = time_it(&r, csv, &m);
  cudnn_rnn_close(&r.rnn);
  if (wrong) return output_discard(csv), 1;
  return output_close(csv) ? 1 : 0;
}
