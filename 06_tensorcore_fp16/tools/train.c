/* Training: a network of three convolutions, one with a stride and one transposed, learns to read digits. All its convolutions, forward and backward, are step
 * 06's kernels, each chosen by the step's rule; activations and filters are fp16, as mixed-precision training has them (P. Micikevicius et al., 2018):
 *
 *   parameters in fp32, rounded to fp16 for the kernels       an update may be smaller than a filter's rounding
 *   the loss times a scale, so gradients are                  small ones would be 0 in fp16; a scale that is too large makes infinities:
 *                                                             that step is left out, and the scale halved
 *
 *   make train                                    on a GPU the full setting, on the emulator the small one
 *   build/emu/tools/train --steps 0               check every gradient, learn nothing */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "06_tensorcore_fp16/tools/train/train.h"
#include "common/files/arguments.h"
#include "common/files/output.h"

/* What a size means. */
typedef struct setting {
  const char *name;
  int channels, images, steps;
  int vary;     /* how different the pictures of a digit are: digits_draw() */
  int held_out; /* batches that are never learned from */
  int every;    /* steps from one line to the next */
  float rate;   /* goes down to 0, evenly; at 0.2 the small network is barely stable, and the order of a sum decides where 100 steps lead */
} setting;
static const setting settings[] = {
    {"small", 16, 32, 100, 1, 8, 20, 0.1f},
    {"full", 64, 128, 600, 4, 16, 50, 0.2f},
};
enum { SETTINGS = sizeof settings / sizeof *settings };
static const float momentum = 0.9f, usual_scale = 1024;

static const char help_text[] = "usage: train [options]\n"
                                "  --size small|full  of the network, and how different its pictures are (default: small on the emulator, full on a GPU)\n"
                                "  --steps N          how many; 0: check the gradients, and no more\n"
                                "  --batch N          images of a step\n"
                                "  --seed N           of filters and pictures (default: 1)\n"
                                "  --scale N          the loss scale in the beginning (default: 1024)\n"
                                "  --csv FILE         a row for every step\n"
                                "Exit status: 0 all right, 1 a gradient was wrong or a call failed, 2 bad input.\n";

typedef struct session {
  const setting *size;
  long long steps, images, seed, scale; /* -1: as the setting says */
  const char *csv_path, *machine;
  output *csv;
  network net;
} session;

/* The option's integer. Returns 0 or 2. */
static int read_integer(const char *option, const char *text, long long least, long long most, long long *value) {
  char *end, expected[96];
  errno = 0;
  *value = strtoll(text, &end, 10);
  if (end != text && !*end && !errno && *value >= least && *value <= most) return 0;
  snprintf(expected, sizeof expected, "an integer from %lld to %lld", least, most);
  return argument_bad(option, expected, text);
}

static int read_size(const char *name, const setting **size) {
  for (int i = 0; i < SETTINGS; i++)
    if (strcmp(settings[i].name, name) == 0) return *size = &settings[i], 0;
  return argument_bad("--size", "small or full", name);
}

/* Returns 0; 2: bad input; -1: --help was all. */
static int read_options(session *s, int argc, char **argv) {
  enum { SIZE = 256, STEPS, BATCH, SEED, SCALE, CSV, HELP };
  static const struct option table[] = {{"size", required_argument, 0, SIZE},   {"steps", required_argument, 0, STEPS},
                                        {"batch", required_argument, 0, BATCH}, {"seed", required_argument, 0, SEED},
                                        {"scale", required_argument, 0, SCALE}, {"csv", required_argument, 0, CSV},
                                        {"help", no_argument, 0, HELP},         {0}};
  int option, status = 0;
  while (!status && (option = getopt_long(argc, argv, "", table, NULL)) != -1) switch (option) {
      case SIZE: status = read_size(optarg, &s->size); break;
      case STEPS: status = read_integer("--steps", optarg, 0, 1000000, &s->steps); break;
      case BATCH: status = read_integer("--batch", optarg, 1, 4096, &s->images); break;
      case SEED: status = read_integer("--seed", optarg, 0, INT_MAX, &s->seed); break;
      case SCALE: status = read_integer("--scale", optarg, 1, 1ll << 40, &s->scale); break;
      case CSV: s->csv_path = optarg; break;
      case HELP: return fputs(help_text, stdout), -1;
      default: return 2;
    }
  if (!status && optind < argc) return argument_bad("train", "options only (see --help)", argv[optind]);
  return status;
}

