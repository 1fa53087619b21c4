/* Shadow of global memory. Every cudaMalloc has
 *
 *   state   a byte for each 4 bytes: which of them kernels may touch, which have been written
 *   seen    the block that wrote them last in this launch, and the block that read them, if it was one
 *   who     threads and program counters of those two, for the report
 *   plain   where the last to write was an atomic, the plain write before
 *
 * Blocks run on several workers at once, so all are read and written with relaxed atomics. Where two workers meet in one word, one
 * of the two notes may get lost: a defect can escape in that moment, but none is invented. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/emu/check/check.h"

static emu_shadow **shadows; /* in order of address */
static size_t count, room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the table ---- */

static size_t upper_bound(uintptr_t address) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (shadows[middle]->start <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

emu_shadow *emu_shadow_at(uintptr_t address) {
  pthread_mutex_lock(&lock);
  const size_t at = upper_bound(address);
  emu_shadow *s = at > 0 ? shadows[at - 1] : NULL;
  pthread_mutex_unlock(&lock);
  return s;
}

/* The allocation that begins or ends next to the address. */
static const emu_shadow *nearest(uintptr_t address) {
  pthread_mutex_lock(&lock);
  const size_t at = upper_bound(address);
  const emu_shadow *below = at > 0 ? shadows[at - 1] : NULL, *above = at < count ? shadows[at] : NULL;
  pthread_mutex_unlock(&lock);
  if (below == NULL || above == NULL) return below != NULL ? below : above;
  return address - (below->start + below->bytes) <= above->start - address ? below : above;
}

bool emu_shadow_allocated(void *start, size_t bytes, uint64_t serial, bool pinned) {
  emu_shadow *s = emu_take(1, sizeof *s, "the shadow of an allocation");
  *s = (emu_shadow){.start = (uintptr_t)start, .bytes = bytes, .serial = serial};
  if (!emu_pages_take(s)) {
    free(s);
    return false;
  }
  s->has_halves = emu_take(1, sizeof *s->has_halves, "the shadow of an allocation");
  s->plain = emu_take(1, sizeof *s->plain, "the shadow of an allocation");
  emu_shadow_set(s, 0, bytes, 0, pinned ? 0xFF : 0x0F); /* the host writes pinned memory unseen */
  pthread_mutex_lock(&lock);
  if (count == room) {
    room = room ? 2 * room : 64;
    shadows = emu_grow(shadows, room, sizeof *shadows, "the list of allocations");
  }
  const size_t at = upper_bound(s->start);
  memmove(&shadows[at + 1], &shadows[at], (count - at) * sizeof *shadows);
  shadows[at] = s;
  count++;
  pthread_mutex_unlock(&lock);
  return true;
}

void emu_shadow_freed(void *start) {
  emu_shadow *s = NULL;
  pthread_mutex_lock(&lock);
  const size_t at = upper_bound((uintptr_t)start);
  if (at > 0 && shadows[at - 1]->start == (uintptr_t)start) {
    s = shadows[at - 1];
    memmove(&shadows[at - 1], &shadows[at], (count - at) * sizeof *shadows);
    count--;
  }
  pthread_mutex_unlock(&lock);
  if (s == NULL) return;
  emu_arrays_forget(s);
  emu_pages_give(s);
  free(s->has_halves);
  if (*s->plain != NULL) munmap(*s->plain, emu_entries(s) * sizeof **s->plain);
  free(s->plain);
  free(s);
}

/* __device__ variables lie between these two, beside other parts of the program; they start as zeros, or with what their declaration says. */
static uintptr_t variables_start = UINTPTR_MAX, variables_end;

void emu_shadow_variable(void *start, size_t bytes, const char *name) {
  if (!emu_shadow_allocated(start, bytes, 0, true)) emu_no_memory(bytes, "the shadow of a __device__ variable");
  emu_arrays_mark(start, bytes, name);
  emu_shadow_copied(start, NULL, bytes);
  if ((uintptr_t)start < variables_start) variables_start = (uintptr_t)start;
  if ((uintptr_t)start + bytes > variables_end) variables_end = (uintptr_t)start + bytes;
}

static emu_shadow *variable_at(uintptr_t address) {
  if (address < variables_start || address >= variables_end) return NULL;
  emu_shadow *s = emu_shadow_at(address);
  return s != NULL && address - s->start < s->bytes ? s : NULL;
}

static uint32_t mark; /* of this launch */
static uint64_t oldest;

uint64_t emu_shadow_oldest(void) { return oldest; }

/* After EMU_SERIALS launches their marks repeat: what is left of the old ones has to go. Best when nobody wants to know of them any more. */
void emu_shadow_begin_launch(emu_launch *launch) {
  if (mark == EMU_SERIALS || (mark > EMU_SERIALS / 2 && launch->before.count == 0)) {
    for (size_t i = 0; i < count; i++) madvise(shadows[i]->seen, emu_entries(shadows[i]) * sizeof *shadows[i]->seen, MADV_DONTNEED);
    mark = 0;
    launch->before.count = launch->after.count = 0;
  }
  if (mark == 0) oldest = launch->serial;
  launch->mark = ++mark;
}

/* ---- what the host does ---- */

/* Bits of `clear` and `set`: the low 4 for "may be touched", the high 4 for "written"; each 0 or 0xF. */
void emu_shadow_set(emu_shadow *s, size_t offset, size_t bytes, uint8_t clear, uint8_t set) {
  for (const size_t end = offset + bytes; offset < end;) {
    uint8_t *state = &s->state[offset / 4];
    const size_t whole = offset % 4 == 0 ? (end - offset) / 4 : 0;
    for (size_t i = 0; i < whole; i++) state[i] = (uint8_t)((state[i] & ~clear) | set);
    offset += 4 * whole;
    if (whole > 0) continue;
    const uint8_t bit = (uint8_t)(0x11 << offset % 4);
    *state = (uint8_t)((*state & ~(clear & bit)) | (set & bit));
    offset++;
  }
}

/* Copies pass on what was written and what was not, where they can: device to device, at the same place within 4 bytes. */
void emu_shadow_copied(void *dst, const void *src, size_t bytes) {
  emu_shadow *to = emu_shadow_at((uintptr_t)dst), *from = src != NULL ? emu_shadow_at((uintptr_t)src) : NULL;
  const size_t offset = to != NULL ? (uintptr_t)dst - to->start : 0;
  if (to == NULL || offset >= to->bytes) return;
  const size_t source = from != NULL ? (uintptr_t)src - from->start : 0;
  emu_shadow_set(to, offset, bytes, 0, 0xF0);
  if (from == NULL || source >= from->bytes || (source ^ offset) % 4 != 0) return;
  for (size_t i = (4 - offset % 4) % 4; i + 4 <= bytes; i += 4)
    to->state[(offset + i) / 4] = (uint8_t)((to->state[(offset + i) / 4] & 0x0F) | (from->state[(source + i) / 4] & 0xF0));
}

/* ---- what kernels do ---- */

static bool within(uintptr_t address, size_t bytes, const void *start, size_t size) {
  return address - (uintptr_t)start < size && bytes <= size - (address - (uintptr_t)start);
}

extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;

/* What a kernel may touch besides device memory: its thread's local variables, its parameters, variables and constants of the program,
 * and what functions of our headers read of the emulator itself. */
static bool is_private(const emu_checker *c, uintptr_t address, size_t bytes) {
  const emu_stack *stack = emu_self->stack;
  const emu_call *call = &c->worker->launch->call;
  return within(address, bytes, stack->bottom, (size_t)(stack->top - stack->bottom)) || within(address, bytes, call->closure, call->closure_bytes) ||
         within(address, bytes, __executable_start, (size_t)(_end - __executable_start)) || within(address, bytes, c->worker, sizeof *c->worker) ||
         within(address, bytes, c->worker->threads, c->worker->room * sizeof *c->worker->threads) || within(address, bytes, &emu_self, sizeof emu_self) ||
         within(address, bytes, &blockDim, sizeof blockDim) || within(address, bytes, &gridDim, sizeof gridDim) ||
         within(address, bytes, &threadIdx, sizeof threadIdx) || within(address, bytes, &blockIdx, sizeof blockIdx);
}

enum { FIRST_PAGE = 4096 }; /* nothing lies there: an element of an array at NULL */

static void __attribute__((noreturn)) stop_outside(const emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc) {
  const char *const how = emu_reads_memory(kind) ? "read" : "write";
  if (emu_is_device_space(address)) {
    char place[200] = "device memory that nobody has allocated";
    const emu_shadow *s = nearest(address);
    if (s != NULL) emu_arrays_describe(s, address - s->start, place, sizeof place);
    EMU_CHECK_STOP(EMU_OUT_OF_BOUNDS, pc, NULL, "%s, %zu-byte %s", place, bytes, how);
  }
  for (int i = 0; i < c->worker->stack_count; i++) {
    const emu_stack *s = c->worker->stacks[i];
    if (within(address, bytes, s->bottom, (size_t)(s->top - s->bottom)))
      EMU_CHECK_STOP(EMU_NOT_DEVICE, pc, NULL, "local memory of another thread, byte 0x%zx, %zu-byte %s", (size_t)address, bytes, how);
  }
  if (address < FIRST_PAGE) EMU_CHECK_STOP(EMU_NOT_DEVICE, pc, NULL, "a pointer that is NULL, byte %zu, %zu-byte %s", (size_t)address, bytes, how);
  EMU_CHECK_STOP(EMU_NOT_DEVICE, pc, NULL, "host memory, byte 0x%zx, %zu-byte %s", (size_t)address, bytes, how);
}

static bool this_launch(const emu_checker *c, uint32_t word) { return word != 0 && (word ^ c->block) >> (EMU_BLOCK_BITS + 1) == 0; }
static uint32_t load(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static void store(uint32_t *p, uint32_t value) { __atomic_store_n(p, value, __ATOMIC_RELAXED); }

/* An access that the shadow remembers: block, program counter and thread, time of a write. */
typedef struct trace {
  emu_access_kind kind;
  uint32_t word, who, when;
} trace;

static void note_race(const emu_checker *c, const emu_shadow *s, size_t offset, const trace *t, const void *pc) {
  const uint32_t block = t->word & EMU_BLOCK_MASK;
  const bool several = block == EMU_SEVERAL, mine = block == (c->block & EMU_BLOCK_MASK);
  const emu_other other = {t->kind, emu_long_pc(t->who >> 10), several ? -1 : (int)(t->who & 1023), several ? -2 : mine ? -1 : (long long)block};
  char place[200];
  emu_arrays_describe(s, offset, place, sizeof place);
  emu_check_note(mine ? EMU_RACE : EMU_BLOCK_RACE, pc, &other, "%s", place);
}

/* Whether this block's write is one that the running thread comes after: its own, or one before a barrier that both passed. */
static bool after_own_block(const emu_checker *c, unsigned thread, uint32_t when) {
  return thread == emu_self->number || c->clock[emu_self->number / EMU_WARP][thread / EMU_WARP] >= when / 2;
}

/* What `plain` has there; NULL: nothing. */
static emu_plain *plain_at(const emu_shadow *s, size_t entry, bool make) {
  emu_plain *plain = __atomic_load_n(s->plain, __ATOMIC_ACQUIRE);
  if (plain == NULL && make) {
    const size_t bytes = emu_entries(s) * sizeof *plain;
    pthread_mutex_lock(&lock);
    plain = *s->plain != NULL ? *s->plain : emu_pages(bytes);
    if (plain == NULL) emu_no_memory(bytes, "what the checker keeps of writes before atomics");
    __atomic_store_n(s->plain, plain, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
  }
  return plain == NULL ? NULL : &plain[entry];
}

/* The write that an access must come after: the last one, or of several atomics that follow each other the plain one before them. */
static trace write_before(const emu_checker *c, const emu_shadow *s, size_t entry, emu_access_kind kind) {
  const emu_who *who = &s->who[entry];
  const uint32_t writer = load(&s->seen[entry].writer), atomic = writer & EMU_SEEN_ATOMIC;
  if (kind != EMU_ATOMIC || !atomic || !this_launch(c, writer)) return (trace){atomic ? EMU_ATOMIC : EMU_WRITE, writer, load(&who->writer), load(&who->when)};
  const emu_plain *plain = plain_at(s, entry, false);
  return plain == NULL ? (trace){.kind = EMU_WRITE} : (trace){EMU_WRITE, load(&plain->writer), load(&plain->who), load(&plain->when)};
}

/* Does another thread of this launch get in the way? If it did come by, and that before this access (for other blocks, and for the own one where
 * no barrier says so, see check_order.c), all is well. Of a read nobody knows when it was: it is taken to be before what its block published. */
static void look_for_race(emu_checker *c, const emu_shadow *s, size_t offset, size_t entry, emu_access_kind kind, const void *pc) {
  const trace write = write_before(c, s, entry, kind), read = {EMU_READ, load(&s->seen[entry].reader), load(&s->who[entry].reader), 0};
  const bool own_write = (write.word & ~EMU_SEEN_ATOMIC) == c->block;
  const bool after_write = this_launch(c, write.word) && !(own_write && after_own_block(c, write.who & 1023, write.when));
  const bool after_read = kind != EMU_READ && this_launch(c, read.word) && read.word != c->block;
  if ((!after_write && !after_read) || pc == c->race_pc) return;
  const bool unordered_write = after_write && !emu_order_knows(c, write.word & EMU_BLOCK_MASK, write.who & 1023, write.when);
  if (!unordered_write && !(after_read && !emu_order_knows(c, read.word & EMU_BLOCK_MASK, read.who & 1023, 0))) return;
  note_race(c, s, offset, unordered_write ? &write : &read, pc);
  if (!unordered_write || !own_write) c->race_pc = pc; /* one between blocks is enough; within one is another kind */
}

/* Notes that this block came by. */
static void note_visit(const emu_checker *c, const emu_shadow *s, size_t entry, emu_access_kind kind, const void *pc) {
  emu_seen *seen = &s->seen[entry];
  emu_who *seen_who = &s->who[entry];
  const uint32_t me = c->block, who = emu_short_pc(pc) << 10 | emu_self->number;
  if (kind == EMU_READ) {
    const uint32_t reader = load(&seen->reader);
    if (reader == me) return;
    store(&seen->reader, this_launch(c, reader) ? me | EMU_SEVERAL : me);
    store(&seen_who->reader, who);
    return;
  }
  uint32_t writer = load(&seen->writer);
  if (!this_launch(c, writer)) writer = 0;
  if (kind == EMU_ATOMIC && !(writer & EMU_SEEN_ATOMIC)) { /* the first one, perhaps after a plain write */
    emu_plain *plain = plain_at(s, entry, writer != 0);
    if (writer != 0) store(&plain->who, load(&seen_who->writer)), store(&plain->when, load(&seen_who->when));
    if (plain != NULL && load(&plain->writer) != writer) store(&plain->writer, writer);
  }
  const bool by_other = writer != 0 && (writer & ~EMU_SEEN_ATOMIC) != me;
  store(&seen->writer, kind != EMU_ATOMIC ? me : (by_other ? me | EMU_SEVERAL : me) | EMU_SEEN_ATOMIC);
  store(&seen_who->writer, who);
  store(&seen_who->when, emu_order_time(c, emu_self));
}

/* A group, or with 2 bytes one of its halves: two blocks may well write the two halves. What single bytes do is not looked at. */
static void meet_blocks(emu_checker *c, const emu_shadow *s, size_t offset, size_t bytes, emu_access_kind kind, const void *pc) {
  const size_t group = offset / 4, halves = emu_groups(s) + 2 * group, half = emu_groups(s) + offset / 2;
  if (bytes == 4) {
    look_for_race(c, s, offset, group, kind, pc);
    for (size_t i = 0; i < 2 && *s->has_halves; i++) look_for_race(c, s, offset, halves + i, kind, pc);
    note_visit(c, s, group, kind, pc);
  } else if (bytes == 2 && offset % 2 == 0) {
    if (!*s->has_halves) *s->has_halves = true; /* a word that all workers read */
    look_for_race(c, s, offset, group, kind, pc);
    look_for_race(c, s, offset, half, kind, pc);
    note_visit(c, s, half, kind, pc);
  }
}

/* Does a launch get in the way that may not have ended yet? */
static void watch(emu_checker *c, const emu_shadow *s, size_t offset, emu_access_kind kind, const void *pc) {
  const size_t group = offset / 4, halves = emu_groups(s) + 2 * group;
  emu_overlap_look(c, s, offset, group, kind, pc);
  for (size_t i = 0; i < 2 && *s->has_halves; i++) emu_overlap_look(c, s, offset, halves + i, kind, pc);
}

/* The part of an access that lies in one group of 4 bytes. */
static void touch(emu_checker *c, const emu_shadow *s, size_t offset, size_t bytes, emu_access_kind kind, const void *pc) {
  uint8_t *state = &s->state[offset / 4];
  const uint8_t mask = (uint8_t)(((1u << bytes) - 1) << offset % 4), now = __atomic_load_n(state, __ATOMIC_RELAXED);
  char place[200];
  if ((now & mask) != mask) {
    emu_arrays_describe(s, offset, place, sizeof place);
    EMU_CHECK_STOP(EMU_OUT_OF_BOUNDS, pc, NULL, "%s, %s", place, emu_reads_memory(kind) ? "read" : "write");
  }
  if (!emu_writes_memory(kind) && (now >> 4 & mask) != mask) {
    emu_arrays_describe(s, offset, place, sizeof place);
    emu_check_note(EMU_UNINITIALISED, pc, NULL, "%s", place);
  }
  if (!emu_reads_memory(kind)) __atomic_fetch_or(state, mask << 4, __ATOMIC_RELAXED);
  if (c->watching) watch(c, s, offset, kind, pc);
  if (kind <= EMU_ATOMIC) meet_blocks(c, s, offset, bytes, kind, pc);
}

void emu_check_global(emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc) {
  emu_shadow *cached = &c->cache[address >> 12 & (EMU_CACHED - 1)];
  if (address - cached->start >= cached->bytes) {
    if (emu_engines_see(c, address, bytes, kind, pc)) return;
    emu_shadow *found = variable_at(address);
    if (found == NULL && is_private(c, address, bytes)) return;
    if (found == NULL) found = emu_shadow_at(address);
    if (found == NULL || address - found->start >= found->bytes) stop_outside(c, address, bytes, kind, pc);
    if (!c->watching) *cached = *found;
    else cached = found;
  }
  size_t offset = address - cached->start;
  for (const size_t end = offset + bytes; offset < end;) {
    const size_t part = 4 - offset % 4 < end - offset ? 4 - offset % 4 : end - offset;
    touch(c, cached, offset, part, kind, pc);
    offset += part;
  }
}
