# Plots and figures: committed pictures belong to the committed results, and scripts/plots.py and figures.py draw what they should. The second half needs
# matplotlib (PYTHON, python3 or build/venv) and is skipped without; nothing is installed here. Also scripts/batch.sh, with programs that only pretend.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
export PYTHONDONTWRITEBYTECODE=1
here=$PWD gpu=$(cat docs/results/shown)
results=docs/results/$gpu figures=docs/figures/$gpu

# ---------------------------------------------------------------- pictures and results in docs/, without Python
# is_current ROOT PICTURE: the picture names files below ROOT, and each still has the hash it names.
is_current() {
  local sources file hash
  sources=$(grep -aoE '[^ ]+ sha256=[0-9a-f]{64}' "$2" | sort -u)
  [ "$sources" ] || return 1
  while read -r file hash; do
    [ "sha256=$(sha256sum "$1/$file" 2>/dev/null | cut -d ' ' -f 1)" = "$hash" ] || return 1
  done <<<"$sources"
}

for picture in "$figures"/*.svg; do
  is_current . "$picture"
  ok $? "$picture shows the results as they are (else: make plots RESULTS=$results, make figures)"
done
names=$(cd "$figures" && for picture in *; do [[ $picture =~ ^((ladder|roofline)(-[0-9]+)?|rungs|train|batch|fusion|network|gpus|ratio-.+)\.svg$ ]] && echo "${picture%.svg}"; done)
grep -qx rungs <<<"$names" && grep -qx ladder <<<"$names" && grep -qx roofline <<<"$names" && grep -q '^ratio-' <<<"$names" && [ -f "$figures/01-wavefronts.svg" ] && [ -f "$figures/gpu-chip.svg" ]
ok $? "$figures has the rungs, a ladder, a roofline, ratios and what chapters measure"
for kind in ladder:ladder dense:ratio dense:roofline; do
  grep -qx "${kind#*:}-06" <<<"$names"
  [ $? = $([ -f $results/${kind%:*}-06.csv ]; echo $?) ]
  ok $? "and of dense layers in fp16 a ${kind#*:}, if $results/${kind%:*}-06.csv is there"
done
{ [ -f $results/batch.csv ] && grep -qx batch <<<"$names"; } || { [ ! -f $results/batch.csv ] && ! grep -qx batch <<<"$names"; }
ok $? "and time against batch size, if that was measured"
said=$(grep -l 'sha256=' docs/figures/*.svg; ls docs/figures/*.png docs/figures/*/*.png 2>/dev/null)
[ -z "$said" ]
ok $? "what shows results is in a GPU's folder, and nothing is drawn twice" || diag "$said"
for name in $names; do # matplotlib writes each text beside its outlines as a comment
  [ $name != train ] || continue # no time is in it
  cudnn=', cuDNN [0-9.]*'
  [[ ! $name =~ ^(fusion|gpus)$ ]] || cudnn= # our own kernels on both sides
  grep -q "<!-- NVIDIA [^,]*, driver for CUDA [0-9.]*, CUDA [0-9.]*$cudnn, 20[0-9-]*" "$figures/$name.svg"
  ok $? "$name.svg names GPU, driver, CUDA, cuDNN and the day"
done

