# What the checker says of the kernels of tests/check_engines.cu: nothing as they are, each defect and its line.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
program=build/check/tests/check_engines

silent "$log" 'right kernels' '0 1 2 3 4 5' $program

# report CASE DEFECT WANTED LINE: a report of the case with the defect matches WANTED, and is of the line that contains LINE, after the case's name; '' any, as the order decides.
report() {
  local line seed
  line=$(awk -v of="void $1(" -v text="$4" 'text == "" { print "[0-9]+"; exit } index($0, of) { there = 1 } there && index($0, text) { print NR; exit }' tests/check_engines.cu)
  for seed in 0 3; do
    EMU_SEED=$seed $program "$1" "$2" >"$log" 2>&1
    [ $? -eq 1 ] && grep -E "tests/check_engines.cu:$line[,:] " "$log" | grep -qE -- "$3"
    ok $? "$1, $2, seed $seed: $(grep -E -m 1 -- "$3" "$log" | cut -c1-200)" || grep -m 4 '^emulator' "$log" | sed 's/^/# /'
  done
}
report multiplied no-fence 'proxy: .*wgmma reads b, with no fence.proxy.async between' 'ptx_wgmma_m64n8k16'
report multiplied no-barrier 'race: .*wgmma reads b' 'ptx_wgmma_m64n8k16'
report multiplied unwritten 'uninitialised: .*wgmma reads b: .* b, byte 10,' 'ptx_wgmma_m64n8k16'
report multiplied early 'race: .*(wgmma reads b|the tensor cores read it at)' ''
report stored no-fence 'proxy: .*a store from it, with no fence.proxy.async between' 'ptx_bulk_store'
report stored no-barrier 'race: .*a store (from it|read it at)' ''
report stored unwritten 'uninitialised: .*a store from it: .* tile, byte 10,' 'ptx_bulk_store'
report stored early 'race: .*a store read it at' 'tile[threadIdx.x] ='
report loaded no-barrier '(race|uninitialised): .*a copy' ''
report loaded no-fence 'proxy: .*a copy into it, with no fence.proxy.async between: .* tile, byte .* read it at' 'ptx_bulk_load'
report released no-fence 'proxy: .*a copy into it, .* read it at' 'ptx_bulk_load'
report released early 'proxy: .*a copy into it, .* read it at' 'ptx_bulk_load'
report released unwritten 'proxy: .*a copy into it, .* wrote it at' 'ptx_bulk_load'
silent "$log" 'a fence by the thread that asks for the copy' '0 3' $program released twice
report loaded early 'race: .*tile, byte 1[01],.* a copy wrote it at' 'tile[5] ='
report loaded twice 'race: .*a copy into it: .* a copy wrote it at' '/* the second */'
report reused no-barrier 'with no barrier since its initialisation|tile is no mbarrier' 'ptx_mbarrier_arrive'
report visited no-barrier '(race|uninitialised): .*another block of the cluster' ''
report visited unwritten 'uninitialised: .*of another block of the cluster: .* tile, byte 10,' 'ptx_ld_cluster'
report visited early 'race: .*another block of the cluster' ''
report added no-barrier 'race: .*atomically changed it' 'sums[threadIdx.x];'
report added unwritten 'uninitialised: .*allocation 1, byte' 'ptx_bulk_reduce_add_f32'
report added early 'block-race: .*(wrote it|atomically changed it)' ''
report added outside 'out-of-bounds: .*allocation 1, byte 16384' 'ptx_bulk_reduce_add_f32'
report turns early 'race: .*a wait for phase 1, with no word that phase 0 is over .* mbarrier .* waited for that one at tests' '/* of the round */'
silent "$log" 'stages that are each one warp'"'"'s alone' '0 3' $program turns twice
report filled early 'race: .*a wait for phase 1, with no word that phase 0 is over|uninitialised: .* tile' '' # or the wait comes too early
done_testing
