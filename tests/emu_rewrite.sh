#!/bin/sh
# The rewriter changes what it understands, keeps the rest to the letter, and says in one line what it does not understand.
# REWRITE is its path; CXX the compiler that must accept the result (g++ if unset); run from the top of the repository.
: "${REWRITE:?path of the rewriter}"
case $REWRITE in /*) ;; *) REWRITE=$PWD/$REWRITE ;; esac
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
count=0 failed=0

ok() { # condition's status, text
  count=$((count + 1))
  if [ "$1" -eq 0 ]; then echo "ok $count - $2"; else echo "not ok $count - $2"; failed=1; fi
}

# Rewrites standard input; the result without its #line in $dir/out, messages in $dir/message, the exit status as status.
rewrite() {
  cat > "$dir/in.cu"
  rm -f "$dir/out.cpp"
  (cd "$dir" && "$REWRITE" in.cu out.cpp) 2> "$dir/message"
  status=$?
  [ -f "$dir/out.cpp" ] && tail -n +2 "$dir/out.cpp" > "$dir/out"
}
becomes() { # expected text, what it shows; the source on standard input
  rewrite
  [ $status -eq 0 ] && [ "$(cat "$dir/out")" = "$1" ]
  result=$?
  ok $result "$2"
  [ $result -eq 0 ] || { echo "# got:"; cat "$dir/message" "$dir/out" | sed 's/^/#   /'; }
}

stays() { # what it shows
  rewrite
  [ $status -eq 0 ] && cmp -s "$dir/in.cu" "$dir/out"
  ok $? "$1"
}

fails() { # message, what it shows; the source on standard input
  rewrite
  [ $status -eq 2 ] && [ "$(cat "$dir/message")" = "$1" ] && [ ! -f "$dir/out.cpp" ]
  result=$?
  ok $result "$2"
  [ $result -eq 0 ] || { echo "# status $status:"; sed 's/^/#   /' "$dir/message"; }
}

# ---- launch bounds ----

becomes '__global__ void __launch_bounds__(128) k(int i) { (void)emu_bound<(k), (emu_first(128))>::known; f(i); }' "launch bounds: known at run time" <<'END'
__global__ void __launch_bounds__(128) k(int i) { f(i); }
END
becomes 'template <int BM, typename T = a<int>, bool... ROWS>
__global__ __launch_bounds__(2 * BM,
  256 / BM) void k(int (*f)(int), T t)
{ (void)emu_bound<(k<BM, T, ROWS...>), (emu_first(2 * BM, 256 / BM))>::known; }' "... of a template, with defaults and a pack, before the type" <<'END'
template <int BM, typename T = a<int>, bool... ROWS>
__global__ __launch_bounds__(2 * BM,
  256 / BM) void k(int (*f)(int), T t)
{ }
END
becomes 'template <> __global__ void __launch_bounds__(f(1, 2)) k<3, a::B>() { (void)emu_bound<(k<3, a::B>), (emu_first(f(1, 2)))>::known;}' "... of a specialization" <<'END'
template <> __global__ void __launch_bounds__(f(1, 2)) k<3, a::B>() {}
END
stays "... of a declaration: the definition says the same" <<'END'
__global__ void __launch_bounds__(128) k(int i);
END
fails 'in.cu:1: __launch_bounds__ without a kernel behind it, expected its name, parameters and body' "... of nothing" <<'END'
#define BOUNDED __global__ void __launch_bounds__(128)
END
fails 'in.cu:1: __launch_bounds__ without a number of threads, expected __launch_bounds__(threads)' "... of no number" <<'END'
__global__ void __launch_bounds__() k() {}
END
fails 'in.cu:1: a template parameter without a name before a kernel with __launch_bounds__, expected one' "... of a template parameter without a name" <<'END'
template <int> __global__ void __launch_bounds__(32) k() {}
END

# ---- variables ----

becomes 'static __device__ float sums[2][N] = {{1, 2}}; [[maybe_unused]] static const bool emu_known_sums = emu_set_variable((void *)&sums, sizeof sums, "sums"); int after;' "a __device__ variable: known at run time" <<'END'
static __device__ float sums[2][N] = {{1, 2}}; int after;
END
becomes 'namespace a { __device__ alignas(16) b<int, 2> c; [[maybe_unused]] static const bool emu_known_c = emu_set_variable((void *)&c, sizeof c, "c"); }' "... in a namespace, aligned, of a template's type" <<'END'
namespace a { __device__ alignas(16) b<int, 2> c; }
END
becomes '__device__ a<1, 2> b[2] = {{1}, {2}}, *c, d{f(1, 2)}; [[maybe_unused]] static const bool emu_known_b = emu_set_variable((void *)&b, sizeof b, "b"); [[maybe_unused]] static const bool emu_known_c = emu_set_variable((void *)&c, sizeof c, "c"); [[maybe_unused]] static const bool emu_known_d = emu_set_variable((void *)&d, sizeof d, "d");' "... several in one declaration" <<'END'
__device__ a<1, 2> b[2] = {{1}, {2}}, *c, d{f(1, 2)};
END
stays "functions, constants and local variables are none" <<'END'
static __device__ const float table[2] = {1, 2};
extern __device__ int elsewhere;
template <typename T> __device__ __forceinline__ T f(T x) { __device__ static int y = 0; return x + y; }
__host__ __device__ inline float g(float x = 1) { return x; }
__device__ float h(int i);
END

# ---- launches ----

becomes 'void f() { emu_configure("k", k, 1, 32)(); }' "a plain launch" <<'END'
void f() { k<<<1, 32>>>(); }
END
becomes 'emu_configure("a::k<B<int>, (2 > 1)>", a::k<B<int>, (2 > 1)>, dim3(g<1>(n), 2), b[1], 4 * n, s)(x, y);' "a template in a namespace, four arguments" <<'END'
a::k<B<int>, (2 > 1)><<<dim3(g<1>(n), 2), b[1], 4 * n, s>>>(x, y);
END
becomes 'return emu_configure("::k", ::k, 1, 2)(), emu_configure("table[i].run", table[i].run, 1, 2)(), emu_configure("(*p)", (*p), 1, 2)();' "a global name, a table entry, a pointer" <<'END'
return ::k<<<1, 2>>>(), table[i].run<<<1, 2>>>(), (*p)<<<1, 2>>>();
END
becomes '  emu_configure("k<A, B>", k<A, /* one */
    B>, grid, // two
       block)(
      x);
