/* The emulator runs CUDA's execution model: indices, shared memory, barriers, atomics, constant memory (warp functions: emu_warps.cu). Every check
 * compares with what a loop on the host computes. */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "tests/on_device.cuh"
#include "tests/tap.h"

/* ---- indices ---- */

__global__ void write_indices(int *out) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  atomicAdd(&out[block * threads + thread], block * 1000 + thread + 1);
}

static void test_indices() {
  const dim3 grid(3, 2, 4), block(5, 3, 2);
  const int threads = 30, n = 24 * threads;
  int *out = on_device<int>(n);
  cudaMemset(out, 0, n * sizeof(int));
  write_indices<<<grid, block>>>(out);
  const int *h = on_host(out, n);
  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += h[i] != i / threads * 1000 + i % threads + 1;
  ok(wrong == 0, "every thread of a 3-D grid of 3-D blocks runs exactly once, with its own indices");
}

/* ---- shared memory ---- */

template <int TILE> __global__ void transpose(const float *x, float *y, int n) {
  __shared__ float tile[TILE][TILE + 1];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  if (row < n && column < n) tile[threadIdx.y][threadIdx.x] = x[row * n + column];
  __syncthreads();
  const int out_row = blockIdx.x * TILE + threadIdx.y, out_column = blockIdx.y * TILE + threadIdx.x;
  if (out_row < n && out_column < n) y[out_row * n + out_column] = tile[threadIdx.x][threadIdx.y];
}

__global__ void reverse(int *x) {
  extern __shared__ __align__(16) int buffer[];
  buffer[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}

/* Sums one block; the scalar, the array and the wide vector lie side by side. */
__global__ void sum_block(const float *x, float *y, int n) {
  __shared__ float partial[256];
  __shared__ int rounds;
  __shared__ float4 wide;
  if (threadIdx.x == 0) {
    rounds = 0;
    wide = make_float4(1, 2, 3, 4);
  }
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
  partial[threadIdx.x] = sum;
  for (int width = blockDim.x / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
    if (threadIdx.x == 0) rounds++;
  }
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1) {
    y[0] = partial[0];
    y[1] = (float)rounds;
    y[2] = wide.x + wide.y + wide.z + wide.w;
  }
}

__global__ void shared_addresses(unsigned *out) {
  __shared__ char small[3];
  __shared__ alignas(128) char aligned[5];
  extern __shared__ float dynamic[];
  out[0] = (unsigned)__cvta_generic_to_shared(small);
  out[1] = (unsigned)__cvta_generic_to_shared(aligned);
  out[2] = (unsigned)__cvta_generic_to_shared(dynamic);
  out[3] = (unsigned)__cvta_generic_to_shared(&dynamic[10]) - out[2];
  out[4] = __float_as_uint(dynamic[3]);
}

static void test_shared() {
  enum { N = 75 };
  float x[N * N];
  for (int i = 0; i < N * N; i++) x[i] = (float)(i * 7 % 1009);
  float *dx = on_device(N * N, x), *dy = on_device<float>(N * N);
  const unsigned blocks = (N + 15) / 16;
  transpose<16><<<dim3(blocks, blocks), dim3(16, 16)>>>(dx, dy, N);
  const float *y = on_host(dy, N * N);
  int wrong = 0;
  for (int i = 0; i < N * N; i++) wrong += y[i] != x[i % N * N + i / N];
  ok(wrong == 0, "a 2-D shared tile, its size a template argument, transposes a matrix");

  int numbers[64];
  for (int i = 0; i < 64; i++) numbers[i] = i * i;
  int *dn = on_device(64, numbers);
  reverse<<<1, 64, 64 * sizeof(int)>>>(dn);
  const int *reversed = on_host(dn, 64);
  wrong = 0;
  for (int i = 0; i < 64; i++) wrong += reversed[i] != numbers[63 - i];
  ok(wrong == 0, "dynamic shared memory is one array for the block");

  double expected = 0;
  for (int i = 0; i < N * N; i++) expected += x[i];
  sum_block<<<1, 256>>>(dx, dy, N * N);
  const float *sum = on_host(dy, 3);
  ok(sum[0] == (float)expected, "a tree of barriers sums %d numbers: %g", N * N, (double)sum[0]);
  ok(sum[1] == 8 && sum[2] == 10, "shared scalars and a shared float4 hold what one thread wrote for the others");

  unsigned *da = on_device<unsigned>(5);
  shared_addresses<<<1, 1, 100>>>(da);
  const unsigned *address = on_host(da, 5);
  ok(address[1] % 128 == 0 && address[2] % 16 == 0 && address[0] >= 1024 && address[1] < 228 * 1024, "shared addresses are 32-bit offsets and keep alignas");
  ok(address[3] == 40, "address arithmetic agrees in both address spaces");
#ifdef CUDA_EMULATOR
  ok(address[4] == 0xFFFFFFFFu, "shared memory that nobody wrote reads as NaN, not zero");
#endif
}

