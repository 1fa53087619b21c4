# More wrong answers, for tests/exercises.sh, as in planted.sh. First: what has room for more than some number and is asked for more.
plant nhwc 'no more than 33 channels' 's/c < group_c; c\+\+/c < min(group_c, 33); c++/' 'all [0-9]+ shapes with more than 64 channels in a group are wrong, and no other'
plant nhwc 'no more than 200 filters' 's/  float sum = 0;/  if (k >= 200) return;\n$&/' 'first on mb1ic3ih3oc260'
plant nhwc 'no more than eight images' 's/  float sum = 0;/  if (n >= 8) return;\n$&/' 'first on mb9ic2ih3oc3'
plant nhwc 'no more than 128 columns' 's/  float sum = 0;/  if (out_q >= 128) return;\n$&/' 'first on mb1ic2ih3iw150oc3'
plant nhwc 'filters of no more than nine rows' 's/r < p.R; r/r < min(p.R, 9); r/' 'first on mb1ic1ih9oc2oh9kh13ph6'
plant four-filters 'no more than 64 channels' 's/c < group_c; c\+\+/c < min(group_c, 64); c++/' 'all [0-9]+ shapes with more than 64 channels in a group are wrong, and no other'
plant float4 'no more than 64 channels of a pixel' 's/c < group_c; c/c < min(group_c, 64); c/g' 'all [0-9]+ shapes with more than 64 channels in a group are wrong, and no other'
plant rearranged 'no more than 128 filters copied' 's/\* group_c \* p.K\) return;/* group_c * p.K || i % p.K >= 200) return;/' 'uninitialised: my_fprop_kernel, .*workspace'
plant dilated-halo 'no more than 33 channels' 's/c < group_c; c\+\+/c < min(group_c, 33); c++/' 'with more than 64 channels in a group'
plant banks 'no more than 64 channels' 's/first_c < group_c; first_c/first_c < min(group_c, 64); first_c/' 'all [0-9]+ shapes with more than 64 channels in a group are wrong, and no other'
plant banks 'no more than four stages' 's/first_c < group_c; first_c/first_c < min(group_c, 4 * CHANNELS); first_c/' 'all [0-9]+ shapes with more than 128 channels in a group are wrong, and no other'
plant no-division 'no more than 40 stages' 's/first < terms; first \+= BK/first < min(terms, 40 * BK); first += BK/' 'first on mb1ic130ih3oc5'
plant swizzle 'no more than five stages of a tap' 's/first < terms; first \+= BK/first < min(terms, (p.R * p.S > 1 ? 1000 : 5) * BK); first += BK/' 'first on mb1ic328ih3oc8'
plant ring 'no more than five stages' 's/const int steps = .*?;/const int steps = min(5, p.R * p.S * ((p.C + BK - 1) \/ BK));/' 'FAIL  right on mb1ic64ih8oc64kh3ph1'

# What stands in the padding is fetched from somewhere, and multiplied by zero. Results are right.
padded='pixels loaded for each product that exists: .*mostly padding, which needs no load'
clamped='s/      if \(in_h < 0 \|\| in_h >= p.H \|\| in_w < 0 \|\| in_w >= p.W\) continue;\n/const float there = in_h >= 0 \&\& in_h < p.H \&\& in_w >= 0 \&\& in_w < p.W;\n/; s/\(n \* p.H \+ in_h\) \* p.W \+ in_w\)/(n * p.H + min(max(in_h, 0), p.H - 1)) * p.W + min(max(in_w, 0), p.W - 1))/;'
plant nhwc 'padding loaded from the nearest pixel' "$clamped s/sum \\+= x/sum += there * x/" "FAIL  $padded"
plant rearranged 'padding loaded from the nearest pixel' "$clamped s/sum \\+= x/sum += there * x/" "FAIL  $padded"
plant float4 'padding loaded from the nearest pixel' "$clamped s/sum \\+= pixel\\[c\\]/sum += there * pixel[c]/; s/sum \\+= (a.x.*?);/sum += there * (\$1);/" "FAIL  $padded"
plant epilogue 'padding loaded from the nearest pixel' "$clamped s/sum \\+= x/sum += there * x/" "FAIL  $padded"
plant four-filters 'padding loaded from the nearest pixel' 's/        if \(in_h < 0 .*?continue;\n/const float there = in_h >= 0 \&\& in_h < p.H \&\& in_w >= 0 \&\& in_w < p.W;\n/; s/pixel = x\[(.*?)in_h\) \* p.W \+ in_w\]/pixel = there * x[$1min(max(in_h, 0), p.H - 1)) * p.W + min(max(in_w, 0), p.W - 1)]/' "FAIL  $padded"
plant nhwc-dgrad 'windows that are not there loaded from the first one' 's/      if \(down < 0 .*?continue;\n/const bool there = !(down < 0 || right < 0 || out_p * p.stride_h != down || out_q * p.stride_w != right || out_p >= p.P || out_q >= p.Q);\n/; s/sum \+= dy\[\(\(n \* p.P \+ out_p\) \* p.Q \+ out_q\)/sum += there * dy[((n * p.P + there * out_p) * p.Q + there * out_q)/' "FAIL  $padded"
nearest='s/(\w+)\[(.*?)\] = inside \? (\w+)\[(.*?)in_h(.*?)in_w(.*?)\] : 0;/$1\[$2\] = inside * $3\[$4min(max(in_h, 0), p.H - 1)$5min(max(in_w, 0), p.W - 1)$6\];/;'
plant dilated-halo 'padding loaded from the nearest pixel' "$nearest" "FAIL  $padded"
plant race 'padding loaded from the nearest pixel' "$nearest" "FAIL  $padded"
plant no-division 'padding loaded from the nearest pixel' 's/= inside \? x\[\(c \* p.H \+ in_h\) \* p.W \+ in_w\] : 0/= first + l < terms \&\& pixel < pixels ? inside * x[(c * p.H + min(max(in_h, 0), p.H - 1)) * p.W + min(max(in_w, 0), p.W - 1)] : 0/' "FAIL  $padded"
plant slices 'padding loaded from the nearest pixel' 's/return inside \? x\[(.*?)in_h\) \* p.W \+ in_w\] : 0;/return inside * x[$1min(max(in_h, 0), p.H - 1)) * p.W + min(max(in_w, 0), p.W - 1)];/' "FAIL  $padded"
plant rolling-rows 'padding loaded from the nearest pixel' 's/else pixel\[j\] = .*?;/else pixel[j] = (in_h >= 0 \&\& in_h < p.H) * column[min(max(in_h, 0), p.H - 1) * p.W];/' "FAIL  $padded"
plant constant 'padding loaded from the nearest pixel' 's/(__global__ [^\n]*constant_fprop.*)if \(in_h < 0 .*?continue;(.*?)sum \+= x\[(.*?)in_h\) \* p.W \+ in_w\]/$1const float there = in_h >= 0 \&\& in_h < p.H \&\& in_w >= 0 \&\& in_w < p.W;$2sum += there * x[$3min(max(in_h, 0), p.H - 1)) * p.W + min(max(in_w, 0), p.W - 1)]/s' "FAIL  $padded"
plant winograd 'padding loaded from the nearest pixel' 's/d\[j\] = .*?;/d[j] = (in_w >= 0 \&\& in_w < p.W) * row[min(max(in_w, 0), p.W - 1)];/' "FAIL  $padded"

