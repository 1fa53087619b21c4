# Late mode: a missing wait for cp.async cannot be seen when copies are done at once, gives wrong results when they are done late, and is
# named by the checker.
. tests/tap.inc
emulator_only 'late mode is part of the emulator'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run=$B/tests/check_late check=build/check/tests/check_late

"$run" >"$log" 2>&1
ok $? "run build, eager: the right kernel is right"
EMU_LATE=1 "$run" >"$log" 2>&1
ok $? "run build, late: still right"
"$run" no-wait >"$log" 2>&1
ok $? "run build, eager: without the wait it is right by luck"
! EMU_LATE=1 "$run" no-wait >"$log" 2>&1
ok $? "run build, late: without the wait it is wrong: $(head -n 1 "$log")"
for seed in 0 1 2 3; do
  EMU_SEED=$seed "$check" >"$log" 2>&1
  ok $? "check build: no report on the right kernel (seed $seed)"
done
EMU_LATE=0 "$check" >"$log" 2>&1
ok $? "check build, eager: no report either"

# found DEFECT KIND TEXT: the checker's report has the kind and the text.
found() {
  "$check" "$1" >"$log" 2>&1
  [ $? -eq 1 ] && grep "^emulator check: $2: rows<" "$log" | grep -q -- "$3"
  ok $? "check build, $1: $(grep -m 1 "^emulator check: $2" "$log")"
}
line() { grep -n -- "$1" tests/check_late.cu | head -n 1 | cut -d: -f1; }
found no-wait uninitialised "check_late.cu:$(line 'y\[row \*').*a copy that nobody has waited for"
found no-barrier race "check_late.cu:$(line 'y\[row \*')"
found early race "check_late.cu:$(line '__pipeline_memcpy_async(')"
done_testing
