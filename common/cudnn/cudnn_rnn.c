/* cuDNN's own recurrent layer. See cudnn_rnn.h. */
#include "common/cudnn/cudnn_rnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cudnn/cudnn_api.h"
#include "common/cudnn/cudnn_watch.h"

const char *const cudnn_rnn_names[RNN_ALGORITHMS] = {"cuDNN RNN standard", "cuDNN RNN persistent static", "cuDNN RNN persistent dynamic",
                                                     "cuDNN RNN persistent small"};

cudnn_rnn_way *cudnn_rnn_fastest(cudnn_rnn *r, int algorithm) {
  cudnn_rnn_way *best = NULL;
  for (cudnn_rnn_way *w = r->way; w < r->way + r->count; w++)
    if (w->algorithm == algorithm && !w->half_sums && !w->wrong && (!best || w->us < best->us)) best = w;
  return best;
}

double cudnn_rnn_half_us(const cudnn_rnn *r) {
  double us = 0;
  for (const cudnn_rnn_way *w = r->way; w < r->way + r->count; w++)
    if (w->half_sums && (us == 0 || w->us < us)) us = w->us;
  return us;
}

#ifndef HAVE_CUDNN
int cudnn_rnn_open(cudnn_rnn *r, const cudnn_rnn_layer *layer, const char *gpu, const char *endless, char *error, size_t error_size) {
  (void)layer, (void)gpu, (void)endless;
  *r = (cudnn_rnn){0};
  snprintf(error, error_size, "%s", cudnn_describe());
  return 1;
}
void cudnn_rnn_close(cudnn_rnn *r) { r->count = 0; }
cudaError_t cudnn_rnn_load(cudnn_rnn_way *way) { return (void)way, cudaErrorUnknown; }
cudaError_t cudnn_rnn_enqueue(void *way, int set, cudaStream_t stream) { return (void)way, (void)set, (void)stream, cudaErrorUnknown; }
error_rule cudnn_rnn_rule(const conv_operation *step) { return (void)step, (error_rule){0}; }

#else

enum { LAUNCHES = 5, SAMPLES = 4, ENDLESS = 16 };
static const double most_running = 30, most_building = 120, /* seconds: longer, it does not end */
    enough = 25;                                            /* seconds for an algorithm: what is left of its ways is not tried */

static const cudnnRNNAlgo_t algorithms[RNN_ALGORITHMS] = {CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC, CUDNN_RNN_ALGO_PERSIST_DYNAMIC,
                                                          CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H};

struct cudnn_rnn_parts {
  cudnnRNNDescriptor_t rnn;
  cudnnRNNDataDescriptor_t data; /* of z and of h: [steps][batch][hidden] */
  size_t weight_bytes;
  void *weights, *u, *w; /* weights: cuDNN's own memory, where u and w, [hidden][hidden], lie. w: NULL for a skipped input */
};

struct cudnn_rnn_session {
  cudnn_rnn_layer layer;
  cudnnHandle_t handle;
  cudnnDropoutDescriptor_t none;       /* no dropout */
  cudnnTensorDescriptor_t state;       /* of the first state: [1][batch][hidden] */
  cudnnTensorDescriptor_t matrix, row; /* what cuDNN says of its weights and of its biases */
  int *lengths;                        /* of the sequences */
  void *work, *identity;               /* identity: [hidden][hidden] */
  size_t work_bytes;
  cudaStream_t stream;
  cudaEvent_t start, stop;
};

/* Calls of cuDNN's in a row: the first failure's words are kept. */
static bool did(char *why, const char *call, cudnnStatus_t status) {
  if (status) cudnn_failure(why, CUDNN_ERROR / 2, call, status);
  return !status;
}
#define DO(name, ...) did(why, "cudnn" #name, cudnn.name(__VA_ARGS__))

