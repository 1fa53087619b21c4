#!/usr/bin/env perl
# What the pages show of the emulator, as CSV files that are committed beside the measured ones: `make emulated`. Of the steps as they launch on a GPU with as
# many SMs as GPU has (docs/results/GPU/calibrate.csv), in docs/results/GPU/:
#
#   launches-NN   grids, blocks and shared memory (--list)
#   which-NN      what the step's rule takes (--which), for every problem that its kernels have rows of
#   model-05      what the model that cuts products takes, and loses, by the times of all cuts (cuts.csv)
#   error-05      the error of kernels on small layers of random data: root mean square, relative to the outputs. The reference is 00a's, summed in fp64 and
#                 rounded to fp32, which alone is an error of 2e-8
#
# and the same whatever the GPU, in docs/results/emulator/:
#
#   requests      counted requests of memory, summed over a kernel's lines
#   wavefronts    requests, sectors and wavefronts of global memory, of kernels that ncu has profiled, from a sample of blocks
#
# usage: scripts/emulated.pl [--check] [FILE ...]     FILE: such as launches-03; all without. --check: writes nothing, exit status 1 if a file is stale
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use JSON::PP;
use Rows;
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)}; # the make that is started here is not a part of another one

my $first = 'mb16ic64ih56oc128oh56kh3ph1';
my $rows_of_first = 'mb1ic8ih24iw56oc64oh24ow56kh3kw3ph1pw1'; # a small layer whose rows and filters are those of the first one

# Layers whose launches are listed.
my %launches = (
    '03' => [$first, qw(mb16ic3ih224oc64oh112kh7sh2ph3 mb16ic128ih28oc128oh28kh3ph1 mb16ic256ih14oc256oh14kh3ph1 mb16ic512ih7oc512oh7kh3ph1
        mb16ic128ih56oc128oh28kh3sh2ph1 mb16ic64ih56oc256oh56kh1 mb16ic1024ih14oc256oh14kh1 mb16ic2048ih7oc512oh7kh1 mb1ic1ih4000oc1oh4000kh3ph1)],
    '04' => [(map { "mb1ic1ih4000oc1oh4000kh$_" } qw(3ph1 5ph2 7ph3 9ph4 15ph7 31ph15)), qw(g144mb64ic144ih56oc144oh56kh3ph1 g96mb64ic96ih112oc96oh56kh3sh2ph1
        g240mb64ic240ih28oc240oh28kh5ph2 g128mb64ic128ih56oc128oh56kh7ph3 g128mb32ic128ih56oc128oh56kh31ph15)],
    '05' => [$first, qw(mb16ic128ih28oc128oh28kh3ph1 mb16ic256ih14oc256oh14kh3ph1 mb16ic512ih7oc512oh7kh3ph1 mb16ic64ih56oc64oh56kh1 mb16ic64ih56oc256oh56kh1
        mb16ic512ih7oc2048oh7kh1 mb16ic3ih224oc64oh112kh7sh2ph3 mb64ic512ih7oc2048oh7kh1)],
    '06' => [qw(g144mb64ic144ih56oc144oh56kh3ph1 g96mb64ic96ih112oc96oh56kh3sh2ph1 g240mb64ic240ih28oc240oh28kh5ph2 g128mb64ic128ih56oc128oh56kh7ph3)],
);
my @which = qw(04 05 06);
my %errors = ('05' => [[qw(05e 05f 05l 05m)], [qw(mb1ic64ih28oc64kh3ph1 mb1ic256ih14oc64kh3ph1)]]);
# Pass, layer, and the kernels whose requests are counted. The layers of steps 01 and 02 have the first one's filter size, its image or one whose pixels are
# a multiple of 32 too, and as many channels or filters as a warp has lanes: so a request is the same there. Of 01a's fprop it asks for filters that are 32
# channels apart, so that they lie in one bank as the first layer's do.
my ($few_channels, $few_filters, $one_bank) = qw(mb1ic2ih56oc32oh56kh3ph1 mb1ic32ih56oc2oh56kh3ph1 mb1ic32ih16oc32oh16kh3ph1);
my @requests = (
    ['fprop', $one_bank, '01a'], ['fprop', $few_channels, '02a'], ['dgrad', $few_filters, qw(01a 02a)], ['wgrad', $few_channels, '01a'], ['wgrad', $few_filters, qw(02a 02b)],
    ['fprop', $rows_of_first, qw(02a 03a 03b 03c 03d)],
    map { ['dgrad', $_, '05i'] } qw(mb2ic64ih28oc16oh28kh3ph1 mb2ic64ih28oc64oh14kh3sh2ph1 mb2ic64ih28oc64oh14kh1sh2),
);
# The same of global memory alone, beside ncu's: fewer channels, filters and images than the first layer's, but so many that the words of a request lie in the
# same banks. Of one image of 56 x 56 pixels 100 blocks are spread over all places of a row.
my ($narrow, $wide) = qw(mb1ic32ih56oc32oh56kh3ph1 mb1ic32ih56oc64oh56kh3ph1);
my @wavefronts = (['fprop', $narrow, qw(01a 02a)], ['dgrad', $narrow, qw(01a 02a)], ['wgrad', $narrow, qw(01a 02a 02b)], ['fprop', $wide, qw(03a 03b 03c 03d 05b)]);

