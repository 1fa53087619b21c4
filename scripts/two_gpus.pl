#!/usr/bin/env perl
# Two GPUs beside each other: of every layer that both have been timed on by the same code (the same hash of a kernel's sources) the kernel that is fastest on the first.
# usage: scripts/two_gpus.pl GPU OTHER >docs/results/GPU/gpus.csv          folders of docs/results/
# Of several rows the last by date, and so of cuDNN's times beside the layer by whichever kernel: cudnn_us, other_cudnn_us, empty where there is none. A floor is what the harness printed beside the row: the longer of the layer's bytes and its multiply-adds on that GPU.
use strict;
use warnings;
use Text::ParseWords;

@ARGV == 2 or die "usage: scripts/two_gpus.pl GPU OTHER\n";
my @wanted = qw(gpu driver cuda shape name pass dtype kernel source status us_median floor_us date count);

sub rows_of {
    my ($gpu) = @_;
    my (%rows, %theirs);
    my @files = glob "docs/results/$gpu/*.csv" or die "two_gpus.pl: expected results in docs/results/$gpu, found none\n";
    for my $path (@files) {
        open my $in, '<', $path or die "two_gpus.pl: $path: $!\n";
        chomp(my $header = <$in> // '');
        my @names = split /,/, $header;
        my %has = map { $_ => 1 } @names;
        next if grep { !$has{$_} } @wanted;
        while (<$in>) {
            chomp;
            my %row;
            @row{@names} = quotewords(',', 0, $_);
            next if ($row{graph} // 'conv') ne 'conv'; # with an epilogue
            my $layer = join ',', @row{qw(dtype pass shape)};
            $theirs{$layer} = \%row if ($row{cudnn_best_us} // '') ne '' && (!$theirs{$layer} || $row{date} gt $theirs{$layer}{date});
            next if $row{status} ne 'right' || !$row{us_median} || !$row{source}; # a CPU's rows have no hash
            my $key = join ',', @row{qw(shape pass dtype kernel source)};
            $rows{$key} = \%row if !$rows{$key} || $row{date} gt $rows{$key}{date};
        }
    }
    return [\%rows, \%theirs];
}

my ($mine, $others) = map { rows_of($_) } @ARGV;
my ($here, $there) = ($mine->[0], $others->[0]);
my %best;
for my $key (grep { $there->{$_} } sort keys %$here) {
    my $row = $here->{$key};
    my $layer = join ',', @$row{qw(dtype pass shape)};
    $best{$layer} = $key if !$best{$layer} || $row->{us_median} < $here->{$best{$layer}}{us_median};
}
%best or die "two_gpus.pl: expected layers that both were timed on by the same code, found none\n";
print "gpu,other_gpu,driver,cuda,date,other_date,shape,name,pass,dtype,kernel,count,us,other_us,floor_us,other_floor_us,cudnn_us,other_cudnn_us\n";
for my $layer (sort keys %best) {
    my ($a, $b) = ($here->{$best{$layer}}, $there->{$best{$layer}});
    print join(',', qq("$a->{gpu}"), qq("$b->{gpu}"), @$a{qw(driver cuda date)}, $b->{date}, $a->{shape}, qq("$a->{name}"), @$a{qw(pass dtype kernel count us_median)}, $b->{us_median}, $a->{floor_us}, $b->{floor_us}, map { $_->[1]{$layer} ? $_->[1]{$layer}{cudnn_best_us} : '' } $mine, $others), "\n";
}
