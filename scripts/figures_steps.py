"""The figures of the chapters of steps 00 to 02."""

import csv
import math
import re

import plot_data as data
import plot_style as style
from figures_gpu import box, canvas

LAYER = "mb16ic64ih56oc128oh56kh3ph1"
DRAWN = "Drawn, not measured."
LANES = 32


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------- drawn: what 00b keeps where

def blocking(_):
    title = "00b: the product whose source matrix is never stored"
    subtitle = ("result[filter][pixel] = sum over (channel, tap) of filters[filter][channel, tap] × source[channel, tap][pixel].\n"
                "Sizes with 512-bit vectors (AVX-512). A thread's work is coloured: each colour is one level of memory.")
    fig, ax = canvas(4.1, 100, 48, title, subtitle, DRAWN)
    registers, l1, l2 = style.GREEN, style.ORANGE, style.SKY

    def words(x, y, text, **more):
        ax.text(x, y, text, va="center", **{"ha": "center", "fontsize": 8, **more})

    words(17, 20.5, "filters, packed", fontweight="bold")
    box(ax, 4, 22, 26, 20)                                            # filters: K x C R S
    box(ax, 4, 22, 6, 20, fill=l2 + "60", line=0.5)
    box(ax, 4, 25, 6, 2.4, fill=registers + "90")
    words(17, 44, "channels × taps, 576")
    words(2.4, 32, "filters, 128", rotation=90)
    words(11.3, 26.3, "8 filters × 128 deep,\n4 KB, from L2", ha="left")

    words(66, 1, "source, gathered from the image when needed", fontweight="bold")
    box(ax, 36, 2.5, 60, 15)                                          # source: C R S x pixels
    box(ax, 50, 2.5, 24, 4.5, fill=l2 + "60", line=0.5)
    box(ax, 50, 2.5, 6, 4.5, fill=l1 + "90")
    words(34.6, 10, "channels × taps", rotation=90)
    words(49.3, 4.8, "128 deep × 48,\n24 KB, in L1", ha="right")
    words(75, 4.8, "128 deep × 192,\n104 KB, in L2", ha="left")
    words(66, 12.5, "every pixel stands here once for each of the 9 taps", color=style.GREY)

    words(66, 20.5, "result", fontweight="bold")
    box(ax, 36, 22, 60, 20)                                           # result: K x pixels
    box(ax, 50, 22, 24, 20, fill=l2 + "60", line=0.5)
    box(ax, 50, 25, 6, 2.4, fill=registers + "90")
    words(49.3, 26.3, "8 × 48 sums,\nin 24 vector\nregisters", ha="right")
    words(75, 32, "128 × 192 sums,\n98 KB, in L2", ha="left")
    words(66, 44, "pixels of all images, 50,176")
    words(32.5, 30, "=", fontsize=14)
    words(3, 10, "A pixel loaded from L1: used for 8 filters.\nA filter value loaded from L2: for 48 pixels.\nA gathered pixel: for all 128 filters.", ha="left", linespacing=1.5)
    return fig, title


# ---------------------------------------------------------------- drawn: which elements a warp touches

CELL, SECTOR = 1.36, 8 * 1.36


def strip(ax, y, name, sectors, note):
    """Sectors of memory in a row. sectors: 8 texts, one a float: None if no lane asks for it; or a string: the distance to the next, or '... rest'."""
    ax.text(0, y + 1.9, name, fontsize=9, va="center", fontweight="bold")
    x = 12
    for sector in sectors:
        if isinstance(sector, str):
            if sector.startswith("..."):
                ax.text(x + 5.2, y + 1.9, sector, fontsize=8, ha="center", va="center", color=style.GREY)
            else:  # from the first float of the sector before to the first of the next one
                start, end = x - SECTOR - 0.5 + CELL / 2, x + 10.4 + CELL / 2
                ax.plot([start, start, end], [y, y - 1.5, y - 1.5], color=style.GREY, linewidth=1.1)
                ax.annotate("", (end, y), (end, y - 1.5 - 0.05), arrowprops={"arrowstyle": "-|>", "color": style.GREY, "shrinkA": 0, "shrinkB": 0})
                ax.text((start + end) / 2, y - 2.5, sector, fontsize=8, ha="center", va="center", color=style.GREY)
                ax.text(x + 5.0, y + 1.9, "...", fontsize=8, ha="center", va="center", color=style.GREY)
            x += 10.4
            continue
        asked = [i for i, lane in enumerate(sector) if lane is not None]
        for i, lane in enumerate(sector):
            box(ax, x + i * CELL, y, CELL, 3.8, fill=style.BLUE if lane is not None else "white", line=0.3)
            if i in (asked[0], asked[-1]):
                inside = 0 if len(asked) == 1 else 0.2 if i == asked[0] else -0.2  # away from the frame
                ax.text(x + (i + 0.5) * CELL + inside, y + 1.9, lane, fontsize=6.5, color="white", ha="center", va="center")
        ax.add_patch(style.plt.Rectangle((x, y), SECTOR, 3.8, facecolor="none", edgecolor=style.RED, linewidth=1.6))
        x += SECTOR + 0.5
    ax.text(99.5, y + 1.9, note, fontsize=8, va="center", ha="right", linespacing=1.3)


