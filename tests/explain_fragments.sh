# explain_descriptor and explain_fragment: worked questions, and what they refuse.
. tests/tap.inc
answers() { # WANTED TOOL ARGUMENTS...
  local want=$1 out
  shift
  out=$("$B/tools/$1" "${@:2}" 2>&1)
  [ $? -eq 0 ] && [ "$out" = "$want" ]
  ok $? "$*" || diag "got" "$out"
}
says() { # WORDS TOOL ARGUMENTS...
  local want=$1 out
  shift
  out=$("$B/tools/$1" "${@:2}" 2>&1)
  [ $? -eq 0 ] && grep -qF -- "$want" <<<"$out"
  ok $? "$*: $want" || diag "got" "$out"
}
refused() { # LINE TOOL ARGUMENTS...
  local want=$1 out
  shift
  out=$("$B/tools/$1" "${@:2}" 2>&1)
  [ $? -eq 2 ] && [ "$out" = "$want" ]
  ok $? "refused: $want" || diag "got $out"
}

# A window that slides: one row of pixels further, the second 16 channels of 64.
answers 'descriptor 0x400000400000004a, K-major, 16 rows x 16 k of halves

  bits   field        value   bytes  meaning
   0-13  start           74    1184  shared address 0x004a0
  16-29  LBO              0       0  not used: K-major with a swizzle
  32-45  SBO             64    1024  from 8 rows to the next 8 rows
  49-51  base offset      0
  62-63  swizzle          1     128  each run of 128 bytes has its pieces of 16 bytes permuted

A piece is 16 bytes: k 0..7 or k 8..15 of one row. A row is 128 bytes long in memory, 64 k of which
a product takes 16, and 8 rows follow each other: 1024 bytes.
Swizzle: bits 7-9 of an address, XORed into its bits 4-6.

Where the pieces lie:
    row    k 0..7   k 8..15
      0   0x004b0   0x004a0
      1   0x00500   0x00510
      2   0x00590   0x00580
      3   0x00660   0x00670
      4   0x006f0   0x006e0
      5   0x00740   0x00750
      6   0x007d0   0x007c0
      7   0x00820   0x00830
      8   0x008b0   0x008a0
      9   0x00900   0x00910
  and so on to row 15

What lies there: 128 bytes a line, 16 a cell; r3k8 is row 3, k 8..15; + is more than one; . is none
               +0       +16      +32      +48      +64      +80      +96      +112
  0x00480        .        .     r0k8     r0k0        .        .        .        .
  0x00500     r1k0     r1k8        .        .        .        .        .        .
  0x00580     r2k8     r2k0        .        .        .        .        .        .
  0x00600        .        .        .        .        .        .     r3k0     r3k8
  0x00680        .        .        .        .        .        .     r4k8     r4k0
  0x00700        .        .        .        .     r5k0     r5k8        .        .
  0x00780        .        .        .        .     r6k8     r6k0        .        .
  0x00800        .        .     r7k0     r7k8        .        .        .        .
  0x00880        .        .     r8k8     r8k0        .        .        .        .
  0x00900     r9k0     r9k8        .        .        .        .        .        .
  0x00980    r10k8    r10k0        .        .        .        .        .        .
  0x00a00        .        .        .        .        .        .    r11k0    r11k8
  and so on to 0x00c00

Element row 9, k 11:
      start                             1184
    + row / 8  =   1  x   1024 SBO  =    1024
    + row % 8  =   1  x    128      =     128
    + k / 8    =   1  x     16      =      16
    + k % 8    =   3  x      2      =       6
    =                                   2358 = 0x00936
    swizzle: its bits 7-9 hold 2, XORed into bits 4-6: 0x00916

note: start is 1 run of 128 bytes past a multiple of 1024. Right for a window that slides
      over a tile which itself begins at such a multiple; wrong if the data was laid out
      and swizzled from this start on.
The start is 32 bytes into a run: k 16..31 of the 64 in it.
The shared memory it reads: 0x004a0 to 0x00c3f.' explain_descriptor start=1184 sbo=1024 swizzle=128 rows=16 row=9 k=11

answers 'b of mma.m16n8k16: 16 x 8 halves, 2 registers in each of 32 lanes
T5 b0: lane 5, register b0: two halves, the first in its low 16 bits.

  k \ column         0         1         2         3         4         5         6         7
         0,1     T0 b0     T4 b0     T8 b0    T12 b0    T16 b0    T20 b0    T24 b0    T28 b0
         2,3     T1 b0     T5 b0     T9 b0    T13 b0    T17 b0    T21 b0    T25 b0    T29 b0
         4,5     T2 b0     T6 b0    T10 b0    T14 b0    T18 b0    T22 b0    T26 b0    T30 b0
         6,7     T3 b0     T7 b0    T11 b0    T15 b0    T19 b0    T23 b0    T27 b0    T31 b0
         8,9     T0 b1     T4 b1     T8 b1    T12 b1    T16 b1    T20 b1    T24 b1    T28 b1
       10,11     T1 b1     T5 b1     T9 b1    T13 b1    T17 b1    T21 b1    T25 b1    T29 b1
       12,13     T2 b1     T6 b1    T10 b1    T14 b1    T18 b1    T22 b1    T26 b1    T30 b1
       14,15     T3 b1     T7 b1    T11 b1    T15 b1    T19 b1    T23 b1    T27 b1    T31 b1

