/* Which lane and register hold which element of a matrix that tensor cores work on: `make explain-fragment ARGS=...`. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/emu/run/wgmma_product.h"
#include "common/files/output.h"

enum { NOT_GIVEN = -1, HALVES = 2, MOST_N = 256 };

/* ---------------------------------------------------------------- fragments */

/* Element `i` of a thread. Of halves, 2i and 2i + 1 are the two of register i. */
typedef void place_function(int thread, int i, int *row, int *column);

/* a of mma: the first warp's of wgmma; d: the same with its own registers. b is a's 8 rows, turned. */
static void place_b(int thread, int i, int *k, int *column) { emu_wgmma_a_place(thread, i / 2 * 4 + i % 2, column, k); }

static void place_rows(int thread, int i, int *row, int *column) {
  *row = thread / 4;
  *column = thread % 4 * 2 + i % 2;
}

static void place_turned(int thread, int i, int *row, int *column) { place_rows(thread, i, column, row); }

static const char a_rule[] = "With g = T / 4 and t = T % 4, a<i> holds row g + 8 (i % 2), k = 2t + 8 (i / 2) and the next k.\n";
static const char d_rule[] = "With g = T / 4 and t = T % 4, d<i> holds row g + 8 (i / 2), column 2t + i % 2.\n";
static const char wgmma_a_rule[] = "Warp w = T / 32 has rows 16w to 16w + 15; in them, with g = T % 32 / 4 and t = T % 4,\n"
                                   "a<i> holds row g + 8 (i % 2), k = 2t + 8 (i / 2) and the next k, as a of mma.\n";
static const char wgmma_d_rule[] = "Warp w = T / 32 has rows 16w to 16w + 15; in them, with g = T % 32 / 4 and t = T % 4,\n"
                                   "d<i> holds row g + 8 (i / 2 % 2), column 8 (i / 4) + 2t + i % 2: every 8 columns are 4 registers.\n";
static const char matrix_rule[] = "Lane 8m + i points to row i of matrix m, 16 bytes; r<m> belongs to matrix m: all matrices look the\n"
                                  "same, and .x1, .x2, .x4 have one, two, four. With g = T / 4 and t = T % 4\n";
static const char rows_rule[] = "r holds row g, columns 2t and 2t + 1: the layout of a and d of mma, 8 rows and 8 columns at a time.\n";
static const char turned_rule[] = "r holds column g, rows 2t and 2t + 1: for an operand whose neighbours in memory lie across the\n"
                                  "pairs that mma wants; b of mma, if it lies row by row.\n";

typedef struct fragment {
  const char *name, *title;
  const char *rows_name, *columns_name; /* what the two indices are called */
  int rows, columns, threads;           /* columns 0: n */
  int elements;                         /* of a thread; 0: n / 2 */
  int per_register;                     /* 2 halves, or 1 float */
  char letter;
  const char *rule[2];
  place_function *place;
} fragment;

static const fragment fragments[] = {
    {"mma-a", "a of mma.m16n8k16", "row", "k", 16, 16, 32, 8, HALVES, 'a', {a_rule, ""}, emu_wgmma_a_place},
    {"mma-b",
     "b of mma.m16n8k16",
     "k",
     "column",
     16,
     8,
     32,
     4,
     HALVES,
     'b',
     {"With g = T / 4 and t = T % 4, b<i> holds k = 2t + 8i and the next k, column g.\n", ""},
     place_b},
    {"mma-d", "c and d of mma.m16n8k16", "row", "column", 16, 8, 32, 4, 1, 'd', {d_rule, ""}, emu_wgmma_d_place},
    {"wgmma-a", "a of wgmma.m64nNk16, in registers", "row", "k", 64, 16, 128, 8, HALVES, 'a', {wgmma_a_rule, ""}, emu_wgmma_a_place},
    {"wgmma-d", "d of wgmma.m64nNk16", "row", "column", 64, 0, 128, 0, 1, 'd', {wgmma_d_rule, ""}, emu_wgmma_d_place},
    {"ldmatrix", "one matrix of ldmatrix", "row", "column", 8, 8, 32, 2, HALVES, 'r', {matrix_rule, rows_rule}, place_rows},
    {"ldmatrix.trans",
     "one matrix of ldmatrix.trans, as it lies in memory",
     "row",
     "column",
     8,
     8,
     32,
     2,
     HALVES,
     'r',
     {matrix_rule, turned_rule},
     place_turned},
    {"stmatrix", "one matrix of stmatrix", "row", "column", 8, 8, 32, 2, HALVES, 'r', {matrix_rule, rows_rule}, place_rows},
    {"stmatrix.trans",
     "one matrix of stmatrix.trans, as it lies in memory",
     "row",
     "column",
     8,
     8,
     32,
     2,
     HALVES,
     'r',
     {matrix_rule, turned_rule},
     place_turned},
};
enum { FRAGMENTS = sizeof fragments / sizeof *fragments };

