/* .npy files: what is written is what any other program reads, in every layout and dtype; damaged files are refused. */
#include "common/files/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conv/half.h"
#include "tests/tap.h"

static char folder[] = "/tmp/npy-XXXXXX";

static void path_of(const char *name, char path[256]) { snprintf(path, 256, "%s/%s", folder, name); }

static void write_bytes(const char *path, const void *bytes, size_t count) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, count, f) != count) diag("cannot write %s", path);
  if (f) fclose(f);
}

static int write_tensor(const conv_tensor *t, const char *path) {
  FILE *f = fopen(path, "wb");
  if (!f) return -1;
  npy_write(t, f);
  return fclose(f);
}

static void round_trips(const conv_problem *p) {
  char path[256], error[512] = "";
  path_of("t.npy", path);
  for (int role = 0; role < 3; role++)
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
      conv_tensor nchw = tensor_describe(p, (tensor_role)role, (conv_dtype)dtype, LAYOUT_NCHW),
                  nhwc = tensor_describe(p, (tensor_role)role, (conv_dtype)dtype, LAYOUT_NHWC);
      tensor_alloc(&nchw), tensor_alloc(&nhwc);
      tensor_fill_normal(&nchw, 7);
      memset(nhwc.data, 0xFF, tensor_bytes(&nhwc));
      int same = write_tensor(&nchw, path) == 0 && npy_read(&nhwc, path, error, sizeof error) == 0;
      for (int64_t i = 0; same && i < nchw.count; i++) same = tensor_get(&nchw, tensor_offset(&nchw, i)) == tensor_get(&nhwc, tensor_offset(&nhwc, i));
      ok(same, "%s %s: written from NCHW, read into NHWC, the same elements %s", role_axes((tensor_role)role), dtype_name((conv_dtype)dtype), error);
      tensor_free(&nchw), tensor_free(&nhwc);
    }
}

/* The bytes NumPy 1.24 writes for np.save(f, np.arange(8, dtype='<f4').reshape(1, 2, 2, 2)). */
static void numpy_file(conv_tensor *t, const char *path) {
  char header[128];
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2, 2), }", 10 + 65);
  header[127] = '\n';
  char file[128 + 32];
  memcpy(file, header, 128);
  for (int i = 0; i < 8; i++) {
    const float value = (float)i;
    memcpy(file + 128 + 4 * i, &value, 4);
  }
  write_bytes(path, file, sizeof file);
  char error[512] = "";
  int same = npy_read(t, path, error, sizeof error) == 0;
  for (int i = 0; same && i < 8; i++) same = tensor_get(t, i) == (float)i;
  ok(same, "a file as NumPy writes it is read %s", error);
  char again[256];
  path_of("again.npy", again);
  FILE *f = NULL;
  char bytes[sizeof file + 1];
  ok(write_tensor(t, again) == 0 && (f = fopen(again, "rb")) && fread(bytes, 1, sizeof bytes, f) == sizeof file && memcmp(bytes, file, sizeof file) == 0,
     "and written back byte for byte");
  if (f) fclose(f);
  memset(file + 10, ' ', 117), memcpy(file + 10, "{'shape':(1,2,2,2),'fortran_order':False,'descr':'<f4'}", 55);
  write_bytes(again, file, sizeof file);
  ok(npy_read(t, again, error, sizeof error) == 0, "keys in another order, without blanks %s", error);
}

static void refused(conv_tensor *t, const char *name, const void *bytes, size_t count, const char *want) {
  char path[256], error[512] = "(accepted)";
  path_of(name, path);
  if (bytes) write_bytes(path, bytes, count);
  const int status = npy_read(t, path, error, sizeof error);
  const char *said = strncmp(error, path, strlen(path)) == 0 ? error + strlen(path) : error;
  if (!ok(status != 0 && strcmp(said, want) == 0, "refused: %s", name)) diag("got  %s", said), diag("want %s", want);
}

