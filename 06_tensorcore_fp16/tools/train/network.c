/* The network forward and backward, and its update. What is no convolution is plain C on the host. See train.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "06_tensorcore_fp16/tools/train/train.h"

enum { FIELD = 4, FIELDS = SIDE / FIELD * (SIDE / FIELD) }; /* the readout's fields of FIELD x FIELD pixels */

/* The layers' problems, for so many images and channels. Layer 2 is transposed: its problem goes from 16 x 16 to 8 x 8, it goes the other way. */
static void layer_problems(layer layers[LAYERS], int images, int channels) {
  static const struct {
    const char *shape;
    bool transposed;
  } kinds[LAYERS] = {{"mb%dic%dih16oc%doh8kh3sh2ph1", false}, {"mb%dic%dih16oc%doh8kh3sh2ph1", true}, {"mb%dic%dih16oc%doh16kh3ph1", false}};
  for (int i = 0; i < LAYERS; i++) {
    char shape[128], error[256];
    snprintf(shape, sizeof shape, kinds[i].shape, images, i == 0 ? PICTURE_C : channels, channels);
    if (problem_parse(&layers[i].p, shape, error, sizeof error)) fprintf(stderr, "%s\n", error), exit(2);
    layers[i].number = i + 1, layers[i].transposed = kinds[i].transposed;
  }
}

/* Normal numbers of deviation sqrt(2 / n), where n inputs that are not 0 go into an output: what a ReLU halves is doubled (K. He et al., 2015). */
static parameters new_parameters(int64_t count, double inputs, uint64_t seed) {
  parameters p = {.count = count, .value = calloc(3 * (size_t)count, sizeof(float))};
  if (!p.value) no_memory("parameters");
  p.gradient = p.value + count, p.speed = p.gradient + count;
  for (int64_t i = 0; i < count; i++) p.value[i] = (float)(sqrt(2 / inputs) * random_normal(seed, (uint64_t)i));
  return p;
}

/* The layers' filters as the kernels take them. */
static void round_filters(network *net) {
  for (int i = 0; i < LAYERS; i++)
    for (int64_t k = 0; k < net->parts[i].count; k++) tensor_set(&net->layers[i].w, k, (double)net->parts[i].value[k]);
}

void network_open(network *net, int images, int channels, uint64_t seed, const conv_device *device) {
  *net = (network){.images = images, .read.features = (int64_t)FIELDS * channels};
  layer_problems(net->layers, images, channels);
  const double inputs[PARTS] = {9, channels * 9 / 4.0, channels * 9, (double)net->read.features}; /* one channel; a quarter of the taps; all */
  for (int i = 0; i < PARTS; i++) {
    layer *l = &net->layers[i];
    if (i < LAYERS) layer_open(l, i ? l - 1 : NULL, device);
    net->parts[i] = new_parameters(i < LAYERS ? l->w.count : CLASSES * net->read.features, inputs[i], seed * PARTS + (uint64_t)i);
  }
  net->read.feature = malloc((size_t)images * (size_t)net->read.features * sizeof(double));
  net->read.probability = malloc((size_t)images * CLASSES * sizeof(double));
  net->labels = malloc((size_t)images * sizeof(int));
  if (!net->read.feature || !net->read.probability || !net->labels) no_memory("the readout");
  round_filters(net);
}

void network_close(network *net) {
  for (int i = 0; i < LAYERS; i++) layer_close(&net->layers[i]);
  for (int i = 0; i < PARTS; i++) free(net->parts[i].value);
  free(net->read.feature), free(net->read.probability), free(net->labels);
}

/* ---------------------------------------------------------------- what is no convolution */

static void relu(conv_tensor *t) {
#pragma omp parallel for if (t->count >= TENSOR_THREADS)
  for (int64_t i = 0; i < t->count; i++)
    if (tensor_get(t, i) < 0) tensor_set(t, i, 0);
}

/* Where the ReLU gave 0, nothing comes back. */
static void relu_backward(conv_tensor *d, const conv_tensor *out) {
#pragma omp parallel for if (d->count >= TENSOR_THREADS)
  for (int64_t i = 0; i < d->count; i++)
    if (!(tensor_get(out, i) > 0)) tensor_set(d, i, 0);
}

static int field_of(int pixel) { return pixel / SIDE / FIELD * (SIDE / FIELD) + pixel % SIDE / FIELD; }

