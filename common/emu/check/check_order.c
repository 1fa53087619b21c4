/* Order between the blocks of a launch. Blocks have none, but for what fences and atomics make, and this file keeps account of that:
 *
 *   block A                                     block B
 *   write x          by any of its threads
 *   __threadfence    publishes what its thread knows of
 *   atomicAdd(&n)    carries to n what its thread knows to be published
 *                                               atomicAdd(&n)   learns what all atomics on n before it have carried there
 *                                               read x          by a thread that comes after that atomic
 *
 * "Knows of" is what check_shared.c's clocks say: a thread knows what it did itself, and what others did before a barrier that both passed.
 * So a fence by one thread publishes the whole block's writes before the barrier in front of that fence, but not what the others wrote with
 * no barrier between; a fence by every thread and then a barrier does it as well, as seen by the atomic behind the barrier. That is the
 * memory model of PTX ("Memory Consistency Model", causality order): __threadfence is fence.sc at the scope of the GPU, barriers and
 * fences are cumulative, a fence followed by an atomic is a release pattern, and read-modify-writes carry on the release of those before
 * them. One thing of it is not asked for: the reader's fence, between its atomic and what it reads. The vendor's own examples leave it out.
 *
 * Time. A write has the time 2 e, where e is the epoch of its warp (its clock, plus 1), or 2 e + 1 if its thread has fenced in that epoch.
 * Then, block by block and thread by thread, what is published is all up to some time.
 *
 * Blocks run on several workers; whatever they share is behind one lock, which launches without a fence never take. A release is noted
 * before its atomic is done, an acquire after: so an atomic that sees another one's value also finds its note. Where there is more to keep
 * than memory for it (MOST_BYTES), everything counts as ordered. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/check/check.h"

enum { BUCKETS = 1024, MOST_BYTES = 512 << 20, MOST_ACQUIRES = 4096 };

/* What an atomic carried to its address. */
typedef struct release {
  struct release *next;
  uintptr_t address;
  uint64_t number; /* counts the launch's releases, from 1 */
  uint32_t upto[]; /* for each thread of the block: its writes up to this time */
} release;

/* An atomic that learned what was released at its address, but for numbers from `number` on. */
typedef struct acquire {
  uintptr_t address;
  uint64_t number;
  uint32_t epoch; /* its warp's, when it was done */
  unsigned thread;
} acquire;

/* A block that has released or acquired something. */
typedef struct emu_party {
  struct emu_party *next, *next_in_bucket;
  uint32_t block;
  release *releases;
  acquire *acquires;
  size_t acquire_count, acquire_room;
} party;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static party *parties, *buckets[BUCKETS];
static uint64_t releases; /* of this launch; atomic */
static size_t bytes;
static bool overflow; /* there was more than we keep */

static void *keep(void *old, size_t old_bytes, size_t new_bytes) {
  bytes += new_bytes - old_bytes;
  if (bytes > MOST_BYTES) overflow = true;
  return emu_grow(old, 1, new_bytes, "the order between blocks");
}

static party *find(uint32_t block) {
  party *p = buckets[block % BUCKETS];
  while (p != NULL && p->block != block) p = p->next_in_bucket;
  return p;
}

static party *party_of(emu_checker *c) {
  if (c->party != NULL) return c->party;
  const uint32_t block = c->block & EMU_BLOCK_MASK;
  party *p = find(block);
  if (p == NULL) {
    p = keep(NULL, 0, sizeof *p);
    *p = (party){.next = parties, .next_in_bucket = buckets[block % BUCKETS], .block = block};
    parties = buckets[block % BUCKETS] = p;
  }
  return c->party = p;
}

void emu_order_end_launch(void) {
  while (parties != NULL) {
    party *p = parties;
    parties = p->next;
    while (p->releases != NULL) {
      release *r = p->releases;
      p->releases = r->next;
      free(r);
    }
    free(p->acquires);
    free(p);
  }
  memset(buckets, 0, sizeof buckets);
  releases = bytes = 0;
  overflow = false;
}

/* ---- within the block ---- */

/* Warps that meet learn what any of them knew to be published. */
void emu_order_meet(emu_checker *c, uint32_t set, int warps) {
  uint32_t known[EMU_WARPS] = {0};
  for (int a = 0; a < warps; a++)
    for (int b = 0; b < warps && set >> a & 1; b++)
      if (c->published[a][b] > known[b]) known[b] = c->published[a][b];
  for (int a = 0; a < warps; a++)
    if (set >> a & 1) memcpy(c->published[a], known, (size_t)warps * sizeof *known);
}