static bool cuda(char *why, const char *what, cudaError_t status) {
  if (status) snprintf(why, CUDNN_ERROR / 2, "%s: %s", what, cudaGetErrorString(status));
  return !status;
}

/* ---------------------------------------------------------------- one way */

static void free_way(cudnn_rnn_way *w) {
  struct cudnn_rnn_parts *p = w->parts;
  if (!p) return;
  if (p->rnn) cudnn.DestroyRNNDescriptor(p->rnn);
  if (p->data) cudnn.DestroyRNNDataDescriptor(p->data);
  cudaFree(p->weights);
  free(p);
  w->parts = NULL;
}

/* Where a matrix lies among the weights: 0, the input's; 1, the state's. Rows are outputs, as in ours. NULL with why = "": there is none. */
static void *matrix_of(cudnn_rnn_way *w, int which, char *why) {
  struct cudnn_rnn_session *s = w->session;
  const int hidden = s->layer.hidden;
  void *matrix = NULL, *bias = NULL;
  if (!DO(GetRNNWeightParams, s->handle, w->parts->rnn, 0, w->parts->weight_bytes, w->parts->weights, which, s->matrix, &matrix, s->row, &bias) || !matrix)
    return NULL;
  cudnnDataType_t type;
  int dimensions = 0, size[3] = {0}, stride[3] = {0};
  if (!DO(GetTensorNdDescriptor, s->matrix, 3, &type, &dimensions, size, stride)) return NULL;
  if (dimensions == 3 && type == CUDNN_DATA_HALF && size[1] == hidden && size[2] == hidden) return matrix;
  snprintf(why, CUDNN_ERROR / 2, "its weights: expected a matrix of %d x %d halves, got %d dimensions: %d x %d x %d", hidden, hidden, dimensions, size[0],
           size[1], size[2]);
  return NULL;
}

static bool describe_way(cudnn_rnn_way *w, char *why) {
  const struct cudnn_rnn_session *s = w->session;
  const cudnn_rnn_layer *l = &s->layer;
  struct cudnn_rnn_parts *p = w->parts;
  const cudnnRNNDataLayout_t layout = w->packed ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED : CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
  return DO(CreateRNNDescriptor, &p->rnn) &&
         DO(SetRNNDescriptor_v8, p->rnn, algorithms[w->algorithm], CUDNN_RNN_RELU, w->zero_bias ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
            CUDNN_UNIDIRECTIONAL, w->identity ? CUDNN_LINEAR_INPUT : CUDNN_SKIP_INPUT, CUDNN_DATA_HALF, w->half_sums ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT,
            w->default_math ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH, l->hidden, l->hidden, l->hidden, 1, s->none,
            w->packed ? CUDNN_RNN_PADDED_IO_DISABLED : CUDNN_RNN_PADDED_IO_ENABLED) &&
         (w->algorithm != RNN_DYNAMIC || DO(BuildRNNDynamic, s->handle, p->rnn, l->batch)) && DO(CreateRNNDataDescriptor, &p->data) &&
         DO(SetRNNDataDescriptor, p->data, CUDNN_DATA_HALF, layout, l->steps, l->batch, l->hidden, s->lengths, NULL);
}

/* Weights, and room to work in. */
static bool allocate_way(cudnn_rnn_way *w, char *why) {
  struct cudnn_rnn_session *s = w->session;
  struct cudnn_rnn_parts *p = w->parts;
  size_t work = 0, reserve = 0;
  if (!DO(GetRNNTempSpaceSizes, s->handle, p->rnn, CUDNN_FWD_MODE_INFERENCE, p->data, &work, &reserve) ||
      !DO(GetRNNWeightSpaceSize, s->handle, p->rnn, &p->weight_bytes) || !cuda(why, "memory for weights", cudaMalloc(&p->weights, p->weight_bytes)) ||
      !cuda(why, "weights", cudaMemset(p->weights, 0, p->weight_bytes)))
    return false;
  if (work > s->work_bytes) {
    void *more = NULL;
    if (!cuda(why, "memory to work in", cudaMalloc(&more, work))) return false;
    cudaFree(s->work);
    s->work = more, s->work_bytes = work;
  }
  p->u = matrix_of(w, 1, why);
  if (p->u && w->identity) p->w = matrix_of(w, 0, why);
  if (p->u && (p->w || !w->identity)) return true;
  if (!*why) snprintf(why, CUDNN_ERROR / 2, "its weights: expected a matrix for the state%s, got none", p->u ? "'s input" : "");
  return false;
}

