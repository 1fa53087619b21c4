# Plants defects in copies of real kernels, one at a time, and wants every one found: by the checker, with the right kind at the right
# line, or at least by the verification of the result. And the kernels as they are: no report.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
REWRITE=${REWRITE:-$B/rewrite}
COMPILE=$(make -s --no-print-directory BACKEND=emu check-compiler)
LINK=$(make -s --no-print-directory BACKEND=emu check-linker)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export B REWRITE COMPILE LINK folder

# plant NAME SOURCE SED KIND LINE TEXT [ARGUMENTS]: applies SED to a copy of SOURCE. The checker must report KIND at a line that contains LINE
# (of several, separated by |, one); KIND "divergent" and "shared" are the emulator's own reports, "result" is left to the verification,
# "none" must be clean. A step's kernel runs the nasty list, or with these arguments, on one multiprocessor or, if they begin so, on sms=N. A header is HEADER@SOURCE: of the
# source that includes it.
cases=() only=''
plant() {
  local name=$1 source=${2%@*} edit=$3
  cp "$source" "$folder/$name.cu"
  sed -i -E "$edit" "$folder/$name.cu"
  echo "$2" >"$folder/$name.source"
  printf '%s\n' "$4" "$5" "$6" >"$folder/$name.expect"
  echo "${7:---suite nasty}" >"$folder/$name.arguments"
  if [ "$4" = none ]; then echo same; elif cmp -s "$source" "$folder/$name.cu"; then echo same; else echo changed; fi >"$folder/$name.edited"
  [ ! "$only" ] || sed -i -zE "s/(\nstatic const instance instances[^=]*= \{)ROW_OF[^;]*;/\1$only};/" "$folder/$name.cu"
  cases+=("$name")
}

