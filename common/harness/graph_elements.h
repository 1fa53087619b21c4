/* What is done with each element when a graph is judged: on the host in threads, on the device by a kernel, by the same code. */
#pragma once
#include <cuda_runtime_api.h>
#include <math.h>

#include "common/conv/epilogue.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ELEMENT_ROUNDED,   /* tensor = value, rounded to its type */
  ELEMENT_MAGNITUDE, /* tensor = |other| */
  ELEMENT_OFF,       /* out = by how much a kernel's own may differ from `tensor`: its bound, and what rounding took */
  ELEMENT_SPREAD,    /* out = value as the scale of an epilogue would enlarge it */
  ELEMENT_WIDER,     /* scale = scale + in / growth */
  ELEMENT_LARGEST,   /* out = |value in tensor| */
  ELEMENT_APART,     /* out = |tensor - other|, infinite where either is no number; equal infinities are 0 apart */
} element_action;

/* All of its memory is in one place. What an action does not name is not looked at. */
typedef struct element_work {
  element_action action;
  int64_t count;
  conv_tensor tensor, other;
  const double *value;
  float *scale, *out;
  const float *in;
  double growth;
  int64_t terms;
  conv_epilogue epilogue;
  conv_tensor factors; /* the epilogue's scale, one for each channel of `channels`; channels are last in memory */
  int channels;
} element_work;

static inline HOST_DEVICE void element_do(const element_work *w, int64_t i) {
  switch (w->action) {
    case ELEMENT_ROUNDED: tensor_set(&w->tensor, i, w->value[i]); break;
    case ELEMENT_MAGNITUDE: tensor_set(&w->tensor, i, fabs((double)tensor_get(&w->other, i))); break;
    case ELEMENT_OFF:
      w->out[i] =
          (float)(error_bound(w->value[i], (double)w->scale[i], w->growth, w->terms, w->tensor.dtype) + fabs((double)tensor_get(&w->tensor, i) - w->value[i]));
      break;
    case ELEMENT_SPREAD:
      w->out[i] = epilogue_scale(&w->epilogue, w->value[i], w->epilogue.scale ? (double)tensor_get(&w->factors, i % w->channels) : 1, 0, 0);
      break;
    case ELEMENT_WIDER: w->scale[i] += round_scale((double)w->in[i] / w->growth); break;
    case ELEMENT_LARGEST: w->out[i] = fabsf(tensor_get(&w->tensor, i)); break;
    case ELEMENT_APART: {
      const float one = tensor_get(&w->tensor, i), other = tensor_get(&w->other, i);
      const float apart = one == other ? 0 : fabsf(one - other); /* infinities, too */
      w->out[i] = apart >= 0 ? apart : INFINITY;                 /* no number is not */
      break;
    }
  }
}

/* All elements by a kernel, on the default stream. */
cudaError_t gpu_elements(const element_work *work);

#ifdef __cplusplus
}
#endif
