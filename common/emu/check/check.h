/* What the checker's files share. The checker watches every access that an instrumented kernel makes:
 *
 *   check_hooks.c   the functions that instrumented code calls, and what they do when all is well
 *   check_global.c  shadow of global memory: which bytes may be touched, which were written, which block came by; check_pages.c its memory
 *   check_shared.c  shadow of shared memory: who wrote, who read, and what barriers have ordered since
 *   check_arrays.c  arrays inside an allocation and their names
 *   check_order.c   order between the blocks of a launch, by fences and atomics
 *   check_engines.c copy engine and tensor cores: bulk copies, wgmma, the proxy fence
 *   check_mbarrier.c mbarriers: what who arrives knows, for who waits
 *   check_cluster.c blocks of a cluster in each other's shared memory
 *   check_overlap.c launches that begin before the one before them has ended
 *   check_bounds.c  an index beyond its array's size
 *   check_report.c  defects: collected during a launch, printed when it ends */
#pragma once
#include "common/emu/tool/tool.h"

/* Environment: EMU_ADDR2LINE=program   finds source lines instead of addr2line
 *
 * What it cannot see: races in global memory on single bytes, and between threads of one block where one reads first and another then writes, or
 * where others have read before; a missing __syncwarp after one of only some lanes; copies that the compiler makes with memcpy; an index too large for a
 * __constant__ array behind a pointer. */

/* ---- defects ---- */

typedef enum { EMU_OUT_OF_BOUNDS, EMU_UNINITIALISED, EMU_RACE, EMU_BLOCK_RACE, EMU_NOT_DEVICE, EMU_MISALIGNED, EMU_EARLY, EMU_PROXY } emu_defect_kind;

/* Who else took part in a race. */
typedef struct emu_other {
  int access;      /* emu_access_kind; EMU_WAITED */
  const void *pc;  /* NULL: unknown */
  int thread;      /* index within its block; -1: unknown; EMU_COPY ...: an engine */
  long long block; /* -1: the same block; -2: several blocks; EMU_EARLIER */
} emu_other;

enum { EMU_COPY = -2, EMU_TENSOR_CORES = -3, EMU_STORE = -4, EMU_VISITOR = -5 }; /* in place of a thread */
enum { EMU_EARLIER = -3 };                                                       /* in place of a block: an earlier launch */
enum { EMU_WAITED = EMU_VOLATILE_WRITE + 1 };                                    /* in place of an access: for an mbarrier's phase */

/* Notes a defect of the running thread. `array` says where: name and byte. Printed at the end of the launch. */
void emu_check_note(emu_defect_kind kind, const void *pc, const emu_other *other, const char *array, ...) __attribute__((format(printf, 4, 5)));
void emu_check_barrier_left(emu_block *block, emu_site where);
void emu_check_print(emu_launch *launch); /* all that were noted; the launch fails if there were any */

/* Notes it and drops the block: the access itself would fault, or spoil memory. */
#define EMU_CHECK_STOP(...)      \
  do {                           \
    emu_check_note(__VA_ARGS__); \
    emu_abandon_block();         \
  } while (0)

/* Program counters as 32-bit offsets. */
extern const char __executable_start[], _end[];
static inline uint32_t emu_short_pc(const void *pc) { return (uint32_t)((const char *)pc - __executable_start); }
static inline const void *emu_long_pc(uint32_t pc) { return pc == 0 ? NULL : __executable_start + pc; }

/* ---- global memory ---- */

enum { EMU_BLOCK_BITS = 24, EMU_SERIALS = 127 };
#define EMU_BLOCK_MASK ((1u << EMU_BLOCK_BITS) - 1)
#define EMU_SEVERAL EMU_BLOCK_MASK             /* in place of a block: more than one */
#define EMU_SEEN_ATOMIC (1u << EMU_BLOCK_BITS) /* the access was atomic */

/* Who came by at 4 bytes of global memory: 7 bits launch, 1 bit atomic, 24 bits block. 0: nobody. Words of earlier launches are stale. */
typedef struct emu_seen {
  uint32_t writer, reader;
} emu_seen;

