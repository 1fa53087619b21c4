/* tools/image: a PGM or PPM picture, and what shrinking makes of it. */
#include <string.h>

#include "common/files/pnm.h"
#include "tests/fuzz/fuzz.h"

static bool is_picture(const pnm_image *image) {
  const size_t count = (size_t)image->planes * (size_t)image->height * (size_t)image->width;
  for (size_t i = 0; i < count; i++)
    if (!(image->value[i] >= 0 && image->value[i] <= 1)) return false;
  return (image->planes == 1 || image->planes == 3) && count > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pnm_image image;
  char error[1024] = "";
  if (pnm_read(&image, fuzz_file(data, size), error, sizeof error)) {
    EXPECT(error[0] && !strchr(error, '\n') && image.value == NULL);
    return 0;
  }
  EXPECT(is_picture(&image));
  pnm_image small = {.height = (image.height + 1) / 2, .width = (2 * image.width + 2) / 3};
  if (pnm_shrink(&small, &image) == 0) {
    EXPECT(is_picture(&small));
    pnm_free(&small);
  }
  pnm_free(&image);
  return 0;
}