/* With its n put in. */
static fragment of_n(const fragment *f, int n) {
  fragment whole = *f;
  if (whole.columns == 0) whole.columns = n, whole.elements = n / 2;
  return whole;
}

static void find(const fragment *f, int row, int column, int *thread, int *element) {
  for (*thread = 0; *thread < f->threads; ++*thread)
    for (*element = 0; *element < f->elements; ++*element) {
      int r, c;
      f->place(*thread, *element, &r, &c);
      if (r == row && c == column) return;
    }
}

/* ---------------------------------------------------------------- drawings */

static void register_name(const fragment *f, int element, char text[16]) { snprintf(text, 16, "%c%d", f->letter, element / f->per_register); }

/* Two neighbours that one thread has, in one cell: along the columns, or along the rows. */
static void draw_grid(const fragment *f) {
  int row, column, row_1, column_1;
  f->place(0, 0, &row, &column);
  f->place(0, 1, &row_1, &column_1);
  const int down = row_1 - row + 1, right = column_1 - column + 1;
  const int rows = f->rows < 16 ? f->rows : 16, columns = f->columns < 16 ? f->columns : 16;
  char label[32], of_register[16], second[16];
  snprintf(label, sizeof label, "%s \\ %s", f->rows_name, f->columns_name);
  printf("%12s", label);
  for (column = 0; column < columns; column += right) {
    if (right > 1) snprintf(label, sizeof label, "%d,%d", column, column + 1);
    else snprintf(label, sizeof label, "%d", column);
    printf("  %8s", label);
  }
  printf("\n");
  for (row = 0; row < rows; row += down) {
    if (down > 1) snprintf(label, sizeof label, "%d,%d", row, row + 1);
    else snprintf(label, sizeof label, "%d", row);
    printf("%12s", label);
    for (column = 0; column < columns; column += right) {
      int thread, element;
      find(f, row, column, &thread, &element);
      register_name(f, element, of_register);
      if (f->per_register == 1) snprintf(second, sizeof second, ",%d", element + 1);
      else second[0] = '\0';
      snprintf(label, sizeof label, "T%d %s%s", thread, of_register, second);
      printf("  %8s", label);
    }
    printf("\n");
  }
  if (f->rows > rows || f->columns > columns) printf("  and so on to %s %d, %s %d\n", f->rows_name, f->rows - 1, f->columns_name, f->columns - 1);
}

static void explain_all(const fragment *f) {
  const char *who = f->threads == 32 ? "lane" : "thread", *whose = f->threads == 32 ? "" : " of the warpgroup";
  const int registers = f->elements / f->per_register;
  printf("%s: %d x %d %s, %d register%s in each of %d %ss\n", f->title, f->rows, f->columns, f->per_register == HALVES ? "halves" : "floats", registers,
         registers > 1 ? "s" : "", f->threads, who);
  if (f->per_register == HALVES) printf("T5 %c0: %s 5%s, register %c0: two halves, the first in its low 16 bits.\n\n", f->letter, who, whose, f->letter);
  else printf("T5 d0,1: %s 5%s, registers d0 and d1: a float each.\n\n", who, whose);
  draw_grid(f);
  printf("\n%s%s", f->rule[0], f->rule[1]);
}

static void explain_thread(const fragment *f, int thread) {
  printf("%s, %s %d (g = %d, t = %d", f->title, f->threads == 32 ? "lane" : "thread", thread, thread % 32 / 4, thread % 4);
  if (f->threads > 32) printf(", warp %d", thread / 32);
  printf("):\n");
  for (int i = 0; i < f->elements; i += f->per_register) {
    char name[16];
    register_name(f, i, name);
    printf("  %-4s", name);
    for (int j = 0; j < f->per_register; j++) {
      int row, column;
      f->place(thread, i + j, &row, &column);
      printf("%s%s %2d, %s %2d", j > 0 ? "   high: " : f->per_register > 1 ? "  low: " : "  ", f->rows_name, row, f->columns_name, column);
    }
    printf("\n");
  }
}

