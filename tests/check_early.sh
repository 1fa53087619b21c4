# Kernels of steps 06 and 07 that may begin before the kernel before them has ended (tests/early.c), under the checker: as they are no report, in any order; with their waits
# taken out, all or the producers' alone, every access that is too early is found, at its line.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
REWRITE=${REWRITE:-$B/rewrite}
COMPILE=$(make -s --no-print-directory BACKEND=emu check-compiler)
LINK=$(make -s --no-print-directory BACKEND=emu check-linker)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export B REWRITE COMPILE LINK folder

silent "$folder/log" 'the kernels as they are, both launches right' '0 1' build/check/tests/early all all
for layer in 06f 06g 06h 06j 06l 06k 06m 06o 06s 06t 06u 06u-classes 06v 06y 06z 07a 07b; do # these have blocks that take several tiles
  EMU_SMS=1 build/check/tests/early $layer all >"$folder/log" 2>&1 && ! grep -q '^emulator' "$folder/log"
  ok $? "$layer, one block takes all tiles" || head -n 5 "$folder/log" | sed 's/^/# /'
done

# without WAITS SOURCE: a program in which this kernel lacks them. The producers' waits stand in a branch, the consumers' on the kernel's own level.
declare -A edits=([all]='s/ptx_griddepcontrol_wait\(\);/{}/' [producer]='/^   /s/ptx_griddepcontrol_wait\(\);/{}/')
without() {
  local name=$2-$1 others=() other
  for other in 06_*/*.cu; do [ "${other#*/}" = "$2.cu" ] || others+=("build/check/$other.o"); done
  others+=(build/check/07_fusion/*.cu.o "$B"/0[67]_*/kernels.c.o "$B"/0[67]_*/kernel_sources.c.o)
  "$REWRITE" "$folder/$name.cu" "$folder/$name.cpp" && $COMPILE "$folder/$name.cpp" -o "$folder/$name.o" &&
    $LINK -rdynamic -o "$folder/$name" "$folder/$name.o" "$B"/tests/early.c.o "${others[@]}" "$B/libharness.a" -lm -ldl -lpthread
}
export -f without
sources=(f_persistent g_window h_stream i_few j_dgrad l_wgrad k_strides m_window_wgrad n_pairs o_neighbours r_tensor_wgrad s_first t_first_wgrad u_groups v_groups_wgrad x_direct y_blocks z_blocks_wgrad)
declare -A only=([f_persistent]='ROW_OF(64)' [g_window]='ROW_OF(96)' [h_stream]='ROW_OF(56)' [j_dgrad]='ROW_OF(64)' [k_strides]='ROW_OF(64)' [o_neighbours]='ROW_OF(32), {256, {}}' [s_first]='ROW_OF(16)' [t_first_wgrad]='ROW_OF(3, 24, 1)' [u_groups]='ROW_OF(256)') # of the table of instances: the rest takes the compiler long
for source in "${sources[@]}"; do cp 06_*/"$source.cu" "$folder"; done
for waits in all producer; do
  for source in "${sources[@]}"; do
    sed -E "${edits[$waits]}" "$folder/$source.cu" >"$folder/$source-$waits.cu"
    cmp -s "$folder/$source-$waits.cu" "$folder/$source.cu" && continue
    [ ! "${only[$source]}" ] || sed -i -zE "s/(\nstatic const instance instances[^=]*= \{)ROW_OF[^;]*;/\1${only[$source]}};/" "$folder/$source-$waits.cu"
    echo "$waits" "$source"
  done
done | xargs -P 2 -L 1 bash -c 'without "$1" "$2" >"$folder/$2-$1.log" 2>&1' _

