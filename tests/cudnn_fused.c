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
  }
  pool_free(&pool);
}
#else
static void library(void) { ok(1, "engines # SKIP no cuDNN here"); }
#endif

int main(void) {
  plan(0);
  winners();
  reports();
  ways();
  library();
  return done_testing();
}
