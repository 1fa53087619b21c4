/* Does the device find what the host finds? Data, comparisons and byte differences by kernels, wherever kernels run, beside the host's: bit for bit where both
 * do the same arithmetic. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/gpu.h"
#include "common/conv/operation_reference.h"
#include "common/conv/spot_check.h"
#include "common/conv/verify.h"
#include "tests/tap.h"

/* ---------------------------------------------------------------- memory of the device */

static void *to_device(const void *host, size_t bytes) {
  void *device = NULL;
  if (cudaMalloc(&device, bytes) || (host && cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice))) {
    printf("Bail out! no device memory\n");
    exit(2);
  }
  return device;
}

static conv_tensor tensor_on_device(const conv_tensor *host) {
  conv_tensor device = *host;
  device.data = to_device(host->data, tensor_bytes(host));
  return device;
}

static conv_reference reference_to_device(const conv_reference *host) {
  conv_reference device = *host;
  device.value = to_device(host->value, (size_t)host->shape.count * sizeof *host->value);
  device.scale = to_device(host->scale, (size_t)host->shape.count * sizeof *host->scale);
  device.room = to_device(NULL, GPU_ROOM);
  return device;
}

static conv_tensor host_tensor(const conv_problem *p, tensor_role role, conv_dtype dtype, conv_layout layout) {
  conv_tensor t = tensor_describe(p, role, dtype, layout);
  if (tensor_alloc(&t)) exit(2);
  return t;
}

static conv_problem problem(const char *text) {
  conv_problem p;
  char error[256];
  if (problem_parse(&p, text, error, sizeof error)) printf("Bail out! %s\n", error), exit(2);
  return p;
}

/* ---------------------------------------------------------------- data */

static void fills(void) {
  static const char *const shapes[] = {"mb1ic1ih1oc1kh1", "g3mb2ic6ih7iw5oc9kh3kw2ph1", "mb3ic17ih13iw11oc5kh1kw1",
                                       "mb1ic65ih130iw140oc2kh1kw1"}; /* the last: more elements than threads */
  static const conv_source sources[] = {
      {.seed = 1}, {.seed = 0x123456789abcdef}, {.seed = 7, .magnitude = 1}, {.seed = 7, .magnitude = 3}, {.seed = 9, .magnitude = 8}};
  for (size_t k = 0; k < sizeof sources / sizeof *sources; k++) {
    int same = 0, tensors = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
      for (int form = 0; form < 3 * DTYPE_COUNT * LAYOUT_COUNT; form++) {
        if (i == 3 && form != (int)(3 * k % 12)) continue; /* one of its forms is enough */
        const conv_problem p = problem(shapes[i]);
        conv_tensor host = host_tensor(&p, (tensor_role)(form % 3), (conv_dtype)(form / 3 % 2), (conv_layout)(form / 6)), back = host;
        tensor_fill(&host, sources[k]);
        conv_tensor device = host;
        device.data = to_device(NULL, tensor_bytes(&host));
        if (tensor_alloc(&back)) exit(2);
        same += gpu_fill(&device, sources[k]) == cudaSuccess &&
                cudaMemcpy(back.data, device.data, tensor_bytes(&back), cudaMemcpyDeviceToHost) == cudaSuccess &&
                memcmp(back.data, host.data, tensor_bytes(&host)) == 0;
        tensors++;
        cudaFree(device.data);
        tensor_free(&host), tensor_free(&back);
      }
    ok(same == tensors, "%s by seed %llx: %d of %d tensors of all types and layouts have the host's bits", sources[k].magnitude ? "integers" : "normal numbers",
       (unsigned long long)sources[k].seed, same, tensors);
  }
}

