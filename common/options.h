/* The command line of a step. */
#pragma once
#include "common/step.h"

typedef struct step_options {
  conv_suite suite; /* the problems to run: one from --shape, or a list */
  bool one_shape;   /* from --shape (or none given): what cannot be done is an error, not a skip */
  bool passes[PASS_COUNT], dtypes[DTYPE_COUNT], layouts[LAYOUT_COUNT];
  const char *kernel; /* names, between commas, or "auto"; NULL: all of the step */
  bool list, exact_only, timing;
  bool cudnn;        /* time cuDNN's plans beside the kernels */
  bool cudnn_search; /* even where the winners of an earlier search are known */
  uint64_t seed;
  const char *csv, *json;
  const char *npy_in[3]; /* by tensor_role: --x, --w, --dy */
  const char *npy_out;
} step_options;

/* Returns 0 to go on, or an exit status + 1: 1 after --help, 3 after bad input (one line on stderr). */
int options_parse(step_options *o, const conv_step *step, int argc, char **argv);
/* May a kernel of this name take part? With "auto" every one, before the rule. */
bool options_names(const step_options *o, const char *kernel);
/* Does any input come from a file? If not, the data are random. */
bool options_from_files(const step_options *o);
void options_free(step_options *o);
