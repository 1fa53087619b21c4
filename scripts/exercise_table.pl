# The exercises' goals, for scripts/exercise.pl. A row is
#
#   pass     what the kernel computes
#   layer    the layer of the text: mb ic ih oc kh dh ph as in a benchdnn string (sh 1, square; dh may be left out)
#   further  another layer of the same kind, drawn at random: the goals hold on it too
#   extra    shapes beside the nasty list that this exercise's mistakes show on
#   listed   shapes in place of the nasty list, where a kernel need not do every shape; then also
#   random   one such shape, drawn at random
#   element  bytes of an element, where they are not 4
#   engines  copies come by engine: checked once more without shuffling, when they are as late as the rules allow
#   goals    [what is measured, at least (>=) or at most (<=), the goal]; the measures are below
#   also     what is counted beside requests: divisions, ends (of the grid)
#   predict  no kernel, but predictions of a kernel's counts
use strict;
use warnings;

sub pick { return $_[rand @_] }

sub outputs { my ($l, $pass) = @_; return $l->{mb} * ($pass eq 'dgrad' ? $l->{ic} * $l->{ih}**2 : $l->{oc} * pixels($l)) }
sub pixels { my ($l) = @_; return ($l->{ih} + 2 * $l->{ph} - ($l->{kh} - 1) * (1 + ($l->{dh} || 0)))**2 }
sub products { my ($l) = @_; return $l->{mb} * $l->{oc} * pixels($l) * $l->{ic} * $l->{kh}**2 } # padding counted as if it were data

# $c: sums over all requests of all launches; $l: the layer.
our %measure = (
    'loads for each product'                     => sub { my ($c, $l) = @_; $c->{bytes_loaded} / $c->{element} / products($l) },
    'stores for each output'                     => sub { my ($c, $l, $pass) = @_; $c->{bytes_stored} / $c->{element} / outputs($l, $pass) },
    'threads for each output'                    => sub { my ($c, $l, $pass) = @_; $c->{threads} / outputs($l, $pass) },
    'lanes taking part in a request'             => sub { my ($c) = @_; $c->{lanes} / $c->{requests} },
    'sectors loaded for every 32 products'       => sub { my ($c, $l) = @_; 32 * $c->{load_sectors} / products($l) },
    'sectors stored for every 32 outputs'        => sub { my ($c, $l, $pass) = @_; 32 * $c->{store_sectors} / outputs($l, $pass) },
    'sectors touched for every 32 products'      => sub { my ($c, $l) = @_; 32 * ($c->{load_sectors} + $c->{store_sectors}) / products($l) },
    'load requests for every 32 products'        => sub { my ($c, $l) = @_; 32 * $c->{load_requests} / products($l) },
    'shared memory requests for every 32 products' => sub { my ($c, $l) = @_; 32 * $c->{shared_requests} / products($l) },
    'shared memory wavefronts over those without conflicts' => sub { my ($c) = @_; $c->{shared_wavefronts} / ($c->{shared_fewest} || 1) },
    'integer divisions for each product'         => sub { my ($c, $l) = @_; $c->{divisions} / products($l) },
    'bytes of a block\'s shared memory'           => sub { my ($c) = @_; $c->{shared_bytes} },
    'bytes of the widest load from shared memory' => sub { my ($c) = @_; $c->{shared_width} },
    'multiply-adds of the tensor cores for each product' => sub { my ($c, $l) = @_; $c->{tensor_products} / products($l) },
    'elements that tensor copies bring for each product' => sub { my ($c, $l) = @_; $c->{copied_in_bytes} / $c->{element} / products($l) },
    'bytes on their way when a product is asked for' => sub { my ($c) = @_; $c->{bytes_on_their_way} / ($c->{wgmmas} || 1) },
    'atomics'                                    => sub { my ($c) = @_; $c->{atomics} },
    'threads for each output, of the kernel that loads most' => sub { my ($c, $l, $pass) = @_; ($c->{threads_of_most} || 0) / outputs($l, $pass) },
    'loads of the first and the last block, over those of an average one' => sub { my ($c) = @_; $c->{ends} },
);

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

