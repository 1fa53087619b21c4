/* The benchdnn grammar: what is deduced, what is printed, what is refused and with which words. */
#include "common/conv/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

/* What a string means, as N C H W K R S P Q, strides, dilations, top left bottom right padding, groups. */
static void meaning(const char *text, const char *want) {
  conv_problem p;
  char error[512] = "", got[256] = "";
  if (problem_parse(&p, text, error, sizeof error) == 0)
    snprintf(got, sizeof got, "%d %d %d %d %d %d %d %d %d s%d,%d d%d,%d p%d,%d,%d,%d g%d", p.N, p.C, p.H, p.W, p.K, p.R, p.S, p.P, p.Q, p.stride_h, p.stride_w,
             p.dil_h, p.dil_w, p.pad_top, p.pad_left, p.pad_bottom, p.pad_right, p.groups);
  if (!ok(strcmp(got, want) == 0, "%s", text)) diag("got  %s%s", got, error), diag("want %s", want);
}

static void meanings(void) {
  meaning("mb16ic64ih56oc128oh56kh3ph1", "16 64 56 56 128 3 3 56 56 s1,1 d1,1 p1,1,1,1 g1");
  meaning("ic3ih224oc64oh112kh7sh2ph3n\"resnet50:conv1\"", "2 3 224 224 64 7 7 112 112 s2,2 d1,1 p3,3,2,2 g1"); /* no mb: 2 images */
  meaning("g1mb1_ic3ih224iw224_oc64oh112ow112_kh7kw7_sh2sw2_ph3pw3_n\"x\"", "1 3 224 224 64 7 7 112 112 s2,2 d1,1 p3,3,2,2 g1");
  meaning("ic3ih224oc64kh7sh2ph3", "2 3 224 224 64 7 7 112 112 s2,2 d1,1 p3,3,2,2 g1");      /* output from padding */
  meaning("mb1ic3ih224oc64oh112kh7sh2", "1 3 224 224 64 7 7 112 112 s2,2 d1,1 p2,2,3,3 g1"); /* padding from output: 5 in all, 2 before */
  meaning("mb1ic1ih5oc1kh3", "1 1 5 5 1 3 3 3 3 s1,1 d1,1 p0,0,0,0 g1");                     /* neither: no padding */
  meaning("mb1ic1ih6oc1oh3kh1sh2", "1 1 6 6 1 1 1 3 3 s2,2 d1,1 p0,0,0,0 g1");               /* the last row is not reached */
  meaning("mb1ic1ih9oc1oh9kh3dh1ph2", "1 1 9 9 1 3 3 9 9 s1,1 d2,2 p2,2,2,2 g1");            /* dh1: one pixel left out */
  meaning("mb1ic1ih8oc1oh8kh4ph1", "1 1 8 8 1 4 4 8 8 s1,1 d1,1 p1,1,2,2 g1");               /* uneven padding */
  meaning("mb1ic1ih201oc1oh202kh1ph0", "1 1 201 201 1 1 1 202 202 s1,1 d1,1 p0,0,1,1 g1");   /* the last row sees nothing but padding */
  meaning("mb1ic1ih5oc1oh50kh3sh2ph1", "1 1 5 5 1 3 3 50 50 s2,2 d1,1 p1,1,95,95 g1");
  meaning("g4mb2ic8ih5oc4kh3ph1", "2 8 5 5 4 3 3 5 5 s1,1 d1,1 p1,1,1,1 g4");
  meaning("mb1ic1ih5iw7oc1kh1kw3pw1", "1 1 5 7 1 1 3 5 7 s1,1 d1,1 p0,1,0,1 g1");
  meaning("mb1ic1ih9iw9oc1kh3kw3sh2ph1", "1 1 9 9 1 3 3 5 7 s2,1 d1,1 p1,0,1,0 g1"); /* some w-field given: sw and pw have their defaults */
  meaning("mb1ic1ih3oc1oh3kh7ph5", "1 1 3 3 1 7 7 3 3 s1,1 d1,1 p5,5,1,1 g1");
  meaning("  mb1ic1ih5oc1kh3 # a comment", "1 1 5 5 1 3 3 3 3 s1,1 d1,1 p0,0,0,0 g1");
  meaning("mb1ic1ih9oc1kh3sh2ph1sw1", "1 1 9 9 1 3 3 5 5 s2,2 d1,1 p1,1,1,1 g1"); /* sw1 alone is no w-field: square */
  conv_problem p;
  char error[256];
  ok(problem_parse(&p, "ic1ih5oc1kh3n\"res2a*3\"", error, sizeof error) == 0 && strcmp(p.name, "res2a") == 0 && p.repeat == 3,
     "n\"res2a*3\" is res2a, three times");
  ok(problem_parse(&p, "ic1ih5oc1kh3nres_2a", error, sizeof error) == 0 && strcmp(p.name, "res_2a") == 0 && p.repeat == 1, "an unquoted name keeps its _");
  ok(problem_parse(&p, "ic1ih5oc1kh3n\"0123456789abcdef0123456789abcdef*5&0123456789abcdef0123456789abcdef*4\"", error, sizeof error) == 0 &&
         strcmp(p.name, "0123456789abcdef0123456789abcdef*5&0123456789abcdef0123456789ab") == 0 && p.repeat == 4,
     "a name of more than 63 characters is cut");
}

