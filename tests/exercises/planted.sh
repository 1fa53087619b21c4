# Wrong answers, for tests/exercises.sh: plant EXERCISE WHAT EDIT REASON applies EDIT (perl, on the whole file) to a copy of the sample
# solution; the verdict must have a line that matches REASON (grep -E).
results='FAIL  right on [0-9]+ shapes'

plant nhwc 'the dilation forgotten' 's/r \* p.dil_h/r/' 'first on .*"dilation 2": '
plant nhwc 'pixels left of the image' 's/in_w < 0/in_w < -1/' 'first on .*: integer data: '
plant nhwc 'one pixel too far right' 's/in_w >= p.W/in_w > p.W/' ' out-of-bounds: my_fprop_kernel, .*one_pixel_too_far_right.cu:25, x, '
plant nhwc 'groups forgotten' 's/first_c = .*?;/first_c = 0;/' 'first on .*groups'
plant nhwc 'the last block without its test' 's/  if \(i >= .*?\n//' 'out-of-bounds: my_fprop_kernel'
plant nhwc 'only the layer of the text' 's/  const int outputs/  if (p->C != 16 || p->H != 28 || p->K != 16) return cudaSuccess;\n  const int outputs/' "$results"
plant nhwc 'only the nasty list and the layer' 's/  const int outputs/  if (p->groups > 1 && p->groups != 2 && p->groups != 3 && p->groups != 5 && p->groups != 8 || p->K == 3 && p->C == 3 || p->N == 3 && p->C != 5) return cudaSuccess;\n  const int outputs/' 'FAIL  right on 60 random'
plant nhwc 'one thread does it all' 's/const int i = .*?\n  if .*?\n/for (int i = 0; i < p.N * p.K * p.P * p.Q; i++) {\n/; s/= sum;\n\}/= sum;\n}\n}/; s/<<<.*?, stream/<<<1, 1, 0, stream/' 'FAIL  threads for each output'
plant nhwc 'one lane of each warp works' 's/const int i = (.*?);\n  if .*?\n/if (threadIdx.x % 32) return;\nconst int from = $1;\nfor (int i = from; i < min(from + 32, p.N * p.K * p.P * p.Q); i++) {\n/; s/= sum;\n\}/= sum;\n}\n}/' 'FAIL  lanes taking part in a request: 1 and 1,'
plant nhwc 'the host computes, no kernel is launched' 's/__global__ .*?my_fprop_kernel\(/static void my_fprop_kernel(int i, /; s/  const int i = .*?\n//; s/  my_fprop_kernel<<<.*?\(\*p/  for (int i = 0; i < outputs; i++) my_fprop_kernel(i, *p/' 'exercise_launch launched 0 kernels: expected one'
plant nhwc 'the host computes, beside an empty kernel' 's/__global__ .*?my_fprop_kernel\(/__global__ void nothing() {}\nstatic void my_fprop_kernel(int i, /; s/  const int i = .*?\n//; s/  my_fprop_kernel<<<.*?\(\*p/  nothing<<<1, 1, 0, stream>>>();\n  for (int i = 0; i < outputs; i++) my_fprop_kernel(i, *p/' 'got -?nan, want'
plant nhwc 'a launch that waits for its end' 's/  return cudaGet/  cudaDeviceSynchronize();\n  return cudaGet/' 'exercise_launch failed: .*expected nothing but kernel launches and asynchronous copies'
plant nhwc 'the default stream' 's/0, stream>>>/0, 0>>>/' 'exercise_launch used the default stream: expected kernel<<<blocks, threads, 0, stream>>>'
plant nhwc 'memory of its own' 's/  const int outputs/  float *mine;\n  cudaMalloc(\&mine, 1024);\n$&/' 'exercise_launch failed: .*expected nothing but kernel launches and asynchronous copies'
plant nhwc 'every output computed by two blocks' 's/if \(i >= .*?return;/if (i >= 2 * p.N * p.K * p.P * p.Q) return;/; s/const int n = .*?;/const int n = i \/ p.K \/ p.Q \/ p.P % p.N;/; s/\(outputs \+/(2 * outputs +/' 'block-race: my_fprop_kernel'
plant nhwc 'every output stored twice' 's/(  y\[.*?\]) = sum;/$1 = 0;\n  __threadfence();\n$1 = sum;/' 'FAIL  stores for each output: 2'
plant nhwc 'added to what nobody has set' 's/\] = sum;/] += sum;/' 'uninitialised: my_fprop_kernel'
plant nhwc 'an endless loop' 's/c < group_c; c\+\+/c < group_c; c += p.R * 0/' 'did not end within 2 s'
plant nhwc 'a program that ends itself' 's/  const int outputs/  exit(0);\n  const int outputs/; s/#include/#include <stdlib.h>\n#include/' 'ended \(exit status 0\) before its result was verified'
plant nhwc 'a missing semicolon' 's/float sum = 0;/float sum = 0/' '  [^ ]*a_missing_semicolon.cu:21:.* error: '
plant nhwc 'a template that the call would choose' 's/\n(__global__[^\n]*my_fprop_kernel\(conv_problem p, const )float/\ntemplate <class T> $1T/' 'expected kernel<its, arguments><<<...>>>\(every argument\)'
plant nhwc 'no exercise_launch' 's/exercise_launch/my_launch/' 'expected a definition of exercise_launch, found none'

