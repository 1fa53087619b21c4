# The exercises' goals, for scripts/exercise.pl. A row is
#
#   pass     what the kernel computes
#   stars    how hard it is, 1 to 3; minutes: about how long it takes; was: its name when exercises had a step's number and a letter
#   about    what it practises, in a few words
#   layer    the layer of the text: mb ic ih oc kh ph as in a benchdnn string, g sh dh where they are not 1, 1, 0; square
#   further  another layer of the same kind, drawn at random: the goals hold on it too
#   extra    shapes beside the nasty list and the large ones that this exercise's mistakes show on
#   listed   shapes in place of the nasty list, where a kernel need not do every shape; then also
#   random   one such shape, drawn at random
#   huge     fewer huge shapes, where others take long
#   element  bytes of an element, where they are not 4
#   engines  copies come by engine: checked once more without shuffling, when they are as late as the rules allow
#   options  of the harness, in every run
#   program  the grader's main program, where it is not common/exercise/main.c
#   goals    [what is measured, at least (>=) or at most (<=), the goal, the layer if it is another one, what it is]; the measures: scripts/exercise_count.pl
#   also     what is counted beside requests: divisions, multiplications, branches, barriers, ahead, bits (scripts/exercise.pl)
#   predict  no kernel, but predictions of a kernel's counts
use strict;
use warnings;

sub pick { return $_[rand @_] }

# A shape for kernels that copy whole chunks of 8 channels: any that `fits` takes.
sub chunked_shape {
    my ($fits) = @_;
    while (1) {
        my %l = (g => pick(1, 1, 1, 2, 3), mb => 1 + int rand 3, kh => 1 + int rand 4, kw => 1 + int rand 4, ih => 1 + int rand 12, iw => 1 + int rand 12);
        $l{$_} = pick(0, 0, 0, 1) for qw(dh dw);
        $l{$_} = pick(1, 1, 1, 2) for qw(sh sw);
        $l{ph} = int rand 1 + ($l{kh} - 1) * ($l{dh} + 1);
        $l{pw} = int rand 1 + ($l{kw} - 1) * ($l{dw} + 1);
        $l{ic} = $l{g} * 8 * (1 + int rand 10);
        $l{oc} = $l{g} * 8 * (1 + int rand 10);
        next if grep { $l{"i$_"} + 2 * $l{"p$_"} < 1 + ($l{"k$_"} - 1) * ($l{"d$_"} + 1) } qw(h w);
        return join '', map { "$_$l{$_}" } qw(g mb ic ih iw oc kh kw sh sw dh dw ph pw) if $fits->(\%l);
    }
}

# Every thread has its part: no single thread, no idle lanes, nothing stored twice; no block that works for all.
my @shared_work = (['threads for each output', '>=', 1], ['stores for each output', '<=', 1], ['lanes taking part in a request', '>=', 24]);
my $no_master = ['loads of the busiest block over those of an average one', '<=', 4];

# The same where a thread may have a few outputs: on a layer with so many that five blocks of 1024 threads are too few, and one block that works for them too much.
sub many_blocks { my (%layer) = @_; my @on = ({mb => 1, kh => 1, ph => 0, %layer}, 'many outputs'); return (['threads for each output', '>=', 0.2, @on], [@$no_master, @on]) }

