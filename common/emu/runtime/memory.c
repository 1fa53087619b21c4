/* Memory of the device and pinned memory of the host: a table of what is allocated, in order of address.
 *
 * Around every allocation lie 512 bytes that nobody may write; cudaFree looks whether that held. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/emu/tool/tool.h"
#include "common/harness/memory.h"

enum { GUARD_BYTES = 512, GUARD = 0xFD }; /* 512: the alignment that CUDA gives */

typedef enum { DEVICE, PINNED, SYMBOL } place;

typedef struct allocation {
  unsigned char *start;
  size_t bytes;
  uint64_t serial; /* counts allocations: "allocation 3" is the third of the program */
  place where;
  char name[16]; /* of the one array that was marked in it, and a comma */
  bool marked;
} allocation;

static allocation *table;
static size_t count, room;
static uint64_t serial;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Index of the last allocation that starts at or before the address, plus 1; 0 if there is none. */
static size_t upper_bound(const void *address) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (table[middle].start <= (const unsigned char *)address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static bool add(void *start, size_t bytes, place where) {
  bool added = true;
  pthread_mutex_lock(&lock);
  if (count == room) {
    const size_t more = room ? 2 * room : 64;
    allocation *larger = realloc(table, more * sizeof *table);
    if (larger != NULL) {
      table = larger;
      room = more;
    } else {
      added = false;
    }
  }
  if (added) {
    const size_t at = upper_bound(start);
    memmove(&table[at + 1], &table[at], (count - at) * sizeof *table);
    table[at] = (allocation){.start = start, .bytes = bytes, .serial = ++serial, .where = where};
    count++;
  }
  pthread_mutex_unlock(&lock);
  return added;
}

/* Removes the entry that starts at the address; false if there is none of that kind. */
static bool take_out(void *start, place where, allocation *out) {
  pthread_mutex_lock(&lock);
  const size_t at = upper_bound(start);
  const bool found = at > 0 && table[at - 1].start == start && table[at - 1].where == where;
  if (found) {
    *out = table[at - 1];
    memmove(&table[at - 1], &table[at], (count - at) * sizeof *table);
    count--;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

bool emu_is_device(const void *pointer, size_t bytes) {
  pthread_mutex_lock(&lock);
  const size_t at = upper_bound(pointer);
  const unsigned char *p = pointer;
  const bool inside = at > 0 && p + bytes <= table[at - 1].start + table[at - 1].bytes;
  pthread_mutex_unlock(&lock);
  return inside;
}

void emu_name_allocation(const void *start, const char *name) {
  pthread_mutex_lock(&lock);
  const size_t at = upper_bound(start);
  allocation *a = at > 0 ? &table[at - 1] : NULL;
  if (a != NULL && (const unsigned char *)start < a->start + a->bytes) {
    if (a->marked) a->name[0] = '\0';
    else snprintf(a->name, sizeof a->name, "%.13s, ", name);
    a->marked = true;
  }
  pthread_mutex_unlock(&lock);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  if (free_bytes == NULL || total_bytes == NULL) return emu_error(cudaErrorInvalidValue);
  const memory_bytes host = memory_of_process("");
  *free_bytes = host.available;
  *total_bytes = host.total;
  return cudaSuccess;
}

/* With a tool, device memory has a part of the address space for itself, and no address is used twice: so that an index that went wrong
 * can be told from a pointer of the host, whatever lies next to each other in the heap. */
static const uintptr_t DEVICE_START = (uintptr_t)1 << 45, DEVICE_END = (uintptr_t)3 << 44;

bool emu_is_device_space(uintptr_t address) { return address - DEVICE_START < DEVICE_END - DEVICE_START; }

static size_t in_pages(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

static void *take_memory(size_t bytes) {
  static uintptr_t next = (uintptr_t)1 << 45;
  if (emu_the_tool == NULL) return aligned_alloc(GUARD_BYTES, bytes);
  const uintptr_t hint = __atomic_fetch_add(&next, in_pages(bytes), __ATOMIC_RELAXED);
  void *memory = mmap((void *)hint, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void give_memory(void *memory, size_t bytes) {
  if (emu_the_tool == NULL) free(memory);
  else munmap(memory, bytes);
}

static size_t with_guards(size_t bytes) { return GUARD_BYTES + ((bytes + GUARD_BYTES - 1) & ~(size_t)(GUARD_BYTES - 1)) + GUARD_BYTES; }

/* Adds it and tells the tool; false: one of them has no memory for it. */
static bool enter(void *start, size_t bytes, place where) {
  allocation added;
  if (!add(start, bytes, where)) return false;
  if (emu_the_tool == NULL || emu_the_tool->allocated == NULL || emu_the_tool->allocated(start, bytes, serial, where == PINNED)) return true;
  take_out(start, where, &added);
  return false;
}

static cudaError_t allocate(void **pointer, size_t bytes, place where) {
  emu_catch_signals(); /* the host may go wrong before its first launch */
  EMU_TRY(emu_sticky());
  if (pointer == NULL) return emu_error(cudaErrorInvalidValue);
  *pointer = NULL;
  if (emu_capture_forbids_memory()) return emu_error(cudaErrorStreamCaptureUnsupported);
  if (bytes == 0) return cudaSuccess;
  size_t free_bytes, total_bytes;
  EMU_TRY(cudaMemGetInfo(&free_bytes, &total_bytes)); /* the system would promise more and kill us later */
  if ((double)bytes * (1 + emu_kept_share(0)) > (double)free_bytes) return emu_error(cudaErrorMemoryAllocation);
  const size_t whole = with_guards(bytes);
  unsigned char *memory = take_memory(whole);
  if (memory == NULL) return emu_error(cudaErrorMemoryAllocation);
  memset(memory, GUARD, GUARD_BYTES);
  memset(memory + GUARD_BYTES, EMU_POISON, bytes);
  memset(memory + GUARD_BYTES + bytes, GUARD, whole - GUARD_BYTES - bytes);
  if (!enter(memory + GUARD_BYTES, bytes, where)) {
    give_memory(memory, whole);
    return emu_error(cudaErrorMemoryAllocation);
  }
  *pointer = memory + GUARD_BYTES;
  return cudaSuccess;
}

static bool guard_whole(const unsigned char *guard) {
  for (size_t i = 0; i < GUARD_BYTES; i++)
    if (guard[i] != GUARD) return false;
  return true;
}

static void release_memory(const allocation *a) {
  if (!guard_whole(a->start - GUARD_BYTES) || !guard_whole(a->start + a->bytes))
    fprintf(stderr, "emulator: allocation %llu (%s%zu bytes) was written %s\n", (unsigned long long)a->serial, a->name, a->bytes,
            guard_whole(a->start + a->bytes) ? "before its start" : "past its end");
  EMU_TELL(freed, a->start);
  give_memory(a->start - GUARD_BYTES, with_guards(a->bytes));
}

static cudaError_t release(void *pointer, place where) {
  allocation a;
  EMU_TRY(emu_sticky());
  if (pointer == NULL) return cudaSuccess;
  if (emu_capture_forbids_memory()) return emu_error(cudaErrorStreamCaptureUnsupported);
  if (!take_out(pointer, where, &a)) return emu_error(cudaErrorInvalidValue);
  release_memory(&a);
  return cudaSuccess;
}

void emu_free_all(void) {
  while (count > 0)
    if (table[--count].where != SYMBOL) release_memory(&table[count]);
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) { return allocate(pointer, bytes, DEVICE); }
cudaError_t cudaFree(void *pointer) { return release(pointer, DEVICE); }
cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return allocate(pointer, bytes, PINNED); }
cudaError_t cudaFreeHost(void *pointer) { return release(pointer, PINNED); }

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
  (void)flags;
  return cudaMallocHost(pointer, bytes);
}

/* Device memory from there on, so many bytes: in one allocation; where that is marked, in one array of it. If it begins in one and goes too far, a line says so. */
static bool is_inside(const void *start, size_t bytes, const char *call, bool reads) {
  char text[160] = "";
  const bool inside = emu_is_device(start, bytes),
             leaves = emu_the_tool != NULL && emu_the_tool->leaves_array != NULL && emu_the_tool->leaves_array(start, bytes, text, sizeof text);
  if (inside && !leaves) return true;
  if (!leaves && emu_is_device(start, 1)) {
    pthread_mutex_lock(&lock);
    const allocation *a = &table[upper_bound(start) - 1];
    const size_t at = (size_t)((const unsigned char *)start - a->start);
    snprintf(text, sizeof text, "allocation %llu, byte %zu: expected at most %zu", (unsigned long long)a->serial, at, a->bytes - at);
    pthread_mutex_unlock(&lock);
  }
  if (text[0] != '\0') fprintf(stderr, "emulator: %s: %zu bytes %s %s\n", call, bytes, reads ? "from" : "to", text);
  return false;
}

/* The side that the kind calls the device's has to be. */
static cudaError_t check_copy(const void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind) {
  if ((unsigned)kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (bytes == 0) return cudaSuccess;
  if (dst == NULL || src == NULL) return cudaErrorInvalidValue;
  if (kind == cudaMemcpyDefault && emu_is_device(dst, 1) && emu_is_device(src, 1)) kind = cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDeviceToDevice && !(is_inside(dst, bytes, "cudaMemcpy", false) && is_inside(src, bytes, "cudaMemcpy", true)))
    return cudaErrorInvalidValue;
  if (kind == cudaMemcpyHostToDevice && !emu_is_device(dst, bytes)) return cudaErrorInvalidValue;
  if (kind == cudaMemcpyDeviceToHost && !emu_is_device(src, bytes)) return cudaErrorInvalidValue;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  EMU_TRY(emu_sticky());
  EMU_TRY(emu_error(check_copy(dst, src, bytes, kind)));
  const emu_work work = {.type = cudaGraphNodeTypeMemcpy, .dst = dst, .src = src, .bytes = bytes};
  return emu_error(emu_enqueue(stream, &work));
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind) {
  if (emu_any_capture()) return emu_error(cudaErrorStreamCaptureImplicit);
  return cudaMemcpyAsync(dst, src, bytes, kind, 0);
}

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream) {
  EMU_TRY(emu_sticky());
  if (bytes != 0 && !emu_is_device(pointer, bytes)) return emu_error(cudaErrorInvalidValue);
  const emu_work work = {.type = cudaGraphNodeTypeMemset, .dst = pointer, .value = value, .bytes = bytes};
  return emu_error(emu_enqueue(stream, &work));
}

cudaError_t cudaMemset(void *pointer, int value, size_t bytes) {
  if (emu_any_capture()) return emu_error(cudaErrorStreamCaptureImplicit);
  return cudaMemsetAsync(pointer, value, bytes, 0);
}

/* Variables are told before main, when the tool may not be there yet. */
static struct variable {
  void *start;
  size_t bytes;
  const char *name;
} * variables;
static size_t variable_count, variable_room, variables_told;

int emu_set_variable(void *start, size_t bytes, const char *name) {
  if (variable_count == variable_room) {
    variable_room = variable_room ? 2 * variable_room : 16;
    variables = emu_grow(variables, variable_room, sizeof *variables, "the list of __device__ variables");
  }
  variables[variable_count++] = (struct variable){start, bytes, name};
  return 1;
}

void emu_tell_variables(void) {
  for (; variables_told < variable_count; variables_told++) {
    const struct variable *v = &variables[variables_told];
    EMU_TELL(variable, v->start, v->bytes, v->name);
  }
}

cudaError_t emu_symbol_address(void **pointer, const void *symbol, size_t symbol_bytes) {
  if (pointer == NULL || symbol == NULL) return emu_error(cudaErrorInvalidValue);
  *pointer = (void *)(uintptr_t)symbol;
  if (!emu_is_device(symbol, symbol_bytes)) add(*pointer, symbol_bytes, SYMBOL);
  return cudaSuccess;
}

cudaError_t emu_symbol_copy(void *symbol, size_t symbol_bytes, void *data, size_t bytes, size_t offset, int to_symbol, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const char *const call = to_symbol ? "cudaMemcpyToSymbol" : "cudaMemcpyFromSymbol";
  EMU_TRY(emu_sticky());
  if (data == NULL) return emu_error(cudaErrorInvalidValue);
  if (offset > symbol_bytes || bytes > symbol_bytes - offset) {
    fprintf(stderr, "emulator: %s: %zu bytes from byte %zu of a variable on: it has %zu\n", call, bytes, offset, symbol_bytes);
    return emu_error(cudaErrorInvalidValue);
  }
  /* Only what begins in an allocation: a launch that is captured to be looked at has addresses of its own. */
  const bool device = (kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault) && emu_is_device(data, 1);
  if (device && !is_inside(data, bytes, call, to_symbol)) return emu_error(cudaErrorInvalidValue);
  unsigned char *part = (unsigned char *)symbol + offset;
  const emu_work work = {.type = cudaGraphNodeTypeMemcpy, .dst = to_symbol ? (void *)part : data, .src = to_symbol ? data : (void *)part, .bytes = bytes};
  return emu_error(emu_enqueue(stream, &work));
}
