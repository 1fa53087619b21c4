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
# What cannot be read is refused in a line, before an earlier result is lost.
mkdir -p "$T/build/cuda" && for main in 0?_*/main.c; do ln -sf "$built/${main%%_*}" "$T/build/cuda/"; done
refused() { # WANTED SCRIPT ARGUMENTS...
  touch "$T"/build/results/{01,04,06}-{rubbish,dense,batch}.{csv,json,log}
  find "$T/build/results" -type f | sort >"$T/before"
  out=$(cd "$T" && COUNT= "scripts/$2" "${@:3}" 2>&1)
  [ $? -eq 2 ] && [[ $out == $1 ]] && [ "$(wc -l <<<"$out")" -eq 1 ] && find "$T/build/results" -type f | sort | cmp -s - "$T/before"
  ok $? "$2 ${*:4}: $out"
}
refused '--suite: rubbish: expected a readable file of benchdnn lines: *' bench.sh "$built" rubbish
refused '--suite: a|b|--help: expected a readable file *' bench.sh "$built" 'a|b|--help'
refused "*: unrecognized option '--rubbish'" bench.sh "$built" dense --rubbish
refused '--shape: kh: expected a filter of at most 5 pixels *' batch.sh build/cuda ic1ih5oc1kh9
refused '--pass: expected fprop, *, got "sideways"' batch.sh build/cuda ic1ih5oc1kh3 sideways
if [ "${B##*/}" = emu ]; then
  counted=$PWD/build/count
  (cd "$T" && COUNT=$counted scripts/bench.sh "$built" dense >said 2>&1)
  ok $? 'requests are counted'
  for step in 01 04 06; do
    grep -qE "^$step[a-z] \w+_kernel" "$T/said"
    ok $? "of step $step, on a layer that it can do"
  done
fi
# What runs on a GPU, by programs that only say what they were asked: no run overwrites another's file, and step 06 has ResNet-50 in fp16 by its own choice.
mkdir -p "$T/gpu/build/cuda"
for f in scripts common 0?_*; do ln -s "$PWD/$f" "$T/gpu/"; done
cat >"$T/program" <<'END'
#!/usr/bin/env bash
[[ " $* " == *' --which '* ]] && printf 'shape\nlayer\n' && exit
echo "${0##*/} $*" >>asked
while [ $# -gt 0 ]; do
  [ "$1" = --csv ] && { echo "$2" >>written; printf 'shape,name,pass,kernel,status,us_median,floor_us,floor_share,cudnn_best_us,bound_share,note\nmb1ic8ih8oc8oh8kh1,l,fprop,%sa,right,1,1,1,1,0,\n' "${0##*/}" >"$2"; }
  shift
done
echo '1 right'
END
chmod +x "$T/program"
for main in 0?_*/main.c; do cp "$T/program" "$T/gpu/build/cuda/${main%%_*}"; done
(cd "$T/gpu" && COUNT= scripts/bench.sh build/cuda >said 2>&1)
ok $? 'a GPU: its runs' || sed 's/^/# /' "$T/gpu/said"
[ "$(grep -c '^06 --suite resnet50 --pass fprop --dtype fp16 --batch 32 --kernel auto ' "$T/gpu/asked")" = 1 ] && [ "$(grep -c '^0[0-24] --suite resnet50' "$T/gpu/asked")" = 0 ] && [ -z "$(sort "$T/gpu/written" | uniq -d)" ]
ok $? 'ResNet-50 in fp16 by what step 06 takes, no file written twice' || diag "$(cat "$T/gpu/asked")"
# A plan of cuDNN's that does not end: the step runs again, five times at most; any other failure is one.
cat >"$T/program" <<'END'
#!/usr/bin/env bash
[[ " $* " == *' --which '* ]] && printf 'shape\nlayer\n' && exit
[[ " $* " == *' --list '* ]] && exit
echo "${0##*/}" >>ran
case "${0##*/} $(grep -c "^${0##*/}$" ran)" in
  '01 1' | '01 2' | '02 '*) echo 'cuDNN: expected its plan eng4 to run in 60 s, and it has not ended (key): the next run leaves it out'; exit 1 ;;
  '03 '*) echo 'something else: failed'; exit 1 ;;
esac
while [ $# -gt 0 ]; do
  [ "$1" = --csv ] && printf 'shape,name,pass,kernel,status,us_median,floor_us,floor_share,cudnn_best_us,bound_share,note\nmb1ic8ih8oc8oh8kh1,l,fprop,%sa,right,1,1,1,1,0,\n' "${0##*/}" >"$2"
  shift
done
echo '1 right'
END
for main in 0?_*/main.c; do cp "$T/program" "$T/gpu/build/cuda/${main%%_*}"; done
(cd "$T/gpu" && COUNT= scripts/bench.sh build/cuda seed >said 2>&1)
[ $? -eq 1 ] && [ "$(sort "$T/gpu/ran" | uniq -c | awk '{ printf "%s:%s ", $2, $1 }')" = '00:1 01:3 02:5 03:1 04:1 05:1 06:1 07:1 ' ] && [ "$(grep -c FAILED "$T/gpu/said")" = 2 ]
ok $? 'plans that do not end: again, five times at most' || diag "$(cat "$T/gpu/said" "$T/gpu/ran")"
for step in 01 04 06; do
  shape=$("$B/$step" --help | sed -n 's/^default shape: //p')
  "$B/$step" --no-time --exact >"$T/said" 2>&1 && grep -qF "$shape " "$T/said"
  ok $? "step $step without a shape: $shape"
done
done_testing
