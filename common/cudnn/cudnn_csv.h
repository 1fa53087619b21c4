/* cuDNN alone in a CSV file: one row for each task, its best plan and the heuristic's. */
#pragma once
#include "common/cudnn/cudnn.h"
#include "common/files/output.h"
#include "common/harness/machine.h"
#include "common/harness/timing.h"

/* Adds a row to a file of output_append(), and the header line if the file is new. turn[i]: the timing of baseline->plan[i]. Returns what output_flush() does. */
int cudnn_csv_add(output *o, const cudnn_task *task, const machine *m, const cudnn_baseline *baseline, const contender *turn);

/* The plan that came out fastest of the timing. */
int cudnn_fastest(const cudnn_baseline *baseline, const contender *turn);
