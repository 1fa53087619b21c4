/* What a matrix descriptor of wgmma says, and where each piece of the matrix lies: `make explain-descriptor ARGS=...`. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/emu/run/wgmma_product.h"
#include "common/files/output.h"

static const char help_text[] = "usage: explain_descriptor [DESCRIPTOR] [FIELD=VALUE ...]\n"
                                "  DESCRIPTOR      64 bits, such as 0x4000004000010040; or its fields:\n"
                                "  start=BYTES     shared address of the first element (1024)\n"
                                "  lbo=BYTES       leading dimension byte offset\n"
                                "  sbo=BYTES       stride dimension byte offset\n"
                                "  swizzle=BYTES   none, 32, 64 or 128\n"
                                "  base_offset=N   0 to 7 (0)\n"
                                "and what the instruction says of the matrix:\n"
                                "  major=k|mn      neighbours in memory lie along k, or along the rows (k)\n"
                                "  rows=N          8 to 256: 64 of a, n of b (64)\n"
                                "  row=N k=N       how one element's address is found\n"
                                "Example: explain_descriptor start=1024 sbo=1024 swizzle=128 row=9 k=8\n";

enum { MOST_ROWS = 256, DEPTH = 16, PIECE = 16, LINE = 128, SYSTEM = 1024, MOST_SHARED = 227 << 10, NOT_GIVEN = -1 };

typedef struct question {
  uint64_t descriptor;
  bool mn;
  int rows, row, k; /* row, k: of one element, or NOT_GIVEN */
} question;

/* ---------------------------------------------------------------- what was asked */

enum { START, LBO, SBO, SWIZZLE, BASE_OFFSET, MAJOR, ROWS, ROW, K, FIELDS };
static const struct field {
  const char *name, *expected;
  int most, step;  /* values are 0, step, ... most */
  int shift, unit; /* in the descriptor, if unit is not 0 */
} fields[FIELDS] = {
    [START] = {"start", "a multiple of 16 below 262144", 262128, 16, 0, 16},
    [LBO] = {"lbo", "a multiple of 16 below 262144", 262128, 16, 16, 16},
    [SBO] = {"sbo", "a multiple of 16 below 262144", 262128, 16, 32, 16},
    [SWIZZLE] = {"swizzle", "none, 32, 64 or 128", 128, 32, 0, 0},
    [BASE_OFFSET] = {"base_offset", "0 to 7", 7, 1, 49, 1},
    [MAJOR] = {"major", "k or mn", 0, 1, 0, 0},
    [ROWS] = {"rows", "a multiple of 8 from 8 to 256", 256, 8, 0, 0},
    [ROW] = {"row", "a number below rows", 255, 1, 0, 0},
    [K] = {"k", "0 to 15", 15, 1, 0, 0},
};

static bool wrong(const struct field *f, const char *got) {
  fprintf(stderr, "%s: expected %s, got %s%s%s\n", f->name, f->expected, *got ? "\"" : "", *got ? got : "nothing", *got ? "\"" : "");
  return false;
}

static bool take_field(const struct field *f, const char *text, int *value) {
  static const char *const words[][2] = {{"none", "0"}, {"mn", "1"}, {"k", "0"}};
  const char *number = text;
  if (f == &fields[SWIZZLE] && strcmp(text, words[0][0]) == 0) number = words[0][1];
  if (f == &fields[MAJOR]) {
    *value = strcmp(text, "mn") == 0;
    return *value || strcmp(text, "k") == 0 || wrong(f, text);
  }
  char *end;
  errno = 0;
  const long read = strtol(number, &end, 0);
  if (*number == '\0' || *end != '\0' || errno || read < 0 || read > f->most || read % f->step != 0) return wrong(f, text);
  if ((f == &fields[SWIZZLE] && read == 96) || (f == &fields[ROWS] && read == 0)) return wrong(f, text);
  *value = (int)read;
  return true;
}

