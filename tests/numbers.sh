# What the markers of the pages stand for (docs/numbers/): the formulas compute what they say and refuse what they cannot; committed results hold together,
# and those of the emulator are what it prints now.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
here=$PWD gpu=$(cat docs/results/shown)
results=docs/results/$gpu

# ---------------------------------------------------------------- the language, on results small enough to compute by hand
mkdir -p "$T/docs/numbers" "$T/docs/results/g1" "$T/common/harness"
echo g1 >"$T/docs/results/shown"
sed 's/"NVIDIA H200", "h200", 66.9e12/"G One", "g1", 2 * 5e12/' common/harness/gpus.h >"$T/common/harness/gpus.h"
cat >"$T/docs/results/g1/times.csv" <<'END'
gpu,driver,shape,pass,kernel,us,status,note
G One,1,mb2ic4ih8oc8oh8kh3ph1,fprop,a,100,right,"one, ""two"""
G One,1,mb2ic4ih8oc8oh8kh3ph1,fprop,b,25,right,
G One,1,mb2ic4ih8oc8oh8kh3ph1,dgrad,a,40,right,
G One,1,g2mb1ic8ih9oc4oh5kh3sh2ph1,fprop,a,8,right,
G One,1,g2mb1ic8ih9oc4oh5kh3sh2ph1,fprop,b,16,right,
G One,1,g2mb1ic8ih9oc4oh5kh3sh2ph1,fprop,c,,skipped,
A CPU,,mb2ic4ih8oc8oh8kh3ph1,fprop,z,9000,right,
END
sed 's/G One/G Two/' "$T/docs/results/g1/times.csv" >"$T/docs/results/g1/other.csv"
cat >"$T/docs/numbers/page.txt" <<'END'
# a comment
file times other key shape pass kernel value us where status=right
big = 'mb2ic4ih8oc8oh8kh3ph1'   # and one behind a formula
small = 'g2mb1ic8ih9oc4oh5kh3sh2ph1'
us($k, $s = big, $p = 'fprop') [3] = times[$s $p $k]
ratio($k, $other)
  [%.1f] = us($k) / us($other)
round_about = round_about + 1
unknown [3] = times[$big fprop c]
table two($p) Both kernels, $p
  all fprop; dgrad
  let $kernels = both('a', 'b')
  head | layer | each $k in $kernels: `{$k}` | both |
  line |---| each $k in $kernels: --:|--:|
  each $s in distinct(times*[* $p a].shape)
  if $s.mb > 1 || $p == 'fprop'
  let $b = times?[$s $p b]
  row | {$s.ic} to {$s.oc} | each $k in $kernels: {times?[$s $p $k]; %.0f} us | {times[$s $p a]} / {$b} |
  row | mean | | | {geomean(times[$s $p a] for $s in distinct(times*[* $p a].shape)); %.2f} |
