# The grader of the exercises: every sample solution passes, every skeleton does not, and wrong answers fail for the reason they should.
. tests/tap.inc
emulator_only 'exercises are graded by the emulator'
tools=$(make -s --no-print-directory BACKEND=emu exercise-tools) || { echo "Bail out! make exercise-tools failed"; exit 1; }
eval "$(tail -n 1 <<<"$tools")" # behind the names of what had to be compiled
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Every case is a file NAME.cu in the folder, beside it its exercise, what it is and the reason. A reason "passed" is a pass.
cases=0
add() {
  cases=$((cases + 1))
  printf '%s\n' "$1" "$2" "$4" "$5" >"$folder/$cases.case"
  echo "$3" >"$folder/$cases.file"
}
plant() {
  local file="$folder/$1.${2//[^a-z]/_}.cu"
  perl -0pe "$3" "tests/exercises/$1.cu" >"$file"
  if cmp -s "tests/exercises/$1.cu" "$file"; then add "$1" "$2" "$file" 'the edit changes nothing' ; else add "$1" "$2" "$file" "$4"; fi
}
# A skeleton in which a reader has already worked may pass.
edited() { git ls-files --error-unmatch "$1" >/dev/null 2>&1 && ! git diff --quiet HEAD -- "$1"; }
skeleton() {
  local file
  file=$(echo "${1:0:2}"_*/exercises/"${1:2}"_*.cu)
  edited "$file" || add "$1" 'the skeleton as it is given' "$file" "$2"
}

for solution in tests/exercises/*.cu; do
  name=$(basename "$solution" .cu)
  add "$name" 'the sample solution' "$solution" passed
done
skeleton 01a 'FAIL  right on 26 shapes'
skeleton 01b 'FAIL  loads for each product: 1\.91 and 2, goal at most 1\.3'
skeleton 01c 'FAIL  sectors of the stores of y'
skeleton 02a 'FAIL  sectors loaded for every 32 products: 30 and [0-9.]+, goal at most 5'
skeleton 02b 'FAIL  load requests for every 32 products: 1\.81 and 2, goal at most 0\.5'
skeleton 02c 'FAIL  sectors touched for every 32 products: 30 and [0-9.]+, goal at most 5\.5'
skeleton 03a 'FAIL  loads for each product: 1\.84 and [0-9.]+, goal at most 0\.18'
skeleton 03b 'FAIL  shared memory wavefronts over those without conflicts: 2\.31 and 2\.31, goal at most 1\.02'
skeleton 04a 'FAIL  loads for each product: 1\.95 and [0-9.]+, goal at most 0\.6'
skeleton 05a 'FAIL  integer divisions for each product: 0\.1[0-9]+ and 0\.1[0-9]+, goal at most 0\.02'
skeleton 05b 'FAIL  threads for each output, of the kernel that loads most: 0\.0625 and 0\.0625, goal at least 0\.5'
skeleton 06a 'FAIL  multiply-adds of the tensor cores for each product: 0 and 0, goal at least 1'
skeleton 06b 'FAIL  shared memory wavefronts over those without conflicts: 3\.1 and [23]\.[0-9]+, goal at most 1'
skeleton 06c 'FAIL  bytes on their way when a product is asked for: 0 and 0, goal at least 24576'
skeleton 06d 'FAIL  loads for each product: 0\.0247 and 0\.02[0-9]*, goal at most 0\.013'
. tests/exercises/planted.sh

grade() {
  { read -r exercise && read -r what && read -r reason; } <"$folder/$1.case"
  limit=30
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

# refused LINE ARGUMENTS...: exit status 2 and that one line.
refused() {
  local want=$1 out
  shift
  out=$(scripts/exercise.pl "$@" 2>&1)
  [ $? -eq 2 ] && [ "$out" = "$want" ]
  ok $? "$want"
  [ "$out" = "$want" ] || diag "got $out"
}
refused 'FILE: no_such.cu: expected a readable file: No such file or directory' 01a no_such.cu
refused 'FILE: expected a .cu file, got "README.md"' 01a README.md
mkdir "$folder/folder.cu"
refused "FILE: $folder/folder.cu: expected a readable file: Is a directory" 01a "$folder/folder.cu"
refused 'exercise: expected one of 01a 01b 01c 02a 02b 02c 03a 03b 04a 05a 05b 06a 06b 06c 06d, got "09z"' 09z
SEED=x refused 'SEED: expected an integer from 1 to 999999999, got "x"' 01a
LIMIT=0 refused 'LIMIT: expected an integer from 1 to 999999999, got "0"' 01a
: >"$folder/empty.cu"
out=$(scripts/exercise.pl 02a "$folder/empty.cu")
ok "$([ $? -eq 1 ] && [[ $out == *"expected a definition of exercise_launch, found none"* ]] && echo 0 || echo 1)" 'an empty file defines nothing'
printf '__global__ void kernel() { __shared__ }\n' >"$folder/broken.cu"
out=$(scripts/exercise.pl 02a "$folder/broken.cu" 2>&1)
ok "$([ $? -eq 1 ] && [[ $out == *"$folder/broken.cu:1:"*"does not compile" ]] && echo 0 || echo 1)" 'a file that cannot be rewritten is named with its line'

# Through make, with a file whose path has a space in it; and a name that make does not know.
mkdir "$folder/a folder"
cp tests/exercises/02a.cu "$folder/a folder/mine.cu"
out=$(make -s --no-print-directory BACKEND=emu exercise-02a FILE="$folder/a folder/mine.cu" SEED=7 2>&1)
ok "$([ $? -eq 0 ] && [[ $out == *"SEED=7 draws"*"exercise 02a: passed"* ]] && echo 0 || echo 1)" 'make exercise-02a FILE= SEED='
out=$(make -s --no-print-directory BACKEND=emu exercise-2a 2>&1)
ok "$([ $? -ne 0 ] && [[ $out == 'exercise: expected one of 01a '*', got "2a"'* ]] && echo 0 || echo 1)" 'make exercise-2a'
done_testing
