#!/usr/bin/env bash
# scripts/image.sh and tools/image: pictures small enough to compute by hand, and everything that can be wrong with the input.
# B: the build folder (default build/emu). Needs no Python but for the PNG tests, which are skipped without matplotlib.
set -u
B=${B:-build/emu}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
real=$(cd "$B" && pwd)
build=$T/$(basename "$real") # a build folder of our own: results and a Python environment would go beside it
mkdir "$build" "$T/filters"
ln -s "$real"/[0-9][0-9] "$real/tools" "$build"
export PYTHON=false
run=0

ok() { # ok STATUS TEXT [DIAGNOSIS]
  run=$((run + 1))
  [[ $1 == 0 ]] || printf 'not '
  echo "ok $run - $2"
  [[ $1 == 0 || ! ${3-} ]] || echo "#   ${3//$'\n'/$'\n'#   }"
}
same() { # same GOT EXPECTED TEXT
  [[ $1 == "$2" ]]
  ok $? "$3" "expected $2
got      $1"
}

image() { scripts/image.sh "$build" "$@"; }
# The samples of a P5 or P6 file that this repository wrote: its header has three lines.
samples() { tail -n +4 "$1" | od -An -v -tu1 | xargs; }

# filters PICTURE FILTER SIZE EXPECTED TEXT: the samples after filtering.
filters() {
  rm -rf "$T/image"
  local log
  log=$(image "$1" "$2" "$3" 2>&1) || echo "# $log"
  local name
  name=$(basename "$2")
  same "$(samples "$T/image/${name%.*}_after.ppm" 2>&1)" "$4" "$5"
}

printf '1\n' >"$T/filters/identity.txt"
printf '0 0 1\n' >"$T/filters/right.txt"
printf '1/2 1/2\n' >"$T/filters/pair.txt"
printf '# two\nscale 0.5\n6\n# still the first\n\n8 # the second\n\n\noffset 1/255\n' >"$T/filters/two.txt"
printf '0\n0\n1\n' >"$T/filters/down.txt"
F=$T/filters

echo "P2 3 3 255  0 0 0  0 51 0  0 0 0" >"$T/dot.pgm"
echo "P2 3 3 100  0 0 0  0 10 0  0 0 0" >"$T/dim.pgm"
echo "P2 3 3 255  51 51 51  51 51 51  51 51 51" >"$T/flat.pgm"
echo "P2 5 5 255  0 0 0 0 0  0 0 0 0 0  0 0 255 0 0  0 0 0 0 0  0 0 0 0 0" >"$T/dot5.pgm"
echo "P2 4 2 255  10 20 30 40  50 60 70 80" >"$T/wide.pgm"
echo "P2 3 1 255  30 60 90" >"$T/three.pgm"
printf 'P5\n# a comment\n2 2 # another\n255\n\x01\x02\x03\x04' >"$T/grey.pgm"
printf 'P5#\n2#\n2#\n255#\n\x01\x02\x03\x04' >"$T/comments.pgm"
printf 'P5 2 1 65535\n\x80\x00\x0a\x0a' >"$T/deep.pgm"
printf 'P6 2 2 255\n\x01\x02\x03\x0a\x0b\x0c\x15\x16\x17\x20\x21\x22' >"$T/colour.ppm"
echo "P3 2 1 255  1 2 3  10 11 12" >"$T/plain.ppm"

