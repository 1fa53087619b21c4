"""The figures of docs/gpu.md, most of them out of what `make calibrate` measured."""

import csv
import math

import plot_data as data
import plot_style as style
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter

SUITES = data.ROOT / "common/suites"


class Figures:
    """The rows of calibrate.csv: figures["read_stride", 8] is a value."""

    def __init__(self, path):
        self.values, self.gpu, self.date = {}, "", ""
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                key, _, number = row["parameter"].partition("=")
                self.values[row["name"], number or key] = float(row["value"])
                self.gpu, self.date = row["gpu"], row["date"][:10]

    def __getitem__(self, name):
        name, parameter = name if isinstance(name, tuple) else (name, "")
        try:
            return self.values[name, str(parameter)]
        except KeyError:
            raise data.BadInput(f"calibrate.csv: expected a row {name} {parameter}".rstrip()) from None

    def series(self, name):
        """[(parameter, value)] of a figure with a number as its parameter."""
        return sorted((int(parameter), value) for (other, parameter), value in self.values.items() if other == name)

    def footer(self):
        return f"{self.gpu}, {self.date}, make calibrate: medians, cold L2 where main memory is meant."


def log_axes(ax, x_ticks, y_label, x_label):
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(x_ticks))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
        axis.set_minor_locator(FixedLocator([]))
    ax.set_ylabel(y_label)
    ax.set_xlabel(x_label)
    ax.grid(color=style.PALE, linewidth=0.8)
    ax.set_axisbelow(True)


# ---------------------------------------------------------------- drawn: the chip

def box(ax, x, y, width, height, fill="white", line=0.9):
    ax.add_patch(Rectangle((x, y), width, height, facecolor=fill, edgecolor=style.BLACK, linewidth=line))


def arrow(ax, start, end):
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="<|-|>", mutation_scale=10, color=style.BLACK, linewidth=1.2, shrinkA=0, shrinkB=0))


def canvas(height, columns, rows, title, subtitle, footer):
    """A figure without axes: columns x rows cells, y downwards."""
    fig, top, bottom = style.figure(height, title, subtitle, footer)
    ax = fig.add_axes((0.012, bottom, 0.976, top - bottom))
    ax.set_xlim(0, columns)
    ax.set_ylim(rows, 0)
    ax.axis("off")
    return fig, ax


def chip(figures):
    sms, warps = figures["device_sms"], figures["device_warps"]
    title = "The farther from the arithmetic, the more room, the less speed and the longer the wait"
    subtitle = (f"{figures.gpu}: {sms:.0f} multiprocessors (SMs) around one L2 cache.\n"
                "Left: how much there is of it. Right, measured: how fast it is, and how long a step waits that needs the one before.")
    fig, ax = canvas(3.9, 100, 46, title, subtitle, figures.footer())
    shared_wait = (f"{figures['clocks_shared']:.0f} (L1: {figures['clocks_l1']:.0f}) clocks = "
                   f"{figures['latency_shared']:.0f} ({figures['latency_l1']:.0f}) ns")
    levels = [  # name, how much, how fast, wait, colour
        ("registers and arithmetic", f"each SM: {figures['device_registers']:.0f} KiB of registers, at most {warps:.0f} warps of 32 lanes",
         f"{figures['fp32_fma']:.0f} TFLOP/s of fp32", f"{figures['clocks_fma']:.0f} clocks = {figures['latency_fma']:.1f} ns", style.GREEN),
        ("shared memory and L1 cache", f"each SM: {figures['device_shared']:.0f} KiB of shared memory at most; L1 has the rest",
         f"{figures['read_shared', 1] / 1e3:.1f} TB/s, all SMs", shared_wait, style.ORANGE),
        ("L2 cache", f"one for all SMs: {figures['device_l2']:.0f} MiB",
         f"{figures['read_l2'] / 1e3:.1f} TB/s", f"{figures['clocks_l2']:.0f} clocks = {figures['latency_l2']:.0f} ns", style.SKY),
        ("DRAM (HBM)", "beside the chip: the tensors", f"{figures['read'] / 1e3:.2f} TB/s read, {figures['copy'] / 1e3:.2f} copied",
         f"{figures['clocks_dram']:.0f} clocks = {figures['latency_dram']:.0f} ns", style.PURPLE),
    ]
    for i, (name, much, fast, wait, colour) in enumerate(levels):
        y, inset = 1 + 11.5 * i, (18, 12, 6, 0)[i]
        box(ax, 0.2 + inset / 2, y, 60 - inset, 8, fill=colour + "40")
        ax.text(30, y + 2.6, name, ha="center", va="center", fontweight="bold", fontsize=9.5)
        ax.text(30, y + 5.7, much, ha="center", va="center", fontsize=7.6)
        ax.text(64, y + 2.6, fast, ha="left", va="center", fontweight="bold", fontsize=9.5)
        ax.text(64, y + 5.7, wait, ha="left", va="center", fontsize=8.5, color=style.GREY)
        if i < 3:
            arrow(ax, (30, y + 8), (30, y + 11.5))
    return fig, title


