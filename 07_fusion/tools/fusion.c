/* Does fusion pay? For each chain that one kernel computes: what it saves and costs, counted; and the time it should take beside kernels that do an operation each.
 * On a GPU both are verified and timed in turns, beside cuDNN; elsewhere the counts are those for an H200.
 *
 *   build/emu/tools/fusion                                      the chains of 07_fusion/chains.txt
 *   build/emu/tools/fusion mb32ic64ih56oc64kh3ph1+relu mb32ic64ih56oc256kh1+relu */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "07_fusion/should_fuse.h"
#include "common/files/input.h"
#include "common/files/output.h"
#include "common/harness/gpus.h"
#include "common/harness/graph_parse.h"
#include "common/harness/graph_time.h"
#include "common/harness/report.h"

static const char help_text[] =
    "usage: fusion [options] [OPERATION...]\n" GRAPH_OPERATION_HELP "Without operations: the chains of a list, with 1, 32 and 256 images each.\n"
    "  --list FILE   the list: a chain a line, without images, or with its own (default: 07_fusion/chains.txt)\n"
    "  --images N,.. how many each has (default: 1,32,256)\n"
    "  --seconds S   of a search of cuDNN's plans for one operation (default: 10)\n"
    "  --no-cudnn    time our two ways only\n"
    "  --bare        time it in turns without epilogues, in place of a kernel for each operation\n"
    "  --no-time     count only\n"
    "  --csv FILE    a row for each chain\n"
    "Exit status: 0 all right, 1 a result was wrong or a call failed, 2 bad input.\n";

enum { MOST_TEXT = 512, WORDS = 8, MOST_IMAGES = 8 };

typedef struct session {
  machine m;
  conv_device device; /* what is counted for: this GPU, or an H200 */
  machine_peaks peaks;
  double seconds;
  bool timing, cudnn, bare, list;
  output *csv;
  char date[32];
  int images[MOST_IMAGES], image_counts; /* of a list's chains */
  int points, right;                     /* measured; should_fuse() was right, or the two within 3 % */
} session;

/* One chain, and what was found. */
typedef struct point {
  char text[WORDS * MOST_TEXT];
  const char *kernel;
  chain_facts facts;
  int registers, resident; /* of a thread; blocks on a multiprocessor; 0: not known here */
  fusion_account a;
  double us, apart_us, cudnn_us, bare_us, in_order_us; /* measured; 0: not */
  double early_share, cudnn_early_share;
} point;

static const char csv_header[] =
    "gpu,driver,cuda,date,chain,kernel,bytes_apart,bytes_fused,macs,again,registers,shared,resident,blocks,tiles,busy,us_apart_predicted,"
    "us_fused_predicted,us_apart,us_fused,us_cudnn,us_bare,us_in_order,early_share,cudnn_early_share,pays,reason,source\n";

static void write_row(const session *s, const point *at) {
  FILE *f = s->csv->file;
  char cuda[16], driver[16];
  version_text(s->m.runtime_version, cuda), version_text(s->m.driver_version, driver);
  csv_text(f, s->m.device.name);
  fprintf(f, ",%s,%s,%s,", driver, cuda, s->date);
  csv_text(f, at->text);
  fprintf(f, ",%s,%.0f,%.0f,%.0f,%.0f,%d,%d,%d,%d,%d,%.4f,%.3f,%.3f,", at->kernel, at->a.bytes_apart, at->a.bytes_fused, at->a.macs, at->a.again, at->registers,
          at->facts.shared, at->resident, at->facts.blocks, at->facts.tiles, at->a.busy, at->a.us_apart, at->a.us_fused);
  fprintf(f, "%.3f,%.3f,%.3f,%.3f,%.3f,%.2f,%.2f,%s,", at->apart_us, at->us, at->cudnn_us, at->bare_us, at->in_order_us, at->early_share, at->cudnn_early_share,
          at->a.pays ? "yes" : "no");
  csv_text(f, at->a.reason);
  fprintf(f, ",%s\n", registered_source(at->kernel));
  output_flush(s->csv);
}

