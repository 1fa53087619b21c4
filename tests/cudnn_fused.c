/* cuDNN's second opponent for a bare convolution, a graph with a bias of zeros: its winners, what the report says of it, and where the library is there, the
 * engines that it reaches. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cudnn/cudnn_api.h"
#include "common/cudnn/cudnn_trial.h"
#include "common/harness/report.h"
#include "tests/cudnn_device.h"
#include "tests/tap.h"

static conv_problem problem_of(const char *shape) {
  conv_problem p = {0};
  char error[512] = "";
  if (problem_parse(&p, shape, error, sizeof error)) diag("%s", error);
  return p;
}

/* An empty file in /tmp. */
static void temporary(char path[]) {
  const int file = mkstemp(path);
  if (file < 0) diag("no file in /tmp");
  else close(file);
}

/* The same shape bare, with a bias, and with one of zeros: three keys. */
static void winners(void) {
  const conv_problem p = problem_of("mb2ic8ih9oc16kh3ph1");
  char error[512] = "", path[] = "/tmp/cudnn-XXXXXX", name[CUDNN_GRAPH_NAME];
  cudnn_task task[3] = {{.problem = &p, .dtype = DTYPE_FP16, .layout = LAYOUT_NHWC}};
  task[1] = task[2] = task[0];
  task[1].epilogue.bias = task[2].zero_bias = true;
  cudnn_graph_name(&task[2], name);
  ok(strcmp(name, "conv+zero_bias") == 0, "the graph's name in a winners' file: %s", name);
  temporary(path);
  cudnn_winners found,
      kept[3] = {{.count = 1, .tag = {"eng1"}, .us = {1}}, {.count = 1, .tag = {"eng2"}, .us = {2}}, {.count = 1, .tag = {"eng3@fp16"}, .us = {3}}};
  int status = 0, same = 0;
  for (int i = 0; i < 2; i++) status |= cudnn_winners_append(path, &task[i], "GPU", 91900, 1 << 20, &kept[i]);
  ok(!status && cudnn_winners_lookup(path, &task[2], "GPU", 91900, 1 << 20, &found, error, sizeof error) == 1,
     "older files are read, and have none of its plans %s", error);
  status = cudnn_winners_append(path, &task[2], "GPU", 91900, 1 << 20, &kept[2]);
  for (int i = 0; i < 3; i++)
    same += cudnn_winners_lookup(path, &task[i], "GPU", 91900, 1 << 20, &found, error, sizeof error) == 0 && strcmp(found.tag[0], kept[i].tag[0]) == 0;
  ok(!status && same == 3, "beside it, the bare graph and that with a bias keep their own %s", error);
  unlink(path);
}

