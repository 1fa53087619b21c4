/* wgmma's arithmetic against plain products: of random descriptors, whose elements are found by the formulas of the PTX manual's layouts in units of 16
 * bytes, and of tiles that lie in shared memory as the copy engine writes them. Bit for bit, in every way that this CPU can multiply.
 *
 * emu_wgmma_product --bench: its rates. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/conv/half.h"
#include "common/emu/run/wgmma_product.h"
#include "tests/tap.h"

enum { WINDOW = 256 << 10, MOST = 9, NONE = 0, SWIZZLE_128, SWIZZLE_64, SWIZZLE_32 };

static unsigned char shared[WINDOW] __attribute__((aligned(1024)));
static float of_thread[EMU_WARPGROUP][128], *d[EMU_WARPGROUP];
static float before[64][256], expected[64][256];
static uint32_t a_registers[MOST][EMU_WARPGROUP][4];

static uint64_t state = 1;
static uint32_t random_below(uint32_t range) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((state >> 33) % range);
}

static uint64_t descriptor(uint32_t start, uint32_t lbo, uint32_t sbo, uint64_t swizzle) {
  return (uint64_t)(start / 16 % 16384) | (uint64_t)(lbo / 16) << 16 | (uint64_t)(sbo / 16) << 32 | swizzle << 62;
}

/* ---------------------------------------------------------------- the reference */

/* Canonical layouts, ((in, out), (in, out)) : strides in units of 16 bytes, T = 8 halves in a unit. Along the rows of a K-major operand 8 are a group; of an
 * MN-major one the units of the atom's width w. Then the swizzle: 2^b units, each 8 units apart. */
static uint32_t reference_address(uint64_t desc, bool mn, uint32_t row, uint32_t k) {
  const uint32_t start = (uint32_t)(desc & 16383), lbo = (uint32_t)(desc >> 16 & 16383), sbo = (uint32_t)(desc >> 32 & 16383);
  static const uint32_t b_of[4] = {0, 3, 2, 1};
  const uint32_t b = b_of[desc >> 62], w = 1u << b;
  uint32_t unit, inside;
  if (mn) {
    const uint32_t m = row / 8;
    inside = row % 8;
    unit = b == 0 ? m * sbo + k % 8 + k / 8 * lbo : m % w + m / w * lbo + k % 8 * w + k / 8 * sbo;
  } else {
    inside = k % 8;
    unit = row % 8 * w + row / 8 * sbo + k / 8 * (b == 0 ? lbo : 1);
  }
  unit = (start + unit) % (WINDOW / 16);
  unit ^= unit / 8 % w;
  return unit * 16 + inside * 2;
}

static float shared_half(uint32_t address) {
  uint16_t half;
  memcpy(&half, shared + address, sizeof half);
  return half_to_float(half);
}

/* d [64][n] of `before` is in the threads' registers: PTX ISA, register fragments of D for m64nNk16. */
static void give_d(int n) {
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < n; column++) {
      const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      of_thread[thread][column / 8 * 4 + row % 16 / 8 * 2 + column % 2] = before[row][column];
    }
}

static int wrong_d(int n) {
  int wrong = 0;
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < n; column++) {
      const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      wrong += memcmp(&of_thread[thread][column / 8 * 4 + row % 16 / 8 * 2 + column % 2], &expected[row][column], sizeof(float)) != 0;
    }
  return wrong;
}

static float a_element(const emu_wgmma_record *r, int row, int k) {
  if (r->a_registers == NULL) return shared_half(reference_address(r->a, r->a_mn, (uint32_t)row, (uint32_t)k));
  const uint32_t two = r->a_registers[row / 16 * 32 + row % 8 * 4 + k % 8 / 2][k / 8 * 2 + row % 16 / 8];
  return half_to_float((uint16_t)(two >> 16 * (k % 2)));
}

static void multiply_plainly(const emu_wgmma_record *r) {
  static float a[64][16], b[256][16];
  for (int k = 0; k < 16; k++) {
    for (int row = 0; row < 64; row++) a[row][k] = a_element(r, row, k);
    for (int column = 0; column < r->n; column++) b[column][k] = shared_half(reference_address(r->b, r->b_mn, (uint32_t)column, (uint32_t)k));
  }
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < r->n; column++) {
      float sum = r->scale_d ? expected[row][column] : 0;
      for (int k = 0; k < 16; k++) {
        const float product = a[row][k] * b[column][k];
        sum = sum + product;
      }
      expected[row][column] = sum;
    }
}

