# Data from files, where less is known than of random ones: a kernel without a bound for them runs unverified, if it is named; fp16 sums that cancel are no reason
# to refuse.
. tests/tap.inc
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# array TYPE FORMAT SHAPE NUMBER...: a .npy file's bytes, the numbers packed by perl's FORMAT.
array() { perl -e 'my ($type, $format, $shape) = splice @ARGV, 0, 3; print "\x93NUMPY\x01\x00\x76\x00", sprintf("%-117s\n", "{\x27descr\x27: \x27<$type\x27, \x27fortran_order\x27: False, \x27shape\x27: ($shape), }"), pack($format, @ARGV)' "$@"; }

# Winograd's kernels.
array f4 'f<*' '1, 2, 8, 8' $(seq 128) >"$folder/t.npy"
shape=mb1ic2ih8oc2oh8kh3ph1
while read -r pass kernel; do
  input=--x
  [ "$pass" = dgrad ] && input=--dy
  rm -f "$folder/y.npy"
  "$B/00" --shape $shape --pass "$pass" --kernel 00a --no-time $input "$folder/t.npy" --out "$folder/want.npy" >/dev/null
  "$B/${kernel:0:2}" --shape $shape --pass "$pass" --kernel "$kernel" --no-time $input "$folder/t.npy" --out "$folder/y.npy" --csv "$folder/o.csv" >"$folder/log" 2>"$folder/errors"
  [ $? -eq 1 ] && grep -q "^  UNVERIFIED $kernel: ran, and nothing was compared: no bound for its error on data that is not random$" "$folder/log" &&
    grep -q '^0 right, 0 wrong, 0 skipped, 1 unverified$' "$folder/log" && grep -q ',unverified,no,' "$folder/o.csv" && [ ! -s "$folder/errors" ]
  ok $? "$pass $kernel on given data: runs unverified, says so, exit status 1"
  perl -e 'sub floats { open my $f, "<:raw", shift or die; local $/; unpack("f<*", substr <$f>, 128) }
           my @y = floats($ARGV[0]); my @want = floats($ARGV[1]); exit !(@y == 128 && !grep { !(abs($y[$_] - $want[$_]) <= 1e-2) } 0 .. 127)' "$folder/y.npy" "$folder/want.npy"
  ok $? "and what it leaves is the definition's, nearly"
done <<EOT
fprop 05l
fprop 05m
dgrad 05l
EOT
"$B/05" --shape $shape --pass fprop --no-time --x "$folder/t.npy" >"$folder/log" && grep -q '^  SKIP 05l: no bound for its error on data that is not random (--kernel 05l runs it unverified)$' "$folder/log"
ok $? 'among all kernels of a step it is left out, with a hint'
"$B/05" --shape $shape --pass fprop --no-time --x "$folder/t.npy" --kernel auto >"$folder/log" && grep -q '^1 right, 0 wrong, 0 skipped$' "$folder/log"
ok $? 'the rule takes another one'

# Eight products of 300 * 300 in fp16, every other one negative: of sums near 65504 the largest is 30000.
halves() { array f2 'v*' '1, 8, 1, 1' "$@"; }
plus=$((0x5CB0)) minus=$((0xDCB0)) part=$((0xDA40)) # 300, -300, -200
halves $plus $plus $plus $plus $plus $plus $plus $plus >"$folder/x.npy"
halves $plus $minus $plus $minus $plus $minus $plus $part >"$folder/w.npy"
halves $plus $minus $plus $minus $plus $minus $plus 0 >"$folder/large.npy"
for way in host device; do
  layer=(--shape mb1ic8ih1oc1kh1 --pass fprop --kernel 06a --no-time --verify $way --x "$folder/x.npy")
  rm -f "$folder/y.npy"
  "$B/06" "${layer[@]}" --w "$folder/w.npy" --out "$folder/y.npy" >"$folder/log" 2>&1 && grep -q '^1 right, 0 wrong, 0 skipped$' "$folder/log" &&
    [ "$(tail -c 2 "$folder/y.npy" | od -An -tx1)" = ' 53 77' ]
  ok $? "fp16, sums of |x w| of 690000, results of 30000, verified on the $way: $(tail -n 1 "$folder/log")"
  said=$("$B/06" "${layer[@]}" --w "$folder/large.npy" 2>&1 >/dev/null)
  [ $? -eq 2 ] && [[ $said == '--x, --w, --dy: expected data whose sums stay below 65504 in magnitude (fp16), they reach 9000'* ]]
  ok $? "results of 90000, and what they may be wrong: $said"
done
done_testing
