/* What stream.c and graph.c share. */
#pragma once
#include <time.h>

#include "common/emu/run/internal.h"

struct CUgraphNode_st {
  struct CUgraphNode_st *next;
  emu_work work;
  bool cut; /* the edge to it was taken away */
};

struct CUgraph_st {
  struct CUgraphNode_st *first, **end;
  size_t count;
  cudaStream_t origin; /* where its capture began */
  cudaStream_t last;   /* where its last node was captured */
  bool spoiled;        /* a call was made that capture forbids */
  bool relaxed;        /* it forbids less */
};

struct CUstream_st {
  struct CUstream_st *next; /* all streams, for the end of a capture */
  unsigned flags;
  cudaGraph_t capture; /* the graph its work goes to; NULL: work runs at once */
  bool in_order;       /* what comes next waits for more than the kernel before it, so it does not begin early */
  emu_past past;
};

struct CUevent_st {
  unsigned flags;
  bool recorded;
  struct timespec time;
  cudaGraph_t capture; /* recorded by a stream that captures this graph */
};

/* The stream behind a handle: 0 and the two special handles are the default stream. */
cudaStream_t emu_stream(cudaStream_t handle);

/* True for the default stream while some blocking stream captures: CUDA would order the two. */
bool emu_stream_blocks_capture(cudaStream_t stream);

/* All that was enqueued has ended: the host has waited for it, or what comes next waits for it. NULL: in all streams. */
void emu_stream_settle(cudaStream_t stream);

/* All streams that joined the capture leave it. */
void emu_stream_end_capture(cudaGraph_t graph);
