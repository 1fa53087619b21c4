# The tables of docs/gpu.md: predictions beside what `make calibrate` measured. usage: awk -f scripts/gpu_tables.awk -v table=NAME CALIBRATE.csv
# NAME: levels, stride, little, chains, banks, tensor; the names of single numbers are at the end. -v kernel=NAME -v counts=COUNTS.csv for two of them.
BEGIN { FS = "," }
FNR > 1 { sub(/^[a-z]+=/, "", $6); value[$5, $6] = $7; clock[$5, $6] = $11; power[$5, $6] = $12 }
function v(name, parameter) {
  if (!((name, parameter) in value)) { print "gpu_tables.awk: expected a row " name " " parameter > "/dev/stderr"; failed = 1; exit 2 }
  return value[name, parameter]
}
# Sectors of L1 for every multiply-add of a warp, which loads two factors. COUNTS: docs/results/<gpu>/counts.csv.
function sectors(kernel,    line, field, count) {
  while ((getline line < counts) > 0) {
    split(line, field, ",")
    if (field[1] == kernel) count[field[2]] = field[3]
  }
  close(counts)
  return 2 * count["global load sectors"] / count["global load requests"]
}
function digits3(x) { return x >= 99.95 ? sprintf("%.0f", x) : sprintf("%.3g", x) }
function least(a, b) { return a < b ? a : b }
function tensor_row(data, run,    share) {
  share = v("fp16_wgmma", run) / (sms * 4096 * clock["fp16_wgmma", run] * 1e-6)
  return sprintf("| `wgmma` | %s, for seconds | %.0f | %d | %.0f %% | %d |", data, v("fp16_wgmma", run), clock["fp16_wgmma", run], 100 * share, power["fp16_wgmma", run])
}
function latency(what) { return sprintf("%.0f clocks, %s ns", v("clocks_" what, ""), digits3(v("latency_" what, ""))) }
END {
  if (failed) exit 2
  sms = v("device_sms", ""); dram = v("latency_dram", ""); peak = sms * 256 * v("device_clock", "") * 1e-6
  if (table == "levels") {
    print "| where | how much of it | all of the chip, measured | one dependent step, measured |\n|---|---|--:|--:|"
    printf "| multiply-adds in registers | %d KiB of registers an SM | %.1f TFLOP/s in fp32 | %s |\n", v("device_registers", ""), v("fp32_fma", ""), latency("fma")
    printf "| shared memory | up to %d KiB an SM | %.1f TB/s | %s |\n", v("device_shared", ""), v("read_shared", 1) / 1e3, latency("shared")
    printf "| L1 cache | what shared memory leaves | the same wires | %s |\n", latency("l1")
    printf "| L2 cache | %d MiB | %.2f TB/s | %s |\n", v("device_l2", ""), v("read_l2", "") / 1e3, latency("l2")
    printf "| DRAM | the rest | read %.2f, copy %.2f TB/s | %s |\n", v("read", "") / 1e3, v("copy", "") / 1e3, latency("dram")
  } else if (table == "stride") {
    print "| stride in floats | sectors of a request | share of them used | predicted, GB/s | measured, GB/s |\n|--:|--:|--:|--:|--:|"
    for (s = 1; s <= 32; s *= 2)
      printf "| %d | %d | %.4g %% | %s | %s |\n", s, least(4 * s, 32), 100 / least(s, 8), digits3(v("read", "") / least(s, 8)), digits3(v("read_stride", s))
  } else if (table == "little") {
    print "| warps in each SM | bytes on their way in each SM | Little's law, GB/s | measured, GB/s |\n|--:|--:|--:|--:|"
    for (w = 1; w <= v("device_warps", ""); w *= 2)
      printf "| %d | %d | %s | %s |\n", w, w * 512, digits3(least(2 * sms * w * 512 / dram, v("copy", ""))), digits3(v("copy_16_bytes", w))
  } else if (table == "chains") {
    print "| warps in each SM | 1 chain: predicted | measured | 4 chains: predicted | measured, TFLOP/s |\n|--:|--:|--:|--:|--:|"
    for (w = 1; w <= v("device_warps", ""); w *= 2)
      printf "| %d | %s | %s | %s | %s |\n", w, digits3(least(sms * w * 64 / v("latency_fma", "") / 1e3, peak)), digits3(v("fma_1_chain", w)),
        digits3(least(sms * w * 256 / v("latency_fma", "") / 1e3, peak)), digits3(v("fma_4_chains", w))
  } else if (table == "banks") {
    print "| words a bank must serve | predicted, TB/s | measured, TB/s |\n|--:|--:|--:|"
    for (w = 1; w <= 32; w *= 2) printf "| %d | %s | %s |\n", w, digits3(sms * 128 * v("device_clock", "") * 1e-6 / w), digits3(v("read_shared", w) / 1e3)
  } else if (table == "tensor") {
    print "| instruction | data | TFLOP/s | clock, MHz | of 4096 FLOPs a clock and SM | power, W |\n|---|---|--:|--:|--:|--:|"
    printf "| `mma.sync` | random, for a tenth of a second | %.0f | | | |\n", v("fp16_mma", "")
    printf "| `wgmma` | random, for a tenth of a second | %.0f | | | |\n", v("fp16_wgmma", "burst")
    print tensor_row("random", "sustained"); print tensor_row("zeros", "zeros")
  } else if (table == "little_kib") printf "%.1f", v("copy", "") / 2 * dram / sms / 1024     # KiB that must be on their way in each SM for the copy
  else if (table == "little_all") printf "%.0f", v("copy", "") / 2 * dram / 1024             # in the whole chip
  else if (table == "little_warps") printf "%.0f", v("copy", "") / 2 * dram / sms / 512      # warps of one 16-byte load a lane
  else if (table == "fma_in_latency") printf "%.0f", sms * 128 * v("clocks_dram", "") / 1e6  # millions of multiply-adds while one load is on its way
  else if (table == "cores") printf "%d", sms * 128
  else if (table == "peak32") printf "%.1f", peak
  else if (table == "peak16") printf "%.0f", 16 * peak
  else if (table == "peak_shared") printf "%.1f", sms * 128 * v("device_clock", "") * 1e-6
  else if (table == "ridge32") printf "%.0f", v("fp32_fma", "") * 1e3 / v("copy", "")
  else if (table == "ridge16") printf "%.0f", v("fp16_wgmma", "sustained") * 1e3 / v("copy", "")
  else if (table == "ridge_l1") printf "%.1f", v("fp32_fma", "") * 1e3 / v("read_shared", 1)
  else if (table == "sectors") printf "%.1f", sectors(kernel)
  else if (table == "l1_bound") printf "%.1f", v("read_shared", 1) / 1e3 * 64 / (sectors(kernel) * 32) # TFLOP/s, if L1 were all that counts
  else { print "gpu_tables.awk: expected -v table=NAME, got \"" table "\"" > "/dev/stderr"; exit 2 }
}
