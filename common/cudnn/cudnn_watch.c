/* A thread that ends the program where a plan does not end. See cudnn_watch.h. */
#include "common/cudnn/cudnn_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/files/input.h"
#include "common/files/output.h"

enum { TICK_US = 100000 };

static struct watched {
  pthread_mutex_t lock;
  bool started;
  char key[CUDNN_KEY], path[PATH_MAX];
  double until, seconds; /* of now(); until is 0: nothing is watched */
  const char *doing;
  watch_name *name;
  const void *context;
} w = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void give_up(void) {
  char tag[CUDNN_TAG];
  w.name(w.context, tag);
  output *o = *w.path ? output_append("plans that do not end", w.path) : NULL;
  if (o) fprintf(o->file, "%s%s\n", w.key, tag);
  const bool noted = o && output_close(o) == 0;
  fprintf(stderr, "cuDNN: expected its plan %s to %s in %.0f s, and it has not ended (%s)%s\n", tag, w.doing, w.seconds, w.key,
          noted ? ": the next run leaves it out" : "");
  fflush(NULL);
  _exit(1);
}

static void *watch(void *nothing) {
  for (;;) {
    usleep(TICK_US);
    pthread_mutex_lock(&w.lock);
    if (w.until > 0 && now() > w.until) give_up();
    pthread_mutex_unlock(&w.lock);
  }
  return nothing;
}

void watch_task(const char *key, const char *path) {
  pthread_t thread;
  pthread_mutex_lock(&w.lock);
  snprintf(w.key, sizeof w.key, "%s", key);
  snprintf(w.path, sizeof w.path, "%s", path ? path : "");
  if (!w.started) w.started = pthread_create(&thread, NULL, watch, NULL) == 0 && pthread_detach(thread) == 0;
  pthread_mutex_unlock(&w.lock);
}

void watch_begin(double seconds, const char *doing, watch_name *name, const void *context) {
  pthread_mutex_lock(&w.lock);
  w.until = now() + seconds, w.seconds = seconds, w.doing = doing, w.name = name, w.context = context;
  pthread_mutex_unlock(&w.lock);
}

void watch_end(void) {
  pthread_mutex_lock(&w.lock);
  w.until = 0;
  pthread_mutex_unlock(&w.lock);
}

int watch_known(const char *path, const char *key, char (*tags)[CUDNN_TAG], int room) {
  char *line = NULL;
  size_t size = 0;
  int count = 0;
  const char *why;
  FILE *file = input_open(path, false, &why);
  while (file && count < room && getline(&line, &size, file) > 0)
    if (strncmp(line, key, strlen(key)) == 0) snprintf(tags[count++], CUDNN_TAG, "%.*s", (int)strcspn(line + strlen(key), "\n"), line + strlen(key));
  free(line);
  if (file) fclose(file);
  return count;
}
