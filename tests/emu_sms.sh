# EMU_SMS: how many multiprocessors the emulated device says it has. 8 on every machine; another number on request; nonsense is refused.
. tests/tap.inc
emulator_only 'a GPU has the multiprocessors it has'
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# emu_api wants what the variable says, or 8.
for sms in '' 1 132 1024; do
  for threads in 1 3; do
    env ${sms:+EMU_SMS=$sms} EMU_THREADS=$threads "$B/tests/emu_api" >"$log" 2>&1 && grep -q '^ok .*device properties' "$log"
    ok $? "EMU_SMS=${sms:-unset}, $threads worker(s): as many multiprocessors"
  done
done
for sms in 0 -1 1025 8x x '' ' '; do
  EMU_SMS=$sms "$B/tests/emu_api" >/dev/null 2>"$log"
  [ $? -eq 2 ] && [ "$(cat "$log")" = "emulator: EMU_SMS: expected a number of multiprocessors, 1 to 1024, found '$sms'" ]
  ok $? "$(cat "$log")"
done
done_testing
