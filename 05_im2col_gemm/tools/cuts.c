/* How good is the model that cuts step 05's products (05_im2col_gemm/split.h)? It is compared with an exhaustive choice.
 *
 *   make cuts                                          ResNet-50, with 16 and 64 images, and other networks; on a GPU
 *   build/emu/tools/cuts --shape mb2ic40ih9oc70kh3ph1  without one: every cut is verified
 *   build/emu/tools/cuts --read docs/results/GPU/cuts.csv [--fit resnet50]   what the model, as it is now, loses by those times
 *
 * For every problem and each of 05f, 05i and 05k all sensible cuts are verified, those that may be fast are timed in turns, and the model's is
 * compared with the fastest. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "05_im2col_gemm/tools/cuts/cuts.h"
#include "common/files/arguments.h"
#include "common/files/input.h"
#include "common/harness/report.h"

static const char help_text[] = "usage: cuts [options]\n"
                                "  --suite NAME|FILE[:N]  a list of problems, all with N images; may be given several times\n"
                                "                         (default: resnet50, resnet50:64, vgg16, resnext)\n"
                                "  --shape STRING         one problem as a benchdnn string (the default on the emulator, a small one)\n"
                                "  --pass PASS            fprop (05f), dgrad (05i), wgrad (05k) or all (default: all)\n"
                                "  --csv FILE             a row for each cut up to a tenth slower than the best, and the model's\n"
                                "  --read FILE            measure nothing: what the model loses by the times of such a file\n"
                                "  --fit SUITE            with --read: other prices for the model, by that suite's times, with any number of images\n"
                                "  --choices              with --read: what the model takes for every problem, as CSV\n"
                                "Exit status: 0 all right, 1 a result was wrong or a call failed, 2 bad input.\n";

static const char csv_header[] = "gpu,sms,driver,cuda,date,suite,shape,pass,kernel,tried,bm,slices,status,us_median,us_min,us_max\n";

enum { MOST_SUITES = 16 };

typedef struct session {
  const char *suites[MOST_SUITES], *shape, *csv_path, *read_path, *fit;
  int suite_count;
  bool passes[PASS_COUNT], choices;
  machine gpu;
  output *csv;
  char date[32];
  cut_trial *trials;
  int count, room;
} session;

/* ---------------------------------------------------------------- trials */

static cut_trial *add_trial(session *s, const char *suite, const conv_problem *p, int kernel, int multiprocessors) {
  if (s->count == s->room) {
    cut_trial *more = realloc(s->trials, (size_t)(s->room = 2 * s->room + 64) * sizeof *more);
    if (!more) fputs("cuts: no memory\n", stderr), exit(1);
    s->trials = more;
  }
  cut_trial *t = &s->trials[s->count++];
  memset(t, 0, sizeof *t);
  snprintf(t->suite, sizeof t->suite, "%s", suite);
  t->p = *p, t->p.name[0] = 0, t->p.repeat = 1, t->kernel = kernel, t->multiprocessors = multiprocessors;
  return t;
}

static const cut *best_of(const cut_trial *t) {
  const cut *best = NULL;
  for (int i = 0; i < t->count; i++)
    if (t->cuts[i].us > 0 && (!best || t->cuts[i].us < best->us)) best = &t->cuts[i];
  return best;
}

/* What the model takes, and beside the best of those that were timed what is lost. ~: that cut was not timed itself. */
static void print_trial(const cut_trial *t) {
  char shape[256];
  int right = 0, timed = 0;
  cut choice = {0};
  problem_print(&t->p, shape, sizeof shape);
  for (int i = 0; i < t->count; i++) right += t->cuts[i].right, timed += t->cuts[i].us > 0;
  printf("%s %-42s", cut_kernel_of(t->kernel)->name, shape);
  if (!t->read) printf(" %2d of %2d cuts right;", right, t->tried);
  const double loss = model_loss(t, &choice);
  const cut *best = best_of(t);
  printf(" model %3d x %-3d", choice.bm, choice.slices);
  if (best)
    printf(" %s%8.2f us, best of %2d timed %3d x %-3d %8.2f us, lost %4.1f %%", choice.right ? " " : "~", choice.us, timed, best->bm, best->slices, best->us,
           100 * (loss - 1));
  putchar('\n');
}