# found WAITS LAYER SOURCE PAIR TEXTS WHAT: the second launch is reported at a line that contains one of the texts.
found() {
  local program=$folder/$3-$1 report at status=1
  if ! cmp -s "$program.cu" "$folder/$3.cu" && [ -x "$program" ]; then
    "$program" "$2" "$4" >/dev/null 2>"$folder/err"
    report=$(grep -m 1 "^emulator check: overlap: .*; an earlier launch, which may be at work still, $6" "$folder/err")
    at=$(grep -oE -m 1 '[^ ]+:[0-9]+,' <<<"$report") at=${at%,}
    [ "$report" ] && sed -n "${at##*:}p" "${at%:*}" | grep -qE -- "$5"
    status=$?
  fi
  ok $status "$2, $1 waits taken out, $4: ${report:25:110}" || { echo '# defect could not be planted, or was not found' && head -n 3 "$program.log" "$folder/err" | sed 's/^/# /'; }
}
for layer in 06f:f_persistent 06g:g_window 06h:h_stream 06i:i_few 06i-cluster:i_few 06j:j_dgrad 06k:k_strides; do
  for waits in all producer; do
    found $waits "${layer%:*}" "${layer#*:}" image '(windows|&halos), \{|&maps->windows' 'wrote it'
    found $waits "${layer%:*}" "${layer#*:}" filters '(filters|&?filter_tiles), \{' 'wrote it'
  done
  found all "${layer%:*}" "${layer#*:}" over 'ptx_tensor_store\(&results, |ptx_tensor_store_im2col\(' 'read it'
done
found producer 06r r_tensor_wgrad image ', x \+ x_from' 'wrote it'
found producer 06r r_tensor_wgrad filters ', dy \+ dy_from' 'wrote it'
found all 06r r_tensor_wgrad over 'parts\[\(\(|to\[\(\(k' 'wrote it'
found producer 06l l_wgrad image '&windows, \{' 'wrote it'
found producer 06l l_wgrad filters '&gradients, \{' 'wrote it'
found producer 06m m_window_wgrad image '&halos, \{' 'wrote it'
found producer 06m m_window_wgrad filters '&gradients, \{' 'wrote it'
found producer 06n n_pairs image '&windows, from, tap' 'wrote it'
found producer 06n n_pairs filters '&gradients, \{' 'wrote it'
EMU_SMS=132 found all 06m m_window_wgrad image 'part = from\[' 'wrote it'
found all 06s s_first image 'ptx_bulk_load\(to' 'wrote it'
found all 06s s_first filters '__half_as_ushort\(w\[|shift \* p.stride_w' 'wrote it'
found all 06s s_first over 'ptx_tensor_store\(&results, ' 'read it'
found all 06t t_first_wgrad image 'ptx_bulk_load\(to' 'wrote it'
found all 06t t_first_wgrad filters '&gradients, \{' 'wrote it'
for layer in 06u 06u-classes; do
  for waits in all producer; do found $waits $layer u_groups image '&halos.of\[plane\], \{' 'wrote it'; done
  found all $layer u_groups filters '= from\[first' 'wrote it'
  found all $layer u_groups over 'ptx_tensor_store\(&results' 'read it'
done
for layer in 06o 06o-both; do
  for waits in all producer; do found $waits $layer o_neighbours image '&halos.of\[plane\], \{' 'wrote it'; done
  found all $layer o_neighbours filters '= w\[of' 'wrote it'
  found all $layer o_neighbours over 'ptx_tensor_store\(&results' 'read it'
done
found producer 06v v_groups_wgrad image '&halos.of\[plane\], \{' 'wrote it'
found producer 06v v_groups_wgrad filters '&gradients, \{' 'wrote it'
for layer in 06t:t_first_wgrad 06v:v_groups_wgrad; do found all ${layer%:*} ${layer#*:} over 'to\[\(k|parts\[|float2 \*\)here' 'wrote it'; done
found all 06x x_direct image 'x\[\(\(n \* p.H' 'wrote it'
found all 06x x_direct filters 'ptx_cp_async<sizeof\(quad\)>' 'wrote it'
found all 06x x_direct over 'y\[\(\(n \* p.P' 'read it'
found all 06y y_blocks image '&halos, \{' 'wrote it'
found all 06y y_blocks filters 'ptx_bulk_load\(' 'wrote it'
found all 06y y_blocks over 'ptx_tensor_store\(&results' 'read it'
found all 06z z_blocks_wgrad image '&halos, \{' 'wrote it'
found all 06z z_blocks_wgrad filters '&gradients, \{' 'wrote it'
found all 06z z_blocks_wgrad over 'float2 \*\)\(?at|to\[k \* TAPS' 'wrote it'
found all 06w f_persistent image 'windows, \{' 'wrote it'
done_testing
