# Bad input to a step: one line that names the thing and what was expected, exit status 2, nothing written. (The grammar's own list of bad
# shapes is in problem.c, damaged .npy files are in npy.c; here the program is asked.)
. tests/tap.inc
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# refused 'MESSAGE' ARGUMENTS...: with --csv, --json and --out files asked for, none may appear.
refused() {
  local want=$1 out status lines
  shift
  out=$("$B/02" "$@" --csv "$folder/o.csv" --json "$folder/o.json" 2>&1 >/dev/null)
  status=$?
  lines=$(printf '%s\n' "$out" | wc -l)
  [ "$status" -eq 2 ] && [ "$lines" -eq 1 ] && [ "$out" = "$want" ] && [ -z "$(ls "$folder" | grep '^o\.')" ]
  ok $? "$*"
  [ "$status" -eq 2 ] && [ "$out" = "$want" ] || diag "status $status" "got  $out" "want $want"
  rm -f "$folder"/o.*
}

fields='expected one of g mb ic ih iw oc oh ow kh kw sh sw dh dw ph pw n'
refused '--shape: mb: expected an integer from 1 to 2147483647, got 0' --shape mb0ic3ih5oc4kh3
refused '--shape: ic: expected an integer from 1 to 2147483647, got -3' --shape ic-3ih5oc4kh3
refused '--shape: oc: expected a multiple of g2, got 7' --shape g2ic4ih5oc7kh3
refused '--shape: kh: expected a filter of at most 5 pixels (ih5 padded by 0 on both sides), got 7' --shape ic4ih5oc7kh7
refused '--shape: sh: expected an integer from 1 to 2147483647, got 0' --shape ic4ih5oc7kh3sh0
refused '--shape: oh: expected at least 4 with ih5 kh3 ph1, got 3' --shape ic4ih5oc7oh3kh3ph1
refused '--shape: mb ic ih iw: expected sizes whose product in bytes fits 64 bits, got 2000000000 x 2000000000 x 64 x 64' --shape mb2000000000ic2000000000ih64oc1kh1
refused "--shape: shape: $fields, got \"rubbish\"" --shape rubbish
refused '--shape: shape: expected nothing after the problem, got "rubbish"' --shape 'ic4ih5oc7kh3 rubbish'
refused '--shape: shape: expected benchdnn fields such as mb16ic64ih56oc128oh56kh3ph1, got an empty string' --shape ''
refused '--shape: shape: expected a 2-D convolution, got a 3-D one (id, od, kd, sd, dd or pd)' --shape ic4id5ih5oc7kd3kh3

# A problem that fits 64 bits but no machine: the figures are this machine's.
out=$("$B/02" --shape mb1000ic1000ih10000oc10kh1 --out "$folder/o.npy" --pass fprop --kernel 02a 2>&1 >/dev/null)
status=$?
[ "$status" -eq 2 ] && [[ "$out" == "--shape: mb, ic, oc, ih, iw: expected a problem that fits memory: needs "*" GB of "*" memory, "* ]] && [ ! -e "$folder/o.npy" ]
ok $? "a problem larger than memory: $out"