# ---------------------------------------------------------------- values
filters "$T/grey.pgm" "$F/identity.txt" 2 "1 2 3 4" "P5: the identity changes nothing"
filters "$T/comments.pgm" "$F/identity.txt" 2 "1 2 3 4" "... comments are white space"
filters "$T/colour.ppm" "$F/identity.txt" 2 "1 2 3 10 11 12 21 22 23 32 33 34" "P6: the identity changes nothing"
filters "$T/plain.ppm" "$F/identity.txt" 2 "1 2 3 10 11 12" "P3"
filters "$T/deep.pgm" "$F/identity.txt" 2 "128 10" "16 bits a sample"
filters "$T/dot.pgm" sobel 3 "36 51 36 51 0 51 36 51 36" "sobel: the length of both slopes around a dot"
filters "$T/dot5.pgm" gaussian 5 "1 4 6 4 1 4 16 24 16 4 6 24 36 24 6 4 16 24 16 4 1 4 6 4 1" "gaussian: a white dot becomes the filter"
filters "$T/flat.pgm" sharpen 3 "153 102 153 102 51 102 153 102 153" "sharpen: zeros lie beyond the borders"
filters "$T/dim.pgm" emboss 3 "153 140 128 140 128 115 128 115 102" "emboss: grey, brighter before the dot, darker behind it (maxval 100)"
filters "$T/colour.ppm" "$F/right.txt" 2 "10 11 12 0 0 0 32 33 34 0 0 0" "a 1x3 filter is not flipped: every pixel shows its right neighbour"
filters "$T/grey.pgm" "$F/down.txt" 2 "3 4 0 0" "a 3x1 filter: every pixel shows the one below"
filters "$T/three.pgm" "$F/pair.txt" 3 "45 75 45" "a filter of even size reaches further to the right"
filters "$T/grey.pgm" "$F/two.txt" 2 "6 11 16 21" "two filters: the root of the squares; scale, offset, fractions and comments"
filters "$T/three.pgm" "$F/right.txt" 7 "60 90 90" "a photo smaller than SIZE goes on mirrored"
filters "$T/wide.pgm" "$F/identity.txt" 2 "35 55" "a photo larger than SIZE is shrunk to its means"
filters "$T/three.pgm" "$F/identity.txt" 2 "40 80" "... by a fraction"
same "$(samples "$T/image/identity.ppm")" "40 80 255 255 255 255 255 255 255 255 40 80" "before, a white gap, after"

text=$(image "$T/colour.ppm" sobel 6 00 2>&1)
status=$?
same $status 0 "without Python the result is PPM, exit status 0"
grep -q 'wrote PPM' <<<"$text" && cmp -s <(head -c 2 "$T/image/sobel.ppm") <(printf P6)
ok $? "... and a line says so" "$text"
grep -q 'step 00 as mb3ic1ih6oc2oh6kh3ph1$' <<<"$text" && grep -q '^ *00b  *right: ' <<<"$text" && grep -q '/image/sobel.ppm: before and after' <<<"$text"
ok $? "it prints the problem, the step's verdict and the picture's path" "$text"
for size in 1500 2; do
  awk -v n="$size" 'BEGIN { print "P2", n, 1, 255; for (i = 0; i < n; i++) print i % 200 }' >"$T/long.pgm"
  image "$T/long.pgm" "$F/identity.txt" 1500 >"$T/log" 2>&1
  [[ $size == 2 ]] && want="12 1" || want="2008 10" # 2 x 1000 + 8 wide; the shrunk row, the gap, the row as it is
  same "$(sed -n 2p "$T/image/identity.ppm")" "$want" "the picture of $size x 1 pixels is $want"
done

# ---------------------------------------------------------------- bad input
# bad TEXT PATTERN ARGUMENTS...: exit status 2, one line on stderr that matches the pattern, no file left behind.
bad() {
  local text=$1 pattern=$2 status before after
  shift 2
  rm -rf "$T/image"
  before=$(ls -A "$T" "$build")
  scripts/image.sh "$build" "$@" >"$T/log" 2>"$T/errors"
  status=$?
  after=$(ls -A "$T" "$build")
  [[ $status == 2 && $(wc -l <"$T/errors") == 1 && $before == "$after" ]] && grep -qE -e "$pattern" "$T/errors"
  ok $? "refused: $text" "exit status $status, expected one line like: $pattern
$(cat "$T/errors")"
}
touch "$T/log" "$T/errors"
dot=$T/dot.pgm

