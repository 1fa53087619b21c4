/* A photograph as a convolution problem: writes a step's .npy inputs, and makes pictures of its result. scripts/image.sh runs all three.
 *
 *   image prepare PHOTO --filter FILE --size N --x x.npy --w w.npy      prints the problem
 *   image finish  PHOTO --filter FILE --size N --y y.npy --after after.ppm --side side.ppm
 *
 * PHOTO is a PGM or PPM file. The problem: N images of one channel, size x size pixels, one per colour plane (so 3, or 1 for grey), and K
 * filters. A photo larger than that is shrunk to fit, a smaller one is not enlarged: a filter works on neighbouring pixels, and enlarged
 * ones are nearly equal. Instead the square is filled with copies of it, each the mirror image of its neighbours, and the one in the upper
 * left corner is shown. Results are as large as the image; beyond its borders lie zeros, the problem's own padding.
 *
 * FILE is as common/files/filter.h says; the result of several filters is the root of the sum of their squares. Deep learning's convolution does not
 * flip the filter (mathematics calls that cross-correlation): the upper left number is multiplied with the upper left pixel of the window, so a
 * filter is written as it lies on the picture.
 *
 * Exit status: 0 all right, 2 bad input, with one line on stderr and nothing written. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files/filter.h"
#include "common/files/npy.h"
#include "common/files/output.h"
#include "common/files/pnm.h"

enum { SIZE_MAX_PIXELS = 10000 };
enum { SHOWN_SIDE = 1000, DETAIL_HEIGHT = 400, GAP = 8 }; /* of a picture to look at, in pixels */

typedef struct {
  const char *photo, *filter, *size, *x, *w, *y, *after, *side;
  output *first, *second; /* w and x, or after and side */
} arguments;

/* ---------------------------------------------------------------- the problem */

/* What both commands begin with. Returns 0 (free photo with pnm_free), or 2 with one line on stderr. */
static int load(const arguments *a, pnm_image *photo, filter_set *f, conv_problem *p) {
  char error[1024], *end;
  errno = 0;
  const long size = strtol(a->size, &end, 10);
  if (!isdigit((unsigned char)a->size[0]) || *end || errno || size < 1 || size > SIZE_MAX_PIXELS) {
    fprintf(stderr, "size: expected an integer from 1 to %d, got \"%s\"\n", SIZE_MAX_PIXELS, a->size);
    return 2;
  }
  if (filter_read(f, a->filter, error, sizeof error) || pnm_read(photo, a->photo, error, sizeof error)) {
    fprintf(stderr, "%s\n", error);
    return 2;
  }
  const int longer = photo->width > photo->height ? photo->width : photo->height;
  if (longer > size) {
    pnm_image small = {.height = (int)((photo->height * size + longer / 2) / longer), .width = (int)((photo->width * size + longer / 2) / longer)};
    if (small.height == 0) small.height = 1;
    if (small.width == 0) small.width = 1;
    const int failed = pnm_shrink(&small, photo);
    pnm_free(photo);
    if (failed) {
      fprintf(stderr, "%s: no memory to shrink it\n", a->photo);
      return 2;
    }
    *photo = small;
  }
  char text[256]; /* as many outputs as inputs: the padding follows */
  snprintf(text, sizeof text, "mb%dic1ih%ldiw%ldoc%doh%ldow%ldkh%dkw%d", photo->planes, size, size, f->count, size, size, f->rows, f->cols);
  if (problem_parse(p, text, error, sizeof error)) {
    fprintf(stderr, "%s: %s\n", text, error);
    pnm_free(photo);
    return 2;
  }
  return 0;
}

/* Both files appear, or none. Returns the exit status. */
static int close_both(const arguments *a) {
  if (output_flush(a->second)) return output_close(a->second), 2;
  return output_close(a->first) || output_close(a->second) ? 2 : 0;
}

/* The place in a photo of n pixels which pixel i of a row of copies shows: 0 1 2 2 1 0 0 1 2 ... */
static int mirrored(int i, int n) { return i % (2 * n) < n ? i % (2 * n) : 2 * n - 1 - i % (2 * n); }

