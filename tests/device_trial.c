/* Is a trial on the device prepared as on the host, and when is it there? Data and references of device_check.h, beside the host's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/operation_reference.h"
#include "common/conv/spot_check.h"
#include "common/harness/device_check.h"
#include "tests/tap.h"

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

static const machine *the_machine(void) {
  static machine m;
  char error[256];
  if (m.device.memory_bytes == 0 && machine_open_gpu(&m, error, sizeof error)) exit(2);
  return &m;
}

/* Data and reference of trials as device_check_prepare() makes them, with and without an epilogue, beside the host's; and what the spot check says where the
 * device's data are not what they should be. */
static void prepared(void) {
  enum { PROBLEMS = 48 };
  int same = 0, refused = 0, tried = 0;
  for (int i = 0; i < PROBLEMS; i++) {
    const conv_problem p = problem_random((uint64_t)i + 900);
    const step_options options = {.verify = VERIFY_ON_DEVICE};
    const conv_epilogue some = {.scale = i & 1, .bias = i & 2, .residual = i & 4, .activation = (conv_activation)(i % ACTIVATION_COUNT), .fp32 = i % 5 == 0};
    const trial t = {.problem = &p,
                     .pass = (conv_pass)(i % 2),
                     .dtype = (conv_dtype)(i / 2 % 2),
                     .layout = (conv_layout)(i / 4 % 2),
                     .place = ON_GPU,
                     .options = &options,
                     .machine = the_machine(),
                     .epilogue = i < PROBLEMS / 2 ? some : (conv_epilogue){0}};
    trial plain = t;
    if (i >= PROBLEMS / 2) plain.pass = (conv_pass)(i % 3);
    const tensor_role a = pass_input_a(plain.pass), b = pass_input_b(plain.pass);
    conv_source from[3], fused[3];
    for (int k = 0; k < 3; k++)
      from[k] = (conv_source){.seed = 50 + (uint64_t)k}, fused[k] = epilogue_source(k, 5, 0, plain.epilogue.fp32 ? DTYPE_FP32 : plain.dtype);
    conv_tensor host_a = host_tensor(&p, a, plain.dtype, plain.layout), host_b = host_tensor(&p, b, plain.dtype, plain.layout);
    tensor_fill(&host_a, from[a]), tensor_fill(&host_b, from[b]);
    if (i % 3 == 0) from[a] = (conv_source){.given = &host_a}; /* as from a file */
    device_check d = {0};
    conv_reference device, host;
    char error[512] = "";
    conv_tensor shape = operation_tensor(&p, plain.pass, &plain.epilogue, pass_output(plain.pass), plain.dtype, plain.layout);
    epilogue_data data = epilogue_describe(&plain.epilogue, &shape);
    if (epilogue_fill(&data, 5, 0) || reference_compute(&host, &p, plain.pass, &host_a, &host_b, true, false, error, sizeof error)) exit(2);
    host.shape.dtype = shape.dtype;
    if (!epilogue_empty(&plain.epilogue)) reference_fuse(&host, &plain.epilogue, &data);
    bool equal = device_check_prepare(&d, &device, &plain, from, fused, true, error, sizeof error) == 0 && device.shape.count == host.shape.count &&
                 device.shape.dtype == shape.dtype && device.terms == host.terms && device.random &&
                 fabs((double)device.largest_scale - (double)host.largest_scale) <= 1e-6 * (double)host.largest_scale;
    if (!equal) diag("%s", error);
    bool empty = true; /* every window lies in the padding: whatever the data, all sums are 0 */
    for (int64_t k = 0; k < host.shape.count; k++) empty &= host.value[k] == 0;
    double *value = malloc((size_t)host.shape.count * sizeof *value);
    float *scale = malloc((size_t)host.shape.count * sizeof *scale);
    if (equal) cudaMemcpy(value, device.value, (size_t)host.shape.count * sizeof *value, cudaMemcpyDeviceToHost);
    if (equal) cudaMemcpy(scale, device.scale, (size_t)host.shape.count * sizeof *scale, cudaMemcpyDeviceToHost);
    for (int64_t k = 0; equal && k < host.shape.count; k++)
      equal = fabs(value[k] - host.value[k]) <= 1e-12 * (double)host.scale[k] && fabs((double)scale[k] - (double)host.scale[k]) <= 1e-6 * (double)host.scale[k];
    same += equal;
    free(value), free(scale);
    /* The CPU's own data say otherwise: of x, w, dy; of an epilogue's parts. */
    for (int k = 0; k < 5; k++) {
      conv_source lied_from[2] = {from[a], from[b]}, lied_fused[3] = {fused[0], fused[1], fused[2]};
      const bool there[5] = {true, true, plain.epilogue.scale, plain.epilogue.bias, plain.epilogue.residual};
      if (!there[k] || !equal || empty) continue;
      conv_source *const lie = k < 2 ? &lied_from[k] : &lied_fused[k - 2];
      *lie = (conv_source){.seed = 777};
      tried++;
      refused += spot_check(&device, &p, plain.pass, plain.dtype, lied_from, &plain.epilogue, lied_fused, error, sizeof error) == -1 &&
                 strstr(error, "disagrees with the CPU's definition") != NULL;
    }
    if (equal) reference_free(&device);
    reference_free(&host);
    device_check_free(&d);
    epilogue_free(&data);
    tensor_free(&host_a), tensor_free(&host_b);
  }
  ok(same == PROBLEMS, "%d problems, half of them with an epilogue: data and reference on the device, to 1e-12 of the host's (%d)", PROBLEMS, same);
  ok(refused == tried && tried > 100, "%d of %d references of other data are refused by the CPU's samples", refused, tried);
}

