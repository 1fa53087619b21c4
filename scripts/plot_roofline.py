"""Every step on every layer under the machine's roof: a point is a step's fastest kernel for one layer and pass."""

import re

from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

import plot_data as data
import plot_style as style

LEGEND = 1.75  # inches
KERNELS = 1.35  # the same for a legend of kernels
KERNEL_LOOKS = ((style.BLUE, "o"), (style.GREEN, "s"), (style.SKY, "^"), (style.PURPLE, "p"), (style.YELLOW, "D"), (style.GREY, "v"))


def plot(rows, source):
    rows = [row for row in rows if row.on_gpu]
    dtypes = [dtype for dtype in data.DTYPES if any(row.dtype == dtype for row in rows)]
    if not rows:
        return None
    layers = len({row.shape.text for row in rows})
    points = {}
    for (step, _, _), row in data.fastest(rows, lambda row: (row.step, row.shape.text, row.conv_pass)).items():
        points.setdefault(step, []).append(row)
    title = f"Under the roof: {middles(list(points.items()), lambda step: f'in step {step}')}"
    subtitle = (f"A point: the fastest kernel of a step on one layer and pass ({layers} layers). The roof: what the machine's memory and arithmetic allow.\n"
                "Right of the ridge arithmetic sets the limit, left of it memory does.")
    footer = f"{data.machine(rows)}. Median times, cold L2.\nThe rate counts the formula's products; Winograd does fewer and can stand above the roof."
    fig, top, bottom = style.figure(4.1, title, subtitle, footer)
    total = fig.get_figheight()
    left = 0.62
    width = (style.WIDTH - left - LEGEND) / len(dtypes)
    bandwidth, peaks = roofs_of(rows)
    limits = limits_of(rows, peaks)
    for i, dtype in enumerate(dtypes):
        ax = roof(fig, (left + i * width, left + (i + 1) * width - 0.15, top - 0.25 / total, bottom + 0.45 / total), limits, i == 0, peaks[dtype], bandwidth)
        ax.set_title(f"{dtype}: {roof_words(peaks[dtype], bandwidth)}", loc="left", fontweight="bold")
        draw_points(ax, [row for row in rows if row.dtype == dtype])
    legend(fig, sorted({row.step for row in rows}), any(row.cudnn_us for row in rows))
    return fig, title, source


def plot_batches(suite, rows, source):
    """The layers of one suite with several numbers of images, in one arithmetic: a panel for each. None if there are no such rows."""
    rows = [row for name, members in data.suites(row for row in rows if row.on_gpu).items() if re.fullmatch(rf"{suite}(-mb\d+)?", name) for row in members]
    if not rows:
        return None
    bandwidth, peaks = roofs_of(rows)
    dtype = rows[0].dtype
    batches = sorted({row.shape.n for row in rows})
    title = f"Under the roof: {middles([(n, [row for row in rows if row.shape.n == n]) for n in batches], lambda n: f'with {n} image' + 's' * (n > 1))}"
    subtitle = (f"A point: a layer, {rows[0].conv_pass} {dtype}, by the rule's kernel; a ring: cuDNN's fastest plan for it. The roof: {roof_words(peaks[dtype], bandwidth)}.\n"
                "Both axes are logarithmic. Right of the ridge arithmetic sets the limit, left of it memory does.")
    fig, top, bottom = style.figure(3.4, title, subtitle, f"{data.machine(rows)}. Median times, cold L2.")
    total = fig.get_figheight()
    left = 0.62
    width = (style.WIDTH - left - KERNELS) / len(batches)
    kernels = sorted({row.kernel for row in rows})
    for i, n in enumerate(batches):
        edges = left + i * width, left + (i + 1) * width - 0.15, top - 0.25 / total, bottom + 0.45 / total
        ax = roof(fig, edges, limits_of(rows, peaks), i == 0, peaks[dtype], bandwidth)
        ax.set_title(f"{n} image{'s' * (n > 1)}", loc="left", fontweight="bold")
        mine = [row for row in rows if row.shape.n == n]
        for kernel in kernels:
            places = [(intensity(row), row.tflops()) for row in mine if row.kernel == kernel]
            if places:
                ax.plot(*zip(*places), **kernel_mark(kernels.index(kernel)))
        rings = [(intensity(row), row.tflops(row.cudnn_us)) for row in mine if row.cudnn_us]
        if rings:
            ax.plot(*zip(*rings), **cudnn_mark())
    entries = [Line2D([], [], label=data.kernel_title(kernel), **kernel_mark(number)) for number, kernel in enumerate(kernels)]
    names(fig, [Line2D([], [], label="cuDNN", **cudnn_mark())] + entries[::-1], KERNELS)
    return fig, title, source


def middles(groups, words):
    """What the median point of the first and of the last group reaches of its floor; groups: (key, rows)."""
    shares = [(key, data.middle(row.floor_us / row.us for row in rows)) for key, rows in sorted(groups) if all(row.floor_us for row in rows)]
    if not shares:
        return "every layer"
    return "the median point comes to " + ", ".join(f"{style.percent(share)}{where} {words(key)}" for where, (key, share) in zip((" of its floor", ""), dict.fromkeys((shares[0], shares[-1]))))


