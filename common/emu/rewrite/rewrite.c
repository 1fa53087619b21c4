/* rewrite in.cu out.cpp: turns what is CUDA and no C++ into C++, line by line in place.
 *
 *   kernel<A, B><<<grid, block, shared, stream>>>(args)     emu_configure("kernel<A, B>", kernel<A, B>, grid, block, shared, stream)(args)
 *   __shared__ float tile[16][17];                          a reference into the block's shared memory (emu_shared in emu.h)
 *   extern __shared__ float all[];                          a pointer to its dynamic part (both rewrite_shared.c)
 *   __launch_bounds__(N) k(int i) {                         as it is, and behind the brace what makes N known (rewrite_bounds.c)
 *   __device__ int count;                                   as it is, and behind it what makes it known (rewrite_variables.c)
 *   #pragma unroll                                          nothing: the host compiler warns of it
 *   #include <cuda/...>                                     an error: libcu++ is not there
 *   asm, #ifdef __CUDA_ARCH__                               an error; a warning: but for files that know of CUDA_EMULATOR
 *
 * Comments, strings and other directives stay as they are; the bodies of macros are rewritten like the rest. The output starts with a
 * #line, and every line keeps its number, so that messages and debuggers show the .cu file. What it does not understand is an error
 *   file:line: what was found, what was expected
 * and exit status 2; 1 when a file cannot be read or written. */
#include "common/emu/rewrite/rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool is(const token_list *list, size_t i, const char *what) {
  if (i >= list->count) return false;
  const token *t = &list->at[i];
  return t->kind != STRING && t->kind != DIRECTIVE && t->end - t->start == strlen(what) && strncmp(source + t->start, what, strlen(what)) == 0;
}

bool is_any(const token_list *list, size_t i, const char *const *names) {
  for (; *names; names++)
    if (is(list, i, *names)) return true;
  return false;
}

size_t behind_match(const token_list *list, size_t i) {
  int depth = 0;
  for (; i < list->count; i++) {
    if (is(list, i, "(") || is(list, i, "[") || is(list, i, "{")) depth++;
    if (is(list, i, ")") || is(list, i, "]") || is(list, i, "}")) depth--;
    if (depth == 0) return i + 1;
  }
  return i;
}

void put_tokens(text *t, const token_list *list, size_t first, size_t end) {
  for (size_t i = first; i < end; i++) {
    if (list->at[i].kind == DIRECTIVE) fail_at(list->at[i].start, "a directive inside a declaration or a kernel's name, expected none");
    if (memchr(source + list->at[i].start, '\n', list->at[i].end - list->at[i].start))
      fail_at(list->at[i].start, "a string of several lines inside a declaration or a kernel's name, expected one line");
    if (i > first && list->at[i].start > list->at[i - 1].end) put_string(t, " ");
    put(t, source + list->at[i].start, list->at[i].end - list->at[i].start);
  }
}

/* ---- kernel<<<grid, block>>>(args) ---- */

/* The token that opens the bracket closed by token i; the list's count if there is none. Angle brackets count only outside of others. */
static size_t opening(const token_list *list, size_t i) {
  int depth = 0, angle = 0;
  for (size_t at = i + 1; at-- > 0;) {
    if (is(list, at, ";")) break;
    depth += is(list, at, ")") || is(list, at, "]") || is(list, at, "}");
    depth -= is(list, at, "(") || is(list, at, "[") || is(list, at, "{");
    if (depth == 0) angle += is(list, at, ">") - is(list, at, "<");
    if (depth < 0) break;
    if (depth == 0 && angle == 0) return at;
  }
  return list->count;
}

size_t kernel_start(const token_list *list, size_t launch) {
  size_t i = launch; /* the name starts at i or before */
  for (;;) {
    if (i > 0 && (is(list, i - 1, ">") || is(list, i - 1, "]"))) { /* template arguments, an index: of the name before them */
      const size_t open = opening(list, i - 1);
      if (open == list->count) break;
      i = open;
    } else if (i == launch && i > 0 && is(list, i - 1, ")")) {
      const size_t open = opening(list, i - 1);
      if (open == list->count || (open > 0 && list->at[open - 1].kind == NAME && !is(list, open - 1, "return"))) break;
      return open;
    }
    if (i == 0 || list->at[i - 1].kind != NAME) break;
    i--;
    if (i > 0 && is(list, i - 1, "::")) {
      if (i < 2 || is(list, i - 2, "return") || (list->at[i - 2].kind != NAME && !is(list, i - 2, ">"))) return i - 1; /* ::kernel */
      i--;
    } else if (i > 0 && (is(list, i - 1, ".") || is(list, i - 1, "->"))) {
      i--;
    } else {
      return i;
    }
  }
  fail_at(list->at[launch].start, "<<< without a kernel before it, expected name<<<grid, block>>>(arguments)");
}

