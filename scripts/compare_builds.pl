#!/usr/bin/env perl
# Is a build slower than an older one? The two programs alternate, old, new, new, old, on one GPU; a row's time is the lesser of its two medians.
#
# usage: scripts/compare_builds.pl OLD NEW [--rename 04i=06p ...] [--csv FILE] RUN ...
#   OLD, NEW   folders with programs named by step
#   RUN        "STEP ARGUMENTS", or "OLD_STEP>NEW_STEP ARGUMENTS" where kernels have moved; run with --no-cudnn
# Prints a line for each run: rows in both, geometric mean of new over old, the worst, and how many are more than 2 % slower; --csv: every row. Exit status: 0 all right, 1 a program
# failed, 2 bad input.
use strict;
use warnings;
use File::Temp qw(tempdir);

my ($old, $new) = (shift, shift);
die "usage: compare_builds.pl OLD NEW [--rename a=b] [--csv FILE] RUN ...\n" unless defined $new;
my (%renamed, $csv);
while (@ARGV && $ARGV[0] =~ /^--/) {
    my $option = shift;
    if ($option eq '--rename' && @ARGV) { my ($from, $to) = split /=/, shift; $renamed{$from} = $to }
    elsif ($option eq '--csv' && @ARGV) { $csv = shift }
    else { print STDERR "compare_builds.pl: expected --rename A=B or --csv FILE, got \"$option\"\n"; exit 2 }
}
my $folder = tempdir(CLEANUP => 1);
my ($failed, @all) = (0);

sub fields { my ($line) = @_; return map { s/^"(.*)"$/$1/r } "$line," =~ /((?:"(?:[^"]|"")*"|[^",])*),/g }

sub quoted { return join ' ', map { "'" . s/'/'\\''/gr . "'" } @_ } # for a shell

# Runs a program; shape, pass, kernel => microseconds of the rows that are right. The old program's kernels get their new names.
sub times_of {
    my ($is_old, $program, @arguments) = @_;
    my $path = "$folder/rows.csv";
    unlink $path;
    system(quoted($program, '--no-cudnn', '--csv', $path, @arguments) . " >'$folder/log' 2>&1") == 0 or do { print "FAILED: $program @arguments: " . `tail -n 2 '$folder/log'`; $failed = 1; return };
    open my $in, '<', $path or return;
    my ($header, @lines) = <$in>;
    chomp($header, @lines);
    my @names = fields($header);
    my %time;
    for (@lines) {
        my %row;
        @row{@names} = fields($_);
        next unless $row{status} eq 'right' && $row{us_median};
        $time{"$row{shape},$row{pass},$row{dtype}," . ($is_old && $renamed{ $row{kernel} } || $row{kernel})} = $row{us_median};
    }
    return %time;
}

for my $run (@ARGV) {
    my ($steps, @arguments) = split ' ', $run;
    my ($old_step, $new_step) = $steps =~ /^(\w+)>(\w+)$/ ? ($1, $2) : ($steps, $steps);
    my @new_arguments = @arguments;
    for my $i (1 .. $#arguments) { $new_arguments[$i] = join ',', map { $renamed{$_} // $_ } split /,/, $arguments[$i] if $arguments[$i - 1] eq '--kernel' }
    my %least;
    for my $who (qw(old new new old)) {
        my %time = $who eq 'old' ? times_of(1, "$old/$old_step", @arguments) : times_of(0, "$new/$new_step", @new_arguments);
        for (keys %time) { $least{$who}{$_} = $time{$_} unless defined $least{$who}{$_} && $least{$who}{$_} < $time{$_} }
    }
    my ($sum, $count, $slower, $worst, $where) = (0, 0, 0, 0, '');
    for (sort keys %{ $least{new} }) {
        my $before = $least{old}{$_} or next;
        my $ratio = $least{new}{$_} / $before;
        push @all, sprintf "%s,%.3f,%.3f,%.4f", $_, $before, $least{new}{$_}, $ratio;
        $sum += log $ratio, $count++;
        $slower++ if $ratio > 1.02;
        ($worst, $where) = ($ratio, $_) if $ratio > $worst;
    }
    printf "%s: %d rows, new over old %.4f in the mean, worst %.3f (%s), %d more than 2 %% slower\n", $run, $count, $count ? exp($sum / $count) : 0, $worst, $where, $slower;
}
if (defined $csv) {
    open my $out, '>', $csv or die "$csv: $!\n";
    print $out "shape,pass,dtype,kernel,us_old,us_new,ratio\n", map { "$_\n" } @all;
}
exit $failed;
