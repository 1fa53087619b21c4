/* Stacks of CUDA threads: 64 KiB each (EMU_STACK_KB), taken when a thread starts, given back when it ends, kept between launches. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/emu/run/internal.h"

enum { CANARY_BYTES = 64, CANARY = 0xC5 };

size_t emu_stack_bytes(void) { return (size_t)emu_setting(EMU_SET_STACK_KB, 64) << 10; }

/* A stack lies above a page that nobody may touch, so that running off its end faults at once; a frame larger than a page touches each of its
 * own (STACK_PROBES in the Makefile). The kernel allows only so many mappings; when they run out, a canary has to do. */
static void set_canary(emu_stack *s) {
  if (!s->guarded) memset(s->bottom, CANARY, CANARY_BYTES);
}

static emu_stack *stack_create(emu_worker *w) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = emu_stack_bytes();
  unsigned char *memory = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) emu_no_memory(page + bytes, "the stack of a CUDA thread");
  const bool guarded = mprotect(memory, page, PROT_NONE) == 0;
  emu_stack *s = emu_take(1, sizeof *s, "the stack of a CUDA thread");
  w->stacks = emu_grow(w->stacks, (size_t)w->stack_count + 1, sizeof *w->stacks, "the stacks of CUDA threads");
  s->bottom = memory + page;
  s->guarded = guarded;
  /* All stacks start at a page boundary: unless their tops are moved apart, the hot lines of all fight for one set of the L1 cache. */
  s->top = s->bottom + bytes - (size_t)(w->stack_count * 192) % 4096;
  set_canary(s);
  w->stacks[w->stack_count++] = s;
  return s;
}

emu_stack *emu_stack_take(emu_worker *w) {
  emu_stack *s = w->free_stacks;
  if (s == NULL) return stack_create(w);
  w->free_stacks = s->next_free;
  return s;
}

void emu_stack_give(emu_worker *w, emu_stack *s) {
  s->next_free = w->free_stacks;
  w->free_stacks = s;
}

void emu_stack_reclaim_all(emu_worker *w) {
  w->free_stacks = NULL;
  for (int i = w->stack_count - 1; i >= 0; i--) {
    set_canary(w->stacks[i]);
    emu_stack_give(w, w->stacks[i]);
  }
}

bool emu_stack_intact(const emu_stack *s) {
  uint64_t word, expected;
  memcpy(&word, s->bottom, sizeof word);
  memset(&expected, CANARY, sizeof expected);
  return word == expected;
}

bool emu_stack_guards(const emu_worker *w, const void *address) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < w->stack_count; i++) {
    const unsigned char *bottom = w->stacks[i]->bottom;
    if ((const unsigned char *)address < bottom && (const unsigned char *)address >= bottom - page) return true;
  }
  return false;
}
