# What the exercises' goals measure, for scripts/exercise.pl: counts of a layer by the count build, and two predictions beside them.
use strict;
use warnings;
use JSON::PP;
use List::Util qw(max sum0);
use POSIX ();

our ($name, $row, $folder, $seed, %measure);

# ---------------------------------------------------------------- a layer's sizes

sub shape { my ($l) = @_; return join '', map { defined $l->{$_} ? "$_$l->{$_}" : () } qw(g mb ic ih oc kh sh dh ph) }

sub groups { my ($l) = @_; return $l->{g} || 1 }
sub side { my ($l) = @_; return int(($l->{ih} + 2 * $l->{ph} - ($l->{kh} - 1) * (1 + ($l->{dh} || 0)) - 1) / ($l->{sh} || 1)) + 1 } # of the output
sub filters { my ($l) = @_; return $l->{oc} * $l->{ic} / groups($l) * $l->{kh}**2 }
sub products { my ($l) = @_; return $l->{mb} * side($l)**2 * filters($l) } # padding counted as if it were data

# Products of a pixel, not of padding: taps of one axis that lie in the image, squared.
sub products_inside {
    my ($l) = @_;
    my $taps = 0;
    for my $out (0 .. side($l) - 1) {
        $taps += grep { $_ >= 0 && $_ < $l->{ih} } map { $out * ($l->{sh} || 1) - $l->{ph} + $_ * (1 + ($l->{dh} || 0)) } 0 .. $l->{kh} - 1;
    }
    return $l->{mb} * filters($l) * ($taps / $l->{kh})**2;
}

# Elements of the result. What is pooled afterwards: 3 x 3, stride 2, padding 1.
sub outputs {
    my ($l, $pass) = @_;
    return filters($l) if $pass eq 'wgrad';
    return $l->{mb} * ($pass eq 'dgrad' ? $l->{ic} * $l->{ih}**2 : $l->{oc} * ($pass eq 'pooled' ? int((side($l) + 1) / 2) : side($l))**2);
}

# ---------------------------------------------------------------- the measures