void emu_order_fence(void) {
  emu_checker *c = emu_checking;
  const unsigned thread = emu_self->number, w = thread / EMU_WARP;
  const uint32_t epoch = c->clock[w][w] + 1;
  if (!c->fenced) memset(c->published, 0, sizeof c->published);
  c->fenced = true;
  for (int b = 0; b < EMU_WARPS; b++)
    if (c->clock[w][b] > c->published[w][b]) c->published[w][b] = c->clock[w][b];
  emu_fences *f = &c->fences[thread];
  if (f->stamp != c->stamp) *f = (emu_fences){.stamp = c->stamp};
  if (f->count > 0 && f->last[0].epoch == epoch) {
    f->last[0].upto = 2 * epoch + 1;
    return;
  }
  memmove(&f->last[1], &f->last[0], (EMU_FENCES - 1) * sizeof f->last[0]);
  f->last[0].epoch = epoch;
  f->last[0].upto = 2 * epoch;
  f->count++;
}

/* Up to which time the thread's own fences have published what it wrote, as a thread of warp w knows that has come to the given epoch of the
 * other's warp. Of fences before its last few the oldest we have speaks: that may hide a defect, but invents none. */
static uint32_t own_fences(const emu_checker *c, unsigned thread, uint32_t epoch) {
  const emu_fences *f = &c->fences[thread];
  if (f->stamp != c->stamp) return 0;
  for (int i = 0; i < f->count && i < EMU_FENCES; i++)
    if (f->last[i].epoch <= epoch) return f->last[i].upto;
  return f->count > EMU_FENCES ? f->last[EMU_FENCES - 1].upto : 0;
}

/* ---- between blocks ---- */

void emu_order_release(emu_checker *c, const void *address) {
  if (!c->fenced) return;
  const unsigned thread = emu_self->number, w = thread / EMU_WARP, threads = emu_self->block->thread_count;
  release *r = emu_take(1, sizeof *r + threads * sizeof r->upto[0], "the order between blocks");
  r->address = (uintptr_t)address;
  bool any = false;
  for (unsigned i = 0; i < threads; i++) {
    const uint32_t published = c->published[w][i / EMU_WARP], known = i == thread ? UINT32_MAX : c->clock[w][i / EMU_WARP];
    const uint32_t warp = published > 0 ? 2 * published + 1 : 0, own = own_fences(c, i, known);
    r->upto[i] = own > warp ? own : warp;
    any |= r->upto[i] > 0;
  }
  pthread_mutex_lock(&lock);
  if (any && !overflow) {
    party *p = party_of(c);
    bytes += sizeof *r + threads * sizeof r->upto[0];
    overflow |= bytes > MOST_BYTES;
    r->next = p->releases;
    r->number = __atomic_load_n(&releases, __ATOMIC_RELAXED) + 1;
    p->releases = r;
    __atomic_store_n(&releases, r->number, __ATOMIC_RELAXED);
    r = NULL;
  }
  pthread_mutex_unlock(&lock);
  free(r);
}

/* Room for one more of the block's. */
static acquire *new_acquire(party *p) {
  if (p->acquire_count == p->acquire_room) {
    const size_t room = p->acquire_room > 0 ? 2 * p->acquire_room : 4;
    p->acquires = keep(p->acquires, p->acquire_room * sizeof(acquire), room * sizeof(acquire));
    p->acquire_room = room;
  }
  return &p->acquires[p->acquire_count++];
}

void emu_order_cluster(emu_checker *const *blocks, unsigned count, unsigned threads) {
  static uintptr_t meetings;
  pthread_mutex_lock(&lock);
  const uintptr_t address = ~meetings++; /* nobody else's */
  for (unsigned i = 0; i < count && !overflow; i++) {
    party *p = party_of(blocks[i]);
    release *r = keep(NULL, 0, sizeof *r + threads * sizeof r->upto[0]);
    *r = (release){.next = p->releases, .address = address, .number = __atomic_add_fetch(&releases, 1, __ATOMIC_RELAXED)};
    for (unsigned t = 0; t < threads; t++) r->upto[t] = 2 * blocks[i]->clock[t / EMU_WARP][t / EMU_WARP] + 1;
    p->releases = r;
  }
  for (unsigned i = 0; i < count && !overflow; i++) {
    party *p = party_of(blocks[i]);
    if (p->acquire_count == MOST_ACQUIRES) overflow = true;
    else *new_acquire(p) = (acquire){address, releases + 1, blocks[i]->clock[0][0], 0}; /* all its threads know that warp 0 has come so far */
  }
  pthread_mutex_unlock(&lock);
}

