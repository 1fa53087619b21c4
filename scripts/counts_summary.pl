#!/usr/bin/env perl
# One line per kernel out of the emulator's counts (files of EMU_COUNT_JSON): what its loads and stores cost, summed over its source lines.
use strict;
use warnings;
use JSON::PP;

sub human { my ($n) = @_; return $n >= 1e6 ? sprintf('%.1f MB', $n / 1e6) : $n >= 1e3 ? sprintf('%.1f kB', $n / 1e3) : "$n B" }

printf "%-44s %22s %22s %10s %18s %12s\n", 'kernel', 'load sectors/request', 'store sectors/request', 'lanes', 'bytes asked for', 'distinct';
for my $path (@ARGV) {
    open my $file, '<', $path or die "$path: $!\n";
    my $launches = do { local $/; decode_json(<$file>) };
    for my $launch (@$launches) {
        my %sum;
        for my $i (@{ $launch->{instructions} }) {
            next if $i->{space} ne 'global';
            $sum{"$i->{kind} $_"} += $i->{$_} for qw(requests sectors lanes);
        }
        my $per = sub { my ($kind) = @_; my $n = $sum{"$kind requests"} or return '-'; return sprintf '%.2f', $sum{"$kind sectors"} / $n };
        my $requests = ($sum{'load requests'} // 0) + ($sum{'store requests'} // 0) or next;
        my $name = ($launch->{of} ? "$launch->{of} " : '') . $launch->{kernel};
        printf "%-44s %22s %22s %10.1f %18s %12s\n", $name, $per->('load'), $per->('store'),
            (($sum{'load lanes'} // 0) + ($sum{'store lanes'} // 0)) / $requests, human($launch->{bytes_loaded} + $launch->{bytes_stored}),
            human($launch->{distinct_bytes_loaded} + $launch->{distinct_bytes_stored});
    }
}