static void print_point(const point *at) {
  const fusion_account *a = &at->a;
  printf("%s, by %s\n", at->text, at->kernel);
  printf("  memory             %.4g MB in place of %.4g\n", a->bytes_fused / 1e6, a->bytes_apart / 1e6);
  printf("  multiply-adds      %.4g million, %.1f %% of them twice\n", a->macs / 1e6, a->macs > 0 ? 100 * a->again / a->macs : 0);
  if (at->facts.tiles > 0)
    printf("  tiles              %d by %d blocks, each with %.0f KB of shared memory; multiprocessors busy for %.0f %% of the time\n", at->facts.tiles,
           at->facts.blocks, at->facts.shared / 1024.0, 100 * a->busy);
  if (at->registers > 0)
    printf("  occupancy          %d registers a thread, %d block%s a multiprocessor\n", at->registers, at->resident, at->resident == 1 ? "" : "s");
  printf("  predicted          %.1f us in place of %.1f, %.2f times as fast\n", a->us_fused, a->us_apart, a->us_apart / a->us_fused);
  if (at->apart_us > 0) printf("  measured           %.1f us in place of %.1f, %.2f times as fast\n", at->us, at->apart_us, at->apart_us / at->us);
  if (at->bare_us > 0) printf("  measured           %.1f us, %.1f without an epilogue\n", at->us, at->bare_us);
  if (at->in_order_us > 0) printf("  launches in order  %.1f us\n", at->in_order_us);
  if (at->us > 0 && at->cudnn_us > 0) printf("  cuDNN              %.1f us\n", at->cudnn_us);
  printf("  should_fuse        %s\n", a->reason);
}

static void print_line(const point *at) {
  const fusion_account *a = &at->a;
  char measured[64] = "";
  const double beside = at->bare_us > 0 ? at->bare_us : at->apart_us;
  if (at->us > 0) snprintf(measured, sizeof measured, "%7.1f %7.1f %5.2f", beside, at->us, beside / at->us);
  printf("%-6s %8.4g %5.1f %5.0f  %7.1f %7.1f %5.2f  %-21s  %-4s %s\n", at->kernel, (a->bytes_apart - a->bytes_fused) / 1e6,
         a->macs > 0 ? 100 * a->again / a->macs : 0, 100 * a->busy, a->us_apart, a->us_fused, a->us_apart / a->us_fused, measured, a->pays ? "yes" : "no",
         at->text);
}

static int steps_known(void) {
  int count = 0;
  while (all_steps[count]) count++;
  return count;
}

/* Counts: for the device that is counted for, which need not be the one that kernels run on. Returns 0, or 2 after a line. */
static int count(const session *s, const conv_graph *asked, point *at) {
  static conv_graph g;
  static graph_plan plan;
  char why[GRAPH_ERROR];
  g = *asked;
  if (graph_choose(&g, all_steps, steps_known(), &(graph_chains){0}, &s->device, &plan, why)) return fprintf(stderr, "%s: %s\n", at->text, why), 2;
  const chain_kernel *chain = plan.chain[0];
  if (asked->operations > 1 && (!chain || chain->count != asked->operations))
    return fprintf(stderr, "%s: expected a chain that one kernel computes\n", at->text), 2;
  if (g.operations > asked->operations) return fprintf(stderr, "%s: expected an epilogue that a kernel computes\n", at->text), 2;
  const conv_chain alone = {.count = 1, .operation = {asked->operation[0].what}};
  at->kernel = chain ? chain->name : plan.kernel[0]->name;
  if (chain) chain->facts(&plan.what[0], &plan.plan[0], &at->facts);
  should_fuse(chain ? &plan.what[0] : &alone, &at->facts, &s->device, &s->peaks, &at->a);
  struct cudaFuncAttributes about;
  if (!chain || s->m.device.emulated) return 0; /* the emulator has no registers */
  cudaError_t status = cudaFuncGetAttributes(&about, at->facts.function);
  if (!status) status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at->resident, at->facts.function, at->facts.threads, (size_t)at->facts.shared);
  if (status) return fprintf(stderr, "%s: %s\n", at->kernel, cudaGetErrorString(status)), 1;
  at->registers = about.numRegs;
  return 0;
}