# ---------------------------------------------------------------- drawn: sectors of one request

def sectors(_):
    title = "Whole sectors of 32 bytes move: the wider the stride, the less of them is used"
    subtitle = ("A square is a float, eight of them are a sector. Filled: what the 32 lanes ask for, with some of the lanes' numbers.\n"
                "Framed: the sectors that move, whole. With stride 8 the picture shows the first 8 of 32.")
    fig, ax = canvas(2.9, 100, 36, title, subtitle, "Drawn, not measured.")
    cell = 1.42
    for row, stride in enumerate((1, 2, 8)):
        y = 4 + 12.5 * row
        count = min(32, 4 * stride)
        ax.text(0, y - 1.6, f"stride {stride}: lane i reads float {'i' if stride == 1 else f'{stride} i'}", fontsize=9, fontweight="bold", va="center")
        ax.text(99.5, y - 1.6, f"{count} sectors for 128 useful bytes: {400 / count:g} % of what moves is used", fontsize=8.5, va="center", ha="right")
        for sector in range(8):
            x = 0.2 + sector * (8 * cell + 1.1)
            for i in range(8):
                element = sector * 8 + i
                lane, asked = divmod(element, stride)
                filled = asked == 0 and lane < 32
                ax.add_patch(Rectangle((x + i * cell, y), cell, 4.2, facecolor=style.BLUE if filled else "white", edgecolor=style.GREY, linewidth=0.4))
                if filled and (stride == 8 or lane % 8 in (0, 7)):
                    inside = 0 if stride > 1 else 0.2 if lane % 8 == 0 else -0.2  # away from the frame
                    ax.text(x + (i + 0.5) * cell + inside, y + 2.1, str(lane), fontsize=6.6, color="white", ha="center", va="center")
            moved = any((sector * 8 + i) % stride == 0 and (sector * 8 + i) // stride < 32 for i in range(8))
            ax.add_patch(Rectangle((x, y), 8 * cell, 4.2, facecolor="none", edgecolor=style.RED if moved else style.GREY, linewidth=1.6 if moved else 0.4))
    return fig, title


# ---------------------------------------------------------------- measured

def stride(figures):
    title = "Twice the stride, half the useful bytes; and DRAM is read in pieces of two sectors"
    fig, top, bottom = style.figure(2.9, title, "No float is read twice. Prediction: what DRAM can read, times the share of it that is used.", figures.footer())
    ax = style.panel(fig, 0.75, 6.3, top - 0.02, bottom + 0.12)
    measured, read = figures.series("read_stride"), figures["read"]
    strides = [s for s, _ in measured]
    log_axes(ax, strides, "GB/s of useful floats (logarithmic)", "stride between lanes, in floats (logarithmic)")
    ax.plot(strides, [read / min(s, 8) for s in strides], color=style.GREY, linestyle="--", linewidth=1.3, label="prediction: sectors of 32 bytes")
    ax.plot(strides, [read / min(s, 16) for s in strides], color=style.GREY, linestyle=":", linewidth=1.3, label="the same for 64 bytes at a time")
    ax.plot(*zip(*measured), color=style.BLUE, marker="o", markersize=5, linewidth=1.6, label="measured")
    ax.set_ylim(read / 40, read * 1.5)
    for s, value in measured:
        ax.annotate(f"{value:.0f}", (s, value), xytext=(5, 5), textcoords="offset points", fontsize=8)
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)
    return fig, title


