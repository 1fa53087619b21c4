# The tables and figures of the chapters of steps 00 to 02: figures belong to the committed results, tables refuse what they cannot read.
. tests/tap.inc
results=docs/results/h200
# is_current ROOT PICTURE: the picture names files below ROOT, and each still has the hash it names.
is_current() {
  local file hash
  while read -r file hash; do
    [ "sha256=$(sha256sum "$1/$file" 2>/dev/null | cut -d ' ' -f 1)" = "$hash" ] || return 1
  done < <(grep -aoE '[^ ]+ sha256=[0-9a-f]{64}' "$2" | sort -u)
}
names='00-blocking 01-warp 01-wavefronts 02-limits 02-warp'
[ "$(cd docs/figures && echo 0[0-2]-*.svg)" = "$(printf '%s.svg ' $names | sed 's/ $//')" ] && [ "$(cd docs/figures && echo 0[0-2]-*.png)" = "$(printf '%s.png ' $names | sed 's/ $//')" ]
ok $? "docs/figures has the figures of steps 00 to 02, each as SVG and PNG: $names"
for name in $names; do
  is_current . "docs/figures/$name.svg" && is_current . "docs/figures/$name.png"
  ok $? "docs/figures/$name shows the results as they are (else: make figures)"
done
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
mkdir -p "$T/$results"
cp $results/*.csv "$T/$results"
is_current "$T" docs/figures/01-wavefronts.svg && grep -q 'bench.csv sha256=' docs/figures/01-wavefronts.svg
ok $? 'a figure of measurements names its files'
echo >>"$T/$results/bench.csv"
! is_current "$T" docs/figures/01-wavefronts.svg
ok $? 'and is stale when one changes'

# A row that a later step adds, with another arithmetic, comes into the ladder by itself.
row=$(grep ',02a,' $results/bench.csv | head -n 1)
{ cat $results/bench.csv; sed 's/,02a,/,99z,/; s/,fp32,/,fp16,/' <<<"$row"; } >"$T/later.csv"
awk -f scripts/ladder.awk "$T/later.csv" >"$T/ladder"
grep -q '^| `99z`, fp16 | GPU | ' "$T/ladder" && grep -q "^| cuDNN's best plan, fp16 | GPU | " "$T/ladder" && grep -q "^| cuDNN's best plan | GPU | " "$T/ladder"
ok $? "ladder.awk: a new kernel has a row, its arithmetic a row of cuDNN's" || diag "$(cat "$T/ladder")"
[ "$(awk '!/^\|/ || gsub(/\|/, "|") != 9' "$T/ladder")" = '' ]
ok $? 'and every row has every cell'

# What the tables take for the rule is the rule.
for step in 04 05; do
  scripts/which.sh $step | cmp -s - $results/which-$step.csv
  ok $? "$results/which-$step.csv is what scripts/which.sh $step prints"
done

# refuses WHAT COMMAND...: one line on stderr that says what was expected, and a status other than 0.
refuses() {
  said=$("${@:2}" 2>&1 >/dev/null)
  status=$?
  [ $status -ne 0 ] && [ "$(wc -l <<<"$said")" -eq 1 ] && grep -q 'expected' <<<"$said"
  ok $? "$1 is refused" || diag "exit status $status: $said"
}
refuses 'ladder.awk: a layer without rows' awk -v layer=mb1ic1 -f scripts/ladder.awk $results/bench.csv
refuses 'cpu_tables.awk: no rows of 00b' awk -v table=passes -f scripts/cpu_tables.awk $results/calibrate.csv
refuses 'cpu_tables.awk: a table that is none' awk -v table=chairs -f scripts/cpu_tables.awk $results/bench.csv
refuses 'step_tables.awk: a table that is none' awk -v table=chairs -f scripts/step_tables.awk $results/calibrate.csv
refuses 'step_tables.awk: a step that is none' awk -v table=predict -v step=77 -f scripts/step_tables.awk $results/calibrate.csv
refuses 'step04_tables.awk: depthwise layers of a file that has none' awk -v table=depthwise -f scripts/step04_tables.awk $results/bench.csv
refuses 'step05_tables.awk: a batch that was not measured' awk -v table=layers -v pass=fprop -v batch=7 -f scripts/step05_tables.awk $results/bench-05.csv
refuses 'npy_error.pl: a file that is no tensor' scripts/npy_error.pl README.md README.md
refuses 'step05_error.sh: a shape that is none' scripts/step05_error.sh bogus
refuses 'step_tables.awk: a profile that is missing' awk -v table=issue_ms -v kernel=01a -v pass=fprop -f scripts/step_tables.awk $results/calibrate.csv
got=$(awk -v table=l1_ms -v n=33 -f scripts/step_tables.awk $results/calibrate.csv)
# 16 images x 128 filters x 64 channels x (3 x 56 - 2)^2 products, 33 wavefronts for 32 of them
want=$(awk -F, '/device_sms/ {s = $7} /device_clock/ {c = $7} END {printf "%.1f", 33 * 16 * 128 * 64 * 166 ^ 2 / 32 / s / c / 1e3}' $results/calibrate.csv)
[ "$got" = "$want" ]
ok $? "step_tables.awk: 33 wavefronts a product are $want ms" || diag "got $got"
done_testing