# The feature that fails is named.
plant nhwc 'the bottom row too far' 's/in_h >= p.H/in_h > p.H/' 'shapes with padding below (and|are)'
plant nhwc 'one stride for both directions' 's/p.stride_w/p.stride_h/' 'shapes with (two different strides|a (vertical |horizontal )?stride)'
plant nhwc-dgrad 'one dilation for both directions' 's/p.dil_w/p.dil_h/' 'shapes with (two different dilations|a (vertical |horizontal )?dilation)'
plant float4 'padding on the left as above' 's/p.pad_left/p.pad_top/' 'shapes with padding'
plant rearranged 'groups forgotten' 's/first_c = .*?;/first_c = 0;/' 'shapes with groups (and|are)'

plant race 'the barrier stands where it stood, weights doubled' 's/    __syncthreads\(\);.*?\n(.*?weights\[s\];\n)/$1    __syncthreads();\n/s' 'race: my_fprop_kernel, .* shared'
plant race 'weights have one buffer' 's/ \+ stage % 2 \* p.S;/;/' 'race: my_fprop_kernel, .* shared'
plant race 'two barriers hide it' 's/(    for \(int s = 0; s < p.S; s\+\+\) sum .*?\n)/$1    __syncthreads();\n/' 'FAIL  barriers of a thread for each stage: 2 and 2, goal at most 1\.1'
plant race 'one warp meets instead of the block' 's/__syncthreads\(\)/__syncwarp()/' 'race: my_fprop_kernel, .* shared'
plant race 'one buffer, and a barrier behind its reads alone' 's/stage % 2 \* width/0 * width/; s/    __syncthreads\(\);.*?\n(.*?weights\[s\];\n)/$1    __syncthreads();\n/s' 'race|uninitialised'
plant race 'who has no output does not come to the barrier' 's/  float sum = 0;/  if (out_q >= p.Q) return;\n$&/' 'threads had ended when the others met at .*race'
plant race 'shared memory for one buffer' 's/2 \* \(\(size_t\)width/1 * ((size_t)width/' 'out-of-bounds: my_fprop_kernel, .* shared'
plant race 'no shared memory' 's/pixels\[threadIdx.x \* p.stride_w \+ s \* p.dil_w\]/(in_h >= 0 \&\& in_h < p.H \&\& out_q * p.stride_w - p.pad_left + s * p.dil_w >= 0 \&\& out_q * p.stride_w - p.pad_left + s * p.dil_w < p.W \&\& out_q < p.Q ? x[((n * p.C + first_c + c) * p.H + in_h) * p.W + out_q * p.stride_w - p.pad_left + s * p.dil_w] : 0)/; s/    for \(int i = threadIdx.x; i < width.*?\n    \}\n//s; s/weights\[s\];/w[((k * group_c + c) * p.R + r) * p.S + s];/g; s/    for \(int s = threadIdx.x.*?\n//; s/, \*weights = .*?;/;/; s/    float \*pixels.*?;\n//' 'FAIL  loads for each product: 5\.48 and'

plant race 'two barriers, one of them an mbarrier' 's/#include "common/#include "common\/ptx\/ptx.cuh"\n#include "common/; s/ \+ stage % 2 \* p.S;/;/; s/  float sum = 0;/  __shared__ unsigned long long meeting;\n  const ptx_shared met = ptx_shared_address(\&meeting);\n  if (threadIdx.x == 0) ptx_mbarrier_init(met, OUTPUTS), ptx_fence_mbarrier_init();\n  __syncthreads();\n$&/; s/(    for \(int s = 0; s < p.S; s\+\+\) sum .*?\n)/$1    ptx_mbarrier_arrive(met), ptx_mbarrier_wait(met, stage \& 1);\n/' 'FAIL  barriers of a thread for each stage: 2'
plant race 'two barriers, and as many blocks that have none' 's/  float sum = 0;/  if (blockIdx.x >= gridDim.x \/ 2) return;\n$&/; s/ \+ stage % 2 \* p.S;/;/; s/(    for \(int s = 0; s < p.S; s\+\+\) sum .*?\n)/$1    __syncthreads();\n/; s/<<<p->N/<<<2 * p->N/' 'FAIL  barriers of a thread for each stage: 2'
plant race 'two barriers, and blocks that have one' 's/  float sum = 0;/  if (blockIdx.x >= gridDim.x \/ 2) {\n    __syncthreads();\n    return;\n  }\n$&/; s/ \+ stage % 2 \* p.S;/;/; s/(    for \(int s = 0; s < p.S; s\+\+\) sum .*?\n)/$1    __syncthreads();\n/; s/<<<p->N/<<<2 * p->N/' 'FAIL  barriers of a thread for each stage: 2'