def in_flight(figures):
    title = "Bytes on their way count, not threads"
    subtitle = ("Copy, with a number of warps in every SM and 4, 16 or 64 bytes on their way in each thread.\n"
                "Dashed: Little's law, bytes on their way / latency, up to the roof.")
    fig, top, bottom = style.figure(3.2, title, subtitle, figures.footer())
    ax = style.panel(fig, 0.75, 6.1, top - 0.02, bottom + 0.12)
    sms, latency, roof = figures["device_sms"], figures["latency_dram"], figures["copy"]
    looks = {4: (style.ORANGE, "v"), 16: (style.BLUE, "o"), 64: (style.GREEN, "s")}
    places = [2 ** k for k in range(7, 18)]
    log_axes(ax, places, "GB/s read plus written (logarithmic)", "bytes on their way in each SM = warps x 32 x bytes in a thread (logarithmic)")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value / 1024:g} Ki" if value >= 1024 else f"{value:g}")
    curve = sorted(places + [roof * latency / 2 / sms])
    ax.plot(curve, [min(2 * sms * b / latency, roof) for b in curve], color=style.GREY, linestyle="--", linewidth=1.3, label=f"Little's law, {latency:.0f} ns")
    for width, (colour, marker) in looks.items():
        points = [(32 * warps * width, value) for warps, value in figures.series(f"copy_{width}_bytes")]
        ax.plot(*zip(*points), color=colour, marker=marker, markersize=5, linewidth=1.4, label=f"{width} bytes a thread, 1 to 64 warps")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)
    return fig, title


def chains(figures):
    title = "With four independent chains a quarter of the warps keeps the arithmetic busy"
    subtitle = ("Every thread has 1 or 4 chains of multiply-adds, each of which needs the one before.\n"
                "Prediction: warps x chains x 64 FLOP in every latency, up to 128 multiply-adds a clock and SM.")
    fig, top, bottom = style.figure(2.6, title, subtitle, figures.footer())
    ax = style.panel(fig, 0.75, 6.1, top - 0.02, bottom + 0.12)
    sms, wait, peak = figures["device_sms"], figures["latency_fma"], figures["device_sms"] * 256 * figures["device_clock"] * 1e-6
    warps = [w for w, _ in figures.series("fma_1_chain")]
    log_axes(ax, warps, "TFLOP/s (logarithmic)", "warps in each SM (logarithmic)")
    for count, colour, marker, dash in ((1, style.ORANGE, "v", "--"), (4, style.BLUE, "o", ":")):
        name = f"fma_{count}_chain{'s' * (count > 1)}"
        words = f"{count} chain{'s' * (count > 1)}"
        ax.plot(warps, [min(sms * w * count * 64 / wait * 1e-3, peak) for w in warps], color=style.GREY, linestyle=dash, linewidth=1.3, label=f"prediction, {words}")
        ax.plot(*zip(*figures.series(name)), color=colour, marker=marker, markersize=5, linewidth=1.4, label=f"measured, {words}")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)
    return fig, title


