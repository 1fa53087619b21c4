# The emulator on aarch64: cross-compiles the harness, steps 01 and 02 and two tests, for the run and the check build, and runs them under
# qemu's user mode.
. tests/tap.inc
cxx=aarch64-linux-gnu-g++
if [ "${B##*/}" = cuda ] || ! command -v $cxx >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
  echo "1..1"
  echo "ok 1 # SKIP needs the emulator, $cxx and qemu-aarch64"
  exit 0
fi
build=build/aarch64
mkdir -p $build
cp "${B:-build/emu}/rewrite" $build/rewrite # it runs here
log=$(mktemp)
trap 'rm -f "$log"' EXIT
unset MAKEFLAGS
make -s -j 2 -o $build/rewrite B=$build REWRITE=$build/rewrite BACKEND=emu NVCC= NATIVE= CC=aarch64-linux-gnu-gcc CXX=$cxx \
  $build/01 $build/02 build/check-aarch64/01 build/check-aarch64/02 build/check-aarch64/tests/check_tiled build/check-aarch64/tests/check_late build/check-aarch64/tests/check_order \
  $build/tests/hopper_window $build/tests/emu_wgmma_product build/check-aarch64/tests/hopper_window \
  build/count-aarch64/tests/count_kernels >"$log" 2>&1
built=$?
ok $built "builds"
[ $built -eq 0 ] || tail -n 12 "$log" | sed 's/^/# /'

export EMU_ADDR2LINE=aarch64-linux-gnu-addr2line
emulated() { qemu-aarch64 -L /usr/aarch64-linux-gnu "$@"; }
for program in $build/01 $build/02 build/check-aarch64/01 build/check-aarch64/02; do
  emulated $program --no-time --suite nasty >"$log" 2>&1
  ok $? "$program, nasty list: $(tail -n 1 "$log")"
done
emulated build/check-aarch64/tests/check_tiled >"$log" 2>&1
ok $? "shared memory, barriers, __syncwarp, atomics under the checker"
emulated build/check-aarch64/tests/check_late no-wait >"$log" 2>&1
grep -q "^emulator check: uninitialised: .*check_late.cu:$(grep -n 'y\[row \*' tests/check_late.cu | head -n 1 | cut -d: -f1)," "$log"
ok $? "a missing wait is found, at its line: $(grep -m 1 '^emulator check' "$log")"
emulated build/check-aarch64/tests/check_order >"$log" 2>&1
ok $? "order between blocks"
emulated build/check-aarch64/tests/check_order no-barrier >"$log" 2>&1
grep -q "^emulator check: block-race: .*check_order.cu:$(grep -n 'sum += parts' tests/check_order.cu | head -n 1 | cut -d: -f1)," "$log"
ok $? "a fence without a barrier before it is found: $(grep -m 1 '^emulator check' "$log")"
emulated build/count-aarch64/tests/count_kernels >"$log" 2>&1
ok $? "kernels in lockstep"
for program in $build/tests/hopper_window build/check-aarch64/tests/hopper_window $build/tests/emu_wgmma_product; do
  emulated $program >"$log" 2>&1 && ! grep -q '^emulator' "$log"
  ok $? "$program: $(grep -c '^ok' "$log") checks"
done
done_testing