int after;' "a launch over several lines keeps its lines and comments" <<'END'
  k<A, /* one */
    B><<<grid, // two
       block>>>(
      x);
int after;
END
becomes '#define RUN(kernel, n) \
  emu_configure(#kernel, kernel, 1, \
           n)(0)' "a launch in a macro names what the macro is used with" <<'END'
#define RUN(kernel, n) \
  kernel<<<1, \
           n>>>(0)
END
stays "shifts, templates, comments, strings, characters and numbers stay" <<'END'
int a = x << 3, b = y >> 2; v<v<v<int>>> c; // k<<<1, 2>>>()
const char *s = "k<<<1, 2>>>()", *r = R"x(k<<<1, 2>>>("))x"; /* __shared__ int k; */ char q = '"', t = '\\';
int million = 1'000'000;
END
becomes '#include <k.h> // it'"'"'s
#error don'"'"'t /* <<<
>>> */
#if 0

#endif
 
int x;' "directives stay, pragma unroll goes" <<'END'
#include <k.h> // it's
#error don't /* <<<
>>> */
#if 0
#pragma unroll 4
#endif
 #pragma unroll
int x;
END

# ---- __shared__ ----

cat > "$dir/shared.cu" <<'END'
#include <cuda_runtime.h>
template <typename T, int N>
__global__ void k(T *p) {
  __shared__ T plain[N > 4 ? N : 4][2 * N];
  __shared__ float scalar;
  __shared__ __align__(16) unsigned char bytes[100];
  alignas(64) __shared__ volatile int late[3];
  extern __shared__ __align__(128) unsigned char dynamic[];
  extern __shared__ float rows[][32];
  __shared__ T const *pointers
      [4];
  static_assert(sizeof(plain) == sizeof(T) * N * 2 * N && sizeof(scalar) == 4 && sizeof(bytes) == 100 && sizeof(late) == 12 && sizeof(rows[0]) == 128, "");
  scalar = 1;
  pointers[0] = p;
  p[0] = (T)(plain[0][0] + scalar + bytes[0] + late[0] + dynamic[0] + rows[0][0]);
  static_assert(__LINE__ == 16, "lines keep their numbers");
}
void run(float *p) { k<float, 8><<<1, 1>>>(p); }
END
"$REWRITE" "$dir/shared.cu" "$dir/shared.cpp" && ${CXX:-g++} -std=c++20 -Wall -Wextra -Werror -Icommon/emu/include -I. -fsyntax-only "$dir/shared.cpp"
ok $? "all forms of __shared__ keep type, size and line, and compile without a warning"
cat > "$dir/shared.cu" <<'END'
#include <cuda_runtime.h>
#define TILE(type, name, n, m) __shared__ type name[n][m]
#define WITH_END(type, name) \
  __shared__ type name;
