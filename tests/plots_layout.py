"""Whether any text of a plot overlaps another or leaves the page: the committed results, and many more kernels than there are.

    plots_layout.py FOLDER       draws bench.csv and batch.csv of a folder as scripts/plots.py does, and prints every fault
    plots_layout.py --make FOLDER   writes such files first: 25 kernels in two arithmetics, three passes, two suites, nine batch sizes
"""

import csv
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import plot_data  # noqa: E402
import plot_style  # noqa: E402
import plots  # noqa: E402

KERNELS = {"fp32": [f"{step}{letter}" for step, letters in (("01", "a"), ("02", "ab"), ("03", "abcd"), ("04", "abc"), ("05", "abcdefg")) for letter in letters],
           "fp16": [f"{step}{letter}" for step, letters in (("06", "abcdef"), ("07", "ab")) for letter in letters]}
SUITES = ("seed", "mobilenet")


def rows_of(shape, name, count):
    for dtype, kernels in KERNELS.items():
        size = plot_data.Shape(shape)
        floor = max(size.flops / {"fp32": 66.9e6, "fp16": 800e6}[dtype], size.bytes(dtype) / 4.30e6)
        for conv_pass in plot_data.PASSES:
            for i, kernel in enumerate(kernels):
                us = floor * 150 / (1 + i) ** 1.9 + 2
                yield {"gpu": "NVIDIA H200 with a long name", "driver": "13.0", "cuda": "13.0", "cudnn": "9.19.0", "date": "2026-01-01T00:00:00Z", "shape": shape,
                       "name": name, "count": count, "pass": conv_pass, "dtype": dtype, "kernel": kernel, "status": "right", "us_median": f"{us:.3f}", "gbps": f"{size.bytes(dtype) / us / 1e3:.2f}",
                       "floor_us": f"{floor:.3f}", "cudnn_best_us": f"{floor * 1.1 + 3:.3f}"}


def write(path, rows):
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, plot_data.NEEDED)
        table.writeheader()
        table.writerows(rows)


def make(folder):
    lines = [match for suite in SUITES for match in re.findall(r'^([^#"]*)n"(.*?)(?:\*(\d+))?"$', (ROOT / "common/suites" / suite).read_text(), re.M)]
    cpu = [{**row, "gpu": "A processor", "driver": "", "cuda": "", "cudnn": "", "cudnn_best_us": "", "kernel": kernel, "us_median": float(row["us_median"]) * scale}
           for row in rows_of(plots.LAYER, "the layer", 1) if row["kernel"] == "01a" for kernel, scale in (("00a", 60), ("00b", 1))]
    write(folder / "bench.csv", cpu + [row for shape, name, count in lines for row in rows_of(shape, name, count or 1)])
    write(folder / "batch.csv", [row for n in (1, 2, 4, 8, 16, 32, 64, 128, 256) for row in rows_of(f"mb{n}ic64ih56oc128oh56kh3ph1", "", 1)])
    write(folder / "ladder-06.csv", [row for row in rows_of(plots.LAYER_OF["06"], "ladder", 1) if (row["dtype"], row["pass"]) == ("fp16", "fprop")])
    layers = re.findall(r'^mb16([^#"]*)n"(.*?)(?:\*(\d+))?"$', (ROOT / "common/suites/resnet50").read_text(), re.M)
    write(folder / "dense-06.csv", [row for n in (1, 32, 256) for i, (shape, name, count) in enumerate(layers) for row in rows_of(f"mb{n}{shape}", name, count or 1)
                                    if (row["pass"], row["kernel"]) == ("fprop", f"06{'abcdef'[i % 6]}")])


def faults(fig):
    from matplotlib.text import Text

    fig.canvas.draw()
    page = fig.bbox
    boxes, hidden = [], set()
    for ax in fig.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            hidden |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    for text in fig.findobj(Text):
        if text.get_visible() and text.get_text().strip() and text not in hidden:
            box = text.get_window_extent()
            if box.width and box.height:
                boxes.append((box, text.get_text().replace("\n", " / ")))
    for box, text in boxes:
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1:
            yield f'"{text}" leaves the page'
    for i, (a, text) in enumerate(boxes):
        for b, other in boxes[:i]:
            if min(a.x1, b.x1) - max(a.x0, b.x0) > 0.5 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1.5:  # pixels at 100 a inch; descenders may touch
                yield f'"{text}" and "{other}" overlap'


def main(folder):
    for name, made, _ in plots.draw(folder, folder, plots.LAYER):
        if made is None:
            continue
        for fault in faults(made[0]):
            print(f"{name}: {fault}")
        plot_style.plt.close(made[0])


if __name__ == "__main__":
    if sys.argv[1] == "--make":
        make(Path(sys.argv[2]))
    main(Path(sys.argv[-1]))
