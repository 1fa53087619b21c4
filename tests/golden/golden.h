/* Golden tables: what a GPU does, one fact a row, as lines "NAME arguments: values". A case is what is measured at once, and may be several rows.
 * Rows tell nothing that differs from run to run or from machine to machine: no addresses, no times. */
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Begins a case, whose name is formatted as printf does it; false: it is not to be measured in this process. */
__attribute__((format(printf, 1, 2))) bool golden_case(const char *format, ...);
/* More text of the case's rows. */
__attribute__((format(printf, 1, 2))) void golden_print(const char *format, ...);
/* Ends the process: the case's row becomes its name and why there is no more. */
__attribute__((format(printf, 1, 2), noreturn)) void golden_fail(const char *format, ...);
/* After a launch: waits for the kernel. If the launch failed, or the kernel, that is the case's row: "refused" and the error; and the process ends. */
void golden_launched(void);
/* The name of the case at work. */
const char *golden_name(void);
/* CRC-32 of n numbers as 4 bytes each, the lowest first. */
uint32_t golden_crc(const unsigned *values, int n);

/* A dense tensor of `dims` dimensions, innermost first. Rows are padded to 16 bytes; what is asked of each element is its index in that memory. */
typedef struct golden_tensor {
  int dims, element_bytes;
  int size[5];
} golden_tensor;
long golden_stride(const golden_tensor *t, int dim); /* elements */
long golden_elements(const golden_tensor *t);        /* with the padding */

/* Tensor maps; the driver's refusal fails the case. step: element strides. Corners are W first. */
CUtensorMap golden_tiled_map(void *base, const golden_tensor *t, const int *box, const int *step, CUtensorMapDataType type, CUtensorMapSwizzle swizzle,
                             CUtensorMapFloatOOBfill fill);
CUtensorMap golden_im2col_map(void *base, const golden_tensor *t, const int *lower, const int *upper, int channels, int pixels, const int *step);

/* Prints where a row of a box has come from: its n ids are 1 + the index of an element, 0: outside of the tensor. "-": all outside; else the coordinates of the
 * first element that is inside, "@p" if p are outside before it, "xn" if only n are inside, "?" if they are no neighbours. */
void golden_print_row(const golden_tensor *t, const unsigned *ids, int n);

/* Asks the copy engine for a box, and returns how it lies in shared memory, `halves` from `to` bytes past a multiple of 1024 on. Where the box has written nothing:
 * GOLDEN_UNTOUCHED. offsets: of an im2col map, dims - 2 of them; NULL: a tiled one. */
enum { GOLDEN_UNTOUCHED = 0xbeef };
void golden_load(const CUtensorMap *map, int dims, const int *at, const int *offsets, int to, int halves, unsigned short *box);
/* Stores a box of shared memory, or adds it to the tensor. */
void golden_store(const CUtensorMap *map, int dims, const int *at, bool add, const void *box, int bytes);
/* Device memory that holds a copy of these bytes; and back. */
void *golden_upload(const void *host, long bytes);
void golden_download(void *host, void *device, long bytes); /* frees the device's */

/* The tables. */
void golden_fragments(void);
void golden_products(void);
void golden_descriptors(void);
void golden_swizzles(void);
void golden_boxes(void);
void golden_im2col(void);
void golden_mbarriers(void);
void golden_starts(void);
void golden_between(void);

#ifdef __cplusplus
}
#endif
