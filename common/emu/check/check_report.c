/* Defects: noted while a launch runs, printed when it ends, each once per line of the source.
 *
 *   emulator check: KIND: KERNEL, FILE:LINE, ARRAY, byte N, block (x,y,z), thread (x,y,z)[; the other side of a race]
 *
 * Why at the end: finding the line starts another program, which a thread on a small stack in the middle of a block had better not do. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/emu/check/check.h"
#include "common/emu/tool/source_line.h"

enum { MOST = 64 };

typedef struct defect {
  emu_defect_kind kind;
  const void *pc;
  emu_other other;
  bool has_other;
  uint3 block, thread;
  char array[256];
} defect;

static defect noted[MOST];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const kind_name[] = {"out-of-bounds", "uninitialised", "race", "block-race", "host-pointer", "misaligned", "overlap", "proxy"};
static const char *const access_name[] = {"read it", "wrote it", "atomically changed it", [EMU_WAITED] = "waited for that one"};

void emu_check_note(emu_defect_kind kind, const void *pc, const emu_other *other, const char *array, ...) {
  pthread_mutex_lock(&lock);
  bool known = count == MOST;
  for (int i = 0; i < count && !known; i++) known = noted[i].kind == kind && noted[i].pc == pc;
  if (!known) {
    defect *d = &noted[count++];
    *d = (defect){.kind = kind, .pc = pc, .has_other = other != NULL, .block = emu_self->block->index, .thread = emu_self->index};
    if (other != NULL) d->other = *other;
    va_list arguments;
    va_start(arguments, array);
    vsnprintf(d->array, sizeof d->array, array, arguments);
    va_end(arguments);
  }
  pthread_mutex_unlock(&lock);
}

/* The first barrier that some threads of a block did not come to, because they had ended. No defect, but a reason for races. */
static emu_site left_at;
static unsigned left_ended, left_of;
static uint3 left_block;
static int left; /* atomic: it is known */

void emu_check_barrier_left(emu_block *block, emu_site where) {
  if (__atomic_load_n(&left, __ATOMIC_ACQUIRE)) return;
  pthread_mutex_lock(&lock);
  if (!left) left_at = where, left_ended = block->thread_count - block->alive, left_of = block->thread_count, left_block = block->index;
  __atomic_store_n(&left, 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&lock);
}

/* ---- lines that wrappers tell ---- */

enum { MOST_SITES = 4096 };
static emu_site sites[MOST_SITES];
static int site_count;
static const uint32_t FIRST_SITE = 0x80000000u;

const void *emu_site_pc(emu_site where) {
  static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
  static __thread int last;
  if (last < site_count && sites[last].line == where.line && sites[last].file == where.file) return emu_long_pc(FIRST_SITE + (uint32_t)last);
  pthread_mutex_lock(&table);
  int i = 0;
  while (i < site_count && !(sites[i].line == where.line && strcmp(sites[i].file, where.file) == 0)) i++;
  if (i == site_count && site_count < MOST_SITES) sites[site_count++] = where;
  pthread_mutex_unlock(&table);
  last = i < MOST_SITES ? i : 0;
  return emu_long_pc(FIRST_SITE + (uint32_t)last);
}

static uint3 position(uint64_t index, dim3 size) {
  return (uint3){(unsigned)(index % size.x), (unsigned)(index / size.x % size.y), (unsigned)(index / ((uint64_t)size.x * size.y))};
}

static void print_other(const defect *d, emu_line where, const emu_call *call) {
  fprintf(stderr, "; ");
  if (d->other.block == -2) fprintf(stderr, "several blocks");
  if (d->other.block == EMU_EARLIER) fprintf(stderr, "an earlier launch, which may be at work still,");
  if (d->other.block >= 0) {
    const uint3 b = position((uint64_t)d->other.block, call->grid);
    fprintf(stderr, "block (%u,%u,%u)%s", b.x, b.y, b.z, d->other.thread >= 0 ? ", " : "");
  }
  if (d->other.thread >= 0 && d->other.block != -2) {
    const uint3 t = position((uint64_t)d->other.thread, call->block);
    fprintf(stderr, "thread (%u,%u,%u)", t.x, t.y, t.z);
  }
  static const char *const engine_name[] = {"a copy", "the tensor cores", "a store", "another block of the cluster"};
  if (d->other.thread <= EMU_COPY && d->other.thread >= EMU_VISITOR) fprintf(stderr, "%s", engine_name[EMU_COPY - d->other.thread]);
  fprintf(stderr, " %s", access_name[d->other.access]);
  if (where.line != 0) fprintf(stderr, " at %s:%d", where.file, where.line);
}

void emu_check_print(emu_launch *launch) {
  pthread_mutex_lock(&lock);
  const void *pcs[2 * MOST];
  emu_line lines[2 * MOST];
  for (int i = 0; i < count; i++) {
    pcs[2 * i] = noted[i].pc;
    pcs[2 * i + 1] = noted[i].has_other ? noted[i].other.pc : NULL;
  }
  if (count > 0) emu_source_lines(pcs, 2 * (size_t)count, lines);
  for (int i = 0; i < 2 * count; i++)
    if (pcs[i] != NULL && emu_short_pc(pcs[i]) >= FIRST_SITE) {
      const emu_site at = sites[emu_short_pc(pcs[i]) - FIRST_SITE];
      lines[i] = (emu_line){at.file, at.line};
    }
  int printed = 0;
  bool races = false;
  for (int i = 0; i < count; i++) {
    const defect *d = &noted[i];
    bool seen = false;
    for (int j = 0; j < i && !seen; j++)
      seen = noted[j].kind == d->kind && lines[2 * j].line != 0 && lines[2 * j].line == lines[2 * i].line && strcmp(lines[2 * j].file, lines[2 * i].file) == 0;
    if (seen) continue;
    if (printed++ == 0) fflush(stdout);
    races |= d->kind == EMU_RACE || d->kind == EMU_UNINITIALISED;
    fprintf(stderr, "emulator check: %s: %s, %s:%d, %s, block (%u,%u,%u), thread (%u,%u,%u)", kind_name[d->kind], launch->call.name, lines[2 * i].file,
            lines[2 * i].line, d->array, d->block.x, d->block.y, d->block.z, d->thread.x, d->thread.y, d->thread.z);
    if (d->has_other) print_other(d, lines[2 * i + 1], &launch->call);
    fprintf(stderr, "\n");
  }
  const bool full = count == MOST;
  const bool tell = races && left;
  const emu_site at = left_at;
  const unsigned ended = left_ended, of = left_of;
  const uint3 in = left_block;
  count = left = 0;
  pthread_mutex_unlock(&lock);
  if (printed > 0)
    emu_report_begin(launch, cudaErrorLaunchFailure, "the checker found %s%d defect%s", full ? "at least " : "", printed, printed == 1 ? "" : "s");
  if (tell) emu_report_line("%u of %u threads had ended when the others met at %s:%d, block (%u,%u,%u)", ended, of, at.file, at.line, in.x, in.y, in.z);
}