def limits_of(rows, peaks):
    """Of both axes: ((lowest, highest intensity), (lowest, highest rate))."""
    points = [(intensity(row), row.tflops(us)) for row in rows for us in (row.us, row.cudnn_us or row.us)]
    return ((min(x for x, _ in points) / 1.6, max(x for x, _ in points) * 1.6),
            (min(y for _, y in points) / 1.6, max([y for _, y in points] + [peak for peak in peaks.values() if peak]) * 2))


def roof(fig, edges, limits, first, peak, bandwidth):
    """Axes for points under their roof."""
    ax = style.panel(fig, *edges)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(limits[0])
    ax.set_ylim(limits[1])
    ax.set_xlabel("FLOP per distinct byte (logarithmic)" if edges[1] - edges[0] > 2.5 else "FLOP per distinct byte")
    ax.grid(color=style.PALE, linewidth=0.8)
    ax.set_axisbelow(True)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=20))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
    if first:
        ax.set_ylabel("TFLOP/s (logarithmic)")
    else:
        ax.tick_params(axis="y", labelleft=False)
    draw_roof(ax, peak, bandwidth)
    return ax


def roofs_of(rows):
    """(bytes per second, {dtype: FLOP per second}), in 1e12, out of the floors that the harness computed: each is the larger of two times, so it shows
    one of the two limits. A limit that no layer shows is None: all floors can be explained without it."""
    rows = [row for row in rows if row.floor_us]
    moved = {row: row.bytes / row.floor_us / 1e6 for row in rows}
    bandwidth = max(moved.values(), default=0)
    peaks, shown = {}, False
    for dtype in data.DTYPES:
        mine = [row for row in rows if row.dtype == dtype]
        peak = max((row.tflops(row.floor_us) for row in mine), default=0)
        shown |= any(row.tflops(row.floor_us) < 0.99 * peak for row in mine)
        peaks[dtype] = peak if any(moved[row] < 0.99 * bandwidth for row in mine) else None
    return bandwidth if shown else None, peaks


def roof_words(peak, bandwidth):
    parts = [f"{style.figures3(peak)} TFLOP/s"] if peak else []
    return ", ".join(parts + [f"{style.figures3(bandwidth)} TB/s"] * bool(bandwidth))


def draw_roof(ax, peak, bandwidth):
    low, high = ax.get_xlim()
    ridge = peak / bandwidth if peak and bandwidth else None
    if bandwidth:
        end = ridge or high
        ax.plot([low, end], [bandwidth * low, bandwidth * end], color=style.BLACK, linewidth=1.6)
    if peak:
        ax.plot([ridge or low, high], [peak, peak], color=style.BLACK, linewidth=1.6)


def draw_points(ax, rows):
    points = {}  # step, or "cuDNN": [(intensity, rate)]
    for (step, _, _), row in data.fastest(rows, lambda row: (row.step, row.shape.text, row.conv_pass)).items():
        points.setdefault(step, []).append((intensity(row), row.tflops()))
    problems = {}
    for row in rows:
        problems.setdefault((row.shape.text, row.conv_pass), []).append(row)
    best = [(intensity(same[0]), same[0].tflops(data.cudnn_best(same))) for same in problems.values() if data.cudnn_best(same)]
    size = 5.5 if sum(map(len, points.values())) < 150 else 4
    for step, places in sorted(points.items()):
        ax.plot(*zip(*places), **mark(step, size))
    if best:
        ax.plot(*zip(*best), **cudnn_mark(size))


def intensity(row):
    return row.shape.flops / row.bytes


def mark(step, size=5.5):
    colour, marker = style.STEP_STYLE.get(step, (style.GREY, "."))
    return dict(marker=marker, markerfacecolor=colour, markeredgecolor=style.BLACK, markeredgewidth=0.5, markersize=size, linestyle="none")


def kernel_mark(number, size=5):
    colour, marker = KERNEL_LOOKS[number % len(KERNEL_LOOKS)]
    return dict(marker=marker, markerfacecolor=colour, markeredgecolor=style.BLACK, markeredgewidth=0.5, markersize=size, linestyle="none")


def cudnn_mark(size=5.5):
    """A ring: what lies under it stays visible."""
    return dict(marker="o", markerfacecolor="none", markeredgecolor=style.CUDNN, markeredgewidth=1.1, markersize=size + 0.5, linestyle="none")


def legend(fig, steps, with_cudnn):
    entries = [Line2D([], [], label=f"{step} {data.step_title(step)}".strip(), **mark(step)) for step in steps]
    if with_cudnn:
        entries.append(Line2D([], [], label="cuDNN, fastest plan", **cudnn_mark()))
    names(fig, entries[::-1], LEGEND)


def names(fig, entries, room):
    """The legend, in so many inches at the right."""
    fig.legend(handles=entries, loc="center left", bbox_to_anchor=(1 - (room - 0.02) / style.WIDTH, 0.5), frameon=False, fontsize=8, handletextpad=0.3, labelspacing=0.7)
