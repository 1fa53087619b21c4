/* The table of GPUs: a row says what was measured, both memories are as far below their data sheets; and on any GPU but the one
 * that choices were fitted to, a report says that. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/gpus.h"
#include "common/harness/report.h"
#include "tests/tap.h"

/* What report_machine() says of a machine. */
static void said(const machine *m, char *text, size_t size) {
  FILE *file = tmpfile();
  const report r = {.machine = m, .text = file};
  report_machine(&r);
  rewind(file);
  const size_t length = fread(text, 1, size - 1, file);
  text[length] = 0;
  fclose(file);
}

int main(void) {
  const gpu_limits *h200 = gpu_limits_of("NVIDIA H200"), *h100 = gpu_limits_of("NVIDIA H100 80GB HBM3");
  ok(h200 && h100 && strcmp(h200->short_name, "h200") == 0 && strcmp(h100->short_name, "h100") == 0, "rows by the driver's name");
  ok(gpu_limits_of("NVIDIA H20") == NULL && gpu_limits_of("") == NULL, "no row for another GPU");
  ok(h200 && h100 && strstr(h200->source, "measured") && strstr(h100->source, "measured"), "a row says what of it was measured");
  ok(h200 && h100 && fabs(h100->copy_per_second / 3.35e12 - h200->copy_per_second / 4.80e12) < 0.02 &&
         fabs(h100->read_per_second / 3.35e12 - h200->read_per_second / 4.80e12) < 0.02,
     "both memories sustain the same share of their data sheets, within 2 %%");

  char text[1024];
  machine m = {.device = {.name = "NVIDIA H100 80GB HBM3", .arch = 90, .sm_count = 132}};
  said(&m, text, sizeof text);
  ok(machine_fitted_to(&m) && strstr(text, "fitted:  the choice of kernels, cuts of products and sizes of tiles to times of an NVIDIA H200, not of this GPU\n"),
     "an H100's report says what was fitted elsewhere");
  snprintf(m.device.name, sizeof m.device.name, "NVIDIA H200");
  said(&m, text, sizeof text);
  ok(!machine_fitted_to(&m) && !strstr(text, "fitted"), "an H200's has nothing to say");
  m = (machine){.device = {.name = "NVIDIA H100 80GB HBM3", .arch = 90, .emulated = true}};
  ok(!machine_fitted_to(&m), "nor has the emulator's");
  m = (machine){.device = {.name = "CPU"}};
  ok(!machine_fitted_to(&m), "nor a CPU's");
  return done_testing();
}
