#!/usr/bin/env perl
# Committed results after kernels got other names or files: rows of 04i are rows of 06p now, and a row whose kernel's machine code is what it was
# has the present hash of its source (scripts/sources.pl), so that `make stale` tells of kernels that changed, not of includes that moved.
#
# usage: scripts/rename_rows.pl --from CHECKOUT [--dry-run] [--names-only] [--arch 90a] [--told 04i,...] [04i=06p 04j=06q ...] [FILE.csv ...]
#        To be run in the root of the repository as it is now, once for each list of names (a second time would rename again what got an old name).
#   --from      the repository as it was when the rows had their names and hashes; all its steps, not built
#   04i=06p     rows of 04i become rows of 06p, all names at once: "04l=04i 04i=06p" does what it says. Rows that have their new name are left.
#   --told      kernels whose rows are renamed though their machine code has changed, or cannot be compared; they keep their hash
#   --dry-run   says what it would do
#   --names-only  leaves the hashes, for a last run with the same --from and all names, after more changes
#   FILE.csv    default: all below docs/results/
#
# Machine code is compared by nvcc (NVCC, or on PATH), as PTX without names and remarks, and where that differs as the bytes that ptxas makes of it;
# a CPU's kernel as the assembly of CC, with the host's part of its file. Of a .cu file the host's part is not compared: a launch with other blocks
# goes unseen.
# Exit status: 0 done, 1 a kernel that may not be renamed (nothing is written then), 2 bad input.
use strict;
use warnings;
use File::Find;
use File::Temp;

my ($from, $dry, $names_only, $arch, %told, %new_name, @files) = (undef, 0, 0, '90a');
my $temporary = File::Temp->newdir;

sub fail { print STDERR "rename_rows.pl: @_\n"; exit 2 }

while (@ARGV) {
    my $word = shift;
    if ($word =~ /^--(from|arch|told)$/) {
        my $value = shift // fail("$word: expected a value");
        if ($1 eq 'from') { $from = $value }
        elsif ($1 eq 'arch') { $arch = $value }
        else { $told{$_} = 1 for split /[, ]+/, $value }
    }
    elsif ($word eq '--dry-run') { $dry = 1 }
    elsif ($word eq '--names-only') { $names_only = 1 }
    elsif ($word =~ /=/) {
        for my $pair (split ' ', $word) {
            my ($old, $new) = $pair =~ /^(\d\d[a-z])=(\d\d[a-z])$/ or fail("$pair: expected OLD=NEW, such as 04i=06p");
            fail("$old: expected one new name, got $new_name{$old} and $new") if exists $new_name{$old};
            fail("$new: expected one kernel to get this name, got several") if grep { $_ eq $new } values %new_name;
            $new_name{$old} = $new;
        }
    }
    elsif ($word =~ /^-/) { fail("$word: expected --from, --arch, --told, --dry-run or --names-only") }
    else { push @files, $word }
}
defined $from or fail('expected --from CHECKOUT');
-x "$from/scripts/sources.pl" or fail("--from: expected a checkout of this repository, got \"$from\"");
find({no_chdir => 1, wanted => sub { push @files, $_ if /\.csv$/ }}, 'docs/results') unless @files;

# ---------------------------------------------------------------- kernels, then and now

my %kernel_files; # root => {kernel => file}
sub file_of {
    my ($root, $kernel) = @_;
    $kernel_files{$root} //= { map { m{/?(\d\d)_[^/]*/([a-z])_[^/]*$} ? ("$1$2" => s{^\Q$root\E/}{}r) : () } glob "$root/[0-9][0-9]_*/[a-z]_*.c $root/[0-9][0-9]_*/[a-z]_*.cu" };
    return $kernel_files{$root}{$kernel};
}

my %hashes;
sub hash_of {
    my ($root, $file) = @_;
    return $hashes{$root}{$file} //= do {
        my ($where, $what) = map { s/'/'\\''/gr } $root, $file;
        my $said = `cd '$where' && scripts/sources.pl hash '$what'`;
        $said =~ /^([0-9a-f]{12}) / or fail("$root/$file: expected a hash of scripts/sources.pl");
        $1;
    };
}

my $nvcc = $ENV{NVCC} // (grep { -x } map { "$_/nvcc" } split(/:/, $ENV{PATH}), '/usr/local/cuda/bin')[0];

