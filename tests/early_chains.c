/* Kernels of several operations that may begin before the kernel before them has ended: two launches, of which the second reads what the first writes, or writes what
 * it reads. The second gives the same bits as if it had waited for the first to end. Under the checker (tests/check_chains.sh) a wait that is missing is reported.
 *
 *   build/emu/tests/early_chains [LAYER PAIR]    one pair of launches; all: all of them */
#include <stdlib.h>
#include <string.h>

#include "common/harness/chain.h"
#include "common/harness/machine.h"
#include "common/harness/registry.h"
#include "tests/tap.h"

extern const conv_step step_07;

static const struct layer {
  const char *kernel;
  const char *shape[CHAIN_OPERATIONS]; /* pool: before max-pooling */
  bool residual;                       /* and a bias everywhere but in pooling */
} layers[] = {
    {"07d", {"mb2ic64ih13oc64kh3ph1", "mb2ic64ih13oc64kh1"}, true},
    {"07j", {"mb1ic8ih264iw33oc8oh264ow33kh3kw3ph1pw1", "mb1ic8ih264iw33oc8oh264ow33kh1kw1"}, true},
    {"07k", {"mb1ic128ih4oc128kh3ph1", "mb1ic128ih4oc128kh1"}, true},
    {"07e", {"mb2ic64ih14oc64kh1", "mb2ic64ih14oc64kh3ph1", "mb2ic64ih14oc64kh1"}, true},
    {"07f", {"mb1ic64ih6iw32oc64oh6ow32kh3kw3ph1pw1", "mb1ic64ih6iw32oc64oh6ow32kh3kw3ph1pw1"}, true},
    {"07g", {"g64mb3ic64ih18oc64kh3ph1", "mb3ic64ih18oc64kh1"}, true},
    {"07h", {"mb3ic4ih24oc16oh12kh6sh2ph2", "pool:g16mb3ic16ih12oc16oh6kh3sh2ph1"}, false},
};

/* The second launch reads these from what the first one wrote, or writes over what that read. */
static const char *const pairs[] = {"image", "filters", "residual", "over"};

enum { FIRST_W = 0, X = CHAIN_OPERATIONS, RESIDUAL, BIAS, OUT, NEXT, BUFFERS };

typedef struct run {
  const chain_kernel *kernel;
  conv_chain chain;
  conv_plan plan;
  size_t bytes; /* of every buffer: as many as the largest tensor has */
  void *device[BUFFERS], *host;
} run;

static const chain_kernel *kernel_of(const char *name) {
  for (int i = 0; i < step_07.chain_count; i++)
    if (strcmp(step_07.chains[i]->name, name) == 0) return step_07.chains[i];
  return NULL;
}

static size_t larger(size_t a, int64_t halves) { return a > (size_t)halves * 2 ? a : (size_t)halves * 2; }

static bool describe(run *r, const struct layer *l) {
  char error[256];
  for (; l->shape[r->chain.count]; r->chain.count++) {
    conv_operation *o = &r->chain.operation[r->chain.count];
    const char *shape = l->shape[r->chain.count];
    const bool pools = strncmp(shape, "pool:", 5) == 0;
    o->kind = pools ? OPERATION_MAX_POOL : OPERATION_CONVOLUTION, o->pass = PASS_FPROP, o->epilogue.bias = !pools;
    if (problem_parse(&o->problem, pools ? shape + 5 : shape, error, sizeof error)) return diag("%s", error), false;
    r->bytes = larger(larger(larger(r->bytes, problem_x_count(&o->problem)), problem_w_count(&o->problem)), problem_y_count(&o->problem));
  }
  r->chain.operation[r->chain.count - 1].epilogue.residual = l->residual;
  return true;
}

