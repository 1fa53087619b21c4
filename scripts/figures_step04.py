"""The figures of docs/04_constant_filter.md and docs/04_depthwise.md."""

import plot_style as style
from figures_gpu import box, canvas
from figures_steps import DRAWN
from matplotlib.patches import FancyArrowPatch

X, W, Y, NOTHING = style.SKY, style.ORANGE, style.GREEN, style.PALE


def words(ax, x, y, text, **more):
    ax.text(x, y, text, **{"fontsize": 8.5, "va": "center", "linespacing": 1.4, **more})


def arrow(ax, start, end):
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, color=style.BLACK, linewidth=1, shrinkA=0, shrinkB=0))


# ---------------------------------------------------------------- drawn: 04b's window

def window(_):
    title = "04b: a row of pixels is read once, and belongs to three output rows"
    subtitle = "3 × 3 filter. Three of a warp's 32 lanes, four columns each; what lane 5 does with row i."
    fig, ax = canvas(3.6, 100, 39, title, subtitle, DRAWN)
    left, top, cell = 9, 6.6, 3.2
    words(ax, left, 1.4, "Pixels", fontweight="bold", fontsize=9)
    for lane in range(3):
        words(ax, left + (4 * lane + 2) * cell, 4.6, f"lane {lane + 4}", ha="center", fontsize=8)
    for i, name in enumerate(("i − 2", "i − 1", "i", "i + 1", "i + 2")):
        y = top + i * (cell + 0.9)
        words(ax, left - 1, y + cell / 2, name, ha="right", fontsize=8)
        for j in range(12):
            fill = NOTHING if i < 2 else "white" if i > 2 else X if 4 <= j < 8 else X + "70" if j in (3, 8) else "white"
            box(ax, left + j * cell, y, cell, cell, fill=fill, line=0.5)
        for lane in range(3):
            box(ax, left + 4 * lane * cell, y, 4 * cell, cell, fill="none", line=1.3)
    y = top + 2 * (cell + 0.9)
    for i, text in ((0, "used, gone"), (1, "used, gone"), (3, "on its way"), (4, "on its way")):
        words(ax, left + 12 * cell + 1, top + i * (cell + 0.9) + cell / 2, text, fontsize=8, color="#555555")
    ax.plot([left + 12 * cell + 0.8, left + 12 * cell + 11], [y + cell / 2] * 2, color=style.BLACK, linewidth=1)
    foot = top + 5 * (cell + 0.9) + 1.6
    words(ax, left, foot, "One load of 16 bytes brings a lane its four pixels of a row.", fontsize=8)
    words(ax, left, foot + 3, "The pixel on either side comes from a neighbour's register, by a shuffle.", fontsize=8)

    out = 72
    words(ax, out, 1.4, "Lane 5's sums", fontweight="bold", fontsize=9)
    for k, (r, name, state) in enumerate(((2, "i − 2", "now complete: stored"), (1, "i − 1", "two of three rows are in"), (0, "i", "begins"))):
        z = 7.2 + k * 8.6
        for j in range(4):
            box(ax, out + j * cell, z, cell, cell, fill=Y + ("", "90", "40")[k], line=0.5)
        words(ax, out - 1, z + cell / 2, name, ha="right", fontsize=8)
        words(ax, out + 4 * cell + 1, z + cell / 2, f"+= row i ×\nfilter row {r}", fontsize=8)
        words(ax, out, z + cell + 1.9, state, fontsize=8, color="#555555")
        arrow(ax, (left + 12 * cell + 11, y + cell / 2), (out - 6, z + cell / 2))
    words(ax, left, foot + 7.2, "Pixels, filter and sums are registers. One step down is the next row of pixels; nothing else moves.", fontsize=9, fontweight="bold", color=Y)
    return fig, title


# ---------------------------------------------------------------- drawn: 04g's lanes

def depthwise(_):
    title = "04g: neighbouring lanes have neighbouring channels"
    subtitle = "NHWC, 3 × 3 filter, stride 1. Coloured: what lane 1 reads of one row of x, and what it computes of one row of y."
    fig, ax = canvas(3.3, 100, 36, title, subtitle, DRAWN)
    left, top, wide, high = 14, 9, 2.7, 3.0
    words(ax, left, 1.4, "A row of x: pixel after pixel, in each its channels", fontweight="bold", fontsize=9)
    shown = (0, 1, 2, 3, 4, 5, None, 62, 63)
    for j, channel in enumerate(shown):
        words(ax, left + (j + 0.5) * wide, 7.4, "…" if channel is None else str(channel), ha="center", fontsize=7.5)
    words(ax, left - 1, 7.4, "channel", ha="right", fontsize=7.5)
    for lane, at in ((0, 0), (1, 2), (2, 4), (31, 7)):
        words(ax, left + (at + 1) * wide, 4.8, f"lane {lane}", ha="center", fontsize=7.5)
    for i in range(6):
        y = top + i * (high + 0.5)
        words(ax, left - 1, y + high / 2, f"pixel {i - 1}", ha="right", fontsize=8)
        for j, channel in enumerate(shown):
            if channel is None:
                words(ax, left + (j + 0.5) * wide, y + high / 2, "…", ha="center")
            else:
                box(ax, left + j * wide, y, wide, high, fill=X if channel in (2, 3) else "white", line=0.5)
        for at in (0, 2, 4, 7):
            box(ax, left + at * wide, y, 2 * wide, high, fill="none", line=1.3)
    foot = top + 6 * (high + 0.5) + 1.6
    words(ax, left, foot + 1.6, "A warp reads 64 channels of a pixel at once: 32 × 4 bytes,\nwhole sectors, however narrow the image is.", fontsize=8)

    out = 62
    words(ax, out, 1.4, "Lane 1, two channels, four outputs", fontweight="bold", fontsize=9)
    words(ax, out + wide / 2, top + high + 0.5 - 1.6, "2", ha="center", fontsize=7.5)
    words(ax, out + 3 * wide / 2, top + high + 0.5 - 1.6, "3", ha="center", fontsize=7.5)
    for i in range(4):
        y = top + (i + 1) * (high + 0.5)
        for j in range(2):
            box(ax, out + j * wide, y, wide, high, fill=Y + "90", line=0.5)
        words(ax, out + 2 * wide + 1, y + high / 2, f"output {i}: pixels {i - 1} to {i + 1}", fontsize=8)
    words(ax, out, foot + 1.6, "Its two filters, 2 × 9 numbers, stay in registers. It walks\ndown: a row of x is read once, for three rows of y.", fontsize=8)
    arrow(ax, (left + 9 * wide + 2, top + 3 * (high + 0.5)), (out - 3, top + 3 * (high + 0.5)))
    return fig, title


FIGURES = {"04-depthwise": (depthwise, []), "04-window": (window, [])}
