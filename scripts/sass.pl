#!/usr/bin/env perl
# What a kernel's hottest loop is made of: the innermost loop of its machine code (SASS) with the most arithmetic, printed, and its
# instructions counted by kind. Reads what `cuobjdump -sass` prints for one object file.
# Of the instances of a template the first one's loop is printed, of the others what it counts, unless LOOP or FUNCTION asks for more.
# usage: cuobjdump -sass FILE.o | scripts/sass.pl NAME [PASS [LOOP [FUNCTION]]]
#   NAME      what to call these kernels: 02a
#   PASS      leave out kernels whose name says another pass
#   LOOP      print this loop of every kernel instead, by its number in the list
#   FUNCTION  only kernels whose name holds this text, such as <1, 3> of a template
# Exit status 3: no kernel that PASS and FUNCTION leave in.
use strict;
use warnings;
use FindBin;
use List::Util qw(max);

my ($label, $wanted_pass, $wanted_loop, $wanted_name) = @ARGV;
die "usage: cuobjdump -sass FILE.o | scripts/sass.pl NAME [PASS [LOOP [FUNCTION]]]\n" unless defined $label;
die "LOOP: expected a number from 1 up, got \"$wanted_loop\"\n" if ($wanted_loop // '') !~ /^([1-9]\d*)?$/;
my $passes = qr/fprop|dgrad|wgrad/;

my (%work, %meaning);
open my $table, '<', "$FindBin::Bin/sass.opcodes" or die "$FindBin::Bin/sass.opcodes: $!\n";
while (<$table>) {
    next if /^#/;
    my ($kind, $what, $text) = /^(\S+)\s+(\S+)\s+(.+)$/ or die "sass.opcodes:$.: expected: kind work meaning\n";
    ($work{$kind}, $meaning{$kind}) = ($what, $text);
}

# The kind an instruction is counted as: its opcode, with the width of an access, the use of an IMAD or the size of a product where these tell them apart.
sub kind {
    my ($text) = @_;
    return 'NOP' if $text =~ /^@!U?PT\s/; # of no lane, ever
    my ($opcode) = $text =~ /^(?:@!?U?P\w+\s+)?([A-Z0-9_][A-Zx0-9_.]*)/ or return '?';
    my ($base, @suffix) = split /\./, $opcode;
    return 'HFMA2.MMA' if $base eq 'HFMA2' && $text =~ /, -RZ, RZ, /; # 0 * -0 + constant
    for my $suffix (@suffix) { return "$base.$suffix" if $suffix ne 'MMA' && exists $meaning{"$base.$suffix"} || $suffix =~ /^\d+x\d+x\d+$/ }
    return $base;
}
sub of_table { my ($table, $kind) = @_; return $table->{$kind} // $table->{ $kind =~ s/\..*//r } }
sub work { return of_table(\%work, kind($_[0])) // '-' }

# ---------------------------------------------------------------- loops

# Where control can go from instruction $i of @$code: indices.
sub successors {
    my ($code, $i, $index_at, $meet) = @_;
    my $text = $code->[$i]{text};
    my $guarded = $text =~ s/^@!?U?P\w+\s+//;
    my @next = $i < $#$code ? ($i + 1) : ();
    my ($opcode) = $text =~ /^([A-Z0-9_]+)/;
    return $guarded ? @next : () if $opcode =~ /^(EXIT|RET|BRX|JMX)$/;
    if ($opcode =~ /^(BRA|JMP)$/) {
        my ($target) = $text =~ /\b0x([0-9a-f]+)\s*$/ or return @next;
        my $to = $index_at->{hex $target};
        my $conditional = $guarded || $text =~ /\s!?U?P\d\s*,/ || $text =~ /^BRA\.(DIV|CONV)/;
        return ((defined $to ? $to : ()), $conditional ? @next : ());
    }
    # Lanes that wait go on where the last BSSY of that register said.
    return ($meet->[$i], $guarded ? @next : ()) if $opcode eq 'BSYNC' && defined $meet->[$i];
    return @next;
}

# Natural loops: an edge back to an instruction that all ways to it lead through. Returns header index => {member indices}.
sub loops {
    my ($code) = @_;
    my (%index_at, %open, @meet);
    $index_at{ $code->[$_]{at} } = $_ for 0 .. $#$code;
    for my $i (0 .. $#$code) {
        if ($code->[$i]{text} =~ /\bBSSY\S*\s+(B\d+),\s*0x([0-9a-f]+)/) { $open{$1} = $index_at{ hex $2 } }
        $meet[$i] = $open{$1} if $code->[$i]{text} =~ /\bBSYNC\S*\s+(B\d+)/;
    }
    my @to = map { [successors($code, $_, \%index_at, \@meet)] } 0 .. $#$code;
    my @from = map { [] } @$code;
    for my $i (0 .. $#to) { push @{ $from[$_] }, $i for @{ $to[$i] } }

    # Reverse postorder, then immediate dominators (Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm").
    my (@order, %number, %seen);
    my @stack = ([0, 0]);
    $seen{0} = 1;
    while (@stack) {
        my $top = $stack[-1];
        if ($top->[1] < @{ $to[$top->[0]] }) {
            my $next = $to[$top->[0]][$top->[1]++];
            push @stack, [$next, 0] unless $seen{$next}++;
        } else {
            unshift @order, $top->[0];
            pop @stack;
        }
    }
    @number{@order} = 0 .. $#order;
    my %dominator = (0 => 0);
    my $changed = 1;
    while ($changed) {
        $changed = 0;
        for my $i (@order[1 .. $#order]) {
            my $new;
            for my $p (grep { defined $dominator{$_} } @{ $from[$i] }) {
                if (!defined $new) { $new = $p; next }
                my $other = $p;
                while ($new != $other) {
                    if ($number{$new} > $number{$other}) { $new = $dominator{$new} } else { $other = $dominator{$other} }
                }
            }
            next if defined $dominator{$i} && $dominator{$i} == $new;
            $dominator{$i} = $new;
            $changed = 1;
        }
    }
    my %loop;
    for my $tail (@order) {
        for my $head (@{ $to[$tail] }) {
            my $up = $tail;
            $up = $dominator{$up} while $up != $head && $up != 0;
            next if $up != $head;
            my $members = $loop{$head} //= { $head => 1 };
            my @todo = $tail;
            while (defined(my $i = pop @todo)) {
                next if $members->{$i}++;
                push @todo, grep { exists $number{$_} } @{ $from[$i] };
            }
        }
    }
    return %loop;
}

# The loop with the most arithmetic of its own (not in a loop inside it), or, where loops have none, the most memory accesses.
sub hottest {
    my ($code, %loop) = @_;
    my ($best, @best_score);
    for my $head (sort { $a <=> $b } keys %loop) {
        my %own = %{ $loop{$head} };
        for my $inner (grep { $_ != $head && $loop{$head}{$_} } keys %loop) {
            delete @own{ keys %{ $loop{$inner} } } if grep { work($code->[$_]{text}) eq 'math' } keys %{ $loop{$inner} };
        }
        my %count = (math => 0, memory => 0);
        $count{ work($code->[$_]{text}) }++ for keys %own;
        my @score = @count{qw(math memory)};
        next unless $score[0] + $score[1];
        ($best, @best_score) = ($head, @score) if !defined $best || $score[0] > $best_score[0] || $score[0] == $best_score[0] && $score[1] > $best_score[1];
    }
    return $best;
}

# ---------------------------------------------------------------- printing

sub histogram {
    my (@texts) = @_;
    my %count;
    $count{ kind($_) }++ for @texts;
    my $wide = max(10, map { length } keys %count);
    for my $kind (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count) {
        printf "  %5d  %3.0f%%  %-*s %s\n", $count{$kind}, 100 * $count{$kind} / @texts, $wide, $kind, of_table(\%meaning, $kind) // '';
    }
}

# The arithmetic and memory instructions among these, ": 4 FFMA, 8 LDG"; of a loop that does nothing but wait, that.
sub work_of {
    my (%count, %of);
    for my $text (map { $_->{text} } @_) { $count{ kind($text) }++, $of{ kind($text) } = work($text) }
    my @kinds = grep { $of{$_} =~ /^m/ } keys %count;
    @kinds = sort { $of{$a} cmp $of{$b} || $count{$b} <=> $count{$a} || $a cmp $b } @kinds;
    return @kinds ? ', of them ' . join ', ', map { "$count{$_} $_" } @kinds : (grep { $_ eq 'wait' } values %of) ? ': waits' : '';
}

my %shown_of; # functions whose loop was printed, by their names without what is in < >
sub show {
    my ($name, $arch, $code) = @_;
    pop @$code while @$code && ($code->[-1]{text} eq 'NOP' || $code->[-1]{text} =~ /^BRA 0x([0-9a-f]+)$/ && hex $1 == $code->[-1]{at}); # padding
    my %loop = loops($code);
    my @heads = sort { $a <=> $b || keys %{ $loop{$b} } <=> keys %{ $loop{$a} } } keys %loop;
    my $head = $wanted_loop ? $heads[$wanted_loop - 1] : hottest($code, %loop);
    printf "%s %s, %s: %d instructions, %s", $label, $name, $arch, scalar @$code, @heads == 1 ? '1 loop' : @heads . ' loops';
    if (defined $head && !$wanted_loop && !length($wanted_name // '') && $shown_of{ $name =~ s/<.*//r }++) { # another instance of a template
        printf "; the hottest: %d%s\n", scalar keys %{ $loop{$head} }, work_of(map { $code->[$_] } keys %{ $loop{$head} });
        return;
    }
    print "\n";
    for my $i (0 .. $#heads) {
        my @members = map { $code->[$_] } sort { $a <=> $b } keys %{ $loop{ $heads[$i] } };
        my $outside = grep { $_ != $heads[$i] && $loop{$_}{ $heads[$i] } } @heads;
        printf "  loop %d  %s%04x to %04x: %d instructions%s\n", $i + 1, '  ' x $outside, $members[0]{at}, $members[-1]{at}, scalar @members, work_of(@members);
    }
    if (!defined $head) {
        print $wanted_loop ? "  no loop $wanted_loop\n" : "  no loop with arithmetic or memory accesses: the whole kernel\n";
        histogram(map { $_->{text} } @$code) unless $wanted_loop;
        return;
    }
    my ($number) = grep { $heads[$_ - 1] == $head } 1 .. @heads;
    my @body = map { $code->[$_] } sort { $a <=> $b } keys %{ $loop{$head} };
    printf "\n  loop %d%s: %d instructions%s\n", $number, $wanted_loop ? '' : ', the one with the most arithmetic of its own', scalar @body, work_of(@body);
    histogram(map { $_->{text} } @body);
    print "\n";
    my $last;
    for my $i (@body) {
        print "    ...\n" if defined $last && $i->{at} != $last;
        printf "    %04x  %s\n", $i->{at}, $i->{text};
        $last = $i->{at} + 16;
    }
}

# ---------------------------------------------------------------- reading

my ($arch, $name, $code, $shown, $passed_over) = ('', undef, [], 0, 0);

sub finish {
    return unless defined $name && @$code;
    my $other_pass = $wanted_pass && $name =~ /($passes)/ && $1 ne $wanted_pass;
    if ($other_pass || index($name, $wanted_name // '') < 0) {
        $passed_over++;
    } else {
        print "\n" if $shown++ && !$shown_of{ $name =~ s/<.*//r };
        show($name, $arch, $code);
    }
    ($name, $code) = (undef, []);
}

while (my $line = <STDIN>) {
    if ($line =~ /^\s*code for (sm_\w+)/) {
        finish();
        $arch = $1;
    } elsif ($line =~ /^\s*Function : (\S+)/) {
        my $next = $1;
        finish();
        $name = $next;
        no warnings 'exec';
        if ($name =~ /^_Z/ && open my $pipe, '-|', 'c++filt', $name) { # part of binutils; without it the name stays as it is
            chomp(my $plain = <$pipe> // '');
            $name = $plain if $plain ne '';
        }
        $name =~ s/^void //;
        $name =~ s/\((?:int|unsigned int|bool|long|float)\)//g;
        $name =~ s/\(.*\)$//;
    } elsif ($line =~ m{^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;}) {
        push @$code, { at => hex $1, text => $2 };
    }
}
finish();
die "$label: expected what cuobjdump -sass prints, found no kernel in it\n" unless $shown || $passed_over;
exit($shown ? 0 : 3);
