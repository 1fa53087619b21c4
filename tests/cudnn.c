/* cuDNN as a baseline: what can be checked without running it. Results; and where the library is there, graphs and plans for a GPU
 * that need not be: cuDNN builds them from a device's properties. */
#include "common/cudnn/cudnn_api.h"
#include "common/cudnn/cudnn_csv.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cudnn_device.h"
#include "tests/tap.h"

static cudnn_task task_of(const conv_problem *p, conv_pass pass, conv_dtype dtype, conv_layout layout) {
  return (cudnn_task){.problem = p, .pass = pass, .dtype = dtype, .layout = layout};
}

/* ---------------------------------------------------------------- results */

/* Fields of a CSV line; commas inside quotes do not count. */
static int fields(const char *line) {
  int count = 1;
  bool quoted = false;
  for (; *line; line++) {
    if (*line == '"') quoted = !quoted;
    count += *line == ',' && !quoted;
  }
  return count;
}

static void results(void) {
  conv_problem p;
  char error[512] = "", path[] = "/tmp/cudnn-XXXXXX", line[4][2048];
  problem_parse(&p, "mb2ic8ih9oc16kh3ph1n\"a, \"", error, sizeof error);
  const int file = mkstemp(path);
  if (file < 0) {
    ok(0, "a file in /tmp");
    return;
  }
  close(file);
  const cudnn_task task = task_of(&p, PASS_DGRAD, DTYPE_FP16, LAYOUT_NHWC);
  const machine m = {.device.name = "GPU \"X\", 2nd", .peaks = {.fp32_flops = 1e12, .fp16_flops = 2e12, .read_per_second = 1e11, .copy_per_second = 1e11}};
  cudnn_baseline b = {
      .heuristic = 1, .best = 1, .count = 2, .plan = {{.tag = "eng1", .notes = "a, b", .checked = true, .worst_share = 0.5}, {.tag = "eng2_k1=3"}}};
  contender turn[CUDNN_BEST + 1] = {{.median_us = 3, .min_us = 2.5, .p90_us = 4}, {.median_us = 2, .min_us = 1.5, .p90_us = 2.25}};
  output *o = output_append("--csv", path);
  int status = cudnn_csv_add(o, &task, &m, &b, turn) | output_close(o);
  b.heuristic = -1, b.count = 1;
  o = output_append("--csv", path);
  status |= cudnn_csv_add(o, &task, &m, &b, turn) | output_close(o);
  FILE *f = fopen(path, "r");
  int lines = 0;
  while (f && lines < 4 && fgets(line[lines], sizeof line[0], f)) lines++;
  if (f) fclose(f);
  ok(status == 0 && lines == 3 && fields(line[0]) == fields(line[1]) && fields(line[0]) == fields(line[2]),
     "two rows under one header line, %d, %d and %d fields %s", fields(line[0]), fields(line[1]), fields(line[2]), error);
  ok(lines == 3 && strstr(line[1], ",2.000,1.500,2.250,eng2_k1=3,") && strstr(line[1], ",2.000,eng2_k1=3,"),
     "the heuristic's plan is the best one where it came out fastest");
  ok(lines == 3 && strstr(line[2], ",3.000,2.500,4.000,eng1,\"a, b\",0,0.5000,0.0000,,,search,"), "without a heuristic's plan its fields are empty");
  unlink(path);
}

#ifndef HAVE_CUDNN
static void library(void) {
  conv_problem p;
  char error[512] = "";
  problem_parse(&p, "mb2ic8ih9oc16kh3ph1", error, sizeof error);
  const cudnn_task task = task_of(&p, PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW);
  const conv_buffers view = {0};
  const cudnn_options options = {0};
  cudnn_baseline b;
  ok(cudnn_version() == 0 && strstr(cudnn_describe(), "no cuDNN"), "without it, it says so: %s", cudnn_describe());
  ok(cudnn_baseline_open(&b, &task, &view, 1, &options, NULL, error, sizeof error) == 1 && b.count == 0 && strstr(error, "no cuDNN"), "and offers no plans");
  cudnn_baseline_close(&b);
}
#else