static void layouts(void) {
  int same = 0;
  for (int form = 0; form < 8; form++) {
    const conv_problem p = problem("mb3ic7ih5iw9oc11kh2kw3");
    const conv_dtype dtype = (conv_dtype)(form & 1);
    conv_tensor from = host_tensor(&p, TENSOR_X, dtype, (conv_layout)(form >> 1 & 1)), want = host_tensor(&p, TENSOR_X, dtype, (conv_layout)(form >> 2)),
                got = want;
    tensor_fill_normal(&from, 3), tensor_fill_normal(&want, 3);
    conv_tensor a = tensor_on_device(&from), b = want;
    b.data = to_device(NULL, tensor_bytes(&b));
    if (tensor_alloc(&got)) exit(2);
    same += gpu_copy(&b, &a) == cudaSuccess && cudaMemcpy(got.data, b.data, tensor_bytes(&b), cudaMemcpyDeviceToHost) == cudaSuccess &&
            memcmp(got.data, want.data, tensor_bytes(&b)) == 0;
    cudaFree(a.data), cudaFree(b.data);
    tensor_free(&from), tensor_free(&want), tensor_free(&got);
  }
  ok(same == 8, "copied into the other layout, or the same: the same tensor");
}

/* ---------------------------------------------------------------- verdicts */

typedef enum { RIGHT, ONE_WRONG, A_NAN, AN_INFINITY, UNWRITTEN, SEVERAL, FIRST_AND_LAST, ALL, DEFECTS } defect;
static const char *const defect_names[DEFECTS] = {"a right result",      "one wrong element",      "a NaN",        "an infinity", "an unwritten tile",
                                                  "nine wrong elements", "a wrong first and last", "nothing right"};

/* The reference as a kernel would leave it, but for the defect. */
static void make_result(const conv_tensor *out, const conv_reference *ref, defect d) {
  const int64_t n = out->count;
  for (int64_t i = 0; i < n; i++) {
    const int64_t k = out->layout == ref->shape.layout ? i : tensor_offset(out, tensor_index(&ref->shape, i));
    const bool wrong = d == ALL || (d == ONE_WRONG && i == n / 2) || (d == SEVERAL && i % (n / 9 + 1) == 0) || (d == FIRST_AND_LAST && (i == 0 || i == n - 1));
    double value = ref->value[i];
    if (wrong) value += 1 + fabs(value);
    if (d == A_NAN && i == n / 3) value = NAN;
    if (d == AN_INFINITY && i == n / 3) value = INFINITY;
    tensor_set(out, k, value);
    if (d == UNWRITTEN && i >= n / 4 && i < n / 4 + 8) memset((char *)out->data + (size_t)k * dtype_bytes(out->dtype), 0xFF, dtype_bytes(out->dtype));
  }
}

typedef struct {
  conv_verdict verdict;
  char text[2048];
} judgement;

static judgement judged(bool on_device, const conv_tensor *out, const conv_reference *ref, compare_mode mode, error_rule rule) {
  judgement j = {0};
  FILE *log = fmemopen(j.text, sizeof j.text, "w");
  if (!on_device) j.verdict = verify_output(out, ref, mode, rule, log);
  if (on_device && verify_on_device(out, ref, mode, rule, log, &j.verdict)) j.verdict.mismatches = -1;
  fclose(log);
  return j;
}

static bool same_judgement(const judgement *a, const judgement *b) {
  return a->verdict.right == b->verdict.right && a->verdict.mismatches == b->verdict.mismatches &&
         memcmp(&a->verdict.worst_share, &b->verdict.worst_share, sizeof(double)) == 0 &&
         memcmp(&a->verdict.plain_share, &b->verdict.plain_share, sizeof(double)) == 0 && strcmp(a->text, b->text) == 0;
}

