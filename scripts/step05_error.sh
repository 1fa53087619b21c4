#!/usr/bin/env bash
# The error of step 05's kernels on small layers of random data, on the emulator, cut as for 132 multiprocessors: root mean square, relative to the
# outputs, in Markdown. The reference is 00a's, summed in fp64 and rounded to fp32, which alone is an error of 2e-8.
# usage: scripts/step05_error.sh SHAPE ...
set -euo pipefail
[ $# -gt 0 ] || { echo "step05_error.sh: SHAPE ...: expected at least one" >&2; exit 2; }
build=build/emu
make -s BACKEND=emu "$build/00" "$build/05" >&2
export EMU_SMS=132
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for shape in "$@"; do "$build/00" --shape "$shape" --pass fprop --kernel 00a --no-time --out "$folder/$shape.npy" >/dev/null; done
echo "| kernel |$(printf ' `%s` |' "$@")"
echo "|---|$(printf -- '--:|%.0s' "$@")"
for kernel in 05c 05d 05h 05i; do
  line="| \`$kernel\` |"
  for shape in "$@"; do
    "$build/05" --shape "$shape" --pass fprop --kernel "$kernel" --no-time --out "$folder/$kernel.npy" >/dev/null
    line+=" $(scripts/npy_error.pl "$folder/$kernel.npy" "$folder/$shape.npy")"
    if [ $kernel = 05d ]; then line+=" ($("$build/05" --list --shape "$shape" --pass fprop --kernel 05d | awk '/grid/ {print $4; exit}') slices)"; fi
    line+=" |"
  done
  echo "$line"
done
