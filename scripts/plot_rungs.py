"""The way in one picture: the kernels that the front page names (docs/numbers/README.txt, rungs) on one layer, forward, as bars on linear axes. A panel for
each arithmetic, with cuDNN's fastest plan and the machine's limit as lines."""

import re

import plot_data as data
import plot_style as style

TIMES = 1.15  # inches for the figures beside the bars
LABELS = 2.2  # and for the names before them
AXIS = 0.52  # below a panel's bars
HEAD = 0.52  # above them
BAR = 0.27


def named():
    """{kernel: idea} in the front page's order."""
    for line in (data.ROOT / "docs/numbers/README.txt").read_text().splitlines():
        if line.startswith("rungs = "):
            return dict(text.split(": ", 1) for text in re.findall(r"'([^']*)'", line))
    raise data.BadInput("docs/numbers/README.txt: expected a line of rungs, found none")


def plot(rows, layer, source):
    """None if fewer than two of the kernels were timed on the layer."""
    ideas = named()
    rows = [row for row in rows if row.on_gpu and row.shape.text == layer and row.conv_pass == "fprop"]
    best = data.fastest([row for row in rows if row.kernel in ideas], lambda row: row.kernel)
    rungs = [best[kernel] for kernel in ideas if kernel in best]
    if len(rungs) < 2:
        return None
    dtypes = [dtype for dtype in data.DTYPES if any(row.dtype == dtype for row in rungs)]
    title = f"From a naive kernel to {'tensor cores' if 'fp16' in dtypes else rungs[-1].kernel}: {gain(rungs[0].us / rungs[-1].us)} times as fast"
    if len(dtypes) > 1:
        same = min(row.us for row in rungs if row.dtype == rungs[0].dtype)
        title += f", {gain(rungs[0].us / same)} within {rungs[0].dtype}"
    subtitle = (f"One convolution, forward: {rungs[0].shape.words()}. Longer bars are faster;\n"
                "every bar is a kernel of this repository, with its idea; gain: over the kernel above it.")
    footer = f"{data.machine(rows)}. Median times, cold L2."
    if len(dtypes) > 1:
        footer += "\nThe two precisions have limits and scales of their own."
    if any(row.floor_us > row.us for row in rungs):
        footer += " Beyond the limit: the rate counts the formula's products; Winograd does fewer."
    fig, top, _ = style.figure(sum(BAR * sum(row.dtype == d for row in rungs) + HEAD + AXIS for d in dtypes), title, subtitle, footer)
    total = fig.get_figheight()
    above = top
    for dtype in dtypes:
        mine = [row for row in rungs if row.dtype == dtype]
        others = [row for row in rows if row.dtype == dtype]
        begin = above - HEAD / total
        end = begin - BAR * len(mine) / total
        above = end - AXIS / total
        ax = style.panel(fig, LABELS, style.WIDTH - TIMES, begin, end)
        before = rungs[rungs.index(mine[0]) - 1] if mine[0] is not rungs[0] else None
        draw(ax, mine, before, data.cudnn_best(others), ideas)
        heads(fig, ax, dtype, begin + HEAD / total)
    return fig, title, source


def gain(ratio):
    """Two digits of a large number: 1,000."""
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 100 else f"{ratio:.2g}"


def heads(fig, ax, dtype, y):
    words = {"fp32": "Single precision (fp32)", "fp16": "Half precision (fp16), on tensor cores"}[dtype]
    fig.text(0.012, y - 0.12 / fig.get_figheight(), words, fontsize=9, fontweight="bold", va="top")
    style.beside(ax, 0.5, -1.0, "time", ha="right", fontsize=7.5, color=style.GREY)
    style.beside(ax, 0.98, -1.0, "gain", ha="right", fontsize=7.5, color=style.GREY)


def draw(ax, rows, before, cudnn_us, ideas):
    limit = rows[0].tflops(rows[0].floor_us) if rows[0].floor_us else 0
    cudnn = rows[0].tflops(cudnn_us) if cudnn_us else 0
    ax.set_xlim(0, 1.08 * max([row.tflops() for row in rows] + [limit, cudnn]))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_yticks(range(len(rows)), [""] * len(rows))
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x", color=style.PALE, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.set_xlabel("TFLOP/s")
    for y, row in enumerate(rows):
        rate = row.tflops()
        ax.barh(y, rate, height=0.64, color=style.OURS)
        ax.text(rate, y, f" {style.figures3(rate)}", va="center_baseline", fontsize=8)
        left = ax.get_position().width * style.WIDTH + LABELS
        style.beside(ax, 0.1 - left, y, row.kernel, ha="left", fontsize=8, color=style.GREY)
        style.beside(ax, 0.48 - left, y, ideas[row.kernel], ha="left", fontsize=9)
        style.beside(ax, 0.5, y, duration(row.us), ha="right", fontsize=8)
        if before:
            style.beside(ax, 0.98, y, f"× {before.us / row.us:.{0 if before.us / row.us >= 9.95 else 1}f}", ha="right", fontsize=8, color=style.GREY)
        before = row
    marks = [(rate, text, colour, dashes) for rate, text, colour, dashes in
             ((cudnn, "cuDNN's best", style.CUDNN, (0, (2, 1))), (limit, "the machine's limit", style.BLACK, "-")) if rate]
    marks.sort(key=lambda mark: mark[0])
    end = ax.get_xlim()[1]
    for number, (rate, text, colour, dashes) in enumerate(marks):
        ax.plot([rate, rate], [-0.62, len(rows) - 0.5], color=colour, linewidth=1.6, linestyle=dashes, clip_on=False)
        left = number == 0 or rate - marks[0][0] > 0.35 * end or rate > 0.65 * end  # the names stand on either side of lines that are close, if there is room
        high = number > 0 and left and rate - marks[0][0] <= 0.35 * end
        ax.text(rate, -1.3 if high else -0.68, f"{text} {style.figures3(rate)} " if left else f" {style.figures3(rate)} {text}", color=colour, fontsize=8, ha="right" if left else "left", va="bottom")


def duration(us):
    return f"{us / 1e3:.1f} ms" if us >= 9950 else f"{us / 1e3:.2f} ms" if us >= 995 else f"{us:.0f} µs" if us >= 99.5 else f"{us:.1f} µs"
