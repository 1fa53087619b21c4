#!/usr/bin/env perl
# How far one fp32 tensor is from another: the root of the mean squared difference, over that of the second tensor's values.
# usage: scripts/npy_error.pl A.npy B.npy
use strict;
use warnings;

sub values_of {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "npy_error.pl: $path: $!\n";
    local $/;
    my $bytes = <$file>;
    die "npy_error.pl: $path: expected an .npy file of little-endian fp32\n" unless $bytes =~ /^\x93NUMPY\x01/ and $bytes =~ /'descr': *'<f4'/;
    return unpack 'f<*', substr $bytes, 10 + unpack 'v', substr $bytes, 8, 2;
}

die "usage: scripts/npy_error.pl A.npy B.npy\n" unless @ARGV == 2;
my @a = values_of($ARGV[0]);
my @b = values_of($ARGV[1]);
die "npy_error.pl: expected as many values in $ARGV[0] as in $ARGV[1]\n" unless @a == @b and @a;
my ($difference, $size) = (0, 0);
for my $i (0 .. $#a) {
    $difference += ($a[$i] - $b[$i])**2;
    $size += $b[$i]**2;
}
printf "%.2g\n", $size ? sqrt($difference / $size) : 0;
