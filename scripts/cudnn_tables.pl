#!/usr/bin/env perl
# Tables about the cuDNN column, in Markdown, from committed CSVs.
# usage: scripts/cudnn_tables.pl below FILE          plans under the floor beside direct ones: arithmetic and error
#        scripts/cudnn_tables.pl floor FILE          their floor, in us
#        scripts/cudnn_tables.pl pytorch FILE        our best plan beside PyTorch's exhaustive search: how the ratios are spread
#        scripts/cudnn_tables.pl slower FILE         those of its rows in which our plan is more than 3 % slower
#        scripts/cudnn_tables.pl repeat FILE FILE    the same plans timed in two runs
#        scripts/cudnn_tables.pl beyond FILE         searches of one problem: the fastest plan that was right and the fastest that was wrong
#        scripts/cudnn_tables.pl headline FILE       means of step 05 beside cuDNN, before and after a change of the protocol
#        scripts/cudnn_tables.pl again FILE          one plan timed several times, row by row
use strict;
use warnings;

# Rows of a CSV with a header, as hashes; a field in quotes may hold commas.
sub rows {
    my ($path) = @_;
    open my $in, '<', $path or die "$path: $!\n";
    my (@names, @rows);
    while (my $line = <$in>) {
        chomp $line;
        my @fields = map { s/^"(.*)"$/$1/r =~ s/""/"/gr } $line =~ /("(?:[^"]|"")*"|[^,]*)(?:,|$)/g;
        if (!@names) { @names = @fields; next }
        my %row;
        @row{@names} = @fields;
        push @rows, \%row;
    }
    die "$path: expected rows under a header\n" if !@rows;
    return @rows;
}

sub quantile {
    my ($q, @values) = @_;
    @values = sort { $a <=> $b } @values;
    return $values[int($q * $#values + 0.5)];
}

sub table {
    my ($head, $align, @lines) = @_;
    print '| ' . join(' | ', @$head) . " |\n|" . join('|', @$align) . "|\n";
    print '| ' . join(' | ', @$_) . " |\n" for @lines;
}

# The batch a shape has; fp32 rows stand apart.
sub group { my ($r) = @_; return $r->{dtype} eq 'fp32' ? 'fp32' : $r->{shape} =~ /^(?:g\d+)?mb(\d+)/ ? "$r->{dtype}, $1 images" : $r->{dtype} }
sub by_number { my ($x) = $a =~ /(\d+) im/; my ($y) = $b =~ /(\d+) im/; ($x // 1e9) <=> ($y // 1e9) }

my ($what, @files) = @ARGV;
if (($what // '') eq 'below' && @files == 1) {
    my @lines;
    for my $r (rows($files[0])) {
        push @lines, [$r->{pass}, "`$r->{plan}`", sprintf('%.1f', $r->{us}), sprintf('%.0f %%', 100 * $r->{floor_share}), sprintf('%.3f', $r->{ffma_per_mac}),
                      $r->{tensor_instructions} eq '' ? '' : $r->{tensor_instructions}, sprintf('%.2f', $r->{plain_bound_share})];
    }
    table(['pass', 'plan', 'us', 'of the limit', 'FFMAs per multiply-add of the formula', 'tensor-core instructions', "largest error over a plain sum's bound"], [qw(--- --- --: --: --: --: --:)], @lines);
} elsif (($what // '') eq 'floor' && @files == 1) {
    printf "%.1f\n", (rows($files[0]))[0]{floor_us};
} elsif (($what // '') eq 'pytorch' && @files == 1) {
    my %of;
    push @{ $of{ group($_) } }, $_->{ratio} for rows($files[0]);
    my @lines;
    for my $g (sort by_number keys %of) {
        my @r = @{ $of{$g} };
        push @lines, [$g, scalar @r, sprintf('%.2f', quantile(0, @r)), sprintf('%.2f', quantile(0.5, @r)), sprintf('%.3f', quantile(1, @r)), scalar grep { $_ > 1.03 } @r];
    }
    table(['rows', 'how many', 'smallest ratio', 'median', 'largest', 'over 1.03'], [qw(--- --: --: --: --: --:)], @lines);
} elsif (($what // '') eq 'slower' && @files == 1) {
    my @lines = map { ["`$_->{shape}`", "$_->{pass} $_->{dtype}", sprintf('%.1f', $_->{cudnn_us_before}), sprintf('%.1f', $_->{pytorch_us}), "`$_->{cudnn_plan}`", "`" . ($_->{pytorch_kernels} =~ s/^Memset *\| *//r =~ s/ *\|.*//r) . "`"] }
      grep { $_->{ratio} > 1.03 } rows($files[0]);
    table(['shape', 'pass', 'our plan, us', "PyTorch's, us", 'our plan', "PyTorch's kernel"], [qw(--- --- --: --: --- ---)], @lines);
} elsif (($what // '') eq 'repeat' && @files == 2) {
    my %second = map { ("$_->{shape} $_->{pass} $_->{dtype}" => $_) } rows($files[1]);
    my %of;
    for my $r (rows($files[0])) {
        my $again = $second{"$r->{shape} $r->{pass} $r->{dtype}"} or die "$files[1]: no row for $r->{shape} $r->{pass} $r->{dtype}\n";
        push @{ $of{ group($r) } }, [abs($again->{best_us} / $r->{best_us} - 1), $r->{sm_clock_mhz}];
    }
    my @lines;
    for my $g (sort by_number keys %of) {
        my @spread = map { $_->[0] } @{ $of{$g} };
        push @lines, [$g, scalar @spread, (map { sprintf('%.1f %%', 100 * quantile($_, @spread)) } 0.5, 0.9, 1), (scalar grep { $_ > 0.03 } @spread), quantile(0, map { $_->[1] } @{ $of{$g} })];
    }
    table(['rows', 'how many', 'median', '90th percentile', 'largest', 'over 3 %', 'lowest clock, MHz'], [qw(--- --: --: --: --: --: --:)], @lines);
} elsif (($what // '') eq 'beyond' && @files == 1) {
    my ($same, $any) = rows($files[0]); # the same math, then any
    my @lines = map { ["`$_->[1]`", $_->[0], sprintf('%.1f', $_->[2]), sprintf($_->[3] < 10 ? '%.2g' : '%.0f', $_->[3])] }
      ["the best that is right" . ($same->{best_notes} ne '' ? " ($same->{best_notes})" : ''), @$same{qw(best_plan best_us best_plain_share)}],
      ['not noted', @$same{qw(left_out_plan left_out_us left_out_share)}], ['TF32', @$any{qw(left_out_plan left_out_us left_out_share)}];
    table(['plan', '', 'us', "largest error over a plain sum's bound"], [qw(--- --- --: --:)], @lines);
} elsif (($what // '') eq 'headline' && @files == 1) {
    my %words = (direct => 'direct kernels', rule => 'with 05i');
    table(['pass', 'images', 'kernels', 'before', 'now'], [qw(--- --: --- --: --:)], map { [$_->{pass}, $_->{images}, $words{ $_->{kernels} }, $_->{before}, $_->{after}] } rows($files[0]));
} elsif (($what // '') eq 'again' && @files == 1) {
    my @rows = rows($files[0]);
    table(['', map { "run $_" } 1 .. @rows], ['---', map { '--:' } @rows], ['us', map { sprintf('%.1f', $_->{best_us}) } @rows], ['clock, MHz', map { $_->{sm_clock_mhz} } @rows]);
} else {
    die "usage: scripts/cudnn_tables.pl below|floor|pytorch|slower|beyond|headline|again FILE, or repeat FILE FILE\n";
}
