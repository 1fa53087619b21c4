/* The functions that instrumented kernels call: gcc's -fsanitize=thread puts a call of one of them in front of every access to memory.
 * We use the compiler's half of that sanitizer only; its own runtime is never linked.
 *
 * Nearly every call finds nothing to report: a word of global memory that everybody only reads, or that this block alone writes; a word of shared
 * memory whose other users came before a barrier; a local variable. That is decided, and noted, here in a few instructions; all else goes to
 * check_global.c and check_shared.c. */
#include <stdio.h>

#include "common/emu/check/check.h"
#include "common/emu/check/hooks.h"

__thread emu_checker *emu_checking;
void (*emu_count_access)(const void *address, size_t bytes, emu_access_kind kind, const void *pc);

static inline uint32_t load(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline void store(uint32_t *p, uint32_t value) { __atomic_store_n(p, value, __ATOMIC_RELAXED); }
static inline bool earlier_launch(const emu_checker *c, uint32_t word) { return (word ^ c->block) >> (EMU_BLOCK_BITS + 1) != 0; }

/* Nobody has written there in this launch, and if this is a write, no other block has read there. */
static inline bool quiet(const emu_checker *c, const emu_seen *seen, emu_access_kind kind) {
  const uint32_t reader = load(&seen->reader);
  return earlier_launch(c, load(&seen->writer)) && (kind == EMU_READ || reader == c->block || earlier_launch(c, reader));
}

/* A read or write of 4 bytes of global memory, or of 2, that may be, and that nobody gets in the way of: notes it. Other cases are for check_global.c. */
static inline __attribute__((always_inline)) bool global_in_order(const emu_checker *c, const emu_shadow *s, size_t offset, size_t bytes, emu_access_kind kind,
                                                                  const void *pc) {
  const size_t group = offset / 4, halves = emu_groups(s) + 2 * group, entry = bytes == 4 ? group : emu_groups(s) + offset / 2;
  const uint32_t me = c->block, reader = load(&s->seen[entry].reader), who = emu_short_pc(pc) << 10 | emu_self->number;
  const uint8_t may = (uint8_t)(bytes == 4 ? 0x0F : 3 << offset % 4), written = (uint8_t)(may << 4), wanted = kind == EMU_READ ? may | written : may;
  const uint8_t state = __atomic_load_n(&s->state[group], __ATOMIC_RELAXED);
  if ((state & wanted) != wanted) return false;
  const bool again = kind == EMU_READ && (reader == me || reader == (me | EMU_SEVERAL));
  if (again && bytes == 4 && load(&s->seen[group].writer) == me) return true;
  if (!quiet(c, &s->seen[group], kind)) return false;
  if (bytes == 2 && (!*s->has_halves || !quiet(c, &s->seen[entry], kind))) return false;
  if (again) return true;
  if (bytes == 4 && *s->has_halves && !(quiet(c, &s->seen[halves], kind) && quiet(c, &s->seen[halves + 1], kind))) return false;
  if (kind == EMU_READ) {
    store(&s->seen[entry].reader, earlier_launch(c, reader) ? me : me | EMU_SEVERAL);
    store(&s->who[entry].reader, who);
  } else {
    if ((state & written) != written) __atomic_fetch_or(&s->state[group], written, __ATOMIC_RELAXED);
    store(&s->seen[entry].writer, me);
    store(&s->who[entry].writer, who);
    store(&s->who[entry].when, emu_order_time(c, emu_self));
  }
  return true;
}

/* The running thread, for accesses to shared memory. */
typedef struct visitor {
  const uint32_t *known; /* its warp's row of the clocks */
  uint32_t now, lane;    /* its warp's time; its bit among the warp's lanes */
  unsigned thread, warp;
  uint32_t stamp, pc;
  uint16_t fences;
} visitor;

/* One word of shared memory that was written in this block, before everything this thread does now: notes a read of it. Other cases are
 * for check_shared.c. */
static inline __attribute__((always_inline)) bool read_in_order(emu_cell *cell, emu_reads *reads, const visitor *v) {
  if (cell->stamp != v->stamp || !cell->written || cell->split) return false;
  if (cell->write_clock > v->known[cell->write_thread / EMU_WARP] && cell->write_thread != v->thread) return false;
  if (cell->readers >> v->warp & 1 && reads->clock == v->now) {
    reads->lanes |= v->lane;
    reads->lane = v->thread % EMU_WARP;
    reads->fences = v->fences;
    return true;
  }
  *reads = (emu_reads){v->now, v->lane, v->pc, v->thread % EMU_WARP, v->fences};
  cell->readers |= 1u << v->warp;
  return true;
}

/* Whether all who have read the word did so before. */
static inline bool readers_done(emu_checker *c, const emu_cell *cell, size_t group, const visitor *v) {
  for (uint32_t left = cell->readers; left != 0; left &= left - 1) {
    const unsigned r = (unsigned)__builtin_ctz(left);
    const emu_reads *reads = &c->reads[r][group];
    if (reads->clock > v->known[r] && (r != v->warp || reads->lanes != v->lane)) return false;
  }
  emu_other other;
  return (cell->engines == 0 && !cell->visited) || emu_engines_readers_done(c, cell, group, v->known, &other);
}

/* A word of shared memory that this thread may write, as all who wrote or read it did so before: notes the write. */
static inline __attribute__((always_inline)) bool write_in_order(emu_checker *c, emu_cell *cell, size_t group, const visitor *v) {
  if (c->shared_allowed[group] != 0x0F) return false;
  if (cell->stamp == v->stamp) {
    if (cell->split || cell->pending || (cell->write_clock > v->known[cell->write_thread / EMU_WARP] && cell->write_thread != v->thread)) return false;
    if (!readers_done(c, cell, group, v)) return false;
  }
  *cell = (emu_cell){.stamp = v->stamp, .write_clock = v->now, .write_pc = v->pc, .fences = v->fences, .write_thread = (uint16_t)v->thread, .written = true};
  return true;
}

static inline __attribute__((always_inline)) bool shared_in_order(emu_checker *c, size_t offset, size_t bytes, emu_access_kind kind, const void *pc) {
  const unsigned thread = emu_self->number, warp = thread / EMU_WARP;
  const visitor v = {c->clock[warp], c->clock[warp][warp] + 1, 1u << thread % EMU_WARP, thread, warp, c->stamp, emu_short_pc(pc), c->fences_of[thread]};
  emu_cell *cell = &c->cells[offset / 4];
  emu_reads *reads = &c->reads[warp][offset / 4];
  for (size_t i = 0; i < bytes / 4; i++)
    if (!(kind == EMU_READ ? read_in_order(&cell[i], &reads[i], &v) : write_in_order(c, &cell[i], offset / 4 + i, &v))) return false;
  return bytes >= 4;
}

/* And not among the sums of a wgmma under way. */
static inline bool on_own_stack(uintptr_t address, size_t bytes) {
  if (__builtin_expect(address < emu_self->busy_end, 0) && address + bytes > emu_self->busy_start) return false;
  const emu_stack *s = emu_self->stack;
  const size_t room = (size_t)(s->top - s->bottom), offset = address - (uintptr_t)s->bottom;
  return offset < room && bytes <= room - offset;
}

/* A plain read or write, of 2 bytes or a multiple of 4, in which there is nothing to report. */
static inline __attribute__((always_inline)) bool in_order(emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc) {
  if (address - c->arena < EMU_ARENA) return shared_in_order(c, address - c->arena, bytes, kind, pc);
  const emu_shadow *s = &c->cache[address >> 12 & (EMU_CACHED - 1)];
  const size_t offset = address - s->start, part = bytes < 4 ? bytes : 4;
  if (offset >= s->bytes) return on_own_stack(address, bytes);
  if (bytes < 2 || offset % part != 0) return false;
  for (size_t i = 0; i < bytes; i += part)
    if (!global_in_order(c, s, offset + i, part, kind, pc)) return false;
  return true;
}

static __attribute__((noinline, cold)) void stop_misaligned(const emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc) {
  char where[96];
  const emu_shadow *s = emu_shadow_at(address);
  if (address - c->arena < EMU_ARENA) snprintf(where, sizeof where, "shared memory, byte %zu", (size_t)(address - c->arena));
  else if (s != NULL && address - s->start < s->bytes) emu_arrays_describe(s, address - s->start, where, sizeof where);
  else snprintf(where, sizeof where, "address 0x%zx", (size_t)address);
  EMU_CHECK_STOP(EMU_MISALIGNED, pc, NULL, "%s: no multiple of %zu, as a %zu-byte %s needs", where, bytes, bytes, emu_reads_memory(kind) ? "read" : "write");
}

static inline __attribute__((always_inline)) void look(const void *pointer, size_t bytes, emu_access_kind kind, const void *pc) {
  emu_checker *c = emu_checking;
  if (c == NULL) {
    if (emu_count_access != NULL) emu_count_access(pointer, bytes, kind, pc);
    return;
  }
  const uintptr_t address = (uintptr_t)pointer;
  if (address % bytes != 0) stop_misaligned(c, address, bytes, kind, pc);
  if (in_order(c, address, bytes, kind, pc)) return;
  if (address - c->arena < EMU_ARENA) emu_check_shared(c, address - c->arena, bytes, kind, pc);
  else emu_check_global(c, address, bytes, kind, pc);
}

void emu_hook_access(const void *address, size_t bytes, emu_access_kind kind, const void *pc) {
  emu_checker *c = emu_checking;
  if (c == NULL) {
    if (emu_count_access != NULL) emu_count_access(address, bytes, kind, pc);
    return;
  }
  const size_t offset = (uintptr_t)address - c->arena;
  const bool words = (kind == EMU_READ || kind == EMU_WRITE) && bytes % 4 == 0 && (uintptr_t)address % 4 == 0;
  if (words && in_order(c, (uintptr_t)address, bytes, kind, pc)) return;
  if (offset < EMU_ARENA) {
    emu_check_shared(c, offset, bytes, kind, pc);
    return;
  }
  emu_check_global(c, (uintptr_t)address, bytes, kind, pc);
  if (kind == EMU_ATOMIC || kind == EMU_VOLATILE_WRITE) emu_order_release(c, address);
  else if (kind == EMU_VOLATILE_READ) emu_order_acquire(c, address, true); /* the read itself comes later, and with it what it sees */
}

void emu_hook_atomic_done(const void *address) {
  emu_checker *c = emu_checking;
  if (c != NULL && (uintptr_t)address - c->arena >= EMU_ARENA) emu_order_acquire(c, address, false);
}

#define HERE __builtin_return_address(0)
#define HOOKS(n)                                                                                      \
  void __tsan_read##n(void *p) { look(p, n, EMU_READ, HERE); }                                        \
  void __tsan_write##n(void *p) { look(p, n, EMU_WRITE, HERE); }                                      \
  void __tsan_volatile_read##n(void *p) { emu_hook_access(p, n, EMU_VOLATILE_READ, HERE); }           \
  void __tsan_volatile_write##n(void *p) { emu_hook_access(p, n, EMU_VOLATILE_WRITE, HERE); }         \
  void __tsan_unaligned_read##n(void *p) { emu_hook_access(p, n, EMU_READ, HERE); }                   \
  void __tsan_unaligned_write##n(void *p) { emu_hook_access(p, n, EMU_WRITE, HERE); }                 \
  void __tsan_unaligned_volatile_read##n(void *p) { emu_hook_access(p, n, EMU_VOLATILE_READ, HERE); } \
  void __tsan_unaligned_volatile_write##n(void *p) { emu_hook_access(p, n, EMU_VOLATILE_WRITE, HERE); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

/* Structs of other sizes, or less aligned than 8 bytes, copied whole. A compiler for GPUs takes them apart, and so they are counted: into 4 bytes (2, 1) up to 16, as
 * these would be one access if they were aligned; else into the largest pieces that the address allows, for of the type no more is known here. */
static void look_in_pieces(char *p, unsigned long bytes, emu_access_kind kind, const void *pc) {
  unsigned long size = emu_checking != NULL ? bytes : bytes > 16 ? 16 : 4;
  while (emu_checking == NULL && size > 1 && (bytes % size != 0 || (uintptr_t)p % size != 0)) size /= 2;
  for (unsigned long i = 0; i < bytes; i += size) emu_hook_access(p + i, size, kind, pc);
}
void __tsan_read_range(void *p, unsigned long bytes) { look_in_pieces(p, bytes, EMU_READ, HERE); }
void __tsan_write_range(void *p, unsigned long bytes) { look_in_pieces(p, bytes, EMU_WRITE, HERE); }

/* Nothing to do here, but compilers call them. */
void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void *p, void *value) { (void)p, (void)value; }
void __tsan_vptr_read(void *p) { (void)p; }

