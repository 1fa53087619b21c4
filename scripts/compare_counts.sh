#!/usr/bin/env bash
# The emulator's counts beside a GPU's own counters, launch by launch: `make compare-counts` on a machine with a GPU and ncu.
#
# Runs the same programs twice: in the emulator's count build, every block counted, and on the GPU under ncu (clocks left alone; these are
# counters, not times). Writes build/results/counts.csv: kernel, metric, emulator, gpu, ratio. Exit status 1 if a program or ncu failed.
set -euo pipefail
out=build/results
mkdir -p "$out"
shape=${1:-mb1ic16ih28oc16oh28kh3ph1}

metrics=(
  l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
  l1tex__t_requests_pipe_lsu_mem_global_op_st.sum l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
  smsp__sass_inst_executed_op_shared_ld.sum l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
  smsp__sass_inst_executed_op_shared_st.sum l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum
)
list=$(IFS=,; echo "${metrics[*]}")

# count PROGRAM ARGUMENTS...: the same under both.
count() {
  local name=${1//\//_}
  echo "counting $*"
  EMU_COUNT_BLOCKS=all EMU_COUNT_JSON="$out/counts.$name.json" "build/count/$1" "${@:2}" >/dev/null
  ncu --clock-control none --csv --print-units base --metrics "$list" "build/cuda/$1" "${@:2}" >"$out/counts.$name.ncu"
}
build/count/01 --list --shape "$shape" >/dev/null # can it be read?
rm -f "$out"/counts.*.json "$out"/counts.*.ncu
count 01 --exact --verify host --shape "$shape"
count 02 --exact --verify host --shape "$shape"
count tests/count_kernels
count tests/check_tiled
perl scripts/compare_counts.pl "$out"/counts.*.json >"$out/counts.csv"
awk -F, '{ printf "%-26s %-22s %10s %10s %8s\n", $1, $2, $3, $4, $5 }' "$out/counts.csv"