static int wrong_chain(const emu_wgmma_record *records, int count) {
  memcpy(expected, before, sizeof expected);
  for (int i = 0; i < count; i++) multiply_plainly(&records[i]);
  const uint32_t nan = 0x7fffffff;
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < records->n; column++)
      if (expected[row][column] != expected[row][column]) memcpy(&expected[row][column], &nan, sizeof nan);
  give_d(records->n);
  emu_wgmma_chain(d, records, count, shared);
  return wrong_d(records->n);
}

/* ---------------------------------------------------------------- random data */

static void fill(bool special) {
  for (int i = 0; i < WINDOW; i += 2) {
    uint16_t half = half_from_float((float)(int)(random_below(20001) - 10000) / 5000);
    if (special && random_below(8) == 0) half = (uint16_t)(random_below(2) << 15 | random_below(1024)); /* subnormal, zero */
    if (special && random_below(500) == 0) half = (uint16_t)(random_below(2) << 15 | 0x7c00 | random_below(3) << 8);
    memcpy(shared + i, &half, sizeof half);
  }
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < 256; column++) before[row][column] = (float)(int)(random_below(2001) - 1000) / 64;
  for (size_t i = 0; i < sizeof a_registers / sizeof(uint32_t); i++)
    (&a_registers[0][0][0])[i] = half_from_float((float)(int)(random_below(201) - 100) / 30) | (uint32_t)half_from_float((float)random_below(9)) << 16;
}

static emu_wgmma_record random_record(int n, int index) {
  const bool scaled = random_below(4) > 0, registers = random_below(4) == 0;
  return (emu_wgmma_record){.n = n,
                            .a = descriptor(random_below(16384) * 16, random_below(600) * 16, random_below(600) * 16, random_below(4)),
                            .b = descriptor(random_below(16384) * 16, random_below(600) * 16, random_below(600) * 16, random_below(4)),
                            .a_registers = registers ? (const uint32_t(*)[4])a_registers[index] : NULL,
                            .a_mn = !registers && random_below(2),
                            .b_mn = random_below(2),
                            .scale_d = scaled};
}

static void test_random(const char *way) {
  int wrong = 0, wrong_special = 0;
  for (int i = 0; i < 160; i++) {
    const bool special = i >= 128;
    if (i % 32 == 0) fill(special);
    emu_wgmma_record records[MOST];
    const int count = 1 + (int)random_below(MOST), n = i < 64 ? 8 * (i % 32 + 1) : 8 * (1 + (int)random_below(32));
    for (int j = 0; j < count; j++) records[j] = random_record(n, j);
    *(special ? &wrong_special : &wrong) += wrong_chain(records, count);
  }
  ok(wrong == 0, "%s: chains of 1 to %d with random descriptors, n = 8 to 256, bit for bit (%d wrong)", way, MOST, wrong);
  ok(wrong_special == 0, "%s: subnormals, infinities and NaN too (%d wrong)", way, wrong_special);
}

static void test_addresses(void) {
  static const char *const name[] = {"none", "128", "64", "32"};
  for (int major = 0; major < 2; major++)
    for (uint64_t swizzle = 0; swizzle < 4; swizzle++) {
      int wrong = 0;
      for (int i = 0; i < 200; i++) {
        const uint64_t desc = descriptor(random_below(16384) * 16, random_below(16384) * 16, random_below(16384) * 16, swizzle);
        for (int row = 0; row < 256; row++)
          for (int k = 0; k < 16; k++) wrong += emu_wgmma_address(desc, major, row, k) != reference_address(desc, major, (uint32_t)row, (uint32_t)k);
      }
      ok(wrong == 0, "addresses of %s-major, swizzle %s", major ? "MN" : "K", name[swizzle]);
    }
}

