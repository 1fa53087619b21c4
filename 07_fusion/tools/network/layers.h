/* ResNet as a graph: K. He et al., "Deep Residual Learning for Image Recognition", table 1; the stride of a bottleneck is on its 3x3, as frameworks have it. */
#pragma once
#include "common/harness/graph.h"

/* What is built. Batch norms are a scale and a bias behind each convolution; folded, the scale is in the filters already. */
typedef struct network_shape {
  const char *name; /* "resnet18", "resnet50" */
  int batch, size;  /* images of size x size */
  int narrower;     /* channels are divided by it: 1 is the network itself */
  bool folded;
} network_shape;

enum { LAYER_NAME = 32 };
typedef struct network {
  conv_graph graph;
  char layer[GRAPH_OPERATIONS][LAYER_NAME]; /* "res2a_3x3" */
  int average;                              /* the operation that is an average: its filters are constant */
} network;

/* Returns 0, or -1 with a line in `error`. */
int network_build(network *n, const network_shape *shape, char error[GRAPH_ERROR]);
