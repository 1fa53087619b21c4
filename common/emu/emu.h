/* The emulator: what a CUDA thread, warp and block are here, and what kernels call. C and C++.
 *
 * A launch runs its blocks one after another on each of a few OS threads (workers). A block's threads are fibers: each runs until it
 * waits (barrier, shuffle) or ends, then the next one runs. So between two waits a thread has its worker for itself.
 *
 * Environment: EMU_THREADS=n  workers (default: one per core)
 *              EMU_SMS=n      multiprocessors that the device says it has (default 8, on every machine)
 *              EMU_ARCH=n     compute capability of the GPU that is played (default 90): what is newer is refused
 *              EMU_SEED=n     shuffle the order of blocks, threads and wake-ups; one worker; the same n gives the same order
 *              EMU_STACK_KB=n stack of one CUDA thread (default 64)
 *              EMU_LATE=0|1   1: cp.async completes when it is waited for, not before (async.c); the check build's default
 * Anything else in them is refused (settings.c). The check build's are in check.h, the count build's in count_launch.c.
 *
 * In a debugger, stop in one thread of a kernel (here block (1,0,0), thread (5,0,0)) and look around:
 *   $ OMP_NUM_THREADS=1 EMU_THREADS=1 gdb --args PROGRAM ...
 *   (gdb) break 01_naive/a_naive.cu:30 if emu_at(1,0,0, 5,0,0)
 *   (gdb) run     then: backtrace, info locals, print threadIdx, print *emu_self->block */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "include/cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EMU_WARP = 32, EMU_BARRIERS = 16 };

typedef struct emu_thread emu_thread;
typedef struct emu_warp emu_warp;
typedef struct emu_block emu_block;
typedef struct emu_launch emu_launch;

/* A line of the user's source. */
typedef struct emu_site {
  const char *file;
  int line;
} emu_site;

typedef enum {
  EMU_IDLE,           /* not started yet, or exited */
  EMU_RUNNABLE,       /* running, or in its worker's ready queue */
  EMU_WAIT_BARRIER,   /* until enough threads of the block arrive */
  EMU_WAIT_WARP,      /* until the lanes of a mask arrive */
  EMU_WAIT_MBARRIER,  /* until a phase of an mbarrier is over */
  EMU_WAIT_WARPGROUP, /* until all 128 threads of the warpgroup arrive */
  EMU_WAIT_CLUSTER,   /* until all threads of the cluster arrive */
  EMU_WAIT_STORE      /* a store that reads as long as others have something to do */
} emu_state;

struct emu_thread {
  uint3 index;     /* its threadIdx */
  unsigned number; /* 0.. within the block */
  unsigned lane;   /* 0..31 within the warp */
  emu_block *block;
  emu_warp *warp;
  void *context; /* where it goes on when it runs again (fiber.h) */
  struct emu_stack *stack;
  emu_state state;
  /* while it waits: */
  int barrier;                    /* which of block->barriers */
  unsigned mask;                  /* lanes it waits for */
  uint32_t mbarrier, parity;      /* shared address; of the phase it waits for */
  uintptr_t busy_start, busy_end; /* in late mode: the sums of its wgmmas under way lie between these */
  int cluster_arrived;            /* at barrier.cluster, in the round under way */
  int cluster_waits;              /* has arrived, and not waited since */
  unsigned short passed;          /* bit by bit, barriers where it has arrived and gone on, in the round under way */
  const char *what;               /* "__syncthreads" */
  emu_site where;
};

/* Lanes that meet in a shuffle, vote or the like. */
typedef struct emu_meeting {
  unsigned mask; /* lanes that take part */
  unsigned arrived;
  void (*execute)(emu_warp *warp, unsigned lanes);
  const char *what;
  emu_site where; /* of the first to arrive */
} emu_meeting;

struct emu_warp {
  emu_thread *threads; /* its lanes, in order */
  unsigned exited;     /* lanes that ended or never existed */
  int meetings;        /* under way: lanes with different masks can be in different ones */
  emu_meeting meeting[EMU_WARP];
  void *operands[EMU_WARP]; /* what each waiting lane brought, on its own stack */
};