/* Fields that were given stand in `given`, else NOT_GIVEN. */
static bool parse(int argc, char **argv, question *q, int given[FIELDS]) {
  bool whole = false;
  for (int i = 0; i < FIELDS; i++) given[i] = NOT_GIVEN;
  for (int i = 1; i < argc; i++) {
    const size_t name = strcspn(argv[i], "=");
    int f = 0;
    while (f < FIELDS && (strlen(fields[f].name) != name || strncmp(fields[f].name, argv[i], name) != 0)) f++;
    if (argv[i][name] == '=' && f < FIELDS) {
      if (!take_field(&fields[f], argv[i] + name + 1, &given[f])) return false;
      continue;
    }
    char *end;
    errno = 0;
    q->descriptor = strtoull(argv[i], &end, 0);
    if (whole || argv[i][0] < '0' || argv[i][0] > '9' || *end != '\0' || errno) {
      fprintf(stderr, "explain_descriptor: expected one number of 64 bits and fields such as sbo=1024 (see --help), got \"%s\"\n", argv[i]);
      return false;
    }
    whole = true;
  }
  static const uint64_t swizzle_code[] = {0, 3, 2, 2, 1}; /* of bytes / 32 */
  if (!whole && given[START] == NOT_GIVEN) given[START] = SYSTEM;
  if (!whole && given[SWIZZLE] == NOT_GIVEN) return wrong(&fields[SWIZZLE], "");
  for (int f = 0; f < FIELDS; f++) {
    if (fields[f].unit == 0 || given[f] == NOT_GIVEN) continue;
    const uint64_t mask = f == BASE_OFFSET ? 7 : 0x3fff;
    q->descriptor = (q->descriptor & ~(mask << fields[f].shift)) | (uint64_t)(given[f] / fields[f].unit) << fields[f].shift;
  }
  if (given[SWIZZLE] != NOT_GIVEN) q->descriptor = (q->descriptor << 2 >> 2) | swizzle_code[given[SWIZZLE] / 32] << 62;
  q->mn = given[MAJOR] == 1;
  q->rows = given[ROWS] == NOT_GIVEN ? 64 : given[ROWS];
  q->row = given[ROW], q->k = given[K];
  if ((q->row == NOT_GIVEN) != (q->k == NOT_GIVEN)) return wrong(&fields[q->row == NOT_GIVEN ? ROW : K], "");
  if (q->row >= q->rows) {
    fprintf(stderr, "row: expected a number below rows = %d, got %d\n", q->rows, q->row);
    return false;
  }
  if (whole) return true;
  if (given[SBO] == NOT_GIVEN) return wrong(&fields[SBO], "");
  return given[LBO] != NOT_GIVEN || (!q->mn && given[SWIZZLE] > 0) || wrong(&fields[LBO], "");
}

/* ---------------------------------------------------------------- the fields, in words */

typedef struct meaning {
  uint32_t start, lbo, sbo, span; /* bytes; span: of the swizzle, 16: none */
  uint32_t base_offset;
  int wide;                        /* halves of a span */
  const char *from_bits, *to_bits; /* of an address, by the swizzle */
} meaning;

static meaning read_fields(uint64_t d) {
  static const uint32_t span[4] = {16, 128, 64, 32};
  static const char *const from_bits[4] = {"", "bits 7-9", "bits 7-8", "bit 7"}, *const to_bits[4] = {"", "bits 4-6", "bits 4-5", "bit 4"};
  meaning m = {.start = (d & 0x3fff) << 4, .lbo = (d >> 16 & 0x3fff) << 4, .sbo = (d >> 32 & 0x3fff) << 4, .span = span[d >> 62]};
  m.base_offset = d >> 49 & 7;
  m.wide = (int)m.span / 2;
  m.from_bits = from_bits[d >> 62], m.to_bits = to_bits[d >> 62];
  return m;
}

