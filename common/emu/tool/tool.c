/* The tool of this program, and the calls that are for tools only: without one they do nothing. */
#include "common/emu/tool/tool.h"

const emu_tool *emu_the_tool;

const char *emu_tool_name(void) { return emu_the_tool != NULL ? emu_the_tool->name : NULL; }

double emu_kept_share(int halves) {
  const emu_tool *t = emu_the_tool;
  return t == NULL ? 0 : (t->kept + (halves ? t->kept_of_halves : 0)) / 4.0;
}

void emu_mark_array(const void *start, size_t bytes, const char *name) {
  emu_name_allocation(start, name);
  EMU_TELL(mark_array, start, bytes, name);
}
void emu_mark_uninitialised(const void *start, size_t bytes) { EMU_TELL(mark_uninitialised, start, bytes); }
void emu_count_work(double flops, const char *whose) { EMU_TELL(count_work, flops, whose); }

void emu_will_read(const void *address, size_t bytes) { EMU_TELL(access, address, bytes, false, __builtin_return_address(0)); }
void emu_will_write(const void *address, size_t bytes) { EMU_TELL(access, address, bytes, true, __builtin_return_address(0)); }

void emu_atomic_begin(const void *address, size_t bytes) {
  if (emu_self != NULL) EMU_TELL(atomic_begin, address, bytes, __builtin_return_address(0));
}
void emu_atomic_end(void) {
  if (emu_self != NULL) EMU_TELL(atomic_end);
}

void emu_dependency_wait(void) { EMU_TELL(dependency_wait); }
void emu_launch_dependents(void) { EMU_TELL(launch_dependents); }

void emu_fence(void) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (emu_self != NULL) EMU_TELL(fence);
}
