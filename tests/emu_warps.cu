/* The emulator runs CUDA's warp functions: shuffles, votes, matches, with whole and with partial masks. Every check compares with what a loop on the host
 * computes. */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "tests/on_device.cuh"
#include "tests/tap.h"

/* ---- warps ---- */

enum shuffle_kind { INDEX, UP, DOWN, XOR };

template <typename T> __global__ void shuffle(T *out, int kind, int argument, int width) {
  const T mine = (T)(threadIdx.x * 3 + 1);
  T got;
  if (kind == INDEX) got = __shfl_sync(0xFFFFFFFFu, mine, argument, width);
  else if (kind == UP) got = __shfl_up_sync(0xFFFFFFFFu, mine, argument, width);
  else if (kind == DOWN) got = __shfl_down_sync(0xFFFFFFFFu, mine, argument, width);
  else got = __shfl_xor_sync(0xFFFFFFFFu, mine, argument, width);
  out[threadIdx.x] = got;
}

/* The lane that CUDA's programming guide says is read. */
static int source_lane(int lane, int kind, int argument, int width) {
  const int in_segment = lane % width, segment = lane - in_segment;
  if (kind == INDEX) return segment + argument % width;
  if (kind == UP) return in_segment - argument >= 0 ? lane - argument : lane;
  if (kind == DOWN) return in_segment + argument < width ? lane + argument : lane;
  return (lane ^ argument) < segment + width ? lane ^ argument : lane;
}

template <typename T> static int wrong_shuffles() {
  T *out = on_device<T>(64);
  int wrong = 0;
  for (int kind = INDEX; kind <= XOR; kind++)
    for (int width = 1; width <= 32; width *= 2)
      for (int argument = 0; argument < 32; argument += 1 + argument / 4) {
        shuffle<T><<<1, 64>>>(out, kind, argument, width);
        T *h = on_host(out, 64);
        for (int i = 0; i < 64; i++) wrong += h[i] != (T)((i / 32 * 32 + source_lane(i % 32, kind, argument, width)) * 3 + 1);
        free(h);
      }
  cudaFree(out);
  return wrong;
}

__global__ void votes(unsigned *out) {
  const int lane = threadIdx.x % 32;
  const unsigned full = 0xFFFFFFFFu;
  unsigned good = 0;
  good += __ballot_sync(full, lane % 3 == 0) == 0x49249249u;
  good += __any_sync(full, lane == 31) && !__any_sync(full, lane == 32);
  good += __all_sync(full, lane < 32) && !__all_sync(full, lane < 31);
  good += __match_any_sync(full, lane / 8) == 0xFFu << (lane / 8 * 8);
  good += __reduce_add_sync(full, lane) == 496 && __reduce_min_sync(full, lane - 5) == -5 && __reduce_max_sync(full, (unsigned)lane) == 31;
  if (lane < 16) { /* half a warp among itself, while the other half does something else */
    good += __ballot_sync(0x0000FFFFu, lane > 7) == 0xFF00u;
    good += __shfl_down_sync(0x0000FFFFu, lane, 8, 16) == (lane < 8 ? lane + 8 : lane);
  } else {
    good += __ballot_sync(0xFFFF0000u, lane > 23) == 0xFF000000u;
    good += __shfl_xor_sync(0xFFFF0000u, lane, 1) == (lane ^ 1);
  }
  const unsigned active = __activemask();
  __syncwarp(active);
  good += active == full;
  out[threadIdx.x] = good;
}

__global__ void exited_lanes(unsigned *out) {
  if (threadIdx.x % 32 >= 20) return;
  __syncwarp();
  out[threadIdx.x] = __ballot_sync(0xFFFFFFFFu, 1);
}

static void test_warps() {
  ok(wrong_shuffles<int>() == 0, "all four shuffles, every width, int");
  ok(wrong_shuffles<unsigned>() == 0, "... unsigned");
  ok(wrong_shuffles<float>() == 0, "... float");
  ok(wrong_shuffles<double>() == 0, "... double");
  ok(wrong_shuffles<long long>() == 0, "... long long");
  unsigned *out = on_device<unsigned>(96);
  votes<<<1, 96>>>(out);
  const unsigned *h = on_host(out, 96);
  int wrong = 0;
  for (int i = 0; i < 96; i++) wrong += h[i] != 8;
  ok(wrong == 0, "ballot, any, all, match, reduce; two halves of a warp in different ones");
  exited_lanes<<<1, 64>>>(out);
  h = on_host(out, 64);
  wrong = 0;
  for (int i = 0; i < 64; i++) wrong += i % 32 < 20 && h[i] != 0xFFFFFu;
  ok(wrong == 0, "lanes that returned take no part in a vote and do not block it");
}

int main() {
  test_warps();
  return done_testing();
}