static void explain_fields(const question *q, const meaning *m) {
  const bool swizzled = m->span > PIECE;
  char groups[64];
  snprintf(groups, sizeof groups, "from %d rows to the next %d rows", q->mn ? m->wide : 8, q->mn ? m->wide : 8);
  const char *k_groups = "from k 0..7 to k 8..15", *lbo, *sbo;
  if (!q->mn) lbo = swizzled ? "not used: K-major with a swizzle" : k_groups, sbo = groups;
  else lbo = swizzled ? groups : k_groups, sbo = swizzled ? k_groups : groups;
  printf("descriptor 0x%016llx, %s-major, %d rows x 16 k of halves\n\n", (unsigned long long)q->descriptor, q->mn ? "MN" : "K", q->rows);
  printf("  bits   field        value   bytes  meaning\n");
  printf("   0-13  start        %5u  %6u  shared address 0x%05x\n", m->start / 16, m->start, m->start);
  printf("  16-29  LBO          %5u  %6u  %s\n", m->lbo / 16, m->lbo, lbo);
  printf("  32-45  SBO          %5u  %6u  %s\n", m->sbo / 16, m->sbo, sbo);
  printf("  49-51  base offset  %5u\n", m->base_offset);
  printf("  62-63  swizzle      %5u  ", (unsigned)(q->descriptor >> 62));
  if (swizzled) printf("%6u  each run of %u bytes has its pieces of 16 bytes permuted\n", m->span, m->span);
  else printf("     0  none\n");

  if (q->mn) printf("\nA piece is 16 bytes: 8 rows of one k. %d rows of one k are a run of %u bytes;", m->wide, m->span);
  else printf("\nA piece is 16 bytes: k 0..7 or k 8..15 of one row.");
  if (q->mn) printf("\n8 of these runs, one a k, follow each other: %u bytes.\n", 8 * m->span);
  else if (swizzled)
    printf(" A row is %u bytes long in memory, %d k of which\na product takes 16, and 8 rows follow each other: %u bytes.\n", m->span, m->wide, 8 * m->span);
  else printf(" The same piece of 8 rows is 128 bytes\nin one run: a core matrix.\n");
  if (swizzled) printf("Swizzle: %s of an address, XORed into its %s.\n", m->from_bits, m->to_bits);
}

/* ---------------------------------------------------------------- pieces */

/* Piece (row, k): k 0 or 8 of a row; MN-major: rows from row on, a multiple of 8, of one k. */
typedef struct piece {
  uint32_t address;
  int row, k;
} piece;

static int find_pieces(const question *q, piece *pieces) {
  int count = 0;
  for (int row = 0; row < q->rows; row += q->mn ? 8 : 1)
    for (int k = 0; k < DEPTH; k += q->mn ? 1 : 8) pieces[count++] = (piece){emu_wgmma_address(q->descriptor, q->mn, row, k), row, k};
  return count;
}

static void draw_table(const question *q, const meaning *m) {
  printf("\nWhere the pieces lie:\n");
  if (!q->mn) {
    printf("    row    k 0..7   k 8..15\n");
    for (int row = 0; row < 10 && row < q->rows; row++)
      printf("  %5d   0x%05x   0x%05x\n", row, emu_wgmma_address(q->descriptor, false, row, 0), emu_wgmma_address(q->descriptor, false, row, 8));
    printf("  and so on to row %d\n", q->rows - 1);
    return;
  }
  const int first[4] = {0, 8, m->wide > 8 ? m->wide : 16, m->wide > 8 ? m->wide + 8 : 24};
  printf("      k");
  for (int i = 0; i < 4 && first[i] < q->rows; i++) {
    char rows[32];
    snprintf(rows, sizeof rows, "%d..%d", first[i], first[i] + 7);
    printf("   rows %8s", rows);
  }
  printf("\n");
  for (int k = 0; k < 10; k++) {
    printf("  %5d", k);
    for (int i = 0; i < 4 && first[i] < q->rows; i++) printf("  %7s0x%05x", "", emu_wgmma_address(q->descriptor, true, first[i], k));
    printf("\n");
  }
  printf("  and so on to k 15, row %d\n", q->rows - 1);
}

