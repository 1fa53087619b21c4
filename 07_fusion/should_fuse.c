/* See should_fuse.h. */
#include "07_fusion/should_fuse.h"

#include <math.h>
#include <stdio.h>

#include "common/conv/epilogue.h"

/* A kernel alone; one behind another begins while that ends, but the more it has to read and write, the longer until it is at full rate: at most `late_us`. */
static const double start_us = 3, chain_start_us = 2.8, next_us = 1.1, late_us = 1.2, late_us_mb = 0.8;
/* A first layer's filters and pixels become pairs before the first product: with one image 06s takes 7.8 us, where its start and its bytes are 3.5. */
static const double pairs_us = 4;
static const double memory_share = 0.95, products_share = 0.8, depthwise_share = 0.6, pointwise_share = 0.7, pool_share = 0.9;

static bool is_depthwise(const conv_operation *o) { return o->kind == OPERATION_CONVOLUTION && o->problem.groups > 1 && o->problem.groups == o->problem.C; }

static bool is_first_layer(const conv_operation *o) { return o->kind == OPERATION_CONVOLUTION && o->problem.groups == 1 && o->problem.C <= 4; }

/* Multiply-adds that tensor cores make: 64 channels and 64 filters at a time, zeros too. */
static double padded_macs(const conv_operation *o) {
  const conv_problem *p = &o->problem;
  if (o->kind != OPERATION_CONVOLUTION || p->groups > 1 || is_first_layer(o)) return 0;
  return problem_macs(p) / p->C / p->K * (double)((p->C + 63) / 64 * 64) * (double)((p->K + 63) / 64 * 64);
}

static double work_us(const machine_peaks *peaks, conv_traffic bytes, double share, double macs) {
  return 1e6 * fmax(machine_memory_seconds(peaks, bytes) / share, 2 * macs / (products_share * peaks->fp16_flops));
}

/* An operation by our own kernel for it, alone or behind others. cached: bytes of x that the one before has left in the L2 cache. */
static double kernel_us(const machine_peaks *peaks, const conv_operation *o, double cached, bool first) {
  const bool pool = o->kind == OPERATION_MAX_POOL, pointwise = o->kind == OPERATION_POINTWISE;
  const double share = pool ? pool_share : pointwise ? pointwise_share : is_depthwise(o) ? depthwise_share : memory_share;
  conv_traffic bytes = operation_traffic(o, DTYPE_FP16);
  bytes.read -= cached;
  const double begin = first ? start_us : next_us + fmin(late_us, late_us_mb * sqrt((bytes.read + bytes.written) / 1e6));
  return begin + (is_first_layer(o) ? pairs_us : 0) + work_us(peaks, bytes, share, padded_macs(o));
}

static double macs_of(const conv_operation *o) { return o->kind == OPERATION_CONVOLUTION ? problem_macs(&o->problem) : 0; }

/* Operations that are kernels of their own: an epilogue, too, in a chain of one, and behind a depthwise or a first layer, whose kernels have none. Returns their number. */
static int apart_of(const conv_chain *chain, conv_operation apart[2 * CHAIN_OPERATIONS]) {
  int count = 0;
  for (int i = 0; i < chain->count; i++) {
    const conv_operation *o = &chain->operation[i];
    apart[count++] = *o;
    if (epilogue_empty(&o->epilogue) || (chain->count > 1 && !is_depthwise(o) && !is_first_layer(o))) continue;
    apart[count - 1].epilogue = (conv_epilogue){0};
    apart[count++] = epilogue_alone(o);
  }
  return count;
}

/* What decides most, in words. apart: kernels without fusion. */
static void say_why(fusion_account *a, int apart, double tiles_us) {
  const double megabytes = (a->bytes_apart - a->bytes_fused) / 1e6, again = a->macs > 0 ? 100 * a->again / a->macs : 0;
  if (a->pays && again >= 0.5) snprintf(a->reason, sizeof a->reason, "pays: %.3g MB less through memory, for %.0f %% more products", megabytes, again);
  else if (a->pays) snprintf(a->reason, sizeof a->reason, "pays: %.3g MB less through memory, and nothing is computed twice", megabytes);
  else if (apart == 1) snprintf(a->reason, sizeof a->reason, "does not pay: it is one operation without an epilogue");
  else if (again >= 5) snprintf(a->reason, sizeof a->reason, "does not pay: %.0f %% more products take longer than %.3g MB through memory", again, megabytes);
  else if (a->busy < 0.75)
    snprintf(a->reason, sizeof a->reason, "does not pay: too few tiles, the multiprocessors have one for %.0f %% of the time", 100 * a->busy);
  else
    snprintf(a->reason, sizeof a->reason, "does not pay: a block's tiles, one after the other, take %.3g us, kernels apart %.3g in all", tiles_us, a->us_apart);
}

void should_fuse(const conv_chain *chain, const chain_facts *facts, const conv_device *device, const machine_peaks *peaks, fusion_account *account) {
  conv_operation apart[2 * CHAIN_OPERATIONS];
  const int count = apart_of(chain, apart);
  conv_traffic fused = {0};
  fusion_account *a = account;
  *a = (fusion_account){.again = facts->again};
  double stored = 0; /* what the operation before wrote */
  for (int i = 0; i < count; i++) {
    const conv_traffic each = operation_traffic(&apart[i], DTYPE_FP16);
    a->bytes_apart += each.read + each.written;
    a->macs += macs_of(&apart[i]);
    fused.read += each.read - stored;
    if (i == count - 1 && chain->residual_is_x) fused.read -= 2.0 * (double)problem_x_count(&chain->operation[0].problem);
    if (i == count - 1) fused.written = each.written;
    a->us_apart += kernel_us(peaks, &apart[i], stored <= (double)device->l2_bytes / 2 ? stored : 0, i == 0);
    stored = each.written;
  }
  a->bytes_fused = fused.read + fused.written;
  const double rounds = facts->blocks > 0 ? ceil((double)facts->tiles / facts->blocks) : 1;
  a->busy = facts->tiles > 0 ? fmin(facts->tiles / (rounds * device->sm_count), 1) : 1;
  const bool one = chain->count == 1;
  a->us_fused = (one ? start_us : chain_start_us) + fmax(work_us(peaks, fused, memory_share, one ? padded_macs(&chain->operation[0]) : 0), facts->us);
  a->pays = a->us_fused < a->us_apart && count > 1;
  say_why(a, count, facts->us);
}
