# Prints result rows as a table for each step: a line per problem and pass, a column per kernel. Input: the CSV of common/harness/report.c.
# A timed cell is the median in microseconds, and where the machine's limit is known the share of it that was reached;
# an untimed one says whether the result was right.

# Splits a CSV line into field[1..n]; quoted fields may hold commas and doubled quotes.
function split_csv(line, field,    n, i, c, quoted) {
  n = 1; field[1] = ""; quoted = 0
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    if (c == "\"") {
      if (quoted && substr(line, i + 1, 1) == "\"") { field[n] = field[n] "\""; i++ }
      else quoted = !quoted
    } else if (c == "," && !quoted) field[++n] = ""
    else field[n] = field[n] c
  }
  return n
}

function time_text(us) { return us < 100 ? sprintf("%.1f us", us) : us < 1e4 ? sprintf("%.0f us", us) : us < 1e7 ? sprintf("%.1f ms", us / 1e3) : sprintf("%.1f s", us / 1e6) }
function share_text(share) { return share < 0.001 ? "<0.1%" : share < 0.1 ? sprintf("%.1f%%", 100 * share) : sprintf("%.0f%%", 100 * share) }

NR == 1 {
  n = split_csv($0, name)
  for (i = 1; i <= n; i++) column[name[i]] = i
  next
}

{
  split_csv($0, f)
  shape = f[column["shape"]]; kernel = f[column["kernel"]]
  key = shape " " f[column["pass"]] " " f[column["dtype"]] " " f[column["layout"]]
  if (!(key in seen)) {
    seen[key] = ++lines
    label[lines] = f[column["name"]] != "" ? f[column["name"]] : shape
    if (f[column["dtype"]] != "fp32") label[lines] = label[lines] ", " f[column["dtype"]]
    pass[lines] = f[column["pass"]]
  }
  if (!(kernel in known)) { known[kernel] = ++kernels; kernel_name[kernels] = kernel }
  us = f[column["us_median"]]; share = f[column["floor_share"]] # text: "" where there is no figure
  text = f[column["status"]]
  if (text == "right" && us != "") { text = time_text(us + 0); if (share != "") text = text " " share_text(share + 0) }
  cell[seen[key], known[kernel]] = text
  if (f[column["cudnn_best_us"]] != "") { # the same problem may have been timed beside several steps: the fastest counts
    best = f[column["cudnn_best_us"]] + 0
    if (!(seen[key] in cudnn) || best < cudnn[seen[key]]) cudnn[seen[key]] = best
    any_cudnn = on_gpu[substr(kernel, 1, 2)] = 1
  }
  count[f[column["status"]]]++
  machine[f[column["gpu"]]] = 1
}

# One block for the kernels of one step: the lines that any of them was meant for.
function block(step,    i, k, width, any, has) {
  width = 5
  for (i = 1; i <= lines; i++) {
    has[i] = 0
    for (k = 1; k <= kernels; k++) if (substr(kernel_name[k], 1, 2) == step && cell[i, k] != "" && cell[i, k] != "skipped") has[i] = 1
    if (has[i] && length(label[i]) > width) width = length(label[i])
    any += has[i]
  }
  if (!any) return
  printf "\n%-*s  pass ", width, "layer"
  for (k = 1; k <= kernels; k++) if (substr(kernel_name[k], 1, 2) == step) printf "  %*s", column_width[k], kernel_name[k]
  if (any_cudnn && on_gpu[step]) printf "  %8s", "cuDNN"
  printf "\n"
  for (i = 1; i <= lines; i++) {
    if (!has[i]) continue
    printf "%-*s  %s", width, label[i], pass[i]
    for (k = 1; k <= kernels; k++) if (substr(kernel_name[k], 1, 2) == step) printf "  %*s", column_width[k], cell[i, k] != "" ? cell[i, k] : "-"
    if (any_cudnn && on_gpu[step]) printf "  %8s", i in cudnn ? time_text(cudnn[i]) : ""
    printf "\n"
  }
}

END {
  for (k = 1; k <= kernels; k++) {
    column_width[k] = length(kernel_name[k])
    for (i = 1; i <= lines; i++) if (length(cell[i, k]) > column_width[k]) column_width[k] = length(cell[i, k])
  }
  for (k = 1; k <= kernels; k++) {
    step = substr(kernel_name[k], 1, 2)
    if (!(step in printed)) block(step)
    printed[step] = 1
  }
  printf "\nmedian time, and the share of the machine's limit for that layer; untimed: whether the result was right; -: not this kernel's pass\n"
  if (any_cudnn) printf "cuDNN: its fastest plan for the same layer and arithmetic (fp32: in either layout, Winograd included), timed in turns with ours\n"
  printf "%d results right, %d wrong, %d skipped%s\n", count["right"], count["wrong"], count["skipped"], count["unverified"] ? ", " count["unverified"] " unverified" : ""
}