static void decisions(void) {
  static const struct {
    const char *shape;
    conv_place place;
    verify_place asked;
    bool emulated;
    double memory;
    bool want;
    const char *why;
  } rows[] = {
      {"mb64ic64ih56oc64kh3ph1", ON_GPU, VERIFY_BY_SIZE, false, 100e9, true, "a large problem on a GPU"},
      {"mb256ic64ih56oc64kh1", ON_GPU, VERIFY_ON_HOST, false, 100e9, false, "the same, --verify host"},
      {"mb64ic64ih56oc64kh3ph1", ON_GPU, VERIFY_BY_SIZE, true, 100e9, false, "the same on the emulator"},
      {"mb64ic64ih56oc64kh3ph1", ON_CPU, VERIFY_BY_SIZE, false, 100e9, false, "kernels of the CPU"},
      {"mb1ic4ih8oc4kh3ph1", ON_GPU, VERIFY_BY_SIZE, false, 100e9, false, "a small problem"},
      {"mb1ic4ih8oc4kh3ph1", ON_GPU, VERIFY_ON_DEVICE, true, 100e9, true, "a small one on the emulator, --verify device"},
      {"mb1ic1ih2100oc1kh1", ON_GPU, VERIFY_BY_SIZE, false, 100e9, true, "few multiplications, many pixels"},
      {"mb64ic64ih56oc64kh3ph1", ON_GPU, VERIFY_ON_DEVICE, false, 0.5e9, false, "more than the device holds beside the buffers"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const conv_problem p = problem(rows[i].shape);
    machine m = {.device = {.emulated = rows[i].emulated, .memory_bytes = (size_t)rows[i].memory, .l2_bytes = 50 << 20}};
    const step_options options = {.verify = rows[i].asked};
    const trial t = {.problem = &p, .pass = PASS_FPROP, .place = rows[i].place, .options = &options, .machine = &m};
    conv_tensor shapes[3];
    for (int role = 0; role < 3; role++) shapes[role] = tensor_describe(&p, (tensor_role)role, DTYPE_FP32, LAYOUT_NCHW);
    const epilogue_data none = epilogue_describe(&t.epilogue, &shapes[TENSOR_Y]);
    ok(device_check_suits(&t, shapes, &none, 0) == rows[i].want, "%s: verified on the %s", rows[i].why, rows[i].want ? "device" : "host");
    ok(!device_check_suits(&t, shapes, &none, (size_t)200e9), "... and with a workspace of 200 GB on the host");
  }
}

int main(void) {
  plan(0);
  prepared();
  decisions();
  return done_testing();
}
