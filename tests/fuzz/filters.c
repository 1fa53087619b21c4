/* tools/image: a filter. */
#include <math.h>
#include <string.h>

#include "common/files/filter.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static filter_set f;
  char error[1024] = "";
  if (filter_read(&f, fuzz_file(data, size), error, sizeof error)) {
    EXPECT(error[0] && !strchr(error, '\n'));
    return 0;
  }
  EXPECT(f.count >= 1 && f.count <= FILTER_COUNT && f.rows >= 1 && f.rows <= FILTER_SIDE && f.cols >= 1 && f.cols <= FILTER_SIDE);
  EXPECT(isfinite(f.scale) && isfinite(f.offset) && !memchr(data, 0, size));
  for (int i = 0; i < f.count * f.rows * f.cols; i++) EXPECT(isfinite(f.value[i]));
  return 0;
}
