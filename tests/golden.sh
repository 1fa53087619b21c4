# What this machine does with Hopper's instructions, the emulator or a GPU, beside the golden tables, which a GPU has written (make golden; tests/golden/). And
# the comparison itself: it notices an entry that was changed, a row too few, a row too many, a table that no GPU wrote.
. tests/tap.inc
program=$B/tests/golden_tables
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tables=$($program list)
written=$folder/written
mkdir "$written"
for table in $tables; do
  $program "$table" >"$written/$table.txt" 2>"$folder/err"
  status=$?
  [ $status -eq 2 ] && { echo "1..0 # SKIP $(head -n 1 "$folder/err")"; exit 0; }
  ok $status "$table: every case has an answer" || diag "$(cat "$folder/err")"
  refused=$(grep -c ': refused: ' "$written/$table.txt")
  [ "${B##*/}" = emu ] || refused=0 # a GPU says no more than the error
  [ "$status" -eq 0 ] && [ "$(grep -c '^emulator: block' "$folder/err")" -eq "$refused" ]
  ok $? "$table: a report for each of $refused refusals, and no other"
done

rows() { grep -v '^#' "$1"; }
# compare TABLE FILE: 0: this machine's rows are those of the file; 1: they differ, and the first of them are in $folder/differences; 2: no GPU wrote the file.
compare() {
  grep -q '^# .*compute capability' "$2" && ! grep -q '^# .*: emulator,' "$2" || return 2
  ! diff <(rows "$2") <(rows "$written/$1.txt") | sed -n 's/^< /table: /p; s/^> /here:  /p' | cut -c1-200 | head -n 8 | grep . >"$folder/differences"
}

for table in $tables; do
  file=tests/golden/$table.txt
  if [ ! -f "$file" ]; then
    ok 0 "$table # SKIP no GPU has written $file yet: make golden, on an H100 or H200"
    continue
  fi
  compare "$table" "$file"
  status=$?
  ok $status "$table: as $(sed -n '1s/.*: //p' "$file") wrote it"
  [ $status -eq 1 ] && { while IFS= read -r line; do diag "$line"; done <"$folder/differences"; }
  [ $status -eq 2 ] && diag "expected a first line that names a GPU, got: $(head -n 1 "$file")"
done

# The comparison, with this machine's own rows as a GPU's table.
as_a_gpu() { sed '1s/: [^,]*,/: SOME GPU,/' "$written/$1.txt"; }
for table in $tables; do
  copy=$folder/$table.txt
  as_a_gpu "$table" >"$copy"
  compare "$table" "$copy"
  ok $? "$table: the same rows are the same"
  # One character of one row in the middle of the table: the last that is a hexadecimal digit.
  middle=$(($(wc -l <"$copy") / 2 + 1))
  perl -i -pe 's/(.*)([0-9a-f])/$1 . (hex($2) ^ 1 ? sprintf("%x", hex($2) ^ 1) : 0)/e if $. == '"$middle" "$copy"
  ! cmp -s "$copy" <(as_a_gpu "$table")
  ok $? "$table: row $middle altered"
  compare "$table" "$copy"
  ok $(($? != 1)) "$table: the altered entry is noticed"
  grep -qF "$(sed -n "${middle}p" "$copy" | cut -c1-150)" "$folder/differences"
  ok $? "$table: and named"
done
copy=$folder/copy
as_a_gpu mbarriers | sed '$d' >"$copy"
compare mbarriers "$copy"
ok $(($? != 1)) 'a row that the table lacks'
{ as_a_gpu mbarriers && echo 'mbarrier of another kind: waits'; } >"$copy"
compare mbarriers "$copy"
ok $(($? != 1)) 'a row that this machine lacks'
as_a_gpu mbarriers | sed '1s/: .*/: emulator, compute capability 9.0/' >"$copy"
compare mbarriers "$copy"
ok $(($? != 2)) "a table that the emulator wrote is none"

# Under the checker: no report but of refusals, and the same rows; in shuffled orders, too.
if [ "${B##*/}" = emu ]; then
  for seed in 0 1 2 3; do
    EMU_SEED=$seed build/check/tests/golden_tables >"$folder/checked" 2>"$folder/err"
    ok $? "the checker, seed $seed: every case has an answer" || diag "$(head -n 4 "$folder/err")"
    cmp -s "$folder/checked" <(for table in $tables; do cat "$written/$table.txt"; done) && [ "$(grep -c '^emulator: block' "$folder/err")" -eq "$(grep -c ': refused: ' "$folder/checked")" ]
    ok $? "the checker, seed $seed: the same rows, a report for each refusal and no other"
  done
fi
said=$($program nonsense 2>&1)
ok $(($? != 2)) "$said"
said=$(make -s --no-print-directory BACKEND=emu golden 2>&1)
ok $(($? != 2)) "$(head -n 1 <<<"$said")"
grep -q "$(cat tests/golden/*.txt | grep -vc "^#") facts" docs/emulator_hopper.md
ok $? "the page says how many facts there are"
size=$(cat "$written"/*.txt | wc -c)
ok $((size > 300000)) "$size bytes of tables, at most 300000"
done_testing
