/* Small kernels for the checker, each right or with one defect: what the planted defects in real kernels do not reach. Without an argument
 * the right ones run; with the name of a defect, that one. tests/check_cases.sh says what the checker has to report. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <string.h>

#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

#define DEFECT(name) template <bool WRONG> __global__ void name

/* Two threads write the two halves of one word; wrong: both the same half. */
DEFECT(shared_halves)(float *y) {
  __shared__ __half line[64];
  line[WRONG ? threadIdx.x / 2 : threadIdx.x] = __float2half(1);
  __syncthreads();
  y[threadIdx.x] = __half2float(line[0]);
}

/* The same between blocks, in global memory. */
DEFECT(global_halves)(float *y) { ((__half *)y)[(WRONG ? blockIdx.x / 2 : blockIdx.x) + 2 * threadIdx.x * gridDim.x] = __float2half(1); }

/* One block writes a word, another a half, of the next word; wrong: of that one. */
DEFECT(word_and_half)(float *y) {
  const int i = 2 * threadIdx.x, half = WRONG ? 1 : 2;
  blockIdx.x == 0 ? (void)(y[i] = 1) : (void)(((__half *)y)[2 * i + half] = __float2half(1));
}

/* Four words at once, read, and written, where another warp has been: beyond a barrier; wrong: before it, at the last of the four. */
DEFECT(shared_four_read)(float *y) {
  __shared__ float4 line[16];
  float *words = (float *)line;
  words[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) words[35] = 2;
  if (!WRONG) __syncthreads();
  if (threadIdx.x >= 32 && threadIdx.x < 48) ((float4 *)y)[threadIdx.x] = line[threadIdx.x - 32];
}
DEFECT(shared_four_written)(float *y) {
  __shared__ float4 line[16];
  const float *words = (const float *)line;
  if (threadIdx.x < 16) line[threadIdx.x] = make_float4(1, 2, 3, 4);
  __syncthreads();
  if (threadIdx.x == 0) y[0] = words[35];
  if (!WRONG) __syncthreads();
  if (threadIdx.x >= 32 && threadIdx.x < 48) line[threadIdx.x - 32] = make_float4(5, 6, 7, 8);
}

/* Bytes: written as bytes, read as words, the first too few. */
DEFECT(shared_bytes)(float *y) {
  __shared__ unsigned char bytes[128];
  bytes[threadIdx.x] = 1;
  if (!WRONG || threadIdx.x != 5) bytes[64 + threadIdx.x] = 2;
  __syncthreads();
  y[threadIdx.x] = (float)*(const unsigned *)&bytes[threadIdx.x / 2 * 4];
}

/* The block that comes last adds up what the others left, which a fence has put in order; wrong: it does not wait its turn. */
__device__ unsigned arrived;
DEFECT(last_block)(float *y) {
  y[1 + blockIdx.x] = 1;
  if (WRONG) {
    y[0] = y[1 + (blockIdx.x + 1) % gridDim.x];
    return;
  }
  __threadfence();
  if (atomicAdd(&arrived, 1u) != gridDim.x - 1) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += y[1 + i];
  y[0] = sum;
}

/* A thread reads what its neighbour has written to global memory; wrong: with no barrier between. */
DEFECT(global_neighbour)(float *y) {
  y[threadIdx.x + 128 * blockIdx.x] = 1;
  if (!WRONG) __syncthreads();
  y[64 + threadIdx.x + 128 * blockIdx.x] = y[(threadIdx.x + 1) % 64 + 128 * blockIdx.x];
}

/* Threads write a word one after the other; wrong: in any order. */
DEFECT(global_twice)(float *y) {
  if (threadIdx.x < 32) y[threadIdx.x] = 1;
  if (!WRONG) __syncthreads();
  if (threadIdx.x >= 32) y[threadIdx.x - 32] = 2;
}

/* A variable of the program is memory like any other: all blocks add to it, wrong: not by an atomic. */
__device__ float total;
DEFECT(device_variable)(float *y) {
  if (WRONG) total += 1;
  else atomicAdd(&total, 1.0f);
  y[blockIdx.x] = 1;
}

/* A table of the program, a local array, a pointer to it; wrong: another thread's local array. */
__constant__ float table[4] = {1, 2, 3, 4};
static __device__ float pick(const float *from, int i) { return from[i % 4]; }
DEFECT(local_memory)(float *y) {
  __shared__ const float *of_first;
  float local[4];
  for (int i = 0; i < 4; i++) local[i] = table[i] * (float)threadIdx.x;
  if (threadIdx.x == 0) of_first = local;
  __syncthreads();
  y[threadIdx.x] = pick(WRONG ? of_first : local, (int)threadIdx.x);
  __syncthreads();
}

/* A filter in constant memory; wrong: one tap too many. */
__constant__ float filter[25];
DEFECT(constant)(float *y) {
  float sum = 0;
  for (unsigned i = 0; i < 25 + WRONG * gridDim.x; i++) sum += filter[i];
  y[threadIdx.x] = sum;
}

