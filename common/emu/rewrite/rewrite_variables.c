/* __device__ variables: the checker has to know where they lie, for they are memory that all blocks share.
 *
 *   __device__ int sums[4] = {1, 2};
 *   becomes the same and behind it   [[maybe_unused]] static const bool emu_known_sums = emu_set_variable((void *)&sums, sizeof sums, "sums");
 *
 * and the same once more for each further name of one declaration. Not so functions, constants, templates, and declarations of what is
 * defined elsewhere. */
#include "common/emu/rewrite/rewrite.h"

static void put_known(text *out, const token_list *list, size_t name) {
  put_string(out, " [[maybe_unused]] static const bool emu_known_");
  put_tokens(out, list, name, name + 1);
  put_string(out, " = emu_set_variable((void *)&");
  put_tokens(out, list, name, name + 1);
  put_string(out, ", sizeof ");
  put_tokens(out, list, name, name + 1);
  put_string(out, ", \"");
  put_tokens(out, list, name, name + 1);
  put_string(out, "\");");
}

void rewrite_variable(const token_list *list, size_t i) {
  static const char *const before[] = {";", "{", "}", NULL}, *const ends[] = {";", ",", "=", "{", "(", "[", "}", NULL};
  static const char *const attributes[] = {"alignas", "__align__", "__attribute__", "__launch_bounds__", NULL};
  static const char *const others[] = {"const", "constexpr", "extern", "template", "operator", "using", "typedef", "__global__", "__host__", NULL};
  size_t first = i;
  while (first > 0 && !is_any(list, first - 1, before) && list->at[first - 1].kind != DIRECTIVE) first--;
  size_t at = first;
  text out = {0};
  for (int names = 0; !is(list, at, ";"); names++) {
    for (int angle = 0; at < list->count && list->at[at].kind != DIRECTIVE; at++) { /* the type, and the name at its end */
      if (is_any(list, at, others)) return;
      if (is_any(list, at, attributes)) {
        at = behind_match(list, at + 1) - 1;
        continue;
      }
      angle += is(list, at, "<") - is(list, at, ">");
      if (angle == 0 && is_any(list, at, ends)) break;
    }
    if (at >= list->count || (names == 0 && at < i + 3) || list->at[at - 1].kind != NAME || is(list, at, "(") || is(list, at, "}")) return;
    put_known(&out, list, at - 1);
    while (at < list->count && !is(list, at, ";") && !is(list, at, ",")) /* its size and its first value */
      at = is(list, at, "(") || is(list, at, "[") || is(list, at, "{") ? behind_match(list, at) : at + 1;
    if (at >= list->count) return;
    at += is(list, at, ",");
  }
  add_edit(list->at[at].end, list->at[at].end, out.bytes);
}
