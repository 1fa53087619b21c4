/* One 2-D convolution problem: its sizes, how it is read from and printed as a benchdnn string.
 *
 * Names are NVIDIA's: an input x of N images, C channels, H x W pixels; K filters w of R x S; an output y of P x Q pixels.
 * The string's names are oneDNN's (benchdnn --conv): g mb ic ih iw oc oh ow kh kw sh sw dh dw ph pw n. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { PASS_FPROP, PASS_DGRAD, PASS_WGRAD, PASS_COUNT } conv_pass;
typedef enum { DTYPE_FP32, DTYPE_FP16, DTYPE_COUNT } conv_dtype;
/* NCHW goes with filters KCRS, NHWC with KRSC: the last letter is the axis whose neighbours lie next to each other in memory. */
typedef enum { LAYOUT_NCHW, LAYOUT_NHWC, LAYOUT_COUNT } conv_layout;

const char *pass_name(conv_pass pass);       /* "fprop" ... */
const char *dtype_name(conv_dtype dtype);    /* "fp32" ... */
const char *layout_name(conv_layout layout); /* "NCHW" ... */
size_t dtype_bytes(conv_dtype dtype);

enum { CONV_NAME_MAX = 64 };

typedef struct conv_problem {
  int N, C, H, W;            /* input  x: N images, C channels, H x W pixels */
  int K, R, S;               /* filter w: K filters of R x S over C / groups channels */
  int P, Q;                  /* output y: N images, K channels, P x Q pixels */
  int stride_h, stride_w;    /* 1 = every pixel */
  int dil_h, dil_w;          /* 1 = no dilation (the string's dh0) */
  int pad_top, pad_left;     /* rows / columns of zeros before the image */
  int pad_bottom, pad_right; /* and after it: deduced from P and Q, may differ from the ones before */
  int groups;                /* C and K are totals over all groups */
  int repeat;                /* how often the network has this layer (the "*3" of n"res2a*3") */
  char name[CONV_NAME_MAX];  /* without the "*3"; empty if the string had none */
} conv_problem;

/* Reads one benchdnn problem string. Returns 0, or another value with one line in `error` that names the field and what was expected:
 * PROBLEM_NOT_2D for a well-formed 1-D or 3-D problem, which a list may pass over, else PROBLEM_BAD. */
enum { PROBLEM_BAD = -1, PROBLEM_NOT_2D = 1 };
int problem_parse(conv_problem *p, const char *text, char *error, size_t error_size);

/* Prints the canonical string: defaults left out, w-fields left out where all of them copy the h-fields. It parses back to the same problem.
 * Returns the length it needs, as snprintf does. */
int problem_print(const conv_problem *p, char *text, size_t size);

/* Gives p another batch size. Returns 0, or -1 with a line in `error` when the sizes no longer fit 64 bits. */
int problem_set_batch(conv_problem *p, int batch, char *error, size_t error_size);

bool problem_equal(const conv_problem *a, const conv_problem *b); /* all but name and repeat */

/* Element counts; every one fits an int64_t for a parsed problem. */
int64_t problem_x_count(const conv_problem *p);
int64_t problem_w_count(const conv_problem *p);
int64_t problem_y_count(const conv_problem *p);

/* Products that the pass adds up for one element of its result (the depth of its reduction), at most. */
int64_t problem_terms(const conv_problem *p, conv_pass pass);

/* Multiply-adds of any of the three passes, padding counted as if it were data: N*K*P*Q*(C/groups)*R*S. The FLOPs are twice that. */
double problem_macs(const conv_problem *p);

/* Bytes that the pass touches, each once: what any implementation must move. Of an input only what some product with a pixel inside the image needs
 * (a 1x1 filter of stride 2 reads a quarter of x); of the result everything, for it is written even where it is 0. */
typedef struct conv_traffic {
  double read, written, filters; /* filters: of what is read, in fprop and dgrad */
} conv_traffic;
conv_traffic problem_traffic(const conv_problem *p, conv_pass pass, conv_dtype dtype);
double problem_bytes(const conv_problem *p, conv_pass pass, conv_dtype dtype); /* both together */

/* A list of problems out of a file of benchdnn lines. Comments (#), empty lines and `_` are skipped; option lines (--...), 1-D and 3-D
 * shapes are passed over and counted in `passed_over`. */
typedef struct conv_suite {
  conv_problem *problems;
  int count;
  int passed_over;
} conv_suite;

/* Where a suite is: the file `name` itself, or common/suites/NAME. A name that is neither is left as it is. */
void suite_path(const char *name, char path[PATH_MAX]);

/* Returns 0, or -1 with one line in `error` that names file, line and field. Free with suite_free. */
int suite_read(conv_suite *suite, const char *path, char *error, size_t error_size);
void suite_free(conv_suite *suite);

/* A random small problem for tests, a function of the seed alone: groups, strides, dilation and uneven padding included. */
conv_problem problem_random(uint64_t seed);
/* One of the kinds that some kernels are made for, which problem_random hardly ever hits: depthwise with channels in eights, a picture with a filter
 * of up to 31 x 31, a layer of 3 x 3 or of 1 x 1 filters. */
conv_problem problem_random_special(uint64_t seed);

#ifdef __cplusplus
}
#endif
