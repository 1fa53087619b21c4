# Step 06's rule beside all of its kernels (docs/numbers/06_window.txt): on made-up times whose answers are known.
. tests/tap.inc
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
gpu=$(cat docs/results/shown)
mkdir -p "$T/docs/results/$gpu"
for f in common scripts docs/numbers; do ln -s "$PWD/$f" "$T/$f"; done
cp docs/results/shown "$T/docs/results"
name=$(sed -n 's/^ *{"\([^"]*\)", "'"$gpu"'".*/\1/p' common/harness/gpus.h)
row() { echo "$name,13.0,$1,$2,fprop,fp16,$3,$4,$5"; }
{
  echo gpu,driver,shape,name,pass,dtype,kernel,status,us_median
  row mb16ic8ih8oc8oh8kh3ph1 darknet53_down 06f right 110 # 10 % lost
  row mb16ic8ih8oc8oh8kh3ph1 darknet53_down 06h right 100
  row mb16ic8ih8oc8oh8kh3ph1 darknet53_down 06h right 105 # run again: the faster one counts
  row mb16ic8ih8oc8oh8kh3ph1 darknet53_down 06g skipped ''
  row mb2ic8ih8oc8oh8kh1 diffusion_unet_64 06f right 101 # 1 %
  row mb2ic8ih8oc8oh8kh1 diffusion_unet_64 06i right 100
  row mb4ic8ih4oc8oh4kh3ph1 conv1_2 06f right 60
  row mb4ic8ih4oc8oh4kh3ph1 conv1_2 06h right 50
} >"$T/docs/results/$gpu/choice-06.csv"
cat >"$T/docs/results/$gpu/which-06.csv" <<'END'
shape,pass,dtype,kernel,when,kernel_for_files
mb16ic8ih8oc8oh8kh3ph1,fprop,fp16,06f,"where it can",06f
mb2ic8ih8oc8oh8kh1,fprop,fp16,06f,"where it can",06f
mb4ic8ih4oc8oh4kh3ph1,fprop,fp16,06h,"such layers",06h
END
is() { # is TABLE, its rows on stdin
  (cd "$T" && scripts/fill_docs.pl --print "$1") >"$T/out" 2>&1
  diff - <(tail -n +3 "$T/out") >"$T/diff"
  ok $? "$1" || diag "$(cat "$T/out")"
}
is choice_06 <<'END'
| Ten layers of other networks | 2 | 0 | 1 | 5.4 % | 10 % |
| VGG-16 | 1 | 1 | 1 | 0.0 % | 0 % |
| all | 3 | 1 | 2 | 3.6 % | 10 % |
END
is missed_06 <<'END'
| darknet53 down | `mb16ic8ih8oc8oh8kh3ph1` | `06f` | 110 | `06h` | 100 | 10 % |
| 1 of 3 layers | | | | | | |
END
is every_choice_06 <<'END'
| darknet53 down | `mb16ic8ih8oc8oh8kh3ph1` | `06f` | 110 | 100 | | 10 % |
| diffusion unet 64 | `mb2ic8ih8oc8oh8kh1` | `06f` | 101 | | 100 | 1 % |
| conv1 2 | `mb4ic8ih4oc8oh4kh3ph1` | `06h` | 60.0 | 50.0 | | 0 % |
END
done_testing
