/* Which element of a matrix each lane holds in which register: ldmatrix, stmatrix, mma. A row for each half or float of a lane; the values: lanes 0 to 31. */
#include <cuda_fp16.h>

#include "common/ptx/ptx.cuh"
#include "tests/golden/golden.h"
#include "tests/on_device.cuh"

enum { WARP = 32 };

/* What ldmatrix brings of matrices that hold 64 matrix + 8 row + column. out: [8 halves][32 lanes]. */
template <int COUNT, int TRANS> __global__ void read_matrices(unsigned *out) {
  __shared__ __align__(16) unsigned short shared[4 * 64];
  const unsigned lane = threadIdx.x;
  for (int i = 0; i < 8; i++) shared[8 * lane + i] = (unsigned short)(8 * lane + i);
  __syncwarp();
  const ptx_shared row = ptx_shared_address(shared + 8 * lane);
  unsigned d[COUNT];
  if constexpr (COUNT == 1 && !TRANS) ptx_ldmatrix_x1(d, row);
  else if constexpr (COUNT == 2 && !TRANS) ptx_ldmatrix_x2(d, row);
  else if constexpr (COUNT == 4 && !TRANS) ptx_ldmatrix_x4(d, row);
  else if constexpr (COUNT == 1) ptx_ldmatrix_x1_trans(d, row);
  else if constexpr (COUNT == 2) ptx_ldmatrix_x2_trans(d, row);
  else ptx_ldmatrix_x4_trans(d, row);
  for (int i = 0; i < 2 * COUNT; i++) out[i * WARP + lane] = d[i / 2] >> 16 * (i % 2) & 0xffff;
}

/* What stmatrix leaves of registers that hold 8 lane + half. out: [4 matrices][8][8]. */
template <int COUNT, int TRANS> __global__ void write_matrices(unsigned *out) {
  __shared__ __align__(16) unsigned short shared[4 * 64];
  const unsigned lane = threadIdx.x;
  for (int i = 0; i < 8; i++) shared[8 * lane + i] = 0xffff;
  __syncwarp();
  const ptx_shared row = ptx_shared_address(shared + 8 * lane);
  unsigned s[COUNT];
  for (unsigned i = 0; i < COUNT; i++) s[i] = (8 * lane + 2 * i) | (8 * lane + 2 * i + 1) << 16;
  if constexpr (COUNT == 1 && !TRANS) ptx_stmatrix_x1(row, s);
  else if constexpr (COUNT == 2 && !TRANS) ptx_stmatrix_x2(row, s);
  else if constexpr (COUNT == 4 && !TRANS) ptx_stmatrix_x4(row, s);
  else if constexpr (COUNT == 1) ptx_stmatrix_x1_trans(row, s);
  else if constexpr (COUNT == 2) ptx_stmatrix_x2_trans(row, s);
  else ptx_stmatrix_x4_trans(row, s);
  __syncwarp();
  for (int i = 0; i < 8; i++) out[8 * lane + i] = shared[8 * lane + i];
}

template <int COUNT, int TRANS> static void matrices(void) {
  unsigned *out = on_device<unsigned>(8 * WARP);
  if (golden_case("ldmatrix x%d%s", COUNT, TRANS ? " trans" : "")) {
    read_matrices<COUNT, TRANS><<<1, WARP>>>(out);
    golden_launched();
    unsigned *d = on_host(out, 8 * WARP);
    for (int i = 0; i < 2 * COUNT; i++) {
      golden_print("%s register %d half %d, matrix.row.column of each lane:", golden_name(), i / 2, i % 2);
      for (int lane = 0; lane < WARP; lane++) golden_print(" %u.%u.%u", d[i * WARP + lane] / 64, d[i * WARP + lane] / 8 % 8, d[i * WARP + lane] % 8);
      golden_print("\n");
    }
    free(d);
  }
  if (golden_case("stmatrix x%d%s", COUNT, TRANS ? " trans" : "")) {
    write_matrices<COUNT, TRANS><<<1, WARP>>>(out);
    golden_launched();
    unsigned *d = on_host(out, 8 * WARP);
    for (int matrix = 0; matrix < 4; matrix++)
      for (int row = 0; row < 8; row++) {
        golden_print("%s matrix %d row %d, lane.register.half of each column:", golden_name(), matrix, row);
        for (int i = (8 * matrix + row) * 8, end = i + 8; i < end; i++)
          if (d[i] == 0xffff) golden_print(" -");
          else golden_print(" %u.%u.%u", d[i] / 8, d[i] / 2 % 4, d[i] % 2);
        golden_print("\n");
      }
    free(d);
  }
  cudaFree(out);
}

