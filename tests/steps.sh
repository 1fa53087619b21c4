# Every kernel of every step, all passes: the nasty list, the laptop suite, random shapes. (In other orders of blocks and lanes: check_steps.sh, under the checker.)
. tests/tap.inc
. tests/edges.inc
log=$(mktemp)
listed=$(mktemp) # what of step 06 was launched
drawn=$(mktemp)
trap 'rm -f "$log" "$listed" "$drawn"' EXIT

# The reasons that a step's kernels may give for passing over a problem; a step that is not here computes every one.
may_skip() {
  case $1 in
  03) echo '03[a-d]: stride is not 1 ' ;; # as dgrad
  04) echo '04[a-z]: (more than one input channel per output channel|stride or dilation is not 1|the filters exceed 64 KiB|the filter is not (3x3|9x9)|W is no multiple of 4|not depthwise|C is odd)' ;;
  05) echo '05[a-z]: (only for (3x3 filters|stride 1$|stride [12] without dilation|up to 4 channels a group|up to 64 channels and 64 filters a group)|padding beyond the filter)' ;;
  06) echo '06(b: R \+ S > 32 |[p-rx]: (not depthwise|C is no multiple of [48]$|the filter is not 3x3|not 3x3(,| or) 5x5|stride is not 1 or 2)|[ac-n]: (the filter is not 3x3|two tiles do not fit|C (is|or K is|and K are) no multiples? of 8|(channels|channels or filters) of a group are no multiple of (8|64)|groups$|a stride( above 8 |$)|windows begin more than 128 |a tile with its halo does not fit|filters and two tiles do not fit|rows with their halo)|o: (groups$|C or K is no multiple of 8$|more than 256 channels|a stride above 4$|filters of more than|rows that are no whole|pixels that no tap meets$|a span of more than|windows of too many|an image smaller|filters and two tiles)|[s-w]: (no groups$|groups$|groups (that do not fill|side by side)|more than (four channels|64 channels or filters a group|nine taps)$|(K is|C or K is) no multiple of 8$|x is no multiple of 16 bytes$|an odd stride and|a stride (above|that)|an image smaller|a filter of more than 12 rows|columns are dilated$|columns beside|filters of more than|(64 filters and |filters and |)two tiles do not fit|pixels that no tap meets$|rows with their halo|windows that overlap|padding$|a row of a window is no)|[yz]: (no groups$|groups (with more channels|that have not)|C is no multiple of 8$|not 3x3 (with|or 5x5 with) stride|5x5 with more than 16|dgrad with a stride|two tiles do not fit))' ;;
  07) echo '07[a-c]: (groups|a stride|C and K are no multiples of 8 up to 64|rows with their halo have more than 256 pixels|filters and two tiles do not fit)' ;;
  *) echo '^$' ;;
  esac
}

# verified STEP TEXT ARGUMENTS...: the step must end with status 0, something right, nothing wrong, nothing skipped but for its reasons.
verified() {
  local step=$1 text=$2 status skipped
  shift 2
  "$B/$step" --no-time "$@" >"$log" 2>&1
  status=$?
  [ "$step" = 06 ] && "$B/06" --list "$@" >>"$listed"
  skipped=$(grep -cE "SKIP $(may_skip "$step")" "$log")
  grep -qE "^[1-9][0-9]* right, 0 wrong, $skipped skipped$" "$log" || status=1
  ok "$status" "$step $text: $(tail -n 1 "$log")"
  [ "$status" -eq 0 ] || grep -B 3 -A 6 -m 2 -E 'WRONG|SKIP|:' "$log" | sed 's/^/# /' >&2
}

