"""Time against batch size on one layer: the fastest kernel of each step, cuDNN, and the machine's limit. A panel per pass and arithmetic."""

import math

from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

import plot_data as data
import plot_style as style
from plot_roofline import mark

NAMES = 1.6  # inches for the names at the lines' ends
HEIGHT = 3.4


def plot(rows, source):
    rows = [row for row in rows if row.on_gpu]
    if not rows:
        return None
    layers = sorted({row.shape.without_batch for row in rows})
    if len(layers) > 1:
        raise data.BadInput(f"batch.csv: expected one layer in several batch sizes, got {' and '.join(layers[:2])}")
    panels = [(p, d) for p in data.PASSES for d in data.DTYPES if any((row.conv_pass, row.dtype) == (p, d) for row in rows)]
    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    title = "Time against batch size" + ahead(rows)
    subtitle = f"{rows[0].shape.words(batch=False)}.\nThe fastest kernel of each step, cuDNN's fastest plan, and the least time that memory and arithmetic allow."
    fig, top, _ = style.figure(HEIGHT * lines, title, subtitle, f"{data.machine(rows)}. Median times, cold L2.{below(rows)}")
    total = fig.get_figheight()
    left = 0.72
    width = (style.WIDTH - left) / columns
    times = [us for row in rows for us in (row.us, row.cudnn_us, row.floor_us) if us]
    for number, (conv_pass, dtype) in enumerate(panels):
        line, column = divmod(number, columns)
        edges = left + column * width, left + (column + 1) * width - NAMES
        ax = style.panel(fig, *edges, top - (line * HEIGHT + 0.28) / total, top - ((line + 1) * HEIGHT - 0.5) / total)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_ylim(min(times) / 1.5, max(times) * 1.5)
        ax.set_title(f"{conv_pass} {dtype}", loc="left", fontweight="bold")
        ax.set_xlabel("images")
        ax.yaxis.set_major_locator(LogLocator(numticks=20))
        ax.yaxis.set_major_formatter(lambda us, _: f"{us:g} µs" if us < 1e3 else f"{us / 1e3:g} ms" if us < 1e6 else f"{us / 1e6:g} s")
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.tick_params(axis="y", labelleft=column == 0)
        ax.grid(color=style.PALE, linewidth=0.8)
        ax.set_axisbelow(True)
        draw(ax, [row for row in rows if (row.conv_pass, row.dtype) == (conv_pass, dtype)])
    return fig, title, source


def below(rows):
    """A line of the footer about the kernels of ours that took less than the limit, if there are any."""
    quick = sorted({row.kernel for row in rows if row.us < row.floor_us})
    if not quick and all(row.cudnn_us >= row.floor_us for row in rows if row.cudnn_us):
        return ""
    who = " and ".join(quick + ["cuDNN's plans below it"])
    return f"\nThe limit counts the formula's products; Winograd ({who}) does fewer."


def ahead(rows):
    """With how many images our fastest kernel is ahead of cuDNN, in words: in every pass and arithmetic that it was timed in."""
    best = {}
    for row in rows:
        best.setdefault((row.shape.n, row.conv_pass, row.dtype), []).append(row)
    won = {}
    for (n, _, _), members in best.items():
        won[n] = won.get(n, True) and min(row.us for row in members) < data.cudnn_best(members)
    sure = sorted(n for n in won if won[n])
    if not sure:
        return ""
    return f": ahead of cuDNN with {f'{sure[0]} to {sure[-1]}' if len(sure) == len(won) else ' and '.join(map(str, sure))} images"


def draw(ax, rows):
    batches = sorted({row.shape.n for row in rows})
    ax.xaxis.set_major_locator(FixedLocator(batches))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    by_batch = {n: [row for row in rows if row.shape.n == n] for n in batches}
    ends = []  # (time at the right end, name, look)

    def curve(name, times, **look):
        points = [(n, us) for n, us in times.items() if us]
        if points:
            ax.plot(*zip(*points), **look)
            ends.append((points[-1][1], name, look))

    curve("limit", {n: max(row.floor_us for row in members) for n, members in by_batch.items()}, color="#A0A0A0", linewidth=3)
    for step in sorted({row.step for row in rows}):
        times = {n: min((row.us for row in members if row.step == step), default=0) for n, members in by_batch.items()}
        look = mark(step) | {"linestyle": "-", "linewidth": 1.2}
        curve(f"{step} {data.step_title(step)}".strip(), times, color=look["markerfacecolor"], **look)
    curve("cuDNN", {n: data.cudnn_best(members) for n, members in by_batch.items()}, color=style.CUDNN, linewidth=1.8, linestyle=(0, (2, 1)))
    names(ax, ends)


def names(ax, ends):
    """A sample and a name beside the end of each curve, moved apart where they would overlap."""
    low, high = (math.log(y) for y in ax.get_ylim())
    need = 0.16 * (high - low) / (ax.get_position().height * ax.figure.get_figheight())
    ends.sort(key=lambda end: end[0])
    heights = []
    for us, _, _ in ends:
        heights.append(max(math.log(us), heights[-1] + need if heights else low))
    ceiling = high
    for i in reversed(range(len(heights))):  # what was pushed beyond the top comes back, and pushes those below it
        heights[i] = min(heights[i], ceiling - need / 2)
        ceiling = heights[i] - need / 2
    for y, (_, name, look) in zip(heights, ends):
        style.sample(ax, 0.08, 0.32, math.exp(y), **look)
        style.beside(ax, 0.38, math.exp(y), name, fontsize=8)
