/* Results as rows. See report.h. */
#include "common/harness/report.h"

#include "common/conv/epilogue.h"
#include "common/conv/transposed.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "common/harness/sources.h"

static const char csv_header[] =
    "gpu,sms,sm_clock_mhz,power_w,driver,cuda,cudnn,date,shape,name,count,pass,dtype,layout,graph,kernel,source,status,exact,bound_share,plain_share,"
    "us_median,us_min,us_p90,us_warm,samples,early_share,us_in_order,tflops,gbps,floor_us,floor_share,"
    "cudnn_best_us,cudnn_best_plan,cudnn_early_share,cudnn_plain_share,cudnn_heur_us,cudnn_search,ratio_best,ratio_heur,note";

int report_open(report *r, const machine *m, const char *csv, const char *json, const char *out, bool with_fused) {
  *r = (report){.machine = m, .text = stdout, .with_fused = with_fused};
  const time_t now = time(NULL);
  strftime(r->date, sizeof r->date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  if ((csv && !(r->csv = output_open("--csv", csv))) || (json && !(r->json = output_open("--json", json))) || (out && !(r->out = output_open("--out", out)))) {
    report_discard(r);
    return -1;
  }
  if (r->csv) fprintf(r->csv->file, "%s%s\n", csv_header, with_fused ? fused_columns : "");
  if (r->json) fputs("[", r->json->file);
  return 0;
}

void version_text(int version, char text[16]) {
  if (version) snprintf(text, 16, "%d.%d", version / 1000, version % 1000 / 10);
  else text[0] = 0;
}

/* The emulator's other builds say so. */
static const char *watched_by(void) {
#ifdef CUDA_EMULATOR
  const char *tool = emu_tool_name();
  if (tool) return strcmp(tool, "checker") == 0 ? "; under the checker" : "; requests counted";
#endif
  return "";
}

static int cpu_threads(void) {
#ifdef CUDA_EMULATOR
  return emu_worker_count();
#endif
  return 1;
}

void report_machine(const report *r) {
  const machine *m = r->machine;
  char cuda[16], driver[16];
  version_text(m->runtime_version, cuda);
  version_text(m->driver_version, driver);
  fprintf(r->text, "machine: %s", m->device.name);
  if (m->device.emulated)
    fprintf(r->text, " (no GPU used: kernels run on %d CPU thread%s, verified, not timed%s)", cpu_threads(), cpu_threads() == 1 ? "" : "s", watched_by());
  else if (m->device.arch) fprintf(r->text, ", %d SMs, CUDA %s, driver for CUDA %s", m->device.sm_count, cuda, driver);
  else fprintf(r->text, ", %d thread%s", m->device.sm_count, m->device.sm_count == 1 ? "" : "s");
  fprintf(r->text, "\n");
  if (m->peaks.source)
    fprintf(r->text, "limits:  %.3g TFLOP/s fp32, %.3g GB/s (%s)\n", m->peaks.fp32_flops / 1e12, m->peaks.copy_per_second / 1e9, m->peaks.source);
  if (machine_fitted_to(m))
    fprintf(r->text, "fitted:  the choice of kernels, cuts of products and sizes of tiles to times of an %s, not of this GPU\n", machine_fitted_to(m));
}

void report_problem(const report *r, const conv_operation *o, conv_dtype dtype, conv_layout layout) {
  char shape[256], epilogue[EPILOGUE_NAME];
  problem_print(&o->problem, shape, sizeof shape);
  epilogue_print(&o->epilogue, epilogue);
  const conv_traffic bytes = operation_traffic(o, dtype);
  const double floor = machine_floor(r->machine, o, dtype);
  fprintf(r->text, "\n%s  %s%s %s %s  %.3g GFLOP, %.3g MB", shape, operation_name(o), epilogue, dtype_name(dtype), layout_name(layout),
          2e-9 * problem_macs(&o->problem), 1e-6 * (bytes.read + bytes.written));
  if (floor > 0) fprintf(r->text, ", floor %.4g us", 1e6 * floor);
  fprintf(r->text, "\n");
  if (!o->transposed) return;
  transposed_print(&o->problem, shape, sizeof shape);
  fprintf(r->text, "  %s\n", shape);
}

void csv_text(FILE *f, const char *text) {
  fputc('"', f);
  for (; *text; text++) {
    if (*text == '"') fputc('"', f);
    fputc(*text, f);
  }
  fputc('"', f);
}

static void json_text(FILE *f, const char *text) {
  fputc('"', f);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', f);
    if ((unsigned char)*text >= ' ') fputc(*text, f);
  }
  fputc('"', f);
}