/* Winograd and FFT, noted or not, whatever the tile: judged as our own F(4x4) is. */
static void rules(void) {
  static const unsigned notes[] = {1u << CUDNN_NUMERICAL_NOTE_WINOGRAD, 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
                                   1u << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
                                   1u << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, 1u << CUDNN_NUMERICAL_NOTE_FFT};
  conv_problem p;
  char error[512];
  problem_parse(&p, "mb2ic64ih28oc64kh3ph1", error, sizeof error);
  const cudnn_task task = task_of(&p, PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW);
  const double terms = (double)problem_terms(&p, PASS_FPROP), plain = growth_chain_fp32(terms, true), ours = growth_winograd(terms, WINOGRAD_4X4_NORM, true);
  int same = 0;
  for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
    const error_rule rule = cudnn_rule(&task, notes[i], true);
    same += rule.shared && rule.growth == ours;
  }
  ok(same == 5 && ours > 10 * plain && ours < 13 * plain, "a transform of cuDNN's may err as ours may: %.1f plain sums' bounds", ours / plain);
  error_rule rule = cudnn_rule(&task, 0, true);
  ok(!rule.shared && rule.growth < 1.1 * plain, "a plain sum as a plain sum may");
  ok(cudnn_unnoted_rule(&task, 0, true, &rule) && rule.shared && rule.growth == ours, "one that is not noted may be a transform");
  ok(!cudnn_unnoted_rule(&task, notes[0], true, &rule) && !cudnn_unnoted_rule(&task, 0, false, &rule),
     "one that is noted has had its chance; data that is not random has no such bound");
  cudnn_task fused = task_of(&p, PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC);
  rule = cudnn_rule(&fused, 0, false);
  const double once = rule.growth;
  ok(!cudnn_rounded_rule(&fused, 0, false, &rule) && rule.growth == once, "without an epilogue sums are rounded once");
  fused.epilogue.bias = true;
  ok(cudnn_rounded_rule(&fused, 0, false, &rule) && rule.growth == once + UNIT_ROUNDOFF_FP16, "with one they may be twice");
  const error_rule exact = cudnn_rule(&task, 0, true), tf32 = cudnn_any_math_rule(&task, exact);
  const cudnn_task half = task_of(&p, PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC);
  ok(tf32.growth > 30 * exact.growth && tf32.growth < exact.growth + 0.002 && cudnn_any_math_rule(&half, exact).growth == exact.growth,
     "rounded to TF32, fp32 inputs err by %.0f plain sums' bounds; fp16 ones not", tf32.growth / exact.growth);
}

static void tags(void) {
  cudnn_config c, again;
  char tag[CUDNN_TAG];
  ok(config_parse(&c, LAYOUT_NHWC, "eng79_k24=3_k17=-1@NCHW") == 0 && c.engine == 79 && c.knobs == 2 && c.knob[0].type == 17 && c.knob[0].value == -1 &&
         c.knob[1].value == 3 && c.layout == LAYOUT_NCHW,
     "a tag is read");
  config_print(&c, LAYOUT_NHWC, tag);
  ok(strcmp(tag, "eng79_k17=-1_k24=3@NCHW") == 0, "and printed in one order: %s", tag);
  ok(config_parse(&again, LAYOUT_NHWC, tag) == 0 && config_equal(&c, &again), "and read back the same");
  config_set(&again, 24, 4);
  ok(again.knobs == 2 && again.knob[1].value == 4 && !config_equal(&c, &again), "a knob is turned");
  static const char *const wrong[] = {"",      "eng",        "79",    "eng1_k2", "eng1_k2=", "eng1_k2=3x",
                                      "eng1@", "eng1@NCHWX", "eng-1", "eng1 ",   "eng1@fp1", "eng1@fp16@NCHW"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) ok(config_parse(&c, LAYOUT_NHWC, wrong[i]) != 0, "\"%s\" is no tag", wrong[i]);
  ok(notes_same_math(1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE, DTYPE_FP16) && !notes_same_math(1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE, DTYPE_FP32) &&
         !notes_same_math(1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, DTYPE_FP16),
     "tensor cores are the same math in fp16, not in fp32; reduced sums are not in fp16");
}

