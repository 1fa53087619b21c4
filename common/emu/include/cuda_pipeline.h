/* The toolkit's functions for asynchronous copies from global to shared memory. */
#pragma once
#include "cuda_runtime.h"

/* Copies `bytes` (4, 8 or 16), the last `zero_bytes` of them zeros instead of the source's. */
static inline void __pipeline_memcpy_async(void *__restrict__ dst_shared, const void *__restrict__ src_global, size_t bytes, size_t zero_bytes = 0) {
  emu_cp_async(dst_shared, src_global, bytes, bytes - zero_bytes);
}
static inline void __pipeline_commit() { emu_cp_async_commit(); }

/* Waits for all committed groups but the last n. */
static inline void __pipeline_wait_prior(size_t n) { emu_cp_async_wait((int)n); }
