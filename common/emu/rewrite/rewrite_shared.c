/* Shared memory: each __shared__ variable becomes a reference into the block's part of it, each extern one a pointer.
 *
 *   __shared__ float a[2], b;           two of them
 *   __shared__ struct { int i; } c;     the struct gets a name and stays, c comes behind it */
#include <stdlib.h>

#include "common/emu/rewrite/rewrite.h"

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

/* What it is called in listings; a macro's parameters as the macro is used. */
static void put_label(text *t, const token_list *list, size_t first, size_t end) {
  put_string(t, "\"");
  for (size_t i = first; i < end; i++) {
    text one = {0}, quoted = {0};
    put_tokens(&one, list, i, i + 1);
    put_quoted(&quoted, one.bytes);
    if (i > first && list->at[i].start > list->at[i - 1].end) put_string(t, " ");
    if (is_parameter(list, &list->at[i])) put_string(t, "\" #"), put_string(t, one.bytes), put_string(t, " \"");
    else put(t, quoted.bytes + 1, quoted.count - 2);
    free(one.bytes), free(quoted.bytes);
  }
  put_string(t, "\"");
}

/* What a declaration says of all its variables. */
typedef struct shared_type {
  size_t tokens; /* of the type, in front of each variable's own; 0: a struct that is defined here */
  text name;     /* of the type */
  text align;
  bool dynamic;
} shared_type;

/* A variable: tokens of the type, its name, its sizes. */
static void put_variable(text *out, const token_list *left, const shared_type *type) {
  const size_t name = type->tokens + 1;
  text variable = {0}, sizes = {0}, site = {0};
  put_tokens(&variable, left, name - 1, name);
  put_string(&sizes, "");
  for (size_t at = name + (type->dynamic ? 2 : 0); at < left->count;) { /* [n] as [(n)]: a > in it must not end a template's arguments */
    const size_t end = behind_match(left, at);
    put_string(&sizes, "[(");
    put_tokens(&sizes, left, at + 1, end - 1);
    put_string(&sizes, ")]");
    at = end;
  }
  put_string(&site, is_parameter(left, &left->at[name - 1]) ? "emu_site_##" : "emu_site_");
  put_string(&site, variable.bytes);

  put_string(out, "static emu_shared_site ");
  put_string(out, site.bytes);
  put_string(out, " = {");
  put_label(out, left, name - 1, name);
  put_string(out, ", ");
  if (type->tokens > 0) put_label(out, left, 0, type->tokens);
  else put_string(out, "\"struct\"");
  if (name < left->count) put_string(out, " \" \" "), put_label(out, left, name, left->count);
  put_string(out, ", {__FILE__, __LINE__}, ");
  if (type->dynamic) {
    put_string(out, "0");
  } else {
    put_string(out, "sizeof(");
    put_string(out, type->name.bytes);
    put_string(out, sizes.bytes);
    put_string(out, ")");
  }
  put_string(out, ", emu_greatest({alignof(");
  put_string(out, type->name.bytes);
  put_string(out, ")");
  put_string(out, type->align.bytes);
  put_string(out, "}), 0, 0}; [[maybe_unused]] ");
  put_string(out, type->name.bytes);
  const bool array = sizes.count > 0;
  put_string(out, array ? " (" : " ");
  put_string(out, type->dynamic ? "*const " : "&");
  put_string(out, variable.bytes);
  if (array) put_string(out, ")");
  put_string(out, sizes.bytes);
  put_string(out, type->dynamic ? " = static_cast<" : " = *static_cast<");
  put_string(out, type->name.bytes);
  put_string(out, array ? " (*)" : " *");
  put_string(out, sizes.bytes);
  put_string(out, ">(emu_shared(&");
  put_string(out, site.bytes);
  put_string(out, "))");
  free(variable.bytes), free(sizes.bytes), free(site.bytes);
}

/* As many line breaks as the source has there. */
static void put_lines(text *out, size_t start, size_t end) {
  put_string(out, "");
  for (size_t at = start; at < end; at++)
    if (source[at] == '\n') put_string(out, source[at - 1] == '\\' ? "\\\n" : "\n");
}

/* A variable has been read, of which `left` has the tokens; `sized`: the place of its sizes, or 0. Leaves those of the type. */
static void end_variable(text *out, token_list *left, size_t sized, shared_type *type, bool first, bool defined, size_t position) {
  const size_t name = sized > 0 ? sized : left->count;
  if (name < (defined ? 1 : 2) || left->at[name - 1].kind != NAME)
    fail_at(position, "__shared__ without a type and a name, expected __shared__ type name[sizes];");
  const bool unsized = is(left, name, "[") && is(left, name + 1, "]");
  if (type->dynamic && !unsized) fail_at(position, "extern __shared__ with a size or without [], expected extern __shared__ type name[];");
  if (!type->dynamic && unsized) fail_at(position, "__shared__ array without a size, expected one, or extern in front");
  if (first) type->tokens = name - 1;
  if (first && !defined) put_tokens(&type->name, left, 0, name - 1);
  if (first && type->name.bytes == NULL) { /* of a struct without a name */
    put_string(&type->name, "emu_struct_of_");
    put_tokens(&type->name, left, name - 1, name);
  }
  if (name != type->tokens + 1) fail_at(position, "a second pointer after __shared__, expected one declaration for each");
  if (!first) put_string(out, "; ");
  put_variable(out, left, type);
  left->count = type->tokens;
}

