/* Winners' files: what is written is found again, by its key; a damaged line is named. */
#include "common/cudnn/cudnn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

static cudnn_task task_of(const conv_problem *p, conv_pass pass, conv_dtype dtype, conv_layout layout) {
  return (cudnn_task){.problem = p, .pass = pass, .dtype = dtype, .layout = layout};
}

static void winners(void) {
  conv_problem p, other;
  char error[512] = "", path[] = "/tmp/cudnn-XXXXXX";
  problem_parse(&p, "mb2ic8ih9oc16kh3ph1n\"a, \"", error, sizeof error);
  problem_parse(&other, "mb3ic8ih9oc16kh3ph1", error, sizeof error);
  const int file = mkstemp(path);
  if (file < 0) {
    ok(0, "a file in /tmp");
    return;
  }
  close(file);
  const cudnn_task task = task_of(&p, PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC), unknown = task_of(&other, PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC);
  const cudnn_task backward = task_of(&p, PASS_DGRAD, DTYPE_FP16, LAYOUT_NHWC);
  cudnn_task fused = task;
  fused.epilogue = (conv_epilogue){.bias = true, .activation = ACTIVATION_RELU};
  const char *gpu = "GPU \"X\", 2nd";
  const cudnn_winners first = {.count = 1, .tag = {"eng1"}, .us = {9}},
                      second = {.count = 3, .tag = {"eng79_k17=2_k24=3", "eng1_k12=-1", "eng0@NCHW"}, .us = {1.5, 2.25, 1000}, .search = "timed=7;cut=0"};
  const cudnn_winners of_fused = {.count = 5, .tag = {"eng0", "eng1", "eng2", "eng3", "eng4"}, .us = {1, 2, 3, 4, 5}};
  int status = cudnn_winners_append(path, &task, gpu, 91900, 1 << 20, &first);
  status |= cudnn_winners_append(path, &task, gpu, 91900, 1 << 20, &second);
  status |= cudnn_winners_append(path, &fused, gpu, 91900, 1 << 20, &of_fused);
  ok(status == 0, "three lines are written %s", error);
  cudnn_winners found = {0};
  status = cudnn_winners_lookup(path, &task, gpu, 91900, 1 << 20, &found, error, sizeof error);
  int same = status == 0 && found.count == 3;
  for (int i = 0; same && i < 3; i++) same = strcmp(found.tag[i], second.tag[i]) == 0 && found.us[i] == second.us[i];
  ok(same, "the last line of a key is found again, tags and times (%d plans)", found.count);
  ok(strcmp(found.search, "timed=7;cut=0") == 0, "and what became of the search's plans: %s", found.search);
  ok(cudnn_winners_lookup(path, &fused, gpu, 91900, 1 << 20, &found, error, sizeof error) == 0 && found.count == 5 && found.us[4] == 5,
     "a fused graph has its own line");
  ok(cudnn_winners_lookup(path, &unknown, gpu, 91900, 1 << 20, &found, error, sizeof error) == 1, "another shape is not there");
  ok(cudnn_winners_lookup(path, &backward, gpu, 91900, 1 << 20, &found, error, sizeof error) == 1, "another pass is not there");
  ok(cudnn_winners_lookup(path, &task, gpu, 91400, 1 << 20, &found, error, sizeof error) == 1, "another cuDNN is not there");
  ok(cudnn_winners_lookup(path, &task, "GPU", 91900, 1 << 20, &found, error, sizeof error) == 1, "another GPU is not there");
  ok(cudnn_winners_lookup(path, &task, gpu, 91900, 1 << 30, &found, error, sizeof error) == 1, "another workspace is not there");
  ok(cudnn_winners_lookup("/nonexistent/file", &task, gpu, 91900, 1, &found, error, sizeof error) == 1, "a missing file knows nothing");
  ok(cudnn_winners_lookup("/tmp", &task, gpu, 91900, 1, &found, error, sizeof error) == -1 && strcmp(error, "/tmp: cannot read: Is a directory") == 0,
     "a folder is no file: %s", error);
  FILE *f = fopen(path, "r");
  char line[512];
  int key = 0;
  for (; f && fgets(line, sizeof line, f) && key < 400; key++)
    if (line[0] == '"') break;
  if (f) fclose(f);
  char *end = strstr(line, "eng");
  if (end && (f = fopen(path, "a"))) {
    fprintf(f, "%.*seng1,2.5,,,,,,,,\n", (int)(end - line), line); /* as older versions wrote it */
    fclose(f);
  }
  ok(cudnn_winners_lookup(path, &task, gpu, 91900, 1 << 20, &found, error, sizeof error) == 0 && found.count == 1 && found.search[0] == 0,
     "a line without that is read");
  static const char *const damaged[] = {"inf", "nan", "1e999", "-2.5", "2.5us", "2.5 "};
  for (size_t i = 0; end && i < sizeof damaged / sizeof *damaged; i++) {
    char other[] = "/tmp/cudnn-XXXXXX";
    const int new = mkstemp(other);
    if (new < 0 || !(f = fdopen(new, "w"))) continue;
    fprintf(f, "%.*seng0,1.5,eng1,%s,,,,,,,\n", (int)(end - line), line, damaged[i]);
    fclose(f);
    error[0] = 0;
    ok(cudnn_winners_lookup(other, &task, gpu, 91900, 1 << 20, &found, error, sizeof error) == -1 && strstr(error, ":1: expected plan tags and microseconds"),
       "\"%s\" is no time: %s", damaged[i], error);
    unlink(other);
  }
  if (end && (f = fopen(path, "a"))) {
    fprintf(f, "%.*seng1,fast,,,,,,,,\n", (int)(end - line), line);
    fclose(f);
  }
  ok(cudnn_winners_lookup(path, &task, gpu, 91900, 1 << 20, &found, error, sizeof error) == -1 && strstr(error, ":6: expected"), "a damaged line is named: %s",
     error);
  if ((f = fopen(path, "w"))) {
    fwrite("# a comment\0\n", 1, 13, f);
    fclose(f);
  }
  ok(cudnn_winners_lookup(path, &task, gpu, 91900, 1 << 20, &found, error, sizeof error) == -1 && strstr(error, ":1: expected text, got a zero byte"),
     "a zero byte is named: %s", error);
  unlink(path);
}

int main(void) {
  plan(0);
  winners();
  return done_testing();
}
