#!/usr/bin/env perl
# Puts numbers and tables into the pages, so that none of them is typed. One value, on one line, in a sentence or a cell of a table:
#
#   the kernel takes <!-- value: ms 02a fprop -->4.05<!-- /value --> ms
#
# and a table:
#
#   <!-- table: layers fprop 16 -->
#   ...replaced...
#   <!-- end of table -->
#
# The names are those of docs/numbers/ (scripts/Tables.pm). What a command prints:
#
#   <!-- output of: COMMAND -->
#   ...replaced...
#   <!-- end of output -->
#
# Lines of a source, from the only one that contains a text to the next one that contains another, without the first one's indentation (blanks before a text
# are part of it):
#
#   <!-- code: 01_naive/a_naive.cu | for (int c = 0; c < group_c; c++) | sum += -->
#   ...replaced...
#   <!-- end of code -->
#
# A command that prints a Markdown table goes in as it is, anything else as a code block. "the block above" as a COMMAND is the ```sh block just before: what
# the reader sees is what runs. Commands run in bash, in the repository's root, on the emulator.
#
# The results are those of one GPU, docs/results/GPU, and links to results and figures go to that GPU's. Pages show the GPU that docs/results/shown names.
# usage: scripts/fill_docs.pl [--check] FILE.md ... [--tables]
#        scripts/fill_docs.pl --print NAME ... | FORMULA
# --check   changes nothing, says of each file whether it is up to date; exit status 1 if one is stale, 2 if something failed
# --tables  all tables, in docs/results/GPU/tables.md; GPU=NAME in the environment: of another GPU than the pages show
# --print   at the prompt, what a marker with these words stands for, or a formula: --print 'bench[$first fprop 02a].us_min'
use strict;
use warnings;
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)}; # a make that a command starts is not a part of the one that started us
use FindBin;
use lib $FindBin::Bin;
use Tables;

$ENV{BACKEND} = 'emu';
$ENV{GNUMAKEFLAGS} = '-s --no-print-directory';
my $check = @ARGV && $ARGV[0] eq '--check' ? shift @ARGV : 0;
my ($stale, $path, %failed) = (0, 'fill_docs.pl');

sub fail {
    print STDERR "$path: @_\n";
    $failed{$path} = 1;
}

# What the command prints; dies with one line if it fails or prints nothing.
sub output_of {
    my ($command) = @_;
    open my $pipe, '-|', 'bash', '-o', 'pipefail', '-c', $command or die "bash: $!\n";
    my $output = do { local $/; <$pipe> };
    close $pipe;
    die "expected a command that ends well: $command\n" if $?;
    die "expected a command that prints something: $command\n" if $output !~ /\S/;
    return $output =~ s/\n*\z//r;
}

# The text of a marker, or the old one and a line on stderr.
sub text_of {
    my ($marker, $old, $make) = @_;
    my $text = eval { $make->() };
    return $text if defined $text;
    chomp(my $why = $@);
    fail("$marker: $why");
    return $old;
}

sub block {
    my ($before, $command, $old) = @_;
    return text_of("output of $command", $old, sub {
        if ($command eq 'the block above') {
            $before =~ /^```sh\n((?:(?!^```).)*)^```\n\s*\z/ms or die "expected a block of ```sh just before\n";
            $command = $1;
        }
        my $output = output_of($command);
        return $output =~ /^\|/ ? "\n$output\n\n" : "\n```text\n$output\n```\n\n";
    });
}