static void test_places(void) {
  static int of_d[64][256], of_a[64][16];
  int row, column, wrong = 0;
  for (int thread = 0; thread < EMU_WARPGROUP; thread++) {
    for (int i = 0; i < 128; i++) {
      emu_wgmma_d_place(thread, i, &row, &column);
      of_d[row][column]++;
    }
    for (int i = 0; i < 8; i++) {
      emu_wgmma_a_place(thread, i, &row, &column);
      of_a[row][column]++;
    }
  }
  for (row = 0; row < 64; row++)
    for (column = 0; column < 256; column++) wrong += of_d[row][column] != 1 || (column < 16 && of_a[row][column] != 1);
  ok(wrong == 0, "every element of d and of a in registers has one place");
  emu_wgmma_d_place(37, 6, &row, &column);
  ok(row == 25 && column == 10, "d: thread 37, register 6 is row 25, column 10 (got %d, %d)", row, column);
  emu_wgmma_a_place(127, 7, &row, &column);
  ok(row == 63 && column == 15, "a: thread 127, half 7 is row 63, k 15 (got %d, %d)", row, column);
}

/* ---------------------------------------------------------------- tiles as the copy engine writes them */

enum { PIXELS = 640, CHANNELS = 64, TILE = 8 << 10 };
static float tile[PIXELS][CHANNELS], weights[64][CHANNELS];

/* Rows of 64 halves from `at` on, swizzled by 128 bytes: the piece of 16 bytes number c of row p lies at c XOR p % 8. `at`: a multiple of 1024. */
static void put_rows(uint32_t at, const float *rows, int count) {
  for (int p = 0; p < count; p++)
    for (int c = 0; c < CHANNELS; c++) {
      const uint16_t half = half_from_float(rows[p * CHANNELS + c]);
      memcpy(shared + at + p * 128 + (c / 8 ^ p % 8) * 16 + c % 8 * 2, &half, sizeof half);
    }
}

static void fill_tile(void) {
  for (int p = 0; p < PIXELS; p++)
    for (int c = 0; c < CHANNELS; c++) tile[p][c] = (float)(int)(random_below(17) - 8);
  for (int m = 0; m < 64; m++)
    for (int c = 0; c < CHANNELS; c++) weights[m][c] = (float)(int)(random_below(17) - 8);
  put_rows(TILE, &tile[0][0], PIXELS);
  put_rows(128 << 10, &weights[0][0], 64);
}

/* Small integers: exact in any order. b(column, k) of pixels tile[...][...], a(row, k) = weights[row][k], 64 steps of k. */
static int wrong_product(const emu_wgmma_record *records, float b_of(int column, int k, int shift, int pitch), int shift, int pitch) {
  memset(expected, 0, sizeof expected);
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < records->n; column++)
      for (int k = 0; k < 64; k++) expected[row][column] += weights[row][k] * b_of(column, k, shift, pitch);
  emu_wgmma_chain(d, records, 4, shared);
  return wrong_d(records->n);
}

/* Pixels are b's rows, in groups of 8 that are `pitch` pixels apart. */
static float window_rows(int column, int k, int shift, int pitch) { return tile[shift + column / 8 * pitch + column % 8][k]; }

static void test_shifted_rows(void) {
  int wrong = 0;
  fill_tile();
  for (int shift = 0; shift < 72; shift++) {
    const int pitch = shift % 3 == 0 ? 8 : 9 + shift % 26, n = 128;
    emu_wgmma_record r[4];
    for (uint32_t i = 0; i < 4; i++)
      r[i] = (emu_wgmma_record){.n = n,
                                .a = descriptor((128 << 10) + 32 * i, 16, 1024, SWIZZLE_128),
                                .b = descriptor(TILE + (uint32_t)shift * 128 + 32 * i, 16, (uint32_t)pitch * 128, SWIZZLE_128),
                                .scale_d = i > 0};
    wrong += wrong_product(r, window_rows, shift, pitch);
  }
  ok(wrong == 0, "K-major, 128 bytes: a window that starts at any row, groups of 8 rows any number of rows apart (%d wrong)", wrong);
}

/* A pixel is 16 bytes, 8 channels: row p's k is the channel k % 8 of pixel p + k / 8. */
static void test_overlapping(void) {
  int wrong = 0;
  static float pixel[256][8];
  for (int p = 0; p < 256; p++)
    for (int c = 0; c < 8; c++) {
      pixel[p][c] = (float)(int)(random_below(17) - 8);
      const uint16_t half = half_from_float(pixel[p][c]);
      memcpy(shared + TILE + p * 16 + c * 2, &half, sizeof half);
    }
  memset(expected, 0, sizeof expected);
  const int n = 232;
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < n; column++)
      for (int k = 0; k < 16; k++) expected[row][column] += weights[row][k] * pixel[column + k / 8][k % 8];
  const emu_wgmma_record r = {.n = n, .a = descriptor(128 << 10, 16, 1024, SWIZZLE_128), .b = descriptor(TILE, 16, 128, NONE)};
  emu_wgmma_chain(d, &r, 1, shared);
  wrong += wrong_d(n);
  ok(wrong == 0, "K-major, no swizzle, LBO 16, SBO 128: every row starts a pixel of 16 bytes further (%d wrong)", wrong);
}

