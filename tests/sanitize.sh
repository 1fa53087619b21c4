# make sanitize: without a GPU it says so. With one, defects planted in copies of step 01 are found, each by its tool; the step as it is, is clean.
. tests/tap.inc
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

out=$(scripts/sanitize.sh build/emu 01 '' 2>&1)
ok "$([ $? -eq 2 ] && [ "$(wc -l <<<"$out")" -eq 1 ] && [[ $out == 'sanitize: expected nvcc and an NVIDIA GPU; '* ]] && echo 0 || echo 1)" "without a GPU: $out"
out=$(scripts/sanitize.sh build/cuda 01 leakcheck 2>&1)
ok "$([ $? -eq 2 ] && [ "$out" = 'TOOL: expected memcheck, racecheck, initcheck or synccheck, got "leakcheck"' ] && echo 0 || echo 1)" "another tool: $out"
out=$(scripts/sanitize.sh build/cuda '01 77' memcheck 2>&1)
ok "$([ $? -eq 2 ] && [[ $out == 'STEP: expected a step with GPU kernels, got "'* ]] && echo 0 || echo 1)" "another step: $out"

# With a tool that finds nothing, and steps that say what they were asked: which problems a step gets.
mkdir -p "$folder/tool" "$folder/cuda"
printf '%s\n' '#!/usr/bin/env bash' 'while [ "$1" ] && [ "$1" != --log-file ]; do shift; done' 'echo "========= ERROR SUMMARY: 0 errors" >"$2"' 'shift 2' '"$@"' >"$folder/tool/compute-sanitizer"
printf '%s\n' '#!/usr/bin/env bash' 'while [ "$1" ] && [ "$1" != --suite ]; do shift; done' 'echo "$(grep -c "^[gm]" "$2") right, 0 wrong, 0 skipped"' >"$folder/cuda/01"
cp "$folder/cuda/01" "$folder/cuda/06"
chmod +x "$folder/tool/compute-sanitizer" "$folder/cuda/"*
problems() { cat "${@/#/common/suites/}" | grep -c '^[gm]'; }
out=$(PATH=$folder/tool:$PATH scripts/sanitize.sh "$folder/cuda" '01 06' racecheck)
ok $? "two steps, a tool that finds nothing: $(tail -n 1 <<<"$out")"
for what in "01 $(problems nasty laptop)" "06 $(problems nasty laptop hopper)" "06 $(problems hopper) --suite common/suites/hopper"; do
  read -r step count arguments <<<"$what"
  out=$(PATH=$folder/tool:$PATH scripts/sanitize.sh "$folder/cuda" "$step" racecheck $arguments)
  ok "$(grep -qE "^step $step  racecheck  clean \($count right, 0 wrong, 0 skipped; " <<<"$out"; echo $?)" "step $step ${arguments:-by default}: $(head -n 1 <<<"$out")"
done

NVCC=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [ "${B##*/}" != cuda ] || ! { command -v compute-sanitizer || command -v "$(dirname "$NVCC")/compute-sanitizer"; } >/dev/null; then
  ok 0 'planted defects # SKIP expected a GPU and compute-sanitizer'
  done_testing
  exit
fi

# plant TOOL SED: the tool must report step 01 with its fprop kernel edited so; the program itself may or may not notice.
source=01_naive/a_naive.cu
plant() {
  local tool=$1 edit=$2 status=0
  mkdir -p "$folder/$tool/cuda"
  sed -E "$edit" "$source" >"$folder/$tool/a_naive.cu"
  cmp -s "$source" "$folder/$tool/a_naive.cu" && status=1
  "$NVCC" -std=c++20 -O3 -lineinfo -arch=native -I. -o "$folder/$tool/cuda/01" "$folder/$tool/a_naive.cu" "$B"/01_naive/{main,kernels,kernel_sources}.c.o "$B/libharness.a" -Xcompiler -fopenmp -lm -ldl \
    >"$folder/$tool/log" 2>&1 || status=1
  echo $status >"$folder/$tool/built"
}
store='^  y\[.* = sum;'
plant memcheck "s/$store/  y[i == 7 ? 1 << 28 : ((n * p.K + k) * p.P + out_p) * p.Q + out_q] = sum;/" &
plant racecheck "s/$store/  __shared__ volatile float spot[THREADS]; spot[threadIdx.x] = sum; sum += 0 * spot[threadIdx.x ^ 64];\n&/" &
plant initcheck "s/^  (naive_fprop_kernel<<<.*)\(const float \*\)b->w/  static float *fresh; if (fresh == NULL) cudaMalloc(\&fresh, 1 << 20);\n  \1fresh/" &
plant synccheck "s/$store/  if (threadIdx.x % 2) __syncthreads();\n&/" &
plant right 's/^enum/enum/; $s/$/ /' &
wait

shape='--shape mb1ic4ih16oc16oh16kh3ph1 --pass fprop'
for tool in memcheck racecheck initcheck synccheck; do
  out=$(scripts/sanitize.sh "$folder/$tool/cuda" 01 $tool $shape)
  status=$?
  ok "$([ "$(cat "$folder/$tool/built")" = 0 ] && [ $status -eq 1 ] && grep -qE "^step 01  $tool +[1-9][0-9]* errors?, see " <<<"$out" && echo 0 || echo 1)" "$tool finds its defect: $(head -n 1 <<<"$out")"
  [ ! -s "$folder/$tool/log" ] || diag "$(head -n 4 "$folder/$tool/log")"
  out=$(scripts/sanitize.sh "$folder/right/cuda" 01 $tool $shape)
  ok "$([ $? -eq 0 ] && grep -q '^1 runs: 1 clean, 0 with errors$' <<<"$out" && echo 0 || echo 1)" "$tool leaves the right kernel alone: $(head -n 1 <<<"$out")"
done
done_testing
