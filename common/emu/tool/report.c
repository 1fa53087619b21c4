/* Reports on stderr: what went wrong, in which kernel, block and thread, and who waits where. One report per launch: the first. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/emu/run/hopper.h"
#include "common/emu/tool/source_line.h"
#include "common/emu/tool/tool.h"
#include "common/files/output.h"

static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;

static void print(const char *indent, const char *format, va_list arguments) {
  char text[1024];
  vsnprintf(text, sizeof text, format, arguments);
  fprintf(stderr, "emulator: %s%s\n", indent, text);
}

static void print_launch(const emu_launch *launch) {
  const emu_call *c = &launch->call;
  fprintf(stderr, "emulator:   in %s<<<(%u,%u,%u), (%u,%u,%u), %zu>>>, launched at %s:%d\n", c->name, c->grid.x, c->grid.y, c->grid.z, c->block.x, c->block.y,
          c->block.z, c->shared_bytes, c->where.file, c->where.line);
}

/* Marks the launch as failed. Returns whether this is its first report, and then prints it. */
bool emu_report_begin(emu_launch *launch, cudaError_t error, const char *format, ...) {
  pthread_mutex_lock(&once);
  const bool first = !launch->failed;
  if (first) {
    fflush(stdout);
    va_list arguments;
    va_start(arguments, format);
    print("", format, arguments);
    va_end(arguments);
    print_launch(launch);
    launch->error = error;
    __atomic_store_n(&launch->failed, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&once);
  return first;
}

void emu_report_line(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print("  ", format, arguments);
  va_end(arguments);
}

__attribute__((noreturn)) static void fail(cudaError_t error, const char *format, va_list arguments) {
  char text[1024];
  vsnprintf(text, sizeof text, format, arguments);
  if (emu_self == NULL) {
    fprintf(stderr, "emulator: %s\n", text);
    abort();
  }
  const uint3 b = emu_self->block->index, t = emu_self->index;
  emu_report_begin(emu_self->block->launch, error, "block (%u,%u,%u), thread (%u,%u,%u): %s", b.x, b.y, b.z, t.x, t.y, t.z, text);
  emu_abandon_block();
}

void emu_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail(cudaErrorLaunchFailure, format, arguments);
}

void emu_illegal(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail(cudaErrorIllegalInstruction, format, arguments);
}

static bool waits(const emu_thread *t) { return t->state > EMU_RUNNABLE; }

static bool waits_together(const emu_thread *a, const emu_thread *b) {
  return a->state == b->state && a->what == b->what && a->where.line == b->where.line && strcmp(a->where.file, b->where.file) == 0 &&
         (a->state != EMU_WAIT_WARP || (a->warp == b->warp && a->mask == b->mask)) &&
         (a->state != EMU_WAIT_MBARRIER || (a->mbarrier == b->mbarrier && a->parity == b->parity));
}

/* One line for each place where threads wait. */
enum { MOST_LINES = 10 };

/* What the threads of a block wait for, a line a place. Of a cluster the blocks are named. */
static void report_waits(const emu_block *b, int *lines) {
  char block[64] = "";
  if (b->team_size > 1) snprintf(block, sizeof block, " of block (%u,%u,%u)", b->index.x, b->index.y, b->index.z);
  for (const emu_thread *t = b->threads, *end = t + b->thread_count; t < end; t++) {
    bool seen = !waits(t);
    for (const emu_thread *earlier = b->threads; earlier < t && !seen; earlier++) seen = waits(earlier) && waits_together(earlier, t);
    if (seen) continue;
    unsigned count = 0, lanes = 0;
    for (const emu_thread *u = t; u < end; u++)
      if (waits(u) && waits_together(t, u)) {
        count++;
        lanes |= 1u << u->lane;
      }
    if (++*lines > MOST_LINES) continue;
    const char *threads = count == 1 ? "" : "s", *wait = count == 1 ? "s" : "";
    char missing[160];
    if (t->state == EMU_WAIT_MBARRIER) {
      emu_mbarrier_describe(t, missing, sizeof missing);
      emu_report_line("%u thread%s%s wait%s for the phase of parity %u at %s:%d, first (%u,%u,%u): %s", count, threads, block, wait, t->parity, t->where.file,
                      t->where.line, t->index.x, t->index.y, t->index.z, missing);
    } else if (t->state != EMU_WAIT_WARP)
      emu_report_line("%u thread%s%s wait%s in %s at %s:%d, first (%u,%u,%u)", count, threads, block, wait, t->what, t->where.file, t->where.line, t->index.x,
                      t->index.y, t->index.z);
    else
      emu_report_line("lanes 0x%08x%s wait in %s at %s:%d, first (%u,%u,%u): mask 0x%08x, missing 0x%08x", lanes, block, t->what, t->where.file, t->where.line,
                      t->index.x, t->index.y, t->index.z, t->mask, t->mask & ~lanes & ~t->warp->exited);
  }
}

