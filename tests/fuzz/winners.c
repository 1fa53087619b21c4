/* The winners of earlier searches. tests/fuzz/seeds.sh knows the key, too. */
#include <math.h>
#include <string.h>

#include "common/cudnn/cudnn.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_file(data, size);
  char error[1024] = "";
  conv_problem p;
  EXPECT(problem_parse(&p, "ic1ih3oc1kh1", error, sizeof error) == 0);
  const cudnn_task task = {.problem = &p, .pass = PASS_FPROP, .dtype = DTYPE_FP16, .layout = LAYOUT_NHWC};
  cudnn_winners found;
  const int status = cudnn_winners_lookup(path, &task, "GPU", 9, 1, &found, error, sizeof error);
  if (status < 0) EXPECT(error[0] && !strchr(error, '\n'));
  if (status) return 0;
  EXPECT(found.count >= 1 && found.count <= CUDNN_BEST && memchr(found.search, 0, sizeof found.search));
  for (int i = 0; i < found.count; i++) {
    EXPECT(found.us[i] > 0 && isfinite(found.us[i]));
    EXPECT(memchr(found.tag[i], 0, sizeof found.tag[i]) && found.tag[i][0] && !strpbrk(found.tag[i], ",\n"));
  }
  return 0;
}