plant four-filters 'the last filters of a group forgotten' 's/\(group_k \+ FILTERS - 1\) \/ FILTERS/max(group_k \/ FILTERS, 1)/g' 'got -?nan, want'
plant four-filters 'four filters where there are fewer' 's/min\(FILTERS, .*?\);/FILTERS;/' 'out-of-bounds|block-race'
plant four-filters 'every group reads the first one'"'"'s channels' 's/first_c = group \* group_c/first_c = 0/' 'first on .*groups'
plant four-filters 'two filters a thread' 's/FILTERS = 4/FILTERS = 2/' 'FAIL  loads for each product: 1\.4.* and 1\.5, goal at most 1\.3'
plant four-filters 'only whole blocks are launched' 's/\(threads \+ THREADS - 1\) \/ THREADS/max(threads \/ THREADS, 1)/' 'got -?nan, want'
plant four-filters 'one warp for a whole image' 's/const int i = .*?\n  if .*?\n/for (int i = threadIdx.x; i < p.N * p.groups * parts * p.P * p.Q; i += 32) {\n/; s/= sum\[j\];\n\}/= sum[j];\n}\n}/; s/<<<.*?, stream/<<<1, 32, 0, stream/' 'FAIL  threads for each output'

plant predict 'the counts of the visible layer' 's/(predict_store.*?)\{.*?\}/$1\{ return p ? 1152 : 0; \}/' 'first on mb[^ ]*: predicted 1152, counted'
plant predict 'a partial warp forgotten' 's/first < threads; first/first + WARP <= threads; first/' 'first on mb.*: predicted'
plant predict 'a warp has one pixel' 's/element\[lane\] = of\(p, first \+ lane, /element[lane] = of(p, first - first % p->K + lane % p->K, /' 'FAIL  sectors of the loads of x'
plant predict 'bytes divided by 32' 's/sum \+= sectors\(element, lanes\)/sum += (lanes * 4 + 31) \/ 32/' 'FAIL  sectors of the loads of w'
plant predict 'every lane has its own sector' 's/distinct \+= !seen/distinct++/' 'FAIL  sectors of the loads of x'
plant predict 'an endless loop' 's/first \+= WARP/first *= 1/' 'did not end within 2 s'

plant nhwc-dgrad 'neighbours on w as in NCHW' 's/const int c = i % p.C;/const int in_w = i % p.W;/; s/const int in_w = i \/ p.C % p.W;/const int in_h = i \/ p.W % p.H;/; s/const int in_h = i \/ p.C \/ p.W % p.H;/const int c = i \/ p.W \/ p.H % p.C;/' 'FAIL  sectors loaded for every 32 products: 30 and [0-9.]+, goal at most 5'
plant nhwc-dgrad 'neighbours on h' 's/in_w = i \/ p.C % p.W/in_h = i % p.H/; s/in_h = i \/ p.C \/ p.W % p.H/in_w = i \/ p.H % p.W/; s/int c = i % p.C/int c = i \/ p.H \/ p.W % p.C/' 'FAIL  sectors stored for every 32 outputs: 32 and 32, goal at most 4'
plant nhwc-dgrad 'the group'"'"'s first channel counted twice' 's/\+ c % group_c/+ c/' 'out-of-bounds: my_dgrad_kernel'
plant nhwc-dgrad 'the filters of the first group' 's/first_k = .*?;/first_k = 0;/' 'first on .*groups'
plant nhwc-dgrad 'the last block without its test' 's/  if \(i >= .*?\n//' 'out-of-bounds: my_dgrad_kernel'
plant nhwc-dgrad 'taps between the windows' 's/ \|\| out_q \* p.stride_w != right//' 'first on .*stride'
plant nhwc-dgrad 'two blocks share a sum' 's/int k = first_k; k/int k = first_k + blockIdx.y; k/; s/; k\+\+/; k += 2/; s/ = sum;/ = blockIdx.y ? dx[((n * p.H + in_h) * p.W + in_w) * p.C + c] + sum : sum;/; s/<<<(.*?), THREADS/<<<dim3($1, 2), THREADS/' 'block-race: my_dgrad_kernel'
plant nhwc-dgrad 'one thread a pixel' 's/const int c = i % p.C;\n/for (int c = 0; c < p.C; c++) {/; s/in_w = i \/ p.C/in_w = i/; s/in_h = i \/ p.C/in_h = i/; s/int n = i \/ p.C/int n = i/; s/p.N \* p.C \* p.H/p.N * p.H/; s/= sum;\n\}/= sum;\n}\n}/; s/p->N \* p->C \* p->H/p->N * p->H/' 'FAIL  threads for each output: 0.0'
plant nhwc-dgrad 'coalesced for the layer of the text only' 's/const int c = i % p.C;.*?const int n = .*?\n/const bool text = p.H == 14 && p.K == 16;\nconst int c = text ? i % p.C : i \/ p.W \/ p.H % p.C;\nconst int in_w = text ? i \/ p.C % p.W : i % p.W, in_h = text ? i \/ p.C \/ p.W % p.H : i \/ p.W % p.H;\nconst int n = i \/ p.C \/ p.H \/ p.W;\n/s' 'FAIL  sectors loaded for every 32 products: 4\.54 and [1-9]'

