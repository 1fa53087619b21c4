#!/usr/bin/env bash
# What a step's rule takes (--which) for every problem that its kernels have rows of, as on a GPU of 132 multiprocessors. The tables of the chapters read it.
# usage: scripts/which.sh 05 [RESULTS] >docs/results/h200/which-05.csv
set -euo pipefail
step=${1:?usage: scripts/which.sh STEP [RESULTS]} results=${2:-docs/results/h200}
make -s BACKEND=emu "build/emu/$step" >/dev/null
list=$(mktemp)
trap 'rm -f "$list"' EXIT
for file in "$results"/*.csv; do
  awk -F, -v step="$step" '
    FNR == 1 { split("", at); for (i = 1; i <= NF; i++) at[$i] = i; good = ("shape" in at) && ("kernel" in at) && ("status" in at); next }
    good && $at["kernel"] ~ "^" step "[a-z]$" { print $at["shape"] }' "$file" # no field before these holds a comma
done | LC_ALL=C sort -u >"$list"
EMU_SMS=132 "build/emu/$step" --which --suite "$list"