def one(lane, at=0):
    """A sector of which one float is asked for."""
    return [lane if i == at else None for i in range(8)]


def row_of(first):
    """32 neighbouring floats, the first at this place of its sector."""
    texts = [None] * first + [str(lane) for lane in range(LANES)]
    texts += [None] * (-len(texts) % 8)
    return [texts[i:i + 8] for i in range(0, len(texts), 8)]


def numbering(ax, y, thread):
    """A small output, K = 4 filters of 3 x 3 pixels, with the number of the thread in every cell."""
    for k in range(4):
        x = 12 + 14 * k
        ax.text(x + 5.1, y - 1.6, f"filter k = {k}", fontsize=8, ha="center", va="center")
        for p in range(3):
            for q in range(3):
                i = thread(k, p, q)
                box(ax, x + 3.4 * q, y + 3.4 * p, 3.4, 3.4, fill=style.BLUE + "50" if i < 4 else "white", line=0.6)
                ax.text(x + 3.4 * q + 1.7, y + 3.4 * p + 1.7, str(i), fontsize=7, ha="center", va="center")
    ax.text(0, y + 5.1, "which thread\nhas which\noutput", fontsize=8.5, va="center", fontweight="bold")


def warp(title, subtitle, thread, mapping, strips):
    fig, ax = canvas(3.9, 100, 45, title, subtitle, DRAWN + " A square is a float, a frame a sector of 32 bytes; filled: a lane asks for it; the first and the last lane of a sector are named.")
    numbering(ax, 4, thread)
    ax.text(70, 9.1, mapping, fontsize=8, va="center", family="DejaVu Sans Mono", linespacing=1.5)
    for i, arguments in enumerate(strips):
        strip(ax, 20 + 8.6 * i, *arguments)
    return fig, title


def warp_naive(_):
    far = [one("0"), "576 floats", one("1"), "576 floats", one("2"), "... to lane 31"]
    stored = [one("0"), "3136 floats", one("1"), "3136 floats", one("2"), "... to lane 31"]
    return warp("Step 01: a warp is 32 filters at one pixel",
                f"Top: 4 filters of 3 × 3 outputs, the first four threads coloured. Below: what the 32 lanes of a warp touch in memory at one product,\non the layer {LAYER}.",
                lambda k, p, q: (p * 3 + q) * 4 + k, "k = i % K\nq = i / K % Q\np = i / K / Q % P",
                [("load x", [one("all", 3)], "1 sector, 1 wavefront"), ("load w", far, "32 sectors, 32 wavefronts"), ("store y", stored, "32 sectors, at the end")])


def warp_coalesced(_):
    return warp("Step 02: a warp is 32 pixels of one filter",
                f"Top: 4 filters of 3 × 3 outputs, the first four threads coloured. Below: what the 32 lanes of a warp touch in memory at one product,\non the layer {LAYER}.",
                lambda k, p, q: k * 9 + p * 3 + q, "q = i % Q\np = i / Q % P\nk = i / Q / P % K",
                [("load x", row_of(1), "4 or 5 sectors,\n1 wavefront"), ("load w", [one("all", 3)], "1 sector, 1 wavefront"), ("store y", row_of(0), "4 sectors, at the end")])


# ---------------------------------------------------------------- measured

def loaded(shape, pad):
    """Multiply-adds of warps whose pixel exists, by the formula's bounds along both axes."""
    rows = sum(0 <= p * shape.stride - pad + r < shape.h for p in range(shape.p) for r in range(shape.r))
    return shape.n * shape.k * shape.c * rows * rows / LANES


