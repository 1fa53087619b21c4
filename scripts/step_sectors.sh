#!/usr/bin/env bash
# Sectors of a step's loads and stores: what the emulator counts on small layers, beside what ncu counted on the layer of all tables. The small
# layers have that layer's image and filter size and as many channels or filters as a warp has lanes: so a request is the same there.
# usage: scripts/step_sectors.sh 01|02        prints a Markdown table; for the chapters (scripts/fill_docs.pl)
set -euo pipefail
step=${1:?usage: scripts/step_sectors.sh STEP}
program=build/count/$step
make -s BACKEND=emu "$program" >/dev/null
echo "| | a | b | loads of a, sectors | loads of b, sectors | average, counted by the emulator | average, ncu on the H200 | stores, sectors |"
echo "|---|---|---|--:|--:|--:|--:|--:|"
while read -r pass shape a b; do
  EMU_COUNT_BLOCKS=all "$program" --exact --pass "$pass" --shape "$shape" | awk -v pass="$pass" -v a="$a" -v b="$b" -v profile="docs/results/h200/profile-$step-$pass.csv" '
    # A kernel is listed before the line that names it: "  02a  right ...". Several kernels: their listings in turn, then their names.
    /^emulator count:/ { listing++ }
    $1 == "load" { requests[listing, $2] = $4; sectors[listing, $2] = $6 }
    $1 == "store" { stored[listing] = $6 }
    $2 == "right:" { kernel[++kernels] = $1 }
    END {
      while ((getline line < profile) > 0) {
        split(line, field, ",")
        if (field[4] == "sectors per load") gpu[field[1]] = field[5]
      }
      a_name = a; b_name = b; sub(/^d/, "", a_name); sub(/^d/, "", b_name) # the listing writes y for dy
      if (!kernels || listing != kernels) { print "step_sectors.sh: expected a listing for every kernel of " pass > "/dev/stderr"; exit 2 }
      for (i = 1; i <= kernels; i++) {
        all = requests[i, a_name] + requests[i, b_name]
        average = (requests[i, a_name] * sectors[i, a_name] + requests[i, b_name] * sectors[i, b_name]) / all
        printf "| `%s` %s | %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", kernel[i], pass, a, b, sectors[i, a_name], sectors[i, b_name], average, gpu[kernel[i]], stored[i]
      }
    }'
done <<END
fprop mb1ic2ih56oc32oh56kh3ph1 w x
dgrad mb1ic32ih56oc2oh56kh3ph1 w dy
wgrad $([ "$step" = 01 ] && echo mb1ic2ih56oc32oh56kh3ph1 || echo mb1ic32ih56oc2oh56kh3ph1) dy x
END
