/* The reference for problems that would keep a CPU busy for minutes, in fp64, for any layout and dtype: one thread per output; for wgrad, whose outputs are few
 * and whose sums are long, a column of threads.
 *
 * It is written apart from 00_cpu_reference/a_definition.c on purpose (the input pixel leads here, the output pixel there), and the
 * harness compares a sample of its elements with that definition in every run. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/conv/bound.h"
#include "common/conv/reference.h"

enum { THREADS = 256, OUTPUTS = 32, SLICES = 32 /* of a sum of wgrad's */ };

static __device__ double element(const conv_tensor &t, int i, int j, int k, int l) {
  const long long offset = i * (long long)t.stride[0] + j * (long long)t.stride[1] + k * (long long)t.stride[2] + l * (long long)t.stride[3];
  return t.dtype == DTYPE_FP16 ? (double)__half2float(((const __half *)t.data)[offset]) : (double)((const float *)t.data)[offset];
}

/* Output position that reads input position `in` through tap `tap`; -1 if none does. */
static __device__ int output_of(int in, int tap, int pad, int dil, int stride, int outputs) {
  const int reach = in + pad - tap * dil;
  return reach >= 0 && reach % stride == 0 && reach / stride < outputs ? reach / stride : -1;
}

/* One sum of products, and the sum of its bound. */
struct sums {
  double value, spread;
};

static __device__ void add(sums *to, double left, double right, bool random) {
  const double product = left * right;
  to->value += product;
  to->spread += random ? product * product : fabs(product);
}

static __device__ void store(long long index, sums s, double *value, float *scale, bool random) {
  value[index] = s.value;
  scale[index] = round_scale(random ? sqrt(s.spread) : s.spread);
}

__global__ void __launch_bounds__(THREADS)
    reference_kernel(conv_problem p, conv_pass pass, conv_tensor a, conv_tensor b, conv_tensor out, double *value, float *scale, bool random) {
  const long long index = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (index >= out.count) return;
  int at[4];
  tensor_coordinates(&out, index, at);
  const int group_c = p.C / p.groups, group_k = p.K / p.groups;
  sums sum = {0, 0};
  if (pass == PASS_FPROP) { /* a = x, b = w; at = n, k, p, q */
    const int first_c = at[1] / group_k * group_c, top = at[2] * p.stride_h - p.pad_top, left = at[3] * p.stride_w - p.pad_left;
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) {
        const int h = top + r * p.dil_h, w = left + s * p.dil_w;
        if (h < 0 || h >= p.H || w < 0 || w >= p.W) continue;
        for (int c = 0; c < group_c; c++) add(&sum, element(a, at[0], first_c + c, h, w), element(b, at[1], c, r, s), random);
      }
  } else { /* dgrad: a = dy, b = w; at = n, c, h, w */
    const int first_k = at[1] / group_c * group_k, c = at[1] % group_c;
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) {
        const int out_p = output_of(at[2], r, p.pad_top, p.dil_h, p.stride_h, p.P);
        const int out_q = output_of(at[3], s, p.pad_left, p.dil_w, p.stride_w, p.Q);
        if (out_p < 0 || out_q < 0) continue;
        for (int k = first_k; k < first_k + group_k; k++) add(&sum, element(a, at[0], k, out_p, out_q), element(b, k, c, r, s), random);
      }
  }
  store(index, sum, value, scale, random);
}

/* a = x, b = dy; an output is k, c, r, s. threadIdx.x: which of the block's outputs; threadIdx.y: which rows of the images. */
__global__ void __launch_bounds__(OUTPUTS *SLICES, 1)
    reference_wgrad_kernel(conv_problem p, conv_tensor a, conv_tensor b, conv_tensor out, double *value, float *scale, bool random) {
  __shared__ sums part[SLICES][OUTPUTS];
  const long long index = (long long)blockIdx.x * OUTPUTS + threadIdx.x;
  sums sum = {0, 0};
  if (index < out.count) {
    int at[4];
    tensor_coordinates(&out, index, at);
    const int x_c = at[0] / (p.K / p.groups) * (p.C / p.groups) + at[1];
    for (long long row = threadIdx.y; row < (long long)p.N * p.H; row += SLICES) {
      const int n = (int)(row / p.H), h = (int)(row % p.H);
      const int out_p = output_of(h, at[2], p.pad_top, p.dil_h, p.stride_h, p.P);
      if (out_p < 0) continue;
      for (int w = 0; w < p.W; w++) {
        const int out_q = output_of(w, at[3], p.pad_left, p.dil_w, p.stride_w, p.Q);
        if (out_q >= 0) add(&sum, element(a, n, x_c, h, w), element(b, n, at[0], out_p, out_q), random);
      }
    }
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || index >= out.count) return;
  for (int i = 1; i < SLICES; i++) {
    sum.value += part[i][threadIdx.x].value;
    sum.spread += part[i][threadIdx.x].spread;
  }
  store(index, sum, value, scale, random);
}

cudaError_t gpu_reference(const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, const conv_tensor *out, double *value,
                          float *scale, bool random) {
  const int outputs = pass == PASS_WGRAD ? OUTPUTS : THREADS;
  const long long blocks = (out->count + outputs - 1) / outputs;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  if (pass == PASS_WGRAD) reference_wgrad_kernel<<<(unsigned)blocks, dim3(OUTPUTS, SLICES)>>>(*p, *a, *b, *out, value, scale, random);
  else reference_kernel<<<(unsigned)blocks, THREADS>>>(*p, pass, *a, *b, *out, value, scale, random);
  return cudaGetLastError();
}
