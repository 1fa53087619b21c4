/* What the counter's files share. The counter runs some blocks of a launch with the lanes of each warp in lockstep and notes every access:
 *
 *   count_step.c     lockstep: of a warp's lanes, those with the lowest program counter go on; what they access together is a request
 *   count_request.c  what a request costs: sectors, wavefronts
 *   count_launch.c   which launches and blocks, totals over all blocks
 *   count_report.c   the listing; count_json.c the same for programs */
#pragma once
#include "common/emu/check/check.h"
#include "common/harness/gpus.h"

typedef enum { EMU_GLOBAL, EMU_SHARED, EMU_CONSTANT, EMU_OTHER } emu_space;

/* One lane's part in a request. */
typedef struct emu_touch {
  const void *pc;
  uintptr_t address;
  uint32_t bytes;
  emu_access_kind kind;
  emu_space space;
  unsigned lane;
} emu_touch;

/* One memory instruction: its program counter and what all its requests cost. */
typedef struct emu_instruction {
  const void *pc; /* NULL: a free place in the table */
  emu_space space;
  emu_access_kind kind; /* read, write or atomic */
  uint32_t bytes;       /* per lane */
  uint64_t requests, lanes, sectors, wavefronts;
  char array[32];
  const char *file; /* filled in by the report */
  int line;
} emu_instruction;

enum { EMU_INSTRUCTIONS = 4096 };

/* What was counted in a launch; each worker has its own until the end. */
typedef struct emu_counts {
  emu_instruction instruction[EMU_INSTRUCTIONS]; /* by a hash of the program counter */
  uint64_t asked_read, asked_written;            /* bytes, all blocks */
  uint64_t distinct_read, distinct_written;      /* bytes, all blocks: what had to come from memory and go there at least once */
  uint64_t most_read;                            /* bytes, of the block that asked for most */
  uint64_t sampled;                              /* blocks that ran in lockstep */
} emu_counts;

/* Adds one request: n lanes' accesses by one instruction. */
void emu_count_request(emu_counts *counts, emu_worker *w, const emu_touch *const touch[], int n);
void emu_count_name_array(uintptr_t address, char *name, size_t room); /* of global memory, as the reader knows it */
unsigned emu_sectors(const emu_touch *const touch[], int n);
unsigned emu_wavefronts(const emu_touch *const touch[], int n); /* in shared memory addresses are offsets into the arena */

/* count_step.c */
void emu_step_begin_block(emu_worker *w);
void emu_step_end_block(emu_worker *w);
void emu_step_pause(bool pause); /* the running thread does not stop at basic blocks */
void emu_step_make_ready(emu_worker *w, emu_thread *t);
emu_thread *emu_step_take_ready(emu_worker *w);
void emu_step_log(emu_worker *w, const emu_touch *touch);

/* What the engines did in a launch, all lines together. */
typedef struct emu_engine_sums {
  uint64_t copied_in, products; /* bytes into shared memory; multiply-adds of the tensor cores */
  uint64_t wgmmas,
      on_their_way; /* and bytes that the block's mbarriers were due when one was asked for, nobody having waited for them yet; of all wgmmas together */
} emu_engine_sums;

/* count_engines.c */
void emu_count_bulk_issued(emu_block *block, uint32_t shared, uint32_t bytes, uint32_t mbarrier, bool engine, emu_site where);
void emu_count_store_issued(uint32_t shared, uint32_t bytes, emu_site where, unsigned *number);
void emu_count_bulk_global(const void *address, size_t bytes, emu_access_kind kind, emu_site where);
void emu_count_wgmma_issued(const struct emu_wgmma_record *what, unsigned group, emu_site where);
void emu_count_mma_issued(unsigned products, emu_site where);
void emu_count_mbarrier_passed(emu_thread *t, uint32_t mbarrier, emu_site where);
void emu_count_engines_begin_block(void);
void emu_count_engines_forget(void);
void emu_count_engines_print(double flops); /* of the problem; 0: unknown */
emu_engine_sums emu_count_engines_sums(void);
int emu_count_engines_rows(emu_instruction *rows, int room); /* what copies add to global memory; of how many lines */

void emu_count_global(const void *address, size_t bytes, bool writes); /* count_launch.c: into the totals, by nobody's request */
void emu_count_source_text(const char *file, int line, char *text, size_t room);

/* A worker that counts. */
typedef struct emu_counter {
  emu_worker *worker;
  emu_counts counts;
  uint32_t stamp;        /* of the launch, in emu_seen */
  uint64_t before_block; /* asked_read, when the block began */
  emu_shadow cache[EMU_CACHED];
  /* lockstep */
  uint32_t ready[EMU_WARPS]; /* lanes that can go on */
  uint32_t group;            /* lanes of the current warp that still have to take this step */
  unsigned warp;
  uintptr_t pc[EMU_MAX_THREADS];   /* the basic block that each thread is about to run */
  uint32_t depth[EMU_MAX_THREADS]; /* of its stack: threads inside a called function go first */
  struct {
    emu_touch *at;
    int count, room;
  } log[EMU_WARP]; /* what each lane has accessed in this step */
  bool logged;     /* any of them */
} emu_counter;

/* A launch that has been counted. */
typedef struct emu_counted {
  const char *name;
  emu_site where;
  dim3 grid, block;
  size_t shared_bytes, static_shared;
  double flops;      /* 0: nobody said */
  const char *whose; /* "": nobody said */
  uint64_t blocks;
  emu_counts counts;
} emu_counted;

/* count_launch.c */
extern const emu_tool emu_counter_tool;
void emu_count_see(const void *address, size_t bytes, emu_access_kind kind, const void *pc);

void emu_count_print(emu_counted *launch);
void emu_count_json_open(void); /* before the first launch; ends the program where the file cannot be written */
void emu_count_json(const emu_counted *launch);
int emu_count_rows(const emu_counted *launch, emu_instruction *rows, int room); /* by line; equal ones merged */

/* What a GPU can do at best. */
const gpu_limits *emu_count_gpu(void); /* GPU=name; an unknown one ends the program */