END
# is WANT WORDS: what is printed for them. refuses TEXT WORDS: one line that has this text, exit status 2.
show() { (cd "$T" && "$here/scripts/fill_docs.pl" --print "$@" 2>&1); }
is() {
  got=$(show "$2")
  [ "$got" = "$1" ]
  ok $? "$2: ${1//$'\n'/; }" || diag "$got"
}
refuses() {
  got=$(show "$2")
  [ $? -eq 2 ] && [ "$(wc -l <<<"$got")" -eq 1 ] && grep -qF -- "$1" <<<"$got"
  ok $? "refused, $1: $2" || diag "$got"
}
is 7 '1 + 2 * 3'
is 9 '(1 + 2) * 3'
is -8 '-2 ^ 3'
is 2 '17 % 5'
is 0.25 '1 / 2 ^ 2'
is 1 '1 < 2 && 2 >= 2'
is yes "1 == 1.0 && 'a' != 'b' ? 'yes' : 'no'"
is 1 "'05f' ~ '^05'"
is 100 'us a'
is 8.00 "text(us('a', small), 3)"
is 40.0 'us a $big dgrad'
is 4.0 'ratio a b'
is 'one, "two"' 'times[$big fprop a].note'
is 25 'times[$big fprop b status=right]'
is 9000 'times[$big fprop z]'
is 25 'min(times*[$big fprop a|b])'
is $'a\nb\nz' 'distinct(times*[* * *].kernel)'
is $'a\nb' 'distinct(times*[* * ?  driver=1].kernel)'
is 3 'count($r.us > 20 for $r in times*[* * a|b].row)'
is 189 'sum(times*[* * * driver=1])'
is 23.4 "text(geomean(times[\$s fprop \$k] for \$s in both(big, small) for \$k in both('a', 'b') if \$k == 'a' || \$s == small), 3)"
is 'b' "item(sort(us(\$k) for \$k in both('a', 'b')), 1)"
is 16 "quantile(0.5, both(100, 8, 16))"
is 3 'count($x for $x in range(1, 3))'
is 4 'gcd(12, 8)'
is 2 'ceil(1.2)'
is 9 'big.kh * big.kw'
is 5 'small.ow'
is 2 'small.sw'
is 4608 'macs(big) / 8'
is 3600 'macs(small)'
is 30976 "macs_inside(big)"
is 10000000000000 'value(gpu().fp32_flops)'
is 'G One' 'gpu.name'
is '| layer | `a` | `b` | both |
|---|--:|--:|--:|
| 4 to 8 | 100 us | 25 us | 100 / 25 |
| 8 to 4 | 8 us | 16 us | 8 / 16 |
| mean | | | 28.28 |' 'two fprop'
is '| layer | `a` | `b` | both |
|---|--:|--:|--:|
| 4 to 8 | 40 us | | 40 / – |
| mean | | | 40.00 |' 'two dgrad'
refuses 'expected one row of docs/results/g1/times.csv with' 'us q'
refuses 'found 2' 'times[$big fprop a|b]'
refuses 'expected one row' unknown
refuses 'expected a column of docs/results/g1/times.csv, got "colour"' 'times[$big fprop a].colour'
refuses 'expected a column of the file, got "colour"' 'times[$big fprop a colour=red]'
refuses 'expected at most the keys' 'times[$big fprop a right]'
refuses 'expected a line "file chairs' 'chairs[a]'
refuses 'expected the name of a formula, got "chairs"' 'chairs + 1'
refuses 'expected a variable that is known here, got $chairs' '$chairs + 1'
refuses 'expected a formula that does not need itself, got round_about' 'round_about + 1'
refuses 'expected a division by something else than 0' '1 / 0'
refuses "expected numbers about +, got \"fprop\"" "1 + 'fprop'"
refuses 'expected ")" in "(1 + 2" at its end' '(1 + 2'
refuses 'expected a formula, got "&2"' '1 &2'
refuses 'expected a layer such as' "macs('mb1')"
refuses 'expected at least one value for a mean' 'geomean(times*[* bwd a])'
refuses 'expected one of' 'big.chairs'
refuses 'expected a $p for the table two' 'two'
refuses 'expected results of the G One (the row of common/harness/gpus.h), got some of the G Two' 'other[$big fprop a]'
GPU=g2 refuses 'expected a row whose short name is "g2"' 'gpu.name'
# definitions WORDS TEXT: a file of them that cannot be used.
definitions() {
  mkdir -p "$T/bad/docs/numbers"
  printf '%b' "$2" >"$T/bad/docs/numbers/page.txt"
  got=$(cd "$T/bad" && "$here/scripts/fill_docs.pl" --print x 2>&1)
  [ $? -eq 2 ] && [ "$(wc -l <<<"$got")" -eq 1 ] && grep -qF -- "$1" <<<"$got"
  ok $? "definitions refused: $1" || diag "$got"
}
definitions 'docs/numbers/page.txt:3: x: there is another one, docs/numbers/page.txt:1' 'x = 1\ny = 2\nx = 3\n'
definitions 'min: there is another one, a function' 'min = 3\n'
definitions 'expected a file, a formula or a table, got "just words"' 'just words\n'
definitions 'expected head, line and rows' 'table t Title\n  head | a |\n'
definitions 'expected a row from | to |' 'table t Title\n  head a\n'
definitions 'expected one of all, head, line' 'table t Title\n  foot | a |\n'
definitions 'expected "table NAME TITLE"' 'table t\n'

