#!/usr/bin/env perl
# Prints result rows as a table for each step: a line per problem and pass, a column per kernel. Input: the CSV of common/harness/report.c.
# A timed cell is the median, and where the machine's limit is known the share of it that was reached; an untimed one says whether the result was right.
# usage: scripts/table.pl FILE.csv
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use List::Util qw(max min);
use Rows;

@ARGV == 1 or die "usage: scripts/table.pl FILE.csv\n";

sub time_of { my ($us) = @_; return $us < 100 ? sprintf '%.1f us', $us : $us < 1e4 ? sprintf '%.0f us', $us : $us < 1e7 ? sprintf '%.1f ms', $us / 1e3 : sprintf '%.1f s', $us / 1e6 }
sub share_of { my ($share) = @_; return $share < 0.001 ? '<0.1%' : $share < 0.1 ? sprintf '%.1f%%', 100 * $share : sprintf '%.0f%%', 100 * $share }

my (@lines, %line, @kernels, %seen, %on_gpu, %count); # lines in the order of the file: {label, pass, cells, cudnn}
for my $row (@{ Rows::read_csv($ARGV[0]) }) {
    my %r = (us_median => '', floor_share => '', cudnn_best_us => '', dtype => 'fp32', layout => '', name => '', map { $_ => $row->{$_} // '' } keys %$row);
    my $line = $line{"$r{shape} $r{pass} $r{dtype} $r{layout}"} //= do {
        push @lines, {label => ($r{name} ne '' ? $r{name} : $r{shape}) . ($r{dtype} ne 'fp32' ? ", $r{dtype}" : ''), pass => $r{pass}};
        $lines[-1];
    };
    push @kernels, $r{kernel} unless $seen{ $r{kernel} }++;
    my $text = $r{status};
    $text = time_of($r{us_median}) . ($r{floor_share} ne '' ? ' ' . share_of($r{floor_share}) : '') if $text eq 'right' && $r{us_median} ne '';
    $line->{cells}{ $r{kernel} } = $text;
    $count{ $r{status} }++;
    next if $r{cudnn_best_us} eq ''; # the same problem may have been timed beside several steps: the fastest counts
    $line->{cudnn} = min(grep { defined } $line->{cudnn}, $r{cudnn_best_us});
    $on_gpu{ substr $r{kernel}, 0, 2 } = 1;
}

# One block for the kernels of each step: the lines that any of them was meant for.
my %width = map { my $k = $_; ($k => max(length $k, map { length($_->{cells}{$k} // '') } @lines)) } @kernels;
my %printed;
for my $step (grep { !$printed{$_}++ } map { substr $_, 0, 2 } @kernels) {
    my @of_step = grep { substr($_, 0, 2) eq $step } @kernels;
    my @meant = grep { my $line = $_; grep { ($line->{cells}{$_} // 'skipped') ne 'skipped' } @of_step } @lines or next;
    my $wide = max(5, map { length $_->{label} } @meant);
    printf "\n%-*s  pass %s%s\n", $wide, 'layer', join('', map { sprintf '  %*s', $width{$_}, $_ } @of_step), $on_gpu{$step} ? sprintf '  %8s', 'cuDNN' : '';
    for my $line (@meant) {
        printf "%-*s  %s%s%s\n", $wide, $line->{label}, $line->{pass}, join('', map { sprintf '  %*s', $width{$_}, $line->{cells}{$_} // '-' } @of_step),
            $on_gpu{$step} ? sprintf '  %8s', defined $line->{cudnn} ? time_of($line->{cudnn}) : '' : '';
    }
}
print "\nmedian time, and the share of the machine's limit for that layer; untimed: whether the result was right; -: not this kernel's pass\n";
print "cuDNN: its fastest plan for the same layer and arithmetic (fp32: in either layout, Winograd included), timed in turns with ours\n" if %on_gpu;
printf "%d results right, %d wrong, %d skipped%s\n", (map { $count{$_} // 0 } qw(right wrong skipped)), $count{unverified} ? ", $count{unverified} unverified" : '';
