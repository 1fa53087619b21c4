/* Winners of earlier searches in a CSV file, so that a later run re-times five plans instead of searching two hundred.
 *
 * gpu,cudnn,shape,pass,dtype,layout,graph,workspace,plan1,us1, ... ,plan5,us5,search
 * "NVIDIA H200",91900,mb32ic64ih56oc64oh56kh3ph1,fprop,fp16,NHWC,conv,1073741824,eng79_k24=3,25.0, ... ,timed=143;cut=12; ...
 *
 * No field but the GPU's name needs quotes. Missing plans are empty fields. Lines starting with # are comments. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cudnn/cudnn.h"

enum { KEY = 768, LINE = 4096, PLAN_FIELDS = 2 * CUDNN_BEST };
static const char header[] = "gpu,cudnn,shape,pass,dtype,layout,graph,workspace,plan1,us1,plan2,us2,plan3,us3,plan4,us4,plan5,us5,search";

/* The key as it stands in the file, with the comma that ends it. */
static void make_key(const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, char key[KEY]) {
  conv_problem plain = *task->problem;
  plain.name[0] = 0, plain.repeat = 1;
  char shape[256], graph[CUDNN_GRAPH_NAME], name[128];
  size_t n = 0;
  for (const char *c = gpu; *c && n < sizeof name - 1; c++) name[n++] = *c == '"' || *c == '\n' ? '\'' : *c;
  name[n] = 0;
  problem_print(&plain, shape, sizeof shape);
  cudnn_graph_name(task, graph);
  snprintf(key, KEY, "\"%s\",%d,%s,%s,%s,%s,%s,%zu,", name, version, shape, pass_name(task->pass), dtype_name(task->dtype), layout_name(task->layout), graph,
           workspace_limit);
}

/* The plans behind the key. Returns false when a field is no tag or no time. */
static bool read_plans(const char *text, cudnn_winners *winners) {
  *winners = (cudnn_winners){0};
  const char *search = text;
  for (int field = 0; field < PLAN_FIELDS && search; field++) search = strchr(search, ','), search += search != NULL;
  if (search) snprintf(winners->search, sizeof winners->search, "%.*s", (int)strcspn(search, "\n"), search);
  while (winners->count < CUDNN_BEST && *text && *text != '\n' && *text != ',') {
    const size_t length = strcspn(text, ",\n");
    char *end;
    if (length >= CUDNN_TAG || text[length] != ',') return false;
    memcpy(winners->tag[winners->count], text, length);
    winners->tag[winners->count][length] = 0;
    winners->us[winners->count] = strtod(text + length + 1, &end);
    if (end == text + length + 1 || !(winners->us[winners->count] > 0)) return false;
    winners->count++;
    text = *end == ',' ? end + 1 : end;
  }
  return winners->count > 0;
}

void cudnn_counts_print(const cudnn_counts *c, char text[CUDNN_SEARCH]) {
  const int n =
      snprintf(text, CUDNN_SEARCH, "timed=%d;cut=%d;other_math=%d;hopeless=%d;refused=%d;over_workspace=%d;not_capturable=%d;failed=%d;wrong=%d;seconds=%.1f",
               c->timed, c->cut, c->other_math, c->hopeless, c->refused, c->over_workspace, c->not_capturable, c->failed, c->wrong, c->seconds);
  if (c->wrong) snprintf(text + n, CUDNN_SEARCH - (size_t)n, ";fastest_wrong=%s;its_us=%.1f;its_plain_share=%.3g", c->wrong_tag, c->wrong_us, c->wrong_share);
}

int cudnn_winners_lookup(const char *path, const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, cudnn_winners *winners, char *error,
                         size_t error_size) {
  char key[KEY], line[LINE];
  make_key(task, gpu, version, workspace_limit, key);
  FILE *file = fopen(path, "r");
  if (!file) {
    if (errno == ENOENT) return 1;
    snprintf(error, error_size, "%s: cannot read: %s", path, strerror(errno));
    return -1;
  }
  int status = 1;
  for (int number = 1; status >= 0 && fgets(line, sizeof line, file); number++) {
    if (strncmp(line, key, strlen(key)) != 0) continue;
    status = read_plans(line + strlen(key), winners) ? 0 : -1;
    if (status)
      snprintf(error, error_size, "%s:%d: expected plan tags and microseconds by turns, got \"%.*s\"", path, number, (int)strcspn(line + strlen(key), "\n"),
               line + strlen(key));
  }
  fclose(file);
  return status;
}

int cudnn_winners_append(const char *path, const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, const cudnn_winners *winners,
                         char *error, size_t error_size) {
  char key[KEY];
  make_key(task, gpu, version, workspace_limit, key);
  FILE *file = fopen(path, "a");
  bool written = file != NULL;
  if (file) {
    fseek(file, 0, SEEK_END);
    if (ftell(file) == 0) fprintf(file, "%s\n", header);
    fputs(key, file);
    for (int i = 0; i < CUDNN_BEST; i++) {
      if (i < winners->count) fprintf(file, "%s,%.3f", winners->tag[i], winners->us[i]);
      else fputc(',', file);
      fputc(',', file);
    }
    fprintf(file, "%s\n", winners->search);
    written = !ferror(file);
    written &= fclose(file) == 0;
  }
  if (!written) snprintf(error, error_size, "%s: cannot write: %s", path, strerror(errno));
  return written ? 0 : -1;
}
