#!/usr/bin/env perl
# Layers of a few channels whose rows are whole pieces of 64 numbers, in one pass or both: what 06o wants and --random hardly ever draws. A suite, on stdout.
# usage: tests/random_neighbours.pl SEED COUNT
use strict;
use warnings;

my ($seed, $count) = @ARGV;
defined $count or die "usage: tests/random_neighbours.pl SEED COUNT\n";
srand $seed;

sub below { return int rand $_[0] }
sub one_of { return $_[below(scalar @_)] }

while ($count > 0) {
    my ($c, $k) = map { 8 * one_of(1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 9, 16) } 1 .. 2;
    my ($stride_h, $stride_w) = map { one_of(1, 1, 1, 2, 2, 3, 4) } 1 .. 2;
    my ($r, $s) = map { one_of(1, 2, 3, 3, 3, 4, 5, 7) } 1 .. 2;
    my ($dil_h, $dil_w) = map { one_of(1, 1, 1, 2, 3) } 1 .. 2;
    my ($pad_h, $pad_w) = map { one_of(0, int($_ / 2), int($_ / 2), below($_ + 1), below(9)) } $r, $s;
    my ($n, $h, $q) = (1 + below(4), 1 + below(12), one_of(4, 5, 6, 8, 8, 8, 12, 16));
    my $w = $q * $stride_w;
    my ($more_h, $more_w) = ($h + $pad_h - ($r - 1) * $dil_h - 1, $w + $pad_w - ($s - 1) * $dil_w - 1); # without padding behind: below 0, one window
    my $p = $more_h < 0 ? 1 : int($more_h / $stride_h) + 1;
    $p += below(3);
    next if $more_w >= 0 && $q < int($more_w / $stride_w) + 1; # columns of windows without padding behind that would be left out
    next if $n * $c * $k * $p * $q * $r * $s > 3e6;
    print "mb${n}ic${c}ih${h}iw${w}oc${k}oh${p}ow${q}kh${r}kw${s}sh${stride_h}sw${stride_w}dh@{[$dil_h - 1]}dw@{[$dil_w - 1]}ph${pad_h}pw${pad_w}\n";
    $count--;
}