for main in [0-9][0-9]_*/main.c; do
  step=${main%%_*}
  if [ "$step" != 07 ]; then # whose kernels want channels in eights, forward
    verified "$step" "on the nasty list" --suite nasty
    verified "$step" "on the laptop suite" --suite laptop
    verified "$step" "where the last windows see nothing but padding" --suite tests/end_padding
  fi
  random=(--random 60)
  [ "$step" = 06 ] && random=(--random 30 --kernel 06p,06q,06r) # they can do hardly any problem that is drawn for all kernels: drawn for them
  [ "$step" = 07 ] && random=(--random 20 --kernel 07a,07b,07c)
  verified "$step" "on ${random[1]} random shapes" "${random[@]}" --seed 1
  verified "$step" "on ${random[1]} random shapes, integers only" "${random[@]}" --seed 2 --exact
  shapes=5 # every other one is a picture, a depthwise layer, 3x3 or 1x1: they are what steps 04 and 06 are for, and take others long
  case $step in 04 | 06) shapes=9 ;; esac
  for kernel in $("$B/$step" --help | awk '/^kernels:/ { on = 1; next } /^default shape:/ { on = 0 } on && !seen[$1]++ { print $1 }'); do
    [ "$kernel" = 06o ] && continue # hardly ever: it has a generator of its own
    [ "$kernel" = 06w ] && shapes=4 # for each of three rows, and in all passes
    verified "$step" "$kernel on $shapes random shapes that it can do" --random "$shapes" --seed 3 --kernel "$kernel"
    verified "$step" "$kernel on $shapes of them, integers only" --random "$shapes" --seed 4 --kernel "$kernel" --exact
  done
done

verified 00 "with a stride beyond any image" --shape mb1ic1ih5oc1kh31sh2147483646ph15

# What these steps are for, they may not pass over.
verified 03 "forward on the nasty list" --suite nasty --pass fprop
ok "$(grep -c SKIP "$log")" "... and nothing skipped"
verified 04 "on planes" --suite tests/planes --pass fprop --dtype fp32
ok "$(grep -c 'SKIP 04[a-dj]' "$log")" "... and 04a to 04d and 04j skip nothing"
ok "$([ "$(grep -c '04e *right' "$log")" -eq 6 ]; echo $?)" "... and 04e does the six that it is for"
verified 04 "on pictures" --suite tests/pictures --pass fprop --dtype fp32
ok "$(grep -c 'SKIP 04b' "$log")" "... and 04b skips nothing"
ok "$([ "$(grep -c '04f *right' "$log")" -eq 9 ]; echo $?)" "... and 04f does the nine that it is for"
verified 04 "on depthwise layers in fp32" --suite tests/depthwise --dtype fp32
ok "$(grep -c 'SKIP 04[jk]' "$log")" "... and 04j and 04k skip nothing"
verified 04 "on depthwise layers in fp16" --suite tests/depthwise --dtype fp16
ok "$(grep -c 'SKIP 04[ghi]' "$log")" "... and 04g to 04i skip nothing"
for shape in g7mb2ic7ih9oc7kh3ph1 g6mb1ic6ih9oc12oh5kh5sh2ph2; do
  verified 04 "on what 04g to 04i cannot, by the rule" --dtype fp16 --kernel auto --shape $shape
  ok "$([ "$(grep -c '04m *right' "$log")" -eq 3 ]; echo $?)" "... and it takes 04m"
done
verified 06 "on depthwise layers" --suite tests/depthwise --kernel 06p,06q,06r,06u,06v,06x,06y,06z
ok "$([ "$(grep -c '06[pqr] *right' "$log")" -eq 42 ]; echo $?)" "... and 06p, 06q and 06r do the fourteen that they are for"
ok "$([ "$(grep -c '06x *right' "$log")" -eq 14 ]; echo $?)" "... and 06x the fourteen of 3x3, 5x5 and one result"
ok "$([ "$(grep -c '06y *right' "$log"),$(grep -c '06z *right' "$log")" = 16,8 ]; echo $?)" "... and 06y, forward and backward, and 06z what has a multiple of 8 channels"
verified 06 "06b on one of that kind, which it computes as it does all others" --kernel 06b --shape g24mb1ic24ih5oc24kh3ph1
for shape in 3:64:1:2 3:64:2:4 5:64:1:2 5:64:2:4; do # filter, image, stride, images
  IFS=: read -r size image stride images <<<"$shape"
  EMU_SMS=1 verified 06 "06x with several rows a thread" --kernel 06x --pass fprop --shape "g8mb${images}ic8ih${image}oc8oh$((image / stride))kh${size}sh${stride}ph$((size / 2))"
