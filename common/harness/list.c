/* What a kernel asks of the machine. See list.h. */
#include "common/harness/list.h"

#include <stdlib.h>

#include "common/harness/plan.h"
#include "common/harness/symbol.h"

static cudaError_t print_node(FILE *out, cudaGraphNode_t node) {
  enum cudaGraphNodeType type;
  struct cudaKernelNodeParams launch;
  struct cudaFuncAttributes attributes;
  const char *name = "?";
  cudaError_t status = cudaGraphNodeGetType(node, &type);
  if (status || type != cudaGraphNodeTypeKernel) return status;
  status = cudaGraphKernelNodeGetParams(node, &launch);
  if (!status) status = cudaFuncGetAttributes(&attributes, launch.func);
  if (!status) status = cudaFuncGetName(&name, launch.func);
  if (status) return status;
  fprintf(out, "       grid %u x %u x %u, block %u x %u x %u, shared %zu + %u bytes, ", launch.gridDim.x, launch.gridDim.y, launch.gridDim.z, launch.blockDim.x,
          launch.blockDim.y, launch.blockDim.z, attributes.sharedSizeBytes, launch.sharedMemBytes);
  if (attributes.numRegs > 0) fprintf(out, "%d registers", attributes.numRegs);
  else fprintf(out, "registers: known to nvcc only");
  char *readable = symbol_readable(name);
  fprintf(out, "  %s\n", readable ? readable : name);
  free(readable);
  return cudaSuccess;
}

cudaError_t list_launches(FILE *out, const conv_kernel *kernel, const conv_plan *plan) {
  /* Nothing runs, so the pointers only have to look like memory; aligned as the harness aligns its buffers. */
  const conv_buffers b = {.x = (void *)512,
                          .w = (void *)1024,
                          .y = (void *)1536,
                          .workspace = (void *)2048,
                          .scale = (float *)2560,
                          .bias = (float *)3072,
                          .residual = (void *)3584};
  cudaStream_t stream = 0;
  cudaGraph_t graph = NULL;
  size_t count = 0;
  cudaGraphNode_t *nodes = NULL;
  cudaError_t status = cudaStreamCreate(&stream);
  if (!status) status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (!status) {
    status = kernel->launch(plan, &b, stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (!status) status = ended;
  }
  if (!status) status = cudaGraphGetNodes(graph, NULL, &count);
  if (!status && !(nodes = malloc((count + 1) * sizeof(cudaGraphNode_t)))) status = cudaErrorMemoryAllocation;
  if (!status) status = cudaGraphGetNodes(graph, nodes, &count);
  for (size_t i = 0; i < count && !status; i++) status = print_node(out, nodes[i]);
  free(nodes);
  if (graph) cudaGraphDestroy(graph);
  if (stream) cudaStreamDestroy(stream);
  return status;
}
