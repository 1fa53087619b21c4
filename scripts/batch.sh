#!/usr/bin/env bash
# Times one layer with 1, 2, 4, ... 256 images through every step that runs on the GPU. Used by `make batch`; `make plots` draws it.
# usage: scripts/batch.sh BUILD_FOLDER [SHAPE] [PASS]
# SHAPE  a benchdnn string (its mb is replaced); default mb16ic64ih56oc128oh56kh3ph1
# PASS   fprop (default), dgrad, wgrad or all
# Writes build/results/batch.csv, with NN-batch.csv and .log per step beside it.
set -u
build=$1
shape=${2:-mb16ic64ih56oc128oh56kh3ph1}
pass=${3:-fprop}
results=build/results
if [ "${build##*/}" != cuda ]; then
  echo "batch: expected a GPU to time (BACKEND=cuda), the kernels of $build run on the emulator" >&2
  exit 2
fi
# Before an earlier result is lost: is there a step that can read the layer and has the pass?
steps=([0-9][0-9]_*/main.c)
for main in "${steps[@]}"; do
  said=$("$build/${main%%_*}" --list --shape "$shape" --pass "$pass" 2>&1 >/dev/null) && break
  [ "$main" != "${steps[-1]}" ] || { printf '%s\n' "$said" >&2 && exit 2; }
done
mkdir -p "$results"

suite=$results/batch.suite # the layer without its images, then with them
layer=$(sed -E 's/mb[0-9]+//; s/n".*//' <<<"$shape")
for images in 1 2 4 8 16 32 64 128 256; do
  if [[ $layer =~ ^(g[0-9]+)(.*) ]]; then echo "${BASH_REMATCH[1]}mb$images${BASH_REMATCH[2]}"; else echo "mb$images$layer"; fi
done >"$suite"

failed=0
files=()
for main in [0-9][0-9]_*/main.c; do
  step=${main%%_*}
  [ "$step" = 00 ] && continue # a CPU takes seconds for what is compared here in microseconds
  base=$results/$step-batch
  rm -f "$base.csv" "$base.log"
  printf 'step %s, %s, 1 to 256 images, %s ... ' "$step" "$layer" "$pass"
  start=$SECONDS
  if "$build/$step" --suite "$suite" --pass "$pass" --csv "$base.csv" >"$base.log" 2>&1; then
    printf '%s (%d s)\n' "$(tail -n 1 "$base.log")" $((SECONDS - start))
  else
    failed=1
    printf 'FAILED, see %s\n' "$base.log"
    tail -n 3 "$base.log"
  fi
  [ -f "$base.csv" ] && files+=("$base.csv")
done
[ ${#files[@]} -gt 0 ] || exit 1

{
  head -n 1 "${files[0]}"
  for file in "${files[@]}"; do tail -n +2 "$file"; done
} >"$results/batch.csv"
scripts/table.pl "$results/batch.csv"
printf '\nAll rows: %s\n' "$results/batch.csv"
exit $failed