planted missing-wait 'the wait as given, the barrier before the copy' 's/    if \(stage \+ STAGES - 1 < stages\) (copy.*?\n)(.*?__syncthreads\(\);\n)/$2    if (stage + STAGES - 1 < stages) $1/s' 'uninitialised: .*a copy that nobody has waited for'
planted missing-wait 'waits for all, behind the copy' 's/STAGES - 1\); \/\*.*?\n/0);\n/' 'race: my_fprop_kernel, .* shared'
plant missing-wait 'waits for all' 's/wait_prior\(STAGES - 2\)/wait_prior(0)/' 'FAIL  copies on their way behind a wait: 0 and 0, goal at least 1\.5'
plant missing-wait 'a copy ahead, not three' 's/STAGES = 4/STAGES = 2/' 'FAIL  copies on their way behind a wait: 0 and 0, goal at least 1\.5'
plant missing-wait 'three stages' 's/STAGES = 4/STAGES = 3/' 'FAIL  copies on their way behind a wait: (1|0\.9[0-9]*) and (1|0\.9[0-9]*), goal at least 1\.5'
plant missing-wait 'nothing runs ahead, but for empty groups' 's/STAGES = 4/STAGES = 2/; s/  for \(int stage = 0; stage < STAGES - 1; stage\+\+\) copy\(stage\);\n//; s/__pipeline_wait_prior\(STAGES - 2\);/copy(stage);\n    __pipeline_commit();\n    __pipeline_commit();\n    __pipeline_wait_prior(2);/; s/    copy\(stage \+ STAGES - 1\);\n//' 'FAIL  copies on their way behind a wait: 0 and 0'
plant missing-wait 'no empty groups behind the last stage' 's/(      for \(int s = threadIdx.x.*?\n)    \}\n    (__pipeline_commit.*?\n)/$1$2    }\n/' 'uninitialised: .*a copy that nobody has waited for'
plant missing-wait 'the barrier before the wait' 's/(    __pipeline_wait.*?\n)(    __syncthreads.*?\n)/$2$1/' 'uninitialised|race'
plant missing-wait 'no barrier' 's/    __syncthreads.*?\n//' 'race: my_fprop_kernel'
plant missing-wait 'no group closed' 's/    __pipeline_commit.*?\n//' 'uninitialised: .*a copy that nobody has waited for'
plant missing-wait 'a barrier too many' 's/(    copy\(stage \+ STAGES - 1\);\n)/    __syncthreads();\n$1/' 'FAIL  barriers of a thread for each stage: 2'
plant missing-wait 'padding copied from the first pixel' 's/4, inside \? 0 : 4\)/4, 0)/' 'first on'

plant constant 'the filters of every image' 's/k = blockIdx.x \/ parts % p.K, n = blockIdx.x \/ parts \/ p.K/k = blockIdx.x \/ parts \/ p.N, n = blockIdx.x \/ parts % p.N/' passed
plant constant 'too many filters for the array' 's/filters <= MOST_FILTERS/filters <= 2 * MOST_FILTERS/' 'FAIL  right on 41 shapes'
plant constant 'only half of the filters copied' 's/filters \* sizeof\(float\)/(filters + 1) \/ 2 * sizeof(float)/' 'FAIL  right on mb1ic4ih14oc6kh3ph1'
plant constant 'lanes of several filters' 's/const int parts = .*?\n.*?\n  if \(i >= p.P \* p.Q\) return;\n.*?\n/const int i = blockIdx.x * THREADS + threadIdx.x;\n  if (i >= p.P * p.Q * p.N * p.K) return;\n  const int k = i % p.K, out_q = i \/ p.K % p.Q, out_p = i \/ p.K \/ p.Q % p.P, n = i \/ p.K \/ p.Q \/ p.P;\n/; s/\(p->P \* p->Q \+ THREADS - 1\) \/ THREADS \* p->N \* p->K/(p->P * p->Q * p->N * p->K + THREADS - 1) \/ THREADS/' 'FAIL  elements of constant memory in a request: [5-9]'
plant constant 'small filters only' 's/filters <= MOST_FILTERS/filters <= 100/' 'FAIL  loads for each product: 1\.8'
plant constant 'groups forgotten' 's/(__global__ [^\n]*constant_fprop.*)first_c = k .*?;/$1first_c = 0;/s' 'with groups'
plant constant 'the host copies' 's/cudaMemcpyToSymbolAsync\(constant_w, b->w, (.*?), 0, cudaMemcpyDeviceToDevice, stream\)/cudaMemcpyToSymbol(constant_w, b->w, $1)/' 'exercise_launch (used the default stream|failed)'

plant fixed-order 'added up by atomics' 's/  parts\[blockIdx.y .*?\n/  atomicAdd(\&parts[((k * p.R + r) * p.S + s) * group_c + c], sum);\n/; s/  float sum = 0;\n  for \(int part = 0.*?\n/  const float sum = 0;\n/; s/float \*parts = \(float \*\)b->workspace/float *parts = (float *)b->w/; s/const float \*parts, float \*dw/float *dw/; s/(  my_wgrad_kernel<<<.*?\n)(  add_parts.*?\n)/$2$1/; s/\(\*p, parts, \(float/(*p, (float/' 'FAIL  atomics: [1-9]'
plant fixed-order 'two blocks add to the same part' 's/parts\[blockIdx.y \* p.K/parts[blockIdx.y \/ 2 * p.K/; s/i\] = sum;/i] += sum;/' 'block-race|uninitialised'
plant fixed-order 'parts that have no row write nothing' 's/  float sum = 0;\n  for \(int row/  if (blockIdx.y >= p.N * p.P) return;\n$&/' 'uninitialised: add_parts_kernel, .* workspace'
plant fixed-order 'four parts' 's/PARTS = 32/PARTS = 4/' 'FAIL  threads for each output, of the kernel that loads most: 5\.33'
plant fixed-order 'eighty parts' 's/PARTS = 32/PARTS = 80/' 'out-of-bounds: my_wgrad_kernel, .* workspace'
plant fixed-order 'the rows of the first image' 's/row < p.N \* p.P; row/row < p.P; row/' 'shapes with several images (and|are)'
plant fixed-order 'neighbours on the taps' 's/const int k = i % p.K;.*?\n/const int s = i % p.S, r = i \/ p.S % p.R, c = i \/ p.S \/ p.R % group_c, k = i \/ p.S \/ p.R \/ group_c;\n/; s/  const int c = i \/ p.K % group_c;\n  const int s = .*?\n  const int r = .*?\n//; s/const int k = i % p.K, c = i \/ p.K % group_c, tap = i \/ p.K \/ group_c;/const int tap = i % (p.R * p.S), c = i \/ p.R \/ p.S % group_c, k = i \/ p.R \/ p.S \/ group_c;/' 'FAIL  (lanes taking part|sectors loaded|pixels loaded).*goal'
plant fixed-order 'the last part twice, the first not' 's/for \(int part = 0; part < PARTS; part\+\+\) sum \+= parts\[part/for (int part = 0; part < PARTS; part++) sum += parts[max(part, 1)/' 'FAIL  right on g32mb2ic32ih14oc32kh3ph1'

