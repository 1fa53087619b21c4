#!/usr/bin/env bash
# Tables of docs/04_constant_filter.md that need what step 04 launches (build/emu/04, listed as for 132 multiprocessors).
# usage: scripts/step04.sh occupancy         for the layers that scripts/step04_tables.awk names
#        scripts/step04.sh work SHAPE ...    for these layers
set -euo pipefail
table=${1:?usage: scripts/step04.sh occupancy | work SHAPE ...}
shift
results=docs/results/h200
make -s BACKEND=emu build/emu/04 >/dev/null
[ $# -gt 0 ] || set -- $(awk -f scripts/step04_tables.awk -v table=shapes </dev/null)
limits=$(awk -F, '/"NVIDIA H200"/ {printf "-v peak=%g -v bandwidth=%g", $3 / 1e12, $5 / 1e12}' common/harness/gpus.h)
for shape in "$@"; do EMU_SMS=132 build/emu/04 --list --shape "$shape"; done | awk -v "table=$table" $limits -f scripts/step04_tables.awk $results/{registers-04,calibrate}.csv -