/* Every shape of the nasty list's kind is a graph, and some plan of the same math can be built and named. */
static void plans(cudnnBackendDescriptor_t device) {
  static const char *const shapes[] = {
      "mb2ic64ih56oc64kh3ph1",   "mb2ic3ih224oc64oh112kh7sh2ph3", "mb2ic64ih56oc256kh1",    "g8mb2ic8ih9oc8kh3ph1",
      "g4mb2ic64ih14oc64kh3ph1", "mb2ic4ih8oc5oh8kh4ph1",         "mb2ic4ih12oc5kh3dh1ph2", "mb1ic4ih13iw10oc5kh3kw3sh3sw2ph1pw1",
      "mb1ic2ih1oc3oh1kh3ph1"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        conv_problem p;
        char error[CUDNN_ERROR] = "", tag[CUDNN_TAG] = "none";
        const conv_layout layout = dtype == DTYPE_FP16 ? LAYOUT_NHWC : LAYOUT_NCHW;
        problem_parse(&p, shapes[i], error, sizeof error);
        const cudnn_task task = task_of(&p, (conv_pass)pass, (conv_dtype)dtype, layout);
        cudnn_graph g;
        int built = 0, same = 1;
        if (cudnn_graph_make(&g, &task, layout, NULL, device, error, sizeof error) == 0)
          for (int engine = 0; engine < g.engines; engine++) {
            const engine_facts facts = engine_ask(&g, engine);
            knob_turn list[KNOBS];
            const int turned = sweep_list(&facts, list);
            for (int f = 0; f < facts.knobs; f++) {
              int found = 0;
              for (int k = 0; k < turned; k++) found += list[k].range.type == facts.knob[f].type;
              same &= found == 1 && turned == facts.knobs;
            }
            if (!facts.usable || !notes_same_math(facts.notes, task.dtype)) continue;
            cudnn_config config = {.layout = layout, .engine = engine}, again;
            cudnn_plan plan;
            if (plan_build(&plan, &g, NULL, &config) == 0) {
              built++;
              config_print(&plan.config, layout, tag);
              same &= config_parse(&again, layout, tag) == 0 && config_equal(&again, &config) && plan.notes == facts.notes;
            }
            plan_free(&plan);
          }
        cudnn_graph_free(&g);
        ok(built > 0 && same, "%s %s %s: %d engines, every knob of theirs once in the sweep, the last %s %s", shapes[i], pass_name((conv_pass)pass),
           dtype_name((conv_dtype)dtype), built, tag, error);
      }
}

