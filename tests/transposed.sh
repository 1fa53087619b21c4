# --pass transposed: every kernel of dgrad is offered, is right, and says so in every report; the same bits as dgrad; files under its own names.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
shape=mb1ic16ih12oc24oh6kh5sh2ph2

for main in [0-9][0-9]_*/main.c; do
  step=${main%%_*}
  [ "$step" = 07 ] && continue # forward alone
  "$B/$step" --pass transposed --suite tests/upsampling --no-time --csv "$T/rows.csv" >"$T/log" 2>&1
  ok $? "$step: transposed convolutions: $(tail -n 1 "$T/log")" || diag "$(grep -m 3 WRONG "$T/log")"
  ok "$(awk -F, 'NR > 1' "$T/rows.csv" | grep -vc ',transposed,')" "$step: every row says transposed"
  for pass in dgrad transposed; do "$B/$step" --pass "$pass" --shape "$shape" --list | grep -E '^  [0-9][0-9][a-z]+ ' >"$T/$pass"; done
  [ -s "$T/dgrad" ] && diff <(sed "s/ dgrad / transposed /" "$T/dgrad") "$T/transposed" >"$T/diff"
  ok $? "$step: as many kernels as dgrad has: $(wc -l <"$T/transposed")" || diag "$(cat "$T/diff")"
  kernels=$(awk '$1 != "06o" { print $1 }' "$T/transposed" | paste -sd,) # 06o wants rows that random shapes seldom have: tests/steps.sh draws its own
  "$B/$step" --pass transposed --kernel "$kernels" --random 10 --seed 5 --exact >"$T/log" 2>&1
  ok $? "$step: 10 random shapes that each can do, integers only: $(tail -n 1 "$T/log")" || diag "$(grep -m 3 WRONG "$T/log")"
done
"$B/06" --pass transposed --suite tests/upsampling --no-time --kernel 06k >"$T/log"
ok "$([ "$(grep -c '06k *right' "$T/log")" -eq 14 ]; echo $?)" '06k does all but groups and odd channels'
# With a bias.
"$B/06" --pass transposed --fuse bias --suite tests/upsampling --no-time --kernel 06j,06k --csv "$T/rows.csv" >"$T/log"
ok $? "bias: $(tail -n 1 "$T/log")"
ok "$([ "$(grep -c '06[jk] *right' "$T/log")" -eq 16 ] && [ "$(grep -c ',transposed,fp16,NHWC,conv+bias,06[jk],' "$T/rows.csv")" -eq 34 ]; echo $?)" '06j and 06k do what they do without one'
ok "$("$B/06" --pass transposed --fuse bias --shape mb1ic64ih8oc64oh8kh3ph1 --no-time --kernel 06g,06i | grep -c 'SKIP 06[gi]: does not fuse bias$' | sed 's/2/0/')" 'the others say why not'
grep -q "^mb1ic64ih8oc64oh8kh3ph1,transposed,fp16,06j," <<<"$("$B/06" --pass transposed --fuse bias --shape mb1ic64ih8oc64oh8kh3ph1 --which)"
ok $? '--which: the first of the rule that can add a bias'
"$B/06" --pass transposed --fuse bias --kernel 06j,06k --random 12 --seed 6 --no-time >"$T/log"
ok $? "bias: random shapes: $(tail -n 1 "$T/log")"
for sms in 1 3 132; do
  EMU_SMS=$sms EMU_SEED=$sms "$B/06" --pass transposed --fuse bias --suite tests/upsampling --kernel 06j,06k --exact >"$T/log"
  ok $? "bias: $sms multiprocessors in another order, integers only: $(tail -n 1 "$T/log")"
done

grep -qxF '  x 1 x 24 x 6 x 6, y 1 x 16 x 12 x 12, padding 2, output padding 1' <<<"$("$B/06" --pass transposed --shape "$shape" --no-time)"
ok $? 'sizes, padding and output padding are printed'
"$B/06" --pass transposed --shape "$shape" --no-time --json "$T/rows.json" >/dev/null
grep -q '"pass": "transposed", "dtype": "fp16", "layout": "NHWC", "graph": "conv", "kernel": "06k"' "$T/rows.json"
ok $? 'and in JSON'
grep -q "^$shape,transposed,fp16,06k," <<<"$("$B/06" --pass transposed --shape "$shape" --which)"
ok $? '--which: the rule of dgrad'

# The same bits as dgrad on the same files; x has the axes N,K,P,Q.
"$B/01" --pass fprop --shape "$shape" --no-time --out "$T/x.npy" >/dev/null
"$B/01" --pass dgrad --shape "$shape" --no-time --dy "$T/x.npy" --out "$T/dx.npy" >/dev/null
"$B/01" --pass transposed --shape "$shape" --no-time --x "$T/x.npy" --out "$T/y.npy" >"$T/log"
ok $? 'x from a file'
cmp -s "$T/dx.npy" "$T/y.npy"
ok $? 'the same y as dgrad has dx'
done_testing
