# The tables profile.metrics and profile.stalls, for profile_csv.pl and profile_table.pl.
use strict;
use warnings;
use FindBin;

our @metrics; # rows {group, name, unit, ncu => [...], meaning, doubtful => {metric of ncu that not every one knows => 1}}
our %stall;   # ncu's name of a warp state => ours

sub table_lines {
    my ($name) = @_;
    open my $file, '<', "$FindBin::Bin/$name" or die "$FindBin::Bin/$name: $!\n";
    return map { chomp; $_ } grep { !/^#/ } <$file>;
}

for my $line (table_lines('profile.metrics')) {
    my ($group, $name, $unit, $ncu, $meaning) = map { s/^\s+|\s+$//gr } split /\|/, $line;
    die "profile.metrics: expected a name without a comma, got \"$name\"\n" if $name =~ /,/; # it is a field of the CSV
    my %doubtful = map { s/\?$//r => 1 } grep { /\?$/ } split ' ', $ncu;
    push @metrics, { group => $group, name => $name, unit => $unit, ncu => [map { s/\?$//r } split ' ', $ncu], meaning => $meaning // '', doubtful => \%doubtful };
}
for my $line (table_lines('profile.stalls')) {
    my ($state, $text) = split ' ', $line, 2;
    $stall{$state} = $text;
    die "profile.stalls: expected a text without a comma, got \"$text\"\n" if $text =~ /,/; # it is a field of the CSV
}

1;
