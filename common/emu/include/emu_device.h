/* Device functions: barriers, warp functions, atomics, loads and stores with hints, bits. Part of cuda_runtime.h.
 *
 * The last two parameters of what can wait are the caller's file and line; they fill themselves. */
#pragma once

#define EMU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* ---- barriers of the block ---- */

static inline void __syncthreads(EMU_HERE) { emu_barrier_wait(0, 0, 0, "__syncthreads", file, line); }
static inline int __syncthreads_count(int predicate, EMU_HERE) { return emu_barrier_wait(0, 0, predicate, "__syncthreads_count", file, line)->result_count; }
static inline int __syncthreads_and(int predicate, EMU_HERE) { return emu_barrier_wait(0, 0, predicate, "__syncthreads_and", file, line)->result_all; }
static inline int __syncthreads_or(int predicate, EMU_HERE) { return emu_barrier_wait(0, 0, predicate, "__syncthreads_or", file, line)->result_any; }

/* Fences order nothing here that is not in order already: between two waits a thread runs alone. Blocks on other workers see atomics. */
static inline void __threadfence() { emu_fence(); }
static inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { emu_fence(); }
static inline void cudaGridDependencySynchronize() { emu_dependency_wait(); }
static inline void cudaTriggerProgrammaticLaunchCompletion() { emu_launch_dependents(); }
static inline void __nanosleep(unsigned) { emu_yield(); }
[[noreturn]] static inline void __trap(EMU_HERE) { emu_fail("__trap() at %s:%d", file, line); }

/* ---- warps ---- */

static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, EMU_HERE) { emu_syncwarp(mask, file, line); }
static inline unsigned __activemask() { return emu_activemask(); } /* all lanes that have not exited yet: branches are not seen */
static inline int __all_sync(unsigned mask, int predicate, EMU_HERE) { return (int)emu_vote(EMU_ALL, mask, predicate, file, line); }
static inline int __any_sync(unsigned mask, int predicate, EMU_HERE) { return (int)emu_vote(EMU_ANY, mask, predicate, file, line); }
static inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_HERE) { return emu_vote(EMU_BALLOT, mask, predicate, file, line); }

/* Any type of up to 8 bytes travels as 64 bits. */
template <typename T> uint64_t emu_to_bits(T value) {
  static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T> T emu_from_bits(uint64_t bits) {
  T value;
  __builtin_memcpy((void *)&value, &bits, sizeof value);
  return value;
}

template <typename T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EMU_HERE) {
  return emu_from_bits<T>(emu_shuffle(EMU_SHFL_INDEX, mask, emu_to_bits(value), (unsigned)lane, width, file, line));
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, EMU_HERE) {
  return emu_from_bits<T>(emu_shuffle(EMU_SHFL_UP, mask, emu_to_bits(value), distance, width, file, line));
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, EMU_HERE) {
  return emu_from_bits<T>(emu_shuffle(EMU_SHFL_DOWN, mask, emu_to_bits(value), distance, width, file, line));
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMU_HERE) {
  return emu_from_bits<T>(emu_shuffle(EMU_SHFL_XOR, mask, emu_to_bits(value), (unsigned)lanes, width, file, line));
}
template <typename T> unsigned __match_any_sync(unsigned mask, T value, EMU_HERE) { return emu_match_any(mask, emu_to_bits(value), file, line); }

#define EMU_REDUCE(name, kind, T) \
  static inline T name(unsigned mask, T value, EMU_HERE) { return (T)emu_reduce(kind, mask, value, file, line); }
EMU_REDUCE(__reduce_add_sync, EMU_ADD, int)
EMU_REDUCE(__reduce_add_sync, EMU_ADD, unsigned)
EMU_REDUCE(__reduce_min_sync, EMU_MIN, int)
EMU_REDUCE(__reduce_min_sync, EMU_MIN, unsigned)
EMU_REDUCE(__reduce_max_sync, EMU_MAX, int)
EMU_REDUCE(__reduce_max_sync, EMU_MAX, unsigned)
EMU_REDUCE(__reduce_and_sync, EMU_AND, unsigned)
EMU_REDUCE(__reduce_or_sync, EMU_OR, unsigned)
EMU_REDUCE(__reduce_xor_sync, EMU_XOR, unsigned)
#undef EMU_REDUCE

/* ---- atomics: all return the old value ---- */

/* Replaces *p by f(*p) in one step, for what the processor has no instruction for. */
template <typename T, typename F> T emu_atomic_update(T *p, F f) {
#ifdef __SANITIZE_THREAD__ /* check and count builds */
  emu_atomic_begin(p, sizeof *p);
#endif
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, f(old), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
#ifdef __SANITIZE_THREAD__
  emu_atomic_end();
#endif
  return old;
}
template <typename Bits, typename T> T emu_atomic_add_float(T *p, T value) {
  typedef Bits bits __attribute__((may_alias));
  return emu_from_bits<T>(emu_atomic_update((bits *)p, [value](Bits old) { return (Bits)emu_to_bits<T>(emu_from_bits<T>(old) + value); }));
}

