/* A convolution and the 1 x 1 behind it: what 07d and 07k ask of both. */
#pragma once
#include "07_fusion/finish.cuh"

/* Why these are no such two, in fp16; NULL: they are. */
static inline const char *then_1x1_unsupported(const conv_operation *a, const conv_operation *b, const conv_device *device) {
  const conv_problem *p = &a->problem, *q = &b->problem;
  if (a->kind != OPERATION_CONVOLUTION || b->kind != OPERATION_CONVOLUTION || a->epilogue.fp32 || b->epilogue.fp32) return "no two convolutions in fp16";
  if (is_smooth(a->epilogue.activation) || is_smooth(b->epilogue.activation)) return "an activation with an exponential";
  if (p->groups > 1 || q->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0 || q->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (q->R * q->S > 1 || q->stride_h > 1 || q->stride_w > 1 || q->P != p->P || q->Q != p->Q) return "the second is no plain 1x1";
  const char *why = plain_unsupported(p, device);
  if (!why) why = plain_unsupported(q, device);
  return why;
}
