#!/usr/bin/env bash
# How many instructions a warp of step 03 executes in one stage on the first layer, counted in the machine code that nvcc made for sm_90a. The
# ways through the code were read by hand, from `make sass-03`: the addresses below are those of one version of nvcc. If the multiply-adds on
# them are not as many as a stage has, the script refuses. Needs nvcc, cuobjdump and no GPU.
# usage: scripts/step03_code.sh >docs/results/GPU/code-03.csv
set -euo pipefail
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
"$nvcc" --version >/dev/null 2>&1 || { echo "step03_code.sh: expected nvcc on PATH, in /usr/local/cuda/bin or as NVCC=, found none" >&2; exit 2; }
PATH="$PATH:$(dirname "$(readlink -f "$(command -v "$nvcc")")")"
command -v cuobjdump >/dev/null || { echo "step03_code.sh: expected cuobjdump on PATH or beside nvcc, found none" >&2; exit 2; }
version=$("$nvcc" --version | sed -n 's/.*, V\([0-9.]*\)$/\1/p')
object=$(mktemp --suffix .o)
trap 'rm -f "$object"' EXIT

# count KERNEL FILE FUNCTION CHANNELS MULTIPLY_ADDS: reads lines "part times first-last ..."; a stage is CHANNELS input channels, in which a warp
# has MULTIPLY_ADDS. times: how often the warp goes there in a stage; a fraction where only some of a block's warps do.
count() {
  local ways
  ways=$(cat)
  "$nvcc" -std=c++20 -O3 -lineinfo -I. -gencode arch=compute_90a,code=sm_90a -c "$2" -o "$object"
  cuobjdump -sass "$object" | WAYS="$ways" awk -v kernel="$1" -v want="$3" -v channels="$4" -v expected="$5" -v version="$version" '
    function hex(text,    i, value) { value = 0; for (i = 1; i <= length(text); i++) value = 16 * value + index("0123456789abcdef", substr(text, i, 1)) - 1; return value }
    /Function :/ { inside = index($0, want) > 0 }
    inside && match($0, /^ *\/\*[0-9a-f]+\*\/ +[@!A-Z]/) {
      split($0, piece, /\/\*|\*\//)
      at = hex(piece[2])
      exists[at] = 1
      if (piece[3] ~ /[ ]FFMA/) fma[at] = 1
    }
    END {
      lines = split(ENVIRON["WAYS"], line, "\n")
      for (i = 1; i <= lines; i++) {
        fields = split(line[i], field, " ")
        if (!fields) continue
        instructions = adds = 0; ranges = ""
        for (j = 3; j <= fields; j++) {
          split(field[j], end, "-")
          for (at = hex(end[1]); at <= hex(end[2]); at += 16) {
            if (!(at in exists)) { print "step03_code.sh: " kernel ": expected an instruction at every 16 bytes of " field[j] > "/dev/stderr"; exit 2 }
            instructions++; adds += at in fma
          }
          ranges = ranges (j > 3 ? " " : "") field[j]
        }
        all += adds * field[2]
        print version ",90a," kernel "," channels "," field[1] "," field[2] "," instructions "," adds "," ranges
      }
      if (all != expected) { print "step03_code.sh: " kernel ": expected " expected " multiply-adds on the way of a stage, found " all ": another nvcc? Read make sass-03 again" > "/dev/stderr"; exit 2 }
    }'
}

echo nvcc,arch,kernel,channels,part,times,instructions,multiply_adds,addresses
# 03a and 03b: 8 warps copy 10 rows of 34 pixels; so a warp has 1.25 rows, and two rounds of 32 lanes in each.
count 03a 03_shared_tiling/a_halo.cu halo_kernel 1 9 <<'END_OF_WAYS'
around 1 0cb0-0d70 0ff0-1220 2470-24a0
pixels 1.25 0d80-0e70 0fa0-0fe0
pixels 2.5 0e80-0f90
rows 3 1230-1280 2100-2460
END_OF_WAYS
# 72 elements of filters are copied by 3 of the 8 warps.
count 03b 03_shared_tiling/b_filters.cu filters_kernel 1 72 <<'END_OF_WAYS'
around 1 0d10-0ea0 1150-1240 1470-1520 3220-3280
pixels 1.25 0eb0-0ff0 1110-1140
pixels 2.5 1000-1100
filters 0.375 1250-1460
rows 3 1530-1620 2e30-3210
END_OF_WAYS
# 8 channels: 48 rows of pixels for 4 warps; 72 taps in rounds of 8; 24 rows of taps.
count 03c 03_shared_tiling/c_registers.cu registers_kernelILi2ELi3E 8 4608 <<'END_OF_WAYS'
around 1 1040-1310 1d10-1d80 2450-24a0 3480-34b0
pixels 12 1320-1890 1960-19a0 1c70-1d00
filters 1 1d90-1f70
filters 9 1f80-2440
rows 8 24b0-2530 3450-3470
rows 24 2540-3440
END_OF_WAYS
# 4 channels: 24 rows of pixels; 36 taps in rounds of 8; 12 rows of taps.
count 03d 03_shared_tiling/d_cp_async.cu pipelined_kernelILi2ELi3E 4 2304 <<'END_OF_WAYS'
around 1 24c0-27f0 3520-3570 3c20-3f20 4f90-4fb0
pixels 6 2800-2ec0 2fe0-3020 3480-3510
filters 1 3580-3790
filters 5 37a0-3c10
rows 4 3f30-4040 4f60-4f80
rows 12 4050-4f50
END_OF_WAYS
