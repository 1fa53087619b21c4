# Another GPU: a folder of its results (a copy here, under another name and with other times), a row in the table of GPUs, and one command give its tables and
# its figures, and nothing of the GPU that was shown is taken over in silence. Figures only where matplotlib is.
. tests/tap.inc
emulator_only 'tables and figures need no GPU: once is enough'
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
gpu=$(cat docs/results/shown)
name=$(sed -nE "s/.*\{\"([^\"]*)\", \"$gpu\".*/\1/p" common/harness/gpus.h)
cp -a Makefile README.md common docs scripts tests [0-9][0-9]_* "$T" # with their times, and what has been built of them
[ "$B" != build/emu ] || { mkdir "$T/build" && cp -a build/emu build/count "$T/build"; }
cd "$T" || exit 1
mkdir docs/results/x900
for file in "docs/results/$gpu"/*.csv; do sed "s/$name/NVIDIA X900/" "$file" >"docs/results/x900/${file##*/}"; done
# 02a takes four times as long on the first layer; nobody profiled step 01.
sed -i -E 's/(mb16ic64ih56oc128oh56kh3ph1,.*,fprop,.*,02a,.*,right,yes,[^,]*,[^,]*,)4048[.0-9]*/\116195.6/' docs/results/x900/bench.csv
rm docs/results/x900/profile-01-*.csv
cp README.md "$T/README.before" && cp -r docs "$T/before"
make() { command make -s BACKEND=emu "$@" 2>&1; }

# Without its row there is nothing.
out=$(PYTHON=false make docs GPU=x900)
[ $? -ne 0 ] && grep -q 'expected a row whose short name is "x900"' <<<"$out" && [ ! -e docs/results/x900/tables.md ]
ok $? 'without a row in the table of GPUs: refused' || diag "$out"

# The one row: half of the arithmetic.
sed -i 's|^static const gpu_limits known_gpus\[\] = {|&\n    {"NVIDIA X900", "x900", 33.45e12, 400e12, 4.30e12, 4.49e12, 132 * 128 * 1.98e9, "made up"},|' common/harness/gpus.h
for python in "${PYTHON:-python3}" "$OLDPWD/$(dirname "$B")/venv/bin/python" false; do "$python" -c 'import matplotlib, PIL' 2>/dev/null && break; done
out=$(MPLCONFIGDIR=$T/config PYTHON=$python make show GPU=x900)
ok $? 'make show GPU=x900' || diag "$out"
tables=docs/results/x900/tables.md
grep -qx '# Tables of the NVIDIA X900' $tables && grep -qF '`make docs GPU=x900`' $tables && grep -q '): made up\.$' $tables
ok $? "$tables: whose they are, and where its limits come from"
grep -q "^Fitted to the $name, not to this GPU: " $tables && ! grep -q '^Fitted' "docs/results/$gpu/tables.md"
ok $? "and what was fitted to the $name"
row() { grep -m 1 -F "$1" "$2"; }
[[ $(row 'a_coalesced.cu) | GPU |' $tables) == *'| 16.2 | 11.7 | 4.18 |'* && $(row 'a_coalesced.cu) | GPU |' "docs/results/$gpu/tables.md") == *'| 4.05 | 11.7 | 4.18 |'* ]]
ok $? 'its times are in the ladder' || diag "$(row 'a_coalesced.cu) | GPU |' $tables)"
# A layer's multiply-adds at half of the rate take twice as long.
depthwise() { row '| 3 x 3, 144 ch., 56 x 56 | ' "$1" | cut -d '|' -f 5 | tr -d ' '; }
awk -v a="$(depthwise $tables)" -v b="$(depthwise "docs/results/$gpu/tables.md")" 'BEGIN { exit !(b > 0 && a > 1.98 * b && a < 2.02 * b) }'
ok $? 'what is computed from limits is by its own'
[ "$(grep -c '^Not here: docs/results/x900/profile-01-fprop.csv: expected a file of results' $tables)" -ge 1 ] && [ "$(grep -c '^Not here' $tables)" -lt 6 ]
ok $? 'a table whose file is missing says so, the others are there' || diag "$(grep '^Not here' $tables)"
[ "$(grep -c '^### ' $tables)" = "$(grep -c '^### ' "docs/results/$gpu/tables.md")" ]
ok $? 'as many as the other GPU has'
same=$(diff -rq before docs | grep -vE 'Only in docs/[a-z]+(: x900|/x900: tables.md)$'; diff -q README.before README.md)
[ -z "$same" ]
ok $? 'pages, and all that is of the other GPU, stay' || diag "$same"
if [ "$python" = false ]; then
  ok 0 'figures # SKIP no matplotlib'
else
  (cd docs/figures && diff <(cd "$gpu" && ls) <(cd x900 && ls)) >"$T/diff"
  ok $? 'docs/figures/x900 has a figure for each of the other GPU' || diag "$(cat "$T/diff")"
  grep -q 'docs/results/x900/bench.csv sha256=' docs/figures/x900/ladder.svg && grep -q '<!-- NVIDIA X900, driver' docs/figures/x900/ladder.svg && ! grep -q "$name" docs/figures/x900/*.svg
  ok $? 'out of its results, under its name'
fi

# One variable says which GPU the pages show: its numbers, and links to its files.
echo x900 >docs/results/shown
cp "before/results/$gpu"/profile-01-*.csv docs/results/x900 && sed -i "s/$name/NVIDIA X900/" docs/results/x900/profile-01-*.csv
scripts/fill_docs.pl README.md docs/01_naive.md docs/02_coalesced.md >"$T/log" 2>&1
ok $? 'docs/results/shown: the pages can show it' || diag "$(cat "$T/log")"
[[ $(row '[`02a`]' README.md) == *'| 16.2 |'* ]] && grep -q '(docs/figures/x900/rungs.svg)' README.md && grep -q '(docs/results/x900/bench.csv)' README.md && ! grep -q "$gpu" README.md docs/01_naive.md
ok $? 'its numbers, its figures, its files' || diag "$(grep -n "$gpu" README.md docs/01_naive.md)"

# Results of another GPU in its folder are not its own.
cp "before/results/$gpu/calibrate.csv" docs/results/x900
out=$(scripts/fill_docs.pl --print levels 2>&1)
[ $? -eq 2 ] && [ "$out" = "fill_docs.pl: docs/results/x900/calibrate.csv: expected results of the NVIDIA X900 (the row of common/harness/gpus.h), got some of the $name" ]
ok $? 'results of another GPU are refused' || diag "$out"
done_testing
