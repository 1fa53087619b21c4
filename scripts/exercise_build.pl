# The builds of a reader's file, for scripts/exercise.pl.
use strict;
use warnings;
use POSIX ();

our ($file, $folder, @warnings);

# A counter in front of every division, or multiplication of floats, or conditional branch, of an assembly, as far as the compiler has left any: of integers by a constant it knows
# better ways, as nvcc does. A division spoils the flags; the others keep them, and so does the counter.
my $divides = qr/(?:fmodf?|remainderf?|remquof?|powf?|l?l?div|__u?(?:div|mod|divmod)ti[34])\b/; # calls
my %marks = (
    'x86_64'  => {divisions => qr/^\s*(?:(?:i?div[bwlq]|v?divs[sd])\s|(?:call|jmp)\s+$divides)/, multiplications => qr/^\s*(?:v?muls[sd]|vfn?m(?:add|sub)\d+s[sd]|(?:call|jmp)\s+fmaf?\b)/, branches => qr/^\s*j(?!mp)/},
    'aarch64' => {divisions => qr/^\s*(?:[sfu]div\s|bl?\s+$divides)/, multiplications => qr/^\s*fn?m(?:ul|add|sub)\s+[sd]\d/, branches => qr/^\s*(?:b\.|[ct]bn?z\s)/},
);
my %counter = (
    'x86_64'  => join('', map { "\t$_\n" } 'pushq %rax', 'movq exercise_arithmetic(%rip), %rax', 'leaq 1(%rax), %rax', 'movq %rax, exercise_arithmetic(%rip)', 'popq %rax'),
    'aarch64' => join('', map { "\t$_\n" } 'stp x16, x17, [sp, #-16]!', 'adrp x16, exercise_arithmetic', 'ldr x17, [x16, #:lo12:exercise_arithmetic]', 'add x17, x17, 1',
        'str x17, [x16, #:lo12:exercise_arithmetic]', 'ldp x16, x17, [sp], #16'),
);
my $machine = (POSIX::uname())[4];
sub arithmetic_counter { my ($what) = @_; return $counter{$machine} && $marks{$machine}{$what} }

my @beside;

# The reader's file as C++, and the headers beside it that it includes. Returns what shell() does. nvcc takes kernels' parameters that are references, too, but
# no GPU can read them.
sub rewrite {
    my $beside = $file =~ m{^(.*)/} ? $1 : '.';
    @beside = ('-iquote', "$beside/");
    mkdir "$folder/source";
    my (%seen, @said);
    for (my @left = ([$file, 'source.cpp']); @left;) {
        my ($from, $to) = @{ shift @left };
        @said = shell($ENV{REWRITE}, $from, "$folder/source/$to");
        return @said if $said[0];
        my $code = slurp($from) =~ s{//.*|/\*.*?\*/}{ $& =~ tr/\n//cdr }gesr;
        return (1, '', "$from:" . (1 + ($` =~ tr/\n//)) . ": a kernel's parameter is a reference, expected a value: what lies on the host is out of a GPU's reach")
            if $code =~ /\b__global__[^;{}]*&[^;{}]*\)\s*[;{]/;
        push @left, map { ["$beside/$_", $_] } grep { -f "$beside/$_" && !$seen{$_}++ } slurp($from) =~ m{^\s*#\s*include\s*"([^"/]+)"}mg;
    }
    return @said;
}

# Optimized, but every multiplication by itself.
sub compile_marked {
    my ($what) = @_;
    my $plain = '-O2 -S -fno-tree-vectorize -ffp-contract=off' . ($machine eq 'x86_64' ? ' -mno-red-zone' : '');
    my ($status, @said) = shell("$ENV{COMPILE_RUN} $plain", @beside, "$folder/source/source.cpp", '-o', "$folder/plain.s");
    open my $out, '>', "$folder/marked.s" or die;
    print $out $_ =~ $marks{$machine}{$what} ? $counter{$machine} : '', "$_\n" for split /\n/, slurp("$folder/plain.s");
    close $out;
    return $status ? ($status, @said) : shell("$ENV{COMPILE_RUN}", "$folder/marked.s", '-o', "$folder/$what.o");
}

# What the compiler for GPUs says of a file that the emulator takes: a function that should be __device__ is one there anyway.
sub ask_nvcc {
    return print "  --    there is no nvcc here: whether a GPU's compiler takes the file is not known\n" unless $ENV{COMPILE_NVCC};
    my ($status, $out, $err) = shell($ENV{COMPILE_NVCC}, $file, '-o', "$folder/cubin");
    my @lines = grep { /\S/ } split /\n/, "$out$err";
    if ($status) { check(0, 'nvcc compiles it', splice @lines, 0, 6) }
    else { print "  --    nvcc: $_\n" for splice @lines, 0, 6 }
}

# Compiles the reader's file for one of the builds. Ends the grading if it cannot be compiled.
sub build {
    my ($mode, $main) = @_;
    my ($status, $out, $err) = rewrite();
    my $compiler = $ENV{ 'COMPILE_' . uc($mode eq 'waits' ? 'run' : $mode) };
    my $rewritten = $status == 0;
    ($status, $out, $err) = $compiler ? shell($compiler, @beside, "$folder/source/source.cpp", '-o', "$folder/$mode.o") : compile_marked($mode) if $rewritten;
    if ($status) {
        (my $again, $out, $err) = shell("$compiler -w", @beside, "$folder/source/source.cpp", '-o', "$folder/$mode.o") if $compiler && $rewritten; # errors alone
        my @lines = grep { !/^At global scope:$|note: unrecognized command-line option/ } split /\n/, $err;
        print "  $_\n" for splice @lines, 0, 20;
        print '  ... ', scalar @lines, " more lines\n" if @lines;
        my $chosen = $err =~ /no match(?:es|ing)? converting function|couldn't infer template argument|no match(?:ing function)? for call to .*emu_pending_launch/;
        print "  --    by a launch nothing is deduced here, and no default filled in: expected kernel<its, arguments><<<...>>>(every argument), docs/emulator.md\n" if $chosen;
        finish("$file does not compile");
    }
    @warnings = grep { /^\Q$file\E:\d+:.*warning: / } split /\n/, $err;
    my @wrapped = $mode eq 'waits' ? ("$ENV{B}/common/exercise/waits.c.o", map { "-Wl,--wrap=$_" } qw(emu_barrier_wait emu_mbarrier_wait emu_cluster_wait emu_cp_async_wait)) : ();
    ($status, $out, $err) = shell($ENV{LINK_PROGRAM}, '-o', "$folder/$mode", "$folder/$mode.o", $main, @wrapped, "$ENV{B}/libharness.a", qw(-lm -ldl -lpthread));
    return "$folder/$mode" if $status == 0;
    my %missing = map { $_ => 1 } $err =~ /undefined reference to [`']([^'(]+)/g;
    finish("$file: expected a definition of " . join(', ', sort keys %missing) . ', found none (the exercise\'s file shows it)') if %missing;
    print $err;
    finish("$file cannot be linked");
}
1;
