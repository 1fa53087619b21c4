/* Bulk asynchronous copies (cp.async.bulk and its tensor form): a job for each, carried out by nobody's hand.
 *
 * By default a job is done when it is issued. In late mode (EMU_LATE=1; the check build's default) it is done as late as the rules allow: a load when no
 * thread can go on without it, with EMU_SEED at any time before; a store when its thread waits for its group. Until then the destination of a load holds
 * poison, and a store has not read its source. A kernel that reads before it waits, or fills a buffer that is still being stored, is right by luck in the
 * first mode and wrong in the second. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/hopper.h"
#include "common/emu/run/hopper.h"
#include "common/emu/run/jobs.h"
#include "common/emu/run/tensor_map.h"
#include "common/emu/tool/tool.h"

typedef enum { LOAD, BETWEEN, SENT /* st.async */, STORE, ADD } job_kind;

typedef struct emu_job {
  job_kind kind;
  emu_thread *thread; /* that issued it */
  unsigned group;     /* of its thread's bulk groups; stores */
  unsigned number;    /* the tool's; what reads the block's shared memory */
  emu_site where;
  uint32_t shared, to, bytes; /* in the issuer's shared memory; of BETWEEN and SENT: to, a cluster's address */
  uint32_t words[4];          /* SENT */
  unsigned char *global;      /* 1-D */
  uint32_t mbarrier;
  uint16_t blocks; /* ranks that a load goes to */
  bool tensor;
  emu_bulk_reduce type; /* ADD */
  emu_tensor_map map;
  int32_t coordinates[EMU_TENSOR_DIMS];
  uint16_t offsets[3];
  bool has_offsets, read; /* read: a store has its bytes */
  unsigned char *taken;   /* then: they are here */
} job;

/* Groups that a thread has committed. */
typedef struct bulk_thread {
  uint64_t launch;
  uint3 block;
  unsigned groups;
} bulk_thread;
static __thread bulk_thread *of_threads; /* by place in the worker's threads */
static __thread unsigned of_threads_room;

static bulk_thread *of(const emu_thread *t) {
  emu_worker *w = emu_this_worker;
  if (of_threads_room < w->room) {
    of_threads = emu_grow(of_threads, w->room, sizeof *of_threads, "the bulk copies of a block");
    memset(of_threads + of_threads_room, 0, (w->room - of_threads_room) * sizeof *of_threads);
    of_threads_room = w->room;
  }
  bulk_thread *b = &of_threads[t - w->threads];
  const uint3 at = t->block->index;
  if (b->launch != w->launch->serial || b->block.x != at.x || b->block.y != at.y || b->block.z != at.z) *b = (bulk_thread){w->launch->serial, at, 0};
  return b;
}

/* ---- one run of bytes, up to 16 ---- */

typedef struct carried {
  job *j;
  emu_block *block;
  unsigned char *next; /* of what a store has taken */
} carried;

static void poison_piece(void *context, uint32_t shared, unsigned char *global, unsigned bytes) {
  (void)global;
  memset(((carried *)context)->block->arena + shared, EMU_POISON, bytes);
}

static void load_piece(void *context, uint32_t shared, unsigned char *global, unsigned bytes) {
  const carried *c = context;
  unsigned char *to = c->block->arena + shared;
  if (global != NULL) memcpy(to, global, bytes);
  else if (c->j->map.fill == EMU_FILL_ZEROS) memset(to, 0, bytes);
  else
    for (unsigned i = 0; i < bytes; i++) to[i] = i % 2 ? 0x7F : 0xF7; /* a NaN in every type: what an H200 writes */
}

static void take_piece(void *context, uint32_t shared, unsigned char *global, unsigned bytes) {
  carried *c = context;
  (void)global;
  memcpy(c->next, c->block->arena + shared, bytes);
  c->next += bytes;
}

static void store_piece(void *context, uint32_t shared, unsigned char *global, unsigned bytes) {
  carried *c = context;
  (void)shared;
  const unsigned char *from = c->next;
  c->next += bytes;
  if (global == NULL) return; /* outside of the tensor */
  if (c->j->kind == ADD) emu_reduce_add(global, from, bytes, c->j->type);
  else memcpy(global, from, bytes);
}

static bool is_load(const job *j) { return j->kind == LOAD || j->kind == BETWEEN || j->kind == SENT; }

/* What a job touches in global memory, and of a store's source what goes there and what is dropped. */
static void tell_piece(void *context, uint32_t shared, unsigned char *global, unsigned bytes) {
  const job *j = ((const carried *)context)->j;
  const emu_access_kind kind = j->kind == ADD ? EMU_ATOMIC : j->kind == STORE ? EMU_WRITE : EMU_READ;
  if (global != NULL) EMU_TELL(bulk_global, global, bytes, kind, j->where);
  if (!is_load(j)) EMU_TELL(store_reads, shared, bytes, global != NULL, j->number, j->where);
}

