#!/usr/bin/env bash
# Filters a photograph through a step of this repository: `make image`.
#
#   scripts/image.sh BUILD [IMAGE] [FILTER] [SIZE] [STEP]      (an empty argument is one not given)
#
# BUILD   build/emu or build/cuda, with the steps and tools/image
# IMAGE   PNG, JPEG, PGM or PPM; default: the photograph among matplotlib's sample data
# FILTER  a name in common/filters/, or a file like those; default: sobel
# SIZE    the convolution is SIZE x SIZE pixels; common/tools/image.c says how a photo fills that
# STEP    00, 01, ...; default: 04, which is for pictures, or if it is not built the highest that has an fp32 NCHW fprop kernel; of a step's
#         kernels the one that its rule takes (--kernel auto)
#
# Writes build/image/FILTER.png (before and after, side by side) and build/image/FILTER_after.ppm (after, at full size). Without matplotlib
# (PYTHON, default python3, may have it; else it is installed into build/venv) the former is FILTER.ppm, and IMAGE has to be PGM or PPM.
# Exit status: 0 all right, 1 the step failed, 2 bad input.
set -uo pipefail

build=${1:?usage: image.sh BUILD [IMAGE] [FILTER] [SIZE] [STEP]}
image=${2-} filter=${3-} size=${4:-4000} step=${5-}
filter=${filter:-sobel}
unset python # what find_python finds
scripts=$(dirname "$0")
. "$scripts/find_python.sh"
filters=$scripts/../common/filters
out=$(dirname "$build")/image
venv=$(dirname "$build")/venv

bad() {
  echo "$*" >&2
  exit 2
}

# ---------------------------------------------------------------- which filter, which kernel

name=$(basename -- "$filter")
name=${name%.*}
name=${name:-filter}
if [[ $filter != */* && -f $filters/$filter ]]; then
  filter=$filters/$filter
elif [[ ! -f $filter ]]; then
  bad "FILTER: expected one of $(cd "$filters" && echo *), or a file of numbers like those in common/filters, got \"$filter\""
fi

# The first fp32 NCHW fprop kernel that a step lists; nothing if it has none.
fprop_kernel() { "$build/$1" --help | awk '$2 == "fprop" && $3 == "fp32" && $4 == "NCHW" { print $1; exit }'; }

steps=$(for file in "$build"/[0-9][0-9]; do [[ -x $file ]] && basename "$file"; done)
kernel=
for candidate in ${step:-$(grep -x 04 <<<"$steps"; sort -r <<<"$steps")}; do
  grep -qxF -e "$candidate" <<<"$steps" || bad "STEP: expected one of ${steps//$'\n'/ }, got \"$step\""
  kernel=$(fprop_kernel "$candidate")
  [[ $kernel ]] && break
done
[[ $kernel ]] || bad "STEP: expected a step with an fp32 NCHW fprop kernel, got \"${step:-${steps//$'\n'/ }}\""
step=$candidate

# As tools/image, but before matplotlib is installed for nothing.
[[ $size =~ ^0*([1-9][0-9]{0,3}|10000)$ ]] || bad "size: expected an integer from 1 to 10000, got \"$size\""

# ---------------------------------------------------------------- the photo, as PGM or PPM

work=$(mktemp -d "$(dirname "$build")/image.XXXXXX") || bad "$(dirname "$build"): expected a folder that can be written"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
nothing_decodes="PNG and JPEG need matplotlib, which is neither here nor can be installed"

photo=$image
if [[ ! $image ]]; then
  find_python "$venv"
  [[ $python ]] || bad "IMAGE: expected a PGM or PPM file ($nothing_decodes)"
  photo=$work/photo.ppm
  "$python" "$scripts/picture.py" sample "$photo" || exit 2
else
  [[ -f $image && -r $image ]] || bad "IMAGE: expected a readable picture file, got \"$image\""
  case $(od -An -tx1 -N4 <"$image" | tr -d ' \n') in
  5032* | 5033* | 5035* | 5036*) ;; # P2 P3 P5 P6
  89504e47 | ffd8ff*)
    find_python "$venv"
    [[ $python ]] || bad "IMAGE: expected a PGM or PPM file, got \"$image\" ($nothing_decodes)"
    photo=$work/photo.ppm
    "$python" "$scripts/picture.py" decode "$image" "$photo" || exit 2
    ;;
  *) bad "IMAGE: expected a PNG, JPEG, PGM or PPM picture, got \"$image\"" ;;
  esac
fi

# ---------------------------------------------------------------- prepare, run, finish

tool=$build/tools/image
shape=$("$tool" prepare "$photo" --filter "$filter" --size "$size" --x "$work/x.npy" --w "$work/w.npy") || exit 2
[[ $build == *cuda ]] && timing=(--search-seconds 2) || timing=(--no-time) # for cuDNN's plans; sizes that were searched before have theirs
"$build/$step" --shape "$shape" --pass fprop --kernel auto --dtype fp32 --layout NCHW "${timing[@]}" \
  --x "$work/x.npy" --w "$work/w.npy" --out "$work/y.npy" >"$work/log" 2>&1
status=$?
verdict=$(grep -E "^ +((WRONG|SKIP) )?$step[a-z]" "$work/log")
if [[ $status != 0 || ! -f $work/y.npy ]]; then
  cat "$work/log" >&2
  echo "STEP: expected step $step to filter $shape: ${verdict:-exit status $status}" >&2
  exit $((status ? status : 2))
fi
pixels=$("$tool" finish "$photo" --filter "$filter" --size "$size" --y "$work/y.npy" --after "$work/after.ppm" --side "$work/side.ppm") || exit 2

[[ ${python+found} ]] || find_python "$venv"
mkdir -p "$out" || exit 2
if [[ $python ]] && "$python" "$scripts/picture.py" encode "$work/side.ppm" "$work/side.png"; then
  picture=$out/$name.png
  mv "$work/side.png" "$picture" || exit 2
else
  echo "PNG needs matplotlib, which is neither here nor can be installed: wrote PPM"
  picture=$out/$name.ppm
  mv "$work/side.ppm" "$picture" || exit 2
fi
mv "$work/after.ppm" "$out/${name}_after.ppm" || exit 2
echo "photo: $pixels, filtered by step $step as $shape"
echo "$verdict"
echo "$picture: before and after; after at full size: $out/${name}_after.ppm"
