#!/usr/bin/env bash
# What nvcc made of a step's kernels: the hottest loop of each, and its instructions counted. `make sass-NN`; needs no GPU.
# usage: scripts/sass.sh STEP PASS KERNEL LOOP FUNCTION OBJECT...     PASS, KERNEL, LOOP, FUNCTION may be empty
#   OBJECT   build/nvcc/90a/02_coalesced/a_coalesced.cu.o
set -uo pipefail
step=$1 pass=$2 kernel=$3 loop=$4 function=$5
shift 5
here=$(dirname "$0")

fail() {
  printf '%s\n' "$1" >&2
  exit 2
}
case $pass in '' | fprop | dgrad | wgrad) ;; *) fail "PASS: expected fprop, dgrad or wgrad, got \"$pass\"" ;; esac
[ -n "${NVCC:-}" ] || fail "sass-$step: expected nvcc on PATH or in /usr/local/cuda/bin, found none"
PATH="$PATH:$(dirname "$(readlink -f "$(command -v "$NVCC")")"):/usr/local/cuda/bin"
for tool in cuobjdump nvdisasm; do
  command -v $tool >/dev/null || fail "sass-$step: expected $tool on PATH or beside nvcc (a part of the CUDA Toolkit), found none"
done

letters() { for object in "$@"; do basename "$object" | cut -c 1; done; }
shown=0 tried=0
for object in "$@"; do
  name=$step$(letters "$object")
  [ -z "$kernel" ] || [ "$kernel" = "$name" ] || continue
  tried=1
  [ $shown -eq 0 ] || echo
  cuobjdump -sass "$object" | "$here/sass.pl" "$name" "$pass" "$loop" "$function"
  case $? in
  0) shown=1 ;;
  3) ;; # nothing of this pass, or of this name
  *) exit 1 ;;
  esac
done
[ $tried -eq 1 ] || fail "KERNEL: expected a kernel of step $step ($(letters "$@" | sed "s/^/$step/" | xargs)), got \"$kernel\""
[ $shown -eq 1 ] || fail "PASS, FUNCTION: expected a pass that these kernels do and a part of a name, got \"$pass\", \"$function\""
echo
cat <<END
This is what was compiled, not what ran: a loop unrolled by four is passed over where it would go round less often, and a kernel may hold
loops for several cases. LOOP=2 prints the second loop, FUNCTION=TEXT whole loops of kernels with that in their name; make profile-$step counts what
is executed.
END
