/* What it saves and what it costs to compute several operations in one kernel, counted; and whether it pays. */
#pragma once
#include "common/harness/chain.h"
#include "common/harness/machine.h"

typedef struct fusion_account {
  double bytes_apart, bytes_fused; /* of main memory, read and written */
  double macs, again;              /* multiply-adds; and those that one kernel makes besides, of results that other tiles compute, too */
  double busy;                     /* the multiprocessors' share of the fused kernel's time in which they have a tile */
  double us_apart, us_fused;       /* predicted */
  bool pays;
  char reason[160];
} fusion_account;

/* Counts for one kernel in the place of one for each operation (of a chain of one: of the convolution and its epilogue), in fp16 on a GPU with these peaks.
 * facts: of that kernel.
 *
 * A kernel for one operation takes 3 us, and then what takes longer: its bytes at 0.95 of the memory's rate, or its products at 0.8 of the tensor cores'. These
 * three are the least mean error (11 %) over the 92 dense layers of docs/results/h200/dense-06.csv. One behind another has begun before that ends: 1.1 us, and up to
 * 1.2 more, the larger it is. What a kernel wrote is read by the next from the L2 cache, if it takes no more than half of it. Depthwise kernels come to 0.6 of the memory's rate
 * and leave an epilogue to a kernel of its own, which comes to 0.7; max-pooling to 0.9. A first layer makes pairs of its pixels first: 4 us.
 * A kernel for several operations takes 2.8 us, and its bytes, or what its block with most tiles takes (facts->us): each kernel says how long a tile's or a step's way
 * is. Those ways, and the figures for kernels behind others, were fitted to the rows of docs/results/h200/fusion-07.csv. */
void should_fuse(const conv_chain *chain, const chain_facts *facts, const conv_device *device, const machine_peaks *peaks, fusion_account *account);