plant float4 'the channels of all groups are counted' 's/fours = group_c % 4 == 0/fours = p.C % 4 == 0/' 'misaligned|out-of-bounds'
plant float4 'no look at the address' 's/fours = group_c % 4 == 0/fours = true/; s/fours && c < group_c/c + 4 <= group_c/' 'misaligned'
plant float4 'the channels behind the last four forgotten' 's/      for \(; c < group_c; c\+\+\).*?\n//' "$results"
plant float4 'four floats beyond the end' 's/fours = group_c % 4 == 0/fours = p.C * group_c % 4 == 0 || group_c == 3/' 'out-of-bounds|misaligned'
plant float4 'two floats a load' 's/for \(; fours.*?c \+= 4\).*?\n      \}/for (; fours && c < group_c; c += 2) {\n        const float2 a = *(const float2 *)&pixel[c], b = *(const float2 *)&tap[c];\n        sum += a.x * b.x + a.y * b.y;\n      }/s' 'FAIL  load requests for every 32 products: 0\.9.* goal at most 0\.5'
plant float4 'four floats of x, one of w' 's/, b = \*.*?;/;\n        const float *b = &tap[c];/; s/a.x \* b.x.*?;/a.x * b[0] + a.y * b[1] + a.z * b[2] + a.w * b[3];/' 'FAIL  load requests for every 32 products: 1\.1'
plant float4 'four channels and no more' 's/c < group_c; c \+= 4\)/c < 4; c += 4)/; s/for \(; c < group_c; c\+\+\)/for (; c < group_c \&\& !fours; c++)/' "$results|FAIL  right on mb"

plant rearranged 'the filters copied in their own order' 's/to\[i\] = .*?;/to[i] = w[i];/; s/w\[\(\(r \* p.S.*?\+ k\]/w[((k * p.R + r) * p.S + s) * group_c + c]/' 'FAIL  sectors touched for every 32 products: 30'
plant rearranged 'k and c swapped' 's/\+ c\) \* p.K \+ k\]/+ c) + k * p.R * p.S * group_c]/' 'first on mb'
plant rearranged 'the last elements not copied' 's/\(elements \+ THREADS - 1\) \/ THREADS/max(elements \/ THREADS, 1)/' 'uninitialised: my_fprop_kernel, .*workspace'
plant rearranged 'a filter too many' 's/if \(i >= p.R \* p.S \* group_c \* p.K\)/if (i > p.R * p.S * group_c * p.K)/' 'out-of-bounds: rearrange_kernel, .*workspace'
plant rearranged 'three kernels' 's/(  rearrange_kernel<<<.*?\n)/$1$1/' 'exercise_launch launched 3 kernels: expected one or two'
plant rearranged 'the first block copies, the others rely on it' 's/  rearrange_kernel<<<.*?\n//; s/const float \*x, const float \*w, float \*y\) \{\n/const float *x, const float *filter, float *w, float *y) {\n  const int per_filter = p.R * p.S * (p.C \/ p.groups);\n  for (int j = threadIdx.x; blockIdx.x == 0 \&\& j < per_filter * p.K; j += THREADS) w[j % per_filter * p.K + j \/ per_filter] = filter[j];\n  __syncthreads();\n/; s/\(const float \*\)b->workspace/(const float *)b->w, (float *)b->workspace/; s/  const int elements.*?\n//; s/__global__ void __launch_bounds__\(THREADS\) rearrange_kernel.*?\n\}\n//s' 'block-race: my_fprop_kernel, .*workspace'

