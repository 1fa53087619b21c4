"""Draws the results: rungs, ladder, roofline, ratio-SUITE, batch; of step 06 also ladder-06, ratio-06, roofline-06 and train; of
step 07 fusion and network; of two GPUs gpus; each as SVG. scripts/plots.sh calls it.

    plots.py RESULTS OUT [LAYER]

RESULTS  a folder with bench.csv (of `make bench`; more of them as bench-*.csv) and, if they were measured, depthwise.csv (the depthwise layers of
         the suite mobilenet: a ratio of their own; with depthwise-networks.csv also later kernels on these), ladder-06.csv (every kernel of step 06 on one layer), dense-06.csv (the layers of ResNet-50 by the
         kernel that it takes, in several batches), other layers by the rules, NAME-fp32.csv, held-depthwise.csv and held-groups.csv (scripts/rows.sh), train.csv (of `make train`), fusion-07.csv and network-07.csv (of step 07's tools) and batch.csv (of `make batch`)
OUT      the folder for the pictures
LAYER    the layer of the ladder, as a benchdnn string; default mb16ic64ih56oc128oh56kh3ph1

Every picture carries "source: FILE sha256=..." of the files it shows; the same files give the same pictures.
Exit status: 0 all right, 2 with one line on stderr.
"""

import sys
from pathlib import Path

import plot_batch
import plot_data
import plot_fusion
import plot_gpus
import plot_ladder
import plot_ratio
import plot_roofline
import plot_rungs
import plot_style
import plot_train

LAYER = "mb16ic64ih56oc128oh56kh3ph1"
LAYER_OF = {"06": "mb64ic256ih56oc256oh56kh3ph1"}  # of a step with a ladder of its own


def draw(results, out, layer):
    """Yields (name, figure and its texts; or None, and why not)."""
    bench = sorted(results.glob("bench*.csv"))
    if not bench:
        raise plot_data.BadInput(f"RESULTS: expected a folder with bench.csv, got {results}")
    rows = plot_data.read(bench)
    if not any(row.on_gpu for row in rows):
        raise plot_data.BadInput(f"RESULTS: expected times of a GPU in {bench[0]}, found none")
    source = plot_data.source(bench)
    yield "ladder", plot_ladder.plot(rows, layer, source), f"no result on {layer}"
    files = bench + sorted(results.glob("ladder-*.csv"))
    yield "rungs", plot_rungs.plot(plot_data.read(files), layer, plot_data.source(files)), f"fewer than two of its kernels were timed on {layer}"
    yield "roofline", plot_roofline.plot(rows, source), ""
    taken, which = plot_data.rules(results)
    for name, made in plot_ratio.plots(rows, taken, plot_data.source(bench + which)).items():
        yield name, made, ""
    depthwise = results / "depthwise.csv"
    if depthwise.exists():
        members, later = plot_data.read([depthwise]), results / "depthwise-networks.csv"
        files = [depthwise]
        if later.exists():  # later kernels on these layers, and on others
            files.append(later)
            members += plot_data.on_layers(plot_data.read([later]), members)
        for name, made in plot_ratio.plots(members, taken, plot_data.source(files + which)).items():
            yield name, made, ""
    for path in sorted([*results.glob("*-fp32.csv"), *results.glob("held-depthwise.csv"), *results.glob("held-groups.csv")]):  # they have the rule's kernels only
        for name, made in plot_ratio.plots_of_rule(plot_data.read([path]), plot_data.source([path])).items():
            yield name, made, ""
    for step, own_layer in LAYER_OF.items():
        ladder, dense = results / f"ladder-{step}.csv", results / f"dense-{step}.csv"
        if ladder.exists():
            yield f"ladder-{step}", plot_ladder.plot(plot_data.read([ladder]), own_layer, plot_data.source([ladder])), f"no result on {own_layer} in {ladder}"
        if dense.exists():
            for name, plot in (("ratio", plot_ratio.plot_batches), ("roofline", plot_roofline.plot_batches)):
                yield f"{name}-{step}", plot("resnet50", plot_data.read([dense]), plot_data.source([dense])), f"no layer of ResNet-50 in {dense}"
    train = results / "train.csv"
    if train.exists():
        yield "train", plot_train.plot(train), ""
    fusion, network = results / "fusion-07.csv", results / "network-07.csv"
    if fusion.exists():
        yield "fusion", plot_fusion.plot_map(fusion), f"no 3 x 3 with a 1 x 1 behind it in {fusion}"
    if (results / "gpus.csv").exists():
        yield "gpus", plot_gpus.plot(results / "gpus.csv", ("H200", "H100")), ""
    if network.exists():
        yield "network", plot_fusion.plot_network(network), f"no network beside cuDNN in {network}"
    batch = results / "batch.csv"
    made = plot_batch.plot(plot_data.read([batch]), plot_data.source([batch])) if batch.exists() else None
    yield "batch", made, f"no times of a GPU in {batch}" if batch.exists() else f"{batch} is not there (make batch)"


def main(results, out, layer=LAYER):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for name, made, why in draw(Path(results), out, layer or LAYER):
        if made is None:
            print(f"{name}: not drawn: {why}")
            continue
        plot_style.save(made[0], out, name, *made[1:])
        print(f"{out / name}.svg")


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        sys.exit("usage: plots.py RESULTS OUT [LAYER]")
    try:
        main(*sys.argv[1:])
    except (plot_data.BadInput, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