plant classes 'rows by classes, columns as they are' 's/p.stride_w, first_w = blockIdx.y % p.stride_w/1, first_w = 0/; s/p.W - first_w \+ p.stride_w - 1\) \/ p.stride_w/p.W)/; s/i % cols \* p.stride_w \+ first_w/i % cols/; s/p->W \+ p->stride_w - 1\) \/ p->stride_w/p->W)/; s/p->stride_h \* p->stride_w\)/p->stride_h)/' 'FAIL  lanes taking part in a request: 1[0-9]'
plant classes 'stride 2 whatever the shape' 's/p(.|->)stride_h \* p(.|->)stride_w\)/p->stride_h * p->stride_w > 1 ? 4 : 1)/' 'with a (horizontal |vertical )?stride'
plant classes 'as many blocks as the smallest class wants' 's/\(p->H \+ p->stride_h - 1\) \/ p->stride_h/max(p->H \/ p->stride_h, 1)/' 'first on'
plant classes 'row and column of the class exchanged' 's/first_h = blockIdx.y \/ p.stride_w, first_w = blockIdx.y % p.stride_w/first_h = blockIdx.y % p.stride_h, first_w = blockIdx.y \/ p.stride_h/' passed
plant classes 'the remainder of the other stride' 's/first_w = blockIdx.y % p.stride_w/first_w = blockIdx.y % p.stride_h/' 'shapes with (two different strides|a (vertical |horizontal )?stride)'
plant classes 'pixels that no window reaches are left out' 's/  float sum = 0;/  if (p.stride_h > p.R \&\& first_h >= p.R) return;\n$&/' 'got -?nan, want 0'
plant classes 'classes for stride 2 on the layer of the text only' 's/const int first_h = .*?\n.*?\n/const bool text = p.H == 28;\n  const int step_h = text ? p.stride_h : 1, step_w = text ? p.stride_w : 1, first_h = blockIdx.y \/ step_w, first_w = blockIdx.y % step_w;\n  const int rows = (p.H - first_h + step_h - 1) \/ step_h, cols = (p.W - first_w + step_w - 1) \/ step_w;\n/; s/\* p.stride_w \+ first_w/* step_w + first_w/; s/\* p.stride_h \+ first_h/* step_h + first_h/; s/const int rows = \(p->H \+.*?;/const int h = p->H == 28 ? p->stride_h : 1, v = p->H == 28 ? p->stride_w : 1, rows = (p->H + h - 1) \/ h, cols = (p->W + v - 1) \/ v;/; s/p->stride_h \* p->stride_w\)/h * v)/' 'FAIL  lanes taking part in a request: 29\.9 and [0-9.]+, goal at least 20'

plant winograd 'the last two terms exchanged' 's/make_float4\(g0, (.*?), (0.5f \* \(g0 - g1 \+ g2\)), g2\)/make_float4(g0, $1, g2, $2)/' 'with 3 x 3 filters|with filters of several columns|FAIL  right on mb1ic8ih14oc16kh3ph1'
plant winograd 'taps not halved' 's/0\.5f \* \(g0 \+ g1/1.0f * (g0 + g1/' 'FAIL  right on mb1ic8ih14oc16kh3ph1'
plant winograd 'a sign' 's/m1 - m2 - m3/m1 - m2 + m3/' 'FAIL  right on mb1ic8ih14oc16kh3ph1'
plant winograd 'with any stride' 's/p->S == 3 && p->stride_w == 1/p->S == 3/' 'with a (horizontal )?stride|FAIL  right on 43'
plant winograd 'with any dilation' 's/ && p->dil_w == 1//' 'dilation'
plant winograd 'square filters only' 's/p->S == 3 &&/p->S == 3 \&\& p->R == 3 \&\&/' passed
plant winograd 'any width' 's/p->S == 3 && /p->S >= 3 \&\& /' 'first on|FAIL  right on 43'
plant winograd 'an even number of columns' 's/if \(first_q \+ 1 < p.Q\) out\[1\]/out[1]/' 'block-race: winograd_fprop_kernel|out-of-bounds: winograd_fprop_kernel'
plant winograd 'taps transformed by every thread' 's/const float4 taps = .*?;/const float *g = \&((const float *)u)[((k * group_c + c) * p.R + r) * 3];\n      const float4 taps = make_float4(g[0], 0.5f * (g[0] + g[1] + g[2]), 0.5f * (g[0] - g[1] + g[2]), g[2]);/; s/x, u, \(float/x, (const float4 *)b->w, (float/' 'FAIL  multiplications for each product: (0\.9|1)[0-9.]* and [0-9.]+, goal at most 0\.7'
plant winograd 'a row of filters not transformed' 's/\(rows \+ THREADS - 1\) \/ THREADS, THREADS, 0, stream>>>\(rows,/(rows + THREADS - 2) \/ THREADS, THREADS, 0, stream>>>(rows - 1,/' 'uninitialised: winograd_fprop_kernel, .*workspace'

plant epilogue 'the residual behind the activation' 's/  if \(f.residual\) sum .*?\n//; s/fmaxf\(sum, 0\)/fmaxf(sum, 0) + (f.residual ? f.residual[i] : 0)/' 'FAIL  right on mb1ic16ih14oc32kh3ph1'
plant epilogue 'the bias scaled too' 's/  if \(f.scale\) sum .*?\n(.*?\n)/$1  if (f.scale) sum *= f.scale[k];\n/' 'FAIL  right on mb1ic16ih14oc32kh3ph1'
plant epilogue 'no activation' 's/fmaxf\(sum, 0\)/sum/' 'FAIL  right on mb1ic16ih14oc32kh3ph1'
plant epilogue 'scale and residual always there' 's/if \(f.scale\) //; s/if \(f.residual\) //' 'host-pointer|illegal|Segmentation|exit status|ended'
plant epilogue 'channels of the first group' 's/f.bias\[k\]/f.bias[k % (p.K \/ p.groups)]/' 'shapes with (a bias and )?groups (and|are)'
plant epilogue 'finished in memory' 's/  if \(f.scale\) sum \*= f.scale\[k\];/  y[i] = sum;\n  sum = *(volatile float *)\&y[i];\n$&/' 'FAIL  stores for each output: 2 and 2, goal at most 1'
plant epilogue 'the residual of NCHW' 's/f.residual\[i\]/f.residual[((n * p.K + k) * p.P + out_p) * p.Q + out_q]/' 'FAIL  right on mb1ic16ih14oc32kh3ph1'

