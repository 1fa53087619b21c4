# What layers ask for: multiply-adds, bytes, and FLOPs per byte, by the formulas of docs/convolution.md (problem_macs and problem_bytes in
# common/conv/problem.c). A Markdown table. usage: awk -f scripts/intensity.awk
function row(name, N, C, H, K, R, P, groups,    macs, elements) {
  macs = N * K * P * P * (C / groups) * R * R
  elements = N * C * H * H + K * (C / groups) * R * R + N * K * P * P
  printf "| %s | %.4g | %.3g | %.3g | %.3g |\n", name, macs / 1e9, 4 * elements / 1e6, 2 * macs / (4 * elements), 2 * macs / (2 * elements)
}
BEGIN {
  print "| layer | 10^9 multiply-adds | MB in fp32 | FLOP/B fp32 | FLOP/B fp16 |"
  print "|---|--:|--:|--:|--:|"
  row("3x3, 64 → 128 channels, 56 x 56, 16 images", 16, 64, 56, 128, 3, 56, 1)
  row("1x1, 64 → 128 channels, 56 x 56, 16 images", 16, 64, 56, 128, 1, 56, 1)
  row("3x3, 256 → 256 channels, 14 x 14, 16 images", 16, 256, 14, 256, 3, 14, 1)
  row("7x7, 3 → 64 channels, stride 2, 224 x 224, 16 images", 16, 3, 224, 64, 7, 112, 1)
  row("3x3 depthwise, 128 channels, 56 x 56, 16 images", 16, 128, 56, 128, 3, 56, 128)
  row("5x5, one channel, one filter, 4000 x 4000", 1, 1, 4000, 1, 5, 4000, 1)
}