/* Barrier 0 is __syncthreads. */
typedef struct emu_barrier {
  unsigned arrived;
  unsigned expected; /* threads; 0: all that have not exited */
  unsigned passed;   /* how many of the arrived went on: bar.arrive */
  const char *what;
  emu_site where;                           /* of the first to arrive */
  int count, all, any;                      /* predicates so far */
  int result_count, result_all, result_any; /* of the round that ended last */
} emu_barrier;

struct emu_block {
  uint3 index;             /* its blockIdx */
  unsigned rank;           /* within its cluster */
  emu_block *team;         /* all blocks of the cluster, in order; they live together */
  unsigned team_size;      /* 1: no cluster */
  unsigned cluster_phases; /* of the cluster's first block: rounds of barrier.cluster that are over */
  unsigned cluster_arrived;
  int cluster_relaxed;         /* somebody in the round under way promises nothing about what was written before */
  unsigned short registers[8]; /* of a thread of each warpgroup, by setmaxnreg; 0: as launched */
  emu_launch *launch;
  emu_thread *threads; /* thread_count of them */
  emu_warp *warps;
  unsigned thread_count, alive;
  unsigned char *arena; /* its shared memory: the 32-bit shared address is the offset from here */
  emu_barrier barriers[EMU_BARRIERS];
};

/* The thread that runs on this OS thread; NULL in host code. */
extern __thread emu_thread *emu_self __attribute__((tls_model("initial-exec")));

/* 1 in the given thread of the given block: a breakpoint condition. */
int emu_at(unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz);

/* Shuffles the order of everything from now on; 0: back to the default order. Overrides EMU_SEED. */
void emu_set_seed(uint64_t seed);

/* One kernel launch: kernel<<<grid, block, shared_bytes, stream>>>(...) */
typedef struct emu_call {
  const void *function; /* the kernel */
  const char *name;     /* as written before <<< */
  emu_site where;
  dim3 grid, block;
  size_t shared_bytes; /* dynamic */
  cudaStream_t stream;
  void (*entry)(const void *closure); /* runs one thread: calls the kernel with the arguments in the closure */
  const void *closure;
  size_t closure_bytes;
  int early;    /* may begin before the kernel before it in its stream has ended: programmatic dependent launch */
  dim3 cluster; /* blocks of a cluster; 0 or 1: none */
} emu_call;

/* Runs the launch, or records it in the graph that its stream captures. Also leaves the error for cudaGetLastError. */
cudaError_t emu_launch_kernel(const emu_call *call);

/* What the attributes of cudaLaunchKernelEx ask for; cudaErrorNotSupported, and a line on stderr, for what the emulator cannot do. */
cudaError_t emu_read_attributes(const cudaLaunchConfig_t *config, int *early, dim3 *cluster);

/* A kernel's __launch_bounds__: launches with more threads fail. `text` has "kernel = " and its name. Returns true. */
int emu_set_bound(const void *function, unsigned threads, const char *text);

/* A __device__ variable, told when the program starts. Returns true. */
int emu_set_variable(void *start, size_t bytes, const char *name);

/* One __shared__ declaration; the rewriter makes a static one of each. */
typedef struct emu_shared_site {
  const char *name, *type; /* "tile", "float [16][17]" */
  emu_site where;
  size_t bytes; /* 0: extern, as many as the launch asks for */
  size_t align;
  uint64_t serial; /* launch that `offset` belongs to */
  size_t offset;   /* from the start of the arena */
} emu_shared_site;

/* Where the variable lies in the calling thread's block. */
void *emu_shared(emu_shared_site *site);

/* Waits at barrier `id` until `expected` threads of the block (0: all that have not exited) are there. The predicates' count, whether
 * all and whether any were true are in *emu_self->block's barrier after it. */
emu_barrier *emu_barrier_wait(int id, unsigned expected, int predicate, const char *what, const char *file, int line);

