# What CONTRIBUTING.md says that files keep: lengths, includes without circles, nothing in common/ that knows a step, clang-format. And the script notices each
# fault.
. tests/tap.inc
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo '1..0 # SKIP not a checkout'; exit 0; }
for check in lengths kernels circles steps; do
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
  ok $? "$2"
  [ "$said" = "$2" ] || diag "$said"
}
fault lengths 'common/a/long.c: 351 lines, at most 350'
fault kernels '01_x/a.cu:1: a kernel of 122 lines, at most 120'
fault circles 'circle: common/a/one -> common/b/two -> common/a/one'
fault steps 'common/b/knows.c: includes 01_x/y.h'
if [ "$formats" ]; then
  printf 'int  a;\n' >common/a/loose.c
  git add -A
  fault format 'common/a/loose.c: clang-format would change it (line 1)'
fi
said=$("$script" colours 2>&1)
ok $(($? != 2)) "$said"
done_testing
