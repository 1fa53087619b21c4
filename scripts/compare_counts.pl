#!/usr/bin/env perl
# Joins the emulator's counts (NAME.json, of EMU_COUNT_JSON) with ncu's CSV for the same program (NAME.ncu), launch by launch in order.
# Prints CSV: kernel, metric, emulator, gpu, ratio. Only metrics that are not 0 on both sides.
use strict;
use warnings;
use JSON::PP;
use Text::ParseWords qw(parse_line);

my %metric = (
    'l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum'          => 'global load requests',
    'l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum'           => 'global load sectors',
    'l1tex__t_requests_pipe_lsu_mem_global_op_st.sum'          => 'global store requests',
    'l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum'           => 'global store sectors',
    'smsp__sass_inst_executed_op_shared_ld.sum'                => 'shared load requests',
    'l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum'     => 'shared load wavefronts',
    'smsp__sass_inst_executed_op_shared_st.sum'                => 'shared store requests',
    'l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum'     => 'shared store wavefronts',
);
my @order = (
    'global load requests', 'global load sectors', 'global store requests', 'global store sectors',
    'shared load requests', 'shared load wavefronts', 'shared store requests', 'shared store wavefronts',
);

# ncu's launches in the order of their IDs: [name, {metric => value}].
sub gpu_launches {
    my ($path) = @_;
    my (@launches, @names, %column);
    open my $file, '<', $path or die "$path: $!\n";
    while (my $line = <$file>) {
        next unless $line =~ /^"/;
        chomp $line;
        my @field = parse_line(',', 0, $line);
        if ($field[0] eq 'ID') {
            @column{@field} = 0 .. $#field;
            next;
        }
        my $name = $metric{ $field[ $column{'Metric Name'} ] } or next;
        (my $value = $field[ $column{'Metric Value'} ]) =~ s/,//g;
        my $launch = $launches[ $field[ $column{'ID'} ] ] //= [$field[ $column{'Kernel Name'} ], {}];
        $launch->[1]{$name} = $value;
    }
    return grep { defined } @launches;
}

sub emulator_launches {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!\n";
    local $/;
    my @launches;
    for my $launch (@{ decode_json(<$file>) }) {
        my %sum;
        for my $i (@{ $launch->{instructions} }) {
            my $key = "$i->{space} $i->{kind}";
            $sum{"$key requests"} += $i->{requests};
            $sum{"$key sectors"} += $i->{sectors};
            $sum{"$key wavefronts"} += $i->{wavefronts};
        }
        push @launches, [$launch->{kernel}, \%sum];
    }
    return @launches;
}

print "kernel,metric,emulator,gpu,ratio\n";
for my $json (@ARGV) {
    (my $ncu = $json) =~ s/json$/ncu/;
    my @emulated = emulator_launches($json);
    my @gpu = gpu_launches($ncu);
    die "$json has " . @emulated . " launches, $ncu " . @gpu . "\n" unless @emulated == @gpu;
    for my $i (0 .. $#gpu) {
        my ($name, $counted) = @{ $emulated[$i] };
        (my $plain = $name) =~ s/.*:://;
        (my $base = $plain) =~ s/<.*//;
        die "$json: launch $i is $name, on the GPU it is $gpu[$i][0]\n" if index($gpu[$i][0], $base) < 0;
        $plain =~ tr/,/ /;
        for my $metric (@order) {
            my ($mine, $theirs) = ($counted->{$metric} // 0, $gpu[$i][1]{$metric} // 0);
            next unless $mine || $theirs;
            printf "%s,%s,%d,%d,%s\n", $plain, $metric, $mine, $theirs, $theirs ? sprintf('%.3f', $mine / $theirs) : '';
        }
    }
}