/* Pixels are the depth; columns are the 64 channels of three taps, a pixel apart. */
static float three_taps(int column, int k, int shift, int pitch) { return tile[shift + k + column / 64 * pitch][column % 64]; }

static void test_depth_of_pixels(void) {
  int wrong = 0;
  fill_tile();
  for (int shift = 0; shift < 60; shift += 7) {
    emu_wgmma_record r[4];
    for (uint32_t i = 0; i < 4; i++)
      r[i] = (emu_wgmma_record){.n = 192,
                                .a = descriptor((128 << 10) + 32 * i, 16, 1024, SWIZZLE_128),
                                .b = descriptor(TILE + (uint32_t)shift * 128 + 2048 * i, 128, 1024, SWIZZLE_128),
                                .b_mn = true,
                                .scale_d = i > 0};
    wrong += wrong_product(r, three_taps, shift, 1);
  }
  ok(wrong == 0, "MN-major, 128 bytes, LBO 128: three taps of a filter row as n192, from any pixel (%d wrong)", wrong);
}

/* ---------------------------------------------------------------- rates */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* GMAC/s of chains of `count`, K-major, 128 bytes. */
static double rate(int n, int count, bool mn, double seconds) {
  emu_wgmma_record r[36];
  for (int i = 0; i < count; i++)
    r[i] = (emu_wgmma_record){.n = n,
                              .a = descriptor((128 << 10) + 32 * (i % 4), 16, 1024, SWIZZLE_128),
                              .b = descriptor(TILE + 32 * (i % 4), 8192, 1024, SWIZZLE_128),
                              .b_mn = mn,
                              .scale_d = true};
  int times = 0;
  const double start = now();
  double passed;
  do {
    emu_wgmma_chain(d, r, count, shared);
    times++;
  } while ((passed = now() - start) < seconds);
  return 1e-9 * 64 * 16 * n * (double)count * times / passed;
}

static void bench(void) {
  fill_tile();
  printf("GMAC/s on one core     n  chain of 1      of 4     of 36  of 36, b MN-major\n");
  for (int way = 0; emu_wgmma_use(way) != NULL; way++)
    for (int n = 64; n <= 256; n *= 2)
      printf("%-18s %5d  %10.1f %9.1f %9.1f %18.1f\n", emu_wgmma_use(way), n, rate(n, 1, false, .2), rate(n, 4, false, .2), rate(n, 36, false, .2),
             rate(n, 36, true, .2));
}

int main(int argc, char **argv) {
  for (int thread = 0; thread < EMU_WARPGROUP; thread++) d[thread] = of_thread[thread];
  if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
    bench();
    return 0;
  }
  if (argc > 1) {
    fprintf(stderr, "emu_wgmma_product: expected --bench or nothing, got \"%s\"\n", argv[1]);
    return 2;
  }
  plan(0);
  test_places();
  test_addresses();
  ok(emu_wgmma_refused(descriptor(0x3fff0, 0x3fff0, 0x3fff0, 3)) == NULL, "a descriptor with all its fields is one");
  ok(emu_wgmma_refused(descriptor(1024, 16, 1024, 1) | UINT64_C(3) << 49) != NULL, "a base offset is refused");
  ok(emu_wgmma_refused(descriptor(1024, 16, 1024, 1) | UINT64_C(1) << 14) != NULL, "a bit outside of the fields is refused");
  for (int way = 0; emu_wgmma_use(way) != NULL; way++) {
    test_random(emu_wgmma_use(way));
    test_shifted_rows();
    test_overlapping();
    test_depth_of_pixels();
  }
  emu_wgmma_use(0);
  diag("%s: %.1f GMAC/s on one core, chains of 4 with n = 256", emu_wgmma_use(0), rate(256, 4, false, .05));
  return done_testing();
}
