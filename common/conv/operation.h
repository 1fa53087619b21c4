/* What is to be computed: one pass of one convolution, and what happens to its result before it is stored. */
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
} conv_epilogue;

typedef struct conv_operation {
  conv_problem problem;
  conv_pass pass;
  conv_epilogue epilogue;
} conv_operation;

static inline bool epilogue_empty(const conv_epilogue *e) { return !e->scale && !e->bias && !e->residual && e->activation == ACTIVATION_NONE; }

#ifdef __cplusplus
}
#endif
