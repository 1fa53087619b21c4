# Where cuDNN's best plan took less time than the floor of the arithmetic it was asked for: a Markdown table, one row a problem and pass.
# Input: the CSV of common/harness/report.c. usage: awk -f scripts/below_floor.awk docs/results/h200/bench.csv
BEGIN { FS = ","; print "| shape | pass | floor, us | cuDNN's best, us | share of the floor | its plan |\n|---|---|--:|--:|--:|---|" }
NR == 1 {
  for (i = 1; i <= NF; i++) column[$i] = i
  next
}
{ # only text fields can be quoted, and none before these holds a comma
  shape = $column["shape"]; pass = $column["pass"]; floor_us = $column["floor_us"]; best = $column["cudnn_best_us"]
  if (best == "" || best + 0 >= floor_us + 0 || seen[shape, pass]++) next
  printf "| `%s` | %s | %.1f | %.1f | %.0f %% | `%s` |\n", shape, pass, floor_us, best, 100 * floor_us / best, $column["cudnn_best_plan"]
}
