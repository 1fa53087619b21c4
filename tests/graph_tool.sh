# The program that runs several operations one after the other: what it prints, and what it refuses.
. tests/tap.inc
graph=$B/tools/graph
says() { # WORDS... -- ARGUMENTS
  local words=() out status
  while [ "$1" != -- ]; do words+=("$1") && shift; done
  shift
  out=$("$graph" --no-time "$@" 2>&1)
  status=$?
  for word in "${words[@]}"; do grep -qF -- "$word" <<<"$out" || status=9; done
  ok "$status" "$*: ${words[*]}"
  [ $status -eq 0 ] || diag "$out"
}
refused() { # LINE ARGUMENTS...
  local want=$1 out
  shift
  out=$("$graph" "$@" 2>&1)
  ok $(($? != 2 || $(wc -l <<<"$out") != 1)) "refused: $*"
  [ "$out" = "$want" ]
  ok $? "... $want"
  [ "$out" = "$want" ] || diag "got $out"
}
says '  2  pointwise g16mb2ic16ih14oc16oh14kh1+bias+relu  by pointwise: exact on integers' '  3  mb2ic16ih14oc8oh14kh3ph1' 'off by' -- mb2ic8ih14oc16kh3ph1+bias+relu mb2ic16ih14oc8kh3ph1
says 'max-pool g32mb2ic32ih14oc32oh7kh3sh2ph1  by max-pool: exact' '+residual+relu6  by pointwise: exact' -- --dtype fp16 g32mb2ic32ih14oc32kh3ph1+bias pool:g32mb2ic32ih14oc32oh7kh3sh2ph1 g32mb2ic32ih7oc32kh3ph1+residual=2+relu6
says 'max-pool g12mb2ic12ih9oc12oh5kh3sh2ph1  by max-pool: exact' -- --dtype fp16 pool:g12mb2ic12ih9oc12oh5kh3sh2ph1
says 'not compared on integers: ' 'off by' -- mb2ic8ih14oc16kh3ph1+gelu
says 'not compared on integers: operation 4, 07c: integers grow past fp16' '  4  mb1ic64ih5oc64oh5kh3ph1  by 07c' 'off by' -- --dtype fp16 mb1ic64ih5oc64kh3ph1 mb1ic64ih5oc64kh3ph1 mb1ic64ih5oc64kh3ph1 mb1ic64ih5oc64kh3ph1 mb1ic64ih5oc64kh3ph1
says '  1  mb2ic8ih14oc8oh14kh3ph1  by' '+residual+relu  by pointwise' 'off by' -- mb2ic8ih14oc8kh3ph1+residual=0+relu
for from in 0 1 x; do refused "OPERATION: expected no +from=N of the first operation, which reads the input, got \"mb2ic8ih14oc8kh3ph1+from=$from\"" mb2ic8ih14oc8kh3ph1+from=$from; done
says 'oh14kh3ph1n"a+relu"  by' 'kh1+relu  by pointwise' -- 'mb2ic8ih14oc8kh3ph1n"a+relu"+relu'
says 'oh14kh3ph1n"+"  by' 'oh14kh1n"b+from=7"  by' -- 'mb2ic8ih14oc8kh3ph1n"+"' 'mb2ic8ih14oc8kh1n"b+from=7"+from=0'
refused 'n: expected a closing quote after n"' 'mb2ic8ih14oc8kh3ph1n"a+relu'
for pool in oh9kh3ph5 oh6kh1ph1 oh3kh2dh4ph3; do refused "graph: operation 1, g8mb1ic8ih4oc8${pool} fp32 NCHW: a window of max-pooling sees nothing but padding" "pool:g8mb1ic8ih4oc8$pool"; done
refused '--seed: expected an integer from 0 to 2^64 - 1, got "-5"' --seed -5 mb1ic8ih4oc8kh1
refused 'graph: expected operations (see --help), got ""'
refused 'OPERATION: expected scale, bias, residual and one of relu, relu6, gelu, silu, each once, got "relx"' mb2ic8ih14oc16kh3ph1+bias+relx
refused 'OPERATION: expected +residual=N or +from=N with N the number of an operation before it, or 0, got "mb2ic8ih14oc16kh3ph1+residual=3"' mb2ic8ih14oc16kh3ph1+residual=3
refused 'operation 2: expected x of 2 x 8 x 14 x 14, got 2 x 16 x 14 x 14' mb2ic8ih14oc16kh3ph1 mb2ic8ih14oc16kh3ph1
refused 'operation 2: expected a residual of 2 x 16 x 14 x 14, got 2 x 8 x 14 x 14' mb2ic8ih14oc16kh3ph1 mb2ic16ih14oc16kh3ph1+residual=0
says '  2  mb2ic16ih14oc32oh7kh1sh2+bias  by' '  3  mb2ic32ih7oc32oh7kh3ph1+bias+residual+relu  by' 'off by' -- --dtype fp16 mb2ic16ih14oc32oh7kh3sh2ph1+bias+relu mb2ic16ih14oc32oh7kh1sh2+bias+from=0 mb2ic32ih7oc32kh3ph1+from=1+bias+residual=2+relu
refused 'OPERATION: expected +residual=N or +from=N with N the number of an operation before it, or 0, got "mb2ic16ih14oc8kh3ph1+from=2"' mb2ic8ih14oc16kh3ph1 mb2ic16ih14oc8kh3ph1+from=2
refused 'operation 2: expected x of 2 x 16 x 14 x 14, got 2 x 8 x 14 x 14' mb2ic8ih14oc16kh3ph1 mb2ic16ih14oc8kh3ph1+from=0
refused 'OPERATION: expected +residual=N or +from=N with N the number of an operation before it, or 0, got "mb1ic8ih8oc8kh3ph1+relufrom=0"' mb1ic8ih8oc8kh3ph1+relufrom=0
refused 'OPERATION: expected one +from=N, got "mb1ic8ih8oc8kh3ph1+from=0+from=1"' mb1ic8ih8oc8kh3ph1 mb1ic8ih8oc8kh3ph1+from=0+from=1
refused 'graph: operation 2, g8mb1ic8ih4oc8oh4kh3ph1 fp32 NCHW: does not fuse relu' mb1ic8ih4oc8kh1+scale+bias pool:g8mb1ic8ih4oc8kh3ph1+relu
refused 'graph: operation 40: expected at most 80 operations, with epilogues that no kernel takes as operations of their own' $(for ((i = 0; i < 41; i++)); do echo mb1ic8ih1oc8kh1+bias; done)
says '  1  mb1ic8ih8oc8oh8kh3ph1  by 05' -- --dtype fp16 --dtype fp32 mb1ic8ih8oc8kh3ph1
refused 'graph: operation 1, mb1000000ic64ih64oc8oh64kh1 fp16 NHWC: x has 2^31 elements or more (indices are 32-bit)' --dtype fp16 mb1000000ic64ih64oc8kh1
refused '--dtype: expected fp32 or fp16, got "int8"' --dtype int8 mb2ic8ih14oc16kh3ph1
refused 'graph: operation 1, mb1ic7ih40oc8oh40kh17ph8 fp16 NHWC: not depthwise: one group' --dtype fp16 mb1ic7ih40oc8kh17ph8
done_testing
