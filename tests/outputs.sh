# What programs write (common/files/output.h): a file appears whole or not at all, what is no regular file is written as it is, no file is written twice, and what
# could not be written is no success.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
two=$B/02
small=(--shape mb1ic1ih5oc1kh3 --pass fprop --kernel 02a --no-time)
cd_into() { rm -rf "$T/d" && mkdir "$T/d"; } # a folder for the next check

# device NAME MINOR: one of our own, because a program that replaces it, run by root, would cost the machine's own. Nothing where root may make none.
device() {
  if mknod "$T/$1" c 1 "$2" 2>/dev/null && : 2>/dev/null >"$T/$1"; then echo "$T/$1"; elif [ "$(id -u)" != 0 ]; then echo "/dev/$1"; fi
}
null=$(device null 3)
full=$(device full 7)

# says STATUS LINE COMMAND...: the exit status, and one line on stderr.
says() {
  local status
  "${@:3}" 2>"$T/errors" >"$T/log"
  status=$?
  [ $status -eq "$1" ] && [ "$(cat "$T/errors")" = "$2" ]
}
# left FILES: what is in the folder, and that "old" files are as they were.
left() {
  local files
  files=$(cd "$T/d" && echo *)
  [ "$files" = "$1" ] || { diag "left: $files"; return 1; }
  [ -z "$2" ] || [ "$(cat "$T/d/$2")" = old ] || { diag "$2: $(head -c 200 "$T/d/$2")"; return 1; }
}
rows() { head -n 1 "$1" | grep -q '^gpu,sms,' && [ "$(wc -l <"$1")" -eq 2 ] && tail -n 1 "$1" | grep -q ',02a,.*,right,'; }
failed() { diag "$(cat "$T/errors")" "$(tail -n 3 "$T/log")"; }

# ---------------------------------------------------------------- what is no regular file
if [ "$null" ]; then
  for option in csv json out; do
    says 0 '' timeout 20 "$two" "${small[@]}" --$option "$null" && [ -c "$null" ]
    ok $? "--$option onto a device, which stays one" || failed
  done
  says 0 '' "$two" "${small[@]}" --csv "$null" --json "$null"
  ok $? 'two files onto one device' || failed
else ok 0 'devices # SKIP root may not make one here'; fi
cd_into && mkfifo "$T/d/fifo"
timeout 20 cat "$T/d/fifo" >"$T/got" &
says 0 '' timeout 20 "$two" "${small[@]}" --csv "$T/d/fifo" && wait $! && [ -p "$T/d/fifo" ] && rows "$T/got"
ok $? '--csv into a FIFO: its reader gets the rows' || failed
timeout 20 cat "$T/d/fifo" >"$T/got" &
says 0 '' timeout 20 "$two" "${small[@]}" --out "$T/d/fifo" && wait $! && [ "$(head -c 6 "$T/got" | tail -c 5)" = NUMPY ]
ok $? '--out into a FIFO' || failed
says 2 "--csv: $T/d/fifo: cannot write: nobody reads there (a file or a pipe with a reader is right)" timeout 20 "$two" "${small[@]}" --csv "$T/d/fifo" && [ -p "$T/d/fifo" ]
ok $? '--csv into a FIFO that nobody reads' || failed
(sleep 0.3 && timeout 20 cat "$T/d/fifo" >"$T/got") &
says 0 '' timeout 20 "$two" "${small[@]}" --csv "$T/d/fifo" && wait $! && rows "$T/got"
ok $? '... and into one whose reader comes a little later' || failed
cd_into && ln -s /proc/self/fd/2 "$T/d/stderr" # as /dev/stderr is
timeout 20 "$two" "${small[@]}" --csv "$T/d/stderr" 2>&1 >/dev/null | cat >"$T/got"
rows "$T/got" && [ -L "$T/d/stderr" ]
ok $? '--csv into a pipe, by its name in /proc' || diag "$(cat "$T/got")"