done
verified 06 "on dense layers" --suite hopper --pass fprop
ok "$([ "$(grep -c '06[a-i] *right' "$log")" -eq 218 ]; echo $?)" "... and 06a to 06i skip what they must and nothing else"
verified 06 "on dense layers, the filters' gradient" --suite hopper --pass wgrad
ok "$([ "$(grep -c '06l *right' "$log")" -eq 25 ]; echo $?)" "... and 06l skips groups and nothing else"
ok "$([ "$(grep -c '06m *right' "$log")" -eq 15 ]; echo $?)" "... and 06m does the fifteen that it is for"
ok "$([ "$(grep -c '06n *right' "$log")" -eq 25 ]; echo $?)" "... and 06n what 06l does"
for sms in 1 132; do EMU_SMS=$sms verified 06 "the same on $sms multiprocessors, integers only" --suite hopper --pass wgrad --kernel 06l,06m"$([ $sms = 1 ] || echo ,06n)" --exact; done
EMU_SMS=1 verified 06 "on every number of pixels of a product" --suite tests/widths --pass fprop --kernel 06f,06g,06h
verified 06 "on dense layers, the gradient of the image" --suite hopper --pass dgrad
ok "$([ "$(grep -c '06[jk] *right' "$log")" -eq 46 ]; echo $?)" "... and 06j skips strides and groups, 06k groups, and nothing else"
ok "$([ "$(grep -c '06[gi] *right' "$log")" -eq 33 ]; echo $?)" "... and 06g and 06i do the 33 that they are for"
ok "$([ "$(grep -c '06h *right' "$log")" -eq 21 ]; echo $?)" "... and 06h skips strides and groups, and nothing else"
EMU_SMS=1 verified 06 "on products of 06g and 06h turned" --suite tests/widths --pass dgrad --kernel 06g,06h
for as in dgrad 'transposed --fuse bias'; do EMU_SMS=1 verified 06 "on every number of pixels of a product of 06j and 06k, $as" --suite tests/widths_dgrad --kernel 06j,06k --pass $as; done
for shape in mb1ic8ih4iw300oc8oh4ow560kh3kw3ph1pw131 mb1ic8ih40oc8oh2kh1sh20 mb1ic8ih300oc8oh4kh3dh147; do verified 06 "what boxes cannot bring" --pass fprop --shape $shape; done
verified 06 "the filters' gradient by the rule" --kernel auto --suite hopper --pass wgrad
[ "${B##*/}" != emu ] || ok "$([ "$(grep -c '06l *right' "$log"),$(grep -c '06m *right' "$log")" = 20,5 ]; echo $?)" "... and it takes 06m five times, else 06l where that can"
for sms in '' 1 132; do
  [ "$sms" ] && export EMU_SMS=$sms
  verified 06 "on first layers, multiprocessors '$sms'" --suite tests/first --kernel 06s,06t ${sms:+--exact}
  ok "$([ "$(grep -c '06s *right' "$log"),$(grep -c '06t *right' "$log")" = 15,13 ]; echo $?)" "... and 06s does the fifteen that it is for, 06t thirteen"
  verified 06 "on groups, multiprocessors '$sms'" --suite tests/groups --kernel 06u,06v,06y,06z ${sms:+--exact}
  ok "$([ "$(grep -c '06u *right' "$log"),$(grep -c '06v *right' "$log")" = 37,18 ]; echo $?)" "... and 06u does all but a class without taps, 06v all but 4 x 4"
  ok "$([ "$(grep -c '06y *right' "$log"),$(grep -c '06z *right' "$log")" = 13,6 ]; echo $?)" "... and 06y and 06z the 3 x 3 of as many filters as channels, up to 32 and up to 16"
  verified 06 "on patches, multiprocessors '$sms'" --suite tests/patches --kernel 06w ${sms:+--exact}
  ok "$(grep -c SKIP "$log")" "... and 06w skips nothing"
  verified 06 "on few channels, multiprocessors '$sms'" --suite tests/neighbours --kernel 06o ${sms:+--exact}
  ok "$([ "$(grep -A 1 ' fprop ' "$log" | grep -c '06o *right'),$(grep -A 1 ' dgrad ' "$log" | grep -c '06o *right')" = 31,28 ]; echo $?)" "... and 06o does all forward, backward all but three"
  tests/random_neighbours.pl "1${sms:-0}" 30 >"$drawn"
  verified 06 "06o on 30 layers drawn for it, multiprocessors '$sms'" --suite "$drawn" --kernel 06o ${sms:+--exact}
