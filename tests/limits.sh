# What --list says of the problems in tests/limits: nothing of them runs, so they may be of any size.
. tests/tap.inc
emulator_only 'a GPU lists its kernels by other names'
while IFS='|' read -r what text; do
  read -r kernel pass shape <<<"$what"
  case $kernel in '' | '#'*) continue ;; esac
  text=${text# }
  listed=$("$B/${kernel:0:2}" --list --kernel "$kernel" --pass "$pass" --shape "$shape" 2>&1) && grep -qF -- "$text" <<<"$listed"
  ok $? "$kernel $pass $shape: $text" || true
  [ "$tap_failed" -eq "${failed:-0}" ] || { failed=$tap_failed && diag "$(tail -n 1 <<<"$listed")"; }
done <tests/limits
done_testing
