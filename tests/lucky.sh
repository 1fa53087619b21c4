# The race of the front page: right by luck in the build that runs it, and found by the checker, whatever the order.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
said=$("$B/tests/lucky")
ok $? "without the checker: $(head -n 1 <<<"$said")"
line=$(grep -n '__syncthreads() before it' tests/lucky.cu | cut -d: -f1)
for seed in 0 1 2 3; do
  said=$(EMU_SEED=$seed build/check/tests/lucky 2>&1)
  status=$?
  [ $status -eq 1 ] && grep -q "^emulator check: race: add_neighbour, .*tests/lucky.cu:$line" <<<"$said"
  ok $? "seed $seed: $(grep -m 1 '^emulator check' <<<"$said")"
done
done_testing
