/* cuDNN as the opponent: what a user gets from it, and the best of a wide search, as contenders for common/harness/timing.h.
 *
 * cuDNN is optional. Where its headers were missing at build time, or its library is missing now, every function here says so and the
 * harness leaves its columns empty. Nothing below needs cuDNN's own headers.
 *
 * A plan is named by a tag: `eng79_k24=3` is engine 79 with knob 24 (the kernel configuration) at 3 and cuDNN's defaults for the others;
 * `@NHWC` behind it: on tensors in that layout, where the task's is the other one. The numbers are cuDNN's own (cudnnBackendKnobType_t);
 * a tag holds for one cuDNN version, GPU and graph. `@fp16` behind it: the bias is in fp16, not in fp32. */
#pragma once
#include "common/conv/epilogue.h"
#include "common/conv/reference.h"
#include "common/conv/verify.h"
#include "common/harness/kernel.h"

/* ---------------------------------------------------------------- the library */

/* Loads cuDNN on the first call. Returns its version as cuDNN counts (91900 for 9.19.0), or 0 where there is none. */
int cudnn_version(void);
/* "cuDNN 9.19.0 (/path/libcudnn.so.9; NVRTC 13)", or one sentence what is missing. */
const char *cudnn_describe(void);

/* ---------------------------------------------------------------- what is asked */

typedef struct cudnn_task {
  const conv_problem *problem;
  conv_pass pass;
  conv_dtype dtype;   /* of all tensors but a result that the epilogue stores as fp32; sums are fp32 */
  conv_layout layout; /* of the caller's buffers */
  /* What follows it in the same graph; behind wgrad only the result's type. The buffers have its data: residuals in the task's dtype and layout. */
  conv_epilogue epilogue;
  /* A bias of zeros is added to a bare fprop convolution, in the same graph: the result is the convolution's, but other engines compete, those of fused
   * graphs. Nobody brings it: the zeros are cuDNN's side's own. */
  bool zero_bias;
  conv_dtype bias; /* the bias's type, which decides which engines there are: cudnn_baseline_open() tries both where task_halves() */
} cudnn_task;

/* Whether a bias may as well be fp16: one of zeros, or one without a scale before it, as it stands behind a filter into which batch norm was folded. The
 * harness's biases are halves where its tensors are, so that both types compute the same. */
static inline bool task_halves(const cudnn_task *task) {
  const conv_epilogue *e = &task->epilogue;
  return task->dtype == DTYPE_FP16 && (task->zero_bias || (e->bias && !e->scale && !e->fp32));
}

/* "conv", "conv+scale+bias+residual+relu", "conv+zero_bias": the graph in a winners file. */
enum { CUDNN_GRAPH_NAME = 64 };
void cudnn_graph_name(const cudnn_task *task, char name[CUDNN_GRAPH_NAME]);
/* Back: sets the task's epilogue and zero_bias. Returns 0, or -1: no such name. */
int cudnn_graph_parse(cudnn_task *task, const char *name);

enum {
  CUDNN_BEST = 5,     /* plans that go into the real timing */
  CUDNN_TAG = 192,    /* characters of a tag */
  CUDNN_NOTES = 160,  /* of its numerical notes */
  CUDNN_ERROR = 1024, /* of an error: call, shape, cuDNN's own words */
  CUDNN_SEARCH = 512, /* of what became of a search's plans, in one line */
};

typedef struct cudnn_options {
  size_t workspace_limit;     /* bytes a plan may ask for; 0: 1 GiB */
  int most_plans;             /* timed in the search; 0: 400 */
  double most_seconds;        /* of the search; 0: 10 */
  bool layouts[LAYOUT_COUNT]; /* to try; none: NHWC for fp16, both for fp32; fused: the task's */
  bool search;                /* even if the winners' file knows the task; it begins with what that knows */
  bool winners_only;          /* where that knows the task: not the heuristic's pick, too, which that search has timed */
  bool keep_all;              /* list every timed plan in `all` */
  bool any_math;              /* also engines that round inputs to less than the task does (TF32): what would they bring? */
  bool direct;                /* only engines that multiply as often as the formula says: none noted as Winograd or FFT, no error like theirs */
  const char *winners[2];     /* files of earlier winners to look the task up in, in this order; may be NULL or missing */
  const char *append_to;      /* a file that gets a line after a search; may be NULL */
  const char *gpu;            /* the GPU's name, the winners' key */
  double fp32_flops;          /* its peak, to leave out engines that cannot be fast (they can take 20 s to build); 0: unknown */
} cudnn_options;

