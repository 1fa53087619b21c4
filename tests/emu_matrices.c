/* ldmatrix and stmatrix in all their forms: what each lane receives, what is written where, and in whose name the checker is told. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/emu/hopper.h"
#include "common/emu/tool/tool.h"
#include "tests/tap.h"

enum { FIRST = EMU_RESERVED_SHARED, ROW_BYTES = 48 /* rows lie apart */ };

typedef struct form {
  int count, trans;
} form;
static const form forms[] = {{1, 0}, {2, 0}, {4, 0}, {1, 1}, {2, 1}, {4, 1}};

static unsigned fragments[EMU_WARP][4];
static unsigned short written[4][8][8];
static int bytes_beside;
static unsigned misaligned; /* added to a lane's address */

/* Row r of matrix m, in an order of its own. */
static unsigned row_place(int m, int r) { return FIRST + (unsigned)(m * 8 + (r * 3 + m) % 8) * ROW_BYTES; }

/* Element [r][c] of matrix m. */
static unsigned short value(int m, int r, int c) { return (unsigned short)(1000 * m + 100 * r + c); }

static void load(const void *closure) {
  const form *f = closure;
  const int lane = (int)emu_self->lane;
  unsigned short row[8];
  for (int c = 0; c < 8; c++) row[c] = value(lane / 8, lane % 8, c);
  emu_ldmatrix(fragments[lane], f->count, f->trans, lane < 8 * f->count ? row : NULL, __FILE__, __LINE__);
}

static void store(const void *closure) {
  const form *f = closure;
  const int lane = (int)emu_self->lane, g = lane / 4, t = lane % 4;
  unsigned fragment[4] = {0};
  for (int m = 0; m < f->count; m++)
    for (int i = 0; i < 2; i++) fragment[m] |= (unsigned)(f->trans ? value(m, 2 * t + i, g) : value(m, g, 2 * t + i)) << 16 * i;
  const uint32_t to = lane < 8 * f->count ? row_place(lane / 8, lane % 8) : 0xfffffff0; /* the others' addresses do not matter */
  emu_stmatrix(to + (lane == 5 ? misaligned : 0), fragment, f->count, f->trans, __FILE__, __LINE__);
  if (lane != 0) return;
  const unsigned char *arena = emu_self->block->arena;
  for (int m = 0; m < 4; m++)
    for (int r = 0; r < 8; r++) {
      memcpy(written[m][r], arena + row_place(m, r), 16);
      for (int i = m < f->count ? 16 : 0; i < ROW_BYTES; i++) bytes_beside += arena[row_place(m, r) + i] != EMU_POISON;
    }
}

static void leave_early(const void *closure) {
  if (emu_self->lane != 0) store(closure);
}

static cudaError_t run(void (*entry)(const void *), const form *f) {
  const emu_call call = {.function = "kernel",
                         .name = "kernel",
                         .where = {__FILE__, __LINE__},
                         .grid = {1, 1, 1},
                         .block = {EMU_WARP, 1, 1},
                         .shared_bytes = 32 * ROW_BYTES,
                         .entry = entry,
                         .closure = f,
                         .closure_bytes = sizeof *f};
  const cudaError_t error = emu_launch_kernel(&call);
  return error ? error : cudaDeviceSynchronize();
}

/* ---- what the checker hears ---- */

static int accesses, strange;

static void hear(const void *address, size_t bytes, bool writes, const void *pc) {
  const int lane = (int)emu_self->lane;
  const uintptr_t at = (uintptr_t)address - (uintptr_t)emu_self->block->arena;
  accesses++;
  strange +=
      !writes || bytes != 16 || pc == NULL || at != row_place(lane / 8, lane % 8) || (at + bytes <= EMU_ARENA && *(const unsigned char *)address != EMU_POISON);
}

static const emu_tool listener = {.name = "listener", .access = hear};

/* ---- tests ---- */

static void test(const form *f) {
  const char *trans = f->trans ? ".trans" : "";
  int wrong = run(load, f) != cudaSuccess;
  for (int lane = 0; lane < EMU_WARP; lane++)
    for (int m = 0; m < f->count; m++) {
      const int g = lane / 4, t = lane % 4;
      const unsigned low = f->trans ? value(m, 2 * t, g) : value(m, g, 2 * t), high = f->trans ? value(m, 2 * t + 1, g) : value(m, g, 2 * t + 1);
      wrong += fragments[lane][m] != (low | high << 16);
    }
  ok(wrong == 0, "ldmatrix.x%d%s", f->count, trans);

  accesses = strange = bytes_beside = 0;
  wrong = run(store, f) != cudaSuccess;
  for (int m = 0; m < f->count; m++)
    for (int r = 0; r < 8; r++)
      for (int c = 0; c < 8; c++) wrong += written[m][r][c] != value(m, r, c);
  ok(wrong == 0 && bytes_beside == 0, "stmatrix.x%d%s writes its %d rows and nothing else", f->count, trans, 8 * f->count);
  ok(accesses == 8 * f->count && strange == 0, "... each, before it is written, told as the access of the lane that points to it");
}

static char *failure(void (*entry)(const void *), const form *f) {
  static char text[4096];
  FILE *captured = tmpfile();
  const int real = dup(2);
  dup2(fileno(captured), 2);
  const cudaError_t error = run(entry, f);
  fflush(stderr);
  dup2(real, 2);
  close(real);
  rewind(captured);
  text[fread(text, 1, sizeof text - 1, captured)] = '\0';
  fclose(captured);
  cudaDeviceReset();
  return error == cudaErrorLaunchFailure ? text : strcpy(text, "no failure");
}

int main(void) {
  emu_the_tool = &listener;
  plan(0);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) test(&forms[i]);
  misaligned = 8;
  char *text = failure(store, &forms[0]);
  ok(strstr(text, "lane 5 points to shared address 0x") && strstr(text, "expected a multiple of 16") && strstr(text, "thread (5,0,0)"),
     "stmatrix to an address that is no multiple of 16: which lane, which address") ||
      (diag("%s", text), 0);
  misaligned = 0;
  text = failure(leave_early, &forms[2]);
  ok(strstr(text, "stmatrix at tests/emu_matrices.c") && strstr(text, "lanes 0x00000001 have exited"), "stmatrix without a lane that has returned") ||
      (diag("%s", text), 0);
  return done_testing();
}
