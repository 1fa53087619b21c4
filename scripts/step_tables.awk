# Predictions of docs/01_naive.md and docs/02_coalesced.md beside what was measured, on the layer that all chapters begin with.
# usage: awk -f scripts/step_tables.awk -v table=NAME [-v kernel=01a -v pass=fprop -v n=33] CALIBRATE.csv PROFILE.csv ... BENCH.csv
#
# The model: a multiply-add of a warp needs two loads. L1 serves a load in as many wavefronts as its fullest bank has words to give, one a
# clock and SM; a scheduler starts one instruction a clock, four of them an SM. Blocks that do not divide evenly leave SMs idle at the end.
# Tables: predict (-v step=01), layers, counters (-v kernel=01a: its passes side by side). Single numbers: at the end of the file.
BEGIN { FS = ","; if (layer == "") layer = "mb16ic64ih56oc128oh56kh3ph1" }
FNR == 1 {
  split("", column)
  for (i = 1; i <= NF; i++) column[$i] = i
  kind = $1 == "kernel" ? "profile" : ("cudnn_best_us" in column) ? "bench" : "calibrate"
  next
}
kind == "calibrate" && $column["name"] == "device_sms" { sms = $column["value"] }
kind == "calibrate" && $column["name"] == "device_clock" { clock = $column["value"] } # MHz: clocks a microsecond
kind == "profile" && $3 == layer { counter[$1, $2, $4] = $5; name = $4; sub(/^warp: /, "", name); unit[name] = $6 ~ /^(us|%|million)$/ ? $6 : "" }
kind == "bench" && $column["status"] == "right" {
  us[$column["kernel"], $column["pass"], $column["shape"]] = $column["us_median"]
  # the layers to compare: ResNet-50's, which are square and have no groups, and the first layer of all tables
  if ($column["kernel"] == "01a" && $column["pass"] == "fprop" && $column["name"] ~ /^"?(the layer|conv1|res[0-9].*)"?$/ && $column["shape"] ~ /^mb16/ && !listed[$column["shape"]]++)
    shapes[++shape_count] = $column["shape"]
}
function stop(words) { print "step_tables.awk: expected " words > "/dev/stderr"; failed = 1; exit 2 }
function c(k, p, metric) { if (!((k, p, metric) in counter)) stop("a row " k " " p " " metric); return counter[k, p, metric] }
function t(k, p, shape) { if (!((k, p, shape) in us)) stop("a time of " k " " p " on " shape); return us[k, p, shape] }
function gcd(a, b,    rest) { while (b) { rest = a % b; a = b; b = rest } return a }
function ms(microseconds) { return sprintf(microseconds < 9995 ? "%.2f" : "%.1f", microseconds / 1e3) }

