#!/usr/bin/env bash
# How many registers the multiply-adds of a step's kernels read at once, from the machine code for sm_90a; needs nvcc and cuobjdump, no GPU.
# A register file has two banks, even and odd numbers (docs/gpu_speed.md). An operand that the instruction before marked .reuse in the same place is
# not read again; constants and uniform registers are no registers.
# usage: scripts/register_banks.sh STEP >docs/results/GPU/banks-STEP.csv
set -euo pipefail
step=${1:?usage: register_banks.sh STEP}
for tool in nvcc cuobjdump; do command -v "$tool" >/dev/null || { echo "register_banks.sh: expected $tool on PATH, found none" >&2; exit 2; }; done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo kernel,function,ffma,two_in_one_bank,nvcc
version=$(nvcc --version | grep -oE 'V[0-9.]+')
for file in "$step"_*/*.cu; do
  letter=$(basename "$file")
  nvcc -std=c++20 -O3 -I. -gencode arch=compute_90a,code=sm_90a -cubin -o "$folder/code" "$file"
  cuobjdump -sass "$folder/code" | awk -v kernel="$step${letter%%_*}" -v version="$version" '
    function flush() { if (total) printf "%s,\"%s\",%d,%d,%s\n", kernel, name, total, conflicts, version; total = conflicts = 0; split("", kept) }
    /Function : / {
      flush()
      name = $3
      sub(/^_Z[0-9]+/, "", name)
      if (match(name, /I(L[ib][0-9]+E)+/)) {
        sizes = substr(name, RSTART + 1, RLENGTH - 2)
        gsub(/Lb0/, "false", sizes); gsub(/Lb1/, "true", sizes); gsub(/Li/, "", sizes); gsub(/E/, ", ", sizes)
        name = substr(name, 1, RSTART - 1) "<" sizes ">"
      } else sub(/kernel.*/, "kernel", name)
    }
    /^ +\/\*[0-9a-f]+\*\/.*;/ {
      if ($0 !~ / FFMA/) { split("", kept); next }
      line = $0
      sub(/.* FFMA[.A-Z]* /, "", line); sub(/ *;.*/, "", line)
      split(line, operand, /, */)
      split("", bank); split("", seen); split("", next_kept)
      for (i = 2; i <= 4; i++) {
        register = operand[i]
        reuse = register ~ /reuse/
        gsub(/[-|]|\.reuse/, "", register)
        if (register !~ /^R[0-9]+$/) continue
        if (kept[i] != register && !(register in seen)) bank[substr(register, 2) % 2]++
        seen[register] = 1
        if (reuse) next_kept[i] = register
      }
      split("", kept)
      for (i in next_kept) kept[i] = next_kept[i]
      total++
      conflicts += bank[0] > 1 || bank[1] > 1
    }
    END { flush() }'
done