/* Ones and zeros, of which some are negative; biases of zeros. */
static cudaError_t fill(run *r) {
  unsigned state = 1;
  for (size_t i = 0; i < r->bytes / 2; i++) {
    state = state * 1664525 + 1013904223;
    ((unsigned short *)r->host)[i] = (unsigned short)(state >> 30 == 0 ? 0x3c00 : state >> 30 == 1 ? 0xbc00 : 0);
  }
  cudaError_t status = cudaSuccess;
  for (int b = 0; b < BUFFERS && !status; b++)
    status = b == BIAS ? cudaMemset(r->device[b], 0, r->bytes) : cudaMemcpy(r->device[b], r->host, r->bytes, cudaMemcpyHostToDevice);
  return status;
}

/* pair: what the second launch changes; -1: the first launch. */
static cudaError_t launch(const run *r, int pair, cudaStream_t stream) {
  conv_buffers each[CHAIN_OPERATIONS] = {{0}};
  for (int i = 0; i < r->chain.count; i++) each[i].w = r->device[pair == 1 ? OUT : FIRST_W + i], each[i].bias = r->device[BIAS];
  conv_buffers *first = &each[0], *last = &each[r->chain.count - 1];
  first->x = r->device[pair == 0 ? OUT : pair == 3 ? RESIDUAL : X];
  last->residual = r->device[pair == 2 ? OUT : RESIDUAL];
  last->y = r->device[pair < 0 ? OUT : pair == 3 ? X : NEXT];
  return r->kernel->launch(&r->plan, each, stream);
}

/* Both launches; `waits`: the second begins when the first has ended. The second's result goes to `result`. */
static cudaError_t both(run *r, int pair, bool waits, void *result) {
  cudaStream_t stream = NULL;
  cudaError_t status = fill(r);
  if (!status) status = cudaStreamCreate(&stream);
  if (!status) status = launch(r, -1, stream);
  if (!status && waits) status = cudaStreamSynchronize(stream);
  if (!status) status = launch(r, pair, stream);
  if (!status) status = cudaStreamSynchronize(stream);
  if (stream) cudaStreamDestroy(stream);
  if (!status) status = cudaMemcpy(result, r->device[pair == 3 ? X : NEXT], r->bytes, cudaMemcpyDeviceToHost);
  return status;
}

static void test_layer(const struct layer *l, const conv_device *device, const char *wanted) {
  run r = {.kernel = kernel_of(l->kernel)};
  const char *why = r.kernel && describe(&r, l) ? r.kernel->plan(&r.chain, device, &r.plan) : "no such kernel or shape";
  ok(!why, "%s: %s", l->kernel, why ? why : r.plan.words);
  if (why) return;
  void *waited = malloc(r.bytes), *early = malloc(r.bytes);
  r.host = malloc(r.bytes);
  bool room = waited && early && r.host;
  for (int b = 0; b < BUFFERS; b++) room = cudaMalloc(&r.device[b], r.bytes) == cudaSuccess && room;
  for (int pair = 0; pair < 4 && room; pair++) {
    if ((pair == 2 && !l->residual) || (strcmp(wanted, "all") != 0 && strcmp(wanted, pairs[pair]) != 0)) continue;
    cudaError_t status = both(&r, pair, true, waited);
    if (!status) status = both(&r, pair, false, early);
    ok(!status && memcmp(waited, early, r.bytes) == 0, "%s, %s: %s", l->kernel, pairs[pair], status ? cudaGetErrorString(status) : "the same bits");
  }
  ok(room, "%s: memory", l->kernel);
  for (int b = 0; b < BUFFERS; b++) cudaFree(r.device[b]);
  free(waited), free(early), free(r.host);
}

int main(int argc, char **argv) {
  const char *layer = argc == 3 ? argv[1] : "all", *pair = argc == 3 ? argv[2] : "all";
  machine m;
  char error[256];
  if (machine_open_gpu(&m, error, sizeof error)) return fprintf(stderr, "%s\n", error), 1;
  if (m.device.arch / 10 != 9) {
    ok(1, "# SKIP a GPU of compute capability 9.0 has these kernels");
    return done_testing();
  }
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    if (strcmp(layer, "all") == 0 || strcmp(layer, layers[i].kernel) == 0) test_layer(&layers[i], &m.device, pair);
  return done_testing();
}