# Every thread has its part: no single thread, no idle lanes, nothing stored twice.
my @shared_work = (['threads for each output', '>=', 1], ['stores for each output', '<=', 1], ['lanes taking part in a request', '>=', 24]);

# As the nasty list, in whole chunks of 8 channels.
my @chunked = qw(
    mb2ic24ih9oc8kh3ph1 mb2ic8ih8oc136kh3ph1 mb2ic40ih9iw11oc48kh1kw5pw2 mb2ic32ih11iw9oc16kh5kw2ph2 mb2ic16ih12oc24kh3sh2ph1 mb1ic32ih12oc40kh1sh2
    mb1ic16ih13iw10oc8kh3kw3sh3sw2ph1pw1 mb2ic72ih12oc40kh3dh1ph2 mb1ic32ih14iw13oc16kh3kw3dh2dw1ph3pw2 mb2ic32ih9oc40kh3 mb2ic32ih8oc40oh8kh4ph1
    mb2ic32ih9iw8oc16oh5ow5kh3kw4sh2sw2ph1pw1 mb3ic40ih7iw13oc72kh3kw3ph1pw1 mb2ic72ih7oc64kh1 mb1ic8ih3oc32oh3kh7ph5 mb1ic16ih1oc24oh1kh3ph1
    mb2ic24ih5oc32oh9kh3ph3 g3mb2ic48ih8oc72kh3ph1 g2mb1ic80ih7oc16kh3kw3sh2sw1ph1pw1iw9 mb1ic8ih1oc8kh1 mb5ic64ih4iw5oc56kh2kw3ph1pw1
);