# ---------------------------------------------------------------- the committed definitions
# Every name is used, by a page or another definition; no script, definition or picture's script names the GPU that is shown.
unused=$(perl -ne '$here{$_}++ for /\w+/g; if ($ARGV =~ m{^docs/numbers/} && /^(?:table )?([0-9a-z_]+)/) { push @defined, $1 unless $1 eq "file" }
  END { print map { "$_\n" } grep { $here{$_} < 2 } @defined }' README.md docs/*.md docs/results/*.md docs/numbers/*.txt scripts/profile_table.pl)
[ -z "$unused" ]
ok $? 'every definition is used' || diag "$unused"
said=$(grep -rnw "$gpu" scripts docs/numbers; grep -nE "<!--[^>]*\\b$gpu\\b" README.md docs/*.md docs/results/*.md)
[ -z "$said" ]
ok $? "no script, definition or marker names the $gpu" || diag "$said"
# 16 images x 128 filters x 64 channels x (3 x 56 - 2)^2 products, 33 wavefronts for 32 of them
want=$(awk -F, '/device_sms/ {s = $7} /device_clock/ {c = $7} END {printf "%.1f", 33 * 16 * 128 * 64 * 166 ^ 2 / 32 / s / c / 1e3}' $results/calibrate.csv)
[ "$(scripts/fill_docs.pl --print l1_ms 33)" = "$want" ]
ok $? "33 wavefronts a product are $want ms"
# A row that a later step adds, with another arithmetic, comes into the ladder by itself.
mkdir -p "$T/later/docs/results/$gpu" "$T/later/common/harness"
cp -r docs/numbers docs/results/shown "$T/later/docs"
mv "$T/later/docs/shown" "$T/later/docs/results"
cp common/harness/gpus.h "$T/later/common/harness"
row=$(grep ',02a,' $results/bench.csv | head -n 1)
{ cat $results/bench.csv; sed 's/,02a,/,99z,/; s/,fp32,/,fp16,/' <<<"$row"; } >"$T/later/$results/bench.csv"
ladder=$(cd "$T/later" && "$here/scripts/fill_docs.pl" --print ladder 2>&1)
grep -q '^| `99z`, fp16 | GPU | ' <<<"$ladder" && grep -q "^| cuDNN's best plan, fp16 | GPU | " <<<"$ladder" && grep -q "^| cuDNN's best plan | GPU | " <<<"$ladder"
ok $? "the ladder: a new kernel has a row, its arithmetic a row of cuDNN's" || diag "$ladder"

# ---------------------------------------------------------------- the committed results
if [ "${REWRITE:-}" ] || [ "${B##*/}" = emu ]; then
  stale=$(scripts/emulated.pl --check 2>&1)
  ok $? 'what the pages show of the emulator is what it prints now (else: make emulated)' || diag "$stale"
else
  ok 0 '# SKIP what the pages show of the emulator: not here'
fi
# A row says how many instructions lie at its addresses, 16 bytes each; a stage has channels x 9 taps x the sums of a thread.
bad=$(perl -F, -lane 'next if $. == 1; my $n = 0; for (split " ", $F[8]) { my ($from, $to) = split /-/; $n += (hex($to) - hex($from)) / 16 + 1 }
  print "line $.: $n instructions" if $n != $F[6]; $adds{$F[2]} += $F[5] * $F[7]; $channels{$F[2]} = $F[3];
  END { my %sums = ("03a", 1, "03b", 8, "03c", 64, "03d", 64); for (sort keys %sums) { print "$_: $adds{$_} multiply-adds" if $adds{$_} != 9 * $sums{$_} * $channels{$_} } }' $results/code-03.csv)
[ -z "$bad" ]
ok $? 'code-03.csv: as many instructions as its addresses hold, as many multiply-adds as a stage has' || diag "$bad"
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
version=$("$nvcc" --version 2>/dev/null | sed -n 's/.*, V\([0-9.]*\)$/\1/p')
# same_as FILE COMMAND NEEDS: where nvcc of the file's version and NEEDS are here, the command prints the file.
same_as() {
  local file=$1 command=$2 needs=$3
  if [ "$version" != "$(sed -n '2s/,.*//p' "$file")" ] || ! PATH="$PATH:$(dirname "$(readlink -f "$(command -v "$nvcc")")")" command -v "$needs" >/dev/null; then
    ok 0 "$file # SKIP needs nvcc $(sed -n '2s/,.*//p' "$file") and $needs"
    return
  fi
  NVCC=$nvcc $command 2>&1 | cmp -s - "$file"
  ok $? "$file is what $command prints"
}
same_as $results/registers-03.csv 'scripts/registers.sh 03' sed
same_as $results/code-03.csv scripts/step03_code.sh cuobjdump
# complains WHAT COMMAND...: one line on stderr that says what was expected, and a status other than 0.
complains() {
  said=$("${@:2}" 2>&1 >/dev/null)
  status=$?
  [ $status -ne 0 ] && [ "$(wc -l <<<"$said")" -eq 1 ] && grep -q 'expected' <<<"$said"
  ok $? "$1 is refused" || diag "exit status $status: $said"
}
complains 'registers.sh: no nvcc' env NVCC=/nowhere/nvcc scripts/registers.sh 03
complains 'step03_code.sh: no nvcc' env NVCC=/nowhere/nvcc scripts/step03_code.sh
[ -z "$version" ] || complains 'registers.sh: a step that is none' scripts/registers.sh 77
complains 'emulated.pl: a file that is none' scripts/emulated.pl chairs
done_testing
