# What the checker says to the kernels of tests/check_cases.cu: nothing to the right ones, the defect and its line to the others.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
program=build/check/tests/check_cases

silent "$log" 'right kernels' '0 1 2 3 4 5' $program

# report CASE KIND LINE TEXT: of the kernel's one defect, at the line that contains LINE; the report contains TEXT.
report() {
  local line
  line=$(grep -nF -- "$3" tests/check_cases.cu | head -n 1 | cut -d: -f1)
  $program "$1" >"$log" 2>&1
  [ $? -eq 1 ] && grep "^emulator check: $2: $1<true>, tests/check_cases.cu:$line, " "$log" | grep -qF -- "$4"
  ok $? "$1: $(grep -m 1 "^emulator check: $2" "$log")"
}
report shared_halves race 'line[WRONG ? threadIdx.x / 2' 'shared __half [64] line, byte 0'
report global_halves block-race '((__half *)y)[(WRONG' 'thread (0,0,0) wrote it at tests/check_cases.cu'
report word_and_half block-race 'blockIdx.x == 0 ? (void)(y[i]' 'allocation 1, byte '
report shared_four_read race '((float4 *)y)[threadIdx.x] = line' 'float4 [16] line, byte 140'
report shared_four_written race 'line[threadIdx.x - 32] = make' 'float4 [16] line, byte 140'
report copied_whole out-of-bounds 'memcpy(y + (WRONG' 'allocation 1, byte 16384 (its end is at 16384), 4-byte write'
report copied_early race 'line[threadIdx.x] = 2.5f' 'read it at tests/check_cases.cu'
report again uninitialised 'const float before = y' 'allocation 3, byte 0'
report shared_bytes uninitialised '(const unsigned *)&bytes' 'shared unsigned char [128] bytes, byte 69'
report last_block block-race 'y[0] = y[1 +' 'allocation 1, byte '
report device_variable block-race 'total += 1' 'total, byte 0'
report global_neighbour race 'y[64 + threadIdx.x + 128' 'wrote it at tests/check_cases.cu'
report global_twice race 'y[threadIdx.x - 32] = 2' 'wrote it at tests/check_cases.cu'
report local_memory host-pointer 'static __device__ float pick' 'local memory of another thread'
report constant out-of-bounds 'sum += filter[i]' "index 25 of an array of type 'float [25]'"
report row_end out-of-bounds 'sum += tile[1][threadIdx.x % 16 + i]' "index 17 of an array of type 'float [17]'"
report atomics race 'atomicAdd(&sum, 1)' 'read it at tests/check_cases.cu:'
report atomics_early race 'atomicAdd(&sum, 2)' 'wrote it at tests/check_cases.cu:'
report global_sum race 'y[blockIdx.x + 64] = (float)' 'atomically changed it at tests/check_cases.cu:'
report global_sum_early race 'atomicAdd(sum, 2' 'wrote it at tests/check_cases.cu:'
report global_sum_of_all block-race 'atomicAdd(sum, 3' 'wrote it at tests/check_cases.cu:'
report named_barrier race 'line[threadIdx.x] = 1;' 'thread (32,0,0) read it at'
report matrix_row race 'ptx_ldmatrix_x4_trans(d' 'wrote it at tests/check_cases.cu:'
report copied race 'ptx_cp_async<16>(' 'wrote it at tests/check_cases.cu:'
report parts out-of-bounds '% (WRONG ? 33 : 32)];' 'shared float [] dynamic, byte 384 (its end is at 384)'
report vector_tail out-of-bounds '4096 / 4 - 63' 'allocation 1, byte 16384 (its end is at 16384), 16-byte write'
report freed out-of-bounds 'DEFECT(freed)' 'write'
report pinned uninitialised 'DEFECT(pinned)' 'allocation 1, byte 0'
$program copies >"$log" 2>&1
ok $? 'copies that leave an array are errors'
for text in 'cudaMemcpy: 100 bytes from x, byte 4: expected at most 96' 'cudaMemcpy: 104 bytes to x, byte 0: expected at most 100' \
  'cudaMemcpyToSymbol: 100 bytes from x, byte 20: expected at most 80' 'cudaMemcpyFromSymbol: 100 bytes to y, byte 32: expected at most 72'; do
  grep -qF "emulator: $text" "$log"
  ok $? "... and are told: $text"
done
for case in atomics_early global_sum_early; do
  for seed in 1 2 3 4 5; do EMU_SEED=$seed $program $case 2>&1 | grep -q '^emulator check: race: ' || break; done
  ok $? "$case: in other orders, too"
done
done_testing
