#!/usr/bin/env perl
# Grades one exercise: `make exercise-01a [FILE=mine.cu]` calls it with the name and the file.
#
# The reader's file is compiled three times, as the steps are (docs/emulator.md), and linked with the grader's own main program, harness and
# table row (common/exercise/). Then, each one line of the verdict:
#
#   run    the layer of the text, the nasty list, random shapes of a fresh seed: verified against the formula
#   check  the same shapes under the checker, blocks and threads in shuffled order
#   count  what the kernel asked of memory, beside the goals of scripts/exercise_table.pl, on two layers; for some exercises also
#          divisions   every integer division that is executed, by the run build with a counter in front of each
#          ends        what the first and the last block load, beside the average block
#
# usage: exercise.pl EXERCISE [FILE.cu]     exercise.pl --goals prints the goals as a Markdown table
#
# Environment: what common/exercise.mk sets; SEED=n draws the same random shapes again; LIMIT=n seconds for one program.
# Exit status: 0 passed, 1 not yet, 2 bad input.
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use JSON::PP;
use List::Util qw(max);
use POSIX ();

require "$FindBin::Bin/exercise_table.pl";
our (%exercises, %measure);
$| = 1;

sub refuse { print STDERR "@_\n"; exit 2 }

# The file of an exercise as the repository gives it.
sub given_file { my ($name) = @_; my ($file) = glob substr($name, 0, 2) . '_*/exercises/' . substr($name, 2) . '_*.cu'; return $file }

sub goal_text { my ($goal) = @_; return sprintf '%s %s', $goal->[1] eq '>=' ? 'at least' : 'at most', $goal->[2] }

my ($name, $file) = @ARGV;
$name = '' unless defined $name;
if ($name eq '--goals') {
    print "| exercise | file | goals |\n|---|---|---|\n";
    for my $e (sort keys %exercises) {
        my @goals = map { "$_->[0]: " . goal_text($_) } @{ $exercises{$e}{goals} };
        printf "| `%s` | [`%s`](../%s) | %s |\n", $e, (given_file($e)) x 2, @goals ? join('; ', @goals) : 'every prediction exact';
    }
    exit 0;
}
my $row = $exercises{$name} or refuse("exercise: expected one of @{[sort keys %exercises]}, got \"$name\"");
if (!defined $file || $file eq '') {
    $file = given_file($name);
    refuse("exercise $name: expected its file in exercises/ of step " . substr($name, 0, 2) . ', found none') unless defined $file;
}
refuse("scripts/exercise.pl: expected to be called by make exercise-$name") unless defined $ENV{COMPILE_RUN};
refuse("FILE: expected a .cu file, got \"$file\"") unless $file =~ /\.cu$/;
refuse("FILE: $file: expected a readable file: " . (-d $file ? 'Is a directory' : $!)) if -d $file || !open my $readable, '<', $file;
my %number = (SEED => 1 + int(rand 1e6), LIMIT => 30);
for my $variable (sort keys %number) {
    my $given = $ENV{$variable};
    next unless defined $given && $given ne '';
    refuse("$variable: expected an integer from 1 to 999999999, got \"$given\"") unless $given =~ /^[1-9][0-9]{0,8}$/;
    $number{$variable} = $given;
}
my ($seed, $limit) = @number{qw(SEED LIMIT)};
srand $seed;
delete @ENV{grep { /^EMU_/ && $_ ne 'EMU_THREADS' } keys %ENV};
$ENV{OMP_WAIT_POLICY} = 'passive'; # two programs at once on few cores: no spinning

my $folder = tempdir(CLEANUP => 1);
$SIG{INT} = $SIG{TERM} = sub { exit 130 };
my ($checks, $failed) = (0, 0);

# ---------------------------------------------------------------- the verdict

sub check {
    my ($good, $text, @reason) = @_;
    $checks++;
    $failed++ unless $good;
    printf "  %-4s  %s\n", $good ? 'ok' : 'FAIL', $text;
    print "        $_\n" for grep { defined && $_ ne '' } @reason;
    return $good;
}

sub finish {
    my ($why) = @_;
    my $all = $row->{predict} ? 3 : 4 + @{ $row->{goals} };
    die "exercise $name: $checks checks, expected $all\n" unless $why || $failed || $checks == $all;
    print "exercise $name: ", $why ? "not yet: $why" : $failed ? "not yet: $failed of $checks checks failed" : "passed: $checks checks", "\n";
    exit($why || $failed ? 1 : 0);
}

# ---------------------------------------------------------------- programs

sub slurp { my ($path) = @_; open my $in, '<', $path or return ''; local $/; my $text = <$in>; return defined $text ? $text : '' }