/* What the model takes and the best cut for every problem, as CSV. timed: no, if the model's cut was not timed itself. */
static void print_choices(const session *s) {
  char shape[256];
  puts("suite,shape,pass,kernel,bm,slices,timed,us,best_bm,best_slices,best_us,loss");
  for (int i = 0; i < s->count; i++) {
    const cut_trial *t = &s->trials[i];
    cut choice;
    const double loss = model_loss(t, &choice);
    const cut *best = best_of(t);
    problem_print(&t->p, shape, sizeof shape);
    printf("%s,%s,%s,%s,%d,%d,%s,%.3f,%d,%d,%.3f,%.6f\n", t->suite, shape, pass_name(cut_kernel_of(t->kernel)->pass), cut_kernel_of(t->kernel)->name, choice.bm,
           choice.slices, choice.right ? "yes" : "no", choice.us, best->bm, best->slices, best->us, loss);
  }
}

/* For each suite and kernel: problems, those whose best cut the model takes, and what is lost. */
static void print_summary(const session *s) {
  for (int i = 0; i < s->count; i++) {
    const cut_trial *of = &s->trials[i];
    bool first = true;
    for (int j = 0; j < i; j++) first &= strcmp(s->trials[j].suite, of->suite) != 0;
    for (int kernel = 0; first && kernel < CUT_KERNELS; kernel++) {
      int n = 0, taken = 0, close = 0;
      double sum = 0, worst = 0;
      char where[256] = "";
      for (int j = i; j < s->count; j++) {
        const cut_trial *t = &s->trials[j];
        cut choice;
        if (t->kernel != kernel || strcmp(t->suite, of->suite) != 0) continue;
        const double loss = model_loss(t, &choice);
        n++, taken += loss <= 1, close += loss < 1.02, sum += log(loss);
        if (loss > worst) worst = loss, problem_print(&t->p, where, sizeof where);
      }
      if (n == 0) continue;
      printf("%s %s: %d problems, the best cut taken in %d, within 2 %% in %d; lost: %.2f %% in the mean, at most %.1f %% (%s)\n", of->suite,
             cut_kernel_of(kernel)->name, n, taken, close, 100 * (exp(sum / n) - 1), 100 * (worst - 1), where);
    }
  }
}

/* ---------------------------------------------------------------- measuring */

static void write_rows(const session *s, const cut_trial *t) {
  char shape[256], cuda[16], driver[16];
  problem_print(&t->p, shape, sizeof shape);
  version_text(s->gpu.runtime_version, cuda), version_text(s->gpu.driver_version, driver);
  for (int i = 0; i < t->count; i++) {
    const cut *c = &t->cuts[i];
    if (c->us <= 0 || (!c->chosen && c->us > SLOW * best_of(t)->us)) continue;
    csv_text(s->csv->file, s->gpu.device.name);
    fprintf(s->csv->file, ",%d,%s,%s,%s,%s,%s,%s,%s,%d,%d,%d,%s,%.2f,%.2f,%.2f\n", t->multiprocessors, driver, cuda, s->date, t->suite, shape,
            pass_name(cut_kernel_of(t->kernel)->pass), cut_kernel_of(t->kernel)->name, t->tried, c->bm, c->slices, c->right ? "right" : "wrong", c->us,
            c->us_min, c->us_max);
  }
  output_flush(s->csv);
}

/* One problem, with every kernel, unless an earlier suite had it. */
static int measure_problem(session *s, const char *suite, const conv_problem *p) {
  int failed = 0;
  for (int i = 0; i < s->count; i++)
    if (problem_equal(&s->trials[i].p, p)) return 0;
  for (int kernel = 0; kernel < CUT_KERNELS && failed < 2; kernel++) {
    const conv_kernel *k = cut_kernel_of(kernel);
    if (!s->passes[k->pass]) continue;
    conv_plan plan;
    const char *why = kernel_plan_pass(k, p, &s->gpu.device, &plan);
    if (why) printf("SKIP %s: %s\n", k->name, why);
    if (why) continue;
    cut_trial *t = add_trial(s, suite, p, kernel, s->gpu.device.sm_count);
    list_cuts(t);
    const int status = measure_cuts(&s->gpu, t);
    if (status > failed) failed = status;
    if (status < 2) print_trial(t), fflush(stdout);
    if (status < 2 && s->csv) write_rows(s, t);
  }
  return failed;
}

