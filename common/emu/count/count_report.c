/* The listing: for every line that touches memory its text, then a row for each of its instructions; then the whole launch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/emu/count/count.h"
#include "common/emu/tool/source_line.h"

/* ---- rows ---- */

static bool same_row(const emu_instruction *a, const emu_instruction *b) {
  return a->line == b->line && a->space == b->space && a->kind == b->kind && a->bytes == b->bytes && strcmp(a->file, b->file) == 0 &&
         strcmp(a->array, b->array) == 0;
}

static int by_line(const void *x, const void *y) {
  const emu_instruction *a = x, *b = y;
  const int files = strcmp(a->file, b->file);
  if (files != 0) return files;
  if (a->line != b->line) return a->line - b->line;
  return (a->pc > b->pc) - (a->pc < b->pc);
}

int emu_count_rows(const emu_counted *launch, emu_instruction *rows, int room) {
  static const void *pcs[EMU_INSTRUCTIONS];
  static emu_line lines[EMU_INSTRUCTIONS];
  int n = 0, kept = 0;
  for (size_t i = 0; i < EMU_INSTRUCTIONS && n < room; i++)
    if (launch->counts.instruction[i].pc != NULL) {
      rows[n] = launch->counts.instruction[i];
      pcs[n] = rows[n].pc;
      n++;
    }
  emu_source_lines(pcs, (size_t)n, lines);
  for (int i = 0; i < n; i++) {
    rows[i].file = lines[i].file;
    rows[i].line = lines[i].line;
  }
  qsort(rows, (size_t)n, sizeof *rows, by_line);
  for (int i = 0; i < n; i++) {
    int into = 0;
    while (into < kept && !same_row(&rows[into], &rows[i])) into++;
    if (into == kept) {
      rows[kept++] = rows[i];
    } else {
      rows[into].requests += rows[i].requests;
      rows[into].lanes += rows[i].lanes;
      rows[into].sectors += rows[i].sectors;
      rows[into].wavefronts += rows[i].wavefronts;
    }
  }
  return kept;
}

/* ---- text ---- */

/* Line `line` of the file without its indentation; empty if it cannot be read. */
void emu_count_source_text(const char *file, int line, char *text, size_t room) {
  FILE *f = fopen(file, "r");
  text[0] = '\0';
  if (f == NULL) return;
  char whole[1024] = "";
  for (int i = 0; i < line && fgets(whole, sizeof whole, f); i++) {}
  fclose(f);
  whole[strcspn(whole, "\r\n")] = '\0';
  snprintf(text, room, "%s", whole + strspn(whole, " \t"));
}

static void print_bytes(double bytes) {
  if (bytes >= 1e9) printf("%.2f GB", bytes / 1e9);
  else if (bytes >= 1e6) printf("%.2f MB", bytes / 1e6);
  else printf("%.1f kB", bytes / 1e3);
}

static void print_rows(const emu_instruction *rows, int n) {
  static const char *const kind[] = {"load", "store", "atomic"};
  printf("  %-10s %-14s %5s %10s %6s  %s\n", "", "", "bytes", "requests", "lanes", "per request");
  for (int i = 0; i < n; i++) {
    const emu_instruction *r = &rows[i];
    const double requests = (double)r->requests;
    if (i == 0 || r->line != rows[i - 1].line || strcmp(r->file, rows[i - 1].file) != 0) {
      char text[160];
      emu_count_source_text(r->file, r->line, text, sizeof text);
      printf("  %s:%d: %s\n", r->file, r->line, text);
    }
    printf("    %-8s %-14s %5u %10llu %6.2f  ", kind[r->kind], r->array, r->bytes, (unsigned long long)r->requests, (double)r->lanes / requests);
    const double sectors = (double)r->sectors / requests, wavefronts = (double)r->wavefronts / requests;
    if (r->space == EMU_GLOBAL && r->wavefronts) printf("%.2f sectors, %.2f wavefronts\n", sectors, wavefronts);
    else if (r->space == EMU_GLOBAL) printf("%.2f sectors\n", sectors);
    else if (r->space == EMU_SHARED) printf("%.2f wavefronts\n", wavefronts);
    else printf("%.2f elements\n", wavefronts);
  }
}

static void print_floor(const emu_counted *launch, const emu_instruction *rows, int n) {
  const gpu_limits *gpu = emu_count_gpu();
  const emu_counts *c = &launch->counts;
  const double distinct = (double)(c->distinct_read + c->distinct_written), scale = c->sampled ? (double)launch->blocks / (double)c->sampled : 0;
  double wavefronts = 0;
  for (int i = 0; i < n; i++)
    if (rows[i].space != EMU_CONSTANT) wavefronts += scale * (double)rows[i].wavefronts;
  printf("  asked for ");
  print_bytes((double)c->asked_read);
  printf(" of loads, ");
  print_bytes((double)c->asked_written);
  printf(" of stores; distinct: ");
  print_bytes((double)c->distinct_read);
  printf(" read, ");
  print_bytes((double)c->distinct_written);
  printf(" written\n");
  if (launch->flops > 0 && distinct > 0)
    printf("  %.4g Gflop of the problem (arithmetic is not counted): %.1f flops per distinct byte\n", launch->flops / 1e9, launch->flops / distinct);
  printf("  floor on %s%s:", gpu->short_name, strncmp(gpu->source, "not measured", 12) == 0 ? " (limits not measured)" : "");
  if (launch->flops > 0) printf(" arithmetic %.3g us,", 1e6 * launch->flops / gpu->fp32_flops);
  printf(" memory %.3g us (distinct bytes), L1 and shared memory %.3g us (128 bytes a wavefront)\n", 1e6 * distinct / gpu->copy_per_second,
         1e6 * 128 * wavefronts / gpu->l1_per_second);
}

void emu_count_print(emu_counted *launch) {
  emu_instruction *rows = emu_take(EMU_INSTRUCTIONS, sizeof *rows, "the rows of a listing");
  const int n = emu_count_rows(launch, rows, EMU_INSTRUCTIONS);
  const dim3 g = launch->grid, b = launch->block;
  printf("\nemulator count: %s<<<(%u,%u,%u), (%u,%u,%u), %zu>>>, launched at %s:%d\n", launch->name, g.x, g.y, g.z, b.x, b.y, b.z, launch->shared_bytes,
         launch->where.file, launch->where.line);
  printf("  requests of %llu of %llu blocks%s\n", (unsigned long long)launch->counts.sampled, (unsigned long long)launch->blocks,
         launch->counts.sampled < launch->blocks ? ", evenly spaced from the first to the last" : "");
  print_rows(rows, n);
  emu_count_engines_print(launch->flops);
  print_floor(launch, rows, n);
  fflush(stdout);
  free(rows);
}
