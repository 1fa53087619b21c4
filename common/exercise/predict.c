/* Exercise 01c: what the reader's functions say of each shape:  predict SHAPE...   prints "STORES FILTER IMAGE" on one line per shape. */
#include "common/exercise/exercise.h"

#include <stdio.h>

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    conv_problem p;
    char error[512];
    if (problem_parse(&p, argv[i], error, sizeof error)) {
      fprintf(stderr, "%s\n", error);
      return 2;
    }
    printf("predicted %lld %lld %lld\n", (long long)predict_store_sectors(&p), (long long)predict_filter_sectors(&p), (long long)predict_image_sectors(&p));
  }
  return 0;
}
