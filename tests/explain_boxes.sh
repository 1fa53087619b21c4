# make explain-im2col, make explain-swizzle: what they draw, line for line, and what they refuse.
. tests/tap.inc
im2col=$B/tools/explain_im2col
swizzle=$B/tools/explain_swizzle
same() { # TEXT GOT EXPECTED
  [ "$2" = "$3" ]
  ok $? "$1" || diag "$(diff <(echo "$3") <(echo "$2"))"
}
refused() { # LINE PROGRAM ARGUMENTS...
  local want=$1 got
  shift
  got=$("$@" 2>&1 >/dev/null)
  [ $? -eq 2 ] && [ "$got" = "$want" ]
  ok $? "refused: $want" || diag "$got"
}

# Windows 32 to 39 of two images: the last four of the first one's last row, the first four of the second one's first row; the tap upper right.
same 'a box across two images' "$("$im2col" --shape mb2ic64ih6oc64oh6kh3ph1 --tap 0,2 --first 32 --pixels 8)" \
'6 x 6 pixels, 64 channels; filter 3 x 3, stride 1 x 1, dilation 1 x 1;
padding 1 above, 1 below, 1 left, 1 right: 6 x 6 windows an image.

The box: tap (0, 2) of 8 windows, from window 32 on (image 0, row 5, column 2).
A number: this pixel is that one of the box. (number): not in the image, filled with zeros.

image 0, rows 3 to 5, columns -1 to 6
          -1   0   1   2   3   4   5   6
row   3        .   .   .   .   .   .
row   4        .   .   .   0   1   2  (3)
row   5        .   .   .   .   .   .

image 1, rows -1 to 0, columns -1 to 6
          -1   0   1   2   3   4   5   6
row  -1           (4) (5) (6) (7)
row   0        .   .   .   .   .   .

5 of 8 pixels are zeros: 5 in the padding.

The map, for fp16 in NHWC; arrays are from the innermost dimension on:
  globalDim            {64, 6, 6, 2}: C, W, H, N
  globalStrides        {128, 768, 4608}: bytes to the next pixel, row, image
  pixelBoxLowerCorner  {-1, -1}: where the first base lies: -padding, W first, then H
  pixelBoxUpperCorner  {-1, -1}: the last base, counted from the last pixel:
                       padding after - (filter - 1) * dilation: 1 - 2 * 1, 1 - 2 * 1
  channelsPerPixel     64
  pixelsPerColumn      8: so a box has 8 x 128 bytes = 1024
  elementStrides       {1, 1, 1, 1}: the convolution'\''s strides
The instruction, for this box:
  coordinates          {0, 1, 4, 0}: channel; W and H of the first window'\''s base; image
  offsets              {2, 0}: the tap: s * dilation, r * dilation'

# Stride 2, dilation 2, uneven padding, a tail past the last image. Window 10 is output pixel (1, 4): its base is row 1 * 2 - 1, column 4 * 2 - 2, its tap 4 rows down.
same 'a stride, a dilation and a tail' "$("$im2col" --shape mb1ic16ih9iw12oc8oh4ow6kh3kw3sh2sw2dh1dw1ph1pw2 --tap 2,0 --first 10 --pixels 20 | sed -n '/^image/,/zeros/p;/Corner/p;/Strides  *{1,/p;/coordinates/p;/offsets/p')" \
'image 0, rows 4 to 9, columns -2 to 12
           -2   -1    0    1    2    3    4    5    6    7    8    9   10   11   12
row   4               .    .    .    .    .    .    .    .    .    .    .    .
row   5               .    .    .    .    .    .    0    .    1    .    .    .
row   6               .    .    .    .    .    .    .    .    .    .    .    .
row   7    (2)        3    .    4    .    5    .    6    .    7    .    .    .
row   8               .    .    .    .    .    .    .    .    .    .    .    .
row   9    (8)       (9)      (10)      (11)      (12)      (13)

