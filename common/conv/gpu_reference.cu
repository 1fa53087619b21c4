/* The reference for problems that would keep a CPU busy for minutes: one thread per output, fp64, any layout and dtype.
 *
 * It is written apart from 00_cpu_reference/a_definition.c on purpose (the input pixel leads here, the output pixel there), and the
 * harness compares a sample of its elements with that definition in every run. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/conv/bound.h"
#include "common/conv/reference.h"

enum { THREADS = 256 };

static __device__ double element(const conv_tensor &t, int i, int j, int k, int l) {
  const long long offset = i * (long long)t.stride[0] + j * (long long)t.stride[1] + k * (long long)t.stride[2] + l * (long long)t.stride[3];
  return t.dtype == DTYPE_FP16 ? (double)__half2float(((const __half *)t.data)[offset]) : (double)((const float *)t.data)[offset];
}

/* Output position that reads input position `in` through tap `tap`; -1 if none does. */
static __device__ int output_of(int in, int tap, int pad, int dil, int stride, int outputs) {
  const int reach = in + pad - tap * dil;
  return reach >= 0 && reach % stride == 0 && reach / stride < outputs ? reach / stride : -1;
}

__global__ void __launch_bounds__(THREADS) reference_kernel(conv_problem p, conv_pass pass, conv_tensor a, conv_tensor b, conv_tensor out, double *value,
                                                            float *scale, bool random) {
  const long long index = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (index >= out.count) return;
  int at[4];
  for (int axis = 0; axis < 4; axis++) at[axis] = (int)(index / out.stride[axis] % out.dim[axis]);
  const int group_c = p.C / p.groups, group_k = p.K / p.groups;

  double sum = 0, spread = 0;
  const auto add = [&](double left, double right) {
    const double product = left * right;
    sum += product;
    spread += random ? product * product : fabs(product);
  };
  if (pass == PASS_FPROP) { /* a = x, b = w; at = n, k, p, q */
    const int first_c = at[1] / group_k * group_c, top = at[2] * p.stride_h - p.pad_top, left = at[3] * p.stride_w - p.pad_left;
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) {
        const int h = top + r * p.dil_h, w = left + s * p.dil_w;
        if (h < 0 || h >= p.H || w < 0 || w >= p.W) continue;
        for (int c = 0; c < group_c; c++) add(element(a, at[0], first_c + c, h, w), element(b, at[1], c, r, s));
      }
  } else if (pass == PASS_DGRAD) { /* a = dy, b = w; at = n, c, h, w */
    const int first_k = at[1] / group_c * group_k, c = at[1] % group_c;
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) {
        const int out_p = output_of(at[2], r, p.pad_top, p.dil_h, p.stride_h, p.P);
        const int out_q = output_of(at[3], s, p.pad_left, p.dil_w, p.stride_w, p.Q);
        if (out_p < 0 || out_q < 0) continue;
        for (int k = first_k; k < first_k + group_k; k++) add(element(a, at[0], k, out_p, out_q), element(b, k, c, r, s));
      }
  } else { /* a = x, b = dy; at = k, c, r, s */
    const int x_c = at[0] / group_k * group_c + at[1];
    for (int h = 0; h < p.H; h++) {
      const int out_p = output_of(h, at[2], p.pad_top, p.dil_h, p.stride_h, p.P);
      if (out_p < 0) continue;
      for (int w = 0; w < p.W; w++) {
        const int out_q = output_of(w, at[3], p.pad_left, p.dil_w, p.stride_w, p.Q);
        if (out_q < 0) continue;
        for (int n = 0; n < p.N; n++) add(element(a, n, x_c, h, w), element(b, n, at[0], out_p, out_q));
      }
    }
  }
  value[index] = sum;
  scale[index] = round_scale(random ? sqrt(spread) : spread);
}

cudaError_t gpu_reference(const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, const conv_tensor *out, double *value,
                          float *scale, bool random) {
  const long long blocks = (out->count + THREADS - 1) / THREADS;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  reference_kernel<<<(unsigned)blocks, THREADS>>>(*p, pass, *a, *b, *out, value, scale, random);
  return cudaGetLastError();
}