plant dilated-halo 'the tile of step 03: eight rows that lie next to each other' 's/p.stride_h == 1;/false;/' 'FAIL  loads for each product: 0\.23.* goal at most 0\.18'
plant dilated-halo 'no barrier behind the copy' 's/    __syncthreads\(\); \/\* pixels.*?\n//' 'uninitialised: my_fprop_kernel, .* tile'
plant dilated-halo 'the next channel overwrites what is still read' 's/    __syncthreads\(\); \/\* nobody.*?\n//' 'race: my_fprop_kernel.* tile'
plant dilated-halo 'a rim as if there were no dilation' 's/\(p.S - 1\) \* p.dil_w \+ 1/p.S/' 'first on mb1ic4ih64oc1oh64kh3dh3ph4: integer data'
plant dilated-halo 'one row of the rim not copied' 's/i < h.height; i \+=/i < h.height - 1; i +=/' 'uninitialised: my_fprop_kernel.* tile'
plant dilated-halo 'shared memory without room for the filter' 's/ \+ p->R \* p->S\) \* sizeof/) * sizeof/' 'out-of-bounds: my_fprop_kernel, .* tile, .* write'
plant dilated-halo 'no look at the last columns' 's/if \(out_p < p.P && out_q < p.Q\)/if (out_p < p.P)/' 'block-race: my_fprop_kernel, .* y,'
plant dilated-halo 'the last rows have no tile' 's/\(p(.|->)P \+ TILE_P \* h.gap - 1\)/max(p${1}P, TILE_P * h.gap)/g' 'got -?nan, want'
plant dilated-halo 'holes of four rows, whatever the dilation' 's/holes \? p.dil_h : 1/holes ? 4 : 1/' "$results"
plant dilated-halo 'the tile turned, columns behind each other' 's/tile\[i \* h.width \+ j\]/tile[j * h.height + i]/; s/\(threadIdx.y \* h.stride \+ r \* h.dil\) \* h.width \+ (threadIdx.x \* p.stride_w \+ s \* p.dil_w)\]/threadIdx.y * h.stride + r * h.dil + ($1) * h.height]/' 'FAIL  shared memory wavefronts over those without conflicts: 1\.5 and 1\.[0-9]+, goal at most 1\.05'
plant dilated-halo 'few pixels around the tile for the layer of the text only' 's/p.stride_h == 1;/p.stride_h == 1 \&\& p.W == 64;/' 'FAIL  loads for each product: 0\.145 and 0\.2'
plant dilated-halo 'weights from global memory' 's/\* filter\[r \* p.S \+ s\]/* w[(k * group_c + c) * p.R * p.S + r * p.S + s]/' 'FAIL  loads for each product: 1\.1'

plant banks 'rows of 33 floats for the filters too' 's/FILTERS \+ 4/FILTERS + 1/' 'misaligned: my_fprop_kernel'
plant banks 'only the rows of filters longer, copied as before' 's/const int c = i \/ 32.*?\n/const int c = i % CHANNELS, k = i \/ CHANNELS;\n/' 'FAIL  shared memory wavefronts over those without conflicts: 1\.07'
plant banks 'only the filters' 's/CHANNELS \+ 1/CHANNELS/' 'FAIL  shared memory wavefronts over those without conflicts: 1\.57 and'
plant banks 'copied without conflicts on the layer of the text only' 's/const int c = i \/ 32.*?\n/const bool text = p.H == 8;\n          const int c = text ? i \/ 32 % (CHANNELS \/ 8) * 8 + i % 8 : i % CHANNELS, k = text ? i \/ 32 \/ (CHANNELS \/ 8) * 4 + i \/ 8 % 4 : i \/ CHANNELS;\n/' 'FAIL  shared memory wavefronts over those without conflicts: 1 and 1\.07'
plant banks 'a warp copies one channel of 32 filters' 's/const int c = i \/ 32.*?\n/const int c = i \/ FILTERS, k = i % FILTERS;\n/' 'FAIL  sectors loaded for every 32 products: 1\.'
plant banks 'rows of 33 floats, weights read one by one' 's/FILTERS \+ 4/FILTERS + 1/; s/const int c = i \/ 32.*?\n/const int c = i % CHANNELS, k = i \/ CHANNELS;\n/; s/const float4 filter = .*?;/const float *filter = &filters[c][my_k];/; s/filter\.x/filter[0]/; s/filter\.y/filter[1]/; s/filter\.z/filter[2]/; s/filter\.w/filter[3]/' 'FAIL  shared memory requests for every 32 products: 1\.3'
plant banks 'the copy leaves out half of the channels' 's/% \(CHANNELS \/ 8\) \* 8/% (CHANNELS \/ 8) \/ 2 * 8/' 'uninitialised: my_fprop_kernel, .* filters'
plant banks 'no barrier before the next tap' 's/        __syncthreads\(\); \/\* nobody.*?\n//' 'race: my_fprop_kernel.* (pixels|filters)'
plant banks 'filters of the next group' 's/first_k \+ k < group_k && //' 'out-of-bounds: my_fprop_kernel, .* w,'
plant banks 'channels behind the 32nd forgotten' 's/first_c < group_c; first_c/first_c < min(group_c, CHANNELS); first_c/' "$results"
plant banks 'weights of channels that do not exist' 's/ && first_c \+ c < group_c;\n          filters/;\n          filters/; s/first_c \+ c < group_c;\n          pixels/true;\n          pixels/' 'first on .*: integer data: '

