#!/usr/bin/env bash
# Registers, shared memory and spills of a step's kernels, as ptxas reports them for sm_90a. Needs nvcc, no GPU.
# usage: scripts/registers.sh STEP >docs/results/GPU/registers-STEP.csv
set -euo pipefail
step=${1:?usage: scripts/registers.sh STEP}
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
"$nvcc" --version >/dev/null 2>&1 || { echo "registers.sh: expected nvcc on PATH, in /usr/local/cuda/bin or as NVCC=, found none" >&2; exit 2; }
compgen -G "${step}_*/*.cu" >/dev/null || { echo "registers.sh: STEP: expected a step with .cu files, got \"$step\"" >&2; exit 2; }
version=$("$nvcc" --version | sed -n 's/.*, V\([0-9.]*\)$/\1/p')
echo nvcc,arch,kernel,function,registers,static_shared,spill_bytes
for file in "${step}"_*/*.cu; do
  kernel=$step$(basename "$file" | cut -c 1)
  "$nvcc" -std=c++20 -O3 -I. -gencode arch=compute_90a,code=sm_90a -Xptxas -v -c "$file" -o /dev/null 2>&1 | awk -v kernel="$kernel" -v version="$version" '
    # A template is told from its brothers by its numbers: _Z16registers_kernelILi2ELi3EE... is registers_kernel<2 3>.
    /Compiling entry function/ {
      split($0, part, "\047"); name = part[2]
      sub(/^_Z[0-9]+/, "", name)
      numbers = ""
      if (match(name, /I(L[a-z]n?[0-9]+E)+E/)) { numbers = substr(name, RSTART + 1, RLENGTH - 2); name = substr(name, 1, RSTART - 1) }
      else sub(/kernel.*/, "kernel", name)
      gsub(/L[a-z]/, "", numbers); sub(/E$/, "", numbers); gsub(/E/, " ", numbers)
      if (numbers != "") name = name "<" numbers ">"
    }
    /spill stores/ { spills = $5 + $9 }
    /Used [0-9]+ registers/ {
      shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART) + 0 : 0
      match($0, /Used [0-9]+/)
      print version ",90a," kernel "," name "," substr($0, RSTART + 5, RLENGTH - 5) "," shared "," spills
    }' | LC_ALL=C sort # whatever order the source names its templates in
done
