/* Verification that stays on the device: data are made there, and so is the reference; results are compared there, inputs and guards looked over. A few
 * bytes come to the host. It finds what the host finds, to the last bit (tests/device_check.c); only faster: a batch of 256 images is gigabytes of data and
 * of reference. */
#pragma once
#include "common/conv/epilogue.h"
#include "common/harness/buffers.h"
#include "common/harness/trial.h"

/* More multiply-adds, or elements of all tensors, are worth a GPU's time. */
#define MANY_MACS 2e7
#define MANY_ELEMENTS 4e6

typedef struct device_check {
  conv_tensor given[3]; /* by tensor_role: the two inputs in device memory, as they were made and must stay; the output without memory */
  epilogue_data fused;  /* likewise */
  void *band, *room;    /* a guard as it must be; room for what is found */
} device_check;

/* Does a trial go this way? Large problems on a real GPU do, or whatever --verify says, if the device holds it beside all buffers that the trial would have
 * without.
 * workspace_bytes: the most that a kernel of the trial wants. */
bool device_check_suits(const trial *t, const conv_tensor shapes[3], const epilogue_data *fused, size_t workspace_bytes);

/* Makes the inputs from their sources (by tensor_role; those of the epilogue as in epilogue_source) and the reference of the trial, and has it spot-checked
 * by the CPU. Returns 0; REFERENCE_NO_ROOM: the host's way is left; or -1. A line in `error`. Frees what was there before. */
int device_check_prepare(device_check *d, conv_reference *ref, const trial *t, const conv_source from[3], const conv_source fused[3], bool random, char *error,
                         size_t error_size);
void device_check_free(device_check *d);

/* Copies the inputs into the first set. */
cudaError_t device_check_upload(const device_check *d, const buffer_sets *sets);

/* Looks over every part of a set. */
cudaError_t device_check_parts(const device_check *d, const buffer_sets *sets, int set, part_state parts[PART_COUNT]);
