# Tables of docs/04_constant_filter.md, in Markdown.
# usage: awk -f scripts/step04_tables.awk -v table=images docs/results/h200/bench.csv   a 4000 x 4000 picture: microseconds, share of the limit
#        awk -f scripts/step04_tables.awk -v table=banks docs/results/h200/banks-04.csv   multiply-adds with two registers in one bank
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
function time(us) { return us >= 1000 ? sprintf("%.0f", us) : us >= 100 ? sprintf("%.0f", us) : sprintf("%.1f", us) }
NR == 1 { n = split_csv($0, head); for (i = 1; i <= n; i++) at[head[i]] = i; next }
{ split_csv($0, f) }
table == "images" && f[at["shape"]] ~ /^mb1ic1ih4000oc1oh4000kh/ && f[at["pass"]] == "fprop" && f[at["kernel"]] ~ /^0[1-4]/ && f[at["us_median"]] != "" {
  size = f[at["shape"]]; sub(/.*kh/, "", size); sub(/ph.*/, "", size)
  if (!(size in floor)) order[++sizes] = size
  floor[size] = f[at["floor_us"]]
  best = f[at["cudnn_best_us"]] + 0
  if (best > 0 && (!(size in cudnn) || best < cudnn[size])) cudnn[size] = best
  k = f[at["kernel"]]; us[size, k] = f[at["us_median"]] + 0
}
table == "banks" && f[at["kernel"]] ~ /^04[bde]$/ && f[at["function"]] ~ /</ {
  lines[++count] = sprintf("| `%s` | `%s` | %d | %.0f %% |", f[at["kernel"]], f[at["function"]], f[at["ffma"]], 100 * f[at["two_in_one_bank"]] / f[at["ffma"]])
}
END {
  if (table == "images") {
    if (!sizes) { print "step04_tables.awk: expected rows of the image suite" > "/dev/stderr"; exit 2 }
    names = split("02a 04a 04b 04d 04e", name, " ")
    printf "| filter | floor, us |"; for (i = 1; i <= names; i++) printf " `%s` |", name[i]; print " cuDNN's best | the fastest of ours: of the limit | cuDNN's time over it |"
    printf "|---|--:|"; for (i = 1; i <= names; i++) printf "--:|"; print "--:|--:|--:|"
    for (s = 1; s <= sizes; s++) {
      size = order[s]; least = 0
      printf "| %s x %s | %.1f |", size, size, floor[size]
      for (i = 1; i <= names; i++) {
        t = us[size, name[i]]
        printf " %s |", t ? time(t) : ""
        if (t && (!least || t < least)) least = t
      }
      printf " %s | %.0f %% | %.1f |\n", time(cudnn[size]), 100 * floor[size] / least, cudnn[size] / least
    }
  } else {
    if (!count) { print "step04_tables.awk: expected rows of scripts/register_banks.sh" > "/dev/stderr"; exit 2 }
    print "| kernel | function | multiply-adds in its code | with two registers in one bank |"
    print "|---|---|--:|--:|"
    for (i = 1; i <= count; i++) print lines[i]
  }
}
