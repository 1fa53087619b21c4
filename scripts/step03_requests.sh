#!/usr/bin/env bash
# What 02a and 03a to 03d ask of memory for each multiply-add of a warp, counted by the emulator on a small layer whose rows and filters are those
# of the first layer. (An asynchronous copy is a global load and a shared store.)
# usage: scripts/step03_requests.sh        prints a Markdown table; for docs/03_shared_tiling.md (scripts/fill_docs.pl)
set -euo pipefail
shape=mb1ic8ih24iw56oc64oh24ow56kh3kw3ph1pw1
make -s BACKEND=emu build/count/02 build/count/03 >/dev/null
json=$(mktemp)
trap 'rm -f "$json"' EXIT
echo "| | global loads: requests | sectors | shared loads: requests | wavefronts | shared stores: requests |"
echo "|---|--:|--:|--:|--:|--:|"
for kernel in 02a 03a 03b 03c 03d; do
  : >"$json"
  EMU_COUNT_JSON=$json EMU_COUNT_BLOCKS=all "build/count/${kernel%?}" --exact --pass fprop --kernel $kernel --shape $shape >/dev/null
  awk -v kernel=$kernel '
    function value(name) { return match($0, "\"" name "\": *[0-9]+") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 : 0 }
    function text(name) { return match($0, "\"" name "\": *\"[^\"]*") ? substr($0, RSTART + length(name) + 5, RLENGTH - length(name) - 5) : "" }
    /flops_of_problem/ { products = value("flops_of_problem") / 64 }
    /"kind"/ { key = text("space") " " text("kind"); requests[key] += value("requests"); sectors[key] += value("sectors"); wavefronts[key] += value("wavefronts") }
    function each(x) { return x ? sprintf("%.2f", x / products) : "" }
    END {
      if (!products || !requests["global load"]) { print "step03_requests.sh: expected counted loads of " kernel > "/dev/stderr"; exit 2 }
      print "| `" kernel "` | " each(requests["global load"]) " | " each(sectors["global load"]) " | " each(requests["shared load"]) " | " each(wavefronts["shared load"]) " | " each(requests["shared store"]) " |"
    }' "$json"
done
