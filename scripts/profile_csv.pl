#!/usr/bin/env perl
# Turns what ncu wrote (--csv --page raw --print-units base) about one kernel of ours into rows:
#   kernel,pass,shape,metric,value,unit,launch,gpu,driver,cuda,date
# usage: scripts/profile_csv.pl KERNEL PASS SHAPE GPU DRIVER CUDA DATE NCU.csv
#        scripts/profile_csv.pl --ncu-metrics [LIST]   what to ask ncu for, as one argument; LIST: what `ncu --query-metrics` prints
#        scripts/profile_csv.pl --metrics         the metrics, with what they mean
# A kernel that launches several functions has several columns: 05a.1, 05a.2 ...
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Rows;
require 'profile_tables.pl';

our (@metrics, %stall);
my $stalls = 'smsp__average_warps_issue_stalled_';

if (@ARGV && $ARGV[0] eq '--ncu-metrics') {
    my %known;
    if (defined $ARGV[1]) {
        open my $list, '<', $ARGV[1] or die "$ARGV[1]: $!\n";
        while (<$list>) { $known{$1} = 1 if /^\s*(\w+__\w+)\b/ }
    }
    my @asked = map { my $m = $_; grep { !$m->{doubtful}{$_} || $known{ s/\..*//r } } @{ $m->{ncu} } } @metrics;
    print join(',', @asked, map { "${stalls}${_}_per_issue_active.ratio" } sort keys %stall), "\n";
    exit 0;
}
if (@ARGV && $ARGV[0] eq '--metrics') {
    my $group = '';
    for my $m (@metrics) {
        print "\n$m->{group}\n" if $m->{group} ne $group;
        $group = $m->{group};
        printf "  %-24s %-8s %s\n  %-24s %-8s %s\n", $m->{name}, $m->{unit}, $m->{meaning}, '', '', join ' + ', @{ $m->{ncu} };
    }
    print "\nwhere a warp's time goes: shares of the cycles of all resident warps (${stalls}*_per_issue_active)\n";
    printf "  %-52s %s\n", $stall{$_}, $_ for sort keys %stall;
    exit 0;
}
die "usage: scripts/profile_csv.pl KERNEL PASS SHAPE GPU DRIVER CUDA DATE NCU.csv\n" unless @ARGV == 8;
my ($kernel, $pass, $shape, $gpu, $driver, $cuda, $date, $path) = @ARGV;

# The launches: {metric of ncu => value}, without those of the harness.
my (@column, @launches);
open my $file, '<', $path or die "$path: $!\n";
while (my $line = <$file>) {
    next unless $line =~ /^"/;
    chomp $line;
    my @field = Rows::fields($line);
    if (!@column) {
        @column = @field;
    } elsif ($field[0] ne '') { # the line of units has no ID
        my %launch;
        @launch{@column} = @field;
        push @launches, \%launch unless $launch{'Kernel Name'} =~ /\breference_kernel\b/;
    }
}
die "$path: expected ncu's CSV with launches of $kernel, found none\n" unless @launches;

my %scale = (us => 1e-3, million => 1e-6, MB => 1e-6, KB => 1e-3);
my $number = qr/^-?[\d.,]+(?:e[-+]?\d+)?$/i;
sub value { my ($text) = @_; return undef unless defined $text && $text =~ $number; $text =~ tr/,//d; return $text }

for my $i (0 .. $#launches) {
    my $launch = $launches[$i];
    my $name = @launches > 1 ? "$kernel." . ($i + 1) : $kernel;
    (my $function = $launch->{'Kernel Name'}) =~ s/^void |\((?:int|unsigned int|bool|long|float)\)//g;
    $function =~ s/\(.*\)$//;
    my $row = sub {
        my ($metric, $value, $unit) = @_;
        print join(',', $name, $pass, $shape, $metric, sprintf('%.6g', $value), $unit, qq("$function"), qq("$gpu"), $driver, $cuda, $date), "\n";
    };
    for my $m (@metrics) {
        my @values = grep { defined } map { value($launch->{$_}) } @{ $m->{ncu} };
        next unless @values; # this GPU has no such counter
        my $sum = 0;
        $sum += $_ for @values;
        $row->($m->{name}, $sum * ($scale{ $m->{unit} } // 1), $m->{unit});
    }
    my %warps;
    for my $column (keys %$launch) {
        my ($state) = $column =~ /^$stalls(\w+)_per_issue_active\.ratio$/ or next;
        $warps{$state} = value($launch->{$column}) // 0;
    }
    my $all = 0;
    $all += $_ for values %warps;
    for my $state (sort { $warps{$b} <=> $warps{$a} || $a cmp $b } keys %warps) {
        $row->('warp: ' . ($stall{$state} // $state), 100 * $warps{$state} / $all, '%') if $all > 0;
    }
}
