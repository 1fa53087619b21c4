# What is typed at make: text that no shell and no make runs; one line for what cannot be meant; and two makes in one folder wait for each other.
. tests/tap.inc
emulator_only 'a Makefile is read the same way everywhere'
T=$(mktemp -d)
mark=ran-by-make.$$ # here: a goal with a slash in it would be no run-NAME
here=$PWD
trap 'rm -rf "$T" "$here/$mark"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL GPU ARCH SHAPE SUITE
mkdir "$T/tree" # the same sources, with a build folder of its own
for f in Makefile common scripts docs tests README.md [0-9][0-9]_*; do ln -s "$PWD/$f" "$T/tree/"; done
make() { command make -s --no-print-directory BACKEND=emu "$@"; }

# ---------------------------------------------------------------- text

# To have a command run: by a shell from within quotes, from within double quotes or none, and by make.
harm="'; touch $mark; '\$(touch $mark)\`touch $mark\`\$(shell touch $mark)"
# harmless TEXT PATTERN MAKE_ARGUMENTS...: nothing is run, and the answer has a line of that pattern. HARM in an argument stands for the above.
harmless() {
  out=$(make "${@:3}" 2>&1)
  [ $? -eq 2 ] && [ ! -e "$mark" ] && grep -qE "$2" <<<"$out"
  ok $? "$1" || diag "$(head -n 5 <<<"$out")" "$(ls "$mark" 2>/dev/null)"
  rm -f "$mark"
}
harmless run-NN '^--batch: expected an integer .*touch' run-02 SHAPE="$harm" PASS="$harm" SUITE="$harm" KERNEL="$harm" BATCH="$harm" RANDOM_SHAPES="$harm" ARGS="$harm"
harmless 'run-NN ARGS=' '^build/emu/02: expected options only' run-02 ARGS="$harm"
harmless count-NN '^emulator: GPU: expected .*touch' count-02 GPU="$harm" SHAPE="$harm"
harmless bench '^--suite: .*touch' bench SUITE="$harm"
harmless batch '^batch: expected a GPU' batch SHAPE="$harm" PASS="$harm"
harmless image '^FILTER: expected .*touch' image IMAGE="$harm" FILTER="$harm" SIZE="$harm" STEP="$harm"
harmless plots '^RESULTS: expected .*touch' plots RESULTS="$harm" LAYER="$harm"
harmless 'docs, emulated, figures, plots, cuts' '^GPU: expected .*touch' -k docs emulated figures plots cuts GPU="$harm"
harmless cuts '^--(shape|suite|pass)' cuts SHAPE="$harm" SUITE="$harm" PASS="$harm" ARGS="$harm"
harmless exercise-NN '^FILE: expected .*touch' exercise-nhwc FILE="$harm" SEED="$harm" LIMIT="$harm"
harmless 'profile-NN, sanitize' '^profile-02: expected nvcc and an NVIDIA GPU' -k profile-02 sanitize AGAINST="$harm" PASS="$harm" KERNEL="$harm" SHAPE="$harm" STEP="$harm" TOOL="$harm"
harmless explain-NAME '' explain-swizzle ARGS="$harm"
harmless 'a folder to build in' '^common/typed.mk:[0-9]+: \*\*\* B: expected a folder' B="$harm" 02
harmless ARCH '^common/machine.mk:[0-9]+: \*\*\* ARCH: expected compute capabilities' ARCH="$harm" help
goals=()
for goal in run exercise explain test build/cuda/ check count sass profile build/emu/; do goals+=("$goal-$harm"); done
harmless 'goals that there are not' '^run-.*: expected one of run-00' -k "${goals[@]}" "build/emu/$harm/kernel_sources.c" "build/cuda/$harm"
[ "$(grep -cE ': expected |No rule to make target' <<<"$out")" -ge 10 ]
ok $? '... each is answered' || diag "$out"
out=$(SHAPE='$(x)' make run-02 2>&1)
[ $? -eq 2 ] && grep -qF -- '--shape: shape: expected' <<<"$out" && grep -qF '"$(x)"' <<<"$out"
ok $? 'SHAPE=$(x) in the environment is not an empty one' || diag "$out"
for lines in "SHAPE=mb1"$'\n'"touch $mark #" "GPU=h200"$'\n'"touch $mark #" "run-x"$'\n'"touch $mark #"; do
  out=$(make run-02 "$lines" 2>&1)
  [ $? -eq 2 ] && [ ! -e "$mark" ] && grep -qE ': \*\*\* .*: expected .*one line' <<<"$out"
  ok $? "two lines in ${lines%%[=-]*}" || diag "$out"