/* For the report: 22 bits program counter, 10 bits thread, of the accesses in emu_seen. And when the write was: see check_order.c. */
typedef struct emu_who {
  uint32_t writer, reader, when;
} emu_who;

/* Where `seen` tells of atomics, the same of the last plain write before them, if that was in this launch (else writer is 0): atomics do not race
 * with each other, but each may with that one. */
typedef struct emu_plain {
  uint32_t writer, who, when;
} emu_plain;

typedef struct emu_shadow {
  uintptr_t start;
  size_t bytes;
  uint8_t *state;    /* of each 4 bytes: low 4 bits which may be touched, high 4 bits which have been written */
  emu_seen *seen;    /* of each 4 bytes, by accesses of 4 bytes or more; behind them: of each 2 bytes, by accesses of 2 */
  emu_who *who;      /* the same */
  bool *has_halves;  /* somebody made an access of 2 bytes */
  emu_plain **plain; /* as who; NULL until an atomic follows a plain write */
  uint64_t serial;   /* "allocation 3" */
  bool marked;       /* it has named arrays, and the rest is out of bounds */
} emu_shadow;

/* 4-byte groups, and four more that nobody may touch: a 16-byte access at the end looks there. */
static inline size_t emu_groups(const emu_shadow *s) { return (s->bytes + 3) / 4 + 4; }

/* Entries of `seen` and `who`: one for each group, two for its halves. */
static inline size_t emu_entries(const emu_shadow *s) { return 3 * emu_groups(s); }

/* check_pages.c: memory for the shadow of so many bytes (false: there is none), and back. Of `who` only what `seen` has something for means anything. */
bool emu_pages_take(emu_shadow *s);
void emu_pages_give(const emu_shadow *s);

emu_shadow *emu_shadow_at(uintptr_t address);                                       /* the last that starts at or before it; NULL if there is none */
void emu_shadow_begin_launch(emu_launch *launch);                                   /* gives it its mark */
uint64_t emu_shadow_oldest(void);                                                   /* serial of the first launch whose mark has not been given again */
bool emu_shadow_allocated(void *start, size_t bytes, uint64_t serial, bool pinned); /* false: no memory */
void emu_shadow_variable(void *start, size_t bytes, const char *name);
void emu_shadow_freed(void *start);
void emu_shadow_copied(void *dst, const void *src, size_t bytes);
void emu_shadow_set(emu_shadow *s, size_t offset, size_t bytes, uint8_t clear, uint8_t set); /* nibbles 0 or 0xF for allowed, written */

/* check_arrays.c */
void emu_arrays_mark(const void *start, size_t bytes, const char *name);
void emu_arrays_unmark(const void *start, size_t bytes); /* its contents count as unwritten */
bool emu_arrays_leave(const void *start, size_t bytes, char *text, size_t room);
void emu_arrays_forget(const emu_shadow *s);
void emu_arrays_describe(const emu_shadow *s, size_t offset, char *text, size_t room); /* "x, byte 12" */

/* ---- shared memory ---- */

enum { EMU_CELLS = EMU_ARENA / 4, EMU_WARPS = EMU_MAX_THREADS / EMU_WARP };

/* 4 bytes of shared memory; or, where some access was smaller, one. */
typedef struct emu_cell {
  uint32_t stamp; /* the block it is about; else all of it is stale: nobody has written or read */
  uint32_t write_clock, write_pc;
  uint32_t readers;      /* warps that have read it since it was written */
  uint16_t engines;      /* the same of tensor cores and of stores: see below */
  uint16_t fences;       /* of the thread that wrote it, up to then: fence.proxy.async */
  uint16_t write_thread; /* or EMU_WARP times an engine's number */
  bool written;
  bool atomic : 1, split : 1;
  bool pending : 1; /* a copy into it is under way */
  bool visited : 1; /* another block of the cluster has read it */
} emu_cell;

