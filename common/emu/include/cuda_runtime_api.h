/* The part of the CUDA runtime API that the emulator provides: the toolkit's names, values and meanings, for C and C++.
 *
 * Every function returns cudaSuccess or the error that CUDA documents for the case; sizes are bytes, times milliseconds.
 * Work is done before the call returns, on every stream. "Device" memory is host memory: filled with 0xFF bytes (NaN) when it is
 * allocated, never zero, so that a read of something nobody wrote shows. A failed kernel leaves a sticky error, as on a GPU: every
 * later call returns it until cudaDeviceReset. */
#pragma once
#include <stddef.h>

#include "vector_types.h"

#define CUDA_EMULATOR 1
#define CUDART_VERSION 13000

/* name, value, what cudaGetErrorString says */
#define EMU_ERRORS(X)                                                                                                    \
  X(cudaSuccess, 0, "no error")                                                                                          \
  X(cudaErrorInvalidValue, 1, "invalid argument")                                                                        \
  X(cudaErrorMemoryAllocation, 2, "out of memory")                                                                       \
  X(cudaErrorInitializationError, 3, "initialization error")                                                             \
  X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                                  \
  X(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                                                 \
  X(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                                         \
  X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                                            \
  X(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version")                     \
  X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                                       \
  X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                                        \
  X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                               \
  X(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device")                    \
  X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                                      \
  X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")                                \
  X(cudaErrorSymbolNotFound, 500, "named symbol not found")                                                              \
  X(cudaErrorNotReady, 600, "device not ready")                                                                          \
  X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                                            \
  X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                                       \
  X(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")                                          \
  X(cudaErrorMisalignedAddress, 716, "misaligned address")                                                               \
  X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                                           \
  X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")                                    \
  X(cudaErrorNotSupported, 801, "operation not supported")                                                               \
  X(cudaErrorInvalidClusterSize, 912, "cluster misconfiguration")                                                        \
  X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")                          \
  X(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture")                   \
  X(cudaErrorStreamCaptureUnmatched, 903, "capture was not initiated in this stream")                                    \
  X(cudaErrorStreamCaptureImplicit, 906, "operation would make the legacy stream depend on a capturing blocking stream") \
  X(cudaErrorUnknown, 999, "unknown error")

#define EMU_ENUM(name, value, text) name = value,
typedef enum cudaError { EMU_ERRORS(EMU_ENUM) } cudaError_t;
#undef EMU_ENUM

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;

#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)

enum cudaMemcpyKind { cudaMemcpyHostToHost = 0, cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3, cudaMemcpyDefault = 4 };

enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum { cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeThreadLocal = 1, cudaStreamCaptureModeRelaxed = 2 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1, cudaStreamCaptureStatusInvalidated = 2 };
enum cudaGraphNodeType {
  cudaGraphNodeTypeKernel = 0,
  cudaGraphNodeTypeMemcpy = 1,
  cudaGraphNodeTypeMemset = 2,
  cudaGraphNodeTypeHost = 3,
  cudaGraphNodeTypeEmpty = 5
};
/* Of an edge; the members and values that this emulator has. */
typedef enum cudaGraphDependencyType { cudaGraphDependencyTypeDefault = 0, cudaGraphDependencyTypeProgrammatic = 1 } cudaGraphDependencyType;
typedef struct cudaGraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
} cudaGraphEdgeData;

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxBlockDimY = 3,
  cudaDevAttrMaxBlockDimZ = 4,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxGridDimZ = 7,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrTotalConstantMemory = 9,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrUnifiedAddressing = 41,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrReservedSharedMemoryPerBlock = 111,
  cudaDevAttrClusterLaunch = 120
};

/* The fields of the toolkit's struct that describe something here; the rest is left out. */
typedef struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;    /* bytes of RAM */
  size_t sharedMemPerBlock; /* bytes a block gets without asking: 48 KB */
  int regsPerBlock;
  int warpSize;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  size_t totalConstMem;
  int major, minor;        /* 9.0 */
  int multiProcessorCount; /* OS threads that run blocks */
  int integrated;
  int concurrentKernels;
  int ECCEnabled;
  int unifiedAddressing;
  int memoryBusWidth;
  int l2CacheSize; /* the host's last-level cache */
  int maxThreadsPerMultiProcessor;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int cooperativeLaunch;
  size_t sharedMemPerBlockOptin; /* 227 KB */
  int maxBlocksPerMultiProcessor;
  size_t reservedSharedMemPerBlock;
  int clusterLaunch;
} cudaDeviceProp;

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 14
};

