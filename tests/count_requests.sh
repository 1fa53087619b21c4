# Counts against hand calculation: requests, lanes, sectors and wavefronts of the kernels in tests/count_kernels.cu.
. tests/tap.inc
emulator_only 'the counter is part of the emulator'
json=$(mktemp)
trap 'rm -f "$json"' EXIT
EMU_COUNT_BLOCKS=all EMU_COUNT_JSON=$json build/count/tests/count_kernels >/dev/null
ok $? "the kernels are right in lockstep too"

# kernel, kind, space: requests, lanes, sectors, wavefronts (sums over all requests)
perl -MJSON::PP -e '
  my %want = (
    "transpose<32> load global"   => [32, 1024, 128, 32], # 32 rows of 4 sectors, 32 banks
    "transpose<32> store shared"  => [32, 1024, 0, 32],   # a row: 32 banks
    "transpose<32> load shared"   => [32, 1024, 0, 1024], # a column of pitch 32: one bank, 32 passes
    "transpose<32> store global"  => [32, 1024, 128, 32],
    "transpose<33> store shared"  => [32, 1024, 0, 32],
    "transpose<33> load shared"   => [32, 1024, 0, 32],   # a column of pitch 33: 32 banks
    "copy4 load global"           => [2, 64, 32, 8],      # 2 warps, 512 bytes each
    "copy4 store shared"          => [2, 64, 0, 8],       # 4 quarters each
    "copy4 load shared"           => [2, 64, 0, 8],
    "copy4 store global"          => [2, 64, 32, 8],
    "copy2 load global"           => [1, 32, 8, 2],
    "copy2 store shared"          => [1, 32, 0, 2],       # 2 halves
    "copy2 load shared"           => [1, 32, 0, 2],
    "copy_async load global"      => [1, 32, 16, 4],      # 1 warp, the other reads nothing
    "copy_async store shared"     => [2, 64, 0, 8],
    "copy_async store global"     => [2, 64, 32, 8],
    "strided load global"         => [1, 32, 8, 2],       # 63 floats = 252 bytes; two of them in each of 16 banks
    "shifted load global"         => [1, 32, 5, 1],       # 128 bytes, 4 behind a sector boundary; 32 banks all the same
    "shifted store global"        => [1, 32, 4, 1],
    "broadcast load global"       => [2, 48, 2, 2],
    "broadcast store global"      => [2, 48, 6, 2],       # 4 sectors and 2
    "banks store shared"          => [1, 32, 0, 2],
    "banks load shared"           => [1, 32, 0, 1],
    "divergent load global"       => [2, 32, 8, 2],       # both branches touch 4 sectors
    "divergent store global"      => [1, 32, 4, 1],       # together again
    "triangle load global"        => [31, 496, 31, 31],
    "triangle store global"       => [1, 32, 4, 1],
    "skipping load global"        => [32, 992, 128, 32],
    "skipping store global"       => [1, 32, 4, 1],
    "rows2 load global"           => [1, 32, 32, 16],     # two halves; in each the 16 rows begin in two banks, so 8 words wait for each
    "rows4 load global"           => [1, 32, 32, 16],     # four quarters; in each 8 rows begin in two banks
    "adding atomic global"        => [3, 96, 3, 0],       # L2 adds: nothing passes through L1
    "taken_apart load global"     => [4, 128, 64, 16],    # each fourth word: 16 sectors, 8 banks
    "taken_apart store global"    => [4, 128, 64, 16],
  );
  my %got;
  open my $f, "<", $ARGV[0] or die; local $/;
  my $launches = decode_json(<$f>);
  my $first = $launches->[0];
  my $bytes = "@$first{qw(flops_of_problem bytes_loaded bytes_stored distinct_bytes_loaded distinct_bytes_stored)}";
  print $bytes eq "2048 4096 4096 4096 4096" ? "same" : "different", " transpose<32>: flops as told, bytes asked for and distinct: $bytes\n";
  my $spread = $launches->[6];
  $bytes = "@$spread{qw(kernel bytes_loaded distinct_bytes_loaded)}";
  print $bytes eq "broadcast 192 4" ? "same" : "different", " bytes loaded and distinct: $bytes\n";
  # The probe of L1, 16 loads: sectors and wavefronts by stride. With an odd stride 32 lanes have 32 banks.
  my %strides = (1 => [4, 1], 2 => [8, 2], 4 => [16, 4], 8 => [32, 8], 9 => [32, 1], 16 => [32, 16], 32 => [32, 32], 33 => [32, 1]);
  for my $launch (grep { $_->{kernel} eq "l1_stride_kernel" } @$launches) {
    my $stride = $launch->{shared_bytes};
    $want{"stride $stride, load global"} = [16, 512, map { 16 * $_ } @{ $strides{$stride} }];
    ($launch->{instructions}[$_]{kind} eq "load") and $launch->{kernel} = "stride $stride," for 0 .. $#{ $launch->{instructions} };
  }
  for my $launch (@$launches) {
    for my $i (@{$launch->{instructions}}) {
      my $sum = $got{"$launch->{kernel} $i->{kind} $i->{space}"} //= [0, 0, 0, 0];
      my @one = @$i{qw(requests lanes sectors wavefronts)};
      $sum->[$_] += $one[$_] for 0 .. 3;
    }
  }
  for my $key (sort keys %want) {
    my ($want, $got) = ("@{$want{$key}}", "@{$got{$key} // []}");
    print $want eq $got ? "same" : "different", " $key: $want", $want eq $got ? "" : ", counted $got", "\n";
  }' "$json" >"$json.compared"
while read -r verdict text; do
  ok "$([ "$verdict" = same ] && echo 0 || echo 1)" "$text"
done <"$json.compared"
rm -f "$json.compared"
ok "$([ "$tap_run" -eq 45 ] && echo 0 || echo 1)" "all 44 rows were compared"
build/count/tests/count_kernels | grep -q '^  floor on h200: ' && GPU=h100 build/count/tests/count_kernels | grep -q '^  floor on h100: '
ok $? "the floor is the H200's, or that of the GPU that was asked for"
done_testing
