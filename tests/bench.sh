# scripts/bench.sh: which steps it runs over a suite, and that each counts on a layer that it can do.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
built=$(cd "$B" && pwd)
for f in scripts common 01_* 04_* 06_*; do ln -s "$PWD/$f" "$T/"; done
echo 'mb1ic3ih5oc4oh5kh3ph1' >"$T/dense"
echo 'g8mb1ic8ih9oc8oh9kh3ph1' >"$T/depthwise"
# runs SUITE WANTED: the steps that run over it. (On a GPU they are timed beside cuDNN, whose plans for such layers nobody has searched before.)
runs() {
  (cd "$T" && COUNT= scripts/bench.sh "$built" "$1" --search-seconds 1 >said 2>&1)
  ok $? "$1: every result is right" || sed 's/^/# /' "$T/said"
  got=$(grep -oE '^\[[0-9]+/[0-9]+\] step [0-9]+' "$T/said" | tr '\n' ' ')
  [ "$got" = "$2" ]
  ok $? "$1: $2" || diag "$got"
}
runs dense '[1/3] step 01 [2/3] step 04 [3/3] step 06 '
runs depthwise '[1/3] step 01 [2/3] step 04 [3/3] step 06 '
if [ "${B##*/}" = emu ]; then
  counted=$PWD/build/count
  (cd "$T" && COUNT=$counted scripts/bench.sh "$built" dense >said 2>&1)
  ok $? 'requests are counted'
  for step in 01 04 06; do
    grep -qE "^$step[a-z] \w+_kernel" "$T/said"
    ok $? "of step $step, on a layer that it can do"
  done
fi
for step in 01 04 06; do
  shape=$("$B/$step" --help | sed -n 's/^default shape: //p')
  "$B/$step" --no-time --exact >"$T/said" 2>&1 && grep -qF "$shape " "$T/said"
  ok $? "step $step without a shape: $shape"
done
done_testing
