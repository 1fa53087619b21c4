#!/usr/bin/env perl
# Do the quoted lines still stand in the pages? Prints one line per fault of a page of questions; exit status 1 if there is one.
#
# Such a page is made of tables "| | question | the line that answers it |" of ten rows, numbered:
#
#   | 3 | How large is the result? | ["words of the page"](../convolution.md#how-large-the-result-is) |
#
# The quoted words, 5 to 15, must stand in that section, one after the other, as a reader sees them: without comments, links and emphasis, and across
# the ends of lines. A number that scripts/fill_docs.pl put in cannot be quoted, since it may change. usage: scripts/check_questions.pl FILE.md ...
use strict;
use warnings;
use File::Basename qw(dirname);

my ($rows_of_a_table, $least_words, $most_words) = (10, 5, 15);
my $head = '| | question | the line that answers it |';
my $faults = 0;
sub fault { print "@_\n"; $faults = 1 }

# Text as it is read. \0, which no quotation has, stands for a number that was filled in.
sub rendered {
    my ($text) = @_;
    $text =~ s{<!-- value: .*? -->.*?<!-- /value -->}{\0}g;
    $text =~ s/<!--.*?-->/ /gs;
    $text =~ s/^```\w*$/ /gm;
    $text =~ s/!\[[^]]*\]\([^)]*\)/ /g;
    $text =~ s/\[([^]]*)\]\([^)]*\)/$1/g;
    $text =~ s/[`*]//g;
    $text =~ s/\s+/ /g;
    return $text;
}

# Sections of a page: anchor => rendered text, down to the next heading of the same rank or a higher one.
my %sections;
sub sections {
    my ($path) = @_;
    return $sections{$path} if $sections{$path};
    my (%text, @open, $fenced); # open: [rank, anchor], outermost first
    open my $in, '<', $path or return {};
    while (my $line = <$in>) {
        $fenced = !$fenced if $line =~ /^```/;
        if (!$fenced && $line =~ /^(#+)\s+(.*?)\s*$/) {
            my ($rank, $anchor) = (length $1, lc($2 =~ s/\[([^]]*)\]\([^)]*\)/$1/gr));
            $anchor =~ s/[^\w\- ]//g;
            $anchor =~ tr/ /-/;
            pop @open while @open && $open[-1][0] >= $rank;
            push @open, [$rank, $anchor];
        }
        $text{$_->[1]} .= $line for @open;
    }
    $_ = rendered($_) for values %text;
    return $sections{$path} = \%text;
}

sub check_row {
    my ($file, $line, $number, $text) = @_;
    my ($shown, $quoted, $path, $anchor) = $text =~ /^\| (\d+) \| [^|]*\S \| \["(.+)"\]\(([^)#\s]+)#([^)\s]+)\) \|$/
        or return fault("$file:$line: expected | $number | question | [\"quoted words\"](page#section) |");
    fault("$file:$line: question $shown, expected $number") if $shown != $number;
    my $words = rendered($quoted) =~ s/^ | $//gr;
    my $count = grep { /\w/ } split ' ', $words;
    fault("$file:$line: $count words are quoted, expected $least_words to $most_words") if $count < $least_words || $count > $most_words;
    my $section = sections(dirname($file) . "/$path")->{$anchor};
    return fault("$file:$line: $path#$anchor: no such section") unless defined $section;
    fault("$file:$line: $path#$anchor does not say \"$words\"") if index($section, $words) < 0;
}

for my $file (@ARGV) {
    open my $in, '<', $file or do { fault("$file: $!"); next };
    chomp(my @lines = <$in>);
    my $tables = 0;
    for (my $at = 0; $at < @lines; $at++) {
        next unless $lines[$at] =~ /^\|/;
        my $first = $at;
        $at++ while $at + 1 < @lines && $lines[$at + 1] =~ /^\|/;
        $tables++;
        fault("$file:" . ($first + 1) . ": expected a table of \"$head\"") if $lines[$first] ne $head;
        fault("$file:" . ($first + 1) . ': ' . ($at - $first - 1) . " questions, expected $rows_of_a_table") if $at - $first - 1 != $rows_of_a_table;
        check_row($file, $_ + 1, $_ - $first - 1, $lines[$_]) for $first + 2 .. $at;
    }
    fault("$file: no table of questions") unless $tables;
}
exit $faults;
