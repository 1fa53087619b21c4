/* Training with the three passes, as small as it gets: two layers without anything between them learn a filter from one picture.
 *
 *   x  --layer 1: two filters of 3x3-->  h  --layer 2: one filter of 1x1 over two channels-->  y,   which ought to be t
 *
 * t is x filtered by Sobel's operator, which the layers never see. One step of gradient descent, in the order of docs/convolution.md:
 *
 *   h   = fprop(x, w1)        y   = fprop(h, w2)         loss = sum (y - t)^2 / 2 / pixels
 *   dy  = (y - t) / pixels
 *   dw2 = wgrad(h, dy)        dh  = dgrad(dy, w2)        layer 2 backward
 *   dw1 = wgrad(x, dh)                                   layer 1 backward; nobody asks for dx
 *   w1 -= rate * dw1          w2 -= rate * dw2 */
#include <math.h>
#include <stdio.h>

#include "00_cpu_reference/definition.h"
#include "common/conv/random.h"

enum { SIDE = 12, PIXELS = SIDE * SIDE, HIDDEN = 2, TAPS = 9, STEPS = 50, SHOWN = 10 };
static const float sobel[TAPS] = {1, 0, -1, 2, 0, -2, 1, 0, -1};
static const float rate = 0.03f;

typedef struct {
  float h[HIDDEN * PIXELS], y[PIXELS];
} activations;

static conv_problem layer(const char *shape) {
  conv_problem p;
  char error[256];
  if (problem_parse(&p, shape, error, sizeof error)) fprintf(stderr, "%s\n", error);
  return p;
}

/* Any pass on fp32 NCHW arrays: a and b are its inputs, out its result. */
static void run(const conv_problem *p, conv_pass pass, const float *a, const float *b, float *out) {
  const conv_tensor shape = tensor_describe(p, pass_output(pass), DTYPE_FP32, LAYOUT_NCHW);
  const conv_inputs in = {.a_shape = tensor_describe(p, pass_input_a(pass), DTYPE_FP32, LAYOUT_NCHW),
                          .b_shape = tensor_describe(p, pass_input_b(pass), DTYPE_FP32, LAYOUT_NCHW),
                          .a = a,
                          .b = b};
  for (int64_t i = 0; i < shape.count; i++) {
    int at[4];
    tensor_coordinates(&shape, i, at);
    out[i] = (float)definition_element(p, pass, &in, at).value;
  }
}

static double forward(const conv_problem layers[2], const float *x, const float *w1, const float *w2, const float *t, activations *act) {
  double loss = 0;
  run(&layers[0], PASS_FPROP, x, w1, act->h);
  run(&layers[1], PASS_FPROP, act->h, w2, act->y);
  for (int i = 0; i < PIXELS; i++) loss += (act->y[i] - t[i]) * (act->y[i] - t[i]);
  return loss / 2 / PIXELS;
}

static void backward(const conv_problem layers[2], const float *x, const float *w2, const float *t, const activations *act, float *dw1, float *dw2) {
  float dy[PIXELS], dh[HIDDEN * PIXELS];
  for (int i = 0; i < PIXELS; i++) dy[i] = (act->y[i] - t[i]) / PIXELS;
  run(&layers[1], PASS_WGRAD, act->h, dy, dw2);
  run(&layers[1], PASS_DGRAD, dy, w2, dh);
  run(&layers[0], PASS_WGRAD, x, dh, dw1);
}

/* The slope by which the loss depends on w1[i], from its values on both sides. The loss is a parabola in one weight, so this is exact. */
static double slope(const conv_problem layers[2], const float *x, float *w1, const float *w2, const float *t, int i) {
  activations act;
  const float kept = w1[i], step = 0.125f;
  w1[i] = kept + step;
  const double above = forward(layers, x, w1, w2, t, &act);
  w1[i] = kept - step;
  const double below = forward(layers, x, w1, w2, t, &act);
  w1[i] = kept;
  return (above - below) / (2 * (double)step);
}

int main(void) {
  const conv_problem layers[2] = {layer("mb1ic1ih12oc2kh3ph1"), layer("mb1ic2ih12oc1kh1")}, one = layer("mb1ic1ih12oc1kh3ph1");
  float x[PIXELS], t[PIXELS], w1[HIDDEN * TAPS], w2[HIDDEN] = {1, -1}, dw1[HIDDEN * TAPS], dw2[HIDDEN];
  activations act;
  for (int i = 0; i < PIXELS; i++) x[i] = (float)random_normal(1, (uint64_t)i);
  for (int i = 0; i < HIDDEN * TAPS; i++) w1[i] = 0.1f * (float)random_normal(2, (uint64_t)i);
  run(&one, PASS_FPROP, x, sobel, t);

  for (int step = 0; step <= STEPS; step++) {
    const double loss = forward(layers, x, w1, w2, t, &act);
    backward(layers, x, w2, t, &act, dw1, dw2);
    if (step == 0) printf("slope of the loss along w1[0][0][0][2]: %.3f by wgrad, %.3f by trying\n", dw1[2], slope(layers, x, w1, w2, t, 2));
    if (step % SHOWN == 0) printf("step %2d  loss %.3g\n", step, loss);
    for (int i = 0; i < HIDDEN * TAPS; i++) w1[i] -= rate * dw1[i];
    for (int i = 0; i < HIDDEN; i++) w2[i] -= rate * dw2[i];
  }
  printf("what both layers together do to a pixel's neighbours:\n");
  for (int tap = 0; tap < TAPS; tap++) {
    const double both = (double)w2[0] * w1[tap] + (double)w2[1] * w1[TAPS + tap];
    printf("%5.1f%s", round(10 * both) / 10 + 0.0, tap % 3 == 2 ? "\n" : "");
  }
  return 0;
}