# ---------------------------------------------------------------- symlinks
for target in there/r missing/r; do
  cd_into && mkdir -p "$T/d/there" "$T/d/missing" && ln -s "$target" "$T/d/first" && ln -s first "$T/d/link"
  [ $target = missing/r ] || { echo old >"$T/d/there/r" && chmod 640 "$T/d/there/r"; }
  says 0 '' "$two" "${small[@]}" --csv "$T/d/link" && [ "$(readlink "$T/d/link" "$T/d/first" | xargs)" = "first $target" ] && rows "$T/d/$target" && left 'first link missing there' &&
    { [ $target = missing/r ] || [ "$(stat -c %a "$T/d/there/r")" = 640 ]; }
  ok $? "--csv onto a symlink to a symlink to $target: that file is written" || failed
done
cd_into && ln -s loop "$T/d/loop"
says 2 "--csv: $T/d/loop: cannot write: Too many levels of symbolic links" "$two" "${small[@]}" --csv "$T/d/loop"
ok $? 'a symlink to itself' || failed

# ---------------------------------------------------------------- one file, two names
# twice A B: refused, and the old files are as they were.
twice() {
  says 2 "--json: expected another file than --csv, got $2" "$two" "${small[@]}" --csv "$1" --json "$2"
}
cd_into && echo old >"$T/d/a" && ln "$T/d/a" "$T/d/b"
twice "$T/d/a" "$T/d/b" && left 'a b' a
ok $? 'a hard link' || failed
cd_into && twice "$T/d/a" "$T/d/./a" && left '*'
ok $? 'a and ./a, which is not there' || failed
cd_into && ln -s a "$T/d/b" && twice "$T/d/a" "$T/d/b" && left b
ok $? 'a symlink to what is not there' || failed
cd_into && mkdir "$T/d/sub" && ln -s sub "$T/d/way" && echo old >"$T/d/sub/a" && twice "$T/d/sub/a" "$T/d/way/a" && [ "$(cat "$T/d/sub/a")" = old ]
ok $? 'by a symlink to the folder' || failed
cd_into && mkfifo "$T/d/fifo" && { timeout 20 cat "$T/d/fifo" >/dev/null & } && twice "$T/d/fifo" "$T/d/fifo"
ok $? 'a FIFO' || failed
wait
cd_into && echo old >"$T/d/a"
says 2 "--out: expected another file than --json, got $T/d/../d/a" "$two" "${small[@]}" --json "$T/d/a" --out "$T/d/../d/a" && left a a
ok $? '--json and --out' || failed
cd_into && scripts/npy make "$T/d/x.npy" 1,1,2,2 1 2 3 4
says 2 "--out: expected another file than --x, got $T/d/x.npy" "$two" --shape mb1ic1ih2oc1kh1 --pass fprop --kernel 02a --x "$T/d/x.npy" --out "$T/d/x.npy"
ok $? 'what is read is not written over' || failed
cd_into
timeout 20 "$two" "${small[@]}" --csv "$T/d/log" >"$T/d/log" 2>"$T/errors"
[ $? -eq 2 ] && [ "$(cat "$T/errors")" = "--csv: expected another file than standard output, got $T/d/log" ] && left log
ok $? 'the file that the text goes to' || failed

