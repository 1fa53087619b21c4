/* Is the GPU's reference the definition's? The CPU recomputes a few elements, from the inputs' own sources: what went wrong on the device while data were
 * made, or afterwards, shows too. */
#pragma once
#include "common/conv/epilogue.h"
#include "common/conv/reference.h"

/* Recomputes 32 elements of a reference, wherever it is, by 00_cpu_reference/a_definition.c: the first, the last, and random ones between them.
 * from: of the pass's two inputs, which are of type dtype. e and fused[3] (epilogue_source): of an epilogue that the reference went through; NULL: none.
 * Returns 0, REFERENCE_NO_ROOM if the host has too little memory, or -1; a line in `error` with either. */
int spot_check(const conv_reference *ref, const conv_problem *p, conv_pass pass, conv_dtype dtype, const conv_source from[2], const conv_epilogue *e,
               const conv_source fused[3], char *error, size_t error_size);
