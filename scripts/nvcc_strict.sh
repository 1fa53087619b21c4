#!/usr/bin/env bash
# nvcc, and a failure where it says that a kernel is not what was written. ptxas serializes wgmma, puts in waits and fences, or ignores setmaxnreg, remarks it
# ("ptxas info: (C7511)") and is content; -Werror does not change that.
# usage: scripts/nvcc_strict.sh [--quick] NVCC ARGUMENT ...
#   --quick   a compilation that does not optimize: such remarks are to be expected, and left out
# Exit status: nvcc's; 1 for such a remark.
quick=
[ "$1" = --quick ] && quick=1 && shift
said=$("$@" 2>&1)
status=$?
[ -z "$quick" ] || said=$(grep -vE '^ptxas info .*\(C75[01][0-9]\)' <<<"$said")
[ -z "$said" ] || printf '%s\n' "$said" >&2
[ $status -eq 0 ] || exit $status
codes=$(grep -oE '\(C75(08|1[0-9])\)' <<<"$said" | tr -d '()' | sort -u | xargs)
[ -z "$codes" ] && exit 0
for file in "$@"; do [[ $file == *.cu ]] && break; done
echo "$file: expected machine code with wgmma and setmaxnreg as they are written, ptxas has serialized, added or ignored something: $codes" >&2
exit 1
