# Too little memory at any point of a run: nothing is called right that was not compared, and the exit status says that something was left out.
. tests/tap.inc
emulator_only 'a limit on addresses leaves no room for CUDA'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 EMU_THREADS=1

# The tensors of this problem take 36 MB each, the reference 108. The limit grows until the whole fits.
for way in host device; do
  bad=0 refused=0 reference=0 fits=0
  for limit in 60000 100000 140000 180000 220000 260000 300000 340000 400000 500000 600000 800000 1600000; do
    rm -f "$folder"/*
    (ulimit -v $limit && exec "$B/02" --verify $way --kernel 02a --pass fprop --no-time --shape mb1ic1ih3000oc1kh1 --csv "$folder/o.csv") >"$folder/log" 2>&1
    status=$?
    grep -q '^no memory for the reference' "$folder/log" && reference=$((reference + 1))
    if [ $status -eq 0 ]; then
      fits=$((fits + 1))
      if grep -q ',02a,[0-9a-f]*,right,yes,0' "$folder/o.csv" && grep -q '^1 right, 0 wrong, 0 skipped$' "$folder/log"; then break; fi
      grep -q ',02a,[0-9a-f]*,skipped,' "$folder/o.csv" || { bad=$((bad + 1)) && diag "with $limit KB:" "$(tail -n 3 "$folder/log")"; }
    else
      refused=$((refused + 1))
      if grep -q ' right: ' "$folder/log" || grep -qs ',right,' "$folder/o.csv"; then
        bad=$((bad + 1))
        diag "exit status $status with $limit KB, and yet:" "$(tail -n 3 "$folder/log")"
      fi
    fi
  done
  ok $bad "$way: of $refused runs that ran out of memory ($reference of them for the reference) none calls a result right"
  ok $((fits == 0 || refused == 0)) "$way: with enough memory it is right ($limit KB)"
done
done_testing
