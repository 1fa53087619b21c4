/* WMMA on the emulator, and on a GPU: products of small integers, exact, in all layouts; tiles through shared memory; what the instructions cannot take. */
#include <cuda_fp16.h>
#include <mma.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

using namespace nvcuda;

static constexpr int N = 48, LDM = 56; /* the tiled product: n x n, rows of LDM elements */

/* d = 2 (a b + c), [16][16] each; 16, 24 and 32 elements apart. */
template <typename A, typename B, typename T> __global__ void multiply(const __half *a, const __half *b, const T *c, T *d, wmma::layout_t layout) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, A> of_a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, B> of_b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, T> sum;
  wmma::load_matrix_sync(of_a, a, 16);
  wmma::load_matrix_sync(of_b, b, 24);
  wmma::load_matrix_sync(sum, c, 32, layout);
  wmma::mma_sync(sum, of_a, of_b, sum);
  for (int i = 0; i < sum.num_elements; i++) sum.x[i] = sum.x[i] + sum.x[i];
  wmma::store_matrix_sync(d, sum, 32, layout);
}

/* c = a b, N x N: a block makes 16 x 48 of it, a warp 16 x 16. */
__global__ void tiled(const __half *a, const __half *b, float *c) {
  __shared__ alignas(32) __half tile_a[16][24];
  __shared__ alignas(32) __half tile_b[16][LDM];
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.f);
  for (int k = 0; k < N; k += 16) {
    for (int i = threadIdx.x; i < 16 * 16; i += blockDim.x) tile_a[i / 16][i % 16] = a[(blockIdx.x * 16 + i / 16) * LDM + k + i % 16];
    for (int i = threadIdx.x; i < 16 * N; i += blockDim.x) tile_b[i / N][i % N] = b[(k + i / N) * LDM + i % N];
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> of_b;
    wmma::load_matrix_sync(of_a, &tile_a[0][0], 24);
    wmma::load_matrix_sync(of_b, &tile_b[0][threadIdx.x / 32 * 16], LDM);
    wmma::mma_sync(sum, of_a, of_b, sum);
    __syncthreads();
  }
  wmma::store_matrix_sync(c + blockIdx.x * 16 * LDM + threadIdx.x / 32 * 16, sum, LDM, wmma::mem_row_major);
}

static float small(int i, int j, int salt) { return (float)((i * 7 + j * 5 + i * j + salt) % 9 - 4); }

/* In device memory, from the host's and back. */
template <typename T> static T *on_device(const T *host, size_t count) {
  void *p = NULL;
  return cudaMalloc(&p, count * sizeof(T)) || cudaMemcpy(p, host, count * sizeof(T), cudaMemcpyHostToDevice) ? NULL : (T *)p;
}

template <typename A, typename B, typename T> static void test(const char *what, bool a_rows, bool b_rows, wmma::layout_t layout) {
  static __half a[16 * 16], b[16 * 24];
  static T c[16 * 32], d[16 * 32];
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) {
      a[a_rows ? i * 16 + j : j * 16 + i] = __float2half(small(i, j, 0));
      b[b_rows ? i * 24 + j : j * 24 + i] = __float2half(small(i, j, 1));
      c[layout == wmma::mem_row_major ? i * 32 + j : j * 32 + i] = T(small(i, j, 2));
    }
  __half *const dev_a = on_device(a, 16 * 16), *const dev_b = on_device(b, 16 * 24);
  T *const dev_c = on_device(c, 16 * 32), *const dev_d = on_device(c, 16 * 32);
  multiply<A, B, T><<<1, 32>>>(dev_a, dev_b, dev_c, dev_d, layout);
  int wrong = cudaMemcpy(d, dev_d, sizeof d, cudaMemcpyDeviceToHost) != cudaSuccess;
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) {
      float sum = small(i, j, 2);
      for (int k = 0; k < 16; k++) sum += small(i, k, 0) * small(k, j, 1);
      wrong += (float)d[layout == wmma::mem_row_major ? i * 32 + j : j * 32 + i] != 2 * sum;
    }
  ok(wrong == 0, "%s", what);
  cudaFree(dev_a), cudaFree(dev_b), cudaFree(dev_c), cudaFree(dev_d);
}

static void test_tiled() {
  static __half a[N * LDM], b[N * LDM];
  static float c[N * LDM];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) a[i * LDM + j] = __float2half(small(i, j, 0)), b[i * LDM + j] = __float2half(small(i, j, 1));
  __half *const dev_a = on_device(a, N * LDM), *const dev_b = on_device(b, N * LDM);
  float *const dev_c = on_device(c, N * LDM);
  tiled<<<N / 16, 32 * N / 16>>>(dev_a, dev_b, dev_c);
  int wrong = cudaMemcpy(c, dev_c, sizeof c, cudaMemcpyDeviceToHost) != cudaSuccess;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < N; k++) sum += small(i, k, 0) * small(k, j, 1);
      wrong += c[i * LDM + j] != sum;
    }
  ok(wrong == 0, "a product of 48 x 48 in tiles through shared memory");
  cudaFree(dev_a), cudaFree(dev_b), cudaFree(dev_c);
}

#ifdef CUDA_EMULATOR
__global__ void load_half(const __half *p, int offset, int ldm) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> f;
  wmma::load_matrix_sync(f, p + offset, ldm);
}
__global__ void store_float(float *p, int offset, int ldm) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
  wmma::fill_fragment(f, 1.f);
  wmma::store_matrix_sync(p + offset, f, ldm, wmma::mem_row_major);
}
__global__ void half_a_warp(const __half *p, int offset, int ldm) {
  if (threadIdx.x < 16) load_half(p, offset, ldm);
}

/* The launch fails, with the words in its report. */
template <typename T> static void refused(void (*kernel)(T *, int, int), int offset, int ldm, const char *words) {
  static char text[4096];
  void *p = NULL;
  cudaMalloc(&p, 4096);
  FILE *captured = tmpfile();
  const int real = dup(2);
  dup2(fileno(captured), 2);
  kernel<<<1, 32>>>((T *)p, offset, ldm);
  const cudaError_t error = cudaDeviceSynchronize();
  fflush(stderr);
  dup2(real, 2);
  close(real);
  rewind(captured);
  text[fread(text, 1, sizeof text - 1, captured)] = '\0';
  fclose(captured);
  ok(error == cudaErrorLaunchFailure && strstr(text, words) != NULL, "refused: %s", words) || (diag("%s", text), 0);
  cudaDeviceReset();
}
#endif

int main() {
  typedef wmma::row_major row;
  typedef wmma::col_major col;
  test<row, row, float>("a rows, b rows, sums in float", true, true, wmma::mem_row_major);
  test<row, col, float>("a rows, b columns", true, false, wmma::mem_row_major);
  test<col, row, float>("a columns, b rows, c and d columns", false, true, wmma::mem_col_major);
  test<col, col, float>("a columns, b columns, c and d columns", false, false, wmma::mem_col_major);
  test<row, col, __half>("sums in half", true, false, wmma::mem_row_major);
  test<col, row, __half>("sums in half, columns", false, true, wmma::mem_col_major);
  test_tiled();
#ifdef CUDA_EMULATOR
  refused(load_half, 0, 20, "a leading dimension of 20 halves, expected a multiple of 8");
  refused(store_float, 0, 18, "a leading dimension of 18 floats, expected a multiple of 4");
  refused(load_half, 8, 24, "expected a multiple of 32 bytes");
  refused(store_float, 4, 16, "expected a multiple of 32 bytes");
  refused(half_a_warp, 0, 16, "lanes 0xffff0000 have exited");
#endif
  return done_testing();
}
