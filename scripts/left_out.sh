#!/usr/bin/env bash
# The fastest plans of cuDNN that do not compete because their results are beyond the error bound: how far beyond, and how fast.
# usage: scripts/left_out.sh BUILD_FOLDER SUITE PASS DTYPE LAYOUT >docs/results/GPU/cudnn_left_out.csv
# Searches every layer of the suite, then times the plan that was left out by the protocol of all other rows (it is not compared with the
# reference that time). right_us: the fastest with a right result, of the same search. error_over_bound: the largest of all elements.
set -euo pipefail
[ $# -eq 5 ] || { echo "usage: scripts/left_out.sh BUILD_FOLDER SUITE PASS DTYPE LAYOUT" >&2; exit 2; }
plans=$1/tools/cudnn_plans
[ -x "$plans" ] || { echo "left_out.sh: expected the program $plans (make BACKEND=cuda $plans), found none" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
options=(--pass "$3" --dtype "$4" --layout "$5")
"$plans" --suite "$2" "${options[@]}" --seconds 4 --csv "$folder/search.csv" >&2

# field NAME: the number of that column in the header of a file.
field() { head -n 1 "$folder/search.csv" | tr ',' '\n' | grep -nx "$1" | cut -d: -f1; }
columns=$(for name in left_out_plan left_out_share best_us best_plan; do field $name; done | paste -sd,)
echo "shape,pass,dtype,layout,gpu,cuda,cudnn,date,us,plan,error_over_bound,right_us,right_plan"
# Shapes, tags and numbers hold no comma; the quoted fields of a row (names, notes) may, and stand before or between them.
perl -e '
  my @at = split /,/, shift;
  my $header = <STDIN>;
  while (<STDIN>) {
    chomp;
    my @f = map { s/^"|"$//gr } /("(?:[^"]|"")*"|[^,]*)(?:,|$)/g;
    print join(" ", $f[0], map { $f[$_ - 1] } @at), "\n" if length $f[$at[0] - 1];
  }' "$columns" <"$folder/search.csv" >"$folder/list"
while read -r shape tag share right_us right_plan; do
  rm -f "$folder/one.csv"
  "$plans" --shape "$shape" "${options[@]}" --tag "$tag" --no-check --csv "$folder/one.csv" >&2
  perl -e '
    my ($share, $right_us, $right_plan) = @ARGV;
    my @rows = map { chomp; [map { s/^"|"$//gr } /("(?:[^"]|"")*"|[^,]*)(?:,|$)/g] } <STDIN>;
    my %f; @f{@{$rows[0]}} = @{$rows[1]};
    print join(",", @f{qw(shape pass dtype layout)}, "\"$f{gpu}\"", @f{qw(cuda cudnn date best_us best_plan)}, $share, $right_us, $right_plan), "\n"' \
    "$share" "$right_us" "$right_plan" <"$folder/one.csv"
done <"$folder/list"
