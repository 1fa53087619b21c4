# Every step verified by either way, on the host and on the device: the same rows, figure for figure. (What both refuse: tests/checker.c.)
. tests/tap.inc
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The rows without their date; errors as shares of their bounds are among them.
rows() { sed 's/20[0-9-]*T[0-9:]*Z//' "$1"; }

# both STEP TEXT ARGUMENTS...: the same CSV by both ways, something right, nothing wrong.
both() {
  local step=$1 text=$2 way status=0
  shift 2
  for way in host device; do
    "$B/$step" --no-time --verify $way --csv "$folder/$way.csv" "$@" >"$folder/$way" 2>&1 || status=1
    grep -qE '^[1-9][0-9]* right, 0 wrong, [0-9]+ skipped$' "$folder/$way" || status=1
  done
  cmp -s <(rows "$folder/host.csv") <(rows "$folder/device.csv") || status=1
  ok $status "$step $text: $(tail -n 1 "$folder/device"), by both ways"
  [ $status -eq 0 ] || diff "$folder/host" "$folder/device" | head -n 20 | sed 's/^/# /'
}

for main in [0-9][0-9]_*/main.c; do
  step=${main%%_*}
  [ "$step" = 00 ] && continue
  suite=nasty kernels=()
  [ "$step" = 06 ] && suite=tests/depthwise kernels=(--kernel 06p,06q,06r) # random shapes that they can do
  [ "$step" = 07 ] && suite=tests/orders kernels=(--kernel 07a,07b,07c --pass fprop)
  both "$step" "on the list $suite" --suite "$suite" "${kernels[@]}"
  both "$step" "on random shapes" --random $((${#kernels[@]} ? 3 : 6)) --seed 5 "${kernels[@]}"
  both "$step" "on integers alone" --random 3 --seed 18446744 --exact "${kernels[@]}"
done
both 04 "on depthwise layers in fp16" --suite tests/depthwise --dtype fp16
both 05 "with an error that is a tile's" --kernel 05l,05m,05n --suite tests/three_by_three

# Data from files, and a result into one.
shape='g2mb2ic6ih9oc8kh3sh2ph1'
for way in host device; do
  "$B/02" --shape "$shape" --pass fprop --kernel 02a --no-time --verify $way --out "$folder/y_$way.npy" >"$folder/log" 2>&1 &&
    "$B/02" --shape "$shape" --pass dgrad --kernel 02a --no-time --verify $way --dy "$folder/y_host.npy" --out "$folder/dx_$way.npy" >>"$folder/log" 2>&1
  ok $? "$way: a result into a file, and from there as dy into another: $(tail -n 1 "$folder/log")"
done
cmp -s "$folder/y_host.npy" "$folder/y_device.npy" && cmp -s "$folder/dx_host.npy" "$folder/dx_device.npy"
ok $? "the same files by both ways"
[ "$("$B/00" --verify device 2>&1)" = '--verify: expected host, where the kernels run, got "device"' ]
ok $? "kernels of the CPU are verified there"
done_testing