/* ---------------------------------------------------------------- what is found */

typedef struct cudnn_candidate {
  char tag[CUDNN_TAG];
  char notes[CUDNN_NOTES]; /* "tensor core, nondeterministic"; "" if none */
  conv_layout layout;      /* that it runs on */
  size_t workspace;        /* bytes */
  double us;               /* cold L2, quick: for ranking, not for a table */
  unsigned note_bits;      /* the same, for cudnn_rule */
  double worst_share;      /* of the bound, when it was checked; else 0 */
  double plain_share;      /* of the bound that a plain sum in fp32 has; above 1 for transforms */
  bool checked;            /* its output was compared with the reference, and right */
  bool rounds_sums;        /* to fp16, before the epilogue */
} cudnn_candidate;

/* What became of everything that was tried. */
typedef struct cudnn_counts {
  int timed;
  int other_math;               /* engines left out: not the same math */
  int hopeless;                 /* left out: even at the peak of fp32 FMA slower than what was found */
  int refused;                  /* combinations that cuDNN would not build */
  int over_workspace;           /* plans that want more than the limit */
  int not_capturable;           /* ran, but not inside a CUDA graph */
  int failed;                   /* built, but an error when run */
  int wrong;                    /* among the fastest, with a wrong result */
  double wrong_us, wrong_share; /* the fastest of these: its time, its worst error as a share of a plain sum's bound, its tag */
  char wrong_tag[CUDNN_TAG];
  int endless;       /* left out: taken for endless in an earlier run */
  int cut;           /* known, but the plans or the seconds were used up */
  int kin;           /* of the timed: known from the layer's other graphs */
  int runtime_built; /* of the timed: compiled at run time (NVRTC) */
  double seconds, build_seconds, time_seconds;
  double slowest_build; /* seconds; and its tag */
  char slowest_tag[CUDNN_TAG];
  bool from_file; /* nothing was searched: the winners' file knew the task */
} cudnn_counts;

struct cudnn_session; /* cudnn_baseline.c's */

typedef struct cudnn_baseline {
  cudnn_candidate plan[CUDNN_BEST + 1];
  int best;      /* plan[0 .. best-1]: the fastest of the search, fastest first */
  int count;     /* best, or one more: the heuristic's pick where it is not among them */
  int heuristic; /* which plan is heuristic mode A's first of the same math, in the task's layout (fp16: NHWC); -1: none */
  cudnn_counts counts;
  char search[CUDNN_SEARCH]; /* the counts of the search, also if it was an earlier one's; "" if its winners were kept without them */
  cudnn_candidate *all;      /* if keep_all: every timed plan, fastest first */
  int all_count;
  struct cudnn_session *session;
} cudnn_baseline;

/* What the result of an engine with these notes is judged by (common/conv/bound.h). cuDNN does not tell how it adds up: the longest chain of fp32 additions is
 * assumed, with some more for split sums; for tensor cores, whose accumulators truncate, 2u a step of 8 products. */
error_rule cudnn_rule(const cudnn_task *task, unsigned note_bits, bool random);

/* The data that candidates are checked against, in one layout, which need not be the task's: on the host, or all of it on the device (conv_reference.room). */
typedef struct cudnn_truth {
  const conv_tensor *a, *b; /* the pass's inputs (pass_input_a, pass_input_b) */
  const conv_reference *reference;
} cudnn_truth;

/* Finds plans for the task, over buffers that hold data: views[0 .. sets-1]. With `truth`, plans with a wrong result are
 * dropped. Returns 0; 1: no cuDNN here, or no plan for this task, and `error` says so; -1: a CUDA error.
 * Close it before the buffers go. */
