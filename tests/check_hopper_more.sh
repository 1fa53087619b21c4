# As check_hopper.sh, for the first layer, wgrad and clusters.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
. tests/planted.inc

first=tests/hopper_first_layer.cu
plant no_expansion_fence $first 's/    ptx_fence_proxy_async\(\);\n(    __syncthreads)/$1/' 'proxy: .*wgmma reads' 'ptx_wgmma_m64n' 'rows expanded with no fence between the proxies'
plant padding_unwritten $first 's/(      )(\*\(uint4 \*\)\(shared \+ expanded_at)/$1if (from != nullptr) $2/' 'uninitialised: .*wgmma reads b' 'ptx_wgmma_m64n' 'rows outside of the image left unwritten'
plant right_unwritten $first 's/(      )(\*\(uint4 \*\)\(shared \+ expanded_at)/$1if (2 * pair - PAD < size.w) $2/' 'uninitialised: .*wgmma reads b' 'ptx_wgmma_m64n' 'padding pixels on the right left unwritten'
plant pairs_lbo $first 's/% 2 \* 2 \* PAIR, PAIR, 128/% 2 * 2 * PAIR, 128, 128/' 'result|uninitialised' '' 'LBO of eight pairs'
plant filters_lbo $first 's/2 \* CHUNK, CHUNK, 128/2 * CHUNK, 128, CHUNK/' 'result|uninitialised|out-of-bounds' '' 'LBO and SBO of the filters exchanged'
plant eighth_pixel $first 's/s < SIDE && //' 'result|out-of-bounds' '' 'a filter for the eighth pixel of a window'
plant left_padding $first 's/2 \* pair - PAD,/2 * pair - PAD - 1,/; s/2 \* pair \+ 1 - PAD,/2 * pair - PAD,/' 'result' '' 'windows that begin in the middle of a pair'
plant scale_d $first 's/product<N, 0>\(d/product<N, 1>(d/' 'result' '' 'sums that do not begin at zero'
plant raw_refilled $first 's/(    if \(BULK && threadIdx.x == 0 && tile \+ gridDim.x < tiles\).*?\n)//; s/(    ptx_fence_proxy_async\(\);\n    __syncthreads)/    if (BULK && threadIdx.x == 0 && tile + gridDim.x < tiles) load(tile + gridDim.x);\n$1/' 'uninitialised: .*a copy that nobody has waited for' '__half_as_ushort(c[' 'raw rows filled that others still expand'
plant expanded_overwritten $first 's/    __syncthreads\(\); \/\* nobody reads the expanded.*?\n/    ptx_bar_sync(1 + group, 128);\n/' 'race' '' 'rows expanded over those that the other warpgroup still multiplies'
plant results_overwritten $first 's/    if \(threadIdx.x % 128 == 0\) ptx_bulk_wait_read<0>\(\);\n(    __sync)/$1/' 'race: .*a store read it' 'ptx_stmatrix' 'results over those that are still being stored'
plant raw_bytes $first 's/\(high - low\) \* raw_row/ROWS * raw_row/' 'wait for the phase of parity 0 .*bytes missing' 'ptx_mbarrier_wait(barrier' 'rows outside of the image expected'

wgrad=tests/hopper_wgrad.cu
plant no_counter_fence $wgrad "s/  __threadfence\(\);\n(  ptx_bar_sync\(1, CONSUMERS\); \/\* the block)/\$1/" 'block-race' 'workspace + (size_t)block * SUMS' 'sums that are not published before the counter'
plant no_counter_bar $wgrad "s/  ptx_bar_sync\(1, CONSUMERS\); \/\* the block's.*?\n//" 'block-race' 'workspace + (size_t)block * SUMS' 'a counter that runs ahead of the other warps'
plant plain_counter $wgrad 's/atomicAdd\(arrived, 1\)/(*arrived)++/' 'block-race' '(*arrived)++' 'a counter that is not atomic'
plant counter_left $wgrad 's/  if \(threadIdx.x == 0\) \*arrived = 0;.*?\n//' 'result' '' 'a counter that the next launch does not find at zero'
plant no_last_bar $wgrad 's/  ptx_bar_sync\(1, CONSUMERS\); \/\* whether.*?\n//' 'uninitialised|race' 'if (!last)' 'a flag read before it is there'
plant taps_lbo $wgrad 's/k \* PIXEL\), PIXEL, 1024/k * PIXEL), 1024, 1024/; s/pixels \+ k \* PIXEL, PIXEL, 1024/pixels + k * PIXEL, 8 * PIXEL, 1024/' 'result|uninitialised' '' 'taps eight pixels apart'
plant k_major $wgrad 's/k16<1, 1>/k16<1, 0>/' 'result|uninitialised|out-of-bounds' '' 'pixels as if K-major'
plant one_arrival $wgrad 's/CONSUMERS \/ 32\);/GROUPS);/; s/if \(lane == 0\) ptx_mbarrier_arrive/if (threadIdx.x % 128 == 0) ptx_mbarrier_arrive/' 'race: .*a copy into it' 'ptx_tensor_load' 'one warp that speaks for four'
plant tail_not_zeroed $wgrad 's/    \*\(uint4 \*\)\(shared \+ i.*?\n/    (void)i;\n/' 'uninitialised: .*wgmma reads b' 'ptx_wgmma_m64n192' 'rows behind the box never written'
plant no_zero_columns $wgrad 's/dy_box\[4\] = \{FILTERS, PITCH,/dy_box[4] = {FILTERS, PITCH - 4,/; s/(rows \* )pitch( \* PIXEL; \}\nstatic constexpr __host__ __device__ int x_bytes)/$1(pitch - 4)$2/' 'result|race|uninitialised' '' 'rows of dy narrower than those of x'

