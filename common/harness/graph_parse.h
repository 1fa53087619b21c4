/* Operations of a graph from words. */
#pragma once
#include "common/harness/graph.h"

#define GRAPH_OPERATION_HELP                                                                                                                                \
  "An OPERATION is a benchdnn string and what follows in it, +scale +bias +residual, one of +relu +relu6 +gelu +silu; or pool:STRING, max-pooling alone.\n" \
  "Each reads what the one before it wrote; +from=N: the result of operation N, 0: what the first one reads. A residual is a new tensor; +residual=N as "   \
  "+from=N.\n"

/* Appends the operation that a text says. y: the results so far, y[0] the first input; the new one is added. Returns 0, or 2 with a line in `why`. */
int graph_parse(conv_graph *g, const char *text, int y[GRAPH_OPERATIONS + 1], char why[GRAPH_ERROR]);