/* ---- the tool ---- */

static void worker_begin(emu_worker *w) {
  if (w->tool == NULL) emu_checker_create(w);
  emu_checker *c = w->tool;
  c->arena = (uintptr_t)w->arena;
  for (int i = 0; i < EMU_CACHED; i++) c->cache[i] = (emu_shadow){.start = 0}; /* allocations have come and gone */
  c->race_pc = NULL;
  emu_checking = c;
}

static void worker_end(emu_worker *w) {
  (void)w;
  emu_checking = NULL;
}

static void launch_begin(emu_launch *launch) {
  emu_overlap_begin_launch(launch);
  emu_shadow_begin_launch(launch);
  emu_shared_begin_check(launch);
}

static void launch_end(emu_launch *launch) {
  emu_overlap_end_launch(launch);
  emu_order_end_launch();
  emu_check_print(launch);
}

static void async_issue(const void *dst, const void *src, size_t bytes, size_t src_bytes, const void *pc) {
  emu_checker *c = emu_checking;
  if (src_bytes > 0) emu_hook_access(src, src_bytes, EMU_READ, pc);
  emu_hook_access(dst, bytes, EMU_WRITE, pc);
  emu_shared_set_written(c, (uintptr_t)dst - c->arena, bytes, false);
}

static void async_done(const void *dst, size_t bytes, const void *pc) { emu_hook_access(dst, bytes, EMU_WRITE, pc); }