cudaError_t cudnn_rnn_load(cudnn_rnn_way *w) {
  const struct cudnn_rnn_session *s = w->session;
  const size_t bytes = (size_t)s->layer.hidden * (size_t)s->layer.hidden * sizeof(short);
  const cudaError_t status = cudaMemcpy(w->parts->u, s->layer.u, bytes, cudaMemcpyDeviceToDevice);
  return status || !w->identity ? status : cudaMemcpy(w->parts->w, s->identity, bytes, cudaMemcpyDeviceToDevice);
}

/* The lengths on the device are NULL: since 8.9.1 cuDNN takes them from the descriptor. The last state is h's last, so it is not asked for again. */
static bool forward(cudnn_rnn_way *w, cudaStream_t stream, char *why) {
  const struct cudnn_rnn_session *s = w->session;
  const struct cudnn_rnn_parts *p = w->parts;
  const cudnn_rnn_layer *l = &s->layer;
  return DO(SetStream, s->handle, stream) && DO(RNNForward, s->handle, p->rnn, CUDNN_FWD_MODE_INFERENCE, NULL, p->data, l->z, p->data, l->h, s->state, l->first,
                                                NULL, NULL, NULL, NULL, p->weight_bytes, p->weights, s->work_bytes, s->work, 0, NULL);
}

cudaError_t cudnn_rnn_enqueue(void *way, int set, cudaStream_t stream) {
  char why[CUDNN_ERROR / 2];
  (void)set;
  if (forward(way, stream, why)) return cudaSuccess;
  fprintf(stderr, "%s: %s\n", ((cudnn_rnn_way *)way)->words, why);
  return cudaErrorUnknown;
}

error_rule cudnn_rnn_rule(const conv_operation *step) {
  const cudnn_task task = {.problem = &step->problem, .pass = step->pass, .dtype = DTYPE_FP16, .layout = LAYOUT_NHWC, .epilogue = step->epilogue};
  error_rule rule = cudnn_rule(&task, 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE, false);
  rule.growth += UNIT_ROUNDOFF_FP16;
  return rule;
}

/* ---------------------------------------------------------------- quick timing */

/* A sample: of a graph, or launched one by one. */
static bool play(cudnn_rnn_way *w, cudaGraphExec_t graph, double *us, char *why) {
  const struct cudnn_rnn_session *s = w->session;
  float milliseconds = 0;
  bool right = cuda(why, "an event", cudaEventRecord(s->start, s->stream));
  if (right && graph) right = cuda(why, "a graph", cudaGraphLaunch(graph, s->stream));
  for (int i = 0; i < LAUNCHES && right && !graph; i++) right = forward(w, s->stream, why);
  right = right && cuda(why, "an event", cudaEventRecord(s->stop, s->stream)) && cuda(why, "running it", cudaEventSynchronize(s->stop)) &&
          cuda(why, "an event", cudaEventElapsedTime(&milliseconds, s->start, s->stop));
  *us = 1e3 * milliseconds / LAUNCHES;
  return right;
}

static bool shortest(cudnn_rnn_way *w, cudaGraphExec_t graph, double *us, char *why) {
  double one = 0;
  for (int i = 0; i < SAMPLES; i++) {
    if (!play(w, graph, &one, why)) return false;
    if (i == 0 || one < *us) *us = one;
  }
  return true;
}