def roofline(figures):
    title = "The roofline as measured: memory binds depthwise layers, arithmetic dense ones in fp32"
    resnet, depthwise = shapes_of("resnet50"), [shape for shape in shapes_of("mobilenet") if shape.groups == shape.c]
    subtitle = ("A layer cannot stand higher than its mark: FLOPs per distinct byte, times what DRAM gives, up to what the arithmetic does.\n"
                "Filled: ResNet-50, 16 images. Hollow: the depthwise layers of MobileNet.")
    fig, top, bottom = style.figure(3.9, title, subtitle, figures.footer() + " Tensor cores: sustained.")
    ax = style.panel(fig, 0.75, 5.9, top - 0.02, bottom + 0.1)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(0.1, 2000)
    ax.set_ylim(0.3, 2000)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=20))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("FLOP per byte (logarithmic)")
    ax.set_ylabel("TFLOP/s (logarithmic)")
    ax.grid(color=style.PALE, linewidth=0.8)
    ax.set_axisbelow(True)
    peaks = {"fp32": figures["fp32_fma"], "fp16": figures["fp16_wgmma", "sustained"]}
    memories = [("DRAM", figures["copy"] / 1e3, "-"), ("L2", figures["read_l2"] / 1e3, "--"), ("shared memory", figures["read_shared", 1] / 1e3, ":")]
    extent = ax.get_window_extent().get_points().T  # pixels: a decade is not as wide as it is high
    for name, speed, dash in memories:
        end = peaks["fp16"] / speed
        ax.plot([0.1, end], [0.1 * speed, peaks["fp16"]], color=style.BLACK if name == "DRAM" else style.GREY, linewidth=1.6, linestyle=dash)
        ax.plot([], [], color=style.BLACK if name == "DRAM" else style.GREY, linewidth=1.6, linestyle=dash, label=f"{name}: {speed:.3g} TB/s")
        across, up = [(box[1] - box[0]) / decades for box, decades in zip(extent, (math.log10(2000 / 0.1), math.log10(2000 / 0.3)))]
        ax.text(0.13, 0.13 * speed * 1.25, name, rotation=math.degrees(math.atan2(up, across)), rotation_mode="anchor", fontsize=8, va="bottom")
    speed = memories[0][1]
    looks = {"fp32": (style.BLUE, "o", "fp32, multiply-adds"), "fp16": (style.ORANGE, "D", "fp16, tensor cores")}
    for dtype, (colour, marker, words) in looks.items():
        peak = peaks[dtype]
        ax.plot([peak / memories[-1][1], 2000], [peak, peak], color=colour, linewidth=1.8, label=f"{words}: {peak:.3g} TFLOP/s")
        for shapes, fill, label in ((resnet, colour, f"ResNet-50 in {dtype}"), (depthwise, "white", f"depthwise in {dtype}")):
            places = [shape.flops / shape.bytes(dtype) for shape in shapes]
            edge, line = (style.BLACK, 0.5) if fill == colour else (colour, 1.1)
            ax.plot(places, [min(peak, speed * place) for place in places], marker=marker, markersize=5, markerfacecolor=fill, markeredgecolor=edge,
                    markeredgewidth=line, linestyle="none", label=label)
        ax.annotate(f"ridge {peak / speed:.0f}", (peak / speed, peak), xytext=(-4, 6), textcoords="offset points", fontsize=8, ha="right",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8, labelspacing=0.8)
    return fig, title


def shapes_of(suite):
    with open(SUITES / suite) as file:
        return [data.Shape(line.split('n"')[0].strip()) for line in file if line.strip() and not line.startswith("#")]


def measured(draw):
    return lambda results: draw(Figures(results / "calibrate.csv")), ["calibrate"]


FIGURES = {"gpu-chip": measured(chip), "gpu-sectors": (sectors, []), "gpu-stride": measured(stride), "gpu-in-flight": measured(in_flight),
           "gpu-chains": measured(chains), "gpu-roofline": measured(roofline)}