/* ---------------------------------------------------------------- mma */

/* The manual's drawings: of a [16][16] half i of a lane, of b [16][8] the same, of d [16][8] float i. */
static __device__ int a_row(int lane, int i) { return lane / 4 + 8 * (i / 2 % 2); }
static __device__ int a_k(int lane, int i) { return 2 * (lane % 4) + i % 2 + 8 * (i / 4); }
static __device__ int b_k(int lane, int i) { return 2 * (lane % 4) + i % 2 + 8 * (i / 2); }
static __device__ int b_column(int lane) { return lane / 4; }

static __device__ void set_half(unsigned *registers, int i, int value) {
  const unsigned bits = __half_as_ushort(__int2half_rn(value));
  registers[i / 2] = i % 2 == 0 ? (registers[i / 2] & 0xffff0000u) | bits : (registers[i / 2] & 0xffffu) | bits << 16;
}

/* Which operand is asked for: the others are as the manual says. */
typedef enum { OF_D, OF_A_LOW, OF_A_HIGH, OF_B } question;

/* Products by a matrix of ones in its diagonal tell what lies where. out: [4 floats][32 lanes].
 * D: a (row, 0) = row, a (., 1) = 1, b (0, .) = 8, b (1, column) = column: d = 8 row + column. A: d (row, column) = a (row, column), or the columns from 8 on.
 * B: d (row, column) = b (row, column). Halves that are asked for hold 8 lane + half + 1. */
template <int DEPTH> __global__ void multiply(question what, float *out) {
  const int lane = threadIdx.x;
  unsigned a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < DEPTH / 2; i++) {
    const int row = a_row(lane, i), k = a_k(lane, i);
    set_half(a, i, what == OF_D ? (k == 0 ? row : k == 1) : what == OF_B ? row == k : 8 * lane + i + 1);
  }
  for (int i = 0; i < DEPTH / 4; i++) {
    const int k = b_k(lane, i), column = b_column(lane);
    set_half(b, i, what == OF_D ? (k == 0 ? 8 : k == 1 ? column : 0) : what == OF_B ? 8 * lane + i + 1 : k == column + (what == OF_A_HIGH ? 8 : 0));
  }
  if constexpr (DEPTH == 16) ptx_mma_m16n8k16(d, a, b);
  else ptx_mma_m16n8k8(d, a, b);
  for (int i = 0; i < 4; i++) out[i * WARP + lane] = d[i];
}

static int asked_d(int lane, int i) { return (lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2; }

template <int DEPTH> static void products(void) {
  static const char *const named[] = {"d", "a", "a", "b"};
  float *out = on_device<float>(4 * WARP);
  for (int what = OF_D; what <= OF_B; what++) {
    if (what == OF_A_HIGH && DEPTH == 8) continue;
    if (!golden_case("mma m16n8k%d %s%s", DEPTH, named[what], what == OF_A_LOW ? " k 0..7" : what == OF_A_HIGH ? " k 8..15" : "")) continue;
    multiply<DEPTH><<<1, WARP>>>((question)what, out);
    golden_launched();
    float *d = on_host(out, 4 * WARP);
    if (what == OF_D) {
      for (int i = 0; i < 4; i++) {
        golden_print("%s register %d, row.column of each lane:", golden_name(), i);
        for (int lane = 0; lane < WARP; lane++) golden_print(" %d.%d", (int)d[i * WARP + lane] / 8, (int)d[i * WARP + lane] % 8);
        golden_print("\n");
      }
    } else {
      float place[128];
      for (int i = 0; i < 4; i++)
        for (int lane = 0; lane < WARP; lane++) place[asked_d(lane, i)] = d[i * WARP + lane];
      for (int row = 0; row < (what == OF_B ? DEPTH : 16); row++) {
        golden_print("%s %s %d, lane.register.half of each %s:", golden_name(), what == OF_B ? "k" : "row", row, what == OF_B ? "column" : "k");
        for (int i = 8 * row; i < 8 * row + 8; i++) {
          const int id = (int)place[i] - 1;
          if (id < 0) golden_print(" -");
          else golden_print(" %d.%d.%d", id / 8, id / 2 % 4, id % 2);
        }
        golden_print("\n");
      }
    }
    free(d);
  }
  cudaFree(out);
}

void golden_fragments(void) {
  matrices<1, 0>();
  matrices<2, 0>();
  matrices<4, 0>();
  matrices<1, 1>();
  matrices<2, 1>();
  matrices<4, 1>();
  products<16>();
  products<8>();
}