our %exercises = (
    '01a' => {
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 28, oc => 16, kh => 3, ph => 0},
        further => sub { {mb => 1 + int rand 2, ic => pick(3, 5, 8), ih => 12 + int rand 8, oc => 8 + int rand 40, kh => pick(1, 3, 5), ph => int rand 2} },
        goals   => [@shared_work, ['loads for each product', '<=', 2]],
    },
    '01b' => {
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 28, oc => 16, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(4, 8, 12), ih => 12 + int rand 8, oc => pick(12, 20, 32), kh => pick(1, 3), ph => 0} },
        extra   => ['g2mb1ic6ih7oc10kh3ph1', 'g3mb2ic3ih5oc15kh3ph1'],
        goals   => [['threads for each output', '>=', 0.25], @shared_work[1, 2], ['loads for each product', '<=', 1.3]],
    },
    '01c' => {
        predict => 1,
        pass    => 'fprop',
        layer   => {mb => 1, ic => 4, ih => 14, oc => 16, kh => 3, ph => 0},
        further => sub { {mb => 1 + int rand 3, ic => 1 + int rand 4, ih => 5 + int rand 10, oc => 2 + int rand 60, kh => 1 + int rand 3, ph => 0} },
    },
    '02a' => {
        pass    => 'dgrad',
        layer   => {mb => 1, ic => 32, ih => 14, oc => 16, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(32, 64), ih => 6 + int rand 8, oc => 5 + int rand 12, kh => pick(1, 3), ph => 0} },
        goals   => [@shared_work, ['sectors loaded for every 32 products', '<=', 5], ['sectors stored for every 32 outputs', '<=', 4]],
    },
    '02b' => {
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 14, oc => 32, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(4, 8, 20), ih => 6 + int rand 8, oc => pick(32, 64), kh => pick(1, 3), ph => 0} },
        extra   => ['g2mb1ic8ih6oc8kh3ph1', 'g2mb1ic12ih6oc6kh3ph1', 'g3mb1ic12ih5oc6kh1', 'mb1ic6ih5oc3kh3ph1', 'mb1ic18ih4oc3kh2'],
        goals   => [@shared_work, ['load requests for every 32 products', '<=', 0.5]],
    },
    '02c' => {
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 14, oc => 32, kh => 3, ph => 1},
        further => sub { {mb => 1, ic => pick(8, 12, 16), ih => 16 + int rand 4, oc => pick(32, 64), kh => 3, ph => 0} },
        extra   => ['g2mb1ic6ih7oc10kh3ph1'],
        goals   => [['threads for each output', '>=', 1], ['lanes taking part in a request', '>=', 24], ['sectors touched for every 32 products', '<=', 5.5]],
    },
    '03a' => {
        pass    => 'fprop',
        layer   => {mb => 1, ic => 4, ih => 64, oc => 1, kh => 3, dh => 3, ph => 4},
        further => sub { my $dh = pick(3, 4); return {mb => 1, ic => 2 + int rand 3, ih => 56 + int rand 8, oc => 1, kh => 3, dh => $dh, ph => $dh + 1} },
        extra   => ['mb1ic2ih37oc3kh3dh2ph3', 'mb1ic2ih35iw70oc2kh3kw3dh4dw4ph5pw5', 'g2mb1ic4ih40oc2kh3sh2dh2ph3', 'mb1ic1ih33oc1kh5dh3ph8'],
        goals   => [['threads for each output', '>=', 0.25], $shared_work[1], ['lanes taking part in a request', '>=', 12],
            ['loads for each product', '<=', 0.18], ['shared memory wavefronts over those without conflicts', '<=', 1.05]],
    },
    '03b' => {
        pass    => 'fprop',
        layer   => {mb => 1, ic => 32, ih => 8, oc => 32, kh => 3, ph => 1},
        further => sub { my $kh = pick(1, 3); return {mb => 1, ic => pick(32, 64), ih => pick(11, 16), oc => pick(32, 64), kh => $kh, ph => ($kh - 1) / 2} },
        extra   => ['mb1ic36ih6oc33kh1', 'mb1ic40ih5oc70kh3ph1', 'g2mb1ic70ih4oc10kh1', 'g2mb1ic8ih6oc66kh3ph1'],
        goals   => [['threads for each output', '>=', 0.1], $shared_work[1], ['sectors loaded for every 32 products', '<=', 0.3],
            ['shared memory requests for every 32 products', '<=', 0.65], ['shared memory wavefronts over those without conflicts', '<=', 1.02]],
    },
    '04a' => {
        pass    => 'fprop',
        layer   => {mb => 1, ic => 4, ih => 56, oc => 1, kh => 3, ph => 1},
        further => sub { {mb => 1 + int rand 2, ic => 1 + int rand 4, ih => 57 + int rand 10, oc => 1, kh => pick(3, 5), ph => int rand 2} },
        extra   => ['mb1ic2ih33oc2kh3ph1', 'g3mb2ic3ih19oc3kh5ph2', 'mb1ic2ih41oc3kh3sh2ph1', 'mb1ic2ih30oc1kh3sh2dh1ph2', 'mb1ic1ih27oc2kh3dh2ph3'],
        goals   => [['threads for each output', '>=', 0.05], @shared_work[1, 2], ['loads for each product', '<=', 0.6],
            ['sectors loaded for every 32 products', '<=', 3], ['shared memory requests for every 32 products', '<=', 0]],
    },
    '05a' => {
        pass    => 'fprop',
        layer   => {mb => 1, ic => 16, ih => 8, oc => 32, kh => 3, ph => 1},
        further => sub { my $kh = pick(3, 5); return {mb => 1, ic => pick(20, 24, 32), ih => pick(8, 16), oc => pick(32, 64), kh => $kh, ph => ($kh - 1) / 2} },
        extra   => ['g2mb2ic20ih7oc10kh3ph1', 'mb1ic3ih20iw6oc4kh7kw2ph3pw1', 'mb1ic40ih6oc3kh1'],
        also    => ['divisions'],
        goals   => [['threads for each output', '>=', 0.06], $shared_work[1], ['loads for each product', '<=', 0.065],
            ['sectors loaded for every 32 products', '<=', 0.4], ['integer divisions for each product', '<=', 0.02]],
    },
    '05b' => {
        pass    => 'fprop',
        layer   => {mb => 4, ic => 64, ih => 4, oc => 32, kh => 3, ph => 1},
        further => sub { my $kh = pick(3, 5); return {mb => 2 * pick(1, 2), ic => pick(48, 56), ih => 4, oc => pick(32, 64), kh => $kh, ph => ($kh - 1) / 2} },
        extra   => ['mb1ic130ih3oc40kh1', 'g2mb1ic34ih5oc70kh3ph1', 'mb1ic15ih4oc3kh3ph1', 'mb2ic9ih5oc33kh5ph2'],
        also    => ['ends'],
        goals   => [['threads for each output, of the kernel that loads most', '>=', 0.5], ['loads of the first and the last block, over those of an average one', '<=', 1.5],
            ['loads for each product', '<=', 0.075], ['sectors stored for every 32 outputs', '<=', 36], ['atomics', '<=', 0]],
    },
    '06a' => {
        pass    => 'fprop',
        element => 2,
        layer   => {mb => 1, ic => 32, ih => 8, oc => 32, kh => 3, ph => 1},
        further => sub { my $kh = pick(1, 3); return {mb => 1, ic => pick(64, 96), ih => pick(8, 16), oc => pick(32, 64), kh => $kh, ph => ($kh - 1) / 2} },
        extra   => ['mb1ic40ih9oc40kh1', 'g2mb1ic70ih5oc80kh3ph1'],
        goals   => [$shared_work[1], ['multiply-adds of the tensor cores for each product', '>=', 1], ['bytes of the widest load from shared memory', '<=', 4],
            ['shared memory requests for every 32 products', '<=', 0.1], ['shared memory wavefronts over those without conflicts', '<=', 1.02]],
    },
    '06b' => {
        pass    => 'fprop',
        element => 2,
        layer   => {mb => 1, ic => 32, ih => 8, oc => 64, kh => 3, ph => 1},
        further => sub { my $kh = pick(1, 3); return {mb => 1, ic => pick(64, 96), ih => pick(8, 16), oc => pick(64, 128), kh => $kh, ph => ($kh - 1) / 2} },
        listed  => [@chunked, 'g2mb1ic48ih7oc144kh3ph1'],
        random  => sub { chunked_shape(sub { 1 }) },
        goals   => [$shared_work[1], ['multiply-adds of the tensor cores for each product', '>=', 1], ['bytes of a block\'s shared memory', '<=', 8192],
            ['shared memory requests for every 32 products', '<=', 0.04], ['shared memory wavefronts over those without conflicts', '<=', 1]],
    },
    '06c' => {
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
    '06d' => {
        pass    => 'fprop',
        element => 2,
        engines => 1,
        layer   => {mb => 1, ic => 64, ih => 14, oc => 64, kh => 3, ph => 1},
        further => sub { {mb => 1 + int rand 2, ic => pick(56, 64), ih => pick(28, 30), oc => 64, kh => 3, ph => 1} },
        listed  => [qw(
            mb2ic24ih9oc8kh3ph1 mb2ic40ih9iw11oc48kh1kw5pw2 mb2ic32ih11iw9oc16kh5kw2ph2 mb2ic32ih9oc40kh3 mb2ic32ih8oc40oh8kh4ph1 mb2ic64ih12oc40kh3dh1ph2
            mb1ic32ih14iw13oc16kh3kw3dh2dw1ph3pw2 mb3ic40ih7iw13oc64kh3kw3ph1pw1 mb2ic56ih7oc64kh1 mb1ic8ih3oc32oh3kh7ph5 mb1ic16ih1oc24oh1kh3ph1
            mb2ic24ih5oc32oh9kh3ph3 mb1ic8ih1oc8kh1 mb5ic64ih4iw5oc56kh2kw3ph1pw1 mb1ic64ih5iw126oc64kh3kw3ph1pw1 mb2ic64ih37iw20oc8kh3kw3ph1pw1
        )],
        random  => sub { chunked_shape(sub { my ($l) = @_; return $l->{g} == 1 && $l->{sh} == 1 && $l->{sw} == 1 && $l->{ic} <= 64 && $l->{oc} <= 64 }) },
        goals   => [$shared_work[1], ['multiply-adds of the tensor cores for each product', '>=', 1], ['loads for each product', '<=', 0.013]],
    },
);
1;
