# What the markers of the pages stand for: docs/numbers/*.txt, one file for each page and one for all. A reader who finds a marker in a page finds its
# line there: grep '^NAME' docs/numbers/*. Lines are of four kinds; a line that begins with a blank goes on with the one before.
#
#   file bench* depthwise key shape pass kernel value us_median where status=right     how cells of these files are named (scripts/Formulas.pm)
#   name($k, $s = first) = FORMULA                                                     for other formulas
#   name($k, $s = first) [FORMAT] = FORMULA                                            a page may show it: <!-- value: name 02a -->4.05<!-- /value -->
#   table name($pass) TITLE                                                            <!-- table: name fprop --> ... <!-- end of table -->
#     all fprop; dgrad            with which parameters it stands in docs/results/GPU/tables.md; without the line: as it is
#     head | a cell | ... |       {FORMULA} in a cell is its value, {FORMULA; FORMAT} its value by a format, {FORMULA; FORMAT; TEXT} a text if there is
#     line |---|--:|              none (a dash without). A cell all of whose values are missing is empty. "each $k in LIST: cell" is a cell for each.
#     each $s in LIST             what follows, for each: loops, "let $x = FORMULA", "if FORMULA", and then the row
#     row | ... |
package Tables;
use strict;
use warnings;
use Formulas;
use Rows;
use Text::ParseWords;

my (%table, @order); # name => table; the files in order: [path, [names of tables]]
my $loaded;

sub parameters {
    my ($text) = @_;
    return [] unless defined $text;
    return [map { /^\s*\$(\w+)\s*(?:=\s*(.*?))?\s*$/ ? [$1, defined $2 ? Formulas::parse($2) : undef] : die "expected parameters such as \$k, got \"$_\"\n" } split /,/, $text];
}

