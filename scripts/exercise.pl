#!/usr/bin/env perl
# Grades one exercise: `make exercise-banks [FILE=mine.cu]` calls it with the name and the file.
#
# The reader's file is compiled three times, as the steps are (docs/emulator.md), and linked with the grader's own main program, harness and
# table row (common/exercise/). Then, each one line of the verdict:
#
#   run    the layer of the text, the nasty list, random shapes of a fresh seed, huge ones: verified against the formula
#   check  the same shapes under the checker, blocks and threads in shuffled order
#   count  what the kernel asked of memory, beside the goals of scripts/exercise_table.pl, on two layers; for some exercises also
#          divisions, multiplications   each that is executed, by the run build with a counter in front of it
#          barriers, ahead              what threads wait for, by the run build linked with common/exercise/waits.c
#
# Where there is nvcc, it has to compile what has passed.
#
# usage: exercise.pl EXERCISE [FILE.cu]     exercise.pl --list prints a table of them as Markdown, --goals every goal
#
# Environment: what common/exercise.mk sets; SEED=n draws the same random shapes again; LIMIT=n seconds for one program; ONLY=run, check or
# count grades by that build alone.
# Exit status: 0 passed, 1 not yet, 2 bad input.
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use POSIX ();

require "$FindBin::Bin/exercise_$_.pl" for qw(table build count features);
our (%exercises, @large, @huge);
$| = 1;

sub refuse { print STDERR "@_\n"; exit 2 }

# The file of an exercise as the repository gives it: four_filters.cu of four-filters.
sub given_file { my ($name) = @_; my ($file) = glob '[0-9][0-9]_*/exercises/' . $name =~ tr/-/_/r . '.cu'; return $file }

sub goal_text { my ($goal) = @_; return sprintf '%s %s', $goal->[1] eq '>=' ? 'at least' : 'at most', $goal->[2] }