/* Of a cell that atomics have changed, the write before the first of them: atomics do not race with each other, but each may with that one. */
typedef struct emu_before {
  uint32_t clock, pc;
  uint16_t thread;
} emu_before;

/* One warp's reads of a cell, or an engine's. */
typedef struct emu_reads {
  uint32_t clock, lanes, pc;
  uint16_t lane, fences; /* of a warp: the last to read, and its fences up to then */
} emu_reads;

/* Who else than warps has a clock (check_engines.c): each mbarrier, for the copies that report to it; each warp's part of
 * a wgmma; a warpgroup's bulk stores; each other block of the cluster. And of each warp, up to where a fence.proxy.async lies between. */
enum {
  EMU_MBARRIERS = 64,
  EMU_WARPGROUPS = EMU_MAX_THREADS / 128,
  EMU_OF_MBARRIER = EMU_WARPS,
  EMU_OF_TENSOR = EMU_OF_MBARRIER + EMU_MBARRIERS,
  EMU_OF_STORE = EMU_OF_TENSOR + EMU_WARPS,
  EMU_OF_VISITOR = EMU_OF_STORE + EMU_WARPGROUPS,
  EMU_OF_FENCED = EMU_OF_VISITOR + EMU_MAX_CLUSTER,
  EMU_AGENTS = EMU_OF_FENCED + EMU_WARPS
};

/* An mbarrier: what those who arrive in this phase know of each block of the cluster, and what those who wait for the last one learn. */
typedef struct emu_phases {
  uint32_t offset, over; /* phases that are over */
  uint16_t thread;       /* that made it */
  bool fenced, told;     /* by that thread, for the cluster; and all blocks have met since, if only by a relaxed barrier */
  bool copies;           /* report to it: then not arrivals alone end a phase */
  uint32_t arrived[EMU_MAX_CLUSTER][EMU_AGENTS], knows[EMU_MAX_CLUSTER][EMU_AGENTS];
  uint32_t before[EMU_MAX_CLUSTER][EMU_WARPS]; /* when the warps of each block had arrived for all phases but the last that is over */
  struct {
    uint32_t over; /* then */
    uint16_t thread;
    emu_site where;
  } waited[2]; /* the last who waited for each of the last two phases, by `over` */
} emu_phases;

/* ---- order between blocks ---- */

/* A thread's last fences, newest first: in which epoch of its warp, and up to which time its own writes are published (see check_order.c). */
enum { EMU_FENCES = 4 };
typedef struct emu_fences {
  uint32_t stamp; /* the block they are of */
  int count;
  struct {
    uint32_t epoch, upto;
  } last[EMU_FENCES];
} emu_fences;

/* ---- a worker ---- */

enum { EMU_CACHED = 16, EMU_PROXY_FENCES = 16 };