/* NAME[:N]. Returns 0, or 2 with a line on stderr. */
static int read_suite(const char *name, conv_suite *suite) {
  char error[PATH_MAX + 512], path[PATH_MAX], text[PATH_MAX];
  snprintf(text, sizeof text, "%s", name);
  char *colon = strrchr(text, ':'), *end = NULL;
  const long images = colon ? strtol(colon + 1, &end, 10) : 0;
  if (colon && (end == colon + 1 || *end || images < 1 || images > 1 << 20))
    return fprintf(stderr, "--suite: expected NAME or NAME:IMAGES, got \"%s\"\n", name), 2;
  if (colon) *colon = 0;
  suite_path(text, path);
  if (suite_read(suite, path, error, sizeof error)) return fprintf(stderr, "--suite: %s\n", error), 2;
  for (int i = 0; i < suite->count && images; i++)
    if (problem_set_batch(&suite->problems[i], (int)images, error, sizeof error)) return fprintf(stderr, "--suite: %s\n", error), 2;
  return 0;
}

static int measure_all(session *s, conv_suite suites[]) {
  int failed = 0;
  for (int i = 0; i < s->suite_count; i++)
    for (int j = 0; j < suites[i].count && failed < 2; j++) {
      const int status = measure_problem(s, s->suites[i], &suites[i].problems[j]);
      if (status > failed) failed = status;
    }
  return failed > 0;
}

/* ---------------------------------------------------------------- reading */

static int read_row(session *s, const char *line) {
  char gpu[256], suite[64], shape[256], pass[16], kernel[16], status[16], error[512];
  int sms, tried, bm, slices, at = -1;
  double us, low, high;
  conv_problem p;
  if (sscanf(line, "\"%255[^\"]\",%d,%*[^,],%*[^,],%*[^,],%63[^,],%255[^,],%15[^,],%15[^,],%d,%d,%d,%15[^,],%lf,%lf,%lf", gpu, &sms, suite, shape, pass, kernel,
             &tried, &bm, &slices, status, &us, &low, &high) != 13 ||
      problem_parse(&p, shape, error, sizeof error) || sms < 1 || !(us > 0) || !isfinite(us + low + high) || slices < 1)
    return -1;
  for (int i = 0; i < CUT_KERNELS; i++)
    if (strcmp(cut_kernel_of(i)->name, kernel) == 0) at = i;
  if (at < 0) return -1;
  if (strcmp(status, "right") != 0 || !s->passes[cut_kernel_of(at)->pass]) return 0;
  cut_trial *t = s->count ? &s->trials[s->count - 1] : NULL;
  if (!t || t->kernel != at || !problem_equal(&t->p, &p)) t = add_trial(s, suite, &p, at, sms);
  if (t->count == MOST_CUTS) return -1;
  t->read = true, t->tried = tried;
  t->cuts[t->count++] = (cut){.bm = bm, .slices = slices, .right = true, .us = us, .us_min = low, .us_max = high};
  return 0;
}

static int read_file(session *s) {
  char line[1024];
  const char *unreadable;
  FILE *f = input_open(s->read_path, false, &unreadable);
  if (!f) return fprintf(stderr, "--read: %s: cannot read: %s\n", s->read_path, unreadable), 2;
  int number = 0, bad = !fgets(line, sizeof line, f) || strcmp(line, csv_header) != 0;
  for (number = 1; !bad && fgets(line, sizeof line, f); number++) bad = read_row(s, line);
  fclose(f);
  if (bad) return fprintf(stderr, "--read: %s:%d: expected a line as cuts --csv writes it\n", s->read_path, number), 2;
  if (s->count == 0) return fprintf(stderr, "--read: %s: expected cuts of the passes asked for, found none\n", s->read_path), 2;
  bool fit = !s->fit;
  for (int i = 0; i < s->count; i++) fit |= s->fit && is_suite(s->trials[i].suite, s->fit);
  if (!fit) return fprintf(stderr, "--fit: expected a suite of %s, got \"%s\"\n", s->read_path, s->fit), 2;
  if (s->choices) return print_choices(s), 0;
  for (int i = 0; i < s->count; i++) print_trial(&s->trials[i]);
  putchar('\n');
  print_summary(s);
  if (s->fit) fit_prices(s->trials, s->count, s->fit, stdout);
  return 0;
}

/* ---------------------------------------------------------------- main */

static int bad(const char *option, const char *expected, const char *got) { return fprintf(stderr, "%s: expected %s, got \"%s\"\n", option, expected, got), 3; }

