/* cuDNN's functions behind pointers, and its descriptors with one place for errors. Private to common/cudnn_*.c. */
#pragma once
#include <cuda_runtime_api.h>

#include "common/cudnn/cudnn.h"

#if !defined(CUDA_EMULATOR) && defined(__has_include)
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#if defined(CUDNN_MAJOR) && CUDNN_MAJOR >= 9
#define HAVE_CUDNN 1
#endif
#endif
#endif

#ifdef HAVE_CUDNN
/* clang-format off */
#define CUDNN_FUNCTIONS(F)                                                                                                                             \
  F(GetVersion)                                                                                                                                        \
  F(GetCudartVersion) F(GetErrorString) F(GetLastErrorString) F(Create) F(Destroy) F(SetStream) F(BackendCreateDescriptor) F(BackendDestroyDescriptor) \
      F(BackendFinalize) F(BackendSetAttribute) F(BackendGetAttribute) F(BackendExecute)
/* Of recurrent layers (cudnn_rnn.c): a library without them is an opponent for convolutions all the same. */
#define CUDNN_RNN_FUNCTIONS(F)                                                                                                                         \
  F(CreateRNNDescriptor) F(DestroyRNNDescriptor) F(SetRNNDescriptor_v8) F(BuildRNNDynamic) F(GetRNNTempSpaceSizes) F(GetRNNWeightSpaceSize)            \
      F(GetRNNWeightParams) F(CreateRNNDataDescriptor) F(DestroyRNNDataDescriptor) F(SetRNNDataDescriptor) F(RNNForward) F(CreateDropoutDescriptor)    \
      F(DestroyDropoutDescriptor) F(SetDropoutDescriptor) F(CreateTensorDescriptor) F(DestroyTensorDescriptor) F(SetTensorNdDescriptor)                \
      F(GetTensorNdDescriptor)
/* clang-format on */

typedef struct cudnn_library {
#define FIELD(name) __typeof__(cudnn##name) *name;
  CUDNN_FUNCTIONS(FIELD)
  CUDNN_RNN_FUNCTIONS(FIELD)
#undef FIELD
} cudnn_library;

extern cudnn_library cudnn; /* valid once cudnn_version() has returned non-zero */

/* NULL, or why there are no recurrent layers, in words. */
const char *cudnn_no_rnn(void);

/* Descriptors that live and die together. The first failure sticks: later calls do nothing, so that only the end needs a check. */
enum { POOL_SIZE = 96 };
typedef struct cudnn_pool {
  cudnnBackendDescriptor_t item[POOL_SIZE];
  int count;
  cudnnStatus_t status;
  char failure[CUDNN_ERROR / 2]; /* call, what it was for, cuDNN's own message */
} cudnn_pool;