# The output of two commands that run at a time, or undef for one that failed.
sub both {
    my @pipes = map { open(my $pipe, '-|', "$_ 2>/dev/null") or fail("$_: $!"); $pipe } @_;
    return map { my $text = do { local $/; <$_> }; close($_) ? $text // '' : undef } @pipes;
}

# PTX without what does not become code: remarks, and the names of functions and variables, which hold those of types and files. Functions in any order.
sub plain_ptx {
    my ($text) = @_;
    $text =~ s{//.*}{}g;
    $text =~ s/^\s*\.(file|loc)\b.*//mg;
    my ($head, @functions) = split /^(?=(?:\.visible\s+|\.weak\s+)?\.(?:entry|func)\b)/m, $text;
    for my $part ($head, @functions) {
        my %number;
        $part =~ s/\b_Z\w+?(?=(_param_\d+)?\b)/$number{$&} \/\/= '_Z' . keys %number/ge;
        $part =~ s/^\s*\n//mg;
    }
    return join "\n", $head, sort @functions;
}

# Code and constants in an ELF file of a GPU, a part each: what a launch passes (bank 0) is no constant.
sub machine_code {
    my ($elf) = @_;
    my ($at) = unpack '@40 Q<', $elf;
    my ($size, $count, $names) = unpack '@58 S<S<S<', $elf;
    my @sections = map { [unpack "\@$_ L<L<Q<Q<Q<Q<", $elf] } map { $at + $_ * $size } 0 .. $count - 1;
    my @parts;
    for my $s (@sections) {
        my $name = unpack "\@@{[$sections[$names][4] + $s->[0]]} Z*", $elf;
        push @parts, substr $elf, $s->[4], $s->[5] if $name =~ /^\.text\./ || $name =~ /^\.nv\.(constant[1-9]|global\.init)/;
    }
    return @parts;
}

# Every part is there still; others may have come, such as a tile of another size.
sub has_all {
    my ($old, $new) = @_;
    my %there;
    $there{$_}++ for @$new;
    return @$old && !(grep { --($there{$_} //= 0) < 0 } @$old) ? 1 : 0;
}

# 1: the same machine code; 0: not; undef: it cannot be compared.
sub same_code {
    my ($old_file, $new_file) = @_;
    my ($old, $new) = ("cd '$from' &&", '');
    if ($new_file =~ /\.c$/) {
        my $cc = ($ENV{CC} // 'gcc') . ' -std=c17 -D_GNU_SOURCE -O3 -march=native -fopenmp -I. -Icommon/emu/include -S -o -';
        my @text = both("$old $cc '$old_file'", "$cc '$new_file'");
        return undef if grep { !defined } @text;
        s/^\s*\.(file|ident)\b.*\n//mg for @text;
        return $text[0] eq $text[1] ? 1 : 0;
    }
    return undef unless defined $nvcc && $nvcc ne '';
    my $compile = "'$nvcc' -std=c++20 -O3 -I.";
    my @out = map { "$temporary/$_" } 'old', 'new';
    my @done = both("$old $compile -ptx -arch=compute_$arch -o $out[0] '$old_file' && cat $out[0]", "$compile -ptx -arch=compute_$arch -o $out[1] '$new_file' && cat $out[1]");
    return undef if grep { !defined } @done;
    return 1 if plain_ptx($done[0]) eq plain_ptx($done[1]);
    @done = both("$old $compile -cubin -arch=sm_$arch -o $out[0] '$old_file' && cat $out[0]", "$compile -cubin -arch=sm_$arch -o $out[1] '$new_file' && cat $out[1]");
    return undef if grep { !defined } @done;
    return has_all([machine_code($done[0])], [machine_code($done[1])]);
}

# ---------------------------------------------------------------- rows

# A line's fields as they stand, quotes and all.
sub raw_fields {
    my ($line) = @_;
    my @fields = "$line," =~ /\G("(?:[^"]|"")*"|[^,]*),/g;
    return @fields;
}

# A kernel's letter, and what may follow: 05a.2 is its second launch, 05a_matmul a part of it.
my $named = qr/^(\d\d[a-z])(?=$|[._])/;

my (%lines, %columns, %source, %rows); # path => lines; path => name => place; kernel => hash => rows; kernel => rows
for my $path (@files) {
    open my $in, '<', $path or fail("$path: expected a file of results: $!");
    my ($header, @rest) = <$in>;
    next unless defined $header && $header =~ /(^|,)kernel(,|$)/;
    chomp(my $plain = $header);
    my @names = raw_fields($plain);
    $columns{$path} = { map { $names[$_] => $_ } 0 .. $#names };
    $lines{$path} = [$header, @rest];
    for (@rest) {
        my @f = raw_fields(s/\r?\n$//r);
        fail("$path: expected " . @names . " fields in every row, got " . @f) if @f != @names;
        my ($kernel) = $f[$columns{$path}{kernel}] =~ $named or next;
        $rows{$kernel}++;
        $source{$kernel}{ $f[$columns{$path}{source}] }++ if exists $columns{$path}{source};
    }
}

# The name that a row's kernel had: rows may have been renamed before.
my %old_name = reverse %new_name;
sub name_then { my ($kernel) = @_; return !exists $new_name{$kernel} && exists $old_name{$kernel} && !file_of($from, $kernel) ? $old_name{$kernel} : $kernel }

for my $old (sort keys %new_name) {
    file_of($from, $old) or fail("$old: expected a kernel of $from");
    file_of('.', $new_name{$old}) or fail("$new_name{$old}: expected a kernel of this repository");
    fail("$old: expected rows of $old_name{$old} too, which get its name: has this list been applied before?") if $rows{$old} && $old_name{$old} && !$rows{ $old_name{$old} };
}
for my $kernel (sort keys %told) { exists $new_name{$kernel} or fail("--told: expected kernels that are renamed, got $kernel") }

my (%hash, $refused); # row's kernel => [hash then, hash now]
for my $kernel (sort keys %rows) {
    my $then = name_then($kernel);
    my $now = $new_name{$kernel} // $kernel;
    my ($old_file, $new_file) = (file_of($from, $then), file_of('.', $now));
    next unless $old_file && $new_file;
    my ($old_hash, $new_hash) = (hash_of($from, $old_file), hash_of('.', $new_file));
    my $renamed = exists $new_name{$kernel};
    my $hashed = $names_only || $old_hash eq $new_hash ? 0 : $source{$kernel}{$old_hash} // 0;
    next unless $renamed || $hashed;
    my $same = $old_hash eq $new_hash ? 1 : same_code($old_file, $new_file);
    my $what = $same ? 'the same machine code' : defined $same ? 'other machine code' : 'cannot be compared (' . (!$nvcc ? 'expected nvcc on PATH or as NVCC=' : 'one of the two does not compile') . ')';
    printf "%s%s  %s: %d row%s%s\n", $then, $renamed ? " -> $now" : '', $what, $rows{$kernel}, $rows{$kernel} == 1 ? '' : 's', $hashed ? $same ? ", $hashed with the present hash" : ", $hashed with the hash that they have" : '';
    $hash{$kernel} = [$old_hash, $new_hash] if $same && $hashed;
    next if $same || !$renamed || $told{$kernel};
    print STDERR "rename_rows.pl: $kernel: expected the machine code that $now has, or --told $kernel\n";
    $refused = 1;
}
exit 1 if $refused;

# ---------------------------------------------------------------- written

my ($renamed, $hashed) = (0, 0);
for my $path (sort keys %lines) {
    my $at = $columns{$path};
    my ($header, @rest) = @{ $lines{$path} };
    my $changed = 0;
    for my $line (@rest) {
        my ($end) = $line =~ /(\r?\n?)$/;
        my @f = raw_fields($line =~ s/\r?\n$//r);
        my $kernel = $f[$at->{kernel}];
        my $pair = $hash{ $kernel =~ $named ? $1 : '' };
        my $before = join ',', @f;
        if (exists $at->{source} && $pair && $f[$at->{source}] eq $pair->[0]) { $f[$at->{source}] = $pair->[1], $hashed++ }
        for my $column (grep { /^kernel/ } keys %$at) { $f[$at->{$column}] =~ s/$named/$new_name{$1} \/\/ $1/e }
        $renamed++ if $f[$at->{kernel}] ne $kernel;
        $line = join(',', @f) . $end;
        $changed = 1 if $before ne join ',', @f;
    }
    next if !$changed || $dry;
    open my $out, '>', "$path.new" or fail("$path.new: $!");
    print $out $header, @rest;
    close $out or fail("$path.new: $!");
    rename "$path.new", $path or fail("$path: $!");
}
printf "%d row%s renamed, %d with the present hash%s\n", $renamed, $renamed == 1 ? '' : 's', $hashed, $dry ? ' (not written)' : '';
