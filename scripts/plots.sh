#!/usr/bin/env bash
# Draws the results: `make plots`. What is drawn: scripts/plots.py.
#
#   scripts/plots.sh [RESULTS] [LAYER]      (an empty argument is one not given)
#   scripts/plots.sh --train                the curve of build/results/train.csv alone, to build/figures
#
# RESULTS  a folder with bench.csv and batch.csv; default: build/results if `make bench` has timed a GPU there, else those that the pages show
# LAYER    the layer of the ladder, as a benchdnn string
#
# The pictures of docs/results/GPU go to docs/figures/GPU, all others to build/figures. Exit status: 0 all right, 2 bad input or no matplotlib.
set -u
cd "$(dirname "$0")/.." || exit 2
. scripts/find_python.sh
local=build/results

# Whether a bench.csv has a time that was measured on a GPU: its row names a driver. Quoted fields may hold commas: emptied first.
timed() {
  [ -f "$1" ] && sed 's/"[^"]*"/""/g' "$1" | awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    $column["driver"] != "" && $column["us_median"] != "" { found = 1 }
    END { exit !found }'
}

if [ "${1:-}" = --train ]; then
  find_python build/venv
  [ "$python" ] || { echo "the training curve is not drawn: it needs Python with matplotlib" >&2; exit 2; }
  PYTHONDONTWRITEBYTECODE=1 exec "$python" scripts/plot_train.py $local/train.csv build/figures
fi

results=${1:-}
if [ -z "$results" ]; then
  if timed "$local/bench.csv"; then results=$local; else results=docs/results/$(cat docs/results/shown); fi
fi
[ -d "$results" ] || { echo "RESULTS: expected a folder with bench.csv, got \"$results\"" >&2; exit 2; }
if [ "$results/.." -ef docs/results ]; then results=docs/results/$(basename "$results") out=docs/figures/$(basename "$results"); else out=build/figures; fi

find_python build/venv
[ "$python" ] || { echo "plots: expected Python with matplotlib, which is neither here nor can be installed" >&2; exit 2; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" scripts/plots.py "$results" "$out" "${2:-}"