typedef struct emu_checker {
  emu_worker *worker;
  uintptr_t arena;
  const uint8_t *shared_allowed;                                      /* of each 4 bytes of the arena: which may be touched, this launch */
  uint32_t stamp;                                                     /* of its block */
  uint32_t block;                                                     /* its block's word in emu_seen */
  bool fenced;                                                        /* the block has run __threadfence */
  emu_cell *cells;                                                    /* one for each 4 bytes, then one for each byte */
  emu_before *before;                                                 /* the same */
  emu_reads *reads[EMU_WARPS + 2 * EMU_WARPGROUPS + EMU_MAX_CLUSTER]; /* the same for each warp; then of tensor cores, of stores, of visitors */
  /* clock[a][b]: up to where warp a has seen what warp or engine b did. Its own time is clock[a][a] + 1: what its lanes did since they last met. */
  uint32_t clock[EMU_WARPS][EMU_AGENTS];
  bool engines;                                            /* this block has used one: what follows means something */
  uint16_t fences_of[EMU_MAX_THREADS];                     /* fence.proxy.async, of each thread */
  uint32_t fence_times[EMU_MAX_THREADS][EMU_PROXY_FENCES]; /* of the last of them, by number: the warp's time */
  uint32_t brought[EMU_BARRIERS][EMU_AGENTS];              /* to a barrier by warps that did not wait there: what they knew */
  emu_phases mbarrier[EMU_MBARRIERS];
  int mbarriers;
  uint32_t stores[EMU_WARPGROUPS];
  unsigned rank, team_size;                     /* in its cluster */
  uint32_t (*of_others)[EMU_WARPS][EMU_AGENTS]; /* of each other block of the cluster: what this one's warps know of it */
  uint32_t visits[EMU_MAX_CLUSTER];             /* time of each other block's accesses here */
  emu_shadow cache[EMU_CACHED];                 /* copies, found by address bits 12 to 15 */

  /* check_order.c: published[a][b], once the block has fenced: up to where what warp b did is published, as far as warp a knows. */
  uint32_t published[EMU_WARPS][EMU_WARPS];
  emu_fences fences[EMU_MAX_THREADS];
  struct emu_party *party;      /* the block, if it takes part in order between blocks */
  const void *atomic, *race_pc; /* the address of the atomic under way; of a race that was reported */

  /* check_overlap.c: while `watching`, accesses to global memory are all looked at, and the cache is empty. */
  bool watching, early_trigger;
  unsigned waits;
  struct {
    uint32_t lanes, clock; /* of a warp that waited: which lanes, and its time when the first did */
  } waited[EMU_WARPS];
} emu_checker;

/* The cell of a byte: that of its 4 bytes, or if they are split its own. */
static inline bool emu_is_split(const emu_checker *c, size_t group) { return c->cells[group].split && c->cells[group].stamp == c->stamp; }
static inline size_t emu_cell_at(const emu_checker *c, size_t offset) { return emu_is_split(c, offset / 4) ? EMU_CELLS + offset : offset / 4; }

/* check_order.c */
void emu_order_fence(void);
void emu_order_release(emu_checker *c, const void *address);                          /* before an atomic */
void emu_order_acquire(emu_checker *c, const void *address, bool always);             /* after it; always: of whatever is released there, now or later */
bool emu_order_knows(emu_checker *c, uint32_t block, unsigned thread, uint32_t when); /* of that write, or of one of EMU_SEVERAL's */
void emu_order_meet(emu_checker *c, uint32_t warps, int count);
void emu_order_cluster(emu_checker *const *blocks, unsigned count, unsigned threads); /* all their threads have met */
void emu_order_end_launch(void);
static inline uint32_t emu_order_time(const emu_checker *c, const emu_thread *t) {
  const unsigned w = t->number / EMU_WARP;
  const uint32_t epoch = c->clock[w][w] + 1;
  const emu_fences *f = &c->fences[t->number];
  return 2 * epoch + (c->fenced && f->stamp == c->stamp && f->last[0].epoch == epoch);
}

/* check_overlap.c */
void emu_overlap_begin_launch(emu_launch *launch);
void emu_overlap_end_launch(emu_launch *launch);
void emu_overlap_begin_block(emu_checker *c);
void emu_overlap_end_block(emu_worker *w);
void emu_overlap_wait(void);
void emu_overlap_trigger(void);
void emu_overlap_look(emu_checker *c, const emu_shadow *s, size_t offset, size_t entry, emu_access_kind kind, const void *pc);

extern __thread emu_checker *emu_checking __attribute__((tls_model("initial-exec"))); /* NULL in host code and outside of launches */

/* The access in full, any size and place: finds out what is wrong with it, or that nothing is. */
void emu_check_global(emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc);
void emu_check_shared(emu_checker *c, size_t offset, size_t bytes, emu_access_kind kind, const void *pc);
void emu_shared_begin_check(emu_launch *launch);
void emu_shared_allow(emu_launch *launch, const emu_shared_site *site);
void emu_checker_create(emu_worker *w);
void emu_checker_begin_block(emu_worker *w);
void emu_checker_barrier(emu_block *block, int id, unsigned expected);
void emu_checker_barrier_arrive(emu_thread *t, int id);
void emu_checker_warp_sync(emu_warp *warp, unsigned lanes);
void emu_shared_split(emu_checker *c, size_t group); /* from now on, in this block, the 4 bytes are looked at one by one */
void emu_shared_set_written(emu_checker *c, size_t offset, size_t bytes, bool written);
void emu_shared_describe_at(const emu_checker *c, size_t offset, char *text, size_t room);