void rewrite_shared(const token_list *list, size_t shared, bool in_function, bool macro) {
  static const char *const structs[] = {"struct", "union", NULL};
  const size_t position = list->at[shared].start;
  if (!in_function) fail_at(position, "__shared__ outside of a function, expected it inside the kernel that uses it");
  const size_t first = declaration_start(list, shared);
  token_list left = {.parameters = list->parameters, .parameters_end = list->parameters_end}; /* without storage and alignment: the type, the name, the sizes */
  shared_type type = {0};
  text out = {0};
  int angle = 0, variables = 0;
  size_t sized = 0, i = first, own = 0, brace = 0, behind = 0; /* a struct's definition: its first token, its brace, behind it */
  put_string(&type.align, "");
  for (; i < list->count && !is(list, i, ";"); i++) {
    const token t = list->at[i];
    if (is_any(list, i, alignment)) {
      const size_t end = behind_match(list, i + 1);
      put_string(&type.align, ", ");
      put_tokens(&type.align, list, i + 1, end);
      i = end - 1;
      continue;
    }
    type.dynamic |= is(list, i, "extern");
    if (is(list, i, "extern") || is(list, i, "static") || is(list, i, "__shared__") || is(list, i, "__device__")) continue;
    if (is_any(list, i, structs) && left.count == 0 && behind == 0) {
      size_t at = i + 1;
      while (is_any(list, at, alignment)) at = behind_match(list, at + 1);
      const bool named = at < list->count && list->at[at].kind == NAME;
      if (is(list, at + named, "{")) {
        own = i, brace = at + named, behind = behind_match(list, brace);
        if (named) put_tokens(&type.name, list, at, at + 1);
        i = behind - 1;
        continue;
      }
    }
    if (is(list, i, "<")) angle++;
    if (is(list, i, ">")) angle--;
    if (angle == 0 && is(list, i, ",")) {
      end_variable(&out, &left, sized, &type, variables++ == 0, behind > 0, position);
      if (type.tokens > 0 && is(&left, type.tokens - 1, "*"))
        fail_at(t.start, "a second variable behind a pointer after __shared__, expected one declaration for each");
      sized = 0;
      continue;
    }
    if (angle == 0 && (is(list, i, "=") || is(list, i, "{"))) fail_at(t.start, "a __shared__ variable with a value, expected none: threads have to write it");
    if (angle == 0 && (is(list, i, "(") || is(list, i, ")")))
      fail_at(t.start, "a parenthesis in a __shared__ declaration, expected __shared__ type name[sizes];");
    if (angle == 0 && is(list, i, "[")) {
      if (sized == 0) sized = left.count;
      const size_t end = behind_match(list, i);
      for (; i + 1 < end; i++) add_token(&left, list->at[i].kind, list->at[i].start, list->at[i].end);
    } else if (sized != 0) {
      fail_at(t.start, "something behind the sizes of a __shared__ array, expected ;");
    }
    add_token(&left, list->at[i].kind, list->at[i].start, list->at[i].end);
  }
  const bool open = i >= list->count; /* a macro's last, its ; where the macro is used */
  if (open && !macro) fail_at(position, "a __shared__ declaration that does not end, expected __shared__ type name[sizes];");
  end_variable(&out, &left, sized, &type, variables == 0, behind > 0, position);
  if (!open) put_string(&out, ";");
  size_t start = list->at[first].start;
  const size_t end = list->at[open ? i - 1 : i].end;
  text all = {0};
  if (behind > 0) {
    text before = {0}, name = {0};
    put_lines(&before, start, list->at[own].start);
    add_edit(start, list->at[own].start, before.bytes);
    if (brace > own + 1 && list->at[brace - 1].kind == NAME) put_string(&name, "");
    else put_string(&name, type.name.bytes), put_string(&name, " ");
    add_edit(list->at[brace].start, list->at[brace].start, name.bytes);
    start = list->at[behind - 1].end;
    put_string(&all, "; ");
  }
  put_string(&all, out.bytes);
  put_lines(&all, start, end);
  add_edit(start, end, all.bytes);
  free(left.at), free(out.bytes), free(type.name.bytes), free(type.align.bytes);
}
