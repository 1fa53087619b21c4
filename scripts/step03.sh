#!/usr/bin/env bash
# Tables and numbers of docs/03_shared_tiling.md: what a step's kernels launch (build/emu/03, listed), with the committed results.
# usage: scripts/step03.sh TABLE [kernel=03a ...] [SHAPE ...]      TABLE: see scripts/step03_tables.awk; no shape: the layer of all tables
set -euo pipefail
table=${1:?usage: scripts/step03.sh TABLE [kernel=03a ...] [SHAPE ...]}
shift
variables=(-v "table=$table") shapes=() results=docs/results/h200
for word in "$@"; do
  case $word in *=*) variables+=(-v "$word") ;; *) shapes+=("$word") ;; esac
done
make -s BACKEND=emu build/emu/03 >/dev/null
for shape in "${shapes[@]:-mb16ic64ih56oc128oh56kh3ph1}"; do build/emu/03 --list --pass fprop --shape "$shape"; done |
  awk "${variables[@]}" -f scripts/step03_tables.awk $results/{code-03,registers-03,calibrate,profile-02-fprop,bench}.csv -
