# Every wrapper of common/ptx/, in every form, is an instruction that nvcc takes, for 9.0a as the build compiles it, compiles to nothing for an older GPU, and is C++
# for the emulator's compiler. tests/ptx/wrappers.cu uses them; none is left out.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
file=tests/ptx/wrappers.cu
nvcc=${NVCC-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
CXX=${CXX:-g++}

# Functions by the preprocessor, for macros make some. Names with "emulate" are of the emulator's branches alone.
preprocess() { "$CXX" -std=c++20 -E -P -Icommon/emu/include -I. -x c++ -; }
printf '#include "%s"\n' common/ptx/*.cuh | preprocess | grep -oE '\bptx_[a-z0-9_]+ *\(' | grep -oE '^[a-z0-9_]+' | grep -v _emulate_ | sort -u >"$T/functions"
preprocess <$file | sed -n '/void matrices(/,$p' | grep -oE '\bptx_[a-z0-9_]+' | sort -u >"$T/names"
comm -23 "$T/functions" "$T/names" >"$T/left"
[ "$(wc -l <"$T/functions")" -ge 80 ] && [ ! -s "$T/left" ]
ok $? "all $(wc -l <"$T/functions") wrappers are used" || sed 's/^/# not used: /' "$T/left"
strangers=$(git grep -lE '\basm( volatile)?\(' -- '*.cu' '*.cuh' '*.h' ':!common/ptx' ':!common/emu' 2>/dev/null)
[ -z "$strangers" ]
ok $? 'no inline assembly elsewhere' || diag "$strangers"

rewrite=${REWRITE:-$B/rewrite}
if [ -x "$rewrite" ]; then
  "$rewrite" $file "$T/wrappers.cpp" && "$CXX" -std=c++20 -O2 -Wall -Wextra -Werror -Wno-unknown-pragmas -Icommon/emu/include -I. -fsyntax-only "$T/wrappers.cpp" >"$T/log" 2>&1
  ok $? "the emulator's compiler takes them" || sed 's/^/# /' "$T/log"
else ok 0 "the emulator's compiler # SKIP the emulator is not built"; fi

if ! "$nvcc" --version >/dev/null 2>&1; then
  ok 0 'nvcc takes them # SKIP no nvcc'
  done_testing
  exit
fi
sed -n 's/^NVCC_FLAGS = //p' Makefile >"$T/flags"
[ -s "$T/flags" ]
ok $? "the build's flags"
compiles() { # ARCH OPTION ...
  local arch=$1
  shift
  # shellcheck disable=SC2046
  scripts/nvcc_strict.sh "$nvcc" -ccbin "$CXX" $(cat "$T/flags") -gencode "arch=compute_$arch,code=sm_$arch" "$@" -c $file -o "$T/$arch.o" >"$T/log" 2>&1
  ok $? "nvcc takes them for $arch" || sed 's/^/# /' "$T/log"
}
compiles 90a -Xptxas -warn-spills -Xptxas -Werror
compiles 80
done_testing