void emu_order_acquire(emu_checker *c, const void *address, bool always) {
  if (!always && __atomic_load_n(&releases, __ATOMIC_RELAXED) == 0) return;
  const unsigned thread = emu_self->number, w = thread / EMU_WARP;
  pthread_mutex_lock(&lock);
  party *p = party_of(c);
  const acquire now = {(uintptr_t)address, always ? UINT64_MAX : releases + 1, c->clock[w][w] + 1, thread};
  acquire *last = p->acquire_count > 0 ? &p->acquires[p->acquire_count - 1] : NULL;
  if (last != NULL && last->address == now.address && last->thread == thread && last->epoch == now.epoch) {
    *last = now;
  } else if (p->acquire_count == MOST_ACQUIRES) {
    overflow = true;
  } else {
    *new_acquire(p) = now;
  }
  pthread_mutex_unlock(&lock);
}

/* Whether the release is the one that is looked for: of that block, after that write; EMU_SEVERAL: of any other block. */
typedef struct wanted {
  uint32_t me, block, when;
  unsigned thread;
} wanted;
static bool fits(const wanted *want, const party *p, const release *r) {
  return want->block == EMU_SEVERAL ? p->block != want->me : p->block == want->block && r->upto[want->thread] >= want->when;
}

/* An address, and up to where its releases are known. */
typedef struct place {
  uintptr_t address;
  uint64_t number;
} place;
typedef struct place_list {
  place *at;
  size_t count, room;
} place_list;

static void add_place(place_list *list, uintptr_t address, uint64_t number) {
  for (size_t i = 0; i < list->count; i++)
    if (list->at[i].address == address && list->at[i].number >= number) return;
  if (list->count == list->room) {
    list->room = list->room > 0 ? 2 * list->room : 16;
    list->at = emu_grow(list->at, list->room, sizeof *list->at, "the order between blocks");
  }
  list->at[list->count++] = (place){address, number};
}

/* Whether one of the releases known at these places fits, or is known to the block of one of them, and so on. */
static bool leads_to(place_list *known, const wanted *want) {
  const party *const sought = want->block == EMU_SEVERAL ? NULL : find(want->block);
  for (size_t i = 0; i < known->count; i++) /* most often it is here */
    for (const release *r = sought != NULL ? sought->releases : NULL; r != NULL; r = r->next)
      if (r->address == known->at[i].address && r->number < known->at[i].number && fits(want, sought, r)) return true;
  for (size_t i = 0; i < known->count; i++)
    for (const party *p = parties; p != NULL; p = p->next)
      for (const release *r = p->releases; r != NULL; r = r->next) {
        if (r->address != known->at[i].address || r->number >= known->at[i].number) continue;
        if (fits(want, p, r)) return true;
        for (size_t a = 0; a < p->acquire_count; a++)
          if (p->acquires[a].number == UINT64_MAX || p->acquires[a].number <= r->number) add_place(known, p->acquires[a].address, p->acquires[a].number);
      }
  return false;
}

bool emu_order_knows(emu_checker *c, uint32_t block, unsigned thread, uint32_t when) {
  if (__atomic_load_n(&releases, __ATOMIC_RELAXED) == 0) return false;
  const unsigned self = emu_self->number, w = self / EMU_WARP;
  if (thread >= emu_self->block->thread_count) return false; /* somebody is just writing there */
  const wanted want = {c->block & EMU_BLOCK_MASK, block, when, thread};
  place_list known = {0};
  pthread_mutex_lock(&lock);
  const party *p = find(want.me);
  for (size_t i = 0; p != NULL && i < p->acquire_count; i++) {
    const acquire *a = &p->acquires[i];
    if (a->thread == self || c->clock[w][a->thread / EMU_WARP] >= a->epoch) add_place(&known, a->address, a->number);
  }
  const bool knows = overflow || leads_to(&known, &want);
  pthread_mutex_unlock(&lock);
  free(known.at);
  return knows;
}
