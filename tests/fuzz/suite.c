/* --suite: a file of benchdnn lines. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  conv_suite suite;
  char error[1024] = "";
  if (suite_read(&suite, fuzz_file(data, size), error, sizeof error)) {
    EXPECT(error[0] && !strchr(error, '\n') && suite.problems == NULL);
    return 0;
  }
  EXPECT(suite.count > 0 && !memchr(data, 0, size));
  for (int i = 0; i < suite.count; i++) fuzz_problem(&suite.problems[i]);
  suite_free(&suite);
  return 0;
}