/* Arrives at barrier `id` without waiting. */
void emu_barrier_arrive(int id, unsigned expected, const char *what, const char *file, int line);

/* Meets the lanes of the mask. Each brings a pointer to its operands, and room for its result, on its own stack; the last to arrive
 * calls execute for all, with the pointers in warp->operands and the lanes that really came (exited ones do not). Then all go on. */
void emu_meet(unsigned mask, void *operands, void (*execute)(emu_warp *warp, unsigned lanes), const char *what, const char *file, int line);

/* Lets the other threads run first. */
void emu_yield(void);

/* __threadfence() */
void emu_fence(void);

/* griddepcontrol.wait and .launch_dependents: launches follow each other here, but the checker wants to know (check_overlap.c). */
void emu_dependency_wait(void);
void emu_launch_dependents(void);

/* What the emulator itself reads or writes for the running thread (a matrix load, say) and instrumentation cannot see: tell the checker
 * and the counter, before it happens. To act for another lane, set emu_self first. */
void emu_will_read(const void *address, size_t bytes);
void emu_will_write(const void *address, size_t bytes);

/* Around an atomic operation that takes several here: for checker and counter it is one access. */
void emu_atomic_begin(const void *address, size_t bytes);
void emu_atomic_end(void);

/* Warp functions on 64-bit values (warp.c); value widths are the caller's business. `how` of a shuffle: */
typedef enum { EMU_SHFL_INDEX, EMU_SHFL_UP, EMU_SHFL_DOWN, EMU_SHFL_XOR } emu_shuffle_kind;
uint64_t emu_shuffle(emu_shuffle_kind how, unsigned mask, uint64_t value, unsigned lane, int width, const char *file, int line);
typedef enum { EMU_ALL, EMU_ANY, EMU_BALLOT } emu_vote_kind;
unsigned emu_vote(emu_vote_kind how, unsigned mask, int predicate, const char *file, int line);
unsigned emu_match_any(unsigned mask, uint64_t value, const char *file, int line);
typedef enum { EMU_ADD, EMU_MIN, EMU_MAX, EMU_AND, EMU_OR, EMU_XOR } emu_reduce_kind;
int64_t emu_reduce(emu_reduce_kind how, unsigned mask, int64_t value, const char *file, int line);
void emu_syncwarp(unsigned mask, const char *file, int line);
unsigned emu_activemask(void);

/* mma.sync.m16n8k16 of halves with sums in fp32 (mma.c): d += a b, fragments as the PTX manual draws them. */
void emu_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], const char *file, int line);
void emu_mma_m16n8k8(float d[4], const unsigned a[2], unsigned b, const char *file, int line);

/* All 32 lanes meet, as WMMA's functions want it (include/mma.h); one that has exited is a failure. Orders no memory. */
void emu_meet_warp(const char *what, const char *file, int line);

/* cp.async (async.c): starts a copy of 4, 8 or 16 bytes to shared memory, of which the source gives src_bytes and the rest is zero; closes
 * a group; waits for all of the thread's groups but the last n (-1: for everything, committed or not). */
void emu_cp_async(void *dst_shared, const void *src, size_t bytes, size_t src_bytes);
void emu_cp_async_commit(void);
void emu_cp_async_wait(int n);
unsigned emu_cp_async_left(void);

/* Ends the launch with cudaErrorLaunchFailure and one line on stderr; called by a CUDA thread, does not return. */
__attribute__((noreturn, format(printf, 1, 2))) void emu_fail(const char *format, ...);
__attribute__((noreturn, format(printf, 1, 2))) void emu_illegal(const char *format, ...); /* what a GPU calls an illegal instruction */

/* cudaMemcpyTo/FromSymbol and cudaGetSymbolAddress, with the symbol's size. */
cudaError_t emu_symbol_copy(void *symbol, size_t symbol_bytes, void *data, size_t bytes, size_t offset, int to_symbol, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t emu_symbol_address(void **pointer, const void *symbol, size_t symbol_bytes);

#ifdef __cplusplus
}
#endif
