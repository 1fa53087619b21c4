#!/usr/bin/env perl
# Puts the output of commands into the docs, so that no number in them is typed:
#
#   <!-- output of: COMMAND -->
#   ...replaced...
#   <!-- end of output -->
#
# A command that prints a Markdown table (its first line begins with |) goes in as it is, anything else as a code block.
# usage: scripts/fill_docs.pl [--check] FILE.md ...     --check: changes nothing, exit status 1 if a file is stale
use strict;
use warnings;

my $check = @ARGV && $ARGV[0] eq '--check' ? shift @ARGV : 0;
my $stale = 0;
for my $path (@ARGV) {
    open my $in, '<', $path or die "$path: $!\n";
    my $text = do { local $/; <$in> };
    my $filled = $text;
    $filled =~ s{(<!-- output of: (.+?) -->\n).*?(<!-- end of output -->)}{
        my ($begin, $command, $end) = ($1, $2, $3);
        my $output = qx{bash -o pipefail -c '$command'};
        die "$path: failed: $command\n" if $? || $output eq '';
        $output =~ s/\n*$/\n/;
        $begin . ($output =~ /^\|/ ? "\n$output\n" : "\n```text\n$output```\n\n") . $end;
    }gse;
    next if $filled eq $text;
    if ($check) {
        print "$path is stale: run make docs\n";
        $stale = 1;
    } else {
        open my $out, '>', $path or die "$path: $!\n";
        print $out $filled;
        print "$path: filled\n";
    }
}
exit $stale;
