/* The two halves of 05a, for who wants one alone (05_im2col_gemm/tools/cublas.c), by 05a's plan. columns: [C*R*S][N*P*Q], on the device. */
#pragma once
#include "common/harness/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t launch_im2col(const conv_plan *plan, const float *x, float *columns, cudaStream_t stream);                 /* columns = the windows of x */
cudaError_t launch_matmul(const conv_plan *plan, const float *w, const float *columns, float *y, cudaStream_t stream); /* y = w * columns */

#ifdef __cplusplus
}
#endif
