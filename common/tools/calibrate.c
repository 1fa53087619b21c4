/* Measures what this GPU can do and sets it beside the committed table (common/harness/gpus.h): `make calibrate`.
 *
 * The probes are small kernels in common/tools/calibrate/, one family a file. They are timed as the convolution kernels are (common/harness/timing.h:
 * CUDA events, warm-up, cold L2 cache, median of 20 samples), and every probe's result is checked. */
#include <stdio.h>

#include "common/harness/machine.h"

#ifdef CUDA_EMULATOR

int main(void) {
  fputs("calibrate: needs a GPU\n", stderr);
  return 2;
}

#else

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/files/output.h"
#include "common/harness/gpus.h"
#include "common/harness/timing.h"
#include "common/tools/calibrate/probe.h"

static const char help_text[] = "usage: calibrate [options]\n"
                                "  --only PREFIX   figures whose name begins so, such as latency\n"
                                "  --csv FILE      write them as CSV\n"
                                "Exit status: 0 all right, 1 a probe's result was wrong or a call failed, 2 bad input or no GPU.\n";

enum { COPY, READ, FP32, FP16, SHARED, CONSTANTS }; /* what common/harness/gpus.h has of a GPU */

typedef struct session {
  machine gpu;
  workbench bench;
  const char *only, *csv_path;
  output *csv;
  char stamp[300];        /* gpu, driver, CUDA, date: the first columns of every row */
  double here[CONSTANTS]; /* what this GPU does, in FLOP/s or bytes per second; 0: not measured */
  int rows;
  bool wrong;
} session;

/* ---------------------------------------------------------------- rows */

static const char csv_header[] = "gpu,driver,cuda,date,name,parameter,value,unit,best,p90,clock_mhz,power_w\n";

static void version_text(int version, char text[16]) { snprintf(text, 16, "%d.%d", version / 1000, version % 1000 / 10); }

static void open_stamp(session *s) {
  char driver[16], cuda[16], date[32];
  const time_t now = time(NULL);
  version_text(s->gpu.driver_version, driver);
  version_text(s->gpu.runtime_version, cuda);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  snprintf(s->stamp, sizeof s->stamp, "\"%.200s\",%s,%s,%s", s->gpu.device.name, driver, cuda, date);
  printf("%s, %d SMs, CUDA %s, driver for CUDA %s; median of the samples, the best of them, the 90th percentile\n\n", s->gpu.device.name,
         s->gpu.device.sm_count, cuda, driver);
  printf("%-15s %-22s %10s %-8s %10s %10s %6s %6s\n", "figure", "", "median", "", "best", "p90", "MHz", "W");
}

static void row(session *s, const char *name, const char *parameter, const char *unit, double value, double best, double p90, const contender *c) {
  s->rows++;
  printf("%-15s %-22s %10.5g %-8s", name, parameter, value, unit);
  if (s->csv) fprintf(s->csv->file, "%s,%s,%s,%.6g,%s,", s->stamp, name, parameter, value, unit);
  if (c) {
    printf(" %10.5g %10.5g %6.0f %6.0f", best, p90, c->clock_mhz, c->power_watts);
    if (s->csv) fprintf(s->csv->file, "%.6g,%.6g,%.0f,%.0f", best, p90, c->clock_mhz, c->power_watts);
  } else if (s->csv) {
    fputs(",,,", s->csv->file);
  }
  putchar('\n');
  fflush(stdout);
  if (!s->csv) return;
  fputc('\n', s->csv->file);
  output_flush(s->csv);
}

static bool wanted(const session *s, const char *name) { return !s->only || strncmp(name, s->only, strlen(s->only)) == 0; }

/* What the driver says; nothing is measured. */
static void device_rows(session *s) {
  static const struct {
    const char *name, *unit;
    enum cudaDeviceAttr attribute;
    double scale;
  } facts[] = {
      {"device_sms", "", cudaDevAttrMultiProcessorCount, 1},
      {"device_warps", "per SM", cudaDevAttrMaxThreadsPerMultiProcessor, 1.0 / 32},
      {"device_registers", "KiB/SM", cudaDevAttrMaxRegistersPerMultiprocessor, 4.0 / 1024},
      {"device_shared", "KiB/SM", cudaDevAttrMaxSharedMemoryPerMultiprocessor, 1.0 / 1024},
      {"device_l2", "MiB", cudaDevAttrL2CacheSize, 1.0 / (1 << 20)},
      {"device_clock", "MHz", cudaDevAttrClockRate, 1e-3},
  };
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    int value = 0;
    if (wanted(s, facts[i].name) && cudaDeviceGetAttribute(&value, facts[i].attribute, 0) == cudaSuccess)
      row(s, facts[i].name, "", facts[i].unit, value * facts[i].scale, 0, 0, NULL);
  }
  for (int blocks = 2, clusters; s->gpu.device.arch == 90 && wanted(s, "device_clusters") && blocks <= 16; blocks *= 2) {
    char parameter[24];
    snprintf(parameter, sizeof parameter, "blocks=%d", blocks);
    if (resident_clusters(blocks, &clusters) == cudaSuccess) row(s, "device_clusters", parameter, "", clusters, 0, 0, NULL);
  }
}

