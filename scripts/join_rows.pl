#!/usr/bin/env perl
# Rows of several CSV files under one header: the columns of the first file, then what the others have besides. A row is empty where its file has no such column.
# usage: scripts/join_rows.pl FILE ... >JOINED
use strict;
use warnings;

@ARGV or die "usage: scripts/join_rows.pl FILE ...\n";
my (@names, %known, @rows);
for my $path (@ARGV) {
    open my $in, '<', $path or die "join_rows.pl: $path: $!\n";
    my @header;
    while (my $line = <$in>) {
        chomp $line;
        my @fields = $line =~ /\G("(?:[^"]|"")*"|[^,]*)(?:,|$)/g;
        pop @fields if @fields > 1 && $line !~ /,$/; # the empty match at the end of the line
        if (!@header) {
            @header = @fields;
            push @names, grep { !$known{$_}++ } @header;
            next;
        }
        @fields == @header or die "join_rows.pl: $path:$.: expected " . @header . " fields, got " . @fields . "\n";
        my %row;
        @row{@header} = @fields; # quotes and all
        push @rows, \%row;
    }
    @header or die "join_rows.pl: $path: expected a header line, got an empty file\n";
}
print join(',', @names), "\n";
print join(',', map { $_ // '' } @$_{@names}), "\n" for @rows;