/* Returns 0 to go on, or an exit status + 1. */
static int parse(session *s, int argc, char **argv) {
  enum { SUITE = 256, SHAPE, PASS, CSV, READ, FIT, CHOICES, HELP };
  static const struct option table[] = {{"suite", required_argument, 0, SUITE}, {"shape", required_argument, 0, SHAPE}, {"pass", required_argument, 0, PASS},
                                        {"csv", required_argument, 0, CSV},     {"read", required_argument, 0, READ},   {"fit", required_argument, 0, FIT},
                                        {"choices", no_argument, 0, CHOICES},   {"help", no_argument, 0, HELP},         {0}};
  const char *pass = "all";
  int option;
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    switch (option) {
      case SUITE:
        if (s->suite_count == MOST_SUITES) return bad("--suite", "at most 16 of them", optarg);
        s->suites[s->suite_count++] = optarg;
        break;
      case SHAPE: s->shape = optarg; break;
      case PASS: pass = optarg; break;
      case CSV: s->csv_path = optarg; break;
      case READ: s->read_path = optarg; break;
      case FIT: s->fit = optarg; break;
      case CHOICES: s->choices = true; break;
      case HELP: fputs(help_text, stdout); return 1;
      default: return 3; /* getopt has said why */
    }
  }
  bool known = false;
  for (int i = 0; i < PASS_COUNT; i++) known |= s->passes[i] = strcmp(pass, "all") == 0 || strcmp(pass, pass_name((conv_pass)i)) == 0;
  if (!known) return bad("--pass", "fprop, dgrad, wgrad or all", pass);
  if (optind < argc) return bad(argv[0], "options only (see --help)", argv[optind]);
  if ((s->suite_count || s->shape || s->csv_path) && s->read_path) return fputs("--read: expected no --suite, --shape or --csv beside it\n", stderr), 3;
  if (s->shape && s->suite_count) return fputs("--shape, --suite: expected one of them\n", stderr), 3;
  if ((s->fit || s->choices) && !s->read_path) return fputs("--fit, --choices: expected --read beside them\n", stderr), 3;
  return 0;
}

/* The problems, all read before anything runs. Returns an exit status. */
static int read_problems(session *s, conv_suite suites[MOST_SUITES]) {
  static const char *const by_default[] = {"resnet50", "resnet50:64", "vgg16", "resnext"};
  char error[512];
  int status = 0;
  if (s->gpu.device.emulated && !s->shape && s->suite_count == 0) s->shape = "mb2ic40ih9oc70oh9kh3ph1";
  if (s->shape) {
    suites[0].problems = malloc(sizeof(conv_problem));
    if (!suites[0].problems || problem_parse(suites[0].problems, s->shape, error, sizeof error)) return fprintf(stderr, "--shape: %s\n", error), 2;
    suites[0].count = s->suite_count = 1, s->suites[0] = "shape";
    return 0;
  }
  if (s->suite_count == 0) memcpy(s->suites, by_default, sizeof by_default), s->suite_count = 4;
  for (int i = 0; i < s->suite_count && !status; i++) status = read_suite(s->suites[i], &suites[i]);
  return status;
}

static int measure(session *s) {
  static conv_suite suites[MOST_SUITES];
  char error[512];
  if (machine_open_gpu(&s->gpu, error, sizeof error)) return fprintf(stderr, "%s\n", error), 2;
  if (s->csv_path && s->gpu.device.emulated) return argument_bad("--csv", "a GPU: the emulator times nothing", s->csv_path);
  int status = read_problems(s, suites);
  if (!status && s->csv_path && !(s->csv = output_open("--csv", s->csv_path))) status = 2;
  if (!status) {
    const time_t now = time(NULL);
    strftime(s->date, sizeof s->date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    if (s->csv) fputs(csv_header, s->csv->file);
    status = measure_all(s, suites);
    putchar('\n');
    if (!s->gpu.device.emulated) print_summary(s);
    if (!status && !s->count) {
      fputs("cuts: expected a problem that one of 05f, 05i and 05k can do, in a pass that was asked for\n", stderr);
      status = 2;
    } else if (s->gpu.device.emulated) printf("emulated: %s, not timed\n", status ? "NOT all right" : "every cut right");
  }
  if (output_close(s->csv)) status = 1;
  for (int i = 0; i < MOST_SUITES; i++) suite_free(&suites[i]);
  return status;
}

int main(int argc, char **argv) {
  static session s;
  output_start();
  int status = parse(&s, argc, argv);
  if (status) return status - 1;
  status = s.read_path ? read_file(&s) : measure(&s);
  free(s.trials);
  return status;
}
