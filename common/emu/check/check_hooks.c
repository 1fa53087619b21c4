/* The functions that instrumented kernels call: gcc's -fsanitize=thread puts a call of one of them in front of every access to memory.
 * We use the compiler's half of that sanitizer only; its own runtime is never linked.
 *
 * Nearly every call finds nothing new: a read of a global word that everybody only reads, or that this block has read before. That is
 * decided here in a few instructions; all else goes to check_global.c and check_shared.c. */
#include <stdio.h>

#include "common/emu/check/check.h"
#include "common/emu/check/hooks.h"

__thread emu_checker *emu_checking;
void (*emu_count_access)(const void *address, size_t bytes, emu_access_kind kind, const void *pc);

/* A read of 4 bytes of global memory: allowed, written, this block is in the list of those that read it, and nobody else has written it. */
static inline bool nothing_new(const emu_checker *c, const emu_shadow *s, size_t group) {
  const uint32_t me = c->block;
  const uint32_t writer = __atomic_load_n(&s->seen[group].writer, __ATOMIC_RELAXED), reader = __atomic_load_n(&s->seen[group].reader, __ATOMIC_RELAXED);
  if (__atomic_load_n(&s->state[group], __ATOMIC_RELAXED) != 0xFF) return false;
  return (reader == me || reader == (me | EMU_SEVERAL)) && (writer == me || (writer ^ me) >> (EMU_BLOCK_BITS + 1) != 0);
}

/* One word of shared memory that was written in this block, before everything this thread does now: notes a read of it. Other cases are
 * for check_shared.c. */
static inline bool read_in_order(emu_checker *c, size_t group, const void *pc) {
  emu_cell *cell = &c->cells[group];
  const emu_thread *t = emu_self;
  const unsigned me = t->number / EMU_WARP;
  if (cell->stamp != c->stamp || !cell->written || cell->split) return false;
  if (cell->write_clock > c->clock[me][cell->write_thread / EMU_WARP] && cell->write_thread != t->number) return false;
  emu_reads *reads = &c->reads[me][group];
  const uint32_t clock = c->clock[me][me] + 1, lane = 1u << t->lane;
  if (cell->readers >> me & 1 && reads->clock == clock) {
    reads->lanes |= lane;
    return true;
  }
  *reads = (emu_reads){clock, lane, emu_short_pc(pc)};
  cell->readers |= 1u << me;
  return true;
}

static __attribute__((noinline, cold)) void stop_misaligned(const emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc) {
  char where[96];
  const emu_shadow *s = emu_shadow_at(address);
  if (address - c->arena < EMU_ARENA)
    snprintf(where, sizeof where, "shared memory, byte %zu", (size_t)(address - c->arena));
  else if (s != NULL && address - s->start < s->bytes)
    emu_arrays_describe(s, address - s->start, where, sizeof where);
  else
    snprintf(where, sizeof where, "address 0x%zx", (size_t)address);
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
  if (address - c->arena < EMU_ARENA) {
    if (bytes == 4 && kind == EMU_READ && read_in_order(c, (address - c->arena) / 4, pc)) return;
    emu_check_shared(c, address - c->arena, bytes, kind, pc);
    return;
  }
  const emu_shadow *s = &c->cache[address >> 12 & (EMU_CACHED - 1)];
  const size_t offset = address - s->start;
  if (kind == EMU_READ && bytes >= 4 && offset < s->bytes) {
    bool fine = true;
    for (size_t i = 0; i < bytes / 4; i++) fine &= nothing_new(c, s, offset / 4 + i);
    if (fine) return;
  }
  emu_check_global(c, address, bytes, kind, pc);
}

void emu_hook_access(const void *address, size_t bytes, emu_access_kind kind, const void *pc) {
  emu_checker *c = emu_checking;
  if (c == NULL) {
    if (emu_count_access != NULL) emu_count_access(address, bytes, kind, pc);
    return;
  }
  const size_t offset = (uintptr_t)address - c->arena;
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
#define HOOKS(n)                                                                              \
  void __tsan_read##n(void *p) { look(p, n, EMU_READ, HERE); }                                \
  void __tsan_write##n(void *p) { look(p, n, EMU_WRITE, HERE); }                              \
  void __tsan_volatile_read##n(void *p) { emu_hook_access(p, n, EMU_VOLATILE_READ, HERE); }   \
  void __tsan_volatile_write##n(void *p) { emu_hook_access(p, n, EMU_VOLATILE_WRITE, HERE); } \
  void __tsan_unaligned_read##n(void *p) { emu_hook_access(p, n, EMU_READ, HERE); }           \
  void __tsan_unaligned_write##n(void *p) { emu_hook_access(p, n, EMU_WRITE, HERE); }         \
  void __tsan_unaligned_volatile_read##n(void *p) { emu_hook_access(p, n, EMU_VOLATILE_READ, HERE); } \
  void __tsan_unaligned_volatile_write##n(void *p) { emu_hook_access(p, n, EMU_VOLATILE_WRITE, HERE); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

/* Structs of other sizes, copied whole. */
void __tsan_read_range(void *p, unsigned long bytes) { emu_hook_access(p, bytes, EMU_READ, HERE); }
void __tsan_write_range(void *p, unsigned long bytes) { emu_hook_access(p, bytes, EMU_WRITE, HERE); }

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
    .barrier = emu_checker_barrier,
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
    .mark_uninitialised = emu_arrays_unmark,
    .async_issue = async_issue,
    .async_done = async_done,
    .dying = dying,
    .late = true,
};

/* The counter, if it is linked too, goes before. */
static __attribute__((constructor)) void install(void) {
  if (emu_the_tool == NULL) emu_the_tool = &checker;
}
