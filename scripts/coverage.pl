#!/usr/bin/env perl
# make coverage: runs the tests of the steps with steps that count (common/emu/coverage.mk), and says which of their lines and branches were never reached,
# and which instances of templates (rows of tile tables) never ran. tests/unreached names those that cannot be: any other is an error.
#
#   scripts/coverage.pl FOLDER [--csv FILE] [--keep]
#
# --csv: puts the figures into FILE. --keep: counts of the run before, no new one.
# Of a template a line counts as reached if it was in any instance, and so does a branch, among the instances in which its line has as many branches:
# `if (ROWS && i < n)` has none where ROWS is false.
use strict;
use warnings;
use File::Find;
use JSON::PP;

my $folder = shift // die "coverage.pl: expected the folder of the steps that count\n";
my ($csv, $keep);
while (defined(my $option = shift)) {
    if ($option eq '--csv' && @ARGV) { $csv = shift }
    elsif ($option eq '--keep') { $keep = 1 }
    else { print STDERR "coverage.pl: expected --csv FILE or --keep, got \"$option\"\n"; exit 2 }
}

my (@objects, @counts);
find({ no_chdir => 1, wanted => sub { push @objects, $_ if /\.o$/; push @counts, $_ if /\.gcda$/ } }, $folder);
unless ($keep) {
    unlink @counts;
    local @ENV{qw(B CHECK)} = ($folder, $folder);
    system($^X, 'tests/run.pl', map { "tests/$_.sh" } qw(limits cuts steps check_steps)) == 0 or die "coverage.pl: the tests fail\n";
}

# $lines{file}{line}: how often. $branches{file}{line}{number of branches}: how often each. $instances{file}{name}: how often.
my (%lines, %branches, %instances);
for my $object (sort @objects) {
    my $text = `gcov --branch-probabilities --json-format --stdout --object-file '$object' 2>/dev/null '$object'`;
    die "coverage.pl: gcov says nothing about $object\n" unless $text;
    for my $file (@{ decode_json($text)->{files} }) {
        my $name = $file->{file};
        next unless $name =~ /^(?!00)\d\d_/;
        my %lambdas; # lines where they begin: how many instances
        for my $function (@{ $file->{functions} }) {
            my $full = $function->{demangled_name};
            if ($full =~ /\{lambda/) { $lambdas{ $function->{start_line} }++ }
            elsif ($full =~ /([a-z_0-9]+<[^(]*>)\(/) { $instances{$name}{$1} += $function->{execution_count} }
        }
        for my $line (@{ $file->{lines} }) {
            my $number = $line->{line_number};
            $lines{$name}{$number} += $line->{count};
            my @taken = map { $_->{count} } grep { !$_->{throw} } @{ $line->{branches} } or next;
            # gcov puts the instances of a lambda one after the other.
            my ($last) = sort { $b <=> $a } grep { $_ <= $number } keys %lambdas;
            my $copies = $line->{function_name} || !$last ? 1 : $lambdas{$last};
            $copies-- while @taken % (2 * $copies) && $copies > 1;
            my $each = @taken / $copies;
            $branches{$name}{$number}{$each}[$_ % $each] += $taken[$_] for 0 .. $#taken;
        }
    }
}

# What was missed: [file, line, what, text].
my (@missed, %figures);
for my $name (sort keys %lines) {
    open my $source, '<', $name or die "coverage.pl: $name: $!\n";
    my @text = ('', <$source>);
    s/^\s+|\s+$//g, s/\s+/ /g for @text; # wherever its remark stands
    my %f = (lines => scalar keys %{ $lines{$name} }, lines_reached => 0, branches => 0, branches_taken => 0);
    for my $number (sort { $a <=> $b } keys %{ $lines{$name} }) {
        my $reached = $lines{$name}{$number} > 0;
        $f{lines_reached} += $reached;
        push @missed, [$name, $number, 'line', $text[$number]] unless $reached;
        for my $each (sort { $a <=> $b } keys %{ $branches{$name}{$number} // {} }) {
            my $taken = grep { $_ } @{ $branches{$name}{$number}{$each} };
            $f{branches} += $each, $f{branches_taken} += $taken;
            push @missed, [$name, $number, ($each - $taken) . " of $each branches", $text[$number]] if $reached && $taken < $each;
        }
    }
    push @missed, [$name, 0, 'instance', $_] for grep { !$instances{$name}{$_} } sort keys %{ $instances{$name} // {} };
    $figures{$name} = \%f;
}

# The list of what cannot be reached: file | what | text | why. "*" is any file.
my (%known, %seen);
if (open my $list, '<', 'tests/unreached') {
    while (<$list>) {
        next if /^#|^\s*$/;
        chomp;
        my ($name, $what, $text, $why) = split / +\| +/;
        die "tests/unreached:$.: expected file | what | text | why\n" unless $why;
        $known{"$name|$what|$text"} = $.;
    }
}
my $new = 0;
for my $m (@missed) {
    my ($name, $number, $what, $text) = @$m;
    $text =~ s/ +\| +/ /g;
    my ($key) = grep { $known{$_} } "$name|$what|$text", "*|$what|$text";
    $seen{$key} = 1 if $key;
    $new++ unless $key;
    printf "%s %s%s: %s: %s\n", $key ? 'known ' : 'MISSED', $name, $number ? ":$number" : '', $what, $m->[3];
}
my @stale = grep { !$seen{$_} } sort { $known{$a} <=> $known{$b} } keys %known;
print "tests/unreached:$known{$_}: is reached now, or no longer there: $_\n" for @stale;

my @columns = qw(lines lines_reached branches branches_taken);
printf "%-45s %6s %8s %9s %6s\n", 'file', 'lines', 'reached', 'branches', 'taken';
my %all;
for my $name (sort keys %figures) {
    printf "%-45s %6d %8d %9d %6d\n", $name, @{ $figures{$name} }{@columns};
    $all{$_} += $figures{$name}{$_} for @columns;
}
printf "%-45s %6d %8d %9d %6d\n", 'all', @all{@columns};

if ($csv) {
    open my $out, '>', $csv or die "coverage.pl: $csv: $!\n";
    print $out join(',', 'file', @columns), "\n";
    print $out join(',', $_, @{ $figures{$_} }{@columns}), "\n" for sort keys %figures;
}
printf "%d missed, %d of them not in tests/unreached; %d of its rows no longer hold\n", scalar @missed, $new, scalar @stale;
exit($new || @stale ? 1 : 0);
