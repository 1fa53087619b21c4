/* What cuDNN's plans are tried on when none of our kernels takes part: a task's tensors, the right answer, and buffer sets on the GPU. */
#pragma once
#include "common/cudnn/cudnn.h"
#include "common/harness/buffers.h"
#include "common/harness/machine.h"

typedef struct cudnn_work {
  cudnn_task task;
  conv_tensor host[3];
  conv_reference reference; /* with the fused operations applied; empty unless asked for */
  buffer_sets sets;         /* enough that the L2 cache is cold */
  conv_buffers *views;
  epilogue_data fused; /* on the host */
} cudnn_work;

/* Makes all of it from random numbers; the reference if `check`. Returns 0, or -1 with a line in `error`. Free with cudnn_work_free
 * either way. The task's problem must outlive it. */
int cudnn_work_make(cudnn_work *w, const cudnn_task *task, const machine *m, bool check, char *error, size_t error_size);
void cudnn_work_free(cudnn_work *w);
