# make fusion: what a chain saves and costs, its list, its rows; bad input.
. tests/tap.inc
emulator_only 'a GPU times what is only counted here'
fusion=$B/tools/fusion
out=$(mktemp)
rows=$(mktemp)
trap 'rm -f "$out" "$rows"' EXIT
says() { # WHAT LINE...: the last run
  local what=$1 line status=0
  shift
  for line; do grep -qF -- "$line" "$out" || { status=1 && diag "missing: $line"; }; done
  ok $status "$what"
}
"$fusion" --csv "$rows" mb2ic64ih14oc64kh3ph1+relu mb2ic64ih14oc256kh1+relu >"$out" 2>&1
ok $? 'a chain, both ways right'
says 'its account' 'by 07d' '0.3574 MB in place of 0.4577' '20.87 million, 0.0 % of them twice' 'should_fuse        pays: 0.1 MB less'
[ "$(wc -l <"$rows")" -eq 2 ] && [ "$(head -1 "$rows" | tr , '\n' | wc -l)" -eq "$(sed -n 2p "$rows" | sed 's/"[^"]*"/x/g' | tr , '\n' | wc -l)" ]
ok $? 'a row, as many fields as the header'
EMU_SMS=3 "$fusion" mb2ic64ih14oc64kh3ph1+relu mb2ic64ih14oc256kh1+relu >"$rows" 2>&1
cmp -s "$out" "$rows"
ok $? 'counted for an H200, whatever is emulated'
"$fusion" --no-time mb32ic3ih224oc64oh112kh7sh2ph3+relu pool:g64mb32ic64ih112oc64oh56kh3sh2ph1 >"$out" 2>&1
says 'rows that strips share are counted' 'by 07h' '6.2 % of them twice'
"$fusion" mb1ic64ih8oc64kh1+bias+relu >"$out" 2>&1
says 'an epilogue' '07c' 'nothing is computed twice'
"$fusion" --bare mb1ic64ih8oc64kh1+bias+residual+relu >"$out" 2>&1 && ! grep -q WRONG "$out"
ok $? 'an epilogue, beside none'
"$fusion" --no-time g1mb1ic65536ih56iw1oc8oh56ow1kh3kw255ph1pw127 g1mb1ic8ih56iw1oc128oh56ow1kh1kw1 >"$out" 2>&1
says 'more bytes for a block than 31 bits count' 'does not pay'
"$fusion" --no-time pool:g8mb1ic8ih1oc8kh3ph1 >"$out" 2>&1
says 'one operation with nothing to fuse; no bytes below zero' '3.2e-05 MB in place of 3.2e-05' 'does not pay: it is one operation without an epilogue'
"$fusion" >"$out" 2>&1
ok $? 'the list'
[ "$(grep -c '  \(yes\|no\)  *mb' "$out")" -eq $((3 * $(grep -c '^[^#m]' 07_fusion/chains.txt) + $(grep -c '^mb' 07_fusion/chains.txt))) ]
ok $? '... every chain, three times, or with its own number of images'
[ "$(grep -c '  \(yes\|no\)  *mb' "$out")" -ge 60 ]
ok $? '... at least 60 points'
printf '%s\n' 'g16mb2ic16ih9oc16kh3ph1 mb2ic16ih9oc8kh1' >"$rows"
"$fusion" --list "$rows" >"$out" 2>&1 && [ "$(grep -c 'g16mb2ic16' "$out")" -eq 1 ]
ok $? 'a line that begins with groups may say itself how many images' || diag "$(cat "$out")"
refused() { # LINE ARGUMENTS...
  local want=$1 status
  shift
  "$fusion" "$@" >/dev/null 2>"$out"
  status=$?
  [ $status -eq 2 ] && [ "$(head -1 "$out")" = "$want" ]
  ok $? "refused: $want" || diag "status $status, got $(head -1 "$out")"
}
refused 'mb1ic64ih8oc64kh1 mb1ic64ih8oc64kh1+silu: expected a chain that one kernel computes' mb1ic64ih8oc64kh1 mb1ic64ih8oc64kh1+silu
refused '--list: /nowhere: expected a list of chains: No such file or directory' --list /nowhere
refused '--images: expected no operations beside it, got "mb1ic8ih5oc8kh1"' --images 3 mb1ic8ih5oc8kh1
refused '--seconds: expected a number above 0 and up to 1000, got "x"' --seconds x
refused 'fusion: expected at most 8 operations, got 9' 1 2 3 4 5 6 7 8 9
refused 'operation 2: expected x of 1 x 32 x 8 x 8, got 1 x 64 x 8 x 8' mb1ic64ih8oc64kh3ph1 mb1ic32ih8oc64kh1
printf '%s\n' '# nothing' 'ic64ih8oc64kh3ph1+relu mb3ic64ih8oc64kh1' >"$rows"
refused "$rows:2: mb: expected once, given twice" --list "$rows"
refused '--list: expected no operations beside it, got "mb1ic8ih5oc8kh1"' --list "$rows" mb1ic8ih5oc8kh1
printf '%s\n' '# nothing' '' >"$rows"
refused "--list: $rows: expected a chain in some line, found none" --list "$rows"
echo 'ic64ih8oc64kh1 2 3 4 5 6 7 8 rubbish' >"$rows"
refused "$rows:1: expected at most 8 operations, got \"rubbish\" after them" --list "$rows"
printf '%09000d\n' 1 >"$rows"
refused "$rows:1: expected a line of less than 8191 characters" --list "$rows"
done_testing
