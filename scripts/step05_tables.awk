# Tables of docs/05_im2col_gemm.md, in Markdown.
# usage: awk -f scripts/step05_tables.awk -v table=layers -v pass=fprop -v batch=16 docs/results/h200/bench-05.csv   ResNet-50, layer by layer, beside cuDNN
#        awk -f scripts/step05_tables.awk -v table=cublas docs/results/h200/cublas.csv                                   the product alone, beside cuBLAS
# One number: -v table=geomean -v pass= -v batch= -v which=direct|fastest: cuDNN's time over ours, geometric mean of all layers, each once.
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
function time(us) { return us == "" ? "" : us >= 99.95 ? sprintf("%.0f", us) : sprintf("%.1f", us) }
function number(text, field,    at) { return match(text, field "[0-9]+") ? substr(text, RSTART + length(field), RLENGTH - length(field)) + 0 : 0 }
function words(shape) {
  return number(shape, "kh") " x " number(shape, "kh") ", " number(shape, "ic") " to " number(shape, "oc") ", " number(shape, "ih") " x " number(shape, "ih") (number(shape, "sh") > 1 ? ", stride " number(shape, "sh") : "")
}
# The engines of cuDNN 9.19 that it notes as Winograd ones (build/cuda/tools/cudnn_plans prints an engine's notes).
BEGIN { winograd_engine["fprop"] = "^eng6(_|$)"; winograd_engine["dgrad"] = "^eng7(_|$)"; winograd_engine["wgrad"] = "^eng17(_|$)" }
FNR == 1 { n = split_csv($0, head); split("", at); for (i = 1; i <= n; i++) at[head[i]] = i; next }
{ split_csv($0, f); shape = f[at["shape"]]; kernel = f[at["kernel"]]; us = f[at["us_median"]] }
us == "" { next }
table == "cublas" {
  if (!(shape in seen)) { seen[shape] = 1; order[++shapes] = shape }
  value[shape, kernel] = us; next
}
f[at["pass"]] != pass || shape !~ ("^mb" batch "ic") { next }
{
  if (!(shape in floor)) { order[++shapes] = shape; floor[shape] = f[at["floor_us"]] + 0; cudnn[shape] = f[at["cudnn_best_us"]] + 0; plan[shape] = f[at["cudnn_best_plan"]] }
  winograd = kernel ~ /^05[hi]$/
  if (winograd && (!(shape in transformed) || us + 0 < transformed[shape])) transformed[shape] = us + 0
  if (!winograd && (!(shape in direct) || us + 0 < direct[shape])) { direct[shape] = us + 0; by[shape] = kernel }
}
END {
  if (failed) exit 2
  if (!shapes) stop("rows of " (table == "cublas" ? "cuBLAS" : pass " with " batch " images"))
  if (table == "cublas") {
    print "| filters x windows x their length | `05a`: windows written | `05a`'s product | cuBLAS's product | cuBLAS, image by image | `05c`, all of it | `05d`, all of it |"
    print "|---|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= shapes; i++) {
      s = order[i]
      p = number(s, "oh") ? number(s, "oh") : number(s, "ih")
      printf "| %d x %d x %d | %s | %s | %s | %s | %s | %s |\n", number(s, "oc"), number(s, "mb") * p * p, number(s, "ic") * number(s, "kh") ^ 2, time(value[s, "05a_im2col"]), time(value[s, "05a_matmul"]), time(value[s, "cublas"]), time(value[s, "cublas_batched"]), time(value[s, "05c"]), time(value[s, "05d"])
    }
    exit
  }
  for (i = 1; i <= shapes; i++) {
    s = order[i]
    if (!(s in direct)) stop("a direct kernel for " s)
    has = s in transformed
    least = has && transformed[s] < direct[s] ? transformed[s] : direct[s]
    if (!cudnn[s]) stop("cuDNN's time for " s)
    logs["direct"] += log(cudnn[s] / direct[s]); logs["fastest"] += log(cudnn[s] / least)
    line[i] = sprintf("| %s | %s | `%s` %s | %.0f %% | %s | %s%s | %.2f | %s |", words(s), time(floor[s]), by[s], time(direct[s]), 100 * floor[s] / direct[s], has ? time(transformed[s]) : "", time(cudnn[s]), plan[s] ~ winograd_engine[pass] ? " W" : "", cudnn[s] / direct[s], has ? sprintf("%.2f", cudnn[s] / least) : "")
  }
  if (table == "geomean") { printf "%.2f", exp(logs[which] / shapes); exit }
  print "| layer | floor, us | direct, us | of the floor | Winograd, us | cuDNN's best, us | its time over direct | over the faster |"
  print "|---|--:|--:|--:|--:|--:|--:|--:|"
  for (i = 1; i <= shapes; i++) print line[i]
  printf "| geometric mean | | | | | | %.2f | %.2f |\n", exp(logs["direct"] / shapes), exp(logs["fastest"] / shapes)
}