my $folder = tempdir(CLEANUP => 1);

# What a program prints; a program that fails ends this one.
sub output_of {
    my (@command) = @_;
    open my $pipe, '-|', @command or die "$command[0]: $!\n";
    local $/;
    my $output = <$pipe>;
    close $pipe or die "emulated.pl: expected a good end of: @command\n";
    return $output // '';
}

sub built { system('make', '-s', '--no-print-directory', 'BACKEND=emu', @_) == 0 or exit 2; return @_ }

sub launches {
    my ($step) = @_;
    my ($program) = built("build/emu/$step");
    my @lines = 'shape,pass,kernel,launch,function,blocks_x,blocks_y,blocks_z,threads,static_shared,dynamic_shared';
    for my $shape (@{ $launches{$step} }) {
        my ($kernel, $pass, $launch);
        for (split /\n/, output_of($program, '--list', '--shape', $shape)) {
            if (/^  (\d\d[a-z])\s+(\w+) /) { ($kernel, $pass, $launch) = ($1, $2, 0) }
            my @n = /^ +grid (\d+) x (\d+) x (\d+), block (\d+) x (\d+) x (\d+), shared (\d+) \+ (\d+) bytes.*?  (\S.*)$/ or next;
            my $function = $n[8] =~ s/\bfalse\b/0/gr =~ s/\btrue\b/1/gr =~ s/,//gr; # as ptxas names it: scripts/registers.sh
            push @lines, join ',', $shape, $pass, $kernel, ++$launch, $function, @n[0 .. 2], $n[3] * $n[4] * $n[5], @n[6, 7];
        }
    }
    return @lines;
}

sub which {
    my ($step) = @_;
    my ($program) = built("build/emu/$step");
    my %shapes;
    for my $path (glob 'docs/results/' . Rows::gpu() . '/*.csv') {
        my $rows = Rows::read_csv($path);
        next if grep { !exists $rows->[0]{$_} } qw(shape kernel status);
        $shapes{ $_->{shape} } = 1 for grep { $_->{kernel} =~ /^$step[a-z]$/ } @$rows;
    }
    open my $out, '>', "$folder/suite" or die "$folder/suite: $!\n";
    print $out map { "$_\n" } sort keys %shapes;
    close $out;
    open $out, '>', "$folder/which-$step.csv" or die "$folder/which-$step.csv: $!\n";
    print $out output_of($program, '--which', '--suite', "$folder/suite");
    close $out;
    my @columns = qw(shape pass dtype kernel when kernel_for_files);
    return join(',', @columns), map { my $row = $_; join ',', map { $_ eq 'when' ? "\"$row->{$_}\"" : $row->{$_} } @columns } @{ Rows::read_csv("$folder/which-$step.csv") };
}

sub model {
    my ($program) = built('build/emu/tools/cuts');
    return split /\n/, output_of($program, '--read', Rows::path('cuts'), '--choices');
}

# The fp32 values of a tensor.
sub tensor {
    my ($path) = @_;
    open my $in, '<:raw', $path or die "$path: $!\n";
    local $/;
    my $bytes = <$in>;
    $bytes =~ /^\x93NUMPY\x01.*'descr': *'<f4'/s or die "$path: expected an .npy file of little-endian fp32\n";
    return unpack 'f<*', substr $bytes, 10 + unpack 'v', substr $bytes, 8, 2;
}

sub error {
    my ($step) = @_;
    my ($reference, $program) = built('build/emu/00', "build/emu/$step");
    my ($kernels, $shapes) = @{ $errors{$step} };
    my @lines = 'kernel,shape,blocks_y,error';
    for my $shape (@$shapes) {
        output_of($reference, '--shape', $shape, qw(--pass fprop --kernel 00a --no-time --out), "$folder/reference.npy");
        my @wanted = tensor("$folder/reference.npy");
        my $all = 0;
        $all += $_**2 for @wanted;
        for my $kernel (@$kernels) {
            my @common = ('--shape', $shape, qw(--pass fprop --kernel), $kernel);
            output_of($program, @common, '--no-time', '--out', "$folder/out.npy");
            my ($slices) = output_of($program, @common, '--list') =~ /grid \d+ x (\d+)/;
            my ($difference, @got) = (0, tensor("$folder/out.npy"));
            $difference += ($got[$_] - $wanted[$_])**2 for 0 .. $#wanted;
            push @lines, join ',', $kernel, $shape, $slices, sprintf '%.6g', sqrt($difference / $all);
        }
    }
    return @lines;
}

