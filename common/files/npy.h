/* NumPy's .npy files, so that any other program can feed and check this one. Axes are always N,C,H,W and K,C,R,S (C per group),
 * whatever the layout in memory.
 * Format: numpy.org, "numpy.lib.format", versions 1.0 to 3.0; element types '<f4' (fp32) and '<f2' (fp16), C order. */
#pragma once
#include <stdio.h>

#include "common/conv/tensor.h"

/* Fills t (allocated, its shape and dtype set) from the file. Returns 0, or -1 with one line in `error` that names file, field and what
 * was expected. */
int npy_read(conv_tensor *t, const char *path, char *error, size_t error_size);

/* Writes t; whether that went well, the file's error indicator says. */
void npy_write(const conv_tensor *t, FILE *file);