/* ---------------------------------------------------------------- */

/* Pictures that are learned from and those that are not: other seeds. */
static uint64_t pictures_seed(const session *s, bool held_out) { return 1000 + 4 * (uint64_t)s->seed + (held_out ? 2 : 0); }

static void draw(session *s, bool held_out, long long batch) {
  digits_draw(&s->net.layers[0].in, s->net.labels, s->size->vary, pictures_seed(s, held_out), (uint64_t)batch * (uint64_t)s->net.images);
}

/* The share of held-out pictures that are read right. */
static double held_out_accuracy(session *s) {
  long long right = 0;
  for (int i = 0; i < s->size->held_out; i++) {
    draw(s, true, i);
    network_forward(&s->net);
    right += s->net.right;
  }
  return (double)right / ((double)s->size->held_out * s->net.images);
}

/* Every gradient beside the loss, and every result of every layer beside fp64. */
static bool check_gradients(session *s, bool on_gpu) {
  draw(s, false, 0);
  network_forward(&s->net);
  network_backward(&s->net, usual_scale);
  bool right = slopes_check(&s->net, (uint64_t)s->seed + 100, on_gpu);
  for (int i = 0; i < LAYERS; i++)
    for (layer_job job = 0; job < JOBS; job++) right &= layer_check(&s->net.layers[i], job, on_gpu);
  return right;
}

static void learn(session *s, float scale) {
  double sum = 0;
  int since = 0, left_out = 0;
  for (long long step = 1; step <= s->steps; step++) {
    draw(s, false, step);
    const double loss = network_forward(&s->net);
    const float rate = s->size->rate * (float)(1 - (double)(step - 1) / (double)s->steps);
    if (network_backward(&s->net, scale)) network_update(&s->net, rate, momentum);
    else scale /= 2, left_out++;
    sum += loss, since++;
    const bool shown = step % s->size->every == 0 || step == s->steps;
    if (s->csv) fprintf(s->csv->file, "\"%s\",%s,%lld,%.6f,", s->machine, s->size->name, step, loss);
    if (shown) {
      const double accuracy = held_out_accuracy(s);
      printf("step %4lld  loss %.3f  held-out digits read right: %5.1f %%\n", step, sum / since, 100 * accuracy);
      if (s->csv) fprintf(s->csv->file, "%.4f", accuracy);
      sum = since = 0;
      fflush(stdout);
    }
    if (s->csv) fputc('\n', s->csv->file);
  }
  if (left_out) printf("%d steps left out: gradients beyond fp16; the loss scale is %g now\n", left_out, (double)scale);
}

int main(int argc, char **argv) {
  static session s = {.steps = -1, .images = -1, .seed = 1, .scale = (long long)usual_scale};
  machine m;
  char error[512];
  output_start();
  const int status = read_options(&s, argc, argv);
  if (status) return status < 0 ? 0 : status;
  if (machine_open_gpu(&m, error, sizeof error)) return fprintf(stderr, "%s\n", error), 2;
  s.machine = m.device.name;
  if (!s.size) s.size = &settings[m.device.emulated ? 0 : 1];
  if (s.steps < 0) s.steps = s.size->steps;
  if (s.images < 0) s.images = s.size->images;
  if (s.csv_path && !(s.csv = output_open("--csv", s.csv_path))) return 2;
  if (s.csv) fputs("gpu,network,step,loss,held_out\n", s.csv->file);
  network_open(&s.net, (int)s.images, s.size->channels, (uint64_t)s.seed, &m.device);
  printf("%s: %d channels, %lld pictures a step, %lld steps\n", s.size->name, s.size->channels, s.images, s.steps);
  const bool right = check_gradients(&s, !m.device.emulated);
  if (right) learn(&s, (float)s.scale);
  network_close(&s.net);
  if (!right || s.steps == 0) return output_discard(s.csv), !right; /* no row: the old file stays */
  return output_close(s.csv) ? 1 : 0;
}