/* ---------------------------------------------------------------- beside the table */

/* Which probes measure a constant. */
static const struct {
  const char *name, *parameter;
  int constant;
} witnesses[] = {
    {"copy", "", COPY},
    {"copy_memcpy", "", COPY},
    {"read", "", READ},
    {"fp32_fma", "", FP32},
    {"fp16_mma", "", FP16},
    {"fp16_wgmma", "sustained", FP16},
    {"read_shared", "ways=1", SHARED},
};

/* Keeps the best witness of every constant. */
static void remember(double here[CONSTANTS], const probe *p, double per_second) {
  for (size_t i = 0; i < sizeof witnesses / sizeof *witnesses; i++)
    if (strcmp(p->name, witnesses[i].name) == 0 && strcmp(p->parameter, witnesses[i].parameter) == 0 && per_second > here[witnesses[i].constant])
      here[witnesses[i].constant] = per_second;
}

static void compare(const machine *gpu, const double here[CONSTANTS]) {
  static const char *const what[CONSTANTS] = {"main memory, copy, TB/s", "main memory, reads, TB/s", "fp32 multiply-adds, TFLOP/s",
                                              "fp16 on tensor cores, TFLOP/s", "shared memory, all SMs, TB/s"};
  const gpu_limits *g = gpu_limits_of(gpu->device.name);
  printf("\n%-32s %8s %8s\n", "", "here", "gpus.h");
  for (int i = 0; i < CONSTANTS; i++) {
    const double of_table[CONSTANTS] = {g ? g->copy_per_second : 0, g ? g->read_per_second : 0, g ? g->fp32_flops : 0, g ? g->fp16_flops : 0,
                                        g ? g->l1_per_second : 0};
    const double constant = of_table[i];
    if (here[i] <= 0) continue;
    printf("%-32s %8.4g ", what[i], 1e-12 * here[i]);
    if (constant > 0) printf("%8.4g  %.1f %%%s\n", 1e-12 * constant, 100 * here[i] / constant, here[i] > 1.01 * constant ? ": better than the table" : "");
    else puts("no row for this GPU");
  }
}

/* ---------------------------------------------------------------- one probe */

typedef struct turn {
  const probe *p;
  const workbench *w;
  int sets;
  bool right;
  double clocks;
} turn;

static cudaError_t enqueue(void *context, int set, cudaStream_t stream) {
  const turn *t = context;
  return t->p->launch(t->p, t->w, set, stream);
}

static cudaError_t poison(void *context) { /* NaN in result, and in what launches of all sets may write */
  const turn *t = context;
  const cudaError_t status = cudaMemset(t->w->result, 0xFF, RESULT_BYTES);
  return status || t->p->prepare ? status : cudaMemset(t->w->target, 0xFF, t->sets * t->p->bytes);
}

static cudaError_t check(void *context, int first, int count) {
  turn *t = context;
  return t->p->check(t->p, t->w, (first + count - 1) % t->sets, &t->right, &t->clocks);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of the second launch; the first one loads the kernel. */
static cudaError_t launch_once(turn *t, double *seconds) {
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < 2 && !status; i++) {
    const double start = now();
    status = enqueue(t, 0, 0);
    if (!status) status = cudaDeviceSynchronize();
    *seconds = now() - start;
  }
  return status;
}