__global__ void k(float *p) {
  __shared__ __align__(16) float a[3][N], b[2], c;
  __shared__ struct {
    int first;
    alignas(16) float more[4];
  } both, twice[2];
  __shared__ union __align__(32) named { int i; float f; } either;
  __shared__ named another;
  TILE(float, tile, 4, N);
  TILE(int, other, 2, 2);
  WITH_END(float, last)
  static_assert(sizeof(a) == 12 * N && sizeof(b) == 8 && sizeof(c) == 4 && sizeof(both) == 32 && sizeof(twice) == 64 && sizeof(either) == 32);
  static_assert(sizeof(tile) == 16 * N && sizeof(other) == 16 && __LINE__ == 17, "lines keep their numbers");
  a[0][0] = b[0] = c = both.more[1] = either.f = tile[0][0] = last = 1;
  p[0] = a[0][0] + b[0] + c + both.first + twice[1].first + another.i + other[0][0];
  p[1] = emu_site_tile.name[0] == 't' && emu_site_other.name[0] == 'o' && emu_site_both.bytes == 32;
}
END
"$REWRITE" "$dir/shared.cu" "$dir/shared.cpp" && ${CXX:-g++} -std=c++20 -DN=5 -Wall -Wextra -Werror -Icommon/emu/include -I. -fsyntax-only "$dir/shared.cpp"
ok $? "several variables, structs that are defined there, and macros, with and without their ;"

# ---- what it refuses ----

