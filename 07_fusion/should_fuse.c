/* See should_fuse.h. */
#include "07_fusion/should_fuse.h"

#include <math.h>
#include <stdio.h>

#include "common/conv/epilogue.h"

static const double start_us = 3, memory_share = 0.95, products_share = 0.8;

static double kernel_us(const machine_peaks *peaks, conv_traffic bytes, double macs) {
  const double memory = machine_memory_seconds(peaks, bytes) / memory_share, products = 2 * macs / (products_share * peaks->fp16_flops);
  return start_us + 1e6 * fmax(memory, products);
}

static double macs_of(const conv_operation *o) { return o->kind == OPERATION_CONVOLUTION ? problem_macs(&o->problem) : 0; }

/* Operations that are kernels of their own: the chain's; or, of a chain of one, the convolution and its epilogue. Returns their number. */
static int apart_of(const conv_chain *chain, conv_operation apart[CHAIN_OPERATIONS]) {
  for (int i = 0; i < chain->count; i++) apart[i] = chain->operation[i];
  if (chain->count > 1 || epilogue_empty(&apart[0].epilogue)) return chain->count;
  apart[1] = epilogue_alone(&apart[0]);
  apart[0].epilogue = (conv_epilogue){0};
  return 2;
}

/* What decides most, in words. best: the time if nothing were computed twice and every multiprocessor had a tile all the time; without_again, when_busy: if one
 * of these held. */
static void say_why(fusion_account *a, double best, double without_again, double when_busy) {
  const double megabytes = (a->bytes_apart - a->bytes_fused) / 1e6, again = a->macs > 0 ? 100 * a->again / a->macs : 0;
  if (a->pays && again >= 0.5) snprintf(a->reason, sizeof a->reason, "pays: %.3g MB less through memory, for %.0f %% more products", megabytes, again);
  else if (a->pays) snprintf(a->reason, sizeof a->reason, "pays: %.3g MB less through memory, and nothing is computed twice", megabytes);
  else if (megabytes <= 0) snprintf(a->reason, sizeof a->reason, "does not pay: it is one operation without an epilogue");
  else if (a->us_fused < 1.05 * best) snprintf(a->reason, sizeof a->reason, "does not pay: products take the time, and it saves none of them");
  else if (without_again <= when_busy)
    snprintf(a->reason, sizeof a->reason, "does not pay: %.0f %% more products take longer than %.3g MB through memory", again, megabytes);
  else snprintf(a->reason, sizeof a->reason, "does not pay: too few tiles, the multiprocessors have one for %.0f %% of the time", 100 * a->busy);
}

void should_fuse(const conv_chain *chain, const chain_facts *facts, const conv_device *device, const machine_peaks *peaks, fusion_account *account) {
  conv_operation apart[CHAIN_OPERATIONS];
  const int count = apart_of(chain, apart);
  conv_traffic fused = {0};
  fusion_account *a = account;
  *a = (fusion_account){.again = facts->again};
  double stored = 0; /* what the operation before wrote */
  for (int i = 0; i < count; i++) {
    conv_traffic each = operation_traffic(&apart[i], DTYPE_FP16);
    a->bytes_apart += each.read + each.written;
    a->macs += macs_of(&apart[i]);
    fused.read += each.read - stored;
    if (i == count - 1 && chain->residual_is_x) fused.read -= 2.0 * (double)problem_x_count(&chain->operation[0].problem);
    if (i == count - 1) fused.written = each.written;
    if (stored <= (double)device->l2_bytes / 2) each.read -= stored;
    a->us_apart += kernel_us(peaks, each, macs_of(&apart[i]));
    stored = each.written;
  }
  a->bytes_fused = fused.read + fused.written;
  const double rounds = facts->blocks > 0 ? ceil((double)facts->tiles / facts->blocks) : 1;
  a->busy = facts->tiles > 0 ? fmin(facts->tiles / (rounds * device->sm_count), 1) : 1;
  const double without_again = kernel_us(peaks, fused, a->macs / a->busy), when_busy = kernel_us(peaks, fused, a->macs + a->again);
  a->us_fused = kernel_us(peaks, fused, (a->macs + a->again) / a->busy);
  a->pays = a->us_fused < a->us_apart;
  say_why(a, kernel_us(peaks, fused, a->macs), without_again, when_busy);
}
