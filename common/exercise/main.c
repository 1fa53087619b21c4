/* Runs the kernel of an exercise through the harness, as a step's program does:  main EXERCISE OPTIONS...
 *
 * The row of the kernel table is ours, so that shapes cannot be declined nor the error bound widened. */
#include <math.h>
#include <string.h>

#include "common/exercise/replay.h"
#include "common/harness/plain.h"
#include "common/harness/step.h"

enum { A_CLASS = 0 };

typedef struct exercise {
  const char *name, *title;
  conv_pass pass;
  conv_dtype dtype;
  conv_layout layout;
  int arch;                /* the lowest compute capability it needs, times ten; 0: any */
  size_t most_kernels;     /* launches, at most; A_CLASS: one for each remainder of the strides */
  size_t filters, results; /* the workspace has room for so many */
  enum { PLAIN, FUSED, WINOGRAD } kind;
} exercise;

static const exercise exercises[] = {
    {"nhwc", "fprop, NHWC, any shape", PASS_FPROP, DTYPE_FP32, LAYOUT_NHWC, 0, 1, 0, 0, PLAIN},
    {"four-filters", "fprop, four filters a thread", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0, PLAIN},
    {"nhwc-dgrad", "dgrad, NHWC, coalesced", PASS_DGRAD, DTYPE_FP32, LAYOUT_NHWC, 0, 1, 0, 0, PLAIN},
    {"float4", "fprop, NHWC, four floats a load", PASS_FPROP, DTYPE_FP32, LAYOUT_NHWC, 0, 1, 0, 0, PLAIN},
    {"rearranged", "fprop, NHWC, filter rearranged", PASS_FPROP, DTYPE_FP32, LAYOUT_NHWC, 0, 2, 1, 0, PLAIN},
    {"dilated-halo", "fprop, a halo with holes", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0, PLAIN},
    {"banks", "fprop, NHWC, no bank conflicts", PASS_FPROP, DTYPE_FP32, LAYOUT_NHWC, 0, 1, 0, 0, PLAIN},
    {"race", "fprop, two buffers and a barrier", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0, PLAIN},
    {"missing-wait", "fprop, copies run ahead", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 80, 1, 0, 0, PLAIN},
    {"rolling-rows", "fprop, rows roll through registers", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0, PLAIN},
    {"constant", "fprop, filters in constant memory", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0, PLAIN},
    {"fixed-order", "wgrad, NHWC, divided, in one order", PASS_WGRAD, DTYPE_FP32, LAYOUT_NHWC, 0, 2, 64, 0, PLAIN},
    {"no-division", "fprop, no division in the loop", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0, PLAIN},
    {"slices", "fprop, a sum in slices", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 2, 0, 8, PLAIN},
    {"classes", "dgrad, neighbours of one class", PASS_DGRAD, DTYPE_FP32, LAYOUT_NCHW, 0, A_CLASS, 0, 0, PLAIN},
    {"winograd", "fprop, F(2, 3) along the rows", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 2, 2, 0, WINOGRAD},
    {"fragments", "fprop, NHWC, fragments by plain loads", PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC, 80, 1, 0, 0, PLAIN},
    {"swizzle", "fprop, NHWC, rows of 64 bytes swizzled", PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC, 80, 1, 0, 0, PLAIN},
    {"ring", "fprop, NHWC, a ring of stages", PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC, 90, 1, 0, 0, PLAIN},
    {"window", "fprop, NHWC, a window that slides", PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC, 90, 1, 0, 0, PLAIN},
    {"epilogue", "fprop, NHWC, finished before it is stored", PASS_FPROP, DTYPE_FP32, LAYOUT_NHWC, 0, 2, 0, 0, FUSED},
    {"residual", "fprop, NHWC, a residual by whole sectors", PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC, 80, 1, 0, 0, FUSED},
};
static const exercise *the;

static const char *plan_exercise(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  plan->workspace_bytes = (the->filters * (size_t)problem_w_count(&o->problem) + the->results * (size_t)problem_y_count(&o->problem)) * dtype_bytes(the->dtype);
  return plain_plan(o, device, plan);
}

/* Tensor cores: a product of 16 products and the sum so far for each 16 channels of a tap; as many as stages of 64 channels have, zeros included. */
static double growth_fp16(const conv_problem *p, bool random) { return growth_truncated(p->R * p->S * ((p->C / p->groups + 63) / 64) * 4.0 * 17, random); }