# The parts of a text around its {...}: texts, and [formula, format, what to print for nothing].
sub pieces {
    my ($text) = @_;
    my @pieces;
    while ($text =~ /\G(?:([^{]+)|\{([^{}]*)\})/gc) {
        if (defined $1) { push @pieces, $1; next }
        my ($formula, $format, $nothing) = map { s/^\s+|\s+$//gr } split /;/, $2, 3;
        push @pieces, [Formulas::parse($formula), $format, $nothing];
    }
    die "expected { and } in pairs in \"$text\"\n" if (pos($text) // 0) < length $text;
    return \@pieces;
}

# A line of a table as cells: [pieces], or [pieces, variable, list] for a cell that stands for several.
sub cells {
    my ($line) = @_;
    my ($inside) = $line =~ /^\|(.*)\|$/ or die "expected a row from | to |, got \"$line\"\n";
    my @texts = ('');
    for my $part ($inside =~ /(\{[^{}]*\}|\||[^{|]+|\{)/g) { if ($part eq '|') { push @texts, '' } else { $texts[-1] .= $part } }
    return [map {
        s/^\s+|\s+$//g;
        /^each \$(\w+) in (.*?):(?:\s+(.*))?$/ ? [pieces($3 // ''), $1, Formulas::parse($2)] : [pieces($_)]
    } @texts];
}

# The lines of a table's definition: what is for all of it, head, line, and groups of steps with a row each.
sub define_table {
    my ($rest, $lines, $at) = @_;
    my ($name, $parameters, $title) = $rest =~ /^(\w+)(?:\(([^)]*)\))?\s+(.+)$/ or die "expected \"table NAME TITLE\", got \"$rest\"\n";
    die "table $name: there is another one, $table{$name}{at}\n" if $table{$name};
    my %t = (name => $name, params => parameters($parameters), title => pieces($title =~ s/\$(\w+)/{\$$1}/gr), at => $at, before => [], groups => []);
    my @steps;
    for my $line (@$lines) {
        my ($word, $text) = $line =~ /^(\w+)\s+(.*)$/ or die "expected a word and a text, got \"$line\"\n";
        if ($word eq 'all') { $t{all} = [map { [shellwords($_)] } split /;/, $text] }
        elsif ($word eq 'head' || $word eq 'line') { $t{$word} = cells($text); push @{ $t{before} }, splice @steps }
        elsif ($word eq 'row') { push @{ $t{groups} }, [[splice @steps], cells($text)] }
        elsif ($word eq 'each' && $text =~ /^\$(\w+) in (.*)$/) { push @steps, ['each', Formulas::parse($2), $1] }
        elsif ($word eq 'let' && $text =~ /^\$(\w+) = (.*)$/) { push @steps, ['let', Formulas::parse($2), $1] }
        elsif ($word eq 'if') { push @steps, ['if', Formulas::parse($text)] }
        else { die "expected one of all, head, line, each, let, if, row, got \"$line\"\n" }
    }
    die "table $name: expected head, line and rows\n" unless $t{head} && $t{line} && @{ $t{groups} } && !@steps;
    $table{$name} = \%t;
    push @{ $order[-1][1] }, $name;
}

sub define {
    my ($text, $lines, $at) = @_;
    if ($text =~ /^table\s+(.*)$/) { return define_table($1, $lines, $at) }
    $text = join ' ', $text, @$lines;
    if ($text =~ /^file\s+(.+?)\s+key\s+(.+?)\s+value\s+(\w+)(?:\s+where\s+(.+))?$/) {
        my ($globs, $keys, $value, $where) = ($1, $2, $3, $4 // '');
        push @Formulas::layouts, [Rows::pattern($globs =~ s/ +/|/gr) // qr/^\Q$globs\E$/, [split ' ', $keys], $value, {map { split /=/, $_, 2 } split ' ', $where}];
    } elsif ($text =~ /^(\w+)(?:\(([^)]*)\))?\s*(?:\[([^]]*)\])?\s*=\s*(.+)$/s) {
        my ($name, $parameters, $format, $formula) = ($1, $2, $3, $4);
        die "$name: there is another one, " . ($Formulas::formula{$name} ? $Formulas::formula{$name}{at} : 'a function') . "\n" if $Formulas::formula{$name} || Formulas::is_function($name);
        $Formulas::formula{$name} = {params => parameters($parameters), format => $format, body => Formulas::parse($formula), at => $at};
    } else {
        die "expected a file, a formula or a table, got \"$text\"\n";
    }
}

sub load {
    my ($folder) = @_;
    return if $loaded++;
    $folder //= 'docs/numbers';
    for my $path (sort { ($b =~ /README/) <=> ($a =~ /README/) || $a cmp $b } glob "$folder/*.txt") {
        open my $in, '<', $path or die "$path: cannot read: $!\n";
        push @order, [$path, []];
        my ($text, $at, @lines);
        my $done = sub {
            eval { define($text, [@lines], $at); 1 } or die "$at: $@" if defined $text;
            ($text, @lines) = ();
        };
        while (my $line = <$in>) {
            chomp $line;
            next if $line =~ /^\s*(#|$)/;
            $line =~ s{\s+#\s.*}{};
            if ($line =~ s/^\s+//) { push @lines, $line; next }
            $done->();
            ($text, $at) = ($line, "$path:$.");
        }
        $done->();
    }
    @order or die "$folder: expected files of formulas, found none\n";
}

# ---------------------------------------------------------------- as text

sub print_pieces {
    my ($pieces, $env) = @_;
    my ($text, $values, $there) = ('', 0, 0);
    for my $piece (@$pieces) {
        if (!ref $piece) { $text .= $piece; next }
        my ($formula, $format, $nothing) = @$piece;
        my $value = $formula->($env);
        $values++;
        $there++ if defined $value;
        $text .= defined $value ? Functions::shown($value, $format) : $nothing // '–';
    }
    return $values && !$there && !grep({ ref && defined $_->[2] } @$pieces) ? '' : $text;
}

sub print_cells {
    my ($cells, $env) = @_;
    return map {
        my ($pieces, $variable, $list) = @$_;
        $list ? map { print_pieces($pieces, {%$env, $variable => $_}) } Functions::listed($list->($env)) : print_pieces($pieces, $env);
    } @$cells;
}

sub row_of { return '|' . join('|', map { $_ eq '' ? ' ' : " $_ " } @_) . '|' }

# Runs the steps of a group and calls what is to be done for every environment that comes of them.
sub walk {
    my ($steps, $env, $then) = @_;
    my ($step, @rest) = @$steps;
    return $then->($env) unless $step;
    my ($kind, $formula, $variable) = @$step;
    if ($kind eq 'let') { walk(\@rest, {%$env, $variable => $formula->($env)}, $then) }
    elsif ($kind eq 'if') { walk(\@rest, $env, $then) if $formula->($env) }
    else { walk(\@rest, {%$env, $variable => $_}, $then) for Functions::listed($formula->($env)) }
}

# The words of a marker: a name and what is given for its parameters; $name is a formula's text.
sub given {
    my ($words) = @_;
    my ($name, @values) = shellwords($words =~ s/\$/\\\$/gr);
    return ($name // die("expected a name, got none\n"), map { /^\$(\w+)$/ ? Formulas::evaluate($1) : $_ } @values);
}

# The text of a marker "value: WORDS".
sub value {
    my ($name, @values) = given(@_);
    my $formula = $Formulas::formula{$name} or die "expected the name of a formula of docs/numbers/, got \"$name\"\n";
    defined $formula->{format} or die "expected a formula that has a [FORMAT], $name of $formula->{at} has none\n";
    my $value = Formulas::evaluate($name, @values);
    defined $value && !ref $value or die "expected one value from $name\n";
    return Functions::shown($value, $formula->{format});
}

sub environment {
    my ($t, @values) = @_;
    my %env;
    @values <= @{ $t->{params} } or die "expected at most " . @{ $t->{params} } . " parameters of the table $t->{name}, got " . @values . "\n";
    for my $i (0 .. $#{ $t->{params} }) {
        my ($name, $default) = @{ $t->{params}[$i] };
        $env{$name} = $i < @values ? $values[$i] : $default ? $default->({}) : die "expected a \$$name for the table $t->{name}\n";
    }
    return \%env;
}

# The text of a marker "table: WORDS".
sub table {
    my ($name, @values) = given(@_);
    my $t = $table{$name} or die "expected the name of a table of docs/numbers/, got \"$name\"\n";
    my @lines;
    walk($t->{before}, environment($t, @values), sub {
        my ($env) = @_;
        push @lines, row_of(print_cells($t->{head}, $env)), '|' . join('|', print_cells($t->{line}, $env)) . '|';
        for my $group (@{ $t->{groups} }) { walk($group->[0], $env, sub { push @lines, row_of(print_cells($group->[1], $_[0])) }) }
    });
    @lines > 2 or die "expected rows of the table $name, got none\n";
    my ($wide) = $lines[0] =~ tr/|//;
    for (@lines) { tr/|// == $wide || /`[^`]*\|[^`]*`/ or die "table $name: expected as many cells as its head has: $_\n" }
    return join "\n", @lines;
}

# Whether these words are a marker's, of a table or of a formula that a page may show; and the text of either.
sub known { my ($name) = $_[0] =~ /^(\w+)(?: |$)/ or return 0; return $table{$name} || $Formulas::formula{$name} && defined $Formulas::formula{$name}{format} }
sub text { my ($name) = given(@_); return $table{$name} ? table(@_) : value(@_) }

# Every table in the order of the files: [file, [[title, words of its marker] ...]].
sub all {
    return map {
        my ($path, $names) = @$_;
        [$path, [map {
            my $t = $table{$_};
            map { [print_pieces($t->{title}, environment($t, (given(join ' ', $t->{name}, map { "\"$_\"" } @$_))[1 .. @$_])), join ' ', $t->{name}, map { /\s/ ? "\"$_\"" : $_ } @$_] } @{ $t->{all} // [[]] }
        } @$names]];
    } @order;
}

1;