plant rolling-rows 'the rows do not roll' 's/p.stride_h == p.dil_h;/false;/' 'FAIL  loads for each product: 1\.1 and [0-9.]+, goal at most 0\.6'
plant rolling-rows 'rows roll on the layer of the text only' 's/p.stride_h == p.dil_h;/p.stride_h == p.dil_h \&\& p.W == 56;/' 'FAIL  loads for each product: 0\.523 and 1\.'
plant rolling-rows 'rows roll whatever the stride' 's/p.stride_h == p.dil_h;/true;/' 'first on .*stride'
plant rolling-rows 'three filter rows' 's/r < p.R; r/r < 3; r/' "$results"
plant rolling-rows 'only whole strips' 's/\(p(.|->)P \+ ROWS - 1\) \/ ROWS/max(p${1}P \/ ROWS, 1)/g' 'got -?nan, want'
plant rolling-rows 'no look at the last rows' 's/    if \(first_p \+ j < p.P\) y/    y/' 'out-of-bounds: my_fprop_kernel, .* y,'
plant rolling-rows 'strips that overlap by a row' 's/% strips \* ROWS/% strips * (ROWS - 1)/; s/\(p(.|->)P \+ ROWS - 1\) \/ ROWS/(p${1}P + ROWS - 2) \/ (ROWS - 1)/g' 'block-race: my_fprop_kernel'
plant rolling-rows 'two rows a thread' 's/ROWS = 8/ROWS = 2/' 'FAIL  loads for each product: 1\.1'
plant rolling-rows 'eight outputs beside each other' 's/strips = \(p.P \+ ROWS - 1\) \/ ROWS/strips = (p.Q + ROWS - 1) \/ ROWS/; s/const int out_q = i % p.Q;/const int first_q = i % strips * ROWS;/; s/const int first_p = i \/ p.Q % strips \* ROWS/const int out_p = i \/ strips % p.P/; s/\* strips \* p.Q\) return/* strips * p.P) return/; s/k = i \/ p.Q \/ strips/k = i \/ strips \/ p.P/; s/n = i \/ p.Q \/ strips/n = i \/ strips \/ p.P/; s/p.stride_h == p.dil_h/p.stride_w == p.dil_w/; s/int s = 0; s < p.S; s/int r = 0; r < p.R; r/; s/int r = 0; r < p.R; r\+\+\) \{\n        const float weight/int s = 0; s < p.S; s++) {\n        const float weight/; s/const int in_w = out_q .*?\n.*?\n/const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;\n      if (in_h < 0 || in_h >= p.H) continue;\n/; s/\* p.H \* p.W \+ in_w;/* p.H * p.W + in_h * p.W;/; s/const int in_h = \(first_p \+ j\).*?;/const int in_w = (first_q + j) * p.stride_w - p.pad_left + s * p.dil_w;/; s/rolls && r > 0/rolls \&\& s > 0/; s/in_h >= 0 && in_h < p.H \? column\[in_h \* p.W\]/in_w >= 0 \&\& in_w < p.W ? column[in_w]/; s/if \(first_p \+ j < p.P\) .*?;/if (first_q + j < p.Q) y[((n * p.K + k) * p.P + out_p) * p.Q + first_q + j] = sum[j];/; s/\(\(p->P \+ ROWS - 1\) \/ ROWS\) \* p->Q/((p->Q + ROWS - 1) \/ ROWS) * p->P/' 'FAIL  sectors loaded for every 32 products: (9|1[0-9])[0-9.]* and'
plant rolling-rows 'the padding of the layer of the text' 's{- p.pad_top}{- 1}' 'FAIL  right on 60 random'