static void walk(job *j, emu_box_piece *piece, carried *c) {
  if (j->tensor) {
    emu_box_walk(&j->map, j->coordinates, j->has_offsets ? j->offsets : NULL, !is_load(j), j->shared, piece, c);
    return;
  }
  for (uint32_t i = 0; i < j->bytes; i += 16) piece(c, j->shared + i, j->global + i, 16);
}

/* ---- jobs ---- */

static void end(job *j) { free(j->taken), free(j); }

/* A store reads its source. */
static void take(job *j) {
  if (j->read) return;
  j->read = true;
  j->taken = emu_take(1, j->bytes, "what a bulk store takes along");
  carried c = {j, j->thread->block, j->taken};
  walk(j, take_piece, &c);
}

/* Carries out what is left of a job. Its place in the list stays. */
static void carry_out(job *j) {
  emu_block *own = j->thread->block;
  if (j->kind == STORE || j->kind == ADD) {
    take(j);
    carried c = {j, own, j->taken};
    walk(j, store_piece, &c);
    return;
  }
  if (j->kind == BETWEEN || j->kind == SENT) {
    uint32_t to = j->to;
    emu_block *other = emu_shared_home(own, &to);
    memcpy(other->arena + to, j->kind == SENT ? (const unsigned char *)j->words : own->arena + j->shared, j->bytes);
    if (j->kind == BETWEEN) EMU_TELL(bulk_sent, j->thread, j->number, other, j->mbarrier % EMU_ARENA);
    EMU_TELL(bulk_arrived, other, to, j->bytes, j->mbarrier % EMU_ARENA, j->where);
    emu_mbarrier_complete(other, j->mbarrier % EMU_ARENA, j->bytes, j->where);
    return;
  }
  for (unsigned rank = 0; rank < own->team_size; rank++) {
    if (!(j->blocks >> rank & 1)) continue;
    carried c = {j, &own->team[rank], NULL};
    walk(j, load_piece, &c);
    EMU_TELL(bulk_arrived, c.block, j->shared, j->bytes, j->mbarrier, j->where);
    emu_mbarrier_complete(c.block, j->mbarrier, j->bytes, j->where);
  }
}

static void issue(const job *made) {
  emu_worker *w = emu_this_worker;
  job *j = emu_take(1, sizeof *j, "a bulk copy");
  *j = *made;
  j->thread = emu_self;
  j->group = of(emu_self)->groups;
  if (j->kind == LOAD && j->blocks == 0) j->blocks = (uint16_t)(1u << emu_self->block->rank);
  emu_jobs_append(is_load(j) ? &w->loads : &w->stores, j);
  if (j->kind == LOAD && (emu_late() || emu_the_tool != NULL)) /* else it is carried out below, before anybody sees the poison */
    for (unsigned rank = 0; rank < emu_self->block->team_size; rank++)
      if (j->blocks >> rank & 1) {
        carried c = {j, &emu_self->block->team[rank], NULL};
        walk(j, poison_piece, &c);
        EMU_TELL(bulk_issued, c.block, j->shared, j->bytes, j->mbarrier, true, j->where);
      }
  if (j->kind == BETWEEN || j->kind == SENT) {
    uint32_t to = j->to;
    emu_block *other = emu_shared_home(emu_self->block, &to);
    memset(other->arena + to, EMU_POISON, j->bytes);
    EMU_TELL(bulk_issued, other, to, j->bytes, j->mbarrier % EMU_ARENA, j->kind == BETWEEN, j->where);
  }
  if (!is_load(j) || j->kind == BETWEEN) EMU_TELL(store_issued, j->shared, j->bytes, j->where, &j->number);
  if (j->kind == BETWEEN) EMU_TELL(store_reads, j->shared, j->bytes, true, j->number, j->where);
  if (emu_the_tool != NULL && emu_the_tool->bulk_global != NULL && j->kind != BETWEEN && j->kind != SENT) {
    carried c = {j, emu_self->block, NULL};
    walk(j, tell_piece, &c);
  }
  if (emu_late()) return;
  carry_out(j);
  if (is_load(j)) end(emu_jobs_take(&w->loads, w->loads.count - 1));
}

bool emu_bulk_progress(emu_worker *w) {
  if (w->loads.count == 0) return false;
  const unsigned chosen = w->random != 0 ? (unsigned)((emu_random(&w->random) >> 32) * w->loads.count >> 32) : 0; /* by default the oldest */
  carry_out(w->loads.of[chosen]);
  end(emu_jobs_take(&w->loads, chosen));
  return true;
}

