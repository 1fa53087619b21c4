#!/usr/bin/env bash
# The GPU's own counters for the kernels of a step, beside the step before: `make profile-NN` on a machine with a GPU and ncu.
# usage: scripts/profile.sh BUILD_FOLDER STEP AGAINST PASS KERNEL SHAPE     each of the last four may be empty
#   AGAINST   a step (its last kernel of the pass), a kernel such as 02b, or none
# Every kernel runs once, on small integers (--exact), with empty caches (ncu's default), the clocks left alone.
# Writes build/results/profile-STEP-PASS.csv and prints it as a table (scripts/profile_table.pl); what ncu said of each kernel: profile-STEP-PASS-KERNEL.ncu.
set -uo pipefail
build=$1 step=$2 against=$3 pass=${4:-fprop} kernel=$5 shape=$6
results=build/results
here=$(dirname "$0")

fail() {
  printf '%s\n' "$1" >&2
  exit 2
}
[ "${build##*/}" = cuda ] || fail "profile-$step: expected nvcc and an NVIDIA GPU, whose counters are read; without them, make count-$step counts memory requests"
case $pass in fprop | dgrad | wgrad) ;; *) fail "PASS: expected fprop, dgrad or wgrad, got \"$pass\"" ;; esac
ncu=
for candidate in ncu "$(dirname "${NVCC:-nvcc}")/ncu" /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu; do
  ncu=$(command -v "$candidate") && break
done
[ -n "$ncu" ] || fail "profile-$step: expected ncu on PATH or in the CUDA Toolkit (the package is called nsight-compute), found none"

# The kernels of a step for this pass, in reading order.
kernels_of() { "$build/$1" --help | awk -v pass="$pass" '/^kernels:/ { on = 1 } /^default shape:/ { on = 0 } on && $2 == pass { print $1 }'; }

mapfile -t rows < <(kernels_of "$step")
if [ -n "$kernel" ]; then
  printf '%s\n' "${rows[@]}" | grep -qxF -- "$kernel" || fail "KERNEL: expected a kernel of step $step that does $pass (${rows[*]}), got \"$kernel\""
  rows=("$kernel")
fi
[ ${#rows[@]} -gt 0 ] || fail "PASS: expected a pass that step $step has a kernel for, got $pass"
if [ -n "$against" ] && [ "$against" != none ]; then
  [[ $against =~ ^[0-9][0-9][a-z]?$ && -x $build/${against:0:2} ]] || fail "AGAINST: expected a kernel such as 01a, a step, or none, got \"$against\""
  mapfile -t others < <(kernels_of "${against:0:2}" | if [ ${#against} -eq 2 ]; then tail -n 1; else grep -xF -- "$against"; fi)
  if [ ${#others[@]} -gt 0 ]; then
    rows=("${others[@]}" "${rows[@]}")
  elif [ ${#against} -eq 2 ]; then
    echo "step $against has no kernel for $pass; AGAINST=01a would choose another"
  else
    fail "AGAINST: expected a kernel that does $pass ($(kernels_of "${against:0:2}" | xargs)), got \"$against\""
  fi
fi
[ -n "$shape" ] || shape=$("$build/$step" --help | sed -n 's/^default shape: //p')

IFS=, read -r gpu driver < <(PATH="$PATH:/usr/lib/wsl/lib" nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
cuda=$("${NVCC:-nvcc}" --version | sed -nE 's/.*release ([0-9.]+).*/\1/p')
# What the harness launches to make data and to compare results is left out.
harness=$(grep -ohE '\w+_kernel(<[^;<]*>)?<<<' "$here"/../common/{conv,harness}/*.cu | sed 's/<.*//' | sort -u | paste -sd '|')
metrics=$("$here/profile_csv.pl" --ncu-metrics <("$ncu" --query-metrics 2>/dev/null)) || exit 1
mkdir -p "$results"
csv=$results/profile-$step-$pass.csv
log=$results/profile-$step-$pass.log
echo "kernel,pass,shape,metric,value,unit,launch,gpu,driver,cuda,date" >"$csv.part"
for row in "${rows[@]}"; do
  ncu_csv=$results/profile-$step-$pass-$row.ncu
  rm -f "$ncu_csv"
  if ! "$ncu" --clock-control none --kernel-name "regex:^(?!(?:$harness)\\b)" --csv --page raw --print-units base --metrics "$metrics" --log-file "$ncu_csv" \
    "$build/${row:0:2}" --exact --no-cudnn --kernel "$row" --pass "$pass" --shape "$shape" >"$log" 2>&1; then
    grep -q ERR_NVGPUCTRPERM "$ncu_csv" "$log" 2>/dev/null &&
      fail "ncu: expected permission to read the GPU's counters: run as root, or see https://developer.nvidia.com/ERR_NVGPUCTRPERM"
    cat "$log" "$ncu_csv" 2>/dev/null | grep -E '==ERROR==|: expected|WRONG|failed' | head -n 3 >&2
    fail "$row: ncu or the program failed, see $log and $ncu_csv"
  fi
  if reason=$(grep -m 1 "SKIP $row" "$log"); then
    echo "${reason#*SKIP }"
    continue
  fi
  "$here/profile_csv.pl" "$row" "$pass" "$shape" "$gpu" "${driver# }" "$cuda" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$ncu_csv" >>"$csv.part" || exit 1
done
[ "$(wc -l <"$csv.part")" -gt 1 ] || fail "SHAPE: expected one that a kernel of step $step does, got $shape"
mv "$csv.part" "$csv"
"$here/profile_table.pl" "$csv"
printf '\nOne launch each under ncu, caches emptied before it, clocks as they were. What the rows mean: make profile-metrics. All of it: %s\n' "$csv"
