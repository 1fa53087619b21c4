# Every question about a page is answered by a line that the page still has.
. tests/tap.inc
[ -e docs/results/questions.md ]
ok $? 'there are questions'
for file in docs/results/questions*.md; do
  said=$(scripts/check_questions.pl "$file" 2>&1)
  ok $? "$file: ten questions a table, and every quoted line stands where its link leads" || diag "$said"
done

# And the check itself notices.
folder=$(mktemp -d docs/.questions.XXXXXX)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/page.md" <<'END'
# A page

## One and `two`

* The *first* words of [a link](other.md#there) go on
  here, and take <!-- value: ms 02a fprop -->4.05<!-- /value --> ms of a second.

![what a picture shows to nobody at all](figure.svg)

## Another

It has other words than the one before.
END
page() { # ROW TEXT: a page of ten rows, of which ROW is TEXT
  printf '# Questions\n\n| | question | the line that answers it |\n|--:|---|---|\n'
  for i in 1 2 3 4 5 6 7 8 9 10; do
    if [ "$i" = "$1" ]; then printf '%s' "$2"; else echo "| $i | What? | [\"first words of a link go on here\"](page.md#one-and-two) |"; fi
  done
}
expect() { # STATUS WORDS WHAT: check_questions.pl ends so on what is at the input, and says WORDS
  cat >"$folder/questions.md"
  said=$(scripts/check_questions.pl "$folder/questions.md" 2>&1)
  status=$?
  [ $status -eq "$1" ] && [[ $said == *"$2"* ]]
  ok $? "$3" || diag "exit status $status" "$said"
}
row() { printf '| 4 | Why? | ["%s"](%s) |\n' "$1" "$2"; }
expect 0 '' 'ten rows that are right' < <(page 0 '')
expect 0 '' 'the marks of either side do not count, and a section has its sections' < <(page 4 "$(row 'The *first* `words` of a link go on' page.md#a-page)"$'\n')
expect 1 'does not say "first words of a link stop here"' 'a line that is not there' < <(page 4 "$(row 'first words of a link stop here' page.md#one-and-two)"$'\n')
expect 1 'does not say' 'a line of another section' < <(page 4 "$(row 'other words than the one before' page.md#one-and-two)"$'\n')
expect 1 'does not say' 'a number that a script put in' < <(page 4 "$(row 'and take 4.05 ms of a second' page.md#one-and-two)"$'\n')
expect 1 'does not say' 'words that only the source has' < <(page 4 "$(row 'what a picture shows to nobody' page.md#one-and-two)"$'\n')
expect 1 '4 words are quoted' 'too few words' < <(page 4 "$(row 'first words of a' page.md#one-and-two)"$'\n')
expect 1 'no such section' 'a section that is not there' < <(page 4 "$(row 'first words of a link go on' page.md#two)"$'\n')
expect 1 'no such section' 'a page that is not there' < <(page 4 "$(row 'first words of a link go on' nowhere.md#two)"$'\n')
expect 1 'expected | 4 | question |' 'a line without a link' < <(page 4 $'| 4 | Why? | "first words of a link go on here" |\n')
expect 1 '9 questions, expected 10' 'a table of nine' < <(page 4 '')
expect 1 'question 5, expected 4' '... and which one is missing' < <(page 4 '')
expect 1 'no table of questions' 'a page without questions' < <(echo 'No table.')
done_testing