/* Padding behind the image as a user writes it: the same as before it, unless that would change the output. */
static void padding(cudnnBackendDescriptor_t device) {
  static const struct {
    const char *shape;
    int64_t top, bottom;
  } cases[] = {{"mb2ic8ih56oc8kh3sh2ph1", 1, 1},
               {"mb2ic8ih224oc8kh7sh2ph3", 3, 3},
               {"mb2ic8ih9oc8kh3ph1", 1, 1},
               {"mb2ic8ih9oc8oh8kh3ph1", 1, 0},
               {"mb2ic8ih9oc8oh10kh4ph1", 1, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    conv_problem p;
    char error[CUDNN_ERROR] = "";
    int64_t before[2] = {-1, -1}, after[2] = {-1, -1};
    problem_parse(&p, cases[i].shape, error, sizeof error);
    const cudnn_task task = task_of(&p, PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC);
    cudnn_graph g;
    const int made = cudnn_graph_make(&g, &task, LAYOUT_NHWC, NULL, device, error, sizeof error);
    for (int k = 0; made == 0 && k < g.pool.count; k++)
      if (pool_get(&g.pool, g.pool.item[k], CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before) == 2)
        pool_get(&g.pool, g.pool.item[k], CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
    ok(made == 0 && before[0] == cases[i].top && after[0] == cases[i].bottom && after[1] == cases[i].bottom, "%s: padding %d before, %d after %s",
       cases[i].shape, (int)before[0], (int)after[0], error);
    cudnn_graph_free(&g);
  }
}

static void heuristics(cudnnBackendDescriptor_t device) {
  conv_problem p;
  char error[CUDNN_ERROR] = "", tag[CUDNN_TAG] = "";
  problem_parse(&p, "mb32ic64ih56oc64kh3ph1", error, sizeof error);
  cudnn_task task = task_of(&p, PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC);
  cudnn_graph g;
  static cudnn_config list[64];
  int listed = 0, built = 0;
  if (cudnn_graph_make(&g, &task, LAYOUT_NHWC, NULL, device, error, sizeof error) == 0) listed = config_list(&g, CUDNN_HEUR_MODE_A, list, 64);
  for (int i = 0; i < listed && i < 8; i++) {
    cudnn_plan plan;
    built += plan_build(&plan, &g, NULL, &list[i]) == 0;
    plan_free(&plan);
  }
  if (listed) config_print(&list[0], LAYOUT_NHWC, tag);
  ok(listed > 5 && built >= 4, "heuristic A offers %d plans, the first %s; of the first 8, %d can be built from their tags %s", listed, tag, built, error);
  cudnn_graph_free(&g);
  for (unsigned fuse = 1; fuse < 16 * ACTIVATION_COUNT; fuse++) {
    char name[CUDNN_GRAPH_NAME];
    int usable = 0;
    task.epilogue = (conv_epilogue){.scale = fuse & 1, .bias = fuse & 2, .residual = fuse & 4, .activation = (conv_activation)(fuse / 16)};
    task.bias = fuse & 8 ? DTYPE_FP16 : DTYPE_FP32;
    if (epilogue_empty(&task.epilogue) || (task.bias == DTYPE_FP16 && !task_halves(&task))) continue;
    cudnn_graph_name(&task, name);
    const int made = cudnn_graph_make(&g, &task, LAYOUT_NHWC, NULL, device, error, sizeof error);
    for (int engine = 0; made == 0 && engine < g.engines; engine++) usable += engine_ask(&g, engine).usable;
    ok(made == 0 && usable > 0, "%s, vectors in %s: %d engines %s", name, dtype_name(task.bias), usable, error);
    cudnn_graph_free(&g);
  }
}

/* Gradients of filters in fp32, from fp16. */
static void wide_results(cudnnBackendDescriptor_t device) {
  conv_problem p;
  char error[CUDNN_ERROR] = "", name[CUDNN_GRAPH_NAME];
  problem_parse(&p, "mb32ic64ih56oc64oh56kh3ph1", error, sizeof error);
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    cudnn_task task = task_of(&p, (conv_pass)pass, DTYPE_FP16, LAYOUT_NHWC);
    cudnn_graph g;
    int usable = 0;
    task.epilogue.fp32 = true;
    cudnn_graph_name(&task, name);
    const int made = cudnn_graph_make(&g, &task, LAYOUT_NHWC, NULL, device, error, sizeof error);
    for (int engine = 0; made == 0 && engine < g.engines; engine++) usable += engine_ask(&g, engine).usable;
    ok(made == 0 && usable > 0 && strcmp(name, "conv+fp32") == 0, "%s of fp16 stored as fp32, %s: %d engines %s", pass_name((conv_pass)pass), name, usable,
       error);
    cudnn_graph_free(&g);
  }
}

/* Transposed convolutions with a bias: dgrad, and an addition behind it, of as many values as dx has channels. */
static void behind_dgrad(cudnnBackendDescriptor_t device) {
  static const char *const shapes[] = {"mb32ic64ih56oc128oh28kh4sh2ph1", "mb32ic64ih56oc128oh28kh2sh2", "mb32ic64ih56oc128oh28kh3sh2ph1",
                                       "mb32ic64ih56oc128oh28kh5sh2ph2", "mb32ic64ih56oc128oh56kh3ph1"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    conv_problem p;
    char error[CUDNN_ERROR] = "", name[CUDNN_GRAPH_NAME];
    problem_parse(&p, shapes[i], error, sizeof error);
    cudnn_task task = task_of(&p, PASS_DGRAD, DTYPE_FP16, LAYOUT_NHWC);
    cudnn_graph g;
    int usable = 0;
    task.epilogue.bias = true;
    cudnn_graph_name(&task, name);
    const int made = cudnn_graph_make(&g, &task, LAYOUT_NHWC, NULL, device, error, sizeof error);
    for (int engine = 0; made == 0 && engine < g.engines; engine++) usable += engine_ask(&g, engine).usable;
    ok(made == 0 && usable > 0 && g.uids == 4 && strcmp(name, "conv+bias") == 0, "%s behind dgrad, %s: %d engines %s", name, shapes[i], usable, error);
    cudnn_graph_free(&g);
  }
}

static void library(void) {
  ok(strstr(cudnn_describe(), "cuDNN") != NULL, "%s", cudnn_describe());
  tags();
  rules();
  if (cudnn_version() < 90800) {
    ok(1, "plans without a GPU # SKIP needs cuDNN 9.8");
    return;
  }
  cudnn_pool pool = {0};
  cudnnBackendDescriptor_t device = absent_device(&pool);
  if (ok(pool.status == CUDNN_STATUS_SUCCESS, "a GPU that is not here %s", pool.failure)) {
    plans(device);
    padding(device);
    heuristics(device);
    wide_results(device);
    behind_dgrad(device);
  }
  pool_free(&pool);
}
#endif

int main(void) {
  plan(0);
  results();
  library();
  return done_testing();
}
