/* cuDNN alone in a CSV file: one row for each task, its best plan and the heuristic's. */
#pragma once
#include "common/cudnn/cudnn.h"
#include "common/harness/machine.h"
#include "common/harness/timing.h"

/* Adds a row to the file, and the header line if the file is new. turn[i]: the timing of baseline->plan[i]. Returns 0, or -1 with a line
 * in `error`. */
int cudnn_csv_add(const char *path, const cudnn_task *task, const machine *m, const cudnn_baseline *baseline, const contender *turn, char *error,
                  size_t error_size);

/* The plan that came out fastest of the timing. */
int cudnn_fastest(const cudnn_baseline *baseline, const contender *turn);
