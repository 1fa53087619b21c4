/* Convolutions as cuDNN operation graphs: fprop, dgrad or wgrad alone, or fprop or dgrad with what follows it.
 *
 * cuDNN sees the harness's tensors as they lie: dimensions in logical order, strides from common/conv/tensor.h. Groups are not named; cuDNN
 * deduces them from the channels of x and w. Between fused operations there are virtual tensors in fp32, which never reach memory. */
#include "common/cudnn/cudnn_api.h"

#include <stdio.h>
#include <string.h>

#include "common/conv/tensor.h"

void cudnn_graph_name(const cudnn_task *task, char name[CUDNN_GRAPH_NAME]) {
  char epilogue[EPILOGUE_NAME] = "";
  epilogue_print(&task->epilogue, epilogue);
  snprintf(name, CUDNN_GRAPH_NAME, "conv%s%s", epilogue, task->zero_bias ? "+zero_bias" : "");
}

int cudnn_graph_parse(cudnn_task *task, const char *name) {
  char words[CUDNN_GRAPH_NAME], wrong[EPILOGUE_NAME], again[CUDNN_GRAPH_NAME];
  conv_epilogue e = {0};
  if (strncmp(name, "conv", 4) != 0) return -1;
  snprintf(words, sizeof words, "%s", name + (name[4] == '+' ? 5 : 4));
  for (char *c = words; *c; c++)
    if (*c == '+') *c = ',';
  const size_t length = strlen(words);
  const bool zero_bias = strcmp(words, "zero_bias") == 0, fp32 = length >= 4 && strcmp(words + length - 4, "fp32") == 0;
  if (fp32) words[length > 4 ? length - 5 : 0] = 0;
  if (words[0] && !zero_bias && epilogue_parse(&e, words, wrong)) return -1;
  e.fp32 = fp32;
  task->epilogue = e, task->zero_bias = zero_bias;
  cudnn_graph_name(task, again);
  return strcmp(name, again) ? -1 : 0;
}

#ifdef HAVE_CUDNN

static cudnnDataType_t data_type(conv_dtype dtype) { return dtype == DTYPE_FP16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT; }

