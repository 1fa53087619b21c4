#!/usr/bin/env bash
# compute-sanitizer over every kernel of the steps: `make sanitize` on a machine with a GPU. One line per step and tool.
# usage: scripts/sanitize.sh BUILD_FOLDER STEPS TOOLS [PROGRAM ARGUMENTS...]     STEPS, TOOLS: lists in one argument
# Every kernel runs once per shape (--exact), by default on the nasty and the laptop suite, step 06 also on the hopper suite. The harness's own reference kernel is
# left out. Exit status 1 if a tool found something.
set -uo pipefail
build=$1 steps=$2 tools=${3:-memcheck racecheck initcheck synccheck}
shift 3
results=build/results

fail() {
  printf '%s\n' "$1" >&2
  exit 2
}
[ "${build##*/}" = cuda ] || fail "sanitize: expected nvcc and an NVIDIA GPU; without them, make check runs the kernels under the emulator's checker"
for tool in $tools; do
  case $tool in memcheck | racecheck | initcheck | synccheck) ;; *) fail "TOOL: expected memcheck, racecheck, initcheck or synccheck, got \"$tool\"" ;; esac
done
[ -n "${steps// /}" ] || fail "STEP: expected a step with GPU kernels, got none"
for step in $steps; do [[ $step =~ ^[0-9][0-9]$ && -x $build/$step ]] || fail "STEP: expected a step with GPU kernels, got \"$step\""; done
sanitizer=
for candidate in compute-sanitizer "$(dirname "${NVCC:-nvcc}")/compute-sanitizer" /usr/local/cuda/bin/compute-sanitizer; do
  sanitizer=$(command -v "$candidate") && break
done
[ -n "$sanitizer" ] || fail "sanitize: expected compute-sanitizer on PATH or in the CUDA Toolkit, found none"

mkdir -p "$results"
own=
case " $* " in *" --suite "* | *" --shape "* | *" --random "*) own=yes ;; esac
bad=0 runs=0
for step in $steps; do
  problems=()
  if [ -z "$own" ]; then
    suites=(nasty laptop)
    [ "$step" = 06 ] && suites+=(hopper) # its dense kernels can do few of the others
    cat "${suites[@]/#/common/suites/}" >"$results/sanitize-$step.suite"
    problems=(--suite "$results/sanitize-$step.suite")
  fi
  for tool in $tools; do
    runs=$((runs + 1))
    log=$results/sanitize-$step-$tool.log
    start=$SECONDS
    printf 'step %s  %-9s  ' "$step" "$tool"
    "$sanitizer" --tool "$tool" --kernel-regex-exclude kns=reference_kernel --log-file "$log" "$build/$step" --exact --no-cudnn "${problems[@]}" "$@" >"$log.out" 2>&1
    status=$?
    # Its last line says how many: "ERROR SUMMARY: 2 errors", "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)".
    found=$(grep -oE 'SUMMARY: [0-9]+' "$log" 2>/dev/null | tail -n 1 | grep -oE '[0-9]+')
    checked=$(grep -oE '^[0-9]+ right, [0-9]+ wrong, [0-9]+ skipped' "$log.out" | tail -n 1)
    if [ "$found" = 0 ] && [ $status -eq 0 ]; then
      echo "clean ($checked; $((SECONDS - start)) s)"
      continue
    fi
    bad=$((bad + 1))
    case ${found:-none} in
    none) echo "did not run to the end, see $log and $log.out" && grep -vE '^$|^step ' "$log.out" | tail -n 2 ;;
    0) echo "no errors, but the program failed (exit status $status, $checked), see $log.out" ;;
    *) echo "$found $([ "$found" = 1 ] && echo error || echo errors), see $log" && grep -v '========= COMPUTE-SANITIZER' "$log" | head -n 4 ;;
    esac
  done
done
echo
echo "$runs runs: $((runs - bad)) clean, $bad with errors"
[ $bad -eq 0 ]