/* One image: features, then the classes' probabilities. Returns its loss. */
static double read_image(const readout *r, const conv_tensor *out, const float *weights, int n, int label) {
  const int channels = out->dim[1];
  double *feature = r->feature + n * r->features, *p = r->probability + n * CLASSES, largest = -INFINITY, sum = 0;
  for (int64_t f = 0; f < r->features; f++) feature[f] = 0;
  for (int pixel = 0; pixel < SIDE * SIDE; pixel++)
    for (int c = 0; c < channels; c++)
      feature[field_of(pixel) * channels + c] += (double)tensor_get(out, ((int64_t)n * SIDE * SIDE + pixel) * channels + c) / (FIELD * FIELD);
  for (int k = 0; k < CLASSES; k++) {
    p[k] = 0;
    for (int64_t f = 0; f < r->features; f++) p[k] += (double)weights[k * r->features + f] * feature[f];
    largest = fmax(largest, p[k]);
  }
  const double logit = p[label];
  for (int k = 0; k < CLASSES; k++) sum += p[k] = exp(p[k] - largest);
  for (int k = 0; k < CLASSES; k++) p[k] /= sum;
  return log(sum) + largest - logit;
}

double readout_forward(readout *r, const conv_tensor *out, const float *weights, const int *labels, int *right) {
  const int images = out->dim[0];
  double loss[images], sum = 0;
#pragma omp parallel for
  for (int n = 0; n < images; n++) loss[n] = read_image(r, out, weights, n, labels[n]);
  *right = 0;
  for (int n = 0; n < images; n++) {
    const double *p = r->probability + n * CLASSES;
    int best = 0;
    for (int k = 1; k < CLASSES; k++)
      if (p[k] > p[best]) best = k;
    *right += best == labels[n];
    sum += loss[n];
  }
  return sum / images;
}

/* The loss changes with a class's sum by its probability, less 1 for the right class. From there to the readout's weights and to the last layer's output. */
static void readout_backward(const readout *r, parameters *weights, const int *labels, conv_tensor *d_out, float scale) {
  const int images = d_out->dim[0], channels = d_out->dim[1];
  for (int n = 0; n < images; n++) r->probability[n * CLASSES + labels[n]] -= 1;
#pragma omp parallel for
  for (int64_t i = 0; i < weights->count; i++) {
    double sum = 0;
    for (int n = 0; n < images; n++) sum += r->probability[n * CLASSES + i / r->features] * r->feature[n * r->features + i % r->features];
    weights->gradient[i] = (float)(sum / images);
  }
#pragma omp parallel for
  for (int n = 0; n < images; n++) {
    double *d = r->feature + n * r->features; /* no longer needed */
    for (int64_t f = 0; f < r->features; f++) {
      d[f] = 0;
      for (int k = 0; k < CLASSES; k++) d[f] += r->probability[n * CLASSES + k] * (double)weights->value[k * r->features + f];
    }
    for (int pixel = 0; pixel < SIDE * SIDE; pixel++)
      for (int c = 0; c < channels; c++)
        tensor_set(d_out, ((int64_t)n * SIDE * SIDE + pixel) * channels + c, d[field_of(pixel) * channels + c] / (FIELD * FIELD) / images * (double)scale);
  }
}

/* ---------------------------------------------------------------- a step */

double network_forward(network *net) {
  for (int i = 0; i < LAYERS; i++) {
    layer_run(&net->layers[i], FORWARD);
    relu(&net->layers[i].out);
  }
  return readout_forward(&net->read, &net->layers[LAYERS - 1].out, net->parts[READOUT].value, net->labels, &net->right);
}

bool network_backward(network *net, float scale) {
  bool finite = true;
  readout_backward(&net->read, &net->parts[READOUT], net->labels, &net->layers[LAYERS - 1].d_out, scale);
  for (int i = LAYERS - 1; i >= 0; i--) {
    layer *l = &net->layers[i];
    relu_backward(&l->d_out, &l->out);
    layer_run(l, TO_FILTER);
    if (i > 0) layer_run(l, TO_INPUT); /* nobody asks for the pictures' gradient */
    for (int64_t k = 0; k < l->dw.count; k++) {
      net->parts[i].gradient[k] = tensor_get(&l->dw, k) / scale;
      finite &= isfinite(net->parts[i].gradient[k]) != 0;
    }
  }
  return finite;
}

void network_update(network *net, float rate, float momentum) {
  for (int i = 0; i < PARTS; i++) {
    const parameters *p = &net->parts[i];
    for (int64_t k = 0; k < p->count; k++) {
      p->speed[k] = momentum * p->speed[k] + p->gradient[k];
      p->value[k] -= rate * p->speed[k];
    }
  }
  round_filters(net);
}
