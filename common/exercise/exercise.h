/* What the file of an exercise defines (docs/exercises.md). The grader's programs call it. */
#pragma once
#include <stdint.h>

#include "common/harness/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exercises with a kernel: launches it, once, on the stream; does nothing else. Type and layout are the exercise's. */
cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream);

/* Exercise predict: sectors that all requests of 01a's fprop kernel touch together. */
int64_t predict_store_sectors(const conv_problem *p);  /* its stores of y */
int64_t predict_filter_sectors(const conv_problem *p); /* its loads of w */
int64_t predict_image_sectors(const conv_problem *p);  /* its loads of x */

#ifdef __cplusplus
}
#endif