static void printing(void) {
  conv_problem p, again;
  char text[512], error[512] = "";
  static const char *const canonical[] = {
      "mb1ic1ih5oc1oh5kh1n\"a*3*1\"", "mb16ic64ih56oc128oh56kh3ph1", "g4mb2ic8ih5oc4oh5kh3ph1",       "mb1ic3ih224oc64oh112kh7sh2ph3n\"conv1*2\"",
      "mb1ic1ih9oc1oh10kh1",          "mb1ic1ih9oc1oh12kh1ph0",      "mb1ic1ih5iw7oc1oh5ow7kh1kw3pw1"};
  for (size_t i = 0; i < sizeof canonical / sizeof *canonical; i++) {
    text[0] = 0;
    if (problem_parse(&p, canonical[i], error, sizeof error) == 0) problem_print(&p, text, sizeof text);
    ok(strcmp(text, canonical[i]) == 0, "%s is printed as it was read", canonical[i]) || (diag("got %s", text), 0);
  }
  int same = 0;
  enum { PROBLEMS = 20000 };
  for (uint64_t seed = 0; seed < PROBLEMS; seed++) {
    p = seed % 2 ? problem_random(seed) : problem_random_special(seed);
    const int length = problem_print(&p, text, sizeof text);
    const bool equal = length < (int)sizeof text && problem_parse(&again, text, error, sizeof error) == 0 && problem_equal(&p, &again);
    same += equal;
    if (!equal && same == (int)seed) diag("%s: %s", text, error);
  }
  ok(same == PROBLEMS, "%d random problems print and parse back to themselves", PROBLEMS);
  char small[8];
  ok(problem_print(&p, small, sizeof small) > (int)sizeof small && strlen(small) == sizeof small - 1,
     "a short buffer is filled and terminated, the length needed is returned");
}

static void refused(const char *text, const char *want) {
  conv_problem p = {.N = 77};
  char error[512] = "(accepted)";
  const int status = problem_parse(&p, text, error, sizeof error);
  if (!ok(status != 0 && strcmp(error, want) == 0 && p.N == 77, "refused: \"%.*s\"", (int)strcspn(text, "\r\n\t"), text))
    diag("got  %s", error), diag("want %s", want);
}

