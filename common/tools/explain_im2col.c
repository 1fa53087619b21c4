/* Draws what a box of an im2col tensor map brings: one tap of a convolution's windows, as make explain-im2col shows it.
 *
 * The copy engine's own walk (common/emu/run/box.c) says what is data and what is filled with zeros. */
#include <cuda.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/problem.h"
#include "common/emu/run/tensor_map.h"
#include "common/files/output.h"

static const char help_text[] = "Which pixels a box of an im2col tensor map brings into shared memory.\n"
                                "\n"
                                "  make explain-im2col ARGS='--shape mb2ic64ih6oc64oh6kh3ph1 --tap 0,2 --first 32 --pixels 8'\n"
                                "\n"
                                "  --shape STRING  the convolution, as a benchdnn string\n"
                                "  --tap R,S       the filter's row and column (default: 0,0)\n"
                                "  --first N       the first window: windows count along a row, then down, then to the next image\n"
                                "                  (default: 0)\n"
                                "  --pixels N      windows in the box, 1 to 1024 (default: 16)\n"
                                "\n"
                                "A window's base is its upper left corner. Of every window the box brings one pixel, all channels\n"
                                "of a chunk: the one that the tap meets. So nine boxes make a 3 x 3 filter's matrix, one tap each.\n";

enum { COLUMNS = 100, LABEL = 9, MAX_PIXELS = 1024, CHUNK = 64, HALF = 2 };

typedef struct question {
  conv_problem p;
  int r, s, first, pixels;
} question;

static int bad(const char *what, const char *expected, const char *got) {
  fprintf(stderr, "%s: expected %s, got \"%s\"\n", what, expected, got);
  return 2;
}

/* A whole number from 0 to `most`, up to `end`. */
static bool number(const char *text, char end, long most, int *to, const char **rest) {
  char *after;
  const long n = strtol(text, &after, 10);
  if (after == text || *text < '0' || *text > '9' || *after != end || n > most) return false;
  *to = (int)n;
  *rest = after + (end != 0);
  return true;
}

/* ---------------------------------------------------------------- the map and its walk */

/* As the two functions take it. */
typedef struct map_arguments {
  cuuint64_t dim[4], stride[3];
  int lower[2], upper[2];
  cuuint32_t channels, step[4];
  int32_t at[4];
  uint16_t offset[2];
} map_arguments;

static map_arguments arguments_of(const question *q) {
  const conv_problem *p = &q->p;
  const cuuint64_t C = (cuuint64_t)p->C, W = (cuuint64_t)p->W, H = (cuuint64_t)p->H;
  const int window = q->first % (p->P * p->Q);
  return (map_arguments){
      .dim = {C, W, H, (cuuint64_t)p->N},
      .stride = {C * HALF, W * C * HALF, H * W * C * HALF},
      .lower = {-p->pad_left, -p->pad_top},
      .upper = {p->pad_right - (p->S - 1) * p->dil_w, p->pad_bottom - (p->R - 1) * p->dil_h},
      .channels = (cuuint32_t)(p->C < CHUNK ? p->C : CHUNK),
      .step = {1, (cuuint32_t)p->stride_w, (cuuint32_t)p->stride_h, 1},
      .at = {0, window % p->Q * p->stride_w - p->pad_left, window / p->Q * p->stride_h - p->pad_top, q->first / (p->P * p->Q)},
      .offset = {(uint16_t)(q->s * p->dil_w), (uint16_t)(q->r * p->dil_h)},
  };
}

/* Box pixels that come from the tensor; the others are zeros. */
typedef struct brought {
  bool data[MAX_PIXELS];
  uint32_t pixel_bytes;
} brought;

static void note(void *context, uint32_t shared, unsigned char *global, unsigned bytes) {
  brought *b = context;
  (void)bytes;
  if (global != NULL) b->data[shared / b->pixel_bytes] = true;
}

