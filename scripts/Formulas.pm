# Formulas of docs/numbers/: text into something that computes. Variables are $name; values are numbers, texts, lists, or nothing at all.
#
#   12 1e3 'text'  + - * / ^ %  < <= > >= == !=  ~ 'regular expression'  ! && ||  CONDITION ? THIS : THAT  ( )
#   name  name(a, b)             another formula, or a function of scripts/Functions.pm
#   bench[$s fprop 02a]          the cell of the one row of bench.csv with these keys (a line "file" names key columns and the cell's)
#   bench[$s fprop 02a].us_min   another cell of it; column=text beside the keys; * and ? and a|b in a text, which may stand in double quotes
#   bench?[...]                  nothing, where there is no such row           bench*[...].shape     the cells of all such rows, a list; .row: the rows
#   $r.us_min                    a cell of such a row
#   $s.oh                        a number of the layer that a shape string names
#   geomean(EXPRESSION for $k in LIST for $j in LIST if CONDITION)     likewise sum, count ...
#
# What is computed from nothing is nothing; list functions leave nothing out but count, list, distinct, sort, min and max.
package Formulas;
use strict;
use warnings;
use Functions qw(expected numbers listed shape %of_values %of_lists);
use Rows;

our %formula;  # name => {params => [[name, default]], body, format, at}: scripts/Tables.pm fills it
our @layouts;  # lines "file": [glob, [keys], value, {column => text}]
our $depth = 0;

# ---------------------------------------------------------------- words of a formula

my %binary = ('||' => 1, '&&' => 2, (map { $_ => 3 } qw(< <= > >= == != ~)), '+' => 4, '-' => 4, '*' => 5, '/' => 5, '%' => 5);
our ($text, @tokens); # what is being parsed

