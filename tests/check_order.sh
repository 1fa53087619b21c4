# Order between blocks: the checker is silent about every right way to let the last block add up, and names what is read too early.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
program=build/check/tests/check_order

silent "$log" 'right kernels' '0 1 2 3 4 5 6 7 8' $program
status=0
for i in 1 2 3 4 5 6 7 8; do EMU_THREADS=4 $program >"$log" 2>&1 && ! grep -q '^emulator' "$log" || status=1; done
ok $status "the same 8 times on 4 workers"
[ $status -eq 0 ] || sed 's/^/# /' "$log"

# found CASE LINE TEXT: of this case the checker reports a race of blocks at the line that contains LINE; the report contains TEXT. In any order.
found() {
  local line seed status=0
  line=$(grep -nF -- "$2" tests/check_order.cu | head -n 1 | cut -d: -f1)
  for seed in 0 1 2 3; do
    EMU_SEED=$seed EMU_THREADS=4 $program "$1" >"$log" 2>&1
    [ $? -eq 1 ] && grep "^emulator check: block-race: .*, tests/check_order.cu:$line, " "$log" | grep -qF -- "$3" || status=1
  done
  ok $status "$1: $(grep -m 1 '^emulator check' "$log")"
}
parts='sum += parts[i * THREADS + threadIdx.x]'
wrote='wrote it at tests/check_order.cu'
found no-fence "$parts" "$wrote"
found early-fence "$parts" "$wrote"
found no-barrier "$parts" "$wrote"
found no-barrier-atomic "$parts" "$wrote"
found write-late "$parts" "$wrote"
found plain-counter '(*counter)++' "$wrote"
found no-barrier-after 'sum += parts[i * 32 +' "$wrote"
found two-steps-no-fence 'sum += parts[i * THREADS + (threadIdx.x + 40)' "$wrote"
found atomic-sums-no-fence 'y[threadIdx.x] = parts[threadIdx.x] * 2' 'several blocks atomically changed it at'
found tiles-early-fence 'sum += mine[' "$wrote"
done_testing
