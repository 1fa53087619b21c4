/* How long a graph takes, and the same by cuDNN. */
#pragma once
#include "common/harness/graph.h"
#include "common/harness/machine.h"

typedef struct graph_figures {
  double us, min_us; /* median and least of the whole graph, cold L2 */
  double cudnn_us;   /* cuDNN's best plan for each operation with its epilogue, one after the other; 0: none */
  double floor_us;   /* of each operation by itself, added up: what is stored between them counts twice */
  char cudnn_plans[GRAPH_OPERATIONS][64];
  char note[GRAPH_ERROR]; /* why there are no figures of cuDNN's */
} graph_figures;

/* Times a graph that graph_verify() found right, on data in its host tensors, in turns with cuDNN's plans for `asked`, the same graph before its epilogues
 * were split off. Every contender's last sample must have left the same bits as the verified run (ours) or be right (cuDNN's, when it was chosen). Returns
 * the first CUDA error. */
cudaError_t graph_time(const conv_graph *g, const graph_plan *plan, const conv_graph *asked, const machine *m, graph_figures *figures);
