/* cuBLAS as a yardstick: step 05a's matrix product, y [K][N*P*Q] = w [K][C*R*S] x columns [C*R*S][N*P*Q], by NVIDIA's library for such products.
 *
 *   make cublas SHAPE=mb16ic64ih56oc128oh56kh3ph1
 *
 * In turns, on the same data, with a cold L2 cache: the two halves of 05a, cublasSgemm on the same columns, and whole convolutions that need
 * none. Every result is compared with the reference, before the timing and after it; one in TF32 would be refused. */
#include <stdio.h>

#include "common/harness/machine.h"

#if defined(CUDA_EMULATOR) || !__has_include(<cublas_v2.h>)

int main(void) {
#ifdef CUDA_EMULATOR
  fputs("cublas: needs a GPU\n", stderr);
#else
  fputs("cublas: no cuBLAS: its header cublas_v2.h was not found when this was built\n", stderr);
#endif
  return 2;
}

#else

#include <getopt.h>
#include <string.h>
#include <time.h>

#include "05_im2col_gemm/tools/cublas/methods.h"
#include "common/conv/bound.h"
#include "common/conv/verify.h"
#include "common/harness/report.h"

static const char help_text[] = "usage: cublas [options]\n"
                                "  --shape STRING      a benchdnn string, of one group (default: mb16ic64ih56oc128oh56kh3ph1)\n"
                                "  --suite NAME|FILE   a list of them: a file, or one of common/suites/\n"
                                "  --csv FILE          a row for each contender\n"
                                "Exit status: 0 all right, 1 a result was wrong or a call failed, 2 bad input, no GPU or no cuBLAS.\n";

/* ---------------------------------------------------------------- right? */

typedef struct turn {
  bench *b;
  const method *m;
  conv_plan plan; /* of the method's kernel */
  bool right;
  double share; /* of the error bound */
} turn;

static bool only_columns(const turn *t) { return t->m->enqueue == by_im2col; }

static cudaError_t enqueue(void *context, int set, cudaStream_t stream) {
  const turn *t = context;
  const conv_buffers view = buffer_view(&t->b->sets, set);
  return t->m->enqueue(t->b, t->m, &t->plan, &view, stream);
}

static cudaError_t poison(void *context) {
  const turn *t = context;
  cudaError_t status = cudaSuccess;
  const int part = only_columns(t) ? (int)PART_WORKSPACE : (int)TENSOR_Y;
  for (int set = 0; set < t->b->sets.count && !status; set++) status = buffer_poison(&t->b->sets, set, part);
  return status;
}

/* Compares y of a set with the reference; columns are right if 05a's product of them is. */
static cudaError_t check_set(turn *t, int set) {
  bench *b = t->b;
  const conv_buffers view = buffer_view(&b->sets, set);
  conv_tensor *y = &b->host[TENSOR_Y];
  cudaError_t status = only_columns(t) ? by_matmul(b, t->m, &t->plan, &view, 0) : cudaSuccess;
  if (!status) status = cudaDeviceSynchronize();
  if (!status) status = buffer_download(&b->sets, set, TENSOR_Y, t->m->transposed ? (void *)b->product : y->data);
  if (status) return status;
  const int64_t image = (int64_t)b->p.P * b->p.Q, K = b->p.K, N = b->p.N;
  for (int64_t n = 0; n < N && t->m->transposed; n++)
    for (int64_t k = 0; k < K; k++) memcpy((float *)y->data + (n * K + k) * image, b->product + (k * N + n) * image, (size_t)image * sizeof(float));
  const conv_verdict verdict =
      verify_output(y, &b->reference, COMPARE_BOUND, (error_rule){.growth = growth_chain_fp32((double)problem_terms(&b->p, PASS_FPROP), true)}, stderr);
  t->right &= verdict.right;
  if (verdict.worst_share > t->share) t->share = verdict.worst_share;
  return cudaSuccess;
}