cudnnBackendDescriptor_t pool_create(cudnn_pool *pool, cudnnBackendDescriptorType_t type);
void pool_set(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              const void *values);
void pool_set_integer(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, int64_t value);
void pool_set_float(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, float value);
void pool_set_descriptor(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
void pool_finalize(cudnn_pool *pool, cudnnBackendDescriptor_t d, const char *what);
/* Reads up to `room` values; returns how many there were room for, 0 on failure (which does not stick: what cannot be read is not there). */
int pool_get(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int room, void *values);
void pool_free(cudnn_pool *pool);

/* A failed call in words: "cudnnCreate: CUDNN_STATUS_...: cuDNN's last message". */
void cudnn_failure(char *text, size_t size, const char *call, cudnnStatus_t status);

/* ---------------------------------------------------------------- graphs and plans */

/* UIDs of a graph's tensors: the variant pack binds them to memory. */
enum { UID_X = 1, UID_W, UID_Y, UID_SCALE, UID_BIAS, UID_RESIDUAL, UID_COUNT = 6, UID_VIRTUAL = 100 };

typedef struct cudnn_graph {
  cudnn_pool pool;
  cudnnBackendDescriptor_t graph;
  cudnnBackendDescriptor_t device; /* a device's properties where there is no device (tests), else NULL */
  conv_layout layout;
  conv_dtype bias; /* its type */
  int engines;     /* engine numbers are 0 .. engines-1; most do not do this graph */
  int uids;
  int64_t uid[UID_COUNT];
} cudnn_graph;

/* Describes the task on tensors of the given layout. Returns 0, or -1 with a line in `error`. Free with cudnn_graph_free either way. */
int cudnn_graph_make(cudnn_graph *g, const cudnn_task *task, conv_layout layout, cudnnHandle_t handle, cudnnBackendDescriptor_t device, char *error,
                     size_t error_size);
void cudnn_graph_free(cudnn_graph *g);

enum { KNOBS = 24, GRAPHS = LAYOUT_COUNT * DTYPE_COUNT /* of a task: layouts, types of a bias */ };
typedef struct cudnn_config {
  conv_layout layout;
  conv_dtype bias; /* of its graph */
  int engine, knobs;
  struct {
    int type;
    int64_t value;
  } knob[KNOBS]; /* those not named keep cuDNN's default */
} cudnn_config;

bool config_equal(const cudnn_config *a, const cudnn_config *b);
void config_set(cudnn_config *c, int type, int64_t value); /* replaces or adds; a full config stays as it is */
void config_print(const cudnn_config *c, conv_layout home, char tag[CUDNN_TAG]);
int config_parse(cudnn_config *c, conv_layout home, const char *tag); /* 0, or -1: not a tag */

/* The configurations that a heuristic mode offers, best first, at most `room`. Returns how many. */
int config_list(const cudnn_graph *g, cudnnBackendHeurMode_t mode, cudnn_config *list, int room);

typedef struct knob_range {
  int type;
  int64_t least, most, stride;
} knob_range;

typedef struct engine_facts {
  bool usable;
  unsigned notes, behavior; /* bits of cudnnBackendNumericalNote_t, cudnnBackendBehaviorNote_t */
  int knobs;
  knob_range knob[KNOBS];
} engine_facts;

engine_facts engine_ask(const cudnn_graph *g, int engine);
/* By its notes. fp32: no tensor cores and no rounded inputs; fp16: no sums below fp32. */
bool notes_same_math(unsigned notes, conv_dtype dtype);
void notes_print(unsigned notes, char text[CUDNN_NOTES]);

typedef struct cudnn_plan {
  cudnn_pool pool;
  cudnnBackendDescriptor_t plan;
  cudnn_config config;
  unsigned notes, behavior;
  size_t workspace;
} cudnn_plan;

/* Builds it: 0, or -1 with the reason in p->pool.failure. Run-time compiled engines take up to a second. Free with plan_free either way. */
int plan_build(cudnn_plan *p, const cudnn_graph *g, cudnnHandle_t handle, const cudnn_config *config);
void plan_free(cudnn_plan *p);

/* ---------------------------------------------------------------- running */

enum { BUILDERS = 16 };

/* Memory and streams that plans of one task run with. */
typedef struct cudnn_bench {
  cudnnHandle_t handle;
  const cudnn_task *task;
  const conv_buffers *views;
  int sets;
  void *workspace, *zeros /* a bias, of the widest type */, *halves /* the bias as fp16, where it has to be tried */;
  size_t workspace_bytes;
  cudnn_pool *packs; /* [GRAPHS * sets], made on demand; every pool's first item is the variant pack */
  cudaStream_t stream;
  cudaEvent_t start, stop;
  int device;
  cudnnHandle_t builder[BUILDERS]; /* threads must not share a handle; made on demand */
} cudnn_bench;

/* Returns 0, or -1 with a line in `error`. Free with bench_free either way. */
int bench_open(cudnn_bench *b, const cudnn_task *task, const conv_buffers *views, int sets, char *error, size_t error_size);
int bench_workspace(cudnn_bench *b, size_t bytes); /* replaces the workspace; 0, or -1 where there is no room */
void bench_free(cudnn_bench *b);

/* Builds plans on several threads at once: an engine that is compiled at run time takes a second. count is at most BUILDERS. */
typedef struct build_job {
  const cudnn_graph *graph;
  cudnn_config config;
  cudnn_plan *plan; /* room for it */
  bool built;       /* else plan->pool.failure says why not */
  double seconds;   /* that it took */
} build_job;
void bench_build(cudnn_bench *b, build_job *jobs, int count);

cudnnStatus_t bench_enqueue(cudnn_bench *b, const cudnn_graph *g, const cudnn_plan *p, int set, cudaStream_t stream);

typedef enum { TRIED_TIMED, TRIED_NOT_CAPTURABLE, TRIED_FAILED, TRIED_DEVICE_LOST } try_result;
/* Times one plan with few samples. give_up_us: a plan that is clearly slower is not sampled any further (0: never). */
try_result bench_time(cudnn_bench *b, const cudnn_graph *g, const cudnn_plan *p, double give_up_us, double *us);

/* ---------------------------------------------------------------- search and checks */

typedef struct tried_plan {
  cudnn_plan *plan; /* NULL once taken over by the caller */
  const cudnn_graph *graph;
  double us, build_seconds;
  bool wrong; /* it was checked */
} tried_plan;

/* Everything that was tried so far. Starts as zeros, with options and bench set. */
typedef struct plan_search {
  cudnn_bench *bench;
  cudnn_options options; /* with no zeros for defaults */
  tried_plan *tried;     /* capturable plans of the same math that ran */
  cudnn_config *seen;    /* whatever became of them */
  int count, seen_count, room, seen_room;
  cudnn_counts counts;
  bool checked;               /* results are compared with the reference, or were when the tag was written down */
  char (*endless)[CUDNN_TAG]; /* plans that did not end in an earlier run: left out */
  int endless_count;
  double start, deadline;    /* seconds of search_clock; deadline: what is built by then but not timed is cut; 0: none */
  bool lost;                 /* an error made the device unusable */
  char why[CUDNN_ERROR / 2]; /* the last configuration was not entered */
} plan_search;

typedef struct proposal {
  const cudnn_graph *graph;
  cudnn_config config;
} proposal;

/* Plans that do not end are watched for from now on; and those that are known are left out. After the options and the bench are set. */
void search_watch(plan_search *s);

/* Builds configurations that were not seen yet, times them and enters them into `tried`; counts say what became of them. give_up_us as
 * bench_time's. At most BUILDERS at a time. Returns how many were entered, as the last ones. */
int search_try(plan_search *s, const proposal *list, int count, double give_up_us);
/* Until when. */
typedef struct search_limit {
  int plans;     /* that may have been tried by then */
  double second; /* of search_clock */
} search_limit;
#define SEARCH_GIVE_UP 2.5                                        /* times the best: a plan as slow as that is not sampled any further */
search_limit search_limit_of(const plan_search *s, double share); /* a share of the options' plans and seconds */
bool search_enough(const plan_search *s, double second);          /* it is that late, and the least that a search tries has been tried */
bool search_reached(const plan_search *s, search_limit l);
int search_tried(const plan_search *s);
double search_clock(void);
void search_sweep(plan_search *s);
/* The knobs of an engine in the order in which the sweep turns them: all that it reports. doubling: through 1, 2, 4, ... Returns how many. */
typedef struct knob_turn {
  knob_range range;
  bool doubling;
} knob_turn;
int sweep_list(const engine_facts *facts, knob_turn list[KNOBS]);

/* Is it the same engine, as far as cuDNN tells, behind two graphs, which number it differently? The same notes, and the same knobs with the same ranges. */
bool engines_alike(const engine_facts *a, const engine_facts *b);
/* A configuration of the graph `from`, on every engine of `graphs` that is like its own; what is in `list` already is not added. Returns the new length. */
int kin_add(const cudnn_graph *from, const cudnn_config *config, const cudnn_graph *graphs, int graph_count, proposal *list, int count, int room);
/* The plans that won for the layer's other graphs, in the files of the options, on the task's graphs. The first of each graph first. Returns how many. */
int kin_list(const plan_search *s, const cudnn_graph *graphs, int graph_count, proposal *list, int room);

/* The whole search over a task's graphs; then sorts `tried`, fastest first. Returns false when the device was lost. */
bool search_run(plan_search *s, const cudnn_graph *graphs, int graph_count);
void search_sort(plan_search *s);
void search_free(plan_search *s);

/* Runs the plan once on the true data, in its own layout and memory, and judges the result. Returns 0, or -1 with a line in `error`. */
int cudnn_check(cudnn_bench *b, const cudnn_graph *g, const cudnn_plan *p, const cudnn_truth *truth, error_rule rule, conv_verdict *verdict, char *error,
                size_t error_size);
/* The same where plans may round fp32 inputs to TF32 (cudnn_options.any_math). */
error_rule cudnn_any_math_rule(const cudnn_task *task, error_rule rule);
/* Is this an fp32 engine without a note that may still be a Winograd transform? Then the rule for its result. */
bool cudnn_unnoted_rule(const cudnn_task *task, unsigned notes, bool random, error_rule *rule);
/* To the rule of a fused fp16 graph: its sums may be rounded once more, before the epilogue (9.19's ready-made kernel for the first layer does), as those of a plan and a pointwise kernel are. */
bool cudnn_rounded_rule(const cudnn_task *task, unsigned notes, bool random, error_rule *rule);
#endif