static inline float atomicAdd(float *p, float value) { return emu_atomic_add_float<uint32_t>(p, value); }
static inline double atomicAdd(double *p, double value) { return emu_atomic_add_float<uint64_t>(p, value); }

#define EMU_ATOMICS(T)                                                                                  \
  static inline T atomicAdd(T *p, T value) { return __atomic_fetch_add(p, value, __ATOMIC_RELAXED); }   \
  static inline T atomicExch(T *p, T value) { return __atomic_exchange_n(p, value, __ATOMIC_RELAXED); } \
  static inline T atomicMin(T *p, T value) {                                                            \
    return emu_atomic_update(p, [value](T old) { return old < value ? old : value; });                  \
  }                                                                                                     \
  static inline T atomicMax(T *p, T value) {                                                            \
    return emu_atomic_update(p, [value](T old) { return old > value ? old : value; });                  \
  }                                                                                                     \
  static inline T atomicAnd(T *p, T value) { return __atomic_fetch_and(p, value, __ATOMIC_RELAXED); }   \
  static inline T atomicOr(T *p, T value) { return __atomic_fetch_or(p, value, __ATOMIC_RELAXED); }     \
  static inline T atomicXor(T *p, T value) { return __atomic_fetch_xor(p, value, __ATOMIC_RELAXED); }   \
  static inline T atomicCAS(T *p, T compare, T value) {                                                 \
    __atomic_compare_exchange_n(p, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);         \
    return compare;                                                                                     \
  }
EMU_ATOMICS(int)
EMU_ATOMICS(unsigned)
EMU_ATOMICS(unsigned long long)
#undef EMU_ATOMICS

static inline int atomicSub(int *p, int value) { return __atomic_fetch_sub(p, value, __ATOMIC_RELAXED); }
static inline unsigned atomicSub(unsigned *p, unsigned value) { return __atomic_fetch_sub(p, value, __ATOMIC_RELAXED); }
static inline float atomicExch(float *p, float value) {
  typedef uint32_t bits __attribute__((may_alias));
  return emu_from_bits<float>(__atomic_exchange_n((bits *)p, (uint32_t)emu_to_bits(value), __ATOMIC_RELAXED));
}
static inline unsigned atomicInc(unsigned *p, unsigned limit) {
  return emu_atomic_update(p, [limit](unsigned old) { return old >= limit ? 0u : old + 1; });
}
static inline unsigned atomicDec(unsigned *p, unsigned limit) {
  return emu_atomic_update(p, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}

/* ---- loads and stores whose cache hints mean nothing here ---- */

#define EMU_LOAD(name) \
  template <typename T> T name(const T *p) { return *p; }
EMU_LOAD(__ldg)
EMU_LOAD(__ldca)
EMU_LOAD(__ldcg)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldcv)
EMU_LOAD(__ldlu)
#undef EMU_LOAD
#define EMU_STORE(name) \
  template <typename T> void name(T *p, T value) { *p = value; }
EMU_STORE(__stcg)
EMU_STORE(__stcs)
EMU_STORE(__stwb)
EMU_STORE(__stwt)
#undef EMU_STORE

/* ---- addresses: shared memory is the block's arena, a shared address the offset into it ---- */

static inline size_t __cvta_generic_to_shared(const void *p) { return (size_t)((const unsigned char *)p - emu_self->block->arena); }
static inline void *__cvta_shared_to_generic(size_t address) { return emu_self->block->arena + address; }
static inline size_t __cvta_generic_to_global(const void *p) { return (size_t)p; }
static inline unsigned __isShared(const void *p) { return (uintptr_t)p - (uintptr_t)emu_self->block->arena < (256u << 10); }

/* ---- bits ---- */

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
  return __builtin_bswap32(x);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = (uint64_t)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned pick = selector >> (4 * i), byte = (unsigned)(bytes >> (8 * (pick & 7))) & 0xFF;
    result |= (pick & 8 ? (byte & 0x80 ? 0xFFu : 0u) : byte) << (8 * i); /* bit 3: the byte's sign instead */
  }
  return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) { return (unsigned)((((uint64_t)high << 32 | low) << (shift & 31)) >> 32); }
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) { return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31)); }

static inline int __float_as_int(float x) { return emu_from_bits<int>(emu_to_bits(x)); }
static inline unsigned __float_as_uint(float x) { return (unsigned)emu_to_bits(x); }
static inline float __int_as_float(int x) { return emu_from_bits<float>((unsigned)x); }
static inline float __uint_as_float(unsigned x) { return emu_from_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return (long long)emu_to_bits(x); }
static inline double __longlong_as_double(long long x) { return emu_from_bits<double>((uint64_t)x); }

/* ---- time: ticks of the host's counter ---- */

static inline long long clock64() {
#if defined(__x86_64__)
  return (long long)__builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return (long long)ticks;
#else
  return 0;
#endif
}
