/* Memory a kernel works on: poisoned before, guarded on both sides, several sets so that a cache can be kept cold. */
#pragma once
#include "common/conv/epilogue.h"
#include "common/conv/tensor.h"
#include "common/harness/kernel.h"

enum { GUARD_BYTES = 16 * 1024 }; /* a row of the 4000-pixel image: writes "one row too far" land here */

/* The parts of a set: the three tensors by tensor_role, what an epilogue reads, and the workspace; or, for a graph, its tensors by their numbers, and the
 * workspace. */
enum { PART_RESIDUAL = 3, PART_SCALE, PART_BIAS, PART_WORKSPACE = 319, PART_COUNT };

/* `count` equal sets in one allocation. A set is guard, x, guard, guard, w, guard, guard, y, guard, and so on: a guard begins at the very next byte after
 * its part, and every part is 512-byte aligned. Behind the last set: guard, workspace, guard, once for all sets, as a program keeps one workspace for all
 * its layers (so does the harness with cuDNN's plans). A part of 0 bytes has no address. */
typedef struct buffer_sets {
  conv_place place; /* device memory, or the host's for CPU kernels */
  int count;
  bool by_role; /* its parts are those of one operation, not a graph's tensors */
  size_t bytes[PART_COUNT];
  size_t offset[PART_COUNT];    /* of the part in its set; of the workspace behind the sets */
  size_t set_bytes, tail_bytes; /* of a set; of what is there once */
  unsigned char *base;
} buffer_sets;

/* Sizes of a set for these tensors; allocates nothing. fused: what an epilogue reads (NULL: none). */
buffer_sets buffer_sets_plan(conv_place place, const conv_tensor shapes[3], size_t workspace_bytes);
buffer_sets buffer_sets_plan_parts(conv_place place, const size_t bytes[PART_COUNT]); /* of any kind */
buffer_sets buffer_sets_plan_fused(conv_place place, const conv_tensor shapes[3], const epilogue_data *fused, size_t workspace_bytes);

/* Allocates `count` sets and puts guards and poison into the first. Returns cudaErrorMemoryAllocation when there is no room. */
cudaError_t buffer_sets_alloc(buffer_sets *sets, int count);
void buffer_sets_free(buffer_sets *sets);

cudaError_t buffer_upload(const buffer_sets *sets, int part, const void *host);       /* into the first set */
cudaError_t buffer_upload_fused(const buffer_sets *sets, const epilogue_data *fused); /* the epilogue's parts, into the first set */
cudaError_t buffer_replicate(const buffer_sets *sets);                                /* the first set into all others, guards and all; not the workspace */
cudaError_t buffer_download(const buffer_sets *sets, int set, int part, void *host);
cudaError_t buffer_poison(const buffer_sets *sets, int set, int part); /* NaN in every type: 0xFF bytes */

/* `count` floats of the device as halves there, for libraries that want a bias so. The harness's is a half already where tensors are: nothing is lost. */
cudaError_t buffer_halves(void *halves, const float *floats, size_t count);

/* Where a part of a set begins; NULL if it has 0 bytes. */
void *buffer_address(const buffer_sets *sets, int set, int part);

/* What a kernel gets. */
conv_buffers buffer_view(const buffer_sets *sets, int set);

/* Writes an intact guard of GUARD_BYTES to device memory. */
cudaError_t buffer_guard(void *device);

/* What became of a part. */
typedef struct part_state {
  bool changed, damaged; /* an input is not what it was; a guard */
  int64_t where;         /* as below */
} part_state;

/* Looks for a damaged guard byte of one part. *where is its distance: negative before the part (-1: the byte just before), else behind it
 * (0: the byte just behind); of several the nearest. */
cudaError_t buffer_check(const buffer_sets *sets, int set, int part, bool *damaged, int64_t *where);