static void refusals(void) {
  refused("", "shape: expected benchdnn fields such as mb16ic64ih56oc128oh56kh3ph1, got an empty string");
  refused("   # only a comment", "shape: expected benchdnn fields such as mb16ic64ih56oc128oh56kh3ph1, got an empty string");
  refused("mb0ic3ih5oc1kh3", "mb: expected an integer from 1 to 2147483647, got 0");
  refused("ic-3ih5oc1kh3", "ic: expected an integer from 1 to 2147483647, got -3");
  refused("ic0ih5oc1kh3", "ic: expected an integer from 1 to 2147483647, got 0");
  refused("ic99999999999999999999ih5oc1kh3", "ic: expected an integer from 1 to 2147483647, got 99999999999999999999");
  refused("icxih5oc1kh3", "shape: expected one of g mb ic ih iw oc oh ow kh kw sh sw dh dw ph pw n, got \"icxih5oc1kh3\"");
  refused("ic", "ic: expected an integer from 1, got \"\"");
  refused("g2ic4ih5oc7kh3", "oc: expected a multiple of g2, got 7");
  refused("g2ic3ih5oc4kh3", "ic: expected a multiple of g2, got 3");
  refused("ic1ih3oc1kh7ph1", "kh: expected a filter of at most 5 pixels (ih3 padded by 1 on both sides), got 7");
  refused("ic1ih5iw3oc1kh3kw7pw1", "kw: expected a filter of at most 5 pixels (iw3 padded by 1 on both sides), got 7");
  refused("ic1ih5oc1kh3sh0", "sh: expected an integer from 1 to 2147483647, got 0");
  refused("ic1ih5oc1kh3dh-1", "dh: expected an integer from 0 to 2147483646, got -1");
  refused("ic1ih5oc1kh1dh2147483647", "dh: expected an integer from 0 to 2147483646, got 2147483647");
  refused("ic1ih5oc1kh1zz\r\n", "shape: expected one of g mb ic ih iw oc oh ow kh kw sh sw dh dw ph pw n, got \"zz\"");
  refused("ic1ih5oc1kh1 a\tb\033[1m\n", "shape: expected nothing after the problem, got \"a?b?[1m\"");
  refused("ic1ih5oc1kh1nab\"c", "n: expected printable ASCII characters without quotes in the name");
  refused("ic1ih5oc1kh1n\"\xfc\"", "n: expected printable ASCII characters without quotes in the name");
  refused("ic1ih10oc1oh5kh3ph1", "oh: expected at least 9 with ih10 kh3 ph1, got 5");
  refused("ic1ih10oc1kh3oh8ow9ph1pw1iw10kw3", "oh: expected at least 9 with ih10 kh3 ph1, got 8");
  refused("ic1ih10oc1oh2147483647kh3ph1sh2", "ph: expected a padded input of at most 2147483647 pixels");
  refused("ic1ih4294967311oc1kh3ow4294967311", "ih: expected an integer from 1 to 2147483647, got 4294967311");
  refused("mb2147483647ic2147483647ih2147483647oc1kh1",
          "mb ic ih iw: expected sizes whose product in bytes fits 64 bits, got 2147483647 x 2147483647 x 2147483647 x 2147483647");
  refused("ic1ih5oc1kh3 rubbish", "shape: expected nothing after the problem, got \"rubbish\"");
  refused("ic1ih5oc1kh3n\"a\"b", "shape: expected nothing after the name, got \"b\"");
  refused("ic1ih5oc1kh3xy3", "shape: expected one of g mb ic ih iw oc oh ow kh kw sh sw dh dw ph pw n, got \"xy3\"");
  refused("ic1ih5oc1kh3n\"open", "n: expected a closing quote after n\"");
  refused("ic1ih5oc1kh3n\"a*0\"", "n: expected a count from 1 to 1000000 after *, got 0");
  refused("ic1ih5oc1kh3ic2", "ic: expected once, given twice");
  refused("ih5oc1kh3", "ic: expected ic and an integer from 1, it is missing");
  refused("ic1ih5kh3", "oc: expected oc and an integer from 1, it is missing");
  refused("ic1oc1kh3", "ih: expected ih and an integer from 1, it is missing");
  refused("ic1ih5oc1", "kh: expected kh and an integer from 1, it is missing");
  refused("ic1ih5iw5oc1kh3", "kw: expected kw and an integer from 1, it is missing");
  refused("ic1iw4294967311oc4294967311kw3", "shape: expected a 2-D convolution, got a 1-D one (no field along h)");
  refused("ic1iw5oc1kw3", "shape: expected a 2-D convolution, got a 1-D one (no field along h)");
  refused("ic1id5ih5oc1kd3kh3", "shape: expected a 2-D convolution, got a 3-D one (id, od, kd, sd, dd or pd)");
  refused("ic1ih5oc1kh2147483647dh2147483646", "kh: expected a dilated filter of at most 2147483647 pixels, got 4611686011984936963");
}

