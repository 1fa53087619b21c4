# The functions of formulas (scripts/Formulas.pm), and numbers as text.
package Functions;
use strict;
use warnings;
use Exporter 'import';
use List::Util ();
use POSIX ();
use Rows;

our @EXPORT_OK = qw(expected numbers listed shape shown %of_values %of_lists);
my $number = qr/^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/;

sub expected { die 'expected ' . join('', @_) . "\n" }
sub numbers { for (@_) { return 0 unless defined && $_ =~ $number } return 1 }
sub listed { my ($x) = @_; return ref $x eq 'ARRAY' ? @$x : defined $x ? ($x) : () }

# The layer that a benchdnn string names, with its defaults.
my %shapes;
sub shape {
    my ($text) = @_;
    return $shapes{$text} //= do {
        my %s = (g => 1, sh => 1, dh => 0, ph => 0, $text =~ /([a-z]+)(\d+)/g);
        $s{mb} && $s{ic} && $s{oc} && $s{ih} && $s{kh} or expected "a layer such as mb16ic64ih56oc128oh56kh3ph1, got \"$text\"";
        $s{oh} //= int(($s{ih} + 2 * $s{ph} - ($s{kh} - 1) * ($s{dh} + 1) - 1) / $s{sh}) + 1;
        for (qw(i o k s d p)) { $s{"${_}w"} //= $s{"${_}h"} }
        \%s;
    };
}

# ---------------------------------------------------------------- numbers as text

# At least so many significant digits; digits before the point are never cut, and there is no exponent.
sub rounded {
    my ($value, $digits) = @_;
    return '0' if $value == 0;
    my ($exponent) = sprintf('%.*e', $digits - 1, $value) =~ /e([-+]\d+)$/;
    my $decimals = $digits - 1 - $exponent;
    return sprintf '%.*f', $decimals > 0 ? $decimals : 0, $value;
}

# A format is a number of significant digits, one of printf's, or empty: the text as it is.
sub shown {
    my ($value, $format) = @_;
    return $value if !defined $format || $format eq '';
    numbers($value) or expected "a number to print by \"$format\", got \"$value\"" unless $format =~ /^%-?\d*s$/;
    return rounded($value, $format) if $format =~ /^[1-9]$/;
    $format =~ /^%[-+0]?\d*(?:\.\d+)?[dfges]$/ or expected "a format such as 3 or %.1f, got \"$format\"";
    return sprintf $format, $value;
}

# ---------------------------------------------------------------- of values

sub defined_all { for (@_) { return 0 unless defined } return 1 }
sub of_numbers { my ($f) = @_; return sub { return defined_all(@_) ? $f->(@_) : undef } }

# Multiply-adds along one axis whose pixel exists; along both it is the product.
sub inside {
    my ($s, $in, $out, $taps, $stride, $dilation, $pad) = @_;
    my $count = 0;
    for my $p (0 .. $s->{$out} - 1) { for my $r (0 .. $s->{$taps} - 1) { my $h = $p * $s->{$stride} - $s->{$pad} + $r * ($s->{$dilation} + 1); $count += $h >= 0 && $h < $s->{$in} } }
    return $count;
}

our %of_values = (
    ceil => of_numbers(\&POSIX::ceil), int => of_numbers(sub { int $_[0] }), abs => of_numbers(sub { abs $_[0] }),
    gcd => of_numbers(sub { my ($x, $y) = @_; ($x, $y) = ($y, $x % $y) while $y; return $x }),
    # multiply-adds of a layer by the formula, and without those with padding
    macs => sub { my $s = shape($_[0]); return $s->{mb} * $s->{oc} * $s->{ic} / $s->{g} * $s->{oh} * $s->{ow} * $s->{kh} * $s->{kw} },
    macs_inside => sub { my $s = shape($_[0]); return $s->{mb} * $s->{oc} * $s->{ic} / $s->{g} * inside($s, qw(ih oh kh sh dh ph)) * inside($s, qw(iw ow kw sw dw pw)) },
    gpu => sub { return Rows::limits(Rows::gpu()) },
    value => sub { return Formulas::evaluate_text($_[0]) },                                     # of a text that is a formula
    text => sub { my ($x, $format) = @_; return defined $x ? shown($x, $format) : undef }, # a number by a format
    replace => sub { my ($x, $from, $to) = @_; return defined $x ? $x =~ s/$from/$to/gr : undef },
    file_of => sub { my ($path) = $_[0] =~ /^(\d\d)([a-z])$/ ? glob "$1_*/$2_*.c $1_*/$2_*.cu" : (); return $path }, # a kernel's
    split => sub { return [split ' ', $_[0]] },
    both => sub { return [map { listed($_) } @_] },
    runs => sub { # rows that follow each other with the same cell in one column, and none twice in another: a list of lists
        my ($list, $same, $once) = @_;
        my (@runs, %seen);
        for my $row (listed($list)) {
            if (!@runs || $runs[-1][-1]{$same} ne $row->{$same} || $seen{ $row->{$once} }) { push @runs, []; %seen = () }
            push @{ $runs[-1] }, $row;
            $seen{ $row->{$once} } = 1;
        }
        return \@runs;
    },
    concat => sub { return join '', map { $_ // '' } @_ },
    item => sub { my ($list, $n) = @_; my @all = listed($list); return $all[$n < 0 ? $n : $n - 1] }, # the first is 1, the last -1
    nothing => sub { return undef },
    range => sub { my ($from, $to) = @_; return [$from .. $to] },
    heads => sub { my ($n, $list) = @_; my @all = listed($list); return [@all[0 .. List::Util::min($n, scalar @all) - 1]] },
    tails => sub { my ($n, $list) = @_; my @all = listed($list); return [@all[List::Util::max(0, @all - $n) .. $#all]] },
);

# ---------------------------------------------------------------- of lists

# Each gets pairs [value, what the first variable of "for" was].
sub values_of { return map { defined $_->[0] ? $_->[0] : expected('a value for each of a list, one is missing') } @_ }
sub known { return grep { defined $_->[0] } @_ }
sub by_value { return $a->[0] =~ $number && $b->[0] =~ $number ? $a->[0] <=> $b->[0] : $a->[0] cmp $b->[0] }
sub some { my ($what, @list) = @_; @list or expected "at least one value for $what"; return @list }

our %of_lists = (
    sum => sub { return List::Util::sum0(values_of(@_)) },
    count => sub { return scalar grep { $_->[0] } known(@_) },
    geomean => sub { return exp(List::Util::sum(map { log } values_of(some('a mean', @_))) / @_) },
    min => sub { my @k = known(@_); return @k ? List::Util::min(map { $_->[0] } @k) : undef },
    max => sub { my @k = known(@_); return @k ? List::Util::max(map { $_->[0] } @k) : undef },
    list => sub { return [map { $_->[0] } known(@_)] },
    distinct => sub { my %seen; return [grep { !$seen{$_}++ } map { $_->[0] } known(@_)] },
    sort => sub { return [map { $_->[1] } sort by_value known(@_)] },                 # what was named, by the value
    quantile => sub { # between the two neighbours it falls between
        my ($q, @list) = @_;
        my @k = map { $_->[0] } sort by_value @list;
        my $at = $q->[0] * $#k;
        my ($below, $above) = @k[int($at), int($at) < $#k ? int($at) + 1 : $#k];
        return $below + ($at - int($at)) * ($above - $below);
    },
);

1;
