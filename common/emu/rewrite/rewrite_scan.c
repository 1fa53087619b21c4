/* The rewriter's view of a source: text, tokens, edits. */
#include "common/emu/rewrite/rewrite.h"
#include "common/files/input.h"
#include "common/files/output.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Source bytes [start, end) become text. */
typedef struct edit {
  size_t start, end;
  size_t number; /* of those that were added before it */
  char *text;
} edit;

const char *path;
char *source;
size_t length;
static edit *edits;
static size_t edit_count, edit_room;

static void *grown(void *array, size_t count, size_t *room, size_t size) {
  if (count < *room) return array;
  *room = *room ? 2 * *room : 64;
  array = realloc(array, *room * size);
  if (array == NULL) exit(1);
  return array;
}

static void print_place(size_t position) {
  int line = 1;
  for (size_t i = 0; i < position; i++) line += source[i] == '\n';
  fprintf(stderr, "%s:%d: ", path, line);
}

void warn_at(size_t position, const char *what) {
  print_place(position);
  fprintf(stderr, "warning: %s\n", what);
}

void fail_at(size_t position, const char *format, ...) {
  print_place(position);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n");
  exit(2);
}

void put(text *t, const char *bytes, size_t n) {
  for (size_t i = 0; i <= n; i++) {
    t->bytes = grown(t->bytes, t->count, &t->room, 1);
    t->bytes[t->count++] = i < n ? bytes[i] : '\0';
  }
  t->count--;
}

void put_string(text *t, const char *string) { put(t, string, strlen(string)); }

void put_quoted(text *t, const char *string) {
  put_string(t, "\"");
  for (; *string; string++) {
    if (*string == '"' || *string == '\\') put_string(t, "\\");
    put(t, string, 1);
  }
  put_string(t, "\"");
}

void add_edit(size_t start, size_t end, char *replacement) {
  edits = grown(edits, edit_count, &edit_room, sizeof *edits);
  edits[edit_count] = (edit){start, end, edit_count, replacement};
  edit_count++;
}

/* ---- tokens ---- */

void add_token(token_list *list, token_kind kind, size_t start, size_t end) {
  list->at = grown(list->at, list->count, &list->room, sizeof *list->at);
  list->at[list->count++] = (token){kind, start, end};
}

static bool is_name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool is_name_part(char c) { return isalnum((unsigned char)c) || c == '_'; }
static bool starts(size_t i, const char *with) { return strncmp(source + i, with, strlen(with)) == 0; }

/* Behind the line break of a continued line, or i itself. */
static size_t skip_continuation(size_t i) {
  if (source[i] != '\\') return i;
  if (source[i + 1] == '\n') return i + 2;
  return source[i + 1] == '\r' && source[i + 2] == '\n' ? i + 3 : i;
}

static size_t skip_comment(size_t i) {
  if (starts(i, "/*")) {
    const char *end = strstr(source + i + 2, "*/");
    if (end == NULL) fail_at(i, "a comment that does not end, expected */");
    return (size_t)(end - source) + 2;
  }
  if (!starts(i, "//")) return i;
  while (i < length && source[i] != '\n') i = skip_continuation(i) > i ? skip_continuation(i) : i + 1;
  return i;
}

static size_t skip_quoted(size_t i) {
  const size_t start = i;
  const char quote = source[i++];
  while (source[i] != quote) {
    if (i >= length || source[i] == '\n') fail_at(start, "a string or character that does not end on its line, expected %c", quote);
    i += source[i] == '\\' && i + 1 < length ? 2 : 1;
  }
  return i + 1;
}

static size_t skip_raw_string(size_t i) { /* at the quote of R"delimiter( ... )delimiter" */
  const size_t open = i + strcspn(source + i, "(");
  text end = {0};
  put_string(&end, ")");
  put(&end, source + i + 1, open - i - 1);
  put_string(&end, "\"");
  const char *found = open < length ? strstr(source + open, end.bytes) : NULL;
  if (found == NULL) fail_at(i, "a raw string that does not end, expected %s", end.bytes);
  const size_t behind = (size_t)(found - source) + end.count;
  free(end.bytes);
  return behind;
}

static size_t skip_directive(size_t i) { /* to the line break that ends it */
  while (i < length && source[i] != '\n') {
    const size_t next = skip_comment(i) > i ? skip_comment(i) : skip_continuation(i);
    if (next > i) {
      i = next;
    } else if (source[i] == '"') { /* "//" is no comment; a lone quote is no string */
      const size_t close = i + 1 + strcspn(source + i + 1, "\"\n");
      i = source[close] == '"' ? close + 1 : i + 1;
    } else {
      i++;
    }
  }
  return i;
}

static void scan(size_t i, size_t end, size_t parameters, bool macro);

bool directive_is(size_t i, const char *first, const char *second) {
  i += 1 + strspn(source + i + 1, " \t");
  if (!starts(i, first) || is_name_part(source[i + strlen(first)])) return false;
  if (second == NULL) return true;
  i += strlen(first);
  return starts(i + strspn(source + i, " \t"), second);
}

/* Whether a condition asks for the name. */
static bool asks_for(size_t i, size_t end, const char *name) {
  if (!directive_is(i, "if", NULL) && !directive_is(i, "ifdef", NULL) && !directive_is(i, "ifndef", NULL) && !directive_is(i, "elif", NULL)) return false;
  const char *found = strstr(source + i, name);
  return found != NULL && found < source + end;
}