/* Writes a suite file and reads it. */
static int read_text(const char *text, conv_suite *suite, char *error, size_t error_size) {
  char path[] = "/tmp/suite-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) return -2;
  if (write(fd, text, strlen(text)) < 0) return -2;
  close(fd);
  const int status = suite_read(suite, path, error, error_size);
  char *at = strstr(error, path); /* the test compares what follows the random name */
  if (at) memmove(error, at + strlen(path), strlen(at + strlen(path)) + 1);
  unlink(path);
  return status;
}

static void suites(void) {
  conv_suite suite;
  char error[600] = "";
  ok(read_text("--mode=C\n# comment\n\nic3ih5oc1kh3\nic1iw5oc1kw3\nic1id5ih5oc1kd3kh3n\"3d\"\n  g1mb4_ic2ih5_oc1oh5_kh3_ph1_n\"b\"  # end\n--dir=FWD_B "
               "--dt=f32 mb7ic1ih5oc1kh3\n",
               &suite, error, sizeof error) == 0 &&
         suite.count == 3 && suite.passed_over == 3 && suite.problems[1].N == 4 && suite.problems[2].N == 7,
     "a list: three problems, one behind options; a line of options, a 1-D and a 3-D shape passed over");
  suite_free(&suite);
  ok(read_text("--dir=FWD_B --dt=f32 # and so on\n--dt=s8 mb3_ic2ih5oc1kh3n\"a b\" mb4ic2_ih5oc1kh3n\"c\"#d\nmb5ic1ih5oc1kh3 ic1iw9oc1kw3 "
               "ic1iw9oc1kw3\n--dt=u8 ic1iw9oc1kw3",
               &suite, error, sizeof error) == 0 &&
         suite.count == 3 && suite.passed_over == 4 && suite.problems[0].N == 3 && strcmp(suite.problems[0].name, "a b") == 0 && suite.problems[1].N == 4 &&
         suite.problems[2].N == 5,
     "several problems on a line") ||
      (diag("%d problems, %d passed over %s", suite.count, suite.passed_over, error), 0);
  suite_free(&suite);
  ok(read_text("--attr=relu, \\\n  # not this\n  add:f32, \\\n\tsum\n--scales=a,\\\n b mb6ic1ih5\\\n oc1kh3 \\\r\n n\"x\"\nmb7ic1ih5oc1kh3\\\n", &suite, error,
               sizeof error) == 0 &&
         suite.count == 2 && suite.passed_over == 1 && suite.problems[0].N == 6 && strcmp(suite.problems[0].name, "x") == 0 && suite.problems[1].N == 7,
     "words that a backslash continues on the next line") ||
      (diag("%d problems, %d passed over %s", suite.count, suite.passed_over, error), 0);
  suite_free(&suite);
  ok(read_text("ic3ih5oc1kh3\nic3ih5oc1\\\nkh9\n", &suite, error, sizeof error) != 0 &&
         strcmp(error, ":2: kh: expected a filter of at most 5 pixels (ih5 padded by 0 on both sides), got 9") == 0,
     "a bad problem is named by the line where it begins") ||
      (diag("%s", error), 0);
  ok(read_text("ic3ih5oc1kh3 --dt=f32 rubbish\n", &suite, error, sizeof error) != 0 &&
         strcmp(error, ":1: shape: expected one of g mb ic ih iw oc oh ow kh kw sh sw dh dw ph pw n, got \"rubbish\"") == 0,
     "what is no problem is refused") ||
      (diag("%s", error), 0);
  ok(read_text("ic3ih5oc1kh3\nic3ih5oc1kh3\nic3ih5oc1kh9\n", &suite, error, sizeof error) != 0 &&
         strcmp(error, ":3: kh: expected a filter of at most 5 pixels (ih5 padded by 0 on both sides), got 9") == 0 && suite.problems == NULL,
     "a bad line 3 is named") ||
      (diag("%s", error), 0);
  ok(read_text("# nothing\n--batch=x\n", &suite, error, sizeof error) != 0 &&
         strcmp(error, ": expected at least one 2-D problem, got none (1 passed over)") == 0,
     "an empty list is refused") ||
      (diag("%s", error), 0);
  ok(suite_read(&suite, "/no/such/file", error, sizeof error) != 0 && strstr(error, "/no/such/file: expected a readable file") == error,
     "a missing file is named");
  static const char *const committed[] = {"common/suites/laptop", "common/suites/nasty", "common/suites/seed", "common/suites/image", "common/suites/resnet50"};
  for (size_t i = 0; i < sizeof committed / sizeof *committed; i++) {
    error[0] = 0;
    const int status = suite_read(&suite, committed[i], error, sizeof error);
    ok(status == 0 && suite.passed_over == 0, "%s reads: %d problems %s", committed[i], suite.count, error);
    if (strstr(committed[i], "laptop"))
      for (int k = 0; k < suite.count; k++) ok(problem_macs(&suite.problems[k]) <= 0.05e9, "laptop: %s is at most 0.05 GMAC", suite.problems[k].name);
    if (strstr(committed[i], "resnet50")) {
      int layers = 0;
      double macs = 0;
      for (int k = 0; k < suite.count; k++)
        layers += suite.problems[k].repeat, macs += suite.problems[k].repeat * problem_macs(&suite.problems[k]) / suite.problems[k].N;
      ok(layers == 53 && macs > 4.0e9 && macs < 4.1e9, "resnet50: 53 convolutions, %.2f GMAC an image", macs / 1e9);
    }
    suite_free(&suite);
  }
}