/* Writes x and w, prints the problem. Returns the exit status. */
static int prepare(const arguments *a, const pnm_image *photo, const filter_set *f, const conv_problem *p) {
  conv_tensor x = tensor_describe(p, TENSOR_X, DTYPE_FP32, LAYOUT_NCHW), w = tensor_describe(p, TENSOR_W, DTYPE_FP32, LAYOUT_NCHW);
  int failed = tensor_alloc(&x) || tensor_alloc(&w);
  if (failed) {
    fprintf(stderr, "no memory for the problem\n");
  } else {
    float *to = x.data;
    for (int n = 0; n < p->N; n++)
      for (int h = 0; h < p->H; h++) {
        const float *row = photo->value + ((size_t)n * (size_t)photo->height + (size_t)mirrored(h, photo->height)) * (size_t)photo->width;
        for (int i = 0; i < p->W; i++) *to++ = row[mirrored(i, photo->width)];
      }
    memcpy(w.data, f->value, tensor_bytes(&w));
    npy_write(&w, a->first->file), npy_write(&x, a->second->file);
    failed = close_both(a);
  }
  tensor_free(&x), tensor_free(&w);
  if (failed) return 2;
  char text[256];
  problem_print(p, text, sizeof text);
  printf("%s\n", text);
  return 0;
}

/* ---------------------------------------------------------------- pictures */

/* y: [N][K][P][Q], of which `after` shows the photo's part of every plane n. */
static void develop(pnm_image *after, const conv_tensor *y, const filter_set *f) {
  const size_t image = (size_t)y->dim[2] * (size_t)y->dim[3];
  float *to = after->value;
  for (int n = 0; n < after->planes; n++)
    for (int p = 0; p < after->height; p++)
      for (int q = 0; q < after->width; q++) {
        const float *at = (const float *)y->data + (size_t)n * (size_t)f->count * image + (size_t)p * (size_t)y->dim[3] + (size_t)q;
        double value = at[0];
        if (f->count > 1) {
          double squares = 0;
          for (int k = 0; k < f->count; k++) squares += (double)at[(size_t)k * image] * (double)at[(size_t)k * image];
          value = sqrt(squares);
        }
        *to++ = (float)(value + f->offset);
      }
}

/* Copies a part of `from`, as large as height x width and beginning at (top, left), into `to` at (down, right). */
static void paste(pnm_image *to, int down, int right, const pnm_image *from, int top, int left, int height, int width) {
  for (int plane = 0; plane < from->planes; plane++)
    for (int y = 0; y < height; y++)
      memcpy(to->value + ((size_t)plane * (size_t)to->height + (size_t)(down + y)) * (size_t)to->width + right,
             from->value + ((size_t)plane * (size_t)from->height + (size_t)(top + y)) * (size_t)from->width + left, (size_t)width * sizeof(float));
}

/* Before and after, side by side on white. Where they are too large to look at, the upper part is shrunk, and below it their centres
 * follow pixel by pixel, because shrinking hides what a small filter does. Returns 0, or -1 when there is no memory. */
static int lay_out(pnm_image *sheet, const pnm_image *before, const pnm_image *after) {
  const pnm_image *const full[2] = {before, after};
  const int longer = before->width > before->height ? before->width : before->height;
  const bool shrunk = longer > SHOWN_SIDE;
  int height = before->height, width = before->width, detail = 0;
  if (shrunk) {
    height = height * SHOWN_SIDE / longer, width = width * SHOWN_SIDE / longer;
    if (height == 0) height = 1;
    if (width == 0) width = 1;
    detail = before->height < DETAIL_HEIGHT ? before->height : DETAIL_HEIGHT;
  }
  if (pnm_alloc(sheet, before->planes, height + (shrunk ? GAP + detail : 0), 2 * width + GAP)) return -1;
  const size_t count = (size_t)sheet->planes * (size_t)sheet->height * (size_t)sheet->width;
  for (size_t i = 0; i < count; i++) sheet->value[i] = 1;
  for (int i = 0; i < 2; i++) {
    const int right = i * (width + GAP);
    pnm_image shown = {.height = height, .width = width};
    if (pnm_shrink(&shown, full[i])) {
      pnm_free(sheet);
      return -1;
    }
    paste(sheet, 0, right, &shown, 0, 0, height, width);
    pnm_free(&shown);
    if (shrunk) paste(sheet, height + GAP, right, full[i], (before->height - detail) / 2, (before->width - width) / 2, detail, width);
  }
  return 0;
}