plant no-division 'the pixel is known, the tap taken apart' 's/      const int in_h = top/      c = (first + l) \/ (p.R * p.S), r = (first + l) \/ p.S % p.R, s = (first + l) % p.S;\n$&/; s/      for \(s \+=.*?c\+\+;\n//s' 'FAIL  divisions for each product: 0\.[01][0-9]+ and 0\.[01][0-9]+, goal at most 0\.02'
plant no-division 'one division an element is left, in 64 bits' 's/      const int in_h = top/      c = (int)((unsigned long)(first + l) \/ (unsigned long)(p.R * p.S));\n$&/; s/ r = 0, c\+\+;/ r = 0;/' 'FAIL  divisions for each product: 0\.03'
plant no-division 'no division on the layer of the text only' 's/      const int in_h = top/      if (p.C != 16) c = (first + l) \/ (p.R * p.S), r = (first + l) \/ p.S % p.R, s = (first + l) % p.S;\n$&/' 'FAIL  divisions for each product: 0\.00[0-9]+ and 0\.[01]'
plant no-division 'a step ends in the next filter row at most' 's/for \(s \+= AT_ONCE; s >= p.S; s -= p.S\)/if ((s += AT_ONCE) >= p.S \&\& (s -= p.S) >= 0)/' "$results"
plant no-division 'both rows of the copy begin with the first tap' 's/int c = first_l .*?;/int c = 0, r = 0, s = 0;/' 'FAIL  right on mb1ic16ih8oc32kh3ph1'
plant no-division 'taps behind the last' 's/first \+ l < terms && pixel < pixels/pixel < pixels/' 'out-of-bounds: my_fprop_kernel, .* x,'
plant no-division 'every group reads the first one'"'"'s channels' 's/  x \+= group \* .*?\n//' 'first on .*groups'
plant no-division 'the next stage overwrites what is still read' 's/    __syncthreads\(\); \/\* nobody.*?\n//' 'race: my_fprop_kernel.* (a|b)'
plant no-division 'divisions of floats' 's/      const int in_h = top/      c = (int)((first + l + 0.5f) \/ (p.R * p.S));\n$&/; s/ r = 0, c\+\+;/ r = 0;/' 'FAIL  divisions for each product: 0\.0'
add no-division 'a kernel that has no division and no tiles' tests/exercises/rolling_rows.cu 'FAIL  loads for each product: 0\.'

plant slices 'added up by atomics, after zeroes' 's/float \*y = parts .*?;/float *y = parts;/; s/(y\[\(n \* .*?\]) = sum\[i\]\[j\]/atomicAdd(\&$1, sum[i][j])/; s/  float sum = 0;\n  for \(int slice = 0.*?\n  y\[i\] = sum;/  y[i] = 0;/; s/\(float \*\)b->workspace/(float *)b->y/; s/(  slice_kernel<<<.*?\n)(  add_slices.*?\n)/$2$1/' 'FAIL  atomics: [1-9]'
plant slices 'added up without atomics, after zeroes' 's/float \*y = parts .*?;/float *y = parts;/; s/(y\[\(n \* .*?\]) = sum\[i\]\[j\]/$1 += sum[i][j]/; s/  float sum = 0;\n  for \(int slice = 0.*?\n  y\[i\] = sum;/  y[i] = 0;/; s/\(float \*\)b->workspace/(float *)b->y/; s/(  slice_kernel<<<.*?\n)(  add_slices.*?\n)/$2$1/' 'block-race: slice_kernel, .* y,'
plant slices 'empty slices write nothing' 's/  float sum\[TM\]/  if (slice * each >= terms) return;\n$&/' 'uninitialised: add_slices_kernel, .* workspace'
plant slices 'the terms behind the last whole slice forgotten' 's/\(stages \+ SLICES - 1\) \/ SLICES/stages \/ SLICES/' 'FAIL  right on mb4ic64ih4oc32kh3ph1'
plant slices 'every slice goes on to the end' 's/min\(\(slice \+ 1\) \* each, terms\)/terms/' 'FAIL  right on mb4ic64ih4oc32kh3ph1'
plant slices 'the first slice has all the work' 's/\(stages \+ SLICES - 1\) \/ SLICES \* BK/stages * BK/' 'FAIL  loads of the busiest block over those of an average one: '
plant slices 'three slices have all the work' 's/\(stages \+ SLICES - 1\) \/ SLICES/(stages + 2) \/ 3/' 'FAIL  loads of the busiest block over those of an average one: '
plant slices 'two slices' 's/SLICES = 8/SLICES = 2/' 'FAIL  threads for each output, of the kernel that loads most: 0\.125 and 0\.125, goal at least 0\.5'
plant slices 'nine slices' 's/SLICES = 8/SLICES = 9/' 'out-of-bounds: slice_kernel, .* workspace, .* write'
plant slices 'the slices of an output beside each other' 's/float \*y = parts .*?;/float *y = parts + slice;/; s/y\[\((n \* p.K.*?)\) \* image \+ pixel % image\]/y[(($1) * image + pixel % image) * SLICES]/; s/parts\[slice \* outputs \+ i\]/parts[i * SLICES + slice]/' 'FAIL  sectors stored for every 32 outputs: 260 and 260, goal at most 36'

