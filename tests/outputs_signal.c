/* A program that writes a file is ended by SIGTERM even where a library has put its own handler in the place of ours, and leaves nothing half written. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files/output.h"
#include "tests/tap.h"

static void theirs(int number) { (void)number; }

static void work(const char *path, int ready) {
  output_start();
  output *o = output_open("--csv", path);
  signal(SIGTERM, theirs);
  if (!o || write(ready, "", 1) != 1) _exit(3);
  for (;;) pause();
}

int main(void) {
  char folder[] = "/tmp/outputs_signal.XXXXXX", path[64], byte;
  int ends[2], status = 0;
  if (!mkdtemp(folder) || pipe(ends)) return 1;
  snprintf(path, sizeof path, "%s/a", folder);
  const pid_t child = fork();
  if (child == 0) work(path, ends[1]);
  close(ends[1]);
  ok(read(ends[0], &byte, 1) == 1, "it has begun to write");
  alarm(20);
  kill(child, SIGTERM);
  ok(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "SIGTERM ends it, although a library handles it");
  ok(rmdir(folder) == 0, "and its folder is empty");
  return done_testing();
}