/* Graphs' names read back; and what won for the layer's other graphs. */
static void kin(void) {
  static const char *const names[] = {"conv", "conv+zero_bias", "conv+fp32", "conv+bias+fp32", "conv+scale+bias+residual+relu6", "conv+bias+gelu"};
  static const char *const wrong[] = {"", "con", "convbias", "conv+", "conv+bias+scale", "conv+zero_bias+relu", "conv+bia", "conv+relu+relu", "graph"};
  const conv_problem p = problem_of("mb2ic8ih9oc16kh3ph1"), q = problem_of("mb2ic8ih9oc8kh3ph1");
  cudnn_task task = {.problem = &p, .dtype = DTYPE_FP16, .layout = LAYOUT_NHWC}, other;
  char name[CUDNN_GRAPH_NAME], path[] = "/tmp/cudnn-XXXXXX";
  int same = 0, refused = 0, status = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const int parsed = cudnn_graph_parse(&task, names[i]);
    cudnn_graph_name(&task, name);
    same += parsed == 0 && strcmp(name, names[i]) == 0;
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) refused += cudnn_graph_parse(&task, wrong[i]) != 0;
  ok(same == 6 && refused == 9, "%d of 6 graphs by their names, %d of 9 refused", same, refused);
  temporary(path);
  static const char *const tags[] = {"eng1", "eng2", "eng3@fp16", "eng4"};
  for (int i = 0; i < 4; i++) { /* the bare graph twice: its last line counts */
    cudnn_winners w = {.count = 1, .us = {1 + i}};
    snprintf(w.tag[0], CUDNN_TAG, "%s", tags[i]);
    cudnn_graph_parse(&task, names[i < 2 ? i : 3 - i]);
    status |= cudnn_winners_append(path, &task, "GPU", 91900, 1 << 20, &w);
  }
  other = task, other.problem = &q;
  cudnn_winners w = {.count = 1, .tag = {"eng9"}, .us = {9}};
  status |= cudnn_winners_append(path, &other, "GPU", 91900, 1 << 20, &w);        /* another shape, */
  status |= cudnn_winners_append(path, &task, "GPU", 91900, 1 << 21, &w);         /* limit */
  status |= cudnn_winners_append(path, &task, "another GPU", 91900, 1 << 20, &w); /* and GPU */
  cudnn_kin list[3];
  cudnn_graph_parse(&task, "conv+bias+relu");
  int found = cudnn_winners_kin(path, &task, "GPU", 91900, 1 << 20, list, 3);
  ok(!status && found == 2 && strcmp(list[0].graph, "conv") == 0 && strcmp(list[0].winners.tag[0], "eng4") == 0 && list[0].winners.us[0] == 4 &&
         strcmp(list[1].graph, "conv+zero_bias") == 0 && strcmp(list[1].winners.tag[0], "eng3@fp16") == 0,
     "the winners of the layer's other graphs, each graph's last");
  cudnn_graph_parse(&task, "conv");
  found = cudnn_winners_kin(path, &task, "GPU", 91900, 1 << 20, list, 3);
  ok(found == 1 && strcmp(list[0].graph, "conv+zero_bias") == 0 && cudnn_winners_kin(path, &task, "GPU", 91900, 1 << 20, list, 0) == 0 &&
         cudnn_winners_kin("/nowhere/at/all", &task, "GPU", 91900, 1 << 20, list, 3) == 0,
     "not its own; none where there is no room, and no file");
  unlink(path);
}

/* ---------------------------------------------------------------- the report */

static void slurp(const char *path, char *text, size_t size) {
  FILE *f = fopen(path, "r");
  text[f ? fread(text, 1, size - 1, f) : 0] = 0;
  if (f) fclose(f);
}

typedef struct {
  char text[4096], csv[4096], json[4096];
} reported;

/* One row of 25 us beside cuDNN's 30 us and `fused`, written with or without the columns. */
static reported report_of(bool with_fused, const cudnn_figures *fused) {
  static const conv_kernel kernel = {.name = "x", .idea = "", .place = ON_GPU, .dtype = DTYPE_FP16, .layout = LAYOUT_NHWC};
  const machine m = {.device.name = "GPU"};
  const conv_problem p = problem_of("mb2ic8ih9oc16kh3ph1");
  const contender time = {.median_us = 25, .min_us = 25, .p90_us = 25, .count = 1};
  cudnn_figures bare = {.version = 91900, .best_us = 30, .best_plan = "eng1", .best_early_share = 1, .note = "searched"};
  const result_row row = {
      .kernel = &kernel, .problem = &p, .operation.problem = p, .status = RESULT_RIGHT, .timed = true, .time = &time, .cudnn = &bare, .fused = fused};
  char csv[] = "/tmp/cudnn-XXXXXX", json[] = "/tmp/cudnn-XXXXXX", *text;
  const cudnn_figures none = {0};
  reported out = {0};
  report r;
  size_t size;
  temporary(csv), temporary(json);
  if (report_open(&r, &m, csv, json, NULL, with_fused)) diag("no report");
  r.text = open_memstream(&text, &size);
  report_row(&r, &row);
  report_cudnn(&r, &bare, fused ? fused : &none);
  report_close(&r);
  fclose(r.text);
  snprintf(out.text, sizeof out.text, "%s", text);
  free(text);
  slurp(csv, out.csv, sizeof out.csv), slurp(json, out.json, sizeof out.json);
  unlink(csv), unlink(json);
  return out;
}