plant residual 'sums rounded before they change hands' 's/float results\[BM\]/__half results[BM]/; s/= sum\[j\]\[i\];/= __float2half(sum[j][i]);/; s/finished\(f, results\[i \/ BN\]\[i % BN\]/finished(f, __half2float(results[i \/ BN][i % BN])/' 'FAIL  right on [0-9]+ shapes|FAIL  right on 60 random'
plant residual 'no barrier between' 's/  __syncthreads\(\); \/\* the sums.*?\n//' 'uninitialised: my_fprop_kernel, .* results'
plant residual 'neighbours on pixels' 's/const int pixel = first_pixel \+ i \/ BN, k = first_k \+ i % BN/const int pixel = first_pixel + i % BM, k = first_k + i \/ BM/; s/results\[i \/ BN\]\[i % BN\]/results[i % BM][i \/ BM]/' 'FAIL  sectors of the residual for every 32 outputs: (3[0-9]|[4-9])'
plant residual 'y by whole sectors, the residual not' 's/= sum\[j\]\[i\];/{\n      const int pixel = first_pixel + 16 * warp + lane \/ 4 + 8 * (i \/ 2), k = first_k + 8 * j + 2 * (lane % 4) + i % 2;\n      const bool there = pixel < pixels \&\& k < group_k \&\& f.residual;\n      results[16 * warp + lane \/ 4 + 8 * (i \/ 2)][8 * j + 2 * (lane % 4) + i % 2] = sum[j][i] * (f.scale \&\& k < group_k ? f.scale[group * group_k + k] : 1) + (f.bias \&\& k < group_k ? f.bias[group * group_k + k] : 0) + (there ? __half2float(f.residual[pixel * p.K + group * group_k + k]) : 0);\n    }/; s/    for \(int i = 0; i < 4; i\+\+\) results.*?\] \{/    for (int i = 0; i < 4; i++) {/; s/y\[pixel \* p.K \+ of_y\] = finished.*?;/y[pixel * p.K + of_y] = __float2half(fmaxf(results[i \/ BN][i % BN], 0));/' 'FAIL  sectors of the residual for every 32 outputs: 8 and 8, goal at most 2\.1'
plant residual 'filters of the next group' 's/(const int pixel = first_pixel \+ i \/ BN.*?\n    if \(pixel < pixels) && k < group_k\)/$1 \&\& of_y < p.K)/' 'block-race|first on|out-of-bounds'
plant residual 'scale and bias exchanged' 's/sum \*= f.scale\[k\]/sum += f.scale[k]/; s/sum \+= f.bias\[k\]/sum *= f.bias[k]/' 'FAIL  right on mb1ic32ih8oc32kh1ph0'

plant pool 'every window by itself' 's/most = fmaxf\(most, tile\[2 \* at_p \+ i\]\[2 \* at_q \+ j\]\)/{\n      const int out_p = 2 * (first_p + at_p) - 1 + i, out_q = 2 * (first_q + at_q) - 1 + j;\n      if (out_p >= 0 \&\& out_p < p.P \&\& out_q >= 0 \&\& out_q < p.Q) most = fmaxf(most, output_of(p, x, w, plane \/ p.K, plane % p.K, out_p, out_q));\n    }/; s/  for \(int i = threadIdx.x; i < ROWS.*?  \}\n//s; s/  __shared__ .*?\n//; s/  __syncthreads.*?\n//' 'FAIL  loads for each product: [34]'
plant pool 'no barrier' 's/  __syncthreads.*?\n//' 'uninitialised: my_pooled_kernel, .* tile'
plant pool 'windows of 2 x 2' 's/i < 3; i/i < 2; i/; s/j < 3; j/j < 2; j/' 'FAIL  right on mb1ic3ih32oc4kh3ph1'
plant pool 'no padding of the pooling' 's/2 \* first_p - 1 \+/2 * first_p +/; s/2 \* first_q - 1 \+/2 * first_q +/' 'FAIL  right on mb1ic3ih32oc4kh3ph1'
plant pool 'a tile without its rim' 's/ROWS = 2 \* TILE_P \+ 1, COLS = 2 \* TILE_Q \+ 1/ROWS = 2 * TILE_P, COLS = 2 * TILE_Q/' 'out-of-bounds|uninitialised'
plant pool 'half of the last row of results' 's/\(p(.|->)P \+ 1\) \/ 2/p$1P \/ 2/g' 'first on'
plant pool 'small tiles' 's/THREADS = 128, TILE_P = 8, TILE_Q = 16/THREADS = 4, TILE_P = 2, TILE_Q = 2/' 'FAIL  loads for each product: [23]\.[0-9]+ and [0-9.]+, goal at most 2\.5'
plant pool 'outputs that are not there count as computed' 's/exists \? (output_of.*?) : 0;.*?\n/$1;\n/' 'first on'
plant pool 'stored before it is pooled, too' 's/(  __syncthreads\(\); \/\* the outputs.*?\n)/$1  for (int i = threadIdx.x; i < 2 * TILE_P * 2 * TILE_Q; i += THREADS) {\n    const int out_p = 2 * first_p + i \/ (2 * TILE_Q), out_q = 2 * first_q + i % (2 * TILE_Q);\n    if (out_p < p.P \&\& out_q < p.Q) y[(plane * p.P + out_p) * p.Q + out_q] = tile[1 + i \/ (2 * TILE_Q)][1 + i % (2 * TILE_Q)];\n  }\n/; s/float \*to\) \{/float *to, float *y) {/; s/\(float \*\)b->y\)/(float *)b->y, (float *)b->workspace)/' 'FAIL  stores for each output: 5 and'

# What seems to pass, and does not.
plant race 'weights past shared memory' 's/, \*weights = shared \+ 2 \* width \+ stage % 2 \* p.S;/;/; s/    for \(int s = threadIdx.x; s < p.S.*?\n//; s/    (for \(int s = 0; s < p.S; s\+\+\) sum)/    if (out_q < p.Q)\n      $1/; s/weights\[s\]/w[((k * group_c + c) * p.R + r) * p.S + s]/' 'FAIL  loads for each product: '
plant constant 'weights in memory like any other' 's/static __constant__ float/static __device__ float/' 'FAIL  (loads for each product|requests to constant memory for every 32 products)'
plant constant '... the second in its declaration' 's/static __constant__ float /static __device__ float other[2], /' 'FAIL  (loads for each product|requests to constant memory for every 32 products)'
plant fixed-order 'an image a part' 's/  for \(int row = blockIdx.y; row < p.N \* p.P; row \+= PARTS\) \{\n.*?\n/  for (int n = blockIdx.y; n < p.N; n += PARTS) for (int out_p = 0; out_p < p.P; out_p++) {\n/' 'FAIL  loads of the busiest block over those of an average one: '
plant epilogue 'a bias that need not be there' 's/if \(f.bias\) sum \+=/sum +=/' 'illegal access to address (.nil.|0x)|host-pointer'
plant residual 'a bias that need not be there' 's/if \(f.bias\) sum \+=/sum +=/' 'illegal access to address (.nil.|0x)|host-pointer'
for e in epilogue residual; do # right with all parts, and wrong without some
  plant $e 'a residual read where there is a scale alone' 's/if \(f.scale\) sum \*= f.scale\[k\]/if (f.scale) sum = sum * f.scale[k] + 0 * (float)f.residual[i]/' 'illegal access to address (.nil.|0x)|host-pointer'
  plant $e 'a scale with a residual alone' 's/if \(f.scale\)/if (f.scale \&\& f.residual)/' 'with scale,relu: .*shapes? (is|are) wrong'
  plant $e 'a bias with a scale needs a residual' 's/if \(f.bias\)/if (f.bias \&\& (f.residual || !f.scale))/' 'FAIL  right on 60 random'
  plant $e 'a bias needs a scale or a residual' 's/if \(f.bias\)/if (f.bias \&\& (f.residual || f.scale))/' 'FAIL  right on 60 random'
  plant $e 'a residual with a bias needs a scale' 's/if \(f.residual\)/if (f.residual \&\& (f.scale || !f.bias))/' 'FAIL  right on 60 random'
  plant $e 'an activation that needs a part' 's/fmaxf\(sum, 0\)/f.scale || f.bias || f.residual ? fmaxf(sum, 0) : sum/' 'FAIL  right on 60 random'