static cudaError_t check(void *context, int first, int count) {
  turn *t = context;
  const int sets = t->b->sets.count, written = count < sets ? count : sets;
  cudaError_t status = check_set(t, first % sets);
  if (!status && written > 1) status = check_set(t, (first + written - 1) % sets);
  return status;
}

/* Once before the timing: right, and how long about. */
static cudaError_t try_out(turn *t, double *seconds) {
  struct timespec start, end;
  cudaError_t status = poison(t);
  for (int i = 0; i < 2 && !status; i++) { /* the first launch loads the code */
    clock_gettime(CLOCK_MONOTONIC, &start);
    status = enqueue(t, 0, 0);
    if (!status) status = cudaDeviceSynchronize();
    clock_gettime(CLOCK_MONOTONIC, &end);
    *seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
  }
  t->right = true;
  return status ? status : check_set(t, 0);
}

/* ---------------------------------------------------------------- one problem */

/* Bytes that a contender must read and write: the columns, or x in their place; w, y. */
static size_t bytes_of(const bench *b, const method *m) {
  const size_t *part = b->sets.bytes;
  if (m->enqueue == by_im2col) return part[TENSOR_X] + b->columns_bytes;
  return (m->reads_columns ? b->columns_bytes : part[TENSOR_X]) + part[TENSOR_W] + part[TENSOR_Y];
}

/* The first set gets its data. */
static cudaError_t make_sets(bench *b, size_t scratch) {
  b->sets = buffer_sets_plan(ON_GPU, b->host, b->columns_bytes + scratch);
  size_t least = SIZE_MAX;
  for (int i = 0; i < METHODS; i++)
    if (bytes_of(b, &methods[i]) < least) least = bytes_of(b, &methods[i]);
  cudaError_t status = cudaErrorMemoryAllocation;
  for (int count = timing_sets(least, b->gpu->device.l2_bytes); count > 0 && status == cudaErrorMemoryAllocation; count /= 2)
    status = buffer_sets_alloc(&b->sets, count);
  if (!status) status = buffer_upload(&b->sets, TENSOR_X, b->host[TENSOR_X].data);
  if (!status) status = buffer_upload(&b->sets, TENSOR_W, b->host[TENSOR_W].data);
  const conv_buffers view = buffer_view(&b->sets, 0);
  if (!status) status = launch_im2col(&b->im2col, view.x, view.workspace, 0);
  if (!status && !timing_is_cold(least, b->sets.count, b->gpu->device.l2_bytes)) printf("  %d buffer sets: not enough to keep the cache cold\n", b->sets.count);
  return status;
}

typedef struct session {
  machine gpu;
  cublasHandle_t handle;
  void *scratch;
  char version[48], date[32];
  conv_suite suite;
  const char *csv_path;
  output *csv;
} session;

static void print_row(const session *s, const turn *t, const contender *c, double cublas_us) {
  const double tflops = only_columns(t) ? 0 : 2e-6 * problem_macs(&t->b->p) / c->median_us;
  const double gbps = 1e-3 * (double)bytes_of(t->b, t->m) / c->median_us;
  char shape[256], cuda[16], driver[16];
  printf("  %-15s %8.2f %8.2f %8.2f %8.2f  %7.2f  %5.0f  %6.2f  %-6s %s\n", t->m->name, c->median_us, c->min_us, c->p90_us, c->warm_us, tflops, gbps,
         c->median_us / cublas_us, t->right ? "right" : "WRONG", t->m->what);
  if (!s->csv) return;
  conv_problem plain = t->b->p;
  plain.name[0] = 0, plain.repeat = 1;
  problem_print(&plain, shape, sizeof shape);
  version_text(s->gpu.runtime_version, cuda), version_text(s->gpu.driver_version, driver);
  csv_text(s->csv->file, s->gpu.device.name);
  fprintf(s->csv->file, ",%.0f,%.0f,%s,%s,%s,%s,%s,%d,%d,%d,%s,%s,%.4f,", c->clock_mhz, c->power_watts, driver, cuda, s->version, s->date, shape, plain.K,
          plain.N * plain.P * plain.Q, plain.C * plain.R * plain.S, t->m->name, t->right ? "right" : "wrong", t->share);
  fprintf(s->csv->file, "%.3f,%.3f,%.3f,%.3f,%.4f,%.2f,%.4f\n", c->median_us, c->min_us, c->p90_us, c->warm_us, tflops, gbps, c->median_us / cublas_us);
  output_flush(s->csv);
}

