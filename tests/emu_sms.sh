# EMU_SMS: how many multiprocessors the emulated device says it has. 8 on every machine; another number on request; nonsense is refused. So it is in every other
# variable of the emulator, also by programs that would not come to use it.
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
shape='--no-time --shape mb1ic1ih5oc1kh3 --pass fprop --kernel 02a'
refused() { # SETTING WORDS [PROGRAM]
  # shellcheck disable=SC2086
  out=$(env "$1" "${3:-$B/02}" $shape 2>&1 >/dev/null)
  [ $? -eq 2 ] && [ "$out" = "emulator: ${1%%=*}: expected $2, found '${1#*=}'" ]
  ok $? "$1: $out"
}
for seed in x -1 0x7 18446744073709551616 ''; do refused EMU_SEED="$seed" 'an integer from 0 to 18446744073709551615'; done
for threads in 0 257 4x; do refused EMU_THREADS=$threads 'a number of workers, 1 to 256'; done
for late in 2 yes; do refused EMU_LATE=$late '0 or 1'; done
for stack in 8 65537 64k; do refused EMU_STACK_KB=$stack "kilobytes of a CUDA thread's stack, 16 to 65536"; done
for blocks in 0 -1 every; do refused EMU_COUNT_BLOCKS=$blocks 'a number of blocks from 1, or all'; done
refused EMU_COUNT_LAUNCHES=2 all
for name in EMU_SEEDS EMU_SM EMU_; do
  # shellcheck disable=SC2086
  out=$(env $name=1 "$B/02" $shape 2>&1 >/dev/null)
  [ $? -eq 2 ] && [ "$out" = "emulator: $name: expected EMU_ARCH, EMU_COUNT_BLOCKS, EMU_COUNT_LAUNCHES, EMU_LATE, EMU_SEED, EMU_SMS, EMU_STACK_KB, EMU_THREADS, EMU_ADDR2LINE or EMU_COUNT_JSON" ]
  ok $? "$out"
done
# shellcheck disable=SC2086
EMU_SEED=18446744073709551615 EMU_THREADS=256 EMU_LATE=1 EMU_STACK_KB=128 EMU_COUNT_BLOCKS=all EMU_SMS=1024 "$B/02" $shape >"$log" 2>&1
ok $? 'numbers at their ends'
refused GPU=x900 'a row of common/harness/gpus.h, h200 or h100' build/count/02
# shellcheck disable=SC2086
out=$(EMU_COUNT_JSON=/no/such/folder/counts build/count/02 $shape 2>&1 >/dev/null)
[ $? -eq 2 ] && [ "$out" = 'EMU_COUNT_JSON: /no/such/folder/counts: cannot write: No such file or directory' ]
ok $? "$out"
done_testing
