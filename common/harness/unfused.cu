/* What comes between convolutions where no kernel has fused it: an epilogue by itself, and max-pooling. A thread has one element, or eight that lie
 * together; memory is all that counts.
 * Rows for a graph (common/harness/graph.h): fp32 NCHW and fp16 NHWC. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/harness/plain.h"
#include "common/harness/plan.h"

enum { THREADS = 256 };

static __device__ float to_float(float v) { return v; }
static __device__ float to_float(__half v) { return __half2float(v); }
static __device__ void store(float *to, float v) { *to = v; }
static __device__ void store(__half *to, float v) { *to = __float2half(v); }

static __device__ float activate(conv_activation a, float t) {
  switch (a) {
    case ACTIVATION_RELU: return fmaxf(t, 0);
    case ACTIVATION_RELU6: return fminf(fmaxf(t, 0), 6);
    case ACTIVATION_GELU: return 0.5f * t * erfcf(-t * 0.70710678f);
    case ACTIVATION_SILU: return t / (1 + expf(-t));
    default: return t;
  }
}

/* channel = i / inner % channels: inner is a plane of NCHW, or 1 in NHWC. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    pointwise_kernel(int64_t count, int inner, int channels, conv_epilogue e, const T *x, const float *scale, const float *bias, const T *residual, T *y) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  const int channel = (int)(i / inner % channels);
  float t = to_float(x[i]);
  if (e.scale) t *= scale[channel];
  if (e.bias) t += bias[channel];
  if (e.residual) t += to_float(residual[i]);
  store(&y[i], activate(e.activation, t));
}

/* Halves whose channels come in eights, NHWC: a thread has eight. */
__global__ void __launch_bounds__(THREADS) pointwise_chunks_kernel(int64_t count, int chunks, conv_epilogue e, const uint4 *x, const float4 *scale,
                                                                   const float4 *bias, const uint4 *residual, uint4 *y) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  const int chunk = (int)(i % chunks);
  const float4 none = make_float4(0, 0, 0, 0), one = make_float4(1, 1, 1, 1);
  const uint4 values = x[i], others = e.residual ? residual[i] : make_uint4(0, 0, 0, 0);
  const float4 scales[2] = {e.scale ? scale[2 * chunk] : one, e.scale ? scale[2 * chunk + 1] : one};
  const float4 biases[2] = {e.bias ? bias[2 * chunk] : none, e.bias ? bias[2 * chunk + 1] : none};
  uint4 results;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const float t = to_float(((const __half *)&values)[j]) * ((const float *)scales)[j] + ((const float *)biases)[j] + to_float(((const __half *)&others)[j]);
    store((__half *)&results + j, activate(e.activation, t));
  }
  y[i] = results;
}

template <class T, bool NHWC> __global__ void __launch_bounds__(THREADS) max_pool_kernel(int64_t count, conv_problem p, const T *x, T *y) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  const int c = NHWC ? (int)(i % p.K) : (int)(i / p.Q / p.P % p.K);
  const int64_t pixel = NHWC ? i / p.K : i / p.Q / p.P / p.K * p.P * p.Q + i % ((int64_t)p.P * p.Q); /* (n, p, q) as one number */
  const int q = (int)(pixel % p.Q), row = (int)(pixel / p.Q % p.P), n = (int)(pixel / p.Q / p.P);
  float most = -INFINITY;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int h = row * p.stride_h - p.pad_top + r * p.dil_h, w = q * p.stride_w - p.pad_left + s * p.dil_w;
      if (h < 0 || h >= p.H || w < 0 || w >= p.W) continue;
      const int64_t at = NHWC ? (((int64_t)n * p.H + h) * p.W + w) * p.C + c : (((int64_t)n * p.C + c) * p.H + h) * p.W + w;
      most = fmaxf(most, to_float(x[at]));
    }
  store(&y[i], most);
}

/* Halves whose channels come in eights, NHWC. */
__global__ void __launch_bounds__(THREADS) max_pool_chunks_kernel(int count, int chunks, conv_problem p, const uint4 *x, uint4 *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  const int chunk = i % chunks, pixel = i / chunks, row = pixel / p.Q % p.P, n = pixel / p.Q / p.P;
  const int first_h = row * p.stride_h - p.pad_top, first_w = pixel % p.Q * p.stride_w - p.pad_left;
  __half2 most[4];
#pragma unroll
  for (int j = 0; j < 4; j++) most[j] = __half2half2(__ushort_as_half(0xfc00)); /* minus infinity */
  for (int r = 0; r < p.R; r++) {
    const int h = first_h + r * p.dil_h;
    if (h < 0 || h >= p.H) continue;
    const uint4 *from = x + ((int64_t)n * p.H + h) * p.W * chunks + chunk;
#pragma unroll 3
    for (int s = 0; s < p.S; s++) {
      const int w = first_w + s * p.dil_w;
      if (w < 0 || w >= p.W) continue;
      const uint4 values = from[(int64_t)w * chunks];
#pragma unroll
      for (int j = 0; j < 4; j++) most[j] = __hmax2(most[j], ((const __half2 *)&values)[j]);
    }
  }
  uint4 results;
#pragma unroll
  for (int j = 0; j < 4; j++) ((__half2 *)&results)[j] = most[j];
  y[i] = results;
}

