# make profile, make sass: what their scripts read, choose and print, on made-up input; and one line where a tool is missing.
. tests/tap.inc
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# same TEXT FILE: stdin is what FILE must hold.
same() {
  local difference
  difference=$(diff - "$2")
  ok $? "$1"
  [ -z "$difference" ] || diag "$difference"
}
# refused MESSAGE COMMAND...: status 2, that line.
refused() {
  local want=$1 out
  shift
  out=$("$@" 2>&1)
  ok "$([ $? -eq 2 ] && [ "$out" = "$want" ] && echo 0 || echo 1)" "$want"
  [ "$out" = "$want" ] || diag "$out"
}

# ---------------------------------------------------------------- sass: a loop within a loop, a cold block behind the end that goes back in
cat >"$folder/sass" <<'END'
	code for sm_90a
		Function : _Z5fpropPf
        /*0000*/                   MOV R1, RZ ;                 /* 0x0 */
        /*0010*/              @P0 EXIT ;                        /* 0x0 */
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;   /* 0x0 */
        /*0030*/                   LDS.64 R8, [R9] ;            /* 0x0 */
        /*0040*/                   FFMA R5, R4, R8, R5 ;        /* 0x0 */
        /*0050*/                   FFMA R6, R4, R8, R6 ;        /* 0x0 */
        /*0060*/                   IMAD.MOV.U32 R7, RZ, RZ, R6 ;/* 0x0 */
        /*0070*/              @P2 BRA 0xc0 ;                    /* 0x0 */
        /*0080*/              @!P1 BRA 0x30 ;                   /* 0x0 */
        /*0090*/              @P3 BRA 0x20 ;                    /* 0x0 */
        /*00a0*/                   STG.E desc[UR4][R2.64], R5 ; /* 0x0 */
        /*00b0*/                   EXIT ;                       /* 0x0 */
        /*00c0*/                   FADD R6, R6, R7 ;            /* 0x0 */
        /*00d0*/                   BRA 0x80 ;                   /* 0x0 */
        /*00e0*/                   BRA 0xe0;                    /* 0x0 */
        /*00f0*/                   NOP;                         /* 0x0 */
		Function : _Z5wgradPf
        /*0000*/                   EXIT ;                       /* 0x0 */
END
scripts/sass.pl 09a fprop <"$folder/sass" >"$folder/out"
sed -i 's/09a _Z5fpropPf,/09a fprop,/' "$folder/out" # where c++filt is missing
same 'sass: loops, the hottest, its histogram, its block out of line' "$folder/out" <<'END'
09a fprop, sm_90a: 14 instructions, 2 loops
  loop 1  0020 to 00d0: 10 instructions, of them 2 FFMA, 1 FADD, 1 LDG.128, 1 LDS.64
  loop 2    0030 to 00d0: 8 instructions, of them 2 FFMA, 1 FADD, 1 LDS.64

  loop 2, the one with the most arithmetic of its own: 8 instructions, of them 2 FFMA, 1 FADD, 1 LDS.64
      3   38%  BRA        branch
      2   25%  FFMA       fp32 multiply-add
      1   12%  FADD       fp32 addition
      1   12%  IMAD.MOV   a register copied
      1   12%  LDS.64     load from shared memory, 8 bytes a lane

    0030  LDS.64 R8, [R9]
    0040  FFMA R5, R4, R8, R5
    0050  FFMA R6, R4, R8, R6
    0060  IMAD.MOV.U32 R7, RZ, RZ, R6
    0070  @P2 BRA 0xc0
    0080  @!P1 BRA 0x30
    ...
    00c0  FADD R6, R6, R7
    00d0  BRA 0x80
