/* A kernel that computes several operations of a graph in one launch: what lies between them never leaves the chip. */
#pragma once
#include "common/harness/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CHAIN_OPERATIONS = 4 };

/* Operations in their order, each reading as x what the one before it writes. */
typedef struct conv_chain {
  int count;
  conv_operation operation[CHAIN_OPERATIONS];
  bool residual_is_x; /* the last one's residual is what the first one reads */
} conv_chain;

/* What a launch takes, and what it computes in vain: for those who count (07_fusion/should_fuse.h). */
typedef struct chain_facts {
  const void *function;
  int blocks, threads, shared; /* shared: dynamic bytes of a block */
  int tiles;                   /* that the blocks divide among themselves */
  double again;                /* multiply-adds of results that some other tile computes, too */
  double us;                   /* what the block with most tiles takes, if memory does not decide: fitted to times on the GPU that plans are fitted to */
} chain_facts;

typedef struct chain_kernel {
  const char *name; /* "07d" */
  const char *idea; /* one line for the reader */
  int count;        /* of operations */
  conv_dtype dtype;
  conv_layout layout;
  int min_arch; /* lowest compute capability times ten */

  /* As conv_kernel's. Of the plan `operation` stays empty: what launch() needs of the problems the kernel keeps in `data`. */
  const char *(*plan)(const conv_chain *chain, const conv_device *device, conv_plan *plan);
  cudaError_t (*launch)(const conv_plan *plan, const conv_buffers *each,
                        cudaStream_t stream); /* each: every operation's; y of all but the last is not written */

  void (*facts)(const conv_chain *chain, const conv_plan *plan, chain_facts *facts);

  /* g of operation `index`, as conv_kernel's; what lies between is rounded to the graph's type. */
  double (*growth)(const conv_chain *chain, int index, bool random);
} chain_kernel;

#ifdef __cplusplus
}
#endif
