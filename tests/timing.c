/* Does the timing do what timing.h says? Contenders that keep a diary: who ran when, on which buffer set, and what was checked. */
#include "common/harness/timing.h"

#include <string.h>
#include <time.h>

#include "tests/tap.h"

enum { DIARY = 100000, SETS = 4 };

typedef struct {
  char who;
  int runs[SETS], poisoned_at, checked_at; /* counts of runs when it happened; -1: never */
  int poisons, checks, checked_first, checked_count;
  double microseconds;
} player;

static char diary[DIARY];
static int entries;

static int total(const player *p) {
  int sum = 0;
  for (int i = 0; i < SETS; i++) sum += p->runs[i];
  return sum;
}

static void busy(double microseconds) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((double)(now.tv_sec - start.tv_sec) * 1e6 + (double)(now.tv_nsec - start.tv_nsec) * 1e-3 < microseconds);
}

static cudaError_t enqueue(void *context, int set, cudaStream_t stream) {
  player *p = context;
  (void)stream;
  p->runs[set]++;
  if (entries < DIARY) diary[entries++] = p->who;
  busy(p->microseconds);
  return cudaSuccess;
}

static cudaError_t poison(void *context) {
  player *p = context;
  p->poisons++;
  p->poisoned_at = total(p);
  return cudaSuccess;
}

static cudaError_t check(void *context, int first, int count) {
  player *p = context;
  p->checked_first = first, p->checked_count = count;
  p->checks++;
  p->checked_at = total(p);
  return cudaSuccess;
}

/* Long launches do not go over all sets in every sample; the next sample goes on where the last one stopped. */
static void few_launches(void) {
  player a = {.who = 'a', .microseconds = 15000};
  contender turn = {.enqueue = enqueue, .poison = poison, .check = check, .context = &a, .first_seconds = 16e-3};
  machine m;
  machine_open_cpu(&m);
  const cudaError_t status = time_in_turns(&turn, 1, ON_CPU, SETS, &m);
  ok(status == cudaSuccess && turn.count < TIMING_SAMPLES, "half a second of samples is enough (%d samples)", turn.count);
  ok(a.runs[0] > 1 && a.runs[3] > 1 && a.runs[0] - a.runs[3] <= 1, "two launches a sample, yet all sets take part (%d %d %d %d)", a.runs[0], a.runs[1],
     a.runs[2], a.runs[3]);
  ok(a.checked_count == 2 && a.checked_first % 2 == 0, "the check is told which sets the last sample wrote");
}

static void on_cpu(void) {
  player a = {.who = 'a', .microseconds = 200}, b = {.who = 'b', .microseconds = 600}, slow = {.who = 's', .microseconds = 1};
  contender turns[3] = {
      {.enqueue = enqueue, .poison = poison, .check = check, .context = &a, .first_seconds = 200e-6},
      {.enqueue = enqueue, .poison = poison, .check = check, .context = &b, .first_seconds = 600e-6},
      {.enqueue = enqueue, .poison = poison, .check = check, .context = &slow, .first_seconds = 1.5},
  };
  machine m;
  machine_open_cpu(&m);
  ok(time_in_turns(turns, 3, ON_CPU, SETS, &m) == cudaSuccess, "three contenders on the CPU");
  ok(turns[0].count == TIMING_SAMPLES && turns[1].count == TIMING_SAMPLES, "20 samples each (%d, %d)", turns[0].count, turns[1].count);
  ok(turns[0].min_us >= 200 && turns[0].min_us <= turns[0].median_us && turns[0].median_us <= turns[0].p90_us,
     "minimum, median and 90th percentile are in order (%.0f %.0f %.0f us)", turns[0].min_us, turns[0].median_us, turns[0].p90_us);
  ok(turns[0].median_us < turns[1].median_us, "the faster one is faster");
  ok(a.runs[0] == a.runs[1] && a.runs[0] == a.runs[3] && a.runs[0] == TIMING_SAMPLES + 1, "every sample goes over all buffer sets, after one warm-up");
  diary[entries < DIARY ? entries : DIARY - 1] = 0;
  ok(strncmp(diary, "aaaabbbbaaaabbbbaaaabbbb", 24) == 0, "they take turns, sample by sample");
  ok(a.poisons == 1 && a.checks == 1 && a.poisoned_at == total(&a) - SETS && a.checked_at == total(&a),
     "outputs are poisoned before the last sample and checked after it");
  ok(total(&slow) == 0 && turns[2].count == 1 && turns[2].median_us == 1.5e6, "a launch of over a second is not repeated: its one time stands");
}

