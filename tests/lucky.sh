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
# Without addr2line there are no lines, and one line says why; with it nothing is said.
for tool in /nope true; do
  said=$(EMU_ADDR2LINE=$tool build/check/tests/lucky 2>&1)
  [ "$(grep -c "^emulator: $tool: expected a program that finds source lines, such as addr2line" <<<"$said")" -eq 1 ] && grep -q '^emulator check: race: add_neighbour, ?:0' <<<"$said"
  ok $? "EMU_ADDR2LINE=$tool: $(grep -m 1 'source lines' <<<"$said")"
done
said=$(PATH=/nope build/check/tests/lucky 2>&1)
grep -q '^emulator: addr2line: expected a program' <<<"$said"
ok $? 'no addr2line on the path'
said=$(build/check/tests/lucky 2>&1)
! grep -q 'source lines' <<<"$said"
ok $? 'addr2line is there: nothing is said of it'
done_testing