done
plant pool 'outputs rounded to fp16' 's/#include/#include <cuda_fp16.h>\n#include/; s/__shared__ float tile/__shared__ __half tile/; s/= exists \? (output_of\(.*?\)) : 0;/= __float2half(exists ? $1 : 0.0f);/; s/tile\[2 \* at_p \+ i\]\[2 \* at_q \+ j\]/__half2float(tile[2 * at_p + i][2 * at_q + j])/' 'FAIL  right|wrong'
planted winograd 'six products by fmaf' 's/sum\[j\] \+= row\[in_w\] \* taps\[s\]/sum[j] = fmaf(row[in_w], taps[s], sum[j])/' 'FAIL  .*multiplications'
# What only the host has; what is volatile; numbers that are not whole, and more than eight bits of them.
plant nhwc 'a problem that lies on the host' 's/\(conv_problem p,/(const conv_problem *problem,/; s/(  const int i = )/  const conv_problem p = *problem;\n$1/; s/stream>>>\(\*p,/stream>>>(p,/' 'got -?nan, want'
plant slices 'added up without atomics, after zeroes, volatile' 's/float \*y = parts .*?;/volatile float *y = parts;/; s/(y\[\(n \* .*?\]) = sum\[i\]\[j\]/$1 = $1 + sum[i][j]/; s/  float sum = 0;\n  for \(int slice = 0.*?\n  y\[i\] = sum;/  y[i] = 0;/; s/\(float \*\)b->workspace/(float *)b->y/; s/(  slice_kernel<<<.*?\n)(  add_slices.*?\n)/$2$1/' 'block-race: slice_kernel, .* y,'
plant pool 'sums of integers' 's/float sum = 0;/int sum = 0;/' 'FAIL  right on mb1ic3ih32oc4kh3ph1'
plant pool 'a tile of integers' 's/__shared__ float tile/__shared__ int tile/' 'FAIL  right on mb1ic3ih32oc4kh3ph1'
plant pool 'inputs of a byte' 's/sum \+= (x\[.*?\]) \* (w\[)/sum += (signed char)$1 * (signed char)$2/' 'FAIL  right on mb1ic3ih32oc4kh3ph1'
plant pool 'inputs with ten bits' 's/sum \+= (x\[.*?\]) \* (w\[)/sum += __int_as_float(__float_as_int($1) \& ~0x1fff) * $2/' 'FAIL  right on mb1ic3ih32oc4kh3ph1'
plant nhwc 'a problem by reference' 's/\(conv_problem p,/(const conv_problem \&p,/' 'a_problem_by_reference.cu:10: a kernel.s parameter is a reference, expected a value'
plant nhwc 'the last line of a report, printed and left' 's/#include/#include <cstdio>\n#include <unistd.h>\n#include/; s/  const int outputs/  printf("1 right, 0 wrong, 0 skipped\\n");\n  fflush(stdout);\n  _exit(0);\n$&/' 'FAIL  right on mb1ic16ih28oc16kh3ph0'
plant nhwc 'a division by zero' 's/p.K \/ p.groups\)/p.K \/ (p.groups + p.K))/' 'the checker could not finish: integer division by zero in my_fprop_kernel'
# An order that the clock chooses; sums that the copy engine adds, in whichever order blocks end.
plant fixed-order 'the first part by the clock' 's/  for \(int part = 0; part < PARTS; part\+\+\) sum \+= parts\[part \*/  const int from = (int)(clock64() >> 4 \& 31);\n  for (int part = 0; part < PARTS; part++) sum += parts[(part + from) % PARTS */' 'FAIL  runs with other bits than the first: 1.*goal'
plant fixed-order 'added up by the copy engine' 's/#include "common/#include "common\/ptx\/ptx.cuh"\n#include "common/; s/float \*parts\) \{\n/float *parts, bool reduce) {\n  __shared__ __align__(128) float sums[THREADS];\n/; s/  if \(i >= p.K \* p.R \* p.S \* group_c\) return;\n/  const int elements = p.K * p.R * p.S * group_c;\n  if (!reduce \&\& i >= elements) return;\n/; s/int row = blockIdx.y;/int row = i < elements ? (int)blockIdx.y : p.N * p.P;/; s/  (parts\[blockIdx.y \* .*?\] = sum;)\n/  if (!reduce) {\n    $1\n    return;\n  }\n  sums[threadIdx.x] = sum;\n  ptx_fence_proxy_async();\n  __syncthreads();\n  if (threadIdx.x > 0) return;\n  ptx_bulk_reduce_add_f32(parts + blockIdx.x * THREADS, ptx_shared_address(sums), 4 * min(THREADS, elements - (int)blockIdx.x * THREADS));\n  ptx_bulk_commit();\n  ptx_bulk_wait<0>();\n/; s/float \*dw\) \{/float *dw, int all) {/; s/part < PARTS; part\+\+/part < all; part++/; s/  my_wgrad_kernel<<</  const bool reduce = p->K * p->R * p->S * (p->C \/ p->groups) % 4 == 0;\n  if (reduce) cudaMemsetAsync(parts, 0, p->K * p->R * p->S * (p->C \/ p->groups) * sizeof(float), stream);\n$&/; s/\(const float \*\)b->y, parts\)/(const float *)b->y, parts, reduce)/; s/\(float \*\)b->w\);/(float *)b->w, reduce ? 1 : PARTS);/' 'FAIL  (atomics|runs with other bits than the first): [1-9]'

