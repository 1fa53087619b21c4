/* Epilogues: their names, and whether the harness judges a kernel that fuses one: accepted when it is right, for every epilogue, and refused with each
 * planted defect. */
#include <math.h>
#include <string.h>

#include "common/conv/epilogue.h"
#include "common/conv/half.h"
#include "common/harness/trial.h"
#include "tests/products.h"
#include "tests/tap.h"

typedef enum { NONE, NO_BIAS, BIAS_IS_SCALED, RESIDUAL_LAST, OTHER_CHANNEL, NOT_ACTIVATED, CUT_AT_8, TANH_GELU, ROUNDED, DEFECTS } defect;
static const char *const defect_names[DEFECTS] = {"no defect",
                                                  "no bias",
                                                  "the bias scaled too",
                                                  "the residual added after the activation",
                                                  "the next channel's bias",
                                                  "no activation",
                                                  "cut off at 8 instead of 6",
                                                  "GELU by a cruder formula",
                                                  "rounded to fp16"};

static struct {
  defect planted;
  conv_pass pass;
  conv_dtype dtype;
  conv_layout layout;
  bool fp32; /* how results are stored */
} test;

static float fused(const conv_epilogue *e, float sum, float scale, float bias, float residual) {
  if (test.planted == NO_BIAS) bias = 0;
  const bool late = test.planted == RESIDUAL_LAST;
  float t = e->scale ? test.planted == BIAS_IS_SCALED && e->bias ? scale * (sum + bias) - bias : scale * sum : sum;
  if (e->bias) t += bias;
  if (e->residual && !late) t += residual;
  if (test.planted != NOT_ACTIVATED) {
    if (e->activation == ACTIVATION_RELU || e->activation == ACTIVATION_RELU6) t = fmaxf(t, 0);
    if (e->activation == ACTIVATION_RELU6) t = fminf(t, test.planted == CUT_AT_8 ? 8 : 6);
    if (e->activation == ACTIVATION_GELU) t = test.planted == TANH_GELU ? t / (1 + expf(-1.702f * t)) : 0.5f * t * erfcf(-t * 0.70710678f);
    if (e->activation == ACTIVATION_SILU) t = t / (1 + expf(-t));
  }
  return late && e->residual ? t + residual : t;
}

static const char *make_plan(const conv_operation *o, const conv_device *device, conv_plan *plan) { return (void)o, (void)device, (void)plan, NULL; }
static double growth(const conv_problem *p, bool random) { return growth_chain_fp32((double)problem_terms(p, test.pass), random); }

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  (void)stream;
  const conv_problem *p = &plan->operation.problem;
  const conv_epilogue *e = &plan->operation.epilogue;
  conv_tensor tensors[3], residual;
  void *const data[3] = {b->x, b->w, b->y};
  for (int role = 0; role < 3; role++) {
    tensors[role] = operation_tensor(p, test.pass, e, (tensor_role)role, test.dtype, test.layout);
    tensors[role].data = data[role];
  }
  conv_tensor *out = &tensors[pass_output(test.pass)];
  residual = *out, residual.data = (void *)(uintptr_t)b->residual;
  product_lists lists = list_products(p, test.pass, tensors);
  for (int64_t i = 0; i < out->count; i++) {
    int at[4];
    tensor_coordinates(out, i, at);
    const int channel = test.planted == OTHER_CHANNEL ? (at[1] + 1) % out->dim[1] : at[1];
    const float result = fused(e, (float)sum_products(&lists, i, ORDER_FORWARD), e->scale ? b->scale[at[1]] : 1, e->bias ? b->bias[channel] : 0,
                               e->residual ? tensor_get(&residual, i) : 0);
    tensor_set(out, i, test.planted == ROUNDED ? (double)half_to_float(half_from_double((double)result)) : (double)result);
  }
  free_products(&lists);
  return cudaSuccess;
}

static conv_epilogue numbered(int i) { return (conv_epilogue){.scale = i & 1, .bias = i & 2, .residual = i & 4, .activation = (conv_activation)(i / 8)}; }