/* F(2, 3) along the rows: at most Winograd's in two directions; of shapes that do not suit it, the formula's. */
static double growth_of_winograd(const conv_problem *p, bool random) {
  return fmax(growth_winograd((double)problem_terms(p, PASS_FPROP), WINOGRAD_2X2_NORM, random), plain_growth_fprop(p, random));
}

static double growth(const conv_problem *p, bool random) {
  if (the->kind == WINOGRAD) return growth_of_winograd(p, random);
  if (the->dtype == DTYPE_FP16) return growth_fp16(p, random);
  return growth_chain_fp32((double)problem_terms(p, the->pass), random);
}

uint64_t exercise_arithmetic, exercise_barriers, exercise_waits, exercise_ahead;
static uint64_t launches, bits;

/* Two runs with the same bits in every result have the same `bits` (FNV-1a). */
static cudaError_t add_to_bits(const void *output, size_t bytes, cudaStream_t stream) {
  unsigned char *host = malloc(bytes);
  cudaError_t status = host ? cudaStreamSynchronize(stream) : cudaErrorMemoryAllocation;
  if (!status) status = cudaMemcpy(host, output, bytes, cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < bytes && !status; i++) bits = (bits ^ host[i]) * 0x100000001B3u;
  free(host);
  return status;
}

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  void *const tensor[3] = {b->x, b->w, b->y};
  const size_t bytes[3] = {(size_t)problem_x_count(p) * dtype_bytes(the->dtype), (size_t)problem_w_count(p) * dtype_bytes(the->dtype),
                           (size_t)problem_y_count(p) * dtype_bytes(the->dtype)};
  const int one = (int)pass_input_a(the->pass), other = (int)pass_input_b(the->pass), output = (int)pass_output(the->pass);
  const size_t most = the->most_kernels == A_CLASS ? (size_t)p->stride_h * (size_t)p->stride_w : the->most_kernels;
  const exercise_bounds e = {most, {tensor[one], tensor[other]}, tensor[output], {bytes[one], bytes[other]}, bytes[output]};
  launches++;
  const cudaError_t status = replay(p, b, &e, stream);
  return !status && getenv("EXERCISE_BITS") ? add_to_bits(e.output, e.output_bytes, stream) : status;
}

int main(int argc, char **argv) {
  const exercise_word word = read_word();
  setvbuf(stdout, NULL, _IOLBF, 0); /* the shape is known when a kernel ends the program */
  for (size_t i = 0; argc > 1 && i < sizeof exercises / sizeof *exercises; i++)
    if (strcmp(exercises[i].name, argv[1]) == 0) the = &exercises[i];
  if (!the) {
    fprintf(stderr, "%s: expected the name of an exercise with a kernel, got \"%s\"\n", argv[0], argc > 1 ? argv[1] : "");
    return 2;
  }
  const conv_kernel row = {.name = the->name,
                           .idea = the->title,
                           .place = ON_GPU,
                           .pass = the->pass,
                           .dtype = the->dtype,
                           .layout = the->layout,
                           .min_arch = the->arch,
                           .plan = plan_exercise,
                           .launch = launch,
                           .growth = growth,
                           .exact_factor = the->kind == WINOGRAD ? 29 : 1,
                           .shares_error = the->kind == WINOGRAD,
                           .fuses = the->kind == FUSED ? FUSES_SCALE | FUSES_BIAS | FUSES_RESIDUAL | FUSES_ACTIVATION : 0};
  const conv_kernel *const kernels[] = {&row};
  const conv_step step = {.number = the->name, .title = the->title, .kernels = kernels, .kernel_count = 1};
  const int status = step_main(&step, argc - 1, argv + 1);
  const double each = launches ? (double)launches : 1;
  if (exercise_arithmetic) printf("%.17g marks a launch\n", (double)exercise_arithmetic / each);
  if (bits) printf("%llu bits a launch\n", (unsigned long long)bits);
  if (exercise_barriers) printf("%.17g barriers a launch\n", (double)exercise_barriers / each);
  if (exercise_waits) printf("%.17g ahead a launch\n", (double)exercise_ahead / (double)exercise_waits);
  return say_word(&word, status);
}
