/* Winners of earlier searches in a CSV file, so that a later run re-times five plans instead of searching two hundred.
 *
 * gpu,cudnn,shape,pass,dtype,layout,graph,workspace,plan1,us1, ... ,plan5,us5,search
 * "NVIDIA H200",91900,mb32ic64ih56oc64oh56kh3ph1,fprop,fp16,NHWC,conv,1073741824,eng79_k24=3,25.0, ... ,timed=143;cut=12; ...
 *
 * No field but the GPU's name needs quotes. Missing plans are empty fields. Lines starting with # are comments. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cudnn/cudnn.h"
#include "common/files/input.h"
#include "common/files/output.h"
#include "common/harness/gpus.h"

enum { PLAN_FIELDS = 2 * CUDNN_BEST };
static const char header[] = "gpu,cudnn,shape,pass,dtype,layout,graph,workspace,plan1,us1,plan2,us2,plan3,us3,plan4,us4,plan5,us5,search";

void cudnn_task_key(const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, char key[CUDNN_KEY]) {
  conv_problem plain = *task->problem;
  plain.name[0] = 0, plain.repeat = 1;
  char shape[256], graph[CUDNN_GRAPH_NAME], name[128];
  size_t n = 0;
  for (const char *c = gpu; *c && n < sizeof name - 1; c++) name[n++] = *c == '"' || *c == '\n' ? '\'' : *c;
  name[n] = 0;
  problem_print(&plain, shape, sizeof shape);
  cudnn_graph_name(task, graph);
  snprintf(key, CUDNN_KEY, "\"%s\",%d,%s,%s,%s,%s,%s,%zu,", name, version, shape, pass_name(task->pass), dtype_name(task->dtype), layout_name(task->layout),
           graph, workspace_limit);
}

/* The plans behind the key. Returns false when a field is no tag or no time. */
static bool read_plans(const char *text, cudnn_winners *winners) {
  *winners = (cudnn_winners){0};
  const char *search = text;
  for (int field = 0; field < PLAN_FIELDS && search; field++) {
    search = strchr(search, ',');
    if (search) search++;
  }
  if (search) snprintf(winners->search, sizeof winners->search, "%.*s", (int)strcspn(search, "\n"), search);
  while (winners->count < CUDNN_BEST && *text && *text != '\n' && *text != ',') {
    const size_t length = strcspn(text, ",\n");
    char *end;
    if (length >= CUDNN_TAG || text[length] != ',') return false;
    memcpy(winners->tag[winners->count], text, length);
    winners->tag[winners->count][length] = 0;
    const double us = strtod(text + length + 1, &end);
    if (end == text + length + 1 || !(us > 0 && isfinite(us)) || (*end && *end != ',' && *end != '\n')) return false;
    winners->us[winners->count++] = us;
    text = *end == ',' ? end + 1 : end;
  }
  return winners->count > 0;
}

void cudnn_counts_print(const cudnn_counts *c, char text[CUDNN_SEARCH]) {
  int n =
      snprintf(text, CUDNN_SEARCH, "timed=%d;cut=%d;other_math=%d;hopeless=%d;refused=%d;over_workspace=%d;not_capturable=%d;failed=%d;wrong=%d;seconds=%.1f",
               c->timed, c->cut, c->other_math, c->hopeless, c->refused, c->over_workspace, c->not_capturable, c->failed, c->wrong, c->seconds);
  if (c->kin) n += snprintf(text + n, CUDNN_SEARCH - (size_t)n, ";kin=%d", c->kin);
  if (c->endless) n += snprintf(text + n, CUDNN_SEARCH - (size_t)n, ";endless=%d", c->endless);
  if (c->wrong) snprintf(text + n, CUDNN_SEARCH - (size_t)n, ";fastest_wrong=%s;its_us=%.1f;its_plain_share=%.3g", c->wrong_tag, c->wrong_us, c->wrong_share);
}

int cudnn_winners_lookup(const char *path, const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, cudnn_winners *winners, char *error,
                         size_t error_size) {
  char key[CUDNN_KEY], *line = NULL;
  size_t line_size = 0;
  ssize_t length;
  cudnn_task_key(task, gpu, version, workspace_limit, key);
  if (access(path, F_OK) && errno == ENOENT) return 1;
  const char *unreadable;
  FILE *file = input_open(path, false, &unreadable);
  if (!file) {
    snprintf(error, error_size, "%s: cannot read: %s", path, unreadable);
    return -1;
  }
  int status = 1;
  for (int number = 1; status >= 0 && (length = getline(&line, &line_size, file)) > 0; number++) {
    if (strlen(line) != (size_t)length) {
      snprintf(error, error_size, "%s:%d: expected text, got a zero byte", path, number);
      status = -1;
    }
    if (status < 0 || strncmp(line, key, strlen(key)) != 0) continue;
    status = read_plans(line + strlen(key), winners) ? 0 : -1;
    if (status)
      snprintf(error, error_size, "%s:%d: expected plan tags and microseconds by turns, got \"%.*s\"", path, number, (int)strcspn(line + strlen(key), "\n"),
               line + strlen(key));
  }
  free(line);
  fclose(file);
  return status;
}

int cudnn_winners_kin(const char *path, const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, cudnn_kin *kin, int room) {
  char key[CUDNN_KEY], own[CUDNN_GRAPH_NAME], behind[32], *line = NULL;
  size_t line_size = 0;
  int count = 0;
  cudnn_task_key(task, gpu, version, workspace_limit, key);
  cudnn_graph_name(task, own);
  snprintf(behind, sizeof behind, ",%zu,", workspace_limit);
  const size_t before = strlen(key) - strlen(own) - strlen(behind);
  const char *unreadable;
  FILE *file = input_open(path, false, &unreadable);
  while (file && getline(&line, &line_size, file) > 0) {
    if (strncmp(line, key, before) != 0) continue;
    cudnn_kin one;
    const char *name = line + before;
    const size_t length = strcspn(name, ",");
    snprintf(one.graph, sizeof one.graph, "%.*s", (int)(length < CUDNN_GRAPH_NAME ? length : 0), name);
    if (strcmp(one.graph, own) == 0 || strncmp(name + length, behind, strlen(behind)) != 0 || !read_plans(name + length + strlen(behind), &one.winners))
      continue;
    int at = 0;
    while (at < count && strcmp(kin[at].graph, one.graph) != 0) at++;
    if (at == room) continue;
    kin[at] = one;
    count += at == count;
  }
  free(line);
  if (file) fclose(file);
  return count;
}

int cudnn_winners_append(const char *path, const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, const cudnn_winners *winners) {
  char key[CUDNN_KEY];
  cudnn_task_key(task, gpu, version, workspace_limit, key);
  output *o = output_append("winners", path);
  if (!o) return -1;
  if (o->empty) fprintf(o->file, "%s\n", header);
  fputs(key, o->file);
  for (int i = 0; i < CUDNN_BEST; i++) {
    if (i < winners->count) fprintf(o->file, "%s,%.3f", winners->tag[i], winners->us[i]);
    else fputc(',', o->file);
    fputc(',', o->file);
  }
  fprintf(o->file, "%s\n", winners->search);
  return output_close(o);
}

void cudnn_winners_files(const char *gpu, char committed[PATH_MAX], cudnn_options *options) {
  const gpu_limits *known = gpu_limits_of(gpu);
  if (known) snprintf(committed, PATH_MAX, "docs/results/%s/cudnn_winners.csv", known->short_name);
  options->winners[0] = known ? committed : NULL;
  if (access("build/results", W_OK) == 0) options->winners[1] = options->append_to = "build/results/cudnn_winners.csv";
}
