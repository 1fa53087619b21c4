# A whole network, small: every layer right, by the kernels it should be; bad input.
. tests/tap.inc
network=$B/tools/network
out=$(mktemp)
runs() { # WHAT GREP COUNT ARGUMENTS...
  local what=$1 words=$2 count=$3 status=0
  shift 3
  "$network" --no-time "$@" >"$out" 2>&1 || status=1
  grep -q '^all right; ' "$out" || status=2
  [ "$(grep -c "$words" "$out")" -eq "$count" ] || status=3
  ok $status "$what"
  [ $status -eq 0 ] || diag "$(tail -3 "$out")"
}
refused() { # LINE ARGUMENTS...
  local want=$1 got status
  shift
  got=$("$network" "$@" 2>&1)
  status=$?
  ok $((status != 2)) "refused: $*"
  [ "$got" = "$want" ]
  ok $? "... $want"
  [ "$got" = "$want" ] || diag "got $got"
}
# Without wgmma, on a GPU of another architecture, none of these kernels is there; the network is all the same.
if [ "${B##*/}" = emu ]; then
  runs 'ResNet-50: a stem, and 16 bottlenecks whose 3x3 and 1x1 are one kernel' 'the same' 17
  runs 'ResNet-50: three of them have a stride' ' 07k ' 3
  runs 'ResNet-50 of 64 x 64 pixels: three bottlenecks are one kernel each' ' 07e ' 3 --size 64
  runs 'ResNet-18: a stem' 'the same' 1 --network resnet18
  runs 'ResNet-18, batch norms folded: a stem' 'the same' 1 --network resnet18 --folded
  runs 'a kernel for each operation' 'inside the kernel' 0 --unfused --network resnet18
  EMU_ARCH=80 runs 'without wgmma' '07[a-h]' 0 --network resnet18
else
  runs 'ResNet-50, two images' 'WRONG' 0 --batch 2
  runs 'ResNet-18, two images' 'WRONG' 0 --batch 2 --network resnet18
fi
refused '--network: expected resnet18 or resnet50, got "vgg"' --network vgg
refused '--batch: expected an integer from 1 to 4096, got "0"' --batch 0
refused '--size: expected 32 to 1024, got 16' --size 16
refused '--narrower: expected 1, 2, 4 or 8, got "3"' --narrower 3 --batch 2
refused '--fused: expected no --unfused beside it, got "both"' --fused --unfused
refused 'network: expected options alone (see --help), got "more"' more
rm -f "$out"
done_testing
