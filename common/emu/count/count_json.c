/* The counts for programs: EMU_COUNT_JSON=file gets an array with one object for each launch that was counted. */
#include <stdio.h>
#include <stdlib.h>

#include "common/emu/count/count.h"

static FILE *file;

static void put_string(const char *text) {
  putc('"', file);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') putc('\\', file);
    if ((unsigned char)*text >= ' ') putc(*text, file);
  }
  putc('"', file);
}

static void finish(void) {
  fputs("\n]\n", file);
  fclose(file);
}

static bool begin(void) {
  const char *path = getenv("EMU_COUNT_JSON");
  if (file != NULL) return fputs(",\n", file) >= 0;
  if (path == NULL || *path == '\0') return false;
  file = fopen(path, "w");
  if (file == NULL) {
    perror(path);
    return false;
  }
  atexit(finish);
  return fputs("[\n", file) >= 0;
}

void emu_count_json(const emu_counted *launch) {
  static const char *const kind[] = {"load", "store", "atomic"}, *const space[] = {"global", "shared", "constant", "other"};
  if (!begin()) return;
  const emu_counts *c = &launch->counts;
  emu_instruction *rows = malloc(EMU_INSTRUCTIONS * sizeof *rows);
  if (rows == NULL) emu_no_memory();
  const int n = emu_count_rows(launch, rows, EMU_INSTRUCTIONS);
  fputs("{\"kernel\": ", file);
  put_string(launch->name);
  fputs(", \"of\": ", file);
  put_string(launch->whose);
  fprintf(
      file,
      ", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared_bytes\": %zu, \"static_shared_bytes\": %zu, \"blocks\": %llu, \"blocks_counted\": %llu,\n",
      launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x, launch->block.y, launch->block.z, launch->shared_bytes, launch->static_shared,
      (unsigned long long)launch->blocks, (unsigned long long)c->sampled);
  fprintf(file,
          " \"bytes_loaded\": %llu, \"bytes_stored\": %llu, \"distinct_bytes_loaded\": %llu, \"distinct_bytes_stored\": %llu,"
          " \"flops_of_problem\": %.17g,\n",
          (unsigned long long)c->asked_read, (unsigned long long)c->asked_written, (unsigned long long)c->distinct_read,
          (unsigned long long)c->distinct_written, launch->flops);
  const emu_engine_sums engines = emu_count_engines_sums();
  fprintf(file, " \"copied_in_bytes\": %llu, \"tensor_products\": %llu, \"wgmmas\": %llu, \"bytes_on_their_way\": %llu,\n",
          (unsigned long long)engines.copied_in, (unsigned long long)engines.products, (unsigned long long)engines.wgmmas,
          (unsigned long long)engines.on_their_way);
  fputs(" \"instructions\": [", file);
  for (int i = 0; i < n; i++) {
    const emu_instruction *r = &rows[i];
    fprintf(file, "%s\n  {\"file\": ", i ? "," : "");
    put_string(r->file);
    fprintf(file, ", \"line\": %d, \"kind\": \"%s\", \"space\": \"%s\", \"array\": ", r->line, kind[r->kind], space[r->space]);
    put_string(r->array);
    fprintf(file, ", \"bytes\": %u, \"requests\": %llu, \"lanes\": %llu, \"sectors\": %llu, \"wavefronts\": %llu}", r->bytes, (unsigned long long)r->requests,
            (unsigned long long)r->lanes, (unsigned long long)r->sectors, (unsigned long long)r->wavefronts);
  }
  fputs("]}", file);
  free(rows);
}