tiled=tests/check_tiled.cu
plant tiled_right $tiled '' none '' 'the tiled kernels as they are'
plant barrier_1 $tiled '/the tile is complete/s/__syncthreads\(\);//' race 'tile[row][column] = value|sum += tile' 'no barrier between store and use'
plant barrier_2 $tiled '/nobody needs it/s/__syncthreads\(\);//' race 'tile[row][column] = value|sum += tile' 'no barrier between use and the next store'
plant barrier_branch $tiled '/nobody needs it/s/__syncthreads/if (q < W) __syncthreads/' divergent '' 'a barrier that some threads do not reach'
plant halo_left $tiled 's/w >= 0 \&\& w < W/w >= -1 \&\& w < W/' out-of-bounds 'value = x[' 'halo one too far left'
plant halo_right $tiled 's/w >= 0 \&\& w < W/w >= 0 \&\& w <= W/' out-of-bounds 'value = x[' 'halo one too far right'
plant halo_top $tiled 's/h >= 0 \&\& h < H/h >= -1 \&\& h < H/' out-of-bounds 'value = x[' 'halo one too far up'
plant halo_bottom $tiled 's/h >= 0 \&\& h < H/h >= 0 \&\& h <= H/' out-of-bounds 'value = x[' 'halo one too far down'
plant tail $tiled 's/  if \(p < H \&\& q < W\)/  if (true)/' block-race 'y[(k * H + p) * W + q] = sum' 'outputs past the right edge land in the next row'
plant tail_rows $tiled 's/  if \(p < H \&\& q < W\)/  if (q < W)/' out-of-bounds 'y[(k * H + p) * W + q] = sum' 'outputs below the last row'
plant short_tile $tiled 's/row < TILE_P \+ R - 1; row/row < TILE_P + R - 2; row/' uninitialised 'sum += tile' 'the last row of the tile is never filled'
plant swapped $tiled 's/tile\[row\]\[column\] = value/tile[column][row] = value/' out-of-bounds 'tile[column][row] = value' 'row and column swapped'
plant blocks_overlap $tiled 's/q = blockIdx.x \* TILE_Q/q = blockIdx.x * (TILE_Q - 1)/' block-race 'y[(k * H + p) * W + q] = sum' 'two blocks write the same outputs'
plant pitch $tiled 's/side\[threadIdx.y \* \(SIDE \+ 1\)/side[threadIdx.y * (SIDE + 2)/' out-of-bounds 'side[threadIdx.y * (SIDE + 2)' 'a pitch larger than the array'
plant syncwarp $tiled '/^  __syncwarp/s/__syncwarp\(\);//' race 'line[threadIdx.x] = x|= line[first' 'no __syncwarp between lanes'
plant shuffle_instead $tiled '/^  __syncwarp/s/__syncwarp\(\)/__shfl_sync(0xFFFFFFFFu, 1, 0)/' race 'line[threadIdx.x] = x|= line[first' 'a shuffle in its place orders nothing'
plant neighbour_warp $tiled 's/first \+ \(lane \+ 1\) % 32/(first + lane + 1) % 64/' race 'line[threadIdx.x] = x|= line[(first' '__syncwarp where lanes of another warp are read'
plant misaligned $tiled 's/\(\(const float4 \*\)x\)\[i\]/((const float4 *)(x + 1))[i]/' misaligned '(const float4 *)(x + 1)' 'a float4 at an odd address'
plant tail4 $tiled 's/if \(4 \* i < n\)/if (4 * i <= n)/' out-of-bounds '((float4 *)y)[i]' 'one float4 too many'
plant host_pointer $tiled 's/\(C, H, W, dx, df, dy\)/(C, H, W, dx ? x : dx, df, dy)/' host-pointer 'value = x[' 'the host'"'"'s pointer in the kernel'
plant no_atomic $tiled 's/atomicAdd\(total, sum\)/*total += sum/' block-race '*total += sum' 'a sum over blocks without atomics'
plant too_much $tiled 's/float line\[64\]/float line[64000]/' shared '' 'more shared memory than a block may have'
plant dropped_cleared $tiled '/cudaMemset\(total/d' uninitialised 'atomicAdd(total, sum)' 'a sum that starts from nothing'
plant naive_right 01_naive/a_naive.cu '' none '' '01a as it is'
plant naive_right_edge 01_naive/a_naive.cu 's/in_w < p.W\)/in_w <= p.W)/' out-of-bounds 'sum += ' '01a: one pixel too far right'
plant naive_tail 01_naive/a_naive.cu 's/if \(i >= p.N \* p.K \* p.P \* p.Q\) return;/if (i > p.N * p.K * p.P * p.Q) return;/' out-of-bounds 'sum += |x[((n|y[((n' '01a: one thread too many'
plant naive_channels 01_naive/a_naive.cu 's/for \(int c = 0; c < group_c; c\+\+\)/for (int c = 0; c <= group_c; c++)/' out-of-bounds 'sum +=|x[((n' '01a: one channel too many'
plant naive_dilation 01_naive/a_naive.cu 's/r \* p.dil_h;$/r;/' result '' '01a: the dilation forgotten'
plant coalesced_q 02_coalesced/a_coalesced.cu 's/out_q = i % p.Q; .*/out_q = i % (p.Q - 1 + (p.Q == 1));/' block-race 'y[((n * p.K + k)' '02a: q counted wrong'
plant coalesced_w 02_coalesced/a_coalesced.cu 's/w\[\(\(k \* group_c \+ c\) \* p.R \+ r\) \* p.S \+ s\]/w[((k * group_c + c) * p.S + s) * p.R + r]/' result '' '02a: r and s of the filter swapped'
plant warp_lane 02_coalesced/b_warp_wgrad.cu 's/if \(lane == 0\) dw/if (lane == 1) dw/' result '' '02b: the wrong lane stores'
plant warp_tail 02_coalesced/b_warp_wgrad.cu 's/pixel < p.P \* p.Q; pixel/pixel <= p.P * p.Q; pixel/' out-of-bounds 'sum += dy' '02b: one pixel too many'
odd='--kernel 04m --shape g3mb2ic3ih6oc6kh3ph1'
channels=04_constant_filter/m_any_channels.cu
plant channels_right $channels '' none '' '04m as it is' "$odd"
plant channels_right_edge $channels 's/in_w >= p.W\) continue/in_w > p.W) continue/' out-of-bounds 'sum += ' '04m: one pixel too far right' "$odd"
plant channels_filters $channels 's/c = k \/ \(p.K \/ p.C\);/c = k % p.C;/' result '' '04m: the filters of a channel do not lie side by side' "$odd"
plant channels_window $channels 's/ \|\| from_h % p.stride_h != 0//' result '' '04m: rows between the windows' '--kernel 04m --shape g3mb2ic3ih6oc3oh3kh3sh2ph1'
plant channels_parts $channels 's/part < part_count; part\+\+/part <= part_count; part++/' out-of-bounds 'sum += parts' '04m: one part too many' "$odd"
# A block that multiplies several tiles prepares the next one where its warp's sums were exchanged. One multiprocessor has four places, this layer 7 tiles.
several='--kernel 05g --pass fprop --shape mb16ic4ih7oc64kh1'
stream=05_im2col_gemm/g_stream.cu
plant stream_right $stream '' none '' '05g as it is, several tiles a block' "$several"
plant stream_last $stream '/^      }$/{n;s/^      __syncwarp\(\);$//}' race 'next[0] = {at[0]|next[32] = {' '05g: no __syncwarp between the last exchange and the next tile' "$several"
# What several kernels include.
stages='--kernel 05f --pass fprop --shape mb1ic16ih8oc16kh3ph1'
plant gather_outside 05_im2col_gemm/gather.h@05_im2col_gemm/f_split.cu 's/in_w \+ s \* p.dil_w < 0 \|\| //' result '' '05f: windows that begin left of the image' "$stages"
# 05k where it has no tables: the filter is too large for them.
compared='--kernel 05k --pass wgrad --shape mb1ic2ih18oc2kh17ph8'
pixels=05_im2col_gemm/k_wgrad.cu
plant pixels_right $pixels '' none '' '05k as it is, without tables' "$compared"
plant pixels_above $pixels 's/h \+ column.y >= \(unsigned\)/(int)(h + column.y) >= /' out-of-bounds 'ptx_cp_async<4>(b_to' '05k: windows that begin above the image' "$compared"
plant pixels_left $pixels 's/w \+ (window_column.* LANES\]) >= \(unsigned\)/(int)(w + \1) >= /' result '' '05k: windows that begin left of the image' "$compared"
plant pixels_beyond $pixels 's/p.H \+ p.pad_top (.. below any image)/p.H \1/' out-of-bounds 'ptx_cp_async<4>(b_to' '05k: columns past the last, of windows that begin above' "$compared"
# Groups of few channels: windows out of tiles, sums that many threads have parts of.
small='sms=1 --kernel 05o --shape g3mb5ic36ih13iw28oc39oh13ow28kh3kw3ph1pw1'
groups=05_im2col_gemm/o_groups.cu
plant groups_right $groups '' none '' '05o as it is' "$small"
plant groups_below 05_im2col_gemm/direct.cuh@$groups 's/h >= 0 \&\& h < d.H/h >= 0/' result '' '05o: rows below the image' "$small"
plant groups_left 05_im2col_gemm/direct.cuh@$groups 's/at_col < 0 \|\| //' result '' '05o: columns left of the image' "$small"
plant groups_stage 05_im2col_gemm/direct.cuh@$groups '/nobody reads the one before any more/d' said 'race|nobody has waited' '05o: a stage copied over while it is read' "$small"
plant groups_channels 05_im2col_gemm/direct.cuh@$groups 's/ \|\| j >= t.left_c\)/)/' result '' '05o: a channel past the last' '--kernel 05o --shape g2mb1ic10ih7oc6kh3ph1'
sums='sms=1 --kernel 05p --shape g3mb5ic36ih13iw28oc39oh13ow28kh3kw3ph1pw1'
groups=05_im2col_gemm/p_groups_wgrad.cu
plant sums_right $groups '' none '' '05p as it is' "$sums"
plant sums_stage $groups '/nobody reads the one before any more/d' said 'race|nobody has waited' '05p: a stage copied over while it is read' "$sums"
plant sums_slots $groups 's/j < t.slots; j\+\+/j < t.slots - 1; j++/' result '' '05p: the last part of a sum not added' "$sums"
plant sums_barrier $groups '/the sums are there/d' said 'race' '05p: sums added before they are there' "$sums"
cells='sms=1 --kernel 05q --pass dgrad --shape g3mb2ic12ih13iw28oc15oh7ow14kh3kw3sh2sw2ph1pw1'
groups=05_im2col_gemm/q_groups_dgrad.cu
plant cells_right $groups '' none '' '05q as it is' "$cells"
plant cells_tap $groups 's/pixel\[i \+ \(r == 0\)\]/pixel[i]/' result '' '05q: the row below not looked at' "$cells"
plant cells_outside $groups 's/h \+ i < 0 \|\| //' out-of-bounds 'at[j] = sum' '05q: the row above the image stored' '--kernel 05q --pass dgrad --shape g2mb1ic8ih9iw9oc8oh4ow4kh3kw3sh2sw2'
turned='--kernel 05r --pass dgrad --shape mb1ic65ih4oc128kh3ph1'
plant turned_right 05_im2col_gemm/r_turned.cu '' none '' '05r as it is' "$turned"
plant turned_taps 05_im2col_gemm/r_turned.cu 's/ \+ taps - 1 - tap;/ + tap;/' result '' '05r: taps in the order of w' "$turned"
plant turned_room 05_im2col_gemm/r_turned.cu 's/ \+ mine->filter_bytes;/;/' result '' '05r: slices over the turned filters' "$turned"
plant turned_last 05_im2col_gemm/r_turned.cu 's/if \(first_c \+ c < group_c\) //' out-of-bounds 'to[c *' '05r: channels past the last' "$turned"
# Winograd's kernels begin before the one before them has ended, and wait for it.
early='--kernel 05l --pass fprop --shape mb1ic16ih8oc16kh3ph1'
winograd=05_im2col_gemm/l_winograd.cu
plant wait_output 05_im2col_gemm/winograd.cuh@$winograd '/ptx_griddepcontrol_wait/d' overlap 'point[i / SIDE][i % SIDE] = has(' '05l: the third kernel does not wait for the second' "$early"
plant wait_multiply 05_im2col_gemm/winograd_multiply.cuh@$winograd '/ptx_griddepcontrol_wait/d' overlap '__pipeline_memcpy_async(a_to' '05l: the second kernel does not wait for the first' "$early"
# Its gradient of the filters: 36 tiles, whose steps are dealt out to more blocks; kinds of patches that end within a step.
dealt='sms=32 --kernel 05n --pass wgrad --shape mb5ic8ih30iw13oc8oh30ow13kh3kw3ph1pw1'
winograd=05_im2col_gemm/n_winograd_wgrad.cu
plant points_right $winograd '' none '' '05n as it is' "$dealt"
plant points_wait $winograd '/ptx_griddepcontrol_wait/d' overlap '__pipeline_memcpy_async(to|neighbours<EACH> sums' '05n: kernels that do not wait for the one before' "$dealt"
plant points_parts $winograd 's/last - first \+ 1/last - first/' result '' '05n: the last part of a tile not added' "$dealt"
plant points_place $winograd 's/now.tile \+ \(g.dealt .*: 0\)/now.tile/' said 'block-race|uninitialised' '05n: parts of all blocks in the same place' "$dealt"
plant points_barrier $winograd '/nobody reads this one any more/d' said 'race' '05n: a stage copied over while it is read' "$dealt"
plant points_kinds 05_im2col_gemm/winograd_wgrad.h@$winograd 's/ceil_div\(g.from\[1\], BK\)/g.from[1] \/ BK/g' result '' '05n: patches of the last point left out, down' "$dealt"
# Step 06's dense kernels, each where its own idea can go wrong; on one multiprocessor, so that a block has several tiles.
dense='--pass fprop --shape mb1ic128ih8oc64kh3ph1 --kernel'
plant tma_wait 06_tensorcore_fp16/d_tma.cu 's/    ptx_wgmma_wait<1>\(\);.*//' said 'race|nobody has waited' '06d: a stage filled again that the products under way still read' "$dense 06d"
plant tma_bytes 06_tensorcore_fp16/d_tma.cu 's/(full_at \+ 8 \* stage), STAGE\)/\1, STAGE - 128)/' said 'brings more bytes|deadlock|uninitialised' '06d: fewer bytes expected than come' "$dense 06d"
plant tma_tap 06_tensorcore_fp16/d_tma.cu 's/\(unsigned short\)\(at.r \* p.dil_h\)/(unsigned short)(at.r + at.s * 0)/' result '' '06d: the dilation of rows forgotten' '--pass fprop --shape mb1ic64ih8oc64kh3dh1ph2 --kernel 06d'
plant roles_meet 06_tensorcore_fp16/e_roles.cu 's/^  ptx_bar_sync\(1, CONSUMERS.*//' said 'race' '06e: results written over a stage that the other consumer multiplies' "$dense 06e"
plant few_sums 06_tensorcore_fp16/i_few.cu '/all sums are there/s/ptx_cluster_wait\(\);//' said 'race|uninitialised|cluster' '06i: sums of other blocks added before they are there' "$dense 06i"
plant few_order 06_tensorcore_fp16/i_few.cu 's/q < owner \? q : q - 1/q < owner ? q : q/' said 'uninitialised|out-of-bounds|race' '06i: a place among the received sums that nobody fills' "$dense 06i"
only='ROW_OF(64)' # of the table of instances one row, which compiles in a third of the time
plant window_row 06_tensorcore_fp16/g_window.cu 's/at \+= p.dil_h \* pitch - p.S \* p.dil_w/at += p.dil_h * (pitch - 1) - p.S * p.dil_w/' result '' '06g: a row of the tile one pixel too short' "${dense/ic128/ic64} 06g"
only='ROW_OF(232), ROW_OF(256)' # 6 tiles, 3 stages
plant window_rounds 06_tensorcore_fp16/g_window.cu "/the other's tiles, too/d; s/if \(turn % CONSUMERS != me\) \{/if (turn % CONSUMERS == me) ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);\n    else {/; s/1 \+ THREADS . 32\)/1)/; /threadIdx.x % 32 == 0\) ptx_mbarrier_arrive\(r.empty/d" race 's.parity);' '06g: a consumer that knows nothing of the rounds of the other' '--pass fprop --shape mb1ic8ih24iw56oc8oh24ow56kh3kw3ph1pw1 --kernel 06g'
only='' gradient='--pass wgrad --kernel 06l --shape mb3ic64ih13oc72oh11kh3dh1ph1' # one block, three tiles
wgrad=06_tensorcore_fp16/l_wgrad.cu
plant pixels_ring $wgrad 's/ptx_wgmma_wait<1>\(\);.*//' said 'race|nobody has waited' '06l: a stage filled again that the products under way still read' "$gradient"
plant pixels_bytes $wgrad 's/expect_tx\(full, t.stage\)/expect_tx(full, t.stage - BOX)/' said 'brings more bytes|deadlock|uninitialised' '06l: fewer bytes expected than come' "$gradient"
plant pixels_columns 06_tensorcore_fp16/pixels.cuh@$wgrad 's/(descriptor\(b, )PIXELS \* X::BYTES/\1X::BYTES/' result '' '06l: columns of the next box where those of the next pixel lie' "$gradient"
plant pixels_dilation $wgrad 's/of_x.r \* p.dil_h/of_x.r/' result '' '06l: the dilation of rows forgotten' "$gradient"
plant pixels_place 06_tensorcore_fp16/pixels.cuh@$wgrad 's/\(unit \+ party\) \* t.party.by/(unit + 0 * party) * t.party.by/' result '' '06l: sums of all tiles in the same place' "$gradient"
plant pixels_parts 06_tensorcore_fp16/pixels.cuh@$wgrad 's/unit <= last/unit < last/' result '' '06l: the last part not added' "$gradient"
plant pixels_wait 06_tensorcore_fp16/pixels.cuh@$wgrad '/the parts are there/d' said 'overlap' '06l: parts read before they are there' "$gradient"
gradient='--pass wgrad --kernel 06m --shape mb24ic64ih13oc72oh13kh3ph1'
wgrad=06_tensorcore_fp16/m_window_wgrad.cu
plant taps_apart $wgrad 's/p.dil_w \* X::BYTES, 8/2 * p.dil_w * X::BYTES, 8/' result '' '06m: the next tap two pixels on' "$gradient"
plant taps_row $wgrad 's/me \* p.dil_h \* t.pitch \* X/me * p.dil_h * (t.pitch - 1) * X/' result '' '06m: a row of the tile one pixel too short' "$gradient"
plant taps_ring $wgrad 's/ptx_wgmma_wait<1>\(\);.*//' said 'race|nobody has waited' '06m: a stage filled again that the products under way still read' "$gradient"
plant taps_zeros $wgrad '/gradient_bytes . 16 . threadIdx/d' said 'uninitialised' '06m: nothing behind dy' "$gradient"
gradient='sms=8 --pass wgrad --kernel 06n --shape mb9ic200ih9oc136kh3ph1'
wgrad=06_tensorcore_fp16/n_pairs.cu
plant pair_right $wgrad '' none '' '06n as it is' "$gradient"
plant pair_half $wgrad 's/half = rank \* HALF/half = 0/' said 'uninitialised|race|brings more bytes' '06n: both blocks bring the same half' "$gradient"
plant pair_both $wgrad 's/BOTH = 3/BOTH = 1/' said 'deadlock|brings more bytes|uninitialised' '06n: both halves for the first block' "$gradient"
plant pair_empty $wgrad 's/lane % PAIR\)/0)/' said 'arrival|race|deadlock' '06n: only one block is told that a stage is empty' "$gradient"
plant pair_begin $wgrad '/barriers are there/d' said 'race|is no mbarrier' '06n: the other block told before its barriers are there' "$gradient"
plant pair_pixels $wgrad 's/x_pixel = pixel \+ .*half : 0\)/x_pixel = pixel/' result '' '06n: the second half of x from where the first is' 'sms=8 --pass wgrad --kernel 06n --shape mb3ic264ih5iw7oc72oh5ow7kh1kw1'
# 06j: filters read transposed, taps backwards.
only='ROW_OF(64)' backward='--pass dgrad --shape mb1ic264ih8oc136kh3ph1 --kernel 06j'
dgrad=06_tensorcore_fp16/j_dgrad.cu
plant dgrad_right $dgrad '' none '' '06j as it is, several tiles a block' "$backward"
plant dgrad_turn 06_tensorcore_fp16/ring.cuh@$dgrad 's/p.R \* p.S - 1 - tap/tap/' result '' '06j: filters that are not turned' "$backward"
plant dgrad_major 06_tensorcore_fp16/ring.cuh@$dgrad 's/ptx_wgmma<TURNED>\(/ptx_wgmma<0>(/' result '' '06j: a read as if filters were its rows' "$backward"
plant dgrad_depth 06_tensorcore_fp16/ring.cuh@$dgrad 's/NEXT = TURNED . CHUNK \* CHUNKS : 1/NEXT = 1/' result '' '06j: the next 16 filters looked for where 06f has the next 16 channels' "$backward"
plant dgrad_boxes 06_tensorcore_fp16/ring.cuh@$dgrad 's/k < rows; k \+= WGMMA_M/k < rows - WGMMA_M; k += WGMMA_M/' said 'deadlock' '06j: no box for the second consumer' "$backward"
plant dgrad_pad 03_shared_tiling/turned.h@$dgrad 's/p->dil_w \* \(p->S - 1\) - p->pad_left/p->pad_left/' result '' '06j: the padding of the forward pass' '--pass dgrad --shape mb1ic64ih8oc64kh3 --kernel 06j'
plant dgrad_producers 06_tensorcore_fp16/ring.cuh@$dgrad 's/else ptx_bar_sync\(15, PRODUCERS \* 32\)/else ptx_bar_arrive(15, PRODUCERS * 32)/' said 'race|uninitialised|mbarrier' '06j: producers that wait at barriers nobody has made yet' "$backward"
plant dgrad_turns 06_tensorcore_fp16/ring.cuh@$dgrad 's/mine . PRODUCERS - 1/mine ? PRODUCERS/' said 'deadlock' '06j: a turn too long, and nobody asks for some steps' "$backward"
plant dgrad_leave $dgrad '/the tile before has left/d' said 'race' '06j: results written where the tile before still leaves from' "$backward"
# 06k: classes and their taps; on one multiprocessor several tiles of each.
only='ROW_OF(112)' strides='--pass dgrad --shape mb2ic200ih13oc136oh7kh3sh2ph1 --kernel 06k'
classes=06_tensorcore_fp16/k_strides.cu
plant strides_right $classes '' none '' '06k as it is' "$strides"
plant strides_apart $classes 's/from.w.from - q \* t.w.apart/from.w.from/' result '' '06k: taps of a class that all read the same pixels' "$strides"
plant strides_tap $classes 's/from.h.first \+ r \* t.h.step/from.h.first + r/' result '' '06k: taps of a class that are neighbours in the filter' "$strides"
only='ROW_OF(64)'
plant strides_zeros $classes 's/!\(f.w >> of_stride/(f.w >> of_stride/' result '' '06k: a class without taps that nobody writes' '--pass dgrad --shape mb1ic64ih8oc64oh4kh1sh2 --kernel 06k'
only='ROW_OF(112)'
plant strides_column $classes 's/p.Q -= short_w/p.Q -= 0/' said 'race|out-of-bounds' '06k: a column that the last class lacks is stored into the next row' "$strides"
plant strides_leave $classes '/the tile before has left/d' said 'race' '06k: results written where the tile before still leaves from' "$strides"
# 06s to 06v: rows of pairs, groups side by side; `only` again.
only='ROW_OF(16)' pairs='--pass fprop --kernel 06s --shape mb4ic3ih16oc64oh8kh7sh2ph3'
first=06_tensorcore_fp16/s_first.cu
plant first_apart $first 's/\(at\[2 \* step \+ 1\] - at\[2 \* step\]\) >> 4/8/' result '' '06s: the second pair of a step eight pairs on' "$pairs"
plant first_pairs $first '/written by threads, read by wgmma/d' said 'proxy' '06s: no fence between pairs and products' "$pairs"
plant first_filters $first 's/^  ptx_fence_proxy_async\(\);$//' said 'proxy' '06s: no fence between filters and products' "$pairs"
plant first_raw $first '/^      ptx_bar_sync\(4, THREADS\);/d' said 'race|uninitialised' '06s: x filled again that other warps still make pairs of' "$pairs"
plant first_stage $first 's/^    ptx_mbarrier_wait\(r.full.*/&\n    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);\n    __syncwarp();/; /^    if \(threadIdx.x % 32 == 0\) ptx_mbarrier_arrive/d' said 'race' '06s: a stage given back before it is multiplied' "$pairs"
plant first_box $first 's/wait_read<BOXES - 1>/wait_read<BOXES>/' said 'race' '06s: results written over a box that still leaves' "$pairs"
plant first_fold $first 's/ - shift \* p.stride_w;/;/' result '' '06s: the second result of a position with the filters of the first' '--pass fprop --kernel 06s --shape mb1ic3ih8oc8kh3ph1'
plant first_plane $first 's/\(plane \* t->in.slots \+ pair/(pair/' result '' '06s: all pairs from the first plane' '--pass fprop --kernel 06s --shape mb1ic3ih16oc8oh4kh4sh4'
only='ROW_OF(2, 16, 1)' gradient='--pass wgrad --kernel 06t --shape mb4ic3ih16oc64oh8kh3sh2ph1'
wgrad=06_tensorcore_fp16/t_first_wgrad.cu
plant columns_apart $wgrad 's/8 \* PAIR, PAIR, PTX_SWIZZLE_NONE/PAIR, 8 * PAIR, PTX_SWIZZLE_NONE/' result '' '06t: the next columns where the next positions lie' "$gradient"
plant columns_pairs $wgrad '/written by threads, read by wgmma/d' said 'proxy' '06t: no fence between pairs and products' "$gradient"
plant columns_raw $wgrad '/^      ptx_bar_sync\(4, THREADS\);/d' said 'race|uninitialised' '06t: x filled again that other warps still make pairs of' "$gradient"
plant columns_stage $wgrad 's/^    ptx_wgmma_wait<0>\(\);$//' said 'race|nobody has waited' '06t: a stage given back while it is multiplied' "$gradient"
plant columns_parts $wgrad 's/\(int64_t\)split \* t.in.fold \+ fold/(int64_t)fold/' said 'block-race|uninitialised' '06t: sums of all blocks in the same place' "sms=8 $gradient"
plant columns_fold $wgrad 's/mine->cut.splits \* mine->cut.in.fold, \(const/mine->cut.splits, (const/' result '' '06t: half of the parts not added' '--pass wgrad --kernel 06t --shape mb1ic3ih8oc8kh3ph1'
only='{64, {group_kernel<64, false>}}, {256, {}}' side='--pass fprop --kernel 06u --shape g8mb5ic64ih8oc64oh4kh3sh2ph1' back='--pass dgrad --kernel 06u --shape g8mb5ic64ih8oc64oh4kh3sh2ph1'
groups=06_tensorcore_fp16/u_groups.cu
plant groups_other $groups 's/divide\(k, t.by_group\) \* group_c/(divide(k, t.by_group) ^ 1) * group_c/' result '' '06u: filters in the columns of another group' "$side"
plant groups_zeros $groups 's/\(\(uint4 \*\)filters\)\[i\] = uint4\(\)/(void)i/' said 'uninitialised' '06u: no zeros between groups' "$side"
plant groups_fence $groups 's/^  ptx_fence_proxy_async\(\);$//' said 'proxy' '06u: no fence between filters and products' "$side"
plant groups_plane $groups 's/\(dgrad \? 0 : plane\) \*/(dgrad ? 0 : plane ^ 1) */' result '' '06u: a tap reads the next plane' "$side"
plant groups_stage $groups 's/if \(!t.own\) ptx_bulk_wait_read<0>\(\), /if (!t.own) /' said 'race|may still read' '06u: a stage given back from which results still leave' '--pass fprop --kernel 06u --shape g8mb5ic64ih7iw20oc64oh7ow20kh3kw3ph1pw1'
plant groups_behind $groups 's/\*\(uint4 \*\)\(at \+ i\) = uint4\(\)/(void)at/' said 'uninitialised' '06u: nothing behind the boxes' "$side"
only='{256, {NULL, group_kernel<256, true>}}'
plant groups_class $groups '/what was there before has left/d' said 'race' '06u: results of a class over those of the class before' "$back"
# 06o: bands of filters, pieces of results; seven tiles of products of 144.
only='{144, {neighbours_kernel<144, false>}}, {256, {}}' turns='--pass fprop --kernel 06o --shape mb7ic16ih13iw32oc16oh13ow32kh1kw3ph0pw1' both='--pass fprop --kernel 06o --shape mb7ic16ih13iw32oc72oh13ow32kh1kw3ph0pw1'
neighbours=06_tensorcore_fp16/o_neighbours.cu
plant neighbours_right $neighbours '' none '' '06o as it is, its consumers in turns' "$turns"
plant neighbours_both $neighbours '' none '' '06o as it is, both in each tile' "$both"
plant neighbours_rows $neighbours 's/matrix\[g \* results \+ in_block\] = part;/matrix[in_block] = part;/' result '' '06o: filters of all results in the rows of the first' "$turns"
plant neighbours_piece $neighbours 's/in_block < 0 \|\| in_block >= WGMMA_M/in_block >= WGMMA_M/' said 'race|out-of-bounds' '06o: filters of one block of 64 in the rows of another' "$both"
plant neighbours_zeros $neighbours 's/bands\[i\] = uint4\(\);/(void)i;/' said 'uninitialised' '06o: no zeros beside the bands' "$turns"
plant neighbours_order $neighbours '/zeros before filters/d' said 'race' '06o: zeros over filters' "$turns"
plant neighbours_fence $neighbours 's/^  ptx_fence_proxy_async\(\);$//' said 'proxy' '06o: no fence between bands and products' "$turns"
plant neighbours_stage $neighbours 's/^    ptx_mbarrier_wait\(r.full.*/&\n    if (stores) ptx_mbarrier_arrive(r.empty + 8 * s.stage);\n    __syncwarp();/; /^      if \(stores \&\& c \+ next_piece/d' said 'race|nobody has waited' '06o: a stage given back before it is multiplied' "$turns"
plant neighbours_round $neighbours 's/t.both \? CONSUMERS : 1 \+ THREADS . 32/t.both ? CONSUMERS : 1/' said 'arriv|race' '06o: a stage given back by those that only look at it' "$turns"
plant neighbours_one $neighbours 's/t.both \? CONSUMERS : 1 \+/1 + 0 */' said 'race|arriv' '06o: a stage given back by one consumer that both multiply' "$both"
plant neighbours_box $neighbours '/the piece before has left/d' said 'race' '06o: results over those of the piece before' "$both"
plant neighbours_behind $neighbours 's/\*\(uint4 \*\)\(at \+ i\) = uint4\(\)/(void)at/' said 'uninitialised' '06o: nothing behind the last box' "$turns"
only='{64, {NULL, neighbours_kernel<64, true>}}, {256, {}}' back='--pass dgrad --kernel 06o --shape mb2ic16ih9iw16oc16oh5ow8kh3kw3sh2sw2ph1pw1'
plant neighbours_turned $neighbours 's/in_block \+ number % 8\]/in_block + (number % 8 ^ 1)]/' result '' '06o: filters side by side exchanged' "$back"
plant neighbours_between $neighbours 's/TURNED \&\& pixel \* p.stride_w != at/false/' result '' '06o: taps that meet no pixel of dy' "$back"
plant neighbours_class $neighbours 's/results.of\[t.row_class\[c\]\]/results.of[0]/' result '' '06o: all classes in the rows of the first' "$back"
only='' gradient='--pass wgrad --kernel 06v --shape g8mb12ic64ih9oc64kh3ph1'
wgrad=06_tensorcore_fp16/v_groups_wgrad.cu
plant diagonal_taps $wgrad 's/ROW_OF_TAPS \? p.dil_w \* ROW/ROW_OF_TAPS ? 2 * p.dil_w * ROW/' result '' '06v: the next tap two pixels on' "$gradient"
plant diagonal_group $wgrad 's/ - of_k\[0\] \* group_c/ - (of_k[0] ^ 1) * group_c/' result '' '06v: the block beside the diagonal' "$gradient"
plant diagonal_ring $wgrad 's/^      ptx_wgmma_wait<1>\(\);.*//' said 'race|nobody has waited' '06v: a stage filled again that the products under way still read' "$gradient"
plant diagonal_zeros $wgrad '/gradient_bytes . 16 . threadIdx/d' said 'uninitialised' '06v: nothing behind dy' "$gradient"
plant diagonal_plane $wgrad 's/row.residue \* p->stride_w \+ column.residue/column.residue * p->stride_w + row.residue/' result '' '06v: rows and columns of the planes exchanged' '--pass wgrad --kernel 06v --shape g8mb1ic64ih9oc64oh5kh3sh2ph1'
plant diagonal_parts $wgrad 's/\(int64_t\)split \* p.K \+ first_k/(int64_t)first_k/' said 'block-race|uninitialised' '06v: sums of all blocks in the same place' "sms=8 $gradient"
plant diagonal_wait 06_tensorcore_fp16/whole_parts.cuh@$wgrad '/the parts are there/d' said 'overlap' '06v: parts read before they are there' "$gradient"
plant diagonal_past $wgrad 's/ROW_OF_TAPS \? taps - TAPS : taps - 1/taps - 1/' said 'uninitialised|out-of-bounds' '06v: a row of taps past the last' '--pass wgrad --kernel 06v --shape g2mb1ic16ih4iw16oc16oh4ow12kh1kw3dh0dw2ph0pw1'
# 06y and 06z: products of 16 x 16 channels.
only='' side='--pass fprop --kernel 06y --shape g8mb12ic64ih9oc64kh3ph1' many='sms=1 --pass fprop --kernel 06y --shape g8mb40ic64ih9oc64kh3ph1' turn='--pass dgrad --kernel 06y --shape g8mb2ic64ih9oc64kh3ph1'
blocks=06_tensorcore_fp16/y_blocks.cu
plant blocks_right $blocks '' none '' '06y as it is' "$side"
plant blocks_other $blocks 's/c < 0 \|\| c >= t.channels/c < 0 || c >= 2 * t.channels/' result '' '06y: filters of the next group, too' "$side"
plant blocks_filters $blocks 's/ptx_mbarrier_wait\(filters_full, 0\);//' said 'race|uninitialised' '06y: filters that have not come' "$side"
plant blocks_fence $blocks 's/ptx_fence_proxy_async\(\);//' said 'proxy' '06y: no fence between results and the copy engine' "$side"
plant blocks_late $blocks 's/^ *ptx_fence_proxy_async\(\);.*//; s/^    if \(lane == 0\) ptx_mbarrier_arrive\(r.empty.*/&\n    ptx_fence_proxy_async();/' said 'proxy: .*a copy into it' '06y: a stage given back before the fence' "$many"
plant blocks_meet $blocks 's/ptx_bar_sync\(1, WORKERS \* 32\); +.. this one.*//' said 'race|uninitialised' '06y: results leave before they are all there' "$side"
plant blocks_box $blocks 's/if \(threadIdx.x == 32\) ptx_bulk_wait_read<0>\(\); .. the other.*//' said 'race|may still read' '06y: results over those that still leave' "$many"
plant blocks_stride $blocks 's/lane % 8\) \* STRIDE/lane % 8)/' result '' '06y: the stride of rows forgotten' '--pass fprop --kernel 06y --shape g8mb2ic64ih18oc64oh9kh3sh2ph1'
plant blocks_turned $blocks 's/TAPS \+ TAPS - 1 - tap\) \* t.channels/TAPS + tap) * t.channels/' result '' '06y: taps not turned' "$turn"
gradient='--pass wgrad --kernel 06z --shape g8mb12ic64ih9oc64kh3ph1'
wgrad=06_tensorcore_fp16/z_blocks_wgrad.cu
plant products_right $wgrad '' none '' '06z as it is' "$gradient"
plant products_group $wgrad 's/group = k & -t.channels;/group = (k ^ t.channels) \& -t.channels;/' result '' '06z: the block beside the diagonal' "$gradient"
plant products_row $wgrad 's/of_dy \+ lane . 16 \* t.columns/of_dy + lane % 16 * 0 + t.columns/' result '' '06z: the second row of dy twice' "$gradient"
plant products_stage $wgrad 's/^    ptx_mbarrier_wait\(r.full.*/&\n    if (lane == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);\n    __syncwarp();/; /^    if \(lane == 0\) ptx_mbarrier_arrive\(r.empty/d' said 'race' '06z: a stage given back before it is multiplied' "sms=1 --pass wgrad --kernel 06z --shape g8mb60ic64ih9oc64kh3ph1"
plant products_fence $wgrad 's/ptx_fence_proxy_async\(\);//' said 'proxy: .*a copy into it' '06z: no fence between what is multiplied and the copy engine' "sms=1 --pass wgrad --kernel 06z --shape g8mb60ic64ih9oc64kh3ph1"
plant products_shares $wgrad 's/ptx_bar_sync\(1, WORKERS \* 32\); .. they are there.*//' said 'race|uninitialised' '06z: sums of the shares that are not there' "$gradient"
plant products_tiles $wgrad 's/ptx_bar_sync\(1, WORKERS \* 32\); .. nobody reads.*//' said 'race' '06z: sums over a tile that others still read' "$gradient"
plant products_parts $wgrad 's/\(int64_t\)split \* p.K \+ first/(int64_t)first/' said 'block-race|uninitialised' '06z: sums of all blocks in the same place' "sms=8 $gradient"
# 06x: filters of a block's channels in shared memory.
few='--pass fprop --kernel 06x --shape g36mb2ic36ih9oc36kh3ph1'
direct=06_tensorcore_fp16/x_direct.cu
plant direct_right $direct '' none '' '06x as it is' "$few"
plant direct_barrier $direct 's/__syncthreads\(\); .. filters are there .*//' said 'race|uninitialised' '06x: filters read before they are there' "$few"
plant direct_channel $direct 's/mine - first \+ \(mine/mine + 1 - first + (mine/' said 'uninitialised|result|out-of-bounds' '06x: the filters of the next channels' "$few"
plant direct_wait $direct 's/__pipeline_wait_prior\(0\);//' said 'race|uninitialised|async' '06x: filters that are still on their way' "$few"

