#!/usr/bin/env perl
# Runs TAP programs with prove's own harness, one more at a time than there are cores (TEST_JOBS: another number), and closes with "N passed, N failed". Exit
# status 1 if a check failed or a program broke.
use strict;
use warnings;
use TAP::Harness;

$| = 1;
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL GPU)}; # a make that a test starts is not a part of this one
$ENV{OMP_WAIT_POLICY} //= 'passive'; # several programs on few cores: whose threads have nothing to do, leaves the core to the others
chomp(my $cores = `nproc 2>/dev/null` || 1);
$ENV{OMP_NUM_THREADS} //= $cores < 8 ? 2 : int($cores / 4); # so many programs of as many threads as cores would wait for one another
# What measures time runs by itself; what calls make, one after the other, for two of them must not build the same file. The longest first: shuffled blocks run on
# one thread, and at the end nobody would be there for the other cores. (A lone file would come before any list, so that the others are lists, too.)
my @by_make = map { "tests/$_.sh" } qw(exercises calibrate check_planted cublas cuts docs docs_names emu_aarch64 explain_boxes make numbers plots profile sanitize separable);
my $harness = TAP::Harness->new({
    timer     => 1,
    jobs      => $ENV{TEST_JOBS} || $cores + 1, # most use all cores most of the time, some one
    rules     => { seq => ['**/timing', { par => [{ seq => \@by_make }, (map { { seq => ["tests/$_.sh"] } } qw(check_steps steps)), { par => ['**'] }] }] },
    verbosity => 0,
    merge     => 0,
    failures  => 1,
    exec      => sub {
        my (undef, $file) = @_;
        return $file =~ /\.sh$/ ? ['bash', $file] : [$file =~ m{/} ? $file : "./$file"];
    },
});
my $result = $harness->runtests(@ARGV);
my $failed = $result->failed;
# A program that died, or ran fewer checks than it had planned, failed even if every check it reached passed.
for my $file (@ARGV) {
    my ($parser) = $result->parsers($file);
    next if $parser->failed;
    my $broken = $parser->exit != 0 || $parser->parse_errors || !$parser->tests_run;
    $failed++ if $broken;
    print "broken: $file (exit status " . ($parser->exit >> 8) . ")\n" if $broken;
}
printf "%d passed, %d failed\n", scalar $result->passed, $failed;
exit($failed ? 1 : 0);
