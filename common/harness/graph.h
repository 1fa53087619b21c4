/* Several operations as one: each reads what an earlier one wrote. A plain convolution is a graph of one.
 *
 * Where the harness's trial (trial.h) looks at one operation and the kernels that can do it, this runs a chain with one kernel for each operation. Tensors
 * between operations are stored in the graph's type: rounded to it, and that is the value which the next operation's right answer is worked out from. */
#pragma once
#include "common/conv/epilogue.h"
#include "common/conv/verify.h"
#include "common/harness/buffers.h"
#include "common/harness/plan.h"
#include "common/harness/registry.h"

enum { GRAPH_OPERATIONS = 80, GRAPH_TENSORS = PART_WORKSPACE, GRAPH_ERROR = 320 };

/* USE_INSIDE: between operations that one kernel computes; no kernel writes it. */
typedef enum tensor_use { USE_IN, USE_BETWEEN, USE_INSIDE, USE_OUT } tensor_use;

typedef struct graph_tensor {
  tensor_use use;
  conv_tensor host; /* shape, and memory once graph_alloc() gave it */
} graph_tensor;

/* Forward only. Tensors by their numbers; -1: none. */
typedef struct graph_operation {
  conv_operation what;
  int x, w, y;
  int scale, bias, residual;
} graph_operation;

typedef struct conv_graph {
  conv_dtype dtype;
  conv_layout layout;
  int operations, tensors;
  graph_operation operation[GRAPH_OPERATIONS];
  graph_tensor tensor[GRAPH_TENSORS];
} conv_graph;

/* Appends an operation that reads tensor x (-1 in an empty graph: a new input) and, if its epilogue has a residual, tensor `residual` (-1: a new input).
 * Filters, scale and bias are new inputs. Returns the number of its result, or -1 with a line in `error`: shapes do not fit, or no room. */
int graph_append(conv_graph *g, const conv_operation *o, int x, int residual, char error[GRAPH_ERROR]);

/* Makes two operations of operation i: itself without its epilogue, and behind it the epilogue alone, with a tensor between them. Returns 0, or -1: no room. */
int graph_split(conv_graph *g, int i);

/* A kernel for each operation of a graph, in its own order, or for several of them. */
typedef struct graph_plan {
  const conv_kernel *kernel[GRAPH_OPERATIONS];
  const chain_kernel *chain[GRAPH_OPERATIONS]; /* of an operation that begins a chain; that one's others have neither */
  conv_chain what[GRAPH_OPERATIONS];           /* the chain */
  conv_plan plan[GRAPH_OPERATIONS];
  size_t workspace_bytes; /* the most that one needs: they follow one another */
} graph_plan;

/* Which kernels for several operations graph_choose() takes. wanted: whether a kernel is, which can do the chain by this plan; NULL: all are. */
typedef struct graph_chains {
  bool (*wanted)(const conv_chain *chain, const chain_kernel *kernel, const conv_plan *plan, const void *data);
  const void *data; /* of the one who asks */
} graph_chains;

/* Takes for every operation what the first of the steps whose rule has a line for it takes; or else the first kernel that can do it. Where none fuses its epilogue,
 * the operation becomes two, the convolution and a pointwise one, with a tensor between them: *g changes. chains: operations that a step has one kernel for, the
 * longest first, are that one's. Returns 0, or -1 with a line in `error`. */
int graph_choose(conv_graph *g, const conv_step *const steps[], int count, const graph_chains *chains, const conv_device *device, graph_plan *plan,
                 char error[GRAPH_ERROR]);

/* Host memory of all tensors. Returns 0, or -1 with a line. Free with graph_free either way. */
int graph_alloc(conv_graph *g, char error[GRAPH_ERROR]);
void graph_free(conv_graph *g);

/* Fills the inputs. integers: -1 and 1 (scales also 2, bias and residual up to 8), for sums that stay exact. Else random normal, filters divided by about
 * the square root of their sums' terms, so that values stay near 1 along a chain. */
void graph_fill(conv_graph *g, uint64_t seed, bool integers);

/* One set of buffers for a graph, and one execution on it. */
buffer_sets graph_buffers(const conv_graph *g, const graph_plan *plan);
cudaError_t graph_upload(const conv_graph *g, const buffer_sets *sets); /* the inputs into the first set */
cudaError_t graph_launch(const conv_graph *g, const graph_plan *plan, const buffer_sets *sets, int set, cudaStream_t stream);
/* Of operations from `first` to before `end`: neither lies within a chain. */
cudaError_t graph_launch_some(const conv_graph *g, const graph_plan *plan, const buffer_sets *sets, int set, int first, int end, cudaStream_t stream);
conv_buffers graph_view(const conv_graph *g, int operation, const buffer_sets *sets, int set);

typedef struct graph_verdict {
  bool right;
  char note[GRAPH_ERROR];                   /* why not */
  conv_verdict operation[GRAPH_OPERATIONS]; /* each against its right answer from what this run gave it to read */
  double drift; /* of the last result from a chain computed in fp64 throughout and rounded between operations: largest difference over the largest value */
} graph_verdict;

/* Runs once on fresh poisoned buffers and judges every operation, guards and inputs. Integers: bit for bit, each operation and the whole chain. Results stay
 * in the graph's tensors. on_device: right answers and comparisons there (common/conv/gpu.h), to the same verdict. Returns the first CUDA error. */
cudaError_t graph_verify(conv_graph *g, const graph_plan *plan, bool integers, bool on_device, FILE *log, graph_verdict *verdict);
