/* --shape: a benchdnn string. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1), error[512] = "";
  conv_problem p;
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  const int status = problem_parse(&p, text, error, sizeof error);
  if (status) EXPECT(error[0] && !strchr(error, '\n'));
  else fuzz_problem(&p);
  free(text);
  return 0;
}