done
unset EMU_SMS
for fuse in '' scale,bias,residual,relu bias,gelu residual,silu scale,relu6; do
  EMU_SMS=3 verified 07 "on dense layers, epilogue: ${fuse:-none}" --suite hopper --pass fprop ${fuse:+--fuse $fuse}
  ok "$([ "$(grep -c '07[a-c] *right' "$log")" -eq 62 ]; echo $?)" "... and 07a and 07c pass over groups, 07b what is no window, and nothing else"
done
for fuse in bias,residual; do EMU_SMS=1 verified 07 "on every number of pixels of a product, epilogue: $fuse" --suite tests/widths --pass fprop --kernel 07a,07b --fuse $fuse; done
verified 05 "on 3x3 filters" --suite tests/three_by_three
ok "$(grep -c 'SKIP 05[^jo-r]' "$log")" "... and all but 05j and 05o to 05r skip nothing"
for sms in '' 1 132; do
  [ "$sms" ] && export EMU_SMS=$sms
  verified 05 "on groups, multiprocessors '$sms'" --suite tests/groups --kernel 05o,05p,05q ${sms:+--exact}
  ok "$([ "$(grep -c '05o *right' "$log"),$(grep -c '05p *right' "$log"),$(grep -c '05q *right' "$log")" = 23,13,3 ]; echo $?)" "... and 05o to 05q do all 3 x 3 of one stride, without dilation"
done
unset EMU_SMS