/* A line as a program counter, for accesses that wrappers make (check_report.c). */
const void *emu_site_pc(emu_site where);

/* Of each clock the later: several at a time, as every wait does it. */
static inline void emu_learn(uint32_t *know, const uint32_t *from) {
#pragma omp simd
  for (int i = 0; i < EMU_AGENTS; i++) know[i] = from[i] > know[i] ? from[i] : know[i];
}

/* check_engines.c */
void emu_engines_begin_block(emu_checker *c);
void emu_engines_meet(emu_checker *c, uint32_t warps, int count);
bool emu_engines_readers_done(const emu_checker *c, const emu_cell *cell, size_t index, const uint32_t *known, emu_other *other);
int emu_writer(const emu_cell *cell); /* as emu_other has it */
void emu_engines_bulk_issued(emu_block *block, uint32_t shared, uint32_t bytes, uint32_t mbarrier, bool engine, emu_site where);
void emu_engines_bulk_arrived(emu_block *block, uint32_t shared, uint32_t bytes, uint32_t mbarrier, emu_site where);
void emu_engines_bulk_global(const void *address, size_t bytes, emu_access_kind kind, emu_site where);
void emu_engines_store_issued(uint32_t shared, uint32_t bytes, emu_site where, unsigned *number);
void emu_engines_store_reads(uint32_t shared, uint32_t bytes, bool kept, unsigned number, emu_site where);
void emu_engines_bulk_sent(emu_thread *t, unsigned number, emu_block *to, uint32_t mbarrier);
void emu_engines_store_waited(emu_thread *t, unsigned number);
void emu_engines_wgmma_issued(const struct emu_wgmma_record *what, unsigned group, emu_site where);
void emu_engines_wgmma_waited(emu_block *block, unsigned warpgroup, unsigned done);
void emu_engines_proxy_fence(emu_thread *t);
bool emu_engines_see(emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc); /* theirs: looked at, nothing else to do */
void emu_engines_switch(emu_worker *w);
emu_checker *emu_checker_of(const emu_block *block);

/* check_mbarrier.c */
emu_phases *emu_phases_at(emu_checker *c, uint32_t offset); /* NULL: there is none */
void emu_engines_mbarrier_init(emu_block *block, uint32_t offset, emu_site where);
void emu_engines_mbarrier_fence(emu_thread *t);
void emu_engines_mbarriers_told(emu_checker *c); /* the cluster has met: what was fenced is there for all */
bool emu_engines_mbarrier_is_told(const emu_checker *c, uint32_t offset);
void emu_engines_mbarrier_arrive(emu_thread *t, emu_block *block, uint32_t offset, emu_site where);
void emu_engines_mbarrier_copies(emu_checker *c, uint32_t offset); /* one that reports to it was issued */
void emu_engines_mbarrier_phase(emu_block *block, uint32_t offset);
void emu_engines_mbarrier_passed(emu_thread *t, uint32_t offset, emu_site where);

/* check_cluster.c */
void emu_cluster_begin_block(emu_checker *c, unsigned rank, unsigned team_size);
void emu_cluster_meet(emu_checker *c, uint32_t warps, int count);
void emu_cluster_barrier(emu_block *team, bool relaxed);
bool emu_cluster_access(emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc); /* false: it is nowhere in the cluster */
void emu_check_mbarrier(emu_checker *c, const emu_block *block, uint32_t offset, const char *what, const void *pc);
/* What warp w of c's block knows of a block of the cluster. */
static inline uint32_t *emu_known(emu_checker *c, unsigned rank, unsigned w) { return rank == c->rank ? c->clock[w] : c->of_others[rank][w]; }
