/* The suites of common/suites: every line reads and is canonical, names are unique, and networks add up to what their papers say. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/problem.h"
#include "tests/tap.h"

/* Convolutions and multiply-adds an image of the layers whose name starts with `prefix`. */
static const struct {
  const char *suite, *prefix;
  int layers;
  double gmacs, tolerance; /* as the paper rounds it; its classifier, which is no convolution, is within the tolerance */
  const char *source;
} totals[] = {
    {"resnet50", "", 53, 4.1, 0.02, "4.1 GMAC: the networks' common figure with the stride on the 3x3"},
    {"resnext", "", 53, 4.2, 0.02, "S. Xie et al., table 1"},
    {"vgg16", "", 13, 15.35, 0.01, "13 layers by hand; 15.5 GMAC with the classifier's 0.12"},
    {"mobilenet", "v2_", 52, 0.300, 0.02, "M. Sandler et al., table 4: 300 M multiply-adds"},
};

/* What a reader counts on to find in a suite, as canonical strings without names. */
static const struct {
  const char *suite, *shape;
} members[] = {
    {"seed", "mb16ic64ih56oc128oh56kh3ph1"},           {"image", "mb1ic1ih4000oc1oh4000kh3ph1"},          {"image", "mb1ic1ih4000oc1oh4000kh31ph15"},
    {"mobilenet", "g128mb64ic128ih56oc128oh56kh7ph3"}, {"mobilenet", "g144mb64ic144ih56oc144oh56kh3ph1"}, {"mobilenet", "g144mb64ic144ih56oc144oh28kh3sh2ph1"},
    {"resnext", "g32mb16ic128ih56oc128oh56kh3ph1"},    {"first_layer", "mb32ic3ih224oc64oh112kh7sh2ph3"}, {"transposed", "mb1ic512ih56oc1024oh28kh2sh2"},
    {"dilated", "mb16ic2048ih33oc256oh33kh3dh17ph18"},
};

static bool read_suite(const char *name, conv_suite *suite) {
  char path[512], error[1024] = "";
  snprintf(path, sizeof path, "common/suites/%s", name);
  const int status = suite_read(suite, path, error, sizeof error);
  ok(status == 0 && suite->passed_over == 0, "%s reads: %d problems %s", name, suite->count, error);
  return status == 0;
}

/* Scripts find a layer's suite by its line: it is the canonical string, and no other line of the suite has its name. `nasty`, which is about odd
 * cases, writes them in several ways. */
static void canonical(const char *name) {
  conv_suite suite;
  if (!read_suite(name, &suite)) return;
  char path[512], line[1024], text[512];
  snprintf(path, sizeof path, "common/suites/%s", name);
  FILE *file = fopen(path, "r");
  int number = 0, differing = 0, repeated = 0;
  bool header = false;
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    if (number == 0 && line[0] == '#') header = true;
    if (line[0] == '#' || line[0] == 0 || number == suite.count) continue;
    problem_print(&suite.problems[number++], text, sizeof text);
    if (strcmp(line, text) != 0 && strcmp(name, "nasty") != 0) differing++, diag("%s, which is %s", line, text);
  }
  if (file) fclose(file);
  ok(number == suite.count && differing == 0, "%s: lines are as the harness prints them", name);
  for (int i = 0; i < suite.count; i++)
    for (int k = 0; k < i; k++)
      if (strcmp(suite.problems[i].name, suite.problems[k].name) == 0) repeated++, diag("%s twice", suite.problems[i].name);
  ok(header && repeated == 0, "%s begins with where it comes from; every layer has a name of its own", name);
  suite_free(&suite);
}

static void network(size_t t) {
  conv_suite suite;
  if (!read_suite(totals[t].suite, &suite)) return;
  int layers = 0;
  double gmacs = 0;
  for (int i = 0; i < suite.count; i++) {
    const conv_problem *p = &suite.problems[i];
    if (strncmp(p->name, totals[t].prefix, strlen(totals[t].prefix)) != 0) continue;
    layers += p->repeat;
    gmacs += 1e-9 * p->repeat * problem_macs(p) / p->N;
  }
  const double off = gmacs / totals[t].gmacs - 1;
  if (!ok(layers == totals[t].layers && off < totals[t].tolerance && off > -totals[t].tolerance, "%s %s: %d convolutions, %.3f GMAC an image", totals[t].suite,
          totals[t].prefix, layers, gmacs))
    diag("expected %d and %.3f (%s)", totals[t].layers, totals[t].gmacs, totals[t].source);
  suite_free(&suite);
}

static void member(size_t m) {
  conv_suite suite;
  if (!read_suite(members[m].suite, &suite)) return;
  bool found = false;
  for (int i = 0; i < suite.count; i++) {
    char text[512];
    suite.problems[i].name[0] = 0, suite.problems[i].repeat = 1;
    problem_print(&suite.problems[i], text, sizeof text);
    found |= strcmp(text, members[m].shape) == 0;
  }
  ok(found, "%s has %s", members[m].suite, members[m].shape);
  suite_free(&suite);
}

int main(void) {
  plan(0);
  DIR *folder = opendir("common/suites");
  ok(folder != NULL, "common/suites is a folder");
  for (struct dirent *entry; folder && (entry = readdir(folder));)
    if (entry->d_name[0] != '.') canonical(entry->d_name);
  if (folder) closedir(folder);
  for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) network(t);
  for (size_t m = 0; m < sizeof members / sizeof *members; m++) member(m);
  return done_testing();
}
