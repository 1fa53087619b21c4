/* Writes a golden table, or all of them, to stdout: golden_tables [TABLE]; or the tables' names: golden_tables list.
 *
 * A case that the machine refuses, or that fails, ends its process, for nothing can be launched after a kernel that broke; the next process goes on with the
 * case after it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/golden/golden.h"

enum { LIMIT = 20, REFUSED = 4, FAILED = 3, NO_GPU = 2 }; /* LIMIT: seconds of a case */

static const struct {
  const char *name;
  void (*write)(void);
} tables[] = {{"fragments", golden_fragments}, {"products", golden_products},   {"descriptors", golden_descriptors},
              {"swizzles", golden_swizzles},   {"boxes", golden_boxes},         {"starts", golden_starts},
              {"im2col", golden_im2col},       {"mbarriers", golden_mbarriers}, {"between", golden_between}};
enum { TABLES = sizeof tables / sizeof *tables };

/* What the processes share: the case at work. */
static struct {
  int number;
  char name[256];
} * at;
static int first; /* case of this process */
static char *text;
static size_t text_size;
static FILE *rows;

static void finish_case(void) {
  if (rows == NULL) return;
  fclose(rows);
  rows = NULL;
  fwrite(text, 1, text_size, stdout);
  fflush(stdout);
  free(text);
}

bool golden_case(const char *format, ...) {
  finish_case();
  va_list arguments;
  va_start(arguments, format);
  at->number++;
  vsnprintf(at->name, sizeof at->name, format, arguments);
  va_end(arguments);
  if (at->number < first) return false;
  rows = open_memstream(&text, &text_size);
  alarm(LIMIT);
  return true;
}

const char *golden_name(void) { return at->name; }

void golden_print(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(rows, format, arguments);
  va_end(arguments);
}

void golden_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("%s: failed: ", at->name);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  fflush(stdout);
  _exit(FAILED);
}

void golden_launched(void) {
  cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  if (status == cudaSuccess) return;
  printf("%s: refused: %s\n", at->name, cudaGetErrorString(status));
  fflush(stdout);
  _exit(REFUSED);
}

uint32_t golden_crc(const unsigned *values, int n) {
  uint32_t crc = ~0u;
  for (int i = 0; i < 4 * n; i++) {
    crc ^= values[i / 4] >> 8 * (i % 4) & 255;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/* The table from case number `first` on, in a process of its own. */
static void write_table(int table) {
  struct cudaDeviceProp gpu;
  const cudaError_t status = cudaGetDeviceProperties(&gpu, 0);
  if (status != cudaSuccess || gpu.major != 9) {
    fprintf(stderr, "golden_tables: expected a GPU of compute capability 9.0, found %s\n", status != cudaSuccess ? cudaGetErrorString(status) : gpu.name);
    _exit(NO_GPU);
  }
  if (first == 0) printf("# %s: %s, compute capability %d.%d\n", tables[table].name, gpu.name, gpu.major, gpu.minor);
  at->number = -1;
  tables[table].write();
  finish_case();
  fflush(stdout);
  _exit(0);
}

/* Returns how many cases failed. */
static int run_table(int table) {
  int failed = 0;
  for (first = 0;; first = at->number + 1) {
    at->number = -1;
    const pid_t child = fork();
    if (child == 0) write_table(table);
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) exit((perror("golden_tables"), 1));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return failed;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_GPU) exit(NO_GPU);
    if (at->number < first) exit((fprintf(stderr, "golden_tables: %s: no case begun\n", tables[table].name), 1));
    if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED) continue;
    failed++;
    fprintf(stderr, "golden_tables: %s: failed\n", at->name);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != FAILED) {
      printf("%s: failed: no answer\n", at->name);
      fflush(stdout);
    }
  }
}

static bool is_table(const char *name) {
  for (int i = 0; i < TABLES; i++)
    if (strcmp(name, tables[i].name) == 0) return true;
  return false;
}

int main(int argc, char **argv) {
  at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return perror("golden_tables"), 1;
  const char *asked = argc == 2 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && strcmp(asked, "list") != 0 && !is_table(asked))) {
    fprintf(stderr, "golden_tables: expected list or one of");
    for (int i = 0; i < TABLES; i++) fprintf(stderr, " %s", tables[i].name);
    fprintf(stderr, ", or nothing, got %s\n", argc > 2 ? "more" : asked);
    return 2;
  }
  int failed = 0;
  for (int i = 0; i < TABLES; i++)
    if (strcmp(asked, "list") == 0) puts(tables[i].name);
    else if (argc == 1 || strcmp(asked, tables[i].name) == 0) failed += run_table(i);
  return failed > 0;
}