static const char csv_header[] =
    "gpu,sm_clock_mhz,power_w,driver,cuda,cublas,date,shape,m,n,k,kernel,status,bound_share,us_median,us_min,us_p90,us_warm,tflops,gbps,over_cublas\n";

/* Returns 0, or 1 when a result was wrong; a CUDA error in *status. */
static int run(const session *s, bench *b, cudaError_t *status) {
  turn turns[METHODS];
  contender contenders[METHODS] = {0};
  size_t scratch = 512;
  int n = 0, wrong = 0;
  double cublas_us = NAN;
  for (int i = 0; i < METHODS; i++) {
    const conv_kernel *k = methods[i].kernel;
    turns[n] = (turn){.b = b, .m = &methods[i]};
    const char *why = k ? kernel_plan_pass(k, &b->p, &b->gpu->device, &turns[n].plan) : NULL;
    if (why) printf("  SKIP %s: %s\n", methods[i].name, why);
    if (why) continue;
    contenders[n] = (contender){.enqueue = enqueue, .poison = poison, .check = check, .context = &turns[n]};
    if (k && k != &im2col_fprop && turns[n].plan.workspace_bytes > scratch) scratch = turns[n].plan.workspace_bytes;
    n++;
  }
  *status = make_sets(b, scratch);
  for (int i = 0; i < n && !*status; i++) *status = try_out(&turns[i], &contenders[i].first_seconds);
  if (!*status) *status = buffer_replicate(&b->sets);
  if (!*status) *status = time_in_turns(contenders, n, ON_GPU, b->sets.count, b->gpu);
  if (*status) return 1;
  for (int i = 0; i < n; i++)
    if (strcmp(turns[i].m->name, "cublas") == 0) cublas_us = contenders[i].median_us;
  printf("  %-15s %8s %8s %8s %8s  %7s  %5s  %6s\n", "", "us", "min", "p90", "warm L2", "TFLOP/s", "GB/s", "cublas");
  for (int i = 0; i < n; i++) {
    print_row(s, &turns[i], &contenders[i], cublas_us);
    wrong |= !turns[i].right;
  }
  return wrong;
}

static int measure(const session *s, const conv_problem *p, cudaError_t *status) {
  bench b = {.gpu = &s->gpu, .p = *p, .handle = s->handle, .scratch = s->scratch};
  char shape[256], error[512];
  problem_print(p, shape, sizeof shape);
  printf("\n%s: %d x %lld by %d terms\n", shape, p->K, (long long)p->N * p->P * p->Q, p->C * p->R * p->S);
  const char *why = p->groups != 1 ? "more than one group" : kernel_plan_pass(&im2col_fprop, p, &s->gpu.device, &b.im2col);
  if (why) return printf("  SKIP %s\n", why), 0;
  b.columns_bytes = (b.im2col.workspace_bytes + 511) / 512 * 512;
  int failed = 0;
  for (int role = 0; role < 3; role++) {
    b.host[role] = tensor_describe(p, (tensor_role)role, DTYPE_FP32, LAYOUT_NCHW);
    failed |= tensor_alloc(&b.host[role]);
    if (!failed && role != TENSOR_Y) tensor_fill_normal(&b.host[role], 1 + (uint64_t)role);
  }
  b.product = malloc(tensor_bytes(&b.host[TENSOR_Y]));
  if (failed || !b.product) {
    fprintf(stderr, "no host memory\n");
    failed = 1;
  } else if (reference_compute(&b.reference, p, PASS_FPROP, &b.host[TENSOR_X], &b.host[TENSOR_W], true, true, error, sizeof error)) {
    fprintf(stderr, "%s\n", error);
    failed = 1;
  } else {
    failed = run(s, &b, status);
  }
  if (*status) fprintf(stderr, "%s: %s\n", shape, cudaGetErrorString(*status));
  for (int role = 0; role < 3; role++) tensor_free(&b.host[role]);
  free(b.product);
  reference_free(&b.reference);
  buffer_sets_free(&b.sets);
  return failed;
}

