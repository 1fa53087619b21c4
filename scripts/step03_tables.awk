# Tables of docs/03_shared_tiling.md; scripts/step03.sh calls it. Each input is told by its first line; "-" is what `build/emu/03 --list` prints.
# usage: build/emu/03 --list --shape ... --pass fprop | awk -f scripts/step03_tables.awk -v table=NAME FILE.csv ... -
#
#   code        instructions of a warp in one stage, by part (code-03.csv)
#   issue       what these instructions cost, beside the measured time (with calibrate, profile-02-fprop, bench)
#   occupancy   what fits on an SM, and what limits it (registers-03, calibrate)
#   layers      blocks, tiles and rates of 03d on the layers listed (registers-03, calibrate, bench)
#   warm        cold and warm times of 03c and 03d on the layers listed (bench)
#   down        from the limit to 03d, factor by factor (all)
#   Single numbers, with -v kernel=03a: per_product, fma_share, part_share (-v part=rows), instructions, issue_ms, over_issue,
#   places, waves, blocks, filled.
BEGIN { FS = ","; if (layer == "") layer = "mb16ic64ih56oc128oh56kh3ph1" }
FNR == 1 {
  split("", column)
  for (i = 1; i <= NF; i++) column[$i] = i
  kind = FILENAME == "-" || FILENAME == "" || FILENAME == "/dev/stdin" ? "list" : ("addresses" in column) ? "code" : ("static_shared" in column) ? "registers" : ("cudnn_best_us" in column) ? "bench" : $1 == "kernel" ? "profile" : "calibrate"
  if (kind != "list") next
}
kind == "list" && /^mb/ { shape = $0; if (!(shape in listed)) { listed[shape] = 1; shapes[++shape_count] = shape } }
kind == "list" && /^  03/ { name = substr($0, 3, 3) }
kind == "list" && /^ +grid / {
  split($0, word, " ")
  blocks[name, shape] = word[2] * word[4] * word[6]
  threads[name, shape] = word[8] * word[10] * word[12]
  match($0, /shared [0-9]+ [+] [0-9]+/); split(substr($0, RSTART, RLENGTH), word, " ")
  shared[name, shape] = word[2] + word[4]
}
kind == "code" {
  k = $column["kernel"]; n = $column["times"] * $column["instructions"]
  if (!(k in all)) kernels[++kernel_count] = k
  channels[k] = $column["channels"]; all[k] += n; part_of[k, $column["part"]] += n; adds[k] += $column["times"] * $column["multiply_adds"]
}
kind == "registers" { registers[$column["kernel"], $column["function"]] = $column["registers"]; spills += $column["spill_bytes"] }
kind == "calibrate" { if ($column["parameter"] == "") machine[$column["name"]] = $column["value"] }
kind == "profile" && $3 == layer { counter[$1, $4] = $5 }
kind == "bench" && $column["status"] == "right" && $column["pass"] == "fprop" {
  us[$column["kernel"], $column["shape"]] = $column["us_median"]; warm[$column["kernel"], $column["shape"]] = $column["us_warm"]
  rate[$column["kernel"], $column["shape"]] = $column["tflops"]; share[$column["kernel"], $column["shape"]] = $column["floor_share"]; ratio[$column["kernel"], $column["shape"]] = $column["ratio_best"]
}

function stop(words) { print "step03_tables.awk: expected " words > "/dev/stderr"; failed = 1; exit 2 }
function need(there, words) { if (!there) stop(words) }
function ceil(x) { return x == int(x) ? x : int(x) + 1 }
function three(x) { return sprintf(x >= 99.95 ? "%.0f" : x >= 9.995 ? "%.1f" : x >= 0.9995 ? "%.2f" : "%.3f", x) }
function ms(x) { return three(x / 1e3) }