void emu_bulk_commit(void) { of(emu_self)->groups++; }

void emu_bulk_wait(int left, int read, const char *file, int line) {
  emu_worker *w = emu_this_worker;
  if (w->stores.count > 0) emu_linger("cp.async.bulk.wait_group", file, line);
  const unsigned groups = of(emu_self)->groups;
  unsigned last = 0;
  for (unsigned i = 0; i < w->stores.count; i++) {
    job *j = w->stores.of[i];
    if (j->thread != emu_self || j->group >= groups || groups - j->group <= (unsigned)left) continue;
    last = j->number;
    if (read) {
      take(j);
      continue;
    }
    if (emu_late()) carry_out(j);
    end(emu_jobs_take(&w->stores, i--));
  }
  if (last > 0) EMU_TELL(store_waited, emu_self, last);
}

/* What of a list the block has under way. */
static void end_of(emu_worker *w, emu_jobs *list) {
  unsigned kept = 0;
  for (unsigned i = 0; i < list->count; i++) {
    job *j = list->of[i];
    if (j->thread->block != w->block) {
      list->of[kept++] = j;
      continue;
    }
    if (emu_late() && !w->launch->failed) {
      if (is_load(j))
        emu_report_begin(w->launch, cudaErrorLaunchFailure, "block (%u,%u,%u) ends while the copy issued at %s:%d is under way: nobody waited for it",
                         w->block->index.x, w->block->index.y, w->block->index.z, j->where.file, j->where.line);
      else if (!j->read)
        emu_report_begin(w->launch, cudaErrorLaunchFailure,
                         "block (%u,%u,%u) ends while the store issued at %s:%d may still read its shared memory: no cp.async.bulk.wait_group after it",
                         w->block->index.x, w->block->index.y, w->block->index.z, j->where.file, j->where.line);
      else carry_out(j);
    }
    end(j);
  }
  list->count = kept;
}

/* Stores that nobody waited for; loads that nobody waited for. */
void emu_bulk_end_block(emu_worker *w) {
  emu_wgmma_end_block(w);
  if (emu_late()) emu_registers_end_block(w);
  end_of(w, &w->loads);
  end_of(w, &w->stores);
}

/* ---- the instructions ---- */

static void check_1d(const char *what, uint32_t shared, const void *global, uint32_t bytes, const char *file, int line) {
  emu_needs(90, what, file, line);
  if (shared % 16 != 0 || (uintptr_t)global % 16 != 0 || bytes % 16 != 0)
    emu_fail("%s at %s:%d: shared address %u, global address %p, %u bytes: expected multiples of 16", what, file, line, shared, global, bytes);
  if (shared % EMU_ARENA + bytes > EMU_ARENA) emu_fail("%s at %s:%d: %u bytes at shared address %u leave shared memory", what, file, line, bytes, shared);
}

static void check_blocks(uint16_t blocks, const char *file, int line) {
  if (blocks >> emu_self->block->team_size != 0)
    emu_fail("multicast copy at %s:%d: mask 0x%04x, expected blocks of a cluster of %u", file, line, blocks, emu_self->block->team_size);
}

#define HERE .where = {file, line}

void emu_bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier, uint16_t blocks, const char *file, int line) {
  check_1d("cp.async.bulk", to, from, bytes, file, line);
  check_blocks(blocks, file, line);
  issue(&(job){.kind = LOAD, .shared = to, .global = (unsigned char *)(uintptr_t)from, .bytes = bytes, .mbarrier = barrier, .blocks = blocks, HERE});
}

void emu_bulk_between(uint32_t to, uint32_t from, uint32_t bytes, uint32_t barrier, const char *file, int line) {
  check_1d("cp.async.bulk", from, NULL, bytes, file, line);
  check_1d("cp.async.bulk", to, NULL, bytes, file, line);
  if (to / EMU_ARENA != barrier / EMU_ARENA) emu_fail("cp.async.bulk at %s:%d: the mbarrier is not in the block that the bytes go to", file, line);
  if (emu_self->block->launch->call.cluster.x == 0) /* on an H200, though the manual calls such a block a cluster of its own */
    emu_illegal("cp.async.bulk at %s:%d, shared memory to shared memory: expected a launch with a cluster size (1 will do)", file, line);
  emu_shared_pointer(to); /* of a block that lives */
  issue(&(job){.kind = BETWEEN, .shared = from, .to = to, .bytes = bytes, .mbarrier = barrier, HERE});
}