END
[ "$(scripts/sass.pl 09a '' 1 <"$folder/sass" | grep -c '^  loop 1: 10 instructions')" = 1 ] && [ "$(scripts/sass.pl 09a <"$folder/sass" | grep -c '^09a ')" = 2 ]
ok $? 'sass: another loop, another pass'
# Two instances of a template: products of four warps by their size, a loop that only waits, an instruction that no lane executes.
for size in 128 64; do cat <<END; done >"$folder/wgmma"
	code for sm_90a
		Function : tile<${size}>
        /*0000*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R4 ;
        /*0010*/              @!P0 BRA 0x90 ;
        /*0020*/                   WARPGROUP.ARRIVE ;
        /*0030*/              @!PT LDS RZ, [RZ] ;
        /*0040*/                   HGMMA.64x${size}x16.F32 R24, gdesc[UR16], R24 ;
        /*0050*/                   UTMALDG.4D.IM2COL [UR8], [UR30], UR18 ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0070*/              @P1 BRA 0x0 ;
        /*0080*/                   EXIT ;
        /*0090*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R4 ;
        /*00a0*/              @!P0 BRA 0x90 ;
        /*00b0*/                   BRA 0x20 ;
END
scripts/sass.pl 09b <"$folder/wgmma" >"$folder/out"
same 'sass: products by size, waits, TMA; one instance of a template, the others counted' "$folder/out" <<'END'
09b tile<128>, sm_90a: 12 instructions, 2 loops
  loop 1  0000 to 00b0: 11 instructions, of them 1 HGMMA.64x128x16, 1 UTMALDG.IM2COL
  loop 2    0090 to 00a0: 2 instructions: waits

  loop 1, the one with the most arithmetic of its own: 11 instructions, of them 1 HGMMA.64x128x16, 1 UTMALDG.IM2COL
      4   36%  BRA              branch
      2   18%  SYNCS.PHASECHK   mbarrier: is its phase over? (wait)
      1    9%  HGMMA.64x128x16  multiply-adds of four warps, factors in shared memory (tensor core, wgmma)
      1    9%  NOP              nothing
      1    9%  UTMALDG.IM2COL   pixels of windows copied to shared memory by the TMA (im2col mode)
      1    9%  WARPGROUP.ARRIVE wgmma may read the registers from here on (wgmma.fence)
      1    9%  WARPGROUP.DEPBAR wait for products (wgmma.wait_group)

    0000  SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R4
    0010  @!P0 BRA 0x90
    0020  WARPGROUP.ARRIVE
    0030  @!PT LDS RZ, [RZ]
    0040  HGMMA.64x128x16.F32 R24, gdesc[UR16], R24
    0050  UTMALDG.4D.IM2COL [UR8], [UR30], UR18
    0060  WARPGROUP.DEPBAR.LE gsb0, 0x0
    0070  @P1 BRA 0x0
    ...
    0090  SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R4
    00a0  @!P0 BRA 0x90
    00b0  BRA 0x20
09b tile<64>, sm_90a: 12 instructions, 2 loops; the hottest: 11, of them 1 HGMMA.64x64x16, 1 UTMALDG.IM2COL
END
[ "$(scripts/sass.pl 09b '' '' '<64>' <"$folder/wgmma" | grep -c '^    00')" = 11 ] && [ "$(scripts/sass.pl 09b '' 2 <"$folder/wgmma" | grep -c '^    00')" = 4 ]
ok $? 'sass: an instance by its name, a loop of all of them'
scripts/sass.pl 09a dgrad <"$folder/sass" >"$folder/out"
ok "$([ $? -eq 3 ] && [ ! -s "$folder/out" ] && echo 0 || echo 1)" "sass: no kernel of a pass"
out=$(echo rubbish | scripts/sass.pl 09a 2>&1)
ok "$([ $? -ne 0 ] && [ "$out" = '09a: expected what cuobjdump -sass prints, found no kernel in it' ] && echo 0 || echo 1)" "$out"
refused 'PASS: expected fprop, dgrad or wgrad, got "all"' scripts/sass.sh 02 all '' '' ''
NVCC='' refused 'sass-02: expected nvcc on PATH or in /usr/local/cuda/bin, found none' scripts/sass.sh 02 '' '' '' ''

