/* should_fuse(): what it counts, by hand; and each of its reasons. */
#include "07_fusion/should_fuse.h"

#include <math.h>
#include <string.h>

#include "tests/tap.h"

static const conv_device device = {.arch = 90, .sm_count = 132, .l2_bytes = 60 << 20};
static const machine_peaks peaks = {.fp32_flops = 67e12, .fp16_flops = 800e12, .read_per_second = 4e12, .copy_per_second = 4e12};

static conv_operation operation(const char *shape, conv_epilogue e) {
  conv_operation o = {.kind = OPERATION_CONVOLUTION, .pass = PASS_FPROP, .epilogue = e};
  char error[256];
  ok(problem_parse(&o.problem, shape, error, sizeof error) == 0, "%s", shape);
  return o;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(b); }

int main(void) {
  const conv_epilogue relu = {.activation = ACTIVATION_RELU}, added = {.residual = true, .activation = ACTIVATION_RELU};
  fusion_account a;
  /* 2 images of 64 channels and 14 x 14 pixels; 64, then 256 filters: x and what lies between 50,176 bytes each, y 200,704, filters 73,728 and 32,768. */
  conv_chain chain = {.count = 2, .operation = {operation("mb2ic64ih14oc64kh3ph1", relu), operation("mb2ic64ih14oc256kh1", relu)}};
  chain_facts facts = {.blocks = 8, .tiles = 8, .us = 0.05};
  should_fuse(&chain, &facts, &device, &peaks, &a);
  ok(near(a.bytes_fused, 50176 + 73728 + 32768 + 200704) && near(a.bytes_apart, a.bytes_fused + 2 * 50176), "bytes of a chain of two");
  ok(near(a.macs, 2.0 * 196 * (64 * 64 * 9 + 64 * 256)) && a.again == 0, "multiply-adds");
  ok(near(a.busy, 8 / 132.0), "eight tiles for 132 multiprocessors");
  const double bytes = 1e6 * a.bytes_fused / (0.95 * 4e12);
  ok(near(a.us_fused, 2.8 + bytes), "2.8 us, and bytes, which take longer than a block's tiles");
  const double first = 3 + 1e6 * (2 * 50176 + 73728) / (0.95 * 4e12), left = 32768 + 200704; /* the second finds x in the cache */
  ok(near(a.us_apart, first + 1.1 + 0.8 * sqrt(left / 1e6) + 1e6 * left / (0.95 * 4e12)), "apart: 3 us, a start behind another, and bytes");
  ok(a.pays && strstr(a.reason, "nothing is computed twice"), "%s", a.reason);

  chain.operation[1].epilogue = added;
  should_fuse(&chain, &facts, &device, &peaks, &a);
  const double with_residual = a.bytes_fused;
  ok(near(with_residual, 50176 + 73728 + 32768 + 2 * 200704), "a residual is read once");
  chain = (conv_chain){.count = 2, .operation = {operation("mb2ic64ih14oc64kh3ph1", relu), operation("mb2ic64ih14oc64kh1", added)}, .residual_is_x = true};
  should_fuse(&chain, &facts, &device, &peaks, &a);
  ok(near(a.bytes_fused, 50176 + 73728 + 8192 + 50176), "and not again if it is x");

  chain = (conv_chain){.count = 1, .operation = {operation("mb256ic64ih56oc256kh1", added)}};
  facts = (chain_facts){0};
  should_fuse(&chain, &facts, &device, &peaks, &a);
  const double y = 2.0 * 256 * 56 * 56 * 256;
  ok(near(a.bytes_apart - a.bytes_fused, 2 * y) && a.pays, "an epilogue by itself reads and writes y once more");
  ok(a.us_apart - a.us_fused > 1e6 * 2 * y / 4e12, "too large for the cache: both trips take time");

  chain = (conv_chain){.count = 2, .operation = {operation("mb256ic64ih56oc64kh3ph1", relu), operation("mb256ic64ih56oc64kh3ph1", relu)}};
  facts = (chain_facts){.blocks = 132, .tiles = 132 * 30, .again = 0.5 * problem_macs(&chain.operation[0].problem), .us = 400};
  should_fuse(&chain, &facts, &device, &peaks, &a);
  ok(near(a.us_fused, 2.8 + 400), "a block's tiles take longer than bytes");
  ok(!a.pays && strstr(a.reason, "25 % more products"), "%s", a.reason);
  facts.again = 0, facts.tiles = 133;
  should_fuse(&chain, &facts, &device, &peaks, &a);
  ok(!a.pays && strstr(a.reason, "too few tiles, the multiprocessors have one for 50 %"), "%s", a.reason);
  facts.tiles = 132 * 30;
  should_fuse(&chain, &facts, &device, &peaks, &a);
  ok(!a.pays && strstr(a.reason, "one after the other, take 400 us"), "%s", a.reason);

  /* A depthwise layer's epilogue is a kernel of its own; few channels are multiplied as 64. */
  chain = (conv_chain){.count = 2, .operation = {operation("g32mb64ic32ih56oc32kh3ph1", relu), operation("mb64ic32ih56oc16kh1", relu)}};
  should_fuse(&chain, &facts, &device, &peaks, &a);
  const double narrow = 2.0 * 64 * 56 * 56 * 32;
  ok(near(a.bytes_apart, 6 * narrow + narrow / 2 - narrow + 2 * (32 * 9 + 32 * 16)), "an epilogue behind a depthwise layer: three kernels");
  /* A first layer makes pairs before it multiplies: 4 us. (An epilogue of its own again.) */
  chain = (conv_chain){.count = 1, .operation = {operation("mb1ic3ih224oc64oh112kh7sh2ph3", (conv_epilogue){0})}};
  facts = (chain_facts){0};
  should_fuse(&chain, &facts, &device, &peaks, &a);
  ok(near(a.us_apart, 3 + 4 + 1e6 * a.bytes_apart / (0.95 * 4e12)), "a first layer: 4 us for pairs, and bytes");
  chain = (conv_chain){.count = 1, .operation = {operation("mb1ic64ih56oc256kh1", (conv_epilogue){0})}};
  facts = (chain_facts){0};
  should_fuse(&chain, &facts, &device, &peaks, &a);
  ok(!a.pays && strstr(a.reason, "one operation"), "%s", a.reason);
  return done_testing();
}