static cudaError_t measure(session *s, const probe *p) {
  const struct timespec rest = {.tv_nsec = 200000000}; /* so that the probe before does not warm this one up */
  turn t = {.p = p, .w = &s->bench, .sets = 1};
  contender c = {.enqueue = enqueue, .poison = poison, .check = check, .context = &t};
  if (p->bytes) t.sets = timing_sets(p->bytes, s->gpu.device.l2_bytes);
  if (t.sets * p->bytes > s->bench.bytes) t.sets = (int)(s->bench.bytes / p->bytes);
  cudaError_t status = p->prepare ? p->prepare(p, &s->bench) : cudaSuccess;
  if (!status) status = launch_once(&t, &c.first_seconds);
  if (p->one_by_one && c.first_seconds < 6e-3) c.first_seconds = 6e-3; /* too long for a graph, timing.c will think */
  if (!p->sustained) nanosleep(&rest, NULL);
  for (int times = p->sustained ? 2 : 1; times > 0 && !status; times--) status = time_in_turns(&c, 1, ON_GPU, t.sets, &s->gpu);
  if (status || !t.right) {
    fprintf(stderr, "%s %s: %s\n", p->name, p->parameter, status ? cudaGetErrorString(status) : "the kernel's result is wrong");
    s->wrong = true;
    return status;
  }
  if (strcmp(p->unit, "ns") == 0) {
    char name[40];
    row(s, p->name, p->parameter, p->unit, 1e3 * c.median_us / p->work, 1e3 * c.min_us / p->work, 1e3 * c.p90_us / p->work, &c);
    snprintf(name, sizeof name, "clocks%s", strchr(p->name, '_')); /* latency_l2 -> clocks_l2 */
    row(s, name, p->parameter, "clocks", t.clocks, t.clocks, t.clocks, &c);
  } else if (strcmp(p->unit, "us") == 0) {
    row(s, p->name, p->parameter, p->unit, c.median_us / p->work, c.min_us / p->work, c.p90_us / p->work, &c);
  } else {
    remember(s->here, p, 1e6 * p->work / c.median_us);
    const double unit = strcmp(p->unit, "GB/s") == 0 ? 1e-3 * p->work : 1e-6 * p->work; /* of one launch, times microseconds */
    row(s, p->name, p->parameter, p->unit, unit / c.median_us, unit / c.min_us, unit / c.p90_us, &c);
  }
  return status;
}

/* ---------------------------------------------------------------- main */

static int parse(session *s, int argc, char **argv) {
  enum { ONLY = 256, CSV, HELP };
  static const struct option table[] = {{"only", required_argument, 0, ONLY}, {"csv", required_argument, 0, CSV}, {"help", no_argument, 0, HELP}, {0}};
  int option;
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    switch (option) {
      case ONLY: s->only = optarg; break;
      case CSV: s->csv_path = optarg; break;
      case HELP: fputs(help_text, stdout); exit(0);
      default: return -1; /* getopt has said why */
    }
  }
  if (optind == argc) return 0;
  fprintf(stderr, "%s: expected an option, see --help\n", argv[optind]);
  return -1;
}

static cudaError_t open_bench(session *s) {
  workbench *w = &s->bench;
  const size_t most = (size_t)4 << 30;
  int threads = 0;
  w->device = &s->gpu.device;
  w->bytes = s->gpu.device.memory_bytes / 8 < most ? s->gpu.device.memory_bytes / 8 >> 20 << 20 : most;
  cudaError_t status = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0);
  w->warps_per_sm = threads / 32;
  if (!status) status = cudaMalloc((void **)&w->source, w->bytes);
  if (!status) status = cudaMalloc((void **)&w->target, w->bytes);
  if (!status) status = cudaMalloc((void **)&w->result, RESULT_BYTES);
  if (!status) status = fill_random(w->source, w->bytes);
  return status ? status : cudaDeviceSynchronize();
}

static cudaError_t measure_all(session *s) {
  static probe_list list;
  add_memory_probes(&list, &s->bench);
  add_stride_probes(&list, &s->bench);
  add_warps_probes(&list, &s->bench);
  add_shared_probes(&list, &s->bench);
  add_l1_probes(&list, &s->bench);
  add_latency_probes(&list, &s->bench);
  add_tensor_probes(&list, &s->bench);
  add_hopper_probes(&list, &s->bench);
  add_box_probes(&list, &s->bench);
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < list.count && !status; i++)
    if (wanted(s, list.probe[i].name)) status = measure(s, &list.probe[i]);
  return status;
}

int main(int argc, char **argv) {
  static session s;
  char error[512];
  output_start();
  if (parse(&s, argc, argv)) return 2;
  if (machine_open_gpu(&s.gpu, error, sizeof error)) {
    fputs("calibrate: needs a GPU\n", stderr);
    return 2;
  }
  if (s.csv_path && !(s.csv = output_open("--csv", s.csv_path))) return 2;
  if (s.csv) fputs(csv_header, s.csv->file);
  cudaError_t status = open_bench(&s);
  if (!status) {
    open_stamp(&s);
    device_rows(&s);
    status = measure_all(&s);
  }
  if (status) fprintf(stderr, "calibrate: %s\n", cudaGetErrorString(status));
  compare(&s.gpu, s.here);
  if (!status && !s.wrong && s.rows == 0) {
    fprintf(stderr, "--only: expected the beginning of a figure's name, got \"%s\"\n", s.only);
    return 2;
  }
  return output_close(s.csv) || status || s.wrong ? 1 : 0;
}

#endif