/* A row of a tile is left on its right; where that lands is memory of the same tile. */
DEFECT(row_end)(float *y) {
  __shared__ float tile[4][17];
  for (int row = 0; row < 4; row++) tile[row][threadIdx.x] = 1;
  __syncthreads();
  float sum = 0;
  for (unsigned i = 0; i < (WRONG ? 3 : 2); i++) sum += tile[1][threadIdx.x % 16 + i];
  y[threadIdx.x] = sum;
}

/* Some threads leave early, the others meet at a barrier; then atomics on shared memory, read behind a barrier (wrong: without it). */
DEFECT(atomics)(float *y) {
  __shared__ int sum;
  if (threadIdx.x >= 48) return;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, 1);
  if (!WRONG) __syncthreads();
  y[threadIdx.x] = (float)sum;
}

/* A thread writes a zero, and all add to it; wrong: with no barrier between. Found in every order. */
DEFECT(atomics_early)(float *y) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  if (!WRONG) __syncthreads();
  atomicAdd(&sum, 2);
  __syncthreads();
  y[threadIdx.x] = (float)sum;
}

/* The same in global memory, each block for itself; wrong: one reads the sum with no barrier after, the zero has none before, all blocks add to one. */
DEFECT(global_sum)(float *y) {
  int *sum = (int *)y + blockIdx.x;
  if (threadIdx.x == 0) *sum = 0;
  __syncthreads();
  if (threadIdx.x < 32) atomicAdd(sum, 1);
  if (!WRONG) __syncthreads();
  if (threadIdx.x == 63) y[blockIdx.x + 64] = (float)*sum;
}
DEFECT(global_sum_early)(float *y) {
  int *sum = (int *)y + blockIdx.x;
  if (threadIdx.x == 0) *sum = 0;
  if (!WRONG) __syncthreads();
  atomicAdd(sum, 2);
}
DEFECT(global_sum_of_all)(float *y) {
  int *sum = (int *)y + (WRONG ? 0 : blockIdx.x);
  if (threadIdx.x == 0 && (!WRONG || blockIdx.x == 0)) *sum = 0;
  __syncthreads();
  atomicAdd(sum, 3);
}

/* Only the two warps of a group meet; what the third one does is not in order with it. */
DEFECT(named_barrier)(float *y) {
  __shared__ float line[96];
  line[threadIdx.x] = 1;
  if (threadIdx.x >= 64) return;
  ptx_bar_sync(1, 64);
  y[threadIdx.x] = line[(threadIdx.x + 32) % (WRONG ? 96 : 64)];
}

/* Wrappers of common/ptx/: a report names the line that calls them. Rows for ldmatrix that another warp stores; wrong: without a barrier before. */
DEFECT(matrix_row)(float *y) {
  __shared__ uint4 rows[64];
  rows[threadIdx.x] = make_uint4(1, 2, 3, 4);
  if (!WRONG) __syncthreads();
  unsigned d[4];
  ptx_ldmatrix_x4_trans(d, ptx_shared_address(&rows[(threadIdx.x + 32) % 64]));
  y[threadIdx.x] = (float)d[0];
}
DEFECT(copied)(float *y) {
  __shared__ uint4 rows[64];
  rows[(threadIdx.x + 32) % 64] = make_uint4(1, 2, 3, 4);
  if (!WRONG) __syncthreads();
  ptx_cp_async<16>(ptx_shared_address(&rows[threadIdx.x]), y, true);
}

/* Dynamic shared memory cut into parts by hand; a lane reads what another lane of its warp wrote before __syncwarp. */
DEFECT(parts)(float *y) {
  extern __shared__ float dynamic[];
  int *numbers = (int *)(dynamic + 64);
  dynamic[threadIdx.x] = 1;
  if (threadIdx.x < 32) numbers[threadIdx.x] = 2;
  __syncwarp();
  const int i = threadIdx.x % 32;
  if (threadIdx.x < 32) y[threadIdx.x] = dynamic[(i + 1) % 32] + (float)numbers[(i + 1) % (WRONG ? 33 : 32)];
}

/* One float4 more than there is; an address that belongs to nobody any more. */
DEFECT(vector_tail)(float *y) { ((float4 *)y)[threadIdx.x + (WRONG ? 4096 / 4 - 63 : 0)] = make_float4(1, 2, 3, 4); }
DEFECT(freed)(float *y) { y[threadIdx.x] = 1; }
DEFECT(pinned)(float *y) { y[threadIdx.x] += 1; }

/* memcpy, memmove and memset are accesses like others: of an array that memset has filled, 20 words that overlap; wrong: behind the end. */
DEFECT(copied_whole)(float *y) {
  __shared__ float line[64];
  if (threadIdx.x == 0) memset(line, 0, sizeof line);
  __syncthreads();
  if (threadIdx.x == 0) memmove(line + 4, line, 20 * sizeof *line);
  __syncthreads();
  if (threadIdx.x == 1) memcpy(y + (WRONG ? 4096 - 19 : 0), line, 20 * sizeof *line);
}
DEFECT(copied_early)(float *y) {
  __shared__ float line[64];
  line[threadIdx.x] = 2.5f;
  if (!WRONG) __syncthreads();
  if (threadIdx.x == 0) memcpy(y, line + 31, 33 * sizeof *line);
}

