/* What happens to a convolution's result before it is stored: names, data, and the right answer. */
#pragma once
#include "common/conv/bound.h"
#include "common/conv/operation.h"
#include "common/conv/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EPILOGUE_NAME = 48 };

/* "scale,bias,residual,relu" in any order, one activation at most. Returns 0, or -1 with the word that is none of them in *wrong. */
int epilogue_parse(conv_epilogue *e, const char *text, char wrong[EPILOGUE_NAME]);

/* "+scale+bias+residual+relu", in the order in which they are computed, and "+fp32" if that is how the result is stored; "" for an empty one. */
void epilogue_print(const conv_epilogue *e, char name[EPILOGUE_NAME]);

/* Its data. Parts that the epilogue lacks are not looked at. */
typedef struct epilogue_data {
  conv_tensor scale, bias; /* fp32, one for each channel of the result */
  conv_tensor residual;    /* the result's shape, type and layout */
} epilogue_data;

/* Shapes of the parts that the operation has, for a result of this shape, without memory; the others have count 0. */
epilogue_data epilogue_describe(const conv_epilogue *e, const conv_tensor *result);

/* What its parts are filled with: 0 the scale, 1 the bias, 2 the residual. magnitude 0: random normal. Else integers, and powers of two as the scale, so that
 * what was exact stays so. dtype: the result's; where that is fp16 a bias has values of fp16, so that whoever wants it in that type computes the same. */
conv_source epilogue_source(int part, uint64_t seed, int magnitude, conv_dtype dtype);

/* Allocates and fills on the host. Returns 0, or -1: no memory. Free with epilogue_free either way. */
int epilogue_fill(epilogue_data *data, uint64_t seed, int magnitude);
void epilogue_free(epilogue_data *data);

/* Largest factor by which integers of epilogue_fill() enlarge sums of products, and the most that they add. 0: no exact integers (GELU, SiLU). */
int epilogue_exact_factor(const conv_epilogue *e);
enum { EPILOGUE_ADDS = 16 };

/* What it makes of one result, in fp64. */
static inline HOST_DEVICE double epilogue_value(const conv_epilogue *e, double sum, double scale, double bias, double residual) {
  const double t = (e->scale ? scale * sum : sum) + (e->bias ? bias : 0) + (e->residual ? residual : 0);
  switch (e->activation) {
    case ACTIVATION_RELU: return fmax(t, 0.0);
    case ACTIVATION_RELU6: return fmin(fmax(t, 0.0), 6.0);
    case ACTIVATION_GELU: return 0.5 * t * erfc(-t * 0x1.6a09e667f3bcdp-1 /* sqrt(1/2) */);
    case ACTIVATION_SILU: return t / (1 + exp(-t));
    default: return t;
  }
}

/* And of its bound's sum: with F = |scale| * sum + |bias| + |residual| that becomes L * F, where L is the steepest slope of the activation: of x * Phi(x) at
 * sqrt(2), of x / (1 + exp(-x)) at 2.4. What the epilogue's own roundings add is epilogue_growth(). */
static inline HOST_DEVICE float epilogue_scale(const conv_epilogue *e, double sum, double scale, double bias, double residual) {
  const double steepest = e->activation == ACTIVATION_GELU ? 1.13 : e->activation == ACTIVATION_SILU ? 1.1 : 1;
  return round_scale(steepest * (fabs(scale) * sum + fabs(bias) + fabs(residual)));
}

/* tensor_describe() of an operation's tensor: its result has a type of its own, if the epilogue says so. */
conv_tensor operation_tensor(const conv_problem *p, conv_pass pass, const conv_epilogue *e, tensor_role role, conv_dtype dtype, conv_layout layout);

/* The epilogue of an operation by itself: a pointwise operation over its result. */
conv_operation epilogue_alone(const conv_operation *o);

/* Bytes that the operation touches at least: its pass's (problem_traffic()), and what its epilogue reads. */
conv_traffic operation_traffic(const conv_operation *o, conv_dtype dtype);

/* Added to g: a rounding for each of scale, bias and residual, 8 for an activation that is more than a comparison. On random data a sum may be 8 times as
 * large as the scale that stands for it (common/conv/bound.h). */
double epilogue_growth(const conv_epilogue *e, bool random);

#ifdef __cplusplus
}
#endif
