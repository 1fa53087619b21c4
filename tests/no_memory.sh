# Too little memory at any point of a run: nothing is called right that was not compared, and the exit status says that something was left out.
. tests/tap.inc
emulator_only 'a limit on addresses leaves no room for CUDA'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 EMU_THREADS=1

# The tensors of this problem take 16 MB each, the reference 48. The limit grows until the whole fits.
for way in host device; do
  bad=0 refused=0 reference=0 fits=0
  for limit in 60000 70000 80000 90000 100000 110000 120000 130000 140000 150000 160000 180000 200000 240000 300000 400000 600000 1600000; do
    rm -f "$folder"/*
    (ulimit -v $limit && exec "$B/02" --verify $way --kernel 02a --pass fprop --no-time --shape mb1ic1ih2000oc1kh1 --csv "$folder/o.csv") >"$folder/log" 2>&1
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