static void refusals(conv_tensor *t, const char *good_path) {
  char good[161], bad[512];
  FILE *f = fopen(good_path, "rb");
  if (!f || fread(good, 1, 160, f) != 160) return;
  fclose(f);
  refused(t, "missing.npy", NULL, 0, ": expected a readable .npy file: No such file or directory");
  refused(t, "empty.npy", "", 0, ": expected a .npy file (magic \\x93NUMPY)");
  refused(t, "text.npy", "hello, this is no array", 23, ": expected a .npy file (magic \\x93NUMPY)");
  refused(t, "cut-header.npy", good, 60, ": truncated in its header");
  refused(t, "cut-data.npy", good, 150, ": truncated: expected 32 bytes of data, got 22");
  memcpy(bad, good, 160), bad[160] = 0;
  refused(t, "longer.npy", bad, 161, ": expected 32 bytes of data, got more");
  memcpy(bad, good, 160), memcpy(strstr(bad + 10, "<f4"), "<f8", 3);
  refused(t, "double.npy", bad, 160, ": descr: expected '<f4' (fp32), got '<f8' (NumPy: .astype('f4'))");
  memcpy(bad, good, 160), memcpy(strstr(bad + 10, "<f4"), ">f4", 3);
  refused(t, "big-endian.npy", bad, 160, ": descr: expected '<f4' (fp32), got '>f4' (NumPy: .astype('f4'))");
  memcpy(bad, good, 160), memcpy(strstr(bad + 10, "False"), "True ", 5);
  refused(t, "fortran.npy", bad, 160, ": fortran_order: expected False (C order; NumPy: np.ascontiguousarray)");
  memcpy(bad, good, 160), memcpy(strstr(bad + 10, "(1, 2, 2, 2)"), "(2, 1, 2, 2)", 12);
  refused(t, "shape.npy", bad, 160, ": shape: expected (1, 2, 2, 2) for n,c,h,w, got (2, 1, 2, 2)");
  memcpy(bad, good, 160), memcpy(strstr(bad + 10, "(1, 2, 2, 2)"), "(8,)        ", 12);
  refused(t, "flat.npy", bad, 160, ": shape: expected (1, 2, 2, 2) for n,c,h,w, got (8,)");
  /* headers as long as the good one, or shorter and filled with blanks */
  static const struct {
    const char *name, *header, *want;
  } headers[] = {
      {"falsehood.npy", "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (1, 2, 2, 2), }",
       ": fortran_order: expected False (C order; NumPy: np.ascontiguousarray)"},
      {"twice.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2, 2, 2), 'descr': '<f4'}", NULL},
      {"no-descr.npy", "{'fortran_order': False, 'shape': (1, 2, 2, 2)}", NULL},
      {"fourth.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2, 2), 'more': 1}", NULL},
      {"no-braces.npy", "'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2, 2)", NULL},
      {"in-a-string.npy", "{'descr': \"'fortran_order': False, 'shape': (1, 2, 2, 2)\"}", NULL},
      {"behind.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2, 2)} and more", NULL},
      {"no-commas.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2 2 2)}", ": shape: expected (1, 2, 2, 2) for n,c,h,w, got (1 2 2 2)"},
      {"commas.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,, 2, 2, 2)}", ": shape: expected (1, 2, 2, 2) for n,c,h,w, got (1,, 2, 2, 2)"},
      {"fields.npy", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 2, 2, 2)}",
       ": descr: expected '<f4' (fp32), got [('a', '<f4')] (NumPy: .astype('f4'))"},
  };
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    memcpy(bad, good, 160), memset(bad + 10, ' ', 117), memcpy(bad + 10, headers[i].header, strlen(headers[i].header));
    refused(t, headers[i].name, bad, 160, headers[i].want ? headers[i].want : ": expected a header with descr, fortran_order and shape, once each");
  }
  memcpy(bad, good, 160), bad[120] = 0;
  refused(t, "zero-byte.npy", bad, 160, ": expected text in its header, got a zero byte");
  memcpy(bad, good, 160), bad[6] = 9;
  refused(t, "version.npy", bad, 160, ": expected .npy format version 1, 2 or 3");
}

/* Half precision: every half survives, and doubles round straight to the nearest. */
static void halves(void) {
  int same = 0;
  for (uint32_t h = 0; h < 65536; h++) {
    const float f = half_to_float((uint16_t)h);
    same += f != f ? (half_from_float(f) & 0x7c00) == 0x7c00 && (half_from_float(f) & 0x3ff) != 0 : half_from_float(f) == h;
  }
  ok(same == 65536, "all 65536 halves convert to float and back");
  int nearest = 0, tried = 0;
  for (uint32_t h = 0; h < 0x7bff; h++) { /* between each half and the next: just below, at and just above the middle */
    const double low = (double)half_to_float((uint16_t)h), high = (double)half_to_float((uint16_t)(h + 1)), middle = (low + high) / 2,
                 little = (high - low) * 0x1p-30;
    const uint16_t even = (uint16_t)(h % 2 ? h + 1 : h);
    nearest += half_from_double(middle - little) == h && half_from_double(middle + little) == h + 1 && half_from_double(middle) == even;
    nearest +=
        half_from_double(-middle - little) == (0x8000 | (h + 1)) && half_from_double(-middle) == (0x8000 | even) && half_from_float((float)middle) == even;
    tried += 2;
  }
  ok(nearest == tried, "doubles round to the nearest half, ties to even, never twice");
  ok(half_from_double(65519.99) == 0x7bff && half_from_double(65520) == 0x7c00 && half_from_double(-1e30) == 0xfc00 && half_from_double(0x1p-26) == 0,
     "the ends of the range");
}

int main(void) {
  plan(0);
  if (!mkdtemp(folder)) return 1;
  conv_problem p;
  char error[256], good[256], command[512];
  ok(problem_parse(&p, "g2mb2ic6ih5iw4oc8kh3kw2ph1pw1", error, sizeof error) == 0, "a problem");
  round_trips(&p);
  ok(problem_parse(&p, "mb1ic2ih2oc1kh1", error, sizeof error) == 0, "a problem of eight pixels");
  conv_tensor t = tensor_describe(&p, TENSOR_X, DTYPE_FP32, LAYOUT_NCHW);
  tensor_alloc(&t);
  path_of("numpy.npy", good);
  numpy_file(&t, good);
  refusals(&t, good);
  tensor_free(&t);
  halves();
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) == 0 ? done_testing() : 1;
}
