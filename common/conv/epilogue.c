/* What follows a convolution. See epilogue.h. */
#include "common/conv/epilogue.h"

#include <stdio.h>
#include <string.h>

static const char *const activation_names[ACTIVATION_COUNT] = {"", "relu", "relu6", "gelu", "silu"};
static const int own_roundings[ACTIVATION_COUNT] = {0, 0, 0, 8, 8};

int epilogue_parse(conv_epilogue *e, const char *text, char wrong[EPILOGUE_NAME]) {
  *e = (conv_epilogue){0};
  while (true) {
    const size_t length = strcspn(text, ",");
    bool known = false;
    snprintf(wrong, EPILOGUE_NAME, "%.*s", (int)(length < EPILOGUE_NAME ? length : EPILOGUE_NAME - 1), text);
    if (strcmp(wrong, "scale") == 0) known = !e->scale, e->scale = true;
    if (strcmp(wrong, "bias") == 0) known = !e->bias, e->bias = true;
    if (strcmp(wrong, "residual") == 0) known = !e->residual, e->residual = true;
    for (int a = 1; a < ACTIVATION_COUNT && !known; a++)
      if (strcmp(wrong, activation_names[a]) == 0) known = e->activation == ACTIVATION_NONE, e->activation = (conv_activation)a;
    if (!known) return -1;
    if (text[length] == 0) return 0;
    text += length + 1;
  }
}

void epilogue_print(const conv_epilogue *e, char name[EPILOGUE_NAME]) {
  snprintf(name, EPILOGUE_NAME, "%s%s%s%s%s%s", e->scale ? "+scale" : "", e->bias ? "+bias" : "", e->residual ? "+residual" : "", e->activation ? "+" : "",
           activation_names[e->activation], e->fp32 ? "+fp32" : "");
}

epilogue_data epilogue_describe(const conv_epilogue *e, const conv_tensor *result) {
  const int channels = result->dim[1];
  const conv_tensor each = {
      .role = TENSOR_Y, .dtype = DTYPE_FP32, .layout = LAYOUT_NCHW, .dim = {1, channels, 1, 1}, .stride = {channels, 1, 1, 1}, .count = channels};
  epilogue_data data = {.scale = each, .bias = each, .residual = *result};
  data.residual.data = NULL;
  if (!e->scale) data.scale.count = 0;
  if (!e->bias) data.bias.count = 0;
  if (!e->residual) data.residual.count = 0;
  return data;
}

conv_source epilogue_source(int part, uint64_t seed, int magnitude, conv_dtype dtype) {
  return (conv_source){.seed = 3 * seed + (uint64_t)part,
                       .magnitude = magnitude ? (part ? 8 : 2) : 0, /* scales: 1 and 2, with both signs */
                       .half = part == 1 && dtype == DTYPE_FP16};
}

int epilogue_fill(epilogue_data *data, uint64_t seed, int magnitude) {
  conv_tensor *const parts[3] = {&data->scale, &data->bias, &data->residual};
  for (int i = 0; i < 3; i++) {
    if (parts[i]->count == 0) continue;
    if (tensor_alloc(parts[i])) return -1;
    tensor_fill(parts[i], epilogue_source(i, seed, magnitude, data->residual.dtype));
  }
  return 0;
}

void epilogue_free(epilogue_data *data) {
  tensor_free(&data->scale);
  tensor_free(&data->bias);
  tensor_free(&data->residual);
}

int epilogue_exact_factor(const conv_epilogue *e) { return own_roundings[e->activation] ? 0 : e->scale ? 2 : 1; }

conv_tensor operation_tensor(const conv_problem *p, conv_pass pass, const conv_epilogue *e, tensor_role role, conv_dtype dtype, conv_layout layout) {
  return tensor_describe(p, role, role == pass_output(pass) && e->fp32 ? DTYPE_FP32 : dtype, layout);
}

conv_operation epilogue_alone(const conv_operation *o) {
  const conv_tensor result = tensor_describe(&o->problem, pass_output(o->pass), DTYPE_FP32, LAYOUT_NCHW);
  const int *dim = result.dim;
  const conv_problem p = {.N = dim[0],
                          .C = dim[1],
                          .H = dim[2],
                          .W = dim[3],
                          .K = dim[1],
                          .P = dim[2],
                          .Q = dim[3],
                          .R = 1,
                          .S = 1,
                          .stride_h = 1,
                          .stride_w = 1,
                          .dil_h = 1,
                          .dil_w = 1,
                          .groups = dim[1],
                          .repeat = 1};
  return (conv_operation){.kind = OPERATION_POINTWISE, .problem = p, .pass = PASS_FPROP, .epilogue = o->epilogue};
}

conv_traffic operation_traffic(const conv_operation *o, conv_dtype dtype) {
  conv_traffic bytes = problem_traffic(&o->problem, o->pass, dtype);
  const conv_tensor plain = tensor_describe(&o->problem, pass_output(o->pass), dtype, LAYOUT_NCHW),
                    result = operation_tensor(&o->problem, o->pass, &o->epilogue, plain.role, dtype, LAYOUT_NCHW);
  bytes.written += (double)tensor_bytes(&result) - (double)tensor_bytes(&plain);
  if (o->epilogue.residual) bytes.read += (double)tensor_bytes(&result);
  if (o->kind != OPERATION_CONVOLUTION) bytes.read -= bytes.filters;
  bytes.read += (o->epilogue.scale + o->epilogue.bias) * sizeof(float) * (double)result.dim[1];
  return bytes;
}

double epilogue_growth(const conv_epilogue *e, bool random) {
  const int roundings = e->scale + e->bias + e->residual + own_roundings[e->activation];
  return (random ? 8 : 1) * roundings * UNIT_ROUNDOFF_FP32;
}