# Runs a shell line with arguments. Returns its exit status (128 + n for signal n), stdout and stderr.
sub shell {
    my ($line, @arguments) = @_;
    my $pid = fork;
    die "fork: $!\n" unless defined $pid;
    if ($pid == 0) {
        open STDOUT, '>', "$folder/out" or die;
        open STDERR, '>', "$folder/err" or die;
        exec 'sh', '-c', "$line \"\$@\"", 'sh', @arguments or exit 127;
    }
    waitpid $pid, 0;
    return ($? & 127 ? 128 + ($? & 127) : $? >> 8, slurp("$folder/out"), slurp("$folder/err"));
}

# A counter in front of every division of an assembly, as far as the compiler has left any: by a constant it knows better ways, as nvcc does.
my %counter = (
    'x86_64'  => [qr/^\s*i?div[bwlq]\s/, "\tincq exercise_divisions(%rip)\n"], # the division spoils the flags too
    'aarch64' => [qr/^\s*[su]div\s/, join '', map { "\t$_\n" } 'stp x16, x17, [sp, #-16]!', 'adrp x16, exercise_divisions', 'ldr x17, [x16, #:lo12:exercise_divisions]',
        'add x17, x17, 1', 'str x17, [x16, #:lo12:exercise_divisions]', 'ldp x16, x17, [sp], #16'],
);
my $counter = $counter{ (POSIX::uname())[4] };

sub compile_divisions {
    my ($status, @said) = shell("$ENV{COMPILE_RUN} -O2 -S", "$folder/source.cpp", '-o', "$folder/plain.s");
    open my $out, '>', "$folder/divisions.o.s" or die;
    print $out $_ =~ $counter->[0] ? $counter->[1] : '', "$_\n" for split /\n/, slurp("$folder/plain.s");
    close $out;
    return $status ? ($status, @said) : shell("$ENV{COMPILE_RUN}", "$folder/divisions.o.s", '-o', "$folder/divisions.o");
}