static bool ends_with(const char *text, const char *end) { return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0; }

static int commas(const char *line) {
  int count = 0;
  for (; *line && *line != '\n'; line++) count += *line == ',';
  return count;
}

static void reports(void) {
  cudnn_figures fused = {.version = 91900,
                         .best_us = 20,
                         .best_plan = "eng3_k24=1@fp16",
                         .best_plain_share = 0.5,
                         .best_early_share = 0.6,
                         .search = "timed=9;cut=0",
                         .note = "searched"};
  reported r = report_of(false, NULL);
  ok(!strstr(r.csv, "fused") && strstr(r.csv, ",ratio_heur,note\n") && ends_with(r.csv, ",\"\"\n") && !strstr(r.json, "fused") && !strstr(r.text, "bias"),
     "a report that was not asked for it says nothing of it");
  r = report_of(true, &fused);
  ok(strstr(r.text, "searched), launched early\n") && strstr(r.json, "\"cudnn_best_plan\": \"eng1\", \"cudnn_early_share\": 1,"),
     "bare plans whose launches begin early");
  ok(strstr(r.text, "searched), 60 % of its kernels launched early\n") && strstr(r.text, "(min 25.0, p90 25.0)") && strstr(r.json, "\"early_share\": 0,"),
     "others, three in five; our kernel, none");
  ok(strstr(r.csv, ",note,cudnn_fused_us,cudnn_fused_plan,cudnn_fused_plain_share,cudnn_fused_search,ratio_fused\n") &&
         strstr(r.csv, ",30.000,eng1,1,0.0000,,,1.2000,,\"\",") && ends_with(r.csv, ",\"\",20.000,eng3_k24=1@fp16,0.5000,timed=9;cut=0,0.8000\n") &&
         commas(r.csv) == commas(strchr(r.csv, '\n') + 1),
     "both opponents in a row: the bare plans where they were, the other behind the last column");
  ok(strstr(r.json, "\"cudnn_fused_us\": 20.000, \"cudnn_fused_plan\": \"eng3_k24=1@fp16\"") != NULL, "and in the JSON");
  ok(strstr(r.text, "1.2x cuDNN's best  0.8x its best with a bias of zeros") &&
         strstr(r.text, "THE STRONGER OPPONENT: 0.667 times the time of its best bare plan") && strstr(r.text, "the stronger opponent for 1 of 1 problems"),
     "the report says that it changes the opponent");
  fused.best_us = 33;
  r = report_of(true, &fused);
  ok(strstr(r.text, "no stronger: 1.1 times the time") && strstr(r.text, "the stronger opponent for 0 of 1 problems"), "or that it does not");
  fused = (cudnn_figures){.note = "cuDNN has no plan for it"};
  r = report_of(true, &fused);
  ok(strstr(r.text, "  cuDNN with a bias of zeros: cuDNN has no plan for it\n") && !strstr(r.text, "OPPONENT") && ends_with(r.csv, ",\"\",,,,,\n"),
     "a graph that is refused is a line, and empty columns");
}

/* An operation with an epilogue: cuDNN's graph for all of it, or its bare convolution and a pass over the result. */
static void ways(void) {
  const cudnn_figures whole = {.version = 91900, .best_us = 20, .best_plan = "eng3", .heuristic_us = 25, .heuristic_plan = "eng4", .note = "searched"};
  cudnn_figures apart = {.version = 91900, .best_us = 18, .best_plan = "eng1+pointwise", .heuristic_us = 30, .heuristic_plan = "eng2+pointwise"}, none = {0};
  cudnn_figures f = cudnn_faster(&whole, &apart);
  ok(f.best_us == 18 && strcmp(f.best_plan, "eng1+pointwise") == 0 && f.heuristic_us == 25 && strcmp(f.heuristic_plan, "eng4") == 0,
     "two ways: the faster plan of all, and the faster heuristic");
  apart.best_us = 21, apart.heuristic_us = 24;
  f = cudnn_faster(&whole, &apart);
  ok(f.best_us == 20 && strcmp(f.best_plan, "eng3") == 0 && f.heuristic_us == 24, "whichever it is");
  apart.heuristic_us = 0;
  f = cudnn_faster(&whole, &apart);
  ok(f.heuristic_us == 25 && cudnn_faster(&none, &apart).best_us == 21 && cudnn_faster(&whole, &none).best_us == 20 && cudnn_faster(&none, &none).version == 0,
     "or the only one");
}