# Compiles and runs one case; its exit status, stdout and stderr stay in the folder.
run_case() {
  local name=$1 source header generated flags=() arguments=() others=() sms=1
  source=$(cat "$folder/$name.source") header=${source%@*} source=${source#*@} generated=$folder/$name.cpp
  if [ "$header" != "$source" ]; then # its place comes first where headers are looked for
    mkdir -p "$folder/$name.include/${header%/*}"
    flags=(-iquote "$folder/$name.include") generated=$folder/$name.include/$header
  fi
  case $source in
  0*)
    local step=${source%%/*}
    others=("$B/$step/main.c.o" "$B/$step/kernels.c.o" "$B/$step/kernel_sources.c.o")
    for other in "$step"/*.cu; do [ "$other" = "$source" ] || others+=("build/check/$other.o"); done
    read -r -a arguments <"$folder/$name.arguments"
    [[ ${arguments[0]} != sms=* ]] || { sms=${arguments[0]#sms=} && arguments=("${arguments[@]:1}"); }
    arguments+=(--no-time)
    ;;
  esac
  {
    "$REWRITE" "$folder/$name.cu" "$generated" && if [ "$header" != "$source" ]; then generated=$B/gen/$source.cpp; fi &&
      $COMPILE "${flags[@]}" "$generated" -o "$folder/$name.o" &&
      $LINK -o "$folder/$name" "$folder/$name.o" "${others[@]}" "$B/libharness.a" -lm -ldl -lpthread
  } >"$folder/$name.log" 2>&1 || { echo 'cannot be built' >"$folder/$name.status" && return; }
  EMU_SMS=$sms timeout 60 "$folder/$name" "${arguments[@]}" >"$folder/$name.out" 2>"$folder/$name.err"
  echo $? >"$folder/$name.status"
}
export -f run_case
printf '%s\n' "${cases[@]}" | xargs -P 2 -I{} bash -c 'run_case {}'

# Whether a report of this kind names a line of the source that has one of the texts.
reported() {
  local name=$1 kind=$2 texts=$3 text line
  [ "$kind" = divergent ] && { grep -qE 'divergent barrier|deadlock' "$folder/$name.err" && return 0 || return 1; }
  [ "$kind" = shared ] && { grep -q 'more than .* KB of __shared__' "$folder/$name.err" && return 0 || return 1; }
  while read -r line; do
    while IFS= read -r text; do
      sed -n "${line}p" "$folder/$name.cu" | grep -qF -- "$text" && return 0
    done < <(tr '|' '\n' <<<"$texts")
  done < <(grep "^emulator check: $kind: " "$folder/$name.err" | sed -nE "s|.*$name\.cu:([0-9]+), .*|\1|p")
  return 1
}

found=0
for name in "${cases[@]}"; do
  { read -r kind && read -r texts && read -r text; } <"$folder/$name.expect"
  status=$(cat "$folder/$name.status")
  good=1
  case $kind in
  none) [ "$status" = 0 ] && [ ! -s "$folder/$name.err" ] && good=0 ;;
  result) [ "$status" = 1 ] && good=0 ;;
  said) [ "$status" != 0 ] && grep -qE "$texts" "$folder/$name.err" && good=0 ;;
  *) [ "$status" = 1 ] && reported "$name" "$kind" "$texts" && good=0 && found=$((found + 1)) ;;
  esac
  [ "$kind" = none ] || grep -q changed "$folder/$name.edited" || good=1
  ok $good "$text: $kind"
  [ $good -eq 0 ] || { diag "$name: exit status $status, source $(cat "$folder/$name.edited")" && head -n 8 "$folder/$name.log" "$folder/$name.err" 2>&1 | sed 's/^/# /'; }
done
ok "$([ "$found" -ge 11 ] && echo 0 || echo 1)" "the checker itself names $found defects and their lines"
done_testing
