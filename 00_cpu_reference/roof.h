/* What the processor could do at best: the two lines of its roofline, measured. */
#pragma once

typedef struct {
  double fma_flops;               /* fp32 FLOP/s of all threads together, fused multiply-adds in registers only */
  double memory_bytes_per_second; /* a copy between arrays in memory: bytes read plus bytes written */
  int threads;
} cpu_roof;

/* Takes about half a second, and 128 MiB or more: four last-level caches, 16 MiB a thread, an eighth of the machine's memory at most. */
cpu_roof cpu_measure_roof(void);
