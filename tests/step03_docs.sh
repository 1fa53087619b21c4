# The tables and figures of docs/03_shared_tiling.md: figures belong to the committed results, counts of machine code to their addresses, and, with
# nvcc of the same version, to what nvcc makes now; tables refuse what they cannot read.
. tests/tap.inc
results=docs/results/h200
names='03-overlap 03-reuse 03-slots 03-tile'
[ "$(cd docs/figures && echo 03-*.svg)" = "$(printf '%s.svg ' $names | sed 's/ $//')" ] && [ "$(cd docs/figures && echo 03-*.png)" = "$(printf '%s.png ' $names | sed 's/ $//')" ]
ok $? "docs/figures has the figures of step 03, each as SVG and PNG: $names"
# is_current PICTURE: the files that it names still have the hashes that it names.
is_current() {
  local file hash
  while read -r file hash; do
    [ "sha256=$(sha256sum "$file" 2>/dev/null | cut -d ' ' -f 1)" = "$hash" ] || return 1
  done < <(grep -aoE '[^ ]+ sha256=[0-9a-f]{64}' "$1" | sort -u)
}
for name in $names; do
  is_current "docs/figures/$name.svg" && is_current "docs/figures/$name.png"
  ok $? "docs/figures/$name shows the results as they are (else: make figures)"
done
grep -q 'code-03.csv sha256=' docs/figures/03-slots.svg
ok $? 'the figure of counted instructions names its file'

# A row says how many instructions lie at its addresses, 16 bytes each; a stage has channels x 9 taps x the sums of a thread.
bad=$(perl -F, -lane 'next if $. == 1; my $n = 0; for (split " ", $F[8]) { my ($from, $to) = split /-/; $n += (hex($to) - hex($from)) / 16 + 1 }
  print "line $.: $n instructions" if $n != $F[6]; $adds{$F[2]} += $F[5] * $F[7]; $channels{$F[2]} = $F[3];
  END { my %sums = ("03a", 1, "03b", 8, "03c", 64, "03d", 64); for (sort keys %sums) { print "$_: $adds{$_} multiply-adds" if $adds{$_} != 9 * $sums{$_} * $channels{$_} } }' $results/code-03.csv)
[ -z "$bad" ]
ok $? 'code-03.csv: as many instructions as its addresses hold, as many multiply-adds as a stage has' || diag "$bad"

nvcc=${NVCC-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
here=$("$nvcc" --version 2>/dev/null | sed -n 's/.*, V\([0-9.]*\)$/\1/p')
# same_as FILE COMMAND NEEDS: where nvcc of the file's version and NEEDS are here, the command prints the file.
same_as() {
  local file=$1 command=$2 needs=$3
  if [ "$here" != "$(sed -n '2s/,.*//p' "$file")" ] || ! PATH="$PATH:$(dirname "$(readlink -f "$(command -v "$nvcc")")")" command -v "$needs" >/dev/null; then
    ok 0 "$file # SKIP needs nvcc $(sed -n '2s/,.*//p' "$file") and $needs"
    return
  fi
  NVCC=$nvcc $command 2>&1 | cmp -s - "$file"
  ok $? "$file is what $command prints"
}
same_as $results/registers-03.csv 'scripts/registers.sh 03' sed
same_as $results/code-03.csv scripts/step03_code.sh cuobjdump

# refuses WHAT COMMAND...: one line on stderr that says what was expected, and a status other than 0.
refuses() {
  said=$("${@:2}" 2>&1 >/dev/null)
  status=$?
  [ $status -ne 0 ] && [ "$(wc -l <<<"$said")" -eq 1 ] && grep -q 'expected' <<<"$said"
  ok $? "$1 is refused" || diag "exit status $status: $said"
}
refuses 'step03_tables.awk: a table that is none' awk -v table=chairs -f scripts/step03_tables.awk $results/bench.csv
refuses 'step03_tables.awk: no list of launches' awk -v table=issue -f scripts/step03_tables.awk $results/{code-03,calibrate,profile-02-fprop,bench}.csv
refuses 'step03_tables.awk: a kernel whose outputs are not 64 a thread' awk -v table=down -v kernel=03a -f scripts/step03_tables.awk $results/bench.csv
refuses 'registers.sh: no nvcc' env NVCC=/nowhere/nvcc scripts/registers.sh 03
refuses 'step03_code.sh: no nvcc' env NVCC=/nowhere/nvcc scripts/step03_code.sh
[ -z "$here" ] || refuses 'registers.sh: a step that is none' scripts/registers.sh 77
done_testing
