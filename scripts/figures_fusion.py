"""The figures of docs/07_fusion.md and docs/07_chains.md."""

import plot_style as style
from figures_gpu import box, canvas
from figures_step06 import words
from figures_steps import DRAWN

IMAGES, PIXELS, NARROW, WIDE = 256, 56 * 56, 64, 256  # 3 x 3 from 64 to 64 channels, 1 x 1 from 64 to 256
MB = IMAGES * PIXELS * 2 / 1e6                        # of one channel of halves
UNIT = 24 / (WIDE * MB)                               # columns of the picture for a megabyte
X, BETWEEN, RESIDUAL, Y = style.SKY + "90", style.ORANGE + "B0", style.PALE, style.GREEN + "90"
HIGH, LEFT = 4.4, 12.5


def tensor(ax, x, y, channels, fill, name):
    """A tensor in memory, as wide as it has bytes."""
    box(ax, x, y, channels * MB * UNIT, HIGH, fill=fill)
    words(ax, x + channels * MB * UNIT / 2, y - 1.6, f"{name}, {channels * MB:.0f} MB", ha="center")


def piece(ax, x, y, width, fill, text):
    box(ax, x, y, width, HIGH, fill=fill, line=0.7)
    words(ax, x + width / 2, y + HIGH / 2, text, ha="center", fontsize=7)


def way(ax, start, end, colour=style.BLACK):
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8})


def rows(ax, top, name):
    """The three levels of a panel: their upper edges."""
    words(ax, 0, top - 4.6, name, fontsize=9, fontweight="bold")
    memory, shared, products = top, top + 8.6, top + 17.2
    for y, level in ((memory, "main memory"), (shared, "shared\nmemory"), (products, "tensor cores,\nregisters")):
        words(ax, LEFT - 1, y + HIGH / 2, level, ha="right")
    return memory, shared, products


def first_layer(ax, memory, shared, products):
    """The 3 x 3, up to its finished tile."""
    tensor(ax, 14, memory, NARROW, X, "x")
    piece(ax, 14, shared, 8, X, "halo tile")
    piece(ax, 15, products, 14, "white", "9 taps × 64 filters,\nfinished, rounded")
    piece(ax, 26, shared, 8, BETWEEN, "a tile of 64\nchannels")
    way(ax, (17, memory + HIGH), (17, shared))
    way(ax, (18, shared + HIGH), (18, products))
    way(ax, (27.5, products), (27.5, shared + HIGH))


def second_layer(ax, memory, shared, products, start, text):
    """The 1 x 1, whose products begin at column `start`."""
    tensor(ax, 49, memory, WIDE, RESIDUAL, "residual")
    tensor(ax, 75.5, memory, WIDE, Y, "y")
    piece(ax, start, products, 66 - start, "white", text + ",\nfinished, rounded")
    for i in range(4):
        piece(ax, 60 + 7 * i, shared, 5.6, Y, f"{64 * i} to\n{64 * i + 63}")
    way(ax, (61, memory + HIGH), (61, shared))
    ax.plot([66, 84], [products + HIGH / 2] * 2, color=style.BLACK, linewidth=1.1)
    for i in range(1, 4):
        way(ax, (62.8 + 7 * i, products + HIGH / 2), (62.8 + 7 * i, shared + HIGH))
    way(ax, (62.8, products), (62.8, shared + HIGH))
    way(ax, (84, shared), (84, memory + HIGH))


def chain(_):
    title = "Two layers, two trips through memory, or none"
    subtitle = ("A 3 × 3 from 64 to 64 channels, and the 1 × 1 to 256 channels behind it, with a residual. In memory whole tensors, as wide as they have bytes;\n"
                "below one tile of them.")
    fig, ax = canvas(5.2, 100, 62, title, subtitle, DRAWN + " 256 images of 56 × 56 pixels in fp16. Filters are not drawn.")

    memory, shared, products = rows(ax, 6.4, "two kernels, 07b and 07a")
    first_layer(ax, memory, shared, products)
    tensor(ax, 34, memory, NARROW, BETWEEN, "between")
    piece(ax, 42, shared, 8, BETWEEN, "the tile,\nagain")
    way(ax, (33, shared), (35.5, memory + HIGH), style.RED)
    way(ax, (38.5, memory + HIGH), (43.5, shared), style.RED)
    words(ax, 37, shared + 6.8, "written and read:\n206 MB, a launch", ha="center", color=style.RED, fontsize=7.5)
    way(ax, (46, shared + HIGH), (46, products))
    second_layer(ax, memory, shared, products, 44, "256 filters")

    memory, shared, products = rows(ax, 39, "one kernel, 07d")
    first_layer(ax, memory, shared, products)
    way(ax, (32.5, shared + HIGH), (32.5, products))
    words(ax, 36, shared + HIGH / 2, "stays, in a place of its own", fontsize=7.5)
    second_layer(ax, memory, shared, products, 31, "4 times 64 filters")
    return fig, title


def bottleneck(_):
    title = "Each layer is a step behind the one before it"
    subtitle = ("The first steps of a strip at an image's upper edge. A step is two rows; arrows: what the two rows of a step are made from.")
    fig, ax = canvas(3.3, 100, 38, title, subtitle, DRAWN + " Steps are drawn equally long; a lane that is done waits for the one behind it.")
    lanes = ("copy engine:\nrows of x", "first warpgroup:\n1 × 1, narrow rows", "second warpgroup:\n3 × 3", "third warpgroup:\n1 × 1, wide rows,\n+ x")
    step, wide, high, left = 11.5, 9.4, HIGH, 18
    at = lambda lane, turn: (left + turn * step, 3 + lane * 9.4)
    for lane, text in enumerate(lanes):
        words(ax, left - 1.6, at(lane, 0)[1] + high / 2, text, ha="right")
    for s in range(5):  # the two upper lanes: rows 2 s - 1 and 2 s
        for lane, fill in ((0, X), (1, BETWEEN)):
            x, y = at(lane, s + lane)
            piece(ax, x, y, wide, fill, f"{2 * s - 1}, {2 * s}" if s else "0")
        way(ax, (at(0, s)[0] + wide - 1, at(0, s)[1] + high), (at(1, s + 1)[0] + 1, at(1, 0)[1]))
    for s in range(3):  # the two lower ones: rows 2 s and 2 s + 1
        for lane, fill in ((2, RESIDUAL), (3, Y)):
            x, y = at(lane, s + lane + 1)
            piece(ax, x, y, wide, fill, f"{2 * s}, {2 * s + 1}")
        for back, start in ((2, 4), (1, wide - 1)):
            way(ax, (at(1, s + 3 - back)[0] + start, at(1, 0)[1] + high), (at(2, s + 3)[0] + 3 - back, at(2, 0)[1]))
        way(ax, (at(2, s + 3)[0] + wide - 1, at(2, 0)[1] + high), (at(3, s + 4)[0] + 1, at(3, 0)[1]))
    return fig, title


FIGURES = {"07-chain": (chain, []), "07-bottleneck": (bottleneck, [])}