# Lines of a source as a code block.
sub code {
    my ($words, $old) = @_;
    return text_of("code $words", $old, sub {
        my ($source, $first, $last) = split / \| /, $words, 3;
        die "expected \"code: FILE | A TEXT OF THE FIRST LINE | OF THE LAST\"\n" unless defined $last;
        open my $in, '<', $source or die "$source: $!\n";
        chomp(my @lines = <$in>);
        my ($from, @others) = grep { index($lines[$_], $first) >= 0 } 0 .. $#lines;
        die "expected a line of $source with \"$first\", found none\n" unless defined $from;
        die "expected one line of $source with \"$first\", found lines " . join(', ', map { $_ + 1 } $from, @others) . "\n" if @others;
        my ($to) = grep { index($lines[$_], $last) >= 0 } $from .. $#lines;
        die "expected a line of $source with \"$last\" after that with \"$first\", found none\n" unless defined $to;
        my ($indent) = $lines[$from] =~ /^( *)/;
        return join "\n", '', '```cuda', (map { s/^$indent//r } @lines[$from .. $to]), "```\n\n";
    });
}

# Every marker of a kind must have been found whole.
sub whole {
    my ($text, $open, $close, $found, $expected) = @_;
    fail("expected $expected") if $found != (() = $text =~ /\Q$open\E/g) || $found != (() = $text =~ /\Q$close\E/g);
}

sub fill {
    my ($text) = @_;
    my ($blocks, $codes, $tables, $values) = (0, 0, 0, 0);
    my $filled = $text;
    $filled =~ s{(^<!-- code: (.+?) -->\n)(.*?)(^<!-- end of code -->$)}{ $codes++; my ($open, $words, $old, $close) = ($1, $2, $3, $4); $open . code($words, $old) . $close }gmse;
    my $before = $filled;
    $filled =~ s{(^<!-- output of: (.+?) -->\n)(.*?)(^<!-- end of output -->$)}{ $blocks++; $1 . block(substr($before, 0, $-[0]), $2, $3) . $4 }gmse;
    $filled =~ s{(^<!-- table: (.+?) -->\n)(.*?)(^<!-- end of table -->$)}{ $tables++; my ($open, $words, $old, $close) = ($1, $2, $3, $4); $open . text_of("table $words", $old, sub { "\n" . Tables::table($words) . "\n\n" }) . $close }gmse;
    $filled =~ s{(<!-- value: (.+?) -->)(.*?)(<!-- /value -->)}{ $values++; my ($open, $words, $old, $close) = ($1, $2, $3, $4); $open . text_of("value $words", $old, sub { Tables::value($words) }) . $close }ge;
    whole($text, '<!-- output of:', '<!-- end of output', $blocks, '"<!-- output of: COMMAND -->" and "<!-- end of output -->" each on a line of its own');
    whole($text, '<!-- code:', '<!-- end of code', $codes, '"<!-- code: FILE | FIRST | LAST -->" and "<!-- end of code -->" each on a line of its own');
    whole($text, '<!-- table:', '<!-- end of table', $tables, '"<!-- table: NAME -->" and "<!-- end of table -->" each on a line of its own');
    whole($text, '<!-- value:', '<!-- /value -->', $values, '"<!-- value: NAME -->" and "<!-- /value -->" on one line');
    fail("expected a word before the value: a line that begins with a comment is no text to Markdown: $1") if $text =~ /^\s*(<!-- value:.{0,60})/m;
    my ($gpu, $known) = (Rows::gpu(), join '|', map { quotemeta } grep { !/^(?:emulator|cpu)$/ } map { m{([^/]+)/$} } glob 'docs/results/*/');
    return $filled =~ s{\b((?:results|figures)/)(?:$known)(?=[/`])}{$1$gpu}gr;
}

sub result {
    my ($text, $new) = @_;
    if ($new eq $text) {
        print "$path: up to date\n" if $check && !$failed{$path};
    } elsif ($check) {
        print "$path is stale: run make docs\n";
        my @old = split /\n/, $text;
        my @new = split /\n/, $new;
        my ($first) = grep { ($old[$_] // '') ne ($new[$_] // '') } 0 .. (@old > @new ? $#old : $#new);
        printf "  line %d: %s\n  now:     %s\n", $first + 1, $old[$first] // '', $new[$first] // '';
        $stale = 1;
    } elsif (!%failed) {
        open my $out, '>', $path or die "$path: $!\n";
        print $out $new;
        close $out or die "$path: $!\n";
        print "$path: filled\n";
    }
}

sub slurp {
    open my $in, '<', $_[0] or return '';
    local $/;
    return <$in> // '';
}

# All tables of all pages. One whose files are not there says so in its place.
sub tables {
    my $gpu = Rows::gpu();
    my $limits = Rows::limits($gpu);
    my $text = "# Tables of the $limits->{name}\n\nEvery table of the pages, out of the results in this folder (`make docs GPU=$gpu`). What each means is in its chapter.\n";
    $text .= "\nFloors and shares of the limit are by these constants ([`common/harness/gpus.h`](../../../common/harness/gpus.h)): $limits->{source}.\n";
    $text .= "\nFitted to the $limits->{fitted}, not to this GPU: the rules that choose a kernel, what step 05 expects a cut of a product to take, sizes of tiles and strips. "
        . "Where a table speaks of the rule, it is that one.\n" if $limits->{name} ne $limits->{fitted};
    for my $file (Tables::all()) {
        my ($numbers, $tables) = @$file;
        next unless @$tables;
        my ($page) = $numbers =~ m{([^/]+)\.txt$};
        my $to = $page eq 'README' ? 'README.md' : "docs/$page.md";
        my ($title) = slurp($to) =~ /^# (.*)$/m;
        $text .= "\n## " . (defined $title ? "[$title](../../../$to)" : 'Counters') . "\n";
        for (@$tables) {
            my ($heading, $words) = @$_;
            my $table = eval { Tables::table($words) } // 'Not here: ' . ($@ =~ s/\n.*//sr) . '.';
            $table =~ s{(\]\()(?!https?:|#)(?:\.\./)?}{$1../../../}g;
            $text .= "\n### $heading\n\n$table\n";
        }
    }
    return $text;
}

eval { Tables::load(); 1 } or do { print STDERR $@; exit 2 };
if (@ARGV && $ARGV[0] eq '--print') {
    shift @ARGV;
    my $text = eval { Tables::known("@ARGV") ? Tables::text("@ARGV") : Formulas::evaluate_text("@ARGV") };
    if (defined $text) { print ref $text ? join("\n", @$text) : $text, "\n" } else { fail($@ =~ s/\n//r || 'nothing') }
    exit(%failed ? 2 : 0);
}
for (@ARGV) {
    if ($_ eq '--tables') {
        $path = 'docs/results/' . Rows::gpu() . '/tables.md';
        my $text = eval { tables() };
        if (defined $text) { result(slurp($path), $text) } else { fail($@ =~ s/\n//r) }
    } else {
        $path = $_;
        open my $in, '<', $path or die "$path: $!\n";
        my $text = do { local $/; <$in> };
        result($text, fill($text));
    }
}
exit(%failed ? 2 : $stale);