cluster=tests/hopper_cluster.cu
plant no_peer_expect $cluster 's/(arrive_expect_tx\(there, STAGE)(\); \/\* the other)/$1 - PIXEL_BYTES \/ 2$2/' 'bytes too many|uninitialised' '' "the other block's half not expected"
plant no_expect $cluster 's/ptx_mbarrier_arrive_expect_tx\(there, STAGE\); \/\*/if (rank == 0) ptx_mbarrier_arrive_expect_tx(there, STAGE); \/\*/' 'wait for the phase of parity 0 ' 'ptx_mbarrier_wait(full' 'a multicast without the expectation of the other block'
plant own_mask $cluster 's/there, 3\)/there, 1 << rank)/' 'wait for the phase of parity 0 .*8192 bytes missing' 'ptx_mbarrier_wait(full' 'a multicast to the own block alone'
plant wide_mask $cluster 's/there, 3\)/there, 7)/' 'multicast|cluster' 'ptx_tensor_load_multicast' 'a multicast to a block that is not there'
plant same_half $cluster 's/tile \* PIXELS \+ rank \* PIXELS \/ 2\}/tile * PIXELS}/' 'result' '' 'the same half loaded twice'
plant no_remote_arrival $cluster 's/ptx_mbarrier_arrive_cluster\(empty_there \+ 8 \* stage\)/(void)empty_there/' 'waits? for the phase of parity 0 .*4 of 8 arrivals' 'ptx_mbarrier_wait(empty' 'the other block not told that a stage is empty'
plant refilled $cluster 's/ptx_mbarrier_arrive_cluster\(empty_there \+ 8 \* stage\)/(void)empty_there/; s/init\(full, empty, 2 \*/init(full, empty, 1 */' 'race: .*a copy into it' 'ptx_tensor_load_multicast' 'a stage filled that the other block has not released'
plant own_refilled $cluster 's/          ptx_mbarrier_arrive\(empty.*?\n//; s/init\(full, empty, 2 \*/init(full, empty, 1 */' 'race: .*a copy into it|1 arrival too many|nobody has waited for the one before' '' 'a stage filled that the own block has not released'
plant no_init_barrier $cluster 's/cluster_sync\(\); (\/\* the mbarriers of both)/__syncthreads(); $1/' 'mbarrier' '' 'mbarriers of the other block used before they are there'
plant exits $cluster 's/  cluster_sync\(\); \/\* nobody copies.*?\n//' 'has exited|ends while' '' 'a block that ends while the other arrives there'
plant no_sums_barrier $cluster 's/    ptx_mbarrier_wait\(sums_there, 0\);\n//' 'uninitialised' 'const float4 other' 'sums read before they have come'
plant no_sums_fence $cluster 's/    ptx_fence_proxy_async\(\);\n(    ptx_bar_sync\(1, CONSUMERS\); \/\* what is sent)/$1/' 'proxy: .*a store from it' 'ptx_bulk_between' 'sums sent with no fence between the proxies'
plant no_sums_bar $cluster 's/    ptx_bar_sync\(1, CONSUMERS\); \/\* what is sent.*?\n//' 'race: .*a store from it|uninitialised: .*a store from it' 'ptx_bulk_between' 'sums sent that others still write'
plant own_sums $cluster 's/ptx_mapa\(stages \+ IN, rank \^ 1\)/stages + IN/' 'not in the block that the bytes go to' 'ptx_bulk_between' 'sums sent to the own block'
plant sums_bytes $cluster 's/(sums_there, SENT)/$1 + 16/' 'wait for the phase of parity 0 .*16 bytes missing' 'ptx_mbarrier_wait(sums' 'more sums expected than come'
plant no_source_barrier $cluster 's/  cluster_sync\(\); \/\* what was sent.*?\n//; s/    ptx_mbarrier_wait\(sums_there, 0\);\n/    if (rank == 1) ptx_mbarrier_wait(sums_there, 0);\n/' 'uninitialised|ends while|has exited' '' 'a block that ends before its sums have been read'

neighbours=tests/hopper_neighbours.cu
plant numbers_early $neighbours 's/  cluster_sync\(\); \/\* all numbers/  __syncthreads(); \/\* all numbers/' '(race|uninitialised): .*of another block' 'ptx_ld_cluster' "the neighbour's numbers read before they are there"
plant sums_early $neighbours 's/  cluster_sync\(\); \/\* all sums/  __syncthreads(); \/\* all sums/' '(race|uninitialised): .*shared unsigned .*sums|has exited' 'sums[' "sums read before the neighbour has left them"
plant overwritten $neighbours 's/ptx_shared_address\(sums/ptx_shared_address(numbers/' 'race: .*of another block' 'ptx_st_cluster' 'numbers overwritten that the neighbour still reads'
plant still_read $neighbours 's/(  ptx_st_cluster)/  numbers[i + 3] = 0;\n$1/' 'race: .*another block of the cluster (read|wrote)' 'numbers[i + 3] = 0' "the own numbers changed while the neighbour reads them"
plant beyond $neighbours 's/(ptx_ld_cluster\(ptx_mapa\(ptx_shared_address\(numbers \+ )i/$1i + 4 * WORDS/' 'out-of-bounds: .*of another block' 'ptx_ld_cluster' "behind the neighbour's arrays"
plant passed_early $neighbours 's/(  passed\[.*?\n)(  cluster_sync.*?\n)/$2$1/' 'block-race' 'passed[' 'global memory written after the cluster barrier'

find_planted
clean hopper_first_layer 'the first layer'
clean hopper_wgrad 'wgrad'
clean hopper_cluster 'clusters'
clean hopper_neighbours 'neighbours'
done_testing