# What the counter says of every launch: (kernel, pass, shape, launches) for each of the runs, as many blocks as are named or `all`.
sub counted {
    my ($blocks, @runs) = @_;
    my %steps = map { substr($_, 0, 2) => 1 } map { @$_[2 .. $#$_] } @runs;
    built(map { "build/count/$_" } sort keys %steps);
    delete local $ENV{EMU_SMS}; # as many as the emulator has by itself
    local @ENV{qw(EMU_COUNT_BLOCKS EMU_COUNT_JSON)} = ($blocks, "$folder/counts.json");
    my @counts;
    for my $run (@runs) {
        my ($pass, $shape, @kernels) = @$run;
        for my $kernel (@kernels) {
            unlink "$folder/counts.json";
            output_of('build/count/' . substr($kernel, 0, 2), qw(--exact --pass), $pass, '--kernel', $kernel, '--shape', $shape);
            open my $in, '<', "$folder/counts.json" or die "$folder/counts.json: $!\n";
            push @counts, [$kernel, $pass, $shape, do { local $/; decode_json(<$in>) }];
        }
    }
    return @counts;
}

sub requests {
    my @lines = 'kernel,pass,shape,products,space,kind,array,bytes,requests,lanes,sectors,wavefronts';
    for my $count (counted('all', @requests)) {
        my ($kernel, $pass, $shape, $launches) = @$count;
        my %sum;
        for my $i (map { @{ $_->{instructions} } } @$launches) {
            my $line = $sum{"$i->{space},$i->{kind},$i->{array},$i->{bytes}"} //= [0, 0, 0, 0];
            my $at = 0;
            $line->[$at++] += $i->{$_} for qw(requests lanes sectors wavefronts);
        }
        push @lines, map { join ',', $kernel, $pass, $shape, $launches->[0]{flops_of_problem} / 2, $_, @{ $sum{$_} } } sort keys %sum;
    }
    return @lines;
}

sub wavefronts {
    my @columns = qw(requests sectors wavefronts);
    my @lines = 'kernel,pass,shape,' . join ',', map { my $kind = $_; map { "${kind}_$_" } @columns } qw(load store);
    for my $count (counted(100, @wavefronts)) {
        my ($kernel, $pass, $shape, $launches) = @$count;
        my %sum;
        for my $launch (@$launches) {
            for my $i (grep { $_->{space} eq 'global' } @{ $launch->{instructions} }) {
                $sum{"$i->{kind} $_"} += $i->{$_} * $launch->{blocks} / $launch->{blocks_counted} for @columns;
            }
        }
        push @lines, join ',', $kernel, $pass, $shape, map { my $kind = $_; map { sprintf '%.0f', $sum{"$kind $_"} // 0 } @columns } qw(load store);
    }
    return @lines;
}

my %made = ('emulator/requests' => \&requests, 'emulator/wavefronts' => \&wavefronts, 'model-05' => \&model, map({ my $step = $_; ("launches-$step" => sub { launches($step) }) } keys %launches),
    map({ my $step = $_; ("which-$step" => sub { which($step) }) } @which), map({ my $step = $_; ("error-$step" => sub { error($step) }) } keys %errors));
my $check = @ARGV && $ARGV[0] eq '--check' ? shift @ARGV : 0;
my $stale = 0;
eval {
    my ($sms) = @{ Rows::matching(Rows::path('calibrate'), {name => 'device_sms'}) };
    $ENV{EMU_SMS} = $sms->{value} // die Rows::path('calibrate') . ": expected a row device_sms\n";
    for my $name (@ARGV ? @ARGV : sort keys %made) {
        my $make = $made{$name} or die "FILE: expected one of @{[sort keys %made]}, got \"$name\"\n";
        my ($text, $path) = (join('', map { "$_\n" } $make->()), Rows::path($name));
        my $old = '';
        if (open my $in, '<', $path) { local $/; $old = <$in> // '' }
        next if $text eq $old;
        if ($check) { print "$path is stale: run make emulated\n"; $stale = 1; next }
        make_path($path =~ s{/[^/]*$}{}r);
        open my $out, '>', $path or die "$path: $!\n";
        print $out $text;
        close $out or die "$path: $!\n";
        print "$path\n";
    }
    1;
} or do { print STDERR "emulated.pl: $@"; exit 2 };
exit $stale;