bad "an image that does not exist" '^IMAGE: expected a readable picture file, got "/nowhere.pgm"$' /nowhere.pgm
bad "a folder as image" '^IMAGE: expected a readable picture file' "$T"
echo "hello, world" >"$T/text.png"
bad "a text file as image" '^IMAGE: expected a PNG, JPEG, PGM or PPM picture, got' "$T/text.png"
: >"$T/empty.pgm"
bad "an empty file as image" '^IMAGE: expected a PNG, JPEG, PGM or PPM picture' "$T/empty.pgm"
pictures=( # content | pattern
  'P5 4 4 255\n123|truncated: expected 16 bytes for 4 x 4 pixels, got 3$'
  'P6 4 4 65535\n|truncated: expected 96 bytes'
  'P2 2 2 255 1 2 3   |truncated in its pixels$'
  'P2 2 2 255 1 2 x 4|expected samples that are numbers$'
  'P2 2 2 9 1 2 3 10|expected samples of at most maxval$'
  'P5 0 4 255\n|width: expected an integer from 1 to 65536, got 0$'
  'P5 4 -4 255\n|height: expected an integer from 1 to 65536, got none$'
  'P6 99999999999999999999 4 255\n|width: expected an integer from 1 to 65536, got 1000000000$'
  'P6 65536 65536 255\n12|truncated: expected 12884901888 bytes'
  'P6 4 4 0\n|maxval: expected an integer from 1 to 65535, got 0$'
  'P5 is what I like|width: expected an integer'
  'P5|width: expected an integer from 1 to 65536, got none$'
  'P52 2 255 abcd|expected a PGM or PPM picture'
  'P5 2z2 255 abcd|width: expected white space behind its number$'
  'P5 2 2 255\0abcd|maxval: expected white space behind its number$'
  'P2 2 1 255 1x 2|expected samples that are numbers$'
)
for row in "${pictures[@]}"; do
  printf "%b" "${row%%|*}" >"$T/broken.pgm"
  bad "the picture \"${row%%|*}\"" "broken.pgm: ${row#*|}" "$T/broken.pgm"
done

mkfifo "$T/fifo"
for role in photo filter; do
  [[ $role == photo ]] && photo=$T/fifo filter=$F/identity.txt || { photo=$dot filter=$T/fifo; }
  text=$(timeout 20 "$build/tools/image" prepare "$photo" --filter "$filter" --size 3 --x "$T/x.npy" --w "$T/w.npy" 2>&1)
  status=$?
  [[ $status == 2 && ! -e $T/x.npy ]] && grep -qE "^$T/fifo: expected a readable (picture file|file with a filter): not a regular file$" <<<"$text"
  ok $? "refused: a FIFO as $role" "$text"
done

bad "an unknown filter" '^FILTER: expected one of emboss gaussian sharpen sobel, or a file of numbers.*got "sobol"$' "$dot" sobol
bad "a folder as filter" '^FILTER: expected one of' "$dot" "$T"
many=$(printf '1 %.0s' {1..64})
filter_files=( # content | pattern
  '|broken.txt:0: expected rows of numbers, found none$'
  '# nothing\n\nscale 2\n|expected rows of numbers, found none$'
  '1 2 3\n4 5\n|:2: expected 3 numbers, as in the rows above, got 2$'
  '1 2\n3 4\n\n5 6\n|expected filters of one size, got 1 rows after one of 2$'
  '1 2\n\n3 4\n5 6\n|:4: expected filters of one size, got more than 1 rows$'
  '1 2\n\n3\n|:3: expected 2 numbers, as in the rows above, got 1$'
  '1 two 3\n|:1: expected numbers .*got "two"$'
  '1 2,5\n|got "2,5"$'
  'nan\n|got "nan"$'
  '1 1e9\n|got "1e9"$'
  '1/0\n|got "1/0"$'
  '1 2\n3 4\0 5\n|:2: expected text, got a zero byte$'
  '\x01\x02\xff\n|got "\?\?\?"$'
  'scale\n1\n|:1: expected one number after scale$'
  'offset 1 2\n1\n|:1: expected one number after offset$'
  "$many|:1: expected at most 16 filters of 63 x 63 numbers$"
  "${many// /\\n}|:64: expected at most 16 filters of 63 x 63 numbers$"
  "${many// /\\n\\n}|:33: expected at most 16 filters of 63 x 63 numbers$"
)
for row in "${filter_files[@]}"; do
  printf "%b" "${row%%|*}" >"$T/broken.txt"
  content=${row%%|*}
  bad "the filter \"${content:0:30}\"" "${row#*|}" "$dot" "$T/broken.txt"
done

for size in abc 0 -1 10001 99999999999999999999 4.5 0x10 " 7"; do
  bad "SIZE=$size" "^size: expected an integer from 1 to 10000, got \"$size\"$" "$dot" sobel "$size"
