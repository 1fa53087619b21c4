/* Shared memory: one arena per worker, laid out anew by each launch.
 *
 *   0      1024                     + dynamic bytes                                          256 KiB
 *   | kept | extern __shared__ ...   | red zone | __shared__ a | red zone | __shared__ b | red zone | ...
 *
 * Declarations get their place when a thread first comes by, the same in every block. All bytes are 0xFF when a block starts; those
 * behind an array must still be so when it ends. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/emu/hopper.h"
#include "common/emu/tool/tool.h"

unsigned char *emu_arena_create(void) {
  const size_t bytes = (size_t)EMU_MAX_CLUSTER * EMU_ARENA;
  unsigned char *arena = emu_pages(bytes);
  if (arena == NULL) emu_no_memory(bytes, "the shared memory of blocks");
  memset(arena, EMU_POISON, EMU_ARENA); /* the others when there is a cluster */
  return arena;
}

void emu_shared_begin_launch(emu_launch *launch) {
  launch->shared_used = EMU_RESERVED_SHARED + launch->call.shared_bytes + EMU_RED_ZONE;
  launch->static_shared = 0;
  launch->site_count = 0;
}

/* Gives the declaration its place in this launch. */
static void place(emu_launch *launch, emu_shared_site *site) {
  const char *problem = NULL;
  pthread_mutex_lock(&launch->lock);
  if (site->serial != launch->serial) {
    const size_t start = (launch->shared_used + site->align - 1) & ~(site->align - 1);
    if (launch->site_count == EMU_MAX_SITES) {
      problem = "more than 64 __shared__ declarations";
    } else if (launch->static_shared + site->bytes > EMU_DEFAULT_SHARED) {
      problem = "more than 48 KB of __shared__ arrays; beyond that use extern __shared__";
    } else if (launch->static_shared + site->bytes + launch->call.shared_bytes > EMU_DEFAULT_SHARED &&
               launch->call.shared_bytes > launch->kernel->max_dynamic_shared) {
      problem = "with the dynamic shared memory more than 48 KB, without cudaFuncAttributeMaxDynamicSharedMemorySize";
    } else if (launch->static_shared + site->bytes + launch->call.shared_bytes > EMU_MAX_SHARED || start + site->bytes + EMU_RED_ZONE > EMU_ARENA) {
      problem = "more than 227 KB of __shared__ arrays and dynamic shared memory";
    } else {
      launch->sites[launch->site_count++] = site;
      site->offset = site->bytes == 0 ? (size_t)EMU_RESERVED_SHARED : start;
      if (site->bytes != 0) {
        launch->static_shared += site->bytes;
        launch->shared_used = start + site->bytes + EMU_RED_ZONE;
      }
      EMU_TELL(shared_placed, launch, site);
      __atomic_store_n(&site->serial, launch->serial, __ATOMIC_RELEASE);
    }
  }
  pthread_mutex_unlock(&launch->lock);
  if (problem != NULL) emu_fail("%s:%d: %s %s: %s", site->where.file, site->where.line, site->type, site->name, problem);
}

void *emu_shared(emu_shared_site *site) {
  emu_block *block = emu_self->block;
  if (__atomic_load_n(&site->serial, __ATOMIC_ACQUIRE) != block->launch->serial) place(block->launch, site);
  return block->arena + site->offset;
}

/* How many bytes behind `end` somebody wrote, or 0. */
static size_t damaged(const unsigned char *end) {
  for (size_t i = 0; i < EMU_RED_ZONE; i++)
    if (end[i] != EMU_POISON) return i + 1;
  return 0;
}

void emu_arena_end_block(emu_worker *w) {
  emu_launch *launch = w->launch;
  const uint3 b = w->block->index;
  bool whole = true;
  pthread_mutex_lock(&launch->lock);
  const size_t used = launch->shared_used, dynamic_end = EMU_RESERVED_SHARED + launch->call.shared_bytes;
  const int site_count = launch->site_count;
  pthread_mutex_unlock(&launch->lock);
  for (int i = 0; i < site_count && whole; i++) {
    const emu_shared_site *s = launch->sites[i];
    const size_t past = damaged(w->block->arena + (s->bytes == 0 ? dynamic_end : s->offset + s->bytes));
    if (past == 0) continue;
    whole = false;
    emu_report_begin(launch, cudaErrorLaunchFailure, "block (%u,%u,%u) wrote past the end of shared %s %s, declared at %s:%d (byte %zu behind it)", b.x, b.y,
                     b.z, s->type, s->name, s->where.file, s->where.line, past);
  }
  memset(w->block->arena + EMU_RESERVED_SHARED, EMU_POISON, used - EMU_RESERVED_SHARED);
}