/* On a GPU the harness captures the launches into graphs. A contender without kernels still shows which sets were captured, and how often. */
static void on_gpu(void) {
  int devices = 0;
  machine m;
  char error[256];
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 || machine_open_gpu(&m, error, sizeof error)) {
    ok(1, "graph timing # SKIP no device");
    return;
  }
  player a = {.who = 'a'}, b = {.who = 'b'};
  contender turns[2] = {{.enqueue = enqueue, .poison = poison, .check = check, .context = &a, .first_seconds = 1e-6},
                        {.enqueue = enqueue, .poison = poison, .check = check, .context = &b, .first_seconds = 1e-6}};
  ok(time_in_turns(turns, 2, ON_GPU, SETS, &m) == cudaSuccess, "two contenders on the device");
  ok(a.runs[1] == 3 && a.runs[2] == 3 && a.runs[3] == 3 && a.runs[0] == 3 + 12,
     "captured once cold over all sets in turn (12 launches), once warm over the first alone");
  ok(turns[0].count == TIMING_SAMPLES + 1 && a.poisons == 1 && a.checks == 1 && b.checks == 1,
     "20 samples, and one more into poisoned outputs that is checked");
}

/* A board: its clock is that of whoever launched last, and so is its power; the average over a second is a mixture. */
static int board_clock(void *device, int type, unsigned *mhz) {
  return (void)device, *mhz = type != TELEMETRY_SM_CLOCK ? 1 : diary[entries - 1] == 'a' ? 1980 : 1410, 0;
}
static int board_average(void *device, unsigned *milliwatts) { return (void)device, *milliwatts = 400000, 0; }
static int board_fields(void *device, int count, telemetry_field *field) {
  (void)device;
  field->type = TELEMETRY_NATURAL, field->status = count != 1 || field->id != TELEMETRY_POWER_NOW;
  field->value.natural = diary[entries - 1] == 'a' ? 300000 : 700000;
  return 0;
}
static int no_fields(void *device, int count, telemetry_field *field) { return (void)device, (void)count, field->status = 3, 0; }
static int no_clock(void *device, int type, unsigned *mhz) { return (void)device, (void)type, *mhz = 1980, 999; }

/* Clock and power are read while the contender runs that they are said to be of. */
static void telemetry_of_each(void) {
  int devices = 0;
  machine m;
  char error[256];
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 || machine_open_gpu(&m, error, sizeof error)) {
    ok(1, "telemetry # SKIP no device");
    return;
  }
  telemetry_calls board = {.clock = board_clock, .power = board_average, .fields = board_fields};
  player a = {.who = 'a', .microseconds = 3000}, b = {.who = 'b', .microseconds = 2000};
  contender turns[2] = {{.enqueue = enqueue, .poison = poison, .check = check, .context = &a, .first_seconds = 10e-3}, /* longer than a graph's */
                        {.enqueue = enqueue, .poison = poison, .check = check, .context = &b, .first_seconds = 10e-3}};
  m.telemetry = &board, m.device.emulated = true, m.device.arch = 90;
  entries = 0;
  const cudaError_t status = time_in_turns(turns, 2, ON_GPU, SETS, &m);
  ok(status == cudaSuccess && turns[0].count > 0, "two contenders on a board: %s", cudaGetErrorString(status));
  ok(turns[0].clock_mhz == 1980 && turns[1].clock_mhz == 1410, "each contender's clock is its own (%.0f and %.0f MHz)", turns[0].clock_mhz, turns[1].clock_mhz);
  ok(turns[0].power_watts == 300 && turns[1].power_watts == 700, "and so is its power (%.0f and %.0f W)", turns[0].power_watts, turns[1].power_watts);
  board.fields = no_fields;
  ok(machine_power_watts(&m) == 0, "an average over a second is nobody's: no power is better");
  m.device.arch = 80;
  ok(machine_power_watts(&m) == 400, "up to compute capability 8.0 it is no average");
  board.clock = no_clock;
  ok(machine_clock_mhz(&m) == 0, "a clock that NVML could not read is none");
}

int main(void) {
  plan(0);
  ok(timing_sets(1 << 20, 60 << 20) == 121, "1 MiB against a cache of 60 MiB: 120 other sets pass between two uses of one");
  ok(timing_sets((size_t)1 << 30, 60 << 20) == 2, "1 GiB: two sets");
  ok(timing_sets(4, 60 << 20) == 2048, "never more than 2048");
  ok(timing_is_cold(1 << 20, 121, 60 << 20) && !timing_is_cold(4, 2048, 60 << 20), "and that is not enough for a tiny problem, which is told");
  on_cpu();
  few_launches();
  on_gpu();
  telemetry_of_each();
  return done_testing();
}