static void draw_memory(const question *q, const piece *pieces, int count) {
  enum { LINES = 12 };
  printf("\nWhat lies there: 128 bytes a line, 16 a cell; ");
  printf("%s; + is more than one; . is none\n", q->mn ? "k3r8 is k 3, rows 8..15" : "r3k8 is row 3, k 8..15");
  printf("         ");
  for (int cell = 0; cell < LINE / PIECE; cell++) printf("  %5s%-2d", "+", cell * PIECE);
  printf("\n");
  uint32_t line = pieces[0].address / LINE, last = line;
  for (int i = 0; i < count; i++) {
    if (pieces[i].address / LINE < line) line = pieces[i].address / LINE;
    if (pieces[i].address / LINE > last) last = pieces[i].address / LINE;
  }
  for (const uint32_t end = line + LINES; line < end && line <= last; line++) {
    printf("  0x%05x", line * LINE);
    for (uint32_t cell = 0; cell < LINE / PIECE; cell++) {
      char text[24] = ".";
      int found = 0;
      for (int i = 0; i < count; i++) {
        const piece *p = &pieces[i];
        if (p->address != line * LINE + cell * PIECE) continue;
        if (found++ == 0) snprintf(text, sizeof text, q->mn ? "k%dr%d" : "r%dk%d", q->mn ? p->k : p->row, q->mn ? p->row : p->k);
      }
      if (found > 1) strcat(text, "+");
      printf(" %8s", text);
    }
    printf("\n");
  }
  if (line <= last) printf("  and so on to 0x%05x\n", last * LINE);
}

static void explain_element(const question *q, const meaning *m) {
  const bool none = m->span == PIECE;
  const int wide = q->mn ? m->wide : 8, row = q->row, k = q->k;
  const struct term {
    const char *what;
    uint32_t times, bytes;
  } terms[4] = {
      {none || !q->mn ? "SBO" : "LBO", (uint32_t)(row / wide), none || !q->mn ? m->sbo : m->lbo},
      {"", (uint32_t)(row % wide), q->mn ? 2 : m->span},
      {none    ? "LBO"
       : q->mn ? "SBO"
               : "",
       (uint32_t)(k / 8),
       none    ? m->lbo
       : q->mn ? m->sbo
               : PIECE},
      {"", (uint32_t)(k % 8), q->mn ? m->span : 2},
  };
  char names[4][24];
  snprintf(names[0], sizeof names[0], "row / %d", wide);
  snprintf(names[1], sizeof names[1], "row %% %d", wide);
  snprintf(names[2], sizeof names[2], "k / 8");
  snprintf(names[3], sizeof names[3], "k %% 8");
  uint32_t address = m->start;
  printf("\nElement row %d, k %d:\n      start                          %7u\n", row, k, m->start);
  for (int i = 0; i < 4; i++) {
    address += terms[i].times * terms[i].bytes;
    printf("    + %-8s = %3u  x %6u %-3s  = %7u\n", names[i], terms[i].times, terms[i].bytes, terms[i].what, terms[i].times * terms[i].bytes);
  }
  printf("    =                                %7u = 0x%05x\n", address, address);
  const uint32_t final = emu_wgmma_address(q->descriptor, q->mn, row, k);
  if (!none) {
    const uint32_t bits = address >> 7 & (m->span / PIECE - 1);
    printf("    swizzle: its %s hold %u, XORed into %s: 0x%05x\n", m->from_bits, bits, m->to_bits, final);
  }
}

/* ---------------------------------------------------------------- what is legal, and rarely meant */