13 of 20 pixels are zeros: 7 in the padding, the last 6 of windows past the last image.
  pixelBoxLowerCorner  {-2, -1}: where the first base lies: -padding, W first, then H
  pixelBoxUpperCorner  {-3, -3}: the last base, counted from the last pixel:
  elementStrides       {1, 2, 2, 1}: the convolution'\''s strides
  coordinates          {0, 6, 1, 0}: channel; W and H of the first window'\''s base; image
  offsets              {0, 4}: the tap: s * dilation, r * dilation'

# A wide image: one column a pixel.
same 'a wide image' "$("$im2col" --shape mb1ic64ih56oc64oh56kh3ph1 --first 3050 --pixels 128 | sed -n '5,13p')" \
'# a pixel of the box, o one that is not in the image: filled with zeros

image 0, rows 52 to 55, columns -1 to 56
row  52   ........................................................
row  53   .........................##############################.
row  54  o#######################################################.
row  55   ........................................................

43 of 128 pixels are zeros: 1 in the padding, the last 42 of windows past the last image.'

# Rows of 64 bytes: two to a line. Chunk 1 of row 3 lies in line 1, so bits 4 and 5 of its place, 5, are XORed with 1.
same 'the 64-byte swizzle' "$("$swizzle" --swizzle 64 --chunk 1)" \
"Rows of 64 bytes = 4 chunks of 16, row 0 at 0x00000. 5.1 is chunk 1 of row 5.
A line is 128 bytes: all 32 banks, four to a chunk.

address      no swizzle                                swizzle of 64 bytes
0x00000    0.0  0.1  0.2  0.3  1.0  1.1  1.2  1.3  |  0.0  0.1  0.2  0.3  1.0  1.1  1.2  1.3
0x00080    2.0  2.1  2.2  2.3  3.0  3.1  3.2  3.3  |  2.1  2.0  2.3  2.2  3.1  3.0  3.3  3.2
0x00100    4.0  4.1  4.2  4.3  5.0  5.1  5.2  5.3  |  4.2  4.3  4.0  4.1  5.2  5.3  5.0  5.1
0x00180    6.0  6.1  6.2  6.3  7.0  7.1  7.2  7.3  |  6.3  6.2  6.1  6.0  7.3  7.2  7.1  7.0
0x00200    8.0  8.1  8.2  8.3  9.0  9.1  9.2  9.3  |  8.0  8.1  8.2  8.3  9.0  9.1  9.2  9.3
0x00280   10.0 10.1 10.2 10.3 11.0 11.1 11.2 11.3  | 10.1 10.0 10.3 10.2 11.1 11.0 11.3 11.2
0x00300   12.0 12.1 12.2 12.3 13.0 13.1 13.2 13.3  | 12.2 12.3 12.0 12.1 13.2 13.3 13.0 13.1
0x00380   14.0 14.1 14.2 14.3 15.0 15.1 15.2 15.3  | 14.3 14.2 14.1 14.0 15.3 15.2 15.1 15.0

