"""Step 07: where a 3 x 3 and a 1 x 1 gain from being one kernel, over channels and image size; and a network, layer by layer, beside cuDNN."""

import csv
import math
import re

import plot_data as data
import plot_style as style
from matplotlib.colors import LinearSegmentedColormap

CELL = 0.36  # inches
ROW = 0.165
LOSS, GAIN = style.ORANGE, style.SKY
# Without a gain: white. Three times as fast, or as slow, is the end of the scale.
COLOURS = LinearSegmentedColormap.from_list("gain", (LOSS, "#FFFFFF", GAIN))
MAPPED = re.compile(r"mb(\d+)ic(\d+)ih(\d+)oc(\d+)kh3ph1(?:\+scale)?\+bias\+relu mb\d+ic\d+ih\d+oc(\d+)kh1(?:\+scale)?\+bias\+relu")


def read(path, needed):
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [name for name in needed if name not in (reader.fieldnames or ())]
        if missing:
            raise data.BadInput(f"{path}: expected a column {missing[0]}, found none")
        return list(reader)


def footer(rows, cudnn="", where="cold L2"):
    days = sorted({row["date"][:10] for row in rows})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{rows[0]['gpu']}, driver for CUDA {rows[0]['driver']}, CUDA {rows[0]['cuda']}{cudnn}, {when}. Median times, {where}."


def plot_map(path):
    """Of the chains of one file: a 3 x 3 that keeps its channels, then a 1 x 1 with the most filters that were timed."""
    cells = {}  # images -> (channels, size) -> (filters, gain)
    used = []
    rows = read(path, ("gpu", "driver", "cuda", "date", "chain", "us_apart", "us_fused"))
    for row in rows:
        match = MAPPED.fullmatch(row["chain"])
        if not match or float(row["us_fused"]) == 0:
            continue
        n, c, size, between, k = map(int, match.groups())
        if c == between:
            used.append(row)
            found = cells.setdefault(n, {})
            found[c, size] = max(found.get((c, size), (0, 0)), (k, float(row["us_apart"]) / float(row["us_fused"])))
    if not cells:
        return None
    channels = sorted({c for found in cells.values() for c, _ in found})
    sizes = sorted({size for found in cells.values() for _, size in found})
    gains = [gain for found in cells.values() for _, gain in found.values()]
    wins = sum(gain > 1.03 for gain in gains)
    title = f"3 × 3, then 1 × 1, in one kernel: over 3 % faster on {wins} of {len(gains)}"
    subtitle = "Time of a kernel each over the time of one kernel for both, our own on either side. Blue: one kernel is faster; orange: two are."
    fig, top, _ = style.figure(CELL * len(channels) + 0.78, title, subtitle, footer(used))
    total = fig.get_figheight()
    left = 0.75
    width = (style.WIDTH - left) / len(cells)
    for number, n in enumerate(sorted(cells)):
        edges = left + number * width, left + (number + 1) * width - 0.2
        ax = style.panel(fig, *edges, top - 0.3 / total, top - (0.3 + CELL * len(channels)) / total)
        ax.set_title(f"{n} image{'s' * (n > 1)}", loc="left", fontweight="bold")
        for (c, size), (_, gain) in cells[n].items():
            x, y = sizes.index(size), channels.index(c)
            shade = COLOURS(0.5 + 0.5 * max(-1, min(1, math.log(gain) / math.log(3))))
            ax.add_patch(style.plt.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="white"))
            ax.text(x, y, f"{gain:.2f}", ha="center", va="center", fontsize=7.5, fontweight="bold" if gain < 1 else "normal")
        ax.set_xlim(-0.5, len(sizes) - 0.5)
        ax.set_ylim(-0.5, len(channels) - 0.5)
        ax.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        ax.set_yticks(range(len(channels)), [str(c) for c in channels] if number == 0 else [""] * len(channels))
        ax.tick_params(length=0)
        ax.set_xlabel("image, pixels a side")
        if number == 0:
            ax.set_ylabel("channels")
    return fig, title, data.source([path])


def plot_network(path):
    """A bar for each kernel of a network, beside cuDNN's plans for the same operations."""
    rows = read(path, ("gpu", "driver", "cuda", "cudnn", "date", "network", "batch", "layer", "operations", "us", "cudnn_us", "floor_us", "in_order_us"))
    whole = [row for row in rows if row["layer"] == "all" and float(row["cudnn_us"]) > 0]
    if not whole:
        return None
    whole = next((row for row in whole if row["batch"] == "32"), whole[0])
    layers = [row for row in rows if row["layer"] != "all" and (row["network"], row["batch"]) == (whole["network"], whole["batch"])]
    name = whole["network"].replace("resnet", "ResNet-")
    n = int(whole["batch"])
    us, cudnn_us = float(whole["us"]), float(whole["cudnn_us"])
    in_order_us = float(whole["in_order_us"])
    title = f"{name}, {n} image{'s' * (n > 1)}: {in_order_us:.0f} µs in order, {us:.0f} with early launches, by cuDNN's best plans {cudnn_us:.0f}"
    subtitle = "Each kernel by itself. Pale blue: ours in order; blue: launched early; orange lines: cuDNN's plans for the same operations; grey:\nthe least time that memory and arithmetic allow for each operation by itself. (n): n operations in one kernel of ours, which may beat it."
    fig, top, bottom = style.figure(ROW * len(layers) + 0.5, title, subtitle, footer([whole], f", cuDNN {whole['cudnn']}", "each on the network's own buffers, in part from L2"))
    total = fig.get_figheight()
    ax = style.panel(fig, 1.45, style.WIDTH - 0.55, top - 0.02 / total, bottom + 0.42 / total)
    largest = max(float(row["cudnn_us"]) for row in layers)
    second = sorted(float(row["cudnn_us"]) for row in layers)[-2]
    shown = largest if largest < 2 * second else 1.15 * second
    for y, row in enumerate(layers):
        ours, early, theirs, floor = (float(row[key] or row["us"]) for key in ("in_order_us", "us", "cudnn_us", "floor_us"))
        ax.barh(y, ours, height=0.72, color=style.SKY, alpha=0.45)
        ax.barh(y, early, height=0.72, color=style.SKY)
        ax.barh(y, floor, height=0.3, color=style.GREY)
        ax.plot([min(theirs, shown)] * 2, [y - 0.42, y + 0.42], color=style.CUDNN, linewidth=2)
        if theirs > shown:
            ax.text(shown, y, f" {theirs:.0f}", va="center", fontsize=7, color=style.CUDNN)
        style.beside(ax, 0.08, y, f"{theirs / ours:.2f}", fontsize=7.5, fontweight="bold" if theirs < ours else "normal")
    ax.set_ylim(len(layers) - 0.4, -0.6)
    ax.set_xlim(0, shown * 1.03)
    count = [int(row["operations"]) for row in layers]
    ax.set_yticks(range(len(layers)), [row["layer"] + (f" ({n})" if n > 1 else "") for row, n in zip(layers, count)], fontsize=7)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("µs; at the right, cuDNN's time over ours in order")
    ax.grid(axis="x", color=style.PALE, linewidth=0.8)
    ax.set_axisbelow(True)
    return fig, title, data.source([path])
