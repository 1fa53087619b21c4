# Programmatic dependent launch: the checker is silent where a launch waits for what it needs, and names what is touched too early.
. tests/tap.inc
emulator_only 'the checker is part of the emulator'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
program=build/check/tests/check_overlap

for graph in '' graph; do
  "$B/tests/check_overlap" $graph >"$log" 2>&1
  ok $? "run build${graph:+, from a graph}: the right ones run"
  silent "$log" "right launches${graph:+, from a graph}" '0 1 2 3 4 5 6 7' $program $graph
done

# found CASE KERNEL LINE TEXT: the checker reports that the kernel touches, at the line that contains LINE, what another one has not left yet;
# enqueued and replayed from a graph, in any order.
found() {
  local line graph seed status=0
  line=$(grep -nF -- "$3" tests/check_overlap.cu | head -n 1 | cut -d: -f1)
  for graph in '' graph; do
    for seed in 0 1 2; do
      EMU_SEED=$seed $program $graph "$1" >"$log" 2>&1
      [ $? -eq 1 ] && grep "^emulator check: overlap: $2, tests/check_overlap.cu:$line, " "$log" | grep -qF -- "$4" || status=1
    done
  done
  ok $status "$1: $(grep -m 1 '^emulator check' "$log")"
}
wrote="an earlier launch, which may be at work still, wrote it at tests/check_overlap.cu:$(grep -n 'a.x\[ME\] =' tests/check_overlap.cu | cut -d: -f1)"
found no-wait never_waits '/* without a wait */' "$wrote"
found late-wait waits_late 'const float before' "$wrote"
found overwrite overwrites '/* which the kernel before reads */' 'may be at work still, read it at tests/check_overlap.cu'
found adds-early 'adds<false>' 'ptx_bulk_reduce_add_f32(' "$wrote"
found no-barrier others_do_not_meet '/* of one who waits' "$wrote"
found chain-broken third '/* after the wait for the second' "$wrote"
found chain-hurry third_hurries '/* before the wait for the second' "$wrote"
done_testing