# Compiles the reader's file for one of the builds. Ends the grading if it cannot be compiled.
sub build {
    my ($mode, $main) = @_;
    my ($status, $out, $err) = shell($ENV{REWRITE}, $file, "$folder/source.cpp");
    ($status, $out, $err) = $mode eq 'divisions' ? compile_divisions() : shell($ENV{"COMPILE_\U$mode"}, "$folder/source.cpp", '-o', "$folder/$mode.o") if $status == 0;
    if ($status) {
        my @lines = split /\n/, $err;
        print "  $_\n" for splice @lines, 0, 20;
        print '  ... ', scalar @lines, " more lines\n" if @lines;
        finish("$file does not compile");
    }
    ($status, $out, $err) = shell($ENV{LINK_PROGRAM}, '-o', "$folder/$mode", "$folder/$mode.o", $main, "$ENV{B}/libharness.a", qw(-lm -ldl -lpthread));
    return "$folder/$mode" if $status == 0;
    my %missing = map { $_ => 1 } $err =~ /undefined reference to [`']([^'(]+)/g;
    finish("$file: expected a definition of " . join(', ', sort keys %missing) . ', found none (the exercise\'s file shows it)') if %missing;
    print $err;
    finish("$file cannot be linked");
}

# Runs a program against the clock; '' as the reason if it ended by itself.
sub run {
    my ($environment, @command) = @_;
    local @ENV{keys %$environment} = values %$environment;
    my ($status, $out, $err) = shell("exec timeout -k 1 $limit", @command);
    my $reason = $status == 124 || $status == 137 ? "did not end within $limit s: an endless loop, or far too much work (LIMIT=n gives it n seconds)" : '';
    return ($status, $out, $err, $reason);
}

# What the checker reported, or the first thing that the grader's main program or the emulator said.
sub complaint {
    my ($err) = @_;
    my @defects = $err =~ /^emulator check: (.*)/mg;
    return splice @defects, 0, 4 if @defects;
    for my $kind ('exercise: ', 'emulator: ') { return $1 if $err =~ /^\Q$kind\E(.*)/m }
    return ();
}

# The first wrong shape in the harness's report, and its first wrong element.
sub first_wrong {
    my ($out) = @_;
    my ($shape, $element, $wrong) = ('', '', '');
    for (split /\n/, $out) {
        ($shape, $element) = ($1, '') if /^(\S.*?)  (?:fprop|dgrad|wgrad) fp(?:16|32)/;
        $element ||= $1 if /^    wrong (at .*)/;
        return ("first on $shape: $1", $element) if /^  WRONG \S+: (.*)/;
    }
    return ();
}

# One run of the harness: all of $want shapes right, or the reason why not. Ends the grading if the clock stopped it.
sub verify {
    my ($program, $environment, $want, @arguments) = @_;
    my ($status, $out, $err, $late) = run($environment, $program, $name, '--no-time', @arguments);
    finish($late) if $late && !check(0, 'ends in time', $late);
    my ($right) = $out =~ /^(\d+) right, 0 wrong, 0 skipped$/m;
    return () if $status == 0 && defined $right && $right == $want && $err eq '';
    my ($wrong) = $out =~ /right, (\d+) wrong/;
    my @complaint = complaint($err);
    my @first = first_wrong($out);
    $complaint[0] .= " (on $1)" if @complaint && @first && $first[0] =~ /^first on (\S+): /;
    my @reason = grep { $_ ne '' } @complaint, @first;
    unshift @reason, "$wrong of $want shapes are wrong" if $wrong && $want > 1;
    return @reason if @reason;
    return "the program ended (exit status $status) before its result was verified";
}

# ---------------------------------------------------------------- run, check

sub shape { my ($l) = @_; return join '', map { defined $l->{$_} ? "$_$l->{$_}" : () } qw(mb ic ih oc kh dh ph) }

# A file of shapes. Returns how many, and the options of the harness that run them.
sub suite {
    my ($called, @shapes) = @_;
    open my $out, '>', "$folder/$called" or die;
    print $out "$_\n" for @shapes;
    return (scalar @shapes, '--suite', "$folder/$called");
}

sub listed_shapes { return suite('listed', $row->{listed} ? @{ $row->{listed} } : grep({ /^[a-z]/ } split /\n/, slurp('common/suites/nasty')), @{ $row->{extra} || [] }) }
sub random_shapes { my ($count, $from) = @_; return $row->{random} ? suite("random$from", map { $row->{random}->() } 1 .. $count) : ($count, '--random', $count, '--seed', $from) }

sub grade_results {
    my ($program) = @_;
    my @listed = listed_shapes();
    my @runs = (
        ['on ' . shape($row->{layer}) . ', the layer of the text', 1, '--shape', shape($row->{layer})],
        ["on $listed[0] shapes that break careless kernels", @listed],
        ["on 60 random shapes (SEED=$seed draws them again)", random_shapes(60, $seed)],
    );
    for my $r (@runs) {
        my ($text, @arguments) = @$r;
        my @reason = verify($program, {EMU_SEED => $seed}, @arguments);
        check(!@reason, "right $text", @reason);
    }
}

# Under the checker a wrong result is news only if it was right before.
sub grade_memory {
    my ($program) = @_;
    my @reason;
    my @shuffled = map { [{EMU_SEED => $seed + 1}, @$_] } [listed_shapes()], [random_shapes(30, $seed + 1)], [1, '--shape', shape($row->{layer})];
    for my $run (@shuffled, $row->{engines} ? [{}, listed_shapes()] : ()) {
        @reason = verify($program, @$run);
        @reason = grep { /^(out-of-bounds|uninitialised|race|block-race|misaligned|host-pointer|proxy): |divergent|deadlock|illegal|overflow|is under way/ } @reason if $failed;
        last if @reason;
    }
    check(!@reason, 'no race, nothing out of bounds or uninitialised, in shuffled orders (the checker)', @reason);
}

# ---------------------------------------------------------------- count

# Runs a count build on one layer. Returns sums over all requests, and the rows of its instructions.
sub counted {
    my ($environment, $program, $layer, @arguments) = @_;
    unlink "$folder/json";
    my ($status, $out, $err, $late) = run({EMU_COUNT_BLOCKS => 'all', EMU_COUNT_JSON => "$folder/json", %$environment}, $program, @arguments, '--exact', '--shape', shape($layer));
    finish($late) if $late && !check(0, 'ends in time', $late);
    finish("the count ended with exit status $status: " . complaint($err)) if $status;
    my $json = slurp("$folder/json");
    finish("the program ended (exit status $status) before anything was counted") if $json eq '';
    my $launches = decode_json($json);
    my %sum = map { $_ => 0 } qw(threads bytes_loaded bytes_stored atomics requests lanes load_requests load_sectors store_requests store_sectors shared_requests
        shared_wavefronts shared_fewest shared_width shared_bytes copied_in_bytes tensor_products wgmmas bytes_on_their_way);
    $sum{element} = $row->{element} || 4;
    my ($most, @rows) = 0;
    for my $launch (@$launches) {
        my $threads = 1;
        $threads *= $_ for @{ $launch->{grid} }, @{ $launch->{block} };
        $sum{threads} = $threads if $threads > $sum{threads};
        $sum{$_} += $launch->{$_} for qw(bytes_loaded bytes_stored copied_in_bytes tensor_products wgmmas bytes_on_their_way);
        $sum{shared_bytes} = max($sum{shared_bytes}, $launch->{shared_bytes} + $launch->{static_shared_bytes});
        my $seen = 0; # bytes that the counted blocks loaded
        for my $i (grep { $_->{space} =~ /^(global|shared)$/ } @{ $launch->{instructions} }) {
            push @rows, $i;
            if ($i->{space} eq 'shared') {
                $sum{"shared_$_"} += $i->{$_} for qw(requests wavefronts);
                $sum{shared_width} = max($sum{shared_width}, $i->{bytes}) if $i->{kind} eq 'load';
                $sum{shared_fewest} += $i->{requests} * ($i->{bytes} > 4 ? $i->{bytes} / 4 : 1); # a wavefront moves at most 128 bytes
                next;
            }
            $sum{atomics} += $i->{requests} if $i->{kind} eq 'atomic';
            $seen += $i->{lanes} * $i->{bytes} if $i->{kind} ne 'store';
            my @kinds = $i->{kind} eq 'atomic' ? qw(load store) : $i->{kind}; # an atomic is both
            $sum{$_} += $i->{$_} for qw(requests lanes);
            for my $kind (@kinds) { $sum{"${kind}_$_"} += $i->{$_} for qw(requests sectors) }
        }
        if ($launch->{bytes_loaded} > $most) {
            $most = $launch->{bytes_loaded};
            @sum{qw(threads_of_most share)} = ($threads, $seen / $launch->{blocks_counted} / ($most / $launch->{blocks}));
        }
    }
    return (\%sum, @rows);
}

sub counted_divisions {
    my ($program, $layer) = @_;
    my ($status, $out, $err, $late) = run({EMU_THREADS => 1}, $program, $name, '--exact', '--shape', shape($layer));
    finish($late) if $late && !check(0, 'ends in time', $late);
    finish("the count of divisions ended with exit status $status: " . complaint($err)) if $status;
    return $out =~ /^(\S+) divisions a launch$/m ? $1 : 0;
}

sub grade_counts {
    my ($program) = @_;
    my @layers = ($row->{layer}, $row->{further}->());
    my %also = map { $_ => 1 } @{ $row->{also} || [] };
    my $divisions = $also{divisions} && $counter && build('divisions', "$ENV{B}/common/exercise/main.c.o");
    print "  --    divisions are not counted on this machine: expected @{[sort keys %counter]}\n" if $also{divisions} && !$counter;
    my (@sums, @rows);
    for my $layer (@layers) {
        my ($sum, @instructions) = counted({}, $program, $layer, $name);
        $sum->{ends} = (counted({EMU_COUNT_BLOCKS => 2}, $program, $layer, $name))[0]{share} if $also{ends};
        $sum->{divisions} = $divisions ? counted_divisions($divisions, $layer) : 0;
        push @sums, $sum;
        @rows = @instructions if @sums == 1;
    }
    print "  counted on @{[shape($layers[0])]}, and on @{[shape($layers[1])]}:\n";
    printf "        line %-4d %-6s %-10s %9d requests of %.1f lanes, %.2f %s each\n", @$_{qw(line kind array requests)}, $_->{lanes} / $_->{requests},
        $_->{space} eq 'shared' ? ($_->{wavefronts} / $_->{requests}, 'wavefronts') : ($_->{sectors} / $_->{requests}, 'sectors') for @rows;
    printf "        the copy engine brings %d bytes into shared memory\n", $_ for grep { $_ } $sums[0]{copied_in_bytes};
    printf "        the tensor cores: %d multiply-adds\n", $_ for grep { $_ } $sums[0]{tensor_products};
    for my $goal (@{ $row->{goals} }) {
        my ($what, $relation, $limit) = @$goal;
        my @value = map { $measure{$what}->($sums[$_], $layers[$_], $row->{pass}) } 0, 1;
        my $good = grep({ $relation eq '>=' ? $_ >= $limit * (1 - 1e-9) : $_ <= $limit * (1 + 1e-9) } @value) == 2;
        check($good, sprintf '%s: %s and %s, goal %s', $what, map({ 0 + sprintf $_ < 1000 ? '%.3g' : '%.0f', $_ } @value), goal_text($goal));
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

# ----------------------------------------------------------------

print "exercise $name: $file\n";
if ($row->{predict}) {
    grade_predictions(build('run', "$ENV{B}/common/exercise/predict.c.o"));
    finish();
}
my $main = "$ENV{B}/common/exercise/main.c.o";
grade_results(build('run', $main));
grade_memory(build('check', $main));
if ($failed) { print "  --    counts: once it is right\n" }
else { grade_counts(build('count', $main)) }
finish();
