# The docs show what their commands print now.
. tests/tap.inc
emulator_only 'the commands of the docs use the emulator'
for file in docs/*.md; do
  stale=$(scripts/fill_docs.pl --check "$file" 2>&1)
  ok $? "$file is up to date"
  [ -z "$stale" ] || diag "$stale"
done
# The checker's sample reports name lines of real files: those lines still hold what the reports are about.
line() { sed -n "$2p" "$1"; }
while read -r file number; do
  line "$file" "$number" | grep -qE 'sum \+=|tile\[|<<<'
  ok $? "docs/emulator.md: $file:$number is a line that a report could name"
done < <(grep -E '^emulator' docs/emulator.md | grep -oE '[a-z0-9_/]+\.cu:[0-9]+' | sort -u | tr ':' ' ')

# And the check itself notices.
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
printf '<!-- output of: echo new -->\nold\n<!-- end of output -->\n' >"$copy"
scripts/fill_docs.pl --check "$copy" >/dev/null
ok "$([ $? -eq 1 ] && echo 0 || echo 1)" "a stale file is noticed"
done_testing