# A shape string into the array f, square as all of ours are.
function read_shape(text,    field, name) {
  split("", f)
  while (match(text, /[a-z]+[0-9]+/)) {
    field = name = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
    sub(/[0-9]+/, "", name); sub(/[a-z]+/, "", field)
    f[name] = field + 0
  }
  if (!f["sh"]) f["sh"] = 1
}
# Multiply-adds of warps: all, and those whose pixel exists.
function products() { return f["mb"] * f["oc"] * f["ic"] * (f["oh"] * f["kh"]) ^ 2 / 32 }
function loaded(    p, r, h, count) {
  for (p = 0; p < f["oh"]; p++)
    for (r = 0; r < f["kh"]; r++) {
      h = p * f["sh"] - f["ph"] + r
      count += h >= 0 && h < f["ih"]
    }
  return f["mb"] * f["oc"] * f["ic"] * count ^ 2 / 32
}
function l1_us(n) { return n * loaded() / (sms * clock) }
function issue_us(k, p) { return c(k, p, "instructions") * 1e6 / (4 * sms * clock) }
# By how much the SM with the most blocks has more than the average.
function uneven(k, p,    blocks) { blocks = c(k, p, "blocks"); return int((blocks + sms - 1) / sms) * sms / blocks }
function named(metric) { sub(/^warp: /, "", metric); return metric (unit[metric] == "" ? "" : ", " unit[metric]) }
function plain(k, p, metric,    value) { value = c(k, p, metric); return sprintf(value == int(value) ? "%d" : value < 10 ? "%.2f" : "%.1f", value) }
function row(k, p, a, b, why,    l1, issue, most) {
  l1 = l1_us(a + b) * uneven(k, p); issue = issue_us(k, p) * uneven(k, p); most = l1 > issue ? l1 : issue
  printf "| `%s` %s | %d + %d%s | %s | %s | **%s** | %s | %.2f |\n", k, p, a, b, why, ms(l1), ms(issue), ms(most), ms(t(k, p, layer)), t(k, p, layer) / most
}
# 01a's fprop on other layers: measured / predicted by the wavefronts of filters that far apart.
function layer_ratio(shape) { read_shape(shape); return t("01a", "fprop", shape) / l1_us(gcd(f["ic"] * f["kh"] ^ 2, 32) + 1) }
# The rule was found with the first layer, so that one is no test of it.
function extremes(    i, ratio) {
  low = 1e30
  for (i = 1; i <= shape_count; i++) {
    if (shapes[i] == layer) continue
    read_shape(shapes[i])
    if (f["oc"] < 32 || gcd(f["ic"] * f["kh"] ^ 2, 32) < 32) continue
    ratio = layer_ratio(shapes[i])
    if (ratio < low) low = ratio
    if (ratio > high) high = ratio
    same_bank++
  }
}
END {
  if (failed) exit 2
  read_shape(layer)
  if (table == "predict") {
    print "| | wavefronts of the two loads | L1, ms | instructions, ms | predicted, ms | measured, ms | measured / predicted |\n|---|---|--:|--:|--:|--:|--:|"
    if (step == "01") {
      row("01a", "fprop", gcd(f["ic"] * f["kh"] ^ 2, 32), 1, "")
      row("01a", "dgrad", gcd(f["kh"] ^ 2, 32), 1, "")
      row("01a", "wgrad", gcd(f["oh"] ^ 2, 32), 1, "")
    } else if (step == "02") {
      row("02a", "fprop", 1, 1, ""); row("02a", "dgrad", 1, 1, ""); row("02a", "wgrad", 1, 4, ""); row("02b", "wgrad", 1, 1, "")
    } else stop("-v step=01 or 02, got \"" step "\"")
  } else if (table == "layers") {
    print "| layer | floats from filter to filter | lanes in one bank | predicted, ms | measured, ms | measured / predicted |\n|---|--:|--:|--:|--:|--:|"
    for (i = 1; i <= shape_count; i++) {
      read_shape(shapes[i])
      if (f["oc"] >= 32) printf "| `%s` | %d | %d | %s | %s | %.2f |\n", shapes[i], f["ic"] * f["kh"] ^ 2, gcd(f["ic"] * f["kh"] ^ 2, 32),
        ms(l1_us(gcd(f["ic"] * f["kh"] ^ 2, 32) + 1)), ms(t("01a", "fprop", shapes[i])), layer_ratio(shapes[i])
    }
  } else if (table == "counters") {
    print "| `" kernel "` | fprop | dgrad | wgrad |\n|---|--:|--:|--:|"
    count = split("duration,LSU data path,issue slots,fp32 multiply-adds,FMA pipe,L2 bandwidth,DRAM bandwidth,instructions,sectors per load,sectors per store,L1 hit rate,achieved occupancy,registers per thread,blocks,warp: waits for global or local memory", metric, ",")
    for (i = 1; i <= count; i++)
      printf "| %s | %s | %s | %s |\n", named(metric[i]), plain(kernel, "fprop", metric[i]), plain(kernel, "dgrad", metric[i]), plain(kernel, "wgrad", metric[i])
  } else if (table == "products") printf "%.1f", products() / 1e6            # millions
  else if (table == "loaded") printf "%.1f", loaded() / 1e6                  # millions
  else if (table == "l1_ms") printf "%s", ms(l1_us(n))
  else if (table == "l1_tail_ms") printf "%s", ms(l1_us(n) * uneven(kernel, pass))
  else if (table == "issue_ms") printf "%s", ms(issue_us(kernel, pass))
  else if (table == "per_product") printf "%.0f", c(kernel, pass, "instructions") * 1e6 / products()
  else if (table == "l1_used") printf "%.1f", c(kernel, pass, "LSU data path") / 100 * c(kernel, pass, "duration") * clock * sms / loaded()
  else if (table ~ /^layers_(low|high|count)$/) { extremes(); printf table == "layers_count" ? "%d" : "%.2f", table == "layers_low" ? low : table == "layers_high" ? high : same_bank }
  else if (table == "layer_ratio") printf "%.2f", layer_ratio(layer)
  else stop("-v table=NAME (see the head), got \"" table "\"")
}
