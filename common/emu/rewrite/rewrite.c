/* rewrite in.cu out.cpp: turns what is CUDA and no C++ into C++, line by line in place.
 *
 *   kernel<A, B><<<grid, block, shared, stream>>>(args)     emu_configure("kernel<A, B>", kernel<A, B>, grid, block, shared, stream)(args)
 *   __shared__ float tile[16][17];                          a reference into the block's shared memory (emu_shared in emu.h)
 *   extern __shared__ float all[];                          a pointer to its dynamic part
 *   __launch_bounds__(N) k(int i) {                         as it is, and behind the brace what makes N known (rewrite_bounds.c)
 *   __device__ int count;                                   as it is, and behind it what makes it known (rewrite_variables.c)
 *   #pragma unroll                                          nothing: the host compiler warns of it
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

/* ---- __shared__ type name[sizes]; ---- */

static const char *const storage[] = {"__shared__", "extern", "static", "__device__", "volatile", "const", NULL};
static const char *const alignment[] = {"alignas", "__align__", NULL};

/* The first token of the declaration that has __shared__ at i. */
static size_t declaration_start(const token_list *list, size_t i) {
  static const char *const before[] = {";", "{", "}", ":", NULL};
  while (i > 0 && !is_any(list, i - 1, before) && list->at[i - 1].kind != DIRECTIVE) {
    if (is_any(list, i - 1, storage)) {
      i--;
    } else if (is(list, i - 1, ")")) {
      size_t open = i - 1;
      for (int depth = 0; open > 0; open--) {
        depth += is(list, open, ")") - is(list, open, "(");
        if (depth == 0) break;
      }
      if (open == 0 || !is_any(list, open - 1, alignment)) break;
      i = open - 1;
    } else {
      break;
    }
  }
  if (i > 0 && !is_any(list, i - 1, before) && list->at[i - 1].kind != DIRECTIVE)
    fail_at(list->at[i].start, "__shared__ in the middle of a declaration, expected it at its start");
  return i;
}

static void rewrite_shared(const token_list *list, size_t shared, bool in_function) {
  const size_t position = list->at[shared].start;
  if (!in_function) fail_at(position, "__shared__ outside of a function, expected it inside the kernel that uses it");
  const size_t first = declaration_start(list, shared);
  token_list left = {0}; /* without storage and alignment: the type, the name, the sizes */
  text align = {0};
  bool dynamic = false;
  int angle = 0;
  size_t name = 0, i = first;
  for (; i < list->count && !is(list, i, ";"); i++) {
    const token t = list->at[i];
    if (is_any(list, i, alignment)) {
      const size_t end = behind_match(list, i + 1);
      put_string(&align, ", ");
      put_tokens(&align, list, i + 1, end);
      i = end - 1;
      continue;
    }
    dynamic |= is(list, i, "extern");
    if (is(list, i, "extern") || is(list, i, "static") || is(list, i, "__shared__") || is(list, i, "__device__")) continue;
    if (is(list, i, "<")) angle++;
    if (is(list, i, ">")) angle--;
    if (angle == 0 && is(list, i, ",")) fail_at(t.start, "a second variable after __shared__, expected one declaration for each");
    if (angle == 0 && (is(list, i, "=") || is(list, i, "{"))) fail_at(t.start, "a __shared__ variable with a value, expected none: threads have to write it");
    if (angle == 0 && (is(list, i, "(") || is(list, i, ")")))
      fail_at(t.start, "a parenthesis in a __shared__ declaration, expected __shared__ type name[sizes];");
    if (angle == 0 && is(list, i, "[")) {
      if (name == 0) name = left.count;
      const size_t end = behind_match(list, i);
      for (; i + 1 < end; i++) add_token(&left, list->at[i].kind, list->at[i].start, list->at[i].end);
    } else if (name != 0) {
      fail_at(t.start, "something behind the sizes of a __shared__ array, expected ;");
    }
    add_token(&left, list->at[i].kind, list->at[i].start, list->at[i].end);
  }
  if (name == 0) name = left.count;
  if (i >= list->count || name < 2 || left.at[name - 1].kind != NAME)
    fail_at(position, "__shared__ without a type and a name, expected __shared__ type name[sizes];");
  const bool unsized = is(&left, name, "[") && is(&left, name + 1, "]");
  if (dynamic && !unsized) fail_at(position, "extern __shared__ with a size or without [], expected extern __shared__ type name[];");
  if (!dynamic && unsized) fail_at(position, "__shared__ array without a size, expected one, or extern in front");

  text type = {0}, variable = {0}, sizes = {0}, whole = {0}, out = {0};
  put_tokens(&type, &left, 0, name - 1);
  put_tokens(&variable, &left, name - 1, name);
  for (size_t at = name + (dynamic ? 2 : 0); at < left.count;) { /* [n] as [(n)]: a > in it must not end a template's arguments */
    const size_t end = behind_match(&left, at);
    put_string(&sizes, "[(");
    put_tokens(&sizes, &left, at + 1, end - 1);
    put_string(&sizes, ")]");
    at = end;
  }
  put_tokens(&whole, &left, 0, name - 1);
  if (name < left.count) put_string(&whole, " ");
  put_tokens(&whole, &left, name, left.count);
  if (sizes.bytes == NULL) put_string(&sizes, "");
  if (align.bytes == NULL) put_string(&align, "");
  if (whole.bytes == NULL) put_string(&whole, "");

  put_string(&out, "static emu_shared_site emu_site_");
  put_string(&out, variable.bytes);
  put_string(&out, " = {");
  put_quoted(&out, variable.bytes);
  put_string(&out, ", ");
  put_quoted(&out, whole.bytes);
  put_string(&out, ", {__FILE__, __LINE__}, ");
  if (dynamic) {
    put_string(&out, "0");
  } else {
    put_string(&out, "sizeof(");
    put_string(&out, type.bytes);
    put_string(&out, sizes.bytes);
    put_string(&out, ")");
  }
  put_string(&out, ", emu_greatest({alignof(");
  put_string(&out, type.bytes);
  put_string(&out, ")");
  put_string(&out, align.bytes);
  put_string(&out, "}), 0, 0}; [[maybe_unused]] ");
  put_string(&out, type.bytes);
  const bool array = sizes.count > 0;
  put_string(&out, array ? " (" : " ");
  put_string(&out, dynamic ? "*const " : "&");
  put_string(&out, variable.bytes);
  if (array) put_string(&out, ")");
  put_string(&out, sizes.bytes);
  put_string(&out, dynamic ? " = static_cast<" : " = *static_cast<");
  put_string(&out, type.bytes);
  put_string(&out, array ? " (*)" : " *");
  put_string(&out, sizes.bytes);
  put_string(&out, ">(emu_shared(&emu_site_");
  put_string(&out, variable.bytes);
  put_string(&out, "));");
  for (size_t at = list->at[first].start; at < list->at[i].end; at++) /* as many lines as before */
    if (source[at] == '\n') put_string(&out, source[at - 1] == '\\' ? "\\\n" : "\n");
  add_edit(list->at[first].start, list->at[i].end, out.bytes);
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
    } else if (is(list, i, "__shared__")) {
      rewrite_shared(list, i, function[depth]);
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
