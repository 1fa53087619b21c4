/* What the emulator's own files share. Kernels and harness see emu.h only. */
#pragma once
#include <pthread.h>
#include <stdbool.h>

#include "common/emu/emu.h"

enum {
  EMU_MAX_THREADS = 1024, /* per block */
  EMU_MAX_WORKERS = 256,
  EMU_MAX_CLUSTER = 16,          /* blocks */
  EMU_MAX_SITES = 64,            /* __shared__ declarations in one launch */
  EMU_DEFAULT_SHARED = 48 << 10, /* bytes per block without asking */
  EMU_MAX_SHARED = 227 << 10,    /* bytes per block after cudaFuncSetAttribute */
  EMU_RESERVED_SHARED = 1 << 10, /* the hardware keeps the first kilobyte for itself, so nobody's address is 0 */
  EMU_RED_ZONE = 32,             /* bytes behind each shared array that nobody may write */
  EMU_ARENA = 256 << 10,         /* a wgmma descriptor has 18 bits of address */
  EMU_POISON = 0xFF              /* four of these bytes are a NaN, two are a NaN in half precision */
};

/* A kernel that was launched or given an attribute. */
typedef struct emu_kernel {
  struct emu_kernel *next;
  const void *function;
  char *name;                /* NULL before the first launch */
  size_t static_shared;      /* bytes declared in the last launch */
  size_t max_dynamic_shared; /* cudaFuncSetAttribute */
  bool large_clusters;       /* cudaFuncAttributeNonPortableClusterSizeAllowed: up to 16 blocks */
  unsigned bound;            /* threads of a block, by its __launch_bounds__; 0: it has none */
  const char *bound_text;    /* then: has its name behind "kernel = " */
} emu_kernel;

/* Launches of a stream that may still be at work; newest first. By their marks in the checker's shadow (check_overlap.c). */
enum { EMU_OVERLAPPING = 8 };
typedef struct emu_flight {
  int count;
  uint32_t mark[EMU_OVERLAPPING];
} emu_flight;

/* The last kernel of a stream, if the next one may begin before it has ended; else all 0. */
typedef struct emu_past {
  uint64_t serial;
  uint32_t mark;
  bool waited;              /* it has run griddepcontrol.wait, so before it ended, those it waited for had */
  bool late;                /* its dependents cannot begin before that */
  emu_flight before, after; /* what could be at work beside it: before its wait, after */
} emu_past;

struct emu_launch {
  emu_call call;
  emu_kernel *kernel;
  uint64_t serial;          /* counts launches; never 0 */
  uint32_t mark;            /* the same, as the checker's shadow knows it */
  emu_past *past;           /* of its stream; the checker replaces it when the launch ends */
  emu_flight before, after; /* what may be at work beside it: before griddepcontrol.wait, after */
  int waited, late;         /* atomic; as in emu_past */
  unsigned threads_per_block;
  unsigned team_size;               /* blocks that live together: a cluster */
  uint64_t block_count;             /* of teams */
  uint64_t next_block;              /* atomic: the next to run */
  uint64_t block_step, block_start; /* block order: (start + i * step) mod count */
  int failed;                       /* atomic: somebody reported a failure; no more blocks are started */
  cudaError_t error;
  pthread_mutex_t lock; /* of what follows */
  size_t shared_used;   /* end of the last shared array, an offset into the arena */
  size_t static_shared; /* bytes declared, red zones left out */
  emu_shared_site *sites[EMU_MAX_SITES];
  int site_count;
};

typedef struct emu_stack {
  struct emu_stack *next_free;
  unsigned char *bottom, *top;
  bool guarded; /* a page below the bottom faults; else a canary is at the bottom */
} emu_stack;

/* Asynchronous copies under way, oldest first (bulk.c). */
typedef struct emu_jobs {
  struct emu_job **of;
  unsigned count, room;
} emu_jobs;

/* An OS thread that runs blocks, and the blocks that live together on it: a cluster, or one. */
typedef struct emu_worker {
  emu_launch *launch;
  void *home;       /* context of the loop over blocks */
  emu_block *block; /* of the thread that runs, one of: */
  emu_block team[EMU_MAX_CLUSTER];
  unsigned team_size, total, alive; /* blocks; threads of all of them; those that have not exited */
  unsigned room;                    /* threads that there is memory for */
  emu_thread *threads;              /* of all blocks, each begins with a warp of its own */
  emu_warp *warps;
  unsigned short *order; /* threads in the order of their start */
  unsigned started;
  emu_thread **ready; /* a ring: those that can go on, in order */
  unsigned ready_first, ready_count;
  unsigned lingering; /* threads that wait for a store */
  emu_jobs loads, stores;
  emu_stack *free_stacks, **stacks;
  emu_stack *starting; /* of the fiber that is about to run for the first time */
  int stack_count;
  unsigned arenas;      /* of the blocks' shared memory have been poisoned */
  unsigned char *arena; /* EMU_ARENA bytes for each block of a cluster, one after the other */
  uint64_t random;      /* state of the order's generator; 0: default order */
  void *tool;           /* what the tool keeps for it (tool.h) */
  bool yielded;         /* a thread has let others go first */
  bool stepping;        /* the tool decides which thread goes on: lanes in lockstep */
} emu_worker;

