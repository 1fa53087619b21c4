# Two GPUs beside each other (scripts/two_gpus.pl): the same code's rows only, the last by date, the first GPU's fastest kernel; cuDNN's time for the same operation, not for one with an epilogue.
. tests/tap.inc
emulator_only 'files only: once is enough'
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
mkdir -p "$T"/docs/results/{one,two,none}
header='gpu,driver,cuda,shape,name,count,pass,dtype,kernel,source,status,us_median,floor_us,date,graph,cudnn_best_us'
cat >"$T/docs/results/one/bench.csv" <<END_ROWS
$header
GPU,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,fprop,fp32,05f,aaaa,right,9,2,2026-01-01,conv,20
GPU,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,fprop,fp32,05f,aaaa,right,8,2,2026-01-02,conv,21
GPU,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,fprop,fp32,05g,bbbb,right,7,2,2026-01-02,conv,
GPU,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,fprop,fp32,05h,cccc,right,5,2,2026-01-02,conv,
GPU,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,fprop,fp32,05g,bbbb,right,4,2,2026-01-03,conv+relu,15
GPU,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,dgrad,fp32,05i,dddd,wrong,5,2,2026-01-02,conv,
END_ROWS
cat >"$T/docs/results/two/other.csv" <<END_ROWS
$header
Other,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,fprop,fp32,05f,aaaa,right,12,3,2026-01-02,conv,
Other,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,fprop,fp32,05g,bbbb,right,14,3,2026-01-02,conv,
Other,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,fprop,fp32,05h,changed,right,5,3,2026-01-02,conv,
Other,13,12,mb1ic8ih8oc8oh8kh1,"a, b",2,dgrad,fp32,05i,dddd,right,5,3,2026-01-02,conv,
END_ROWS
echo 'a,b' >"$T/docs/results/none/else.csv"
two() { (cd "$T" && perl "$OLDPWD/scripts/two_gpus.pl" "$@" 2>&1); }
got=$(two one two)
[ "$got" = $'gpu,other_gpu,driver,cuda,date,other_date,shape,name,pass,dtype,kernel,count,us,other_us,floor_us,other_floor_us,cudnn_us,other_cudnn_us\n"GPU","Other",13,12,2026-01-02,2026-01-02,mb1ic8ih8oc8oh8kh1,"a, b",fprop,fp32,05g,2,7,14,2,3,21,' ]
ok $? 'the fastest of what both have of the same code, right on both' || diag "$got"
got=$(two two one | tail -n 1)
[ "$got" = '"Other","GPU",13,12,2026-01-02,2026-01-02,mb1ic8ih8oc8oh8kh1,"a, b",fprop,fp32,05f,2,12,8,3,2,,21' ]
ok $? 'the other way round: another kernel, and the last of two rows' || diag "$got"
refused() {
  local wanted=$1
  shift
  got=$(two "$@")
  [ $? -ne 0 ] && [ "$got" = "$wanted" ]
  ok $? "$wanted" || diag "$got"
}
refused 'usage: scripts/two_gpus.pl GPU OTHER' one
refused 'two_gpus.pl: expected results in docs/results/three, found none' one three
refused 'two_gpus.pl: expected layers that both were timed on by the same code, found none' one none
done_testing
