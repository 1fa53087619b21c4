# The committed results as rows: docs/results/GPU/*.csv of one GPU, and its line of the table of GPUs (common/harness/gpus.h).
# GPU is the environment's, or else what docs/results/shown says: the GPU that the pages show.
package Rows;
use strict;
use warnings;

my $table = 'common/harness/gpus.h';
my %files; # path => rows
my %index; # path => {columns => {values => rows}}

sub shown {
    open my $in, '<', 'docs/results/shown' or die "docs/results/shown: expected the name of a GPU's folder: $!\n";
    my ($name) = (<$in> // '') =~ /^(.*?)\s*$/;
    $name =~ /^[\w.-]+$/ or die "docs/results/shown: expected the name of a GPU's folder, got \"$name\"\n";
    return $name;
}

sub gpu { return defined $ENV{GPU} && $ENV{GPU} ne '' ? $ENV{GPU} : shown() }

# The file that a name stands for: bench is docs/results/GPU/bench.csv, emulator/counts is docs/results/emulator/counts.csv, and so is cpu/.
sub path { my ($name) = @_; return 'docs/results/' . ($name =~ m{/} ? $name : gpu() . "/$name") . '.csv' }

# The fields of a CSV line; quoted ones may hold commas and doubled quotes.
sub fields {
    my ($line) = @_;
    return split /,/, $line, -1 if index($line, '"') < 0;
    my @fields;
    while ($line =~ /\G(?:"((?:[^"]|"")*)"|([^,]*))(,|$)/g) {
        my ($quoted, $plain, $end) = ($1, $2, $3);
        push @fields, defined $quoted ? $quoted =~ s/""/"/gr : $plain;
        last if $end eq '';
    }
    return @fields;
}

# Rows of a CSV file whose first line names the columns.
sub read_csv {
    my ($path) = @_;
    return $files{$path} if $files{$path};
    open my $in, '<', $path or die "$path: expected a file of results: $!\n";
    my ($header, @lines) = map { s/\r?\n$//r } <$in>;
    my @columns = fields($header // '');
    my @rows;
    for my $line (grep { /\S/ } @lines) {
        my %row;
        @row{@columns} = fields($line);
        push @rows, \%row;
    }
    die "$path: expected a line of column names and rows, got none\n" unless @rows;
    return $files{$path} = \@rows;
}

# The rows of a file of the GPU; those that name a GPU must name this one. A CPU has no driver.
my %checked;
sub of_gpu {
    my ($name) = @_;
    my $path = path($name);
    my $rows = read_csv($path);
    if (!$checked{$path}++ && ($rows->[0]{gpu} // '') =~ /\D/) {
        my $expected = limits(gpu())->{name};
        for (@$rows) { die "$path: expected results of the $expected (the row of $table), got some of the $_->{gpu}\n" if $_->{gpu} ne $expected && ($_->{driver} // 'none') ne '' }
    }
    return $path;
}

# A pattern: * is any text, ? one character, a|b is one of two. undef for a text without these.
sub pattern {
    my ($text) = @_;
    return undef unless $text =~ /[*?|]/;
    my $regex = join '|', map { join '', map { $_ eq '*' ? '.*' : $_ eq '?' ? '.' : quotemeta } split //, $_ } split /\|/, $text, -1;
    return qr/^(?:$regex)$/s;
}

# The rows of a file that have these texts in these columns: {column => text or pattern}.
sub matching {
    my ($path, $where) = @_;
    my $rows = read_csv($path);
    my (@columns, @patterns);
    for my $column (sort keys %$where) {
        exists $rows->[0]{$column} or die "$path: expected a column of the file, got \"$column\"; it has " . join(' ', sort keys %{$rows->[0]}) . "\n";
        next if $where->{$column} eq '*';
        my $pattern = pattern($where->{$column});
        if ($pattern) { push @patterns, [$column, $pattern] } else { push @columns, $column }
    }
    my $found = $rows;
    if (@columns) {
        my $by = $index{$path}{"@columns"} //= do {
            my %by;
            for my $row (@$rows) { push @{ $by{join "\0", map { $_ // '' } @$row{@columns}} }, $row }
            \%by;
        };
        $found = $by->{join "\0", @$where{@columns}} // [];
    }
    for my $p (@patterns) { $found = [grep { ($_->{$p->[0]} // '') =~ $p->[1] } @$found] }
    return $found;
}

# A line of the table of GPUs in C: {field => text}; the GPU must have one. {fitted}: the GPU that rules and tiles were fitted to.
my %limits;
sub limits {
    my ($name) = @_;
    return $limits{$name} if $limits{$name};
    open my $in, '<', $table or die "$table: cannot read: $!\n";
    my $text = do { local $/; <$in> };
    my ($fitted) = $text =~ /^#define FITTED_GPU "(.*)"/m or die "$table: expected FITTED_GPU\n";
    my ($struct) = $text =~ /typedef struct gpu_limits \{(.*?)\}/s or die "$table: expected struct gpu_limits\n";
    my @fields = $struct =~ /^\s*(?:const char \*|double |bool )(\w+);/mg;
    while ($text =~ /^\s*\{((?:"[^"]*"|[^"{}])*)\},?$/mg) {
        my %row = (fitted => $fitted);
        @row{@fields} = fields($1 =~ s/("[^"]*")|,\s+/$1 \/\/ ','/ger); # spaces between fields, not those in a text
        return $limits{$name} = \%row if $row{short_name} eq $name;
    }
    die "$table: expected a row whose short name is \"$name\"\n";
}

1;