static void access_unseen(const void *address, size_t bytes, bool writes, const void *pc) {
  emu_hook_access(address, bytes, writes ? EMU_WRITE : EMU_READ, pc);
}

static void atomic_begin(const void *address, size_t bytes, const void *pc) {
  emu_hook_access(address, bytes, EMU_ATOMIC, pc);
  emu_checking->atomic = address;
  emu_checking = NULL;
}
static void atomic_end(void) {
  emu_checking = emu_this_worker->tool;
  emu_hook_atomic_done(emu_checking->atomic);
}

static void dying(void) { emu_check_print(emu_self->block->launch); }

static const emu_tool checker = {
    .name = "checker",
    .launch_begin = launch_begin,
    .launch_end = launch_end,
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .block_begin = emu_checker_begin_block,
    .block_switch = emu_engines_switch,
    .barrier = emu_checker_barrier,
    .barrier_left = emu_check_barrier_left,
    .barrier_arrive = emu_checker_barrier_arrive,
    .warp_sync = emu_checker_warp_sync,
    .block_end = emu_overlap_end_block,
    .fence = emu_order_fence,
    .dependency_wait = emu_overlap_wait,
    .launch_dependents = emu_overlap_trigger,
    .access = access_unseen,
    .atomic_begin = atomic_begin,
    .atomic_end = atomic_end,
    .shared_placed = emu_shared_allow,
    .allocated = emu_shadow_allocated,
    .variable = emu_shadow_variable,
    .freed = emu_shadow_freed,
    .copied = emu_shadow_copied,
    .mark_array = emu_arrays_mark,
    .leaves_array = emu_arrays_leave,
    .mark_uninitialised = emu_arrays_unmark,
    .mbarrier_init = emu_engines_mbarrier_init,
    .mbarrier_arrive = emu_engines_mbarrier_arrive,
    .mbarrier_phase = emu_engines_mbarrier_phase,
    .mbarrier_passed = emu_engines_mbarrier_passed,
    .bulk_issued = emu_engines_bulk_issued,
    .bulk_arrived = emu_engines_bulk_arrived,
    .bulk_global = emu_engines_bulk_global,
    .store_issued = emu_engines_store_issued,
    .store_reads = emu_engines_store_reads,
    .store_waited = emu_engines_store_waited,
    .wgmma_issued = emu_engines_wgmma_issued,
    .wgmma_waited = emu_engines_wgmma_waited,
    .proxy_fence = emu_engines_proxy_fence,
    .bulk_sent = emu_engines_bulk_sent,
    .mbarrier_fence = emu_engines_mbarrier_fence,
    .cluster_barrier = emu_cluster_barrier,
    .async_issue = async_issue,
    .async_done = async_done,
    .dying = dying,
    .kept = sizeof(uint8_t) + sizeof(emu_seen) + sizeof(emu_who),
    .kept_of_halves = 2 * (sizeof(emu_seen) + sizeof(emu_who)),
    .late = true,
};

/* The counter, if it is linked too, goes before. */
static __attribute__((constructor)) void install(void) {
  if (emu_the_tool == NULL) emu_the_tool = &checker;
}