refused '--pass: expected fprop, dgrad, wgrad, transposed or all, got "backward"' --pass backward
refused '--dtype: expected fp32, fp16 or all, got "fp8"' --dtype fp8
refused '--layout: expected NCHW, NHWC or all, got "CHWN"' --layout CHWN
refused '--kernel: expected auto or kernels of this step (see --help), got "01a"' --kernel 01a
refused '--kernel: expected auto or kernels of this step (see --help), got "02a,"' --kernel 02a,
refused '--kernel: expected auto or kernels of this step (see --help), got "02a,02"' --kernel 02a,02
refused '--pass, --dtype, --layout, --kernel: expected a combination that step 02 has a kernel for (see --help)' --kernel 02b --pass fprop
refused '--seed: expected an integer from 0 to 9223372036854775807, got "x"' --seed x
refused '--batch: expected an integer from 1 to 2147483647, got "0"' --batch 0
refused '--mb: expected an integer from 1 to 2147483647, got "none"' --mb none
refused '--random: expected an integer from 1 to 1000000, got "0"' --random 0
out=$("$B/04" --random 2 --kernel 04e --batch 70000 --csv "$folder/o.csv" 2>&1 >/dev/null)
ok "$([ $? -eq 2 ] && [ "$out" = '--random: expected to draw 2 problems that 04e can do, drew 0' ] && [ ! -e "$folder/o.csv" ] && echo 0 || echo 1)" "--random for a kernel that can do none: $out"
refused '--shape, --suite, --random: expected one of them' --shape ic1ih5oc1kh3 --suite nasty
refused "$B/02: expected options only (see --help), got \"ic1ih5oc1kh3\"" ic1ih5oc1kh3
refused "$B/02: unrecognized option '--shapes'" --shapes ic1ih5oc1kh3
out=$("$B/02" --shape 2>&1 >/dev/null)
ok "$([ $? -eq 2 ] && [ "$out" = "$B/02: option '--shape' requires an argument" ] && echo 0 || echo 1)" "--shape without its string: $out"

# A list of benchdnn's: what is passed over is counted, and the rest runs, with as many images as --mb says.
printf '%s\n' '--dt=f32, \' '  f16 mb1ic1ih5oc1kh3n"a" mb2ic1ih5oc1kh3n"b"' '--dir=BWD_D' 'ic1iw5oc1kw3' >"$folder/suite"
out=$("$B/02" --suite "$folder/suite" --mb 3 --list --pass fprop --kernel 02a 2>&1)
[ "$(grep -E '^mb|passed' <<<"$out" | cut -d' ' -f1-3)" = "$folder/suite: 2 passed
mb3ic1ih5oc1oh3kh3n\"a\"
mb3ic1ih5oc1oh3kh3n\"b\"" ]
ok $? "a list: two problems of three images, two passed over" || diag "$out"

printf 'mb1ic1ih5oc1kh3\n# fine so far\nmb1ic1ih5oc1kh3sh0\n' >"$folder/suite"
refused "--suite: $folder/suite:3: sh: expected an integer from 1 to 2147483647, got 0" --suite "$folder/suite"
printf 'mb1ic1ih5oc1kh3\n# mb1ic1ih5oc1kh3 \0\n' >"$folder/suite"
refused "--suite: $folder/suite:2: expected text, got a zero byte" --suite "$folder/suite"
refused '--suite: no-such-suite: expected a readable file of benchdnn lines: No such file or directory' --suite no-such-suite
refused "--suite: $folder: expected a readable file of benchdnn lines: Is a directory" --suite "$folder"

