/* Which launches and blocks are counted, and what is counted over all blocks.
 *
 * Of launches with the same kernel, grid and block only the first is counted, unless EMU_COUNT_LAUNCHES=all. All its blocks run, or its result would be wrong; bytes
 * are counted in all of them. Lockstep costs a stop at every basic block, so only some blocks go that way: EMU_COUNT_BLOCKS=n of them
 * (default 8; "all"), spread evenly from the first to the last.
 *
 * Environment: EMU_COUNT_BLOCKS=n|all   EMU_COUNT_LAUNCHES=all   EMU_COUNT_JSON=file   GPU=h100 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/emu/count/count.h"

static __thread emu_counter *counting; /* NULL: not now */
static emu_counted *current;           /* the launch that is counted */
static double work;                    /* emu_count_work */
static char whose[16];                 /* the same */

/* The launches counted so far. */
static struct done {
  struct done *next;
  const void *function;
  dim3 grid, block;
  size_t shared_bytes;
} * done;

static emu_counter *counters[EMU_MAX_WORKERS];
static int counter_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool same(dim3 a, dim3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

static bool is_new(const emu_call *call) {
  if (emu_setting(EMU_SET_COUNT_LAUNCHES, 0)) return true;
  for (const struct done *d = done; d != NULL; d = d->next)
    if (d->function == call->function && same(d->grid, call->grid) && same(d->block, call->block) && d->shared_bytes == call->shared_bytes) return false;
  struct done *d = emu_take(1, sizeof *d, "the list of what was counted");
  *d = (struct done){done, call->function, call->grid, call->block, call->shared_bytes};
  done = d;
  return true;
}

/* How many blocks go in lockstep. */
static uint64_t wanted(uint64_t blocks) {
  const uint64_t n = emu_setting(EMU_SET_COUNT_BLOCKS, 8);
  return n < blocks ? n : blocks;
}

/* The i-th of n blocks, from the first to the last. */
static uint64_t nth(uint64_t i, uint64_t n, uint64_t blocks) { return n < 2 ? 0 : i * (blocks - 1) / (n - 1); }

static bool is_sample(uint64_t index, uint64_t blocks) {
  const uint64_t n = wanted(blocks), guess = blocks < 2 ? 0 : index * (n - 1) / (blocks - 1);
  for (uint64_t i = guess > 0 ? guess - 1 : 0; i < n && i <= guess + 1; i++)
    if (nth(i, n, blocks) == index) return true;
  return false;
}

static void launch_begin(emu_launch *launch) {
  const emu_call *call = &launch->call;
  if (!is_new(call)) return;
  emu_count_json_open();
  emu_count_engines_forget();
  current = emu_take(1, sizeof *current, "the counts of a launch");
  *current = (emu_counted){.name = call->name,
                           .where = call->where,
                           .grid = call->grid,
                           .block = call->block,
                           .shared_bytes = call->shared_bytes,
                           .flops = work,
                           .whose = whose,
                           .blocks = launch->block_count};
}

static void add_row(emu_counts *to, const emu_instruction *row) {
  for (size_t i = 0; i < EMU_INSTRUCTIONS; i++) {
    emu_instruction *r = &to->instruction[i];
    const bool match = r->pc == row->pc && r->space == row->space && r->kind == row->kind;
    if (r->pc != NULL && !match) continue;
    if (!match) {
      *r = *row;
    } else {
      r->requests += row->requests;
      r->lanes += row->lanes;
      r->sectors += row->sectors;
      r->wavefronts += row->wavefronts;
    }
    return;
  }
}

static void launch_end(emu_launch *launch) {
  if (current == NULL) return;
  emu_counts *sum = &current->counts;
  for (int w = 0; w < counter_count; w++) {
    emu_counts *c = &counters[w]->counts;
    for (size_t i = 0; i < EMU_INSTRUCTIONS; i++)
      if (c->instruction[i].pc != NULL) add_row(sum, &c->instruction[i]);
    sum->asked_read += c->asked_read;
    sum->asked_written += c->asked_written;
    sum->distinct_read += c->distinct_read;
    sum->distinct_written += c->distinct_written;
    sum->sampled += c->sampled;
    if (c->most_read > sum->most_read) sum->most_read = c->most_read;
    memset(c, 0, sizeof *c);
  }
  if (!launch->failed) {
    current->static_shared = launch->static_shared;
    emu_count_print(current);
    emu_count_json(current);
  }
  free(current);
  current = NULL;
}

static void worker_begin(emu_worker *w) {
  if (current == NULL) return;
  if (w->tool == NULL) {
    emu_counter *c = emu_take(1, sizeof *c, "the counts of a worker");
    c->worker = w;
    w->tool = c;
    pthread_mutex_lock(&lock);
    counters[counter_count++] = c;
    pthread_mutex_unlock(&lock);
  }
  counting = w->tool;
  counting->stamp = (uint32_t)w->launch->serial;
  for (int i = 0; i < EMU_CACHED; i++) counting->cache[i] = (emu_shadow){.start = 0};
  w->random = 0; /* lockstep has an order of its own */
}

static void worker_end(emu_worker *w) {
  (void)w;
  counting = NULL;
}

static void block_begin(emu_worker *w) {
  emu_count_engines_begin_block();
  if (counting == NULL) return;
  const uint3 b = w->block->index;
  const dim3 grid = w->launch->call.grid;
  w->stepping = w->team_size == 1 && is_sample(b.x + (uint64_t)grid.x * (b.y + (uint64_t)grid.y * b.z), w->launch->block_count);
  counting->before_block = counting->counts.asked_read;
  counting->counts.sampled += w->stepping;
  emu_step_begin_block(w);
}

static void block_end(emu_worker *w) {
  if (counting == NULL) return;
  const uint64_t read = counting->counts.asked_read - counting->before_block;
  if (read > counting->counts.most_read) counting->counts.most_read = read;
  if (w->stepping) emu_step_end_block(w);
}

/* ---- accesses ---- */

/* The allocation that the address lies in; NULL: none. */
static const emu_shadow *shadow_of(emu_counter *c, uintptr_t address) {
  emu_shadow *cached = &c->cache[address >> 12 & (EMU_CACHED - 1)];
  if (address - cached->start < cached->bytes) return cached;
  const emu_shadow *found = emu_shadow_at(address);
  if (found == NULL || address - found->start >= found->bytes) return NULL;
  *cached = *found;
  return cached;
}

/* Bytes of the words that nobody has touched in this launch: each counts for one worker alone. */
static uint64_t new_bytes(const emu_counter *c, const emu_shadow *s, size_t offset, size_t bytes, bool writing) {
  uint64_t sum = 0;
  for (size_t group = offset / 4; group <= (offset + bytes - 1) / 4; group++) {
    uint32_t *word = writing ? &s->seen[group].writer : &s->seen[group].reader;
    if (__atomic_load_n(word, __ATOMIC_RELAXED) != c->stamp && __atomic_exchange_n(word, c->stamp, __ATOMIC_RELAXED) != c->stamp) sum += 4;
  }
  return sum;
}

void emu_count_see(const void *pointer, size_t bytes, emu_access_kind kind, const void *pc) {
  emu_counter *c = counting;
  if (c == NULL) return;
  const uintptr_t address = (uintptr_t)pointer, in_arena = address - (uintptr_t)c->worker->arena;
  const emu_stack *own = emu_self->stack;
  if (address - (uintptr_t)own->bottom < (size_t)(own->top - own->bottom)) return; /* a local variable: no allocation to look for, under a lock */
  emu_touch touch = {.pc = pc, .address = address, .bytes = (uint32_t)bytes, .space = EMU_OTHER, .lane = emu_self->lane};
  touch.kind = emu_reads_memory(kind) ? EMU_READ : emu_writes_memory(kind) ? EMU_WRITE : EMU_ATOMIC;
  const emu_shadow *s = in_arena < EMU_ARENA ? NULL : shadow_of(c, address);
  if (in_arena < EMU_ARENA) {
    touch.space = EMU_SHARED;
    touch.address = in_arena;
  } else if (s != NULL) {
    touch.space = EMU_GLOBAL;
    if (touch.kind != EMU_WRITE) c->counts.asked_read += bytes, c->counts.distinct_read += new_bytes(c, s, address - s->start, bytes, false);
    if (touch.kind != EMU_READ) c->counts.asked_written += bytes, c->counts.distinct_written += new_bytes(c, s, address - s->start, bytes, true);
  } else if (address - (uintptr_t)__executable_start < (size_t)(_end - __executable_start)) {
    touch.space = EMU_CONSTANT;
  }
  if (c->worker->stepping && touch.space != EMU_OTHER) emu_step_log(c->worker, &touch);
}

void emu_count_global(const void *address, size_t bytes, bool writes) {
  emu_counter *c = counting;
  const emu_shadow *s = c != NULL ? shadow_of(c, (uintptr_t)address) : NULL;
  if (s == NULL) return;
  const uint64_t distinct = new_bytes(c, s, (uintptr_t)address - s->start, bytes, writes);
  if (writes) c->counts.asked_written += bytes, c->counts.distinct_written += distinct;
  else c->counts.asked_read += bytes, c->counts.distinct_read += distinct;
}

static void access_unseen(const void *address, size_t bytes, bool writes, const void *pc) { emu_count_see(address, bytes, writes ? EMU_WRITE : EMU_READ, pc); }

/* cp.async: a load of what it reads (nothing, where zeros take its place) and a store to shared memory. */
static void async_issue(const void *dst, const void *src, size_t bytes, size_t src_bytes, const void *pc) {
  if (src_bytes > 0) emu_count_see(src, src_bytes, EMU_READ, pc);
  emu_count_see(dst, bytes, EMU_WRITE, pc);
}

static void atomic_begin(const void *address, size_t bytes, const void *pc) {
  if (counting == NULL) return;
  emu_count_see(address, bytes, EMU_ATOMIC, pc);
  emu_step_pause(true);
  counting = NULL;
}

static void atomic_end(void) {
  if (current == NULL) return;
  counting = emu_this_worker->tool;
  emu_step_pause(false);
}

static void count_work(double flops, const char *name) {
  work = flops;
  snprintf(whose, sizeof whose, "%s", name ? name : "");
}

const emu_tool emu_counter_tool = {
    .name = "counter",
    .launch_begin = launch_begin,
    .launch_end = launch_end,
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .block_begin = block_begin,
    .block_end = block_end,
    .access = access_unseen,
    .atomic_begin = atomic_begin,
    .atomic_end = atomic_end,
    .make_ready = emu_step_make_ready,
    .take_ready = emu_step_take_ready,
    .allocated = emu_shadow_allocated,
    .freed = emu_shadow_freed,
    .variable = emu_shadow_variable,
    .mark_array = emu_arrays_mark,
    .count_work = count_work,
    .async_issue = async_issue,
    .bulk_issued = emu_count_bulk_issued,
    .bulk_global = emu_count_bulk_global,
    .store_issued = emu_count_store_issued,
    .mbarrier_passed = emu_count_mbarrier_passed,
    .wgmma_issued = emu_count_wgmma_issued,
    .mma_issued = emu_count_mma_issued,
    .kept = sizeof(uint8_t) + sizeof(emu_seen),
};
