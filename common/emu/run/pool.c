/* The workers: OS threads that wait for launches. The thread that launches is worker 0. */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/emu/run/internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, idle = PTHREAD_COND_INITIALIZER;
static emu_worker *workers[EMU_MAX_WORKERS];
static emu_launch *current;   /* the launch that has blocks to give away, or NULL */
static uint64_t round_number; /* counts launches that the workers may take part in */
static int running, started;  /* workers that take part in the current one; workers there are */

static uint64_t seed_value;
static bool seed_known;

uint64_t emu_seed(void) {
  if (!seed_known) emu_set_seed(emu_setting(EMU_SET_SEED, 0));
  return seed_value;
}

void emu_set_seed(uint64_t seed) {
  seed_known = true;
  seed_value = seed;
}

int emu_worker_count(void) {
  static int count;
  if (count == 0) {
    cpu_set_t cores;
    int n = (int)emu_setting(EMU_SET_THREADS, 0);
    if (n < 1) n = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    count = n > EMU_MAX_WORKERS ? EMU_MAX_WORKERS : n;
  }
  return count;
}

static emu_worker *worker(int index) {
  if (workers[index] == NULL) workers[index] = emu_take(1, sizeof *workers[index], "a worker");
  return workers[index];
}

static void *worker_main(void *argument) {
  emu_worker *self = argument;
  emu_catch_signals();
  pthread_mutex_lock(&lock);
  for (uint64_t seen = 0;;) {
    while (round_number == seen) pthread_cond_wait(&work, &lock);
    seen = round_number;
    emu_launch *launch = current;
    if (launch == NULL) continue; /* woken too late: the others were done already */
    running++;
    pthread_mutex_unlock(&lock);
    emu_run_blocks(self, launch);
    pthread_mutex_lock(&lock);
    if (--running == 0) pthread_cond_signal(&idle);
  }
  return NULL;
}

/* Creates the other workers at the first launch that has something for them. */
static void start_workers(void) {
  for (started = 1; started < emu_worker_count(); started++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker_main, worker(started)) != 0) break;
    pthread_detach(thread);
  }
}

void emu_pool_run(emu_launch *launch) {
  emu_catch_signals();
  const bool alone = launch->block_count == 1 || emu_worker_count() == 1 || emu_seed() != 0;
  if (!alone) {
    pthread_mutex_lock(&lock);
    if (started == 0) start_workers();
    current = launch;
    round_number++;
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&lock);
  }
  emu_run_blocks(worker(0), launch);
  if (!alone) {
    pthread_mutex_lock(&lock);
    current = NULL;
    while (running > 0) pthread_cond_wait(&idle, &lock);
    pthread_mutex_unlock(&lock);
  }
}
