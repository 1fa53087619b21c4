/* Draws where a swizzle puts the 16-byte chunks of rows in shared memory, and which banks eight rows hit, as make explain-swizzle shows it. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/emu/run/tensor_map.h"
#include "common/files/output.h"

static const char help_text[] = "Where a copy with a swizzle puts the chunks of its rows, and what that does for the banks.\n"
                                "\n"
                                "  make explain-swizzle ARGS='--swizzle 128 --chunk 3'\n"
                                "\n"
                                "  --swizzle 32|64|128  the swizzle's span in bytes; rows are as long, as a box's should be\n"
                                "  --chunk N            the chunk of 16 bytes that eight rows are read at (default: 0)\n"
                                "  --start BYTES        where row 0 lies, a multiple of 128 (default: 0)\n"
                                "\n"
                                "Shared memory has 32 banks of 4 bytes: 128 bytes make a line that is read in one pass. ldmatrix\n"
                                "and wgmma read eight rows of 16 bytes at once: together they are one line's worth of bytes, and\n"
                                "need one pass if they lie in different banks, up to eight if they lie in the same ones.\n";

enum { LINE = 128, LINES = 8, CHUNK = 16, CHUNKS = LINE / CHUNK, ROWS = 8, SHARED = 1 << 18 };

typedef struct question {
  int kind; /* CUtensorMapSwizzle: 1, 2, 3 */
  int row_bytes, chunk, start;
} question;

static int bad(const char *what, const char *expected, const char *got) {
  fprintf(stderr, "%s: expected %s, got \"%s\"\n", what, expected, got);
  return 2;
}

/* The shared address of a row's chunk. */
static uint32_t place(const question *q, int kind, int row, int chunk) { return emu_swizzle(kind, (uint32_t)(q->start + row * q->row_bytes + chunk * CHUNK)); }

/* What lies at a place of a line, eight lines from the start on: "row.chunk". */
static void find(const question *q, int kind, uint32_t address, char text[16]) {
  const int chunks = q->row_bytes / CHUNK;
  for (int row = 0; row < LINES * LINE / q->row_bytes; row++)
    for (int chunk = 0; chunk < chunks; chunk++)
      if (place(q, kind, row, chunk) == address) snprintf(text, 16, "%d.%d", row, chunk);
}

static void print_lines(const question *q) {
  printf("address      no swizzle                                swizzle of %d bytes\n", q->row_bytes);
  for (int line = 0; line < LINES; line++) {
    const uint32_t address = (uint32_t)(q->start + line * LINE);
    printf("0x%05x  ", address);
    for (int kind = 0; kind <= q->kind; kind += q->kind) {
      for (int i = 0; i < CHUNKS; i++) {
        char text[16];
        find(q, kind, address + (uint32_t)(i * CHUNK), text);
        printf("%5s", text);
      }
      printf(kind == 0 ? "  |" : "\n");
    }
  }
}

/* One line: the eight groups of four banks, and in each the rows that are read there. */
static void print_banks(const question *q, int kind, const char *name) {
  char rows[CHUNKS][ROWS + 1] = {{0}};
  size_t passes = 0;
  for (int row = 0; row < ROWS; row++) {
    char *group = rows[place(q, kind, row, q->chunk) / CHUNK % CHUNKS];
    group[strlen(group)] = (char)('0' + row);
    if (strlen(group) > passes) passes = strlen(group);
  }
  printf("%-11s", name);
  for (int i = 0; i < CHUNKS; i++) printf("%9s", *rows[i] ? rows[i] : ".");
  printf("   %zu %s\n", passes, passes == 1 ? "pass" : "passes");
}

static void explain(const question *q) {
  static const char *const bits[4][2] = {{"", ""}, {"bit 4", "bit 7"}, {"bits 4 and 5", "bits 7 and 8"}, {"bits 4 to 6", "bits 7 to 9"}};
  enum { row = 3 }; /* the example */
  const int chunks = q->row_bytes / CHUNK;
  const uint32_t from = place(q, 0, row, q->chunk), to = place(q, q->kind, row, q->chunk);
  const int line = (int)from / LINE, at = (int)from / CHUNK % CHUNKS;
  printf("Rows of %d bytes = %d chunks of 16, row 0 at 0x%05x. 5.1 is chunk 1 of row 5.\n", q->row_bytes, chunks, q->start);
  printf("A line is 128 bytes: all 32 banks, four to a chunk.\n\n");
  print_lines(q);
  printf("\nThe rule: address %s (the place in the line) XOR %s (the line's number).\n", bits[q->kind][0], bits[q->kind][1]);
  printf("The address counts from the start of shared memory, not of the box: see --start 128.\n");
  printf("Row %d, chunk %d: 0x%05x is line %d, place %d; %d XOR (%d mod %d) = %d: it lies at 0x%05x.\n", row, q->chunk, from, line, at, at, line, 1 << q->kind,
         (int)to / CHUNK % CHUNKS, to);
  printf("\nChunk %d of rows 0 to 7, read at once: which rows meet in which banks\n", q->chunk);
  printf("%-11s", "banks");
  for (int i = 0; i < CHUNKS; i++) {
    char text[16];
    snprintf(text, sizeof text, "%d-%d", 4 * i, 4 * i + 3);
    printf("%9s", text);
  }
  printf("\n");
  print_banks(q, 0, "no swizzle");
  print_banks(q, q->kind, q->kind == 1 ? "32 bytes" : q->kind == 2 ? "64 bytes" : "128 bytes");
}

/* A whole number from 0 to `most`; -1: none. */
static long number(const char *text, long most) {
  char *end;
  const long n = strtol(text, &end, 0);
  return end == text || *end || *text < '0' || *text > '9' || n > most ? -1 : n;
}

int main(int argc, char **argv) {
  enum { SWIZZLE = 256, CHUNK_OPTION, START, HELP };
  static const struct option table[] = {{"swizzle", required_argument, 0, SWIZZLE},
                                        {"chunk", required_argument, 0, CHUNK_OPTION},
                                        {"start", required_argument, 0, START},
                                        {"help", no_argument, 0, HELP},
                                        {0}};
  const char *swizzle = "", *chunk = "0", *start = "0";
  int option;
  output_start();
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    if (option == '?') return 2;
    if (option == HELP) return fputs(help_text, stdout), 0;
    *(option == SWIZZLE ? &swizzle : option == CHUNK_OPTION ? &chunk : &start) = optarg;
  }
  if (argc == 1) return fputs(help_text, stdout), 0;
  if (optind < argc) return bad("explain_swizzle", "options only (see --help)", argv[optind]);
  question q = {.row_bytes = (int)number(swizzle, LINE)};
  q.kind = q.row_bytes == 32 ? 1 : q.row_bytes == 64 ? 2 : q.row_bytes == 128 ? 3 : 0;
  if (q.kind == 0) return bad("--swizzle", "32, 64 or 128", swizzle);
  char expected[64];
  snprintf(expected, sizeof expected, "0 to %d", q.row_bytes / CHUNK - 1);
  q.chunk = (int)number(chunk, q.row_bytes / CHUNK - 1);
  if (q.chunk < 0) return bad("--chunk", expected, chunk);
  snprintf(expected, sizeof expected, "a multiple of 128 from 0 to %d", SHARED - LINES * LINE);
  q.start = (int)number(start, SHARED - LINES * LINE);
  if (q.start < 0 || q.start % LINE != 0) return bad("--start", expected, start);
  explain(&q);
  return 0;
}
