/* What is to be computed: one pass of a convolution, or something simpler, and what happens to the result before it is stored. */
#pragma once
#include "common/conv/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum conv_activation { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_RELU6, ACTIVATION_GELU, ACTIVATION_SILU, ACTIVATION_COUNT } conv_activation;

/* The result becomes activation(scale * sum + bias + residual). scale, bias: one fp32 value for each channel of the result; residual: a tensor of the
 * result's shape, type and layout. */
typedef struct conv_epilogue {
  bool scale, bias, residual;
  conv_activation activation;
  bool fp32; /* stored as fp32, whatever the inputs' type (a residual then is fp32 too) */
} conv_epilogue;

/* A pointwise operation is an epilogue alone, over the problem's y in the place of a result of sums; max-pooling takes the largest pixel of the problem's
 * window in each channel (padding takes no part). Both read x, have no filter, and are "forward": C = K = groups, and for a pointwise operation P = H, Q =
 * W. */
typedef enum operation_kind { OPERATION_CONVOLUTION, OPERATION_POINTWISE, OPERATION_MAX_POOL } operation_kind;

typedef struct conv_operation {
  operation_kind kind;
  conv_problem problem;
  conv_pass pass;
  conv_epilogue epilogue;
  bool transposed; /* a dgrad that is no gradient, but a convolution of its own (common/conv/transposed.h): another name, the same kernels */
} conv_operation;

/* "fprop", "dgrad", "wgrad"; "transposed". */
static inline const char *operation_name(const conv_operation *o) { return o->transposed ? "transposed" : pass_name(o->pass); }

/* Does it compute nothing? */
static inline bool epilogue_empty(const conv_epilogue *e) { return !e->scale && !e->bias && !e->residual && e->activation == ACTIVATION_NONE; }

#ifdef __cplusplus
}
#endif