static result_status run_trial(const conv_problem *p, conv_epilogue epilogue, unsigned fuses, bool exact_only, char note[256]) {
  const conv_kernel kernel = {.name = "test",
                              .idea = "",
                              .place = ON_CPU,
                              .pass = test.pass,
                              .dtype = test.dtype,
                              .layout = test.layout,
                              .plan = make_plan,
                              .launch = launch,
                              .growth = growth,
                              .fuses = fuses,
                              .stores_fp32 = test.fp32};
  epilogue.fp32 = test.fp32;
  step_options options = {.seed = 1, .one_shape = true, .exact_only = exact_only};
  machine m;
  machine_open_cpu(&m);
  char *text = NULL;
  size_t size = 0;
  report r = {.machine = &m, .text = open_memstream(&text, &size)};
  const trial t = {.problem = p,
                   .pass = test.pass,
                   .epilogue = epilogue,
                   .dtype = test.dtype,
                   .layout = test.layout,
                   .place = ON_CPU,
                   .kernels = {&kernel},
                   .kernel_count = 1,
                   .options = &options,
                   .machine = &m};
  const int status = trial_run(&t, &r);
  fclose(r.text);
  const char *skip = text ? strstr(text, "SKIP") : NULL;
  snprintf(note, 256, "%.*s", skip ? (int)strcspn(skip, "\n") : 0, skip ? skip : "");
  free(text);
  return status == 0 && r.right == 1 ? RESULT_RIGHT : r.skipped ? RESULT_SKIPPED : RESULT_WRONG;
}

static void names(void) {
  conv_epilogue e;
  char wrong[EPILOGUE_NAME], name[EPILOGUE_NAME];
  int same = 0;
  for (int i = 1; i < 8 * ACTIVATION_COUNT; i++) {
    const conv_epilogue want = numbered(i);
    epilogue_print(&want, name);
    for (char *c = name; *c; c++) *c = *c == '+' ? ',' : *c;
    same += epilogue_parse(&e, name + 1, wrong) == 0 && e.scale == want.scale && e.bias == want.bias && e.residual == want.residual &&
            e.activation == want.activation;
  }
  ok(same == 8 * ACTIVATION_COUNT - 1, "all %d names are read as they are written", same);
  ok(epilogue_parse(&e, "relu,bias", wrong) == 0 && e.bias && e.activation == ACTIVATION_RELU, "in any order");
  static const char *const bad[] = {"", "foo", "bias,", "bias,bias", "relu,relu6", ",bias", "bias relu"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) ok(epilogue_parse(&e, bad[i], wrong) == -1, "\"%s\" is refused, at \"%s\"", bad[i], wrong);
}

static void right_ones(const conv_problem *p) {
  char note[256];
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
    for (int layout = 0; layout < LAYOUT_COUNT; layout++)
      for (int pass = 0; pass < PASS_WGRAD; pass++) {
        int right = 0;
        test.dtype = (conv_dtype)dtype, test.layout = (conv_layout)layout, test.pass = (conv_pass)pass, test.planted = NONE;
        for (int i = 0; i < 8 * ACTIVATION_COUNT; i++) right += run_trial(p, numbered(i), ~0u, false, note) == RESULT_RIGHT;
        ok(right == 8 * ACTIVATION_COUNT, "%s %s %s: right with all %d epilogues", dtype_name(test.dtype), layout_name(test.layout), pass_name(test.pass),
           right);
      }
}

static void planted(const conv_problem *p) {
  static const struct {
    defect what;
    conv_epilogue in;
  } rows[] = {{NO_BIAS, {.bias = true}},
              {BIAS_IS_SCALED, {.scale = true, .bias = true}},
              {RESIDUAL_LAST, {.residual = true, .activation = ACTIVATION_RELU}},
              {OTHER_CHANNEL, {.bias = true, .activation = ACTIVATION_RELU}},
              {NOT_ACTIVATED, {.activation = ACTIVATION_RELU}},
              {NOT_ACTIVATED, {.activation = ACTIVATION_SILU}},
              {CUT_AT_8, {.activation = ACTIVATION_RELU6}},
              {TANH_GELU, {.activation = ACTIVATION_GELU}}};
  char note[256], name[EPILOGUE_NAME];
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      test.dtype = (conv_dtype)dtype, test.layout = LAYOUT_NCHW, test.pass = PASS_FPROP, test.planted = rows[i].what;
      epilogue_print(&rows[i].in, name);
      ok(run_trial(p, rows[i].in, ~0u, false, note) == RESULT_WRONG, "%s conv%s: %s is refused", dtype_name(test.dtype), name, defect_names[rows[i].what]);
      if (rows[i].in.activation < ACTIVATION_GELU)
        ok(run_trial(p, rows[i].in, ~0u, true, note) == RESULT_WRONG, "%s conv%s: and by integers alone", dtype_name(test.dtype), name);
    }
}