extern __thread emu_worker *emu_this_worker __attribute__((tls_model("initial-exec")));

/* run.c */
void emu_run_blocks(emu_worker *w, emu_launch *launch); /* until none is left */
void emu_make_ready(emu_thread *t);
void emu_wait(emu_thread *t);                                  /* runs others until somebody makes t ready */
void emu_hand_over(emu_thread *t, emu_thread *next);           /* to one that the tool has chosen; t can go on, as it knows */
void emu_linger(const char *what, const char *file, int line); /* with a seed, every fourth time: until nobody else can go on */
__attribute__((noreturn)) void emu_abandon_block(void);        /* drops all threads of the block */
void emu_barrier_exit(emu_block *b);                           /* a thread has exited: who waited for it? */
void emu_warp_exit(emu_warp *w);
uint64_t emu_random(uint64_t *state); /* a step of splitmix64 */

/* cluster.c */
void emu_cluster_exit(emu_block *b); /* a thread has exited: who waited for it? */

/* async.c */
bool emu_late(void);                                         /* asynchronous work is done when it is waited for, not before */
bool emu_cp_async_is_open(unsigned thread, const void *dst); /* a copy of that thread to there is under way, and in no group yet */

/* bulk.c */
bool emu_bulk_progress(emu_worker *w);  /* lets a copy under way arrive; false: there is none */
void emu_bulk_end_block(emu_worker *w); /* of w->block: whatever it still has under way ends */

/* settings.c: what a variable of the environment says; if there is none, `otherwise`. */
typedef enum emu_setting_name {
  EMU_SET_ARCH,
  EMU_SET_COUNT_BLOCKS,   /* all: UINT64_MAX */
  EMU_SET_COUNT_LAUNCHES, /* those that are alike, too */
  EMU_SET_LATE,
  EMU_SET_SEED,
  EMU_SET_SMS,
  EMU_SET_STACK_KB,
  EMU_SET_THREADS
} emu_setting_name;
uint64_t emu_setting(emu_setting_name which, uint64_t otherwise);

/* pool.c */
uint64_t emu_seed(void);
void emu_pool_run(emu_launch *launch); /* on all workers; returns when all blocks are done */

/* launch.c */
cudaError_t emu_run_call(const emu_call *call, emu_past *past); /* runs now */
emu_kernel *emu_kernel_of(const void *function, const char *name);

/* shared.c */
void emu_shared_begin_launch(emu_launch *launch);
unsigned char *emu_arena_create(void);   /* for EMU_MAX_CLUSTER blocks; the first one's is poisoned */
void emu_arena_end_block(emu_worker *w); /* of w->block: checks red zones, poisons again */

/* stack.c */
emu_stack *emu_stack_take(emu_worker *w);
void emu_stack_give(emu_worker *w, emu_stack *s);
void emu_stack_reclaim_all(emu_worker *w); /* after a block was abandoned */
bool emu_stack_intact(const emu_stack *s); /* of one that is not guarded */
bool emu_stack_guards(const emu_worker *w, const void *address);
size_t emu_stack_bytes(void);

/* report.c */
bool emu_report_begin(emu_launch *launch, cudaError_t error, const char *format, ...) __attribute__((format(printf, 3, 4)));
void emu_report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void emu_report_deadlock(emu_worker *w);
void emu_catch_signals(void); /* on this OS thread */

/* device.c */
int emu_arch(void); /* 90: the compute capability that is played */

/* errors.c */
/* Memory for the emulator itself; where there is none, a line that says how much and what for, and the program's end with exit status 2. */
__attribute__((noreturn)) void emu_no_memory(size_t bytes, const char *what);
void *emu_take(size_t count, size_t size, const char *what);            /* zeros */
void *emu_grow(void *old, size_t count, size_t size, const char *what); /* as realloc */
void *emu_pages(size_t bytes);                                          /* of zeros that cost nothing until somebody touches them; NULL: none left */
cudaError_t emu_error(cudaError_t error);                               /* notes it for cudaGetLastError; returns it */
void emu_set_sticky(cudaError_t error);
cudaError_t emu_sticky(void); /* cudaSuccess if all is well */

/* graph.c: work that a stream enqueues runs at once, or becomes a node of the graph it captures. */
typedef struct emu_work {
  enum cudaGraphNodeType type;
  emu_call call; /* kernel; its closure is copied when recorded */
  void *dst;     /* memcpy, memset */
  const void *src;
  int value;
  size_t bytes;
} emu_work;
cudaError_t emu_enqueue(cudaStream_t stream, const emu_work *work);
bool emu_any_capture(void);
bool emu_capture_forbids_memory(void); /* to come or go: a stream captures; its graph is spoiled then */

/* memory.c */
bool emu_is_device(const void *pointer, size_t bytes); /* lies within an allocation, pinned memory or a known symbol */
bool emu_is_device_space(uintptr_t address);           /* with a tool: only device memory can be here */
void emu_free_all(void);
void emu_name_allocation(const void *start, const char *name); /* in reports: an array begins there */
void emu_tell_variables(void);                                 /* those that the tool has not been told of */

#define EMU_TRY(call)                                            \
  do {                                                           \
    const cudaError_t emu_error_ = (call);                       \
    if (emu_error_ != cudaSuccess) return emu_error(emu_error_); \
  } while (0)