/* ---- barriers with a predicate ---- */

__global__ void predicates(int *out) {
  const int count = __syncthreads_count(threadIdx.x % 3 == 0);
  const int all = __syncthreads_and(threadIdx.x < blockDim.x);
  const int not_all = __syncthreads_and(threadIdx.x != 5);
  const int any = __syncthreads_or(threadIdx.x == 70);
  const int none = __syncthreads_or(threadIdx.x > 1000);
  atomicAdd(&out[0], count == 34);
  atomicAdd(&out[1], all && !not_all);
  atomicAdd(&out[2], any && !none);
}

/* Threads that return early do not hold up the others. */
__global__ void early_return(int *out, int n) {
  if (threadIdx.x >= n) return;
  atomicAdd(&out[0], 1);
  __syncthreads();
  if (threadIdx.x == 0) out[1] = out[0];
}

static void test_barriers() {
  int *out = on_device<int>(3);
  cudaMemset(out, 0, 3 * sizeof(int));
  predicates<<<1, 100>>>(out);
  const int *h = on_host(out, 3);
  ok(h[0] == 100 && h[1] == 100 && h[2] == 100, "__syncthreads_count, _and, _or give every thread the block's answer");
  cudaMemset(out, 0, 3 * sizeof(int));
  early_return<<<1, 100>>>(out, 37);
  h = on_host(out, 3);
  ok(h[1] == 37, "a barrier waits for the threads that have not returned");
}

/* ---- atomics ---- */

struct counters {
  int i, low, high, exchanged, bits_and, bits_or, bits_xor, sub;
  unsigned u, wrapped;
  unsigned long long l;
  float f;
  double d;
  int lock, guarded;
};

__global__ void count(counters *c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&c->i, i);
  atomicAdd(&c->u, 1u);
  atomicAdd(&c->l, 1ull << 20);
  atomicAdd(&c->f, 0.5f);
  atomicAdd(&c->d, 0.25);
  atomicSub(&c->sub, 2);
  atomicMin(&c->low, -i);
  atomicMax(&c->high, i);
  atomicAnd(&c->bits_and, ~(1 << (i % 8)));
  atomicOr(&c->bits_or, 1 << (i % 16));
  atomicXor(&c->bits_xor, i);
  atomicInc(&c->wrapped, 9u);
  atomicExch(&c->exchanged, 77);
  int seen = c->guarded; /* a compare-and-swap loop */
  for (int expected; expected = seen, seen = atomicCAS(&c->guarded, expected, expected + 3), seen != expected;) {}
}

static void test_atomics() {
  counters h = {}, *c = on_device<counters>(1);
  h.bits_and = 0xFFF;
  cudaMemcpy(c, &h, sizeof h, cudaMemcpyHostToDevice);
  static const int N = 200 * 128;
  count<<<200, 128>>>(c);
  cudaMemcpy(&h, c, sizeof h, cudaMemcpyDeviceToHost);
  int sum = 0, x = 0;
  for (int i = 0; i < N; i++) sum = (int)((unsigned)sum + i), x ^= i;
  ok(h.i == sum && h.u == N && h.l == (1ull << 20) * N, "integer atomicAdd from 200 blocks on all workers loses nothing");
  ok(h.f == 0.5f * N && h.d == 0.25 * N, "float and double atomicAdd lose nothing");
  ok(h.low == 1 - N && h.high == N - 1 && h.sub == -2 * N, "atomicMin, Max, Sub");
  ok(h.bits_and == 0xF00 && h.bits_or == 0xFFFF && h.bits_xor == x && h.exchanged == 77, "atomicAnd, Or, Xor, Exch");
  ok(h.guarded == 3 * N && h.wrapped == N % 10, "an atomicCAS loop; atomicInc wraps");
}

