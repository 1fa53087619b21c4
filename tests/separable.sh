# 04c finds out whether a filter factors, and is right either way.
. tests/tap.inc
emulator_only 'which way the kernel went is read from the counter'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
shape=mb1ic1ih20iw24oc1oh20ow24

# A picture of small integers.
scripts/npy make "$folder/x.npy" 1,1,20,24 $(awk 'BEGIN { for (i = 0; i < 480; i++) print i * 7 % 31 - 15 }')

# filtered TEXT WAY SIZE NUMBER...: 04c is right with this filter and goes that way: factored or whole.
filtered() {
  local text=$1 way=$2 size=$3 pad=$((${3} / 2)) log
  shift 3
  scripts/npy make "$folder/w.npy" "1,1,$size,$size" "$@"
  log=$(EMU_COUNT_JSON="$folder/count.json" EMU_COUNT_BLOCKS=all build/count/04 --shape "${shape}kh${size}kw${size}ph${pad}pw${pad}" --pass fprop --kernel 04c --no-time \
    --x "$folder/x.npy" --w "$folder/w.npy" --out "$folder/y.npy" 2>&1)
  ok $? "$text: right"
  perl -MJSON::PP -e 'local $/; my $way = "factored";
    for my $k (@{ decode_json(<STDIN>) }) { for (@{ $k->{instructions} }) { $way = "whole" if $k->{kernel} eq "separable_kernel" && $_->{array} eq "w" } }
    exit($way ne $ARGV[0])' "$way" <"$folder/count.json"
  ok $? "$text: $way"
}

# exact TEXT: and equal to the definition, bit for bit.
exact() {
  "$B/00" --shape "${shape}kh3kw3ph1pw1" --pass fprop --kernel 00a --no-time --x "$folder/x.npy" --w "$folder/w.npy" --out "$folder/reference.npy" >/dev/null 2>&1
  cmp -s "$folder/y.npy" "$folder/reference.npy"
  ok $? "$1: equal to the definition, bit for bit"
}

filtered 'Sobel' factored 3 -1 0 1 -2 0 2 -1 0 1
exact 'Sobel'
filtered 'a multiple of 3 by 7, no row of which has a 1' factored 3 9 -21 6 18 -42 12 -27 63 -18
exact 'a multiple of 3 by 7, no row of which has a 1'
filtered 'sharpen' whole 3 0 -1 0 -1 5 -1 0 -1 0
exact 'sharpen'
filtered 'zeros' factored 3 0 0 0 0 0 0 0 0 0
exact 'zeros'
filtered 'one element' factored 3 0 0 0 0 0 0 5 0 0
exact 'one element'
filtered 'numbers that no integer type is asked to hold' factored 3 33554432 0 -33554432 67108864 0 -67108864 33554432 0 -33554432
filtered 'the binomial filter' factored 5 1 4 6 4 1 4 16 24 16 4 6 24 36 24 6 4 16 24 16 4 1 4 6 4 1
filtered 'the binomial filter, one element off by one' whole 5 1 4 6 4 1 4 16 24 16 4 6 24 37 24 6 4 16 24 16 4 1 4 6 4 1
gauss() { awk -v off="$1" 'BEGIN { for (r = -4; r <= 4; r++) for (s = -4; s <= 4; s++) printf "%.9g ", exp(-(r * r + s * s) / 8) / 25 * (r == 3 && s == -4 ? 1 + off : 1) }'; }
filtered 'a Gaussian of rounded numbers' factored 9 $(gauss 0)
filtered 'the same, one element off by 1e-5 of itself' whole 9 $(gauss 1e-5)
filtered 'by 1e-6, eight roundings' whole 9 $(gauss 1e-6)
done_testing
