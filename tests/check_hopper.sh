# Plants defects in copies of a Hopper kernel, one at a time, and wants every one found: by the checker or the emulator, in its words at the right line, or,
# where only the result tells, by the result. And the kernel as it is: no report, whatever the order.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
. tests/planted.inc

window=tests/hopper_window.cu
plant no_full_wait $window 's/    ptx_mbarrier_wait\(full_at.*?;\n//' 'uninitialised: .*wgmma reads b' 'ptx_wgmma_m64n' 'pixels used without waiting for their mbarrier'
plant no_filter_wait $window 's/  ptx_mbarrier_wait\(filter_at, 0\);\n//' 'uninitialised: .*wgmma reads a|race: .*wgmma reads a' 'ptx_wgmma_m64n' 'filters used without waiting'
plant full_parity $window 's/(full_at \+ 8 \* stage, )i \/ STAGES & 1\)/$1(i \/ STAGES & 1) ^ 1)/' 'uninitialised: .*wgmma reads b' 'ptx_wgmma_m64n' 'the wrong parity'
plant empty_parity $window 's/\(i \/ STAGES & 1\) \^ 1/i \/ STAGES & 1/' 'deadlock' '' 'a producer that waits for a phase that nobody ends'
plant too_few_bytes $window 's/(full_at \+ 8 \* stage, BOX)/$1 - 128/' 'deadlock|brings more bytes|uninitialised' '' 'fewer bytes expected than come'
plant too_many_bytes $window 's/(full_at \+ 8 \* stage, BOX)/$1 + 128/' 'wait for the phase of parity 0 .*128 bytes missing' 'ptx_mbarrier_wait(full_at' 'more bytes expected than come'
plant no_empty_wait $window 's/        ptx_mbarrier_wait\(empty_at.*?\n//' 'race: .*a copy into it|nobody has waited for the one before|1 arrival too many' '' 'a stage filled that is still read'
plant wait_one $window 's/ptx_wgmma_wait<0>/ptx_wgmma_wait<1>/' 'race|nobody has waited for the wgmma|uninitialised' '' 'a wait that leaves one group at work'
plant no_wait $window 's/    ptx_wgmma_wait<0>\(\);\n//' 'race|nobody has waited for the wgmma' '' 'sums used while the tensor cores are at work'
plant no_commit $window 's/    ptx_wgmma_commit\(\);\n//' 'race|nobody has waited for the wgmma' '' 'no commit: nothing to wait for'
plant no_proxy_fence $window 's/(store_sums<N>\(d, pixels\);\n)    ptx_fence_proxy_async\(\);\n/$1/' 'proxy: .*a store from it' 'ptx_tensor_store' 'results stored with no fence between the proxies'
plant early_proxy_fence $window 's/    (store_sums<N>\(d, pixels\);)\n    (ptx_fence_proxy_async\(\);)/    $2\n    $1/' 'proxy: .*a store from it' 'ptx_tensor_store' 'the fence before the writes'
plant one_lane_fence $window 's/(store_sums<N>\(d, pixels\);\n)    ptx_fence/$1    if (threadIdx.x % 128 == 0) ptx_fence/' 'proxy: .*a store from it' 'ptx_tensor_store' 'one thread fences for all, before they meet'
plant no_zeros_fence $window 's/\n  ptx_fence_proxy_async\(\);\n  __syncthreads/\n  __syncthreads/' 'proxy: .*wgmma reads b' 'ptx_wgmma_m64n' 'zeros that the tensor cores do not see'
plant tail_not_zeroed $window 's/    \*\(uint4 \*\)\(shared \+ TAPS \* TAP.*?\n/    (void)stage, (void)at;\n/' 'uninitialised: .*wgmma reads b' 'ptx_wgmma_m64n' 'rows behind the box never written'
plant first_bar $window 's/    ptx_bar_sync\(1 \+ group, 128\); \/\* nobody.*?\n//' 'race' '' 'sums over pixels that other warps still multiply'
plant second_bar $window 's/    ptx_bar_sync\(1 \+ group, 128\); \/\* the sums.*?\n//' 'race: .*a store from it' 'ptx_tensor_store' 'a store of what others still write'
plant no_read_wait $window 's/      ptx_bulk_wait_read<0>\(\);\n//' 'race: .*a copy into it|may still read its shared memory' '' 'a stage released that is still being stored'
plant no_barrier_fence $window 's/  __syncthreads\(\); \/\* barriers.*?\n//' 'race: .*with no barrier since its initialisation' 'ptx_mbarrier_wait' 'mbarriers used before they are there'
plant misaligned $window 's/stages = filter \+ TAPS \* TAP/stages = filter + TAPS * TAP + 64/' 'cp.async.bulk.tensor at .*(128|align|multiple)' 'ptx_tensor_load' 'a box that is not aligned'
plant off_by_a_row $window 's/tap \/ 3 \* PITCH \+ tap % 3\)/tap \/ 3 * PITCH + tap % 3 + 1)/' 'result|uninitialised' '' 'a descriptor one row too far'
plant too_far $window 's/(pixels \+ \(tap \/ 3 \* PITCH)/$1 + 40000 * (N == 232)/' 'out-of-bounds|result' '' 'a descriptor outside of shared memory'
plant unequal $window 's/ptx_wgmma_descriptor\(filter \+ tap/ptx_wgmma_descriptor(filter + (threadIdx.x % 128 == 5) * 1024 + tap/' 'bring different descriptors of a' 'ptx_wgmma_m64n' 'one thread brings another descriptor'
plant divergent $window 's/    ptx_wgmma_commit\(\);/    if (threadIdx.x % 128 != 7) ptx_wgmma_commit();/' 'divergent warpgroup|issued by|nobody has waited' '' 'a commit that one thread leaves out'
plant twice_arrived $window 's/(      ptx_mbarrier_arrive\(empty_at \+ 8 \* stage\);)/$1\n$1/' 'nobody has waited for the one before' 'ptx_mbarrier_arrive(empty_at' 'two arrivals where one is expected'
plant not_initialised $window 's/, ptx_mbarrier_init\(empty_at \+ 8 \* i, 1\)//' 'is no mbarrier' 'ptx_mbarrier_wait(empty_at' 'an mbarrier that nobody initialised'
plant no_wgmma_fence $window 's/    ptx_wgmma_fence\(\);\n//' 'with no wgmma.fence between' 'ptx_wgmma_m64n' 'no wgmma.fence before the first product'
plant sums_read_early $window 's/    ptx_wgmma_wait<0>\(\);\n(.*?\n)(.*?store_sums.*?\n)/$1$2    ptx_wgmma_wait<0>();\n/' 'race: .*the sums of a wgmma that nobody has waited for' 'part[i] = two_halves' 'sums read before the wait'
plant registers $window 's/ptx_setmaxnreg_dec<40>/ptx_setmaxnreg_dec<41>/' '41 registers, expected a multiple of 8' 'ptx_setmaxnreg_dec' 'a number of registers that does not exist'
plant not_waited_for $window 's/tile < tiles; tile/tile < tiles + (int)gridDim.x; tile/' 'ends while the copy issued at .* is under way' 'ptx_tensor_load(stages' 'a copy that is under way when its block ends'
plant too_many_registers $window 's/ptx_setmaxnreg_dec<40>/ptx_setmaxnreg_dec<48>/' 'ask for 65536 registers by setmaxnreg' '' 'more registers than the block has'
plant odd_ring $window 's/STAGES = 2/STAGES = 3/' 'race: .*a wait for phase 1, with no word that phase 0 is over' 'ptx_mbarrier_wait(full_at' 'three stages, whose rounds the consumers take by turns'
plant no_store_commit $window 's/      ptx_bulk_commit\(\);\n//' 'may still read its shared memory|race: .*a copy into it' '' 'a store in no group'

cluster=tests/hopper_blocks.cu
plant no_bulk_wait $cluster 's/  ptx_mbarrier_wait\(barrier, 0\);\n//' 'uninitialised: .*from_before|race: .*a copy into it.*from_before' 'from_before[thread' 'what another block sends, used without waiting'
plant no_multicast_wait $cluster 's/  ptx_mbarrier_wait\(ptx_shared_address\(&brought\), 0\);\n//' 'uninitialised: .*for_all|race: .*a copy into it.*for_all' 'for_all[thread' 'what one load brings to all, used without waiting'
plant local_arrival $cluster 's/ptx_mapa\(ptx_shared_address\(&all_asked\), 0\)/ptx_shared_address(&all_asked)/' 'deadlock' '' 'an arrival at the own mbarrier instead of the first block'"'"'s'

find_planted
clean hopper_window 'the window'
clean hopper_blocks 'clusters'
done_testing
