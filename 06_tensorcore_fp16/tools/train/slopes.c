/* Are the gradients those of the loss? Found out by trying, in fp64, without a backward pass. See train.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "06_tensorcore_fp16/tools/train/train.h"
#include "common/conv/reference.h"

/* The kernels' network rounds to fp16 what it stores, forward and backward: so often between a part's parameters and the loss, and back. */
enum { ROUNDINGS = 2 * LAYERS + 2 };
static const double change = 0x1p-10; /* of the parameters, both ways: close to a line, and far more than the roundings to fp32 */

static conv_tensor in_fp32(const layer *l, tensor_role role) {
  conv_tensor t = tensor_describe(&l->p, role, DTYPE_FP32, LAYOUT_NHWC);
  if (tensor_alloc(&t)) no_memory("a layer in fp32");
  return t;
}

/* The loss with one part's parameters moved by `way` times the direction. Sums are accumulated in fp64, and stored in fp32 between layers. Every ReLU lets
 * through what it let through in the kernels' forward pass: one that changes its mind, here or by a rounding to fp16, would bend the line. */
static double loss_at(const network *net, int part, const float *direction, double way, readout *room, bool on_gpu) {
  conv_tensor in = in_fp32(&net->layers[0], TENSOR_X);
  for (int64_t i = 0; i < in.count; i++) tensor_set(&in, i, (double)tensor_get(&net->layers[0].in, i));
  for (int i = 0; i < LAYERS; i++) {
    const layer *l = &net->layers[i];
    conv_tensor w = in_fp32(l, TENSOR_W), out = in_fp32(l, l->transposed ? TENSOR_X : TENSOR_Y);
    for (int64_t k = 0; k < w.count; k++) tensor_set(&w, k, (double)tensor_get(&l->w, k) + (part == i ? way * (double)direction[k] : 0));
    conv_reference sums;
    char error[256];
    if (reference_compute(&sums, &l->p, layer_pass(l, FORWARD), &in, &w, false, on_gpu, error, sizeof error)) fprintf(stderr, "train: %s\n", error), exit(1);
    for (int64_t k = 0; k < out.count; k++) tensor_set(&out, k, tensor_get(&l->out, k) > 0 ? sums.value[k] : 0);
    reference_free(&sums), tensor_free(&in), tensor_free(&w);
    in = out;
  }
  const parameters *last = &net->parts[READOUT];
  float *weights = malloc((size_t)last->count * sizeof(float));
  if (!weights) no_memory("the readout");
  for (int64_t k = 0; k < last->count; k++) weights[k] = (float)((double)last->value[k] + (part == READOUT ? way * (double)direction[k] : 0));
  int right;
  const double loss = readout_forward(room, &in, weights, net->labels, &right);
  tensor_free(&in), free(weights);
  return loss;
}

static bool slope_check(const network *net, int part, uint64_t seed, readout *room, bool on_gpu) {
  const parameters *p = &net->parts[part];
  float *direction = malloc((size_t)p->count * sizeof(float));
  if (!direction) no_memory("a direction");
  double by_gradient = 0, length = 0;
  for (int64_t k = 0; k < p->count; k++) {
    direction[k] = (float)random_normal(seed, (uint64_t)k);
    by_gradient += (double)direction[k] * (double)p->gradient[k];
    length += (double)p->gradient[k] * (double)p->gradient[k];
  }
  const double above = loss_at(net, part, direction, change, room, on_gpu), below = loss_at(net, part, direction, -change, room, on_gpu);
  const double by_trying = (above - below) / (2 * change), bound = ROUNDINGS * 0x1p-11 * sqrt(length);
  const bool right = fabs(by_gradient - by_trying) <= bound;
  free(direction);
  printf("slope of the loss along a random change of ");
  if (part < LAYERS) printf("layer %d's filters: ", part + 1);
  else printf("the readout:         ");
  printf("%7.4f by the gradient, %7.4f by trying, %s %.4f\n", by_gradient, by_trying, right ? "may differ by" : "WRONG: may differ by", bound);
  return right;
}

bool slopes_check(network *net, uint64_t seed, bool on_gpu) {
  readout room = {.features = net->read.features};
  room.feature = malloc((size_t)net->images * (size_t)room.features * sizeof(double));
  room.probability = malloc((size_t)net->images * CLASSES * sizeof(double));
  if (!room.feature || !room.probability) no_memory("the readout");
  bool right = true;
  for (int part = 0; part < PARTS; part++) right &= slope_check(net, part, seed + (uint64_t)part, &room, on_gpu);
  free(room.feature), free(room.probability);
  return right;
}