# The grid that was asked for, and one warp of it that works.
for e in nhwc float4 rearranged epilogue nhwc-dgrad four-filters classes rolling-rows winograd; do
  kernel=my_
  [ $e = winograd ] && kernel=winograd_
  plant $e 'one warp works for all' "s/(void __launch_bounds__\(THREADS\) ${kernel}.*?)  const int i = ([^\n]*?);\n  if \(i >= ([^\n]*?)\) return;\n(.*?\n)\}\n/\$1  if (blockIdx.x > 0 || threadIdx.x >= 32) return;\n  for (int i = threadIdx.x; i < \$3; i += 32) {\n\$4  }\n}\n/s" 'FAIL  loads of the busiest block over those of an average one: .* goal at most 4'
done
plant constant 'one warp works for all' 's/(const int parts = .*?)  const int i = .*?\n.*?\n(  const int out_q = i % p.Q, out_p = i \/ p.Q, ).*?\n(.*?\n)\}\n/  if (blockIdx.x > 0 || threadIdx.x >= 32) return;\n  for (int j = threadIdx.x; j < p.N * p.K * p.P * p.Q; j += 32) {\n  const int i = j % (p.P * p.Q);\n$2k = j \/ (p.P * p.Q) % p.K, n = j \/ (p.P * p.Q) \/ p.K;\n$3  }\n}\n/s' 'FAIL  loads of the busiest block over those of an average one: .* goal at most 4'
plant constant 'up to a thousand weights' 's/filters <= MOST_FILTERS/filters <= 1000/' 'FAIL  requests to constant memory for every 32 products: 0, goal at least 0\.2 \(on mb1ic64ih4oc28kh3ph1, 63 of its 64 KiB\)'
plant dilated-halo 'conflicts among many requests without' 's/tile\[i \* h.width \+ j\]/tile[j * h.height + i]/; s/\(threadIdx.y \* h.stride \+ r \* h.dil\) \* h.width \+ (threadIdx.x \* p.stride_w \+ s \* p.dil_w)\]/threadIdx.y * h.stride + r * h.dil + ($1) * h.height]/; s/(    __syncthreads\(\); \/\* nobody)/    for (int i = 0; i < 400; i++) sum += 0 * tile[threadIdx.x + i % 2];\n$1/' 'FAIL  shared memory requests for every 32 products: '

# A grid has at most 65535 blocks in y and in z.
huge='FAIL  right on huge shapes'
plant nhwc 'two outputs a block in the grid'"'"'s y' 's/  const int i = .*?\n/  const int i = blockIdx.y * 2 + threadIdx.x;\n/; s/<<<.*?, THREADS/<<<dim3(1, (outputs + 1) \/ 2), 2/' "$huge"
plant nhwc 'images in the grid'"'"'s z' 's/  const int i = (.*?);\n  if \(i >= (.*?)\)/  const int i = $1 + blockIdx.z * p.K * p.P * p.Q;\n  if ($1 >= p.K * p.P * p.Q)/; s/(const int outputs = )p->N \* /$1/; s/<<<(.*?), THREADS/<<<dim3($1, 1, p->N), THREADS/' "$huge"
plant constant 'filters in the grid'"'"'s y' 's/blockIdx.x \/ parts % p.K, n = blockIdx.x \/ parts \/ p.K/blockIdx.y, n = blockIdx.x \/ parts/; s/\* p->N \* p->K, THREADS/* p->N, THREADS/; s/<<<(\(p->P.*?), THREADS/<<<dim3($1, p->K), THREADS/' passed

# Divisions by other names, and none.
apart='s/      for \(s \+=.*?c\+\+;\n//s; s/      const int in_h = top/'
by_hand='{ int t = first + l; c = r = 0; while (t >= p.R * p.S) t -= p.R * p.S, c++; while (t >= p.S) t -= p.S, r++; s = t; }'
plant no-division 'div()' "$apart"'const div_t of_c = div(first + l, p.R * p.S), of_r = div(of_c.rem, p.S);\n      c = of_c.quot, r = of_r.quot, s = of_r.rem;\n$&/; s/#include/#include <cstdlib>\n#include/' 'FAIL  divisions for each product: 0\.0[67]'
plant no-division 'fmodf()' "$apart"'const float t = fmodf(first + l, p.R * p.S), u = fmodf(t, p.S);\n      s = (int)u, c = (int)((first + l - t) * per_rs + 0.5f), r = (int)((t - u) * per_s + 0.5f);\n$&/; s/  float sum\[/  const float per_rs = 1.0f \/ (p.R * p.S), per_s = 1.0f \/ p.S;\n$&/' 'FAIL  divisions for each product: 0\.0[67]'
plant no-division 'divisions of 128 bits' "$apart"'const unsigned __int128 l128 = first + l, rs = p.R * p.S;\n      c = (int)(l128 \/ rs), r = (int)(l128 % rs \/ (unsigned __int128)p.S), s = (int)(l128 % rs % (unsigned __int128)p.S);\n$&/' 'FAIL  divisions for each product: 0\.0'
plant no-division 'subtraction in a loop' "$apart$by_hand\\n\$&/" 'FAIL  branches for each product: '
plant no-division 'products with what 1 / S is' "$apart"'const int t = (int)((first + l + 0.5f) * per_rs), u = first + l - t * p.R * p.S;\n      c = t, r = (int)((u + 0.5f) * per_s), s = u - r * p.S;\n$&/; s/  float sum\[/  const float per_rs = 1.0f \/ (p.R * p.S), per_s = 1.0f \/ p.S;\n$&/' passed