# As the nasty list, in whole chunks of 8 channels.
my @chunked = qw(
    mb2ic24ih9oc8kh3ph1 mb2ic8ih8oc136kh3ph1 mb2ic40ih9iw11oc48kh1kw5pw2 mb2ic32ih11iw9oc16kh5kw2ph2 mb2ic16ih12oc24kh3sh2ph1 mb1ic32ih12oc40kh1sh2
    mb1ic16ih13iw10oc8kh3kw3sh3sw2ph1pw1 mb2ic72ih12oc40kh3dh1ph2 mb1ic32ih14iw13oc16kh3kw3dh2dw1ph3pw2 mb2ic32ih9oc40kh3 mb2ic32ih8oc40oh8kh4ph1
    mb2ic32ih9iw8oc16oh5ow5kh3kw4sh2sw2ph1pw1 mb3ic40ih7iw13oc72kh3kw3ph1pw1 mb2ic72ih7oc64kh1 mb1ic8ih3oc32oh3kh7ph5 mb1ic16ih1oc24oh1kh3ph1
    mb1ic328ih3oc8kh1 mb1ic136ih3oc136kh1 mb2ic24ih5oc32oh9kh3ph3 g3mb2ic48ih8oc72kh3ph1 g2mb1ic80ih7oc16kh3kw3sh2sw1ph1pw1iw9 mb1ic8ih1oc8kh1 mb5ic64ih4iw5oc56kh2kw3ph1pw1
);

# Beside the nasty list: more of everything than a tile, a buffer or a ring of five stages has room for.
our @large = qw(g12mb1ic24ih4oc24kh3ph1 mb1ic100ih3oc3kh2 mb1ic130ih3oc5kh3ph1 mb1ic257ih2oc3kh2 g2mb1ic268ih3oc6kh1 mb1ic3ih3oc260kh1 mb9ic2ih3oc3kh3ph1 mb1ic2ih3iw150oc3kh3kw3ph1pw1 mb1ic2ih150iw3oc2kh3kw3ph1pw1
    mb1ic1ih9oc2kh13ph6 mb1ic3ih14oc4kh3sh4ph1 mb1ic2ih16oc3kh3dh4ph5);

# For what is right otherwise: a grid has at most 65535 blocks in y and in z.
our @huge = qw(mb1ic1ih1iw131080oc1kh1kw1 mb65540ic1ih1oc1kh1 mb1ic1ih1oc65540kh1);

# Most of its products are padding's: a kernel that loads them, from wherever, loads three times as many pixels.
sub in_padding { my (%other) = @_; return ['pixels loaded for each product that exists', '<=', $other{most}, {mb => 1, ic => 4, ih => 5, oc => 8, kh => 5, ph => 4, %{ $other{but} || {} }}, 'mostly padding, which needs no load'] }