# A shape string into the array f.
function read_shape(text,    field, name) {
  split("", f)
  while (match(text, /[a-z]+[0-9]+/)) {
    field = name = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
    sub(/[0-9]+/, "", name); sub(/[a-z]+/, "", field); f[name] = field + 0
  }
  if (!f["sh"]) f["sh"] = 1
}
# Warps that a kernel has on the layer, times the stages of each.
function stages(k) {
  need((k, layer) in blocks, "a line of " k " in the list of " layer)
  read_shape(layer)
  return blocks[k, layer] * threads[k, layer] / 32 * f["ic"] / channels[k]
}
# Instructions that all warps start on the layer: in 02a as ncu counted them.
function executed(k) { return k == "02a" ? counter[k, "instructions"] * 1e6 : stages(k) * all[k] }
function multiply_adds(k) {
  read_shape(layer)
  return k == "02a" ? f["mb"] * f["oc"] * f["ic"] * (f["oh"] * f["kh"]) ^ 2 / 32 : stages(k) * adds[k]
}
# A scheduler starts one a clock, an SM has four; the SM with the most blocks is the last.
function issue_us(k,    b) {
  b = k == "02a" ? counter[k, "blocks"] : blocks[k, layer]
  return executed(k) / (4 * machine["device_sms"] * machine["device_clock"]) * ceil(b / machine["device_sms"]) * machine["device_sms"] / b
}
# The function that runs, and what fits on an SM: registers are given to warps in units of 8 a thread, and each block's shared memory has
# 1 KiB more, for the system.
function function_of(k,    s) {
  if (k == "03a") return "halo_kernel"
  if (k == "03b") return "filters_kernel"
  s = f["sh"] == 1 && (f["kh"] == 3 || f["kh"] == 1) ? f["kh"] : 0
  return (k == "03c" ? "registers" : "pipelined") "_kernel<" (f["oh"] > 16 ? 2 : 1) " " s ">"
}
function fits(k, text,    r) {
  read_shape(text)
  need((k, text) in blocks, "a line of " k " in the list of " text)
  need((k, function_of(k)) in registers, "registers of " k " " function_of(k))
  r = registers[k, function_of(k)]
  by_registers = int(machine["device_registers"] * 256 / (ceil(r / 8) * 8 * threads[k, text]))
  by_shared = int(machine["device_shared"] * 1024 / (shared[k, text] + 1024))
  by_threads = int(machine["device_warps"] * 32 / threads[k, text]); if (by_threads > 32) by_threads = 32
  least = by_registers < by_shared ? by_registers : by_shared
  return least < by_threads ? least : by_threads
}
# 03c and 03d: input channels of a stage (their stage_of()), for filters that fit as a whole.
function stage_channels(k,    limit, height, width, n) {
  limit = k == "03c" ? 48 * 1024 : 24 * 1024
  width = ((f["oh"] > 16 ? 32 : 16) - 1) * f["sh"] + f["kh"]; height = ((f["oh"] > 16 ? 4 : 8) - 1) * f["sh"] + f["kh"]
  for (n = 32; n > 1; n /= 2) if (4 * ceil(n * (f["kh"] ^ 2 * 68 + height * width) / 4) * 4 <= limit) break
  if (n > f["ic"]) n = f["ic"]
  copied = n * (f["kh"] ^ 2 * 64 + height * width)
  return n
}

