/* How long a graph takes, and the same by cuDNN. */
#pragma once
#include "common/harness/graph.h"
#include "common/harness/machine.h"

/* Operations that one kernel computes, those without an epilogue and the kernel behind it: of `asked`, `count` from `first` on. Alone, its buffers as often as it likes in the
 * cache. */
typedef struct graph_piece {
  int first, count;
  double us, in_order_us, cudnn_us;      /* 0: none */
  double early_share, cudnn_early_share; /* as a contender's: of `us`, `cudnn_us` */
} graph_piece;

typedef struct graph_figures {
  double us, min_us;                     /* median and least of the whole graph, cold L2 */
  double in_order_us;                    /* the same where each kernel waits for the one before it to end; 0: not asked for */
  double early_share, cudnn_early_share; /* as a contender's: of `us`, `cudnn_us` */
  double apart_us;                       /* the median of `apart`; 0: not asked for */
  double cudnn_us; /* the same by cuDNN, one operation after the other: each by its best plan, fused or with a pointwise kernel behind it; 0: none */
  double floor_us; /* of each operation by itself, added up: what is stored between them counts twice */
  char cudnn_plans[GRAPH_OPERATIONS][80];
  int pieces;
  graph_piece piece[GRAPH_OPERATIONS];
  bool differs;           /* the last timed run of a kernel of ours left other bits than the verified one */
  char note[GRAPH_ERROR]; /* why there are no figures of cuDNN's, or what else a reader of them should know */
} graph_figures;

/* The same graph by other kernels, verified on the same inputs. */
typedef struct graph_apart {
  const conv_graph *g;
  const graph_plan *plan;
} graph_apart;

typedef struct graph_timing {
  const graph_apart *apart; /* in turns with the graph; NULL: none */
  bool cudnn;               /* the same */
  double seconds;           /* of a search of cuDNN's plans; 0: 10 */
  bool in_order;            /* also without kernels that begin early */
  bool pieces;              /* then each by itself, beside the same operations by cuDNN */
} graph_timing;

/* Times a graph that graph_verify() found right, on data in its host tensors. asked: the same graph before its epilogues were split off. Every contender's last sample of the whole
 * graph must have left the same bits as the verified run (ours) or be right (cuDNN's, when it was chosen). Returns the first CUDA error. */
cudaError_t graph_time(const conv_graph *g, const graph_plan *plan, const conv_graph *asked, const graph_timing *how, const machine *m, graph_figures *figures);
