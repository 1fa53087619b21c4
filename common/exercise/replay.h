/* Runs an exercise's launch function as the grader wants it. The function is only recorded: while it runs, its inputs hold NaN; then they are put back, the
 * output is poisoned again, and what it launched is replayed. So what the host may have computed is lost, and every number of the result comes from a kernel. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/tensor.h"
#include "common/exercise/exercise.h"

/* What a launch may do and touch. */
typedef struct exercise_bounds {
  size_t most_kernels;
  void *input[2], *output;
  size_t input_bytes[2], output_bytes;
} exercise_bounds;

/* Counted where the grader has put a counter in front of every division, or multiplication, of the reader's file. */
extern uint64_t exercise_arithmetic;

/* The grader's word, from stdin: said again behind the harness's report, with what it returned. The reader's file cannot know it. */
typedef struct exercise_word {
  char text[32];
} exercise_word;

static inline exercise_word read_word(void) {
  exercise_word w = {""};
  if (fgets(w.text, sizeof w.text, stdin)) w.text[strcspn(w.text, "\n")] = '\0';
  return w;
}

static inline int say_word(const exercise_word *w, int status) {
  if (w->text[0]) printf("%s %d\n", w->text, status);
  return status;
}

static inline cudaError_t count_kernels(cudaGraph_t graph, size_t *kernels) {
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

static inline bool is_of_capture(cudaError_t status) { return status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorStreamCaptureImplicit; }

/* Lets exercise_launch fill a graph. Says on stderr what kept it. */
static inline cudaError_t record(const conv_problem *p, const conv_buffers *b, size_t most_kernels, cudaGraph_t *graph) {
  cudaStream_t stream;
  cudaError_t ended = cudaSuccess, status = cudaStreamCreate(&stream);
  if (status) return status;
  status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (!status) {
    conv_problem problem = *p; /* of the host: gone when kernels run */
    conv_buffers buffers = *b;
    status = exercise_launch(&problem, &buffers, stream);
    memset(&problem, 0xFF, sizeof problem), memset(&buffers, 0xFF, sizeof buffers);
    ended = cudaStreamEndCapture(stream, graph);
    if (!status) status = ended;
  }
  cudaStreamDestroy(stream);
  if (status == cudaErrorStreamCaptureImplicit) {
    fprintf(stderr, "exercise: exercise_launch used the default stream: expected kernel<<<blocks, threads, 0, stream>>>(...), and stream in every copy\n");
    return status;
  }
  if (status) {
    const bool recording = is_of_capture(status) || is_of_capture(ended);
    fprintf(stderr, "exercise: exercise_launch failed: %s%s\n", cudaGetErrorString(status),
            recording ? ": expected nothing but kernel launches and asynchronous copies, on the stream it is given" : "");
    return status;
  }
  size_t kernels = 0;
  status = count_kernels(*graph, &kernels);
  if (status || (kernels > 0 && kernels <= most_kernels)) return status;
  fprintf(stderr, "exercise: exercise_launch launched %zu kernels: expected %s", kernels,
          most_kernels == 1   ? "one\n"
          : most_kernels == 2 ? "one or two\n"
                              : "");
  if (most_kernels > 2) fprintf(stderr, "1 to %zu\n", most_kernels);
  return cudaErrorNotSupported;
}

static inline cudaError_t replay(const conv_problem *p, const conv_buffers *b, const exercise_bounds *e, cudaStream_t stream) {
  void *kept[2] = {malloc(e->input_bytes[0]), malloc(e->input_bytes[1])};
  cudaError_t status = kept[0] && kept[1] ? cudaSuccess : cudaErrorMemoryAllocation;
  for (int i = 0; i < 2 && !status; i++) {
    status = cudaMemcpy(kept[i], e->input[i], e->input_bytes[i], cudaMemcpyDeviceToHost);
    if (!status) status = cudaMemset(e->input[i], 0xFF, e->input_bytes[i]);
  }
  cudaGraph_t graph = NULL;
  cudaGraphExec_t recorded = NULL;
  const uint64_t before = exercise_arithmetic;
  if (!status) status = record(p, b, e->most_kernels, &graph);
  exercise_arithmetic = before; /* the host's is not wanted */
  for (int i = 0; i < 2 && !status; i++) status = cudaMemcpy(e->input[i], kept[i], e->input_bytes[i], cudaMemcpyHostToDevice);
  if (!status) status = cudaMemset(e->output, 0xFF, e->output_bytes);
  emu_mark_uninitialised(e->output, e->output_bytes);
  if (!status) status = cudaGraphInstantiate(&recorded, graph, 0);
  if (!status) status = cudaGraphLaunch(recorded, stream);
  if (recorded) cudaGraphExecDestroy(recorded);
  if (graph) cudaGraphDestroy(graph);
  for (int i = 0; i < 2; i++) free(kept[i]);
  return status;
}