# Exercises by step, and by difficulty.
sub in_order {
    my %key = map { $_ => (given_file($_) // '') =~ s{/.*}{}r . " $exercises{$_}{stars} " . sprintf '%03d %s', $exercises{$_}{minutes}, $_ } keys %exercises;
    return sort { $key{$a} cmp $key{$b} } keys %exercises;
}

our ($name, $file) = @ARGV;
$name = '' unless defined $name;
if ($name eq '--list') {
    print "| step | exercise | | minutes | practises |\n|---|---|---|--:|---|\n";
    my $before = '';
    for my $e (in_order()) {
        my ($step) = given_file($e) =~ /^(\d\d)/;
        printf "| %s | [%s](#%s) | %s | %d | %s |\n", $step eq $before ? '' : $step, $e, $e, '★' x $exercises{$e}{stars}, $exercises{$e}{minutes}, $exercises{$e}{about};
        $before = $step;
    }
    exit 0;
}
if ($name eq '--goals') {
    for my $e (in_order()) {
        print "$e (" . given_file($e) . ")\n";
        printf "  %s: %s%s\n", $_->[0], goal_text($_), $_->[3] ? ' (on ' . shape($_->[3]) . ')' : '' for @{ $exercises{$e}{goals} };
        print "  every prediction exact\n" if $exercises{$e}{predict};
    }
    exit 0;
}
my ($renamed) = grep { $exercises{$_}{was} && $exercises{$_}{was} eq $name } keys %exercises; # exercises had a step's number and a letter
$name = $renamed if defined $renamed;
our $row = $exercises{$name} or refuse("exercise: expected one of @{[in_order()]}, got \"$name\"");
if (!defined $file || $file eq '') {
    $file = given_file($name);
    refuse("exercise $name: expected its file in the exercises/ of a step, found none") unless defined $file;
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
our ($seed, $limit) = @number{qw(SEED LIMIT)};
my $only = $ENV{ONLY} // '';
refuse("ONLY: expected run, check or count, got \"$only\"") unless $only =~ /^(run|check|count|)$/;
delete @ENV{grep { /^EMU_/ && $_ ne 'EMU_THREADS' } keys %ENV};
$ENV{OMP_WAIT_POLICY} = 'passive'; # two programs at once on few cores: no spinning

our $folder = tempdir(CLEANUP => 1); # before the seed: a name that is taken is drawn again, and the layers would be others
srand $seed;
rand for 1 .. 10; # as pages show layers that were drawn behind the ten letters of a name
$SIG{INT} = $SIG{TERM} = sub { exit 130 };
my ($checks, $failed) = (0, 0);
our @warnings; # of the compiler, about the reader's file

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
    my %all = (run => $row->{listed} ? 3 : 4, check => 1, count => scalar @{ $row->{goals} || [] });
    my $all = $row->{predict} ? 3 : $only ? $all{$only} : $all{run} + $all{check} + $all{count};
    die "exercise $name: $checks checks, expected $all\n" unless $why || $failed || $checks == $all;
    my $part = $only && !$row->{predict} ? " (of the $only build alone)" : '';
    print "  --    the compiler: $_\n" for $failed ? splice(@warnings, 0, 3) : ();
    print "exercise $name: ", $why ? "not yet: $why" : $failed ? "not yet: $failed of $checks checks failed" : "passed: $checks checks", "$part\n";
    exit($why || $failed ? 1 : 0);
}

# ---------------------------------------------------------------- programs

sub slurp { my ($path) = @_; open my $in, '<', $path or return ''; local $/; my $text = <$in>; return defined $text ? $text : '' }

# Runs a shell line with arguments, and with a word to read from stdin. Returns its exit status (128 + n for signal n), stdout and stderr.
our $word = '';
sub shell {
    my ($line, @arguments) = @_;
    pipe my $read, my $write or die "pipe: $!\n";
    print $write "$word\n";
    close $write;
    my $pid = fork;
    die "fork: $!\n" unless defined $pid;
    if ($pid == 0) {
        open STDIN, '<&', $read or die;
        open STDOUT, '>', "$folder/out" or die;
        open STDERR, '>', "$folder/err" or die;
        exec 'sh', '-c', "$line \"\$@\"", 'sh', @arguments or exit 127;
    }
    waitpid $pid, 0;
    return ($? & 127 ? 128 + ($? & 127) : $? >> 8, slurp("$folder/out"), slurp("$folder/err"));
}

# Runs a program against the clock; '' as the reason if it ended by itself.
sub run {
    my ($environment, @command) = @_;
    local @ENV{keys %$environment} = values %$environment;
    my ($status, $out, $err) = shell("exec timeout -k 1 $limit", @command);
    my $reason = $status == 124 || $status == 137 ? "did not end within $limit s: an endless loop, or far too much work (LIMIT=n gives it n seconds)" : '';
    return ($status, $out, $err, $reason);
}

# What the checker reported, or the first thing that the emulator and the grader's main program said.
sub complaint {
    my ($err) = @_;
    my @defects = $err =~ /^emulator check: (.*)/mg;
    return splice(@defects, 0, 4), $err =~ /^emulator:   (\d+ of \d+ threads had ended .*)/mg if @defects;
    my @waits = $err =~ /^emulator: deadlock/m ? $err =~ /^emulator:   (.* waits? .*)/mg : (); # who waits for what
    return (map { $err =~ /^$_: (.*)/m ? $1 : () } qw(emulator exercise)), splice @waits, 0, 3;
}

# The first wrong shape in the harness's report, and its first wrong element.
sub first_wrong {
    my ($out) = @_;
    my ($shape, $element, $wrong) = ('', '', '');
    for (split /\n/, $out) {
        ($shape, $element) = ($1, '') if /^(\S.*?)  (?:fprop|dgrad|wgrad)\S* fp(?:16|32)/;
        $element ||= $1 if /^    wrong (at .*)/;
        return ("first on $shape: $1", $element) if /^  WRONG \S+: (.*)/;
    }
    return ();
}

# Every shape of a report, and whether its result is wrong.
sub outcomes {
    my ($out) = @_;
    my ($shape, @of) = '';
    for (split /\n/, $out) {
        $shape = $1 if /^(\S.*?)  (?:fprop|dgrad|wgrad)\S* fp(?:16|32)/;
        push @of, [$shape, $1 ? 0 : 1] if /^  (?:\S+ +(right): |WRONG )/;
    }
    return @of;
}

sub random_bytes { open my $in, '<:raw', '/dev/urandom' or die "/dev/urandom: $!\n"; read $in, my $bytes, 8; return $bytes }

# One run of the harness: all of $want shapes right, or the reason why not. Ends the grading if the clock stopped it. The main program, which alone knows the
# word, says it again when the harness has returned: $ended is what it returned.
my (@all_outcomes, $stopped, $ended); # $stopped: some shapes were not run
sub verify {
    my ($program, $environment, $want, @arguments) = @_;
    local $word = unpack 'H*', random_bytes();
    my ($status, $out, $err, $late) = run($environment, $program, $name, @{ $row->{options} || [] }, @arguments);
    ($ended) = $out =~ /^\Q$word\E (\d+)$/m;
    my ($parts) = map { $arguments[ $_ + 1 ] } grep { $arguments[$_] eq '--fuse' } 0 .. $#arguments;
    $parts //= ($row->{options} || [])->[1] // '';
    my @of = outcomes($out);
    push @all_outcomes, map { ["$_->[0] $parts", $_->[1]] } @of;
    finish($late) if $late && !check(0, 'ends in time', $late);
    my ($right) = $out =~ /^(\d+) right, 0 wrong, 0 skipped$/m;
    return () if $status == 0 && defined $ended && $ended == 0 && defined $right && $right == $want && $err eq '';
    my ($wrong) = $out =~ /right, (\d+) wrong/;
    my @complaint = complaint($err);
    my @first = first_wrong($out);
    my ($at) = @complaint && $complaint[0] =~ /, launched at \S+$/ && $status > 128 ? reverse($out =~ /^(\S+)  (?:fprop|dgrad|wgrad)\S* fp(?:16|32)/mg) : map { /^first on (\S+): / } @first; # where a kernel ends the program: the last
    $complaint[0] .= " (on $at)" if @complaint && defined $at;
    my @reason = grep { $_ ne '' } @complaint, @first;
    $stopped ||= @of < $want;
    unshift @reason, @of < $want ? 'stopped there: ' . ($want - @of) . " of $want shapes were not run" : $wrong == 1 ? "one of $want shapes is wrong" : "$wrong of $want shapes are wrong"
        if $wrong && $want > 1;
    push @reason, map { "printed: $_" } grep { defined } (grep { !/^\s|^$|^\Q$word\E |^\d+ right, |^step |^machine: |  (?:fprop|dgrad|wgrad)\S* fp(?:16|32)/ } split /\n/, $out)[0 .. 3];
    return @reason if @reason;
    return "the program ended (exit status $status) before its result was verified";
}

# ---------------------------------------------------------------- run, check

# A file of shapes. Returns how many, and the options of the harness that run them.
sub suite {
    my ($called, @shapes) = @_;
    open my $out, '>', "$folder/$called" or die;
    print $out "$_\n" for @shapes;
    return (scalar @shapes, '--suite', "$folder/$called");
}

# What random shapes are finished with, where results are: every part with and without each other.
my @parts = map { my $n = $_; join ',', (map { $n >> $_ & 1 ? (qw(scale bias residual))[$_] : () } 0 .. 2), 'relu' } 0 .. 7;
sub listed_shapes { return suite('listed', $row->{listed} ? @{ $row->{listed} } : (grep({ /^[a-z]/ } split /\n/, slurp('common/suites/nasty')), @large), @{ $row->{extra} || [] }) }
sub random_shapes { my ($count, $from) = @_; return $row->{random} ? suite("random$from", map { $row->{random}->() } 1 .. $count) : ($count, '--random', $count, '--seed', $from) }
sub finished {
    my (@run) = @_;
    return [@run] unless $row->{options} && $run[1] eq '--random';
    my @share = map { int(($run[0] + $_) / @parts) } 0 .. $#parts; # all of them together: as many as asked for
    return map { [$share[$_], '--random', $share[$_], '--seed', $run[4] + $_, '--fuse', $parts[$_]] } 0 .. $#parts;
}

# Reasons, with the parts that a run had.
sub named_parts {
    my ($run, $first, @others) = @_;
    return defined $first ? ($run->[-2] eq '--fuse' ? "with $run->[-1]: $first" : $first, @others) : ();
}

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
        my @reason;
        for my $part (finished(@arguments)) { # all of them, so that what fails is known
            my @of = named_parts($part, verify($program, {EMU_SEED => $seed}, @$part, '--no-time'));
            @reason = @of unless @reason;
        }
        check(!@reason, "right $text", @reason);
    }
    if (!$failed && !$row->{listed}) {
        my @shapes = @{ $row->{huge} || \@huge };
        my @reason = verify($program, {EMU_SEED => $seed}, suite('huge', @shapes), '--no-time');
        check(!@reason, 'right on huge shapes: ' . join(' ', @shapes), @reason);
    }
    my $shared = $stopped ? '' : what_fails(@all_outcomes);
    print "  --    $shared\n" if $shared;
}

