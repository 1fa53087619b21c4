#!/usr/bin/env perl
# What a contributor's files must keep (CONTRIBUTING.md): lengths, includes without circles, nothing in common/ that knows a step, pages that can be read in
# one sitting, clang-format.
#
# usage: scripts/tidy.pl CHECK ...    lengths | kernels | circles | steps | pages | format; a line for each fault
# To be run in the root of the repository. Exit status: 0 nothing found, 1 a fault, 2 bad input.
use strict;
use warnings;

my ($most_lines, $most_kernel, $most_words) = (350, 120, 3500);
my ($least_code, $most_code) = (8, 30);
my @files = grep { -f && !-l } split /\n/, `git ls-files`;
my @code = grep { /\.(c|h|cu|cuh|S)$/ } @files;
my $faults = 0;

sub fault { print "@_\n"; $faults++ }
sub lines_of { my ($path) = @_; open my $in, '<', $path or die "$path: $!\n"; my @lines = <$in>; return @lines }

sub lengths {
    for my $path (grep { /\.(c|h|cu|cuh|S|sh|pl|pm|py|inc|mk)$/ || $_ eq 'Makefile' } @files) {
        my $count = () = lines_of($path);
        fault("$path: $count lines, at most $most_lines") if $count > $most_lines;
    }
}

# From the line with __global__ to the brace that closes the body.
sub kernels {
    for my $path (grep { /\.(cu|cuh)$/ } @code) {
        my @lines = lines_of($path);
        for (my $first = 0; $first < @lines; $first++) {
            next unless $lines[$first] =~ /__global__/ && $lines[$first] !~ m{^\s*(/?\*|//)};
            my ($depth, $opened, $last) = (0, 0, $first);
            for (; $last < @lines; $last++) {
                my $line = $lines[$last] =~ s{/\*.*?\*/|//.*}{}gr;
                $depth += ($line =~ tr/{//) - ($line =~ tr/}//);
                $opened ||= $line =~ /\{/;
                last if $opened ? $depth <= 0 : $line =~ /;\s*$/;
            }
            my $count = $last - $first + 1;
            fault("$path:@{[$first + 1]}: a kernel of $count lines, at most $most_kernel") if $opened && $count > $most_kernel;
            $first = $last;
        }
    }
}

# A module is a header with the source of its name; a .cuh is one by itself. No module may include, directly or not, one that includes it.
sub circles {
    my %includes;
    for my $path (grep { !m{^(tests|build)/} } @code) {
        my $module = $path =~ s/\.(c|cu|h)$//r;
        for (lines_of($path)) {
            next unless /^\s*#\s*include\s*"([^"]+)"/;
            my $name = $1;
            my ($folder) = $path =~ m{^(.*/)};
            my ($found) = grep { -f } $folder . $name, $name;
            next unless defined $found;
            my $other = $found =~ s/\.(c|cu|h)$//r;
            $includes{$module}{$other} = 1 if $other ne $module;
        }
    }
    my %told;
    for my $module (sort keys %includes) {
        my (%from, @queue);
        push @queue, $module;
        while (defined(my $at = shift @queue)) {
            for my $next (sort keys %{ $includes{$at} || {} }) {
                next if exists $from{$next};
                $from{$next} = $at;
                push @queue, $next;
            }
        }
        next unless exists $from{$module};
        my @path = ($from{$module}, $module);
        unshift @path, $from{$path[0]} while $path[0] ne $module;
        fault('circle: ' . join(' -> ', @path)) unless grep { $told{$_} } @path;
        $told{$_} = 1 for @path;
    }
}

# The reference is step 00's definition, on purpose: what a reader finds there is what everything is compared with.
sub steps {
    for my $path (grep { m{^common/} } @code) {
        for (lines_of($path)) { fault("$path: includes $1") if m{^\s*#\s*include\s*"(\d\d_[^"]+)"} && $1 ne '00_cpu_reference/definition.h' }
    }
}

# A page is one sitting, and the chapter of a step shows the core of a kernel, by the marker of scripts/fill_docs.pl. docs/results/ is for what is looked up.
sub pages {
    for my $path (grep { m{^(README|docs/[^/]+)\.md$} } @files) {
        my @lines = lines_of($path);
        my $text = join '', @lines;
        my $words = () = $text =~ /\S+/g;
        fault("$path: ${\ scalar @lines} lines, at most $most_lines") if @lines > $most_lines;
        fault("$path: $words words, at most $most_words") if $words > $most_words;
        next unless $path =~ m{^docs/0[1-7]_};
        my @lengths = map { scalar(() = /\n/g) } $text =~ /^<!-- code: [^\n]* -->\n\n```\w*\n(.*?)^```\n\n<!-- end of code -->$/gms;
        fault("$path: expected a block of $least_code to $most_code lines of a source (<!-- code: ... -->)") unless grep { $_ >= $least_code && $_ <= $most_code } @lengths;
    }
}

# By version 14: others break other lines.
sub format {
    my @styled = grep { !/\.S$/ } @code;
    my %lines;
    my $said = @styled ? qx(clang-format --dry-run --ferror-limit=0 @styled 2>&1) : '';
    $lines{$1}{$2} = 1 while $said =~ /^(\S+?):(\d+):\d+: warning:/mg;
    fault("$_: clang-format would change it (line " . (sort { $a <=> $b } keys %{ $lines{$_} })[0] . ')') for sort keys %lines;
}

my %checks = (lengths => \&lengths, kernels => \&kernels, circles => \&circles, steps => \&steps, pages => \&pages, format => \&format);
for my $check (@ARGV) {
    unless ($checks{$check}) { print STDERR "tidy.pl: expected lengths, kernels, circles, steps, pages or format, got \"$check\"\n"; exit 2 }
    $checks{$check}->();
}
exit($faults ? 1 : 0);
