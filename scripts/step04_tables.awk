# Tables of docs/04_constant_filter.md, in Markdown. Each input is told by its first line; "-" is what `build/emu/04 --list` prints.
# usage: awk -f scripts/step04_tables.awk -v table=NAME FILE.csv ...
#
#   images      a 4000 x 4000 picture: microseconds, share of the limit (bench.csv)
#   variants    versions of kernels that were tried, -v kernel=REGEX -v size=5 (variants-04.csv)
#   banks       multiply-adds with two registers in one bank (banks-04.csv)
#   work        bytes, multiply-adds and products of tensor cores of the depthwise layers listed, as times (calibrate.csv, a list)
#   depthwise   every depthwise layer, three passes: the fastest of ours beside cuDNN's best (depthwise.csv)
#   left_out    cuDNN's fastest plans for wgrad that are beyond the error bound, beside ours (depthwise.csv, cudnn_left_out.csv)
#   occupancy   what fits on an SM, and what limits it (registers-04, calibrate, a list): scripts/step04.sh
#   A single number: mean, with -v pass= (of depthwise; -v counted=1: every layer as often as its network has it; -v only=REGEX of shapes);
#   plain, with -v pass=: layers whose fastest is no tensor-core kernel; best, the rows in which main.c's rule for fp16 takes the fastest; worst, how many times as long as the fastest the one that it takes lasts
BEGIN {
  FS = ","
  # The function that a kernel runs on a layer of the table `occupancy`, and what the reader is told of the layer.
  pictures = "mb1ic1ih4000oc1oh4000kh"; small = "g144mb64ic144ih56oc144oh56kh3ph1"; strided = "g96mb64ic96ih112oc96oh56kh3sh2ph1"; middle = "g240mb64ic240ih28oc240oh28kh5ph2"
  large = "g128mb64ic128ih56oc128oh56kh7ph3"; largest = "g128mb32ic128ih56oc128oh56kh31ph15"
  row("04a", pictures "5ph2", "constant_fprop_kernel"); row("04b", pictures "3ph1", "window_kernel<3>"); row("04b", pictures "5ph2", "window_kernel<5>"); row("04b", pictures "7ph3", "window_kernel<7>")
  row("04c", pictures "31ph15", "separable_kernel"); row("04d", pictures "15ph7", "large_kernel<16>"); row("04d", pictures "31ph15", "large_kernel<32>")
  row("04e", pictures "9ph4", "walk_kernel<9>"); row("04e", pictures "31ph15", "tile_kernel<31>"); row("04o", pictures "9ph4", "rows_kernel")
  row("04f", small, "depthwise_kernel<3 1>"); row("04f", large, "depthwise_kernel<7 1>"); row("04g", strided, "depthwise_dgrad_kernel<3 2>"); row("04g", large, "depthwise_dgrad_kernel<7 1>")
  row("04h", small, "depthwise_wgrad_kernel<3 1>"); row("04h", large, "depthwise_wgrad_kernel<7 1>")
  row("04i", small, "toeplitz_kernel<3 1 1 0 4 8>"); row("04i", middle, "toeplitz_kernel<5 1 1 0 4 8>"); row("04i", large, "toeplitz_kernel<7 1 1 0 4 8>")
  row("04j", strided, "toeplitz_kernel<3 1 2 1 4 12>"); row("04j", large, "toeplitz_kernel<7 1 1 1 4 8>")
  row("04k", small, "tensor_wgrad_kernel<3 1 6>"); row("04k", middle, "tensor_wgrad_kernel<5 1 4>"); row("04k", large, "tensor_wgrad_kernel<7 1 4>")
  row("04l", small, "planes_kernel<3 1 4 1 0>"); row("04m", small, "planes_wgrad_kernel<3 1 4 1>"); row("04n", largest, "large_wgrad_kernel")
}
function row(name, layer, called) { row_kernel[++row_count] = name; row_shape[row_count] = layer; row_function[row_count] = called }
function stop(words) { print "step04_tables.awk: expected " words > "/dev/stderr"; failed = 1; exit 2 }
function need(there, words) { if (!there) stop(words) }
function split_csv(line, field,    n, i, c, quoted) {
  n = 1; field[1] = ""; quoted = 0
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    if (c == "\"") quoted = !quoted
    else if (c == "," && !quoted) field[++n] = ""
    else field[n] = field[n] c
  }
  return n
}
function time(us) { return us >= 99.95 ? sprintf("%.0f", us) : sprintf("%.1f", us) }
function ceil(x) { return x == int(x) ? x : int(x) + 1 }
# A shape string into the array s.
function read_shape(text,    field, name) {
  split("", s)
  while (match(text, /[a-z]+[0-9]+/)) {
    field = name = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
    sub(/[0-9]+/, "", name); sub(/[a-z]+/, "", field); s[name] = field + 0
  }
  if (!s["sh"]) s["sh"] = 1
}
function layer_words(text) {
  read_shape(text)
  if (s["ic"] == 1) return s["kh"] " x " s["kh"] ", picture"
  return s["kh"] " x " s["kh"] ", " s["ic"] " ch., " s["ih"] " x " s["ih"] (s["sh"] > 1 ? ", stride " s["sh"] : "")
}
# What fits on an SM: registers are given to warps in units of 8 a thread, and each block's shared memory has 1 KiB more, for the system.
function fits(name, layer, called) {
  need((name, layer) in threads, "a line of " name " in the list of " layer)
  need((name, called) in registers, "registers of " name " " called)
  bytes = shared[name, layer] + static_shared[name, called]
  by_registers = int(machine["device_registers"] * 256 / (ceil(registers[name, called] / 8) * 8 * threads[name, layer]))
  by_shared = int(machine["device_shared"] * 1024 / (bytes + 1024))
  by_threads = int(machine["device_warps"] * 32 / threads[name, layer]); if (by_threads > 32) by_threads = 32
  least = by_registers < by_shared ? by_registers : by_shared
  return least < by_threads ? least : by_threads
}

