/* --x, --w, --dy: a .npy file, for a tensor of eight elements of either type and layout. */
#include "common/files/npy.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_file(data, size);
  char error[1024] = "";
  conv_problem p;
  EXPECT(problem_parse(&p, "mb1ic2ih2oc1kh1", error, sizeof error) == 0);
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
    for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
      conv_tensor t = tensor_describe(&p, TENSOR_X, (conv_dtype)dtype, (conv_layout)layout);
      if (tensor_alloc(&t)) return 0;
      error[0] = 0;
      if (npy_read(&t, path, error, sizeof error)) EXPECT(error[0] && !strchr(error, '\n'));
      else EXPECT(size >= 10 + tensor_bytes(&t));
      tensor_free(&t);
    }
  return 0;
}