/* The same counts by marking what every product touches. */
static void mark(int in, int taps, int out, int stride, int dil, int pad, double reached[3]) {
  static char seen[3][4096];
  memset(seen, 0, sizeof seen);
  for (int q = 0; q < out; q++)
    for (int r = 0; r < taps; r++) {
      const int64_t at = (int64_t)q * stride + (int64_t)r * dil - pad;
      if (at >= 0 && at < in) seen[0][at] = seen[1][q] = seen[2][r] = 1;
    }
  for (int i = 0; i < 3; i++) {
    reached[i] = 0;
    for (size_t k = 0; k < sizeof seen[i]; k++) reached[i] += seen[i][k];
  }
}

static void traffic(void) {
  enum { PROBLEMS = 20000 };
  int equal = 0;
  conv_problem p;
  char error[256];
  for (uint64_t seed = 0; seed < PROBLEMS; seed++) {
    p = seed % 2 ? problem_random(seed) : problem_random_special(seed);
    if (seed % 3 == 0)
      p.stride_h = 1 + (int)(seed % 7), p.dil_h = 1 + (int)(seed % 5), p.pad_top = (int)(seed % 11),
      p.P = 1 + (int)(seed % 9); /* sizes that no string has, too */
    double h[3], w[3];
    mark(p.H, p.R, p.P, p.stride_h, p.dil_h, p.pad_top, h);
    mark(p.W, p.S, p.Q, p.stride_w, p.dil_w, p.pad_left, w);
    const double x = 4.0 * p.N * p.C * h[0] * w[0], y = 4.0 * p.N * p.K * h[1] * w[1], filters = 4.0 * p.K * (p.C / p.groups) * h[2] * w[2];
    const double want[PASS_COUNT] = {x + filters, y + filters, x + y};
    const double written[PASS_COUNT] = {4.0 * (double)problem_y_count(&p), 4.0 * (double)problem_x_count(&p), 4.0 * (double)problem_w_count(&p)};
    bool same = true;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
      const conv_traffic t = problem_traffic(&p, (conv_pass)pass, DTYPE_FP32);
      same &= t.read == want[pass] && t.written == written[pass];
    }
    equal += same;
  }
  ok(equal == PROBLEMS, "%d problems of %d: the bytes that are touched, as marked product by product", equal, PROBLEMS);
  problem_parse(&p, "mb1ic8ih56oc16kh1sh2", error, sizeof error);
  const double quarter = 4.0 * 8 * 28 * 28, filters = 4.0 * 8 * 16, y = 4.0 * 16 * 28 * 28, x = 4.0 * 8 * 56 * 56;
  ok(problem_bytes(&p, PASS_FPROP, DTYPE_FP32) == quarter + filters + y, "a 1x1 filter of stride 2 reads a quarter of x");
  ok(problem_bytes(&p, PASS_DGRAD, DTYPE_FP32) == x + filters + y, "its gradient writes all of dx");
  ok(problem_bytes(&p, PASS_WGRAD, DTYPE_FP32) == quarter + filters + y, "that of the filters reads a quarter of x, too");
}

int main(void) {
  plan(0);
  meanings();
  printing();
  refusals();
  suites();
  traffic();
  return done_testing();
}