# $c: sums over all requests of all launches; $l: the layer.
%measure = (
    'loads for each product'                     => sub { my ($c, $l) = @_; $c->{bytes_loaded} / $c->{element} / products($l) },
    'pixels loaded for each product that exists' => sub { my ($c, $l) = @_; ($c->{loads_of}{$c->{image}} || 0) / $c->{element} / products_inside($l) },
    'stores for each output'                     => sub { my ($c, $l, $pass) = @_; $c->{bytes_stored} / $c->{element} / outputs($l, $pass) },
    'threads for each output'                    => sub { my ($c, $l, $pass) = @_; $c->{threads} / outputs($l, $pass) },
    'lanes taking part in a request'             => sub { my ($c) = @_; $c->{lanes} / $c->{requests} },
    'lanes taking part in a load of pixels'      => sub { my ($c) = @_; ($c->{lanes_of}{ $c->{image} } || 0) / ($c->{requests_of}{ $c->{image} } || 1) },
    'sectors loaded for every 32 products'       => sub { my ($c, $l) = @_; 32 * $c->{load_sectors} / products($l) },
    'sectors stored for every 32 outputs'        => sub { my ($c, $l, $pass) = @_; 32 * $c->{store_sectors} / outputs($l, $pass) },
    'sectors touched for every 32 products'      => sub { my ($c, $l) = @_; 32 * ($c->{load_sectors} + $c->{store_sectors}) / products($l) },
    'sectors of the residual for every 32 outputs' => sub { my ($c, $l, $pass) = @_; 32 * ($c->{sectors_of}{residual} || 0) / outputs($l, $pass) },
    'load requests for every 32 products'        => sub { my ($c, $l) = @_; 32 * $c->{load_requests} / products($l) },
    'elements of constant memory in a request'   => sub { my ($c) = @_; $c->{constant_wavefronts} / ($c->{constant_requests} || 1) },
    'shared memory requests for every 32 products' => sub { my ($c, $l) = @_; 32 * $c->{shared_requests} / products($l) },
    'shared memory wavefronts over those without conflicts' => sub { my ($c) = @_; $c->{shared_wavefronts} / ($c->{shared_fewest} || 1) },
    'divisions for each product'                 => sub { my ($c, $l) = @_; $c->{divisions} / products($l) },
    'multiplications for each product'           => sub { my ($c, $l) = @_; $c->{multiplications} / products($l) },
    'branches for each product'                  => sub { my ($c, $l) = @_; $c->{branches} / products($l) },
    'barriers of a thread for each stage'        => sub { my ($c, $l) = @_; $c->{barriers} / ($l->{ic} / groups($l) * $l->{kh}) },
    'copies on their way behind a wait'          => sub { my ($c) = @_; $c->{ahead} },
    'bytes of a block\'s shared memory'           => sub { my ($c) = @_; $c->{shared_bytes} },
    'bytes of the widest load from shared memory' => sub { my ($c) = @_; $c->{shared_width} },
    'multiply-adds of the tensor cores for each product' => sub { my ($c, $l) = @_; $c->{tensor_products} / products($l) },
    'elements that tensor copies bring for each product' => sub { my ($c, $l) = @_; $c->{copied_in_bytes} / $c->{element} / products($l) },
    'bytes on their way when a product is asked for' => sub { my ($c) = @_; $c->{bytes_on_their_way} / ($c->{wgmmas} || 1) },
    'atomics'                                    => sub { my ($c) = @_; $c->{atomics} },
    'runs with other bits than the first'        => sub { my ($c) = @_; $c->{bits} },
    'kernels launched'                           => sub { my ($c) = @_; $c->{launches} },
    'threads for each output, of the kernel that loads most' => sub { my ($c, $l, $pass) = @_; ($c->{threads_of_most} || 0) / outputs($l, $pass) },
    'loads of the busiest block over those of an average one' => sub { my ($c) = @_; $c->{busiest} },
    'requests to constant memory for every 32 products' => sub { my ($c, $l) = @_; 32 * $c->{constant_requests} / products($l) },
);

# ---------------------------------------------------------------- counting