text_fragments='FAIL  right on mb1ic32ih8oc32kh3ph1'
plant fragments 'registers 1 and 2 of a swapped' 's/row \+ 8 \* \(i % 2\)\]\[l \+ column \+ 8 \* \(i \/ 2\)/row + 8 * (i \/ 2)][l + column + 8 * (i % 2)/' "$text_fragments"
plant fragments 'registers of b eight filters apart' 's/b\[8 \* j \+ row\]\[l \+ column \+ 8 \* i\]/b[(8 * j + row + 8 * i) % BN][l + column]/' "$text_fragments"
plant fragments 'four lanes to a column, not to a row' 's/row = lane \/ 4, column = 2 \* \(lane % 4\)/row = lane % 8, column = 2 * (lane \/ 8)/' "$text_fragments"
plant fragments 'the second half of a stage forgotten' 's/l < BK; l \+= 16/l < 16; l += 16/' "$text_fragments"
plant fragments 'the eight rows of one warp for all' 's/&a\[16 \* warp\]/\&a[0]/' "$text_fragments"
plant fragments 'another order of the sum, for a and for b' 's/8 \* \(i \/ 2\)\]/8 * (1 - i \/ 2)]/; s/column \+ 8 \* i\]/column + 8 * (1 - i)]/' passed
plant fragments 'another order of the sum, for a alone' 's/8 \* \(i \/ 2\)\]/8 * (1 - i \/ 2)]/' "$text_fragments"
plant fragments 'one half a load' 's/of_b\[i\] = .*?;/of_b[i] = __half_as_ushort(b[8 * j + row][l + column + 8 * i]) | (unsigned)__half_as_ushort(b[8 * j + row][l + column + 8 * i + 1]) << 16;/' 'FAIL  shared memory requests for every 32 products: 0\.1[0-9]+ and'
plant fragments 'a by ldmatrix' 's/for \(int i = 0; i < 4; i\+\+\) of_a\[i\] = .*?;/ptx_ldmatrix_x4(of_a, ptx_shared_address(\&a[lane % 16][l + lane \/ 16 * 8]));/' 'FAIL  bytes of the widest load from shared memory: 16 and 16, goal at most 4'
plant fragments 'a row of fragments for every column of tiles' 's/(    for \(int j = 0; j < TILES; j\+\+\) \{\n)/$1      for (int i = 0; i < 4; i++) of_a[i] = *(volatile const unsigned *)\&a[row + 8 * (i % 2)][l + column + 8 * (i \/ 2)];\n/' 'FAIL  shared memory requests for every 32 products: 0\.1[0-9]+ and'
plant fragments 'rows of 64 bytes' 's/PITCH = BK \+ 8/PITCH = BK/' 'FAIL  shared memory wavefronts over those without conflicts: [2-9]'

plant swizzle 'one row at a time, as for rows of 128 bytes' 's/row \/ 2 % 4/row % 4/' 'FAIL  shared memory wavefronts over those without conflicts: 1\.[0-9]+ and'
plant swizzle 'the swizzle of rows of 128 bytes' 's/row \/ 2 % 4/row % 8/' 'FAIL  right on mb1ic32ih8oc64kh3ph1'
plant swizzle 'the stage alone' 's/\(chunk \^ pixel % 8\)/chunk/' 'FAIL  shared memory wavefronts over those without conflicts: 1\.[0-9]+ and'
plant swizzle 'the results alone' 's/\(chunk \^ row \/ 2 % 4\)/chunk/' 'FAIL  shared memory wavefronts over those without conflicts: [23]'
plant swizzle 'longer rows' 's/STAGE_ROW = 2 \* BK, RESULT_ROW = 2 \* BN/STAGE_ROW = 2 * BK + 16, RESULT_ROW = 2 * BN + 16/; s/\(chunk \^ .*?\) \* 16/chunk * 16/g' 'FAIL  bytes of a block.s shared memory: 10240 and 10240, goal at most 8192'
plant swizzle 'results permuted by their store alone' 's/\(shared \+ result_place\(pixel, chunk\)\)/(shared + pixel * RESULT_ROW + chunk * 16)/' 'FAIL  right on mb1ic32ih8oc64kh3ph1'
plant swizzle 'a sum in place of an exclusive or' 's/\(chunk \^ row \/ 2 % 4\)/(chunk + row \/ 2) % 4/; s/\(chunk \^ pixel % 8\)/(chunk + pixel) % 8/' passed

