# What CONTRIBUTING.md says that files keep: lengths, includes without circles, nothing in common/ that knows a step, pages, clang-format. And the script notices
# each fault.
. tests/tap.inc
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo '1..0 # SKIP not a checkout'; exit 0; }
for check in lengths kernels circles steps pages; do
  said=$(scripts/tidy.pl "$check" 2>&1)
  ok $? "$check"
  [ -z "$said" ] || diag "$said"
done
formats=
[[ $(clang-format --version 2>/dev/null) == *' version 14.'* ]] && formats=yes
if [ "$formats" ]; then
  said=$(scripts/tidy.pl format 2>&1)
  ok $? format || diag "$said"
else ok 0 'format # SKIP clang-format 14 is not here'; fi

T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
script=$PWD/scripts/tidy.pl
cd "$T" && git init -q . || exit 1
mkdir -p common/a common/b 01_x
seq 351 | sed 's/^/int a/; s/$/;/' >common/a/long.c
{ echo '__global__ void k() {' && seq 120 | sed 's/.*/  f();/' && echo '}'; } >01_x/a.cu
echo '#include "common/b/two.h"' >common/a/one.h
echo '#include "common/a/one.h"' >common/b/two.c
: >common/b/two.h
echo '#include "01_x/y.h"' >common/b/knows.c
git add -A
fault() { # CHECK LINE
  said=$("$script" "$1" 2>&1)
  ok $(($? != 1)) "$1: a fault is one"
  [ "$said" = "$2" ]
  ok $? "${2//$'\n'/; }"
  [ "$said" = "$2" ] || diag "$said"
}
fault lengths 'common/a/long.c: 351 lines, at most 350'
fault kernels '01_x/a.cu:1: a kernel of 122 lines, at most 120'
fault circles 'circle: common/a/one -> common/b/two -> common/a/one'
fault steps 'common/b/knows.c: includes 01_x/y.h'
mkdir -p docs/results
seq 351 >README.md
seq 3501 | tr '\n' ' ' >docs/words.md
seq 9999 >docs/results/free.md
block() { # LINES: a chapter with a block of so many, marked as a source's
  printf '# Step\n\n<!-- code: 01_x/a.cu | a | b -->\n\n```cuda\n'
  seq "$1"
  printf '```\n\n<!-- end of code -->\n'
}
block 8 >docs/01_right.md
block 30 >docs/02_right.md
block 7 >docs/03_short.md
block 31 >docs/04_long.md
{ echo '```cuda' && seq 10 && echo '```'; } >docs/05_typed.md
seq 10 >docs/00_free.md
git add -A
none='expected a block of 8 to 30 lines of a source (<!-- code: ... -->)'
fault pages "README.md: 351 lines, at most 350
docs/03_short.md: $none
docs/04_long.md: $none
docs/05_typed.md: $none
docs/words.md: 3501 words, at most 3500"
if [ "$formats" ]; then
  printf 'int  a;\n' >common/a/loose.c
  git add -A
  fault format 'common/a/loose.c: clang-format would change it (line 1)'
fi
said=$("$script" colours 2>&1)
ok $(($? != 2)) "$said"
done_testing