/* NULL: it cannot be captured. */
static cudaGraphExec_t capture(cudnn_rnn_way *w) {
  const cudaStream_t stream = w->session->stream;
  char why[CUDNN_ERROR / 2];
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)) return cudaGetLastError(), NULL;
  bool right = true;
  for (int i = 0; i < LAUNCHES && right; i++) right = forward(w, stream, why);
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  if (right && !ended && cudaGraphInstantiate(&exec, graph, 0)) exec = NULL;
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();
  return exec;
}

/* In a graph and one by one: which is faster? */
static bool measure(cudnn_rnn_way *w, char *why) {
  if (!cuda(why, "weights", cudnn_rnn_load(w)) || !forward(w, w->session->stream, why) || !cuda(why, "running it", cudaDeviceSynchronize()) ||
      !shortest(w, NULL, &w->us, why))
    return false;
  const cudaGraphExec_t graph = capture(w);
  double us = 0;
  const bool right = !graph || shortest(w, graph, &us, why);
  if (right && graph && us <= w->us) w->us = us, w->in_graph = true;
  if (graph) cudaGraphExecDestroy(graph);
  return right;
}

/* ---------------------------------------------------------------- all ways */

static void name_way(const void *context, char tag[CUDNN_TAG]) { snprintf(tag, CUDNN_TAG, "%s", ((const cudnn_rnn_way *)context)->words); }

static void put_words(cudnn_rnn_way *w) {
  snprintf(w->words, sizeof w->words, "%s; %s; %s; %s%s%s", cudnn_rnn_names[w->algorithm], w->identity ? "z times an identity" : "z as it is",
           w->packed ? "packed" : "unpacked", w->default_math ? "default math" : "tensor math", w->zero_bias ? "; a bias of zeros" : "",
           w->half_sums ? "; sums in halves" : "");
}

/* Tries a way and keeps it if it runs. Returns -1 where nothing runs any more. */
static int try_way(cudnn_rnn *r, cudnn_rnn_way w, char (*endless)[CUDNN_TAG], int endless_count) {
  char why[CUDNN_ERROR / 2] = "";
  bool right = false;
  put_words(&w);
  for (int i = 0; i < endless_count; i++)
    if (strcmp(endless[i], w.words) == 0) snprintf(why, sizeof why, "it did not end in an earlier run");
  r->tried[w.algorithm]++;
  if (!*why && (w.parts = calloc(1, sizeof *w.parts))) {
    watch_begin(most_building, "be built", name_way, &w);
    right = describe_way(&w, why) && allocate_way(&w, why);
    watch_end();
    watch_begin(most_running, "run", name_way, &w);
    right = right && measure(&w, why);
    watch_end();
  }
  if (right) {
    r->ran[w.algorithm]++;
    r->way[r->count++] = w;
    return 0;
  }
  if (!*r->why[w.algorithm]) snprintf(r->why[w.algorithm], sizeof r->why[0], "%s", *why ? why : "no host memory");
  cudaGetLastError();
  const bool lost = cudaDeviceSynchronize() != cudaSuccess; /* an illegal access or the like stays */
  if (lost) snprintf(r->why[w.algorithm], sizeof r->why[0], "%s", why);
  free_way(&w);
  return lost ? -1 : 0;
}

