# The front page's table: every kernel on one layer, all passes, and cuDNN's best plan beside the machine's limit. Input: the CSV of common/harness/report.c.
# usage: awk -f scripts/ladder.awk docs/results/h200/bench.csv      -v layer=SHAPE for another one
# Kernels come by their names. A time, rate or share that was not measured is an empty cell.
BEGIN { FS = ","; if (layer == "") layer = "mb16ic64ih56oc128oh56kh3ph1"; passes = split("fprop dgrad wgrad", pass_name, " ") }
NR == 1 {
  for (i = 1; i <= NF; i++) column[$i] = i
  next
}
{ # only text fields can be quoted, and none before these holds a comma
  if ($column["shape"] != layer || $column["status"] != "right") next
  gpu = $column["cudnn_best_us"] != "" || $column["cuda"] != ""
  name = $column["kernel"] " " $column["dtype"]; pass = $column["pass"]; time = $column["us_median"]
  if (!(name in seen)) { seen[name] = 1; order[++count] = name; kernel[name] = $column["kernel"]; dtype[name] = $column["dtype"]; on_gpu[name] = gpu }
  flops = $column["tflops"] * time
  us[name, pass] = time; rate[name, pass] = $column["tflops"]; share[name, pass] = $column["floor_share"]; ratio[name, pass] = $column["ratio_best"]
  if (gpu) keep("zz cuDNN's best plan " $column["dtype"], $column["cudnn_best_us"])
}
# cuDNN's plans took their turns beside every kernel: the smallest of its medians.
function keep(name, best) {
  if (best == "" || ((name, pass) in us) && us[name, pass] + 0 <= best + 0) return
  if (!(name in seen)) { seen[name] = 1; last[++last_count] = name; dtype[name] = $column["dtype"]; on_gpu[name] = 1 }
  us[name, pass] = best; rate[name, pass] = flops / best; share[name, pass] = $column["floor_us"] / best
}
function ms(x) { return sprintf(x < 999.5 ? "%.3f" : x < 9995 ? "%.2f" : x < 99950 ? "%.1f" : "%.0f", x / 1e3) }
function digits2(x) { return sprintf(x < 0.0095 ? "%.4f" : x < 0.095 ? "%.3f" : x < 0.995 ? "%.2f" : x < 9.95 ? "%.1f" : "%.0f", x) }
# The three passes in one cell; the values of a kernel that lacks one keep their place.
function three(table, name, scale, unit,    i, text, value, some) {
  for (i = 1; i <= passes; i++) {
    value = table == "rate" ? rate[name, pass_name[i]] : table == "share" ? share[name, pass_name[i]] : ratio[name, pass_name[i]]
    some = some || value != ""
    text = text (i > 1 ? " / " : "") (value == "" ? "–" : digits2(value * scale))
  }
  return some ? text unit : ""
}
# The kernel's file: 02a is 02_*/a_*.
function file(name,    command, path) {
  command = "ls " substr(name, 1, 2) "_*/" substr(name, 3) "_*.c* 2>/dev/null"
  command | getline path
  close(command)
  return path
}
function row(name, title,    i, line) {
  line = "| " title (dtype[name] == "fp32" ? "" : ", " dtype[name]) " | " (on_gpu[name] ? "GPU" : "CPU")
  for (i = 1; i <= passes; i++) line = line " | " ((name, pass_name[i]) in us ? ms(us[name, pass_name[i]]) : "")
  print line " | " three("rate", name, 1, "") " | " three("share", name, 100, " %") " | " three("ratio", name, 1, "") " |"
}
END {
  if (!count) { print "ladder.awk: expected rows of " layer > "/dev/stderr"; exit 2 }
  for (i = 2; i <= count; i++) # insertion sort
    for (j = i; j > 1 && order[j] < order[j - 1]; j--) { name = order[j]; order[j] = order[j - 1]; order[j - 1] = name }
  print "| kernel | on | fprop, ms | dgrad, ms | wgrad, ms | TFLOP/s: f / d / w | of the limit: f / d / w | cuDNN's time over ours: f / d / w |\n|---|---|--:|--:|--:|--:|--:|--:|"
  for (i = 1; i <= count; i++) row(order[i], (path = file(kernel[order[i]])) == "" ? "`" kernel[order[i]] "`" : "[`" kernel[order[i]] "`](" path ")")
  for (i = 1; i <= last_count; i++) row(last[i], "cuDNN's best plan")
}