FNR == 1 {
  split("", at)
  n = split_csv($0, f); for (i = 1; i <= n; i++) at[f[i]] = i
  kind = FILENAME == "-" || FILENAME == "" || FILENAME == "/dev/stdin" ? "list" : ("two_in_one_bank" in at) ? "banks" : ("static_shared" in at) ? "registers" : ("error_over_bound" in at) ? "left_out" : ("cudnn_best_us" in at) ? "bench" : ("variant" in at) ? "variants" : "calibrate"
  if (kind != "list") next
}
kind == "list" && /^(g[0-9]+)?mb/ { shape = $0; if (!(shape in listed)) { listed[shape] = 1; shapes[++shape_count] = shape } }
kind == "list" && /^  04/ { name = substr($0, 3, 3) }
kind == "list" && /^ +grid / && !/ (factor|filter|sum)_[a-z_]*kernel/ { # the kernel proper, not what prepares or adds up
  split($0, word, " ")
  threads[name, shape] = word[8] * word[10] * word[12]
  match($0, /shared [0-9]+ [+] [0-9]+/); split(substr($0, RSTART, RLENGTH), word, " ")
  shared[name, shape] = word[4] # the static part: nvcc knows it, and the emulator only when it has run
}
kind == "list" { next }
{ split_csv($0, f) }
kind == "calibrate" && f[at["parameter"]] == "" { machine[f[at["name"]]] = f[at["value"]] }
kind == "registers" { registers[f[at["kernel"]], f[at["function"]]] = f[at["registers"]]; static_shared[f[at["kernel"]], f[at["function"]]] = f[at["static_shared"]] }
kind == "left_out" { inexact[f[at["shape"]]] = f[at["us"]] + 0; beyond[f[at["shape"]]] = f[at["error_over_bound"]] }
table == "variants" && kind == "variants" && f[at["kernel"]] ~ kernel && f[at["shape"]] ~ "kh" size "p" {
  line = sprintf("| `%s` | %s |", f[at["kernel"]], f[at["variant"]])
  if (!(line in known)) { known[line] = 1; lines[++count] = line }
  timed[line, f[at["run"]]] = time(f[at["us"]]); at_clock[f[at["run"]]] = f[at["sm_clock_mhz"]]
}
table == "banks" && kind == "banks" && f[at["kernel"]] ~ /^04[bdeo]$/ && (f[at["function"]] ~ /</ || f[at["function"]] == "rows_kernel") {
  lines[++count] = sprintf("| `%s` | `%s` | %d | %.0f %% |", f[at["kernel"]], f[at["function"]], f[at["ffma"]], 100 * f[at["two_in_one_bank"]] / f[at["ffma"]])
}
kind == "bench" && f[at["us_median"]] != "" && f[at["status"]] == "right" {
  layer = f[at["shape"]]; p = f[at["pass"]]; k = f[at["kernel"]]; t = f[at["us_median"]] + 0; best = f[at["cudnn_best_us"]] + 0
  read_shape(layer)
  if (table == "images" && (!(layer ~ /^mb1ic1ih4000oc1oh4000kh/) || p != "fprop" || k !~ /^0[1-4]/)) next
  if (table != "images" && s["g"] != s["ic"]) next
  if (!(layer in often)) { order[++layers] = layer; often[layer] = f[at["count"]] }
  floor[layer, p] = f[at["floor_us"]] # what a pass reads and what it writes are at different rates
  if (best > 0 && (!((layer, p) in cudnn) || best < cudnn[layer, p])) cudnn[layer, p] = best
  us[layer, p, k] = t
  if (!((layer, p) in ours) || t < ours[layer, p]) { ours[layer, p] = t; who[layer, p] = k }
}