static bool open_session(struct cudnn_rnn_session *s, const cudnn_rnn_layer *l, char *why) {
  const int size[3] = {1, l->batch, l->hidden}, stride[3] = {l->batch * l->hidden, l->hidden, 1};
  const size_t values = (size_t)l->hidden * (size_t)l->hidden;
  unsigned short *identity = calloc(values, sizeof *identity);
  s->layer = *l;
  s->lengths = malloc((size_t)l->batch * sizeof *s->lengths);
  snprintf(why, CUDNN_ERROR / 2, "no host memory");
  bool right = identity && s->lengths;
  for (int i = 0; i < l->batch && right; i++) s->lengths[i] = l->steps;
  for (int i = 0; i < l->hidden && right; i++) identity[(size_t)i * (size_t)l->hidden + (size_t)i] = 0x3c00; /* 1 */
  right = right && cuda(why, "memory", cudaMalloc(&s->identity, values * sizeof *identity)) &&
          cuda(why, "a copy", cudaMemcpy(s->identity, identity, values * sizeof *identity, cudaMemcpyHostToDevice)) &&
          cuda(why, "a stream", cudaStreamCreate(&s->stream)) && cuda(why, "an event", cudaEventCreate(&s->start)) &&
          cuda(why, "an event", cudaEventCreate(&s->stop)) && (DO(Create, &s->handle) || (s->handle = NULL)) && DO(CreateDropoutDescriptor, &s->none) &&
          DO(SetDropoutDescriptor, s->none, s->handle, 0, NULL, 0, 0) && DO(CreateTensorDescriptor, &s->state) &&
          DO(SetTensorNdDescriptor, s->state, CUDNN_DATA_HALF, 3, size, stride) && DO(CreateTensorDescriptor, &s->matrix) &&
          DO(CreateTensorDescriptor, &s->row);
  free(identity);
  return right;
}

int cudnn_rnn_open(cudnn_rnn *r, const cudnn_rnn_layer *layer, const char *gpu, const char *endless, char *error, size_t error_size) {
  char key[CUDNN_KEY], known[ENDLESS][CUDNN_TAG], why[CUDNN_ERROR / 2];
  *r = (cudnn_rnn){0};
  const char *none = cudnn_no_rnn();
  if (none) return snprintf(error, error_size, "%s", none), 1;
  r->session = calloc(1, sizeof *r->session);
  if (!r->session || !open_session(r->session, layer, why)) return snprintf(error, error_size, "a recurrent layer: %s", r->session ? why : "no host memory"), 1;
  snprintf(key, sizeof key, "\"%s\",%d,rnn%dx%dx%d,", gpu, cudnn_version(), layer->hidden, layer->batch, layer->steps);
  const int known_count = endless ? watch_known(endless, key, known, ENDLESS) : 0;
  watch_task(key, endless);
  for (int a = 0; a < RNN_ALGORITHMS; a++) {
    const double start = search_clock();
    const int ways = a == RNN_STANDARD ? 20 : 16; /* the others have no sums in halves */
    for (int i = 0; i < ways && search_clock() - start < enough; i++) {
      const cudnn_rnn_way w = {.algorithm = a,
                               .session = r->session,
                               .packed = i & 1,
                               .identity = i >> 1 & 1,
                               .default_math = i < 16 && i >> 2 & 1,
                               .zero_bias = i < 16 && i >> 3 & 1,
                               .half_sums = i >= 16};
      if (try_way(r, w, known, known_count)) return snprintf(error, error_size, "%s: %s", cudnn_rnn_names[a], r->why[a]), -1;
    }
  }
  return 0;
}

void cudnn_rnn_close(cudnn_rnn *r) {
  struct cudnn_rnn_session *s = r->session;
  for (int i = 0; i < r->count; i++) free_way(&r->way[i]);
  r->count = 0;
  if (!s) return;
  if (s->state) cudnn.DestroyTensorDescriptor(s->state);
  if (s->matrix) cudnn.DestroyTensorDescriptor(s->matrix);
  if (s->row) cudnn.DestroyTensorDescriptor(s->row);
  if (s->none) cudnn.DestroyDropoutDescriptor(s->none);
  if (s->handle) cudnn.Destroy(s->handle);
  if (s->start) cudaEventDestroy(s->start);
  if (s->stop) cudaEventDestroy(s->stop);
  if (s->stream) cudaStreamDestroy(s->stream);
  cudaFree(s->work), cudaFree(s->identity);
  free(s->lengths), free(s);
  r->session = NULL;
}
#endif