With g = T / 4 and t = T % 4, b<i> holds k = 2t + 8i and the next k, column g.' explain_fragment mma-b
answers 'd of wgmma.m64nNk16, thread 37 (g = 1, t = 1, warp 1):
  d0    row 17, column  2
  d1    row 17, column  3
  d2    row 25, column  2
  d3    row 25, column  3
  d4    row 17, column 10
  d5    row 17, column 11
  d6    row 25, column 10
  d7    row 25, column 11' explain_fragment wgmma-d n=16 lane=37

# The drawings of the PTX manual.
says 'row 9, k 3 is in lane 5, register a1, its high half' explain_fragment mma-a row=9 k=3
says 'k 11, column 5 is in lane 21, register b1, its high half' explain_fragment mma-b k=11 column=5
says 'row 12, column 5 is in lane 18, register d3' explain_fragment mma-d row=12 column=5
says 'row 40, k 9 is in thread 64, register a3, its high half' explain_fragment wgmma-a row=40 k=9
says 'row 25, column 10 is in thread 37, register d6' explain_fragment wgmma-d n=232 row=25 column=10
says 'row 6, column 3 is in lane 25, register r0, its high half' explain_fragment ldmatrix row=6 column=3
says 'row 3, column 6 is in lane 25, register r0, its high half' explain_fragment stmatrix.trans row=3 column=6
says '  and so on to row 63, column 231' explain_fragment wgmma-d n=232

says 'LBO              1      16  from k 0..7 to k 8..15' explain_descriptor lbo=16 sbo=128 swizzle=none rows=232
says 'note: 231 of the 464 pieces are bytes that another piece has too' explain_descriptor lbo=16 sbo=128 swizzle=none rows=232
says '  16-29  LBO              8     128  from 64 rows to the next 64 rows' explain_descriptor 0x4000004000080040 major=mn rows=192
says '    swizzle: its bits 7-8 hold 1, XORed into bits 4-5: 0x00496' explain_descriptor swizzle=64 sbo=512 row=2 k=3
says 'SBO is no multiple of 1024' explain_descriptor swizzle=128 sbo=1152
says 'k 8..15 come from the next row' explain_descriptor swizzle=128 sbo=1024 start=1136
says 'the last 16 rows of each 64 come from the next k' explain_descriptor swizzle=128 sbo=1024 lbo=2048 major=mn start=1056
says 'note: LBO is 4096 and not used here.' explain_descriptor swizzle=32 sbo=256 lbo=4096
says 'note: it has a base offset, expected 0' explain_descriptor swizzle=128 sbo=1024 base_offset=1
says 'past the 227 KiB' explain_descriptor swizzle=128 sbo=1024 start=231424
says 'the first 1024 bytes of shared memory belong to the system' explain_descriptor swizzle=128 sbo=1024 start=0

says 'usage: explain_descriptor' explain_descriptor
says 'usage: explain_fragment' explain_fragment
refused 'explain_fragment: expected one of mma-a, mma-b, mma-d, wgmma-a, wgmma-d, ldmatrix, ldmatrix.trans, stmatrix, stmatrix.trans, got "mma"' explain_fragment mma
refused 'lane: expected a number from 0 to 31, got "32"' explain_fragment mma-a lane=32
refused 'lane: expected a number from 0 to 127, got "x"' explain_fragment wgmma-d lane=x
refused 'n: expected a multiple of 8 up to 256, got "20"' explain_fragment wgmma-d n=20
refused 'mma-a: expected lane= alone, or both row= and k=' explain_fragment mma-a row=3
refused 'mma-d: expected lane=, row= or column=, got "k=1"' explain_fragment mma-d k=1
refused 'column: expected a number from 0 to 7, got "8"' explain_fragment wgmma-d row=1 column=8 n=8
refused 'swizzle: expected none, 32, 64 or 128, got "96"' explain_descriptor swizzle=96
refused 'sbo: expected a multiple of 16 below 262144, got nothing' explain_descriptor swizzle=128
refused 'lbo: expected a multiple of 16 below 262144, got nothing' explain_descriptor swizzle=none sbo=128
refused 'start: expected a multiple of 16 below 262144, got "1032"' explain_descriptor swizzle=128 sbo=1024 start=1032
refused 'rows: expected a multiple of 8 from 8 to 256, got "12"' explain_descriptor swizzle=128 sbo=1024 rows=12
refused 'row: expected a number below rows = 64, got 64' explain_descriptor swizzle=128 sbo=1024 row=64 k=0
refused 'k: expected 0 to 15, got nothing' explain_descriptor swizzle=128 sbo=1024 row=6
refused 'major: expected k or mn, got "n"' explain_descriptor swizzle=128 sbo=1024 major=n
refused 'explain_descriptor: expected one number of 64 bits and fields such as sbo=1024 (see --help), got "0x2"' explain_descriptor 0x1 0x2

wide=$(for f in mma-a mma-b mma-d wgmma-a 'wgmma-d n=256' ldmatrix ldmatrix.trans stmatrix stmatrix.trans; do "$B/tools/explain_fragment" $f; done
  for s in none 32 64 128; do for m in k mn; do
    "$B/tools/explain_descriptor" start=1040 lbo=144 sbo=144 swizzle=$s major=$m rows=256 row=200 k=9 base_offset=5
  done; done
  "$B/tools/explain_fragment"
  "$B/tools/explain_descriptor")
[ "$(awk 'length > 100' <<<"$wide")" = '' ]
ok $? 'no line is longer than 100 columns' || diag "$(awk 'length > 100' <<<"$wide")"
! grep -q ' $' <<<"$wide"
ok $? 'none ends in a space'
done_testing