void emu_report_deadlock(emu_worker *w) {
  const emu_block *b = w->block;
  const unsigned threads = b->team_size * b->thread_count;
  if (!emu_report_begin(w->launch, cudaErrorLaunchFailure, "deadlock: no thread of %s (%u,%u,%u) can go on; %u of %u threads have exited",
                        b->team_size > 1 ? "the cluster of block" : "block", b->index.x, b->index.y, b->index.z, threads - w->alive, threads))
    return;
  int lines = 0;
  for (unsigned rank = 0; rank < b->team_size; rank++) report_waits(&b->team[rank], &lines);
  if (lines > MOST_LINES) emu_report_line("and %d more places", lines - MOST_LINES);
}

/* Where the fault was: a program counter, or NULL. */
static const void *fault_pc(const ucontext_t *context) {
#if defined(__x86_64__)
  return (const void *)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return (const void *)context->uc_mcontext.pc;
#else
  (void)context;
  return NULL;
#endif
}

/* A fault of the host's own code, after a launch: a line that says so, and where, or near what. */
static void report_host_fault(int number, const siginfo_t *info, const ucontext_t *context) {
  const char *const pc = fault_pc(context);
  const void *const behind = pc != NULL ? pc + 1 : NULL; /* a line is looked up as a call's, from behind it */
  emu_line line = {"?", 0};
  emu_source_lines(&behind, 1, &line);
  fprintf(stderr, "emulator: %s in the host's code, at %s:%d: no kernel was running\n", number == SIGFPE ? "integer division by zero" : "illegal access",
          line.file, line.line);
  if (number != SIGFPE) fprintf(stderr, "emulator:   of address %p; a function that returns nothing where it should has such an end, too\n", info->si_addr);
}

/* A fault inside a CUDA thread ends the process: memory may be in any state. Exit status as the shell shows a signal: 128 + its number. */
static void on_signal(int number, siginfo_t *info, void *context) {
  const emu_thread *t = emu_self;
  output_remove_partial();
  if (t == NULL && info->si_code > 0) report_host_fault(number, info, context);
  if (t == NULL || info->si_code <= 0) { /* host code, or sent by a process: not ours, so once more without us */
    signal(number, SIG_DFL);
    raise(number); /* what was sent does not come again by itself */
    return;
  }
  EMU_TELL(dying);
  const uint3 b = t->block->index, i = t->index;
  const emu_call *c = &t->block->launch->call;
  char what[128], text[512];
  if (number == SIGFPE) snprintf(what, sizeof what, "integer division by zero");
  else if (emu_stack_guards(emu_this_worker, info->si_addr))
    snprintf(what, sizeof what, "stack overflow: more than %zu KiB of local variables (EMU_STACK_KB=n gives more)", emu_stack_bytes() >> 10);
  else if (info->si_code == SI_KERNEL) /* the processor does not say where: such faults have no page */
    snprintf(what, sizeof what, "misaligned 8- or 16-byte access, or a wild pointer");
  else snprintf(what, sizeof what, "illegal access to address %p", info->si_addr);
  const int length = snprintf(text, sizeof text, "emulator: %s in %s, block (%u,%u,%u), thread (%u,%u,%u), launched at %s:%d\n", what, c->name, b.x, b.y, b.z,
                              i.x, i.y, i.z, c->where.file, c->where.line);
  if (write(STDERR_FILENO, text, (size_t)length) < 0) _exit(128 + number);
  _exit(128 + number);
}

void emu_catch_signals(void) {
  enum { ALTERNATE_BYTES = 64 << 10 };
  static __thread bool done;
  if (done) return;
  done = true;
  stack_t stack = {.ss_size = ALTERNATE_BYTES}; /* the fault may be a stack overflow, so the handler needs its own */
  stack.ss_sp = mmap(NULL, ALTERNATE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) != 0) return;
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  sigaction(SIGFPE, &action, NULL);
}
