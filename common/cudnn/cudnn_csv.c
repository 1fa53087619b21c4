/* cuDNN alone in a CSV file. See cudnn_csv.h. */
#include "common/cudnn/cudnn_csv.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/harness/report.h"

static const char header[] =
    "shape,name,count,pass,dtype,layout,graph,gpu,sm_clock_mhz,power_w,driver,cuda,cudnn,date,best_us,best_min_us,best_p90_us,best_plan,best_notes,"
    "best_workspace,best_bound_share,best_plain_share,heur_us,heur_plan,from,plans_timed,plans_cut,seconds,floor_us,floor_share,left_out_us,left_out_plan,left_"
    "out_share";

int cudnn_fastest(const cudnn_baseline *baseline, const contender *turn) {
  int best = 0;
  for (int i = 1; i < baseline->count; i++) /* the heuristic's pick may be the fastest after all */
    if (turn[i].median_us < turn[best].median_us) best = i;
  return best;
}

static void write_row(FILE *f, const cudnn_task *task, const machine *m, const cudnn_baseline *b, const contender *turn) {
  const int best = cudnn_fastest(b, turn), version = cudnn_version();
  const cudnn_candidate *plan = &b->plan[best];
  const conv_operation operation = {.problem = *task->problem, .pass = task->pass, .epilogue = task->epilogue};
  const double floor_us = 1e6 * machine_floor(m, &operation, task->dtype);
  conv_problem plain = *task->problem;
  char shape[256], graph[CUDNN_GRAPH_NAME], date[32], cuda[16], driver[16];
  plain.name[0] = 0, plain.repeat = 1;
  problem_print(&plain, shape, sizeof shape);
  cudnn_graph_name(task, graph);
  version_text(m->runtime_version, cuda);
  version_text(m->driver_version, driver);
  const time_t now = time(NULL);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  fprintf(f, "%s,", shape);
  csv_text(f, task->problem->name);
  fprintf(f, ",%d,%s,%s,%s,%s,", task->problem->repeat, pass_name(task->pass), dtype_name(task->dtype), layout_name(task->layout), graph);
  csv_text(f, m->device.name);
  fputc(',', f);
  if (turn[best].clock_mhz > 0) fprintf(f, "%.0f", turn[best].clock_mhz);
  fputc(',', f);
  if (turn[best].power_watts > 0) fprintf(f, "%.0f", turn[best].power_watts);
  fprintf(f, ",%s,%s,%d.%d.%d,%s,%.3f,%.3f,%.3f,%s,", driver, cuda, version / 10000, version / 100 % 100, version % 100, date, turn[best].median_us,
          turn[best].min_us, turn[best].p90_us, plan->tag);
  csv_text(f, plan->notes);
  fprintf(f, ",%zu,", plan->workspace);
  if (plan->checked) fprintf(f, "%.4f", plan->worst_share);
  fputc(',', f);
  if (plan->checked) fprintf(f, "%.4f", plan->plain_share);
  if (b->heuristic >= 0) fprintf(f, ",%.3f,%s", turn[b->heuristic].median_us, b->plan[b->heuristic].tag);
  else fprintf(f, ",,");
  fprintf(f, ",%s,%d,%d,%.1f,", b->counts.from_file ? "winners" : "search", b->counts.timed, b->counts.cut, b->counts.seconds);
  if (floor_us > 0) fprintf(f, "%.3f,%.4f", floor_us, floor_us / turn[best].median_us);
  else fputc(',', f);
  if (b->counts.wrong) /* the time is the search's, not taken in turns */
    fprintf(f, ",%.3f,%s,%.4f\n", b->counts.wrong_us, b->counts.wrong_tag, b->counts.wrong_share);
  else fprintf(f, ",,,\n");
}

int cudnn_csv_add(output *o, const cudnn_task *task, const machine *m, const cudnn_baseline *baseline, const contender *turn) {
  if (o->empty) fprintf(o->file, "%s\n", header);
  o->empty = false;
  write_row(o->file, task, m, baseline, turn);
  return output_flush(o);
}
