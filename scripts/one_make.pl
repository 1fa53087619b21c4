#!/usr/bin/env perl
# One make at a time builds in a checkout: two would write the same files. The Makefile asks when it is read.
# usage: scripts/one_make.pl PID     PID: of the make that asks
# Waits, with a line, until no other make is at work here, and prints "ready". The make at work is named in build/.lock, by its process and when that began, so that
# one that was killed is in nobody's way. Makes that it starts, or that a test of it starts, are its descendants and do not wait.
use strict;
use warnings;
use Fcntl qw(:flock O_CREAT O_RDWR);

# A process: "PID START", the latter in clock ticks since the machine was, and its parent. Nothing if it has ended, though nobody may have asked yet how.
sub process {
    my ($pid) = @_;
    open my $in, '<', "/proc/$pid/stat" or return '';
    my @field = split ' ', (<$in> // '') =~ s/^.*\) //sr; # its name, in parentheses, may hold anything
    return @field < 20 || $field[0] =~ /[ZX]/ ? '' : ("$pid $field[19]", $field[1]);
}

my ($me, $parent) = process($ARGV[0] // 0);
my %own = ($me => 1);
while (my ($ancestor, $above) = process($parent // 0)) {
    last if $ancestor eq '';
    ($own{$ancestor}, $parent) = (1, $above);
}

my ($lock, $told) = 'build/.lock';
while ($me ne '') { # where processes cannot be seen, nobody waits
    mkdir 'build';
    sysopen my $file, $lock, O_CREAT | O_RDWR or exit 2;
    flock $file, LOCK_EX;
    next if (stat $file)[1] != ((stat $lock)[1] // 0); # make clean has taken it away
    my $other = <$file> // '';
    my ($pid) = $other =~ /^(\d+) \d+$/;
    last if $own{$other};
    if (!$pid || (process($pid))[0] ne $other) {
        seek $file, 0, 0;
        truncate $file, 0;
        print $file $me;
        last;
    }
    close $file;
    print STDERR "make: waiting for process $pid, another make at work in this folder\n" unless $told++;
    select undef, undef, undef, 0.1 while (process($pid))[0] eq $other;
}
print "ready\n";