# ---------------------------------------------------------------- profile: no GPU, bad arguments
refused 'profile-02: expected nvcc and an NVIDIA GPU, whose counters are read; without them, make count-02 counts memory requests' scripts/profile.sh build/emu 02 01 '' '' ''
refused 'PASS: expected fprop, dgrad or wgrad, got "all"' scripts/profile.sh build/cuda 02 01 all '' ''

# ---------------------------------------------------------------- profile: with an ncu and programs that only pretend
mkdir -p "$folder/bin" "$folder/build/cuda" "$folder/build/results"
cat >"$folder/bin/ncu" <<'END'
#!/usr/bin/env bash
if [ "$*" = --query-metrics ]; then
  printf 'Device NVIDIA X100\n----\nMetric Name  Metric Type  Metric Unit\nl1tex__m_xbar2l1tex_read_bytes  Counter  byte\n'
  exit
fi
while [ "$1" != --kernel-name ]; do shift; done
names=${2#regex:}
while [ "$1" != --metrics ]; do shift; done
metrics=$2
while [ "$1" != --log-file ]; do shift; done
file=$2 kernel='naive' sectors=16 time=2000
[[ "$*" == *'--kernel 02a'* ]] && kernel='tile<(int)64, (bool)1>' sectors=4.5 time=1,000
[[ "$*" == *'--pass dgrad'* ]] && echo '==ERROR== ERR_NVGPUCTRPERM - no permission' >"$file" && exit 1
# It knows one of the metrics that not every ncu knows, and refuses all others.
[[ "$metrics" == *lts__t_sectors_op_read.sum* ]] && echo '==ERROR== Failed to find metric lts__t_sectors_op_read.sum' >"$file" && exit 1
[[ "$metrics" == *,l1tex__m_xbar2l1tex_read_bytes.sum,* ]] && bytes=3000000 || bytes=0
shift 2
"$@"
stall=smsp__average_warps_issue_stalled_
cat >"$file" <<CSV
==PROF== Connected
"ID","Kernel Name","gpu__time_duration.sum","l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio","launch__registers_per_thread","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","l1tex__m_xbar2l1tex_read_bytes.sum","${stall}long_scoreboard_per_issue_active.ratio","${stall}selected_per_issue_active.ratio","${stall}wait_per_issue_active.ratio"
"","","ns","","register/thread","%","byte","warp","warp","warp"
CSV
# The launches whose names it was asked for: what the harness launches is not.
perl -ne 'BEGIN { $names = shift } my ($name) = /^"\d+","(?:void )?(\w+)/; print if $name =~ /$names/' "$names" >>"$file" <<CSV
"0","reference_kernel(conv_problem, conv_pass)","5","1","1","0","7","1","1","1"
"1","void $kernel(conv_problem, const float *)","$time","$sectors","32","0","$bytes","8.5","1","0.5"
"2","data_kernel(conv_tensor)","5","1","1","0","7","1","1","1"
"3","void pointwise_kernel<float>(int)","5","1","1","0","7","1","1","1"
CSV
END
cat >"$folder/build/cuda/01" <<'END'
#!/usr/bin/env bash
step=${0##*/}
[ "$1" = --help ] && printf 'options\nkernels:\n  %sa  fprop  fp32 NCHW  idea\n  %sa  dgrad  fp32 NCHW  idea\ndefault shape: mb1ic1ih4oc1kh3\n' "$step" "$step" && exit
[[ "$*" == *ic7* ]] && echo "  SKIP ${step}a: C % 8 != 0"
exit 0
END
printf '#!/bin/sh\necho "NVIDIA X100, 600.1"\n' >"$folder/bin/nvidia-smi"
printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.1"\n' >"$folder/bin/nvcc"
cp "$folder/build/cuda/01" "$folder/build/cuda/02"
chmod +x "$folder"/bin/* "$folder"/build/cuda/*
scripts=$PWD/scripts
profile() { (cd "$folder" && PATH="$folder/bin:$PATH" NVCC=nvcc "$scripts/profile.sh" build/cuda "$@"); }

profile 02 01 '' '' '' | grep -v '^One launch' >"$folder/out"
same 'profile: beside the step before, units, factors, states' "$folder/out" <<'END'
fprop of mb1ic1ih4oc1kh3 on NVIDIA X100

                                         01a   02a  02a / 01a

time
  duration, us                           2.0   1.0      0.50x

global memory
  read from L2, MB                       3.0   3.0
  sectors per load                     16.00  4.50      0.28x

occupancy
  registers per thread                    32    32

where a warp's time goes
  waits for global or local memory, %   85.0  85.0
  issues an instruction, %              10.0  10.0

0 in every column: tensor cores

01a  naive
02a  tile<64, 1>

END
cp "$folder/build/results/profile-02-fprop.csv" "$folder/02.csv"
csv=$folder/02.csv
ok "$([ "$(head -n 1 "$csv")" = 'kernel,pass,shape,metric,value,unit,launch,gpu,driver,cuda,date' ] &&
  grep -qE '^02a,fprop,mb1ic1ih4oc1kh3,duration,1,us,"tile<64, 1>","NVIDIA X100",600.1,13.0,20[-0-9T:]+Z$' "$csv" && ! grep -q reference "$csv" && echo 0 || echo 1)" 'profile: CSV'
ok "$(profile 02 none '' 02a mb2ic1ih4oc1kh3 | grep -q 01a && echo 1 || echo 0)" 'profile: against none'
refused 'KERNEL: expected a kernel of step 02 that does fprop (02a), got "02z"' profile 02 01 fprop 02z ''
refused 'AGAINST: expected a kernel that does fprop (01a), got "01c"' profile 02 01c fprop '' ''
refused 'AGAINST: expected a kernel such as 01a, a step, or none, got "09a"' profile 02 09a fprop '' ''
refused 'PASS: expected a pass that step 02 has a kernel for, got wgrad' profile 02 01 wgrad '' ''
refused "ncu: expected permission to read the GPU's counters: run as root, or see https://developer.nvidia.com/ERR_NVGPUCTRPERM" profile 02 01 dgrad '' ''
profile 02 01 '' '' mb1ic7ih4oc1kh3 >"$folder/out" 2>&1
ok "$([ $? -eq 2 ] && [ "$(tail -n 1 "$folder/out")" = 'SHAPE: expected one that a kernel of step 02 does, got mb1ic7ih4oc1kh3' ] && grep -qx '02a: C % 8 != 0' "$folder/out" && echo 0 || echo 1)" 'profile: a shape that no kernel does'
out=$("$scripts/profile_table.pl" tests/profile.sh 2>&1)
ok "$([ $? -ne 0 ] && [[ $out == 'tests/profile.sh: expected a profile (kernel,pass,'* ]] && echo 0 || echo 1)" 'profile: a table of something else'

# By their names profile.sh leaves out what the harness launches; so a step's kernels have other ones.
harness=$(grep -ohE '\w+_kernel(<[^;<]*>)?<<<' common/{conv,harness}/*.cu | sed 's/<.*//' | sort -u)
both=$(comm -12 <(echo "$harness") <(grep -ohE '\w+_kernel\b' [0-9][0-9]_*/*.cu [0-9][0-9]_*/*.cuh | sort -u))
ok "$([ -n "$harness" ] && [ -z "$both" ] && echo 0 || echo 1)" 'no kernel of a step is called as one of the harness' || diag "$both"

# Every committed profile prints, and holds what the chapters quote.
for file in docs/results/*/profile-*.csv; do
  [ -e "$file" ] || continue
  "$scripts/profile_table.pl" "$file" | grep -q '^  duration, us  *[0-9]'
  ok $? "$file prints"
done
done_testing
