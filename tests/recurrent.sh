# A recurrent layer three ways: right on integers and within its bound, for each size of cluster, under the checker, in any order; and bad input.
. tests/tap.inc
recurrent=$B/tools/recurrent
out=$(mktemp)
# PROGRAM WHAT ARGUMENTS...
right() {
  local program=$1 what=$2 status=0 ways=${WAYS:-3}
  shift 2
  "$program" --no-time "$@" >"$out" 2>&1 || status=1
  [ "$(grep -c 'exact on integers' "$out"),$(grep -c 'of the error bound' "$out")" = $ways,$ways ] || status=2
  grep -q 'emulator check:' "$out" && status=3
  ok $status "$what"
  [ $status -eq 0 ] || diag "$(tail -4 "$out")"
}
refused() { # LINE ARGUMENTS...
  local want=$1 got status
  shift
  got=$("$recurrent" "$@" 2>&1)
  status=$?
  ok $((status != 2)) "refused: $*"
  [ "$got" = "$want" ]
  ok $? "... $want"
  [ "$got" = "$want" ] || diag "got $got"
}
if [ "${B##*/}" = emu ]; then
  check=${B%/*}/check/tools/recurrent
  for hidden in 64 128 256 512 1024; do right "$recurrent" "$hidden hidden units" --hidden $hidden --batch 3 --steps 4; done
  right "$recurrent" 'one step, one sequence' --no-cudnn --hidden 64 --batch 1 --steps 1
  right "$recurrent" 'two clusters and a sequence' --hidden 128 --batch 17 --steps 7
  WAYS=2 right "$recurrent" 'states that are images' --hidden 64 --batch 2 --steps 3 --image 9 --filter 3
  WAYS=2 right "$check" '... checked' --hidden 72 --batch 1 --steps 3 --image 7 --filter 5
  right "$check" 'nothing for the checker to say' --hidden 256 --batch 9 --steps 6
  for seed in 1 2 3; do EMU_SEED=$seed right "$check" "... in a shuffled order ($seed)" --hidden 128 --batch 9 --steps 5; done
  EMU_SMS=1 refused 'recurrent: 07i: no cluster of so many blocks (hidden units / 64) fits this device' --hidden 1024
  EMU_ARCH=80 refused 'recurrent: 07i: clusters: only compute capability 9.0 and up has them'
else
  right "$recurrent" '1024 hidden units, 32 sequences, 16 steps' --steps 16
fi
refused 'recurrent: 07i: hidden units are not 64, 128, 256, 512 or 1024' --hidden 96
refused '--filter: expected an odd number, got 4' --filter 4
refused '--steps: expected with 65536 sequences at most 32767, got 65536' --batch 65536 --steps 65536 --filter 3
refused 'recurrent: expected hidden units that step 07 has a kernel for, such as a multiple of 8, got 12' --hidden 12 --image 3 --filter 3
refused '--steps: expected an integer from 1 to 65536, got "0"' --steps 0
refused 'recurrent: expected options alone (see --help), got "more"' more
rm -f "$out"
done_testing