static const char *const status_names[] = {
    [RESULT_UNVERIFIED] = "unverified", [RESULT_RIGHT] = "right", [RESULT_WRONG] = "wrong", [RESULT_SKIPPED] = "skipped"};

/* What one row says, in both files. */
typedef struct {
  char shape[256], graph[EPILOGUE_NAME + 8], cuda[16], driver[16], cudnn[16];
  double tflops, gbps, floor_us, floor_share;
} figures;

static figures figures_of(const report *r, const result_row *row) {
  figures f = {0};
  conv_problem plain = *row->problem;
  const conv_kernel *k = row->kernel;
  plain.name[0] = 0, plain.repeat = 1;
  problem_print(&plain, f.shape, sizeof f.shape);
  char epilogue[EPILOGUE_NAME];
  epilogue_print(&row->operation.epilogue, epilogue);
  snprintf(f.graph, sizeof f.graph, "conv%s", epilogue);
  version_text(r->machine->runtime_version, f.cuda);
  version_text(r->machine->driver_version, f.driver);
  f.floor_us = 1e6 * machine_floor(r->machine, &row->operation, k->dtype);
  if (row->cudnn && row->cudnn->version)
    snprintf(f.cudnn, sizeof f.cudnn, "%d.%d.%d", row->cudnn->version / 10000, row->cudnn->version / 100 % 100, row->cudnn->version % 100);
  if (row->timed) {
    const double seconds = 1e-6 * row->time->median_us;
    f.tflops = 2 * problem_macs(row->problem) / seconds / 1e12;
    const conv_traffic bytes = operation_traffic(&row->operation, k->dtype);
    f.gbps = (bytes.read + bytes.written) / seconds / 1e9;
    f.floor_share = f.floor_us / row->time->median_us;
  }
  return f;
}

static void csv_row(const report *r, const result_row *row, const figures *f) {
  FILE *out = r->csv->file;
  const conv_kernel *k = row->kernel;
  const machine *m = r->machine;
  csv_text(out, m->device.name);
  fprintf(out, ",%d,", m->device.sm_count);
  if (row->timed && row->time->clock_mhz > 0) fprintf(out, "%.0f", row->time->clock_mhz);
  fputc(',', out);
  if (row->timed && row->time->power_watts > 0) fprintf(out, "%.0f", row->time->power_watts);
  fprintf(out, ",%s,%s,%s,%s,%s,", f->driver, f->cuda, f->cudnn, r->date, f->shape);
  csv_text(out, row->problem->name);
  fprintf(out, ",%d,%s,%s,%s,%s,%s,%s,%s,%s,", row->problem->repeat, operation_name(&row->operation), dtype_name(k->dtype), layout_name(k->layout), f->graph,
          k->name, source_hash(r->sources, k->name), status_names[row->status], row->exact_checked ? "yes" : "no");
  if (row->bound_checked) fprintf(out, "%.4f,%.4f", row->worst_share, row->plain_share);
  else fputc(',', out);
  if (row->timed) {
    fprintf(out, ",%.3f,%.3f,%.3f,", row->time->median_us, row->time->min_us, row->time->p90_us);
    if (row->time->warm_us > 0) fprintf(out, "%.3f", row->time->warm_us);
    fprintf(out, ",%d,%.4g,", row->time->count, row->time->early_share);
    if (row->in_order_us > 0) fprintf(out, "%.3f", row->in_order_us);
    fprintf(out, ",%.4f,%.2f", f->tflops, f->gbps);
  } else {
    fprintf(out, ",,,,,,,,,");
  }
  if (f->floor_us > 0) fprintf(out, ",%.3f", f->floor_us);
  else fputc(',', out);
  if (row->timed && f->floor_us > 0) fprintf(out, ",%.4f", f->floor_share);
  else fputc(',', out);
  const cudnn_figures *c = row->timed && row->cudnn && row->cudnn->version ? row->cudnn : NULL;
  if (c) fprintf(out, ",%.3f,%s,%.4g,%.4f,", c->best_us, c->best_plan, c->best_early_share, c->best_plain_share);
  else fprintf(out, ",,,,,");
  if (c && c->heuristic_us > 0) fprintf(out, "%.3f", c->heuristic_us);
  fprintf(out, ",%s,", c ? c->search : "");
  if (c) fprintf(out, "%.4f", c->best_us / row->time->median_us); /* above 1: ours is faster */
  fputc(',', out);
  if (c && c->heuristic_us > 0) fprintf(out, "%.4f", c->heuristic_us / row->time->median_us);
  fputc(',', out);
  csv_text(out, row->note);
  if (r->with_fused) fused_csv(out, row);
  fputc('\n', out);
  output_flush(r->csv);
}

