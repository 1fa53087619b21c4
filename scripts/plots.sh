#!/usr/bin/env bash
# Draws the results: `make plots`. What is drawn: scripts/plots.py.
#
#   scripts/plots.sh [RESULTS] [LAYER]      (an empty argument is one not given)
#
# RESULTS  a folder with bench.csv and batch.csv; default: build/results if `make bench` has timed a GPU there, else docs/results/h200
# LAYER    the layer of the ladder, as a benchdnn string
#
# The pictures of docs/results/h200 go to docs/figures, all others to build/figures. Exit status: 0 all right, 2 bad input or no matplotlib.
set -u
cd "$(dirname "$0")/.." || exit 2
. scripts/find_python.sh
documented=docs/results/h200
local=build/results

# Whether a bench.csv has a time that was measured on a GPU: its row names a driver. Quoted fields may hold commas: emptied first.
timed() {
  [ -f "$1" ] && sed 's/"[^"]*"/""/g' "$1" | awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    $column["driver"] != "" && $column["us_median"] != "" { found = 1 }
    END { exit !found }'
}

results=${1:-}
if [ -z "$results" ]; then
  if timed "$local/bench.csv"; then results=$local; else results=$documented; fi
fi
[ -d "$results" ] || { echo "RESULTS: expected a folder with bench.csv, got \"$results\"" >&2; exit 2; }
if [ "$results" -ef "$documented" ]; then results=$documented out=docs/figures; else out=build/figures; fi

find_python build/venv
[ "$python" ] || { echo "plots: expected Python with matplotlib, which is neither here nor can be installed" >&2; exit 2; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" scripts/plots.py "$results" "$out" "${2:-}"
