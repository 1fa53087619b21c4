/* Runs the kernel of an exercise through the harness, as a step's program does:  main EXERCISE OPTIONS...
 *
 * The row of the kernel table is ours, so that shapes cannot be declined nor the error bound widened. And the launch function is only
 * recorded: while it runs, its inputs hold NaN; then they are put back, the output is poisoned again, and what it launched is replayed.
 * So what the host may have computed is lost, and every number of the result comes from a kernel. */
#include "common/exercise/exercise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/tensor.h"
#include "common/harness/plain.h"
#include "common/harness/step.h"

typedef struct exercise {
  const char *name, *title;
  conv_pass pass;
  conv_dtype dtype;
  conv_layout layout;
  int arch;                /* the lowest compute capability it needs, times ten; 0: any */
  size_t most_kernels;     /* launches, at most */
  size_t filters, results; /* the workspace has room for so many */
} exercise;

static const exercise exercises[] = {
    {"01a", "fprop, NHWC, any shape", PASS_FPROP, DTYPE_FP32, LAYOUT_NHWC, 0, 1, 0, 0},
    {"01b", "fprop, four filters a thread", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0},
    {"02a", "dgrad, NHWC, coalesced", PASS_DGRAD, DTYPE_FP32, LAYOUT_NHWC, 0, 1, 0, 0},
    {"02b", "fprop, NHWC, four floats a load", PASS_FPROP, DTYPE_FP32, LAYOUT_NHWC, 0, 1, 0, 0},
    {"02c", "fprop, NHWC, filter rearranged", PASS_FPROP, DTYPE_FP32, LAYOUT_NHWC, 0, 2, 1, 0},
    {"03a", "fprop, a halo with holes", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0},
    {"03b", "fprop, NHWC, no bank conflicts", PASS_FPROP, DTYPE_FP32, LAYOUT_NHWC, 0, 1, 0, 0},
    {"04a", "fprop, rows roll through registers", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0},
    {"05a", "fprop, no division in the loop", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 1, 0, 0},
    {"05b", "fprop, a sum in slices", PASS_FPROP, DTYPE_FP32, LAYOUT_NCHW, 0, 2, 0, 8},
    {"06a", "fprop, NHWC, fragments by plain loads", PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC, 80, 1, 0, 0},
    {"06b", "fprop, NHWC, rows of 64 bytes swizzled", PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC, 80, 1, 0, 0},
    {"06c", "fprop, NHWC, a ring of stages", PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC, 90, 1, 0, 0},
    {"06d", "fprop, NHWC, a window that slides", PASS_FPROP, DTYPE_FP16, LAYOUT_NHWC, 90, 1, 0, 0},
};
static const exercise *the;

static const char *plan_exercise(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  plan->workspace_bytes = (the->filters * (size_t)problem_w_count(&o->problem) + the->results * (size_t)problem_y_count(&o->problem)) * dtype_bytes(the->dtype);
  return plain_plan(o, device, plan);
}

/* Tensor cores: a product of 16 products and the sum so far for each 16 channels of a tap; as many as stages of 64 channels have, zeros included. */
static double growth_fp16(const conv_problem *p, bool random) { return growth_truncated(p->R * p->S * ((p->C / p->groups + 63) / 64) * 4.0 * 17, random); }

/* Counted where the grader has put a counter in front of every division of the reader's file. The host's are not wanted. */
uint64_t exercise_divisions;
static uint64_t divisions_on_host, launches;

static cudaError_t count_kernels(cudaGraph_t graph, size_t *kernels) {
  size_t count = 0;
  *kernels = 0;
  cudaError_t status = cudaGraphGetNodes(graph, NULL, &count);
  if (status) return status;
  cudaGraphNode_t *nodes = calloc(count + 1, sizeof *nodes);
  if (!nodes) return cudaErrorMemoryAllocation;
  status = cudaGraphGetNodes(graph, nodes, &count);
  for (size_t i = 0; i < count && !status; i++) {
    enum cudaGraphNodeType type;
    status = cudaGraphNodeGetType(nodes[i], &type);
    *kernels += !status && type == cudaGraphNodeTypeKernel;
  }
  free(nodes);
  return status;
}

