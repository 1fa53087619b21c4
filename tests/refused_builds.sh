# Kernels that ptxas would compile to something else than what they say do not build: not in a build for this GPU, not in `make nvcc-check`.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

# ---------------------------------------------------------------- the script, with a compiler that says what it is told
cat >"$T/nvcc" <<'END'
#!/bin/sh
printf '%s' "$SAYS" >&2
exit "$EXITS"
END
chmod +x "$T/nvcc"
strict() { # STATUS SAYS: of the compiler
  EXITS=$1 SAYS=$2 scripts/nvcc_strict.sh "$T/nvcc" -O3 -c a/b.cu -o b.o >"$T/out" 2>&1
}
strict 0 ''
[ $? -eq 0 ] && [ ! -s "$T/out" ]
ok $? 'a compiler without remarks: nothing is said'
strict 0 $'ptxas info    : (C7600) something else\n'
[ $? -eq 0 ] && [ "$(cat "$T/out")" = 'ptxas info    : (C7600) something else' ]
ok $? 'other remarks are passed on'
strict 2 $'error\n'
[ $? -eq 2 ] && [ "$(cat "$T/out")" = error ]
ok $? "an error: nvcc's words and exit status"
EXITS=0 SAYS=$'ptxas info    : (C7510) words\nptxas info    : (C7600) else\n' scripts/nvcc_strict.sh --quick "$T/nvcc" -O3 -c a/b.cu -o b.o >"$T/out" 2>&1
[ $? -eq 0 ] && [ "$(cat "$T/out")" = 'ptxas info    : (C7600) else' ]
ok $? '--quick: what an optimizer would have done is not missed'
missed=0
for code in 08 10 11 12 13 14 15 16 17 18 19; do
  strict 0 "ptxas info    : (C75$code) words"$'\n'
  [ $? -eq 1 ] && grep -q "^ptxas info .*(C75$code) words$" "$T/out" && grep -q "^a/b.cu: expected machine code .*: C75$code$" "$T/out" || { missed=$((missed + 1)) && diag "C75$code"; }
done
ok $missed 'C7508 and C7510 to C7519 fail, with the remark, the file and the code'

# ---------------------------------------------------------------- the build, in a copy
nvcc=${NVCC-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! "$nvcc" --version >/dev/null 2>&1; then
  ok 0 'files that must not build # SKIP no nvcc'
  done_testing
  exit
fi
mkdir "$T/repo" && cp -r Makefile common scripts [0-9][0-9]_* "$T/repo" && mkdir "$T/repo/tests" && cp -r tests/refused "$T/repo/tests" || exit 1
builds() { # RULE NAME
  local object=build/nvcc/90a/tests/refused/$2.cu.o backend='BACKEND=emu'
  [ "$1" = check ] || [ "$1" = build ] || object=build/nvcc/$1/tests/refused/$2.cu.o
  [ "$1" = build ] && object=build/cuda/tests/refused/$2.cu.o backend='BACKEND=cuda ARCH=90a'
  # shellcheck disable=SC2086
  (cd "$T/repo" && make -s NVCC="$nvcc" CC="${CC:-gcc}" CXX="${CXX:-g++}" $backend "$object") >"$T/out" 2>&1 && [ -e "$T/repo/$object" ]
}
refused() { # NAME WORDS
  for rule in check build; do
    ! builds $rule "$1" && grep -qE "$2" "$T/out" && [ -z "$(find "$T/repo/build" -name "$1.cu.o")" ]
    ok $? "$rule: $1: $(grep -oE "$2.*" "$T/out" | head -n 1)" || sed 's/^/# /' "$T/out"
  done
}
for rule in check build; do
  builds $rule right
  ok $? "$rule: one that is right" || sed 's/^/# /' "$T/out"
done
refused serialized '\(C751[0-9]\) '
refused ignored "\(C7508\) .*'setmaxnreg' ignored"
refused spills 'Registers are spilled'
# For GPUs that are not Hopper's, compiled quickly: an instruction that Hopper brought, and no word of what a GPU before it does.
cat >"$T/repo/tests/refused/too_new.cu" <<'END'
__global__ void too_new(int *y) {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  y[threadIdx.x] = 1;
}
END
for rule in check 80-quick; do
  builds $rule too_new
  status=$?
  [ $rule = check ] || { [ $status -ne 0 ] && grep -q "'cp.async.bulk.commit_group' requires .target sm_90 or higher" "$T/out" && status=0 || status=1; }
  ok $status "$rule: an instruction that sm_80 has not" || sed 's/^/# /' "$T/out"
done
builds 80-quick right
ok $? "80-quick: one that is right" || sed 's/^/# /' "$T/out"
# What `make test` asks: nothing of the optimizer, but every kernel, those that only 9.0 has for 9.0.
asked=$(cd "$T/repo" && make -n NVCC="$nvcc" CC="${CC:-gcc}" CXX="${CXX:-g++}" BACKEND=emu MAKECMDGOALS=test nvcc-check 2>"$T/out")
missed=
for kernel in [0-9][0-9]_*/*.cu [0-9][0-9]_*/tools/*/*.cu; do
  arch=80
  ! grep -q 'only compute capability 9.0 ' "$kernel" || arch=90a
  [ "$(grep -c "nvcc_strict.sh --quick .*arch=compute_$arch,code=sm_$arch .*-cubin $kernel -o build/nvcc/$arch-quick/$kernel.o$" <<<"$asked")" = 1 ] || missed+=" $kernel"
done
[ -z "$missed" ]
ok $? 'make test: every kernel, for the first architecture that it is for' || diag "not:$missed; $(cat "$T/out")"
done_testing
