# Tables and numbers of docs/00_cpu_reference.md: step 00's rows, whose floor comes from the roof that the step measured at its start.
# usage: awk -f scripts/cpu_tables.awk -v table=NAME docs/results/h200/bench.csv
# NAME: passes, layers. Single numbers: threads, tflops (the roof), gbps (the roof), per_thread, clock (64 FLOPs a clock), definition_ns, definition_bound.
BEGIN { FS = ","; if (layer == "") layer = "mb16ic64ih56oc128oh56kh3ph1" }
NR == 1 {
  for (i = 1; i <= NF; i++) column[$i] = i
  next
}
{ # only text fields can be quoted, and none before these holds a comma
  if ($column["kernel"] !~ /^00/ || $column["status"] != "right") next
  kernel = $column["kernel"]; pass = $column["pass"]; shape = $column["shape"]
  us[kernel, pass, shape] = $column["us_median"]; tflops[kernel, pass, shape] = $column["tflops"]; share[kernel, pass, shape] = $column["floor_share"]
  threads = $column["sms"]
  # The floor is the larger of the two: a layer shows the roof that is its own.
  if (shape == layer) roof = $column["tflops"] * $column["us_median"] / $column["floor_us"]
  bytes = $column["gbps"] * $column["us_median"] / $column["floor_us"]
  if (bytes > bandwidth) bandwidth = bytes
  # the layers to compare: ResNet-50's, the 5 x 5 image and the first layer of all tables
  if (kernel == "00b" && pass == "fprop" && $column["name"] ~ /^"?(the layer|conv1|5x5|res[0-9].*)"?$/ && shape ~ /^mb/ && !listed[shape]++) { list[++count] = shape; gsub(/"/, "", $column["name"]); names[shape] = $column["name"] }
}
function row(i,    s) { s = list[i]; return sprintf("| `%s` | %s | %.2f | %.0f %% |", s, names[s], us["00b", "fprop", s] / 1e3, 100 * share["00b", "fprop", s]) }
END {
  if (!count) { print "cpu_tables.awk: expected rows of 00b" > "/dev/stderr"; exit 2 }
  fma = us["00a", "fprop", layer] * tflops["00a", "fprop", layer] * 1e6 / 2 # multiply-adds
  if (table == "passes") {
    print "| | fprop | dgrad | wgrad |\n|---|--:|--:|--:|"
    split("fprop dgrad wgrad", name, " ")
    for (k = 1; k <= 2; k++) {
      kernel = k == 1 ? "00a" : "00b"
      line = "| `" kernel "`"
      for (i = 1; i <= 3; i++) {
        if (!((kernel, name[i], layer) in us)) { print "cpu_tables.awk: expected " kernel " " name[i] > "/dev/stderr"; exit 2 }
        line = line sprintf(us[kernel, name[i], layer] < 1e5 ? " | %.2f ms" : " | %.0f ms", us[kernel, name[i], layer] / 1e3)
        line = line sprintf(k == 1 ? ", %.4f TFLOP/s, %.1f %%" : ", %.2f TFLOP/s, %.0f %%", tflops[kernel, name[i], layer], 100 * share[kernel, name[i], layer])
      }
      print line " |"
    }
  } else if (table == "layers") { # the three that come nearest to the roof, and the three that stay farthest
    for (i = 2; i <= count; i++)
      for (j = i; j > 1 && share["00b", "fprop", list[j]] > share["00b", "fprop", list[j - 1]]; j--) { s = list[j]; list[j] = list[j - 1]; list[j - 1] = s }
    print "| layer | name | `00b`, ms | of the roof |\n|---|---|--:|--:|"
    for (i = 1; i <= 3; i++) print row(i)
    for (i = count - 2; i <= count; i++) print row(i)
  } else if (table == "threads") print threads
  else if (table == "tflops") printf "%.2f", roof
  else if (table == "gbps") printf "%.0f", bandwidth
  else if (table == "per_thread") printf "%.0f", roof * 1e3 / threads
  else if (table == "clock") printf "%.1f", roof * 1e3 / threads / 64
  else if (table == "definition_ns") printf "%.1f", us["00a", "fprop", layer] * 1e3 * threads / fma
  else if (table == "definition_bound") printf "%.2f", 4 * fma / threads / (roof * 1e12 / threads / 64)
  else { print "cpu_tables.awk: expected -v table=NAME, got \"" table "\"" > "/dev/stderr"; exit 2 }
}
