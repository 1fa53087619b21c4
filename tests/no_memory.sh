# Too little memory at any point of a run: one line that says what for, exit status 2; nothing is called right that was not compared. Of a list, what does not
# fit is left out with its reason and the rest runs.
. tests/tap.inc
emulator_only 'a limit on addresses leaves no room for CUDA'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 EMU_THREADS=1
layer=mb1ic1ih1000oc1kh1 tiny=mb1ic1ih9oc1kh3 # the tensors of the layer take 4 MB each, the reference 12
bad_shape='--shape: mb, ic, oc, ih, iw: expected a problem that fits memory: '
no_memory="($bad_shape|emulator: )no (host )?memory for .*[0-9]+ (bytes|elements)"

# limited KB PROGRAM ARGUMENTS...: what it says into log and errors, its rows into o.csv; its exit status.
limited() {
  rm -f "$folder"/o.csv
  (ulimit -v "$1" && shift && exec "$@" --kernel 02a --pass fprop --no-time --csv "$folder/o.csv") >"$folder/log" 2>"$folder/errors"
}

# The limit grows until the whole fits.
# grows WHAT PROGRAM ARGUMENTS...
grows() {
  local what=$1 bad=0 refused=0 status limit
  shift
  for limit in 10000 16000 20000 24000 28000 30000 32000 34000 36000 38000 40000 60000 150000 300000 400000 600000 1600000; do
    limited $limit "$@" --shape "$layer"
    status=$?
    if [ $status -eq 0 ] && grep -q ',02a,[0-9a-f]*,right,yes,0' "$folder/o.csv" && grep -q '^1 right, 0 wrong, 0 skipped$' "$folder/log"; then break; fi
    refused=$((refused + 1))
    if [ $status -ne 2 ] || [ "$(grep -cE "^$no_memory" "$folder/errors")" -ne 1 ] || [ "$(wc -l <"$folder/errors")" -ne 1 ] || [ -e "$folder/o.csv" ] ||
      grep -q ' right: ' "$folder/log"; then
      bad=$((bad + 1))
      diag "exit status $status with $limit KB:" "$(tail -n 2 "$folder/log")" "$(head -n 2 "$folder/errors")"
    fi
    cat "$folder/errors" >>"$folder/all"
  done
  ok $bad "$what: all $refused runs that ran out of memory say in a line for what, exit status 2"
  ok $((status != 0 || refused == 0)) "$what: with enough memory it is right ($limit KB)"
}
grows 'verified on the host' "$B/02" --verify host
grep -q 'no host memory for a tensor of 4000000 bytes' "$folder/all" && grep -q 'no memory for the reference of 1000000 elements' "$folder/all"
ok $? 'no memory for tensors, none for the reference'
grows 'verified on the device' "$B/02" --verify device
grows 'under the checker' build/check/02
grows 'counted' build/count/02
for tool in checker counter; do
  grep -q "no memory for its buffers of 80[0-9]* bytes and the [0-9]* that the $tool keeps of them$" "$folder/all"
  ok $? "no memory for what the $tool keeps of buffers"
done

# The checker's shadow of shared memory is there before anything else runs, however small the problem is.
limited 150000 build/check/02 --shape $tiny
[ $? -eq 2 ] && grep -qE "^emulator: no memory for the checker's shadow of shared memory: asked for [0-9]+ bytes$" "$folder/errors" && [ "$(wc -l <"$folder/errors")" -eq 1 ]
ok $? "no memory for what the emulator keeps itself: $(cat "$folder/errors")"

# A list: the lines before and after the one that does not fit run, at every limit.
printf '%s\n' $tiny $layer $tiny >"$folder/suite"
bad=0 left_out=0
for limit in 12000 16000 20000 24000 28000 32000 34000 40000; do
  limited $limit "$B/02" --suite "$folder/suite"
  status=$?
  rows=$(sed -n 's/.*,02a,[0-9a-f]*,\([a-z]*\),.*/\1/p' "$folder/o.csv" | paste -sd' ')
  case "$status $rows" in
    '0 right right right') ;;
    '0 right skipped right' | '1 right unverified right') grep -qE '(SKIP|UNVERIFIED) 02a: no (host )?memory for .*[0-9]+ (bytes|elements)' "$folder/log" && left_out=$((left_out + 1)) ;;
    *) bad=$((bad + 1)) && diag "exit status $status with $limit KB: $rows" "$(head -n 1 "$folder/errors")" ;;
  esac
done
ok $((bad + (left_out == 0))) "of a list one line does not fit ($left_out times): the others are right"
limited 420000 build/check/02 --suite "$folder/suite"
[ $? -eq 0 ] && grep -q '^2 right, 0 wrong, 1 skipped$' "$folder/log" && grep -q 'SKIP 02a: no memory for its buffers' "$folder/log"
ok $? "and under the checker: $(cat "$folder/errors")"

# A line of a list that is longer than memory: a file of one line and 1 GB that nobody wrote.
echo $tiny >"$folder/long"
truncate -s 1G "$folder/long"
limited 200000 "$B/02" --suite "$folder/long"
ok "$([ $? -eq 2 ] && [ "$(cat "$folder/errors")" = "--suite: $folder/long:2: expected a line that fits memory" ] && echo 0 || echo 1)" "$(cat "$folder/errors")"

# What is asked for before anything is allocated: twice the tensors and 4 bytes an input, 12 an output; once more the tensors for the device; and what the checker
# (5.25 bytes a byte where all are fp32) or the counter (2.25) keeps of those.
needs() { "$1" --shape mb1000ic1000ih10000oc10kh1 --pass fprop --kernel 02a --no-time 2>&1 >/dev/null | sed -n "s/^$bad_shape//p"; }
while IFS='|' read -r program want; do
  said=$(needs "$program")
  [[ $said == "needs $want, this machine or container has "*" GB" ]]
  ok $? "counted before: $said"
done <<EOT
$B/02|1.62e+06 GB of host memory
build/check/02|3.75e+06 GB of host memory (2.12e+06 GB of it for the checker)
build/count/02|2.53e+06 GB of host memory (9.09e+05 GB of it for the counter)
EOT
done_testing
