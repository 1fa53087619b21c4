/* Does a trial fit memory? See trial_state.h. */
#include <stdio.h>

#include "common/harness/trial_state.h"

/* What the emulator's checker or counter keeps of each byte on the device. */
static double kept_share(const trial *t) {
#ifdef CUDA_EMULATOR
  if (t->place == ON_GPU) return emu_kept_share(t->dtype == DTYPE_FP16);
#endif
  (void)t;
  return 0;
}

static const char *keeper(void) {
#ifdef CUDA_EMULATOR
  if (emu_tool_name()) return emu_tool_name();
#endif
  return "";
}

bool trial_fits_memory(trial_state *s) {
  const trial *t = s->t;
  const double out = (double)s->host[s->output].count, in = (double)s->host[s->input_a].count + (double)s->host[s->input_b].count;
  const double tensors = (in + out) * (double)dtype_bytes(t->dtype), kept = tensors * kept_share(t);
  const double host = 2 * tensors + 4 * in + 12 * out + (t->place == ON_CPU || t->machine->device.emulated ? tensors + kept : 0);
  const double device = tensors + (t->gpu_reference ? in * (double)dtype_bytes(t->dtype) + 12 * out : 0);
  const double has = (double)t->machine->host_bytes, is_free = (double)t->machine->device.memory_bytes;
  char also[64] = "";
  if (kept > 0) snprintf(also, sizeof also, " (%.3g GB of it for the %s)", kept / 1e9, keeper());
  if (host > 0.9 * has)
    snprintf(s->no_room, sizeof s->no_room, "needs %.3g GB of host memory%s, this machine or container has %.3g GB", host / 1e9, also, has / 1e9);
  else if (t->place == ON_GPU && device > 0.95 * is_free)
    snprintf(s->no_room, sizeof s->no_room, "needs %.3g GB of device memory, %.3g GB are free", device / 1e9, is_free / 1e9);
  return !s->no_room[0];
}

bool trial_host_memory(trial_state *s) {
  conv_tensor *const tensors[4] = {&s->host[0], &s->host[1], &s->host[2], &s->scratch};
  for (int i = 0; i < 4; i++) {
    const bool named = i < 3 && (s->t->options->npy_in[i] || (i == (int)s->output && s->t->options->npy_out));
    if ((s->on_device && !named) || tensors[i]->data || tensor_alloc(tensors[i]) == 0) continue;
    snprintf(s->no_room, sizeof s->no_room, "no host memory for a tensor of %zu bytes", tensor_bytes(tensors[i]));
    return false;
  }
  return true;
}

void trial_no_buffers(trial_state *s, const buffer_sets *set) {
  const size_t bytes = set->set_bytes + set->tail_bytes;
  char also[64] = "";
  if (kept_share(s->t) > 0) snprintf(also, sizeof also, " and the %.0f that the %s keeps of them", (double)bytes * kept_share(s->t), keeper());
  snprintf(s->no_room, sizeof s->no_room, "no memory for its buffers of %zu bytes%s", bytes, also);
}

bool trial_refused(const trial_state *s) {
  if (s->t->options->one_shape) fprintf(stderr, "--shape: mb, ic, oc, ih, iw: expected a problem that fits memory: %s\n", s->no_room);
  return s->t->options->one_shape;
}
