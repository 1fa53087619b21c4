#!/usr/bin/env perl
# Which source is a result of? A kernel's hash is over its file (02a: 02_*/a_*) and every header of this repository that it includes, directly or
# not, and of other kernels of its step that it launches. The emulator's own headers (common/emu/) do not count, so both backends have the same hash. common/harness/sources.h has it in a program.
# usage: scripts/sources.pl hash FILE ...      a line for each: the hash, the file
#        scripts/sources.pl files FILE ...     what goes into the hashes, a file a line
#        scripts/sources.pl table FOLDER       a step's kernels as a C table
#        scripts/sources.pl stale CSV ...      results whose kernel has changed since: file, kernel, rows, hash then, hash now
# To be run in the root of the repository. Exit status: 0 all right (stale results too), 2 a file that cannot be read.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);

sub fail { print STDERR "sources.pl: @_\n"; exit 2 }

sub slurp {
    my ($path) = @_;
    local $/;
    open my $in, '<:raw', $path or fail("$path: expected a readable file: $!");
    my $text = <$in>;
    fail("$path: expected a readable file: $!") unless defined $text || eof $in;
    return defined $text ? $text : '';
}

# Adds a file and what it includes to %$seen: path => content.
sub collect {
    my ($path, $seen) = @_;
    return if exists $seen->{$path} || $path =~ m{^common/emu/};
    $seen->{$path} = slurp($path);
    my ($folder) = $path =~ m{^(.*/)};
    for my $name ($seen->{$path} =~ /^[ \t]*#[ \t]*include[ \t]*"([^"]+)"/mg) {
        my ($found) = grep { -f } (defined $folder ? "$folder$name" : ()), $name;
        collect($found, $seen) if defined $found;
    }
    for my $name (map { split /,\s*/ } $seen->{$path} =~ /^extern "C" const conv_kernel ([\w, ]+);/mg) { # kernels of other files that it launches
        next if $seen->{$path} =~ /_ROW\($name,/;
        collect($_, $seen) for grep { slurp($_) =~ /_ROW\($name,/ } glob "$folder*.cu";
    }
}

sub hash_of {
    my ($path) = @_;
    my %files;
    collect($path, \%files);
    return substr sha256_hex(map({ "$_ " . length($files{$_}) . "\n$files{$_}" } sort keys %files)), 0, 12;
}

# The kernels of a step: name => file.
sub kernels {
    my ($folder) = @_;
    my ($step) = $folder =~ m{^(\d\d)_[^/]*/?$} or fail("$folder: expected a step's folder");
    return map { m{/([a-z])_[^/]*$} ? ("$step$1" => $_) : () } glob "$folder/[a-z]_*.c $folder/[a-z]_*.cu";
}

sub table {
    my ($folder) = @_;
    my %file = kernels($folder);
    my $number = substr $folder, 0, 2;
    print "/* The kernels of $folder and the hashes of their sources, by scripts/sources.pl. */\n#include \"common/harness/sources.h\"\n\nconst kernel_source sources_$number\[] = {\n";
    printf "  {\"%s\", \"%s\"},\n", $_, hash_of($file{$_}) for sort keys %file;
    print "  {0},\n};\n";
}

# The fields of a CSV line; commas inside quotes do not part any.
sub fields {
    my ($line) = @_;
    return map { s/^"(.*)"$/$1/r } "$line," =~ /((?:"(?:[^"]|"")*"|[^",])*),/g;
}

my %now; # kernel => its hash today
sub hash_now {
    my ($kernel) = @_;
    if (!exists $now{$kernel}) {
        my ($folder) = $kernel =~ /^(\d\d)[a-z]$/ ? glob "$1_*" : ();
        my %file = defined $folder ? kernels($folder) : ();
        $now{$kernel} = $file{$kernel} ? hash_of($file{$kernel}) : 'gone';
    }
    return $now{$kernel};
}

sub stale {
    my ($present, $old, $before, $files, %rows) = (0, 0, 0, 0);
    for my $path (@_) {
        my ($header, @lines) = split /\r?\n/, slurp($path);
        my @names = defined $header ? fields($header) : ();
        my %at = map { $names[$_] => $_ } 0 .. $#names;
        next unless exists $at{kernel} && (exists $at{source} || exists $at{status} && exists $at{exact}); # rows of the programs, if older ones without hashes of common/harness/report.c
        $files++;
        for (@lines) {
            my @f = fields($_);
            next if @f < @names || $f[$at{kernel}] eq '' || exists $at{status} && $f[$at{status}] eq 'skipped';
            my ($kernel, $then) = ($f[$at{kernel}], exists $at{source} ? $f[$at{source}] : '');
            if ($then eq '') { $before++ }
            elsif ($then eq hash_now($kernel)) { $present++ }
            else { $old++, $rows{$path}{$kernel}{$then}++ }
        }
    }
    for my $path (sort keys %rows) {
        for my $kernel (sort keys %{ $rows{$path} }) {
            printf "%s  %s  %d row%s  then %s, now %s\n", $path, $kernel, $rows{$path}{$kernel}{$_}, $rows{$path}{$kernel}{$_} == 1 ? '' : 's', $_, hash_now($kernel)
                for sort keys %{ $rows{$path}{$kernel} };
        }
    }
    print "$files files: $present rows of the present sources, $old stale, $before from before hashes were kept\n";
}

my $command = shift // '';
if ($command eq 'hash') { print hash_of($_), " $_\n" for @ARGV }
elsif ($command eq 'files') { my %files; collect($_, \%files) for @ARGV; print "$_\n" for sort keys %files }
elsif ($command eq 'table' && @ARGV == 1) { table(@ARGV) }
elsif ($command eq 'stale') { stale(@ARGV) }
else { fail("usage: sources.pl hash|files|table|stale FILE ...") }