/* sharedSizeBytes is what the last launch declared: 0 before the first. Registers do not exist here: numRegs is 0. */
typedef struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
  int maxDynamicSharedSizeBytes, preferredShmemCarveout;
} cudaFuncAttributes;

/* cudaLaunchKernelEx: of the attributes, programmatic stream serialization alone is known here. */
typedef enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6
} cudaLaunchAttributeID;
typedef union cudaLaunchAttributeValue {
  char pad[64];
  int cooperative;
  struct {
    unsigned int x, y, z;
  } clusterDim;
  int programmaticStreamSerializationAllowed;
} cudaLaunchAttributeValue;
typedef struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
} cudaLaunchAttribute;
typedef struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned int numAttrs;
} cudaLaunchConfig_t;

/* kernelParams and extra are always NULL here. */
typedef struct cudaKernelNodeParams {
  void *func;
  dim3 gridDim, blockDim;
  unsigned int sharedMemBytes;
  void **kernelParams, **extra;
} cudaKernelNodeParams;

/* The driver's functions by name: those of cuda.h. */
enum cudaGetDriverEntryPointFlags { cudaEnableDefault = 0, cudaEnableLegacyStream = 1, cudaEnablePerThreadDefaultStream = 2 };
typedef enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1,
  cudaDriverEntryPointVersionNotSufficent = 2
} cudaDriverEntryPointQueryResult;

#ifdef __cplusplus
#define EMU_DEFAULT(value) = value
extern "C" {
#else
#define EMU_DEFAULT(value)
#endif

/* errors: the last one of this OS thread */
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);

/* the device: there is one, number 0 */
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
/* A name that is not there is no error: the function is NULL, the status says so. `version`: 12000 for CUDA 12.0. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult *status EMU_DEFAULT(0));
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags, cudaDriverEntryPointQueryResult *status EMU_DEFAULT(0));
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void); /* frees all memory, forgets a sticky error */

/* memory */
cudaError_t cudaMalloc(void **pointer, size_t bytes);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaMallocHost(void **pointer, size_t bytes);
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags);
cudaError_t cudaFreeHost(void *pointer);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream EMU_DEFAULT(0));
cudaError_t cudaMemset(void *pointer, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream EMU_DEFAULT(0));
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);

/* The emulator's own, for its check and count builds; elsewhere they do nothing.
 * One cudaMalloc may hold several arrays. Once one of them is marked, kernels may touch marked arrays only; reports use their names.
 * A marked array counts as uninitialised until a kernel or a copy writes it, and again from emu_mark_uninitialised on. */
void emu_mark_array(const void *start, size_t bytes, const char *name);
void emu_mark_uninitialised(const void *start, size_t bytes);
/* What watches kernels in this program: "checker", "counter", or NULL in the run build. */
const char *emu_tool_name(void);
/* Bytes that it keeps of each byte of device memory: where kernels access 4 bytes at a time or more, or halves of that too. */
double emu_kept_share(int halves);
/* The threads of the host that run blocks. */
int emu_worker_count(void);
/* For the count build, which sees memory but no arithmetic: how many floating-point operations the launches that follow are for, and whose they are
 * ("05m"; copied; NULL: nobody says). */
void emu_count_work(double flops, const char *whose);

/* streams and events */
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags EMU_DEFAULT(0));
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream EMU_DEFAULT(0));
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t stop);
cudaError_t cudaEventDestroy(cudaEvent_t event);

/* graphs */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags EMU_DEFAULT(0));
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count); /* nodes NULL: only the count */
/* from, to and data NULL: only the count. */
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *data, size_t *count);
/* Nodes stand in one row here: between neighbours an edge can be taken away, and put back with the same data or as a whole one. */
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t count);
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t count);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type);
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *params);

/* kernels; cudaLaunchKernel and cudaLaunchKernelEx are in cuda_runtime.h */
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function);
cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value);
cudaError_t cudaFuncGetName(const char **name, const void *function); /* as written in its launch: known from the first launch on */
cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function, const cudaLaunchConfig_t *config);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block_size, size_t dynamic_bytes);

#ifdef __cplusplus
}
#endif