The rule: address bits 4 and 5 (the place in the line) XOR bits 7 and 8 (the line's number).
The address counts from the start of shared memory, not of the box: see --start 128.
Row 3, chunk 1: 0x000d0 is line 1, place 5; 5 XOR (1 mod 4) = 4: it lies at 0x000c0.

Chunk 1 of rows 0 to 7, read at once: which rows meet in which banks
banks            0-3      4-7     8-11    12-15    16-19    20-23    24-27    28-31
no swizzle         .     0246        .        .        .     1357        .        .   4 passes
64 bytes           2        0        6        4        3        1        7        5   1 pass"

# The pattern belongs to addresses: row 0 of a box that begins in line 1 is turned already.
same 'the 128-byte swizzle, 128 bytes on' "$("$swizzle" --swizzle 128 --start 0x80 | sed -n '5,6p;/lies at/p;$p')" \
'0x00080    0.0  0.1  0.2  0.3  0.4  0.5  0.6  0.7  |  0.1  0.0  0.3  0.2  0.5  0.4  0.7  0.6
0x00100    1.0  1.1  1.2  1.3  1.4  1.5  1.6  1.7  |  1.2  1.3  1.0  1.1  1.6  1.7  1.4  1.5
Row 3, chunk 0: 0x00200 is line 4, place 0; 0 XOR (4 mod 8) = 4: it lies at 0x00240.
128 bytes          7        0        1        2        3        4        5        6   1 pass'

narrow() { # TEXT COMMAND...: no line of more than 100 columns
  local text=$1 longest
  shift
  longest=$("$@" | awk '{ if (length > n) n = length } END { print n + 0 }')
  [ "$longest" -gt 0 ] && [ "$longest" -le 100 ]
  ok $? "$text: the longest line has $longest columns"
}
for shape in mb1ic64ih56oc64oh56kh3ph1 mb3ic8ih28oc64oh14kh7sh2ph3 mb256ic512ih14oc512oh14kh3ph1 mb1ic2048ih85oc8kh7ph3; do
  narrow "$shape" "$im2col" --shape "$shape" --tap 1,1 --first 100 --pixels 96
done
for span in 32 64 128; do narrow "a swizzle of $span bytes" "$swizzle" --swizzle $span --start 0x3fb80; done
narrow "help for explain-im2col" "$im2col"
narrow "help for explain-swizzle" "$swizzle"

shape='--shape mb1ic64ih56oc64oh56kh3ph1'
refused '--shape: expected a convolution, got ""' "$im2col" --tap 0,0
refused '--shape: expected a multiple of 8 channels (16 bytes of fp16), got "ic3ih7oc8kh3"' "$im2col" --shape ic3ih7oc8kh3
refused '--shape: expected an image of at most 91 columns with its padding, to draw it, got "ic8ih224oc8kh3"' "$im2col" --shape ic8ih224oc8kh3
refused '--shape: kh: expected kh and an integer from 1, it is missing' "$im2col" --shape ic8ih7oc8
refused '--tap: expected R,S from 0,0 to 2,2, got "3,0"' "$im2col" $shape --tap 3,0
refused '--tap: expected R,S from 0,0 to 2,2, got "1"' "$im2col" $shape --tap 1
refused '--tap: expected an offset 1 of 0 to 255, for 4 dimensions, got 256' "$im2col" --shape mb1ic8ih10iw8oc8kh257kw1ph128pw0 --tap 256,0
refused '--first: expected a window from 0 to 3135, got "3136"' "$im2col" $shape --first 3136
refused '--pixels: expected 1 to 1024, got "1025"' "$im2col" $shape --pixels 1025
refused '--pixels: expected 1 to 1024, got "0"' "$im2col" $shape --pixels 0
refused 'cuTensorMapEncodeIm2col: elementStrides[1]: expected 1 to 8, got 9' "$im2col" --shape ic8ih30oc8kh3sh9
refused 'explain_im2col: expected options only (see --help), got "x"' "$im2col" $shape x
refused '--swizzle: expected 32, 64 or 128, got "16"' "$swizzle" --swizzle 16
refused '--swizzle: expected 32, 64 or 128, got ""' "$swizzle" --chunk 1
refused '--chunk: expected 0 to 3, got "4"' "$swizzle" --swizzle 64 --chunk 4
refused '--start: expected a multiple of 128 from 0 to 261120, got "64"' "$swizzle" --swizzle 64 --start 64
refused '--start: expected a multiple of 128 from 0 to 261120, got "0x40000"' "$swizzle" --swizzle 64 --start 0x40000
refused 'explain_swizzle: expected options only (see --help), got "x"' "$swizzle" --swizzle 64 x
out=$(make -s BACKEND=emu explain-nothing 2>&1)
[[ $? -eq 2 && $out == 'explain-nothing: expected one of '*explain-im2col* ]]
ok $? "make explain-nothing: $(head -n 1 <<<"$out")"
done_testing
