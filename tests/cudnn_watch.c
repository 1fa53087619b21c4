/* A plan of cuDNN's that does not end: the program ends, says which one, and writes it down; the next run knows it. */
#include "common/cudnn/cudnn_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

static const char key[] = "\"GPU\",91900,g8mb1ic8ih7oc8oh1kh7,fprop,fp16,NHWC,conv,1024,";

static void name_it(const void *context, char tag[CUDNN_TAG]) { snprintf(tag, CUDNN_TAG, "%s", (const char *)context); }

/* In a process of its own: a plan of so many milliseconds, watched for `seconds`. Returns the exit status; what it said in `text`. */
static int run(const char *path, unsigned milliseconds, double seconds, char text[1024]) {
  int ends[2], status = -1;
  if (pipe(ends)) return -1;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    watch_task(key, path);
    watch_begin(seconds, "run", name_it, "eng5_k2=1");
    usleep(1000 * milliseconds);
    watch_end();
    usleep(500000); /* what has ended is watched no longer */
    _exit(0);
  }
  close(ends[1]);
  const ssize_t got = read(ends[0], text, 1023);
  text[got > 0 ? got : 0] = 0;
  close(ends[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
  plan(0);
  char path[] = "/tmp/endless-XXXXXX", text[1024], tags[4][CUDNN_TAG];
  const int file = mkstemp(path);
  close(file);
  unlink(path);
  ok(watch_known(path, key, tags, 4) == 0, "without a file nothing is known");
  ok(run(path, 10, 0.3, text) == 0 && *text == 0, "a plan that ends in time: nothing is said");
  ok(access(path, F_OK) != 0, "nor written");
  int status = run(path, 5000, 0.3, text);
  ok(status == 1, "one that does not end ends the program, exit status 1 (got %d)", status);
  ok(strstr(text, "cuDNN: expected its plan eng5_k2=1 to run in 0 s, and it has not ended") && strstr(text, "the next run leaves it out") &&
         strchr(text, '\n') == text + strlen(text) - 1,
     "in one line that names it: %.*s", (int)strcspn(text, "\n"), text);
  ok(watch_known(path, key, tags, 4) == 1 && strcmp(tags[0], "eng5_k2=1") == 0, "the next run knows it");
  ok(watch_known(path, "\"GPU\",91900,mb1ic8ih7oc8oh1kh7,", tags, 4) == 0, "for this layer alone");
  unlink(path);
  status = run(NULL, 5000, 0.3, text);
  ok(status == 1 && !strstr(text, "the next run"), "without a place to write it is said all the same");
  return done_testing();
}
