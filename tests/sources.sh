# The hash of a kernel's source: the same in every build, of what the kernel includes and nothing else; and results that are older than their kernel.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
hash() { (cd "$1" && scripts/sources.pl hash "$2" | cut -d ' ' -f 1); }

# ---------------------------------------------------------------- in the programs
missing=0
for main in [0-9][0-9]_*/main.c; do
  step=${main%%_*}
  for kernel in $("$B/$step" --list | grep -oE "^  $step[a-z] " | sort -u); do
    grep -qE "\"$kernel\", \"[0-9a-f]{12}\"" "$B/${main%/main.c}/kernel_sources.c" || { missing=$((missing + 1)) && diag "$kernel has no hash"; }
  done
done
ok $missing "every kernel of every step has a hash"
"$B/02" --no-time --shape mb1ic2ih5oc2kh3 --pass fprop --csv "$T/o.csv" --json "$T/o.json" >"$T/log"
want=$(hash . 02_coalesced/a_coalesced.cu)
grep -q ",kernel,source,status," "$T/o.csv" && grep -q ",02a,$want,right," "$T/o.csv" && grep -q "\"source\": \"$want\"" "$T/o.json"
ok $? "a row's hash is that of its kernel's file ($want)"

# What the compilers say that they read, for the kernel and for those of its step that it launches, is what the hash is of. The emulator's build reads rewritten copies, and headers of
# its own, which need common/conv/half.h.
differ=0
for file in [0-9][0-9]_*/[a-z]_*.cu; do
  of=$(scripts/sources.pl files "$file")
  grep '\.cu$' <<<"$of" | sed "s|.*|$B/&.d|" | xargs cat | tr ' ' '\n' | sed "s|^$B/gen/||; s|\.cu\.cpp$|.cu|; s|^\./||" | grep -E '^([0-9][0-9]_|common/).*[^:\\]$' | grep -vE '^common/(emu/|conv/half.h)' | sort -u >"$T/read"
  LC_ALL=C sort -u <<<"$of" | diff - <(LC_ALL=C sort -u "$T/read") >"$T/diff" || { differ=$((differ + 1)) && diag "$file:" "$(cat "$T/diff")"; }
done
ok $differ "the hash is of the files that the compiler read"

[ "$(scripts/sources.pl files 05_im2col_gemm/r_turned.cu | grep -c '\.cu$')" -eq 3 ]
ok $? "05r's is of 05f's and 05g's files, too, which it launches"

# ---------------------------------------------------------------- two builds, and changes
mkdir "$T/repo"
cp -r Makefile common scripts [0-9][0-9]_* "$T/repo"
made() { (cd "$T/repo" && make -s BACKEND="$1" "build/$1/02_coalesced/kernel_sources.c" >"$T/log" 2>&1 && cat "build/$1/02_coalesced/kernel_sources.c"); }
made emu >"$T/emu" && cmp -s "$T/emu" "$B/02_coalesced/kernel_sources.c"
ok $? "another build has the same hashes"
if [ "${NVCC-unset}" ] && PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then
  made cuda >"$T/cuda" && cmp -s "$T/emu" "$T/cuda"
  ok $? "and so has the other backend's"
else
  ok 0 "and so has the other backend's # SKIP no nvcc"
fi
touch -d '2001-01-01' "$T/repo/build/emu/02_coalesced/kernel_sources.c"
made emu >/dev/null
[ "$(date -r "$T/repo/build/emu/02_coalesced/kernel_sources.c" +%Y)" = 2001 ]
ok $? "the table is not written again while nothing has changed"
echo '/* a remark */' | tee -a "$T/repo/04_constant_filter/planes.cuh" "$T/repo/common/harness/timing.c" "$T/repo/02_coalesced/main.c" >>"$T/repo/common/cudnn/cudnn.h"
[ "$(hash "$T/repo" 02_coalesced/a_coalesced.cu)" = "$want" ] && made emu >"$T/again" && cmp -s "$T/emu" "$T/again"
ok $? "another step's header, the harness and the step's main do not change it"
[ "$(hash "$T/repo" 04_constant_filter/j_planes.cu)" != "$(hash . 04_constant_filter/j_planes.cu)" ]
ok $? "a kernel that includes the header has changed"
echo '/* a remark */' >>"$T/repo/common/conv/bound.h" # by way of common/harness/plain.h
[ "$(hash "$T/repo" 02_coalesced/a_coalesced.cu)" != "$want" ] && made emu >"$T/again" && ! cmp -s "$T/emu" "$T/again"
ok $? "a remark in a header that is included by way of another changes it"

# ---------------------------------------------------------------- stale results
mkdir -p "$T/repo/docs/results/h200"
now=$(hash "$T/repo" 02_coalesced/a_coalesced.cu)
{
  echo 'gpu,shape,name,kernel,source,status,exact,us_median,note'
  echo "H,s1,\"a, b\",02a,$now,right,yes,1,\"\""
  echo "H,s2,\"a, \"\"b\"\"\",02a,$want,right,yes,1,\"\""
  echo "H,s3,,02a,$want,right,yes,1,\"x, y\""
  echo "H,s4,,02a,$want,skipped,no,,\"does not do it\""
  echo "H,s5,,09z,0123456789ab,right,yes,1,"
  echo "H,s6,,02a,,right,yes,1,"
} >"$T/repo/docs/results/h200/new.csv"
printf 'gpu,kernel,status,exact,note\nH,02a,right,yes,\nH,02a,right,yes,\n' >"$T/repo/docs/results/h200/old.csv"
printf 'kernel,metric,value\n02a,x,1\n' >"$T/repo/docs/results/h200/other.csv"
printf 'chain,kernel,us,source\nc1,02a,1,%s\nc2,02a,1,%s\nall,,2,\n' "$now" "$want" >"$T/repo/docs/results/h200/chains.csv"
out=$(cd "$T/repo" && make -s BACKEND=emu stale 2>&1)
status=$?
want_out="docs/results/h200/chains.csv  02a  1 row  then $want, now $now
docs/results/h200/new.csv  02a  2 rows  then $want, now $now
docs/results/h200/new.csv  09z  1 row  then 0123456789ab, now gone
3 files: 2 rows of the present sources, 4 stale, 3 from before hashes were kept"
[ $status -eq 0 ] && [ "$out" = "$want_out" ]
ok $? "make stale: two rows of a kernel that has changed, one of a kernel that is gone, three without a hash; chains, too"
[ "$out" = "$want_out" ] || diag "$out"
out=$(scripts/sources.pl stale "$T/none.csv" 2>&1)
[ $? -eq 2 ] && [ "$out" = "sources.pl: $T/none.csv: expected a readable file: No such file or directory" ]
ok $? "a file that is not there: $out"
make -s BACKEND=emu stale >"$T/log" 2>&1 && grep -qE '^[0-9]+ files: [0-9]+ rows of the present sources, [0-9]+ stale, [0-9]+ from before hashes were kept$' "$T/log"
ok $? "the committed results: $(tail -n 1 "$T/log")"
done_testing
