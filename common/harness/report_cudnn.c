/* What a report says of cuDNN: of its plans for the convolution, and of those of a graph with a bias of zeros behind it. See report.h. */
#include "common/harness/report.h"

const char fused_columns[] = ",cudnn_fused_us,cudnn_fused_plan,cudnn_fused_plain_share,cudnn_fused_search,ratio_fused";

static const cudnn_figures *fused_of(const result_row *row) { return row->timed && row->fused && row->fused->version ? row->fused : NULL; }

void fused_csv(FILE *out, const result_row *row) {
  const cudnn_figures *f = fused_of(row);
  if (f) fprintf(out, ",%.3f,%s,%.4f,%s,%.4f", f->best_us, f->best_plan, f->best_plain_share, f->search, f->best_us / row->time->median_us);
  else fprintf(out, ",,,,,");
}

void fused_json(FILE *out, const result_row *row) {
  const cudnn_figures *f = fused_of(row);
  if (f)
    fprintf(out, ", \"cudnn_fused_us\": %.3f, \"cudnn_fused_plan\": \"%s\", \"cudnn_fused_plain_share\": %.4f, \"cudnn_fused_search\": \"%s\"", f->best_us,
            f->best_plan, f->best_plain_share, f->search);
}

void print_early(FILE *out, double share) {
  if (share >= 1) fprintf(out, ", launched early");
  else if (share > 0) fprintf(out, ", %.0f %% of its kernels launched early", 100 * share);
}

static void print_figures(FILE *out, const char *which, const cudnn_figures *c) {
  if (!c->version) {
    fprintf(out, "  %s: %s\n", which, c->note);
    return;
  }
  fprintf(out, "  %s best %.1f us (%s%s%s; error %.2g of a plain sum's bound; %s)", which, c->best_us, c->best_plan, c->best_notes[0] ? ": " : "",
          c->best_notes, c->best_plain_share, c->note);
  print_early(out, c->best_early_share);
  if (c->heuristic_us > 0) fprintf(out, ", heuristic %.1f us (%s)", c->heuristic_us, c->heuristic_plan);
  fprintf(out, "\n");
}

void report_cudnn(report *r, const cudnn_figures *c, const cudnn_figures *fused) {
  if (c->note[0]) print_figures(r->text, "cuDNN", c);
  if (!fused->note[0]) return;
  print_figures(r->text, "cuDNN with a bias of zeros", fused);
  if (!fused->version) return;
  const bool stronger = !c->version || fused->best_us < c->best_us;
  r->fused_tried++;
  r->fused_stronger += stronger;
  if (!c->version) fprintf(r->text, "    the only opponent\n");
  else fprintf(r->text, "    %s: %.3g times the time of its best bare plan\n", stronger ? "THE STRONGER OPPONENT" : "no stronger", fused->best_us / c->best_us);
}
