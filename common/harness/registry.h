/* A step's kernels as a table, and the rule by which it chooses one. Several steps can be linked into one program. */
#pragma once
#include "common/harness/chain.h"
#include "common/harness/kernel.h"
#include "common/harness/machine.h"
#include "common/harness/sources.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One line of the rule by which a step chooses (--kernel auto): this kernel, if it can do the problem, and if `when` says so. */
typedef struct conv_choice {
  const conv_kernel *kernel;
  /* random: so are the data. For others some kernels have no error bound, and cannot be verified. NULL: always. */
  bool (*when)(const conv_problem *p, conv_pass pass, const conv_device *device, bool random);
  const char *words; /* when, for the reader */
} conv_choice;

/* kernels.c of a step's folder has one, step_NN. */
typedef struct conv_step {
  const char *number; /* "01" */
  const char *title;  /* one line */
  const conv_kernel *const *kernels;
  int kernel_count;
  const kernel_source *sources;                /* the hashes of their sources; written when the step is built */
  void (*measure_peaks)(machine_peaks *peaks); /* for CPU kernels: this machine's limits, measured; else NULL */
  const conv_choice *rule;                     /* the first line that fits decides; NULL: the step has one kernel a pass, or no rule */
  int rule_count;
  const chain_kernel *const *chains; /* kernels for several operations of a graph; NULL: none */
  int chain_count;
  const char *layer, *small_layer; /* the problem where none is named, on a GPU and on the emulator; NULL: the layer of all chapters */
} conv_step;

/* All steps but 00, the last first, then NULL: in programs that are linked with all of them (written when they are built). */
extern const conv_step *const all_steps[];

/* The hash of a kernel's source, whichever step it is of; "" where there is none. In such programs. */
static inline const char *registered_source(const char *kernel) {
  const char *hash = "";
  for (int s = 0; all_steps[s] && !*hash; s++) hash = source_hash(all_steps[s]->sources, kernel);
  return hash;
}

/* The line of the rule that decides, and its kernel's plan; NULL: none does. */
const conv_choice *step_choose(const conv_step *step, const conv_operation *o, conv_dtype dtype, const conv_device *device, bool random, conv_plan *plan);

#ifdef __cplusplus
}
#endif
