#!/usr/bin/env perl
# Puts the output of commands into the docs, so that no number in them is typed. A block:
#
#   <!-- output of: COMMAND -->
#   ...replaced...
#   <!-- end of output -->
#
# A command that prints a Markdown table (its first line begins with |) goes in as it is, anything else as a code block. "the block above" as a
# COMMAND is the ```sh block just before: what the reader sees is what runs. And one value, on one line, in a sentence or a cell of a table:
#
#   the kernel takes <!-- value: scripts/result h200/bench kernel=02a ... us_median ms -->4.05<!-- /value --> ms
#
# Commands run in bash, in the repository's root, on the emulator; scripts/result is called in this process (there are hundreds), so its words
# are only split and unquoted, as a shell would.
# usage: scripts/fill_docs.pl [--check] FILE.md ...     --check: changes nothing, exit status 1 if a file is stale, 2 if a command failed
use strict;
use warnings;
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)}; # a make that a command starts is not a part of the one that started us
use FindBin;
use Text::ParseWords;
require "$FindBin::Bin/result";

$ENV{BACKEND} = 'emu';
$ENV{GNUMAKEFLAGS} = '-s --no-print-directory';
my $check = @ARGV && $ARGV[0] eq '--check' ? shift @ARGV : 0;
my ($stale, $failed, $path) = (0, 0);

sub fail {
    print STDERR "$path: @_\n";
    $failed = 1;
}

# What the command prints; undef, and a line on stderr, if it fails or prints nothing.
sub output_of {
    my ($command) = @_;
    if ($command =~ m{^scripts/result\s+([^|&;<>()\$`\\]*)$}) {
        my $value = eval { Result::value(shellwords($1)) };
        return $value if defined $value;
        chomp(my $why = $@);
        fail("$command: $why");
        return;
    }
    open my $pipe, '-|', 'bash', '-o', 'pipefail', '-c', $command or die "bash: $!\n";
    my $output = do { local $/; <$pipe> };
    close $pipe;
    fail("failed: $command") if $?;
    fail("printed nothing: $command") if !$? && $output !~ /\S/;
    return $? || $output !~ /\S/ ? undef : $output =~ s/\n*\z//r;
}

sub block {
    my ($before, $command, $old) = @_;
    if ($command eq 'the block above') {
        $before =~ /^```sh\n((?:(?!^```).)*)^```\n\s*\z/ms or fail('expected a block of ```sh just before "output of: the block above"'), return $old;
        $command = $1;
    }
    my $output = output_of($command);
    return $old unless defined $output;
    return $output =~ /^\|/ ? "\n$output\n\n" : "\n```text\n$output\n```\n\n";
}

sub value {
    my ($command, $old) = @_;
    if ($command =~ /--/) { # older Markdown: "--" ends a comment in a sentence
        fail("expected no -- in the command of a value: $command");
        return $old;
    }
    my $output = output_of($command);
    return $old unless defined $output;
    return $output unless $output =~ /\n/;
    fail("expected one line from: $command");
    return $old;
}

for (@ARGV) {
    $path = $_;
    open my $in, '<', $path or die "$path: $!\n";
    my $text = do { local $/; <$in> };
    my $filled = $text;
    my ($blocks, $values) = (0, 0);
    $filled =~ s{(^<!-- output of: (.+?) -->\n)(.*?)(^<!-- end of output -->$)}{ $blocks++; $1 . block(substr($text, 0, $-[0]), $2, $3) . $4 }gmse;
    $filled =~ s{(<!-- value: (.+?) -->)(.*?)(<!-- /value -->)}{ $values++; $1 . value($2, $3) . $4 }ge;
    fail('expected "<!-- output of: COMMAND -->" and "<!-- end of output -->" each on a line of its own')
        if $blocks != (() = $text =~ /<!-- output of:/g) || $blocks != (() = $text =~ /<!-- end of output/g);
    fail('expected "<!-- value: COMMAND -->" and "<!-- /value -->" on one line')
        if $values != (() = $text =~ /<!-- value:/g) || $values != (() = $text =~ m{<!-- /value -->}g);
    fail("expected a word before the value: a line that begins with a comment is no text to Markdown: $1") if $text =~ /^\s*(<!-- value:.{0,60})/m;
    next if $filled eq $text;
    if ($check) {
        print "$path is stale: run make docs\n";
        my @old = split /\n/, $text;
        my @new = split /\n/, $filled;
        my ($first) = grep { ($old[$_] // '') ne ($new[$_] // '') } 0 .. (@old > @new ? $#old : $#new);
        printf "  line %d: %s\n  now:     %s\n", $first + 1, $old[$first] // '', $new[$first] // '';
        $stale = 1;
    } elsif (!$failed) {
        open my $out, '>', $path or die "$path: $!\n";
        print $out $filled;
        close $out or die "$path: $!\n";
        print "$path: filled\n";
    }
}
exit($failed ? 2 : $stale);