/* A tensor; uid from UID_VIRTUAL up: virtual, else the variant pack brings its memory. */
static cudnnBackendDescriptor_t make_tensor(cudnn_graph *g, int64_t uid, const int dim[4], const int64_t stride[4], cudnnDataType_t type, int64_t alignment) {
  cudnn_pool *pool = &g->pool;
  cudnnBackendDescriptor_t d = pool_create(pool, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const int64_t dims[4] = {dim[0], dim[1], dim[2], dim[3]};
  const bool is_virtual = uid >= UID_VIRTUAL;
  pool_set(pool, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  pool_set(pool, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
  pool_set(pool, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
  pool_set_integer(pool, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  pool_set_integer(pool, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  if (is_virtual) pool_set(pool, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  pool_finalize(pool, d, is_virtual ? "virtual tensor" : "tensor");
  if (!is_virtual && g->uids < UID_COUNT) g->uid[g->uids++] = uid;
  return d;
}

/* Harness buffers are 512-byte aligned; more than 16 is asked for by no engine. */
static cudnnBackendDescriptor_t make_like(cudnn_graph *g, int64_t uid, const conv_tensor *t, cudnnDataType_t type) {
  return make_tensor(g, uid, t->dim, t->stride, type, 16);
}

/* Padding behind the image. A problem has as much as its last window reads; a user writes the same as before the image, and with a stride
 * the last rows of it may be read by no window. Where the output is the same, so do we: cuDNN's specialised engines want both sides alike. */
static int64_t pad_after(int in, int filter, int out, int stride, int dil, int before, int after) {
  const int64_t extent = (int64_t)(filter - 1) * dil + 1;
  return (in + 2 * (int64_t)before - extent) / stride + 1 == out ? before : after;
}

static cudnnBackendDescriptor_t make_convolution(cudnn_graph *g, const conv_problem *p) {
  cudnn_pool *pool = &g->pool;
  cudnnBackendDescriptor_t d = pool_create(pool, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const int64_t before[2] = {p->pad_top, p->pad_left};
  const int64_t after[2] = {pad_after(p->H, p->R, p->P, p->stride_h, p->dil_h, p->pad_top, p->pad_bottom),
                            pad_after(p->W, p->S, p->Q, p->stride_w, p->dil_w, p->pad_left, p->pad_right)};
  const int64_t stride[2] = {p->stride_h, p->stride_w}, dilation[2] = {p->dil_h, p->dil_w};
  pool_set(pool, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  pool_set(pool, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  pool_set_integer(pool, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  pool_set(pool, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
  pool_set(pool, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
  pool_set(pool, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
  pool_set(pool, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
  pool_finalize(pool, d, "convolution");
  return d;
}

/* The three passes differ in names only. */
static const struct {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
} passes[PASS_COUNT] = {
    [PASS_FPROP] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [PASS_DGRAD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [PASS_WGRAD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/* in (op) with -> out; with may be NULL. most: where a ReLU is cut off, 0: nowhere. Math in fp32. */
static cudnnBackendDescriptor_t make_pointwise(cudnn_graph *g, cudnnPointwiseMode_t mode, double most, cudnnBackendDescriptor_t in,
                                               cudnnBackendDescriptor_t with, cudnnBackendDescriptor_t out) {
  cudnn_pool *pool = &g->pool;
  const cudnnDataType_t math = CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t what = pool_create(pool, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pool_set(pool, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  pool_set(pool, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
  if (most > 0) pool_set(pool, what, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &most);
  pool_finalize(pool, what, "pointwise");
  cudnnBackendDescriptor_t d = pool_create(pool, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  pool_set_descriptor(pool, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
  pool_set_descriptor(pool, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, in);
  if (with) pool_set_descriptor(pool, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, with);
  pool_set_descriptor(pool, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
  pool_finalize(pool, d, "pointwise operation");
  return d;
}

enum { STEPS = 5 };

/* Appends scale, bias, residual and activation as asked, each from the tensor before it; the last one writes the result. Returns the number of operations.
 * With a bias in fp16 the residual comes before it: in this order, and in no other, cuDNN has its ready-made kernels for it (18 engines instead of 8). */
static int make_epilogue(cudnn_graph *g, const cudnn_task *task, const conv_tensor *shape, cudnnBackendDescriptor_t in, cudnnBackendDescriptor_t result,
                         cudnnBackendDescriptor_t operations[STEPS]) {
  static const cudnnPointwiseMode_t activations[ACTIVATION_COUNT] = {[ACTIVATION_RELU] = CUDNN_POINTWISE_RELU_FWD,
                                                                     [ACTIVATION_RELU6] = CUDNN_POINTWISE_RELU_FWD,
                                                                     [ACTIVATION_GELU] = CUDNN_POINTWISE_GELU_FWD,
                                                                     [ACTIVATION_SILU] = CUDNN_POINTWISE_SWISH_FWD};
  const conv_epilogue *e = &task->epilogue;
  const bool halves = task->bias == DTYPE_FP16;
  const struct {
    bool wanted;
    cudnnPointwiseMode_t mode;
    int64_t uid; /* of what it reads; 0: nothing */
  } steps[STEPS] = {{e->scale, CUDNN_POINTWISE_MUL, UID_SCALE},
                    {e->residual && halves, CUDNN_POINTWISE_ADD, UID_RESIDUAL},
                    {e->bias || task->zero_bias, CUDNN_POINTWISE_ADD, UID_BIAS},
                    {e->residual && !halves, CUDNN_POINTWISE_ADD, UID_RESIDUAL},
                    {e->activation != ACTIVATION_NONE, activations[e->activation], 0}};
  const int channels = shape->dim[1], per_channel[4] = {1, channels, 1, 1};
  const int64_t stride[4] = {channels, 1, channels, channels};
  int last = STEPS - 1, count = 0;
  while (last > 0 && !steps[last].wanted) last--;
  for (int i = 0; i <= last; i++) {
    if (!steps[i].wanted) continue;
    const double most = steps[i].uid == 0 && e->activation == ACTIVATION_RELU6 ? 6 : 0;
    cudnnBackendDescriptor_t with = NULL, out = i == last ? result : make_like(g, UID_VIRTUAL + 1 + i, shape, CUDNN_DATA_FLOAT);
    if (steps[i].uid == UID_RESIDUAL) with = make_like(g, UID_RESIDUAL, shape, data_type(shape->dtype));
    else if (steps[i].uid) with = make_tensor(g, steps[i].uid, per_channel, stride, steps[i].uid == UID_BIAS ? data_type(task->bias) : CUDNN_DATA_FLOAT, 16);
    operations[count++] = make_pointwise(g, steps[i].mode, most, in, with, out);
    in = out;
  }
  return count;
}

int cudnn_graph_make(cudnn_graph *g, const cudnn_task *task, conv_layout layout, cudnnHandle_t handle, cudnnBackendDescriptor_t device, char *error,
                     size_t error_size) {
  const conv_problem *p = task->problem;
  *g = (cudnn_graph){.layout = layout, .bias = task->bias, .device = device};
  cudnn_pool *pool = &g->pool;
  conv_tensor shape[3];
  cudnnBackendDescriptor_t tensor[3], operations[1 + STEPS];
  for (int role = 0; role < 3; role++) {
    shape[role] = operation_tensor(p, task->pass, &task->epilogue, (tensor_role)role, task->dtype, layout);
    tensor[role] = make_like(g, UID_X + role, &shape[role], data_type(shape[role].dtype));
  }
  const bool fuse = task->zero_bias || !epilogue_empty(&task->epilogue);
  const tensor_role out = pass_output(task->pass);
  const cudnnBackendDescriptor_t result = tensor[out];
  if (fuse) tensor[out] = make_like(g, UID_VIRTUAL, &shape[out], CUDNN_DATA_FLOAT); /* the convolution's */
  cudnnBackendDescriptor_t convolution = make_convolution(g, p);
  operations[0] = pool_create(pool, passes[task->pass].operation);
  pool_set_descriptor(pool, operations[0], passes[task->pass].convolution, convolution);
  pool_set_descriptor(pool, operations[0], passes[task->pass].x, tensor[TENSOR_X]);
  pool_set_descriptor(pool, operations[0], passes[task->pass].w, tensor[TENSOR_W]);
  pool_set_descriptor(pool, operations[0], passes[task->pass].y, tensor[TENSOR_Y]);
  pool_set_float(pool, operations[0], passes[task->pass].alpha, 1);
  pool_set_float(pool, operations[0], passes[task->pass].beta, 0);
  pool_finalize(pool, operations[0], pass_name(task->pass));
  const int count = 1 + (fuse ? make_epilogue(g, task, &shape[out], tensor[out], result, operations + 1) : 0);
  g->graph = pool_create(pool, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  pool_set(pool, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations);
  if (handle) pool_set(pool, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  pool_finalize(pool, g->graph, "operation graph");
  int64_t engines = 0;
  pool_get(pool, g->graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1, &engines);
  g->engines = (int)engines;
  if (!pool->status) return 0;
  char text[256];
  problem_print(p, text, sizeof text);
  snprintf(error, error_size, "%s %s %s %s: %s", text, pass_name(task->pass), dtype_name(task->dtype), layout_name(layout), pool->failure);
  return -1;
}

void cudnn_graph_free(cudnn_graph *g) { pool_free(&g->pool); }
#endif
