# make cuts: every cut of every split product is right, and what the model loses is counted right.
. tests/tap.inc
tool=$B/tools/cuts
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

# Three kernels, few and many slices, all heights of tiles; strides and groups; a size that is no multiple of anything; pixels copied as rows.
cat >"$T/suite" <<'EOT'
mb2ic40ih9oc70oh9kh3ph1
mb3ic67ih8oc67oh4kh3sh2ph1
g2mb1ic64ih7oc140oh7kh1
mb1ic64ih4oc70kh1
mb2ic20ih9oc30oh9kh3ph1
mb1ic24ih4oc20kh1
EOT
out=$("$tool" --suite "$T/suite" 2>"$T/errors")
status=$?
[ $status -eq 0 ] && [ ! -s "$T/errors" ]
ok $? "six problems: exit status $status" || diag "$(cat "$T/errors")"
[ "$(grep -cE '^05[fik] .* ([0-9]+) of +\1 cuts right; model +(32|64|128) x [0-9]+' <<<"$out")" -eq 18 ]
ok $? '05f, 05i and 05k: every cut is right' || diag "$out"
[ "$(sed -nE 's/^05f mb2ic40.* of +([0-9]+) cuts.*/\1/p' <<<"$out")" -eq 10 ]
ok $? '05f: 23 steps make 1 to 5 slices of 4 or more, with tiles of 64 and of 128' || diag "$out"
"$tool" --shape mb16ic3ih8oc4oh8kh1 --pass wgrad >"$T/out" 2>&1 && [ "$(grep -c '^05' "$T/out")" -eq 1 ] && grep -q '^05k' "$T/out"
ok $? '--pass wgrad: 05k alone' || diag "$(cat "$T/out")"

# Times of three cuts, one of them the model's: it loses what it is slower than the best.
header=$(head -n 1 "docs/results/$(cat docs/results/shown)/cuts.csv")
row() { echo "\"a GPU\",132,1.0,1.0,2026-01-01T00:00:00Z,$1,$2,fprop,05f,9,$3,$4,${6:-right},$5,$5,$5"; }
late=mb16ic512ih7oc512oh7kh3ph1
{ echo "$header"; row one $late 64 1 500; } >"$T/a.csv"
read -r bm slices < <("$tool" --read "$T/a.csv" | sed -nE 's/.*model +([0-9]+) x ([0-9]+) .*/\1 \2/p')
{ echo "$header"; row one $late 64 1 500; row one $late "$bm" "$slices" 125; row one $late 64 $((slices + 20)) 100; row one $late 128 $((slices + 20)) 10 wrong; row two mb1ic64ih9oc64oh9kh1 64 1 7; } >"$T/b.csv"
out=$("$tool" --read "$T/b.csv" 2>&1)
grep -q "^05f $late .* model *$bm x $slices *125.00 us, best of  3 timed  64 x $((slices + 20)) *100.00 us, lost 25.0 %" <<<"$out"
ok $? '--read: the model loses a quarter; a wrong cut does not count' || diag "$out"
grep -q '^one 05f: 1 problems, the best cut taken in 0, within 2 % in 0; lost: 25.00 % in the mean, at most 25.0 % ' <<<"$out" && grep -q '^two 05f: 1 problems, the best cut taken in 1, .* 0.00 %' <<<"$out"
ok $? 'and the summary has it, suite by suite' || diag "$out"
"$tool" --read "$T/b.csv" --choices >"$T/out" 2>&1
[ "$(wc -l <"$T/out")" -eq 3 ] && grep -qxF "one,$late,fprop,05f,$bm,$slices,yes,125.000,64,$((slices + 20)),100.000,1.250000" "$T/out"
ok $? '--choices: a row for each problem, what loses a quarter among them' || diag "$(cat "$T/out")"
out=$("$tool" --read "$T/b.csv" --fit two 2>&1)
grep -q '^two, fitted: mean loss 0.00 %, worst 0.0 %' <<<"$out" && grep -q '^one: mean loss 25.00 %' <<<"$out" && [ "$(grep -cE '^  .* ([0-9.]+) +\1$' <<<"$out")" -eq 9 ]
ok $? '--fit: where nothing is lost no price changes' || diag "$out"
out=$("$tool" --read "$T/b.csv" --fit one 2>&1)
awk '/^one, fitted: mean loss/ {loss = $5} END {exit !(loss != "" && loss <= 25)}' <<<"$out"
ok $? '--fit: never more lost than before' || diag "$out"

times=docs/results/$(cat docs/results/shown)/cuts.csv
[ "$(tail -n +2 "$times" | grep -vc ',right,')" -eq 0 ] && "$tool" --read "$times" >"$T/out" 2>&1
ok $? 'the committed times: every cut was right, and the tool reads them' || diag "$(cat "$T/out")"

# bad WHAT ARGUMENT...: one line on stderr, exit status 2.
bad() {
  said=$("$tool" "${@:2}" 2>&1 >/dev/null)
  status=$?
  [ $status -eq 2 ] && [ "$(wc -l <<<"$said")" -eq 1 ] && [ -n "$said" ]
  ok $? "$1: one line, exit status 2" || diag "exit status $status: $said"
}
bad 'a suite that is none' --suite no-such-suite
bad 'no number of images' --suite resnet50:many
bad 'no images' --suite resnet50:0
bad 'a shape that is none' --shape mb1ic
bad 'a shape and a suite' --shape mb1ic1ih1oc1oh1kh1 --suite resnet50
bad 'a pass that is none' --pass backward
bad 'nothing that can be cut' --shape mb1ic8ih5oc8kh200ph100 --pass fprop
bad 'an option that is none' --speed
bad 'a word too many' resnet50
bad 'a file that cannot be written' --shape mb1ic1ih1oc1oh1kh1 --csv "$T/no/such.csv"
bad 'a file that cannot be read' --read "$T/missing.csv"
bad 'a file of something else' --read README.md
bad 'a file without rows of that pass' --read "$T/b.csv" --pass dgrad
echo "$header" >"$T/empty.csv"
bad 'a file without rows' --read "$T/empty.csv"
bad 'measuring and reading' --read "$T/b.csv" --shape mb1ic1ih1oc1oh1kh1
bad 'a fit to nothing' --read "$T/b.csv" --fit three
bad 'choices without times' --choices
bad 'a fit without times' --fit resnet50
sed '3s/,125,125,125$/,125/' "$T/b.csv" >"$T/short.csv"
sed '2s/,[0-9.]*$/,inf/' "$T/a.csv" >"$T/inf.csv"
bad 'a time without end' --read "$T/inf.csv"
bad 'a row that is cut off' --read "$T/short.csv"
"$tool" --read "$T/short.csv" 2>&1 | grep -q 'short.csv:3: expected'
ok $? 'with the number of its line'
done_testing
