#!/usr/bin/env bash
# The runs behind the tables of steps 06 and 07, and step 05 on other networks: a name is a file in docs/results/<gpu>/, made on a GPU with cuDNN beside every row. Everything is verified in the run that
# times it. Rows go to build/rows/NAME.csv. Another run of the same is in docs/results/<gpu>/, of three of them: epilogue-again, blocks-again, network-again.
# usage: scripts/rows.sh [--list] NAME...      after make BACKEND=cuda all
set -u
build=build/cuda
rows=build/rows

# NAME | program | arguments: one run a line.
runs() {
  cat <<'END'
dense-06 | 06 | --suite resnet50 --batch 1 --pass fprop --kernel auto
dense-06 | 06 | --suite resnet50 --batch 32 --pass fprop --kernel auto
dense-06 | 06 | --suite resnet50 --batch 256 --pass fprop --kernel auto
dense-06 | 06 | --suite vgg16 --batch 64 --pass fprop --kernel auto
dense-06 | 06 | --suite window --pass fprop --kernel auto
dense-06 | 06 | --suite DEEPLAB --batch 16 --pass fprop --kernel auto
dense-06 | 06 | --suite held_out --dtype fp16 --pass fprop --kernel auto
choice-06 | 06 | --suite held_out --dtype fp16 --pass fprop
choice-06 | 06 | --suite vgg16 --batch 64 --pass fprop
choice-06 | 06 | --suite DEEPLAB --batch 16 --pass fprop
ladder-06 | 06 | --shape mb64ic256ih56oc256oh56kh3ph1n"ladder" --pass fprop --kernel 06a,06b,06c,06d,06e,06f,06h,06i
ladder-06 | 06 | --shape mb16ic64ih56oc128oh56kh3ph1n"readme" --pass fprop --kernel 06a,06b,06c,06d,06e,06f,06h,06i
fused-06 | 06 | --suite resnet50 --batch 32 --pass fprop --kernel auto --cudnn-fused --search-seconds 3
backward-06 | 06 | --suite resnet50 --batch 32 --pass dgrad --kernel auto --search-cudnn --search-seconds 3
backward-06 | 06 | --suite resnet50 --batch 256 --pass dgrad --kernel auto --search-cudnn --search-seconds 3
backward-06 | 06 | --suite resnet50 --batch 32 --pass wgrad --kernel auto --search-cudnn --search-seconds 3
backward-06 | 06 | --suite resnet50 --batch 256 --pass wgrad --kernel auto --search-cudnn --search-seconds 3
held-06 | 06 | --suite held_training --kernel auto --search-seconds 4
held-few | 06 | --suite held_few --kernel auto --search-seconds 4
held-narrow | 06 | --suite held_narrow --pass wgrad --kernel auto --search-seconds 4
held-narrow | 06 | --suite held_narrow --pass fprop --kernel auto --search-seconds 3
held-narrow | 06 | --suite held_narrow --pass dgrad --kernel auto --search-seconds 3
held-neighbours | 06 | --suite held_neighbours --pass fprop --kernel auto --search-seconds 4
held-neighbours | 06 | --suite held_neighbours --pass dgrad --kernel auto --search-seconds 4
held-fp32 | 05 | --suite held_fp32 --pass fprop --kernel auto --search-seconds 4
held-fp32 | 05 | --suite held_fp32 --pass dgrad --kernel auto --search-seconds 4
held-fp32 | 05 | --suite held_fp32 --pass wgrad --kernel auto --search-seconds 4
fresh-fp32 | 05 | --suite fresh_fp32 --pass fprop --kernel auto --search-seconds 4
fresh-fp32 | 05 | --suite fresh_fp32 --pass dgrad --kernel auto --search-seconds 4
fresh-fp32 | 05 | --suite fresh_fp32 --pass wgrad --kernel auto --search-seconds 4
vgg16-fp32 | 05 | --suite vgg16 --pass fprop --kernel auto --search-seconds 4
vgg16-fp32 | 05 | --suite vgg16 --pass dgrad --kernel auto --search-seconds 4
vgg16-fp32 | 05 | --suite vgg16 --pass wgrad --kernel auto --search-seconds 4
resnext-fp32 | 05 | --suite resnext --pass fprop --kernel auto --search-seconds 4
resnext-fp32 | 05 | --suite resnext --pass dgrad --kernel auto --search-seconds 4
resnext-fp32 | 05 | --suite resnext --pass wgrad --kernel auto --search-seconds 4
resnet50-fp32 | 05 | --suite resnet50 --batch 1 --pass fprop --kernel auto --search-seconds 4
resnet50-fp32 | 05 | --suite resnet50 --batch 1 --pass dgrad --kernel auto --search-seconds 4
resnet50-fp32 | 05 | --suite resnet50 --batch 1 --pass wgrad --kernel auto --search-seconds 4
held-depthwise | 06 | --suite held_depthwise_fp16 --kernel auto --search-seconds 4
held-depthwise | 04 | --suite held_depthwise_fp16 --dtype fp16 --kernel auto --search-seconds 4
held-groups | 05 | --suite held_groups_fp32 --pass fprop --kernel auto --search-seconds 3
held-groups | 05 | --suite held_groups_fp32 --pass dgrad --kernel auto --search-seconds 3
held-groups | 05 | --suite held_groups_fp32 --pass wgrad --kernel auto --search-seconds 3
few-05 | 05 | --suite few_fp32 --kernel auto --search-seconds 2
turned-05 | 05 | --suite resnet50 --batch 1 --pass dgrad --no-cudnn --kernel 05i,05r
turned-05 | 05 | --suite resnet50 --batch 16 --pass dgrad --no-cudnn --kernel 05i,05r
turned-05 | 05 | --suite resnet50 --batch 64 --pass dgrad --no-cudnn --kernel 05i,05r
turned-05 | 05 | --suite held_fp32 --pass dgrad --no-cudnn --kernel 05i,05r
turned-05 | 05 | --suite fresh_fp32 --pass dgrad --no-cudnn --kernel 05i,05r
turned-05 | 05 | --suite resnext --pass dgrad --no-cudnn --kernel 05i,05r
choice-groups | 05 | --suite GROUPS --pass fprop --no-cudnn --kernel 05f,05g,05m,05o
choice-groups | 05 | --suite GROUPS --pass dgrad --no-cudnn --kernel 05i,05j,05m,05o,05q
choice-groups | 05 | --suite GROUPS --pass wgrad --no-cudnn --kernel 05k,05n,05p
choice-groups | 05 | --suite held_groups_fp32 --pass fprop --no-cudnn --kernel 05f,05g,05m,05o
choice-groups | 05 | --suite held_groups_fp32 --pass dgrad --no-cudnn --kernel 05i,05j,05m,05o,05q
choice-groups | 05 | --suite held_groups_fp32 --pass wgrad --no-cudnn --kernel 05k,05n,05p
depthwise-networks | 06 | --suite depthwise_networks --batch 1 --pass fprop --kernel 06p,06x,06y --search-seconds 1
depthwise-networks | 06 | --suite depthwise_networks --batch 8 --pass fprop --kernel 06p,06x,06y --search-seconds 1
depthwise-networks | 06 | --suite depthwise_networks --batch 16 --pass fprop --kernel 06p,06x,06y --search-seconds 1
depthwise-networks | 06 | --suite MOBILENET --batch 64 --pass fprop --kernel 06p,06x,06y
channels-06 | 06 | --suite channels --pass fprop --no-cudnn --kernel 06f,06g,06h
channels-06 | 06 | --suite channels --pass dgrad --no-cudnn --kernel 06g,06h,06j
order-06 | 06 | --suite resnet50 --batch 1 --pass fprop --kernel auto --no-cudnn --in-order
order-06 | 06 | --suite resnet50 --batch 32 --kernel auto --no-cudnn --in-order
order-06 | 06 | --suite resnet50 --batch 256 --kernel auto --no-cudnn --in-order
transposed-06 | 06 | --suite transposed --pass transposed --kernel auto --search-seconds 4
transposed-06 | 06 | --suite transposed --pass transposed --kernel auto --fuse bias --search-seconds 4
train-06 | 06 | --suite train --kernel auto --search-seconds 4
train-06 | 06 | --suite TRANSPOSED --pass transposed --kernel auto --search-seconds 4
first-06 | 06 | --suite first_layer --pass fprop --kernel auto
first-06 | 06 | --suite first_layer --pass wgrad --kernel auto
first-06 | 06 | --shape mb256ic3ih224oc64oh112kh7sh2ph3n"resnet_7x7" --pass fprop --kernel auto
first-06 | 06 | --shape mb256ic3ih224oc64oh112kh7sh2ph3n"resnet_7x7" --pass wgrad --kernel auto
first-06 | 06 | --shape mb64ic3ih224oc64oh224kh3ph1n"vgg_3x3" --pass fprop --kernel auto
first-06 | 06 | --shape mb64ic3ih224oc64oh224kh3ph1n"vgg_3x3" --pass wgrad --kernel auto
groups-06 | 06 | --suite GROUPS --batch 64 --kernel auto
groups-06 | 06 | --suite GROUPS --batch 16 --kernel auto
epilogue-scaled | 07 | --suite EXPANDED --batch 32 --pass fprop --kernel auto --fuse scale,bias,residual,relu
epilogue-scaled | 07 | --suite OTHERS --batch 32 --pass fprop --kernel auto --fuse scale,bias,relu
epilogue-scaled | 07 | --suite SHORTCUTS --batch 32 --pass fprop --kernel auto --fuse scale,bias
epilogue-scaled | 07 | --suite SHORTCUTS --batch 256 --pass fprop --kernel auto --fuse scale,bias
epilogue-scaled | 07 | --suite EXPANDED --batch 256 --pass fprop --kernel auto --fuse scale,bias,residual,relu
epilogue-scaled | 07 | --suite OTHERS --batch 256 --pass fprop --kernel auto --fuse scale,bias,relu
epilogue-07 | 07 | --suite EXPANDED --batch 32 --pass fprop --kernel auto --fuse bias,residual,relu --search-seconds 4 --in-order
epilogue-07 | 07 | --suite OTHERS --batch 32 --pass fprop --kernel auto --fuse bias,relu --search-seconds 4 --in-order
epilogue-07 | 07 | --suite SHORTCUTS --batch 32 --pass fprop --kernel auto --fuse bias --search-seconds 4 --in-order
epilogue-07 | 07 | --suite EXPANDED --batch 256 --pass fprop --kernel auto --fuse bias,residual,relu --search-seconds 4 --in-order
epilogue-07 | 07 | --suite OTHERS --batch 256 --pass fprop --kernel auto --fuse bias,relu --search-seconds 4 --in-order
epilogue-07 | 07 | --suite SHORTCUTS --batch 256 --pass fprop --kernel auto --fuse bias --search-seconds 4 --in-order
cublaslt-07 | tools/cublaslt | --suite EXPANDED --batch 32 --pass fprop --kernel 07a,cublaslt --fuse bias,residual,relu --search-seconds 2
cublaslt-07 | tools/cublaslt | --suite PRODUCTS --batch 32 --pass fprop --kernel 07a,cublaslt --fuse bias,relu --search-seconds 2
cublaslt-07 | tools/cublaslt | --suite EXPANDED --batch 256 --pass fprop --kernel 07a,cublaslt --fuse bias,residual,relu --search-seconds 2
cublaslt-07 | tools/cublaslt | --suite PRODUCTS --batch 256 --pass fprop --kernel 07a,cublaslt --fuse bias,relu --search-seconds 2
padded-07 | tools/fusion | --seconds 2 --images 32,256 --list PADDED
fusion-07 | tools/fusion | --seconds 2
fusion-07 | tools/fusion | --seconds 2 --images 64 --list SEPARABLE
bare-07 | tools/fusion | --no-cudnn --bare --images 32,256 --list LAYERS
fusion-held | tools/fusion | --no-cudnn --list 07_fusion/chains_held.txt
blocks-scaled | tools/graph | --dtype fp16 --seconds 2 mb32ic64ih56oc64kh3ph1+scale+bias+relu mb32ic64ih56oc64kh3ph1+scale+bias+residual=0+relu
blocks-scaled | tools/graph | --dtype fp16 --seconds 2 mb32ic128ih28oc128kh3ph1+scale+bias+relu mb32ic128ih28oc128kh3ph1+scale+bias+residual=0+relu
blocks-scaled | tools/graph | --dtype fp16 --seconds 2 mb32ic256ih14oc256kh3ph1+scale+bias+relu mb32ic256ih14oc256kh3ph1+scale+bias+residual=0+relu
blocks-scaled | tools/graph | --dtype fp16 --seconds 2 mb32ic512ih7oc512kh3ph1+scale+bias+relu mb32ic512ih7oc512kh3ph1+scale+bias+residual=0+relu
blocks-scaled | tools/graph | --dtype fp16 --seconds 2 mb32ic64ih56oc128oh28kh3sh2ph1+scale+bias+relu mb32ic64ih56oc128oh28kh1sh2+scale+bias+from=0 mb32ic128ih28oc128kh3ph1+from=1+scale+bias+residual=2+relu
blocks-scaled | tools/graph | --dtype fp16 --seconds 2 mb32ic128ih28oc256oh14kh3sh2ph1+scale+bias+relu mb32ic128ih28oc256oh14kh1sh2+scale+bias+from=0 mb32ic256ih14oc256kh3ph1+from=1+scale+bias+residual=2+relu
blocks-scaled | tools/graph | --dtype fp16 --seconds 2 mb32ic256ih14oc512oh7kh3sh2ph1+scale+bias+relu mb32ic256ih14oc512oh7kh1sh2+scale+bias+from=0 mb32ic512ih7oc512kh3ph1+from=1+scale+bias+residual=2+relu
blocks-07 | tools/graph | --dtype fp16 --seconds 8 mb32ic64ih56oc64kh3ph1+bias+relu mb32ic64ih56oc64kh3ph1+bias+residual=0+relu
blocks-07 | tools/graph | --dtype fp16 --seconds 8 mb32ic128ih28oc128kh3ph1+bias+relu mb32ic128ih28oc128kh3ph1+bias+residual=0+relu
blocks-07 | tools/graph | --dtype fp16 --seconds 8 mb32ic256ih14oc256kh3ph1+bias+relu mb32ic256ih14oc256kh3ph1+bias+residual=0+relu
blocks-07 | tools/graph | --dtype fp16 --seconds 8 mb32ic512ih7oc512kh3ph1+bias+relu mb32ic512ih7oc512kh3ph1+bias+residual=0+relu
blocks-07 | tools/graph | --dtype fp16 --seconds 8 mb32ic64ih56oc128oh28kh3sh2ph1+bias+relu mb32ic64ih56oc128oh28kh1sh2+bias+from=0 mb32ic128ih28oc128kh3ph1+from=1+bias+residual=2+relu
blocks-07 | tools/graph | --dtype fp16 --seconds 8 mb32ic128ih28oc256oh14kh3sh2ph1+bias+relu mb32ic128ih28oc256oh14kh1sh2+bias+from=0 mb32ic256ih14oc256kh3ph1+from=1+bias+residual=2+relu
blocks-07 | tools/graph | --dtype fp16 --seconds 8 mb32ic256ih14oc512oh7kh3sh2ph1+bias+relu mb32ic256ih14oc512oh7kh1sh2+bias+from=0 mb32ic512ih7oc512kh3ph1+from=1+bias+residual=2+relu
fusion-folded | tools/fusion | --seconds 3 --images 32,256 --list FOLDED
network-scaled | tools/network | --batch 1 --seconds 2
network-scaled | tools/network | --batch 32 --seconds 2
network-scaled | tools/network | --batch 256 --seconds 2
network-07 | tools/network | --folded --batch 1 --seconds 2
network-07 | tools/network | --folded --batch 32 --seconds 2
network-07 | tools/network | --folded --batch 256 --seconds 2
recurrent-07 | tools/recurrent |
recurrent-sizes | tools/recurrent | --hidden 64 --no-cudnn
recurrent-sizes | tools/recurrent | --hidden 128 --no-cudnn
recurrent-sizes | tools/recurrent | --hidden 256 --no-cudnn
recurrent-sizes | tools/recurrent | --hidden 512 --no-cudnn
recurrent-sizes | tools/recurrent | --hidden 64 --image 28 --filter 3 --batch 8 --steps 32 --no-cudnn
recurrent-sizes | tools/recurrent | --hidden 256 --image 14 --filter 3 --batch 8 --steps 32 --no-cudnn
END
}