# One branch or one row of a table each, on the emulator by check_steps.sh; a second launch, of planes and of images.
launched() { [ "$1" != 06 ] || "$B/06" --list "${@:3}" >>"$listed"; }
each_edge "$([ "${B##*/}" = emu ] && echo launched || echo verified)"
verified 04 "04b: more planes than a grid has room for" --kernel 04b --exact --shape mb66000ic1ih1iw4oc1oh1ow4kh3kw3ph1pw1
WINOGRAD_LAUNCH_BYTES=31000 verified 05 "05l, 05m in three launches" --kernel 05l,05m --shape g2mb5ic6ih6iw9oc10oh6ow9kh3kw3ph1pw1
WINOGRAD_LAUNCH_BYTES=1200000 verified 05 "05l, whose last launch has one image, in other tiles" --kernel 05l --pass fprop --shape mb21ic1ih4iw28oc129oh4ow28kh3kw3ph1pw1
if [ "${B##*/}" = emu ]; then
  all=$(nm -C "$B"/06_*/*.cu.o | grep -oE '[a-z0-9_]+_kernel<[^(]*>\(' | tr -d '(' | sort -u)
  missed=$(grep -vxFf <(grep -oE '[a-z0-9_]+_kernel<.*>$' "$listed" | sort -u) <<<"$all")
  ok "$([ -n "$all" ] && [ -z "$missed" ]; echo $?)" "every instance of step 06's kernels, $(wc -l <<<"$all"), was launched" || diag "$missed"
  [ -z "$missed" ] || diag "not launched: ${missed//$'\n'/; }"
fi

# The rules for --kernel auto, as they choose on the emulator's 8 multiprocessors; 04's for fp16 is another than for fp32.
while IFS='|' read -r what kernel; do
  read -r step pass shape <<<"$what"
  case $step in '' | '#'*) continue ;; esac
  dtype=fp32
  case $step in 06 | 07) dtype=fp16 ;; esac
  verified "$step" "$pass $shape" --kernel auto --dtype "$dtype" --pass "$pass" --shape "$shape"
  [ "${B##*/}" != emu ] || ok "$(grep -q "^ *${kernel# } *right" "$log"; echo $?)" "... and the rule takes$kernel"
done <tests/choices
if [ "${B##*/}" = emu ]; then # 05g instead of 05f where tiles are many and short, or do not fill their rounds: on 8 multiprocessors 67, 67, 67 and 11 tiles
  while read -r shape kernel; do
    verified 05 "fprop $shape" --kernel auto --pass fprop --shape "$shape"
    ok "$(grep -q "^ *$kernel *right" "$log"; echo $?)" "... and the rule takes $kernel"
  done <<<$'mb1ic4ih92oc1kh1 05g\nmb1ic128ih92oc1kh1 05f\nmb1ic24ih92iw92oc1oh92ow92kh1kw3ph0pw1 05g\nmb1ic80ih36oc1kh3ph1 05g'
fi

# One kernel against another through .npy files: what 00 writes, 00 and 01 read and agree on.
folder=$(mktemp -d)
trap 'rm -rf "$log" "$listed" "$drawn" "$folder"' EXIT
shape='g2mb2ic6ih9oc8kh3sh2ph1'
"$B/00" --shape "$shape" --pass fprop --kernel 00a --exact --out "$folder/none.npy" >/dev/null 2>&1
ok $? "--out with --exact"
"$B/00" --shape "$shape" --pass fprop --kernel 00a --no-time --out "$folder/y.npy" >/dev/null
ok $? "--out writes y.npy"
"$B/00" --shape "$shape" --pass dgrad --kernel 00a --no-time --dy "$folder/y.npy" --out "$folder/dx0.npy" >"$log"
ok $? "00a takes it as --dy and writes dx"
"$B/01" --shape "$shape" --pass dgrad --kernel 01a --no-time --dy "$folder/y.npy" --out "$folder/dx1.npy" >"$log"
ok $? "01a does the same"
perl -e 'sub floats { open my $f, "<:raw", shift or die; local $/; my $d = <$f>; (length $d, unpack("f<*", substr $d, 128)) }
         my @a = floats($ARGV[0]); my @b = floats($ARGV[1]); my $bad = $a[0] != $b[0] || @a != 1 + 2 * 6 * 9 * 9;
         for (1 .. $#a) { $bad++ if !(abs($a[$_] - $b[$_]) <= 1e-4) } exit($bad > 0)' "$folder/dx0.npy" "$folder/dx1.npy"
ok $? "both files hold the same dx"

# Data from elsewhere may be anything: constant (its roundings all go one way) or next to nothing (every product is subnormal).
npy() { perl -e 'my ($n, $c, $h, $w, $v) = @ARGV; print "\x93NUMPY\x01\x00\x76\x00", sprintf("%-117s\n", "{\x27descr\x27: \x27<f4\x27, \x27fortran_order\x27: False, \x27shape\x27: ($n, $c, $h, $w), }"), pack("f<*", ($v) x ($n * $c * $h * $w))' "$@"; }
npy 1 1 256 256 0.1 >"$folder/tenths.npy"
npy 1 1 256 256 1 >"$folder/ones.npy"
npy 1 2 9 9 1e-22 >"$folder/tiny.npy"
for step in 00 01 02; do
  "$B/$step" --shape mb1ic1ih256oc1kh1 --pass wgrad --no-time --x "$folder/tenths.npy" --dy "$folder/ones.npy" >"$log"
  ok $? "$step adds up 65536 times 0.1: $(tail -n 1 "$log")"
  "$B/$step" --shape mb1ic2ih9oc2oh9kh3ph1 --pass wgrad --no-time --x "$folder/tiny.npy" --dy "$folder/tiny.npy" >"$log"
  ok $? "$step adds up subnormal products: $(tail -n 1 "$log")"
done

# CSV and JSON: as many fields in every row as in the header; JSON that perl can walk.
"$B/01" --suite nasty --no-time --csv "$folder/r.csv" --json "$folder/r.json" >/dev/null
perl -ne 'chomp; my $n = 1; my $q = 0; for (split //) { $q = !$q if $_ eq "\""; $n++ if $_ eq "," && !$q } $want //= $n; $bad++ if $n != $want; END { exit($bad || $. < 70) }' "$folder/r.csv"
ok $? "every CSV row has the header's number of fields ($(head -n 1 "$folder/r.csv" | tr ',' '\n' | wc -l))"
# A second opponent has its columns at the end, where nothing is timed empty ones.
"$B/01" --pass fprop --cudnn-fused --search-seconds 1 --csv "$folder/fused.csv" >/dev/null
head -n 1 "$folder/fused.csv" | grep -q ',note,cudnn_fused_us,.*,ratio_fused$' && { [ "${B##*/}" != emu ] || sed -n 2p "$folder/fused.csv" | grep -q '",,,,,$'; } && [ "$(head -n 1 "$folder/fused.csv" | cut -d, -f1-41)" = "$(head -n 1 "$folder/r.csv")" ]
ok $? "--cudnn-fused adds columns behind the others"
perl -MJSON::PP -e 'local $/; my $r = decode_json(<STDIN>); exit(!(@$r > 70 && $r->[0]{kernel} eq "01a" && $r->[0]{status} eq "right"))' <"$folder/r.json"
ok $? "the JSON parses"
ok "$(ls "$folder" | grep -c partial)" "no partial file is left"
done_testing
