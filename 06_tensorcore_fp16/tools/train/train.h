/* Training a small network by step 06's kernels: what its parts know of each other.
 *
 *   picture --convolution, stride 2--> ReLU --transposed convolution, stride 2--> ReLU --convolution--> ReLU --means, linear--> ten classes
 *   16 x 16                            8 x 8                                      16 x 16               16 x 16 */
#pragma once
#include "common/harness/buffers.h"
#include "common/harness/machine.h"
#include "common/harness/plan.h"
#include "common/harness/registry.h"

enum {
  SIDE = 16,         /* pixels of a picture, each way */
  PICTURE_C = 8,     /* its channels: the kernels take channels in eights. Channel 0 is the picture, the others are 0 */
  CLASSES = 10,      /* the digits */
  LAYERS = 3,        /* of convolution */
  READOUT = LAYERS,  /* behind them, in the list of parameters */
  PARTS = LAYERS + 1 /* what has parameters */
};

/* ---------------------------------------------------------------- layer.c: a layer of convolution, its three passes on the device */

/* What a layer has to compute. A transposed convolution spreads forward as dgrad does, and gathers backward as fprop does. */
typedef enum { FORWARD, TO_INPUT, TO_FILTER, JOBS } layer_job;

/* All tensors: fp16 NHWC and KRSC, in host memory. A layer's `in` and `d_in` are the `out` and `d_out` of the one before. */
typedef struct layer {
  int number; /* from 1 */
  conv_problem p;
  bool transposed; /* then p's y is the input, its x the output */
  conv_tensor in, out, w;
  conv_tensor d_in, d_out, dw; /* gradients, times the loss scale */
  const conv_kernel *kernel[JOBS];
  conv_plan plan[JOBS];
  buffer_sets device; /* of p's x, w and y */
} layer;

conv_pass layer_pass(const layer *l, layer_job job);

/* Plans the three jobs by the rule of step 06 and allocates all tensors but in and d_in if there is a layer before. A kernel that is missing, or no memory: one
 * line, and the program's end. */
void layer_open(layer *l, const layer *before, const conv_device *device);
void layer_close(layer *l);

/* Uploads the job's two inputs, launches its kernel, downloads the result. */
void layer_run(layer *l, layer_job job);

/* Runs the job once more, into poisoned memory, and compares every element with a sum in fp64. Prints a line; true: right. */
bool layer_check(layer *l, layer_job job, bool on_gpu);

/* ---------------------------------------------------------------- network.c: all layers, the readout, the loss, the update */

/* A part's filters or weights, in fp32. Layers multiply by them rounded to fp16. */
typedef struct parameters {
  int64_t count;
  float *value, *gradient, *speed; /* speed: the momentum's sum of gradients */
} parameters;

/* Means of fields of pixels, a matrix, softmax. */
typedef struct readout {
  int64_t features;    /* channels in every field */
  double *feature;     /* [images][features] */
  double *probability; /* [images][CLASSES] */
} readout;

typedef struct network {
  int images; /* of a step */
  layer layers[LAYERS];
  parameters parts[PARTS]; /* the readout's: [CLASSES][features] */
  readout read;
  int *labels; /* [images]: what the pictures show */
  int right;   /* of the last forward pass: pictures whose digit got the largest probability */
} network;

void network_open(network *net, int images, int channels, uint64_t seed, const conv_device *device);
void network_close(network *net);

/* The mean loss, -log of the probability of the right class, of the pictures in layers[0].in. */
double network_forward(network *net);
/* Every part's gradient, from the last forward pass. false: one of them is no number (scale is too large for fp16); they are not to be used. */
bool network_backward(network *net, float scale);
void network_update(network *net, float rate, float momentum);

/* From the last layer's output to the loss. weights: as in parts[READOUT].value. */
double readout_forward(readout *r, const conv_tensor *out, const float *weights, const int *labels, int *right);

/* ---------------------------------------------------------------- slopes.c, digits.c */

/* Every part's gradient beside the slope of the loss along a random change of its parameters, which is found in fp64 by trying. After network_backward().
 * Prints a line each; true: all right. */
bool slopes_check(network *net, uint64_t seed, bool on_gpu);

/* Draws digits from number `first` of an endless row, which seed determines. vary: by how many pixels, at most, they are smaller than others, and out of the
 * middle. */
void digits_draw(conv_tensor *pictures, int *labels, int vary, uint64_t seed, uint64_t first);

/* What cannot go on: a line, and the program's end. */
void must(cudaError_t status, const char *what, const layer *l);
_Noreturn void no_memory(const char *what);
