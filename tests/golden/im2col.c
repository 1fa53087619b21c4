/* Boxes of im2col maps: from which pixel each row of a box comes. The maps are those of convolutions: corners, steps and offsets as they follow from the filter,
 * strides, dilation and padding. */
#include <stdlib.h>

#include "tests/golden/golden.h"

typedef struct im2col_case {
  int n, h, w, c;               /* tensor */
  int r, s, stride, dilation;   /* filter */
  int top, bottom, left, right; /* padding */
  int channels, pixels;         /* box */
  int image, p, q, channel;     /* the window that the box begins with: image, row and column of y, the first channel */
  int tap_r, tap_s;
  bool full;
} im2col_case;

static const im2col_case cases[] = {
#define PAD(x) x, x, x, x
    /* 3x3, padding 1: every tap; windows that wrap to the next row and image */
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 0, 0, true},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 0, 1, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 0, 2, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 1, 0, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 1, 1, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 1, 2, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 2, 0, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 2, 1, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 2, 2, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 0, 3, 5, 0, 2, 2, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 1, 2, 3, 0, 0, 2, true},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 1, 6, 6, 0, 1, 1, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(1), 64, 64, 2, 0, 0, 0, 1, 1, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(0), 64, 64, 0, 1, 2, 0, 2, 1, false},
    {2, 7, 7, 64, 3, 3, 1, 1, PAD(2), 64, 64, 0, 1, 2, 0, 2, 1, false},
    {1, 16, 16, 64, 3, 3, 1, 1, PAD(1), 64, 128, 0, 5, 3, 0, 0, 0, false},
    {1, 16, 16, 128, 3, 3, 1, 1, PAD(1), 64, 64, 0, 5, 3, 64, 1, 2, false},
    /* strides */
    {2, 9, 9, 64, 3, 3, 2, 1, PAD(1), 64, 48, 0, 0, 0, 0, 0, 0, true},
    {2, 9, 9, 64, 3, 3, 2, 1, PAD(1), 64, 48, 0, 1, 3, 0, 2, 1, false},
    {2, 8, 10, 64, 3, 3, 2, 1, PAD(1), 64, 48, 0, 1, 3, 0, 1, 2, false},
    {2, 8, 10, 64, 3, 3, 3, 1, PAD(1), 64, 32, 0, 0, 1, 0, 2, 2, false},
    {2, 9, 9, 64, 1, 1, 2, 1, PAD(0), 64, 48, 0, 0, 0, 0, 0, 0, true},
    {2, 8, 8, 64, 1, 1, 2, 1, PAD(0), 64, 48, 1, 1, 1, 0, 0, 0, false},
    /* dilation */
    {2, 9, 9, 64, 3, 3, 1, 2, PAD(2), 64, 64, 0, 0, 0, 0, 0, 0, false},
    {2, 9, 9, 64, 3, 3, 1, 2, PAD(2), 64, 64, 0, 4, 7, 0, 2, 1, true},
    {2, 9, 9, 64, 3, 3, 2, 2, PAD(2), 64, 64, 0, 1, 1, 0, 1, 2, false},
    {2, 9, 9, 64, 3, 3, 1, 3, PAD(1), 64, 64, 0, 0, 0, 0, 2, 2, false},
    /* 1x1 */
    {2, 7, 7, 64, 1, 1, 1, 1, PAD(0), 64, 64, 0, 0, 0, 0, 0, 0, false},
    {2, 7, 7, 64, 1, 1, 1, 1, PAD(0), 64, 64, 1, 3, 3, 0, 0, 0, false},
    {2, 7, 7, 64, 1, 1, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 0, 0, false},
    /* 7x7 */
    {1, 24, 24, 8, 7, 7, 2, 1, PAD(3), 8, 96, 0, 0, 0, 0, 0, 0, false},
    {1, 24, 24, 8, 7, 7, 2, 1, PAD(3), 8, 96, 0, 3, 7, 0, 6, 2, false},
    {2, 24, 24, 8, 7, 7, 2, 1, PAD(3), 8, 96, 0, 9, 7, 0, 3, 6, true},
    {2, 24, 24, 8, 7, 7, 1, 1, PAD(3), 8, 256, 0, 20, 11, 0, 6, 6, false},
    /* 3x5, four different paddings */
    {2, 9, 11, 64, 3, 5, 2, 1, 0, 1, 2, 3, 64, 48, 0, 0, 0, 0, 0, 0, true},
    {2, 9, 11, 64, 3, 5, 2, 1, 0, 1, 2, 3, 64, 48, 0, 2, 4, 0, 2, 4, false},
    {2, 9, 11, 64, 3, 5, 1, 1, 2, 0, 1, 4, 64, 64, 0, 7, 9, 0, 1, 3, false},
    {2, 9, 11, 64, 3, 5, 1, 2, 1, 3, 4, 0, 64, 64, 0, 2, 5, 0, 2, 1, false},
    /* channels that end inside of the box */
    {2, 7, 7, 72, 3, 3, 1, 1, PAD(1), 64, 64, 0, 2, 2, 0, 0, 1, false},
    {2, 7, 7, 72, 3, 3, 1, 1, PAD(1), 64, 64, 0, 2, 2, 64, 0, 1, true},
    {2, 7, 7, 72, 3, 3, 1, 1, PAD(1), 32, 64, 1, 5, 5, 64, 2, 2, false},
    {2, 7, 7, 8, 3, 3, 1, 1, PAD(1), 64, 64, 0, 0, 0, 0, 1, 1, false},
    {2, 7, 7, 24, 3, 3, 1, 1, PAD(1), 16, 64, 0, 0, 0, 16, 1, 1, false},
    {2, 7, 7, 24, 3, 3, 1, 1, PAD(1), 16, 64, 0, 0, 0, 4, 1, 1, false},
    {2, 7, 7, 24, 3, 3, 1, 1, PAD(1), 16, 64, 0, 0, 0, -8, 1, 1, false},
};