/* ---- constant memory, globals, arithmetic ---- */

__constant__ float filter[3][3];
__device__ int global_counter = 5;

__global__ void read_constant(float *out) {
  out[threadIdx.x] = filter[threadIdx.x / 3][threadIdx.x % 3];
  if (threadIdx.x == 0) global_counter++;
}

__global__ void arithmetic(int *out) {
  int good = 0;
  good += min(-1, 1u) == 1u; /* mixed signs compare as unsigned */
  good += max(2, 3) == 3 && min(2.5f, 1.0f) == 1.0f && max(1.0f, 2.0) == 2.0;
  good += min(__int_as_float(0x7FC00000), 3.0f) == 3.0f;           /* of NaN and a number, the number */
  good += __fmaf_rn(0x1p-12f + 1, 0x1p-12f - 1, 1.0f) == 0x1p-24f; /* one rounding, not two */
  good += rsqrtf(4.0f) == 0.5f && __saturatef(1.5f) == 1.0f && __saturatef(-1.0f) == 0.0f;
  good += __clz(1) == 31 && __clz(0) == 32 && __popc(0xF0F0u) == 8 && __ffs(8) == 4 && __brev(1u) == 0x80000000u;
  good += __float_as_int(1.0f) == 0x3F800000 && __umulhi(0x80000000u, 6u) == 3u;
  good += __byte_perm(0x33221100u, 0x77665544u, 0x7250u) == 0x77225500u && __funnelshift_l(0x80000000u, 1u, 1) == 3u;
  __builtin_assume(out != nullptr);
  good += __float2uint_rn(2.5f) == 2 && __float2uint_ru(2.5f) == 3 && __float2uint_rz(-1.9f) == 0 && __float2uint_rd(5e9f) == 0xFFFFFFFFu;
  good += umin(3u, 0x80000000u) == 3u && umax(3u, 0x80000000u) == 0x80000000u && __umul24(0x1000003u, 2u) == 6u && __mul24(-3, 2) == -6;
  good += __sad(-2, 3, 4u) == 9u && __usad(2u, 0xFFFFFFFFu, 0u) == 0xFFFFFFFDu && clock() >= 0;
  good += __float2int_rn(2.5f) == 2 && __float2int_rn(3.5f) == 4 && __float2int_rz(-1.9f) == -1;
  *out = good;
}

/* One access each way: a misaligned one would fault. */
__global__ void copy_wide(const float4 *__restrict__ x, float4 *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float4 v = __ldg(&x[i]);
    v.w += 1;
    __stcs(&y[i], v);
  }
}

static void test_memory() {
  const float w[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  float *out = on_device<float>(9);
  ok(cudaMemcpyToSymbol(filter, w, sizeof w) == cudaSuccess, "cudaMemcpyToSymbol fills constant memory");
  read_constant<<<1, 9>>>(out);
  ok(memcmp(on_host(out, 9), w, sizeof w) == 0, "kernels read it");
  ok(cudaMemcpyToSymbol(filter, w, sizeof w, 4) == cudaErrorInvalidValue, "copying past its end is an error");
  int *address, counter = 0;
  cudaGetSymbolAddress((void **)&address, global_counter);
  cudaMemcpy(&counter, address, sizeof counter, cudaMemcpyDeviceToHost);
  ok(counter == 6, "a __device__ variable keeps its value between launches");
  int *good = on_device<int>(1);
  arithmetic<<<1, 1>>>(good);
  ok(*on_host(good, 1) == 12, "device arithmetic: %d of 12 groups right", *on_host(good, 1));
  float x[40];
  for (int i = 0; i < 40; i++) x[i] = (float)i;
  float *dx = on_device(40, x), *dy = on_device<float>(40);
  copy_wide<<<2, 8>>>((const float4 *)dx, (float4 *)dy, 10);
  const float *y = on_host(dy, 40);
  int wrong = 0;
  for (int i = 0; i < 40; i++) wrong += y[i] != (float)(i + (i % 4 == 3));
  ok(wrong == 0, "float4 loads and stores");
  ok(sizeof(float4) == 16 && alignof(float4) == 16 && alignof(int2) == 8 && sizeof(float3) == 12, "vector types have the toolkit's sizes and alignments");
}

int main() {
  test_indices();
  test_shared();
  test_barriers();
  test_atomics();
  test_memory();
  ok(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess, "the last error is reported once");
  return done_testing();
}
