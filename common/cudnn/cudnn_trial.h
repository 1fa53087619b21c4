/* cuDNN's plans as contenders of a trial: the same buffers, the same checks, the same turns. */
#pragma once
#include "common/cudnn/cudnn.h"
#include "common/harness/timing.h"
#include "common/harness/trial_state.h"

enum { CUDNN_CONTENDERS = CUDNN_BEST + 1 };

/* What cuDNN is asked for. */
typedef enum cudnn_way {
  CUDNN_ONE_GRAPH, /* the operation, with its epilogue */
  CUDNN_ZERO_BIAS, /* a bare convolution with a bias of zeros */
  CUDNN_APART,     /* the bare convolution; then our kernel for the epilogue alone (common/harness/unfused.cu) passes over its result */
} cudnn_way;

typedef struct cudnn_trial {
  cudnn_baseline baseline;
  const conv_kernel *after; /* of what is done apart; else NULL */
  conv_plan after_plan;
  trial_state *state;
  const buffer_sets *sets;
  struct cudnn_turn {
    cudnn_runner runner; /* first: a turn is its runner's context */
    struct cudnn_trial *trial;
    bool wrong; /* what its last timed sample wrote */
  } turn[CUDNN_CONTENDERS];
  char note[256];
} cudnn_trial;

/* Finds plans for the trial, checks them (apart: what the last timed sample wrote alone is) and fills contenders[0 .. returned-1]. The sets hold the trial's
 * inputs. With 0 contenders the note says why; -1: a CUDA error, nothing can be run any more. Close it after the timing, before the sets are freed. */
int cudnn_trial_open(cudnn_trial *c, trial_state *s, const buffer_sets *sets, const cudnn_options *options, cudnn_way way,
                     contender contenders[CUDNN_CONTENDERS]);
/* After the timing: the fastest plan that was right, and the heuristic's. */
cudnn_figures cudnn_trial_figures(const cudnn_trial *c, const contender contenders[CUDNN_CONTENDERS]);
/* Of two ways to the same result: the faster one's plan, and what a user gets from the faster of their heuristics. */
cudnn_figures cudnn_faster(const cudnn_figures *a, const cudnn_figures *b);
void cudnn_trial_close(cudnn_trial *c);
