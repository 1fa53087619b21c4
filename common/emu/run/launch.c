/* Launches: the table of kernels, the checks of a launch configuration, the run itself. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/emu/tool/tool.h"
#include "common/harness/symbol.h"

static emu_kernel *kernels;
static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER; /* one launch at a time; also guards the table */

static emu_kernel *find_kernel(const void *function) {
  emu_kernel *k = kernels;
  while (k != NULL && k->function != function) k = k->next;
  return k;
}

/* The function's own name, with the numbers of a template. A launch may have written a pointer's name. A function that only its file sees has
 * no symbol; then the compiler has told its name if it has __launch_bounds__. */
static char *name_of(const emu_kernel *k, const char *launched_as) {
  Dl_info info;
  if (dladdr(k->function, &info) != 0 && info.dli_sname != NULL && info.dli_saddr == k->function) return symbol_readable(info.dli_sname);
  const char *told = k->bound_text != NULL ? strstr(k->bound_text, "kernel = ") : NULL;
  if (told == NULL) return launched_as == NULL ? NULL : strdup(launched_as);
  told += strlen("kernel = ");
  told += *told == '&';
  const char *end = strstr(told, "; unsigned"); /* gcc; clang has a comma */
  if (end == NULL) end = strstr(told, ", threads = ");
  return end != NULL ? strndup(told, (size_t)(end - told)) : strdup(told);
}

/* Adds the kernel when it is new. */
static emu_kernel *entry_of(const void *function) {
  emu_kernel *k = find_kernel(function);
  if (k != NULL) return k;
  k = emu_take(1, sizeof *k, "what is known of a kernel");
  k->function = function;
  k->next = kernels;
  return kernels = k;
}

/* The same, and learns its name if that was unknown. */
emu_kernel *emu_kernel_of(const void *function, const char *name) {
  emu_kernel *k = entry_of(function);
  if (k->name == NULL) k->name = name_of(k, name);
  return k;
}

/* Called before main, so nobody else is at the table. */
int emu_set_bound(const void *function, unsigned threads, const char *text) {
  emu_kernel *k = entry_of(function);
  k->bound = threads;
  k->bound_text = text;
  return 1;
}

/* A line about a launch that is refused, because the error says nothing. Returns the error. */
__attribute__((format(printf, 4, 5))) static cudaError_t refused(cudaError_t status, const emu_call *call, const emu_kernel *kernel, const char *format, ...) {
  char why[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  fflush(stdout);
  fprintf(stderr, "emulator: %s: %s; launched at %s:%d\n", kernel->name, why, call->where.file, call->where.line);
  return status;
}

static unsigned blocks_of(dim3 cluster) { return cluster.x == 0 ? 1 : cluster.x * cluster.y * cluster.z; }

/* A cluster of at most 8 blocks, or of 16 for a kernel that asked for it, that divides the grid. */
static cudaError_t check_cluster(const emu_call *call, const emu_kernel *kernel) {
  const dim3 g = call->grid, c = call->cluster;
  if (c.x == 0) return cudaSuccess;
  if (emu_arch() < 90 && blocks_of(c) > 1)
    return refused(cudaErrorNotSupported, call, kernel, "a cluster of (%u,%u,%u): needs compute capability 9.0, and EMU_ARCH=%d", c.x, c.y, c.z, emu_arch());
  const unsigned most = kernel->large_clusters ? EMU_MAX_CLUSTER : 8;
  if (c.y == 0 || c.z == 0 || blocks_of(c) > most)
    return refused(cudaErrorInvalidClusterSize, call, kernel, "a cluster of (%u,%u,%u): expected 1 to %u blocks%s", c.x, c.y, c.z, most,
                   kernel->large_clusters ? "" : ", and above that cudaFuncAttributeNonPortableClusterSizeAllowed");
  if (g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0)
    return refused(cudaErrorInvalidConfiguration, call, kernel, "a grid of (%u,%u,%u): expected a multiple of its clusters of (%u,%u,%u)", g.x, g.y, g.z, c.x,
                   c.y, c.z);
  return cudaSuccess;
}

/* The limits that CUDA checks before it starts anything. */
static cudaError_t check_configuration(const emu_call *call, const emu_kernel *kernel) {
  const dim3 g = call->grid, b = call->block;
  if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7FFFFFFFu || g.y > 65535 || g.z > 65535)
    return refused(cudaErrorInvalidConfiguration, call, kernel, "a grid of (%u,%u,%u): expected (1,1,1) to (2147483647,65535,65535)", g.x, g.y, g.z);
  const uint64_t threads = (uint64_t)b.x * b.y * b.z;
  if (threads == 0 || b.x > 1024 || b.y > 1024 || b.z > 64 || threads > EMU_MAX_THREADS)
    return refused(cudaErrorInvalidConfiguration, call, kernel, "a block of (%u,%u,%u): expected 1 to %d threads, at most (1024,1024,64)", b.x, b.y, b.z,
                   EMU_MAX_THREADS);
  if (kernel->bound != 0 && threads > kernel->bound)
    return refused(cudaErrorInvalidValue, call, kernel, "a block of (%u,%u,%u), %u threads, but its __launch_bounds__ says %u", b.x, b.y, b.z,
                   (unsigned)threads, kernel->bound);
  const cudaError_t status = check_cluster(call, kernel);
  if (status != cudaSuccess) return status;
  const size_t fixed = kernel->static_shared, total = fixed + call->shared_bytes;
  if (total > EMU_MAX_SHARED || (total > EMU_DEFAULT_SHARED && call->shared_bytes > kernel->max_dynamic_shared))
    return refused(cudaErrorInvalidValue, call, kernel,
                   "%zu bytes of dynamic shared memory beside %zu of its arrays: expected at most %d together, and above %d what cudaFuncSetAttribute allows",
                   call->shared_bytes, fixed, (int)EMU_MAX_SHARED, (int)EMU_DEFAULT_SHARED);
  return cudaSuccess;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) { return b == 0 ? a : common_divisor(b, a % b); }

