"""Every kernel on one layer: its rate, beside cuDNN's and the machine's limit. A column per pass."""

import math

from matplotlib.ticker import LogLocator, NullFormatter

import plot_data as data
import plot_style as style

NUMBERS = 1.0  # inches for the figures beside a column
LINEAR = 30  # rates that differ by less stand on a linear axis, from 0 on


def plot(rows, layer, source):
    rows = [row for row in rows if row.shape.text == layer]
    if not rows:
        return None
    passes = [p for p in data.PASSES if any(row.conv_pass == p for row in rows)]
    lines = table(rows)
    steps = sorted({row.step for row in rows})
    title = "Every kernel on one layer" if len(steps) > 1 else f"Every kernel of step {steps[0]} on one layer"
    shares = [row.floor_us / row.us for row in rows if row.on_gpu and row.floor_us]
    if len(shares) > 1:
        title += f": from {style.percent(min(shares))} of the limit to {style.percent(max(shares))}"
    subtitle = (f"{rows[0].shape.words()}. Kernels that do not take it are not shown.\n"
                "● ours   ◆ cuDNN's fastest plan for the same pass and arithmetic; dotted: the same rate   ┃ the machine's limit for this layer")
    footer = f"{data.machine(rows)}. Median times, cold L2."
    if any(row.cudnn_us and row.floor_us > min(row.cudnn_us, row.us) for row in rows):
        footer += "\nOver 100 %: the rate counts the formula's products; Winograd does fewer."
    fig, top, bottom = style.figure(style.LINE * len(lines) + 0.65, title, subtitle, footer)
    total = fig.get_figheight()
    labels = 0.3 + 0.066 * max(len(line.label) for line in lines)
    width = (style.WIDTH - labels - 0.1) / len(passes)
    low = min(row.tflops() for row in rows)
    high = max(max(row.tflops(), row.tflops(row.floor_us or row.us)) for row in rows)
    logarithmic = high > LINEAR * low
    for i, conv_pass in enumerate(passes):
        left = labels + i * width
        ax = style.panel(fig, left, left + width - NUMBERS, top - 0.22 / total, bottom + 0.4 / total)
        scale(ax, low, high, logarithmic)
        ax.set_ylim(len(lines) - 0.5, -0.5)
        ax.set_title(conv_pass, loc="left", fontweight="bold")
        style.beside(ax, 0.42, -0.85, "TFLOP/s", ha="right", fontsize=7, color=style.GREY)
        style.beside(ax, 0.86, -0.85, "of limit", ha="right", fontsize=7, color=style.GREY)
        ax.grid(axis="x", which="major", color=style.PALE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_xlabel("TFLOP/s (logarithmic)" if logarithmic else "TFLOP/s")
        ax.tick_params(axis="y", length=0)
        ax.set_yticks(range(len(lines)), [line.label for line in lines] if i == 0 else [])
        if i == 0:
            for tick, line in zip(ax.get_yticklabels(), lines):
                tick.set_fontweight("bold" if line.kernel is None and not line.cudnn else "normal")
        draw(ax, lines, rows, conv_pass)
    return fig, title, source


def scale(ax, low, high, logarithmic):
    if not logarithmic:
        ax.set_xlim(0, high * 1.05)
        return
    low, high = low / 1.6, high * 1.6
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    ax.xaxis.set_major_locator(LogLocator(numticks=20))
    ax.xaxis.set_major_formatter(every_other if high / low > 1e4 else plain)
    ax.xaxis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=200))
    ax.xaxis.set_minor_formatter(NullFormatter())


class Line:
    """A line of the table: a kernel, cuDNN, or the head of a group with the limit."""

    def __init__(self, label, group, kernel=None, cudnn=False):
        self.label, self.group, self.kernel, self.cudnn = label, group, kernel, cudnn


def table(rows):
    """The kernels in order, grouped by machine and arithmetic."""
    lines = []
    groups = sorted({(row.on_gpu, data.DTYPES.index(row.dtype)) for row in rows})
    for group in groups:
        members = [row for row in rows if (row.on_gpu, data.DTYPES.index(row.dtype)) == group]
        lines.append(Line(f"{'GPU' if group[0] else 'CPU'}, {members[0].dtype}: the limit", group))
        lines += [Line(data.kernel_title(kernel), group, kernel=kernel) for kernel in sorted({row.kernel for row in members})]
        if data.cudnn_best(members):
            lines.append(Line("cuDNN", group, cudnn=True))
    return lines


def draw(ax, lines, rows, conv_pass):
    for group in dict.fromkeys(line.group for line in lines):
        where = [y for y, line in enumerate(lines) if line.group == group]
        members = [row for row in rows if row.conv_pass == conv_pass and (row.on_gpu, data.DTYPES.index(row.dtype)) == group]
        if not members:
            continue
        first, last = where[0], where[-1]
        floor = next((row for row in members if row.floor_us), None)
        limit = floor.tflops(floor.floor_us) if floor else 0
        best = data.cudnn_best(members)
        if limit:
            ax.plot([limit, limit], [first - 0.35, last + 0.4], color=style.BLACK, linewidth=1.6, solid_capstyle="butt")
            figures(ax, first, limit, None)
        if best:
            ax.plot([members[0].tflops(best)] * 2, [first + 0.6, last], color=style.CUDNN, linewidth=1, linestyle=(0, (2, 2)))
        for y in where:
            line = lines[y]
            mine = [row for row in members if row.kernel == line.kernel]
            if line.cudnn and best:
                rate, marker, colour = members[0].tflops(best), "D", style.CUDNN
            elif mine:
                rate, marker, colour = max(row.tflops() for row in mine), "o", style.OURS if group[0] else style.GREY
            else:
                continue
            ax.plot([ax.get_xlim()[0], rate], [y, y], color=style.PALE, linewidth=0.8, zorder=0)
            ax.plot(rate, y, marker=marker, color=colour, markersize=5.5, zorder=3)
            figures(ax, y, rate, rate / limit if limit else None)


def figures(ax, y, rate, share):
    style.beside(ax, 0.42, y, style.figures3(rate), ha="right", fontsize=8)
    if share is not None:
        style.beside(ax, 0.86, y, style.percent(share), ha="right", fontsize=8, color=style.GREY)


def plain(value, _):
    return f"{value:g}"


def every_other(value, _):
    """0.01, 1, 100: a narrow column has no room for all powers of ten."""
    return f"{value:g}" if round(math.log10(value)) % 2 == 0 else ""