done
# On a machine with a GPU: the line that would be run there, with another script.
for h in "$harm" 'a b'; do
  printed=$(make -n compare-counts SHAPE="$h" 2>/dev/null | grep '^scripts/compare_counts.sh ')
  [ "$(bash -c "said() { printf '%s\n' \"\$@\"; }; said ${printed#* }")" = "$h" ] && [ ! -e "$mark" ]
  ok $? "compare-counts SHAPE=$h" || diag "$printed"
  rm -f "$mark"
done

# ---------------------------------------------------------------- what cannot be meant

# refused 'LINE' MAKE_ARGUMENTS...: in the copy, where nothing has been built. A line of make's own may follow.
refused() {
  local want=$1
  shift
  out=$(cd "$T/tree" && make "$@" 2>&1)
  [ $? -eq 2 ] && [ "$(grep -vE '^make: \*\*\* (\[|Waiting)' <<<"$out" | sed -E 's/^common\/[a-z]+\.mk:[0-9]+: \*\*\* (.*)\.  Stop\.$/\1/')" = "$want" ]
  ok $? "$*: $want" || diag "$out"
}
printf '%s\n' '#!/bin/sh' 'case $* in *--version*) echo nvcc ;; *--list-gpu-code*) printf "sm_80\nsm_90\nsm_90a\n" ;; *) exit 1 ;; esac' >"$T/nvcc"
chmod +x "$T/nvcc"
refused 'CC: expected gcc or clang, got "no-such-gcc -O", which is not here' CC='no-such-gcc -O' build/emu/common/files/pnm.c.o
refused 'CXX: expected g++ or clang++, got "no-such-g++", which is not here' CXX=no-such-g++ build/emu/common/files/pnm.c.o
refused "NVCC: expected the CUDA compiler, or nothing, got \"$T/no-nvcc\"" NVCC="$T/no-nvcc" nvcc-check
refused 'ARCH: expected compute capabilities, such as 80 or 90a, got "9.0"' NVCC= ARCH=9.0 01
refused 'ARCH: expected compute capabilities, such as 80 or 90a, got ""' NVCC= ARCH= 01
for arch in sm_90 '80 12'; do refused "ARCH: expected compute capabilities that this nvcc knows, such as 80 or 90a, got \"$arch\"" NVCC="$T/nvcc" ARCH="$arch" BACKEND=cuda 01; done
refused 'run-99: expected one of run-00 run-01 run-02 run-03 run-04 run-05 run-06 run-07' NVCC="$T/nvcc" ARCH='80  90a 90f' run-99
refused 'BACKEND: expected cuda or emu, got "emu cuda"' BACKEND='emu cuda' 01
refused 'check-09: expected one of check-01 check-02 check-03 check-04 check-05 check-06 check-07 with BACKEND=emu' BACKEND='emu ' check-09
gpus=$(printf '%s\n' docs/results/*/*.csv | cut -d/ -f3 | sort -u | grep -vx 'emulator\|cpu' | xargs)
refused "GPU: expected a folder of docs/results ($gpus), got \"x900\"" GPU=x900 docs emulated show figures plots
refused "GPU: expected a folder of docs/results ($gpus), got \"%\"" GPU=% docs

# ---------------------------------------------------------------- two at a time

cat >"$T/hold.mk" <<'END'
hold-%: ; @echo begin $* >>log; for i in 1 2 3 4 5 6; do sleep 0.1; done; echo end $* >>log
inside: ; @$(MAKE) -s -f Makefile -f $(HOLD) hold-1 && env -u MAKEFLAGS -u MAKELEVEL make -s -f Makefile -f $(HOLD) hold-2
forever: ; @echo $$PPID >log; while [ -d /proc/$$PPID ]; do sleep 0.1; done
END
cd "$T/tree" || exit 1
held() { rm -f log && make -f Makefile -f "$T/hold.mk" HOLD="$T/hold.mk" "$@"; }
rm -f log
for i in 1 2 3; do make -f Makefile -f "$T/hold.mk" hold-$i 2>>"$T/said" & done
wait
[ "$(cut -d' ' -f1 log | xargs)" = 'begin end begin end begin end' ] && [ "$(sort log | xargs)" = 'begin 1 begin 2 begin 3 end 1 end 2 end 3' ]
ok $? 'three makes, one after the other' || diag "$(cat log)"
[ "$(grep -cE '^make: waiting for process [0-9]+, another make at work in this folder$' "$T/said")" -ge 2 ]
ok $? "$(head -n 1 "$T/said")" || diag "$(cat "$T/said")"
timeout 60 bash -c "$(declare -f make held); T=$T; held inside" >"$T/said" 2>&1 && [ "$(xargs <log)" = 'begin 1 end 1 begin 2 end 2' ] && ! grep -q waiting "$T/said"
ok $? 'a make that a make starts does not wait for it, though it were started as another' || diag "$(cat log "$T/said")"
held forever 2>/dev/null &
disown
until [ -s log ]; do sleep 0.05; done
out=$(timeout 20 bash -c "$(declare -f make); make help && make -n run-01" 2>&1)
ok $? 'make help and make -n do not wait' || diag "$out"
[ "$(cut -d' ' -f1 build/.lock)" = "$(cat log)" ]
ok $? 'build/.lock names the make at work'
kill -9 "$(cat log)"
out=$(timeout 60 bash -c "$(declare -f make held); T=$T; held hold-1" 2>&1) && [ -z "$out" ]
ok $? 'nor does one whose predecessor was killed' || diag "$out"
if command -v clang >/dev/null && command -v clang++ >/dev/null; then
  out=$(cd "$T/tree" && make CC=clang build/emu/common/emu/run/settings.c.o build/emu/05_im2col_gemm/f_split.cu.o 2>&1)
  ok $? 'clang finds nothing to warn of, either' || diag "$(head -n 5 <<<"$out")"
else ok 0 'clang # SKIP it is not here'; fi
make clean >/dev/null 2>&1 && [ ! -e build ]
ok $? 'make clean leaves nothing'
done_testing