# Under the checker a wrong result is news only if it was right before.
sub grade_memory {
    my ($program) = @_;
    my (@reason, $unfinished, $stopped_at);
    my @shuffled = map { [{EMU_SEED => $seed + 1}, @$_] } map { finished(@$_) } [listed_shapes()], [random_shapes(30, $seed + 1)], [1, '--shape', shape($row->{layer})];
    for my $run (@shuffled, $row->{engines} ? [{}, listed_shapes()] : ()) {
        my ($environment, @arguments) = @$run;
        @reason = verify($program, $environment, @arguments, '--exact');
        $unfinished ||= $reason[0] if !defined $ended;
        ($stopped_at) = grep { !/^(?:stopped there|first on|at |(?:one|\d+) of \d+ shapes|printed: )/ } @reason if !$stopped_at;
        @reason = grep { /^(out-of-bounds|uninitialised|race|block-race|misaligned|host-pointer|proxy): |divergent|deadlock|illegal|overflow|is under way| waits? (?:in|for) |had ended/ } @reason if $failed;
        @reason = named_parts($run, @reason);
        last if @reason;
    }
    return print "  --    the checker could not finish: $unfinished\n" if $failed && !@reason && $unfinished;
    return print "  --    the checker stopped where the run did: $stopped_at\n" if $failed && !@reason && $stopped_at;
    check(!@reason, 'no race, nothing out of bounds or uninitialised, in shuffled orders (the checker)', @reason);
}

# ----------------------------------------------------------------

print "exercise $name: $file\n";
if ($row->{predict}) {
    grade_predictions(build('run', "$ENV{B}/common/exercise/predict.c.o"));
    ask_nvcc() if !$failed;
    finish();
}
my $main = "$ENV{B}/common/exercise/@{[$row->{program} || 'main']}.c.o";
grade_results(build('run', $main)) if $only =~ /^(run|)$/;
grade_memory(build('check', $main)) if $only =~ /^(check|)$/;
if ($failed) { print "  --    counts: once it is right\n" if !$only }
elsif ($only =~ /^(count|)$/) { grade_counts(build('count', $main), $main) }
ask_nvcc() if !$failed && !$only;
finish();
