#!/usr/bin/env perl
# Do the docs name things that exist? Prints one line per name that does not; exit status 1 if there is one.
#
#   links            [text](file#heading): the file, and a heading that has this anchor on GitHub
#   `path/file`      a file or folder of the repository, seen from its root or from the doc; `file.c` alone: a file of this name somewhere
#   `name()`         a function or macro of the sources
#   `some_name`      a word of the sources, if it has an underscore
#   `02b`            a kernel of the sources
#   make target      a target that make knows, and NAME= a variable of the Makefile or of a script; in `...`, and in blocks of ```sh
#   --option         a word of the sources, in a command that is ours
#   NAME=value       a variable of the sources, likewise
#
# Left alone: what lies in build/, and names with < > or * in them. usage: scripts/check_names.pl FILE.md ...
use strict;
use warnings;
use File::Basename qw(dirname basename);
use File::Find;

my %files;   # path => 1
my %bases;   # last part => 1
my $sources = '';
my $code = qr/\.(c|h|cu|cuh|S|mk|pl|sh|awk|py|inc|csv)$/;
find({no_chdir => 1, wanted => sub {
    my $path = s{^\./}{}r;
    if ($path =~ m{^(build|\.git)$}) { $File::Find::prune = 1; return }
    $files{$path} = 1;
    $bases{basename($path)} = 1;
    return unless -f $path && ($path =~ $code || $path eq 'Makefile' || $path =~ m{^scripts/\w+$});
    return if $path eq 'scripts/check_names.pl' || $path eq 'tests/docs_names.sh'; # they hold names that do not exist
    open my $in, '<', $path or return;
    local $/;
    $sources .= <$in> . "\n";
}}, '.');
my %word = map { $_ => 1 } $sources =~ /\w+/g;
my %called = map { $_ => 1 } $sources =~ /\b(\w+)\s*\(/g;

my %target;
for (qx{make BACKEND=emu -qp 2>/dev/null}) {
    next unless /^([^#\s:=][^:=]*):(?!=)/;
    $target{$_} = 1 for split ' ', $1;
}

my $defects = 0;
my ($file, $line);
sub missing {
    print "$file:$line: @_\n";
    $defects = 1;
}

sub exists_from {
    my ($path) = @_;
    $path =~ s{/+$}{};
    return 1 if $files{$path} || $path eq '';
    my @parts;
    for my $part (split m{/}, dirname($file) . "/$path") {
        next if $part eq '.' || $part eq '';
        if ($part eq '..') { pop @parts } else { push @parts, $part }
    }
    my $joined = join '/', @parts;
    return $files{$joined} || $joined eq '';
}

# The anchors GitHub gives a file's headings.
my %anchors;
sub anchors {
    my ($path) = @_;
    return $anchors{$path} if $anchors{$path};
    my (%seen, $fenced);
    open my $in, '<', $path or return {};
    while (my $text = <$in>) {
        $fenced = !$fenced if $text =~ /^```/;
        next if $fenced || $text !~ /^#+\s+(.*?)\s*$/;
        my $anchor = lc($1 =~ s/\[([^]]*)\]\([^)]*\)/$1/gr);
        $anchor =~ s/[^\w\- ]//g;
        $anchor =~ tr/ /-/;
        my $count = $seen{$anchor}++;
        $seen{"$anchor-$count"}++ if $count;
    }
    return $anchors{$path} = \%seen;
}

sub check_link {
    my ($link) = @_;
    return if $link =~ /^(https?|mailto):/;
    my ($path, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
    return missing("link to $path: no such file") if $path ne '' && !($path =~ m{^/} ? 0 : exists_from($path));
    return unless defined $anchor && ($path eq '' || $path =~ /\.md$/);
    my $target = $path eq '' ? $file : dirname($file) . "/$path";
    missing("link to $link: no such heading") unless anchors($target)->{$anchor};
}

# A command line: make's targets, variables and options; scripts and options of ours.
sub check_command {
    my ($command) = @_;
    $command =~ s/('[^']*'|"[^"]*")/$1 =~ tr{ |;&}{~}r/ge; # a quoted text is one word
    for my $part (split /&&|\|\||[;|]|\$\(/, $command) {
        my @words = split ' ', $part;
        while (@words && $words[0] =~ /^([A-Z]\w*)=/) { check_variable($1); shift @words }
        shift @words while @words && $words[0] =~ /^(do|then|if|while|time)$/;
        my $program = shift @words // next;
        if ($program eq 'make') {
            for my $at (@words) {
                last if $at =~ /^[<>#]/;
                next if $at =~ /^-|[<>*\$]|^\.+$/;
                if ($at =~ /^(\w+)=(.*)$/) {
                    my ($name, $value) = ($1, $2);
                    check_variable($name);
                    check_options($value) if $name eq 'ARGS';
                } elsif (!$target{$at =~ s/NN$/01/r} && $at !~ m{^build/}) {
                    missing("make $at: no such target");
                }
            }
        } elsif ($program =~ m{^(scripts|tests|\.ci)/}) {
            missing("$program: no such file") unless exists_from($program);
            check_options("@words");
        } elsif ($program =~ m{^build/\w+/}) {
            check_options("@words");
        }
    }
}

sub check_variable {
    my ($name) = @_;
    missing("$name=: no such variable") unless $sources =~ /\b\Q$name\E\b/;
}

sub check_options {
    for my $option ($_[0] =~ /(?<![\w-])--([a-z][\w-]*)/g) {
        missing("--$option: no such option") unless $sources =~ /--\Q$option\E\b|"\Q$option\E"/;
    }
}

sub check_span {
    my ($span) = @_;
    return check_command($span) if $span =~ /^([A-Z]\w*=\S* )*make( |$)|^(scripts|build|tests)\/\S+ /;
    return check_options($span) if $span =~ /^--[a-z]/;
    return check_variable($1) if $span =~ /^([A-Z][A-Z_]+)=\S*$/;
    return if $span =~ /[<>*\s{]|\.\.\.|^build\//;
    if ($span =~ /^(\w+)\(\)$/) {
        missing("$1(): no such function") unless $called{$1};
    } elsif ($span =~ m{^[\w.-]+(/[\w.-]+)*/?$} && ($span =~ m{/} || $span =~ /\w$code|\.md$/)) {
        my $known = $span =~ m{/} ? exists_from($span) : $bases{$span};
        missing("$span: no such file") unless $known || $span =~ m{^\w+/\w+$} && !-d dirname($span); # such as x86-64/aarch64
    } elsif ($span =~ /^\d\d[a-z]$/) {
        missing("$span: no such kernel") unless $sources =~ /"\Q$span\E"/;
    } elsif ($span =~ /^\w*_\w*$/) {
        missing("$span: no such name") unless $word{$span};
    }
}

for my $path (@ARGV) {
    $file = $path;
    open my $in, '<', $file or die "$file: $!\n";
    my $whole = do { local $/; <$in> };
    $whole =~ s/<!--.*?-->/$& =~ tr{\n}{}cdr/ges;
    my $fence = '';
    $line = 0;
    for my $text (split /\n/, $whole) {
        $line++;
        if ($text =~ /^```(\w*)/) {
            $fence = $fence eq '' ? ($1 || 'text') : '';
        } elsif ($fence ne '') {
            check_command($1) if $fence eq 'sh' && $text =~ /^([^#]*)/;
        } else {
            my @links = $text =~ /\]\(([^)\s]+)\)/g;
            my @spans = $text =~ /(?<!`)`([^`]+)`(?!`)/g;
            check_link($_) for @links;
            check_span($_) for @spans;
        }
    }
}
exit $defects;
