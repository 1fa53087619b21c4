#!/usr/bin/env perl
# Prints profiles side by side: a column per kernel, a row per metric. Input: the CSV of scripts/profile_csv.pl.
# usage: scripts/profile_table.pl [--markdown] FILE.csv ... [-- METRIC ...]     METRIC: only these rows, in this order
# The last column says by how much the last kernel differs from the first, where that is a factor of 1.5 or more.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
require 'profile_tables.pl';

our @metrics;
my $markdown = @ARGV && $ARGV[0] eq '--markdown' ? shift @ARGV : 0;
my (@files, @only);
while (@ARGV) {
    my $argument = shift @ARGV;
    if ($argument eq '--') { @only = splice @ARGV } else { push @files, $argument }
}
die "usage: scripts/profile_table.pl [--markdown] FILE.csv ... [-- METRIC ...]\n" unless @files;

my (@kernels, %value, %unit, %launch, %problem);
for my $path (@files) {
    open my $file, '<', $path or die "$path: $!\n";
    chomp(my $header = <$file> // '');
    die "$path: expected a profile (kernel,pass,shape,metric,value,unit,...), got \"$header\"\n" unless $header =~ /^kernel,pass,shape,metric,value,unit,launch,/;
    while (my $line = <$file>) {
        chomp $line;
        my ($kernel, $pass, $shape, $metric, $value, $unit, $launch, $gpu) = split_csv($line);
        push @kernels, $kernel unless exists $launch{$kernel};
        ($launch{$kernel}, $value{$kernel}{$metric}, $unit{$metric}) = ($launch, $value, $unit);
        $problem{"$pass of $shape on $gpu"} = 1;
    }
}
die "$files[0]: expected at least one kernel, found none\n" unless @kernels;
for my $metric (@only) { die "metric: expected one of scripts/profile.metrics, got \"$metric\"\n" unless exists $unit{$metric} }

sub text {
    my ($value, $unit) = @_;
    return '' unless defined $value;
    return sprintf '%d', $value if $unit eq 'count';
    return sprintf '%.2f', $value if $unit =~ /^(sectors|lanes|million)$/;
    return sprintf '%.1f', $value;
}

# "4.1x" where last / first is at least 1.5 or at most 1/1.5; not of shares so small that the factor says nothing.
sub factor {
    my ($first, $last, $unit) = @_;
    return '' unless @kernels > 1 && defined $first && defined $last && $first > 0 && $last > 0;
    return '' if $unit eq '%' && ($first < 1 || $last < 1 || $first < 5 && $last < 5);
    my $ratio = $last / $first;
    return $ratio < 1.5 && $ratio > 1 / 1.5 ? '' : sprintf '%.*fx', $ratio >= 10 ? 0 : $ratio >= 0.1 ? 1 + ($ratio < 1) : 3, $ratio;
}

# What a warp's time goes to: the states that take a tenth or more of it in some kernel, the largest first.
my (%most, @states);
for my $metric (grep { /^warp: / } keys %unit) {
    for my $kernel (@kernels) { $most{$metric} = $value{$kernel}{$metric} if ($value{$kernel}{$metric} // 0) > ($most{$metric} // 0) }
}
@states = sort { $most{$b} <=> $most{$a} || $a cmp $b } grep { $most{$_} >= 10 } keys %most;

my (@rows, @zero);
my $group = '';
for my $m (@only ? map { { name => $_, group => '' } } @only : (@metrics, map { { name => $_, group => "where a warp's time goes" } } @states)) {
    my @values = map { $value{$_}{ $m->{name} } } @kernels;
    next unless grep { defined } @values;
    if (!@only && !grep { text($_, $unit{ $m->{name} }) =~ m{[1-9]} } @values) {
        push @zero, $m->{name};
        next;
    }
    push @rows, { group => $m->{group} } if $m->{group} ne $group && !$markdown;
    $group = $m->{group};
    my $unit = $unit{ $m->{name} };
    (my $name = $m->{name}) =~ s/^warp: //;
    push @rows, { cells => [$name . ($unit =~ m{^(?:us|%|million|MB|KB)$} ? ", $unit" : ''), (map { text($_, $unit) } @values), factor($values[0], $values[-1], $unit)] };
}
my @head = ('', @kernels, @kernels > 1 ? "$kernels[-1] / $kernels[0]" : '');

if ($markdown) {
    pop @head, map { pop @{ $_->{cells} } } @rows if @kernels == 1;
    print '| ', join(' | ', @head), " |\n|---|", '--:|' x $#head, "\n";
    print '| ', join(' | ', @{ $_->{cells} }), " |\n" for @rows;
    exit 0;
}
my @width = map { my $c = $_; my $w = 0; for ($head[$c], map { $_->{cells}[$c] } grep { $_->{cells} } @rows) { $w = length if length > $w } $w } 0 .. $#head;
print join('; ', sort keys %problem), "\n\n";
for my $row ({ cells => \@head }, @rows) {
    my $line = $row->{cells} ? sprintf '  %-*s', $width[0], $row->{cells}[0] : "\n$row->{group}";
    $line .= sprintf '  %*s', $width[$_], $row->{cells}[$_] for $row->{cells} ? 1 .. $#width : ();
    print $line =~ s/\s+$//r, "\n";
}
print "\n0 in every column: ", join(', ', @zero), "\n" if @zero;
print "\n";
my $wide = 0;
for (@kernels) { $wide = length if length > $wide }
printf "%-*s  %s\n", $wide, $_, $launch{$_} for @kernels;
