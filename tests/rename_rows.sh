# scripts/rename_rows.pl: rows of kernels that have other names now, and hashes of kernels whose machine code is what it was.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
tool=$PWD/scripts/rename_rows.pl

# A compiler whose "code" are the lines that end in ";": as PTX in their order, with names and remarks; in the machine code sorted.
cat >"$T/nvcc" <<'END'
#!/usr/bin/env perl
use strict;
my ($out, $cubin, $file);
while (@ARGV) { my $w = shift; if ($w eq '-o') { $out = shift } elsif ($w eq '-cubin') { $cubin = 1 } elsif ($w !~ /^-/) { $file = $w } }
open my $in, '<', $file or exit 1;
my @lines = <$in>;
exit 1 if grep { /#error/ } @lines;
my @code = grep { /;$/ } @lines;
my ($name) = $file =~ /(\w+)\.cu/;
open my $o, '>:raw', $out or exit 1;
if (!$cubin) { print $o "// of $file\n.version 9.0\n.const .b8 _Z1w$name\[4];\n.visible .entry _Z4kernel$name(\n.param .u64 _Z4kernel${name}_param_0\n)\n{\n.loc 1 2 3\n@code}\n"; exit }
my $names = "\0.shstrtab\0.text._Z4kernel$name\0";
my $text = join '', sort @code;
my @s = ([0, 0, 0, 0, 0, 0], [1, 3, 0, 0, 64, length $names], [11, 1, 6, 0, 64 + length $names, length $text]);
print $o pack('a16 S<S<L<Q<Q<Q<L<S<S<S<S<S<S<', "\x7fELF", 1, 190, 1, 0, 0, 64 + length($names . $text), 0, 64, 0, 0, 64, 3, 1), $names, $text, map { pack 'L<L<Q<Q<Q<Q<L<L<Q<Q<', @$_, 0, 0, 1, 0 } @s;
END
chmod +x "$T/nvcc"

# Two checkouts: 04a moves to 06p, 04b gets its name, 04c's lines change places, 04d's code changes, 04e stays as it is.
begin() {
  rm -rf "$T/old" "$T/new"
  mkdir -p "$T/old/scripts" "$T/old/04_x"
  cp scripts/sources.pl "$T/old/scripts"
  echo '/* a header */' >"$T/old/04_x/own.h"
  for k in a_first b_second c_third d_fourth e_fifth; do printf '#include "04_x/own.h"\n/* %s */\n%s 1;\n%s 2;\n' $k $k $k >"$T/old/04_x/$k.cu"; done
  cp -r "$T/old" "$T/new"
  mkdir -p "$T/new/06_y" "$T/new/docs/results/h200"
  (
    cd "$T/new"
    mv 04_x/a_first.cu 06_y/p_first.cu
    mv 04_x/b_second.cu 04_x/a_second.cu
    sed -i 's/\* b_second/* another remark/' 04_x/a_second.cu
    printf '#include "04_x/own.h"\nc_third 2;\nc_third 1;\n' >04_x/c_third.cu
    echo 'd_fourth 3;' >>04_x/d_fourth.cu
  )
  a=$(hash old 04_x/a_first.cu) b=$(hash old 04_x/b_second.cu) c=$(hash old 04_x/c_third.cu) d=$(hash old 04_x/d_fourth.cu) e=$(hash old 04_x/e_fifth.cu)
  printf '%s\n' 'gpu,name,kernel,source,us,note' "\"H\",\"x, \"\"04a\"\"\",04a,$a,1,\"04a, or 04b\"" 'H,,04a,,2,' "H,,04b,$b,3," "H,,04b,0123456789ab,4," "H,,04c,$c,5," "H,,04d,$d,6," "H,,04e,$e,7," 'H,,cuDNN,,8,' >"$T/new/docs/results/h200/rows.csv"
  printf 'kernel,when,kernel_for_files\r\n04b,"a, b",04a\r\n04a.2,,04b_part\r\n' >"$T/new/docs/results/h200/which.csv"
  printf 'metric,value\n04a,1\n' >"$T/new/docs/results/h200/other.csv"
}
hash() { (cd "$T/$1" && scripts/sources.pl hash "$2" | cut -d ' ' -f 1); }
run() { (cd "$T/new" && NVCC=$T/nvcc "$tool" --from "$T/old" "$@" >"$T/said" 2>"$T/error"); }
same() { cmp -s "$1" <(printf "$2"); }
untouched() { (cd "$T/new" && find docs -type f | sort | xargs cat | md5sum); }

begin
before=$(untouched)
run --dry-run '04a=06p 04b=04a'
ok $? 'two names, one of which another kernel had'
[ "$(untouched)" = "$before" ]
ok $? '--dry-run writes nothing'
run '04a=06p 04b=04a'
ok $? 'and without it'
A=$(hash new 06_y/p_first.cu) B=$(hash new 04_x/a_second.cu) C=$(hash new 04_x/c_third.cu)
same "$T/new/docs/results/h200/rows.csv" "gpu,name,kernel,source,us,note\n\"H\",\"x, \"\"04a\"\"\",06p,$A,1,\"04a, or 04b\"\nH,,06p,,2,\nH,,04a,$B,3,\nH,,04a,0123456789ab,4,\nH,,04c,$C,5,\nH,,04d,$d,6,\nH,,04e,$e,7,\nH,,cuDNN,,8,\n"
ok $? "names and hashes of the rows, and nothing else" || sed 's/^/# /' "$T/new/docs/results/h200/rows.csv"
[ "$A" != "$a" ] && [ "$B" != "$b" ] && [ "$C" != "$c" ]
ok $? 'all three hashes are others'
same "$T/new/docs/results/h200/which.csv" 'kernel,when,kernel_for_files\r\n04a,"a, b",06p\r\n06p.2,,04a_part\r\n' && same "$T/new/docs/results/h200/other.csv" 'metric,value\n04a,1\n'
ok $? 'other columns of kernels too, and their second launches and parts; files without one stay'
same "$T/said" '04a -> 06p  the same machine code: 3 rows, 1 with the present hash\n04b -> 04a  the same machine code: 3 rows, 1 with the present hash\n04c  the same machine code: 1 row, 1 with the present hash\n04d  other machine code: 1 row, 1 with the hash that they have\n6 rows renamed, 3 with the present hash\n'
ok $? 'it says so: lines in other places are the same machine code, another line is not' || sed 's/^/# /' "$T/said"
run '04a=06p 04b=04a'
[ $? -eq 2 ] && same "$T/error" 'rename_rows.pl: 04a: expected rows of 04b too, which get its name: has this list been applied before?\n'
ok $? 'a second time is refused'

begin
sed -i 's/,04a,/,06p,/; /,04b,/d' "$T/new/docs/results/h200/rows.csv"
sed -i 2,3d "$T/new/docs/results/h200/which.csv"
run '04a=06p 04b=04a' && grep -q ",06p,$A,1," "$T/new/docs/results/h200/rows.csv" && grep -q '^0 rows renamed, 2 with' "$T/said"
ok $? 'rows that have their new name get the hash'

begin
run --names-only 04a=06p && grep -q ",06p,$a,1," "$T/new/docs/results/h200/rows.csv" && grep -q ",04c,$c,5" "$T/new/docs/results/h200/rows.csv" && grep -q '^3 rows renamed, 0 with' "$T/said"
ok $? '--names-only: hashes stay'
echo '/* a remark */' >>"$T/new/04_x/own.h"
run '04a=06p 04b=04a' && grep -q ",06p,$(hash new 06_y/p_first.cu),1," "$T/new/docs/results/h200/rows.csv" && grep -q '^3 rows renamed, 4 with' "$T/said"
ok $? 'and a last run, with all names, renames the others and finds them all'

begin
run 04a=06p 04d=04b 04b=04a
[ $? -eq 2 ] && same "$T/error" 'rename_rows.pl: 04b: expected a kernel of this repository\n'
ok $? 'a new name without a kernel'
(cd "$T/new" && mv 04_x/d_fourth.cu 04_x/b_fourth.cu)
before=$(untouched)
run 04a=06p 04d=04b 04b=04a
[ $? -eq 1 ] && same "$T/error" 'rename_rows.pl: 04d: expected the machine code that 04b has, or --told 04d\n' && [ "$(untouched)" = "$before" ]
ok $? 'a kernel that has changed is not renamed, and nothing is written'
run --told 04d 04a=06p 04d=04b 04b=04a && grep -q ",04b,$d,6" "$T/new/docs/results/h200/rows.csv" && grep -q ",06p,$A,1" "$T/new/docs/results/h200/rows.csv"
ok $? 'but when told, and keeps its hash'

begin
echo '#error' >>"$T/new/06_y/p_first.cu"
run 04a=06p
[ $? -eq 1 ] && grep -q '^04a -> 06p  cannot be compared (one of the two does not compile): 3 rows, 1 with the hash that they have$' "$T/said"
ok $? 'what does not compile cannot be compared'
(cd "$T/new" && NVCC= PATH=/usr/bin:/bin "$tool" --from "$T/old" 04b=04a >"$T/said" 2>"$T/error")
[ $? -eq 1 ] && grep -q 'cannot be compared' "$T/said"
ok $? 'without nvcc neither'

refuses() { # WANTED ARGUMENTS...
  (cd "$T/new" && "$tool" "${@:2}" >/dev/null 2>"$T/error")
  [ $? -eq 2 ] && [ "$(cat "$T/error")" = "rename_rows.pl: $1" ]
  ok $? "$1" || sed 's/^/# /' "$T/error"
}
refuses 'expected --from CHECKOUT' 04a=06p
refuses "--from: expected a checkout of this repository, got \"$T\"" --from "$T"
refuses '04a=6p: expected OLD=NEW, such as 04i=06p' --from "$T/old" 04a=6p
refuses '04z: expected a kernel of '"$T/old" --from "$T/old" 04z=06p
refuses '06p: expected one kernel to get this name, got several' --from "$T/old" '04a=06p 04b=06p'
refuses '--force: expected --from, --arch, --told, --dry-run or --names-only' --from "$T/old" --force
refuses '--told: expected kernels that are renamed, got 04c' --from "$T/old" --told 04c
refuses 'docs/none.csv: expected a file of results: No such file or directory' --from "$T/old" docs/none.csv

# With the real one: a kernel of this repository under another letter, and a remark in a header.
if [ "${NVCC-unset}" ] && PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then
  rm -rf "$T/old" "$T/new"
  mkdir -p "$T/old" "$T/new/docs/results/h200"
  cp -r common scripts 0[1-2]_* "$T/old"
  cp -r common scripts 0[1-2]_* "$T/new"
  mv "$T/new/02_coalesced/b_warp_wgrad.cu" "$T/new/02_coalesced/q_warp_wgrad.cu"
  echo '/* a remark */' >>"$T/new/common/conv/bound.h"
  sed -i 's/sum += /sum -= /' "$T/new/01_naive/a_naive.cu"
  then_b=$(hash old 02_coalesced/b_warp_wgrad.cu) then_a=$(hash old 01_naive/a_naive.cu)
  printf "kernel,source\n02b,$then_b\n01a,$then_a\n" >"$T/new/docs/results/h200/rows.csv"
  (cd "$T/new" && "$tool" --from "$T/old" 02b=02q >"$T/said" 2>"$T/error")
  ok $? "nvcc: $(tail -n 1 "$T/said")" || sed 's/^/# /' "$T/error"
  same "$T/new/docs/results/h200/rows.csv" "kernel,source\n02q,$(hash new 02_coalesced/q_warp_wgrad.cu)\n01a,$then_a\n"
  ok $? 'a file and a header with other remarks are the same machine code, another sign is not'
else
  ok 0 'with the real compiler # SKIP no nvcc'
fi
done_testing
