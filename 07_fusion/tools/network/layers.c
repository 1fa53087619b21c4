/* The layers of ResNet-18 and ResNet-50. See layers.h. */
#include "07_fusion/tools/network/layers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A network's stages: blocks of each, and whether a block is a bottleneck (1x1, 3x3, 1x1) or basic (3x3, 3x3). */
typedef struct network_kind {
  const char *name;
  bool bottleneck;
  int blocks[4];
} network_kind;
static const network_kind kinds[] = {{"resnet18", false, {2, 2, 2, 2}}, {"resnet50", true, {3, 4, 6, 3}}};

/* What a layer reads: a tensor, and its shape. */
typedef struct feature_map {
  int tensor, channels, size;
} feature_map;

typedef struct builder {
  network *n;
  int batch, narrower;
  bool folded;
  char *error;
} builder;

static conv_problem square(int batch, int channels, int size, int filters, int taps, int stride, int pad) {
  const int out = (size + 2 * pad - taps) / stride + 1, after = (out - 1) * stride + taps - size - pad;
  return (conv_problem){.N = batch,
                        .C = channels,
                        .H = size,
                        .W = size,
                        .K = filters,
                        .R = taps,
                        .S = taps,
                        .P = out,
                        .Q = out,
                        .stride_h = stride,
                        .stride_w = stride,
                        .dil_h = 1,
                        .dil_w = 1,
                        .pad_top = pad,
                        .pad_left = pad,
                        .pad_bottom = after,
                        .pad_right = after,
                        .groups = 1,
                        .repeat = 1};
}

/* Appends an operation and names it; -1 after a line in the builder's error. */
static feature_map append(builder *b, const conv_operation *o, feature_map from, int residual, const char *format, ...) {
  conv_graph *g = &b->n->graph;
  va_list list;
  va_start(list, format);
  vsnprintf(b->n->layer[g->operations < GRAPH_OPERATIONS ? g->operations : 0], LAYER_NAME, format, list);
  va_end(list);
  if (from.tensor < -1) return from; /* an earlier one failed */
  const int y = graph_append(g, o, from.tensor, residual, b->error);
  return (feature_map){y < 0 ? -2 : y, o->problem.K, o->problem.P};
}

/* A convolution and its batch norm. */
static feature_map conv(builder *b, feature_map from, int filters, int taps, int stride, int residual, bool relu, const char *name, char block,
                        const char *what) {
  const conv_operation o = {.problem = square(b->batch, from.channels, from.size, filters, taps, stride, taps / 2),
                            .pass = PASS_FPROP,
                            .epilogue = {.scale = !b->folded, .bias = true, .residual = residual >= 0, .activation = relu ? ACTIVATION_RELU : ACTIVATION_NONE}};
  return append(b, &o, from, residual, block ? "%s%c_%s" : "%s", name, block, what);
}

static feature_map block_of(builder *b, const network_kind *k, feature_map x, int width, int stride, const char *stage, char name) {
  const int filters = k->bottleneck ? 4 * width : width;
  feature_map shortcut = x, y = x;
  if (stride > 1 || x.channels != filters) shortcut = conv(b, x, filters, 1, stride, -1, false, stage, name, "downsample");
  if (k->bottleneck) {
    y = conv(b, y, width, 1, 1, -1, true, stage, name, "reduce");
    y = conv(b, y, width, 3, stride, -1, true, stage, name, "3x3");
    return conv(b, y, filters, 1, 1, shortcut.tensor, true, stage, name, "expand");
  }
  y = conv(b, y, width, 3, stride, -1, true, stage, name, "first");
  return conv(b, y, filters, 3, 1, shortcut.tensor, true, stage, name, "second");
}

int network_build(network *n, const network_shape *shape, char error[GRAPH_ERROR]) {
  const network_kind *k = NULL;
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(shape->name, kinds[i].name) == 0) k = &kinds[i];
  if (!k) return snprintf(error, GRAPH_ERROR, "--network: expected resnet18 or resnet50, got \"%s\"", shape->name), -1;
  memset(n, 0, sizeof *n);
  n->graph.dtype = DTYPE_FP16, n->graph.layout = LAYOUT_NHWC;
  builder b = {n, shape->batch, shape->narrower, shape->folded, error};
  feature_map x = conv(&b, (feature_map){-1, 3, shape->size}, 64 / shape->narrower, 7, 2, -1, true, "conv1", 0, "");
  conv_operation pool = {.kind = OPERATION_MAX_POOL, .problem = square(shape->batch, x.channels, x.size, x.channels, 3, 2, 1), .pass = PASS_FPROP};
  pool.problem.groups = x.channels;
  x = append(&b, &pool, x, -1, "pool1");
  for (int s = 0; s < 4; s++)
    for (int i = 0; i < k->blocks[s]; i++) {
      char stage[8];
      snprintf(stage, sizeof stage, "res%d", s + 2);
      x = block_of(&b, k, x, (64 << s) / shape->narrower, i == 0 && s > 0 ? 2 : 1, stage, (char)('a' + i));
    }
  /* The average of an image is a depthwise filter as large as it, and the classifier a 1x1 convolution of what is left. */
  conv_operation average = {.problem = square(shape->batch, x.channels, x.size, x.channels, x.size, 1, 0), .pass = PASS_FPROP};
  average.problem.groups = x.channels;
  n->average = n->graph.operations;
  x = append(&b, &average, x, -1, "average");
  const conv_operation classify = {.problem = square(shape->batch, x.channels, 1, 1000, 1, 1, 0), .pass = PASS_FPROP, .epilogue = {.bias = true}};
  return append(&b, &classify, x, -1, "classify").tensor < 0 ? -1 : 0;
}