if [ $# -eq 0 ] || [ "$1" = --list ]; then
  runs | sed 's/ |.*//' | sort -u
  exit
fi
for name; do
  runs | grep -q "^$name |" || { echo "rows.sh: expected one of $(runs | sed 's/ |.*//' | sort -u | tr '\n' ' '), got \"$name\"" >&2 && exit 2; }
done
[ -x $build/06 ] || { echo "rows.sh: expected programs for a GPU in $build (make BACKEND=cuda all), found none" >&2 && exit 2; }
mkdir -p $rows build/results
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT
# Of chains: MobileNetV2's pairs; those of ResNet-50, without scales. Of a suite: DeepLab's last units; MobileNetV2's depthwise layers; the training program's transposed layer; ResNeXt's grouped layers; ResNet's layers that get the shortcut added, its shortcuts' own, its others, but for the first, and of these the 1 x 1; all as operations; its first with pixels of three and of four channels.
grep '^g' 07_fusion/chains.txt >"$lists/SEPARABLE"
grep 'deeplab_block4' common/suites/dilated >"$lists/DEEPLAB"
sed -n 's/+scale//gp' 07_fusion/chains.txt | grep '^ic3ih224\|^ic64ih56oc64kh3ph1+bias+relu ic64ih56oc256\|^ic256ih56oc64kh1+bias+relu ic64' >"$lists/FOLDED"
grep '"v2_' common/suites/depthwise_networks >"$lists/MOBILENET"
sed -n 3p common/suites/train >"$lists/TRANSPOSED"
grep '^g' common/suites/resnext >"$lists/GROUPS"
grep -v '^#' common/suites/resnet50 | grep expand >"$lists/EXPANDED"
grep -v '^#' common/suites/resnet50 | grep -v 'expand\|conv1\|downsample' >"$lists/OTHERS"
grep downsample common/suites/resnet50 >"$lists/SHORTCUTS"
grep kh1n "$lists/OTHERS" >"$lists/PRODUCTS"
for channels in 3 4; do echo "ic${channels}ih224oc64oh112kh7sh2ph3+bias+relu pool:g64ic64ih112oc64oh56kh3sh2ph1"; done >"$lists/PADDED"
sed -E 's/^mb[0-9]*//; s/n".*expand.*/+scale+bias+residual+relu/; s/n".*/+scale+bias+relu/' "$lists/EXPANDED" "$lists/OTHERS" "$lists/SHORTCUTS" >"$lists/LAYERS"

status=0
for name; do
  parts=()
  while IFS='|' read -r of program arguments; do
    [ "${of// /}" = "$name" ] || continue
    part=$lists/$name-${#parts[@]}.csv
    arguments=$(sed -E "s#--(suite|list) ([A-Z]+)#--\1 $lists/\2#" <<<"$arguments")
    # shellcheck disable=SC2086
    $build/${program// /} $arguments --csv "$part" || status=1
    [ -s "$part" ] && parts+=("$part")
  done < <(runs)
  scripts/join_rows.pl "${parts[@]}" >"$rows/$name.csv" || status=1
done
exit $status
