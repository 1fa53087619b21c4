# What the counter says of copy engine and tensor cores, beside what the kernel of tests/hopper_window.cu must ask of them, worked out by hand:
# 2 images of 7 x 6 pixels in tiles of 4 rows: 4 tiles, boxes of 6 x 8 pixels of 128 bytes; 9 taps of 8 KiB for each of 2 blocks; of a tile 9 x 4 products m64n32k16.
. tests/tap.inc
emulator_only 'the counter is part of the emulator'
log=$(mktemp)
json=$(mktemp)
trap 'rm -f "$log" "$json"' EXIT
EMU_COUNT_JSON=$json build/count/tests/hopper_window >"$log" 2>&1
ok $? 'the kernel is right when it is counted'
first=$(awk '/^ok 1/ { exit } { print }' "$log")
said() { # TEXT WHAT
  grep -qF -- "$1" <<<"$first"
  ok $? "$2: $1" || sed 's/^/# /' <<<"$first"
}
said 'the copy engine: 18 copies, 147.5 kB into shared memory, 147.5 kB from memory' 'filters, 2 x 9 x 8192 bytes'
# Pixels inside of the image: rows -1..4 and 3..8 of 7 are 5 + 4 rows of 6 pixels, for two images.
said 'the copy engine: 4 copies, 24.6 kB into shared memory, 13.8 kB from memory' '4 boxes of 6144 bytes, 2 x 9 x 6 pixels of 128'
said 'the tensor cores: 144 wgmma, 4.719 million multiply-adds' '4 x 36 products of 64 x 32 x 16'
said 'the copy engine: 4 copies, 16.4 kB out of shared memory, 10.8 kB into memory' '4 tiles of 32 pixels, 84 of which are in the images'
said 'distinct: 84.5 kB read, 10.8 kB written' 'the filters and the images once'
grep -q 'store    shared            16         32  32.00  4.00 wavefronts' <<<"$first"
ok $? 'stmatrix without bank conflicts: 4 wavefronts for 512 bytes'
json_said() { # NAME VALUE WHAT
  [ "$(perl -MJSON::PP -e 'local $/; print decode_json(<STDIN>)->[0]{$ARGV[0]}' "$1" <"$json")" = "$2" ]
  ok $? "for programs, $3: $1 $2"
}
json_said copied_in_bytes $((18 * 8192 + 4 * 6144)) 'filters and boxes'
json_said tensor_products $((4 * 36 * 64 * 32 * 16)) 'multiply-adds'
json_said wgmmas 144 'products'
json_said shared_bytes 88064 'what the launch asks for'
json_said static_shared_bytes 40 'five mbarriers'
# Two blocks, each adds 128 floats by the copy engine: 16 sectors.
first=$(EMU_COUNT_JSON=$json build/count/tests/check_engines added right 2>&1)
said 'the copy engine: 2 sums, 1.0 kB out of shared memory, 1.0 kB added to global (atomic)' 'sums by the copy engine'
added=$(perl -MJSON::PP -e 'local $/; print join " ", map { "@$_{qw(requests lanes bytes sectors wavefronts space array)}" } grep { $_->{kind} eq "atomic" } @{decode_json(<STDIN>)->[0]{instructions}}' <"$json")
[ "$added" = '2 2 512 32 0 global global' ]
ok $? "for programs, an atomic: $added"
# mma.m16n8k8 has half of the depth that the emulator multiplies.
first=$(build/count/tests/emu_ldmatrix 2>&1)
said 'the tensor cores: 1 mma, 0.001024 million multiply-adds' '16 x 8 x 8'
done_testing