sub tokens {
    my ($source) = @_;
    my @found;
    for ($source) {
        while (1) {
            /\G\s+/gc;
            last if /\G\z/gc;
            if (m{\G([A-Za-z\$][\w/\$-]*)([?*]?)\[((?:[^\]"]|"[^"]*")*)\](?:\.(\w+))?}gc) { push @found, ['cells', $1, $2, $3, $4] }
            elsif (/\G(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?!\w)/gc) { push @found, ['number', $1] }
            elsif (/\G'([^']*)'/gc) { push @found, ['text', $1] }
            elsif (/\G\$(\w+)/gc) { push @found, ['variable', $1] }
            elsif (/\G(\w+)/gc) { push @found, ['name', $1] }
            elsif (/\G(<=|>=|==|!=|&&|\|\||[-+*\/^%<>~!?:(),.])/gc) { push @found, ['sign', $1] }
            else { expected 'a formula, got "', substr($source, pos // 0), '"' }
        }
    }
    return @found;
}

sub next_is { my ($kind, $value) = @_; return @tokens && $tokens[0][0] eq $kind && (!defined $value || $tokens[0][1] eq $value) }
sub take { my ($kind, $value) = @_; return next_is($kind, $value) ? shift @tokens : undef }
sub want { my ($kind, $value) = @_; return take($kind, $value) // expected(defined $value ? "\"$value\"" : "a $kind", ' in "', $text, '"', @tokens ? " before \"$tokens[0][1]\"" : ' at its end') }

# A formula's text as a function of an environment {variable => value}.
sub parse {
    local $text = shift;
    local @tokens = tokens($text);
    my $parsed = choice();
    expected 'the end of "', $text, "\" before \"$tokens[0][1]\"" if @tokens;
    return $parsed;
}

sub choice {
    my $condition = chain(1);
    return $condition unless take('sign', '?');
    my $this = choice();
    want('sign', ':');
    my $that = choice();
    return sub { my ($e) = @_; return $condition->($e) ? $this->($e) : $that->($e) };
}

my %compute = (
    '+' => sub { $_[0] + $_[1] }, '-' => sub { $_[0] - $_[1] }, '*' => sub { $_[0] * $_[1] }, '%' => sub { $_[0] % $_[1] },
    '/' => sub { $_[1] != 0 or expected 'a division by something else than 0'; $_[0] / $_[1] },
    '<' => sub { $_[0] < $_[1] ? 1 : 0 }, '>' => sub { $_[0] > $_[1] ? 1 : 0 }, '<=' => sub { $_[0] <= $_[1] ? 1 : 0 }, '>=' => sub { $_[0] >= $_[1] ? 1 : 0 },
);

sub chain {
    my ($level) = @_;
    return sign_of() if $level > 5;
    my $left = chain($level + 1);
    while (@tokens && $tokens[0][0] eq 'sign' && ($binary{ $tokens[0][1] } // 0) == $level) {
        my $sign = (shift @tokens)->[1];
        my ($a, $b) = ($left, chain($level + 1));
        if ($sign eq '&&') { $left = sub { my ($e) = @_; return $a->($e) && $b->($e) } }
        elsif ($sign eq '||') { $left = sub { my ($e) = @_; return $a->($e) || $b->($e) } }
        elsif ($sign eq '~') { $left = sub { my ($e) = @_; my ($x, $y) = ($a->($e) // '', $b->($e)); return $x =~ /(?:$y)/ ? 1 : 0 } } # an empty pattern alone would be the last one used
        elsif ($sign eq '==' || $sign eq '!=') {
            my $same = $sign eq '==' ? 1 : 0;
            $left = sub { my ($e) = @_; my ($x, $y) = map { $_ // '' } $a->($e), $b->($e); return (numbers($x, $y) ? $x == $y : $x eq $y) ? $same : 1 - $same };
        } else {
            my $f = $compute{$sign};
            $left = sub {
                my ($e) = @_;
                my ($x, $y) = ($a->($e), $b->($e));
                return undef unless defined $x && defined $y;
                numbers($x, $y) or expected "numbers about $sign, got \"", (grep { !numbers($_) } $x, $y)[0], '"';
                return $f->($x, $y);
            };
        }
    }
    return $left;
}

sub sign_of {
    if (take('sign', '-')) { my $of = sign_of(); return sub { my ($e) = @_; my $x = $of->($e); return defined $x ? -$x : undef } }
    if (take('sign', '!')) { my $of = sign_of(); return sub { my ($e) = @_; return $of->($e) ? 0 : 1 } }
    my $base = part_of();
    return $base unless take('sign', '^');
    my $power = sign_of();
    return sub { my ($e) = @_; my ($x, $y) = ($base->($e), $power->($e)); return defined $x && defined $y ? $x**$y : undef };
}

# A value, and .field of it.
sub part_of {
    my $value = value();
    while (take('sign', '.')) {
        my $field = want('name')->[1];
        my $whole = $value;
        $value = sub {
            my ($e) = @_;
            my $x = $whole->($e);
            return undef unless defined $x;
            my $parts = ref $x eq 'HASH' ? $x : shape($x);
            return $parts->{$field} // expected("one of @{[sort keys %$parts]} after the dot, got \"$field\"");
        };
    }
    return $value;
}

sub value {
    if (take('sign', '(')) { my $inside = choice(); want('sign', ')'); return $inside }
    if (my $t = take('number') || take('text')) { my $constant = $t->[1]; return sub { return $constant } }
    if (my $t = take('variable')) { return variable($t->[1]) }
    if (my $t = take('cells')) { return cells(@$t[1 .. 4]) }
    my $name = want('name')->[1];
    return call($name) unless take('sign', '(');
    return call($name) if take('sign', ')');
    my @arguments = choice();
    if (next_is('name', 'for')) {
        my $list = comprehension($arguments[0]);
        want('sign', ')');
        my $f = $of_lists{$name} or expected "a function of lists before \"for\", got \"$name\"; there are @{[sort keys %of_lists]}";
        return sub { my ($e) = @_; return $f->(@{ $list->($e) }) };
    }
    push @arguments, choice() while take('sign', ',');
    want('sign', ')');
    return call($name, @arguments);
}

sub variable {
    my ($name) = @_;
    return sub {
        my ($e) = @_;
        return $e->{$name} if exists $e->{$name};
        return evaluate($name) if $formula{$name} && !@{ $formula{$name}{params} }; # a layer's name
        expected "a variable that is known here, got \$$name";
    };
}

# EXPRESSION for $a in LIST for $b in LIST if CONDITION: pairs [value, what the first variable was].
sub comprehension {
    my ($body) = @_;
    my (@loops, $condition);
    while (take('name', 'for')) {
        my $name = want('variable')->[1];
        want('name', 'in');
        push @loops, [$name, chain(1)];
    }
    $condition = choice() if take('name', 'if');
    return sub {
        my ($e) = @_;
        my @found;
        my $walk;
        $walk = sub {
            my ($level, $env) = @_;
            if ($level < @loops) {
                my ($name, $list) = @{ $loops[$level] };
                $walk->($level + 1, {%$env, $name => $_}) for listed($list->($env));
            } elsif (!$condition || $condition->($env)) {
                push @found, [$body->($env), $env->{ $loops[0][0] }];
            }
        };
        $walk->(0, $e);
        return \@found;
    };
}

# ---------------------------------------------------------------- cells of the results

# [where the file's keys are, its cell, what all rows have]
sub layout {
    my ($file) = @_;
    for (@layouts) { return $_ if $file =~ $_->[0] }
    expected "a line \"file $file key COLUMNS value COLUMN\" for it";
}

# A text with its $name and ${name} filled in; nothing, if one of them is nothing.
sub filled {
    my ($word, $e) = @_;
    my $missing;
    my $text = $word =~ s/\$(?:(\w+)|\{(\w+)\})/variable($1 \/\/ $2)->($e) \/\/ do { $missing = 1; '' }/ger;
    return $missing ? undef : $text;
}

sub cells {
    my ($file, $how, $words, $column) = @_;
    my @words = $words =~ /("[^"]*"|[^\s"]+)/g;
    s/^"(.*)"$/$1/ for @words;
    return sub {
        my ($e) = @_;
        my $name = filled($file, $e);
        my (undef, $keys, $value, $all) = @{ layout($name) };
        my (%where, $at);
        $where{$_} = $all->{$_} for keys %$all;
        for my $word (@words) {
            my ($key, $text) = $word =~ /^(\w+)=(.*)$/s ? ($1, $2) : ($keys->[$at++] // expected("at most the keys @$keys of $name, got \"$word\" besides"), $word);
            $where{$key} = filled($text, $e) // return $how eq '*' ? [] : undef;
        }
        my $path = Rows::of_gpu($name);
        my $rows = Rows::matching($path, \%where);
        my $cell = $column // $value;
        return $rows if $cell eq 'row' && $how eq '*';
        exists $rows->[0]{$cell} or expected "a column of $path, got \"$cell\"" if @$rows;
        return [map { $_->{$cell} } @$rows] if $how eq '*';
        return undef if $how eq '?' && !@$rows;
        my $said = join ' ', map { "$_=$where{$_}" } sort keys %where;
        @$rows == 1 or expected "one row of $path with $said, found " . @$rows;
        my $found = $rows->[0]{$cell} // '';
        return $found if $found ne '';
        return $how eq '?' ? undef : expected "a value in $cell of the row of $path with $said, it is empty";
    };
}

# ---------------------------------------------------------------- calling

# What a formula gives for these values of its parameters.
sub evaluate {
    my ($name, @values) = @_;
    my $f = $formula{$name} or expected "the name of a formula, got \"$name\"";
    my %env;
    for my $i (0 .. $#{ $f->{params} }) {
        my ($parameter, $default) = @{ $f->{params}[$i] };
        $env{$parameter} = $i < @values ? $values[$i] : $default ? $default->({}) : expected "a value for \$$parameter of $name";
    }
    @values <= @{ $f->{params} } or expected "at most " . @{ $f->{params} } . " values for $name, got " . @values;
    return $f->{known} if exists $f->{known};
    $depth < 50 or expected "a formula that does not need itself, got $name";
    local $depth = $depth + 1;
    my $value = $f->{body}->(\%env);
    $f->{known} = $value unless @{ $f->{params} };
    return $value;
}

sub call {
    my ($name, @arguments) = @_;
    return sub { my ($e) = @_; return evaluate($name, map { $_->($e) } @arguments) } if !$of_values{$name} && !$of_lists{$name}; # may be defined later
    my $f = $of_values{$name};
    return sub { my ($e) = @_; return $f->(map { $_->($e) } @arguments) } if $f;
    return sub { my ($e) = @_; return $of_lists{$name}->(map { [$_, $_] } map { listed($_) } map { $_->($e) } @arguments) };
}

sub is_function { return $of_values{ $_[0] } || $of_lists{ $_[0] } }

sub evaluate_text { return parse($_[0])->({}) }

1;