/* The same operations without their epilogues; what these read stays, unread. */
static void without_epilogues(conv_graph *g) {
  for (int i = 0; i < g->operations; i++) {
    graph_operation *o = &g->operation[i];
    o->what.epilogue = (conv_epilogue){0};
    o->scale = o->bias = o->residual = -1;
  }
}

/* Verifies a graph on random data. Returns 0 or 1. */
static int verify(conv_graph *g, const graph_plan *plan, bool on_device, graph_verdict *v) {
  graph_fill(g, 1, false);
  const cudaError_t status = graph_verify(g, plan, false, on_device, stdout, v);
  if (status) return fprintf(stderr, "fusion: %s\n", cudaGetErrorString(status)), 1;
  return v->right ? 0 : (printf("WRONG: %s\n", v->note), 1);
}

/* Both ways, verified and timed. Returns 0, 1 or 2. */
static int measure(session *s, const conv_graph *asked, point *at) {
  static conv_graph g, apart;
  static graph_plan plan, apart_plan;
  static graph_verdict v;
  static graph_figures f;
  char why[GRAPH_ERROR];
  const bool use_gpu = !s->m.device.emulated;
  const conv_device *device = &s->m.device;
  g = *asked;
  apart = *asked;
  if (s->bare) without_epilogues(&apart);
  else if (asked->operations == 1 && !epilogue_empty(&asked->operation[0].what.epilogue) && graph_split(&apart, 0))
    return fprintf(stderr, "%s: no room\n", at->text), 2;
  if (graph_choose(&g, all_steps, steps_known(), &(graph_chains){0}, device, &plan, why)) return fprintf(stderr, "%s: %s\n", at->text, why), 2;
  if (graph_choose(&apart, all_steps, steps_known(), NULL, device, &apart_plan, why)) return fprintf(stderr, "%s: %s\n", at->text, why), 2;
  int status = graph_alloc(&g, why) || graph_alloc(&apart, why) ? (fprintf(stderr, "%s: %s\n", at->text, why), 2) : 0;
  if (!status) status = verify(&g, &plan, use_gpu, &v);
  if (!status) status = verify(&apart, &apart_plan, use_gpu, &v);
  if (!status && use_gpu) {
    const graph_timing how = {.apart = &(graph_apart){&apart, &apart_plan}, .cudnn = s->cudnn, .in_order = true, .seconds = s->seconds};
    const cudaError_t failure = graph_time(&g, &plan, asked, &how, &s->m, &f);
    if (failure) status = (fprintf(stderr, "%s: %s\n", at->text, cudaGetErrorString(failure)), 1);
    if (*f.note) printf("%s: %s\n", at->text, f.note);
    if (f.differs) status = 1;
    at->us = f.us, at->cudnn_us = f.cudnn_us, at->in_order_us = f.in_order_us, at->early_share = f.early_share, at->cudnn_early_share = f.cudnn_early_share;
    *(s->bare ? &at->bare_us : &at->apart_us) = f.apart_us;
  }
  graph_free(&g), graph_free(&apart);
  return status;
}

