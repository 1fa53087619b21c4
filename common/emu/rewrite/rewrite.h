/* What the rewriter's files share: rewrite_scan.c turns a source into tokens, rewrite.c, rewrite_shared.c, rewrite_bounds.c and rewrite_variables.c turn
 * tokens into edits of the source. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum { NAME, NUMBER, STRING, SIGN, LAUNCH, DIRECTIVE } token_kind; /* LAUNCH: <<< */

typedef struct token {
  token_kind kind;
  size_t start, end; /* in the source */
} token;

/* Tokens that belong together: the file without its directives' insides, or the body of one macro. */
typedef struct token_list {
  token *at;
  size_t count, room;
  size_t parameters, parameters_end; /* a macro's, in the source */
} token_list;

/* A string that is put together piece by piece; bytes is NULL until the first piece. */
typedef struct text {
  char *bytes;
  size_t count, room;
} text;

extern const char *path; /* of the source */
extern char *source;
extern size_t length;

/* The file, or exit status 1. */
void read_source(const char *from);

/* Splits the source into tokens and hands each list of them to rewrite_list, which is in rewrite.c. */
void scan_source(void);
void rewrite_list(const token_list *list, bool macro);
bool is_parameter(const token_list *list, const token *t); /* of the macro whose body the list is */
void add_token(token_list *list, token_kind kind, size_t start, size_t end);

/* Whether token i is this name or sign; one of these, the last of which is NULL. */
bool is(const token_list *list, size_t i, const char *what);
bool is_any(const token_list *list, size_t i, const char *const *names);

/* The token behind the bracket that matches the one at i; the list's end if none does. */
size_t behind_match(const token_list *list, size_t i);

/* The first token of the kernel's name, which ends before token `behind`: a::b<C, D>, table[i].kernel, (*pointer). */
size_t kernel_start(const token_list *list, size_t behind);

/* The declaration that has __shared__ at token i. */
void rewrite_shared(const token_list *list, size_t i, bool in_function, bool macro);

/* Makes known to the runtime what the __launch_bounds__ at token i says. */
void rewrite_bounds(const token_list *list, size_t i);

/* Makes a variable known to the runtime if the __device__ at token i belongs to one, outside of functions. */
void rewrite_variable(const token_list *list, size_t i);

/* Whether a directive starts with these one or two words. */
bool directive_is(size_t position, const char *first, const char *second);

/* Source bytes [start, end) become the text, which is kept. */
void add_edit(size_t start, size_t end, char *text);

/* The source with all edits made. Exit status 1 if the file cannot be written. */
void write_result(const char *to);

void put(text *t, const char *bytes, size_t n);
void put_string(text *t, const char *string);
void put_tokens(text *t, const token_list *list, size_t first, size_t end); /* [first, end) as one line: where there was space or a comment, one space */
void put_quoted(text *t, const char *string);                               /* as a string literal */

void warn_at(size_t position, const char *what);

/* Prints file:line: and the message; exit status 2. */
__attribute__((noreturn, format(printf, 2, 3))) void fail_at(size_t position, const char *format, ...);
