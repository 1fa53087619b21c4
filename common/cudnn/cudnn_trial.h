/* cuDNN's plans as contenders of a trial: the same buffers, the same checks, the same turns. */
#pragma once
#include "common/cudnn/cudnn.h"
#include "common/harness/timing.h"
#include "common/harness/trial_state.h"

enum { CUDNN_CONTENDERS = CUDNN_BEST + 1 };

typedef struct cudnn_trial {
  cudnn_baseline baseline;
  trial_state *state;
  const buffer_sets *sets;
  struct cudnn_turn {
    cudnn_runner runner; /* first: a turn is its runner's context */
    struct cudnn_trial *trial;
    bool wrong; /* what its last timed sample wrote */
  } turn[CUDNN_CONTENDERS];
  char note[256];
} cudnn_trial;

/* Finds plans for the trial, checks them and fills contenders[0 .. returned-1]. The sets hold the trial's inputs. zero_bias: those of a graph with a bias of
 * zeros. With 0 contenders the note says why; -1: a CUDA error, nothing can be run any more. Close it after the timing, before the sets are freed. */
int cudnn_trial_open(cudnn_trial *c, trial_state *s, const buffer_sets *sets, const cudnn_options *options, bool zero_bias,
                     contender contenders[CUDNN_CONTENDERS]);
/* After the timing: the fastest plan that was right, and the heuristic's. */
cudnn_figures cudnn_trial_figures(const cudnn_trial *c, const contender contenders[CUDNN_CONTENDERS]);
void cudnn_trial_close(cudnn_trial *c);
