/* __launch_bounds__ in front of a kernel: the bound goes to the runtime, which refuses launches with more threads, as a GPU does.
 *
 *   template <int BM, bool ROWS> __global__ void __launch_bounds__(2 * BM, 2) k(int n) {
 *   becomes the same and behind its brace   (void)emu_bound<(k<BM, ROWS>), (emu_first(2 * BM, 2))>::known;
 *
 * The mere mention makes the program compute `known` when it starts, once for each kernel and each choice of template arguments, whether
 * it is ever launched or not (cuda_runtime.h). A declaration without a body stays as it is: the definition says the same. */
#include <string.h>

#include "common/emu/rewrite/rewrite.h"

static bool is_dots(const token_list *list, size_t i) { return is(list, i, ".") && is(list, i + 1, ".") && is(list, i + 2, "."); }

/* Writes the names of the template's parameters, <BM, P...>, that stand between token `open`, a <, and its >. */
static void put_template_arguments(text *t, const token_list *list, size_t open, size_t end) {
  size_t name = 0; /* of this parameter: the last name before = or , or > */
  bool value = false, pack = false, first = true;
  int depth = 0;
  for (size_t i = open; i < end; i++) {
    if (is(list, i, "(") || is(list, i, "[") || is(list, i, "{")) {
      i = behind_match(list, i) - 1;
      continue;
    }
    depth += is(list, i, "<") - is(list, i, ">");
    if (depth == 1 && i > open && list->at[i].kind == NAME && !value) name = i;
    if (depth == 1 && is_dots(list, i)) pack = true;
    if (depth == 1 && is(list, i, "=")) value = true;
    if (depth > 1 || (depth == 1 && !is(list, i, ","))) continue;
    if (name == 0 || is(list, name, "int") || is(list, name, "bool") || is(list, name, "typename") || is(list, name, "class"))
      fail_at(list->at[i].start, "a template parameter without a name before a kernel with __launch_bounds__, expected one");
    put_string(t, first ? "<" : ", ");
    put_tokens(t, list, name, name + 1);
    if (pack) put_string(t, "...");
    first = value = pack = false;
    name = 0;
    if (depth == 0) break;
  }
  put_string(t, ">");
}

void rewrite_bounds(const token_list *list, size_t i) {
  static const char *const before[] = {";", "{", "}", NULL};
  static const char *const attributes[] = {"__launch_bounds__", "__cluster_dims__", "alignas", "__align__", "__attribute__", NULL};
  const size_t position = list->at[i].start, behind = behind_match(list, i + 1);
  if (!is(list, i + 1, "(") || behind == i + 3) fail_at(position, "__launch_bounds__ without a number of threads, expected __launch_bounds__(threads)");
  size_t open = behind; /* of the kernel's parameters */
  while (open < list->count && !is(list, open, "(") && !is_any(list, open, before))
    open = is_any(list, open, attributes) ? behind_match(list, open + 1) : open + 1;
  const size_t body = behind_match(list, open);
  if (!is(list, open, "(") || (!is(list, body, "{") && !is(list, body, ";")))
    fail_at(position, "__launch_bounds__ without a kernel behind it, expected its name, parameters and body");
  if (is(list, body, ";")) return;

  size_t first = i; /* of the declaration */
  while (first > 0 && !is_any(list, first - 1, before) && list->at[first - 1].kind != DIRECTIVE) first--;
  text out = {0};
  put_string(&out, " (void)emu_bound<(");
  put_tokens(&out, list, kernel_start(list, open), open);
  if (is(list, first, "template") && is(list, first + 1, "<") && !is(list, first + 2, ">")) put_template_arguments(&out, list, first + 1, i);
  put_string(&out, "), (emu_first");
  put_tokens(&out, list, i + 1, behind);
  put_string(&out, ")>::known;");
  add_edit(list->at[body].end, list->at[body].end, out.bytes);
}