# Runs a count build on one layer. Returns sums over all requests, and the rows of its instructions.
sub counted {
    my ($environment, $program, $layer, @arguments) = @_;
    unlink "$folder/json";
    my ($status, $out, $err, $late) = run({EMU_COUNT_BLOCKS => 'all', EMU_COUNT_LAUNCHES => 'all', EMU_COUNT_JSON => "$folder/json", %$environment}, $program, @arguments, '--exact', '--shape', shape($layer));
    finish($late) if $late && !check(0, 'ends in time', $late);
    finish("the count ended with exit status $status: " . join('; ', complaint($err))) if $status;
    my $json = slurp("$folder/json");
    finish("the program ended (exit status $status) before anything was counted") if $json eq '';
    my $launches = decode_json($json);
    my %sum = map { $_ => 0 } qw(threads bytes_loaded bytes_stored atomics requests lanes load_requests load_sectors store_requests store_sectors shared_requests
        shared_wavefronts shared_fewest shared_width shared_bytes constant_requests constant_wavefronts copied_in_bytes tensor_products wgmmas bytes_on_their_way);
    $sum{element} = $row->{element} || 4;
    $sum{launches} = @$launches;
    $sum{image} = $row->{pass} eq 'dgrad' ? 'y' : 'x'; # a listing's names: dy stands as y
    my (%of, @rows); # what launches of a kernel did together
    for my $launch (@$launches) {
        my $threads = 1;
        $threads *= $_ for @{ $launch->{grid} }, @{ $launch->{block} };
        $of{ $launch->{kernel} }{$_} += $launch->{$_} for qw(bytes_loaded blocks);
        $of{ $launch->{kernel} }{threads} += $threads;
        $of{ $launch->{kernel} }{most} = max($of{ $launch->{kernel} }{most} // 0, $launch->{most_bytes_a_block_loads});
        $sum{$_} += $launch->{$_} for qw(bytes_loaded bytes_stored copied_in_bytes tensor_products wgmmas bytes_on_their_way);
        $sum{shared_bytes} = max($sum{shared_bytes}, $launch->{shared_bytes} + $launch->{static_shared_bytes});
        for my $i (grep { $_->{space} =~ /^(global|shared|constant)$/ } @{ $launch->{instructions} }) {
            push @rows, $i;
            $sum{atomics} += $i->{requests} if $i->{kind} eq 'atomic';
            if ($i->{space} ne 'global') {
                $sum{"$i->{space}_$_"} += $i->{$_} for qw(requests wavefronts);
                next if $i->{space} eq 'constant';
                $sum{shared_width} = max($sum{shared_width}, $i->{bytes}) if $i->{kind} eq 'load';
                $sum{shared_fewest} += $i->{requests} * fewest_wavefronts($i);
                next;
            }
            my @kinds = $i->{kind} eq 'atomic' ? qw(load store) : $i->{kind}; # an atomic is both
            $sum{$_} += $i->{$_} for qw(requests lanes);
            for my $kind (@kinds) { $sum{"${kind}_$_"} += $i->{$_} for qw(requests sectors) }
            if ($i->{kind} eq 'load') {
                $sum{loads_of}{ $i->{array} } += $i->{lanes} * $i->{bytes};
                $sum{"${_}_of"}{ $i->{array} } += $i->{$_} for qw(requests lanes sectors);
            }
        }
    }
    $sum{threads} = max(map { $_->{threads} } values %of);
    my ($most) = sort { $b->{bytes_loaded} <=> $a->{bytes_loaded} } values %of;
    @sum{qw(threads_of_most busiest)} = ($most->{threads}, $most->{most} / ($most->{bytes_loaded} / $most->{blocks})) if $most->{bytes_loaded};
    return (\%sum, @rows);
}

# Of a request to shared memory: one moves at most 128 bytes.
sub fewest_wavefronts { my ($i) = @_; return $i->{bytes} > 4 ? $i->{bytes} / 4 : 1 }

# What the grader's own counters (common/exercise/) say of one launch: divisions or multiplications, barriers, groups of copies that waits let go on.
sub counted_once {
    my ($program, $layer, $what) = @_;
    my ($status, $out, $err, $late) = run({EMU_THREADS => 1, EMU_LATE => 1}, $program, $name, '--exact', '--shape', shape($layer));
    finish($late) if $late && !check(0, 'ends in time', $late);
    finish("the count of $what ended with exit status $status: " . join('; ', complaint($err))) if $status;
    return $out =~ /^(\S+) \Q$what\E a launch$/m ? $1 : 0;
}

# Whether two runs in different orders have different bits somewhere: 0 or 1.
sub other_bits {
    my ($program, $layer) = @_;
    my %seen;
    for my $order ($seed, $seed + 1) {
        my ($status, $out, $err, $late) = run({EMU_SEED => $order, EXERCISE_BITS => 1}, $program, $name, '--no-time', '--shape', shape($layer));
        finish($late) if $late && !check(0, 'ends in time', $late);
        $seen{$1} = 1 if $out =~ /^(\d+) bits a launch$/m;
    }
    return keys(%seen) != 1;
}

sub grade_counts {
    my ($program, $main) = @_;
    my %also = map { $_ => 1 } @{ $row->{also} || [] };
    my %marked; # programs that count one kind of instruction
    for my $what (grep { $also{$_} } qw(divisions multiplications branches)) {
        $marked{$what} = arithmetic_counter($what) && build($what, $main);
        print "  --    $what are not counted on this machine: expected x86_64 or aarch64\n" unless $marked{$what};
    }
    my ($waits) = grep { $also{$_} } qw(barriers ahead);
    my $waiting = $waits && build('waits', $main);
    my $plain = $also{bits} && build('run', $main);
    my %known; # sums, by layer
    my $sums_of = sub {
        my ($layer) = @_;
        return $known{shape($layer)} ||= do {
            my ($sum, @instructions) = counted({}, $program, $layer, $name, @{ $row->{options} || [] });
            $sum->{rows} = \@instructions;
            $sum->{$_} = $marked{$_} ? counted_once($marked{$_}, $layer, 'marks') : 0 for keys %marked;
            $sum->{$_} = counted_once($waiting, $layer, $_) for grep { $also{$_} } qw(barriers ahead);
            $sum->{bits} = other_bits($plain, $layer) + 0 if $plain;
            $sum;
        };
    };
    my @layers = ($row->{layer}, $row->{further}->());
    my @both = map { $sums_of->($_) } @layers;
    print "  counted on @{[shape($layers[0])]}, and on @{[shape($layers[1])]}:\n";
    for my $i (@{ $both[0]{rows} }) {
        my ($each, $of) = $i->{space} eq 'global' ? ($i->{sectors}, 'sectors each') : ($i->{wavefronts}, 'elements each');
        $of = 'wavefronts each, ' . fewest_wavefronts($i) . ' without conflicts' if $i->{space} eq 'shared';
        printf "        line %-4d %-6s %-10s %9d requests of %.1f lanes, %.2f %s\n", @$i{qw(line kind array requests)}, $i->{lanes} / $i->{requests}, $each / $i->{requests}, $of;
    }
    printf "        the copy engine brings %d bytes into shared memory\n", $_ for grep { $_ } $both[0]{copied_in_bytes};
    printf "        the tensor cores: %d multiply-adds\n", $_ for grep { $_ } $both[0]{tensor_products};
    for my $goal (@{ $row->{goals} }) {
        my ($what, $relation, $limit, $on, $which) = @$goal;
        my @of = $on ? $on : @layers;
        my @value = map { $measure{$what}->($sums_of->($_), $_, $row->{pass}) } @of;
        my $good = grep({ $relation eq '>=' ? $_ >= $limit * (1 - 1e-9) : $_ <= $limit * (1 + 1e-9) } @value) == @value;
        my $where = $on ? ' (on ' . shape($on) . ($which ? ", $which" : '') . ')' : '';
        check($good, sprintf '%s: %s, goal %s%s', $what, join(' and ', map { 0 + sprintf $_ < 1000 ? '%.3g' : '%.0f', $_ } @value), goal_text($goal), $where);
    }
}

# ---------------------------------------------------------------- predictions instead of a kernel

sub grade_predictions {
    my ($program) = @_;
    my @layers = ($row->{layer}, map { $row->{further}->() } 1 .. 7);
    my ($status, $out, $err, $late) = run({}, $program, map { shape($_) } @layers);
    finish($late) if $late && !check(0, 'ends in time', $late);
    my @predicted = map { [split / /] } $out =~ /^predicted (-?\d+ -?\d+ -?\d+)$/mg;
    finish("the functions did not return (exit status $status)") if $status || @predicted != @layers;
    my @wrong = ('') x 3;
    for my $l (0 .. $#layers) {
        my (undef, @rows) = counted({}, "$ENV{COUNT_STEPS}/01", $layers[$l], '--pass', 'fprop');
        my ($at, @count) = (0, 0, 0, 0);
        for my $i (@rows) {
            $at = $i->{kind} eq 'store' ? 0 : $i->{array} =~ /^w/ ? 1 : 2;
            $count[$at] += $i->{sectors};
        }
        for my $at (0 .. 2) {
            $wrong[$at] ||= "first on @{[shape($layers[$l])]}: predicted $predicted[$l][$at], counted $count[$at]" if $predicted[$l][$at] != $count[$at];
        }
    }
    my @text = ('stores of y', 'loads of w', 'loads of x');
    check(!$wrong[$_], "sectors of the $text[$_] on @{[scalar @layers]} layers (SEED=$seed draws them again)", $wrong[$_]) for 0 .. 2;
}
1;