static void json_row(report *r, const result_row *row, const figures *f) {
  FILE *out = r->json->file;
  const conv_kernel *k = row->kernel;
  fprintf(out, "%s\n{\"gpu\": ", r->json_rows++ ? "," : "");
  json_text(out, r->machine->device.name);
  fprintf(out, ", \"sms\": %d, \"driver\": \"%s\", \"cuda\": \"%s\", \"date\": \"%s\", \"shape\": \"%s\", \"name\": ", r->machine->device.sm_count, f->driver,
          f->cuda, r->date, f->shape);
  json_text(out, row->problem->name);
  fprintf(out,
          ", \"count\": %d, \"pass\": \"%s\", \"dtype\": \"%s\", \"layout\": \"%s\", \"graph\": \"%s\", \"kernel\": \"%s\", \"idea\": ", row->problem->repeat,
          operation_name(&row->operation), dtype_name(k->dtype), layout_name(k->layout), f->graph, k->name);
  json_text(out, k->idea);
  if (*source_hash(r->sources, k->name)) fprintf(out, ", \"source\": \"%s\"", source_hash(r->sources, k->name));
  fprintf(out, ", \"status\": \"%s\", \"exact\": %s", status_names[row->status], row->exact_checked ? "true" : "false");
  if (row->bound_checked && isfinite(row->worst_share)) fprintf(out, ", \"bound_share\": %.6f, \"plain_share\": %.6f", row->worst_share, row->plain_share);
  if (f->floor_us > 0) fprintf(out, ", \"floor_us\": %.3f", f->floor_us);
  if (row->timed) {
    const contender *t = row->time;
    fprintf(out, ", \"us_median\": %.3f, \"us_min\": %.3f, \"us_p90\": %.3f, \"tflops\": %.4f, \"gbps\": %.2f", t->median_us, t->min_us, t->p90_us, f->tflops,
            f->gbps);
    if (t->warm_us > 0) fprintf(out, ", \"us_warm\": %.3f", t->warm_us);
    if (t->clock_mhz > 0) fprintf(out, ", \"sm_clock_mhz\": %.0f", t->clock_mhz);
    if (t->power_watts > 0) fprintf(out, ", \"power_w\": %.0f", t->power_watts);
    fprintf(out, ", \"early_share\": %.4g", t->early_share);
    if (row->in_order_us > 0) fprintf(out, ", \"us_in_order\": %.3f", row->in_order_us);
    if (row->cudnn && row->cudnn->version)
      fprintf(out,
              ", \"cudnn\": \"%s\", \"cudnn_best_us\": %.3f, \"cudnn_best_plan\": \"%s\", \"cudnn_early_share\": %.4g, \"cudnn_plain_share\": %.4f, "
              "\"cudnn_heur_us\": %.3f, \"cudnn_heur_plan\": \"%s\", \"cudnn_search\": \"%s\"",
              f->cudnn, row->cudnn->best_us, row->cudnn->best_plan, row->cudnn->best_early_share, row->cudnn->best_plain_share, row->cudnn->heuristic_us,
              row->cudnn->heuristic_plan, row->cudnn->search);
    fused_json(out, row);
    fprintf(out, ", \"samples_us\": [");
    for (int i = 0; i < t->count; i++) fprintf(out, "%s%.3f", i ? ", " : "", t->samples[i]);
    fputc(']', out);
  }
  fprintf(out, ", \"note\": ");
  json_text(out, row->note);
  fputc('}', out);
}