static void rewrite_launch(const token_list *list, size_t launch) {
  const size_t position = list->at[launch].start;
  size_t close = launch + 1, arguments = 1;
  while (close + 2 < list->count &&
         !(is(list, close, ">") && is(list, close + 1, ">") && is(list, close + 2, ">") && list->at[close].start + 2 == list->at[close + 2].start)) {
    if (is(list, close, ";") || is(list, close, "}") || is(list, close, ")") || list->at[close].kind == LAUNCH) close = list->count;
    else if (is(list, close, ",")) arguments++, close++;
    else if (is(list, close, "(") || is(list, close, "[") || is(list, close, "{")) close = behind_match(list, close);
    else close++;
  }
  if (close + 2 >= list->count) fail_at(position, "<<< without its end, expected >>> and the arguments in parentheses");
  if (close == launch + 1 || arguments < 2 || arguments > 4)
    fail_at(position, "%zu argument%s between <<< and >>>, expected 2 to 4 (a template call with a comma goes in parentheses)",
            close == launch + 1 ? 0 : arguments, arguments == 1 && close != launch + 1 ? "" : "s");
  if (!is(list, close + 3, "(") || behind_match(list, close + 3) > list->count || !is(list, behind_match(list, close + 3) - 1, ")"))
    fail_at(list->at[close].start, ">>> without arguments, expected >>>(arguments)");

  const size_t first = kernel_start(list, launch);
  text name = {0}, call = {0};
  put_tokens(&name, list, first, launch);
  put_string(&call, "emu_configure(");
  if (launch == first + 1 && is_parameter(list, &list->at[first])) { /* a macro's parameter: name what the macro is used with */
    put_string(&call, "#");
    put_string(&call, name.bytes);
  } else {
    put_quoted(&call, name.bytes);
  }
  put_string(&call, ", ");
  add_edit(list->at[first].start, list->at[first].start, call.bytes);
  add_edit(position, position + 3, ", ");
  add_edit(list->at[close].start, list->at[close + 2].end, ")");
  free(name.bytes);
}

/* ---- the whole file ---- */

/* Whether the brace at i opens something that is not a function's body: a namespace or extern "C". */
static bool opens_namespace(const token_list *list, size_t i) {
  while (i > 0 && !is(list, i - 1, ";") && !is(list, i - 1, "{") && !is(list, i - 1, "}") && list->at[i - 1].kind != DIRECTIVE) i--;
  return is(list, i, "namespace") || (is(list, i, "inline") && is(list, i + 1, "namespace")) ||
         (is(list, i, "extern") && list->at[i + 1].kind == STRING && is(list, i + 2, "{"));
}

void rewrite_list(const token_list *list, bool macro) {
  enum { DEEPEST = 256 };
  static const char *const assembly[] = {"asm", "__asm__", "__asm", NULL};
  bool function[DEEPEST] = {macro}; /* at each depth of braces: inside a function? */
  int depth = 0, saved[DEEPEST], conditionals = 0;
  for (size_t i = 0; i < list->count; i++) {
    if (list->at[i].kind == DIRECTIVE) { /* the branches of an #if may each open the same brace */
      const size_t at = list->at[i].start;
      if (directive_is(at, "if", NULL) || directive_is(at, "ifdef", NULL) || directive_is(at, "ifndef", NULL)) {
        if (conditionals < DEEPEST) saved[conditionals] = depth;
        conditionals++;
      } else if (conditionals > 0 && conditionals <= DEEPEST && (directive_is(at, "else", NULL) || directive_is(at, "elif", NULL))) {
        depth = saved[conditionals - 1];
      } else if (directive_is(at, "endif", NULL) && conditionals > 0) {
        conditionals--;
      }
    } else if (is(list, i, "{")) {
      if (++depth >= DEEPEST) fail_at(list->at[i].start, "braces %d deep, expected fewer", depth);
      function[depth] = function[depth - 1] || !opens_namespace(list, i);
    } else if (is(list, i, "}")) {
      if (depth > 0) depth--;
    } else if (list->at[i].kind == LAUNCH) {
      rewrite_launch(list, i);
    } else if (is_any(list, i, assembly) && strstr(source, "CUDA_EMULATOR") == NULL) {
      fail_at(list->at[i].start, "inline PTX, which the emulator does not have: expected a function of common/ptx/, which has both");
    } else if (is(list, i, "__shared__")) {
      rewrite_shared(list, i, function[depth], macro);
    } else if (is(list, i, "__launch_bounds__")) {
      rewrite_bounds(list, i);
    } else if (is(list, i, "__device__") && !function[depth]) {
      rewrite_variable(list, i);
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s in.cu out.cpp\n", argv[0]);
    return 1;
  }
  read_source(argv[1]);
  scan_source();
  write_result(argv[2]);
  return 0;
}
