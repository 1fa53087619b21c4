/* Operations of a graph from words. See graph_parse.h. */
#include "common/harness/graph_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad(char why[GRAPH_ERROR], const char *expected, const char *got) {
  snprintf(why, GRAPH_ERROR, "OPERATION: expected %s, got \"%.160s\"", expected, got);
  return 2;
}

int graph_parse(conv_graph *g, const char *text, int y[GRAPH_OPERATIONS + 1], char why[GRAPH_ERROR]) {
  char shape[256], epilogue[128] = "", wrong[EPILOGUE_NAME];
  const bool pools = strncmp(text, "pool:", 5) == 0;
  const char *from = pools ? text + 5 : text;
  const size_t length = strcspn(from, "+");
  conv_operation o = {.kind = pools ? OPERATION_MAX_POOL : OPERATION_CONVOLUTION, .pass = PASS_FPROP};
  int residual = -1;
  snprintf(shape, sizeof shape, "%.*s", (int)length, from);
  if (length >= sizeof shape || strlen(from + length) >= sizeof epilogue) return bad(why, "a benchdnn string and up to four words", text);
  char *to = epilogue;
  for (const char *c = from[length] ? from + length + 1 : ""; *c; c++) {
    if (*c == '=') { /* +residual=N */
      char *end;
      const long n = strtol(c + 1, &end, 10);
      if (end == c + 1 || (*end && *end != '+') || n < 0 || n > g->operations || y[n] < 0 || to - epilogue < 8 || memcmp(to - 8, "residual", 8) != 0)
        return bad(why, "+residual=N with N the number of an operation before it, or 0", text);
      residual = y[n];
      c = end - 1;
    } else {
      *to++ = *c == '+' ? ',' : *c;
    }
  }
  *to = 0;
  if (problem_parse(&o.problem, shape, why, GRAPH_ERROR)) return 2;
  if (*epilogue && epilogue_parse(&o.epilogue, epilogue, wrong)) return bad(why, "scale, bias, residual and one of relu, relu6, gelu, silu, each once", wrong);
  const int result = graph_append(g, &o, g->operations ? y[g->operations] : -1, residual, why);
  if (result < 0) return 2;
  y[0] = g->operation[0].x;
  y[g->operations] = result;
  return 0;
}