/* ---------------------------------------------------------------- host */

static const char *plan_pointwise(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  (void)device, (void)plan;
  if (p->K != p->C || p->P != p->H || p->Q != p->W) return "a pointwise operation has the same shape before and after";
  return (problem_y_count(p) + THREADS - 1) / THREADS > INT_MAX ? "2^31 blocks or more" : NULL;
}

/* Whether the window that begins at `from` has no tap inside the image, along an axis. */
static bool sees_nothing(int64_t from, int taps, int dil, int size) {
  const int64_t first = from >= 0 ? 0 : (dil - 1 - from) / dil; /* the first tap that is not before it */
  return first >= taps || from + first * dil >= size;
}

/* Whether one of so many windows sees nothing but padding: the first or the last, if no two taps are so far apart that the image lies between them. */
static bool one_sees_nothing(int windows, int stride, int pad, int taps, int dil, int size) {
  const bool apart = taps > 1 && dil > size;
  for (int64_t i = 0; apart && i < windows; i++)
    if (sees_nothing(i * stride - pad, taps, dil, size)) return true;
  return sees_nothing(-pad, taps, dil, size) || sees_nothing((windows - 1LL) * stride - pad, taps, dil, size);
}

static const char *plan_max_pool(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  (void)device, (void)plan;
  if (p->K != p->C) return "pooling has as many channels before as after";
  if (one_sees_nothing(p->P, p->stride_h, p->pad_top, p->R, p->dil_h, p->H) || one_sees_nothing(p->Q, p->stride_w, p->pad_left, p->S, p->dil_w, p->W))
    return "a window of max-pooling sees nothing but padding";
  return (problem_y_count(p) + THREADS - 1) / THREADS > INT_MAX ? "2^31 blocks or more" : NULL;
}

template <class T, bool NHWC> static cudaError_t launch_pointwise(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const int64_t count = problem_y_count(p), chunks = count / 8;
  if (NHWC && sizeof(T) == 2 && p->K % 8 == 0)
    pointwise_chunks_kernel<<<(unsigned)((chunks + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        chunks, p->K / 8, plan->operation.epilogue, (const uint4 *)b->x, (const float4 *)b->scale, (const float4 *)b->bias, (const uint4 *)b->residual,
        (uint4 *)b->y);
  else
    pointwise_kernel<T><<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        count, NHWC ? 1 : p->P * p->Q, p->K, plan->operation.epilogue, (const T *)b->x, b->scale, b->bias, (const T *)b->residual, (T *)b->y);
  return cudaGetLastError();
}

template <class T, bool NHWC> static cudaError_t launch_max_pool(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const int64_t count = problem_y_count(p), chunks = count / 8;
  if (NHWC && sizeof(T) == 2 && p->K % 8 == 0 && chunks <= INT_MAX - THREADS)
    max_pool_chunks_kernel<<<(unsigned)((chunks + THREADS - 1) / THREADS), THREADS, 0, stream>>>((int)chunks, p->K / 8, *p, (const uint4 *)b->x, (uint4 *)b->y);
  else max_pool_kernel<T, NHWC><<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, stream>>>(count, *p, (const T *)b->x, (T *)b->y);
  return cudaGetLastError();
}

/* Neither adds anything up; the epilogue's own roundings are counted by who asks (common/conv/epilogue.h). */
static double no_growth(const conv_problem *p, bool random) { return (void)p, (void)random, 0; }

#define UNFUSED_ROW(variable, NAME, DTYPE, LAYOUT, DOES, FUSES, PLAN, LAUNCH) \
  extern "C" const conv_kernel variable;                                      \
  const conv_kernel variable = {.name = NAME,                                 \
                                .idea = "one element a thread",               \
                                .place = ON_GPU,                              \
                                .pass = PASS_FPROP,                           \
                                .dtype = DTYPE,                               \
                                .layout = LAYOUT,                             \
                                .min_arch = 0,                                \
                                .plan = PLAN,                                 \
                                .launch = LAUNCH,                             \
                                .growth = no_growth,                          \
                                .fuses = FUSES,                               \
                                .does = DOES}
enum { FUSES_ALL = FUSES_SCALE | FUSES_BIAS | FUSES_RESIDUAL | FUSES_ACTIVATION };
UNFUSED_ROW(pointwise_fp32, "pointwise", DTYPE_FP32, LAYOUT_NCHW, OPERATION_POINTWISE, FUSES_ALL, plan_pointwise, (launch_pointwise<float, false>));
UNFUSED_ROW(pointwise_fp16, "pointwise", DTYPE_FP16, LAYOUT_NHWC, OPERATION_POINTWISE, FUSES_ALL, plan_pointwise, (launch_pointwise<__half, true>));
UNFUSED_ROW(max_pool_fp32, "max-pool", DTYPE_FP32, LAYOUT_NCHW, OPERATION_MAX_POOL, 0, plan_max_pool, (launch_max_pool<float, false>));
UNFUSED_ROW(max_pool_fp16, "max-pool", DTYPE_FP16, LAYOUT_NHWC, OPERATION_MAX_POOL, 0, plan_max_pool, (launch_max_pool<__half, true>));
