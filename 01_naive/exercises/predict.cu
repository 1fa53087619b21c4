/* Exercise predict: predict what a kernel asks of memory, before it is counted.
 *
 * Given:  the kernel is 01a's fprop (01_naive/a_naive.cu), launched as it is there: 256 threads a block, thread i computes output
 *         k = i % K, q = i / K % Q, p = i / K / Q % P, n = i / K / Q / P. A warp is 32 threads with consecutive i.
 * Task:   for a layer without padding, groups, stride or dilation, tell how many sectors of 32 bytes all its requests touch together.
 *         A request is one load (or store) of one warp; it touches every sector that one of its lanes' elements lies in, once.
 * Layout: NCHW, filters KCRS, fp32; every tensor begins at the start of a sector.
 * Level:  two of three stars, about 40 minutes.
 * Grade:  make exercise-predict       (docs/exercises.md has the text) */
#include "common/exercise/exercise.h"

/* ================================================================ your part begins here: ordinary code for the host */

/* y[n,k,p,q], stored once by every thread: [N][K][P][Q] */
int64_t predict_store_sectors(const conv_problem *p) { return p->N * 0; }

/* w[k,c,r,s], loaded by every thread for every product: [K][C][R][S] */
int64_t predict_filter_sectors(const conv_problem *p) { return p->N * 0; }

/* x[n,c,p+r,q+s], loaded by every thread for every product: [N][C][H][W] */
int64_t predict_image_sectors(const conv_problem *p) { return p->N * 0; }

/* ================================================================ your part ends here */
