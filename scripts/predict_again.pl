#!/usr/bin/env perl
# Rows of `make fusion` with today's predictions: what was counted and predicted is made anew by build/emu/tools/fusion, what was measured, and when, stays.
# usage: scripts/predict_again.pl ROWS.csv >NEW.csv
use strict;
use warnings;
use File::Temp;
use FindBin;
use Text::ParseWords;

my @measured = qw(gpu driver cuda date registers resident us_apart us_fused us_cudnn);
@ARGV == 1 or die "usage: predict_again.pl ROWS.csv\n";
my $tool = "$FindBin::Bin/../build/emu/tools/fusion";
-x $tool or die "predict_again.pl: expected $tool (make BACKEND=emu build/emu/tools/fusion), found none\n";
open my $in, '<', $ARGV[0] or die "$ARGV[0]: $!\n";
chomp(my $header = <$in>);
my @names = split /,/, $header;
my $new = File::Temp->new;
print "$header\n";
while (<$in>) {
  chomp;
  my %old;
  @old{@names} = quotewords(',', 1, $_);
  (my $chain = $old{chain}) =~ tr/"//d;
  open my $run, '-|', $tool, '--no-time', '--csv', $new->filename, split ' ', $chain or die "$tool: $!\n";
  () = <$run>; # its text
  close $run or die "$ARGV[0]:$.: $chain\n";
  open my $row, '<', $new->filename or die;
  chomp(my @lines = <$row>);
  $lines[0] eq $header or die "$ARGV[0]: expected the columns of today's fusion\n";
  my %row;
  @row{@names} = quotewords(',', 1, $lines[1]);
  @row{@measured} = @old{@measured};
  print join(',', @row{@names}), "\n";
}