static void explain_element(const fragment *f, int row, int column) {
  int thread, element;
  char name[16];
  find(f, row, column, &thread, &element);
  register_name(f, element, name);
  printf("%s: %s %d, %s %d is in %s %d, register %s", f->title, f->rows_name, row, f->columns_name, column, f->threads == 32 ? "lane" : "thread", thread, name);
  if (f->per_register == HALVES) printf(", its %s half", element % 2 ? "high" : "low");
  printf("\n");
}

/* ---------------------------------------------------------------- what was asked */

static void help(void) {
  printf("usage: explain_fragment FRAGMENT [n=N] [lane=L | ROW=R COLUMN=C]\n  FRAGMENT is one of\n");
  for (int i = 0; i < FRAGMENTS; i++)
    printf("    %-16s%s (%s, %s)\n", fragments[i].name, fragments[i].title, fragments[i].rows_name, fragments[i].columns_name);
  printf("  n=N           columns of wgmma-d: a multiple of 8 up to 256 (16)\n"
         "  lane=L        what one lane holds; of wgmma a thread of the warpgroup, 0 to 127\n"
         "  row=9 k=3     who holds one element: its two indices, by the names in brackets\n"
         "Example: explain_fragment mma-a row=9 k=3\n");
}

/* NAME=NUMBER with 0 <= NUMBER <= most, a multiple of step: 1. Another name: 0. Not such a number, which is said: -1. */
static int take(const char *argument, const char *name, int most, int step, int *value) {
  const size_t length = strlen(name);
  if (strncmp(argument, name, length) != 0 || argument[length] != '=') return 0;
  const char *text = argument + length + 1;
  char *end;
  errno = 0;
  const long read = strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || errno || read < (step > 1 ? step : 0) || read > most || read % step != 0) {
    if (step > 1) fprintf(stderr, "%s: expected a multiple of %d up to %d, got \"%s\"\n", name, step, most, text);
    else fprintf(stderr, "%s: expected a number from 0 to %d, got \"%s\"\n", name, most, text);
    return -1;
  }
  *value = (int)read;
  return 1;
}

static const fragment *named(const char *name) {
  for (int i = 0; i < FRAGMENTS; i++)
    if (strcmp(fragments[i].name, name) == 0) return &fragments[i];
  fprintf(stderr, "explain_fragment: expected one of");
  for (int i = 0; i < FRAGMENTS; i++) fprintf(stderr, "%s %s", i ? "," : "", fragments[i].name);
  fprintf(stderr, ", got \"%s\"\n", name);
  return NULL;
}

int main(int argc, char **argv) {
  output_start();
  if (argc == 1 || strcmp(argv[1], "--help") == 0) {
    help();
    return 0;
  }
  const fragment *asked = named(argv[1]);
  if (!asked) return 2;
  int n = 16, lane = NOT_GIVEN, row = NOT_GIVEN, column = NOT_GIVEN;
  for (int i = 2; i < argc; i++) /* first: how large the others can be depends on it */
    if (asked->columns == 0 && take(argv[i], "n", MOST_N, 8, &n) < 0) return 2;
  const fragment f = of_n(asked, n);
  for (int i = 2; i < argc; i++) {
    int taken = take(argv[i], "lane", f.threads - 1, 1, &lane);
    if (!taken) taken = take(argv[i], f.rows_name, f.rows - 1, 1, &row);
    if (!taken) taken = take(argv[i], f.columns_name, f.columns - 1, 1, &column);
    if (!taken && asked->columns == 0) taken = take(argv[i], "n", MOST_N, 8, &n);
    if (taken < 0) return 2;
    if (!taken) {
      fprintf(stderr, "%s: expected %slane=, %s= or %s=, got \"%s\"\n", f.name, asked->columns == 0 ? "n=, " : "", f.rows_name, f.columns_name, argv[i]);
      return 2;
    }
  }
  if ((row == NOT_GIVEN) != (column == NOT_GIVEN) || (lane != NOT_GIVEN && row != NOT_GIVEN)) {
    fprintf(stderr, "%s: expected lane= alone, or both %s= and %s=\n", f.name, f.rows_name, f.columns_name);
    return 2;
  }
  if (lane != NOT_GIVEN) explain_thread(&f, lane);
  else if (row != NOT_GIVEN) explain_element(&f, row, column);
  else explain_all(&f);
  return 0;
}
