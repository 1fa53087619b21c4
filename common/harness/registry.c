/* Which kernel a step takes. See registry.h. */
#include "common/harness/registry.h"

#include "common/harness/plan.h"

const conv_choice *step_choose(const conv_step *step, const conv_operation *o, conv_dtype dtype, const conv_device *device, bool random, conv_plan *plan) {
  for (int i = 0; i < step->rule_count; i++) {
    const conv_choice *c = &step->rule[i];
    const conv_kernel *k = c->kernel;
    if (k->pass != o->pass || k->dtype != dtype || k->stores_fp32 != o->epilogue.fp32 || kernel_plan(k, o, device, plan)) continue;
    if (!c->when || c->when(&o->problem, o->pass, device, random)) return c;
  }
  return NULL;
}
