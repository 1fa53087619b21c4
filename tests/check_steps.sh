# Every step's kernels under the checker: the nasty list, random shapes, shuffled orders, edges. No report, nothing wrong.
. tests/tap.inc
. tests/edges.inc
emulator_only 'the checker is part of the emulator'
log=$(mktemp)
drawn=$(mktemp)
trap 'rm -f "$log" "$drawn"' EXIT

# clean STEP TEXT ARGUMENTS...: status 0, something right, nothing wrong, nothing on stderr. On integers, as what the checker sees does not depend on values; random
# shapes and edges, which are verified here alone, on random values too, by the emulator without a checker, which takes a tenth of the time. Suites are in steps.sh on random values.
clean() {
  local step=$1 text=$2 status=0 run
  shift 2
  for run in "${CHECK:-build/check}/$step --exact" "${B:-build/emu}/$step"; do
    [[ $run = *--exact || " $* " = *" --random "* || " $* " = *" --shape "* ]] || continue
    # shellcheck disable=SC2086
    $run --no-time "$@" >"$log" 2>"$log.err" || status=1
    grep -qE '^[1-9][0-9]* right, 0 wrong, [0-9]+ skipped$' "$log" || status=1
    [ -s "$log.err" ] && status=1
    [ $status -eq 0 ] || break
  done
  ok "$status" "$step checked, $text: $(tail -n 1 "$log")"
  [ "$status" -eq 0 ] || { head -n 12 "$log.err" && grep -B 3 -A 6 -m 2 WRONG "$log"; } | sed 's/^/# /'
  rm -f "$log.err"
}

for main in [0-9][0-9]_*/main.c; do
  step=${main%%_*}
  [ "$step" = 00 ] || [ "$step" = 07 ] && continue # 07: kernels for channels in eights, below
  # By nasty, random shapes and edges: the laptop suite's larger ones take long, and show no more.
  shapes=60 shuffled=20
  [ "$step" = 05 ] && shapes=30 shuffled=10
  drawn_for=()
  [ "$step" = 06 ] && shapes=12 shuffled=6 drawn_for=(--kernel 06p,06q,06r) # each, as they can do hardly any problem that is drawn for all kernels
  clean "$step" "the nasty list" --suite nasty
  clean "$step" "windows behind the image" --suite tests/end_padding --exact
  clean "$step" "$shapes random shapes" "${drawn_for[@]}" --random $shapes --seed 21
  for seed in 1 2; do EMU_SEED=$seed clean "$step" "a shuffled order of blocks and lanes ($seed)" "${drawn_for[@]}" --random $shuffled --seed $((30 + seed)); done
done

# Kernels that cut their work by the number of multiprocessors: blocks with several tiles, with parts of tiles, with one tile.
for sms in 1 16 132; do
  EMU_SMS=$sms clean 05 "$sms multiprocessors" --random 8 --seed 7
  EMU_SMS=$sms clean 05 "$sms multiprocessors, 05g" --random 15 --seed 7 --pass fprop --kernel 05g
done