# More filters than four; weights that four lanes load, for all.
plant four-filters 'eight filters a thread' 's/FILTERS = 4/FILTERS = 8/' passed
cat >"$folder/handed.cu" <<'END'
#include <cuda_runtime.h>
#include "common/exercise/exercise.h"
__global__ void my_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int group_k = p.K / p.groups, group_c = p.C / p.groups, parts = (group_k + 3) / 4, pixels = p.N * p.P * p.Q, each = (pixels + 31) / 32;
  const int lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (warp >= each * parts * p.groups) return;
  const int pixel = warp % each * 32 + lane, part = warp / each % parts, group = warp / each / parts;
  const int k = group * group_k + part * 4, filters = min(4, group_k - part * 4), out_q = pixel % p.Q, out_p = pixel / p.Q % p.P, n = pixel / p.Q / p.P;
  float sum[4] = {};
  for (int c = 0; c < group_c; c++)
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) {
        const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h, in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
        const bool inside = pixel < pixels && in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
        const float weight = lane < filters ? w[(((k + lane) * group_c + c) * p.R + r) * p.S + s] : 0;
        const float a = inside ? x[((n * p.C + group * group_c + c) * p.H + in_h) * p.W + in_w] : 0;
        for (int j = 0; j < 4; j++) sum[j] += a * __shfl_sync(0xFFFFFFFFu, weight, j);
      }
  for (int j = 0; j < filters && pixel < pixels; j++) y[((n * p.K + k + j) * p.P + out_p) * p.Q + out_q] = sum[j];
}
cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int warps = (p->N * p->P * p->Q + 31) / 32 * ((p->K / p->groups + 3) / 4) * p->groups;
  my_fprop_kernel<<<(warps + 3) / 4, 128, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
END
add four-filters 'weights handed on by shuffles' "$folder/handed.cu" passed

# memcpy and memset in a kernel are accesses like others.
plant epilogue 'copies that read past the end' 's/#include <cuda_runtime.h>/#include <cuda_runtime.h>\n#include <cstring>/; s/      (for \(int c = 0; c < group_c; c\+\+\) sum)/      float of_w[320];\n      memcpy(of_w, &w[((k * p.R + r) * p.S + s) * group_c], (group_c + 1) * sizeof(float));\n      $1/; s/\* w\[.*?\];/* of_w[c];/' 'out-of-bounds: my_fprop_kernel, .*, w, byte [0-9]+ \(its end is at [0-9]+\), read'
plant pool 'a tile that memset makes zeros of' 's/(  for \(int i = threadIdx.x; i < ROWS \* COLS; i \+= THREADS\) \{)/  if (threadIdx.x == 0) memset(tile, 0, sizeof tile);\n  __syncthreads();\n$1/; s/    tile\[i \/ COLS\]\[i % COLS\] = exists \? (.*?) : 0;/    if (exists) tile[i \/ COLS][i % COLS] = $1;/' passed
plant epilogue 'two launches, every other block each' 's/= blockIdx.x \* THREADS/= (2 * blockIdx.x + odd) * THREADS/; s/finish f, float \*y\)/finish f, float *y, int odd)/; s/  (my_fprop_kernel<<<)\(outputs \+ THREADS - 1\) \/ THREADS(.*?)\);\n/  for (int odd = 0; odd < 2; odd++) $1(outputs + 2 * THREADS - 1) \/ (2 * THREADS)$2, odd);\n/' 'FAIL  kernels launched: 2'

# Right answers that are not the sample's: several outputs a thread, a launch for each class, a warp that has the end of one class and the beginning of the next.
plant nhwc-dgrad 'two outputs a thread' 's/  const int i = (.*?);\n  if \(i >= (.*?)\) return;\n/  const int outputs = $2, half = (outputs + 63) \/ 64 * 32, first = $1;\n  if (first >= half) return;\n  for (int i = first; i < outputs; i += half) {\n/; s/= sum;\n\}/= sum;\n  }\n}/; s/\(outputs \+/((outputs + 63) \/ 64 * 32 +/' passed
plant classes 'a launch for each class' 's/float \*dx\) \{\n.*?\n/float *dx, int first_h, int first_w) {\n/; s/, p->stride_h \* p->stride_w\);\n/);\n  for (int h = 0; h < p->stride_h; h++)\n    for (int v = 0; v < p->stride_w; v++)/; s/\(float \*\)b->x\)/(float *)b->x, h, v)/' passed
plant classes 'a channel behind the other, its classes side by side' 's/  const int first_h = .*?\n.*?\n/  const int rows = (p.H + p.stride_h - 1) \/ p.stride_h, cols = (p.W + p.stride_w - 1) \/ p.stride_w, all = rows * cols * p.stride_h * p.stride_w;\n/; s/(const int i = .*?;\n).*?\n/$1  const int first_w = i \/ cols \/ rows % p.stride_w, first_h = i \/ cols \/ rows \/ p.stride_w % p.stride_h;\n/; s/(c = i )\/ cols \/ rows % p.C/$1\/ all % p.C/; s/const int n = .*?\n/const int n = i \/ all \/ p.C;\n  if (n >= p.N || in_h >= p.H || in_w >= p.W) return;\n/; s/p->N \* p->C \* rows \* cols \+ THREADS - 1\) \/ THREADS, p->stride_h \* p->stride_w/p->N * p->C * rows * cols * p->stride_h * p->stride_w + THREADS - 1) \/ THREADS/' passed
# What one listed shape is for.
plant dilated-halo 'tiles rounded down' 's/\(p(.|->)P \+ TILE_P \* h.gap - 1\) \/ \(TILE_P \* h.gap\)/(p$1P > 64 ? p$1P \/ h.gap + TILE_P - 1 : p$1P + TILE_P * h.gap - 1) \/ (p$1P > 64 ? TILE_P : TILE_P * h.gap)/g' 'first on mb1ic1ih67oc1'
plant nhwc 'no more than eight groups' 's/first_c = k \/ (.*?) \* group_c/first_c = min(k \/ $1, 7) * group_c/' 'first on g12mb1ic24'

# A kernel in a header beside the file.
mkdir "$folder/headers"
perl -0pe 's/cudaError_t exercise_launch.*//s' tests/exercises/banks.cu >"$folder/headers/kernel.cuh"
{ echo '#include <cuda_runtime.h>'; echo '#include "kernel.cuh"'; perl -0ne 'print /(cudaError_t exercise_launch.*)/s' tests/exercises/banks.cu; } >"$folder/headers/mine.cu"
add banks 'a kernel in a header beside the file' "$folder/headers/mine.cu" passed

# What a reader is told.
plant epilogue 'blocks of 2048 threads' 's/THREADS = 256/THREADS = 2048/' 'a block of \(2048,1,1\): expected 1 to 1024 threads'
plant epilogue '... and no shape behind the first' 's/THREADS = 256/THREADS = 2048/' 'stopped there: 37 of 38 shapes were not run'
plant pool 'the first group of channels for all' 's/k \/ \(p.K \/ p.groups\) \* group_c/0/' 'at \(n,k,p,q\) = '
plant epilogue 'a line that is printed' 's/  y\[i\] = fmaxf/  if (i == 0) printf("sum %.0f\\n", 1.0);\n  y[i] = 1 + fmaxf/' 'printed: sum 1'