/* Steps that share no divisor with the count visit every block once. */
static void shuffle_blocks(emu_launch *launch, uint64_t seed) {
  const uint64_t n = launch->block_count;
  launch->block_step = 1;
  if (seed == 0 || n < 2) return;
  launch->block_start = emu_random(&seed) % n;
  do launch->block_step = 1 + emu_random(&seed) % n;
  while (common_divisor(launch->block_step, n) != 1);
}

cudaError_t emu_run_call(const emu_call *call, emu_past *past) {
  static uint64_t serial;
  emu_launch launch = {.call = *call, .past = past, .lock = PTHREAD_MUTEX_INITIALIZER};
  pthread_mutex_lock(&launching);
  launch.kernel = emu_kernel_of(call->function, call->name);
  launch.call.name = launch.kernel->name;
  launch.serial = ++serial;
  launch.threads_per_block = call->block.x * call->block.y * call->block.z;
  launch.team_size = blocks_of(call->cluster);
  launch.block_count = (uint64_t)call->grid.x * call->grid.y * call->grid.z / launch.team_size;
  shuffle_blocks(&launch, emu_seed());
  emu_shared_begin_launch(&launch);
  emu_tell_variables();
  EMU_TELL(launch_begin, &launch);
  emu_pool_run(&launch);
  EMU_TELL(launch_end, &launch);
  launch.kernel->static_shared = launch.static_shared;
  pthread_mutex_unlock(&launching);
  if (launch.failed) emu_set_sticky(launch.error);
  return launch.failed ? launch.error : cudaSuccess;
}

cudaError_t emu_launch_kernel(const emu_call *call) {
  if (emu_self != NULL) emu_fail("kernel launch at %s:%d inside a kernel: not supported", call->where.file, call->where.line);
  EMU_TRY(emu_sticky());
  if (call->function == NULL) return emu_error(cudaErrorInvalidDeviceFunction);
  pthread_mutex_lock(&launching);
  const emu_kernel *kernel = emu_kernel_of(call->function, call->name);
  pthread_mutex_unlock(&launching);
  EMU_TRY(check_configuration(call, kernel));
  const emu_work work = {.type = cudaGraphNodeTypeKernel, .call = *call};
  return emu_error(emu_enqueue(call->stream, &work));
}