/* ---------------------------------------------------------------- the library */

#ifdef HAVE_CUDNN
/* Engines that can be asked, by their kind; and whether the convolution's result stays out of memory. */
static void engines(cudnnBackendDescriptor_t device, const char *shape, conv_dtype dtype, conv_dtype bias, int least_compiled, int least_ready) {
  const conv_problem p = problem_of(shape);
  const conv_layout layout = dtype == DTYPE_FP16 ? LAYOUT_NHWC : LAYOUT_NCHW;
  const cudnn_task task = {.problem = &p, .dtype = dtype, .layout = layout, .zero_bias = true, .bias = bias};
  char error[CUDNN_ERROR] = "", tag[CUDNN_TAG] = "none";
  cudnn_graph g;
  int compiled = 0, ready = 0, built = 0, virtual_tensors = 0, named = 1;
  static cudnn_config list[64];
  const int made = cudnn_graph_make(&g, &task, layout, NULL, device, error, sizeof error);
  for (int i = 0; made == 0 && i < g.pool.count; i++) {
    bool is_virtual = false;
    virtual_tensors += pool_get(&g.pool, g.pool.item[i], CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual) == 1 && is_virtual;
  }
  ok(made == 0 && g.uids == 4 && virtual_tensors == 1, "%s %s, zeros in %s: x, w, y and a bias in memory, one virtual tensor %s", shape, dtype_name(dtype),
     dtype_name(bias), error);
  for (int engine = 0; made == 0 && engine < g.engines; engine++) {
    const engine_facts facts = engine_ask(&g, engine);
    const bool at_run_time = facts.behavior >> CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION & 1;
    if (!facts.usable) continue;
    compiled += at_run_time, ready += !at_run_time;
    cudnn_config config = {.layout = layout, .bias = bias, .engine = engine}, again, other = config;
    cudnn_plan plan;
    if (!at_run_time) built += plan_build(&plan, &g, NULL, &config) == 0, plan_free(&plan);
    config_print(&config, LAYOUT_NHWC, tag);
    other.bias = bias == DTYPE_FP16 ? DTYPE_FP32 : DTYPE_FP16;
    named &= config_parse(&again, LAYOUT_NHWC, tag) == 0 && config_equal(&config, &again) && !config_equal(&config, &other);
  }
  const int listed = made == 0 ? config_list(&g, CUDNN_HEUR_MODE_A, list, 64) : 0;
  for (int i = 0; i < listed; i++) named &= list[i].bias == bias;
  ok(compiled >= least_compiled && ready >= least_ready && (built > 0 || least_ready == 0) && (listed > 5 || least_ready == 0) && named,
     "%d engines compiled at run time, %d ready (%d plans built), heuristic A offers %d; tags tell the bias, the last %s", compiled, ready, built, listed, tag);
  cudnn_graph_free(&g);
}

