/* What cuDNN's plans are tried on. See cudnn_work.h. */
#include "common/cudnn/cudnn_work.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/conv/operation_reference.h"
#include "common/harness/timing.h"

static int fail(char *error, size_t size, const char *what, const char *why) {
  snprintf(error, size, "%s: %s", what, why);
  return -1;
}

int cudnn_work_make(cudnn_work *w, const cudnn_task *task, const machine *m, bool check, char *error, size_t error_size) {
  *w = (cudnn_work){.task = *task};
  const tensor_role a = pass_input_a(task->pass), b = pass_input_b(task->pass);
  for (int role = 0; role < 3; role++)
    w->host[role] = operation_tensor(task->problem, task->pass, &task->epilogue, (tensor_role)role, task->dtype, task->layout);
  if (tensor_alloc(&w->host[a]) || tensor_alloc(&w->host[b])) return fail(error, error_size, "tensors", "no host memory");
  tensor_fill_normal(&w->host[a], 1);
  tensor_fill_normal(&w->host[b], 2);
  w->fused = epilogue_describe(&task->epilogue, &w->host[pass_output(task->pass)]);
  if (epilogue_fill(&w->fused, 3, 0)) return fail(error, error_size, "tensors", "no host memory");
  if (check && reference_compute(&w->reference, task->problem, task->pass, &w->host[a], &w->host[b], true, true, error, error_size)) return -1;
  if (check) reference_fuse(&w->reference, &task->epilogue, &w->fused);
  w->sets = buffer_sets_plan_fused(ON_GPU, w->host, &w->fused, 0);
  const int wanted = timing_sets(w->sets.bytes[0] + w->sets.bytes[1] + w->sets.bytes[2], m->device.l2_bytes);
  cudaError_t status = buffer_sets_alloc(&w->sets, wanted);
  if (!status) status = buffer_upload(&w->sets, (int)a, w->host[a].data);
  if (!status) status = buffer_upload(&w->sets, (int)b, w->host[b].data);
  if (!status) status = buffer_upload_fused(&w->sets, &w->fused);
  if (!status) status = buffer_replicate(&w->sets);
  w->views = calloc((size_t)wanted, sizeof *w->views);
  for (int i = 0; w->views && i < wanted; i++) w->views[i] = buffer_view(&w->sets, i);
  return status || !w->views ? fail(error, error_size, "buffers", cudaGetErrorString(status)) : 0;
}

void cudnn_work_free(cudnn_work *w) {
  for (int role = 0; role < 3; role++) tensor_free(&w->host[role]);
  reference_free(&w->reference);
  buffer_sets_free(&w->sets);
  epilogue_free(&w->fused);
  free(w->views);
}
