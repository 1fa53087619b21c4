#!/usr/bin/env bash
# Tables of docs/05_im2col_gemm.md that need what step 05 launches, listed as for 132 multiprocessors, or what it asks of memory; on the emulator.
# usage: scripts/step05.sh occupancy         for the layers that scripts/step05_tables.awk names
#        scripts/step05.sh cuts SHAPE ...    tiles and slices of 05d and 05g
#        scripts/step05.sh lost summary | losses  what the model that cuts products, as it is now, loses by the times of all cuts
#        scripts/step05.sh counters "05c 05f/dgrad 05j/dgrad-first ..." METRIC ...   columns and rows of profile-05-fprop.csv, -dgrad.csv ...
#        scripts/step05.sh stores SHAPE ...  05f's stores to dx, counted
#        scripts/step05.sh winograd          what 05i's multiply-adds and bytes take, and its time
set -euo pipefail
table=${1:?usage: scripts/step05.sh occupancy | cuts SHAPE ... | lost summary | lost losses | counters "KERNEL ..." METRIC ... | stores SHAPE ... | winograd}
shift
results=docs/results/h200
if [ "$table" = lost ]; then
  make -s BACKEND=emu build/emu/tools/cuts >/dev/null
  exec build/emu/tools/cuts --read $results/cuts.csv --table "${1:-}"
fi
if [ "$table" = counters ]; then # without profile_table.pl's last column, last kernel over first: they are different passes or layers
  kernels=" ${1:?kernels: expected names such as "05c 05i.1"} "
  shift
  for pass in fprop dgrad wgrad dgrad-first fprop-28 fprop-7; do
    awk -F, -v kernels="$kernels" -v pass=$pass 'FNR == 1 || index(kernels, " " $1 (pass == "fprop" ? "" : "/" pass) " ")' $results/profile-05-$pass.csv
  done | awk 'NR == 1 || !/^kernel,/' | scripts/profile_table.pl --markdown /dev/stdin -- "$@" | sed 's/[^|]*|$//'
  exit
fi
if [ "$table" = stores ]; then
  make -s BACKEND=emu build/count/05 >/dev/null
  json=$(mktemp)
  trap 'rm -f "$json"' EXIT
  echo "| layer | bytes a lane | lanes a request | sectors a request | bytes a sector, of 32 |"
  echo "|---|--:|--:|--:|--:|"
  for shape in "$@"; do
    : >"$json"
    EMU_COUNT_JSON=$json EMU_COUNT_BLOCKS=all build/count/05 --exact --pass dgrad --kernel 05f --shape "$shape" >/dev/null
    awk -v shape="$shape" '
      function value(name) { return match($0, "\"" name "\": *[0-9.]+") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 : 0 }
      /"kind": *"store"/ && /"space": *"global"/ { requests += value("requests"); lanes += value("lanes"); sectors += value("sectors"); bytes = value("bytes") }
      END {
        if (!requests || !lanes) { print "step05.sh: expected counted stores of 05f on " shape > "/dev/stderr"; exit 2 }
        printf "| `%s` | %d | %.1f | %.1f | %.0f |\n", shape, bytes, lanes / requests, sectors / requests, bytes * lanes / sectors
      }' "$json"
  done
  exit
fi
if [ "$table" = winograd ]; then
  limits=$(awk -F, '/"NVIDIA H200"/ {printf "-v peak=%g -v bandwidth=%g", $3 / 1e12, $5 / 1e12}' common/harness/gpus.h)
  exec awk -v table=winograd $limits -f scripts/step05_tables.awk $results/{bench,bench-05,large-05}.csv
fi
make -s BACKEND=emu build/emu/05 >/dev/null
[ $# -gt 0 ] || set -- $(awk -f scripts/step05_tables.awk -v table=shapes </dev/null)
for shape in "$@"; do EMU_SMS=132 build/emu/05 --list --shape "$shape"; done | awk -v "table=$table" -f scripts/step05_tables.awk $results/{registers-05,calibrate}.csv -
