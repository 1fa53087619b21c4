# The docs show what their markers stand for now.
. tests/tap.inc
emulator_only 'the commands of the docs use the emulator'
pages=(README.md docs/*.md docs/results/*.md)
said=$(scripts/fill_docs.pl --check "${pages[@]}" --tables 2>&1) # all by one process: it reads every result once
status=$?
for file in "${pages[@]}" "docs/results/$(cat docs/results/shown)/tables.md"; do
  ok "$(grep -qxF "$file: up to date" <<<"$said"; echo $?)" "$file is up to date"
done
ok $status 'and nothing else is wrong with them' || diag "$(grep -v ': up to date$' <<<"$said")"
# The checker's sample reports name lines of real files: those lines still hold what the reports are about.
line() { sed -n "$2p" "$1"; }
while read -r file number; do
  line "$file" "$number" | grep -qE 'sum \+=|tile\[|<<<'
  ok $? "docs/emulator.md: $file:$number is a line that a report could name"
done < <(grep -E '^emulator' docs/emulator.md | grep -oE '[a-z0-9_/]+\.cu:[0-9]+' | sort -u | tr ':' ' ')

# And the check itself notices. expect STATUS TEXT WHAT: fill_docs.pl --check ends so on a file with this text.
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
expect() {
  printf "%b" "$2" >"$copy"
  scripts/fill_docs.pl --check "$copy" >/dev/null 2>&1
  status=$?
  ok "$((status != $1))" "$3"
  [ "$status" -eq "$1" ] || diag "exit status $status instead of $1"
}
now=$(scripts/fill_docs.pl --print ms 02a fprop)
table=$(scripts/fill_docs.pl --print headline)
expect 1 '<!-- output of: echo new -->\nold\n<!-- end of output -->\n' 'a stale block'
expect 0 "<!-- output of: echo 'n  w' -->\n\n\`\`\`text\nn  w\n\`\`\`\n\n<!-- end of output -->\n" 'a block that is not, with quotes in its command'
expect 2 '<!-- output of: false -->\nold\n<!-- end of output -->\n' 'a command that fails'
expect 2 '<!-- output of: echo new -->\nold\n' 'a block without an end'
expect 0 '```sh\necho 1\necho 2\n```\n\n<!-- output of: the block above -->\n\n```text\n1\n2\n```\n\n<!-- end of output -->\n' 'the block above'
expect 1 '<!-- code: tests/tap.h | #pragma once | #pragma once -->\nold\n<!-- end of code -->\n' 'code that is not what the source has'
expect 0 '<!-- code: tests/tap.h | #pragma once | #pragma once -->\n\n```cuda\n#pragma once\n```\n\n<!-- end of code -->\n' 'code that is'
expect 2 '<!-- code: tests/tap.h | #pragma once | no such line -->\nold\n<!-- end of code -->\n' 'code whose last line is not there'
expect 2 '<!-- code: tests/tap.h | va_list arguments; | va_end -->\nold\n<!-- end of code -->\n' 'code whose first line could be another'
scripts/fill_docs.pl --check "$copy" 2>&1 | grep -qF 'expected one line of tests/tap.h with "va_list arguments;", found lines 16, 29'
ok $? '... and it says which lines'
expect 0 "<!-- code: tests/tap.h |   if (!condition) | tap_failed++ -->\n\n\`\`\`cuda\nif (!condition) tap_failed++;\n\`\`\`\n\n<!-- end of code -->\n" 'blanks before the text of the first line'
expect 2 '<!-- code: tests/none.h | a | b -->\nold\n<!-- end of code -->\n' 'code of no file'
expect 2 '<!-- code: tests/tap.h | a | b -->\nold\n' 'code without an end'
expect 2 'Text.\n\n<!-- output of: the block above -->\nold\n<!-- end of output -->\n' 'no block above'
expect 0 "It takes <!-- value: ms 02a fprop -->$now<!-- /value --> ms.\n" 'a value that is not stale'
expect 1 "It takes <!-- value: ms 02a fprop -->1$now<!-- /value --> ms.\n" 'a stale value'
expect 2 'It takes <!-- value: chairs 02a -->4<!-- /value --> ms.\n' 'a value of no name'
expect 2 'It takes <!-- value: ms 02a -->4<!-- /value --> ms.\n' 'a value that lacks a parameter'
expect 2 'It takes <!-- value: ms 02a fprop mb1 4 -->4<!-- /value --> ms.\n' 'a value with one too many'
expect 2 'It takes <!-- value: peak -->4<!-- /value --> ms.\n' 'a value of a formula without a format'
expect 2 'It takes <!-- value: ms 02a fprop -->4\n<!-- /value --> ms.\n' 'a value that is not closed on its line'
expect 2 "<!-- value: ms 02a fprop -->$now<!-- /value --> ms.\n" 'a line that begins with a value'
expect 0 "<!-- table: headline -->\n\n$table\n\n<!-- end of table -->\n" 'a table that is not stale'
expect 1 '<!-- table: headline -->\nold\n<!-- end of table -->\n' 'a stale table'
expect 2 '<!-- table: chairs -->\nold\n<!-- end of table -->\n' 'a table that is none'
expect 2 '<!-- table: layers fprop -->\nold\n<!-- end of table -->\n' 'a table that lacks a parameter'
expect 2 '<!-- table: headline -->\nold\n' 'a table without an end'

# scripts/npy: what it wrote it shows, and it refuses the rest with one line.
scripts/npy make "$copy" 1,2,2,3 1 2 3 4 5 6 -7 8 9 1e3 11 0.5
[ "$(scripts/npy show "$copy")" = "$(printf '   1    2    3\n   4    5    6\n\n  -7    8    9\n1000   11  0.5')" ]
ok $? 'npy: made and shown'
for bad in 'make x.npy' 'make x.npy 1,1,2 1 2' 'make x.npy 1,1,1,2 1' 'make x.npy 1,1,1,1 one' 'show README.md' 'show nowhere.npy' 'turn x.npy'; do
  said=$(scripts/npy $bad 2>&1)
  ok $(($? != 2 || $(wc -l <<<"$said") != 1)) "npy refuses: $bad"
done
done_testing
