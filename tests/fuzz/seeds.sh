#!/usr/bin/env bash
# Inputs to begin with, out of the tests: tests/fuzz/seeds.sh TARGET FOLDER. To be run in the root of the repository.
set -eu
target=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"

# Standard input as one more seed.
seed() { cat >"$(mktemp "$folder/XXXXXX")"; }
each_line() { split -l 1 -a 4 - "$folder/$1"; }
# The files that tests/image.sh has in an array of rows "content|message".
rows() {
  local -n array=$1
  local row
  for row in "${array[@]}"; do printf '%b' "${row%%|*}" | seed; done
}
array() { sed -n "/^$1=(/,/^)/p" tests/image.sh; }

case $target in
shape)
  grep -hv '^#' common/suites/* tests/planes tests/depthwise tests/pictures tests/upsampling | each_line line
  sed -nE 's/^ *refused\("(.*)", *"?[^"]*"?\);$/\1/p; s/^ *refused\("([^"]*)",$/\1/p' tests/problem.c | while IFS= read -r line; do printf '%b\n' "$line"; done | each_line refused
  ;;
suite)
  for file in common/suites/* tests/planes tests/upsampling; do seed <"$file"; done
  printf -- '--mode=C\n# comment\n\nic3ih5oc1kh3\nic1iw5oc1kw3\n--dir=FWD_B --dt=f32 mb7ic1_ih5_oc1kh3n"a*3" # end\n' | seed
  ;;
npy)
  scripts/npy make "$folder/fp32" 1,2,2,2 1 2 3 4 5 6 7 8
  sed 's/<f4/<f2/' "$folder/fp32" | head -c 144 | seed
  sed -nE "s/.*\{\"[a-z-]+\.npy\", \"(.*)\", .*\},$/\1/p" tests/npy.c | while IFS= read -r header; do
    { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$(printf '%b' "${header//\\\"/\"}")" && tail -c 32 "$folder/fp32"; } | seed
    { printf '\x93NUMPY\x02\x00\x76\x00\x00\x00%-117s\n' "$header" && tail -c 32 "$folder/fp32"; } | seed
  done
  ;;
pictures)
  eval "$(array pictures)"
  rows pictures
  printf 'P5#\n2#\n2#\n255#\n\x01\x02\x03\x04' | seed
  printf 'P5 2 1 65535\n\x80\x00\x0a\x0a' | seed
  printf 'P6 2 2 255\n\x01\x02\x03\x0a\x0b\x0c\x15\x16\x17\x20\x21\x22' | seed
  printf 'P3 2 1 255  1 2 3  10 11 12' | seed
  ;;
filters)
  many=$(printf '1 %.0s' {1..64})
  eval "$(array filter_files)"
  rows filter_files
  for file in common/filters/*; do seed <"$file"; done
  printf '# two\nscale 0.5\n6\n# still the first\n\n8 # the second\n\n\noffset 1/255\n' | seed
  ;;
winners)
  key='"GPU",9,mb2ic1ih3oc1oh3kh1,fprop,fp16,NHWC,conv,1,' # tests/fuzz/winners.c
  for plans in 'eng79_k17=2_k24=3,1.5,eng1_k12=-1,2.25,eng0@NCHW,1000,,,,,timed=7;cut=0' 'eng1,2.5,,,,,,,,' 'eng0,1,eng1,2,eng2,3,eng3,4,eng4,5,' 'eng1,fast' 'eng1,inf' ''; do
    printf '# a comment\n%s%s\n"another",9,mb1\n' "$key" "$plans" | seed
  done
  ;;
options)
  shape='--shape mb1ic1ih5oc1kh3 --pass fprop --kernel 02a'
  refused() {
    shift
    printf '%s\n' "${@//02/98}" | seed
  }
  set +u # the messages name what is not set here
  eval "$(grep '^refused ' tests/bad_input.sh)"
  printf -- '--list\n--fuse\nscale,bias,residual,relu6\n--verify\ndevice\n--search-seconds\n5' | seed
  printf -- '--which\n--kernel\nauto' | seed
  printf -- '--kernel\n98a,98b\n--x\nx.npy\n--pass\nfprop\n--random\n7' | seed
  printf -- '--help' | seed
  ;;
rewriter)
  awk -v folder="$folder" '/<<.END.$/ { file = folder "/test" ++n; next } /^END$/ { close(file); file = "" } file { print > file }' tests/emu_rewrite.sh
  for file in 0[1-6]_*/*.cu tests/check_tiled.cu tests/emu_rewrite*.cu; do [ ! -f "$file" ] || seed <"$file"; done
  ;;
*)
  echo "seeds.sh: expected a target of tests/fuzz/, got \"$target\"" >&2
  exit 2
  ;;
esac