/* Lets exercise_launch fill a graph. Says on stderr what kept it. */
static cudaError_t record(const conv_problem *p, const conv_buffers *b, cudaGraph_t *graph) {
  cudaStream_t stream;
  cudaError_t status = cudaStreamCreate(&stream);
  if (status) return status;
  status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (!status) {
    status = exercise_launch(p, b, stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, graph);
    if (!status) status = ended;
  }
  cudaStreamDestroy(stream);
  if (status) {
    const bool recording = status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorStreamCaptureImplicit;
    fprintf(stderr, "exercise: exercise_launch failed: %s%s\n", cudaGetErrorString(status),
            recording ? ": expected nothing but kernel launches, on the stream it is given" : "");
    return status;
  }
  size_t kernels = 0;
  status = count_kernels(*graph, &kernels);
  if (status || (kernels > 0 && kernels <= the->most_kernels)) return status;
  fprintf(stderr, "exercise: exercise_launch launched %zu kernels: expected %s\n", kernels, the->most_kernels == 1 ? "one" : "one or two");
  return cudaErrorNotSupported;
}

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  void *const tensor[3] = {b->x, b->w, b->y};
  const size_t bytes[3] = {(size_t)problem_x_count(p) * dtype_bytes(the->dtype), (size_t)problem_w_count(p) * dtype_bytes(the->dtype),
                           (size_t)problem_y_count(p) * dtype_bytes(the->dtype)};
  const int inputs[2] = {(int)pass_input_a(the->pass), (int)pass_input_b(the->pass)}, output = (int)pass_output(the->pass);
  void *kept[2] = {malloc(bytes[inputs[0]]), malloc(bytes[inputs[1]])};
  cudaError_t status = kept[0] && kept[1] ? cudaSuccess : cudaErrorMemoryAllocation;
  for (int i = 0; i < 2 && !status; i++) {
    status = cudaMemcpy(kept[i], tensor[inputs[i]], bytes[inputs[i]], cudaMemcpyDeviceToHost);
    if (!status) status = cudaMemset(tensor[inputs[i]], 0xFF, bytes[inputs[i]]);
  }
  cudaGraph_t graph = NULL;
  cudaGraphExec_t replay = NULL;
  const uint64_t before = exercise_divisions;
  if (!status) status = record(p, b, &graph);
  divisions_on_host += exercise_divisions - before, launches++;
  for (int i = 0; i < 2 && !status; i++) status = cudaMemcpy(tensor[inputs[i]], kept[i], bytes[inputs[i]], cudaMemcpyHostToDevice);
  if (!status) status = cudaMemset(tensor[output], 0xFF, bytes[output]);
  emu_mark_uninitialised(tensor[output], bytes[output]);
  if (!status) status = cudaGraphInstantiate(&replay, graph, 0);
  if (!status) status = cudaGraphLaunch(replay, stream);
  if (replay) cudaGraphExecDestroy(replay);
  if (graph) cudaGraphDestroy(graph);
  for (int i = 0; i < 2; i++) free(kept[i]);
  return status;
}

int main(int argc, char **argv) {
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
                           .growth = the->dtype == DTYPE_FP16  ? growth_fp16
                                     : the->pass == PASS_DGRAD ? plain_growth_dgrad
                                                               : plain_growth_fprop};
  const conv_kernel *const kernels[] = {&row};
  const conv_step step = {.number = the->name, .title = the->title, .kernels = kernels, .kernel_count = 1};
  const int status = step_main(&step, argc - 1, argv + 1);
  if (exercise_divisions) printf("%.17g divisions a launch\n", (double)(exercise_divisions - divisions_on_host) / (double)launches);
  return status;
}
