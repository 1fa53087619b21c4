# Tables of docs/05_im2col_gemm.md, in Markdown.
# usage: awk -f scripts/step05_tables.awk -v table=layers -v pass=fprop -v batch=16 docs/results/h200/bench-05.csv   ResNet-50, layer by layer, beside cuDNN
#        awk -f scripts/step05_tables.awk -v table=direct -v pass=fprop -v batch=64 docs/results/h200/{cudnn_direct,bench-05}.csv   3 x 3: direct kernels on both sides
#        awk -f scripts/step05_tables.awk -v table=cublas docs/results/h200/cublas.csv                                   the product alone, beside cuBLAS
#        awk -f scripts/step05_tables.awk -v table=first -v layer=mb16ic64ih56oc128oh56kh3ph1 docs/results/h200/bench.csv   one layer, all kernels of the step
#        awk -f scripts/step05_tables.awk -v table=winograd docs/results/h200/{bench,bench-05,large-05}.csv              what 05i's arithmetic and bytes take
#        awk -f scripts/step05_tables.awk -v table=stream docs/results/h200/{bench-05,choice-05}.csv                     05k beside 05d, where the rule takes it and where not
#        awk -f scripts/step05_tables.awk -v table=trials docs/results/h200/trials-05.csv                                what changes of 05i that were dropped did to its time
#        scripts/step05.sh occupancy | cuts: what fits on an SM (registers-05, calibrate, a list), and how products are cut (a list)
# One number, of the tables of layers: -v pass= -v batch= [-v only=REGEX of shapes] and -v table=
#   geomean, -v which=direct|rule|NAME cuDNN's time over ours, geometric mean, each layer once: the direct kernel that the rule takes, the kernel that it
#                                      takes, or always NAME (05d); with cudnn_direct.csv before, also which=both: direct over direct
#   share, -v which=direct|NAME|cudnn  of the floor, geometric mean; share_least, share_most, -v which=direct: the smallest and the largest
#   losses, -v which=                  layers in which cuDNN is faster
#   least, most -v which=              the smallest and the largest of cuDNN's time over ours
#   chosen, problems                   of all rows: problems that two or more of our kernels were timed on, and those in which main.c's rule takes the fastest
# Of profiles, with calibrate.csv before them: -v kernel=05c and -v table=
#   each             instructions for one multiply-add of the formula
#   one_a_clock      us, if every scheduler started one of the instructions in every clock; at_rate: if all did at the rate that was counted
#   useful, active   shares in percent: multiply-adds of the formula among the instructions; time in which an average SM has work
#   down             a table of these, from the limit down, for -v kernels="05c 05d ..."
# Of cublas.csv and bench-05.csv (slow=cudnn): -v slow=KERNEL -v fast=KERNEL [-v only=REGEX] and -v table=
#   over_mean, over_least, over_most, over_count, over_rows   the one's time over the other's: geometric mean, smallest, largest, how often above 1, of how many
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
function stop(words) { print "step05_tables.awk: expected " words > "/dev/stderr"; failed = 1; exit 2 }
function time(us) { return us == "" ? "" : us + 0 >= 99.95 ? sprintf("%.0f", us) : sprintf("%.1f", us) }
function number(text, field,    at) { return match(text, field "[0-9]+") ? substr(text, RSTART + length(field), RLENGTH - length(field)) + 0 : 0 }
function words(shape) {
  return number(shape, "kh") " x " number(shape, "kh") ", " number(shape, "ic") " to " number(shape, "oc") ", " number(shape, "ih") " x " number(shape, "ih") (number(shape, "sh") > 1 ? ", stride " number(shape, "sh") : "")
}
# Engines of cuDNN 9.19 that compute as Winograd did: noted so (build/cuda/tools/cudnn_plans prints the notes), or by their counts (docs/measuring.md).
BEGIN {
  FS = ","
  # What the table `occupancy` shows: kernel, pass, layer, the number of the launch, and what nvcc calls it.
  first = "mb16ic64ih56oc128oh56kh3ph1"; small = "mb16ic512ih7oc512oh7kh3ph1"; stem = "mb16ic3ih224oc64oh112kh7sh2ph3"
  row("05a", "fprop", first, 2, "matmul_kernel"); row("05b", "fprop", first, 1, "implicit_kernel"); row("05c", "fprop", first, 1, "pipelined_kernel<128 0>")
  row("05d", "fprop", small, 1, "split_kernel<BM 0>"); row("05e", "dgrad", first, 1, "columns_kernel"); row("05f", "dgrad", first, 1, "dgrad_kernel<BM>"); row("05g", "wgrad", first, 1, "wgrad_kernel<BM>")
  row("05h", "fprop", first, 2, "multiply_kernel<128 64 4>"); row("05i", "fprop", first, 1, "transform_kernel<4 0>"); row("05i", "fprop", first, 2, "multiply_kernel<64 64 6>"); row("05i", "fprop", first, 3, "output_kernel<4>")
  row("05j", "dgrad", stem, 1, "few_kernel<6 4>"); row("05k", "fprop", "mb64ic512ih7oc2048oh7kh1", 1, "stream_kernel<BM 0>")
  winograd_engine["fprop"] = "^eng6(_|$)"; winograd_engine["dgrad"] = "^eng7(_|$)"; winograd_engine["wgrad"] = "^eng17(_|$)"
}
# Of a profile: million multiply-adds of the formula, counted once a warp; the time of one instruction a clock; what else there is between them and the limit.
function count_of(k, metric) { if (!((k, metric) in counter)) stop("a row " metric " of " k); return counter[k, metric] }
function formula(k,    s) { s = shape_of[k]; return number(s, "mb") * number(s, "oc") * number(s, "ic") * (number(s, "oh") * number(s, "kh")) ^ 2 / 32e6 }
function one_a_clock(k) { if (!("device_clock" in machine)) stop("calibrate.csv before the profiles"); return count_of(k, "instructions") * 1e6 / (4 * machine["device_sms"] * machine["device_clock"]) }
function useful(k) { return formula(k) / count_of(k, "instructions") }
function active(k) { return one_a_clock(k) / count_of(k, "duration") / (count_of(k, "issue slots") / 100) }
function row(name, of, layer, launch, called) { row_kernel[++row_count] = name; row_pass[row_count] = of; row_shape[row_count] = layer; row_launch[row_count] = launch; row_function[row_count] = called }
function ceil(x) { return x == int(x) ? x : int(x) + 1 }
function groups(text) { return text ~ /^g[0-9]/ ? substr(text, 2) + 0 : 1 }
# The kernel that the step's rule takes for random data, and for others: a direct one (scripts/which.sh).
function read_rule(file,    line, field, count) {
  while ((getline line < file) > 0) if (split_csv(line, field) >= 7) { rule[field[2], field[1]] = field[4]; direct_rule[field[2], field[1]] = field[7]; count++ }
  if (count < 2) stop("the choices of the rule in " file)
}
function chosen(of, text) { return choice_of(rule, of, text) }
function direct_of(of, text) { return choice_of(direct_rule, of, text) }
function choice_of(list, of, text) { if (!ruled) { ruled = 1; read_rule("docs/results/h200/which-05.csv") } if (!((of, text) in list)) stop("a choice for " text " " of " in which-05.csv"); return list[of, text] }
FNR == 1 && (FILENAME == "-" || FILENAME == "/dev/stdin") { listing = 1 }
listing && /^(g[0-9]+)?mb/ { shape = $0; if (!(shape in listed)) { listed[shape] = 1; order[++shapes] = shape } }
listing && /^  05/ { kernel = substr($0, 3, 3); pass_listed = substr($0, 8, 5); launches = 0 }
listing && /^ +grid / {
  split($0, word, " "); launches++
  blocks_x[kernel, pass_listed, shape, launches] = word[2]; blocks_y[kernel, pass_listed, shape, launches] = word[4]
  threads[kernel, pass_listed, shape, launches] = word[8] * word[10] * word[12]
  match($0, /shared [0-9]+ [+] [0-9]+/); split(substr($0, RSTART, RLENGTH), word, " ")
  shared[kernel, pass_listed, shape, launches] = word[4] # the static part: nvcc knows it
}
listing { next }
FNR == 1 { n = split_csv($0, head); split("", at); for (i = 1; i <= n; i++) at[head[i]] = i; next }
{ split_csv($0, f) }
("static_shared" in at) { registers[f[at["kernel"]], f[at["function"]]] = f[at["registers"]]; static_shared[f[at["kernel"]], f[at["function"]]] = f[at["static_shared"]]; next }
("parameter" in at) { if (f[at["parameter"]] == "") machine[f[at["name"]]] = f[at["value"]]; next }
("launch" in at) { counter[f[at["kernel"]], f[at["metric"]]] = f[at["value"]] + 0; shape_of[f[at["kernel"]]] = f[at["shape"]]; next }
("best_us" in at) { if (f[at["pass"]] == pass && f[at["shape"]] ~ ("^mb" batch "ic")) { plans++; plain[f[at["shape"]]] = f[at["best_us"]] + 0; plain_plan[f[at["shape"]]] = f[at["best_plan"]] } next }
{ shape = f[at["shape"]]; kernel = f[at["kernel"]]; us = f[at["us_median"]] }
us == "" { next }
table ~ /^over_/ { # bench-05.csv: only cuDNN's time
  if ("cudnn_best_us" in at) { if (f[at["pass"]] == "fprop" && shape ~ only) value[shape, "cudnn"] = f[at["cudnn_best_us"]] + 0 }
  else if (shape ~ only) value[shape, kernel] = us + 0
  next
}
table == "trials" {
  key = f[at["trial"]]
  if (!seen[key]++) order[++shapes] = key
  if (f[at["version"]] == "before") { value[key, shape] = us; next }
  if (!((key, shape) in value)) stop("a time before, of " key " on " shape)
  r = us / value[key, shape]; rows_of[key]++; sum_of[key] += log(r)
  if (rows_of[key] == 1 || r < low[key]) low[key] = r
  if (r > high[key]) high[key] = r
  next
}
table == "cublas" {
  if (!(shape in seen)) { seen[shape] = 1; order[++shapes] = shape }
  value[shape, kernel] = us; next
}
("status" in at) && f[at["status"]] != "right" { next }
table == "first" {
  if (shape != layer || kernel !~ /^05/) next
  lines[++count] = sprintf("| `%s` | %s | %s | %.1f | %.0f %% | %s%s | %.2f |", kernel, f[at["pass"]], time(us), f[at["tflops"]], 100 * f[at["floor_share"]], time(f[at["cudnn_best_us"]] + 0), f[at["cudnn_best_plan"]] ~ winograd_engine[f[at["pass"]]] ? " W" : "", f[at["ratio_best"]])
  next
}
table == "winograd" {
  if (f[at["pass"]] != "fprop" || (kernel != "05d" && kernel != "05i") || number(shape, "kh") != 3 || number(shape, "sh") > 1) next
  if (!(shape in floor)) order[++shapes] = shape
  floor[shape] = f[at["floor_us"]] + 0; value[shape, kernel] = us + 0; next
}
table == "stream" {
  if (f[at["pass"]] != "fprop" || (kernel != "05d" && kernel != "05k")) next
  set = FILENAME ~ /choice/ ? (groups(shape) > 1 ? 4 : 3) : number(shape, "mb") == 64 ? 2 : 1
  if (set < 3) fitted[shape] = 1
  else if (shape in fitted) next # ResNeXt and ResNet-50 share layers
  if (!(shape in value)) { value[shape] = us + 0; next }
  d = kernel == "05k" ? value[shape] : us + 0; k = kernel == "05k" ? us + 0 : value[shape]; delete value[shape]
  rows_of[set]++
  if (direct_of("fprop", shape) == "05k") {
    taken[set]++; won[set] += k < d; gained[set] += log(d / k)
    if (d / k > high[set]) high[set] = d / k
  } else { missed[set] += k < d; dear[set] += log(k / d); if (k / d > worst[set]) worst[set] = k / d }
  lost = log((direct_of("fprop", shape) == "05k" ? k : d) / (d < k ? d : k)); loss[set] += lost
  if (lost > most[set]) most[set] = lost
  next
}
table == "chosen" || table == "problems" {
  if (kernel !~ /^05/) next
  key = f[at["pass"]] SUBSEP shape; timed[key]++; value[key, kernel] = us + 0
  if (!(key in direct) || us + 0 < direct[key]) { direct[key] = us + 0; by[key] = kernel }
  next
}
f[at["pass"]] != pass || shape !~ ("^mb" batch "ic") || shape !~ only { next }
{
  if (!(shape in floor)) { order[++shapes] = shape; floor[shape] = f[at["floor_us"]] + 0; cudnn[shape] = f[at["cudnn_best_us"]] + 0; plan[shape] = f[at["cudnn_best_plan"]] }
  winograd = kernel == "05i"
  if (winograd && kernel == chosen(pass, shape)) transformed[shape] = us + 0
  if (kernel == direct_of(pass, shape)) { direct[shape] = us + 0; by[shape] = kernel }
  timed[kernel, shape] = us + 0
}
END {
  if (failed) exit 2
  if (table == "shapes") { for (i = 1; i <= row_count; i++) if (!seen[row_shape[i]]++) print row_shape[i]; exit }
  if (table == "each") { printf "%.2f", 1 / useful(kernel); exit }
  if (table == "one_a_clock") { printf "%.0f", one_a_clock(kernel); exit }
  if (table == "at_rate") { printf "%.0f", one_a_clock(kernel) / (count_of(kernel, "issue slots") / 100); exit }
  if (table == "useful" || table == "active") { printf "%.0f", 100 * (table == "useful" ? useful(kernel) : active(kernel)); exit }
  if (table == "down") {
    print "| | layer | multiply-adds of the formula among the instructions | clocks in which a scheduler starts one | time in which an SM has work | all three: of the limit |\n|---|---|--:|--:|--:|--:|"
    count = split(kernels, names, " ")
    for (i = 1; i <= count; i++) {
      k = names[i]
      printf "| `%s` | %s | %.0f %% | %.0f %% | %.0f %% | %.0f %% |\n", k, words(shape_of[k]), 100 * useful(k), count_of(k, "issue slots"), 100 * active(k), 100 * useful(k) * count_of(k, "issue slots") / 100 * active(k)
    }
    exit
  }
  if (table == "trials") {
    print "| change | layers | geometric mean | least | most |\n|---|--:|--:|--:|--:|"
    for (i = 1; i <= shapes; i++) printf "| %s | %d | %.2f | %.2f | %.2f |\n", order[i], rows_of[order[i]], exp(sum_of[order[i]] / rows_of[order[i]]), low[order[i]], high[order[i]]
    exit
  }
  if (table == "stream") {
    split("ResNet-50, 16 images;ResNet-50, 64 images;VGG-16 and ResNeXt, 16 images, no groups;ResNeXt, 16 images, 32 groups", names, ";")
    print "| layers | | the rule takes `05k` | faster there | `05d` / `05k`, mean | most | it takes `05d` | `05k` faster there | `05k` / `05d`, mean | most | the rule loses, mean | most |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= 4; i++) {
      if (!taken[i]) stop("times of 05d and 05k, " names[i])
      n = rows_of[i] - taken[i]
      others = n ? sprintf("%d | %d | %.2f | %.2f", n, missed[i], exp(dear[i] / n), worst[i]) : "0 | | |"
      printf "| %s | %d | %d | %d | %.2f | %.2f | %s | %.1f %% | %.0f %% |\n", names[i], rows_of[i], taken[i], won[i], exp(gained[i] / taken[i]), high[i], others, 100 * (exp(loss[i] / rows_of[i]) - 1), 100 * (exp(most[i]) - 1)
    }
    exit
  }
  if (table ~ /^over_/) {
    rows = sum = count = 0
    for (key in value) {
      split(key, part, SUBSEP)
      if (part[2] != slow || !((part[1], fast) in value)) continue
      r = value[key] / value[part[1], fast]; rows++; sum += log(r); count += r > 1
      if (rows == 1 || r < smallest) smallest = r
      if (r > largest) largest = r
    }
    if (!rows) stop("rows of -v slow=KERNEL and -v fast=KERNEL")
    if (table == "over_count" || table == "over_rows") printf "%d", table == "over_count" ? count : rows
    else printf "%.2f", table == "over_mean" ? exp(sum / rows) : table == "over_least" ? smallest : largest
    exit
  }
  if (table == "first") {
    if (!count) stop("rows of step 05 on -v layer=")
    print "| kernel | pass | us | TFLOP/s | of the limit | cuDNN's best, us | its time over ours |\n|---|---|--:|--:|--:|--:|--:|"
    for (i = 1; i <= count; i++) print lines[i]
    exit
  }
  if (table == "chosen" || table == "problems") {
    for (key in timed) if (timed[key] > 1) { split(key, part, SUBSEP); all++; right += by[key] == chosen(part[1], part[2]) }
    if (!all) stop("problems with two kernels")
    printf "%d", table == "chosen" ? right : all
    exit
  }
  if (table == "occupancy") {
    print "| | function | layer | threads of a block | registers of a thread | shared memory of a block | blocks an SM: by registers | by shared memory | by threads | warps an SM | of " machine["device_warps"] " |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= row_count; i++) {
      k = row_kernel[i]; key = k SUBSEP row_pass[i] SUBSEP row_shape[i] SUBSEP row_launch[i]; called = row_function[i]
      if (!(key in threads)) stop("a line of " k " in the list of " row_shape[i])
      t = threads[key]; sub(/BM/, t / 2, called)
      if (!((k, called) in registers)) stop("registers of " k " " called)
      bytes = shared[key] + static_shared[k, called]; used = registers[k, called]
      by_registers = int(machine["device_registers"] * 256 / (ceil(registers[k, called] / 8) * 8 * t))
      by_shared = int(machine["device_shared"] * 1024 / (bytes + 1024)); by_threads = int(machine["device_warps"] * 32 / t)
      least = by_registers < by_shared ? by_registers : by_shared; if (by_threads < least) least = by_threads
      gsub(/ /, ", ", called)
      printf "| `%s` | `%s` | %s | %d | %d | %d | %d | %d | %d | %d | %.0f %% |\n", k, called, words(row_shape[i]), t, used, bytes, by_registers, by_shared, by_threads, least * t / 32, 100 * least * t / 32 / machine["device_warps"]
    }
    exit
  }
  if (table == "cuts") {
    if (!shapes) stop("a list of layers")
    print "| layer, 16 images | fprop | tiles | of | slices | blocks | places for them | wgrad | tiles | of | slices |\n|---|---|--:|--:|--:|--:|--:|---|--:|--:|--:|"
    for (i = 1; i <= shapes; i++) {
      s = order[i]; d = "05d" SUBSEP "fprop" SUBSEP s SUBSEP 1; g = "05g" SUBSEP "wgrad" SUBSEP s SUBSEP 1
      if (!(d in threads) || !(g in threads)) stop("lines of 05d and 05g in the list of " s)
      printf "| %s | `05d` | %d | %d x 128 | %d | %d | %d | `05g` | %d | %d x 128 | %d |\n", words(s), blocks_x[d], threads[d] / 2, blocks_y[d], blocks_x[d] * blocks_y[d], 132 * 512 / threads[d], blocks_x[g], threads[g] / 2, blocks_y[g]
    }
    exit
  }
  if (!shapes) stop("rows of " (table == "cublas" ? "cuBLAS" : pass " with " batch " images"))
  if (table == "cublas") {
    print "| filters x windows x their length | `05a`: windows written | `05a`'s product | cuBLAS's product | cuBLAS, image by image | `05c`, all of it | `05d`, all of it | cuBLAS's over `05d`'s | image by image |"
    print "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= shapes; i++) {
      s = order[i]
      p = number(s, "oh") ? number(s, "oh") : number(s, "ih")
      printf "| %d x %d x %d | %s | %s | %s | %s | %s | %s | %.2f | %.2f |\n", number(s, "oc"), number(s, "mb") * p * p, number(s, "ic") * number(s, "kh") ^ 2, time(value[s, "05a_im2col"]), time(value[s, "05a_matmul"]), time(value[s, "cublas"]), time(value[s, "cublas_batched"]), time(value[s, "05c"]), time(value[s, "05d"]), value[s, "cublas"] / value[s, "05d"], value[s, "cublas_batched"] / value[s, "05d"]
    }
    exit
  }
  if (table == "winograd") {
    print "| layer | direct: multiply-adds, us | `05d`, us | `05i`: multiply-adds, us | U, V, M: MB | all bytes, us | both | `05i`, us | `05d` / `05i` |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= shapes; i++) {
      s = order[i]; c = number(s, "ic"); k = number(s, "oc"); n = number(s, "mb"); p = number(s, "oh"); h = number(s, "ih")
      if (!((s, "05d") in value) || !((s, "05i") in value)) stop("times of 05d and 05i for " s)
      tiles = ceil(p / 4); short = n * tiles ^ 2 > 64 ? 4 * tiles - p : 0; points = n * (6 * tiles - (short < tiles ? short : tiles)) ^ 2 # a shorter tile of 3 outputs has 5 points; where all are in one block of columns, none are shorter
      mb = 4 * (36 * c * k + (c + k) * points); adds = c * k * points * 2 / peak / 1e6; moved = (2 * mb + 4 * (n * (c * h * h + k * p * p) + 9 * c * k)) / bandwidth / 1e6
      printf "| %d: %s | %s | %s | %s | %.0f | %s | %s | %s | %.2f |\n", n, words(s), time(floor[s]), time(value[s, "05d"]), time(adds), mb / 1e6, time(moved), time(adds + moved), time(value[s, "05i"]), value[s, "05d"] / value[s, "05i"]
    }
    exit
  }
  for (s in transformed) any = 1
  for (i = 1; i <= shapes; i++) {
    s = order[i]
    if (!(s in direct)) stop("a time of " direct_of(pass, s) " on " s)
    has = s in transformed
    least = has ? transformed[s] : direct[s]
    if (which ~ /^05/) { if (!((which, s) in timed)) stop("a time of " which " on " s); always = timed[which, s]; logs[which] += log(cudnn[s] / always); shares[which] += log(floor[s] / always); over[which] = cudnn[s] / always }
    if (!cudnn[s]) stop("cuDNN's time for " s)
    logs["direct"] += log(cudnn[s] / direct[s]); logs["rule"] += log(cudnn[s] / least)
    logs["both"] += log((s in plain ? plain[s] : cudnn[s]) / direct[s])
    r = floor[s] / direct[s]; if (i == 1 || r < low_share) low_share = r; if (r > high_share) high_share = r
    shares["direct"] += log(floor[s] / direct[s]); shares["cudnn"] += log(floor[s] / cudnn[s])
    over["direct"] = cudnn[s] / direct[s]; over["rule"] = cudnn[s] / least
    if (over[which] < 1) losses++
    if (i == 1 || over[which] < smallest) smallest = over[which]
    if (over[which] > largest) largest = over[which]
    line[i] = sprintf("| %s | %s | `%s` %s | %.0f %% |%s %s%s | %.2f |%s", words(s), time(floor[s]), by[s], time(direct[s]), 100 * floor[s] / direct[s], any ? (has ? " " time(transformed[s]) " |" : " |") : "", time(cudnn[s]), plan[s] ~ winograd_engine[pass] ? " W" : "", cudnn[s] / direct[s], any ? (has ? sprintf(" %.2f |", cudnn[s] / least) : " |") : "")
  }
  if (table == "direct") {
    print "| layer | ours, us | of the floor | cuDNN's best without Winograd, us | its time over ours | cuDNN's best, us |\n|---|--:|--:|--:|--:|--:|"
    for (i = 1; i <= shapes; i++) if ((s = order[i]) in plain) printf "| %s | `%s` %s | %.0f %% | `%s` %s | %.2f | %s |\n", words(s), by[s], time(direct[s]), 100 * floor[s] / direct[s], plain_plan[s], time(plain[s]), plain[s] / direct[s], time(cudnn[s])
    exit
  }
  if ((table == "geomean" && !(which in logs)) || (table == "share" && !(which in shares)) || (which == "both" && !plans)) stop("-v which= of this table (see the head), got \"" which "\"")
  if (table == "geomean") { printf "%.2f", exp(logs[which] / shapes); exit }
  if (table == "share") { printf "%.0f", 100 * exp(shares[which] / shapes); exit }
  if (table == "share_least" || table == "share_most") { printf "%.0f", 100 * (table == "share_least" ? low_share : high_share); exit }
  if (table == "losses") { printf "%d", losses; exit }
  if (table == "least" || table == "most") { printf "%.2f", table == "least" ? smallest : largest; exit }
  if (table != "layers") stop("-v table=NAME (see the head), got \"" table "\"")
  print "| layer | floor, us | direct, us | of the floor |" (any ? " `05i`, us |" : "") " cuDNN's best, us | its time over direct |" (any ? " over the rule's |" : "")
  print "|---|--:|--:|--:|" (any ? "--:|" : "") "--:|--:|" (any ? "--:|" : "")
  for (i = 1; i <= shapes; i++) print line[i]
  printf "| geometric mean, each layer once | | | |%s | **%.2f** |%s\n", any ? " |" : "", exp(logs["direct"] / shapes), any ? sprintf(" **%.2f** |", exp(logs["rule"] / shapes)) : ""
}
