# What `make fuzz` has found, and what it begins with, run again under the sanitizers that the compiler has (tests/fuzz/fuzz.mk): no report, nothing unexpected.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
for program in build/replay/*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  target=$(basename "$program")
  out=$(tests/fuzz/seeds.sh "$target" "$T/$target" 2>&1 && "$program" "$T/$target"/* 2>&1)
  ok $? "$target: its seeds, $(tail -n 1 <<<"$out")" || diag "$(grep -m 3 -E 'ERROR:|runtime error:|: expected ' <<<"$out")"
  for input in tests/fuzz/found/"$target"/*; do
    [ -f "$input" ] || continue
    out=$("$program" "$input" 2>&1)
    ok $? "$target: ${input##*/}" || diag "$(grep -m 3 -E 'ERROR:|runtime error:|: expected ' <<<"$out")"
  done
done
for source in tests/fuzz/*.c; do
  target=$(basename "$source" .c)
  case $target in fuzz | replay) continue ;; esac
  [ -d "$T/$target" ] && [ -n "$(ls "$T/$target")" ]
  ok $? "$target has seeds and a program"
done
done_testing
