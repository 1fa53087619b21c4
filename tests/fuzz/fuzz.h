/* What the targets of `make fuzz` share. A target is a file with LLVMFuzzerTestOneInput(): what an input may do is nothing that the sanitizers report, and
 * nothing that EXPECT() denies. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "common/conv/problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input as a regular file, until the next one. Returns its path. */
const char *fuzz_file(const uint8_t *data, size_t size);

/* What holds of every problem that was accepted: it prints, and what is printed is the same problem. */
void fuzz_problem(const conv_problem *p);

/* Ends the process with a line where the condition does not hold. */
#define EXPECT(condition) fuzz_expect(condition, __FILE__, __LINE__, #condition)
void fuzz_expect(bool good, const char *file, int line, const char *condition);
