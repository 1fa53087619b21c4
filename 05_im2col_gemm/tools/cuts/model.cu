/* The model of 05_im2col_gemm/split.h, asked: which cuts there are, which it takes, and what its prices should be. See cuts.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "05_im2col_gemm/split.h"
#include "05_im2col_gemm/tools/cuts/cuts.h"
#include "common/conv/random.h"

extern const cut_kernel split_cuts, classes_cuts, pixels_cuts;
static const cut_kernel *const kernels[CUT_KERNELS] = {&split_cuts, &classes_cuts, &pixels_cuts};

const conv_kernel *cut_kernel_of(int kernel) { return kernels[kernel]->kernel; }

cudaError_t plan_cut(const cut_trial *t, const cut *c, conv_plan *plan) {
  const cut_kernel *k = kernels[t->kernel];
  const matrix_product g = k->product(&t->p);
  memset(plan, 0, sizeof *plan);
  plan->operation.problem = t->p, plan->operation.pass = k->kernel->pass;
  k->plan_cut(plan, &g, cut_into(&g, c->bm, c->slices));
  return plan->failed;
}

/* The cut is there afterwards, if there is such a one. Returns it, or NULL. */
static cut *add(cut_trial *t, const matrix_product *g, int bm, int slices) {
  if (slices < 1 || !can_cut(g, bm, slices)) return NULL;
  const split s = cut_into(g, bm, slices);
  for (int i = 0; i < t->count; i++)
    if (t->cuts[i].bm == bm && t->cuts[i].slices == s.slices) return &t->cuts[i];
  if (t->count == MOST_CUTS) return NULL;
  cut *c = &t->cuts[t->count++];
  memset(c, 0, sizeof *c);
  c->bm = bm, c->slices = s.slices, c->workspace = split_bytes(g, &s);
  return c;
}

/* Every number of slices up to 16, then in steps of a fifth; and those that give every multiprocessor 1 to 8 blocks. */
static void add_all(cut_trial *t, const matrix_product *g) {
  for (int bm = 32; bm <= 128; bm *= 2) {
    double tiles = 0;
    for (int i = 0; i < g->lengths; i++) tiles += (double)g->count[i] * (double)((g->columns + BN - 1) / BN) * g->groups * ((g->rows + bm - 1) / bm);
    for (int slices = 1; can_cut(g, bm, slices); slices += slices < 16 ? 1 : slices / 5) add(t, g, bm, slices);
    for (int blocks = 1; blocks <= 8 && tiles > 0; blocks++) add(t, g, bm, (int)(blocks * t->multiprocessors / tiles));
  }
}

void list_cuts(cut_trial *t) {
  const matrix_product g = kernels[t->kernel]->product(&t->p);
  const split s = split_for(&g, t->multiprocessors, &h200_prices);
  t->count = 0;
  add(t, &g, s.bm, s.slices)->chosen = true;
  add_all(t, &g);
  t->tried = t->count;
}

/* ---------------------------------------------------------------- how well the model does */

static bool was_tried(const cut_trial *t, const matrix_product *g, int bm, int slices) {
  cut_trial all = *t;
  bool found = false;
  all.count = 0;
  add_all(&all, g);
  for (int i = 0; i < all.count; i++) found |= all.cuts[i].bm == bm && all.cuts[i].slices == slices;
  return found;
}

static double loss_with(const cut_trial *t, const matrix_product *g, const prices *prices_now, cut *choice) {
  int lowest = 128;
  for (int i = 0; i < t->count; i++) lowest = t->cuts[i].bm < lowest ? t->cuts[i].bm : lowest;
  const split s = split_for(g, t->multiprocessors, prices_now, lowest); /* of heights that were timed: older files have no tiles of 32 rows */
  const cut *nearest = NULL;
  double best = INFINITY, distance = log(1.2);
  for (int i = 0; i < t->count; i++) {
    const cut *c = &t->cuts[i];
    if (c->us <= 0) continue;
    best = fmin(best, c->us);
    const double apart = fabs(log((double)c->slices / s.slices));
    if (c->bm == s.bm && apart < distance) nearest = c, distance = apart;
  }
  const bool known = nearest && (nearest->slices == s.slices || !was_tried(t, g, s.bm, s.slices));
  choice->bm = s.bm, choice->slices = s.slices, choice->us = known ? nearest->us : SLOW * best;
  choice->right = known && nearest->slices == s.slices;
  return choice->us / best;
}

