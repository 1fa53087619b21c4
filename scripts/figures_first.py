"""The figures of docs/06_first_layers.md."""

import plot_style as style
from figures_gpu import box, canvas
from figures_step06 import bracket, words
from figures_steps import DRAWN

COLOURS = (style.SKY, style.ORANGE, style.GREEN, style.PURPLE, style.YELLOW)  # of pairs, and of groups, in turn
CELL, CHANNELS, LEFT_PAD = 1.28, 4, 3  # a half; of a pixel once it is in a pair; pixels before column 0
PAIR = 2 * CHANNELS * CELL


def colour_of(number):
    return COLOURS[number % len(COLOURS)]


def pixels_as_pairs(ax, left, top, pairs):
    """A row of x as it lies, and under it the same row as pairs."""
    words(ax, 0, top + CELL / 2, "a row of x", fontsize=9, fontweight="bold")
    for pixel in range(2 * pairs - LEFT_PAD):
        x = left + pixel * 3 * CELL
        for channel in range(3):
            box(ax, x + channel * CELL, top, CELL, CELL, fill=colour_of((pixel + LEFT_PAD) // 2) + "90", line=0.4)
        ax.text(x + 1.5 * CELL, top - 1.1, str(pixel), fontsize=7, ha="center", va="center")
    words(ax, left + 44, top + CELL / 2, "3 channels, 6 bytes a pixel: no box of the copy engine,\nno row of a core matrix", fontsize=7.5)
    top += 6
    words(ax, 0, top + CELL / 2, "the same as pairs", fontsize=9, fontweight="bold")
    for pair in range(pairs):
        x = left + pair * PAIR
        for half in range(2 * CHANNELS):
            pixel = 2 * pair + half // CHANNELS - LEFT_PAD
            real = pixel >= 0 and half % CHANNELS < 3
            box(ax, x + half * CELL, top, CELL, CELL, fill=colour_of(pair) + "90" if real else style.PALE, line=0.4)
        for side in range(2):
            ax.text(x + (side + 0.5) * CHANNELS * CELL, top - 1.1, str(2 * pair + side - LEFT_PAD), fontsize=7, ha="center", va="center")
        box(ax, x, top, PAIR, CELL, fill="none", line=1.5)
    return top + CELL


def windows_of(ax, left, top):
    """The windows of three results, under the row of pairs."""
    for result in range(3):
        y = top + 1.6 + result * 2.6
        words(ax, 0, y + 0.8, f"window of result {result}", fontsize=8)
        for i in range(4):
            pair = result + i
            for side in range(2):
                last = i == 3 and side == 1
                box(ax, left + (pair + side / 2) * PAIR, y, PAIR / 2, 1.6, fill="white" if last else colour_of(pair) + "60", line=0.4)
                if last:
                    ax.text(left + (pair + 0.75) * PAIR, y + 0.8, "× 0", fontsize=7, ha="center", va="center")
            ax.text(left + (pair + 0.25) * PAIR, y + 0.8, f"pair {pair}", fontsize=7, ha="center", va="center")


def matrix_of(ax, left, top, results):
    """Matrix b of the first product: a row for each result, two pieces of 16 bytes."""
    width, height = 7.5, 2
    words(ax, left, top - 4.6, "Matrix b of the first product", fontsize=9, fontweight="bold")
    for i, name in enumerate(("k 0..7", "k 8..15")):
        ax.text(left + 9 + (i + 0.5) * width, top - 1.4, name, fontsize=7.5, ha="center", va="center")
    for result in range(results):
        words(ax, left + 8.3, top + (result + 0.5) * height, f"result {result}", fontsize=7.5, ha="right")
        for i in range(2):
            pair = result + i
            box(ax, left + 9 + i * width, top + result * height, width, height, fill=colour_of(pair) + "60", line=0.5)
            ax.text(left + 9 + (i + 0.5) * width, top + (result + 0.5) * height, f"pair {pair}", fontsize=7.5, ha="center", va="center")


def memory_of(ax, left, top, pairs):
    """Where those pieces lie: the row of pairs, 16 bytes each, and what two fields of the descriptor skip."""
    cell = 5.6
    words(ax, left, top - 7.6, "In shared memory the row of pairs, 16 bytes each", fontsize=9, fontweight="bold")
    for pair in range(pairs):
        box(ax, left + pair * cell, top, cell, 2.2, fill=colour_of(pair) + "60", line=0.5)
        ax.text(left + (pair + 0.5) * cell, top + 1.1, str(pair), fontsize=7.5, ha="center", va="center")
    bracket(ax, left + 0.15, left + 8 * cell - 0.15, top - 1.2, 0.8)
    words(ax, left + 0.3, top - 2.9, "k 0..7 of results 0 to 7: 128 bytes, a core matrix", fontsize=7.5)
    bracket(ax, left + cell + 0.15, left + 9 * cell - 0.15, top + 3.4, -0.8)
    words(ax, left + cell + 0.3, top + 5.1, "k 8..15 of the same results: one that overlaps it", fontsize=7.5)
    fields = (("start", "the first result's pair. Second product: two pairs further on; next filter row: a row of pairs"),
              ("LBO", "16 bytes: from k 0..7 to k 8..15 is one pair"),
              ("SBO", "128 bytes: from results 0..7 to results 8..15 are eight pairs"),
              ("swizzle", "none"))
    for i, (name, meaning) in enumerate(fields):
        y = top + 8.6 + i * 2.2
        words(ax, left, y, name, fontsize=8, fontweight="bold")
        words(ax, left + 6.5, y, meaning, fontsize=7.5)


def pairs_figure(_):
    title = "Pixels of three channels become pairs, and windows share them"
    subtitle = "7 columns, stride 2, padding 3. A colour is a pair of pixels. Grey: zeros beside channels and image. White: read, multiplied by zero."
    fig, ax = canvas(4.15, 100, 49.5, title, subtitle, DRAWN + " Kernel 06s; one filter row of seven. A pair is 16 bytes: 2 pixels of 4 halves.")
    left = 19
    windows_of(ax, left, pixels_as_pairs(ax, left, 3, 7))
    matrix_of(ax, 0, 30, 8)
    memory_of(ax, 32, 33, 12)
    return fig, title


# ---------------------------------------------------------------- groups

WIDE, GROUP, SMALL = 64, 4, 0.52  # of a tap's matrix; channels of a group; a number


def stripes(ax, left, top, width):
    """64 channels of several pixels, by groups."""
    for group in range(WIDE // GROUP):
        box(ax, left, top + group * GROUP * SMALL, width, GROUP * SMALL, fill=colour_of(group) + "70", line=0.3)


def groups_figure(_):
    title = "16 groups of 4 channels and 4 filters in one tap of 64 × 64"
    subtitle = "A colour is a group. White: zeros, which are multiplied as well. Framed: group 5, its filters, its channels and its results."
    fig, ax = canvas(3.85, 100, 46, title, subtitle, DRAWN + " Kernel 06u, a layer of ResNeXt: 4 channels a group. Another tap has another matrix a, and b begins at another row (06g).")
    top, a, b, d, size = 6.5, 9, 52, 76, WIDE * SMALL
    words(ax, a + size / 2, top - 4.6, "a: a tap's filters", ha="center", fontsize=9, fontweight="bold")
    words(ax, a + size / 2, top - 2.2, "64 channels", ha="center")
    words(ax, a - 1, top + size / 2, "64 filters", ha="right")
    box(ax, a, top, size, size, line=0.9)
    for group in range(WIDE // GROUP):
        at = group * GROUP * SMALL
        box(ax, a + at, top + at, GROUP * SMALL, GROUP * SMALL, fill=colour_of(group) + "c0", line=0.5)
    for step in range(1, 4):
        ax.plot([a + step * 16 * SMALL] * 2, [top, top + size], color=style.GREY, linewidth=0.7, linestyle=(0, (3, 3)))
    bracket(ax, a + 0.1, a + 16 * SMALL - 0.1, top + size + 1.4, -0.8)
    words(ax, a, top + size + 3.2, "16 channels: one product, 64 × N × 16; four a tap")
    words(ax, (a + size + b) / 2, top + size / 2, "×", ha="center", fontsize=12)
    words(ax, b + 8.5, top - 4.6, "b: pixels under the tap", ha="center", fontsize=9, fontweight="bold")
    words(ax, b + 8.5, top - 2.2, "N of them, 64 channels each", ha="center")
    stripes(ax, b, top, 17)
    words(ax, (b + 17 + d) / 2, top + size / 2, "=", ha="center", fontsize=12)
    words(ax, d + 8.5, top - 4.6, "y", ha="center", fontsize=9, fontweight="bold")
    words(ax, d + 8.5, top - 2.2, "64 filters of N results", ha="center")
    stripes(ax, d, top, 17)
    at = 5 * GROUP * SMALL
    box(ax, a + at, top + at, GROUP * SMALL, GROUP * SMALL, fill="none", line=2)
    for left in (b, d):
        box(ax, left, top + at, 17, GROUP * SMALL, fill="none", line=2)
    words(ax, b, top + size + 3.2, "Of the 4096 numbers of a tap 256 are filters: 1 in 16.\nGroups of 8: 1 in 8; of 16: 1 in 4; of 32: 1 in 2.")
    return fig, title


FIGURES = {"06-pairs": (pairs_figure, []), "06-groups": (groups_figure, [])}
