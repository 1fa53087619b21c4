#!/usr/bin/env perl
# Prints profiles side by side: a column per kernel, a row per metric. Input: the CSV of scripts/profile_csv.pl.
# usage: scripts/profile_table.pl FILE.csv ...
# The last column says by how much the last kernel differs from the first. Names, figures and factors are as on the pages: docs/numbers/common.txt.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use List::Util qw(max);
use Tables;
require 'profile_tables.pl';

our @metrics;
die "usage: scripts/profile_table.pl FILE.csv ...\n" unless @ARGV;
Tables::load("$FindBin::Bin/../docs/numbers");

my (@kernels, %value, %unit, %launch, %problem);
for my $path (@ARGV) {
    for my $row (@{ Rows::read_csv($path) }) {
        defined $row->{metric} && defined $row->{launch} or die "$path: expected a profile (kernel,pass,shape,metric,value,unit,launch,...), got other columns\n";
        push @kernels, $row->{kernel} unless exists $launch{ $row->{kernel} };
        ($launch{ $row->{kernel} }, $value{ $row->{metric} }{ $row->{kernel} }, $unit{ $row->{metric} }) = @$row{qw(launch value unit)};
        $problem{"$row->{pass} of $row->{shape} on $row->{gpu}"} = 1;
    }
}

# What a warp's time goes to: the states that take a tenth or more of it in some kernel, the largest first.
my %most = map { $_ => max(values %{ $value{$_} }) } grep { /^warp: / } keys %unit;
my @states = sort { $most{$b} <=> $most{$a} || $a cmp $b } grep { $most{$_} >= 10 } keys %most;

my (@rows, @zero);
my $group = '';
for my $m (@metrics, map { { name => $_, group => "where a warp's time goes" } } @states) {
    my ($of, $unit) = ($value{ $m->{name} }, $unit{ $m->{name} });
    next unless $of;
    my @texts = map { defined $of->{$_} ? Formulas::evaluate('metric', $of->{$_}, $unit) : '' } @kernels;
    if (!grep { /[1-9]/ } @texts) {
        push @zero, $m->{name};
        next;
    }
    push @rows, { group => $m->{group} } if $m->{group} ne $group;
    $group = $m->{group};
    my ($first, $last) = @$of{@kernels[0, -1]};
    push @rows, { cells => [Formulas::evaluate('metric_name', $m->{name}, $unit), @texts, defined $first && defined $last ? Formulas::evaluate('factor', $first, $last, $unit) : ''] };
}
my @head = ('', @kernels, @kernels > 1 ? "$kernels[-1] / $kernels[0]" : '');

my @width = map { my $c = $_; max(map { length $_->[$c] } \@head, map { $_->{cells} // () } @rows) } 0 .. $#head;
print join('; ', sort keys %problem), "\n\n";
for my $row ({ cells => \@head }, @rows) {
    my $line = $row->{cells} ? sprintf '  %-*s', $width[0], $row->{cells}[0] : "\n$row->{group}";
    $line .= sprintf '  %*s', $width[$_], $row->{cells}[$_] for $row->{cells} ? 1 .. $#width : ();
    print $line =~ s/\s+$//r, "\n";
}
print "\n0 in every column: ", join(', ', @zero), "\n" if @zero;
print "\n";
my $wide = max(map { length } @kernels);
printf "%-*s  %s\n", $wide, $_, $launch{$_} for @kernels;