shape='--shape mb1ic1ih5oc1kh3 --pass fprop --kernel 02a'
refused "$folder/none.npy: expected a readable .npy file: No such file or directory" $shape --x "$folder/none.npy" --out "$folder/o.npy"
printf 'no array' >"$folder/text.npy"
refused "$folder/text.npy: expected a .npy file (magic \\x93NUMPY)" $shape --x "$folder/text.npy" --out "$folder/o.npy"
"$B/02" $shape --no-time --out "$folder/y.npy" >/dev/null
head -c 140 "$folder/y.npy" >"$folder/cut.npy"
refused "$folder/cut.npy: truncated: expected 36 bytes of data, got 12" --shape mb1ic1ih5oc1kh3 --pass dgrad --dy "$folder/cut.npy" --out "$folder/o.npy"
refused "$folder/y.npy: shape: expected (1, 1, 5, 5) for n,c,h,w, got (1, 1, 3, 3)" $shape --x "$folder/y.npy" --out "$folder/o.npy"
sed 's/<f4/<f8/' "$folder/y.npy" >"$folder/f8.npy"
refused "$folder/f8.npy: descr: expected '<f4' (fp32), got '<f8' (NumPy: .astype('f4'))" --shape mb1ic1ih5oc1kh3 --pass dgrad --dy "$folder/f8.npy" --out "$folder/o.npy"
sed 's/False/True /' "$folder/y.npy" >"$folder/order.npy"
refused "$folder/order.npy: fortran_order: expected False (C order; NumPy: np.ascontiguousarray)" --shape mb1ic1ih5oc1kh3 --pass dgrad --dy "$folder/order.npy" --out "$folder/o.npy"
# Data that is no data: the element is named. Data whose sums no fp32 can hold: nothing could be verified.
npy() { perl -e 'my $h = shift; print "\x93NUMPY\x01\x00\x76\x00", sprintf("%-117s\n", $h), pack("f<*", @ARGV)' "{'descr': '<f4', 'fortran_order': False, 'shape': ($1), }" "${@:2}"; }
npy '1, 1, 2, 2' 1 2 nan 4 >"$folder/nan.npy"
refused "$folder/nan.npy: expected finite numbers, got nan at (n,c,h,w) = (0,0,1,0)" --shape mb1ic1ih2oc1kh1 --pass fprop --kernel 02a --x "$folder/nan.npy"
npy '1, 1, 2, 2' 1 2 3 inf >"$folder/inf.npy"
refused "$folder/inf.npy: expected finite numbers, got inf at (n,c,h,w) = (0,0,1,1)" --shape mb1ic1ih2oc1kh1 --pass fprop --kernel 02a --x "$folder/inf.npy"
npy '1, 1, 2, 2' 1e30 1 1 1 >"$folder/huge.npy"
npy '1, 1, 1, 1' 1e30 >"$folder/huge_w.npy"
refused '--x, --w, --dy: expected data whose sums stay below 3.40282e+38 in magnitude (fp32), they reach inf' --shape mb1ic1ih2oc1kh1 --pass fprop --kernel 02a --x "$folder/huge.npy" --w "$folder/huge_w.npy"
refused "$folder/nan.npy: expected finite numbers, got nan at (n,c,h,w) = (0,0,1,0)" --shape mb1ic1ih2oc1kh1 --pass fprop --kernel 02a --x "$folder/nan.npy" --verify device
refused '--x, --w, --dy: expected data whose sums stay below 3.40282e+38 in magnitude (fp32), they reach inf' --shape mb1ic1ih2oc1kh1 --pass fprop --kernel 02a --x "$folder/huge.npy" --w "$folder/huge_w.npy" --verify device
refused '--verify: expected host or device, got "gpu"' --verify gpu
# A pipe is read, if there is somebody who writes; without, it would be waited for.
mkfifo "$folder/fifo"
alone="nobody writes into this pipe (a regular file or a pipe with a writer is right)"
out=$(timeout 20 "$B/02" --suite "$folder/fifo" 2>&1 >/dev/null)
ok "$([ $? -eq 2 ] && [ "$out" = "--suite: $folder/fifo: expected a readable file of benchdnn lines: $alone" ] && echo 0 || echo 1)" "--suite FIFO: $out"
# shellcheck disable=SC2086 # several words
out=$(timeout 20 "$B/02" $shape --x "$folder/fifo" 2>&1 >/dev/null)
ok "$([ $? -eq 2 ] && [ "$out" = "$folder/fifo: expected a readable .npy file: $alone" ] && echo 0 || echo 1)" "--x FIFO: $out"
echo mb1ic1ih5oc1kh3 >"$folder/suite"
npy '1, 1, 5, 5' {1..25} >"$folder/x.npy"
one='--pass fprop --kernel 02a --no-time'
reads() { # TEXT COMMAND...: one kernel was right
  local text=$1
  shift
  timeout 20 "$@" 2>&1 | grep -q '^1 right, 0 wrong, 0 skipped$'
  ok "${PIPESTATUS[1]}" "$text"
}
reads '--suite <(LIST)' "$B/02" $one --suite <(cat "$folder/suite")
reads '--suite /dev/stdin, a pipe' "$B/02" $one --suite /dev/stdin < <(cat "$folder/suite")
reads '--suite /dev/stdin, a file' "$B/02" $one --suite /dev/stdin <"$folder/suite"
reads '--x <(ARRAY)' "$B/02" $one --shape mb1ic1ih5oc1kh3 --x <(cat "$folder/x.npy")
(sleep 0.2 && cat "$folder/suite" >"$folder/fifo") &
reads '--suite FIFO with a writer that comes a little later' "$B/02" $one --suite "$folder/fifo"
(exec >"$folder/fifo" && sleep 1.3 && cat "$folder/suite") &
reads '... and with one that takes its time to write' "$B/02" $one --suite "$folder/fifo"
beside='--cudnn-fused: expected forward convolutions without --fuse, timed beside cuDNN (no --no-cudnn, --no-time or --exact)'
refused "$beside" --cudnn-fused --no-cudnn
refused "$beside" --no-time --cudnn-fused
refused "$beside" --exact --cudnn-fused
refused "$beside" --cudnn-fused --pass wgrad
refused "$beside" --cudnn-fused --fuse bias
# What would be ignored: a search without cuDNN's times, files of a run that there is none of.
for alone in --no-cudnn --no-time --exact; do
  refused '--search-cudnn: expected cuDNN to be timed (no --no-cudnn, --no-time or --exact)' --search-cudnn --search-seconds 2 $alone
  refused '--search-seconds: expected cuDNN to be timed (no --no-cudnn, --no-time or --exact)' $alone --search-seconds 2