# ---------------------------------------------------------------- a name as long as can be: nothing of it is cut off
cd_into
long=$T/d
while [ ${#long} -lt 3600 ]; do long=$long/$(printf 'x%.0s' {1..200}); done
long=$long/$(printf 'y%.0s' $(seq $((4095 - 256 - ${#long} - 1))))/$(printf 'z%.0s' {1..255})
mkdir -p "${long%/*}" && (cd "${long%/*}" && echo old >"${long##*/}")
says 2 '--pass, --dtype, --layout, --kernel: expected a combination that step 02 has a kernel for (see --help)' "$two" --kernel 02b --pass fprop --csv "$long" && [ "$(cat "$long")" = old ]
ok $? "a name of ${#long} characters: after bad input the old file is there" || failed
says 0 '' "$two" "${small[@]}" --csv "$long" && rows "$long" && [ "$(ls "${long%/*}" | wc -l)" -eq 1 ]
ok $? 'and it is replaced' || failed

# ---------------------------------------------------------------- signals: no file half written, the old one as it was
# killed SIGNAL NAME COMMAND...: while it works. (What bash starts in the background ignores SIGINT; perl puts that back, and HUP, which nohup ignores; a signal that is not deadly ends the wait.)
killed() {
  local pid status tries=0
  cd_into && echo old >"$T/d/a"
  perl -e '$SIG{HUP} = $SIG{INT} = $SIG{QUIT} = "DEFAULT"; alarm 20; exec @ARGV' "${@:3}" >"$T/log" 2>"$T/errors" &
  pid=$!
  while [ "$(ls "$T/d" | wc -l)" -eq 1 ] && [ "$(cat "$T/d/a")" = old ] && [ $((tries += 1)) -lt 500 ]; do sleep 0.02; done # until it has begun to write
  kill "-$1" $pid
  wait $pid 2>/dev/null
  status=$?
  [ $status -eq $((128 + $(kill -l "$1"))) ] && [ $tries -lt 500 ] && left a a
  ok $? "$2: SIG$1" || { diag "exit status $status" && failed; }
}
endless=(--random 20000 --no-time)
for signal in HUP INT TERM QUIT ABRT PIPE SEGV BUS FPE ILL; do killed $signal '--csv' "$two" "${endless[@]}" --csv "$T/d/a"; done
killed TERM '--json' "$two" "${endless[@]}" --json "$T/d/a"
killed TERM 'train' "$B/tools/train" --steps 100000 --csv "$T/d/a"
"$B/tools/train" --steps 0 >/dev/null 2>&1 && killed TERM 'train' "$B/tools/train" --steps 100000 --csv "$T/d/a"
cd_into
(trap '' HUP && exec "$two" "${small[@]}" --csv "$T/d/a") >"$T/log" 2>"$T/errors" && left a
ok $? 'where SIGHUP is ignored' || failed

# ---------------------------------------------------------------- a full disk
if [ "$full" ]; then
  for option in csv json out; do
    says 1 "--$option: $full: could not be written: No space left on device" timeout 20 "$two" "${small[@]}" --$option "$full" && [ -c "$full" ]
    ok $? "--$option onto a full device: one line, exit status 1" || failed
  done
  says 1 "--csv: $full: could not be written: No space left on device" "$B/tools/fusion" --csv "$full" mb1ic8ih3oc8kh1+bias
  ok $? 'fusion --csv' || failed
  # Text: one line, exit status 1, of every program.
  echo 1 >"$T/f" && echo 'P2 1 1 255 7' >"$T/photo"
  shape=mb1ic4ih3oc4kh1
  while read -r name arguments; do
    [ -x "$B/$name" ] || continue
    # shellcheck disable=SC2086
    "$B/$name" $arguments >"$full" 2>"$T/errors"
    status=$?
    [ $status -eq 1 ] && [ "$(cat "$T/errors")" = 'standard output: could not be written: No space left on device' ]
    ok $? "text: $name $arguments" || diag "exit status $status: $(cat "$T/errors")"
  done <<END
02 --help
02 ${small[*]}
02 --list
tools/cuts --help
tools/cuts --read docs/results/$(cat docs/results/shown)/cuts.csv --choices
tools/train --help
tools/graph --no-time $shape
tools/cudnn_plans --help
tools/explain_swizzle --help
tools/explain_im2col --help
tools/explain_fragment --help
tools/explain_descriptor --help
tools/image prepare $T/photo --filter $T/f --size 1 --x $T/x.npy --w $T/w.npy
END
  stdbuf -oL "$two" --list >"$full" 2>"$T/errors" # every line is lost by itself, and nothing is left to be written at the end
  [ $? -eq 1 ] && [ "$(cat "$T/errors")" = 'standard output: could not be written: No space left on device' ]
  ok $? 'text that was lost earlier: the same line' || diag "$(cat "$T/errors")"
else ok 0 'a full device # SKIP root may not make one here'; fi

# ---------------------------------------------------------------- standard output, or all three, closed: nothing lands in a file that is no row of it
for closed in '>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
  cd_into
  (eval "exec $closed" && exec "$two" "${small[@]}" --csv "$T/d/c" --out "$T/d/o") && rows "$T/d/c" && [ "$(wc -c <"$T/d/o")" -eq $((128 + 9 * 4)) ]
  ok $? "$closed" || diag "$(head -c 300 "$T/d/c")"
done
cd_into
"$B/tools/fusion" --csv "$T/d/c" mb1ic8ih3oc8kh1+bias >&- 2>"$T/errors" && ! grep -qv '^gpu,driver,\|^"' "$T/d/c"
ok $? 'fusion >&-: rows and no text' || diag "$(cat "$T/d/c" "$T/errors")"

# ---------------------------------------------------------------- what cannot be written is known before the work
cd_into
says 2 "--out: $T/d/no/o.npy: cannot write: No such file or directory" timeout 5 "$two" --shape mb16ic64ih56oc128kh3ph1 --pass fprop --kernel 02a --no-time --out "$T/d/no/o.npy" --csv "$T/d/c" && left '*'
ok $? '--out' || failed
says 2 "--out: $T/d: cannot write: Is a directory" timeout 5 "$two" --shape mb16ic64ih56oc128kh3ph1 --pass fprop --kernel 02a --no-time --out "$T/d"
ok $? '--out, a folder' || failed
says 2 "--csv: $T/d/$(printf 'n%.0s' {1..256}): cannot write: File name too long" "$two" "${small[@]}" --csv "$T/d/$(printf 'n%.0s' {1..256})"
ok $? 'a name that is too long' || failed
says 2 '--csv: : cannot write: No such file or directory' "$two" "${small[@]}" --csv ''
ok $? 'no name' || failed
says 2 '--keep-wrong: expected --out beside it' "$two" "${small[@]}" --keep-wrong
ok $? '--keep-wrong, and nothing to write it to' || failed

# ---------------------------------------------------------------- the emulator's own
if [ "${B##*/}" = emu ]; then
  counted=${B%/*}/count/02
  says 2 "EMU_COUNT_JSON: $T/no/c: cannot write: No such file or directory" env EMU_COUNT_JSON="$T/no/c" "$counted" "${small[@]}"
  ok $? 'EMU_COUNT_JSON' || failed
  if [ "$full" ]; then
    says 1 "EMU_COUNT_JSON: $full: could not be written: No space left on device" env EMU_COUNT_JSON="$full" "$counted" "${small[@]}"
    ok $? 'EMU_COUNT_JSON on a full device' || failed
  fi
  cd_into && echo old >"$T/d/out.cpp" && printf '__global__ void k() { __shared__ int a[2] = {1, 2}; }\n' >"$T/in.cu"
  "${REWRITE:-$B/rewrite}" "$T/in.cu" "$T/d/out.cpp" 2>/dev/null
  [ $? -eq 2 ] && left out.cpp out.cpp
  ok $? 'the rewriter' || failed
fi

# ---------------------------------------------------------------- one way: nobody else opens a file to write, or gives it its name
others=$(grep -nE '\bfopen *\([^)]*"[wa]|\b(freopen|tmpfile|mkstemp|rename|renameat|creat) *\(|O_WRONLY|O_CREAT' -r common [0-9][0-9]_*/ --include='*.c' --include='*.h' --include='*.cu' --include='*.cuh' |
  grep -v '^common/files/output.c:')
[ -z "$others" ]
ok $? 'all that is written goes through common/files/output.c' || diag "$others"
missing=$(grep -L 'output_start()\|step_main(' common/tools/*.c [0-9][0-9]_*/tools/*.c common/harness/step.c)
[ -z "$missing" ]
ok $? 'and every program begins with output_start()' || diag "$missing"
done_testing
