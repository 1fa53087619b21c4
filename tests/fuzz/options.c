/* The command line of a step: arguments, one a line. Lists are not read: `--suite /dev/zero` is a matter of patience. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

static int no_suite(conv_suite *suite, const char *path, char *error, size_t error_size) {
  *suite = (conv_suite){0};
  snprintf(error, error_size, "%s: not read", path);
  return -1;
}

#define suite_read no_suite
#include "common/harness/options.c"
#undef suite_read

const char *kernel_plan_pass(const conv_kernel *k, const conv_problem *p, const conv_device *device, conv_plan *plan) {
  (void)k, (void)p, (void)device, (void)plan;
  return "never asked";
}

const char *emu_tool_name(void) { return NULL; }

static const conv_kernel forward = {.name = "98a", .idea = "forward", .pass = PASS_FPROP}, backward = {.name = "98b", .idea = "backward", .pass = PASS_DGRAD};
static const conv_kernel *const kernels[] = {&forward, &backward};
static const conv_choice rule[] = {{&forward, NULL, "always"}};
static const conv_step step = {.number = "98", .title = "none", .kernels = kernels, .kernel_count = 2, .rule = rule, .rule_count = 1};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { MOST = 40 };
  static char name[] = "98";
  char *argv[MOST + 2] = {name}, *text = malloc(size + 1);
  int argc = 1;
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  for (char *next = size ? text : NULL; next && argc <= MOST;) {
    argv[argc++] = next;
    next = strchr(next, '\n');
    if (next) *next++ = 0;
  }
  step_options o;
  optind = 0; /* from the first again */
  const int status = options_parse(&o, &step, argc, argv);
  EXPECT(status == 0 || status == 1 || status == 3);
  if (status == 0) {
    EXPECT(o.random ? o.suite.count == 0 : o.suite.count == 1);
    for (int i = 0; i < o.suite.count; i++) fuzz_problem(&o.suite.problems[i]);
    for (int i = 0; i < 2; i++) options_select(&o, kernels[i]);
    options_free(&o);
  }
  free(text);
  return 0;
}