def wavefronts(results):
    """01a's fprop on ResNet-50's layers, which are square and have no groups: measured over 33 wavefronts of L1 for every product."""
    calibrated = {row["name"]: float(row["value"]) for row in read(results / "calibrate.csv") if not row["parameter"]}
    rows = {row["shape"]: row for row in read(results / "bench.csv") if row["kernel"] == "01a" and row["pass"] == "fprop" and row["status"] == "right"
            and re.fullmatch("the layer|conv1|res[0-9].*", row["name"]) and row["shape"].startswith("mb16")}.values()
    points = []  # name, which of the looks, measured / predicted
    for row in rows:
        shape = data.Shape(row["shape"])
        if shape.k < LANES:
            continue
        pad = int(row["shape"].split("ph")[1].split("w")[0]) if "ph" in row["shape"] else 0
        predicted = 33 * loaded(shape, pad) / calibrated["device_sms"] / calibrated["device_clock"]
        look = "first" if row["shape"] == LAYER else "same" if math.gcd(shape.c * shape.r * shape.s, 32) == 32 else "odd"
        points.append((row["name"], look, float(row["us_median"]) / predicted))
    if not points:
        raise data.BadInput(f"{results}/bench.csv: expected rows of 01a, fprop")
    gpu, date = next((row["gpu"], row["date"][:10]) for row in rows)
    title = "01a, fprop: 33 wavefronts of L1 for every product"
    subtitle = "Each mark is a layer: its measured time over the time that 33 wavefronts a product take, at one a clock and SM."
    fig, top, bottom = style.figure(0.16 * len(points) + 0.5, title, subtitle, f"{gpu}, {date}. The layers of ResNet-50 and the first layer of all tables.")
    ax = style.panel(fig, 1.5, 5.4, top, bottom + 0.09)
    looks = {"first": ("white", style.BLUE, "o", "the layer on which the rule was found"),
             "same": (style.BLUE, style.BLACK, "o", "filters a multiple of 32 floats apart:\n32 lanes, one bank"),
             "odd": (style.RED, style.BLACK, "D", "filters an odd number of floats apart:\n32 lanes, 32 banks")}
    for look, (colour, edge, marker, label) in looks.items():
        some = [(ratio, y) for y, (_, which, ratio) in enumerate(points) if which == look]
        ax.plot(*zip(*some), marker=marker, markersize=5.5, color=colour, markeredgecolor=edge, markeredgewidth=1.3 if look == "first" else 0.4,
                linestyle="none", label=label, zorder=3)
    ax.axvline(1, color=style.BLACK, linewidth=1, label="measured = predicted")
    ax.set_yticks(range(len(points)), [name for name, _, _ in points])
    ax.set_ylim(len(points) - 0.4, -0.6)
    ax.set_xlim(0, 1.5)
    ax.set_xlabel("measured / predicted")
    ax.tick_params(axis="y", length=0)
    ax.grid(color=style.PALE, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(loc="center left", bbox_to_anchor=(1.03, 0.5), frameon=False, fontsize=8, labelspacing=1.2)
    return fig, title


def limits(results):
    """Two counters of every kernel of steps 01 and 02: how busy L1's data path is, and how busy the schedulers."""
    counters, gpu, date = {}, "", ""
    for name in data.PASSES:
        for row in read(results / f"profile-02-{name}.csv"):
            counters[name, row["kernel"], row["metric"]] = float(row["value"])
            gpu, date = row["gpu"], row["date"][:10]
    bars = [("LSU data path", style.ORANGE, "L1's data path is busy"), ("issue slots", style.BLUE, "schedulers start an instruction")]
    title = "What steps 01 and 02 wait for"
    subtitle = f"Share of the clocks, of the layer {LAYER}. A kernel with a bar near 100 % gets no faster until that is changed."
    fig, top, bottom = style.figure(2.6, title, subtitle, f"{gpu}, {date}, make profile-02.")
    for column, name in enumerate(data.PASSES):
        kernels = sorted({kernel for conv_pass, kernel, _ in counters if conv_pass == name})
        left = 0.8 + 2.65 * column
        ax = style.panel(fig, left, left + 2.0, top - 0.17, bottom + 0.12)
        ax.set_title(name, fontweight="bold", loc="left")
        for at, kernel in enumerate(kernels):
            for which, (metric, colour, label) in enumerate(bars):
                try:
                    value = counters[name, kernel, metric]
                except KeyError:
                    raise data.BadInput(f"profile-02-{name}.csv: expected a row {kernel}, {metric}") from None
                ax.barh(at + 0.19 * (2 * which - 1), value, 0.36, color=colour, label=label if at == 0 else None)
                inside = value > 85
                ax.text(value + (-2 if inside else 2), at + 0.19 * (2 * which - 1), f"{value:.0f} %", fontsize=7.5, va="center",
                        ha="right" if inside else "left")
        ax.set_yticks(range(len(kernels)), [f"{kernel}\n{style.figures3(counters[name, kernel, 'duration'] / 1e3)} ms" for kernel in kernels])
        ax.set_ylim(2.6, -0.6)
        ax.set_xlim(0, 104)
        ax.set_xticks([0, 50, 100])
        ax.axvline(100, color=style.BLACK, linewidth=1)
        if column == 0:
            ax.legend(loc="lower left", bbox_to_anchor=(-0.4, 1.16), frameon=False, fontsize=8, ncols=2)
    return fig, title


FIGURES = {  # what draws it, and from which files
    "00-blocking": (blocking, []), "01-warp": (warp_naive, []), "01-wavefronts": (wavefronts, ["bench", "calibrate"]),
    "02-warp": (warp_coalesced, []), "02-limits": (limits, [f"profile-02-{name}" for name in data.PASSES]),
}
