# The docs name files, functions, kernels, commands and options that exist.
. tests/tap.inc
all=$(scripts/check_names.pl README.md docs/*.md docs/results/*.md)
status=$?
for file in README.md docs/*.md docs/results/*.md; do
  missing=$(grep "^$file:" <<<"$all")
  [ -z "$missing" ]
  ok $? "$file names what exists" || diag "$missing"
done
[ $status -eq "$([ -z "$all" ] && echo 0 || echo 1)" ]
ok $? 'and every file was looked at' || diag "exit status $status" "$all"

# And the check itself notices: every line of a planted doc must be refused, with the words beside it.
folder=$(mktemp -d docs/.names.XXXXXX)
trap 'rm -rf "$folder"' EXIT
lines=0
wanted=()
plant() { # TEXT WORDS
  lines=$((lines + 1))
  printf '%s\n' "$1" >>"$folder/bad.md"
  [ -z "$2" ] || wanted+=("$folder/bad.md:$lines: $2")
}
plant 'See [that](nowhere.md).' 'link to nowhere.md: no such file'
plant 'See [that](../convolution.md#no-such).' 'link to ../convolution.md#no-such: no such heading'
plant 'See [that](#elsewhere).' 'link to #elsewhere: no such heading'
plant 'See ![that](../figures/nothing.svg).' 'link to ../figures/nothing.svg: no such file'
plant 'See `common/nothing.c`.' 'common/nothing.c: no such file'
plant 'See `nothing_at_all.c`.' 'nothing_at_all.c: no such file'
plant 'See `no_such_function()`.' 'no_such_function(): no such function'
plant 'See `no_such_name`.' 'no_such_name: no such name'
plant 'See kernel `99z`.' '99z: no such kernel'
plant 'Type `make nonsense`.' 'make nonsense: no such target'
plant 'Type `make run-02 CHARTREUSE=red`.' 'CHARTREUSE=: no such variable'
plant "Type \`make run-02 ARGS='--exact --chartreuse red'\`." '--chartreuse: no such option'
plant 'Add `--chartreuse`.' '--chartreuse: no such option'
plant 'Type `scripts/nothing 1`.' 'scripts/nothing: no such file'
plant 'Set `EMU_CHARTREUSE=1`.' 'EMU_CHARTREUSE=: no such variable'
plant '```sh' ''
plant 'make run-02 && make nonsense' 'make nonsense: no such target'
plant 'EMU_CHARTREUSE=1 build/emu/02 --no-chartreuse | head' 'EMU_CHARTREUSE=: no such variable'
plant 'build/emu/02 --no-chartreuse | head' '--no-chartreuse: no such option'
plant '```' ''
said=$(scripts/check_names.pl "$folder/bad.md")
ok $(($? != 1)) 'a doc that names what does not exist is refused'
for words in "${wanted[@]}"; do
  grep -qxF "$words" <<<"$said"
  ok $? "found: ${words#*: }"
done
[ "$(wc -l <<<"$said")" -eq $((${#wanted[@]} + 1)) ] # one line has two defects
ok $? 'and nothing else'

cat >"$folder/good.md" <<'END'
# A heading

## And `code` (in it)

See [this](#a-heading), [that](#and-code-in-it), [measuring](../measuring.md#the-floor), [all](../../common/), `common/conv/problem.h`, `problem.h`,
`problem_parse()`, `conv_problem`, `02b`, `make run-02`, `make count-NN`, `--exact`, `EMU_SEED=7`, `docs/results/<gpu>/bench.csv`, `x * w`, `build/any/thing`.

```sh
make run-02 SHAPE='mb1ic16ih28oc32oh28kh3ph1' ARGS='--no-time' | tail -n 1   # make nonsense
```
END
said=$(scripts/check_names.pl "$folder/good.md" 2>&1)
ok $? 'a doc that names what exists is accepted'
[ -z "$said" ] || diag "$said"
done_testing