/* One chain: the words of its operations. where: what a line about them begins with. Returns 0, 1 or 2. */
static int examine(session *s, const char *where, int words, char *const word[]) {
  static conv_graph asked;
  int y[GRAPH_OPERATIONS + 1];
  point at = {0};
  asked = (conv_graph){.dtype = DTYPE_FP16, .layout = LAYOUT_NHWC};
  for (int i = 0; i < words; i++) {
    char why[GRAPH_ERROR];
    if (graph_parse(&asked, word[i], y, why)) return fprintf(stderr, "%s%s\n", where, why), 2;
    snprintf(at.text + strlen(at.text), sizeof at.text - strlen(at.text), "%s%s", i ? " " : "", word[i]);
  }
  int status = count(s, &asked, &at);
  if (!status && s->timing) status = measure(s, &asked, &at);
  if (status) return status;
  if (s->list) print_line(&at);
  else print_point(&at);
  fflush(stdout); /* the next takes long */
  if (s->csv) write_row(s, &at);
  if (at.apart_us > 0) {
    const double gain = at.apart_us / at.us;
    s->points++, s->right += (gain > 1) == at.a.pays || (gain > 1 / 1.03 && gain < 1.03);
  }
  return 0;
}

/* "pool:g64ic64..." with so many images. Returns 0, or 2 after a line. */
static int with_images(const char *where, const char *word, int images, char text[MOST_TEXT]) {
  const char *from = strncmp(word, "pool:", 5) == 0 ? word + 5 : word;
  if (snprintf(text, MOST_TEXT, "%.*smb%d%s", (int)(from - word), word, images, from) < MOST_TEXT) return 0;
  return fprintf(stderr, "%sexpected an operation of less than %d characters, got \"%.60s...\"\n", where, MOST_TEXT, word), 2;
}

/* Does an operation say itself how many images it has? */
static bool says_images(const char *word) {
  if (strncmp(word, "pool:", 5) == 0) word += 5;
  if (*word == 'g') word += 1 + strspn(word + 1, "0123456789");
  return strncmp(word, "mb", 2) == 0;
}

/* "1,32,256". Returns 0, or 2 after a line. */
static int parse_images(const char *text, session *s) {
  const char *at = text;
  char *end;
  for (s->image_counts = 0; s->image_counts < MOST_IMAGES; at = end + 1) {
    const long images = strtol(at, &end, 10);
    if (end == at || images < 1 || images > INT_MAX || (*end && *end != ',')) break;
    s->images[s->image_counts++] = (int)images;
    if (!*end) return 0;
  }
  return fprintf(stderr, "--images: expected at most %d numbers from 1 on, between commas, got \"%s\"\n", MOST_IMAGES, text), 2;
}

/* All chains of a list, with each number of images. Returns 0, 1 or 2. */
static int examine_list(session *s, const char *path) {
  static char line[2 * WORDS * MOST_TEXT];
  char where[PATH_MAX + 32];
  const char *why;
  FILE *in = input_open(path, true, &why);
  if (!in) return fprintf(stderr, "--list: %s: expected a list of chains: %s\n", path, why), 2;
  int number = 0, status = 0, chains = 0;
  s->list = true;
  puts("kernel MB saved twice% busy%  predicted: us, us, gain  measured: us, us, gain  pays chain");
  while (!status && fgets(line, sizeof line, in)) {
    char *word[WORDS];
    static char text[WORDS][MOST_TEXT];
    int words = 0;
    snprintf(where, sizeof where, "%s:%d: ", path, ++number);
    if (strlen(line) == sizeof line - 1) status = (fprintf(stderr, "%sexpected a line of less than %d characters\n", where, (int)sizeof line - 1), 2);
    line[strcspn(line, "#\n")] = 0;
    for (char *w = strtok(line, " \t\r"); w && !status; w = strtok(NULL, " \t\r"))
      if (words < WORDS) word[words++] = w;
      else status = (fprintf(stderr, "%sexpected at most %d operations, got \"%.60s\" after them\n", where, WORDS, w), 2);
    chains += words > 0;
    const bool own = words > 0 && says_images(word[0]);
    if (own && !status) status = examine(s, where, words, word);
    for (int i = 0; words > 0 && !own && i < s->image_counts && !status; i++) {
      char *each[WORDS];
      for (int k = 0; k < words && !status; k++) status = with_images(where, word[k], s->images[i], each[k] = text[k]);
      if (!status) status = examine(s, where, words, each);
    }
  }
  fclose(in);
  if (!status && !chains) status = (fprintf(stderr, "--list: %s: expected a chain in some line, found none\n", path), 2);
  return status;
}

