/* PGM and PPM files, and shrinking. See pnm.h. */
#include "common/files/pnm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/files/input.h"

enum { SIDE_MAX = 65536, MAXVAL_MAX = 65535 };

int pnm_alloc(pnm_image *image, int planes, int height, int width) {
  *image = (pnm_image){planes, height, width, malloc((size_t)planes * (size_t)height * (size_t)width * sizeof(float))};
  return image->value ? 0 : -1;
}

void pnm_free(pnm_image *image) {
  free(image->value);
  image->value = NULL;
}

__attribute__((format(printf, 3, 4))) static int fail(char *error, size_t size, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error, size, format, arguments);
  va_end(arguments);
  return -1;
}

/* ---------------------------------------------------------------- reading */

/* The next character; a comment is the end of its line. */
static int next_character(FILE *file) {
  int c = getc(file);
  if (c == '#')
    while (c != '\n' && c != EOF) c = getc(file);
  return c;
}

static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next number of a header or a plain raster; white space before it and one behind it are skipped. Numbers saturate at 10^9. */
enum { NO_NUMBER = -1, NOT_APART = -2 /* something else than white space or the file's end follows */ };
static long next_number(FILE *file) {
  int c = next_character(file);
  while (is_space(c)) c = next_character(file);
  if (c < '0' || c > '9') return NO_NUMBER;
  long number = 0;
  for (; c >= '0' && c <= '9'; c = next_character(file)) number = number < 100000000 ? 10 * number + (c - '0') : 1000000000;
  return is_space(c) || c == EOF ? number : NOT_APART;
}

typedef struct {
  bool plain; /* numbers as text */
  int planes;
  long width, height, maxval;
} pnm_header;

/* Returns NULL, or the complaint (in `why`). */
static const char *read_header(pnm_header *h, FILE *file, char *why, size_t why_size) {
  const int magic = getc(file) == 'P' ? getc(file) : 0, behind = next_character(file);
  if ((magic != '2' && magic != '3' && magic != '5' && magic != '6') || !(is_space(behind) || behind == EOF))
    return "expected a PGM or PPM picture (P2, P3, P5 or P6)";
  h->plain = magic == '2' || magic == '3';
  h->planes = magic == '3' || magic == '6' ? 3 : 1;
  const struct {
    const char *name;
    long *field, highest;
  } fields[3] = {{"width", &h->width, SIDE_MAX}, {"height", &h->height, SIDE_MAX}, {"maxval", &h->maxval, MAXVAL_MAX}};
  for (int i = 0; i < 3; i++) {
    *fields[i].field = next_number(file);
    if (*fields[i].field >= 1 && *fields[i].field <= fields[i].highest) continue;
    char got[32] = "none";
    if (*fields[i].field >= 0) snprintf(got, sizeof got, "%ld", *fields[i].field);
    if (*fields[i].field == NOT_APART) snprintf(why, why_size, "%s: expected white space behind its number", fields[i].name);
    else snprintf(why, why_size, "%s: expected an integer from 1 to %ld, got %s", fields[i].name, fields[i].highest, got);
    return why;
  }
  return NULL;
}

/* One row of samples, colours interleaved, into integers. Returns NULL or the complaint. */
static const char *read_row(const pnm_header *h, FILE *file, unsigned char *bytes, long samples[]) {
  const size_t count = (size_t)h->width * (size_t)h->planes, size = h->maxval > 255 ? 2 : 1;
  if (!h->plain && fread(bytes, size, count, file) != count) return "truncated in its pixels";
  for (size_t i = 0; i < count; i++) {
    if (h->plain) samples[i] = next_number(file);
    else samples[i] = size == 1 ? bytes[i] : bytes[2 * i] << 8 | bytes[2 * i + 1];
    if (samples[i] < 0) return feof(file) ? "truncated in its pixels" : "expected samples that are numbers";
    if (samples[i] > h->maxval) return "expected samples of at most maxval";
  }
  return NULL;
}

