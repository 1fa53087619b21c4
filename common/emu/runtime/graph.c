/* Streams' work: run at once, or recorded as nodes of a graph while the stream captures; graphs replay their nodes in that order. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/runtime/stream.h"
#include "common/emu/tool/tool.h"

static int captures; /* streams that capture now */

bool emu_any_capture(void) { return captures > 0; }

static cudaError_t run(const emu_work *work, cudaStream_t stream) {
  if (work->type != cudaGraphNodeTypeKernel) emu_stream_settle(stream == emu_stream(0) ? NULL : stream); /* the default stream waits for the others */
  switch (work->type) {
    case cudaGraphNodeTypeKernel: return emu_run_call(&work->call, &stream->past);
    case cudaGraphNodeTypeMemcpy:
      memmove(work->dst, work->src, work->bytes);
      EMU_TELL(copied, work->dst, work->src, work->bytes);
      return cudaSuccess;
    case cudaGraphNodeTypeMemset:
      memset(work->dst, work->value, work->bytes);
      EMU_TELL(copied, work->dst, NULL, work->bytes);
      return cudaSuccess;
    default: return cudaErrorNotSupported;
  }
}

/* Adds a copy of the work, kernel arguments included, to the graph. */
static cudaError_t record(cudaGraph_t graph, const emu_work *work) {
  struct CUgraphNode_st *node = calloc(1, sizeof *node);
  if (node == NULL) return cudaErrorMemoryAllocation;
  node->work = *work;
  if (work->type == cudaGraphNodeTypeKernel) {
    enum { ALIGN = 128 }; /* at least that of any kernel argument */
    void *closure = aligned_alloc(ALIGN, (work->call.closure_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1));
    if (closure == NULL) {
      free(node);
      return cudaErrorMemoryAllocation;
    }
    memcpy(closure, work->call.closure, work->call.closure_bytes);
    node->work.call.closure = closure;
  }
  *graph->end = node;
  graph->end = &node->next;
  graph->count++;
  return cudaSuccess;
}

cudaError_t emu_enqueue(cudaStream_t handle, const emu_work *enqueued) {
  cudaStream_t stream = emu_stream(handle);
  emu_work work = *enqueued;
  if (stream->capture == NULL && emu_stream_blocks_capture(stream)) return cudaErrorStreamCaptureImplicit;
  /* A kernel overtakes only the one before it in its own stream. The nodes of a graph are replayed in one row: it is the one before it there. */
  if (stream->in_order || (stream->capture != NULL && stream->capture->last != stream)) work.call.early = 0;
  stream->in_order = false;
  if (stream->capture == NULL) return run(&work, stream);
  if (stream->capture->spoiled) return cudaErrorStreamCaptureInvalidated;
  stream->capture->last = stream;
  return record(stream->capture, &work);
}

static cudaGraph_t new_graph(void) {
  cudaGraph_t graph = calloc(1, sizeof *graph);
  if (graph != NULL) graph->end = &graph->first;
  return graph;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph == NULL) return emu_error(cudaErrorInvalidValue);
  for (struct CUgraphNode_st *node = graph->first, *next; node != NULL; node = next) {
    next = node->next;
    if (node->work.type == cudaGraphNodeTypeKernel) free((void *)(uintptr_t)node->work.call.closure);
    free(node);
  }
  free(graph);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
  EMU_TRY(emu_sticky());
  cudaStream_t stream = emu_stream(handle);
  if (stream == emu_stream(0)) return emu_error(cudaErrorStreamCaptureUnsupported); /* as in CUDA: not the default stream */
  if (stream->capture != NULL) return emu_error(cudaErrorIllegalState);
  stream->capture = new_graph();
  if (stream->capture == NULL) return emu_error(cudaErrorMemoryAllocation);
  stream->capture->origin = stream;
  stream->capture->relaxed = mode == cudaStreamCaptureModeRelaxed;
  captures++;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  cudaStream_t stream = emu_stream(handle);
  if (graph == NULL) return emu_error(cudaErrorInvalidValue);
  *graph = NULL;
  if (stream->capture == NULL) return emu_error(cudaErrorIllegalState);
  cudaGraph_t captured = stream->capture;
  if (captured->origin != stream) return emu_error(cudaErrorStreamCaptureUnmatched);
  captures--;
  emu_stream_end_capture(captured);
  if (captured->spoiled) {
    cudaGraphDestroy(captured);
    return emu_error(cudaErrorStreamCaptureInvalidated);
  }
  *graph = captured;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status) {
  if (status == NULL) return emu_error(cudaErrorInvalidValue);
  const struct CUgraph_st *capture = emu_stream(handle)->capture;
  *status = capture == NULL ? cudaStreamCaptureStatusNone : capture->spoiled ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

/* An executable graph is a copy: the graph may be destroyed before it. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
  (void)flags;
  if (exec == NULL || graph == NULL) return emu_error(cudaErrorInvalidValue);
  *exec = NULL;
  cudaGraph_t copy = new_graph();
  if (copy == NULL) return emu_error(cudaErrorMemoryAllocation);
  for (const struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next) {
    const cudaError_t error = node->cut ? cudaErrorNotSupported : record(copy, &node->work);
    if (error == cudaSuccess) continue;
    cudaGraphDestroy(copy);
    return emu_error(error);
  }
  *exec = (cudaGraphExec_t)copy;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return cudaGraphDestroy((cudaGraph_t)exec); }

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  (void)stream;
  return emu_error(exec == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  EMU_TRY(emu_sticky());
  if (exec == NULL) return emu_error(cudaErrorInvalidValue);
  emu_stream(stream)->in_order = true; /* a graph begins when all before it has ended, and what follows begins when all of it has */
  for (const struct CUgraphNode_st *node = ((cudaGraph_t)exec)->first; node != NULL; node = node->next) EMU_TRY(emu_enqueue(stream, &node->work));
  emu_stream(stream)->in_order = true;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
  if (graph == NULL || count == NULL) return emu_error(cudaErrorInvalidValue);
  if (nodes != NULL) {
    size_t i = 0;
    for (struct CUgraphNode_st *node = graph->first; i < *count; i++) { /* surplus entries are set to NULL */
      nodes[i] = node;
      if (node != NULL) node = node->next;
    }
  }
  if (nodes == NULL || *count > graph->count) *count = graph->count;
  return cudaSuccess;
}

