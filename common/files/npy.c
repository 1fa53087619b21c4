/* .npy files. See npy.h. */
#include "common/files/npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error ".npy files are read and written as little-endian memory"
#endif

static const char *dtype_code(conv_dtype dtype) { return dtype == DTYPE_FP16 ? "<f2" : "<f4"; }

/* The text behind 'key': in the header's dictionary, or NULL. */
static const char *header_value(const char *header, const char *key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s'", key);
  const char *at = strstr(header, quoted);
  if (!at) return NULL;
  at += strlen(quoted);
  at += strspn(at, " ");
  if (*at++ != ':') return NULL;
  return at + strspn(at, " ");
}

/* As many characters as are printable: a damaged header may hold anything. */
static int printable(const char *text, size_t most) {
  size_t n = 0;
  while (n < most && text[n] >= ' ' && text[n] <= '~') n++;
  return (int)n;
}

/* Checks the dictionary against the tensor. Returns NULL, or the complaint (in `why`). */
static const char *check_header(const conv_tensor *t, const char *header, char *why, size_t why_size) {
  const char *descr = header_value(header, "descr"), *order = header_value(header, "fortran_order"), *shape = header_value(header, "shape");
  if (!descr || !order || !shape) return "expected a header with descr, fortran_order and shape";
  if (descr[0] != '\'' || strncmp(descr + 1, dtype_code(t->dtype), 3) != 0 || descr[4] != '\'') {
    snprintf(why, why_size, "descr: expected '%s' (%s), got %.*s", dtype_code(t->dtype), dtype_name(t->dtype), printable(descr, strcspn(descr, ",}\n")), descr);
    return why;
  }
  if (strncmp(order, "False", 5) != 0) return "fortran_order: expected False (C order)";
  bool same = *shape == '(';
  const char *end = shape + strcspn(shape, ")\n");
  char *cursor = (char *)shape + 1;
  for (int axis = 0; axis < 4 && same; axis++) {
    char *next;
    const long long dim = strtoll(cursor, &next, 10);
    next += strspn(next, " ,");
    same = next > cursor && dim == t->dim[axis];
    cursor = next;
  }
  if (!same || cursor != end) {
    snprintf(why, why_size, "shape: expected (%d, %d, %d, %d) for %s, got %.*s", t->dim[0], t->dim[1], t->dim[2], t->dim[3], role_axes(t->role),
             printable(shape, (size_t)(end - shape + (*end == ')'))), shape);
    return why;
  }
  return NULL;
}

int npy_read(conv_tensor *t, const char *path, char *error, size_t error_size) {
  char why_buffer[256];
  const char *why = NULL;
  char *header = NULL;
  char *values = NULL;
  FILE *file = fopen(path, "rb");
  if (!file) {
    snprintf(error, error_size, "%s: expected a readable .npy file: %s", path, strerror(errno));
    return -1;
  }
  unsigned char preamble[12];
  size_t header_bytes = 0;
  if (fread(preamble, 1, 10, file) != 10 || memcmp(preamble, "\x93NUMPY", 6) != 0) why = "expected a .npy file (magic \\x93NUMPY)";
  else if (preamble[6] < 1 || preamble[6] > 3) why = "expected .npy format version 1, 2 or 3";
  else if (preamble[6] == 1) header_bytes = preamble[8] | (size_t)preamble[9] << 8;
  else if (fread(preamble + 10, 1, 2, file) != 2) why = "truncated in its header";
  else header_bytes = preamble[8] | (size_t)preamble[9] << 8 | (size_t)preamble[10] << 16 | (size_t)preamble[11] << 24;
  if (!why && header_bytes > 1 << 20) why = "expected a header of at most 1 MiB";
  if (!why && !(header = calloc(header_bytes + 1, 1))) why = "no memory for its header";
  if (!why && fread(header, 1, header_bytes, file) != header_bytes) why = "truncated in its header";
  if (!why) why = check_header(t, header, why_buffer, sizeof why_buffer);
  const size_t bytes = tensor_bytes(t);
  if (!why && !(values = malloc(bytes))) why = "no memory for its data";
  if (!why) {
    const size_t got = fread(values, 1, bytes, file);
    if (got != bytes) {
      snprintf(why_buffer, sizeof why_buffer, "truncated: expected %zu bytes of data, got %zu", bytes, got);
      why = why_buffer;
    } else if (fgetc(file) != EOF) {
      snprintf(why_buffer, sizeof why_buffer, "expected %zu bytes of data, got more", bytes);
      why = why_buffer;
    }
  }
  if (!why) {
    const size_t size = dtype_bytes(t->dtype);
    for (int64_t i = 0; i < t->count; i++) memcpy((char *)t->data + (size_t)tensor_offset(t, i) * size, values + (size_t)i * size, size);
  }
  fclose(file);
  free(header);
  free(values);
  if (why) snprintf(error, error_size, "%s: %s", path, why);
  return why ? -1 : 0;
}

int npy_write(const conv_tensor *t, const char *path, char *error, size_t error_size) {
  char header[256];
  const size_t room = 128; /* a multiple of 64, so that the data is aligned for whoever maps the file */
  int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d, %d, %d), }", dtype_code(t->dtype), t->dim[0],
                        t->dim[1], t->dim[2], t->dim[3]);
  while ((size_t)length < room - 10 - 1) header[length++] = ' ';
  header[length++] = '\n';
  const unsigned char preamble[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(length & 255), (unsigned char)(length >> 8)};

  char *partial = malloc(strlen(path) + 32);
  const size_t size = dtype_bytes(t->dtype);
  char *values = malloc(tensor_bytes(t));
  if (!partial || !values) {
    snprintf(error, error_size, "%s: no memory to write %zu bytes", path, tensor_bytes(t));
    free(partial), free(values);
    return -1;
  }
  for (int64_t i = 0; i < t->count; i++) memcpy(values + (size_t)i * size, (const char *)t->data + (size_t)tensor_offset(t, i) * size, size);
  sprintf(partial, "%s.partial-%ld", path, (long)getpid());
  FILE *file = fopen(partial, "wb");
  bool good = file && fwrite(preamble, 1, sizeof preamble, file) == sizeof preamble && fwrite(header, 1, (size_t)length, file) == (size_t)length &&
              fwrite(values, 1, tensor_bytes(t), file) == tensor_bytes(t);
  if (file && fclose(file) != 0) good = false;
  if (good && rename(partial, path) != 0) good = false;
  if (!good) {
    snprintf(error, error_size, "%s: cannot write: %s", path, strerror(errno));
    if (file) remove(partial);
  }
  free(partial), free(values);
  return good ? 0 : -1;
}