/* Reads y, writes the picture after filtering at full size, and both side by side. Returns the exit status. */
static int finish(const arguments *a, const pnm_image *photo, const filter_set *f, const conv_problem *p) {
  conv_tensor y = tensor_describe(p, TENSOR_Y, DTYPE_FP32, LAYOUT_NCHW);
  char error[1024] = "no memory for the pictures";
  pnm_image after = {0}, sheet = {0};
  int failed = tensor_alloc(&y) || pnm_alloc(&after, photo->planes, photo->height, photo->width) || npy_read(&y, a->y, error, sizeof error);
  if (!failed) {
    develop(&after, &y, f);
    for (size_t i = 0; i < (size_t)after.planes * (size_t)after.height * (size_t)after.width; i++) after.value[i] = fminf(fmaxf(after.value[i], 0), 1);
    failed = lay_out(&sheet, photo, &after);
  }
  if (failed) {
    fprintf(stderr, "%s\n", error);
  } else {
    pnm_write(&after, a->first->file), pnm_write(&sheet, a->second->file);
    failed = close_both(a);
  }
  tensor_free(&y), pnm_free(&after), pnm_free(&sheet);
  if (failed) return 2;
  printf("%d x %d pixels", photo->width, photo->height);
  if (photo->width < p->W || photo->height < p->H) printf(", with mirrored copies %d x %d", p->W, p->H);
  printf("\n");
  return 0;
}

int main(int argc, char **argv) {
  static const char usage[] = "usage: image prepare PHOTO --filter FILE --size N --x x.npy --w w.npy\n"
                              "       image finish  PHOTO --filter FILE --size N --y y.npy --after after.ppm --side side.ppm\n";
  static const struct option table[] = {{"filter", 1, 0, 0}, {"size", 1, 0, 1},  {"x", 1, 0, 2},    {"w", 1, 0, 3},
                                        {"y", 1, 0, 4},      {"after", 1, 0, 5}, {"side", 1, 0, 6}, {0}};
  output_start();
  arguments a = {0};
  const char **const value[] = {&a.filter, &a.size, &a.x, &a.w, &a.y, &a.after, &a.side};
  int option, known = 1;
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1)
    if (option == '?') known = 0;
    else *value[option] = optarg;
  const char *command = optind + 2 == argc ? argv[optind] : "";
  a.photo = argv[argc - 1];
  const bool preparing = strcmp(command, "prepare") == 0 && a.x && a.w, finishing = strcmp(command, "finish") == 0 && a.y && a.after && a.side;
  if (!known || !a.filter || !a.size || !(preparing || finishing)) {
    if (known) fputs(usage, stderr);
    return 2;
  }
  static filter_set filter;
  pnm_image photo;
  conv_problem problem;
  output_keep("--filter", a.filter), output_keep("PHOTO", a.photo);
  if (finishing) output_keep("--y", a.y);
  a.first = preparing ? output_open("--w", a.w) : output_open("--after", a.after);
  if (a.first) a.second = preparing ? output_open("--x", a.x) : output_open("--side", a.side);
  if (!a.second) return 2;
  int status = load(&a, &photo, &filter, &problem);
  if (status) return status;
  status = preparing ? prepare(&a, &photo, &filter, &problem) : finish(&a, &photo, &filter, &problem);
  pnm_free(&photo);
  return status;
}