/* One problem, all defects: tells how many verdicts of the device are the host's, and how many are as they should be. */
static void compare_verdicts(const conv_problem *p, conv_pass pass, conv_dtype dtype, conv_layout layout, int same[DEFECTS], int as_wanted[DEFECTS]) {
  for (int mode = 0; mode < 2; mode++) {
    conv_tensor a = host_tensor(p, pass_input_a(pass), dtype, layout), b = host_tensor(p, pass_input_b(pass), dtype, layout);
    tensor_fill(&a, (conv_source){.seed = 1, .magnitude = mode == COMPARE_EXACT ? 3 : 0});
    tensor_fill(&b, (conv_source){.seed = 2, .magnitude = mode == COMPARE_EXACT ? 3 : 0});
    conv_reference ref;
    char error[256];
    if (reference_compute(&ref, p, pass, &a, &b, true, false, error, sizeof error)) exit(2);
    conv_reference on_device = reference_to_device(&ref);
    const error_rule rules[2] = {{.growth = growth_chain_fp32((double)ref.terms, true)},
                                 {.growth = growth_winograd((double)ref.terms, WINOGRAD_4X4_NORM, true), .shared = true}};
    for (int d = 0; d < DEFECTS; d++)
      for (int shared = 0; shared < 2; shared++) {
        conv_tensor out = host_tensor(p, pass_output(pass), dtype, layout),
                    other = host_tensor(p, pass_output(pass), dtype, layout == LAYOUT_NCHW ? LAYOUT_NHWC : LAYOUT_NCHW);
        make_result(&out, &ref, (defect)d), make_result(&other, &ref, (defect)d);
        conv_tensor there = tensor_on_device(&out), other_there = tensor_on_device(&other);
        const judgement host = judged(false, &out, &ref, (compare_mode)mode, rules[shared]),
                        device = judged(true, &there, &on_device, (compare_mode)mode, rules[shared]);
        const judgement moved = judged(true, &other_there, &on_device, (compare_mode)mode, rules[shared]);
        same[d] += same_judgement(&host, &device) && same_judgement(&host, &moved);
        const int64_t wrong = d == RIGHT            ? 0
                              : d == UNWRITTEN      ? (out.count < 8 ? -1 : 8)
                              : d == ALL            ? out.count
                              : d == SEVERAL        ? -1
                              : d == FIRST_AND_LAST ? (out.count > 1 ? 2 : 1)
                                                    : 1;
        as_wanted[d] += device.verdict.right == (d == RIGHT) && (wrong < 0 || device.verdict.mismatches == wrong || (d == UNWRITTEN && out.count < 12));
        cudaFree(there.data), cudaFree(other_there.data);
        tensor_free(&out), tensor_free(&other);
      }
    reference_free(&ref), reference_free(&on_device);
    tensor_free(&a), tensor_free(&b);
  }
}

static void verdicts(void) {
  enum { PROBLEMS = 36 };
  int same[DEFECTS] = {0}, as_wanted[DEFECTS] = {0};
  for (int i = 0; i < PROBLEMS; i++) {
    const conv_problem p = problem_random((uint64_t)i + 300);
    compare_verdicts(&p, (conv_pass)(i % 3), (conv_dtype)(i / 3 % 2), (conv_layout)(i / 6 % 2), same, as_wanted);
  }
  for (int d = 0; d < DEFECTS; d++) {
    ok(same[d] == 4 * PROBLEMS, "%s: %d of %d verdicts of the device are the host's, figure for figure and word for word, in both layouts", defect_names[d],
       same[d], 4 * PROBLEMS);
    ok(as_wanted[d] == 4 * PROBLEMS, "... and %s", d == RIGHT ? "accept it" : "refuse it, with the number of what is wrong");
  }
}

