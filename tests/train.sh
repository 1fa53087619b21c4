# make train: a network learns by step 06's kernels, its gradients are right, and a wrong one is noticed.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
tool=$B/tools/train

# bad WHAT ARGUMENT...: one line on stderr, exit status 2.
bad() {
  said=$("$tool" "${@:2}" 2>&1 >/dev/null)
  status=$?
  [ $status -eq 2 ] && [ "$(wc -l <<<"$said")" -eq 1 ] && [ -n "$said" ]
  ok $? "$1: one line, exit status 2" || diag "exit status $status: $said"
}
bad 'no number of steps' --steps many
bad 'steps below 0' --steps -1
bad 'no images' --batch 0
bad 'a number with something behind it' --seed 1x
bad 'a scale of nothing' --scale ''
bad 'a number beyond all' --seed 99999999999999999999
bad 'a size that is none' --size large
bad 'an option that is none' --speed
bad 'a word too many' digits
bad 'a file that cannot be written' --csv "$T/no/such.csv"
echo old >"$T/kept.csv"
"$tool" --size small --steps 0 --csv "$T/kept.csv" >"$T/out" 2>&1 && [ "$(cat "$T/kept.csv")" = old ]
ok $? 'no step, no row: the old file stays' || diag "$(cat "$T/out")"
[ "$("$tool" --batch 0 2>&1)" = '--batch: expected an integer from 1 to 4096, got "0"' ]
ok $? 'and it says which, and what was expected'

"$tool" --size small --steps 0 >"$T/out" 2>"$T/errors"
status=$?
if grep -q 'expected a GPU of compute capability 9.0' "$T/errors"; then
  ok 0 "learning # SKIP $(cat "$T/errors")"
  done_testing
  exit
fi
[ $status -eq 0 ] && [ ! -s "$T/errors" ] && [ "$(wc -l <"$T/out")" -eq 14 ] && [ "$(head -n 1 "$T/out")" = 'small: 16 channels, 32 pictures a step, 0 steps' ]
ok $? 'four slopes and nine results of layers, all right' || diag "exit status $status" "$(cat "$T/out" "$T/errors")"
for pass in "1, output .* fprop" "1, input's gradient .* dgrad" "1, filter's gradient .* wgrad" "2, output .* dgrad" "2, input's gradient .* fprop" "2, filter's gradient .* wgrad" "3, output .* fprop" "3, input's gradient .* dgrad" "3, filter's gradient .* wgrad"; do
  grep -q "^layer $pass .* by 06[a-z]: .* of the error bound" "$T/out"
  ok $? "layer $pass" || diag "$(cat "$T/out")"
done

"$tool" --size small --steps 40 --csv "$T/small.csv" >"$T/out" 2>"$T/errors"
status=$?
[ $status -eq 0 ] && [ ! -s "$T/errors" ] && tail -n 1 "$T/out" | awk '{exit !($(NF - 1) >= 70 && $NF == "%")}'
ok $? "it learns: $(tail -n 1 "$T/out")" || diag "exit status $status" "$(cat "$T/out" "$T/errors")"
awk -F, 'NR == 1 {good = $0 == "gpu,network,step,loss,held_out"; next} {good = good && NF == 5 && $2 == "small" && $3 == NR - 1 && $4 > 0 && ($5 != "") == ($3 % 20 == 0)}
         NR == 2 {first = $4} END {exit !(good && NR == 41 && first > 2 && $4 < 1.5 && $5 >= 0.7)}' "$T/small.csv"
ok $? 'the CSV: a row for every step, the loss falls' || diag "$(cat "$T/small.csv")"

run() { "$tool" --size small --batch 5 --steps 3 "$@" 2>&1; }
run >"$T/one" && OMP_NUM_THREADS=1 run >"$T/two" && run --seed 2 >"$T/other" && cmp -s "$T/one" "$T/two" && ! cmp -s "$T/one" "$T/other"
ok $? 'the same seed, the same lines, with any number of threads; another seed, others' || diag "$(cat "$T/one" "$T/two")"
out=$("$tool" --size small --batch 4 --steps 24 --scale 1073741824)
left_out=$(sed -nE 's/^([0-9]+) steps left out: gradients beyond fp16; the loss scale is ([0-9]+) now$/\1 \2/p' <<<"$out")
awk -v all="$left_out" 'BEGIN {split(all, n, " "); exit !(n[1] > 4 && n[1] < 24 && n[2] * 2 ^ n[1] == 1073741824)}'
ok $? 'a scale that is too large: steps left out, the scale halved each time' || diag "$out"
grep -q '^step   24  loss [0-9.]*  held-out digits read right: ' <<<"$out"
ok $? 'and the filters are still numbers' || diag "$out"

# Defects in copies of its sources, one at a time.
[ "${B##*/}" = emu ] || { done_testing; exit; }
folder=06_tensorcore_fp16
objects=$(find "$B/$folder" -maxdepth 1 -name '*.o' ! -name main.c.o)
parts=$(find "$B/$folder/tools/train" -name '*.o')
openmp=$(grep -om1 -- -fopenmp "$B/flags" | head -n 1)
flags='-O2 -I. -Icommon/emu/include -Wno-unknown-pragmas'
# planted SOURCE SED WORDS TEXT: exit status 1, and a line with these words and WRONG.
planted() {
  local copy=$T/${1##*/} status
  sed -E "$2" "$folder/$1" >"$copy"
  cmp -s "$folder/$1" "$copy"
  ok $((! $?)) "$4: planted"
  case $1 in
  *.c) ${CC:-gcc} -std=c17 -D_GNU_SOURCE $flags -c "$copy" -o "$T/planted.o" ;;
  *) "${REWRITE:-$B/rewrite}" "$copy" "$copy.cpp" && ${CXX:-g++} -std=c++20 -Wno-psabi -iquote "$B/gen" $flags -c "$copy.cpp" -o "$T/planted.o" ;;
  esac >"$T/log" 2>&1 && ${CXX:-g++} -rdynamic $openmp -o "$T/train" "$T/planted.o" "$B/$folder/tools/train.c.o" \
    $(grep -vF "/${1##*/}.o" <<<"$objects"$'\n'"$parts") "$B/libharness.a" -lm -ldl -lpthread >>"$T/log" 2>&1
  ok $? '... and built' || diag "$(cat "$T/log")"
  timeout 60 "$T/train" --size small --batch 8 --steps 0 >"$T/out" 2>&1
  status=$?
  [ $status -eq 1 ] && grep -E "$3" "$T/out" | grep -q WRONG
  ok $? '... and noticed' || diag "exit status $status" "$(cat "$T/out")"
}
planted tools/train/network.c 's/if \(!\(tensor_get\(out, i\) > 0\)\)/if (false)/' "slope .* layer 2" 'a gradient that comes back through a ReLU that was shut'
planted tools/train/network.c 's/(\+ labels\[n\]\]) -= 1/\1 -= 0/' 'slope .* layer 1' 'the loss: the right class forgotten'
planted tools/train/layer.c 's/\{\{out, w, in\}\}/{{job == TO_FILTER ? \&l->out : out, w, in}}/' "slope .* layer 2" 'the transposed layer: its output in the place of the gradient'
planted tools/train/layer.c 's/^  must\(buffer_upload\(\&l->device, b.*//' "layer 1, output" 'a filter that is not uploaded'
planted l_wgrad.cu 's/row \* p.stride_h - p.pad_top/row * p.stride_h/' "filter's gradient .* by 06l" '06l: the padding above forgotten'
done_testing
