# make cublas, make cublaslt: without a GPU they say so; on one, every product and every convolution beside it is right.
. tests/tap.inc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! nvidia-smi -L >/dev/null 2>&1 || [ "${B##*/}" = emu ]; then
  out=$("$B/tools/cublas" --csv "$work/c.csv" 2>&1)
  ok "$([ $? -eq 2 ] && [ "$out" = "cublas: needs a GPU" ] && [ ! -e "$work/c.csv" ] && echo 0 || echo 1)" "without a GPU: one line, exit status 2, nothing written"
  out=$("$B/tools/cublaslt" --csv "$work/c.csv" 2>&1)
  ok "$([ $? -eq 2 ] && [ "$out" = "cublaslt: needs a GPU" ] && [ ! -e "$work/c.csv" ] && echo 0 || echo 1)" "cublaslt, too"
else
  out=$("$B/tools/cublaslt" --shape mb3ic16ih9oc24kh1 --pass fprop --kernel cublaslt --fuse bias,relu --no-cudnn 2>&1)
  status=$?
  [[ "$out" == "cublaslt: no cuBLASLt: "* ]] && ok 0 "# SKIP $out" || ok "$status" "cublaslt, a small layer: exit status $status"
  out=$("$B/tools/cublas" --shape mb3ic5ih9oc7kh3ph1 --csv "$work/c.csv" 2>&1)
  status=$?
  if [ "$status" -eq 2 ] && [[ "$out" == "cublas: no cuBLAS: "* ]]; then
    ok 0 "# SKIP $out"
  else
    ok "$status" "a small layer: exit status $status"
    ok "$([ "$(grep -c ',right,' "$work/c.csv")" -eq 9 ]; echo $?)" "all nine results are right"
    [ "$status" -eq 0 ] || diag "$out"
  fi
fi
done_testing
