/* Operations of a graph from words. See graph_parse.h. */
#include "common/harness/graph_parse.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad(char why[GRAPH_ERROR], const char *expected, const char *got) {
  snprintf(why, GRAPH_ERROR, "OPERATION: expected %s, got \"%.160s\"", expected, got);
  return 2;
}

/* Whether the characters before `to`, behind a comma or from the first on, are this word. */
static bool ends_with(const char *text, const char *to, const char *word) {
  const size_t length = strlen(word), all = (size_t)(to - text);
  return all >= length && memcmp(to - length, word, length) == 0 && (all == length || to[-1 - (ptrdiff_t)length] == ',');
}

/* Characters of the benchdnn string: up to the first + that is not part of a quoted name. */
static size_t shape_length(const char *from) {
  size_t length = 0;
  for (bool quoted = false; from[length] && (quoted || from[length] != '+'); length++) quoted ^= from[length] == '"';
  return length;
}

int graph_parse(conv_graph *g, const char *text, int y[GRAPH_OPERATIONS + 1], char why[GRAPH_ERROR]) {
  char shape[256], epilogue[128] = "", wrong[EPILOGUE_NAME];
  const bool pools = strncmp(text, "pool:", 5) == 0;
  const char *from = pools ? text + 5 : text;
  const size_t length = shape_length(from);
  conv_operation o = {.kind = pools ? OPERATION_MAX_POOL : OPERATION_CONVOLUTION, .pass = PASS_FPROP};
  int residual = -1, x = g->operations ? y[g->operations] : -1;
  if (!g->operations) y[0] = 0; /* the first operation's input becomes the first tensor, which its own residual may be */
  snprintf(shape, sizeof shape, "%.*s", (int)length, from);
  if (length >= sizeof shape || strlen(from + length) >= sizeof epilogue || (*text && text[strlen(text) - 1] == '+'))
    return bad(why, "a benchdnn string of less than 256 characters and up to four words", text);
  char *to = epilogue;
  bool had_from = false;
  for (const char *c = from[length] ? from + length + 1 : ""; *c; c++) {
    if (*c == '=') { /* +residual=N, +from=N */
      char *end;
      const long n = strtol(c + 1, &end, 10);
      const bool is_from = ends_with(epilogue, to, "from"), whole = end > c + 1 && (!*end || *end == '+');
      if (is_from && !g->operations) return bad(why, "no +from=N of the first operation, which reads the input", text);
      if (!whole || c[1] < '0' || c[1] > '9' || n > g->operations || y[n] < 0 || !(is_from || ends_with(epilogue, to, "residual")))
        return bad(why, "+residual=N or +from=N with N the number of an operation before it, or 0", text);
      if (is_from && had_from) return bad(why, "one +from=N", text);
      had_from |= is_from;
      *(is_from ? &x : &residual) = y[n];
      if (is_from) to -= strlen("from");
      c = is_from && *end ? end : end - 1; /* and the + behind from=N */
    } else {
      *to++ = *c == '+' ? ',' : *c;
    }
  }
  if (to > epilogue && to[-1] == ',') to--; /* before the +from=N that ended it */
  *to = 0;
  if (problem_parse(&o.problem, shape, why, GRAPH_ERROR)) return 2;
  if (*epilogue && epilogue_parse(&o.epilogue, epilogue, wrong)) return bad(why, "scale, bias, residual and one of relu, relu6, gelu, silu, each once", wrong);
  const int result = graph_append(g, &o, x, residual, why);
  if (result < 0) return 2;
  y[0] = g->operation[0].x;
  y[g->operations] = result;
  return 0;
}
