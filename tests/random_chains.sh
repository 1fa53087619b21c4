# Chains of operations that nobody chose (tests/random_chains.pl), on one multiprocessor and more, in several orders of blocks and lanes: whichever kernels take them, right.
# More of them: CHAINS=3000 SEED=7 make test-random_chains
. tests/tap.inc
emulator_only 'orders are the emulator'"'"'s'
chains=${CHAINS:-120} seed=${SEED:-1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export B folder

# A shape that no convolution has (exit status 2) is passed over: they must be few.
try() {
  local name=$1
  EMU_SMS=$2 EMU_SEED=$3 OMP_NUM_THREADS=1 timeout 120 "$B/tools/graph" --dtype fp16 --no-time "${@:4}" >"$folder/$name.out" 2>&1
  case $? in
  0) grep -o 'by 07[d-k]' "$folder/$name.out" | sort -u || echo apart ;;
  2) echo refused ;;
  *) echo "wrong, EMU_SMS=$2 EMU_SEED=$3 $B/tools/graph --dtype fp16 --no-time ${*:4}: $(tail -n 1 "$folder/$name.out")" ;;
  esac
}
export -f try
tests/random_chains.pl "$seed" "$chains" | nl | xargs -P 2 -L 1 bash -c 'try "$@"' _ >"$folder/said"
grep '^wrong' "$folder/said" | head -n 5 | sed 's/^/# /' >&2
ok "$(grep -c '^wrong' "$folder/said")" "$chains chains, seed $seed: right"
ok $(($(grep -c refused "$folder/said") * 10 > chains)) 'and nearly all are computed'
for kernel in 07d 07e 07f 07g 07h 07j 07k; do
  grep -q "$kernel" "$folder/said"
  ok $? "$kernel takes some of them: $(grep -c "$kernel" "$folder/said")"
done
done_testing