done
bad "SIZE=0 without a photo: before Python is looked for" '^size: expected an integer from 1 to 10000, got "0"$' '' sobel 0
"$build/tools/image" prepare "$dot" --filter scripts/../common/filters/sobel --size 10001 --x "$T/x.npy" --w "$T/w.npy" 2>"$T/errors"
[[ $? == 2 ]] && grep -q '^size: expected an integer from 1 to 10000, got "10001"$' "$T/errors"
ok $? "tools/image: the same size" "$(cat "$T/errors")"
bad "a step that does not exist" '^STEP: expected one of 00 01 .*, got "77"$' "$dot" sobel 3 77
bad "a step that is no number" '^STEP: expected one of 00 01 .*, got "tools"$' "$dot" sobel 3 tools

# Steps of our own: 98 has no such kernel, 97 refuses the problem.
printf '#!/bin/sh\necho "  98a  fprop fp16 NHWC  tensor cores"\n' >"$build/98"
# shellcheck disable=SC2016 # $1 is theirs
printf '#!/bin/sh\n[ $1 = --help ] && echo "  97a  fprop fp32 NCHW  tiles" || echo "  SKIP 97a: odd sizes"\n' >"$build/97"
chmod +x "$build/97" "$build/98"
bad "a step without an fp32 NCHW fprop kernel" '^STEP: expected a step with an fp32 NCHW fprop kernel, got "98"$' "$dot" sobel 3 98
scripts/image.sh "$build" "$dot" sobel 3 97 >"$T/log" 2>"$T/errors"
status=$?
[[ $status == 2 ]] && grep -q '^STEP: expected step 97 to filter mb1ic1ih3oc2oh3kh3ph1: *SKIP 97a: odd sizes$' "$T/errors"
ok $? "a kernel that refuses the problem is quoted" "$(cat "$T/errors")"
rm "$build/97"
image "$dot" sobel 3 >"$T/log" 2>&1 && ! grep -q "step 98" "$T/log"
ok $? "without STEP: the highest step that has the kernel" "$(cat "$T/log")"
rm "$build/98"

printf '\x89PNG\r\n\x1a\njunk' >"$T/junk.png"
bad "a PNG without matplotlib" '^IMAGE: expected a PGM or PPM file, got .*junk.png" \(PNG and JPEG need matplotlib' "$T/junk.png"
bad "no image without matplotlib" '^IMAGE: expected a PGM or PPM file \(PNG and JPEG need matplotlib'
"$build/tools/image" prepare "$dot" --filter scripts/../common/filters/sobel --size 3 --x "$T/x.npy" --w "$T/missing/w.npy" 2>"$T/errors" >"$T/log"
[[ $? == 2 && ! -e $T/x.npy && ! -s $T/log ]] && grep -q 'missing/w.npy: cannot write' "$T/errors"
ok $? "refused: an output that cannot be written" "$(cat "$T/errors")"
"$build/tools/image" prepare "$dot" --size 3 2>"$T/errors"
[[ $? == 2 ]] && grep -q '^usage: image prepare' "$T/errors"
ok $? "tools/image: missing options print the usage" "$(cat "$T/errors")"

# ---------------------------------------------------------------- PNG, if matplotlib is here
for python in python3 "$real/../venv/bin/python" none; do
  "$python" -c 'import matplotlib, PIL' 2>/dev/null && break
done
if [[ $python == none ]]; then
  for _ in 1 2 3; do ok 0 "# SKIP no matplotlib"; done
else
  export PYTHON=$python
  bad "a PNG that is none" '^.*junk.png: expected a picture that matplotlib can decode: ' "$T/junk.png"
  image "$T/plain.ppm" "$F/identity.txt" 2 >"$T/log" 2>&1 && cmp -s <(head -c 4 "$T/image/identity.png") <(printf '\x89PNG')
  ok $? "with matplotlib the result is PNG" "$(cat "$T/log")"
  cp "$T/image/identity.png" "$T/again.png"
  filters "$T/again.png" "$F/identity.txt" 12 "1 2 3 10 11 12 $(printf '255 %.0s' {1..24})1 2 3 10 11 12" "PNG is read as it was written"
fi
echo "1..$run"