double model_loss(const cut_trial *t, cut *choice) {
  const matrix_product g = kernels[t->kernel]->product(&t->p);
  return loss_with(t, &g, &h200_prices, choice);
}

bool is_suite(const char *suite, const char *name) {
  return strncmp(suite, name, strlen(name)) == 0 && (suite[strlen(name)] == 0 || suite[strlen(name)] == ':');
}

enum { PRICES = sizeof(prices) / sizeof(double) };
static const char *const price_names[PRICES] = {"share, 1 quarter", "share, 2 quarters", "share, 3 quarters", "share, full", "wide", "block", "launch", "bytes",
                                                "scattered"};

/* What is to be small: the mean loss in per cent, and a twentieth of the worst. */
static double score_of(const cut_trial *trials, const matrix_product *products, int count, const char *suite, const prices *now, double *mean, double *worst) {
  int n = 0;
  double sum = 0;
  *worst = 1;
  for (int i = 0; i < count; i++) {
    cut choice;
    if (!is_suite(trials[i].suite, suite)) continue;
    const double loss = loss_with(&trials[i], &products[i], now, &choice);
    sum += log(loss), *worst = fmax(*worst, loss), n++;
  }
  *mean = n ? exp(sum / n) : 1;
  return 100 * (*mean - 1) + 5 * (*worst - 1);
}

void fit_prices(const cut_trial *trials, int count, const char *suite, FILE *out) {
  enum { STEPS = 4000, AT_ONCE = 3 };
  matrix_product *products = (matrix_product *)malloc((size_t)count * sizeof *products);
  prices best = h200_prices;
  double mean, worst;
  for (int i = 0; i < count && products; i++) products[i] = kernels[trials[i].kernel]->product(&trials[i].p);
  if (!products) return;
  double score = score_of(trials, products, count, suite, &best, &mean, &worst);
  fprintf(out, "\n%s, with the prices of split.h: mean loss %.2f %%, worst %.1f %%\n", suite, 100 * (mean - 1), 100 * (worst - 1));
  for (uint64_t step = 0; step < STEPS; step++) {
    double values[PRICES];
    memcpy(values, &best, sizeof values);
    for (uint64_t i = 0; i < AT_ONCE; i++) values[random_below(1, step * AT_ONCE + i, PRICES)] *= exp(0.1 * random_normal(2, step * AT_ONCE + i));
    prices now;
    memcpy(&now, values, sizeof now);
    const double tried = score_of(trials, products, count, suite, &now, &mean, &worst);
    if (tried < score) score = tried, best = now;
  }
  score_of(trials, products, count, suite, &best, &mean, &worst);
  fprintf(out, "%s, fitted: mean loss %.2f %%, worst %.1f %%\n", suite, 100 * (mean - 1), 100 * (worst - 1));
  double from[PRICES], to[PRICES];
  memcpy(from, &h200_prices, sizeof from), memcpy(to, &best, sizeof to);
  for (int i = 0; i < PRICES; i++) fprintf(out, "  %-18s %10.4g %10.4g\n", price_names[i], from[i], to[i]);
  for (int i = 0; i < count; i++) { /* every other suite, once */
    bool first = !is_suite(trials[i].suite, suite);
    for (int j = 0; j < i; j++) first &= strcmp(trials[i].suite, trials[j].suite) != 0;
    if (!first) continue;
    score_of(trials, products, count, trials[i].suite, &h200_prices, &mean, &worst);
    fprintf(out, "%s: mean loss %.2f %%, worst %.1f %%; ", trials[i].suite, 100 * (mean - 1), 100 * (worst - 1));
    score_of(trials, products, count, trials[i].suite, &best, &mean, &worst);
    fprintf(out, "with the fitted prices %.2f %%, worst %.1f %%\n", 100 * (mean - 1), 100 * (worst - 1));
  }
  free(products);
}
