#!/usr/bin/env perl
# Chains of operations that nobody chose, for the kernels of several operations: a line each, "MULTIPROCESSORS ORDER OPERATION...", for tests/random_chains.sh.
# usage: tests/random_chains.pl SEED COUNT
use strict;
use warnings;

my ($seed, $count) = @ARGV;
defined $count or die "usage: tests/random_chains.pl SEED COUNT\n";
srand $seed;

sub below { return int rand $_[0] }
sub between { my ($least, $most) = @_; return $least + below($most - $least + 1) }
sub one_of { return $_[below(scalar @_)] }
sub eights { return 8 * between(1, $_[0] / 8) } # channels
sub max { my ($a, $b) = @_; return $a > $b ? $a : $b }

# An operation as a shape string: padding before the image is given, behind it what P and Q make it.
sub operation {
    my %o = (n => 1, r => 1, s => 1, stride => 1, pad_h => 0, pad_w => 0, dil_h => 0, dil_w => 0, groups => 1, @_);
    return ($o{groups} > 1 ? "g$o{groups}" : '') . "mb$o{n}ic$o{c}ih$o{h}iw$o{w}oc$o{k}oh$o{p}ow$o{q}kh$o{r}kw$o{s}sh$o{stride}sw$o{stride}ph$o{pad_h}pw$o{pad_w}dh$o{dil_h}dw$o{dil_w}";
}
# Scale, bias, a residual if one is asked for, a limit.
sub epilogue { my ($residual) = @_; return one_of('', '+bias', '+scale+bias', '+scale') . ($residual // '') . one_of('', '+relu', '+relu6') }
sub same { return (r => 3, s => 3, pad_h => 1, pad_w => 1) }

# A window that may be dilated, padded unevenly or not at all; P and Q too.
sub window {
    my ($r, $s) = @{one_of([3, 3], [3, 3], [3, 3], [1, 1], [3, 5], [5, 3], [7, 3])};
    my ($dil_h, $dil_w) = @{one_of([0, 0], [0, 0], [0, 0], [1, 1], [0, 1])};
    my ($reach_h, $reach_w) = (($r - 1) * ($dil_h + 1), ($s - 1) * ($dil_w + 1));
    my ($h, $w, $pad_h, $pad_w) = (between(1, 20), between(1, 60), between(0, $reach_h), between(0, $reach_w));
    my ($p, $q) = ($h + $pad_h + between(0, $reach_h) - $reach_h, $w + $pad_w + between(0, $reach_w) - $reach_w);
    return (h => $h, w => $w, p => max($p, 1), q => max($q, 1), r => $r, s => $s, pad_h => $pad_h, pad_w => $pad_w, dil_h => $dil_h, dil_w => $dil_w);
}
sub point { my (%o) = @_; return (h => $o{p}, w => $o{q}, p => $o{p}, q => $o{q}) } # of a 1 x 1 behind it

my %chain = (
    'a window, then 1 x 1' => sub { # 07d, 07j
        my ($n, $between) = (between(1, 4), eights(64));
        my %first = below(2) ? window() : do { my ($h, $w) = (between(1, 20), one_of(28, 32, 33, 40, 56, between(1, 64))); (h => $h, w => $w, p => $h, q => $w, same()) };
        return (operation(n => $n, c => eights(64), k => $between, %first) . epilogue(), operation(n => $n, c => $between, k => eights(320), point(%first)) . epilogue(one_of('', '+residual')));
    },
    'a bottleneck' => sub { # 07e
        my ($n, $c, $first, $second, $h, $w) = (between(1, 3), eights(320), eights(64), eights(64), between(1, 16), between(1, 64));
        my ($k, $residual) = below(2) ? ($c, '+residual=0') : (eights(320), one_of('', '+residual'));
        my @image = (n => $n, h => $h, w => $w, p => $h, q => $w);
        return (operation(@image, c => $c, k => $first) . epilogue(), operation(@image, c => $first, k => $second, same()) . epilogue(), operation(@image, c => $second, k => $k) . epilogue($residual));
    },
    'a basic block' => sub { # 07f
        my ($c, $between, $h, $w) = (eights(64), eights(64), between(1, 16), between(1, 64));
        my ($k, $residual) = below(2) ? ($c, '+residual=0') : (eights(64), '');
        my @image = (n => between(1, 3), h => $h, w => $w, p => $h, q => $w, same());
        return (operation(@image, c => $c, k => $between) . epilogue(), operation(@image, c => $between, k => $k) . epilogue($residual));
    },
    'depthwise, then 1 x 1' => sub { # 07g
        my ($n, $c, $h, $w, $stride, $pad_h, $pad_w) = (between(1, 5), eights(one_of(64, 200)), between(2, 30), between(2, 40), one_of(1, 1, 2), between(0, 2), between(0, 2));
        my ($p, $q) = map { max(int(($_ - 3) / $stride) + 1, 1) } $h + $pad_h + between(0, 2), $w + $pad_w + between(0, 2);
        my %first = (h => $h, w => $w, p => $p, q => $q, r => 3, s => 3, stride => $stride, pad_h => $pad_h, pad_w => $pad_w);
        return (operation(n => $n, c => $c, k => $c, groups => $c, %first) . epilogue(), operation(n => $n, c => $c, k => eights(one_of(64, 384)), point(%first)) . epilogue(one_of('', '+residual')));
    },
    'a first layer and its pooling' => sub { # 07h
        my ($n, $k, $stride) = (between(1, 3), eights(64), one_of(1, 2, 2, 2, 4));
        my ($r, $s) = @{one_of([7, 7], [3, 3], [5, 5], [4, 4], [11, 11], [3, 7])};
        my ($p, $q) = (between(1, 12), one_of(16, 32, 56, 80, 112, 160, between(1, 160)) + one_of(-1, 0, 0, 1));
        $q = max($q, 1);
        my ($pad_h, $pad_w) = (between(0, $r < 4 ? $r - 1 : 3), between(0, $s < 4 ? $s - 1 : 3));
        my ($h, $w) = map { max($_, 1) } ($p - 1) * $stride + $r - 2 * $pad_h + between(-1, 1), ($q - 1) * $stride + $s - 2 * $pad_w + between(-1, 1);
        my ($pool_p, $pool_q) = map { max(one_of(int($_ / 2), int(($_ + 1) / 2), int($_ / 2) + 1), 1) } $p, $q;
        return (operation(n => $n, c => between(1, 4), k => $k, h => $h, w => $w, p => $p, q => $q, r => $r, s => $s, stride => $stride, pad_h => $pad_h, pad_w => $pad_w) . epilogue(),
            'pool:' . operation(n => $n, c => $k, k => $k, h => $p, w => $q, p => $pool_p, q => $pool_q, same(), stride => 2, groups => $k));
    },
    'one image' => sub { # 07k
        my ($n, $between, $stride, $h, $w) = (one_of(1, 1, 1, 2), 8 * one_of(9, 16, 24, 32, between(1, 32)), one_of(1, 1, 2), between(1, 14), between(1, 14));
        my ($r, $s) = @{one_of([3, 3], [3, 3], [1, 1], [5, 3])};
        my %first = (h => $h, w => $w, p => int(($h - 1) / $stride) + 1, q => int(($w - 1) / $stride) + 1, r => $r, s => $s, stride => $stride, pad_h => ($r - 1) / 2, pad_w => ($s - 1) / 2);
        return (operation(n => $n, c => 8 * between(1, 24), k => $between, %first) . epilogue(), operation(n => $n, c => $between, k => 8 * between(1, 80), point(%first)) . epilogue(one_of('', '+residual')));
    },
);
my @kinds = sort keys %chain;
for my $i (0 .. $count - 1) {
    my @operations = $chain{$kinds[$i % @kinds]}->();
    print join(' ', one_of(1, 1, 2, 8, 132), below(4), @operations), "\n";
}
