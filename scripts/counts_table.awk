# A Markdown table out of docs/results/GPU/counts.csv: a row per kernel, emulator / GPU per metric. Equal figures are printed once.
BEGIN { FS = "," }
NR == 1 { next }
{
  # two programs have a kernel of the same name: a metric seen again begins another row
  if ($1 != kernel || ($1, $2, rows) in value) { rows++; kernel = $1; name[rows] = $1 }
  value[$1, $2, rows] = $3 == $4 ? $3 : $3 " / **" $4 "**"
  if (!($2 in seen)) { seen[$2] = 1; metric[++metrics] = $2 }
}
END {
  printf "| kernel |"
  for (m = 1; m <= metrics; m++) printf " %s |", metric[m]
  printf "\n|---|"
  for (m = 1; m <= metrics; m++) printf "--:|"
  printf "\n"
  for (r = 1; r <= rows; r++) {
    printf "| `%s` |", name[r]
    for (m = 1; m <= metrics; m++) printf " %s |", (name[r], metric[m], r) in value ? value[name[r], metric[m], r] : ""
    printf "\n"
  }
}