/* Encodes and walks. Returns 0, or 2 with a line on stderr. */
static int walk(const question *q, const map_arguments *a, brought *b) {
  CUtensorMap map;
  emu_tensor_map m;
  static unsigned char nowhere[1] __attribute__((aligned(16))); /* nobody reads there */
  if (cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, nowhere, a->dim, a->stride, a->lower, a->upper, a->channels, (cuuint32_t)q->pixels,
                              a->step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    return 2;
  const char *why = emu_tensor_map_read(&map, &m);
  if (why == NULL) why = emu_box_offsets_refused(&m, a->offset);
  if (why != NULL) return fprintf(stderr, "--tap: %s\n", why), 2;
  *b = (brought){.pixel_bytes = a->channels * HALF};
  emu_box_walk(&m, a->at, a->offset, false, 0, note, b);
  return 0;
}

/* ---------------------------------------------------------------- the drawing */

/* Where the tap of window `w` lies: row and column of the image, which may be outside of it. */
static void place(const question *q, int w, int *n, int *row, int *column) {
  const conv_problem *p = &q->p;
  *n = w / (p->P * p->Q);
  *row = w / p->Q % p->P * p->stride_h - p->pad_top + q->r * p->dil_h;
  *column = w % p->Q * p->stride_w - p->pad_left + q->s * p->dil_w;
}

/* Which pixel of the box lies there; -1: none. No two windows' taps meet in one place. */
static int box_pixel_at(const question *q, int n, int row, int column) {
  for (int i = 0; i < q->pixels; i++) {
    int image, y, x;
    place(q, q->first + i, &image, &y, &x);
    if (image == n && y == row && x == column) return i;
  }
  return -1;
}

static int digits(int n) { return n < 10 ? 1 : n < 100 ? 2 : n < 1000 ? 3 : 4; }

/* Columns that a cell needs to hold a pixel's number; 1 if the image is too wide for numbers. */
static int cell_width(const question *q) {
  const int width = digits(q->pixels - 1) + 3, columns = q->p.W + q->p.pad_left + q->p.pad_right;
  return LABEL + width * columns <= COLUMNS ? width : 1;
}

/* Adds a cell to the line: a number's last digit stands in the last column but one. */
static char *put_cell(char *line, const question *q, const brought *b, int n, int row, int column, int width) {
  const bool inside = row >= 0 && row < q->p.H && column >= 0 && column < q->p.W;
  const int i = box_pixel_at(q, n, row, column);
  char cell[16];
  if (i < 0) snprintf(cell, sizeof cell, width == 1 ? "%c" : "%c ", inside ? '.' : ' ');
  else if (width == 1) snprintf(cell, sizeof cell, "%c", b->data[i] ? '#' : 'o');
  else snprintf(cell, sizeof cell, b->data[i] ? "%d " : "(%d)", i);
  return line + sprintf(line, "%*s", width, cell);
}

static void print_line(char *line, char *end) {
  while (end > line && end[-1] == ' ') end--;
  *end = 0;
  puts(line);
}

/* The rows that the box touches, and one more on either side. */
static void print_image(const question *q, const brought *b, int n, int width) {
  const conv_problem *p = &q->p;
  const int left = -p->pad_left, right = p->W + p->pad_right, first_row = -p->pad_top, last_row = p->H + p->pad_bottom - 1;
  int top = last_row, bottom = first_row;
  for (int i = 0; i < q->pixels; i++) {
    int image, row, column;
    place(q, q->first + i, &image, &row, &column);
    if (image == n && row - 1 < top) top = row - 1 < first_row ? first_row : row - 1;
    if (image == n && row + 1 > bottom) bottom = row + 1 > last_row ? last_row : row + 1;
  }
  char line[2 * COLUMNS], *end = line + sprintf(line, "%*s", LABEL, "");
  printf("\nimage %d, rows %d to %d, columns %d to %d\n", n, top, bottom, left, right - 1);
  for (int x = left; x < right && width > 1; x++) end += sprintf(end, "%*d ", width - 1, x);
  if (width > 1) print_line(line, end);
  for (int y = top; y <= bottom; y++) {
    end = line + sprintf(line, "row %3d  ", y);
    for (int x = left; x < right; x++) end = put_cell(end, q, b, n, y, x, width);
    print_line(line, end);
  }
}

static void print_arguments(const question *q, const map_arguments *a) {
  const conv_problem *p = &q->p;
  const unsigned long long *d = (const unsigned long long *)a->dim, *s = (const unsigned long long *)a->stride;
  printf("\nThe map, for fp16 in NHWC; arrays are from the innermost dimension on:\n");
  printf("  globalDim            {%llu, %llu, %llu, %llu}: C, W, H, N\n", d[0], d[1], d[2], d[3]);
  printf("  globalStrides        {%llu, %llu, %llu}: bytes to the next pixel, row, image\n", s[0], s[1], s[2]);
  printf("  pixelBoxLowerCorner  {%d, %d}: where the first base lies: -padding, W first, then H\n", a->lower[0], a->lower[1]);
  printf("  pixelBoxUpperCorner  {%d, %d}: the last base, counted from the last pixel:\n", a->upper[0], a->upper[1]);
  printf("                       padding after - (filter - 1) * dilation: %d - %d * %d, %d - %d * %d\n", p->pad_right, p->S - 1, p->dil_w, p->pad_bottom,
         p->R - 1, p->dil_h);
  printf("  channelsPerPixel     %u\n", a->channels);
  printf("  pixelsPerColumn      %d: so a box has %d x %u bytes = %u\n", q->pixels, q->pixels, a->channels * HALF, (unsigned)q->pixels * a->channels * HALF);
  printf("  elementStrides       {1, %u, %u, 1}: the convolution's strides\n", a->step[1], a->step[2]);
  printf("The instruction, for this box:\n");
  printf("  coordinates          {0, %d, %d, %d}: channel; W and H of the first window's base; image\n", a->at[1], a->at[2], a->at[3]);
  printf("  offsets              {%d, %d}: the tap: s * dilation, r * dilation\n", a->offset[0], a->offset[1]);
}

static void explain(const question *q, const map_arguments *a, const brought *b) {
  const conv_problem *p = &q->p;
  const int each = p->P * p->Q, last = q->first + q->pixels - 1, window = q->first % each, width = cell_width(q);
  int zeros = 0, past = last - p->N * each + 1;
  for (int i = 0; i < q->pixels; i++) zeros += !b->data[i];
  if (past < 0) past = 0;
  printf("%d x %d pixels, %d channels; filter %d x %d, stride %d x %d, dilation %d x %d;\n", p->H, p->W, p->C, p->R, p->S, p->stride_h, p->stride_w, p->dil_h,
         p->dil_w);
  printf("padding %d above, %d below, %d left, %d right: %d x %d windows an image.\n", p->pad_top, p->pad_bottom, p->pad_left, p->pad_right, p->P, p->Q);
  printf("\nThe box: tap (%d, %d) of %d windows, from window %d on (image %d, row %d, column %d).\n", q->r, q->s, q->pixels, q->first, q->first / each,
         window / p->Q, window % p->Q);
  if (width > 1) printf("A number: this pixel is that one of the box. (number): not in the image, filled with zeros.\n");
  else printf("# a pixel of the box, o one that is not in the image: filled with zeros\n");
  for (int n = q->first / each; n <= last / each && n < p->N; n++) print_image(q, b, n, width);
  printf("\n%d of %d pixels are zeros: %d in the padding", zeros, q->pixels, zeros - past);
  if (past > 0) printf(", the last %d of windows past the last image", past);
  printf(".\n");
  print_arguments(q, a);
}

int main(int argc, char **argv) {
  enum { SHAPE = 256, TAP, FIRST, PIXELS, HELP };
  static const struct option table[] = {{"shape", required_argument, 0, SHAPE},   {"tap", required_argument, 0, TAP}, {"first", required_argument, 0, FIRST},
                                        {"pixels", required_argument, 0, PIXELS}, {"help", no_argument, 0, HELP},     {0}};
  const char *shape = NULL, *tap = "0,0", *first = "0", *pixels = "16", *rest;
  int option;
  output_start();
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    if (option == '?') return 2;
    if (option == HELP) return fputs(help_text, stdout), 0;
    *(option == SHAPE ? &shape : option == TAP ? &tap : option == FIRST ? &first : &pixels) = optarg;
  }
  if (argc == 1) return fputs(help_text, stdout), 0;
  if (optind < argc) return bad("explain_im2col", "options only (see --help)", argv[optind]);
  if (shape == NULL) return bad("--shape", "a convolution", "");
  question q;
  char error[512], expected[96];
  if (problem_parse(&q.p, shape, error, sizeof error)) return fprintf(stderr, "--shape: %s\n", error), 2;
  const long windows = (long)q.p.N * q.p.P * q.p.Q;
  if (q.p.C % 8 != 0) return bad("--shape", "a multiple of 8 channels (16 bytes of fp16)", shape);
  if (LABEL + q.p.W + q.p.pad_left + q.p.pad_right > COLUMNS) return bad("--shape", "an image of at most 91 columns with its padding, to draw it", shape);
  if (windows > 1 << 30) return bad("--shape", "at most 2^30 windows", shape);
  snprintf(expected, sizeof expected, "R,S from 0,0 to %d,%d", q.p.R - 1, q.p.S - 1);
  if (!number(tap, ',', q.p.R - 1, &q.r, &rest) || !number(rest, 0, q.p.S - 1, &q.s, &rest)) return bad("--tap", expected, tap);
  snprintf(expected, sizeof expected, "a window from 0 to %ld", windows - 1);
  if (!number(first, 0, windows - 1, &q.first, &rest)) return bad("--first", expected, first);
  if (!number(pixels, 0, MAX_PIXELS, &q.pixels, &rest) || q.pixels == 0) return bad("--pixels", "1 to 1024", pixels);
  const map_arguments a = arguments_of(&q);
  static brought b;
  if (walk(&q, &a, &b)) return 2;
  explain(&q, &a, &b);
  return 0;
}
