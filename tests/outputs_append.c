/* Rows at the end of a file: whole ones, under one header line, and where the disk is full none. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cudnn/cudnn.h"
#include "common/files/output.h"
#include "tests/tap.h"

static off_t size_of(const char *path) {
  struct stat info;
  return stat(path, &info) ? -1 : info.st_size;
}

int main(void) {
  char path[] = "/tmp/append-XXXXXX", error[512];
  conv_problem p;
  plan(0);
  if (mkstemp(path) < 0 || problem_parse(&p, "mb2ic8ih9oc16kh3ph1", error, sizeof error) || !freopen("/dev/null", "w", stderr)) return 1;
  const cudnn_task task = {.problem = &p, .pass = PASS_FPROP, .dtype = DTYPE_FP16, .layout = LAYOUT_NHWC};
  const cudnn_winners kept = {.count = 1, .tag = {"eng1"}, .us = {9}}, late = {.count = 1, .tag = {"eng2"}, .us = {8}};
  cudnn_winners found;
  int status = cudnn_winners_append(path, &task, "GPU", 91900, 1, &kept);
  const off_t before = size_of(path);
  const struct rlimit full = {(rlim_t)before + 20, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &full)) return 1;
  status |= !cudnn_winners_append(path, &task, "GPU", 91900, 1, &late);
  setrlimit(RLIMIT_FSIZE, &none);
  ok(status == 0 && size_of(path) == before, "a row for which there is no room leaves nothing: %lld bytes, before %lld", (long long)size_of(path),
     (long long)before);
  status = cudnn_winners_append(path, &task, "GPU", 91900, 1, &late);
  ok(status == 0 && cudnn_winners_lookup(path, &task, "GPU", 91900, 1, &found, error, sizeof error) == 0 && strcmp(found.tag[0], "eng2") == 0,
     "the next one is read again");

  unlink(path);
  output *o = output_append("--csv", path), *other = o ? output_append("--append", path) : o;
  ok(o && o->empty && !other, "a file that is being written is no other's");
  if (!o) return done_testing();
  fputs("row\n", o->file);
  status = output_flush(o) | (size_of(path) != 4);
  fputs("half a", o->file);
  output_discard(o);
  ok(status == 0 && size_of(path) == 4, "rows are there after they are flushed, and what is discarded is not");
  o = output_append("--csv", path);
  ok(o && !o->empty && output_close(o) == 0 && size_of(path) == 4, "it is not new any more");
  unlink(path);
  return done_testing();
}