cudaError_t emu_read_attributes(const cudaLaunchConfig_t *config, int *early, dim3 *cluster) {
  if (config == NULL || (config->attrs == NULL && config->numAttrs > 0)) return emu_error(cudaErrorInvalidValue);
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const cudaLaunchAttribute *a = &config->attrs[i];
    if (a->id == cudaLaunchAttributeProgrammaticStreamSerialization) *early = a->val.programmaticStreamSerializationAllowed != 0;
    else if (a->id == cudaLaunchAttributeClusterDimension) {
      cluster->x = a->val.clusterDim.x, cluster->y = a->val.clusterDim.y, cluster->z = a->val.clusterDim.z;
      if (cluster->x == 0) {
        fprintf(stderr, "emulator: cudaLaunchKernelEx: a cluster of (0,%u,%u): expected at least 1 block\n", cluster->y, cluster->z);
        return emu_error(cudaErrorInvalidClusterSize);
      }
    } else if (a->id != cudaLaunchAttributeIgnore) {
      fprintf(stderr,
              "emulator: cudaLaunchKernelEx: launch attribute %d is not emulated, expected programmatic stream serialization (%d) or the cluster's size (%d)\n",
              (int)a->id, (int)cudaLaunchAttributeProgrammaticStreamSerialization, (int)cudaLaunchAttributeClusterDimension);
      return emu_error(cudaErrorNotSupported);
    }
  }
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
  EMU_TRY(emu_sticky());
  if (function == NULL) return emu_error(cudaErrorInvalidDeviceFunction);
  emu_kernel *k = emu_kernel_of(function, NULL);
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) k->large_clusters = value != 0;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess; /* hints: nothing to do */
  if (value < 0 || k->static_shared + (size_t)value > EMU_MAX_SHARED) {
    fflush(stdout);
    fprintf(stderr, "emulator: cudaFuncSetAttribute: %d bytes of dynamic shared memory: expected at most %d\n", value,
            (int)(EMU_MAX_SHARED - k->static_shared));
    return emu_error(cudaErrorInvalidValue);
  }
  k->max_dynamic_shared = (size_t)value;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function) {
  EMU_TRY(emu_sticky());
  if (attributes == NULL) return emu_error(cudaErrorInvalidValue);
  if (function == NULL) return emu_error(cudaErrorInvalidDeviceFunction);
  const emu_kernel *k = emu_kernel_of(function, NULL);
  const size_t left = EMU_DEFAULT_SHARED - k->static_shared;
  *attributes = (cudaFuncAttributes){.sharedSizeBytes = k->static_shared,
                                     .maxThreadsPerBlock = k->bound != 0 ? (int)k->bound : EMU_MAX_THREADS,
                                     .ptxVersion = 90,
                                     .binaryVersion = 90,
                                     .maxDynamicSharedSizeBytes = (int)(k->max_dynamic_shared > left ? k->max_dynamic_shared : left)};
  return cudaSuccess;
}

cudaError_t cudaFuncGetName(const char **name, const void *function) {
  if (name == NULL) return emu_error(cudaErrorInvalidValue);
  const emu_kernel *k = find_kernel(function);
  if (k == NULL || k->name == NULL) return emu_error(cudaErrorInvalidDeviceFunction);
  *name = k->name;
  return cudaSuccess;
}

/* Threads and shared memory limit it; registers do not exist here. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block_size, size_t dynamic_bytes) {
  if (blocks == NULL || block_size < 1 || block_size > EMU_MAX_THREADS) return emu_error(cudaErrorInvalidValue);
  if (function == NULL) return emu_error(cudaErrorInvalidDeviceFunction);
  const size_t shared = emu_kernel_of(function, NULL)->static_shared + dynamic_bytes;
  const int warps = (block_size + EMU_WARP - 1) / EMU_WARP;
  const int by_threads = 64 / warps, by_shared = (int)((size_t)(228 << 10) / (shared + EMU_RESERVED_SHARED));
  *blocks = shared > EMU_MAX_SHARED ? 0 : by_threads < by_shared ? by_threads : by_shared;
  if (*blocks > 32) *blocks = 32;
  return cudaSuccess;
}

/* As many as an H200 was measured to hold of large blocks, by its 132 multiprocessors in groups (docs/gpu.md); here in proportion. */
cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function, const cudaLaunchConfig_t *config) {
  dim3 cluster = {0, 0, 0};
  int early = 0, blocks = 0;
  if (clusters == NULL || config == NULL) return emu_error(cudaErrorInvalidValue);
  EMU_TRY(emu_read_attributes(config, &early, &cluster));
  EMU_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, (int)(config->blockDim.x * config->blockDim.y * config->blockDim.z),
                                                        config->dynamicSmemBytes));
  cudaDeviceProp properties;
  EMU_TRY(cudaGetDeviceProperties(&properties, 0));
  *clusters = blocks * properties.multiProcessorCount / (int)blocks_of(cluster);
  return cudaSuccess;
}