static void note_start(const question *q, const meaning *m) {
  const uint32_t pattern = 8 * m->span, runs = m->start % pattern / m->span, within = m->start % m->span;
  if (m->span == PIECE) return;
  if (runs > 0) {
    printf("note: start is %u run%s of %u bytes past a multiple of %u. Right for a window that slides\n", runs, runs > 1 ? "s" : "", m->span, pattern);
    printf("      over a tile which itself begins at such a multiple; wrong if the data was laid out\n      and swizzled from this start on.\n");
  }
  if (within == 0) return;
  if (q->mn) printf("note: start is %u bytes into a run: the last %u rows of each %d come from the next k's run.\n", within, within / 2, m->wide);
  else if (within + 32 > m->span) printf("note: start is %u bytes into a run of %u: k 8..15 come from the next row's run.\n", within, m->span);
  else if (within % 32 != 0) printf("note: start is %u bytes into a run of %u: in the middle of 16 steps of k.\n", within, m->span);
  else printf("The start is %u bytes into a run: k %u..%u of the %d in it.\n", within, within / 2, within / 2 + 15, m->wide);
}

static void note_stride(const char *name, uint32_t bytes, const meaning *m, bool used) {
  const uint32_t pattern = 8 * m->span;
  if (!used || m->span == PIECE || bytes % pattern == 0) return;
  if (bytes % m->span == 0) {
    printf("note: %s is no multiple of %u, so that groups begin at different places of the swizzle's\n", name, pattern);
    printf("      pattern. Right where rows of a larger tile are skipped: the swizzle goes by the address.\n");
  } else {
    printf("note: %s is no multiple of %u: groups begin inside of a run of %u bytes.\n", name, m->span, m->span);
  }
}

static int by_address(const void *a, const void *b) {
  const piece *x = a, *y = b;
  return (x->address > y->address) - (x->address < y->address);
}

static void explain_oddities(const question *q, const meaning *m, piece *pieces, int count) {
  const bool swizzled = m->span > PIECE, lbo_used = q->mn ? !swizzled || q->rows > m->wide : !swizzled;
  const bool sbo_used = q->rows > 8 || (q->mn && swizzled);
  const char *refused = emu_wgmma_refused(q->descriptor);
  printf("\n");
  if (refused) printf("note: it %s;\n      the emulator refuses it.\n", refused);
  note_start(q, m);
  note_stride("LBO", m->lbo, m, lbo_used);
  note_stride("SBO", m->sbo, m, sbo_used);
  if (!lbo_used && m->lbo > PIECE) printf("note: LBO is %u and not used here.\n", m->lbo);
  qsort(pieces, (size_t)count, sizeof *pieces, by_address);
  int again = 0;
  for (int i = 1; i < count; i++) again += pieces[i].address == pieces[i - 1].address;
  if (again > 0) {
    printf("note: %d of the %d pieces are bytes that another piece has too: groups overlap. Meant where a\n", again, count);
    printf("      window slides in steps shorter than itself; else LBO or SBO is too small.\n");
  }
  if (pieces[0].address < SYSTEM) printf("note: it reads 0x%05x; the first %d bytes of shared memory belong to the system.\n", pieces[0].address, SYSTEM);
  if (pieces[count - 1].address >= MOST_SHARED + SYSTEM)
    printf("note: it reads 0x%05x, past the %d KiB that a block can have.\n", pieces[count - 1].address, MOST_SHARED >> 10);
  printf("The shared memory it reads: 0x%05x to 0x%05x.\n", pieces[0].address, pieces[count - 1].address + PIECE - 1);
}

int main(int argc, char **argv) {
  output_start();
  question q = {0};
  int given[FIELDS];
  if (argc == 1 || strcmp(argv[1], "--help") == 0) {
    fputs(help_text, stdout);
    return 0;
  }
  if (!parse(argc, argv, &q, given)) return 2;
  static piece pieces[MOST_ROWS * 2];
  const meaning m = read_fields(q.descriptor);
  const int count = find_pieces(&q, pieces);
  explain_fields(&q, &m);
  draw_table(&q, &m);
  draw_memory(&q, pieces, count);
  if (q.row != NOT_GIVEN) explain_element(&q, &m);
  explain_oddities(&q, &m, pieces, count);
  return 0;
}
