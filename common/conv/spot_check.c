/* The CPU's word on the GPU's reference. See spot_check.h. */
#include "common/conv/spot_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "00_cpu_reference/definition.h"

enum { SAMPLES = 32 };

/* A part of a tensor: positions from[axis] .. to[axis] - 1. */
typedef struct {
  int from[4], to[4];
} box;

static box all_of(const conv_tensor *t) { return (box){.to = {t->dim[0], t->dim[1], t->dim[2], t->dim[3]}}; }

static void narrow(box *b, int axis, int from, int to) {
  if (from > b->from[axis]) b->from[axis] = from;
  if (to < b->to[axis]) b->to[axis] = to;
}

/* What the element at[] of the result is made of, of either input: all that the definition looks at, and not much more. */
static void needed(const conv_problem *p, conv_pass pass, const int at[4], box *a, box *b) {
  const int reach_h = (p->R - 1) * p->dil_h, reach_w = (p->S - 1) * p->dil_w;
  const int group_c = p->C / p->groups, group_k = p->K / p->groups;
  if (pass != PASS_WGRAD) narrow(a, 0, at[0], at[0] + 1); /* an image */
  if (pass == PASS_FPROP) {                               /* the pixels under the filter; the filter */
    const int top = at[2] * p->stride_h - p->pad_top, left = at[3] * p->stride_w - p->pad_left;
    narrow(a, 2, top, top + reach_h + 1), narrow(a, 3, left, left + reach_w + 1);
    narrow(b, 0, at[1], at[1] + 1);
  } else if (pass == PASS_DGRAD) { /* the outputs that a pixel went into; its channel in every filter */
    const int down = at[2] + p->pad_top, right = at[3] + p->pad_left;
    narrow(a, 2, (down - reach_h) / p->stride_h, down / p->stride_h + 1), narrow(a, 3, (right - reach_w) / p->stride_w, right / p->stride_w + 1);
    narrow(b, 1, at[1] % group_c, at[1] % group_c + 1);
  } else { /* of every image the channel that goes in, and the one that came out */
    const int c = at[0] / group_k * group_c + at[1];
    narrow(a, 1, c, c + 1);
    narrow(b, 1, at[0], at[0] + 1);
  }
}

/* Puts a part of a tensor where it belongs in an array of all its elements in logical order. */
static void fill(float *values, const conv_tensor *t, const conv_source *from, const box *b) {
  const int64_t images = b->to[0] - b->from[0], rows = (b->to[1] - b->from[1]) * (int64_t)(b->to[2] - b->from[2]);
#pragma omp parallel for collapse(3) if (images * rows > 1000)
  for (int i = b->from[0]; i < b->to[0]; i++)
    for (int j = b->from[1]; j < b->to[1]; j++)
      for (int k = b->from[2]; k < b->to[2]; k++)
        for (int l = b->from[3]; l < b->to[3]; l++) {
          const int64_t index = i * t->stride[0] + j * t->stride[1] + k * t->stride[2] + l * t->stride[3];
          values[index] = dtype_round(source_value(from, index), t->dtype);
        }
}

static int64_t place(const conv_reference *ref, int sample) {
  const uint64_t last = (uint64_t)ref->shape.count - 1;
  return sample == 0 ? 0 : sample == 1 ? (int64_t)last : (int64_t)random_below(17, (uint64_t)sample, last + 1);
}

/* Element i of the reference. */
static cudaError_t fetch(const conv_reference *ref, int64_t i, double *value, float *scale) {
  if (!ref->room) {
    *value = ref->value[i], *scale = ref->scale[i];
    return cudaSuccess;
  }
  const cudaError_t status = cudaMemcpy(value, ref->value + i, sizeof *value, cudaMemcpyDeviceToHost);
  return status ? status : cudaMemcpy(scale, ref->scale + i, sizeof *scale, cudaMemcpyDeviceToHost);
}

/* What the epilogue makes of an element. */
static void apply(const conv_epilogue *e, const conv_source from[3], const conv_tensor *shape, int64_t i, const int at[4], double *value, double *absolute,
                  float *scale) {
  const double s = e->scale ? dtype_round(source_value(&from[0], at[1]), DTYPE_FP32) : 1,
               b = e->bias ? dtype_round(source_value(&from[1], at[1]), DTYPE_FP32) : 0;
  const double r = e->residual ? dtype_round(source_value(&from[2], tensor_index(shape, i)), shape->dtype) : 0;
  *value = epilogue_value(e, *value, s, b, r);
  *absolute = epilogue_scale(e, *absolute, s, b, r);
  *scale = epilogue_scale(e, *scale, s, b, r);
}

int spot_check(const conv_reference *ref, const conv_problem *p, conv_pass pass, conv_dtype dtype, const conv_source from[2], const conv_epilogue *e,
               const conv_source fused[3], char *error, size_t error_size) {
  const conv_tensor a = tensor_describe(p, pass_input_a(pass), dtype, LAYOUT_NCHW), b = tensor_describe(p, pass_input_b(pass), dtype, LAYOUT_NCHW);
  float *floats_a = calloc((size_t)a.count, sizeof *floats_a),
        *floats_b = calloc((size_t)b.count, sizeof *floats_b); /* pages that nobody writes take no memory */
  const conv_inputs in = {.a_shape = a, .b_shape = b, .a = floats_a, .b = floats_b};
  double value[SAMPLES];
  float scale[SAMPLES];
  cudaError_t status = cudaSuccess;
  int64_t wrong = -1;
  for (int sample = 0; sample < SAMPLES && floats_a && floats_b && !status; sample++) {
    int at[4];
    box box_a = all_of(&a), box_b = all_of(&b);
    tensor_coordinates(&ref->shape, place(ref, sample), at);
    needed(p, pass, at, &box_a, &box_b);
    fill(floats_a, &a, &from[0], &box_a);
    fill(floats_b, &b, &from[1], &box_b);
    status = fetch(ref, place(ref, sample), &value[sample], &scale[sample]);
  }
  const bool ready = floats_a && floats_b && !status;
#pragma omp parallel for schedule(dynamic, 1)
  for (int sample = 0; sample < (ready ? SAMPLES : 0); sample++) {
    const int64_t i = place(ref, sample);
    int at[4];
    tensor_coordinates(&ref->shape, i, at);
    const conv_sums sums = definition_element(p, pass, &in, at);
    double want = sums.value, absolute = sums.absolute;
    float want_scale = round_scale(ref->random ? sqrt(sums.square) : sums.absolute);
    if (e) apply(e, fused, &ref->shape, i, at, &want, &absolute, &want_scale);
    const bool same_scale = scale[sample] == want_scale /* infinite, maybe */ || fabs((double)scale[sample] - (double)want_scale) <= 1e-6 * (double)want_scale;
    const bool right = same_scale && fabs(value[sample] - want) <= 1e-10 * absolute;
    if (!right) {
#pragma omp critical
      wrong = i;
    }
  }
  free(floats_a);
  free(floats_b);
  if (ready && wrong < 0) return 0;
  if (ready)
    snprintf(error, error_size, "the GPU's fp64 reference disagrees with the CPU's definition at element %lld of %s", (long long)wrong, pass_name(pass));
  else if (status) snprintf(error, error_size, "checking the GPU's reference: %s", cudaGetErrorString(status));
  else snprintf(error, error_size, "no memory for a check of the reference, %lld elements", (long long)(a.count + b.count));
  return ready || status ? -1 : REFERENCE_NO_ROOM;
}
