/* A probe is a small kernel that does one thing to the machine, and how its speed is called. `make calibrate` times a list of them. */
#pragma once
#include "common/harness/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the kernels work on, in device memory. */
typedef struct workbench {
  const conv_device *device;
  int warps_per_sm;      /* that one multiprocessor (SM) can hold */
  unsigned char *source; /* random bits, never written again */
  unsigned char *target; /* for whoever needs it: copies, lists, tiles */
  unsigned char *result; /* what a kernel reports, so that its work cannot be left out */
  size_t bytes;          /* of source, and of target: many times the L2 cache, a multiple of a MiB */
} workbench;
enum { RESULT_BYTES = 64 << 20 };

typedef struct probe probe;
struct probe {
  const char *name;   /* of the figure */
  char parameter[24]; /* "stride=8", or "" */
  const char *unit;   /* GB/s, TFLOP/s: work in a time. ns: the time of one step. us: of one launch */
  double work;        /* of one launch: bytes, FLOPs or dependent steps */
  size_t bytes;       /* of source (and of target) that one launch goes over; 0: it does not depend on main memory */
  int number;         /* the parameter; more for the launch: */
  int rounds;
  bool sustained;  /* measured after two seconds of the same */
  bool one_by_one; /* launched without a graph */

  /* Before the first launch: puts the data that the kernel needs into target. May be NULL. */
  cudaError_t (*prepare)(const probe *p, const workbench *w);
  /* One launch. Launches of different sets touch different parts of main memory. */
  cudaError_t (*launch)(const probe *p, const workbench *w, int set, cudaStream_t stream);
  /* After it: *right says whether the kernel did what it should. Steps: *clocks is what the kernel's own clock says of one. */
  cudaError_t (*check)(const probe *p, const workbench *w, int set, bool *right, double *clocks);
};

enum { MOST_PROBES = 128 };
typedef struct probe_list {
  probe probe[MOST_PROBES];
  int count;
} probe_list;

/* Appends a probe and returns it, so that the rest can be filled in. */
static inline probe *add_probe(probe_list *list, const char *name, const char *unit) {
  probe *p = &list->probe[list->count++];
  p->name = name;
  p->unit = unit;
  return p;
}

/* The families, one file each. */
void add_memory_probes(probe_list *list, const workbench *w);  /* memory.cu: copy and read, main memory and L2 */
void add_stride_probes(probe_list *list, const workbench *w);  /* stride.cu: neighbouring lanes, distant addresses */
void add_warps_probes(probe_list *list, const workbench *w);   /* warps.cu: how many warps keep memory and arithmetic busy */
void add_shared_probes(probe_list *list, const workbench *w);  /* shared.cu: bank conflicts */
void add_l1_probes(probe_list *list, const workbench *w);      /* l1.cu: the same of global memory that lies in L1 */
void add_latency_probes(probe_list *list, const workbench *w); /* latency.cu: one dependent step */
void add_tensor_probes(probe_list *list, const workbench *w);  /* tensor.cu: fp16 products on tensor cores */
void add_hopper_probes(probe_list *list, const workbench *w);  /* hopper.cu: launches, bulk copies, clusters */
void add_box_probes(probe_list *list, const workbench *w);     /* boxes.cu: tensor copies, tiled and im2col */

/* hopper.cu. How many clusters of so many blocks the GPU has room for at a time, a block to a multiprocessor. */
cudaError_t resident_clusters(int blocks, int *clusters);

/* memory.cu. Fills with random bits. */
cudaError_t fill_random(void *to, size_t bytes);
/* The exclusive or of `count` words, `stride` words apart, one after the other: what a reading kernel should find. Written apart from those. */
cudaError_t plain_xor(const void *from, size_t count, size_t stride, unsigned *result);
/* How many words differ. */
cudaError_t count_differences(const void *a, const void *b, size_t bytes, unsigned *result);

#ifdef __cplusplus
}
#endif