done
refused '--list: expected no --which beside it' --which --list
for alone in --list --which; do
  refused "--csv: expected no $alone beside it, which runs nothing" $alone
  for option in --csv --json --out --x --w --dy; do
    out=$("$B/02" $shape $alone $option "$folder/o.file" 2>&1)
    ok "$([ $? -eq 2 ] && [ "$out" = "$option: expected no $alone beside it, which runs nothing" ] && [ ! -e "$folder/o.file" ] && echo 0 || echo 1)" "$alone $option: $out"
  done
  "$B/02" $shape $alone --exact --no-time --no-cudnn >/dev/null
  ok $? "$alone beside options of another kind"
done

timed='--in-order: expected kernels that are timed (no --no-time or --exact)'
refused "$timed" --in-order --no-time
refused "$timed" --exact --in-order

out=$("$B/02" --csv same --json same 2>&1 >/dev/null)
ok "$([ $? -eq 2 ] && [ "$out" = '--json: expected another file than --csv, got same' ] && [ ! -e same ] && echo 0 || echo 1)" "$out"
out=$("$B/02" --csv "$folder" 2>&1 >/dev/null)
ok "$([ $? -eq 2 ] && [ "$out" = "--csv: $folder: cannot write: Is a directory" ] && echo 0 || echo 1)" "$out"
refused '--dy: expected one of the tensors that fprop reads (--x, --w)' $shape --dy "$folder/y.npy"
refused '--dy: expected one of the tensors that transposed reads (--x, --w)' --shape mb1ic1ih5oc1kh3 --pass transposed --dy "$folder/y.npy"
refused '--shape: oh: expected at least 5 with ih11 kh5 ph2, got 4' --pass transposed --shape mb1ic8ih11oc16oh4kh5sh2ph2
refused "$beside" --cudnn-fused --pass transposed
refused '--fuse: expected --pass fprop, dgrad or transposed, got "wgrad"' --pass wgrad --fuse bias
refused '--x, --w, --dy: expected one --shape and one --pass with a .npy file' --x "$folder/y.npy"
refused '--out: expected one kernel, 2 do this pass: choose one with --kernel' --pass wgrad --out "$folder/o.npy"

out=$("$B/02" --csv /no/such/folder/o.csv 2>&1 >/dev/null)
ok "$([ $? -eq 2 ] && [ "$out" = '--csv: /no/such/folder/o.csv: cannot write: No such file or directory' ] && echo 0 || echo 1)" "$out"
"$B/02" --help | grep -q -- '--suite NAME|FILE'
ok $? "--help helps"
done_testing
