# The grader of the exercises: every sample solution passes, every skeleton does not, and wrong answers fail for the reason they should.
. tests/tap.inc
emulator_only 'exercises are graded by the emulator'
tools=$(make -s --no-print-directory BACKEND=emu exercise-tools) || { echo "Bail out! make exercise-tools failed"; exit 1; }
eval "$(tail -n 1 <<<"$tools")" # behind the names of what had to be compiled
nvcc=$COMPILE_NVCC
export COMPILE_NVCC= # `make nvcc-check` compiles the sample solutions
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Every case is a file NAME.cu in the folder, beside it its exercise, what it is and the reason. A reason "passed" is a pass.
cases=0
add() {
  cases=$((cases + 1))
  printf '%s\n' "$1" "$2" "$4" "$5" >"$folder/$cases.case"
  echo "$3" >"$folder/$cases.file"
}
# plant EXERCISE WHAT EDIT REASON applies EDIT (perl, on the whole file) to a copy of the sample solution; planted EXERCISE ... to one of the exercise's file.
plant() { plant_in "tests/exercises/${1//-/_}.cu" "$@"; }
planted() { plant_in "$(echo [0-9][0-9]_*/exercises/"${1//-/_}".cu)" "$@"; }
plant_in() {
  local file="$folder/$2.${3//[^a-z]/_}.cu"
  perl -0pe "$4" "$1" >"$file"
  if cmp -s "$1" "$file"; then add "$2" "$3" "$file" 'the edit changes nothing' ; else add "$2" "$3" "$file" "$5"; fi
}
# A skeleton in which a reader has already worked may pass.
edited() { git ls-files --error-unmatch "$1" >/dev/null 2>&1 && ! git diff --quiet HEAD -- "$1"; }
skeleton() {
  local file
  file=$(echo [0-9][0-9]_*/exercises/"${1//-/_}".cu)
  edited "$file" || add "$1" 'the skeleton as it is given' "$file" "$2"
}

for solution in tests/exercises/*.cu; do
  name=$(basename "$solution" .cu)
  add "${name//_/-}" 'the sample solution' "$solution" passed
done
skeleton nhwc 'FAIL  right on 38 shapes'
skeleton four-filters 'FAIL  loads for each product: 1\.91 and 2, goal at most 1\.3'
skeleton predict 'FAIL  sectors of the stores of y'
skeleton nhwc-dgrad 'FAIL  sectors loaded for every 32 products: 30 and [0-9.]+, goal at most 5'
skeleton float4 'FAIL  load requests for every 32 products: 1\.81 and 2, goal at most 0\.5'
skeleton rearranged 'FAIL  sectors touched for every 32 products: 30 and [0-9.]+, goal at most 5\.5'
skeleton dilated-halo 'FAIL  loads for each product: 1\.84 and [0-9.]+, goal at most 0\.18'
skeleton banks 'FAIL  shared memory wavefronts over those without conflicts: 2\.31 and 2\.31, goal at most 1\.02'
skeleton rolling-rows 'FAIL  loads for each product: 1\.95 and [0-9.]+, goal at most 0\.6'
skeleton no-division 'FAIL  divisions for each product: 0\.1[0-9]+ and 0\.1[0-9]+, goal at most 0\.02'
skeleton slices 'FAIL  threads for each output, of the kernel that loads most: 0\.0625 and 0\.0625, goal at least 0\.5'
skeleton fragments 'FAIL  multiply-adds of the tensor cores for each product: 0 and 0, goal at least 1'
skeleton swizzle 'FAIL  shared memory wavefronts over those without conflicts: 3\.1 and [23]\.[0-9]+, goal at most 1'
skeleton ring 'FAIL  bytes on their way when a product is asked for: 0 and 0, goal at least 24576'
skeleton window 'FAIL  loads for each product: 0\.0247 and 0\.02[0-9]*, goal at most 0\.013'
skeleton race 'race: my_fprop_kernel, .* shared'
skeleton missing-wait 'uninitialised: my_fprop_kernel, .*a copy that nobody has waited for'
skeleton constant 'FAIL  loads for each product: 1\.8[0-9]* and [0-9.]+, goal at most 1'
skeleton fixed-order 'FAIL  threads for each output, of the kernel that loads most: 1\.33 and 1\.[0-9]+, goal at least 16'
skeleton classes 'FAIL  lanes taking part in a request: 7\.95 and [0-9.]+, goal at least 20'
skeleton winograd 'FAIL  multiplications for each product: 0\.907 and [0-9.]+, goal at most 0\.7'
skeleton epilogue 'FAIL  stores for each output: 2 and 2, goal at most 1'
skeleton residual 'FAIL  sectors of the residual for every 32 outputs: 8 and 8, goal at most 2\.1'
skeleton pool 'FAIL  stores for each output: 5 and [0-9.]+, goal at most 1'
. tests/exercises/planted.sh
. tests/exercises/planted_more.sh

# A wrong answer is graded by the build that must find it, alone; what must pass, by all three.
grade() {
  { read -r exercise && read -r what && read -r reason; } <"$folder/$1.case"
  limit=30
  case $reason in
    passed | *'could not finish'*) export ONLY= ;;
    *race* | *out-of-bounds* | *uninitialised* | *misaligned* | *deadlock* | *divergent* | *proxy* | *'under way'*) export ONLY=check ;;
    *goal* | 'FAIL  '[^r]*) export ONLY=count ;;
    *) export ONLY=run ;;
  esac
  [[ $reason == *'within 2 s'* ]] && limit=2
  LIMIT=$limit scripts/exercise.pl "$exercise" "$(cat "$folder/$1.file")" >"$folder/$1.out" 2>&1
  echo $? >"$folder/$1.status"
}
export -f grade
export folder OMP_NUM_THREADS=1
seq "$cases" | xargs -P 2 -I{} bash -c 'grade {}'

for ((i = 1; i <= cases; i++)); do
  { read -r exercise && read -r what && read -r reason; } <"$folder/$i.case"
  if [ "$reason" = passed ]; then
    [ "$(cat "$folder/$i.status")" = 0 ] && [[ $(tail -n 1 "$folder/$i.out") == "exercise $exercise: passed: "* ]] && ! grep -q FAIL "$folder/$i.out"
  else
    [ "$(cat "$folder/$i.status")" = 1 ] && [[ $(tail -n 1 "$folder/$i.out") == "exercise $exercise: not yet: "* ]] && grep -qE -- "$reason" "$folder/$i.out"
  fi
  status=$?
  ok $status "$exercise, $what: $reason"
  [ $status -eq 0 ] || sed 's/^/# /' "$folder/$i.out"
done

# A right answer with blocks of 8 x 8 threads, filters by pixels: one thread and one store for each output suffice, whichever layer is drawn.
block="$folder/block.cu"
perl -0pe 's/const int i = .*?;/const int k = blockIdx.x * 8 + threadIdx.x, pixel = blockIdx.y * 8 + threadIdx.y;/; s/if \(i >= .*?\) /if (k >= p.K || pixel >= p.N * p.P * p.Q) /; s/  const int k = i.*?\n//;
  s/i \/ p.K/pixel/g; s/  const int outputs.*?\n//; s/<<<.*?, THREADS/<<<dim3((p->K + 7) \/ 8, (p->N * p->P * p->Q + 7) \/ 8), dim3(8, 8)/' tests/exercises/nhwc.cu >"$block"
for seed in 1 2 3 4 5 6; do
  out=$(SEED=$seed ONLY=count scripts/exercise.pl nhwc "$block" 2>&1)
  ok $? "nhwc, blocks of 8 x 8 threads, SEED=$seed: passed"
done
out=$(scripts/exercise.pl nhwc "$block" 2>&1)
[ $? -eq 0 ] && grep -q 'dim3(8, 8)' "$block" && grep -q 'pixel = blockIdx.y' "$block"
ok $? 'nhwc, blocks of 8 x 8 threads: right, and passed' || diag "$out"

# refused LINE ARGUMENTS...: exit status 2 and that one line.
refused() {
  local want=$1 out
  shift
  out=$(scripts/exercise.pl "$@" 2>&1)
  [ $? -eq 2 ] && [ "$out" = "$want" ]
  ok $? "$want"
  [ "$out" = "$want" ] || diag "got $out"
}
refused 'FILE: no_such.cu: expected a readable file: No such file or directory' nhwc no_such.cu
refused 'FILE: expected a .cu file, got "README.md"' nhwc README.md
mkdir "$folder/folder.cu"
refused "FILE: $folder/folder.cu: expected a readable file: Is a directory" nhwc "$folder/folder.cu"
refused 'exercise: expected one of nhwc four-filters predict nhwc-dgrad float4 rearranged race missing-wait banks dilated-halo constant fixed-order rolling-rows classes slices no-division winograd swizzle fragments ring window epilogue residual pool, got "09z"' 09z
SEED=x refused 'SEED: expected an integer from 1 to 999999999, got "x"' nhwc
LIMIT=0 refused 'LIMIT: expected an integer from 1 to 999999999, got "0"' nhwc
: >"$folder/empty.cu"
out=$(scripts/exercise.pl nhwc-dgrad "$folder/empty.cu")
ok "$([ $? -eq 1 ] && [[ $out == *"expected a definition of exercise_launch, found none"* ]] && echo 0 || echo 1)" 'an empty file defines nothing'
printf '__global__ void kernel() { __shared__ }\n' >"$folder/broken.cu"
out=$(scripts/exercise.pl nhwc-dgrad "$folder/broken.cu" 2>&1)
ok "$([ $? -eq 1 ] && [[ $out == *"$folder/broken.cu:1:"*"does not compile" ]] && echo 0 || echo 1)" 'a file that cannot be rewritten is named with its line'
perl -0pe 's/float sum = 0;/float sum = nothing();/' tests/exercises/nhwc.cu >"$folder/unknown.cu"
out=$(scripts/exercise.pl nhwc "$folder/unknown.cu" 2>&1)
ok "$([ $? -eq 1 ] && [[ $out == *"$folder/unknown.cu:19:"*"error: "*"does not compile" && $out != *cc1plus* ]] && echo 0 || echo 1)" 'errors of the file, and nothing of how it was compiled' || diag "$out"

# What only nvcc knows.
perl -0pe 's/(\n__global__)/\nstatic float product(const float *a, const float *b) { return *a * *b; }\n$1/; s/(sum \+= )(x\[.*?\]) \* (w\[.*?\]);/$1product(&$2, &$3);/' tests/exercises/nhwc.cu >"$folder/host.cu"
out=$(scripts/exercise.pl nhwc "$folder/host.cu" 2>&1)
ok "$([ $? -eq 0 ] && [[ $out == *'there is no nvcc here'*'exercise nhwc: passed'* ]] && echo 0 || echo 1)" 'a function that is no __device__ one, without nvcc: passed, and said so'
if [ -n "$nvcc" ]; then
  out=$(COMPILE_NVCC=$nvcc scripts/exercise.pl nhwc "$folder/host.cu" 2>&1)
  ok "$([ $? -eq 1 ] && [[ $out == *'FAIL  nvcc compiles it'*"$folder/host.cu("*'error: calling a __host__ function'*'not yet: 1 of '* ]] && echo 0 || echo 1)" '... with nvcc: its error'
  out=$(COMPILE_NVCC=$nvcc scripts/exercise.pl nhwc tests/exercises/nhwc.cu 2>&1)
  ok "$([ $? -eq 0 ] && [[ $out != *nvcc* ]] && echo 0 || echo 1)" 'the sample solution, with nvcc: nothing to say'
fi

# Through make, with a file whose path has a space in it; and a name that make does not know.
mkdir "$folder/a folder"
cp tests/exercises/nhwc_dgrad.cu "$folder/a folder/mine.cu"
out=$(make -s --no-print-directory BACKEND=emu exercise-nhwc-dgrad FILE="$folder/a folder/mine.cu" SEED=7 2>&1)
ok "$([ $? -eq 0 ] && [[ $out == *"SEED=7 draws"*"exercise nhwc-dgrad: passed"* ]] && echo 0 || echo 1)" 'make exercise-nhwc-dgrad FILE= SEED='
out=$(make -s --no-print-directory BACKEND=emu exercise-2a 2>&1)
ok "$([ $? -ne 0 ] && [[ $out == 'exercise: expected one of nhwc '*', got "2a"'* ]] && echo 0 || echo 1)" 'make exercise-2a'
done_testing