static void declined(const conv_problem *p) {
  static const struct {
    unsigned fuses;
    conv_epilogue asked;
    const char *says;
  } rows[] = {{0, {.scale = true}, "does not fuse scale"},
              {FUSES_SCALE | FUSES_BIAS, {.scale = true, .bias = true, .residual = true}, "does not fuse residual"},
              {FUSES_BIAS, {.bias = true, .activation = ACTIVATION_SILU}, "does not fuse silu"},
              {FUSES_SCALE, {.scale = true, .bias = true}, "does not fuse bias"}};
  char note[256];
  test.planted = NONE;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    ok(run_trial(p, rows[i].asked, rows[i].fuses, false, note) == RESULT_SKIPPED && strstr(note, rows[i].says), "a kernel that cannot is left out: %s", note);
}

/* fp16 in, fp32 out: judged as fp32, so a result that was rounded to fp16 on its way is refused. */
static void stored_as_fp32(const conv_problem *p) {
  char note[256], name[EPILOGUE_NAME];
  test.dtype = DTYPE_FP16, test.planted = NONE, test.fp32 = true;
  for (int layout = 0; layout < LAYOUT_COUNT; layout++)
    for (int pass = 0; pass < PASS_COUNT; pass++) {
      test.layout = (conv_layout)layout, test.pass = (conv_pass)pass;
      ok(run_trial(p, (conv_epilogue){0}, 0, false, note) == RESULT_RIGHT, "fp16 in, fp32 out: %s %s is right", layout_name(test.layout), pass_name(test.pass));
      test.planted = ROUNDED;
      ok(run_trial(p, (conv_epilogue){0}, 0, false, note) == RESULT_WRONG, "fp16 in, fp32 out: %s %s rounded to fp16 is refused", layout_name(test.layout),
         pass_name(test.pass));
      test.planted = NONE;
    }
  test.pass = PASS_FPROP;
  ok(run_trial(p, (conv_epilogue){.residual = true, .activation = ACTIVATION_RELU}, ~0u, false, note) == RESULT_RIGHT, "with a residual, which is fp32 then");
  const conv_epilogue stored = {.bias = true, .fp32 = true};
  epilogue_print(&stored, name);
  const conv_operation half = {.problem = *p, .pass = PASS_WGRAD}, whole = {.problem = *p, .pass = PASS_WGRAD, .epilogue = {.fp32 = true}};
  ok(strcmp(name, "+bias+fp32") == 0 && operation_traffic(&whole, DTYPE_FP16).written == 2 * operation_traffic(&half, DTYPE_FP16).written,
     "its name is %s, and it writes twice the bytes", name);
  test.fp32 = false;
}

/* A floor counts what the epilogue reads. */
static void floors(const conv_problem *p) {
  conv_operation o = {.problem = *p, .pass = PASS_FPROP};
  const conv_traffic plain = operation_traffic(&o, DTYPE_FP16);
  o.epilogue = (conv_epilogue){.scale = true, .residual = true, .activation = ACTIVATION_RELU};
  const conv_traffic more = operation_traffic(&o, DTYPE_FP16);
  ok(more.written == plain.written && more.read - plain.read == 2.0 * (double)problem_y_count(p) + 4 * p->K, "residual and scale are read: %.0f bytes more",
     more.read - plain.read);
}

int main(void) {
  plan(0);
  conv_problem p;
  char error[256];
  ok(problem_parse(&p, "g2mb2ic4ih6oc6kh3ph1", error, sizeof error) == 0, "a problem");
  names();
  right_ones(&p);
  planted(&p);
  declined(&p);
  stored_as_fp32(&p);
  floors(&p);
  return done_testing();
}
