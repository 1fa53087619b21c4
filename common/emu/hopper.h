/* What the wrappers of common/ptx/ call for Hopper's instructions: asynchronous copies, mbarriers, wgmma, clusters. C and C++.
 *
 * Shared memory is known by 32-bit addresses here as there: below 2^18 an offset in the block's own shared memory, from emu_mapa() on one in the memory of
 * another block of the cluster. `file` and `line` are the caller's, for reports. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "common/emu/emu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The 32-bit address of a shared variable of the running thread's block, and back. A shared::cluster address may lie in another block. */
enum { EMU_SHARED_BITS = 18 };
uint32_t emu_far_address(const void *shared);
void *emu_far_pointer(uint32_t address);
#ifdef __SANITIZE_THREAD__ /* these are no accesses of the kernel: not to be instrumented */
#define emu_shared_address emu_far_address
#define emu_shared_pointer emu_far_pointer
#else
static inline uint32_t emu_shared_address(const void *shared) {
  const uintptr_t offset = (uintptr_t)shared - (uintptr_t)emu_self->block->arena;
  return offset >> EMU_SHARED_BITS == 0 ? (uint32_t)offset : emu_far_address(shared);
}
static inline void *emu_shared_pointer(uint32_t address) {
  return address >> EMU_SHARED_BITS == 0 ? emu_self->block->arena + address : emu_far_pointer(address);
}
#endif

/* mbarrier: 8 bytes of shared memory, a multiple of 8. The wait is the whole loop of try_wait: until the phase of this parity is over. */
void emu_mbarrier_init(uint32_t barrier, uint32_t count, const char *file, int line);
void emu_mbarrier_invalidate(uint32_t barrier, const char *file, int line);
void emu_mbarrier_arrive(uint32_t barrier, uint32_t count, const char *file, int line); /* own, or of another block of the cluster */
void emu_mbarrier_expect(uint32_t barrier, uint32_t bytes, const char *file, int line); /* expect_tx, without an arrival */
void emu_mbarrier_wait(uint32_t barrier, uint32_t parity, const char *file, int line);
void emu_fence_mbarrier_init(void); /* fence.mbarrier_init.release.cluster */

/* cp.async.bulk. Loads complete on an mbarrier of the block that they write to; `blocks`: a bit for each rank of the cluster that gets the same bytes at the
 * same place, 0: the own block alone. Stores belong to the thread's bulk groups. */
void emu_bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier, uint16_t blocks, const char *file, int line);
void emu_bulk_store(void *to, uint32_t from, uint32_t bytes, const char *file, int line);
void emu_bulk_between(uint32_t to, uint32_t from, uint32_t bytes, uint32_t barrier, const char *file, int line); /* shared::cta to shared::cluster */
void emu_st_async(uint32_t to, const uint32_t words[4], uint32_t barrier, const char *file, int line);           /* st.async: registers to shared::cluster */
typedef enum { EMU_REDUCE_NONE, EMU_REDUCE_ADD_F32, EMU_REDUCE_ADD_F16 } emu_bulk_reduce;
void emu_bulk_reduce_add(void *to, uint32_t from, uint32_t bytes, emu_bulk_reduce type, const char *file, int line);

/* cp.async.bulk.tensor: map: a CUtensorMap; coordinates: dims of them, innermost first; offsets: of im2col mode, dims - 2 of them, NULL: tiled. */
void emu_tensor_load(uint32_t to, const void *map, int dims, const int32_t *coordinates, const uint16_t *offsets, uint32_t barrier, uint16_t blocks,
                     const char *file, int line);
void emu_tensor_store(const void *map, int dims, const int32_t *coordinates, uint32_t from, int add, const char *file, int line); /* add: reduce.add */
void emu_tensor_store_im2col(const void *map, int dims, const int32_t *coordinates, uint32_t from, const char *file, int line);   /* im2col_no_offs */
void emu_tensor_prefetch(const void *map, const char *file, int line);

/* cp.async.bulk.commit_group, .wait_group: until at most `left` groups of the thread are at work, or (read) still read shared memory. */
void emu_bulk_commit(void);
void emu_bulk_wait(int left, int read, const char *file, int line);

/* fence.proxy.async: what this thread wrote is there for copies and wgmma. */
void emu_fence_proxy_async(const char *file, int line);

/* wgmma, by all 128 threads of a warpgroup. d: n / 2 floats of this thread; a_registers: 4, or NULL: a is a descriptor; mn: which operands are MN-major;
 * scale_d 0: d is not read. */
void emu_wgmma_fence(const char *file, int line);
void emu_wgmma(int n, float *d, const uint32_t *a_registers, uint64_t a, uint64_t b, int a_mn, int b_mn, int scale_d, const char *file, int line);
void emu_wgmma_commit(const char *file, int line);
void emu_wgmma_wait(int left, const char *file, int line);

/* Clusters. */
uint32_t emu_cluster_rank(void);
uint32_t emu_cluster_size(void);
void emu_cluster_arrive(int relaxed, const char *file, int line); /* relaxed: what was written before need not be there for others */
void emu_cluster_wait(const char *file, int line);
uint32_t emu_mapa(uint32_t address, uint32_t rank, const char *file, int line); /* the same place in another block */

/* ldmatrix and stmatrix: count 1, 2 or 4 matrices of 8 x 8 halves; row: the 16 bytes that this lane points to (of ldmatrix already read, by the kernel's own
 * code; the question whether to read is the runtime's: a look at emu_self would be the kernel's, too). */
int emu_ldmatrix_reads(int count); /* whether this lane's row is one of a matrix */
void emu_ldmatrix(unsigned *fragment, int count, int trans, const void *row, const char *file, int line);
void emu_stmatrix(uint32_t row, const unsigned *fragment, int count, int trans, const char *file, int line);

int emu_elect(unsigned mask, const char *file, int line);                      /* elect.sync: 1 in one lane of the mask */
void emu_setmaxnreg(unsigned registers, int more, const char *file, int line); /* more: .inc, else .dec */

#ifdef __cplusplus
}
#endif
