# Kernels that compute several operations: each chain is taken, right on integers and within its bound, under the checker, on any number of multiprocessors, in any
# order; and what they do not compute is left to kernels of one operation.
. tests/tap.inc
emulator_only 'runs the checker, too'
graph=$B/tools/graph
check=${B%/*}/check/tools/graph
out=$(mktemp)
# KERNEL WHAT OPERATIONS...
chain() {
  local kernel=$1 what=$2 status=0 said=0 sms
  shift 2
  for sms in 1 8 132; do # in other orders, the outermost under the checker
    if [ $sms = 8 ]; then EMU_SMS=8 EMU_SEED=7 "$graph" --dtype fp16 --no-time "$@" >"$out" 2>&1 || status=1
    else EMU_SMS=$sms EMU_SEED=$sms "$check" --dtype fp16 --no-time "$@" >"$out" 2>&1 || status=1; fi
    [ "$(grep -c "by $kernel, " "$out")" -eq 2 ] || status=2
    [ "$(grep -c 'by the same: exact on integers' "$out")" -eq 1 ] || status=3
    ! grep -q 'emulator check:' "$out" || said=1
    [ "$status$said" = 00 ] || { diag "$(cat "$out")" && break; }
  done
  ok $status "$kernel, $what: on 1, 8 and 132 multiprocessors"
  ok $said "... nothing for the checker to say"
}
# WHAT OPERATIONS...: by kernels of one operation each
apart() {
  local what=$1 status=0
  shift
  "$graph" --dtype fp16 --no-time "$@" >"$out" 2>&1 || status=1
  grep -q 'by the same' "$out" && status=2
  ok $status "$what: a kernel for each"
  [ $status -eq 0 ] || diag "$(cat "$out")"
}
chain 07d '64 to 64 to 256, residual' mb2ic64ih14oc64kh3ph1+scale+bias+relu mb2ic64ih14oc256kh1+scale+bias+residual+relu
chain 07d 'no epilogues, a piece that is not whole' mb2ic64ih13oc64kh3ph1 mb2ic64ih13oc136kh1
chain 07d 'few channels, several images a tile' mb5ic24ih5oc40kh3ph1+bias mb5ic40ih5oc72kh1+residual+relu6
chain 07d 'rows of 58' mb1ic64ih6iw58oc64oh6ow58kh3kw3ph1pw1+relu mb1ic64ih6iw58oc64oh6ow58kh1kw1+bias
chain 07d '5x5, dilated, uneven padding' mb1ic16ih12iw11oc24oh11ow9kh5kw3dh0dw1ph1pw1+scale mb1ic24ih11iw9oc16oh11ow9kh1kw1+residual
chain 07d 'a box with more columns than a product' mb1ic16ih3iw64oc16oh3ow64kh3kw3ph1pw1+relu mb1ic16ih3iw64oc32oh3ow64kh1kw1+relu
chain 07j 'few channels, a residual' mb1ic8ih264iw36oc16oh264ow36kh3kw3ph1pw1+bias+relu mb1ic16ih264iw36oc72oh264ow36kh1kw1+scale+bias+residual+relu
chain 07j 'an odd number of rows, one piece, no limits' mb2ic24ih133iw56oc40oh133ow56kh3kw3ph1pw1 mb2ic40ih133iw56oc8oh133ow56kh1kw1+bias
chain 07j 'three pieces, rows of 33' mb4ic8ih66iw33oc8oh66ow33kh3kw3ph1pw1+scale+bias+relu6 mb4ic8ih66iw33oc136oh66ow33kh1kw1+residual+relu6
EMU_SMS=132 "$graph" --dtype fp16 --no-time mb1ic64ih6iw56oc64oh6ow56kh3kw3ph1pw1+relu mb1ic64ih6iw56oc64oh6ow56kh1kw1+bias >"$out" 2>&1 && grep -q 'by 07d' "$out"
ok $? '07j: fewer steps than multiprocessors, so 07d' || diag "$(cat "$out")"
chain 07k 'a stride, a piece that is not whole' mb1ic72ih10oc128oh5kh3sh2ph1+scale+bias+relu mb1ic128ih5oc200kh1+bias+residual+relu6
chain 07k '256 filters in two slices, 520 of the second' mb1ic64ih4oc256kh3ph1+bias mb1ic256ih4oc520kh1+scale+residual
chain 07k 'two 1x1, 136 filters, blocks without any of the second' mb1ic256ih4oc136kh1+relu mb1ic136ih4oc8kh1+bias
chain 07k 'two images, 5x3, dilated, uneven padding' mb2ic80ih8iw6oc72oh4ow4kh5kw3dh0dw1ph0pw1+bias+relu mb2ic72ih4iw4oc64oh4ow4kh1kw1
EMU_SMS=132 "$check" --dtype fp16 --no-time mb1ic128ih12oc128kh3ph1+bias+relu mb1ic128ih12oc256kh1+bias+residual+relu >"$out" 2>&1 && grep -q 'by 07k, 9 tiles of 16 pixels' "$out" && ! grep -q 'emulator check:' "$out"
ok $? '07k: several clusters' || diag "$(cat "$out")"
chain 07h 'a stem' mb3ic3ih32oc64oh16kh7sh2ph3+scale+bias+relu pool:g64mb3ic64ih16oc64oh8kh3sh2ph1
chain 07h 'negative maxima, odd sizes, 24 filters' mb2ic3ih31iw32oc24oh15ow16kh3kw3sh2sw2ph0pw1 pool:g24mb2ic24ih15iw16oc24oh8ow8kh3kw3sh2sw2ph1pw1
chain 07h 'stride 4: two planes; one image' mb1ic4ih44oc16oh11kh4sh4+bias pool:g16mb1ic16ih11oc16oh6kh3sh2ph1
chain 07h 'an odd number of columns, rows below the image' mb2ic3ih12iw106oc64oh6ow53kh7kw7sh2sw2ph3pw3+bias pool:g64mb2ic64ih6iw53oc64oh3ow27kh3kw3sh2sw2ph1pw1
chain 07h 'windows past the last row and column' mb1ic3ih8iw208oc64oh4ow104kh3kw3sh2sw2ph1pw1 pool:g64mb1ic64ih4iw104oc64oh3ow53kh3kw3sh2sw2ph1pw1
chain 07h 'a window that begins with the last of 16 columns' mb1ic3ih32oc64oh16kh7sh2ph3+bias pool:g64mb1ic64ih16oc64oh9kh3sh2ph1
chain 07h '... of 56' mb2ic3ih8iw112oc64oh4ow56kh3kw3sh2sw2ph1pw1+bias+relu pool:g64mb2ic64ih4iw56oc64oh3ow29kh3kw3sh2sw2ph1pw1
chain 07h '... of 112, the first layer of ResNet-50' mb1ic3ih16iw224oc64oh8ow112kh7kw7sh2sw2ph3pw3+bias+relu pool:g64mb1ic64ih8iw112oc64oh5ow57kh3kw3sh2sw2ph1pw1
chain 07h 'wide rows, 40 filters' mb1ic3ih8iw312oc40oh4ow156kh3kw3sh2sw2ph1pw1+relu pool:g40mb1ic40ih4iw156oc40oh2ow78kh3kw3sh2sw2ph1pw1
# bottleneck WHAT C H W BETWEEN BETWEEN K N: 07e on such layers, with an epilogue for each in the arguments behind
bottleneck() {
  local what=$1 c=$2 h=$3 w=$4 between=$5 next=$6 k=$7 n=$8
  chain 07e "$what" "mb${n}ic${c}ih${h}iw${w}oc${between}oh${h}ow${w}kh1kw1$9" "mb${n}ic${between}ih${h}iw${w}oc${next}oh${h}ow${w}kh3kw3ph1pw1${10}" "mb${n}ic${next}ih${h}iw${w}oc${k}oh${h}ow${w}kh1kw1${11}"
}
bottleneck 'a bottleneck and its shortcut' 256 14 14 64 64 256 2 +scale+bias+relu +scale+bias+relu +scale+bias+residual=0+relu
bottleneck 'an odd number of rows, few channels, another residual' 24 5 15 40 16 72 3 +bias +relu6 +bias+residual
bottleneck 'rows of 56, no residual' 64 5 56 64 64 256 1 +bias+relu '' +bias
bottleneck 'rows of 32, no epilogues' 72 4 32 64 64 8 2 '' '' ''
bottleneck 'one row' 8 1 14 8 8 8 1 +bias +bias +bias+residual=0
chain 07f 'a basic block' mb2ic64ih6iw56oc64oh6ow56kh3kw3ph1pw1+scale+bias+relu mb2ic64ih6iw56oc64oh6ow56kh3kw3ph1pw1+scale+bias+residual=0+relu
chain 07f 'few channels, an odd number of rows' mb3ic24ih7iw29oc40oh7ow29kh3kw3ph1pw1+bias mb3ic40ih7iw29oc16oh7ow29kh3kw3ph1pw1+bias
chain 07g 'depthwise, then 1x1 with a residual' g144mb2ic144ih12oc144kh3ph1+scale+bias+relu6 mb2ic144ih12oc24kh1+scale+bias+residual
chain 07g 'a stride, a row of filters that is not whole' g72mb3ic72ih15oc72oh8kh3sh2ph1+bias+relu6 mb3ic72ih8oc136kh1+bias
chain 07g 'an even image with a stride, padding on two sides alone' g8mb1ic8ih18oc8oh9kh3sh2ph0 mb1ic8ih9oc8kh1+residual+relu
chain 07g 'two images a tile, three parts of the filters' g24mb5ic24ih7oc24kh3ph1 mb5ic24ih7oc328kh1+bias+residual+relu
for seed in 1 2 3; do
  EMU_SMS=1 EMU_SEED=$seed "$check" --dtype fp16 --no-time g24mb5ic24ih8iw34oc24oh8ow34kh3kw3sh1sw1ph1pw1+scale+bias+relu mb5ic24ih8iw34oc8oh8ow34kh1kw1+scale >"$out" 2>&1 && ! grep -q 'emulator check:' "$out"
  ok $? "07g: one chunk, all tiles by one block, one multiplier ahead of the other ($seed)" || diag "$(tail -n 4 "$out")"
done
chain 07g 'one chunk: two warpgroups multiply' g32mb3ic32ih20oc32kh3ph1+bias+relu6 mb3ic32ih20oc16kh1+bias
chain 07g 'one chunk and a residual' g64mb2ic64ih17oc64kh3ph1+bias+relu6 mb2ic64ih17oc64kh1+bias+residual
chain 07g 'more than 32 mbarriers' g264mb1ic264ih9oc264kh3ph1+bias+relu6 mb1ic264ih9oc64kh1+bias
chain 07g 'large tiles' g576mb2ic576ih14oc576oh7kh3sh2ph1+bias+relu6 mb2ic576ih7oc160kh1
chain 07g 'no padding' g16mb1ic16ih9iw40oc16oh7ow38kh3kw3ph0pw0+relu6 mb1ic16ih7iw38oc32oh7ow38kh1kw1
"$graph" --dtype fp16 --no-time g520mb45ic520ih14oc520oh7kh3sh2ph1+bias+relu6 mb45ic520ih7oc160kh1 >"$out" 2>&1 && grep -q 'by 07g, 8 x 8 pixels, 128 filters a tile: 3' "$out"
ok $? '07g: no tile of 192 filters where there is room for one stage of them alone' || diag "$(cat "$out")"
apart 'a bottleneck of 128 channels' mb1ic64ih14oc128kh1 mb1ic128ih14oc128kh3ph1 mb1ic128ih14oc64kh1
apart 'a bottleneck of narrow rows, 128 channels, a stride' mb1ic128ih12oc64kh1 mb1ic64ih12oc128kh3ph1+silu mb1ic128ih12oc64kh1
apart 'depthwise 5x5' g16mb1ic16ih9oc16kh5ph2 mb1ic16ih9oc16kh1
apart 'depthwise, many filters' g16mb1ic16ih9oc16kh3ph1 mb1ic16ih9oc392kh1
apart 'depthwise, an exponential' g16mb1ic16ih9oc16kh3ph1+silu mb1ic16ih9oc16kh1
apart 'depthwise, 1x1 with a stride' g16mb1ic16ih9oc16kh3ph1 mb1ic16ih9oc16oh5kh1sh2
apart 'groups, but not depthwise' g8mb1ic16ih9oc16kh3ph1 mb1ic16ih9oc16kh1
apart 'two windows, narrow rows' mb1ic64ih8oc64kh3ph1 mb1ic64ih8oc64kh3ph1
apart 'two windows, wide rows' mb1ic8ih3iw60oc8oh3ow60kh3kw3ph1pw1 mb1ic8ih3iw60oc8oh3ow60kh3kw3ph1pw1
apart 'two windows, other padding' mb1ic8ih9iw30oc8oh9ow30kh3kw3ph1pw1 mb1ic8ih9iw30oc8oh7ow28kh3kw3ph0pw0
apart 'two windows, 128 filters' mb1ic8ih3iw30oc8oh3ow30kh3kw3ph1pw1 mb1ic8ih3iw30oc128oh3ow30kh3kw3ph1pw1
apart 'a result that is also a residual' mb1ic64ih8oc64kh3ph1+relu mb1ic64ih8oc64kh1+residual=1
apart 'a 1x1 with a stride' mb1ic64ih8oc64kh3ph1 mb1ic64ih8oc64oh4kh1sh2
apart 'an exponential' mb1ic64ih8oc64kh3ph1+silu mb1ic64ih8oc64kh1
apart '128 channels, more tiles than clusters' mb1ic128ih8oc64kh3ph1 mb1ic64ih8oc64kh1
apart '264 filters' mb1ic64ih4oc264kh3ph1 mb1ic264ih4oc64kh1
apart 'filters of the second that do not fit beside its operand' mb1ic64ih4oc256kh3ph1 mb1ic256ih4oc4096kh1
apart 'overlapping pools' mb1ic3ih32oc16oh16kh3sh2ph1 pool:g16mb1ic16ih16oc16oh16kh3ph1
apart 'as asked' --unfused mb1ic64ih8oc64kh3ph1 mb1ic64ih8oc64kh1
# alike WHAT OPERATIONS...: the device's word is the host's
alike() {
  local what=$1 status=0
  shift
  "$graph" --dtype fp16 --no-time --verify host "$@" >"$out" 2>&1 || status=1
  "$graph" --dtype fp16 --no-time --verify device "$@" 2>&1 | diff "$out" - >"$out.diff" || status=2
  grep -q 'exact on integers' "$out" && grep -q 'of the error bound' "$out" || status=3
  ok $status "$what: judged on the device as on the host"
  [ $status -eq 0 ] || diag "$(cat "$out" "$out.diff")"
}
alike 'a bottleneck and its shortcut' mb1ic64ih5iw14oc64oh5ow14kh1kw1+scale+bias+relu mb1ic64ih5iw14oc64oh5ow14kh3kw3ph1pw1+scale+bias+relu mb1ic64ih5iw14oc64oh5ow14kh1kw1+scale+bias+residual=0+relu
alike 'a stem' mb1ic3ih32oc64oh16kh7sh2ph3+scale+bias+relu pool:g64mb1ic64ih16oc64oh8kh3sh2ph1
alike 'depthwise, then 1x1' g24mb1ic24ih12oc24kh3ph1+bias+relu6 mb1ic24ih12oc24kh1+bias+residual
# The checker sees what pointwise kernels and pooling write.
for chain in 'mb1ic8ih5oc8kh3ph1+relu mb1ic8ih5oc8kh1' '--dtype fp16 pool:g8mb1ic8ih5oc8kh3ph1 mb1ic8ih5oc8kh1'; do
  "$check" $chain >"$out" 2>&1
  ok $? "nothing for the checker to say: $chain" || diag "$(tail -4 "$out")"
done
"$graph" --verify there mb1ic8ih4oc8kh1 >"$out" 2>&1
refused=$?
[ $refused -eq 2 ] && [ "$(cat "$out")" = '--verify: expected host or device, got "there"' ]
ok $? "a place that there is not"
rm -f "$out" "$out.diff"
done_testing
