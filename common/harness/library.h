/* Libraries of the CUDA toolkit, found at run time, so that programs are built and run without them. */
#pragma once

/* Opens "libcublas.so.13": on the loader's path, or in the CUDA toolkit ($CUDA_HOME, $CUDA_PATH, /usr/local/cuda). NULL: it is in none of these. */
void *library_open(const char *name);
