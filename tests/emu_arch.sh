# EMU_ARCH: which GPU the emulator plays. An older one refuses newer instructions, in words; its own kernels run; nonsense is refused.
. tests/tap.inc
emulator_only 'a GPU is what it is'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$B/tests/hopper_window" >"$log" 2>&1
ok $? 'by default it has wgmma'
EMU_ARCH=80 "$B/tests/hopper_window" >"$log" 2>&1
[ $? -ne 0 ] && grep -q '^emulator: .*mbarrier.init at tests/hopper_window.cu:[0-9]*: needs compute capability 9.0, and EMU_ARCH=80$' "$log"
ok $? "EMU_ARCH=80: $(grep -m 1 -o 'mbarrier.init.*' "$log")"
EMU_ARCH=80 "$B/06" --no-time --shape g8mb1ic8ih8oc8kh3ph1 >"$log" 2>&1 && tail -n 1 "$log" | grep -q '^[1-9][0-9]* right, 0 wrong'
ok $? "EMU_ARCH=80: mma.sync runs: $(tail -n 1 "$log")"
for arch in 90a 70 0 x ''; do
  EMU_ARCH=$arch "$B/tests/emu_api" >/dev/null 2>"$log"
  [ $? -eq 2 ] && [ "$(cat "$log")" = "emulator: EMU_ARCH: expected a compute capability, 75, 80, 86, 89 or 90, found '$arch'" ]
  ok $? "$(cat "$log")"
done
done_testing