clean 04 "planes" --suite tests/planes --kernel 04b,04c,04d,04e # 04a and 04j see the others
clean 04 "pictures" --suite tests/pictures --kernel 04f
clean 04 "depthwise layers in fp16" --suite tests/depthwise --dtype fp16
clean 06 "depthwise layers" --suite tests/depthwise --kernel 06p,06q,06r,06u,06v,06x,06y,06z # 06b computes them as it does all others
clean 06 "dense layers" --suite hopper --pass fprop --kernel 06c,06d,06e,06f,06g,06h,06i # 06a and 06b: by nasty, and in other orders below
EMU_SEED=1 clean 06 "dense layers in a shuffled order" --suite tests/orders --pass fprop
for sms in 1 132; do EMU_SEED=$((sms + 1)) EMU_SMS=$sms clean 06 "$sms multiprocessors, in other orders" --suite tests/orders --pass fprop --kernel 06f,06g,06h,06i; done
clean 06 "dense layers, the filters' gradient" --suite hopper --pass wgrad
EMU_SEED=1 clean 06 "the filters' gradient in a shuffled order" --suite tests/orders --pass wgrad
for sms in 1 132; do EMU_SMS=$sms clean 06 "$sms multiprocessors, the filters' gradient" --suite tests/orders --pass wgrad --kernel 06l,06m"$([ $sms = 1 ] || echo ,06n)"; done
EMU_SMS=1 clean 06 "every number of pixels of a product" --suite tests/widths --pass fprop --kernel 06f,06g,06h
clean 06 "gradients of dense layers" --suite hopper --pass dgrad
EMU_SEED=1 clean 06 "gradients of dense layers in a shuffled order" --suite tests/orders --pass dgrad
for sms in 1 132; do EMU_SEED=$((sms + 1)) EMU_SMS=$sms clean 06 "gradients, $sms multiprocessors, in other orders" --suite tests/orders --pass dgrad --kernel 06g,06h,06i,06j,06k; done
EMU_SMS=1 clean 06 "products of 06g and 06h turned" --suite tests/widths --pass dgrad --kernel 06g,06h
EMU_SMS=1 clean 06 "every number of pixels of a product of 06j and 06k" --suite tests/widths_dgrad --pass dgrad --kernel 06j,06k
EMU_SEED=2 EMU_SMS=1 clean 06 "first layers, one multiprocessor" --suite tests/first --kernel 06s,06t
EMU_SEED=1 EMU_SMS=1 clean 06 "groups, one multiprocessor" --suite tests/groups --kernel 06u,06v,06y,06z
for suite in first groups; do EMU_SMS=132 clean 06 "$suite, 132 multiprocessors, the filters' gradient" --suite tests/$suite --kernel 06t,06v,06z --pass wgrad; done
clean 06 "patches" --suite tests/patches --kernel 06w
for sms in 1 132; do EMU_SMS=$sms clean 06 "few channels, $sms multiprocessors" --suite tests/neighbours --kernel 06o; done
EMU_SEED=1 clean 06 "few channels in a shuffled order" --suite tests/neighbours --kernel 06o
tests/random_neighbours.pl 2 30 >"$drawn"
EMU_SEED=2 EMU_SMS=3 clean 06 "few channels at random" --suite "$drawn" --kernel 06o
EMU_SEED=3 clean 06 "first layers and groups at random" --random 4 --seed 21 --kernel 06s,06t,06u,06v,06y,06z
for fuse in '' scale,bias,residual,relu; do
  for sms in 1 132; do EMU_SEED=$sms EMU_SMS=$sms clean 07 "dense layers, $sms multiprocessors, epilogue: ${fuse:-none}" --suite tests/orders --pass fprop --exact ${fuse:+--fuse $fuse}; done
done
clean 07 "dense layers, an exponential behind them" --suite hopper --pass fprop --fuse residual,gelu
clean 04 "depthwise layers in fp32" --suite tests/depthwise --dtype fp32 --kernel 04j,04k

each_edge clean
clean 05 "05n, two channels a thread at the end" --kernel 05n --pass wgrad --shape mb3ic64ih7oc64kh3ph1
WINOGRAD_LAUNCH_BYTES=31000 clean 05 "05l, 05m in three launches" --kernel 05l,05m --shape g2mb5ic6ih6iw9oc10oh6ow9kh3kw3ph1pw1

build/check/tests/check_tiled >"$log" 2>&1
ok $? "shared memory, barriers, __syncwarp, atomics: right and without a report"
status=0
for seed in 1 2 3 4 5 6 7 8; do EMU_SEED=$seed build/check/tests/check_tiled >"$log" 2>&1 || status=1; done
ok $status "the same in 8 shuffled orders"
for test in emu_wmma emu_ldmatrix emu_stmatrix; do
  build/check/tests/$test >"$log" 2>&1
  ok $? "$test: right and without a report"
done
done_testing