void report_row(report *r, const result_row *row) {
  const figures f = figures_of(r, row);
  const char *name = row->kernel->name;
  FILE *out = r->text;
  if (row->status == RESULT_SKIPPED) {
    r->skipped++;
    fprintf(out, "  SKIP %s: %s\n", name, row->note);
  } else if (row->status == RESULT_WRONG) {
    r->wrong++;
    fprintf(out, "  WRONG %s: %s\n", name, row->note);
  } else if (row->status == RESULT_UNVERIFIED) {
    r->unverified++;
    fprintf(out, "  UNVERIFIED %s: %s\n", name, row->note);
  } else {
    r->right++;
    fprintf(out, "  %-4s right: ", name);
    if (row->exact_checked) fprintf(out, "exact on integers%s", row->bound_checked ? ", " : "");
    if (row->bound_checked) fprintf(out, "%.0f %% of the error bound", 100 * row->worst_share);
    if (row->bound_checked && row->kernel->shares_error) fprintf(out, " (%.3g of a plain sum's)", row->plain_share);
    if (row->timed) {
      fprintf(out, "  %10.1f us (min %.1f, p90 %.1f", row->time->median_us, row->time->min_us, row->time->p90_us);
      if (row->time->warm_us > 0) fprintf(out, ", warm %.1f", row->time->warm_us);
      print_early(out, row->time->early_share);
      if (row->in_order_us > 0) fprintf(out, ", in order %.1f", row->in_order_us);
      fprintf(out, ")  %.3g TFLOP/s", f.tflops);
      if (f.floor_us > 0) fprintf(out, "  %.3g %% of the limit", 100 * f.floor_share);
      if (row->kernel->place == ON_CPU && f.floor_share > 1) fprintf(out, " (more than the limit measured at the start: was something else running then?)");
      if (row->cudnn && row->cudnn->version) fprintf(out, "  %.3gx cuDNN's best", row->cudnn->best_us / row->time->median_us);
      if (row->fused && row->fused->version) fprintf(out, "  %.3gx its best with a bias of zeros", row->fused->best_us / row->time->median_us);
    } else {
      fprintf(out, "  (%s in %.2g s)", r->machine->device.emulated && row->kernel->place == ON_GPU ? "emulated" : "ran", row->run_seconds);
    }
    if (row->note[0]) fprintf(out, "  [%s]", row->note);
    fprintf(out, "\n");
  }
  fflush(out);
  if (r->csv) csv_row(r, row, &f);
  if (r->json) json_row(r, row, &f);
}

void report_choice(report *r, const result_row rows[], int count, const char *chosen) {
  const result_row *mine = NULL, *best = NULL;
  int timed = 0;
  for (int i = 0; i < count; i++) {
    if (!rows[i].timed) continue;
    timed++;
    if (strcmp(rows[i].kernel->name, chosen) == 0) mine = &rows[i];
    if (!best || rows[i].time->median_us < best->time->median_us) best = &rows[i];
  }
  if (!mine || timed < 2) return;
  const double ratio = mine->time->median_us / best->time->median_us;
  choice_record *c = &r->choices;
  c->made++;
  c->missed += mine != best;
  c->log_loss += log(ratio);
  if (ratio <= c->worst) return;
  c->worst = ratio;
  char shape[256];
  problem_print(mine->problem, shape, sizeof shape);
  snprintf(c->worst_where, sizeof c->worst_where, "%s %s: %s, not %s", shape, operation_name(&mine->operation), chosen, best->kernel->name);
}

static void print_choices(const report *r) {
  const choice_record *c = &r->choices;
  if (c->made == 0) return;
  fprintf(r->text, "\n--kernel auto takes the fastest for %d of %d problems; its choices take %.3g times the fastest's time (geometric mean)",
          c->made - c->missed, c->made, exp(c->log_loss / c->made));
  if (c->missed) fprintf(r->text, ", at worst %.3g times (%s)", c->worst, c->worst_where);
  fprintf(r->text, "\n  (its rule: --help; what it takes: --which)\n");
}

int report_close(report *r) {
  if (r->json) fputs("\n]\n", r->json->file);
  const bool unwritten = output_close(r->csv) | output_close(r->json);
  output_discard(r->out);
  print_choices(r);
  if (r->fused_tried)
    fprintf(r->text, "\ncuDNN's graph with a bias of zeros is the stronger opponent for %d of %d problems\n", r->fused_stronger, r->fused_tried);
  fprintf(r->text, "\n%d right, %d wrong, %d skipped", r->right, r->wrong, r->skipped);
  if (r->unverified) fprintf(r->text, ", %d unverified", r->unverified);
  fprintf(r->text, "\n");
  return r->wrong || r->unverified || unwritten ? 1 : 0;
}

void report_discard(report *r) { output_discard(r->csv), output_discard(r->json), output_discard(r->out); }