/* Bodies of macros are rewritten; pragmas for nvcc alone are blanked out; the rest stays. */
static void scan_directive(size_t i, size_t end) {
  if (directive_is(i, "define", NULL)) {
    i = (size_t)(strstr(source + i, "define") - source) + strlen("define");
    i += strspn(source + i, " \t");
    while (i < end && is_name_part(source[i])) i++;
    const size_t parameters = i;
    if (source[i] == '(') i += strcspn(source + i, ")") + 1;
    if (i < end) scan(i, end, parameters, true);
  } else if (directive_is(i, "pragma", "unroll") || directive_is(i, "pragma", "nv_") || directive_is(i, "pragma", "nounroll")) {
    text blank = {0};
    for (size_t at = i; at < end; at++)
      if (source[at] == '\n') put_string(&blank, "\n");
    put_string(&blank, "");
    add_edit(i, end, blank.bytes);
  } else if (directive_is(i, "include", "<cuda/") && strstr(source, "CUDA_EMULATOR") == NULL) {
    fail_at(i, "libcu++ is not emulated: expected the C++ library's headers for cuda/std/, <cuda_pipeline.h> for cuda/pipeline, common/ptx/ for cuda/barrier");
  } else if (asks_for(i, end, "__CUDA_ARCH__") && strstr(source, "CUDA_EMULATOR") == NULL) {
    static bool warned;
    if (!warned) warn_at(i, "__CUDA_ARCH__ is not defined on the emulator: expected CUDA_EMULATOR beside it, as here the other branch is taken");
    warned = true;
  }
}

bool is_parameter(const token_list *list, const token *t) {
  const size_t n = t->end - t->start;
  for (size_t i = list->parameters; i < list->parameters_end; i++)
    if (!is_name_part(source[i - 1]) && strncmp(source + i, source + t->start, n) == 0 && !is_name_part(source[i + n])) return true;
  return false;
}

static bool previous_is(const token_list *list, const char *name) {
  if (list->count == 0) return false;
  const token *t = &list->at[list->count - 1];
  return t->end - t->start == strlen(name) && starts(t->start, name);
}

/* A macro's parameters, in parentheses, lie between their start and i. */
static void scan(size_t i, size_t end, size_t parameters, bool macro) {
  token_list list = {.parameters = parameters, .parameters_end = i};
  bool line_start = !macro;
  while (i < end) {
    const size_t start = i;
    token_kind kind;
    if (source[i] == '\n') {
      line_start = !macro;
      i++;
      continue;
    } else if (isspace((unsigned char)source[i])) {
      i++;
      continue;
    } else if (skip_comment(i) > i) {
      i = skip_comment(i);
      continue;
    } else if (skip_continuation(i) > i) {
      i = skip_continuation(i);
      continue;
    } else if (source[i] == '#' && line_start) {
      kind = DIRECTIVE;
      i = skip_directive(i);
      scan_directive(start, i);
    } else if (is_name_start(source[i])) {
      while (is_name_part(source[i])) i++;
      const bool raw = source[i] == '"' && source[i - 1] == 'R' && i - start <= 3;
      kind = raw ? STRING : NAME;
      if (raw) i = skip_raw_string(i);
    } else if (isdigit((unsigned char)source[i])) {
      kind = NUMBER;
      while (is_name_part(source[i]) || source[i] == '.' || (source[i] == '\'' && is_name_part(source[i + 1]))) i++;
    } else if (source[i] == '"' || source[i] == '\'') {
      kind = STRING;
      i = skip_quoted(i);
    } else if (starts(i, "<<<") && !previous_is(&list, "operator")) {
      kind = LAUNCH;
      i += 3;
    } else {
      kind = SIGN;
      i += starts(i, "::") || starts(i, "->") ? 2 : 1;
    }
    line_start = false;
    add_token(&list, kind, start, i);
  }
  rewrite_list(&list, macro);
  free(list.at);
}

void scan_source(void) { scan(0, length, 0, false); }

void read_source(const char *from) {
  path = from;
  const char *unreadable;
  FILE *file = input_open(path, false, &unreadable);
  size_t room = 0;
  if (file == NULL) {
    fprintf(stderr, "%s: expected a readable source: %s\n", path, unreadable);
    exit(1);
  }
  for (int c; (c = getc(file)) != EOF;) {
    source = grown(source, length, &room, 1);
    source[length++] = (char)c;
  }
  source = grown(source, length, &room, 1);
  source[length] = '\0';
  fclose(file);
  if (strlen(source) != length) fail_at(strlen(source), "a zero byte, expected text");
}

/* What is put in at one place stands in the order in which it was added. */
static int by_position(const void *a, const void *b) {
  const edit *x = a, *y = b;
  if (x->start == y->start) return x->number < y->number ? -1 : 1;
  return x->start < y->start ? -1 : 1;
}

void write_result(const char *to) {
  if (edit_count > 0) qsort(edits, edit_count, sizeof *edits, by_position);
  for (size_t i = 1; i < edit_count; i++) /* only a whole declaration is long enough for another edit */
    if (edits[i].start < edits[i - 1].end)
      fail_at(edits[i].start, "a launch or a declaration inside a __shared__ declaration, expected __shared__ type name[sizes];");
  output *out = output_open("rewrite", to);
  if (out == NULL) exit(1);
  FILE *file = out->file;
  text quoted = {0};
  put_quoted(&quoted, path);
  fprintf(file, "#line 1 %s\n", quoted.bytes);
  size_t done = 0;
  for (size_t i = 0; i < edit_count; i++) {
    fwrite(source + done, 1, edits[i].start - done, file);
    fputs(edits[i].text, file);
    done = edits[i].end;
  }
  fwrite(source + done, 1, length - done, file);
  if (output_close(out)) exit(1);
}