/* ---------------------------------------------------------------- main */

static int read_problems(session *s, const char *shape, const char *suite) {
  char error[PATH_MAX + 512] = "", path[PATH_MAX];
  if (suite) {
    suite_path(suite, path);
    if (!suite_read(&s->suite, path, error, sizeof error)) return 0;
  } else if ((s->suite.problems = malloc(sizeof *s->suite.problems))) {
    s->suite.count = 1;
    if (!problem_parse(s->suite.problems, shape, error, sizeof error) && s->suite.problems->groups == 1) return 0;
    if (!*error) snprintf(error, sizeof error, "g: expected one group, got %d", s->suite.problems->groups);
  }
  fprintf(stderr, "%s: %s\n", suite ? "--suite" : "--shape", error);
  return 3;
}

/* Returns 0 to go on, or an exit status + 1. */
static int parse(session *s, int argc, char **argv) {
  enum { SHAPE = 256, SUITE, CSV, HELP };
  static const struct option table[] = {
      {"shape", required_argument, 0, SHAPE}, {"suite", required_argument, 0, SUITE}, {"csv", required_argument, 0, CSV}, {"help", no_argument, 0, HELP}, {0}};
  const char *shape = "mb16ic64ih56oc128oh56kh3ph1", *suite = NULL;
  int option;
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    switch (option) {
      case SHAPE: shape = optarg; break;
      case SUITE: suite = optarg; break;
      case CSV: s->csv_path = optarg; break;
      case HELP: fputs(help_text, stdout); return 1;
      default: return 3; /* getopt has said why */
    }
  }
  if (optind == argc) return read_problems(s, shape, suite);
  fprintf(stderr, "%s: expected options only (see --help), got \"%s\"\n", argv[0], argv[optind]);
  return 3;
}

/* The GPU, cuBLAS and the CSV file. Returns 0, or an exit status with a line on stderr. */
static int open_all(session *s) {
  char error[512];
  int major = 0, minor = 0, patch = 0;
  if (machine_open_gpu(&s->gpu, error, sizeof error)) return fputs("cublas: needs a GPU\n", stderr), 2;
  const char *missing = load_cublas();
  if (missing) return fprintf(stderr, "cublas: %s\n", missing), 2;
  if (cublas.p_cublasCreate_v2(&s->handle) || cudaMalloc(&s->scratch, SCRATCH)) return fputs("cublas: cublasCreate or its workspace failed\n", stderr), 1;
  cublas.p_cublasGetProperty(MAJOR_VERSION, &major), cublas.p_cublasGetProperty(MINOR_VERSION, &minor), cublas.p_cublasGetProperty(PATCH_LEVEL, &patch);
  snprintf(s->version, sizeof s->version, "%d.%d.%d", major, minor, patch);
  const time_t now = time(NULL);
  strftime(s->date, sizeof s->date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  if (s->csv_path && !(s->csv = output_open("--csv", s->csv_path))) return 2;
  if (s->csv) fputs(csv_header, s->csv->file);
  printf("cuBLAS %s on %s\n", s->version, s->gpu.device.name);
  return 0;
}

int main(int argc, char **argv) {
  static session s;
  cudaError_t status = cudaSuccess;
  output_start();
  const int parsed = parse(&s, argc, argv);
  if (parsed) return parsed - 1;
  int failed = open_all(&s);
  if (failed) return failed;
  for (int i = 0; i < s.suite.count && !status; i++) failed |= measure(&s, &s.suite.problems[i], &status);
  if (output_close(s.csv)) failed = 1;
  suite_free(&s.suite);
  return failed;
}

#endif