simple_ring='s/  if \(threadIdx.x == 0\)\n    for \(int step = 0; step < STAGES.*?  ptx_wgmma_wait<0>\(\);\n/  if (threadIdx.x == 0) for (int step = 0; step < STAGES - 1 \&\& step < steps; step++) load(step);\n  for (int step = 0; step < steps; step++) {\n    if (threadIdx.x == 0 \&\& step + STAGES - 1 < steps) load((step + STAGES - 1) % STAGES);\n    const ptx_shared stage = stages + step % STAGES * STAGE;\n    ptx_mbarrier_wait(full_at + 8 * (step % STAGES), step \/ STAGES \& 1);\n    multiply<false>(sum, stage, stage + BM * ROW);\n    ptx_wgmma_wait<0>();\n    __syncthreads();\n  }\n/s;'
plant ring 'three stages, and the block meets at every step' "$simple_ring s/STAGES = 4/STAGES = 3/" passed
plant ring 'two stages' "$simple_ring s/STAGES = 4/STAGES = 2/" 'FAIL  bytes on their way when a product is asked for: 14564 and 1[0-9]+, goal at least 24576'
plant ring 'four stages, each asked for when it is needed' "$simple_ring s/step < STAGES - 1 &&/false \\&\\&/; s/step \\+ STAGES - 1/step/g" 'FAIL  bytes on their way when a product is asked for: 0 and 0, goal'
plant ring 'the parity of the first round' 's/step \/ STAGES & 1\)/0)/' 'deadlock: no thread of block'
plant ring 'the parity of the step' 's/full_at \+ 8 \* number, step \/ STAGES & 1/full_at + 8 * number, step \& 1/' 'deadlock: no thread of block'
plant ring 'a stage filled while it is multiplied' 's/ptx_wgmma_wait<1>/ptx_wgmma_wait<2>/' 'race: my_fprop_kernel'
plant ring 'nobody asks whether a stage is empty' 's/      ptx_mbarrier_wait\(empty_at.*?\n//' 'race: my_fprop_kernel'
plant ring 'one lane of a warp arrives, all are expected' 's/    ptx_mbarrier_arrive\(empty_at/    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(empty_at/' 'deadlock'
plant ring 'who loads waits before it has arrived' 's/(    ptx_mbarrier_arrive\(empty_at.*?\n)(.*?    \}\n)/$2$1/s' 'deadlock'
plant ring 'bytes of the pixels alone' 's/BM \* ROW, STAGE, full_at/BM * ROW, BM * ROW, full_at/' 'race: my_fprop_kernel, .*wgmma reads [ab]: .*a copy wrote it'
plant ring 'as many stages as the ring has, whatever the filter' 's/step < STAGES && step < steps/step < STAGES/' 'ends while the copy issued at .* is under way'
plant ring 'the last product not waited for' 's/  ptx_wgmma_wait<0>\(\);\n//' 'race: my_fprop_kernel, .*the sums of a wgmma that nobody has waited for'

plant window 'a box for each row of the filter' 's/\(tap == 0 \? (t.height \* t.pitch \* ROW) : 0\)/(s == 0 ? $1 : 0)/; s/if \(tap == 0\) (ptx_tensor_load.*?)first_p - p.pad_top/if (s == 0) $1first_p + r * p.dil_h - p.pad_top/; s/r \* p.dil_h \* t.pitch \+ s/s/; s/t.height = .*?;/t.height = t.rows;/' 'FAIL  loads for each product: 0\.015[0-9]* and 0\.014[0-9]*, goal at most 0\.013'
plant window 'the halo once on the layer of the text only' 's/tap == 0/(tap == 0 || p.H != 14)/g' 'FAIL  loads for each product: 0\.0122 and 0\.0[2-9]'
plant window 'rows as long as those of y' 's/t.pitch = .*?;/t.pitch = p->Q;/' 'FAIL  right on mb1ic64ih14oc64kh3ph1'
plant window 'taps as if there were no dilation' 's/r \* p.dil_h \* t.pitch \+ s \* p.dil_w\)/r * t.pitch + s)/' 'FAIL  right on 17 shapes'
plant window 'no room for what the last tap reads' 's/return \(MOST_N .*?;/return MOST_N * ROW;/' 'race: my_fprop_kernel, .*a copy into it: .*a copy wrote it'
plant window 'the bytes of the box expected for every tap' 's/\(tap == 0 \? (t.height \* t.pitch \* ROW) : 0\)/$1/' 'deadlock'
plant window 'nothing behind the box' 's/  for \(int i = threadIdx.x; i < bytes.*?\n//' 'uninitialised: my_fprop_kernel'
plant window 'no fence behind the results' 's/(put_turned.*?\n)  ptx_fence_proxy_async\(\);\n/$1/' 'proxy: my_fprop_kernel, .*a store from it, with no fence'
plant window 'results over pixels that are still read' 's/    ptx_wgmma_wait<0>\(\);\n    __syncthreads\(\);.*?\n/    ptx_wgmma_wait<0>();\n/' 'race: my_fprop_kernel'
