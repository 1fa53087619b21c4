/* The emulator's rewriter of sources. It ends by exit() and frees nothing: here it comes back instead, and its memory is freed behind it. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static void **blocks;
static size_t block_count, block_room;
static jmp_buf ended;

static void *kept_realloc(void *old, size_t size) {
  size_t i = block_count;
  while (old && i > 0 && blocks[i - 1] != old) i--;
  if (!old) {
    if (block_count == block_room) blocks = realloc(blocks, (block_room += 1024) * sizeof *blocks);
    i = ++block_count;
  }
  EXPECT(blocks && i > 0);
  return blocks[i - 1] = realloc(old, size);
}

static void kept_free(void *old) {
  size_t i = block_count;
  while (i > 0 && blocks[i - 1] != old) i--;
  EXPECT(!old || i > 0);
  if (i > 0) blocks[i - 1] = blocks[--block_count];
  free(old);
}

__attribute__((noreturn)) static void kept_exit(int status) { longjmp(ended, status); }

#define realloc kept_realloc
#define free kept_free
#define exit kept_exit
#define main rewrite_main
#include "common/emu/rewrite/rewrite.c"
#include "common/emu/rewrite/rewrite_bounds.c"
#include "common/emu/rewrite/rewrite_scan.c"
#include "common/emu/rewrite/rewrite_shared.c"
#include "common/emu/rewrite/rewrite_variables.c"
#undef realloc
#undef free
#undef exit
#undef main

static size_t lines(const char *text, size_t count) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) found += text[i] == '\n';
  return found;
}

static char out[] = "/tmp/fuzz-XXXXXX";
static void remove_out(void) { remove(out); }

/* What was written has as many lines as the source, and the #line. */
static void check_result(void) {
  FILE *file = fopen(out, "rb");
  char *text = NULL;
  size_t room = 0;
  EXPECT(file != NULL);
  const ssize_t count = getdelim(&text, &room, 0, file);
  EXPECT(count > 0 && getc(file) == EOF && text[count - 1] != 0);
  EXPECT(lines(text, (size_t)count) == lines(source, length) + 1);
  fclose(file);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int fd = -1;
  if (fd < 0) {
    EXPECT((fd = mkstemp(out)) >= 0);
    atexit(remove_out);
  }
  source = NULL, length = 0, edits = NULL, edit_count = edit_room = 0;
  const int status = setjmp(ended);
  if (status == 0) {
    read_source(fuzz_file(data, size));
    scan_source();
    write_result(out);
    check_result();
  } else {
    EXPECT(status == 2);
  }
  while (block_count > 0) free(blocks[--block_count]);
  return 0;
}