/* Memory that was freed and allocated again has forgotten what was written there, and by whom. */
DEFECT(again)(float *y) {
  if (!WRONG) ((__half *)y)[2 * threadIdx.x] = ((__half *)y)[2 * threadIdx.x + 1] = __float2half(1);
  const float before = y[threadIdx.x];
  y[threadIdx.x] = before + 1;
}

typedef void (*kernel)(float *);
static const struct test {
  const char *name;
  kernel right, wrong;
  unsigned blocks, threads, shared;
} tests[] = {
#define TEST(name, blocks, threads, shared) \
  { #name, name < false>, name < true>, blocks, threads, shared }
    TEST(shared_halves, 1, 64, 0),
    TEST(global_halves, 4, 16, 0),
    TEST(shared_bytes, 1, 64, 0),
    TEST(last_block, 9, 1, 0),
    TEST(device_variable, 4, 1, 0),
    TEST(global_neighbour, 3, 64, 0),
    TEST(global_twice, 1, 64, 0),
    TEST(local_memory, 1, 64, 0),
    TEST(constant, 1, 32, 0),
    TEST(row_end, 1, 17, 0),
    TEST(atomics, 1, 64, 0),
    TEST(atomics_early, 1, 64, 0),
    TEST(global_sum, 3, 64, 0),
    TEST(global_sum_early, 3, 64, 0),
    TEST(global_sum_of_all, 3, 64, 0),
    TEST(named_barrier, 1, 96, 0),
    TEST(matrix_row, 1, 64, 0),
    TEST(copied, 1, 64, 0),
    TEST(parts, 1, 64, 96 * sizeof(float)),
    TEST(vector_tail, 1, 64, 0),
    TEST(freed, 1, 32, 0),
    TEST(pinned, 1, 32, 0),
    TEST(again, 1, 32, 0),
    TEST(copied_whole, 1, 32, 0),
    TEST(copied_early, 1, 64, 0),
    TEST(word_and_half, 2, 8, 0),
    TEST(shared_four_read, 1, 64, 0),
    TEST(shared_four_written, 1, 64, 0),
};

static cudaError_t run(const struct test *t, bool wrong) {
  float *y = nullptr, *other = nullptr;
  const float taps[25] = {1};
  if (cudaMemcpyToSymbol(filter, taps, sizeof taps) != cudaSuccess) return cudaErrorInvalidSymbol;
  if (cudaMalloc(&y, 4096 * sizeof(float)) != cudaSuccess || cudaMalloc(&other, 64) != cudaSuccess) return cudaErrorMemoryAllocation;
  if (strcmp(t->name, "pinned") == 0 && !wrong) {
    float *host = nullptr;
    if (cudaMallocHost(&host, 4096) != cudaSuccess) return cudaErrorMemoryAllocation;
    memset(host, 0, 4096);
    y = host;
  }
  if (strcmp(t->name, "freed") == 0 && wrong) cudaFree(y);
  if (strcmp(t->name, "again") == 0) {
    again<false><<<1, 32>>>(y);
    cudaFree(y);
    if (cudaMalloc(&y, 4096 * sizeof(float)) != cudaSuccess) return cudaErrorMemoryAllocation;
  }
  const kernel k = wrong ? t->wrong : t->right;
  k<<<t->blocks, t->threads, t->shared>>>(y);
  return cudaDeviceSynchronize();
}

/* Copies by the host: inside of marked arrays, then one word too many from the one and to the other. */
static void copies() {
  enum { BYTES = 100 };
  float *x = nullptr;
  cudaMalloc(&x, 4096);
  emu_mark_array(x, BYTES, "x"), emu_mark_array(x + 512, BYTES + 4, "y");
  cudaMemset(x, 0, 4096);
  ok(cudaMemcpy(x + 512, x, BYTES, cudaMemcpyDeviceToDevice) == cudaSuccess && cudaMemcpyToSymbol(filter, x, BYTES, 0, cudaMemcpyDeviceToDevice) == cudaSuccess,
     "a whole array");
  ok(cudaMemcpyAsync(x + 512, x + 1, BYTES, cudaMemcpyDefault) == cudaErrorInvalidValue, "from behind its end");
  ok(cudaMemcpy(x, x + 512, BYTES + 4, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue, "to behind its end");
  ok(cudaMemcpyToSymbolAsync(filter, x + 5, BYTES, 0, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue, "to a variable");
  ok(cudaMemcpyFromSymbol(x + 520, filter, BYTES, 0, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue, "from one");
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "copies") == 0) copies();
  for (const struct test &t : tests)
    if (argc > 1 ? strcmp(argv[1], t.name) == 0 : true) ok(run(&t, argc > 1) == cudaSuccess, "%s", t.name);
  return done_testing();
}