END {
  if (failed) exit 2
  if (table == "code") {
    need(kernel_count, "rows of code-03.csv")
    print "| | input channels | copying pixels | copying filters | rows of taps | around | instructions | multiply-adds | instructions for each |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= kernel_count; i++) {
      k = kernels[i]
      printf "| `%s` | %d | %.0f | %s | %.0f | %.0f | %.0f | %d | %s |\n", k, channels[k], part_of[k, "pixels"], part_of[k, "filters"] ? sprintf("%.0f", part_of[k, "filters"]) : "", part_of[k, "rows"], part_of[k, "around"], all[k], adds[k], three(all[k] / adds[k])
    }
  } else if (table == "issue") {
    print "| | multiply-adds of warps, million | instructions for each | instructions, million | one a clock and scheduler, ms | measured, ms | measured / that |\n|---|--:|--:|--:|--:|--:|--:|"
    for (i = 0; i <= kernel_count; i++) {
      k = i ? kernels[i] : "02a"
      need((k, layer) in us, "a time of " k " on " layer)
      printf "| `%s` | %s | %s | %.0f | %s | %s | **%.2f** |\n", k, three(multiply_adds(k) / 1e6), three(executed(k) / multiply_adds(k)), executed(k) / 1e6, ms(issue_us(k)), ms(us[k, layer]), us[k, layer] / issue_us(k)
    }
  } else if (table == "occupancy") {
    print "| | threads of a block | registers of a thread | shared memory of a block | blocks an SM: by registers | by shared memory | by threads | warps an SM | of " machine["device_warps"] " |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= 4; i++) {
      k = "03" substr("abcd", i, 1)
      n = fits(k, layer) * threads[k, layer] / 32
      printf "| `%s` | %d | %d | %d | %d | %d | %d | %d | %.0f %% |\n", k, threads[k, layer], registers[k, function_of(k)], shared[k, layer], by_registers, by_shared, by_threads, n, 100 * n / machine["device_warps"]
    }
  } else if (table == "layers") {
    print "| layer | blocks | for each place | tiles filled | multiply-adds of a thread in a stage | for each value copied | `03d`, ms | TFLOP/s | of the limit | cuDNN's time over it |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= shape_count; i++) {
      s = shapes[i]; places = fits("03d", s) * machine["device_sms"]; n = stage_channels("03d") * f["kh"] ^ 2 * 64
      need(("03d", s) in us, "a time of 03d on " s)
      printf "| `%s` | %d | %.2f | %.0f %% | %d | %.0f | %s | %s | %s %% | %.2f |\n", s, blocks["03d", s], blocks["03d", s] / places, 100 * f["mb"] * f["oc"] * f["oh"] ^ 2 / (blocks["03d", s] * 8192), n, n * 128 / copied, ms(us["03d", s]), three(rate["03d", s]), sprintf(share["03d", s] < 0.0995 ? "%.1f" : "%.0f", 100 * share["03d", s]), ratio["03d", s]
    }
  } else if (table == "warm") {
    print "| layer | `03c` cold, ms | warm, ms | cold / warm | `03d` cold, ms | warm, ms | cold / warm |\n|---|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= shape_count; i++) {
      s = shapes[i]
      need((("03c", s) in us) && ("03d", s) in us, "times of 03c and 03d on " s)
      printf "| `%s` | %s | %s | %.2f | %s | %s | %.2f |\n", s, ms(us["03c", s]), ms(warm["03c", s]), us["03c", s] / warm["03c", s], ms(us["03d", s]), ms(warm["03d", s]), us["03d", s] / warm["03d", s]
    }
  } else if (table == "down") {
    k = kernel; need(k == "03c" || k == "03d", "-v kernel=03c or 03d, got \"" k "\""); fits(k, layer)
    read_shape(layer); peak = machine["device_sms"] * 256 * machine["device_clock"] / 1e6
    used = f["mb"] * f["oc"] * f["oh"] ^ 2 / (blocks[k, layer] * threads[k, layer] * 64)
    even = blocks[k, layer] / machine["device_sms"] / ceil(blocks[k, layer] / machine["device_sms"])
    print "| | factor | TFLOP/s left |\n|---|--:|--:|"
    printf "| the limit: a multiply-add in every clock of every scheduler | | %s |\n", three(left = peak)
    printf "| outputs past the edge of the image | %.3f | %s |\n", used, three(left *= used)
    printf "| SMs that have fewer blocks than the fullest | %.3f | %s |\n", even, three(left *= even)
    printf "| instructions that are no multiply-adds | %.3f | %s |\n", adds[k] / all[k], three(left *= adds[k] / all[k])
    printf "| clocks in which nothing starts | %.3f | %s |\n", issue_us(k) / us[k, layer], three(left *= issue_us(k) / us[k, layer])
  } else if (table == "per_product") printf "%s", three(all[kernel] / adds[kernel])
  else if (table == "fma_share") printf "%.0f", 100 * adds[kernel] / all[kernel]                       # percent
  else if (table == "part_share") printf "%.0f", 100 * part_of[kernel, part] / all[kernel]             # percent
  else if (table == "part_each") printf "%.1f", part_of[kernel, part] / adds[kernel]                   # a multiply-add
  else if (table == "instructions") printf "%.0f", executed(kernel) / 1e6                              # millions
  else if (table == "issue_ms") printf "%s", ms(issue_us(kernel))
  else if (table == "over_issue") printf "%.2f", us[kernel, layer] / issue_us(kernel)
  else if (table == "places") printf "%d", fits(kernel, layer) * machine["device_sms"]
  else if (table == "waves") printf "%.1f", blocks[kernel, layer] / fits(kernel, layer) / machine["device_sms"]
  else if (table == "blocks") printf "%d", blocks[kernel, layer]
  else if (table == "filled") { read_shape(layer); printf "%.1f", 100 * f["mb"] * f["oc"] * f["oh"] ^ 2 / (blocks[kernel, layer] * 8192) }
  else stop("-v table=NAME (see the head), got \"" table "\"")
}