static void measure(const im2col_case *c) {
  if (!golden_case("im2col tensor %d.%d.%d.%d filter %dx%d stride %d dilation %d pads %d.%d.%d.%d box %d channels %d pixels from image %d window %d.%d channel "
                   "%d tap %d.%d",
                   c->n, c->h, c->w, c->c, c->r, c->s, c->stride, c->dilation, c->top, c->bottom, c->left, c->right, c->channels, c->pixels, c->image, c->p,
                   c->q, c->channel, c->tap_r, c->tap_s))
    return;
  const golden_tensor t = {.dims = 4, .element_bytes = 2, .size = {c->c, c->w, c->h, c->n}};
  const long all = golden_elements(&t);
  const int elements = c->pixels * c->channels;
  unsigned short *host = malloc(2 * (size_t)all), *box = malloc(2 * (size_t)elements);
  unsigned *ids = malloc(sizeof *ids * (size_t)elements);
  if (host == NULL || box == NULL || ids == NULL || all >= GOLDEN_UNTOUCHED) golden_fail("no such tensor");
  for (long i = 0; i < all; i++) host[i] = (unsigned short)(i + 1);
  void *tensor = golden_upload(host, 2 * all);
  const int lower[2] = {-c->left, -c->top}, upper[2] = {c->right - (c->s - 1) * c->dilation, c->bottom - (c->r - 1) * c->dilation};
  const CUtensorMap map = golden_im2col_map(tensor, &t, lower, upper, c->channels, c->pixels, (const int[4]){1, c->stride, c->stride, 1});
  const int at[4] = {c->channel, c->q * c->stride - c->left, c->p * c->stride - c->top, c->image};
  const int offsets[2] = {c->tap_s * c->dilation, c->tap_r * c->dilation};
  golden_load(&map, 4, at, offsets, 0, elements, box);
  for (int i = 0; i < elements; i++) ids[i] = box[i];
  golden_print("%s: crc32 %08x\n", golden_name(), golden_crc(ids, elements));
  if (c->full) {
    golden_print("%s, c.w.h.n of each pixel:", golden_name());
    for (int i = 0; i < elements; i += c->channels) golden_print_row(&t, ids + i, c->channels);
    golden_print("\n");
  }
  cudaFree(tensor), free(host), free(box), free(ids);
}

void golden_im2col(void) {
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) measure(&cases[i]);
}
