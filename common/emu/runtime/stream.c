/* Streams and events. Work is done when it is enqueued, so waiting never waits; an event is a time of the wall clock. */
#include "common/emu/runtime/stream.h"

#include <stdlib.h>

static struct CUstream_st default_stream;

cudaStream_t emu_stream(cudaStream_t handle) {
  return handle == NULL || handle == cudaStreamLegacy || handle == cudaStreamPerThread ? &default_stream : handle;
}

bool emu_stream_blocks_capture(cudaStream_t stream) {
  if (stream != &default_stream || !emu_any_capture()) return false;
  bool blocks = false;
  for (struct CUstream_st *s = default_stream.next; s != NULL; s = s->next)
    if (s->capture != NULL && !(s->flags & cudaStreamNonBlocking)) {
      blocks = true;
      s->capture->spoiled = true;
    }
  return blocks;
}

bool emu_capture_forbids_memory(void) {
  bool forbids = false;
  for (struct CUstream_st *s = default_stream.next; s != NULL; s = s->next)
    if (s->capture != NULL && !s->capture->relaxed) forbids = s->capture->spoiled = true;
  return forbids;
}

void emu_stream_settle(cudaStream_t stream) {
  for (struct CUstream_st *s = stream != NULL ? stream : &default_stream; s != NULL; s = stream != NULL ? NULL : s->next) s->past = (emu_past){0};
}

void emu_stream_end_capture(cudaGraph_t graph) {
  for (struct CUstream_st *s = default_stream.next; s != NULL; s = s->next)
    if (s->capture == graph) s->capture = NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
  EMU_TRY(emu_sticky());
  if (stream == NULL || flags > cudaStreamNonBlocking) return emu_error(cudaErrorInvalidValue);
  *stream = calloc(1, sizeof **stream);
  if (*stream == NULL) return emu_error(cudaErrorMemoryAllocation);
  (*stream)->flags = flags;
  (*stream)->next = default_stream.next;
  default_stream.next = *stream;
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  for (struct CUstream_st **link = &default_stream.next; *link != NULL; link = &(*link)->next) {
    if (*link != stream) continue;
    *link = stream->next;
    free(stream);
    return cudaSuccess;
  }
  return emu_error(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  EMU_TRY(emu_sticky());
  cudaStream_t stream = emu_stream(handle);
  if (stream->capture == NULL) {
    emu_stream_settle(stream);
    return cudaSuccess;
  }
  stream->capture->spoiled = true;
  return emu_error(cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

/* Work is in order anyway; what matters is that waiting for a captured event joins the capture. */
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int flags) {
  (void)flags;
  EMU_TRY(emu_sticky());
  if (event == NULL) return emu_error(cudaErrorInvalidResourceHandle);
  cudaStream_t stream = emu_stream(handle);
  stream->in_order = true;
  if (event->capture != NULL && event->capture != stream->capture) {
    if (stream->capture != NULL) return emu_error(cudaErrorStreamCaptureUnmatched);
    stream->capture = event->capture;
  }
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  EMU_TRY(emu_sticky());
  if (event == NULL) return emu_error(cudaErrorInvalidValue);
  *event = calloc(1, sizeof **event);
  if (*event == NULL) return emu_error(cudaErrorMemoryAllocation);
  (*event)->flags = flags;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == NULL) return emu_error(cudaErrorInvalidResourceHandle);
  free(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  EMU_TRY(emu_sticky());
  if (event == NULL) return emu_error(cudaErrorInvalidResourceHandle);
  event->capture = emu_stream(stream)->capture;
  event->recorded = event->capture == NULL;
  clock_gettime(CLOCK_MONOTONIC, &event->time);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  EMU_TRY(emu_sticky());
  emu_stream_settle(NULL); /* of its own stream alone; too much, then: no defect is invented */
  return event == NULL ? emu_error(cudaErrorInvalidResourceHandle) : cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t stop) {
  EMU_TRY(emu_sticky());
  if (ms == NULL) return emu_error(cudaErrorInvalidValue);
  if (start == NULL || stop == NULL || !start->recorded || !stop->recorded) return emu_error(cudaErrorInvalidResourceHandle);
  if ((start->flags | stop->flags) & cudaEventDisableTiming) return emu_error(cudaErrorInvalidResourceHandle);
  const double seconds = (double)(stop->time.tv_sec - start->time.tv_sec) + 1e-9 * (double)(stop->time.tv_nsec - start->time.tv_nsec);
  *ms = (float)(1e3 * seconds);
  return cudaSuccess;
}