our %exercises = (
    'nhwc' => {
        was     => '01a', stars => 1, minutes => 20,
        about   => 'indices, strides, groups',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 28, oc => 16, kh => 3, ph => 0},
        further => sub { {mb => 1 + int rand 2, ic => pick(3, 5, 8), ih => 12 + int rand 8, oc => pick(16, 32, 48), kh => pick(1, 3, 5), ph => int rand 2} },
        goals   => [@shared_work[0, 1], ['lanes taking part in a request', '>=', 8], ['loads for each product', '<=', 2], $no_master, in_padding(most => 1)],
    },
    'four-filters' => {
        was     => '01b', stars => 2, minutes => 30,
        about   => 'reuse in registers',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 28, oc => 16, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(4, 8, 12), ih => 12 + int rand 8, oc => pick(12, 20, 32), kh => pick(1, 3), ph => 0} },
        extra   => ['g2mb1ic6ih7oc10kh3ph1', 'g3mb2ic3ih5oc15kh3ph1'],
        goals   => [['threads for each output', '>=', 0.12], $shared_work[1], ['lanes taking part in a load of pixels', '>=', 24], ['loads for each product', '<=', 1.3], $no_master, in_padding(most => 0.26)],
    },
    'predict' => {
        was     => '01c', stars => 2, minutes => 40,
        about   => 'what chapter 01 does by hand',
        predict => 1,
        pass    => 'fprop',
        layer   => {mb => 1, ic => 4, ih => 14, oc => 16, kh => 3, ph => 0},
        further => sub { {mb => 1 + int rand 3, ic => 1 + int rand 4, ih => 5 + int rand 10, oc => 2 + int rand 60, kh => 1 + int rand 3, ph => 0} },
    },
    'nhwc-dgrad' => {
        was     => '02a', stars => 1, minutes => 20,
        about   => 'asking which index is fastest',
        pass    => 'dgrad',
        layer   => {mb => 1, ic => 32, ih => 14, oc => 16, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(32, 64), ih => 6 + int rand 8, oc => 5 + int rand 12, kh => pick(1, 3), ph => 0} },
        goals   => [many_blocks(ic => 32, ih => 28, oc => 1), @shared_work[1, 2], ['sectors loaded for every 32 products', '<=', 5], ['sectors stored for every 32 outputs', '<=', 4], in_padding(most => 1, but => {ih => 9, ph => 0})],
    },
    'float4' => {
        was     => '02b', stars => 2, minutes => 30,
        about   => 'alignment; requests against sectors',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 14, oc => 32, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(4, 8, 20), ih => 6 + int rand 8, oc => pick(32, 64), kh => pick(1, 3), ph => 0} },
        extra   => ['g2mb1ic8ih6oc8kh3ph1', 'g2mb1ic12ih6oc6kh3ph1', 'g3mb1ic12ih5oc6kh1', 'mb1ic6ih5oc3kh3ph1', 'mb1ic18ih4oc3kh2'],
        goals   => [many_blocks(ic => 4, ih => 28, oc => 32), @shared_work[1, 2], ['load requests for every 32 products', '<=', 0.5], in_padding(most => 1)],
    },
    'rearranged' => {
        was     => '02c', stars => 2, minutes => 30,
        about   => 'paying a little for coalesced loads',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 14, oc => 32, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(8, 12, 16), ih => 16 + int rand 4, oc => pick(32, 64), kh => 3, ph => 0} },
        extra   => ['g2mb1ic6ih7oc10kh3ph1'],
        goals   => [many_blocks(ic => 4, ih => 28, oc => 32), ['lanes taking part in a request', '>=', 24], ['sectors touched for every 32 products', '<=', 5.5], in_padding(most => 1)],
    },
    'dilated-halo' => {
        was     => '03a', stars => 3, minutes => 60,
        about   => 'tiles, halos, which outputs belong together',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 4, ih => 64, oc => 1, kh => 3, dh => 3, ph => 4},
        further => sub { my $dh = pick(3, 4); return {mb => 1, ic => 2 + int rand 3, ih => 56 + int rand 8, oc => 1, kh => 3, dh => $dh, ph => $dh + 1} },
        huge    => [$huge[0]], # blocks meet at barriers: 65540 of them take too long
        extra   => ['mb1ic1ih67oc1kh3dh3ph4', 'mb1ic1ih9iw67oc2kh3kw3dh3dw3ph4pw4', 'mb1ic2ih37oc3kh3dh2ph3', 'mb1ic2ih35iw70oc2kh3kw3dh4dw4ph5pw5', 'g2mb1ic4ih40oc2kh3sh2dh2ph3', 'mb1ic1ih33oc1kh5dh3ph8'],
        goals   => [['threads for each output', '>=', 0.25], $shared_work[1], ['lanes taking part in a request', '>=', 12],
            ['loads for each product', '<=', 0.18], ['shared memory requests for every 32 products', '<=', 6], ['shared memory wavefronts over those without conflicts', '<=', 1.05], in_padding(most => 0.1)],
    },
    'banks' => {
        was     => '03b', stars => 2, minutes => 45,
        about   => 'banks, worked out',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 32, ih => 8, oc => 32, kh => 3, ph => 1},
        further => sub { my $kh = pick(1, 3); return {mb => 1, ic => pick(32, 64), ih => pick(11, 16), oc => pick(32, 64), kh => $kh, ph => ($kh - 1) / 2} },
        extra   => ['mb1ic36ih6oc33kh1', 'mb1ic40ih5oc70kh3ph1', 'g2mb1ic70ih4oc10kh1', 'g2mb1ic8ih6oc66kh3ph1'],
        goals   => [['threads for each output', '>=', 0.1], $shared_work[1], ['sectors loaded for every 32 products', '<=', 0.3],
            ['shared memory requests for every 32 products', '<=', 0.65], ['shared memory wavefronts over those without conflicts', '<=', 1.02], in_padding(most => 0.15)],
    },
    'race' => {
        stars   => 1, minutes => 25,
        about   => 'where a barrier belongs',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 8, ih => 14, oc => 4, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => 3 + int rand 6, ih => 60 + int rand 12, oc => 1, kh => pick(3, 5), ph => 1} },
        also    => ['barriers'],
        goals   => [['stores for each output', '<=', 1], ['loads for each product', '<=', 0.6], ['barriers of a thread for each stage', '<=', 1.1], ['barriers of a thread for each stage', '>=', 0.9], in_padding(most => 0.3)],
    },
    'missing-wait' => {
        stars   => 2, minutes => 30,
        about   => 'what a wait for copies promises',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 8, ih => 14, oc => 4, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => 5 + int rand 6, ih => 60 + int rand 12, oc => 1, kh => pick(3, 5), ph => 1} },
        also    => ['barriers', 'ahead'],
        goals   => [['stores for each output', '<=', 1], ['loads for each product', '<=', 0.6], ['barriers of a thread for each stage', '<=', 1.25],
            ['copies on their way behind a wait', '>=', 1.5], in_padding(most => 0.3)],
    },
    'rolling-rows' => {
        was     => '04a', stars => 2, minutes => 40,
        about   => 'an array in registers',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 4, ih => 56, oc => 1, kh => 3, ph => 1},
        further => sub { {mb => 1 + int rand 2, ic => 1 + int rand 4, ih => 57 + int rand 10, oc => 1, kh => pick(3, 5), ph => int rand 2} },
        extra   => ['mb1ic2ih33oc2kh3ph1', 'g3mb2ic3ih19oc3kh5ph2', 'mb1ic2ih41oc3kh3sh2ph1', 'mb1ic2ih30oc1kh3sh2dh1ph2', 'mb1ic1ih27oc2kh3dh2ph3'],
        goals   => [['threads for each output', '>=', 0.05], @shared_work[1, 2], ['loads for each product', '<=', 0.6],
            ['sectors loaded for every 32 products', '<=', 3], ['shared memory requests for every 32 products', '<=', 0], [@$no_master, {mb => 1, ic => 1, ih => 56, oc => 32, kh => 3, ph => 1}, 'more blocks'],
            in_padding(most => 0.3)],
    },
    'constant' => {
        stars   => 1, minutes => 20,
        about   => 'constant memory: one element for all lanes',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 4, ih => 14, oc => 6, kh => 3, ph => 1},
        further => sub { {mb => 1 + int rand 2, ic => 1 + int rand 4, ih => 15 + int rand 4, oc => 3 + int rand 5, kh => pick(3, 5), ph => int rand 2} },
        extra   => ['mb1ic130ih2oc132kh1', 'mb1ic128ih2oc128kh1', 'mb1ic56ih3oc33kh3ph1'],
        goals   => [many_blocks(ic => 1, ih => 65, oc => 6), $shared_work[1], ['lanes taking part in a request', '>=', 8], ['loads for each product', '<=', 1], ['elements of constant memory in a request', '<=', 1], ['requests to constant memory for every 32 products', '>=', 0.2],
            ['requests to constant memory for every 32 products', '>=', 0.2, {mb => 1, ic => 64, ih => 4, oc => 28, kh => 3, ph => 1}, '63 of its 64 KiB'],
            in_padding(most => 1)],
    },
    'fixed-order' => {
        stars   => 2, minutes => 40,
        about   => 'a divided sum with the same bits in every run (wgrad)',
        pass    => 'wgrad',
        layer   => {g => 32, mb => 2, ic => 32, ih => 14, oc => 32, kh => 3, ph => 1},
        further => sub { my $c = pick(32, 64); return {g => $c, mb => 1 + int rand 2, ic => $c, ih => 14 + int rand 4, oc => $c, kh => 3, ph => 1} },
        also    => ['bits'],
        extra   => ['g32mb1ic32ih5oc32kh5ph2', 'g34mb3ic34ih6oc34kh3sh2ph1', 'mb2ic6ih33oc3kh3ph1'],
        goals   => [['threads for each output, of the kernel that loads most', '>=', 16], ['lanes taking part in a request', '>=', 24],
            ['sectors loaded for every 32 products', '<=', 12], ['sectors stored for every 32 outputs', '<=', 300], ['atomics', '<=', 0],
            ['loads of the busiest block over those of an average one', '<=', 8], ['runs with other bits than the first', '<=', 0], in_padding(most => 1)],
    },
    'no-division' => {
        was     => '05a', stars => 2, minutes => 45,
        about   => 'what one thread does from stage to stage',
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 8, oc => 32, kh => 3, ph => 1},
        further => sub { my $kh = pick(3, 5); return {mb => 1, ic => pick(20, 24, 32), ih => pick(8, 16), oc => pick(32, 64), kh => $kh, ph => ($kh - 1) / 2} },
        extra   => ['g2mb2ic20ih7oc10kh3ph1', 'mb1ic3ih20iw6oc4kh7kw2ph3pw1', 'mb1ic40ih6oc3kh1'],
        also    => ['divisions', 'branches'],
        goals   => [['threads for each output', '>=', 0.06], $shared_work[1], ['loads for each product', '<=', 0.065],
            ['sectors loaded for every 32 products', '<=', 0.4], ['divisions for each product', '<=', 0.02],
            ['branches for each product', '<=', 4, {mb => 1, ic => 768, ih => 8, oc => 32, kh => 1, ph => 0}], in_padding(most => 0.15)],
    },
    'slices' => {
        was     => '05b', stars => 2, minutes => 40,
        about   => 'split-K',
        pass    => 'fprop',
        layer   => {mb => 4, ic => 64, ih => 4, oc => 32, kh => 3, ph => 1},
        further => sub { my $kh = pick(3, 5); return {mb => 2 * pick(1, 2), ic => pick(48, 56), ih => 4, oc => pick(32, 64), kh => $kh, ph => ($kh - 1) / 2} },
        also    => ['bits'],
        extra   => ['mb1ic130ih3oc40kh1', 'g2mb1ic34ih5oc70kh3ph1', 'mb1ic15ih4oc3kh3ph1', 'mb2ic9ih5oc33kh5ph2'],
        goals   => [['threads for each output, of the kernel that loads most', '>=', 0.5], ['loads of the busiest block over those of an average one', '<=', 1.5],
            ['loads for each product', '<=', 0.075], ['sectors stored for every 32 outputs', '<=', 36], ['atomics', '<=', 0],
            ['runs with other bits than the first', '<=', 0], in_padding(most => 0.15)],
    },
    'classes' => {
        stars   => 2, minutes => 30,
        about   => 'residue classes (strided dgrad)',
        pass    => 'dgrad',
        layer   => {mb => 1, ic => 4, ih => 28, oc => 8, kh => 3, sh => 2, ph => 1},
        further => sub { {mb => 1, ic => 2 + int rand 3, ih => pick(27, 29 .. 34), oc => 4 + int rand 4, kh => pick(3, 4, 5), sh => 3, ph => 1} },
        extra   => ['mb1ic3ih20oc2kh3sh5ph1', 'mb1ic2ih2oc2oh1kh1sh3', 'mb2ic3ih13iw14oc4kh3kw3sh2sw3dh1dw1ph2pw1', 'g2mb1ic4ih9oc6kh2sh2'],
        goals   => [many_blocks(ic => 4, ih => 80, oc => 1, kh => 3, sh => 2, ph => 1), $shared_work[1], ['lanes taking part in a request', '>=', 20], ['load requests for every 32 products', '<=', 3.2],
            in_padding(most => 1, but => {ih => 9, ph => 0})],
    },
    'winograd' => {
        stars   => 3, minutes => 60,
        about   => "Winograd's F(2, 3)",
        pass    => 'fprop',
        layer   => {mb => 1, ic => 8, ih => 14, oc => 16, kh => 3, ph => 1},
        further => sub { {mb => 1 + int rand 2, ic => 4 + int rand 8, ih => 12 + 2 * int rand 3, oc => 8 + int rand 8, kh => 3, ph => pick(0, 1)} },
        extra   => ['mb1ic2ih9iw8oc3kh5kw3ph2pw1', 'mb1ic2ih9iw9oc3kh1kw3ph0pw0', 'g2mb2ic6ih7oc8kh3ph1', 'mb1ic3ih8iw8oc2kh3kw3sh2sw1ph1pw1', 'mb1ic2ih8iw9oc2kh3kw3dh1dw0ph2pw2'],
        also    => ['multiplications'],
        goals   => [many_blocks(ic => 1, ih => 40, oc => 16, kh => 3, ph => 1), ['multiplications for each product', '<=', 0.7], in_padding(most => 1, but => {kh => 3, ph => 2, ih => 2})],
    },
    'fragments' => {
        was     => '06a', stars => 2, minutes => 45,
        about   => 'who holds what in mma.sync',
        pass    => 'fprop',
        element => 2,
        layer   => {mb => 1, ic => 32, ih => 8, oc => 32, kh => 3, ph => 1},
        further => sub { my $kh = pick(1, 3); return {mb => 1, ic => pick(64, 96), ih => pick(8, 16), oc => pick(32, 64), kh => $kh, ph => ($kh - 1) / 2} },
        extra   => ['mb1ic40ih9oc40kh1', 'g2mb1ic70ih5oc80kh3ph1'],
        goals   => [$shared_work[1], ['multiply-adds of the tensor cores for each product', '>=', 1], ['bytes of the widest load from shared memory', '<=', 4],
            ['shared memory requests for every 32 products', '<=', 0.1], ['shared memory wavefronts over those without conflicts', '<=', 1.02], in_padding(most => 0.15)],
    },
    'swizzle' => {
        was     => '06b', stars => 2, minutes => 40,
        about   => 'a swizzle, worked out',
        pass    => 'fprop',
        element => 2,
        layer   => {mb => 1, ic => 32, ih => 8, oc => 64, kh => 3, ph => 1},
        further => sub { my $kh = pick(1, 3); return {mb => 1, ic => pick(64, 96), ih => pick(8, 16), oc => pick(64, 128), kh => $kh, ph => ($kh - 1) / 2} },
        listed  => [@chunked, 'g2mb1ic48ih7oc144kh3ph1'],
        random  => sub { chunked_shape(sub { 1 }) },
        goals   => [$shared_work[1], ['multiply-adds of the tensor cores for each product', '>=', 1], ['bytes of a block\'s shared memory', '<=', 8192],
            ['shared memory requests for every 32 products', '<=', 0.04], ['shared memory wavefronts over those without conflicts', '<=', 1], in_padding(most => 0.08, but => {ic => 16, oc => 16})],
    },
    'ring' => {
        was     => '06c', stars => 3, minutes => 90,
        about   => 'mbarriers and their parity',
        pass    => 'fprop',
        element => 2,
        engines => 1,
        layer   => {mb => 1, ic => 64, ih => 8, oc => 64, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(128, 192), ih => pick(8, 16), oc => 64, kh => 3, ph => 1} },
        listed  => [grep { !/^g/ } @chunked],
        random  => sub { chunked_shape(sub { $_[0]{g} == 1 }) },
        goals   => [$shared_work[1], ['multiply-adds of the tensor cores for each product', '>=', 1], ['elements that tensor copies bring for each product', '<=', 0.032],
            ['bytes on their way when a product is asked for', '>=', 24576]],
    },
    'window' => {
        was     => '06d', stars => 3, minutes => 90,
        about   => 'descriptors, and what lies behind a box',
        pass    => 'fprop',
        element => 2,
        engines => 1,
        layer   => {mb => 1, ic => 64, ih => 14, oc => 64, kh => 3, ph => 1},
        further => sub { {mb => 1 + int rand 2, ic => pick(56, 64), ih => pick(28, 30), oc => 64, kh => 3, ph => 1} },
        listed  => [qw(
            mb2ic24ih9oc8kh3ph1 mb2ic40ih9iw11oc48kh1kw5pw2 mb2ic32ih11iw9oc16kh5kw2ph2 mb2ic32ih9oc40kh3 mb2ic32ih8oc40oh8kh4ph1 mb2ic64ih12oc40kh3dh1ph2
            mb1ic32ih14iw13oc16kh3kw3dh2dw1ph3pw2 mb3ic40ih7iw13oc64kh3kw3ph1pw1 mb2ic56ih7oc64kh1 mb1ic8ih3oc32oh3kh7ph5 mb1ic16ih1oc24oh1kh3ph1
            mb2ic24ih5oc32oh9kh3ph3 mb1ic8ih1oc8kh1 mb5ic64ih4iw5oc56kh2kw3ph1pw1 mb1ic64ih5iw126oc64kh3kw3ph1pw1 mb2ic64ih37iw20oc8kh3kw3ph1pw1 mb1ic24ih9iw14oc16kh3kw3dh0dw1ph0pw0
        )],
        random  => sub { chunked_shape(sub { my ($l) = @_; return $l->{g} == 1 && $l->{sh} == 1 && $l->{sw} == 1 && $l->{ic} <= 64 && $l->{oc} <= 64 }) },
        goals   => [$shared_work[1], ['multiply-adds of the tensor cores for each product', '>=', 1], ['loads for each product', '<=', 0.013]],
    },
    'epilogue' => {
        stars   => 1, minutes => 20,
        about   => 'an epilogue in registers',
        pass    => 'fprop',
        options => ['--fuse', 'scale,bias,residual,relu'],
        layer   => {mb => 1, ic => 16, ih => 14, oc => 32, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(8, 16), ih => 8 + int rand 8, oc => pick(16, 32, 48), kh => 3, ph => 0} },
        goals   => [many_blocks(ic => 1, ih => 28, oc => 32), $shared_work[1], ['stores for each output', '>=', 1], ['kernels launched', '<=', 1], ['loads for each product', '<=', 2.2], in_padding(most => 1)],
    },
    'residual' => {
        stars   => 2, minutes => 40,
        about   => 'an epilogue by whole sectors',
        pass    => 'fprop',
        element => 2,
        options => ['--fuse', 'scale,bias,residual,relu'],
        layer   => {mb => 1, ic => 32, ih => 8, oc => 32, kh => 1, ph => 0},
        further => sub { my $kh = pick(1, 3); return {mb => 1, ic => pick(32, 48), ih => pick(8, 16), oc => pick(32, 64), kh => $kh, ph => ($kh - 1) / 2} },
        extra   => ['mb1ic40ih9oc40kh1', 'g2mb1ic70ih5oc80kh3ph1'],
        goals   => [$shared_work[1], ['multiply-adds of the tensor cores for each product', '>=', 1], ['sectors of the residual for every 32 outputs', '<=', 2.1],
            ['sectors stored for every 32 outputs', '<=', 2.1]],
    },
    'pool' => {
        stars   => 3, minutes => 60,
        about   => 'two operations in one kernel',
        pass    => 'pooled',
        program => 'pool',
        layer   => {mb => 1, ic => 3, ih => 32, oc => 4, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => 2 + int rand 3, ih => pick(31, 32, 64), oc => 2 + int rand 3, kh => pick(3, 5), ph => pick(1, 2)} },
        goals   => [['threads for each output', '>=', 0.25], $shared_work[1], ['stores for each output', '>=', 1], ['kernels launched', '<=', 1], ['loads for each product', '<=', 2.5]],
    },
);
1;
