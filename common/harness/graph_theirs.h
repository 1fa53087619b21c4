/* A graph's operations by cuDNN's plans: the opponent of graph_time.h. */
#pragma once
#include "common/cudnn/cudnn.h"
#include "common/harness/graph.h"

/* An operation by the fastest of: a plan of the graph with its epilogue; a plan of the bare convolution, and a pointwise kernel behind it. Pooling, which the search does
 * not know, by the harness's own kernel, on both sides. */
typedef struct their_operation {
  cudnn_baseline fused, bare;
  cudnn_runner runner;      /* of either; none: pooling */
  const conv_kernel *after; /* behind it, or alone */
  conv_plan after_plan;
  char tag[CUDNN_TAG + 16]; /* "eng79_k24=3+pointwise" */
} their_operation;

typedef struct their_graph {
  const conv_graph *g;
  const buffer_sets *sets;
  their_operation operation[GRAPH_OPERATIONS];
} their_graph;

/* Finds and chooses plans for every operation of g, by their times one by one with a cold cache, on buffers that hold data of all of g's tensors and, where these are too few, more of each operation's own. seconds: of a search; 0: 10. Returns 0; 1:
 * cuDNN has none, and `note` says so; -1: a CUDA error. Close it either way. */
int their_graph_open(their_graph *t, const conv_graph *g, const buffer_sets *sets, double seconds, const machine *m, char note[GRAPH_ERROR]);
void their_graph_close(their_graph *t);

/* A contender's enqueue: all operations, one after the other, on one set. */
cudaError_t their_graph_enqueue(void *context, int set, cudaStream_t stream);
/* Of operations from `first` to before `end`. */
cudaError_t their_graph_enqueue_some(const their_graph *t, int set, int first, int end, cudaStream_t stream);