/* What the edge to a node says. */
static cudaGraphEdgeData edge_between(const struct CUgraphNode_st *from, const struct CUgraphNode_st *to) {
  const bool early = from->work.type == cudaGraphNodeTypeKernel && to->work.type == cudaGraphNodeTypeKernel && to->work.call.early;
  return early ? (cudaGraphEdgeData){.from_port = 1, .type = cudaGraphDependencyTypeProgrammatic} : (cudaGraphEdgeData){.from_port = 0};
}

/* The nodes stand in one row. */
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *data, size_t *count) {
  if (graph == NULL || count == NULL || (from == NULL) != (to == NULL) || (from == NULL) != (data == NULL))
    return emu_error(cudaErrorInvalidValue); /* with no data CUDA answers only where no edge has any */
  const size_t edges = graph->count > 0 ? graph->count - 1 : 0;
  struct CUgraphNode_st *node = graph->first;
  for (size_t i = 0; from != NULL && i < *count; i++) { /* surplus entries are set to NULL */
    const bool there = i < edges;
    from[i] = there ? node : NULL, to[i] = there ? node->next : NULL;
    data[i] = there ? edge_between(node, node->next) : (cudaGraphEdgeData){.from_port = 0};
    if (there) node = node->next;
  }
  if (from == NULL || *count > edges) *count = edges;
  return cudaSuccess;
}

/* Are these neighbours of this graph, and is the edge between them there (or not), with this data? */
static bool neighbours(cudaGraph_t graph, struct CUgraphNode_st *from, const struct CUgraphNode_st *to, bool there) {
  for (const struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next)
    if (node == from) return node->next != NULL && node->next == to && node->next->cut != there;
  return false;
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *data,
                                        size_t count) {
  if (graph == NULL || (count > 0 && (from == NULL || to == NULL))) return emu_error(cudaErrorInvalidValue);
  for (size_t i = 0; i < count; i++) {
    const cudaGraphEdgeData said = data ? data[i] : (cudaGraphEdgeData){.from_port = 0};
    if (!neighbours(graph, from[i], to[i], true) || edge_between(from[i], to[i]).type != said.type) return emu_error(cudaErrorInvalidValue);
    to[i]->cut = true;
  }
  return cudaSuccess;
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t count) {
  if (graph == NULL || (count > 0 && (from == NULL || to == NULL))) return emu_error(cudaErrorInvalidValue);
  for (size_t i = 0; i < count; i++) {
    const cudaGraphEdgeData said = data ? data[i] : (cudaGraphEdgeData){.from_port = 0};
    if (!neighbours(graph, from[i], to[i], false)) return emu_error(cudaErrorNotSupported);
    to[i]->cut = false;
    if (said.type != edge_between(from[i], to[i]).type) {
      if (said.type == cudaGraphDependencyTypeProgrammatic) return emu_error(cudaErrorInvalidValue);
      to[i]->work.call.early = 0;
    }
  }
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
  if (node == NULL || type == NULL) return emu_error(cudaErrorInvalidValue);
  *type = node->work.type;
  return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *params) {
  if (node == NULL || params == NULL || node->work.type != cudaGraphNodeTypeKernel) return emu_error(cudaErrorInvalidValue);
  const emu_call *call = &node->work.call;
  *params = (cudaKernelNodeParams){
      .func = (void *)(uintptr_t)call->function, .gridDim = call->grid, .blockDim = call->block, .sharedMemBytes = (unsigned)call->shared_bytes};
  return cudaSuccess;
}
