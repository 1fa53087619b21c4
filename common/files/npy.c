/* .npy files. See npy.h. */
#include "common/files/npy.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files/input.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error ".npy files are read and written as little-endian memory"
#endif

static const char *dtype_code(conv_dtype dtype) { return dtype == DTYPE_FP16 ? "<f2" : "<f4"; }

enum { DESCR, FORTRAN_ORDER, SHAPE, KEYS };
static const char blank[] = " \t\r\n";

/* The length of a value of the header: a string, a tuple, a list, else a word. */
static size_t value_length(const char *value) {
  const char close = *value == '(' ? ')' : *value == '[' ? ']' : *value;
  const char *end = *value == '\'' || *value != close ? strchr(value + 1, close) : NULL;
  return end ? (size_t)(end - value) + 1 : strcspn(value, ",} \t\r\n");
}

/* Finds the values in the header, a Python dictionary of the three keys in any order. Returns false where it is none, or lacks one, or has one twice. */
static bool split_header(const char *header, const char *value[KEYS]) {
  static const char *const keys[KEYS] = {[DESCR] = "'descr'", [FORTRAN_ORDER] = "'fortran_order'", [SHAPE] = "'shape'"};
  const char *at = header + strspn(header, blank);
  if (*at++ != '{') return false;
  for (at += strspn(at, blank); *at != '}'; at += strspn(at, blank)) {
    int key = 0;
    while (key < KEYS && strncmp(at, keys[key], strlen(keys[key])) != 0) key++;
    if (key == KEYS || value[key]) return false;
    at += strlen(keys[key]);
    at += strspn(at, blank);
    if (*at++ != ':') return false;
    value[key] = at += strspn(at, blank);
    at += value_length(at);
    at += strspn(at, blank);
    if (*at == ',') at++;
    else if (*at != '}') return false;
  }
  return value[DESCR] && value[FORTRAN_ORDER] && value[SHAPE] && at[1 + strspn(at + 1, blank)] == 0;
}

/* As many characters as are printable: a damaged header may hold anything. */
static int printable(const char *text, size_t most) {
  size_t n = 0;
  while (n < most && text[n] >= ' ' && text[n] <= '~') n++;
  return (int)n;
}

/* Checks the dictionary against the tensor. Returns NULL, or the complaint (in `why`). */
static const char *check_header(const conv_tensor *t, const char *header, char *why, size_t why_size) {
  const char *value[KEYS] = {NULL};
  if (!split_header(header, value)) return "expected a header with descr, fortran_order and shape, once each";
  const char *descr = value[DESCR], *order = value[FORTRAN_ORDER], *shape = value[SHAPE];
  if (descr[0] != '\'' || strncmp(descr + 1, dtype_code(t->dtype), 3) != 0 || descr[4] != '\'') {
    snprintf(why, why_size, "descr: expected '%s' (%s), got %.*s (NumPy: .astype('%s'))", dtype_code(t->dtype), dtype_name(t->dtype),
             printable(descr, value_length(descr)), descr, dtype_code(t->dtype) + 1);
    return why;
  }
  if (value_length(order) != 5 || memcmp(order, "False", 5) != 0) return "fortran_order: expected False (C order; NumPy: np.ascontiguousarray)";
  bool same = *shape == '(';
  const char *end = shape + strcspn(shape, ")\n"), *cursor = shape + 1;
  for (int axis = 0; axis < 4 && same; axis++) {
    char *next;
    cursor += strspn(cursor, blank);
    same = isdigit((unsigned char)*cursor) && strtoll(cursor, &next, 10) == t->dim[axis];
    if (!same) break;
    cursor = next + strspn(next, blank);
    if (*cursor == ',') cursor++;
    else same = axis == 3;
  }
  cursor += strspn(cursor, blank);
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
  FILE *file = input_open(path, false, &why);
  if (!file) {
    snprintf(error, error_size, "%s: expected a readable .npy file: %s", path, why);
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
  if (!why && strlen(header) != header_bytes) why = "expected text in its header, got a zero byte";
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

void npy_write(const conv_tensor *t, FILE *file) {
  enum { ROOM = 128 /* a multiple of 64, so that the data is aligned for whoever maps the file */, LENGTH = ROOM - 10 };
  const unsigned char preamble[ROOM - LENGTH] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, LENGTH & 255, LENGTH >> 8};
  char header[ROOM];
  snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d, %d, %d), }", dtype_code(t->dtype), t->dim[0], t->dim[1], t->dim[2],
           t->dim[3]);
  fwrite(preamble, 1, sizeof preamble, file);
  fprintf(file, "%-*s\n", LENGTH - 1, header);
  const size_t size = dtype_bytes(t->dtype);
  for (int64_t i = 0; i < t->count; i++) fwrite((const char *)t->data + (size_t)tensor_offset(t, i) * size, size, 1, file);
}
