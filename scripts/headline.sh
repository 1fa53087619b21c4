#!/usr/bin/env bash
# Step 05 beside cuDNN on ResNet-50, in one line a mean: cuDNN's time over ours, geometric mean of all layers, by two files of rows.
# usage: scripts/headline.sh OLD.csv NEW.csv >docs/results/GPU/headline-05.csv
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: scripts/headline.sh OLD.csv NEW.csv" >&2; exit 2; }
mean() { awk -f scripts/step05_tables.awk -v table=geomean -v pass="$2" -v batch="$3" -v which="$4" "$1"; }
echo "pass,images,kernels,before,after"
for row in "fprop 16" "fprop 64" "dgrad 16" "wgrad 16"; do
  read -r pass images <<<"$row"
  for which in direct rule; do
    [ "$pass $which" = "wgrad rule" ] && continue # the same kernel
    echo "$pass,$images,$which,$(mean "$1" "$pass" "$images" "$which"),$(mean "$2" "$pass" "$images" "$which")"
  done
done