void emu_st_async(uint32_t to, const uint32_t words[4], uint32_t barrier, const char *file, int line) {
  check_1d("st.async", to, NULL, 16, file, line);
  if (to / EMU_ARENA != barrier / EMU_ARENA) emu_fail("st.async at %s:%d: the mbarrier is not in the block that the bytes go to", file, line);
  emu_shared_pointer(to); /* of a block that lives */
  issue(&(job){.kind = SENT, .to = to, .bytes = 16, .words = {words[0], words[1], words[2], words[3]}, .mbarrier = barrier, HERE});
}

void emu_bulk_store(void *to, uint32_t from, uint32_t bytes, const char *file, int line) {
  check_1d("cp.async.bulk", from, to, bytes, file, line);
  issue(&(job){.kind = STORE, .shared = from, .global = to, .bytes = bytes, HERE});
}

void emu_bulk_reduce_add(void *to, uint32_t from, uint32_t bytes, emu_bulk_reduce type, const char *file, int line) {
  check_1d("cp.reduce.async.bulk", from, to, bytes, file, line);
  issue(&(job){.kind = ADD, .shared = from, .global = to, .bytes = bytes, .type = type, HERE});
}

/* The job of a box, but for its kind. The map is copied now: the kernel's parameter need not outlive the thread. */
static job box_job(const char *what, bool store, uint32_t shared, const void *map, int dims, const int32_t *coordinates, const uint16_t *offsets,
                   const char *file, int line) {
  emu_needs(90, what, file, line);
  job j = {.tensor = true, .shared = shared, .where = {file, line}};
  const char *why = emu_tensor_map_read(map, &j.map);
  if (why == NULL) why = emu_box_refused(&j.map, dims, offsets != NULL, shared);
  if (why == NULL && offsets != NULL) why = emu_box_offsets_refused(&j.map, offsets);
  if (why != NULL) emu_fail("%s at %s:%d: %s", what, file, line, why);
  why = emu_box_start_refused(&j.map, coordinates, store);
  if (why != NULL) emu_illegal("%s at %s:%d: %s", what, file, line, why);
  j.bytes = emu_box_bytes(&j.map);
  if (shared + j.bytes > EMU_ARENA) emu_fail("%s at %s:%d: a box of %u bytes at shared address %u leaves shared memory", what, file, line, j.bytes, shared);
  memcpy(j.coordinates, coordinates, (size_t)dims * sizeof *coordinates);
  j.has_offsets = offsets != NULL;
  if (offsets != NULL) memcpy(j.offsets, offsets, (size_t)(dims - 2) * sizeof *offsets);
  return j;
}

void emu_tensor_load(uint32_t to, const void *map, int dims, const int32_t *coordinates, const uint16_t *offsets, uint32_t barrier, uint16_t blocks,
                     const char *file, int line) {
  check_blocks(blocks, file, line);
  job j = box_job("cp.async.bulk.tensor", false, to, map, dims, coordinates, offsets, file, line);
  j.kind = LOAD, j.mbarrier = barrier, j.blocks = blocks;
  issue(&j);
}

void emu_tensor_store(const void *map, int dims, const int32_t *coordinates, uint32_t from, int adds, const char *file, int line) {
  job j = box_job("cp.async.bulk.tensor store", true, from, map, dims, coordinates, NULL, file, line);
  j.kind = adds ? ADD : STORE;
  j.type = j.map.element_bytes == 4 ? EMU_REDUCE_ADD_F32 : EMU_REDUCE_ADD_F16;
  issue(&j);
}

void emu_tensor_store_im2col(const void *map, int dims, const int32_t *coordinates, uint32_t from, const char *file, int line) {
  static const uint16_t none[EMU_TENSOR_DIMS];
  job j = box_job("cp.async.bulk.tensor.im2col_no_offs store", true, from, map, dims, coordinates, none, file, line);
  for (int d = 1; d < dims; d++)
    if (j.map.element_stride[d] != 1)
      emu_fail("cp.async.bulk.tensor.im2col_no_offs store at %s:%d: expected element strides of 1 (others were never seen on a GPU), got %d", file, line,
               j.map.element_stride[d]);
  for (int d = 0; d < dims - 2; d++) {
    if (j.map.lower[d] < 0)
      emu_fail("cp.async.bulk.tensor.im2col_no_offs store at %s:%d: expected lower corners from 0 on (others were never seen on a GPU), got %d in dimension %d",
               file, line, j.map.lower[d], d + 1);
    if (j.map.upper[d] > 0) /* on an H200 */
      emu_illegal("cp.async.bulk.tensor.im2col_no_offs store at %s:%d: expected corners within the tensor, got %d past its end in dimension %d", file, line,
                  j.map.upper[d], d + 1);
  }
  j.kind = STORE;
  issue(&j);
}
