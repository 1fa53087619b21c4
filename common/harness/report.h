/* Results as rows: a line for the reader, a CSV line, a JSON object with the raw samples. */
#pragma once
#include <stdio.h>

#include "common/cudnn/cudnn.h"
#include "common/files/output.h"
#include "common/harness/machine.h"
#include "common/harness/sources.h"
#include "common/harness/timing.h"

typedef enum {
  RESULT_UNVERIFIED, /* not compared, or not with all that is due: every row begins like this */
  RESULT_RIGHT,      /* every comparison that was due was made, and passed */
  RESULT_WRONG,
  RESULT_SKIPPED, /* never meant to run: the kernel, or this machine, does not do the problem */
} result_status;

typedef struct result_row {
  const conv_kernel *kernel;
  const conv_problem *problem;
  conv_operation operation; /* the problem, its pass and epilogue */
  result_status status;
  char note[256];     /* why it was skipped or not verified, what was wrong, or what the reader should know of the timing */
  bool exact_checked; /* the integer run was compared, and equal if status is RESULT_RIGHT */
  bool bound_checked; /* the random run was compared with the derived bound */
  double worst_share; /* of the bound, in the random run */
  double plain_share; /* of the bound that a plain sum in fp32 has */
  bool timed;
  const contender *time;      /* if timed */
  double in_order_us;         /* the same, each launch after the one before it; 0: not asked for */
  const cudnn_figures *cudnn; /* of the same problem, in the same turns; NULL: not asked for, or no GPU */
  const cudnn_figures *fused; /* the same of its graph with a bias of zeros */
  double run_seconds;         /* of one launch as verification saw it (on the emulator: emulation time) */
} result_row;

/* How a step's choice of a kernel did where all of them were timed. */
typedef struct choice_record {
  int made, missed; /* problems; of these, another kernel was the fastest */
  double log_loss;  /* sum of ln(its time / the fastest's) */
  double worst;     /* the largest such ratio, and where */
  char worst_where[320];
} choice_record;

typedef struct report {
  const kernel_source *sources; /* hashes for the rows; NULL: none */
  const machine *machine;
  FILE *text;
  output *csv, *json, *out; /* NULL: not asked for. out: a result for itself; NULL too when it has been written */
  char date[32];            /* UTC, ISO 8601 */
  int right, wrong, skipped, unverified, json_rows;
  choice_record choices;
  bool with_fused;                 /* the files have columns for cuDNN's graph with a bias of zeros */
  int fused_tried, fused_stronger; /* problems beside it; of these, it was faster than cuDNN's plans for the bare convolution */
} report;

/* Opens the files (NULL: none); with_fused as in the report. Returns 0, or -1 after one line on stderr. */
int report_open(report *r, const machine *m, const char *csv, const char *json, const char *out, bool with_fused);
void report_machine(const report *r);
void report_problem(const report *r, const conv_operation *o, conv_dtype dtype, conv_layout layout);
void report_row(report *r, const result_row *row);
/* Notes whether `chosen` was the fastest of the rows that were timed, if it is among two or more. */
void report_choice(report *r, const result_row rows[], int count, const char *chosen);
/* A line for each of cuDNN's graphs that was asked for (those with a note), after the rows it belongs to. */
void report_cudnn(report *r, const cudnn_figures *c, const cudnn_figures *fused);
/* The columns of `fused` at the end of a CSV line: their names, a row's; and the same as members of a JSON object. */
extern const char fused_columns[];
void fused_csv(FILE *out, const result_row *row);
void fused_json(FILE *out, const result_row *row);
/* ", launched early" where kernels begin before the one before them has ended, all of them or a share. */
void print_early(FILE *out, double share);
/* Ends the files and prints the count. Returns the exit status: 0, or 1 if a result was wrong or not verified or a file could not be written. */
int report_close(report *r);
/* Ends a report of bad input: nothing is left behind. */
void report_discard(report *r);

void csv_text(FILE *f, const char *text);      /* as a CSV field: quoted, quotes doubled */
void version_text(int version, char text[16]); /* 13000, as CUDA counts: "13.0"; 0: "" */
