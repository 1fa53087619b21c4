/* cuDNN's own recurrent layer as an opponent: h[t] = relu(z[t] + U h[t-1]), where z, what comes from the input, is there already.
 *
 * cuDNN has no such layer by name, but its layer on an input that is "skipped" is just that: z is added as it is. Where an algorithm takes no skipped input, it may
 * multiply z by an identity: more work, and the way's words say so. Everything else that could matter is tried: layouts of z and h (the same bytes, as all
 * sequences are equally long), kinds of math, a bias of zeros, launched in a graph or one by one. What the result is judged by is the caller's. */
#pragma once
#include "common/cudnn/cudnn.h"

/* u [hidden][hidden], first [batch][hidden], z and h [steps][batch][hidden]: halves in device memory. */
typedef struct cudnn_rnn_layer {
  int hidden, batch, steps;
  const void *u, *first, *z;
  void *h;
} cudnn_rnn_layer;

enum { RNN_STANDARD, RNN_STATIC, RNN_DYNAMIC, RNN_SMALL, RNN_ALGORITHMS };
extern const char *const cudnn_rnn_names[RNN_ALGORITHMS];

struct cudnn_rnn_session; /* cudnn_rnn.c's, as the next */
struct cudnn_rnn_parts;

/* An algorithm with all that can be chosen, which cuDNN has run. */
typedef struct cudnn_rnn_way {
  int algorithm;
  bool identity;     /* z is multiplied by an identity, as a skipped input is not tried here */
  bool packed;       /* else both tensors may have padding, and have none */
  bool default_math; /* else tensor cores are asked for */
  bool zero_bias;    /* else no bias */
  bool half_sums;    /* other math: to be told of, not to be compared with */
  bool in_graph;     /* faster so; else launched one by one */
  bool wrong;        /* the caller has found */
  double us;         /* quick, for ranking */
  char words[CUDNN_TAG];
  struct cudnn_rnn_session *session;
  struct cudnn_rnn_parts *parts;
} cudnn_rnn_way;

enum { RNN_WAYS = 16 * RNN_ALGORITHMS + 4 };
typedef struct cudnn_rnn {
  cudnn_rnn_way way[RNN_WAYS]; /* that have run */
  int count, tried[RNN_ALGORITHMS], ran[RNN_ALGORITHMS];
  char why[RNN_ALGORITHMS][CUDNN_ERROR / 2]; /* the first refusal; "": none */
  struct cudnn_rnn_session *session;
} cudnn_rnn;

/* Tries all ways on the data that the buffers hold, h being overwritten. One that does not end ends the program (cudnn_watch.h); endless: a file of those, or NULL.
 * Returns 0; 1: no cuDNN, or none that has recurrent layers; -1: a CUDA error. Both with a line in `error`. Close it either way. */
int cudnn_rnn_open(cudnn_rnn *r, const cudnn_rnn_layer *layer, const char *gpu, const char *endless, char *error, size_t error_size);
void cudnn_rnn_close(cudnn_rnn *r);

/* Of an algorithm's ways of the same math, not known to be wrong, the fastest; NULL: none. */
cudnn_rnn_way *cudnn_rnn_fastest(cudnn_rnn *r, int algorithm);
/* The fastest time with sums in halves; 0: none. */
double cudnn_rnn_half_us(const cudnn_rnn *r);
/* u has changed: cuDNN keeps a copy. */
cudaError_t cudnn_rnn_load(cudnn_rnn_way *way);
/* Enqueues all steps; `way` is a cudnn_rnn_way. */
cudaError_t cudnn_rnn_enqueue(void *way, int set, cudaStream_t stream);

/* For one step, the product and what follows it: sums in fp32 in any order, and one rounding to fp16 more: of a product that is stored, or of a state that is stored rounded and read as it was before. */
error_rule cudnn_rnn_rule(const conv_operation *step);