int pnm_read(pnm_image *image, const char *path, char *error, size_t error_size) {
  *image = (pnm_image){0};
  const char *why;
  FILE *file = input_open(path, true, &why);
  struct stat status;
  if (!file) return fail(error, error_size, "%s: expected a readable picture file: %s", path, why);
  char buffer[128];
  pnm_header h;
  why = fstat(fileno(file), &status) ? strerror(errno) : read_header(&h, file, buffer, sizeof buffer);
  if (!why) { /* look before allocating what a broken header asks for */
    const int64_t count = (int64_t)h.width * h.height * h.planes, bytes = h.plain ? 2 * count - 1 : h.maxval > 255 ? 2 * count : count;
    const int64_t left = (int64_t)status.st_size - ftell(file);
    if (left < bytes) {
      snprintf(buffer, sizeof buffer, "truncated: expected %s%lld bytes for %ld x %ld pixels, got %lld", h.plain ? "at least " : "", (long long)bytes, h.width,
               h.height, (long long)left);
      why = buffer;
    }
  }
  unsigned char *bytes = NULL;
  long *samples = NULL;
  if (!why) {
    const size_t row = (size_t)h.width * (size_t)h.planes;
    bytes = malloc(2 * row);
    samples = malloc(row * sizeof *samples);
    if (!bytes || !samples || pnm_alloc(image, h.planes, (int)h.height, (int)h.width)) why = "no memory for its pixels";
  }
  for (int y = 0; !why && y < image->height; y++) {
    why = read_row(&h, file, bytes, samples);
    for (int plane = 0; !why && plane < h.planes; plane++) {
      float *row = image->value + ((size_t)plane * (size_t)h.height + (size_t)y) * (size_t)h.width;
      for (int x = 0; x < image->width; x++) row[x] = (float)samples[x * h.planes + plane] / (float)h.maxval;
    }
  }
  free(bytes), free(samples);
  fclose(file);
  if (!why) return 0;
  pnm_free(image);
  return fail(error, error_size, "%s: %s", path, why);
}

/* ---------------------------------------------------------------- writing */

static unsigned char to_byte(float value) {
  if (!(value > 0)) return 0; /* a NaN too */
  return value >= 1 ? 255 : (unsigned char)(255 * value + 0.5f);
}

void pnm_write(const pnm_image *image, FILE *file) {
  const size_t area = (size_t)image->height * (size_t)image->width;
  fprintf(file, "P%d\n%d %d\n255\n", image->planes == 3 ? 6 : 5, image->width, image->height);
  for (size_t i = 0; i < area; i++)
    for (int plane = 0; plane < image->planes; plane++) putc(to_byte(image->value[(size_t)plane * area + i]), file);
}

/* ---------------------------------------------------------------- shrinking */

/* Shrinks one line of `from` values to `to` means; neighbours lie `stride` apart in both lines. New value i covers the old ones from
 * i * from / to to (i + 1) * from / to, the outer two of them in part. Positions are counted in 1 / to of an old value, so they are integers. */
static void shrink_line(float *out, int to, const float *in, int from, size_t stride) {
  for (int64_t i = 0; i < to; i++) {
    const int64_t start = i * from, end = start + from;
    double sum = 0;
    for (int64_t j = start / to; j * to < end; j++) {
      const int64_t low = j * to > start ? j * to : start, high = (j + 1) * to < end ? (j + 1) * to : end;
      sum += (double)(high - low) * (double)in[(size_t)j * stride];
    }
    out[(size_t)i * stride] = (float)(sum / from);
  }
}

int pnm_shrink(pnm_image *to, const pnm_image *from) {
  const size_t width = (size_t)to->width, height = (size_t)to->height;
  pnm_image narrow; /* the new width, the old height */
  if (pnm_alloc(&narrow, from->planes, from->height, to->width)) return -1;
  if (pnm_alloc(to, from->planes, to->height, to->width)) {
    pnm_free(&narrow);
    return -1;
  }
  for (size_t y = 0; y < (size_t)from->planes * (size_t)from->height; y++)
    shrink_line(narrow.value + y * width, to->width, from->value + y * (size_t)from->width, from->width, 1);
  for (size_t plane = 0; plane < (size_t)from->planes; plane++)
    for (size_t x = 0; x < width; x++)
      shrink_line(to->value + plane * height * width + x, to->height, narrow.value + plane * (size_t)from->height * width + x, from->height, width);
  pnm_free(&narrow);
  return 0;
}