/* A plan of one graph on the graphs of another, by the knobs of its engine; and the plans of a winners' file. */
static void relatives(cudnnBackendDescriptor_t device) {
  enum { ROOM = 64 };
  const conv_problem p = problem_of("mb32ic128ih28oc128oh28kh3ph1");
  cudnn_task task = {.problem = &p, .dtype = DTYPE_FP16, .layout = LAYOUT_NHWC};
  cudnn_graph bare, graph[2];
  cudnn_config config;
  char error[CUDNN_ERROR] = "", tag[CUDNN_TAG], path[] = "/tmp/cudnn-XXXXXX";
  static proposal list[ROOM];
  int made = cudnn_graph_make(&bare, &task, LAYOUT_NHWC, NULL, device, error, sizeof error), alike = 0, ambiguous = 0;
  cudnn_graph_parse(&task, "conv+bias+relu");
  for (int i = 0; i < 2; i++) {
    task.bias = i == 0 ? DTYPE_FP16 : DTYPE_FP32;
    made |= cudnn_graph_make(&graph[i], &task, LAYOUT_NHWC, NULL, device, error, sizeof error);
  }
  ok(made == 0, "a bare graph, and one with a bias of both types %s", error);
  for (int engine = 0; made == 0 && engine < bare.engines; engine++) {
    const engine_facts facts = engine_ask(&bare, engine);
    if (!facts.usable || facts.knobs == 0) continue;
    config = (cudnn_config){.layout = LAYOUT_NHWC, .engine = engine};
    config_set(&config, facts.knob[0].type, facts.knob[0].most);
    const int count = kin_add(&bare, &config, graph, 2, list, 0, ROOM);
    for (int i = 0; i < count; i++) {
      const engine_facts other = engine_ask(list[i].graph, list[i].config.engine);
      ambiguous += !engines_alike(&facts, &other) || list[i].config.bias != list[i].graph->bias || list[i].config.knob[0].value != facts.knob[0].most;
    }
    alike += count > 0;
    ambiguous += kin_add(&bare, &config, graph, 2, list, count, ROOM) != count;
  }
  ok(alike >= 8 && ambiguous == 0, "%d engines of the bare graph are there behind a bias, with the same knobs", alike);
  temporary(path);
  task.bias = DTYPE_FP32;
  cudnn_bench bench = {.task = &task};
  plan_search s = {.bench = &bench, .options = {.gpu = "GPU", .winners = {path}, .workspace_limit = 1 << 20}};
  cudnn_task plain = {.problem = &p, .dtype = DTYPE_FP16, .layout = LAYOUT_NHWC};
  cudnn_winners w = {.count = 2, .us = {2, 2.1}};
  int last = bare.engines - 1;
  while (made == 0 && last > 0 && !(engine_ask(&bare, last).usable && engine_ask(&bare, last).knob[1].most == 55)) last--;
  snprintf(w.tag[0], CUDNN_TAG, "eng%d_k24=9", last);
  snprintf(w.tag[1], CUDNN_TAG, "eng%d_k24=50", last);
  const int written = cudnn_winners_append(path, &plain, "GPU", cudnn_version(), 1 << 20, &w);
  const int count = made ? 0 : kin_list(&s, graph, 2, list, ROOM);
  if (count) config_print(&list[0].config, LAYOUT_NHWC, tag);
  ok(written == 0 && (last == 0 || (count >= 2 && strstr(tag, "_k24=9@fp16"))), "what won bare, behind a bias: %d plans, the first %s", count,
     count ? tag : "none");
  unlink(path);
  cudnn_graph_free(&bare), cudnn_graph_free(&graph[0]), cudnn_graph_free(&graph[1]);
}

static void library(void) {
  if (cudnn_version() < 90800) {
    ok(1, "plans without a GPU # SKIP needs cuDNN 9.8");
    return;
  }
  cudnn_pool pool = {0};
  cudnnBackendDescriptor_t device = absent_device(&pool);
  if (ok(pool.status == CUDNN_STATUS_SUCCESS, "a GPU that is not here %s", pool.failure)) {
    engines(device, "mb32ic64ih56oc64oh56kh3ph1", DTYPE_FP16, DTYPE_FP16, 4, 8);
    engines(device, "mb32ic64ih56oc64oh56kh3ph1", DTYPE_FP16, DTYPE_FP32, 4, 0); /* none but those compiled at run time; more of them */
    engines(device, "mb2ic3ih224oc64oh112kh7sh2ph3", DTYPE_FP16, DTYPE_FP16, 1, 4);
    engines(device, "mb32ic64ih56oc64oh56kh3ph1", DTYPE_FP32, DTYPE_FP32, 1, 4);
    relatives(device);
  }
  pool_free(&pool);
}
#else
static void library(void) { ok(1, "engines # SKIP no cuDNN here"); }
#endif

int main(void) {
  plan(0);
  winners();
  kin();
  reports();
  ways();
  library();
  return done_testing();
}
