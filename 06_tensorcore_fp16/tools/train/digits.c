/* The pictures: digits of 5 x 7 points, stretched and moved, under noise. See train.h. */
#include "06_tensorcore_fp16/tools/train/train.h"

enum { POINTS_W = 5, POINTS_H = 7, WIDTH = 10, HEIGHT = 14 /* pixels of the largest digit */, CHOICES = 5 /* random numbers of a picture */ };

static const char *const shapes[CLASSES] = {" ### #   ##   ##   ##   ##   # ### ", "  #   ##    #    #    #    #   ### ", " ### #   #    #   #   #   #   #####",
                                            "#####   #   #     #    ##   # ### ",  "   #   ##  # # #  # #####   #    # ", "######    ####     #    ##   # ### ",
                                            "  ##  #   #    #### #   ##   # ### ", "#####    #   #   #   #    #    #   ", " ### #   ##   # ### #   ##   # ### ",
                                            " ### #   ##   # ####    #   #  ##  "};
static const float noise = 0.3f; /* its deviation; a point is 1 */

/* Is the digit's point at this place, counted in points? */
static bool inked(int digit, double h, double w) {
  return h >= 0 && h < POINTS_H && w >= 0 && w < POINTS_W && shapes[digit][(int)h * POINTS_W + (int)w] == '#';
}

static int below(uint64_t seed, uint64_t index, int n) { return (int)random_below(seed, index, (uint64_t)n); }

/* Where a digit begins that leaves so much room: at most `vary` from the middle. */
static int place(int room, int vary, uint64_t seed, uint64_t index) {
  const int middle = room / 2, reach = vary < middle ? vary : middle;
  return middle - reach + below(seed, index, 2 * reach + 1);
}

void digits_draw(conv_tensor *pictures, int *labels, int vary, uint64_t seed, uint64_t first) {
  const int images = pictures->dim[0], channels = pictures->dim[1];
#pragma omp parallel for
  for (int n = 0; n < images; n++) {
    const uint64_t number = first + (uint64_t)n, at = number * CHOICES;
    const int digit = below(seed, at, CLASSES);
    const int height = HEIGHT - below(seed, at + 1, vary + 1), width = WIDTH - below(seed, at + 2, vary + 1);
    const int top = place(SIDE - height, vary, seed, at + 3), left = place(SIDE - width, vary, seed, at + 4);
    labels[n] = digit;
    for (int pixel = 0; pixel < SIDE * SIDE; pixel++) {
      const double h = (pixel / SIDE + 0.5 - top) * POINTS_H / height, w = (pixel % SIDE + 0.5 - left) * POINTS_W / width;
      const double ink = inked(digit, h, w) ? 1 : 0, grain = noise * random_normal(seed + 1, number * SIDE * SIDE + (uint64_t)pixel);
      for (int c = 0; c < channels; c++) tensor_set(pictures, ((int64_t)n * SIDE * SIDE + pixel) * channels + c, c == 0 ? ink + grain : 0);
    }
  }
}
