# What tiles of step 06 predict (docs/numbers/06_window.txt) is what the emulator counts: wgmma instructions, and bytes that the copy engine brings.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
if [ "${B##*/}" != emu ]; then
  ok 0 '# SKIP the emulator counts'
  done_testing
  exit
fi
gpu=$(cat docs/results/shown)
mkdir -p "$T/docs/results/$gpu"
for f in common scripts docs/numbers 0?_*; do mkdir -p "$(dirname "$T/$f")" && ln -s "$PWD/$f" "$T/$f"; done
cp docs/results/shown "$T/docs/results"
cp docs/results/"$gpu"/*.csv "$T/docs/results/$gpu"
profile=$T/docs/results/$gpu/profile-06-fprop.csv

# predicted SMS SHAPE KERNELS
predicted() {
  EMU_SMS=$1 EMU_COUNT_BLOCKS=all build/count/06 --exact --pass fprop --shape "$2" --kernel "$3" >"$T/said"
  ok $? "$3 on $2"
  # Of every kernel a profile with its launch and its blocks, and a line "kernel wgmma-of-warps kB".
  perl -e '
    my ($csv, $shape, @kernels) = (shift, shift, split /,/, shift);
    open my $out, ">", $csv or die; print $out "kernel,pass,shape,metric,value,unit,launch\n";
    my ($wgmma, $kb, $k) = (0, 0);
    my %unit = (kB => 1, MB => 1e3);
    my $done = sub { print "$k ", 4 * $wgmma, " $kb\n" if defined $k; ($wgmma, $kb) = (0, 0) };
    while (<>) {
      if (/^emulator count: (.*)<<<\((\d+),/) {
        $done->(); $k = shift @kernels;
        print $out "$k,fprop,$shape,duration,1,us,\"$1\"\n$k,fprop,$shape,blocks,$2,count,\"$1\"\n";
      }
      $wgmma += $1 if /the tensor cores: (\d+) wgmma/;
      $kb += $1 * $unit{$2} if /the copy engine: .* ([\d.]+) (kB|MB) into shared/;
    }
    $done->();
  ' "$profile" "$2" "$3" <"$T/said" >"$T/counted"
  local words="concat(\$k, ' ', predicted_macs(\$r) / (256 * (\$k ~ '06[ab]' ? 8 : tile_word(\$r, \$k == '06i' ? 2 : 1))), ' ', \$k == '06c' ? 0 : predicted_bytes(\$r, profile-06-fprop[\$k blocks]) / 1e3)"
  (cd "$T" && scripts/fill_docs.pl --print "list($words for \$r in profile-06-fprop*[* duration].row for \$k in \$r.kernel)") >"$T/predicted" 2>&1
  while read -r kernel wgmma kb && read -r other counted bytes <&3; do # kB are rounded where they are counted; those of 06c are not the copy engine's
    [ "$kernel" = "$other" ] && [ "$wgmma" = "$counted" ] && awk -v a="$kb" -v b="$bytes" 'BEGIN { exit !(a - b < 0.2 && b - a < 0.2) }'
    ok $? "$kernel: $counted wgmma of warps, $bytes kB" || diag "$kernel $wgmma $kb"
  done <"$T/predicted" 3<"$T/counted"
  [ "$(wc -l <"$T/predicted")" = "$(tr , '\n' <<<"$3" | wc -l)" ] && [ "$(wc -l <"$T/counted")" = "$(wc -l <"$T/predicted")" ]
  ok $? "of $3" || diag "$(cat "$T/predicted")"
}
predicted 4 mb1ic64ih28oc128oh28kh3ph1 06c,06d,06e,06f,06h,06i
predicted 132 mb2ic64ih28oc64oh28kh3ph1 06g
done_testing
