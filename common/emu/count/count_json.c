/* The counts for programs: EMU_COUNT_JSON=file gets an array with one object for each launch that was counted. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/count/count.h"
#include "common/files/output.h"

static output *json;
static FILE *file; /* its */

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
  output_close(json);
}

void emu_count_json_open(void) {
  const char *path = getenv("EMU_COUNT_JSON");
  if (json != NULL || path == NULL || *path == '\0') return;
  json = output_open("EMU_COUNT_JSON", path);
  if (json == NULL) exit(2);
  atexit(finish);
  file = json->file;
  fputs("[", file);
}

void emu_count_json(const emu_counted *launch) {
  static const char *const kind[] = {"load", "store", "atomic"}, *const space[] = {"global", "shared", "constant", "other"};
  static int objects;
  if (json == NULL) return;
  const emu_counts *c = &launch->counts;
  emu_instruction *rows = emu_take(EMU_INSTRUCTIONS, sizeof *rows, "the rows of a listing");
  int n = emu_count_rows(launch, rows, EMU_INSTRUCTIONS);
  n += emu_count_engines_rows(rows + n, EMU_INSTRUCTIONS - n);
  fprintf(file, "%s\n{\"kernel\": ", objects++ ? "," : "");
  put_string(launch->name);
  fputs(", \"of\": ", file);
  put_string(launch->whose);
  fprintf(
      file,
      ", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared_bytes\": %zu, \"static_shared_bytes\": %zu, \"blocks\": %llu, \"blocks_counted\": %llu,\n",
      launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x, launch->block.y, launch->block.z, launch->shared_bytes, launch->static_shared,
      (unsigned long long)launch->blocks, (unsigned long long)c->sampled);
  fprintf(
      file,
      " \"bytes_loaded\": %llu, \"bytes_stored\": %llu, \"most_bytes_a_block_loads\": %llu, \"distinct_bytes_loaded\": %llu, \"distinct_bytes_stored\": %llu,"
      " \"flops_of_problem\": %.17g,\n",
      (unsigned long long)c->asked_read, (unsigned long long)c->asked_written, (unsigned long long)c->most_read, (unsigned long long)c->distinct_read,
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
