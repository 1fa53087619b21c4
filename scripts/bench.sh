#!/usr/bin/env bash
# Runs every step over its suites: verified, and timed where there is something to time. Used by `make bench`.
# usage: scripts/bench.sh BUILD_FOLDER [SUITE [OPTION ...]]
# OPTION  what the steps take besides, such as --no-cudnn
# Writes build/results/NN-SUITE.csv and .json per run, build/results/bench.csv with all rows, and prints one table.
set -u
unset GPU # the counts at its end are of no named one
build=$1
suite=${2:-}
options=("${@:3}")
results=build/results
mkdir -p "$results"

steps=()
for main in [0-9][0-9]_*/main.c; do steps+=("${main%%_*}"); done
# A run: suite | steps (none: all) | arguments. On a GPU a network and the pictures only by the steps that are made for them, so that it ends in
# five minutes on an H200: a CPU takes minutes for ResNet-50, and cuDNN is timed again beside every step.
if [ -n "$suite" ]; then
  runs=("||") # the one that was asked for
elif [ "${build##*/}" = cuda ]; then
  runs=("seed||" "image|01 02 04|--pass fprop" "resnet50|03 05|--pass fprop --batch 16" "depthwise|06|"
    "resnet50|06|--pass fprop --dtype fp16 --batch 32 --kernel auto")
else
  runs=("laptop||")
fi

# Before anything is measured, or an earlier result is lost: is there a step that can read the list and knows the options?
IFS='|' read -r name _ arguments <<<"${runs[0]}"
for step in "${steps[@]}"; do
  # shellcheck disable=SC2086
  said=$("$build/$step" --list --suite "${suite:-$name}" $arguments "${options[@]}" 2>&1 >/dev/null) && break
  [ "$step" != "${steps[-1]}" ] || { printf '%s\n' "$said" >&2 && exit 2; }
done

busy=$(awk '$1 >= 0.5 { print $1 }' /proc/loadavg 2>/dev/null)
[ -n "$busy" ] && echo "This machine is busy (load $busy): step 00, which wants all its cores, will look slower than it is."

# steps_of RUN, one a line: of those that it is for, the ones whose rule takes a kernel for one of the problems. (A step without a rule does them all.)
steps_of() {
  local name=${1%%|*} wanted=${1#*|} arguments step taken
  name=${name:-$suite}
  read -ra arguments <<<"${1##*|}"
  wanted=${wanted%%|*}
  for step in "${steps[@]}"; do
    case " ${wanted:-$step} " in *" $step "*) ;; *) continue ;; esac
    taken=$("$build/$step" --which --suite "$name" "${arguments[@]}" 2>/dev/null) && [ "$(wc -l <<<"$taken")" -eq 1 ] && continue
    echo "$step"
  done
}
total=$(for run in "${runs[@]}"; do steps_of "$run"; done | wc -l)
number=0
failed=0
files=()
for run in "${runs[@]}"; do
  name=${run%%|*}
  name=${name:-$suite}
  read -ra arguments <<<"${run##*|}"
  for step in $(steps_of "$run"); do
    number=$((number + 1))
    label=${name//\//_} # a file elsewhere must not share its results with a suite of the same name
    base="$results/$step-$label"
    rm -f "$base.csv" "$base.json" "$base.log"
    printf '[%d/%d] step %s, %s %s ... ' "$number" "$total" "$step" "$label" "${arguments[*]}"
    start=$SECONDS
    # A plan of cuDNN's that does not end ends the program, which has noted it and will leave it out.
    for attempt in 1 2 3 4 5; do
      "$build/$step" --suite "$name" "${arguments[@]}" "${options[@]}" --csv "$base.csv" --json "$base.json" >"$base.log" 2>&1
      status=$?
      [ $status -ne 0 ] && grep -q '^cuDNN: .* the next run leaves it out$' "$base.log" || break
      rm -f "$base.csv" "$base.json"
      [ "$attempt" -lt 5 ] && printf 'a plan of cuDNN does not end; again ... '
    done
    if [ $status -eq 0 ]; then
      printf '%s (%d s)\n' "$(tail -n 1 "$base.log")" $((SECONDS - start))
    else
      failed=1
      printf 'FAILED, see %s\n' "$base.log"
      grep -E 'WRONG|UNVERIFIED|wrong at|:' "$base.log" | tail -n 5
    fi
    [ -f "$base.csv" ] && files+=("$base.csv")
  done
done
[ ${#files[@]} -gt 0 ] || exit 1

{
  head -n 1 "${files[0]}"
  for file in "${files[@]}"; do tail -n +2 "$file"; done
} >"$results/bench.csv"
scripts/table.pl "$results/bench.csv"

# Where a step has several kernels and all were timed: how its own choice would have done.
for run in "${runs[@]}"; do
  name=${run%%|*}
  name=${name:-$suite}
  for step in $(steps_of "$run"); do
    grep -qs '^--kernel auto' "$results/$step-${name//\//_}.log" || continue
    printf '\nStep %s, %s: ' "$step" "$name"
    grep -A 1 '^--kernel auto' "$results/$step-${name//\//_}.log"
  done
done

# Without a GPU there is no time to compare, but there is what costs time: memory requests, counted on one small layer.
if [ -n "${COUNT:-}" ]; then
  counts=()
  layers=
  for step in "${steps[@]}"; do
    [ -x "$COUNT/$step" ] || continue
    file="$results/$step-counts.json"
    shape=$("$COUNT/$step" --help | sed -n 's/^default shape: //p')
    case $layers in *"$shape"*) ;; '') layers=$shape ;; *) layers="$layers (step $step: $shape)" ;; esac
    EMU_COUNT_JSON=$file EMU_COUNT_BLOCKS=all "$COUNT/$step" --exact --shape "$shape" >"$results/$step-counts.log" 2>&1 && counts+=("$file") || failed=1
  done
  printf '\nMemory requests on %s, as a GPU would make them (a sector is 32 bytes; make count-NN lists them line by line):\n' "$layers"
  perl scripts/counts_summary.pl "${counts[@]}"
fi

printf '\nAll rows: %s; with every timing sample: %s/*.json\n' "$results/bench.csv" "$results"
exit $failed
