# What shapes on which an answer is wrong have in common, for scripts/exercise.pl.
use strict;
use warnings;

# A problem as the harness prints it, without its name: every field, the ones left out filled in.
sub problem_of {
    my ($text) = @_;
    my %p = (parts => $text =~ /((?:scale|bias|residual|relu)\S*)$/ ? $1 : '');
    $text =~ s/n".*| .*//;
    $p{$1} = $2 while $text =~ /([a-z]+)(\d+)/g;
    my $any_w = grep { defined $p{$_} } qw(iw ow kw sw dw pw);
    my %absent = (g => 1, mb => 1, sh => 1, sw => 1, dh => 0, dw => 0, ph => 0, pw => 0);
    for my $h (qw(i o k s d p)) { $p{"${h}w"} = $p{"${h}h"} if !$any_w && defined $p{"${h}h"} }
    $p{$_} //= $absent{$_} for keys %absent;
    $p{kw} //= $p{kh}, $p{iw} //= $p{ih};
    for my $axis (qw(h w)) {
        my $reach = ($p{"k$axis"} - 1) * (1 + $p{"d$axis"}) + 1;
        $p{"o$axis"} //= int(($p{"i$axis"} + 2 * $p{"p$axis"} - $reach) / $p{"s$axis"}) + 1;
        $p{"after$axis"} = ($p{"o$axis"} - 1) * $p{"s$axis"} + $reach - $p{"i$axis"} - $p{"p$axis"}; # padding that windows reach
    }
    @p{qw(c k)} = ($p{ic} / $p{g}, $p{oc} / $p{g}); # of a group
    return \%p;
}

my @features = (
    (map { my $part = $_; ["no $part", sub { $_[0]{parts} && $_[0]{parts} !~ /$part/ }], ["a $part", sub { $_[0]{parts} =~ /$part/ }] } qw(scale bias residual)),
    ['padding above', sub { $_[0]{ph} > 0 }],
    ['padding below', sub { $_[0]{afterh} > 0 }],
    ['padding on the left', sub { $_[0]{pw} > 0 }],
    ['padding on the right', sub { $_[0]{afterw} > 0 }],
    ['padding', sub { $_[0]{ph} > 0 || $_[0]{pw} > 0 || $_[0]{afterh} > 0 || $_[0]{afterw} > 0 }],
    ['a vertical stride', sub { $_[0]{sh} > 1 }],
    ['a horizontal stride', sub { $_[0]{sw} > 1 }],
    ['a stride', sub { $_[0]{sh} > 1 || $_[0]{sw} > 1 }],
    ['two different strides', sub { $_[0]{sh} != $_[0]{sw} }],
    ['a vertical dilation', sub { $_[0]{dh} > 0 && $_[0]{kh} > 1 }],
    ['a horizontal dilation', sub { $_[0]{dw} > 0 && $_[0]{kw} > 1 }],
    ['a dilation', sub { $_[0]{dh} > 0 && $_[0]{kh} > 1 || $_[0]{dw} > 0 && $_[0]{kw} > 1 }],
    ['two different dilations', sub { $_[0]{dh} != $_[0]{dw} }],
    ['a vertical stride unlike the dilation', sub { $_[0]{sh} != $_[0]{dh} + 1 }],
    ['a horizontal stride unlike the dilation', sub { $_[0]{sw} != $_[0]{dw} + 1 }],
    ['a stride unlike the dilation', sub { $_[0]{sh} != $_[0]{dh} + 1 || $_[0]{sw} != $_[0]{dw} + 1 }],
    ['a vertical stride or dilation', sub { $_[0]{sh} > 1 || $_[0]{dh} > 0 && $_[0]{kh} > 1 }],
    ['a horizontal stride or dilation', sub { $_[0]{sw} > 1 || $_[0]{dw} > 0 && $_[0]{kw} > 1 }],
    ['a height that the stride does not divide', sub { $_[0]{ih} % $_[0]{sh} }],
    ['a width that the stride does not divide', sub { $_[0]{iw} % $_[0]{sw} }],
    ['a size that the stride does not divide', sub { $_[0]{ih} % $_[0]{sh} || $_[0]{iw} % $_[0]{sw} }],
    ['padding above unlike that on the left', sub { $_[0]{ph} != $_[0]{pw} }],
    ['padding on the left unlike that on the right', sub { $_[0]{pw} != $_[0]{afterw} }],
    ['groups', sub { $_[0]{g} > 1 }],
    ['one group', sub { $_[0]{g} == 1 }],
    ['several images', sub { $_[0]{mb} > 1 }],
    ['1 x 1 filters', sub { $_[0]{kh} * $_[0]{kw} == 1 }],
    ['filters larger than 1 x 1', sub { $_[0]{kh} * $_[0]{kw} > 1 }],
    ['filters one column wide', sub { $_[0]{kw} == 1 }],
    ['filters one row high', sub { $_[0]{kh} == 1 }],
    ['filters of several rows', sub { $_[0]{kh} > 1 }],
    ['filters of several columns', sub { $_[0]{kw} > 1 }],
    ['filters that are not square', sub { $_[0]{kh} != $_[0]{kw} }],
    ['images that are not square', sub { $_[0]{ih} != $_[0]{iw} }],
    ['3 x 3 filters, stride 1, no dilation', sub { my ($p) = @_; $p->{kh} == 3 && $p->{kw} == 3 && $p->{sh} * $p->{sw} == 1 && !$p->{dh} && !$p->{dw} }],
    ['an odd width', sub { $_[0]{ow} % 2 }],
    ['an odd height', sub { $_[0]{oh} % 2 }],
    ['an odd height or width', sub { $_[0]{oh} % 2 || $_[0]{ow} % 2 }],
    ['several channels in a group', sub { $_[0]{c} > 1 }],
    ['several filters in a group', sub { $_[0]{k} > 1 }],
    (map { my $n = $_; ["more than $n channels in a group", sub { $_[0]{c} > $n }] } 4, 8, 16, 32, 64, 128, 256),
    (map { my $n = $_; ["more than $n filters in a group", sub { $_[0]{k} > $n }] } 4, 8, 16, 32, 64, 128),
    (map { my $n = $_; ["channels of a group that $n does not divide", sub { $_[0]{c} % $n }] } 2, 4, 8, 16, 32, 64),
    (map { my $n = $_; ["filters of a group that $n does not divide", sub { $_[0]{k} % $n }] } 2, 4, 8, 16, 32, 64),
    (map { my $n = $_; ["more than $n output pixels", sub { $_[0]{mb} * $_[0]{oh} * $_[0]{ow} > $n }] } 32, 64, 128),
    (map { my $n = $_; ["more than $n columns of outputs", sub { $_[0]{ow} > $n }] } 8, 16, 32, 64, 128),
    (map { my $n = $_; ["more than $n rows of outputs", sub { $_[0]{oh} > $n }] } 8, 16, 32, 64, 128),
    (map { my $n = $_; ["more than $n taps in a filter", sub { $_[0]{kh} * $_[0]{kw} > $n }] } 9, 25, 49),
    (map { my $n = $_; ["more than $n products in a sum", sub { $_[0]{c} * $_[0]{kh} * $_[0]{kw} > $n }] } 16, 32, 64, 128, 256, 512),
);

