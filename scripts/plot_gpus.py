"""Two GPUs with the same multiprocessors and other memory: the same code's time on one over that on the other, layer by layer (scripts/two_gpus.pl)."""

import csv
import math

from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

import plot_data as data
import plot_style as style

LOOKS = {"fprop": (style.BLUE, "o"), "dgrad": (style.GREEN, "s"), "wgrad": (style.ORANGE, "^")}
LEGEND = 1.25  # inches
SAME = 1.005  # floors this close are those of arithmetic


class Layer:
    def __init__(self, fields):
        self.conv_pass, self.dtype, self.shape = fields["pass"], fields["dtype"], data.Shape(fields["shape"])
        self.floor_us = float(fields["floor_us"])
        self.ratio = float(fields["other_us"]) / float(fields["us"])
        self.floors = float(fields["other_floor_us"]) / self.floor_us
        self.intensity = self.shape.flops / self.shape.bytes(self.dtype)


def mean(layers):
    return math.exp(sum(math.log(layer.ratio) for layer in layers) / len(layers))


def plot(path, names):
    """names: of the GPU whose folder path lies in, and of the other."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    layers = [Layer(fields) for fields in rows]
    days = sorted(fields[which][:10] for fields in rows for which in ("date", "other_date"))
    bound = [layer for layer in layers if layer.floors > SAME]
    free = [layer for layer in layers if layer.floors <= SAME]
    title = f"{names[1]} beside {names[0]}: {mean(free):.2f} times as long where arithmetic sets the limit, {mean(bound):.2f} where memory does"
    subtitle = (f"A point: a layer by the same kernel on both, its time on the {names[1]} over that on the {names[0]} ({len(layers)} in all).\n"
                f"A dash: the same of the least times. Right of the grey line arithmetic sets the {names[0]}'s limit, left of it memory does.")
    fig, top, bottom = style.figure(2.9, title, subtitle, f"{rows[0]['gpu']} and {rows[0]['other_gpu']}, driver for CUDA {rows[0]['driver']}, CUDA {rows[0]['cuda']}, {days[0]} to {days[-1]}. Median times, cold L2.")
    total = fig.get_figheight()
    left = 0.62
    width = (style.WIDTH - left - LEGEND) / len(data.DTYPES)
    highest = max(max(layer.ratio, layer.floors) for layer in layers)
    for i, dtype in enumerate(data.DTYPES):
        members = [layer for layer in layers if layer.dtype == dtype]
        ax = style.panel(fig, left + i * width, left + (i + 1) * width - 0.15, top - 0.25 / total, bottom + 0.45 / total)
        ax.set_title(dtype, loc="left", fontweight="bold")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(0.93, highest * 1.04)
        ax.yaxis.set_major_locator(FixedLocator([1, 1.1, 1.2, 1.3, 1.4]))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.tick_params(axis="y", labelleft=i == 0)
        ax.set_xlabel("FLOP per byte")
        ax.grid(color=style.PALE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.axhline(1, color="black", linewidth=0.8)
        peak = max(layer.shape.flops / layer.floor_us for layer in members)
        bandwidth = data.middle([layer.shape.bytes(dtype) / layer.floor_us for layer in members if layer.floors > 1.4])  # a stride skips bytes of some
        ax.axvline(peak / bandwidth, color=style.GREY, linewidth=0.8)
        for layer in members:
            color, marker = LOOKS[layer.conv_pass]
            ax.plot(layer.intensity, layer.floors, "_", color=style.GREY, markersize=6)
            ax.plot(layer.intensity, layer.ratio, marker, color=color, markersize=4, markeredgewidth=0)
    for line, (conv_pass, (color, marker)) in enumerate(LOOKS.items()):
        ax.plot(1.1, 0.9 - 0.1 * line, marker, color=color, markersize=4, transform=ax.transAxes, clip_on=False)
        ax.text(1.15, 0.9 - 0.1 * line, conv_pass, transform=ax.transAxes, va="center")
    ax.plot(1.1, 0.6, "_", color=style.GREY, markersize=6, transform=ax.transAxes, clip_on=False)
    ax.text(1.15, 0.6, "least times", transform=ax.transAxes, va="center")
    return fig, title, data.source([path])