fails 'in.cu:2: a second variable behind a pointer after __shared__, expected one declaration for each' "two pointers" <<'END'
void k() {
  __shared__ float *a[2], *b[2];
}
END
fails 'in.cu:1: a __shared__ declaration that does not end, expected __shared__ type name[sizes];' "no end" <<'END'
void k() { __shared__ float a[2]
END
fails 'in.cu:1: a __shared__ variable with a value, expected none: threads have to write it' "an initial value" <<'END'
void k() { __shared__ int n = 0; }
END
fails 'in.cu:1: __shared__ outside of a function, expected it inside the kernel that uses it' "a shared variable at file scope" <<'END'
namespace a { extern __shared__ int all[]; }
END
fails 'in.cu:1: __shared__ array without a size, expected one, or extern in front' "no size" <<'END'
void k() { __shared__ int all[]; }
END
fails 'in.cu:1: extern __shared__ with a size or without [], expected extern __shared__ type name[];' "extern with a size" <<'END'
void k() { extern __shared__ int all[4]; }
END
fails 'in.cu:1: __shared__ in the middle of a declaration, expected it at its start' "a qualifier in the wrong place" <<'END'
void k() { int __shared__ all[4]; }
END
fails 'in.cu:1: __shared__ outside of a function, expected it inside the kernel that uses it' "a shared parameter" <<'END'
void k(__shared__ int *p) { }
END
fails 'in.cu:1: a parenthesis in a __shared__ declaration, expected __shared__ type name[sizes];' "a function pointer" <<'END'
void k() { __shared__ void (*f)(); }
END
fails 'in.cu:1: __shared__ without a type and a name, expected __shared__ type name[sizes];' "no type" <<'END'
void k() { __shared__ x; }
END
fails 'in.cu:3: 1 argument between <<< and >>>, expected 2 to 4 (a template call with a comma goes in parentheses)' "too few launch arguments" <<'END'

void f() {
  k<<<1>>>(); }
END
fails 'in.cu:1: 5 arguments between <<< and >>>, expected 2 to 4 (a template call with a comma goes in parentheses)' "too many" <<'END'
void f() { k<<<1, 2, 3, 4, 5>>>(); }
END
fails 'in.cu:1: <<< without its end, expected >>> and the arguments in parentheses' "no end" <<'END'
void f() { k<<<1, 2>>(); }
END
fails 'in.cu:1: >>> without arguments, expected >>>(arguments)' "no arguments" <<'END'
void f() { k<<<1, 2>>>; }
END
fails 'in.cu:1: <<< without a kernel before it, expected name<<<grid, block>>>(arguments)' "no kernel" <<'END'
void f() { 3 <<<1, 2>>>(); }
END
inside='a launch or a declaration inside a __shared__ declaration, expected __shared__ type name[sizes];'
fails "in.cu:2: $inside" "a launch in a shared array's size" <<'END'
void k() {
  __shared__ float a[k<<<1, 2>>>(3)];
}
END
fails "in.cu:1: $inside" "__shared__ twice" <<'END'
void k() { __shared__ __shared__ int a[2]; }
END
fails "in.cu:2: $inside" "a shared variable in a shared array's size" <<'END'
void k() {
  __shared__ int a[sizeof(struct { __shared__ int b; })]; }
END
lines="a string of several lines inside a declaration or a kernel's name, expected one line"
fails "in.cu:2: $lines" "a string that goes on in the next line, in a shared array's size" <<'END'
void k() {
  __shared__ int a[sizeof "two\
lines"];
}
END
fails "in.cu:1: $lines" "a raw string of two lines in a kernel's name" <<'END'
void f() { table[R"(a
b)"]<<<1, 2>>>(); }
END
fails 'in.cu:2: a comment that does not end, expected */' "an open comment" <<'END'
int x;
/* and so on
END
fails 'in.cu:1: a string or character that does not end on its line, expected "' "an open string" <<'END'
const char *s = "abc;
END

fails 'in.cu:1: inline PTX, which the emulator does not have: expected a function of common/ptx/, which has both' "inline PTX" <<'END'
__device__ void f(float x) { asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x)); }
END
stays "... but where the emulator is known" <<'END'
#ifndef CUDA_EMULATOR
__device__ void f(float x) { asm("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x)); }
#elif __CUDA_ARCH__ >= 900
#endif
END
ok "$(wc -c < "$dir/message")" "... and no warning"
fails 'in.cu:1: libcu++ is not emulated: expected the C++ library'"'"'s headers for cuda/std/, <cuda_pipeline.h> for cuda/pipeline, common/ptx/ for cuda/barrier' "libcu++" <<'END'
#include <cuda/std/array>
END
stays "libcu++ beside CUDA_EMULATOR stays" <<'END'
#ifndef CUDA_EMULATOR
#include <cuda/barrier>
#endif
END
stays "__CUDA_ARCH__ in a comment /* __CUDA_ARCH__ */ or string is nothing" <<'END'
const char *s = "__CUDA_ARCH__"; // __CUDA_ARCH__
END
ok "$(wc -c < "$dir/message")" "... and no warning"
stays "__CUDA_ARCH__ stays" <<'END'
int x;
#ifdef __CUDA_ARCH__
#else
#endif
#if defined(__CUDA_ARCH__)
#endif
END
[ "$(cat "$dir/message")" = 'in.cu:2: warning: __CUDA_ARCH__ is not defined on the emulator: expected CUDA_EMULATOR beside it, as here the other branch is taken' ]
ok $? "... with one warning"

# ---- what the compiler has to refuse ----

refused() { # message, what it shows; the source on standard input
  rewrite
  "${CXX:-g++}" -std=c++20 -Wno-unknown-pragmas -Icommon/emu/include -I. -fsyntax-only "$dir/out.cpp" 2> "$dir/message"
  [ $? -ne 0 ] && grep -q "$1" "$dir/message"
  result=$?
  ok $result "$2"
  [ $result -eq 0 ] || sed 's/^/#   /' "$dir/message"
}
refused 'in.cu:2.*error: .*__cluster_dims__ is not emulated: expected a launch with a cluster size, by launch_kernel()' "__cluster_dims__: an error that says what to use" <<'END'
#include <cuda_runtime.h>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) k(int *p) { p[0] = 1; }
END
refused 'error: .*a parameter of a kernel is a reference, expected a value or a pointer' "a kernel's parameter that is a reference" <<'END'
#include <cuda_runtime.h>
__global__ void k(const int &i, int *p) { p[0] = i; }
void run(int *p) { k<<<1, 1>>>(5, p); }
END
refused 'error: .*cudaLaunchKernel with an address, expected the kernel by its name' "cudaLaunchKernel with a kernel's address" <<'END'
#include <cuda_runtime.h>
__global__ void k(int *p) { p[0] = 1; }
void run(void **arguments) { cudaLaunchKernel((const void *)k, dim3(1), dim3(1), arguments, 0, nullptr); }
END
refused 'error: .*cooperative groups are not emulated: expected __syncthreads, __syncwarp and __shfl_sync, or clusters and named barriers of common/ptx/' "cooperative groups" <<'END'
#include <cooperative_groups.h>
END

"$REWRITE" "$dir/none.cu" "$dir/none.cpp" 2> /dev/null
[ $? -eq 1 ]
ok $? "a file that is not there is exit status 1"
mkfifo "$dir/fifo"
for what in "$dir|Is a directory" "$dir/fifo|nobody writes into this pipe (a regular file or a pipe with a writer is right)"; do
  timeout 10 "$REWRITE" "${what%%|*}" "$dir/none.cpp" 2> "$dir/message"
  [ $? -eq 1 ] && [ "$(cat "$dir/message")" = "${what%%|*}: expected a readable source: ${what#*|}" ] && [ ! -e "$dir/none.cpp" ]
  ok $? "no source: ${what#*|}"
done
echo "1..$count"
exit $failed