# of ([problem as text, whether it is wrong], ...). A sentence, or nothing.
sub what_fails {
    my %seen; # a shape may have been drawn twice
    my @of = grep { !$seen{ $_->[0] }++ } @_;
    my @wrong = grep { $_->[1] } @of;
    return '' if @wrong < 3;
    return 'every shape is wrong' if @wrong == @of;
    return 'nearly every shape is wrong: ' . @wrong . ' of ' . @of if @wrong * 10 > @of * 9; # any feature that most shapes have would be said to be the one
    my @problems = map { problem_of($_->[0]) } @of;
    my (@exact, $all, $only);
    for my $f (@features) {
        my @has = grep { $f->[1]->($problems[$_]) } 0 .. $#of;
        my $both = grep { $of[$_][1] } @has;
        return "all @{[scalar @has]} shapes with $f->[0] are wrong, and no other" if $both == @has && $both == @wrong;
        push @exact, [$f->[0], {map { $_ => 1 } @has}] if $both == @wrong; # the wrong ones have it, and others
        $all = [$f->[0], scalar @has, $both] if $both == @has && $both >= 3 && (@wrong - $both) * 2 <= @of - @has && (!$all || $both > $all->[2]);
        $only = [$f->[0], scalar @has, $both] if $both == @wrong && @has * 5 <= @of * 4 && $both * 4 >= @has && (!$only || @has < $only->[1]);
    }
    for my $i (0 .. $#exact) {
        for my $j ($i + 1 .. $#exact) {
            my $has = grep { $exact[$j][1]{$_} } keys %{ $exact[$i][1] };
            return "all $has shapes with $exact[$i][0] and $exact[$j][0] are wrong, and no other" if $has == @wrong;
        }
    }
    return "all $all->[1] shapes with $all->[0] are wrong, and " . (@wrong - $all->[2]) . ' others' if $all && $all->[2] * 2 >= @wrong;
    return "only shapes with $only->[0] are wrong: @{[scalar @wrong]} of $only->[1]" if $only;
    return "all $all->[1] shapes with $all->[0] are wrong, and " . (@wrong - $all->[2]) . ' others' if $all;
    return '';
}
1;
