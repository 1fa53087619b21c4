/* Atomic operations of instrumented kernels: the compiler turns __atomic_fetch_add and the like into calls of these functions, which do
 * the operation themselves. Whatever memory order they ask for, they get the strongest. */
#include <stdbool.h>

#include "common/emu/check/hooks.h"

#define HERE __builtin_return_address(0)
#define SEE(T, p) emu_hook_access((const void *)(uintptr_t)(p), sizeof(T), EMU_ATOMIC, HERE)

#define DONE(p) emu_hook_atomic_done((const void *)(uintptr_t)(p))

#define UPDATE(bits, T, name, builtin)                                \
  T __tsan_atomic##bits##_##name(volatile T *p, T value, int order) { \
    (void)order;                                                      \
    SEE(T, p);                                                        \
    const T old = builtin(p, value, __ATOMIC_SEQ_CST);                \
    DONE(p);                                                          \
    return old;                                                       \
  }

#define ATOMICS(bits, T)                                                                                          \
  T __tsan_atomic##bits##_load(const volatile T *p, int order) {                                                  \
    (void)order;                                                                                                  \
    emu_hook_access((const void *)(uintptr_t)p, sizeof(T), EMU_VOLATILE_READ, HERE);                              \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                                  \
  }                                                                                                               \
  void __tsan_atomic##bits##_store(volatile T *p, T value, int order) {                                           \
    (void)order;                                                                                                  \
    emu_hook_access((const void *)(uintptr_t)p, sizeof(T), EMU_VOLATILE_WRITE, HERE);                             \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                                 \
  }                                                                                                               \
  UPDATE(bits, T, exchange, __atomic_exchange_n)                                                                  \
  UPDATE(bits, T, fetch_add, __atomic_fetch_add)                                                                  \
  UPDATE(bits, T, fetch_sub, __atomic_fetch_sub)                                                                  \
  UPDATE(bits, T, fetch_and, __atomic_fetch_and)                                                                  \
  UPDATE(bits, T, fetch_or, __atomic_fetch_or)                                                                    \
  UPDATE(bits, T, fetch_xor, __atomic_fetch_xor)                                                                  \
  UPDATE(bits, T, fetch_nand, __atomic_fetch_nand)                                                                \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T *p, T *expected, T value, int order, int failed) { \
    (void)order, (void)failed;                                                                                    \
    SEE(T, p);                                                                                                    \
    const int done = __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
    DONE(p);                                                                                                      \
    return done;                                                                                                  \
  }                                                                                                               \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T *p, T *expected, T value, int order, int failed) {   \
    (void)order, (void)failed;                                                                                    \
    SEE(T, p);                                                                                                    \
    const int done = __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
    DONE(p);                                                                                                      \
    return done;                                                                                                  \
  }                                                                                                               \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T expected, T value, int order, int failed) {       \
    (void)order, (void)failed;                                                                                    \
    SEE(T, p);                                                                                                    \
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
    DONE(p);                                                                                                      \
    return expected;                                                                                              \
  }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order) {
  (void)order;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int order) {
  (void)order;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
