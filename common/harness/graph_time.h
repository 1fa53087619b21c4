/* How long a graph takes, and the same by cuDNN. */
#pragma once
#include "common/harness/graph.h"
#include "common/harness/machine.h"

typedef struct graph_figures {
  double us, min_us; /* median and least of the whole graph, cold L2 */
  double apart_us;   /* the median of `apart`; 0: not asked for */
  double cudnn_us;   /* the same by cuDNN, one operation after the other: each by its best plan, fused or with a pointwise kernel behind it; 0: none */
  double floor_us;   /* of each operation by itself, added up: what is stored between them counts twice */
  char cudnn_plans[GRAPH_OPERATIONS][80];
  char note[GRAPH_ERROR]; /* why there are no figures of cuDNN's */
} graph_figures;

/* The same graph by other kernels, verified on the same inputs. */
typedef struct graph_apart {
  const conv_graph *g;
  const graph_plan *plan;
} graph_apart;

/* Times a graph that graph_verify() found right, on data in its host tensors, in turns with `apart` (NULL: none) and with cuDNN's plans for `asked`, the same
 * graph before its epilogues were split off. Every contender's last sample must have left the same bits as the verified run (ours) or be right (cuDNN's, when it was chosen). Returns
 * the first CUDA error. seconds: of a search of plans; 0: 10. */
cudaError_t graph_time(const conv_graph *g, const graph_plan *plan, const graph_apart *apart, const conv_graph *asked, double seconds, const machine *m,
                       graph_figures *figures);
