/* The command line of a step. */
#pragma once
#include "common/harness/registry.h"

/* Where data are made and results compared. */
typedef enum verify_place { VERIFY_BY_SIZE /* device_check_suits() */, VERIFY_ON_HOST, VERIFY_ON_DEVICE } verify_place;

typedef struct step_options {
  conv_suite suite; /* the problems to run: one from --shape, or a list; none yet if they are to be drawn */
  int random;       /* how many problems to draw, 0: none */
  int batch;        /* images of every problem, 0: as many as it has */
  bool one_shape;   /* from --shape (or none given): what cannot be done is an error, not a skip */
  bool passes[PASS_COUNT], dtypes[DTYPE_COUNT], layouts[LAYOUT_COUNT];
  bool transposed;        /* the pass is dgrad, but as a convolution of its own: common/conv/transposed.h */
  conv_epilogue epilogue; /* of every problem */
  const char *kernel;     /* names, between commas, or "auto"; NULL: all of the step */
  bool list, which, exact_only, timing;
  verify_place verify;
  bool cudnn;        /* time cuDNN's plans beside the kernels */
  bool cudnn_search; /* even where the winners of an earlier search are known */
  bool cudnn_fused;  /* beside its plans for a bare forward convolution, those of a graph with a bias of zeros */
  bool in_order;     /* our kernels also where each waits for the one before it to end */
  int cudnn_seconds; /* of a search; 0: as many as usual */
  uint64_t seed;
  const char *csv, *json;
  const char *npy_in[3]; /* by tensor_role: --x, --w, --dy; of a transposed convolution --x is in the place of dy */
  const char *npy_out;
  bool keep_wrong; /* npy_out gets a wrong result, too */
} step_options;

/* Returns 0 to go on, or an exit status + 1: 1 after --help, 3 after bad input (one line on stderr). */
int options_parse(step_options *o, const conv_step *step, int argc, char **argv);
/* Do options that were read go together? Returns 0, or -1 after one line on stderr. Called by options_parse(). */
int options_check(step_options *o);
/* Draws the problems of --random, if that was given: N of any kind; with kernels named, N for each of them that it can do on this device. Returns 0, or -1
 * after one line on stderr. */
int options_draw(step_options *o, const conv_step *step, const conv_device *device);
/* Does any input come from a file? If not, the data are random. */
bool options_from_files(const step_options *o);
/* Is the kernel one that may take part, by pass, type, layout and name? With "auto" every name, before the rule. */
bool options_select(const step_options *o, const conv_kernel *k);
void options_free(step_options *o);
