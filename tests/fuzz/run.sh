#!/usr/bin/env bash
# Lets libFuzzer look for inputs that break a target: tests/fuzz/run.sh PROGRAM SECONDS. The program lies in build/fuzz/, and what is kept beside it: seeds/,
# corpus/, which the next run goes on with, and found/. Exit status: 0 nothing found, 1 an input that breaks it.
set -eu
program=$1 seconds=$2
target=$(basename "$program") build=$(dirname "$program")
[[ $seconds =~ ^[1-9][0-9]{0,6}$ ]] || { echo "FUZZ_SECONDS: expected an integer from 1 to 9999999, got \"$seconds\"" >&2 && exit 2; }
folders=("$build/corpus/$target" "$build/seeds/$target")
[ ! -d "tests/fuzz/found/$target" ] || folders+=("tests/fuzz/found/$target")
mkdir -p "$build/corpus/$target" "$build/found/$target"
tests/fuzz/seeds.sh "$target" "$build/seeds/$target"
status=0
"$program" -max_total_time="$seconds" -max_len=1024 -timeout=10 -rss_limit_mb=2048 -close_fd_mask=3 -print_final_stats=1 \
  -artifact_prefix="$build/found/$target/" "${folders[@]}" >"$build/$target.log" 2>&1 || status=$?
executions=$(sed -n 's/^stat::number_of_executed_units: //p' "$build/$target.log")
edges=$(grep -oE 'cov: [0-9]+' "$build/$target.log" | tail -n 1 | tr -dc 0-9)
echo "$target: ${executions:-no} executions, ${edges:-0} edges"
[ $status -eq 0 ] && exit
input=$(sed -n 's/.*Test unit written to //p' "$build/$target.log" | tail -n 1)
grep -m 1 -E 'ERROR:|runtime error:|: expected ' "$build/$target.log" || tail -n 5 "$build/$target.log"
echo "$target: found ${input:-nothing, but the program ended with status $status}; all it said: $build/$target.log. Once mended, keep it in tests/fuzz/found/$target/"
exit 1