# The check itself notices: a result that changed, one that is gone, a picture that names nothing.
mkdir -p "$T/$results"
cp $results/*.csv "$T/$results"
is_current "$T" $figures/ladder.svg
ok $? "a copy of the results is as good"
echo >>"$T/$results/bench.csv"
! is_current "$T" $figures/ladder.svg
ok $? "a picture of results that have changed is noticed"
rm "$T/$results/bench.csv"
! is_current "$T" $figures/ladder.svg
ok $? "a picture of results that are gone is noticed"
sed 's/sha256=//g' $figures/ladder.svg >"$T/ladder.svg"
! is_current . "$T/ladder.svg"
ok $? "a picture that names no results is noticed"

# ---------------------------------------------------------------- batch.sh
# A repository of two steps, whose second one fails.
mkdir -p "$T/repo/build/cuda" "$T/repo/00_cpu" "$T/repo/01_a" "$T/repo/02_b"
ln -s "$here/scripts" "$T/repo/scripts"
touch "$T"/repo/{00_cpu,01_a,02_b}/main.c
cat >"$T/repo/build/cuda/01" <<'STEP'
#!/bin/bash
[ "$1" = --list ] && exit # can it read the layer? yes
echo "$*" >called
{ echo gpu,shape,kernel,pass,status; while read -r shape; do echo "H,$shape,01a,fprop,right"; done <"$2"; } >"$6"
STEP
printf '#!/bin/sh\nexit 1\n' >"$T/repo/build/cuda/02"
chmod +x "$T/repo/build/cuda/"*
text=$(cd "$T/repo" && scripts/batch.sh build/cuda g2mb3ic4ih5oc6kh3ph1 dgrad 2>&1)
status=$?
[ $status = 1 ] && grep -q 'step 02.*FAILED, see build/results/02-batch.log' <<<"$text" && ! grep -q 'step 00' <<<"$text"
ok $? "batch.sh: runs the GPU's steps; one that fails is named, exit status 1"
same=$(for n in 1 2 4 8 16 32 64 128 256; do echo "H,g2mb${n}ic4ih5oc6kh3ph1,01a,fprop,right"; done)
[ "$(tail -n +2 "$T/repo/build/results/batch.csv")" = "$same" ] && grep -q -- '--pass dgrad' "$T/repo/called"
ok $? "batch.sh: the layer with 1 to 256 images, all rows in batch.csv"
(cd "$T/repo" && scripts/batch.sh build/emu) >"$T/out" 2>"$T/errors"
[ $? = 2 ] && [ ! -s "$T/out" ] && [ "$(grep -c '^batch: expected a GPU to time' "$T/errors")" = "$(wc -l <"$T/errors")" ]
ok $? "batch.sh: refused without a GPU, in one line"
scripts/plots.sh /no/such/folder >"$T/out" 2>"$T/errors"
[ $? = 2 ] && [ "$(cat "$T/errors")" = 'RESULTS: expected a folder with bench.csv, got "/no/such/folder"' ]
ok $? "plots.sh: a folder that is not there is refused" || diag "$(cat "$T/errors")"

# ---------------------------------------------------------------- plots.sh: which results, and where to. Python only pretends.
mkdir -p "$T/repo/$results"
cp $results/bench.csv "$T/repo/$results"
cp docs/results/shown "$T/repo/docs/results"
printf '#!/bin/sh\n[ "$1" = -c ] || echo "$*"\n' >"$T/python"
chmod +x "$T/python"
chosen() { # chosen TEXT WANT [RESULTS [LAYER]]
  local text=$1 want=$2 got
  shift 2
  got=$(PYTHON=$T/python "$T/repo/scripts/plots.sh" "$@" 2>&1)
  [ "$got" = "$want" ]
  ok $? "plots.sh: $text" || diag "$got"
}
committed="scripts/plots.py $results $figures "
rm -f "$T/repo/build/results/"*
chosen "no results here: the committed ones" "$committed"
grep -v H200 $results/bench.csv >"$T/repo/build/results/bench.csv"
chosen "only a CPU timed here: the committed ones" "$committed"
cp $results/bench.csv "$T/repo/build/results"
chosen "a GPU timed here: its results" "scripts/plots.py build/results build/figures "
chosen "RESULTS goes before" "$committed" ./$results/
chosen "a layer" "${committed}mb1" $results mb1

# ---------------------------------------------------------------- drawing
for python in "${PYTHON:-python3}" "$(dirname "$B")/venv/bin/python" none; do
  "$python" -c 'import matplotlib' 2>/dev/null && break
done
if [ "$python" = none ]; then
  ok 0 "# SKIP no matplotlib: nothing is drawn"
  done_testing
  exit
fi
export MPLCONFIGDIR=$T/config
draw() { "$python" scripts/plots.py "$@"; }

draw $results "$T/one" >"$T/log" 2>&1 && draw $results "$T/two" >>"$T/log" 2>&1
ok $? "the committed results are drawn" || diag "$(cat "$T/log")"
[ "$(ls "$T/one")" = "$(sed 's/$/.svg/' <<<"$names")" ]
ok $? "they make the pictures that are committed" || diag "$(ls "$T/one")"
diff -rq "$T/one" "$T/two" >"$T/log"
ok $? "drawn again they are the same files" || diag "$(cat "$T/log")"
"$python" scripts/figures.py $results "$T/figures" >"$T/log" 2>&1
ok $? "the chapters' figures are drawn" || diag "$(cat "$T/log")"
(cd "$T/figures" && ls ./*.svg "$gpu"/*.svg) >"$T/log"
(cd docs/figures && ls ./*.svg "$gpu"/*.svg | grep -vxF "$(sed "s|.*|$gpu/&.svg|" <<<"$names")") | diff - "$T/log" >"$T/diff"
ok $? "they are those that are committed" || diag "$(cat "$T/diff")"
faults=$("$python" tests/plots_layout.py $results 2>&1)
[ -z "$faults" ]
ok $? "no text overlaps another or leaves the page" || diag "$faults"
mkdir "$T/many"
faults=$("$python" tests/plots_layout.py --make "$T/many" 2>&1)
[ -z "$faults" ]
ok $? "nor with 25 kernels, three passes, two arithmetics, 41 layers, nine batch sizes" || diag "$faults"

# The training curve.
printf 'gpu,network,step,loss,held_out\n"H",small,1,2.3,\n"H",small,2,1.1,0.5\n' >"$T/train.csv"
"$python" scripts/plot_train.py "$T/train.csv" "$T/curve" >"$T/log" 2>&1 && grep -q '<!-- 50.0 % -->' "$T/curve/train.svg" && grep -q '<!-- H, the small network. -->' "$T/curve/train.svg"
ok $? "the training curve is drawn, with the last share and the machine" || diag "$(cat "$T/log")"
for bad in 's/held_out/right/' 's/1.1/much/' '2,$d'; do
  sed "$bad" "$T/train.csv" >"$T/bad.csv"
  "$python" scripts/plot_train.py "$T/bad.csv" "$T/curve" >"$T/out" 2>"$T/errors"
  [ $? = 2 ] && [ ! -s "$T/out" ] && [ "$(grep -c "bad.csv: expected" "$T/errors")" = "$(wc -l <"$T/errors")" ]
  ok $? "a training curve with $bad is refused in one line" || diag "$(cat "$T/errors")"
done

# Figures whose answer is known: 4 once and 0.45 three times, (4 x 0.45^3)^(1/4) = 0.78. cuDNN's best run counts, also one beside a slower kernel.
mkdir "$T/known"
row() { # row KERNEL SHAPE NAME COUNT US CUDNN_US
  echo "NVIDIA H200,13.0,13.0,9.19.0,2026-01-01,$2,$3,$4,fprop,fp32,$1,right,$5,400,10,$6"
}
{
  echo gpu,driver,cuda,cudnn,date,shape,name,count,pass,dtype,kernel,status,us_median,gbps,floor_us,cudnn_best_us
  row 01a mb16ic3ih224oc64oh112kh7sh2ph3 conv1 1 100 400
  row 01a mb16ic64ih56oc64oh56kh3ph1 res2_3x3 3 200 45
  row 02a mb16ic64ih56oc64oh56kh3ph1 res2_3x3 3 100 50
  row 01a mb16ic64ih56oc128oh56kh3ph1 "the layer" 1 1000 500
  row 02a mb16ic64ih56oc128oh56kh3ph1 "the layer" 1 250 500
} >"$T/known/bench.csv"
draw "$T/known" "$T/known" >"$T/log" 2>&1
[ "$(cd "$T/known" && echo *.svg)" = "ladder.svg ratio-resnet50.svg ratio-seed.svg roofline.svg rungs.svg" ]
ok $? "one ratio for each suite that was run" || diag "$(cat "$T/log")"
shown=$(grep -oE '<!-- (geometric mean )?[0-9.]+ -->' "$T/known/ratio-resnet50.svg" | sort -u | tr -d '\n')
[[ $shown == *'<!-- geometric mean 0.78 -->'* && $shown == *'<!-- 4.00 -->'* && $shown == *'<!-- 0.45 -->'* ]]
ok $? "ratios and their mean, every layer as often as the network has it" || diag "$shown"
# 2 x 16 x 128 x 56 x 56 x 64 x 9 products in 250 us are 29.6 TFLOP/s, in 1000 us 7.40; the floor of 10 us would be 740: 4.0 % and 1.0 %.
for text in 29.6 7.40 740 14.8 '4.0 %' '1.0 %' '2.0 %'; do grep -q "<!-- $text -->" "$T/known/ladder.svg" || echo "$text"; done >"$T/log"
[ ! -s "$T/log" ]
ok $? "the ladder's rates, cuDNN's and the limit" || diag "$(cat "$T/log")"

# The front page's picture: 01a and 02a of its kernels are there, 1000 and 250 us; cuDNN's best run of this pass and the limit.
for text in 'one thread, one output' 'coalesced loads' 7.40 29.6 '1.00 ms' '250 µs' '× 4.0' 'From a naive kernel to 02a: 4 times as fast' "cuDNN's best 14.8 " "the machine's limit 740"; do
  grep -q "<!-- *$text *-->" "$T/known/rungs.svg" || echo "$text"
done >"$T/missing"
[ ! -s "$T/missing" ]
ok $? "the rungs: ideas, times, gains" || diag "$(cat "$T/missing")"

# A rule that takes the slower kernel of a layer: 45 / 200 is its ratio.
mkdir "$T/ruled"
cp "$T/known/bench.csv" "$T/ruled"
{
  echo shape,pass,dtype,kernel,when
  echo 'mb16ic64ih56oc64oh56kh3ph1,fprop,fp32,01a,"always"'
} >"$T/ruled/which-01.csv"
draw "$T/ruled" "$T/ruled" >"$T/log" 2>&1
shown=$(grep -oE '<!-- ([0-9.]+|0[12]a|geometric mean .*) -->' "$T/ruled/ratio-resnet50.svg" | sort -u | tr -d '\n')
[[ $shown == *'<!-- 0.23 -->'* && $shown == *'<!-- 01a -->'* && $shown != *'02a'* ]] && grep -q "the rule's kernel, or the fastest against" "$T/ruled/ratio-resnet50.svg"
ok $? "ratios by the rule's kernel, where there is a rule" || diag "$shown"
echo 'mb1,fprop,fp32,,' >>"$T/ruled/which-01.csv"
said=$(draw "$T/ruled" "$T/ruled" 2>&1 >/dev/null)
[ "$said" = "$T/ruled/which-01.csv:3: expected the columns of --which" ]
ok $? "a rule without a kernel is refused" || diag "$said"

# Step 06: a ladder on its own layer, 2 x 64 x 256 x 56 x 56 x 256 x 9 products in 256 us: 925 TFLOP/s, on a linear axis; ResNet-50's layers a column for each number of images, with
# the mean of 3 times 0.5 and once 4, (0.125 x 4)^(1/4) = 0.84.
dense() { row "$@" | sed 's/fp32/fp16/; s/,10,/,256,/'; }
{
  head -n 1 "$T/known/bench.csv"
  dense 06a mb64ic256ih56oc256oh56kh3ph1 ladder 1 1024 592
  dense 06f mb64ic256ih56oc256oh56kh3ph1 ladder 1 256 592
  dense 06f mb16ic64ih56oc128oh56kh3ph1 readme 1 1 2
} >"$T/known/ladder-06.csv"
{
  head -n 1 "$T/known/bench.csv"
  dense 06i mb1ic64ih56oc64oh56kh3ph1 res2_3x3 3 100 50
  dense 06f mb1ic64ih56oc64oh56kh1 res2a_1x1 1 100 400
  dense 06g mb32ic64ih56oc64oh56kh3ph1 res2_3x3 3 100 125
  dense 06f mb2ic320ih64oc320oh64kh3ph1 diffusion_unet_64 1 100 777
} >"$T/known/dense-06.csv"
draw "$T/known" "$T/known" >"$T/log" 2>&1
for text in 925 231 400 '25 %' '100 %' 'TFLOP/s' 'Every kernel of step 06 on one layer: from 25 % of the limit to 100 %'; do grep -q "<!-- $text -->" "$T/known/ladder-06.svg" || echo "$text"; done >"$T/missing"
! grep -q logarithmic "$T/known/ladder-06.svg" && [ ! -s "$T/missing" ]
ok $? "step 06: a ladder of its own layer" || diag "$(cat "$T/log" "$T/missing")"
shown=$(grep -oE '<!-- ((geometric mean )?[0-9.]+( .[0-9] of [0-9].)?|[0-9]+ images?|06[a-z]) -->' "$T/known/ratio-06.svg" | tr -d '\n')
[[ $shown == *'<!-- 0.50 --><!-- 06i --><!-- 1 image --><!-- geometric mean 0.84 -->'* && $shown == *'<!-- 1.25 --><!-- 06g --><!-- 32 images --><!-- geometric mean 1.25 (1 of 2) -->'* && $shown != *7.77* ]]
ok $? "its ratios: a column for each number of images" || diag "$shown"
shown=$(grep -oE '<!-- ([0-9]+ images?|06[a-z] .*|cuDNN) -->' "$T/known/roofline-06.svg" | tr -d '\n')
[[ $shown == '<!-- 1 image --><!-- 32 images --><!-- cuDNN --><!-- 06i  few --><!-- 06g  window --><!-- 06f  persistent -->' ]]
ok $? "and its roofline: a panel for each" || diag "$shown"

refused() { # refused TEXT MESSAGE FOLDER: exit status 2, this one line, no picture
  draw "$3" "$T/refused" >"$T/out" 2>"$T/errors"
  [ $? = 2 ] && [ "$(cat "$T/errors")" = "$2" ] && [ -z "$(ls "$T/refused")" ]
  ok $? "refused: $1" || diag "$(cat "$T/out" "$T/errors")"
}
mkdir "$T/bad"
csv=$T/bad/bench.csv
refused "no bench.csv" "RESULTS: expected a folder with bench.csv, got $T/bad" "$T/bad"
grep -v H200 $results/bench.csv >"$csv"
refused "no GPU in it" "RESULTS: expected times of a GPU in $csv, found none" "$T/bad"
sed 's/us_median/us/' $results/bench.csv >"$csv"
refused "a missing column" "$csv: expected the columns of common/harness/report.c, us_median is missing" "$T/bad"
{ cat $results/bench.csv; grep H200 $results/bench.csv | head -n 1 | sed 's/H200/A100/'; } >"$csv"
refused "two GPUs" "$csv: expected results of one GPU, got NVIDIA A100 and NVIDIA H200" "$T/bad"
row=$(grep -m 1 'H200.*oc128' $results/bench.csv)
{ head -n 1 $results/bench.csv && echo "$row" && sed 's/oc128/kc128/' <<<"$row"; } >"$csv"
refused "a broken shape" "$csv:3: expected a row of common/harness/report.c: shape: expected a benchdnn string as the harness prints it, got \"mb16ic64ih56kc128oh56kh3ph1\" without 'oc'" "$T/bad"
done_testing
