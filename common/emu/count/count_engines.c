/* What the copy engine and the tensor cores do, by lines: bytes and products. Of all blocks, in lockstep or not: no lane has a part in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/emu/count/count.h"
#include "common/emu/run/wgmma_product.h"

enum { MOST = 256 };
typedef enum { COPY_IN, COPY_OUT, PRODUCT /* of a warpgroup */, WARP_PRODUCT } engine_work;

typedef struct engine_row {
  emu_site where;
  engine_work work;
  uint64_t times, shared_bytes, global_bytes, products; /* products: multiply-adds */
  char added_to[32];                                    /* the array, of a copy out that adds; else "" */
} engine_row;

static engine_row rows[MOST];
static int count;
static uint64_t wgmmas, on_their_way;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Of mbarriers of this worker's blocks the bytes that have been asked for since somebody last waited there. */
typedef struct due {
  const emu_block *block;
  uint32_t mbarrier, bytes;
} due;
static __thread due dues[MOST];
static __thread int due_count;

/* Its place, or due_count. */
static int due_at(const emu_block *block, uint32_t mbarrier) {
  int i = 0;
  while (i < due_count && !(dues[i].block == block && dues[i].mbarrier == mbarrier)) i++;
  return i;
}

/* The row of a line; called with the lock. */
static engine_row *row_of(emu_site where, engine_work work) {
  for (int i = 0; i < count; i++)
    if (rows[i].work == work && rows[i].where.line == where.line && strcmp(rows[i].where.file, where.file) == 0) return &rows[i];
  if (count == MOST) return &rows[MOST - 1];
  rows[count] = (engine_row){.where = where, .work = work};
  return &rows[count++];
}

static void add_to(const char *array, emu_site where, engine_work work, uint64_t times, uint64_t shared, uint64_t global, uint64_t products) {
  pthread_mutex_lock(&lock);
  engine_row *r = row_of(where, work);
  r->times += times, r->shared_bytes += shared, r->global_bytes += global, r->products += products;
  if (r->added_to[0] == '\0') snprintf(r->added_to, sizeof r->added_to, "%s", array);
  pthread_mutex_unlock(&lock);
}

static void add(emu_site where, engine_work work, uint64_t times, uint64_t shared, uint64_t global, uint64_t products) {
  add_to("", where, work, times, shared, global, products);
}

void emu_count_bulk_issued(emu_block *block, uint32_t shared, uint32_t bytes, uint32_t mbarrier, bool engine, emu_site where) {
  (void)shared, (void)engine;
  add(where, COPY_IN, 1, bytes, 0, 0);
  const int at = due_at(block, mbarrier);
  if (at == MOST) return;
  if (at == due_count) dues[due_count++] = (due){block, mbarrier, 0};
  dues[at].bytes += bytes;
}

void emu_count_mbarrier_passed(emu_thread *t, uint32_t mbarrier, emu_site where) {
  (void)where;
  const int at = due_at(t->block, mbarrier);
  if (at < due_count) dues[at] = dues[--due_count];
}

void emu_count_store_issued(uint32_t shared, uint32_t bytes, emu_site where, unsigned *number) {
  (void)shared, (void)number;
  add(where, COPY_OUT, 1, bytes, 0, 0);
}

void emu_count_bulk_global(const void *address, size_t bytes, emu_access_kind kind, emu_site where) {
  if (kind == EMU_ATOMIC) { /* bytes are those of loads and stores: what a copy adds is not among them */
    char array[32];
    emu_count_name_array((uintptr_t)address, array, sizeof array);
    add_to(array, where, COPY_OUT, 0, 0, bytes, 0);
    return;
  }
  emu_count_global(address, bytes, kind == EMU_WRITE);
  add(where, kind == EMU_WRITE ? COPY_OUT : COPY_IN, 0, 0, bytes, 0);
}

void emu_count_wgmma_issued(const emu_wgmma_record *what, unsigned group, emu_site where) {
  (void)group;
  uint64_t due_here = 0;
  for (int i = 0; i < due_count; i++) due_here += dues[i].block == emu_self->block ? dues[i].bytes : 0;
  add(where, PRODUCT, 1, 0, 0, 64 * 16 * (uint64_t)what->n);
  pthread_mutex_lock(&lock);
  wgmmas++, on_their_way += due_here;
  pthread_mutex_unlock(&lock);
}

void emu_count_mma_issued(unsigned products, emu_site where) { add(where, WARP_PRODUCT, 1, 0, 0, products); }

void emu_count_engines_begin_block(void) { due_count = 0; }

void emu_count_engines_forget(void) { count = 0, wgmmas = on_their_way = 0; }

/* Sums that copies add to global memory, as the atomics that they are: a request is a copy, of one lane. */
int emu_count_engines_rows(emu_instruction *rows_of_adds, int room) {
  int n = 0;
  for (int i = 0; i < count && n < room; i++) {
    const engine_row *r = &rows[i];
    if (r->added_to[0] == '\0') continue;
    rows_of_adds[n] = (emu_instruction){.kind = EMU_ATOMIC, .space = EMU_GLOBAL, .file = r->where.file, .line = r->where.line};
    rows_of_adds[n].bytes = (uint32_t)(r->shared_bytes / r->times);
    rows_of_adds[n].requests = rows_of_adds[n].lanes = r->times;
    rows_of_adds[n].sectors = (r->global_bytes + 31) / 32;
    memcpy(rows_of_adds[n++].array, r->added_to, sizeof r->added_to);
  }
  return n;
}

emu_engine_sums emu_count_engines_sums(void) {
  emu_engine_sums sums = {.wgmmas = wgmmas, .on_their_way = on_their_way};
  for (int i = 0; i < count; i++) {
    sums.products += rows[i].products;
    if (rows[i].work == COPY_IN) sums.copied_in += rows[i].shared_bytes;
  }
  return sums;
}

void emu_count_engines_print(double flops) {
  double issued = 0;
  for (int i = 0; i < count; i++) {
    const engine_row *r = &rows[i];
    char text[160];
    emu_count_source_text(r->where.file, r->where.line, text, sizeof text);
    printf("  %s:%d: %s\n", r->where.file, r->where.line, text);
    const double times = (double)r->times;
    if (r->work == PRODUCT || r->work == WARP_PRODUCT)
      printf("    the tensor cores: %.0f %s, %.4g million multiply-adds\n", times, r->work == PRODUCT ? "wgmma" : "mma", (double)r->products / 1e6);
    else if (r->added_to[0] != '\0')
      printf("    the copy engine: %.0f sums, %.1f kB out of shared memory, %.1f kB added to %s (atomic)\n", times, (double)r->shared_bytes / 1e3,
             (double)r->global_bytes / 1e3, r->added_to);
    else
      printf("    the copy engine: %.0f copies, %.1f kB %s shared memory, %.1f kB %s memory%s\n", times, (double)r->shared_bytes / 1e3,
             r->work == COPY_IN ? "into" : "out of", (double)r->global_bytes / 1e3, r->work == COPY_IN ? "from" : "into",
             r->global_bytes < r->shared_bytes ? " (the rest lies outside of the tensor, or is the same for several blocks)" : "");
    issued += 2 * (double)r->products;
  }
  if (issued > 0 && flops > 0) printf("  of the multiply-adds issued %.1f %% are the problem's\n", 100 * flops / issued);
}
