/* What 05o, 05p and 05q can do: layers of 3x3 filters whose groups are small. */
#pragma once
#include "05_im2col_gemm/rows.h"

enum { MOST_GROUP = 64 }; /* channels, and filters, of a group */

/* Why not, or NULL. */
static inline const char *groups_unsupported(const conv_problem *p, const conv_device *device) {
  if (p->R != 3 || p->S != 3) return "only for 3x3 filters";
  if (p->dil_h != 1 || p->dil_w != 1 || p->stride_h != p->stride_w || p->stride_h > 2) return "only for stride 1 without dilation, or 2";
  if (p->C / p->groups > MOST_GROUP || p->K / p->groups > MOST_GROUP) return "only for up to 64 channels and 64 filters a group";
  return plain_unsupported(p, device);
}