/* More elements than threads, and a wrong one behind all that a thread looks at first; an infinite bound; no elements. */
static void odd_verdicts(void) {
  const conv_problem p = problem("mb1ic1ih1100iw1200oc1oh1100ow1200kh1kw1");
  conv_tensor out = host_tensor(&p, TENSOR_Y, DTYPE_FP32, LAYOUT_NCHW);
  conv_reference ref = {.shape = out,
                        .value = malloc((size_t)out.count * sizeof(double)),
                        .scale = malloc((size_t)out.count * sizeof(float)),
                        .random = true,
                        .terms = 1,
                        .largest_scale = 4};
  tensor_fill_normal(&out, 1);
  for (int64_t i = 0; i < out.count; i++) ref.value[i] = (double)tensor_get(&out, i), ref.scale[i] = 1;
  tensor_set(&out, out.count - 5, 99), tensor_set(&out, out.count - 2, NAN);
  ref.scale[11] = INFINITY;
  conv_reference on_device = reference_to_device(&ref);
  conv_tensor there = tensor_on_device(&out);
  const error_rule rule = {.growth = 1e-7};
  const judgement host = judged(false, &out, &ref, COMPARE_BOUND, rule), device = judged(true, &there, &on_device, COMPARE_BOUND, rule);
  ok(same_judgement(&host, &device) && device.verdict.mismatches == 3, "%lld elements: three wrong ones, by a bound that is infinite, by far, by NaN",
     (long long)out.count);
  float largest = -1;
  ok(gpu_largest(on_device.scale, out.count, on_device.room, &largest) == cudaSuccess && isinf(largest), "the largest of the scales is infinite");
  const float some[5] = {1, NAN, 3, 0, 2};
  cudaMemcpy(on_device.scale, some, sizeof some, cudaMemcpyHostToDevice);
  const cudaError_t status = gpu_largest(on_device.scale, 5, on_device.room, &largest);
  ok(status == cudaSuccess && largest == 3, "of 1, NaN, 3, 0, 2 it is %g", (double)largest);
  on_device.shape.count--;
  ok(!judged(true, &there, &on_device, COMPARE_BOUND, (error_rule){.growth = 1e30}).verdict.right,
     "a result with more elements than the reference is not right");
  there.count = on_device.shape.count = 0;
  ok(!judged(true, &there, &on_device, COMPARE_BOUND, rule).verdict.right, "no elements are not right");
  cudaFree(there.data);
  tensor_free(&out), reference_free(&ref), reference_free(&on_device);
}

/* ---------------------------------------------------------------- bytes */

static void differences(void) {
  enum { BYTES = 5000 };
  unsigned char clean[BYTES], dirty[BYTES];
  for (int i = 0; i < BYTES; i++) clean[i] = (unsigned char)(i * 7);
  unsigned char *want = to_device(clean, BYTES), *data = to_device(clean, BYTES);
  void *room = to_device(NULL, GPU_ROOM);
  static const struct {
    int from, to, at[2]; /* bytes that are compared, and two of them that differ; -1: none */
  } rows[] = {{0, BYTES, {-1, -1}}, {0, BYTES, {0, -1}}, {0, BYTES, {BYTES - 1, -1}}, {0, BYTES, {17, 4321}}, {3, 4000, {3, 3999}},
              {5, 21, {20, -1}},    {16, 32, {15, 32}},  {16, 32, {16, 31}},          {1, 2, {1, -1}},        {0, 0, {0, -1}}};
  enum { ROWS = sizeof rows / sizeof *rows };
  for (int i = 0; i < ROWS; i++) {
    memcpy(dirty, clean, BYTES);
    int first = -1, last = -1;
    for (int k = 0; k < 2; k++) {
      if (rows[i].at[k] < 0) continue;
      dirty[rows[i].at[k]] ^= 0x10;
      if (rows[i].at[k] < rows[i].from || rows[i].at[k] >= rows[i].to) continue;
      if (first < 0) first = rows[i].at[k] - rows[i].from;
      last = rows[i].at[k] - rows[i].from;
    }
    cudaMemcpy(data, dirty, BYTES, cudaMemcpyHostToDevice);
    const size_t bytes = (size_t)(rows[i].to - rows[i].from);
    const gpu_pair pairs[3] = {{want, want, BYTES}, {data + rows[i].from, want + rows[i].from, bytes}, {NULL, NULL, 0}};
    gpu_difference found[3];
    const cudaError_t status = gpu_differences(pairs, 3, room, found);
    ok(status == cudaSuccess && found[0].first == -1 && found[1].first == first && found[1].last == last,
       "bytes %d to %d: they differ first at %lld, last at %lld", rows[i].from, rows[i].to, (long long)found[1].first, (long long)found[1].last);
  }
  cudaFree(want), cudaFree(data), cudaFree(room);
}

int main(void) {
  plan(0);
  fills();
  layouts();
  differences();
  verdicts();
  odd_verdicts();
  return done_testing();
}