int cudnn_baseline_open(cudnn_baseline *b, const cudnn_task *task, const conv_buffers *views, int sets, const cudnn_options *options, const cudnn_truth *truth,
                        char *error, size_t error_size);
void cudnn_baseline_close(cudnn_baseline *b);

/* One plan by its tag, without a search, as plan[0]. Errors as above. */
int cudnn_plan_from_tag(cudnn_baseline *b, const cudnn_task *task, const char *tag, const conv_buffers *views, int sets, const cudnn_options *options,
                        const cudnn_truth *truth, char *error, size_t error_size);

/* A plan of a baseline as a contender's context. */
typedef struct cudnn_runner {
  const cudnn_baseline *baseline;
  int plan; /* index */
} cudnn_runner;

/* The same plan for another task of the same shape, not built again (a run-time compiled one takes seconds): `known` stays open as long. Errors as above; -1 also for a wrong result. */
int cudnn_plan_again(cudnn_baseline *b, const cudnn_task *task, const cudnn_runner *known, const conv_buffers *views, int sets, const cudnn_options *options,
                     const cudnn_truth *truth, char *error, size_t error_size);

/* A contender's enqueue (common/harness/timing.h); usable in graph capture. All sets share one workspace. */
cudaError_t cudnn_enqueue(void *runner, int set, cudaStream_t stream);

/* ---------------------------------------------------------------- for the report */

/* What a row of the report says of cuDNN. */
typedef struct cudnn_figures {
  int version; /* 0: no cuDNN, or no plan; the fields below are then 0 and "" */
  double best_us, heuristic_us;
  char best_plan[CUDNN_TAG], best_notes[CUDNN_NOTES], heuristic_plan[CUDNN_TAG];
  double best_plain_share;   /* the best plan's largest error, in bounds of a plain fp32 sum */
  double best_early_share;   /* of its kernels, those that begin early (contender's early_share) */
  char search[CUDNN_SEARCH]; /* what became of all plans */
  char note[256];            /* for the reader: how many plans were looked at, or why there are none */
} cudnn_figures;

/* ---------------------------------------------------------------- winners, kept in a file */

typedef struct cudnn_winners {
  char tag[CUDNN_BEST][CUDNN_TAG];
  double us[CUDNN_BEST];
  int count;
  char search[CUDNN_SEARCH]; /* what became of all plans; "" in older files */
} cudnn_winners;

/* "timed=143;cut=12;...": every count of a search by its name, and the fastest plan with a wrong result. No commas, no quotes. */
void cudnn_counts_print(const cudnn_counts *counts, char text[CUDNN_SEARCH]);

/* Where winners of earlier searches are: committed with the results of this GPU, and of this machine's own runs. A line is for one GPU and one version of cuDNN, and for
 * no other. `committed` has to stay as long as the options. */
void cudnn_winners_files(const char *gpu, char committed[PATH_MAX], cudnn_options *options);

/* The key of a line as it stands in the file, with the comma that ends it. */
enum { CUDNN_KEY = 768 };
void cudnn_task_key(const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, char key[CUDNN_KEY]);

/* A CSV file with a header line; the key of a line is GPU, cuDNN version, shape, pass, dtype, layout, graph and workspace limit.
 * Of several lines with one key the last counts. lookup: 0 found, 1 not there, -1 a line in `error`. append: 0, or -1 after a line on stderr. */
int cudnn_winners_lookup(const char *path, const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, cudnn_winners *winners, char *error,
                         size_t error_size);
/* Those of the task's shape, pass, type, layout and limit in other graphs than the task's: of each graph its name and its last line. A line that cannot be read is
 * passed over: looking it up reports it. Returns how many graphs there are, `room` at most. */
typedef struct cudnn_kin {
  char graph[CUDNN_GRAPH_NAME];
  cudnn_winners winners;
} cudnn_kin;
int cudnn_winners_kin(const char *path, const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, cudnn_kin *kin, int room);
int cudnn_winners_append(const char *path, const cudnn_task *task, const char *gpu, int version, size_t workspace_limit, const cudnn_winners *winners);
