/* What the runtime tells a tool that watches kernels: the checker (check*.c) or the counter (count*.c).
 *
 * A program has at most one. Which one is decided by how its kernels were compiled: instrumented kernels call functions that live in a
 * tool's files, so the linker takes those files out of the library, and a constructor in them sets emu_tool. In the run build nothing
 * calls them, none is linked and emu_tool stays NULL. */
#pragma once
#include "common/emu/run/internal.h"

struct emu_wgmma_record;

/* Volatile accesses are how kernels wait for flags of other blocks: in global memory they do not race. */
typedef enum { EMU_READ, EMU_WRITE, EMU_ATOMIC, EMU_VOLATILE_READ, EMU_VOLATILE_WRITE } emu_access_kind;
static inline bool emu_reads_memory(emu_access_kind kind) { return kind == EMU_READ || kind == EMU_VOLATILE_READ; }
static inline bool emu_writes_memory(emu_access_kind kind) { return kind == EMU_WRITE || kind == EMU_VOLATILE_WRITE; }

typedef struct emu_tool {
  const char *name;

  /* A launch, on the thread that launches, before its first block and after its last. The end may report a failure. */
  void (*launch_begin)(emu_launch *launch);
  void (*launch_end)(emu_launch *launch);

  /* On the worker: before its first block of a launch; after its last; before each block. */
  void (*worker_begin)(emu_worker *w);
  void (*worker_end)(emu_worker *w);
  void (*block_begin)(emu_worker *w);
  void (*block_end)(emu_worker *w);    /* all threads have ended, or were dropped */
  void (*block_switch)(emu_worker *w); /* in a cluster: a thread of another block goes on, w->block */

  /* Threads have met: everything each of them did before is visible to all of them from now on. */
  void (*barrier)(emu_block *block, int id, unsigned expected); /* the threads that wait at it, or all of the block if expected is 0 */
  void (*barrier_left)(emu_block *block, emu_site where);       /* they met at __syncthreads() without threads of the block that had ended */
  void (*barrier_arrive)(emu_thread *t, int id);                /* bar.arrive */
  void (*warp_sync)(emu_warp *warp, unsigned lanes);
  void (*fence)(void); /* the running thread orders its accesses for other blocks */
  void (*thread_exit)(emu_thread *t);
  void (*dependency_wait)(void); /* the running thread runs griddepcontrol.wait, .launch_dependents */
  void (*launch_dependents)(void);

  /* An access of the running thread that no instrumentation sees. */
  void (*access)(const void *address, size_t bytes, bool writes, const void *pc);

  /* An atomic operation that here takes several: one access to see, and what follows until the end is not to be seen. */
  void (*atomic_begin)(const void *address, size_t bytes, const void *pc);
  void (*atomic_end)(void);

  /* A warp has multiplied by mma.sync or WMMA: so many multiply-adds. */
  void (*mma_issued)(unsigned products, emu_site where);

  /* While w->stepping: t can go on; which of them goes on now? */
  void (*make_ready)(emu_worker *w, emu_thread *t);
  emu_thread *(*take_ready)(emu_worker *w);

  /* A __shared__ declaration got its place in this launch; the launch's lock is held. */
  void (*shared_placed)(emu_launch *launch, const emu_shared_site *site);

  /* Memory that kernels may use comes (false: the tool has none for what it keeps of it) and goes; the host copies into it (src NULL: fills it). */
  bool (*allocated)(void *start, size_t bytes, uint64_t serial, bool pinned);
  void (*freed)(void *start);
  void (*copied)(void *dst, const void *src, size_t bytes);
  bool (*leaves_array)(const void *start, size_t bytes, char *text,
                       size_t room); /* begins in a marked array and ends behind it; then text says which, and where */
  void (*mark_array)(const void *start, size_t bytes, const char *name);
  void (*variable)(void *start, size_t bytes, const char *name); /* a __device__ variable, before the first launch */
  void (*mark_uninitialised)(const void *start, size_t bytes);
  void (*count_work)(double flops, const char *whose);

  /* cp.async in late mode: issued (dst holds poison), then done (the bytes are there). */
  void (*async_issue)(const void *dst, const void *src, size_t bytes, size_t src_bytes, const void *pc);
  void (*async_done)(const void *dst, size_t bytes, const void *pc);

  /* Hopper (check_engines.c, check_mbarrier.c). mbarriers of a block; a bulk copy into a block's shared memory, when it is issued (then it holds poison) and has arrived; what
   * it touches in global memory; a store from shared memory, issued and waited for; a wgmma that all threads of a warpgroup have issued, as one of a group;
   * how many groups of a warpgroup are done. */
  void (*mbarrier_init)(emu_block *block, uint32_t offset, emu_site where);
  void (*mbarrier_arrive)(emu_thread *t, emu_block *block, uint32_t offset, emu_site where);
  void (*mbarrier_phase)(emu_block *block, uint32_t offset);
  void (*mbarrier_passed)(emu_thread *t, uint32_t offset, emu_site where);
  void (*bulk_issued)(emu_block *block, uint32_t shared, uint32_t bytes, uint32_t mbarrier, bool engine, emu_site where);
  void (*bulk_arrived)(emu_block *block, uint32_t shared, uint32_t bytes, uint32_t mbarrier, emu_site where);
  void (*bulk_global)(const void *address, size_t bytes, emu_access_kind kind, emu_site where);     /* EMU_ATOMIC: it adds */
  void (*store_issued)(uint32_t shared, uint32_t bytes, emu_site where, unsigned *number);          /* its number, for the next two */
  void (*store_reads)(uint32_t shared, uint32_t bytes, bool kept, unsigned number, emu_site where); /* kept: it is not dropped, outside of the tensor */
  void (*bulk_sent)(emu_thread *t, unsigned number, emu_block *to, uint32_t mbarrier);              /* from block to block: the source has been read */
  void (*store_waited)(emu_thread *t, unsigned number);                                             /* for its stores up to this one */
  void (*wgmma_issued)(const struct emu_wgmma_record *what, unsigned group, emu_site where);
  void (*wgmma_waited)(emu_block *block, unsigned warpgroup, unsigned done);
  void (*proxy_fence)(emu_thread *t);
  void (*mbarrier_fence)(emu_thread *t); /* fence.mbarrier_init */
  void (*cluster_barrier)(emu_block *team, bool relaxed);

  unsigned kept, kept_of_halves; /* bytes that it keeps of every 4 of memory that kernels use; that many more where they access 2 */

  bool late;           /* cp.async completes when it is waited for, unless EMU_LATE=0 says otherwise */
  void (*dying)(void); /* a fault in a kernel is about to end the process */
} emu_tool;

extern const emu_tool *emu_the_tool;

/* Calls a function of the tool, if there is a tool and it has the function. */
#define EMU_TELL(function, ...)                                                                      \
  do {                                                                                               \
    if (emu_the_tool != NULL && emu_the_tool->function != NULL) emu_the_tool->function(__VA_ARGS__); \
  } while (0)