int main(int argc, char **argv) {
  enum { LIST = 256, IMAGES, SECONDS, NO_CUDNN, BARE, NO_TIME, CSV, HELP };
  static const struct option table[] = {
      {"list", required_argument, 0, LIST},   {"images", required_argument, 0, IMAGES}, {"seconds", required_argument, 0, SECONDS},
      {"no-cudnn", no_argument, 0, NO_CUDNN}, {"bare", no_argument, 0, BARE},           {"no-time", no_argument, 0, NO_TIME},
      {"csv", required_argument, 0, CSV},     {"help", no_argument, 0, HELP},           {0}};
  static session s;
  const char *list = NULL, *csv = NULL;
  char error[512], *end;
  int option;
  bool images = false;
  output_start();
  s.timing = s.cudnn = true;
  parse_images("1,32,256", &s);
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    if (option == HELP) return fputs(help_text, stdout), 0;
    if (option == LIST) list = optarg;
    if (option == IMAGES && (images = true, parse_images(optarg, &s))) return 2;
    if (option == CSV) csv = optarg;
    if (option == NO_CUDNN) s.cudnn = false;
    if (option == BARE) s.bare = true;
    if (option == NO_TIME) s.timing = false;
    if (option == SECONDS && (s.seconds = strtod(optarg, &end), end == optarg || *end || !(s.seconds > 0 && s.seconds <= 1000)))
      return fprintf(stderr, "--seconds: expected a number above 0 and up to 1000, got \"%s\"\n", optarg), 2;
    if (option == '?') return 2;
  }
  if (list && optind < argc) return fprintf(stderr, "--list: expected no operations beside it, got \"%s\"\n", argv[optind]), 2;
  if (images && optind < argc) return fprintf(stderr, "--images: expected no operations beside it, got \"%s\"\n", argv[optind]), 2;
  if (argc - optind > WORDS) return fprintf(stderr, "fusion: expected at most %d operations, got %d\n", WORDS, argc - optind), 2;
  if (machine_open_gpu(&s.m, error, sizeof error)) return fprintf(stderr, "%s\n", error), 2;
  s.device = s.m.device, s.peaks = s.m.peaks;
  if (s.m.device.emulated) { /* an H200 has what plans ask for: its multiprocessors, shared memory for a block, cache */
    const gpu_limits *gpu = gpu_limits_of(FITTED_GPU);
    s.device.arch = 90, s.device.sm_count = 132, s.device.l2_bytes = (size_t)60 << 20;
    s.peaks = (machine_peaks){
        .fp32_flops = gpu->fp32_flops, .fp16_flops = gpu->fp16_flops, .read_per_second = gpu->read_per_second, .copy_per_second = gpu->copy_per_second};
    if (optind == argc) s.timing = false; /* a list is too much to be verified here */
  }
  if (csv && !(s.csv = output_open("--csv", csv))) return 2;
  if (s.csv) fputs(csv_header, s.csv->file);
  const time_t now = time(NULL);
  strftime(s.date, sizeof s.date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  int status = optind < argc ? examine(&s, "", argc - optind, argv + optind) : examine_list(&s, list ? list : "07_fusion/chains.txt");
  if (s.points > 1) printf("should_fuse() right on %d of %d, those within 3 %% of each other counted in\n", s.right, s.points);
  if (status == 2) output_discard(s.csv);
  else if (output_close(s.csv)) status = 1;
  return status;
}
