# Kernels of several operations, under the checker: launches that begin early (tests/early_chains.c) are right, in any order; and defects planted in copies of the kernels, one at
# a time, are found: where operations of a kernel hand on what lies between, and where the kernel before has not ended yet.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
. tests/planted.inc
COMPILE+=' -O0' # each copy runs once, and compiles in half the time
step=07_fusion
export step

silent "$folder/log" 'launches that begin early, the same bits' '0 1' build/check/tests/early_chains
for kernel in 07d 07e 07f 07g 07h 07j 07k; do
  EMU_SMS=1 build/check/tests/early_chains $kernel all >"$folder/log" 2>&1 && ! grep -q '^emulator' "$folder/log"
  ok $? "$kernel, one block takes all tiles" || head -n 5 "$folder/log" | sed 's/^/# /'
done

# A program of step 07's kernels alone for operations that follow one another.
printf '#include "common/harness/registry.h"\nextern const conv_step step_07;\nconst conv_step *const all_steps[] = {&step_07, NULL};\n' >"$folder/steps.c"
${CC:-gcc} -std=c17 -D_GNU_SOURCE -I. -Icommon/emu/include -c "$folder/steps.c" -o "$folder/steps.o"

# defect NAME SOURCE PERL WANTED LINE WHAT OPERATIONS...: SOURCE: a kernel, or HEADER@KERNEL, of which the copy goes first where headers are looked for. Of a table of instances the
# first row is enough. OPERATIONS `early LAYER PAIR`: the test above; `recurrent OPTIONS`:
# that tool.
defect() {
  plant "$1" "$step/${2%@*}" "$3" "$4" "$5" "$6"
  echo "$2" >"$folder/$1.source"
  [[ $2 == *@* ]] || sed -i -E 's/^(static const instance instances.*= \{)ROW_OF.*\};/\1ROW_OF(16)};/' "$folder/$1.cu"
  [[ $2 == *@* ]] || sed -i -E 's/^(static separable_function .*ROW_OF\(1, 1\)).*/\1};/' "$folder/$1.cu"
  echo "${@:7}" >"$folder/$1.arguments"
}
run_case() {
  local name=$1 source generated=$folder/$1.cpp flags=() arguments others=() other main sms=1
  source=$(cat "$folder/$name.source")
  read -r -a arguments <"$folder/$name.arguments"
  "$REWRITE" "$folder/$name.cu" "$generated"
  if [[ $source == *@* ]]; then
    mkdir -p "$folder/$name.include/$step"
    mv "$generated" "$folder/$name.include/$step/${source%@*}"
    source=${source#*@} flags=(-iquote "$folder/$name.include") generated=$B/gen/$step/$source.cpp
  fi
  for other in "$step"/*.cu; do [ "$other" = "$step/$source" ] || others+=("build/check/$other.o"); done
  if [ "${arguments[0]}" = early ]; then main=("$B/tests/early_chains.c.o") arguments=("${arguments[@]:1}")
  elif [ "${arguments[0]}" = recurrent ]; then main=("$B/$step/tools/recurrent.c.o" "$folder/steps.o") arguments=(--no-time "${arguments[@]:1}") sms=8 # room for a cluster of eight
  else main=("$B/common/tools/graph.c.o" "$folder/steps.o") arguments=(--dtype fp16 --no-time "${arguments[@]}"); fi
  { $COMPILE "${flags[@]}" "$generated" -o "$folder/$name.o" &&
    $LINK -rdynamic -o "$folder/$name.program" "$folder/$name.o" "${main[@]}" "$B/$step/kernels.c.o" "$B/$step/kernel_sources.c.o" "${others[@]}" "$B/libharness.a" -lm -ldl -lpthread; } >"$folder/$name.log" 2>&1
  EMU_SMS=$sms timeout 60 "$folder/$name.program" "${arguments[@]}" >"$folder/$name.out" 2>"$folder/$name.err"
  echo $? >"$folder/$name.status"
  sed -i 's/^WRONG/not ok: &/' "$folder/$name.out"
}
export -f run_case

race='race|nobody has waited'
block='mb1ic136ih15oc64kh1+bias+relu mb1ic64ih15oc64kh3ph1+bias mb1ic64ih15oc136kh1+residual=0'
kernel=e_bottleneck.cu
defect narrow_stage $kernel 's/ptx_wgmma_wait<1>\(\);(?=\s*if \(first_lane\) ptx_mbarrier_arrive\(at.x)//' "$race" '' '07e: a stage filled again that the products under way still read' $block
defect narrow_fence $kernel 's/(put_rows.*\n\s*)ptx_fence_proxy_async\(\);/$1/' proxy '' '07e: no fence between narrow rows and the next products' $block
defect narrow_rows $kernel 's/ptx_mbarrier_wait\(at.w.rows.empty.*//' "$race" '' '07e: narrow rows over those that windows still read' $block
defect narrow_zeros $kernel 's/\*\(uint4 \*\)\(shared \+ \(t.chunks.*/(void)i;/' uninitialised '' '07e: nothing beside the rows' $block
defect narrow_back walk.cuh@$kernel 's/(put_over<N, false, false, KIND>\(sum\[0\], c, f, pixels\);\s*)ptx_wgmma_wait<0>\(\);/$1/' "$race" '' '07e: rows given back while they are multiplied' $block
defect between_pixels walk.cuh@$kernel 's/ptx_mbarrier_wait\(at.pixels.empty.*//' "$race" '' '07e: pixels over those that the last layer still reads' $block
defect between_box walk.cuh@$kernel 's/ptx_bulk_wait_read<1>\(\);//' "$race" '' '07e: a residual over results that still leave' $block
defect narrow_padding rows.cuh@$kernel 's/= pair & \(\(/= pair & (0xffffffffu | (/' result '' '07e: bias beside the image, where the next layer has padding' $block
defect narrow_order rows.cuh@$kernel 's/r < ROWS \? before : now/r < ROWS ? now : before/' result '' '07e: rows of this step before those of the last one' $block
defect narrow_early $kernel 's/ptx_griddepcontrol_wait\(\);//' 'overlap: .*earlier launch' '' '07e: x read before it is there' early 07e image
defect narrow_weights $kernel 's/ptx_griddepcontrol_wait\(\);//' 'overlap: .*earlier launch' '' '07e: filters read before they are there' early 07e filters
rows='mb1ic64ih6iw32oc64oh6ow32kh3kw3ph1pw1+bias mb1ic64ih6iw32oc64oh6ow32kh3kw3ph1pw1+residual=0'
kernel=f_two_windows.cu
defect rows_stage $kernel 's/ptx_wgmma_wait<0>\(\);(?=\s*if \(first_lane\) ptx_mbarrier_arrive\(at.x)//' "$race" '' '07f: rows of x given back while they are multiplied' $rows
defect rows_begin $kernel 's/\{0, -1, step/{0, 0, step/' result '' '07f: rows of x without their padding' $rows
defect rows_last $kernel 's/step <= of.end/step < of.end/' deadlock '' '07f: the rows below a strip never come' $rows
defect rows_early $kernel 's/ptx_griddepcontrol_wait\(\);//' 'overlap: .*earlier launch' '' '07f: x read before it is there' early 07f image
defect rows_over $kernel 's/ptx_griddepcontrol_wait\(\);//' 'overlap: .*earlier launch' '' '07f: results over what an earlier launch still reads' early 07f over
walked='mb1ic8ih9iw33oc8oh9ow33kh3kw3ph1pw1+bias mb1ic8ih9iw33oc200oh9ow33kh1kw1+residual' # four pieces
kernel=j_strips.cu
defect walk_filters rows.cuh@$kernel 's/ptx_mbarrier_wait\(full, first.*//' "$race" '' '07j: filters taken before they are there' $walked
defect walk_fence rows.cuh@$kernel 's/ptx_fence_proxy_async\(\); \/\* read by threads.*//' 'proxy: .*a copy into it' '' '07j: no fence between filters that are read and the copies over them' $walked
defect walk_room walk.cuh@$kernel 's/ptx_mbarrier_wait\(at.room_empty, 0\);.*//' "$race|result" '' '07j: residuals where filters lie' $walked
defect walk_begin $kernel 's/\{0, -1, step/{0, 0, step/' result '' '07j: rows of x without their padding' $walked
defect walk_back walk.cuh@$kernel 's/(put_finished<N, false, KIND>\(sum\[0\].*\n\s*)ptx_wgmma_wait<0>\(\);/$1/' "$race" '' '07j: pixels given back while they are multiplied' $walked
defect walk_early $kernel 's/ptx_griddepcontrol_wait\(\);//' 'overlap: .*earlier launch' '' '07j: x read before it is there' early 07j image
pieces='mb4ic64ih10oc64kh3ph1+bias mb4ic64ih10oc200kh1+residual' # four
kernel=d_conv_1x1.cu
defect chain_halo $kernel 's/ptx_wgmma_wait<0>\(\);(?=\s*if \(first_lane\) ptx_mbarrier_arrive\(at.halo)//' "$race" '' '07d: a halo tile given back while it is multiplied' $pieces
defect chain_between $kernel 's/ptx_mbarrier_wait\(at.pixels.empty.*//' "$race" '' '07d: an operand over one that is multiplied' $pieces
defect chain_fence $kernel 's/(at.between \+ to.stage \* box_bytes\);\s*)ptx_fence_proxy_async\(\);/$1/' proxy '' '07d: no fence between what lies between and its products' $pieces
defect chain_back $kernel 's/piece \+ WIDENERS >= pieces\)/piece < WIDENERS)/' "$race" '' '07d: an operand given back before its last product' 'mb4ic64ih10oc64kh3ph1 mb4ic64ih10oc320kh1'
defect chain_box $kernel 's/if \(stores\) ptx_bulk_wait_read<0>\(\); \/\* the box.*//' "$race" '' '07d: results over results that still leave' ${pieces/+residual/+bias}
defect chain_room $kernel 's/if \(f.residual\) ptx_bulk_wait_read<0>\(\), /if (f.residual) /' "$race" '' '07d: a residual over results that still leave' $pieces
defect chain_turn $kernel 's/\(me \+ turn \* pieces\) % WIDENERS/(0 * me + turn * pieces) % WIDENERS/' "$race|result" '' '07d: pieces that nobody takes' $pieces
cluster='mb1ic72ih4oc256kh3ph1+bias mb1ic256ih4oc520kh1+residual'
kernel=k_cluster.cu
defect cluster_there $kernel 's/ptx_cluster_wait\(\); \/\* all blocks.*//' 'no cluster barrier' '' '07k: sums for a block whose mbarriers may not be there' $cluster
defect cluster_sums $kernel 's/ptx_mbarrier_wait\(at.sums_there, 0\);//' "$race|uninitialised" '' '07k: sums added before they have come' $cluster
defect cluster_turn $kernel 's/(ptx_stmatrix_x2_trans\(at.finished.*\n\s*)__syncwarp\(\);/$1/' "$race|uninitialised" '' '07k: chunks read that other lanes have not written' $cluster
defect cluster_between $kernel 's/ptx_mbarrier_wait\(at.between_there, 0\);//' "$race|uninitialised" '' '07k: products of channels that have not come' $cluster
defect cluster_filters $kernel 's/ptx_mbarrier_wait\(at.filters_there, 0\);//' "$race|uninitialised" '' '07k: products with filters that have not come' $cluster
defect cluster_owner $kernel 's/unit \/ S::MINE \* SLICES \+ rank % SLICES/unit \/ S::MINE * SLICES/' 'result|deadlock|bytes|nobody' '' '07k: sums to the other slice' $cluster
defect cluster_order $kernel 's/\+ unit % S::EIGHTS \* UNIT/+ (S::EIGHTS - 1 - unit % S::EIGHTS) * UNIT/' result '' '07k: pixels in the places of others' $cluster
defect cluster_early $kernel 's/ptx_griddepcontrol_wait\(\);//g' 'overlap: .*earlier launch' '' '07k: x read before it is there' early 07k image
state='recurrent --hidden 128 --batch 5 --steps 6'
kernel=i_recurrent.cu
defect state_early $kernel 's/ptx_mbarrier_wait\(empty.*//' "$race" '' '07i: a state over one that others still read' $state
defect state_round $kernel 's/\(now \* S::ROUNDS \+ round\), t/(now * S::ROUNDS), t/' "$race|uninitialised" '' '07i: pieces of a round that has not come' recurrent --hidden 512 --batch 2 --steps 3
defect state_sums $kernel 's/sums\[now\]/sums[0]/g' "$race" '' '07i: sums over those that others still add' $state
defect state_asked $kernel 's/if \(lane < S::ROUNDS\) ptx_mbarrier_arrive_expect_tx.*//' 'deadlock|never' '' '07i: nobody waits for the state after the next' $state
defect state_told $kernel 's/if \(lane < BLOCKS\) ptx_mbarrier_arrive_cluster.*//' 'deadlock|never' '' '07i: nobody is told that a state has been read' $state
defect state_gather $kernel 's/pair, 2, 4/pair, 1, 4/' result '' '07i: values of other units' $state
late='mb4ic64ih12oc256kh1+bias+residual' # one step, many tiles
kernel=a_epilogue.cu
defect late_box $kernel 's/ptx_bulk_wait_read<LEAVING>/ptx_bulk_wait_read<LEAVING + 1>/' "$race" '' '07a: a residual over results that still leave' $late
defect late_given $kernel 's/box_left = LEAVING == 0/box_left = LEAVING >= 0/' "$race" '' '07a: a box given back a tile early' $late
two='g136mb2ic136ih10oc136kh3ph1+bias mb2ic136ih10oc24kh1+residual'
kernel=h_stem.cu
stem='mb2ic3ih32oc64oh16kh7sh2ph3+bias+relu pool:g64mb2ic64ih16oc64oh8kh3sh2ph1'
defect stem_box $kernel 's/if \(first_thread\) ptx_bulk_wait_read<0>\(\); \/\* the row before.*//' "$race" '' '07h: maxima over those that still leave' $stem
defect stem_fence $kernel 's/ptx_fence_proxy_async\(\); \/\* for the copy engine.*//' proxy '' '07h: no fence between maxima and their way out' $stem
defect stem_meet $kernel 's/ptx_bar_sync\(2 \+ me, THREADS\);//' "$race" '' '07h: a row leaves before all maxima are there' $stem
defect stem_pairs $kernel 's/ptx_mbarrier_wait\(r.full \+.*//' "$race|uninitialised" '' '07h: products of pairs that are not there' $stem
defect stem_again $kernel 's/ptx_mbarrier_wait\(r.empty \+.*//' "$race" '' '07h: pairs made over those that are multiplied' $stem
defect stem_raw $kernel 's/ptx_mbarrier_wait\(raw_full \+.*//' "$race|uninitialised" '' '07h: pairs of pixels that have not come' $stem
defect stem_left maxima.cuh@$kernel 's/\(t \+ 3\) % 4/(t + 2) % 4/' result '' '07h: the wrong neighbour on the left' $stem
defect stem_kept $kernel 's/, kept\[j\] = below;/;/' result '' '07h: the last row is not kept for the next' $stem
kernel=g_separable.cu
defect operand_fence $kernel 's/ptx_fence_proxy_async\(\); \/\* written by threads.*//' proxy '' '07g: no fence between the operand and its products' $two
defect operand_meet $kernel 's/ptx_mbarrier_wait\(operands.full.*//' "$race" '' '07g: products of an operand that is not there' $two
defect operand_next $kernel 's/ptx_wgmma_wait<1>\(\);.*//' "$race" '' '07g: an operand given back while it is multiplied' $two
defect operand_box $kernel 's/ptx_bulk_wait_read<0>\(\); \/\* the tile.*//' "$race" '' '07g: a residual over results that still leave' $two
defect operand_table diagonals.cuh@$kernel 's/column . 2 == lane % 4/column >= 0 * lane/' result '' '07g: filters beside the diagonal, too' $two
defect operand_edge $kernel 's/put_zeros\(group, .*/(void)group;/' uninitialised '' '07g: nothing for channels that are none' 'g8mb1ic8ih5oc8kh3ph1 mb1ic8ih5oc8kh1'
defect operand_stride diagonals.cuh@$kernel 's/2 \* o \* STRIDE \+ r/2 * o + r/' result '' '07g: the stride forgotten' 'g8mb1ic8ih9oc8oh5kh3sh2ph1 mb1ic8ih5oc8kh1'
defect operand_again $kernel 's/ptx_mbarrier_wait\(operands.empty.*//' "$race" '' '07g: an operand written over one that is multiplied' $two
defect operand_pixels $kernel 's/ptx_mbarrier_wait\(x.full.*//' "$race|uninitialised" '' '07g: pixels that have not come' $two
defect operand_filters $kernel 's/ptx_mbarrier_wait\(weights.full.*//' "$race|uninitialised" '' '07g: filters that have not come' $two
defect operand_early $kernel 's/ptx_griddepcontrol_wait\(\);//' 'overlap: .*earlier launch' '' '07g: x read before it is there' early 07g image
find_planted
done_testing
