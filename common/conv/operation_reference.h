/* The right answer of a whole operation: a pass, or something simpler, and its epilogue. */
#pragma once
#include "common/conv/epilogue.h"
#include "common/conv/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The right answer of a whole operation from its inputs (b: NULL for one without a filter): reference_compute() or, for the other kinds, what they are,
 * exact but for the epilogue; then reference_fuse(). Returns and frees as reference_compute(). */
int operation_reference(conv_reference *ref, const conv_operation *o, const conv_tensor *a, const conv_tensor *b, const epilogue_data *data, bool random,
                        bool use_gpu, char *error, size_t error_size);

/* Applies the epilogue to the reference of the plain pass. */
void reference_fuse(conv_reference *ref, const conv_epilogue *e, const epilogue_data *data);
/* The same where the reference and the data are in device memory. Returns the first error of its CUDA calls. */
cudaError_t reference_fuse_on_device(conv_reference *ref, const conv_epilogue *e, const epilogue_data *data);

#ifdef __cplusplus
}
#endif