# The geometric mean of cuDNN's time over ours.
function mean_ratio(p, weighted,    i, sum, number, weight) {
  sum = number = 0
  for (i = 1; i <= layers; i++)
    if (((order[i], p) in ours) && order[i] ~ only) { weight = weighted ? often[order[i]] : 1; sum += weight * log(cudnn[order[i], p] / ours[order[i], p]); number += weight }
  need(number, "rows of " p " beside cuDNN")
  return exp(sum / number)
}
# The kernel that the step's rule takes (scripts/which.sh).
function chosen(layer, p,    line, field) {
  if (!ruled) {
    ruled = 1
    while ((getline line < "docs/results/h200/which-04.csv") > 0) if (split_csv(line, field) >= 6) rule[field[2], field[1], field[3]] = field[4]
  }
  need((p, layer, "fp16") in rule, "a choice for " layer " " p " in which-04.csv")
  return rule[p, layer, "fp16"]
}
END {
  if (failed) exit 2
  if (table == "images") {
    need(layers, "rows of the image suite")
    names = split("02a 04a 04b 04d 04e 04o", name_of, " ")
    for (i = 1; i <= layers; i++) for (j = 1; j <= names; j++) if ((order[i], "fprop", name_of[j]) in us) there[j] = 1
    printf "| filter | floor, us |"; for (j = 1; j <= names; j++) if (there[j]) printf " `%s` |", name_of[j]; print " cuDNN's best | the fastest of ours: of the limit | cuDNN's time over it |"
    printf "|---|--:|"; for (j = 1; j <= names; j++) if (there[j]) printf "--:|"; print "--:|--:|--:|"
    for (i = 1; i <= layers; i++) {
      layer = order[i]; read_shape(layer)
      printf "| %d x %d | %.1f |", s["kh"], s["kh"], floor[layer, "fprop"]
      for (j = 1; j <= names; j++) if (there[j]) printf " %s |", (layer, "fprop", name_of[j]) in us ? time(us[layer, "fprop", name_of[j]]) : ""
      printf " %s | %.0f %% | %.1f |\n", time(cudnn[layer, "fprop"]), 100 * floor[layer, "fprop"] / ours[layer, "fprop"], cudnn[layer, "fprop"] / ours[layer, "fprop"]
    }
  } else if (table == "variants") {
    need(count, "rows of variants-04.csv, with -v kernel and -v size")
    printf "| kernel | version |"
    for (i = 1; i <= 3; i++) printf " run %d, us (%d MHz) |", i, at_clock[i]
    print "\n|---|---|--:|--:|--:|"
    for (i = 1; i <= count; i++) print lines[i] " " timed[lines[i], 1] " | " timed[lines[i], 2] " | " timed[lines[i], 3] " |"
  } else if (table == "banks") {
    need(count, "rows of scripts/register_banks.sh")
    print "| kernel | function | multiply-adds in its code | with two registers in one bank |\n|---|---|--:|--:|"
    for (i = 1; i <= count; i++) print lines[i]
  } else if (table == "work") {
    need(shape_count && machine["fp16_mma"], "a list of layers and calibrate.csv")
    print "| layer, 64 images | FLOP per byte | the bytes, us | the multiply-adds on fp32 units, us | on tensor cores, zeros included, us: `04i` | `04k` |\n|---|--:|--:|--:|--:|--:|"
    for (i = 1; i <= shape_count; i++) {
      read_shape(shapes[i]); need(s["g"] == s["ic"] && s["sh"] == 1, "depthwise layers of stride 1")
      moved = 2 * (2 * s["mb"] * s["ic"] * s["oh"] ^ 2 + s["ic"] * s["kh"] ^ 2); flops = 2 * s["mb"] * s["ic"] * (s["oh"] * s["kh"]) ^ 2
      forward = ceil(s["mb"] * ceil(s["oh"] / 7) / 16) * s["oh"] * s["kh"] * s["ic"] # products of 16 x 8 x 16: 16 tiles of 7 columns, one channel, one filter row
      filters = s["mb"] * s["oh"] ^ 2 / 16 * s["ic"] / 8 * (int(s["kh"] / 2) * s["kh"] + ceil(s["kh"] / 2)) # 16 pixels of 8 channels: two filter rows and one column
      printf "| %s | %.1f | %.1f | %.1f | %.1f | %.1f |\n", layer_words(shapes[i]), flops / moved, moved / bandwidth / 1e6, flops / peak / 1e6, forward * 4096 / machine["fp16_mma"] / 1e6, filters * 4096 / machine["fp16_mma"] / 1e6
    }
  } else if (table == "depthwise") {
    need(layers, "rows of depthwise layers")
    passes = split("fprop dgrad wgrad", pass_of, " ")
    printf "| layer | floor of %s, us |", pass_of[1]; for (j = 1; j <= passes; j++) printf " %s: ours, us | cuDNN's best | ratio |", pass_of[j]; print ""
    printf "|---|--:|"; for (j = 1; j <= passes; j++) printf "--:|--:|--:|"; print ""
    for (i = 1; i <= layers; i++) {
      printf "| %s | %.1f |", layer_words(order[i]), floor[order[i], pass_of[1]]
      for (j = 1; j <= passes; j++) {
        p = pass_of[j]; need((order[i], p) in ours, "a time of " order[i] " " p)
        printf " %s (`%s`, %.0f %%) | %s | %.2f |", time(ours[order[i], p]), who[order[i], p], 100 * floor[order[i], p] / ours[order[i], p], time(cudnn[order[i], p]), cudnn[order[i], p] / ours[order[i], p]
      }
      print ""
    }
    for (weighted = 0; weighted <= 1; weighted++) {
      printf "| %s | |", weighted ? "the same, each as often as its network has it" : "geometric mean, each layer once"
      for (j = 1; j <= passes; j++) printf " | | **%.2f** |", mean_ratio(pass_of[j], weighted)
      print ""
    }
  } else if (table == "left_out") {
    print "| layer | ours, us | cuDNN's best within the bound | the fastest beyond it | its largest error, in bounds | its time over ours |\n|---|--:|--:|--:|--:|--:|"
    for (i = 1; i <= layers; i++) {
      layer = order[i]; need((layer, "wgrad") in ours, "a time of " layer " wgrad")
      if (layer in inexact) printf "| %s | %s | %s | %s | %.0f | %.2f |\n", layer_words(layer), time(ours[layer, "wgrad"]), time(cudnn[layer, "wgrad"]), time(inexact[layer]), beyond[layer], inexact[layer] / ours[layer, "wgrad"]
      if ((layer in inexact) && inexact[layer] < cudnn[layer, "wgrad"]) cudnn[layer, "wgrad"] = inexact[layer]
    }
    printf "| geometric mean of all %d layers, were both admitted | | | | | **%.2f** |\n", layers, mean_ratio("wgrad", 0)
  } else if (table == "occupancy") {
    print "| | layer | threads of a block | registers of a thread | shared memory of a block | blocks an SM: by registers | by shared memory | by threads | warps an SM | of " machine["device_warps"] " |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= row_count; i++) {
      k = row_kernel[i]; layer = row_shape[i]
      n = fits(k, layer, row_function[i]) * threads[k, layer] / 32
      printf "| `%s` | %s | %d | %d | %d | %d | %d | %d | %d | %.0f %% |\n", k, layer_words(layer), threads[k, layer], registers[k, row_function[i]], bytes, by_registers, by_shared, by_threads, n, 100 * n / machine["device_warps"]
    }
  } else if (table == "shapes") { for (i = 1; i <= row_count; i++) if (!seen[row_shape[i]]++) print row_shape[i] }
  else if (table == "plain") { for (i = 1; i <= layers; i++) if (who[order[i], pass] ~ /04[fgh]/) slower++; printf "%d", slower }
  else if (table == "best" || table == "worst") {
    for (both in ours) {
      split(both, part, SUBSEP)
      took = us[part[1], part[2], chosen(part[1], part[2])] / ours[both]
      if (took <= 1) right++
      if (took > worst) worst = took
    }
    printf table == "best" ? "%d" : "%.2f", table == "best" ? right : worst
  } else if (table == "mean") printf "%.2f", mean_ratio(pass, counted)
  else stop("-v table=NAME (see the head), got \"" table "\"")
}
