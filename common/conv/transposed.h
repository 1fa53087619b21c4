/* Transposed convolution (deconvolution, ConvTranspose2d) as an operation of its own.
 *
 * A problem states both sizes, so the same string names both directions: forward reads ic, ih, iw and writes oc, oh, ow; transposed, x is [N][K][P][Q], y is
 * [N][C][H][W], and the filters are the same [K][C/groups][R][S]. What is computed is dgrad's sum, by dgrad's kernels; but it is no gradient, x and y have
 * other names, and it has a definition of its own: every pixel of x adds its filters to y. */
#pragma once
#include "common/conv/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Along an axis y has (in - 1) * stride + extent - before - after + output pixels. Both sides alike, and the rest of the size as output padding below the
 * stride, as frameworks have it, where that gives the problem's size; else uneven sides. */
typedef struct transposed_padding {
  int before, after, output;
} transposed_padding;
transposed_padding transposed_padding_h(const conv_problem *p);
transposed_padding transposed_padding_w(const conv_problem *p);

/* "x 1 x 1024 x 4 x 4, y 1 x 512 x 8 x 8, padding 2, output padding 1"; sides that differ "2+1", axes that do "2 x 1". */
void transposed_print(const conv_problem *p, char *text, size_t size);

/* The names of the tensors, whose roles are the problem's. */
static inline const char *transposed_role_name(tensor_role role) { return role == TENSOR_Y ? "x" : role == TENSOR_W ? "w" : "y"; }

/* What reference_compute() makes of dgrad, by the definition above, on the CPU; a few elements are compared with dgrad's definition. (A GPU computes its
 * reference as dgrad's.) Returns and frees as reference_compute(). */
int reference_transposed(conv_reference *ref, const conv_problem *p, const conv_tensor *x, const conv_tensor *w, bool random, char *error, size_t error_size);

#ifdef __cplusplus
}
#endif
