# make calibrate: without a GPU it says so; on one, its figures are in the order that the hardware's are. And the committed figures hold together.
. tests/tap.inc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# figure FILE NAME [PARAMETER]: its value.
figure() { awk -F, -v name="$2" -v parameter="${3-}" '$5 == name && $6 == parameter { print $7 }' "$1"; }
# holds 'EXPRESSION' TEXT: arithmetic on figures; false if one is missing.
holds() {
  awk "BEGIN { exit !($1) }" 2>/dev/null
  ok $? "$2"
  awk "BEGIN { exit !($1) }" 2>/dev/null || diag "$1"
}
# in_order FILE: what is true on every GPU.
in_order() {
  local file=$1
  holds "$(figure "$file" latency_shared) > 0 && $(figure "$file" latency_l1) > 0 && $(figure "$file" latency_l1) < $(figure "$file" latency_l2)" "$file: L1 answers before L2"
  holds "$(figure "$file" latency_l2) < $(figure "$file" latency_dram)" "$file: L2 answers before DRAM"
  holds "$(figure "$file" read_stride stride=1) > 4 * $(figure "$file" read_stride stride=8)" "$file: stride 1 reads more than four times what stride 8 does"
}

if ! nvidia-smi -L >/dev/null 2>&1 || [ "${B##*/}" = emu ]; then
  out=$("$B/tools/calibrate" --csv "$work/c.csv" 2>&1)
  ok "$([ $? -eq 2 ] && [ "$out" = "calibrate: needs a GPU" ] && [ ! -e "$work/c.csv" ] && echo 0 || echo 1)" "without a GPU: one line, exit status 2, nothing written"
else
  out=$("$B/tools/calibrate" --only nothing 2>&1 >/dev/null)
  ok "$([ $? -eq 2 ] && [ "$out" = '--only: expected the beginning of a figure'"'"'s name, got "nothing"' ] && echo 0 || echo 1)" "$out"
  "$B/tools/calibrate" --only latency --csv "$work/latency.csv" >"$work/log" 2>&1 && "$B/tools/calibrate" --only read_stride --csv "$work/stride.csv" >>"$work/log" 2>&1
  ok $? "latencies and strides are measured, and every kernel's result is right"
  cat "$work/latency.csv" "$work/stride.csv" >"$work/both.csv"
  in_order "$work/both.csv"
fi

for file in docs/results/*/calibrate.csv; do
  odd=$(awk -F, 'NR == 1 { columns = NF; next } NF != columns || seen[$5, $6]++ || $7 + 0 <= 0' "$file")
  [ -z "$odd" ]
  ok $? "$file: every row has all columns and a positive value, no figure occurs twice"
  [ -z "$odd" ] || diag "$odd"
  in_order "$file"
  # SMs x 128 units x 2 x the highest clock; in GB/s SMs x 32 banks x 4 bytes x clock. A hundredth for the clock's own error.
  holds "$(figure "$file" fp32_fma) < 1.01e-6 * $(figure "$file" device_sms) * 256 * $(figure "$file" device_clock)" "$file: no more multiply-adds than the units can do"
  holds "$(figure "$file" read_shared ways=1) < 1.01e-3 * $(figure "$file" device_sms) * 128 * $(figure "$file" device_clock)" "$file: no more bytes of shared memory than the banks can give"
done
done_testing
