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


# ---------------------------------------------------------------- neighbours

SPAN, TAPS, REACH = 4, 3, 6  # pixels or results of a span; of a filter row; pixels under a span's results
SQUARE, ROW, SPANS = 4.8, 2.4, 3  # 16 numbers; a row of memory; spans of which results are drawn
TAP_COLOURS = (style.YELLOW + "c0", style.BLUE + "80", style.RED + "90")
EXAMPLE = 3  # a result of span 0


def numbers16(ax, x, y, fill, text, width=SQUARE, height=ROW):
    """A pixel's channels, or a result's filters."""
    box(ax, x, y, width, height, fill=fill, line=0.4)
    ax.text(x + width / 2, y + height / 2, text, fontsize=7, ha="center", va="center")


def pixel_at(ax, x, y, pixel, width=SQUARE):
    numbers16(ax, x, y, colour_of(pixel // SPAN + 1) + "90", str(pixel), width)


def row_of_spans(ax, left, top):
    """A row of x from the span before span 0 on."""
    words(ax, 0, top + 0.1, "a row of x", fontsize=9, fontweight="bold")
    words(ax, 0, top + 3.2, "a field is a pixel, 16 channels;\na span is four: 128 bytes", fontsize=7.5)
    for pixel in range(-SPAN, 3 * SPAN):
        pixel_at(ax, left + (pixel + SPAN) * SQUARE, top, pixel)
    for span in range(4):
        x = left + span * SPAN * SQUARE
        bracket(ax, x + 0.2, x + SPAN * SQUARE - 0.2, top - 1.2, 0.8)
        words(ax, x + SPAN / 2 * SQUARE, top - 2.7, f"span {span - 1}", ha="center", fontsize=7.5)
    first = left + (SPAN - 1) * SQUARE
    bracket(ax, first + 0.2, first + REACH * SQUARE - 0.2, top + ROW + 1.2, -0.8)
    words(ax, first + REACH / 2 * SQUARE, top + ROW + 2.8, "under the four results of span 0: six pixels, 96 numbers", ha="center", fontsize=7.5)
    box(ax, first + EXAMPLE * SQUARE, top, TAPS * SQUARE, ROW, fill="none", line=2)


def rows_of_memory(ax, left, top, width=3):
    """The same spans as rows of the tile, and which of them products read."""
    words(ax, 0, top - 7.6, "In shared memory", fontsize=9, fontweight="bold")
    words(ax, 0, top - 5.2, "a row of the tile is a span, 128 bytes")
    for span in range(-1, SPANS + 1):
        y = top + span * ROW
        words(ax, left - 0.8, y + ROW / 2, f"span {span}", fontsize=7.5, ha="right")
        for i in range(SPAN):
            pixel_at(ax, left + i * width, y, span * SPAN + i, width)
    right = left + SPAN * width
    for x, first, name in ((right + 1.5, -1, "0"), (right + 4.5, 0, "1 to 4"), (right + 9.7, 1, "5")):
        begin = top + first * ROW
        ax.plot([x - 0.5, x, x, x - 0.5], [begin + 0.2, begin + 0.2, begin + SPANS * ROW - 0.2, begin + SPANS * ROW - 0.2], color=style.BLACK, linewidth=1)
        words(ax, x + 0.4, begin + SPANS / 2 * ROW, name, fontsize=7.5)
    words(ax, 0, top + 13.6, "product 0: the last column, from the row before on\nproducts 1 to 4: a column each, inside the rows\n"
          "product 5: the first column, from the row after on", fontsize=7.5)


def spans_of_b(ax, left, top):
    """Matrices b of six products, side by side: a row for each span."""
    words(ax, left + REACH / 2 * SQUARE, top - 7.6, "b: a row for each of N spans, here 3", ha="center", fontsize=9, fontweight="bold")
    words(ax, left + REACH / 2 * SQUARE, top - 5.2, "a column of pixels is the b of one product", ha="center")
    words(ax, left - 0.8, top - 1.4, "product", fontsize=7.5, ha="right")
    for span in range(SPANS):
        words(ax, left - 0.8, top + (span + 0.5) * ROW, f"span {span}", fontsize=7.5, ha="right")
    for i in range(REACH):
        ax.text(left + (i + 0.5) * SQUARE, top - 1.4, str(i), fontsize=7.5, ha="center", va="center")
        for span in range(SPANS):
            pixel_at(ax, left + i * SQUARE, top + span * ROW, span * SPAN + i - 1)
    box(ax, left + EXAMPLE * SQUARE, top, TAPS * SQUARE, ROW, fill="none", line=2)


def spans_of_y(ax, left, top):
    middle = left + SPAN / 2 * SQUARE
    words(ax, middle, top - 7.6, "y: a row for each span", ha="center", fontsize=9, fontweight="bold")
    words(ax, middle, top - 5.2, "a field is a result, 16 filters", ha="center")
    for span in range(SPANS):
        for i in range(SPAN):
            numbers16(ax, left + i * SQUARE, top + span * ROW, colour_of(span + 1) + "60", str(span * SPAN + i))
    box(ax, left + EXAMPLE * SQUARE, top, SQUARE, ROW, fill="none", line=2)
    bracket(ax, left + 0.2, left + SPAN * SQUARE - 0.2, top + SPANS * ROW + 1.2, -0.8)
    words(ax, middle, top + SPANS * ROW + 3.7, "4 × 16 = 64 numbers, 128 bytes:\nas they lie in memory", ha="center", fontsize=7.5)


def band_of_a(ax, left, top):
    """The banded matrix of a filter row, its columns under those of b."""
    words(ax, left + REACH / 2 * SQUARE, top - 6, "a: a filter row as a band, 64 × 96", ha="center", fontsize=9, fontweight="bold")
    words(ax, left + REACH / 2 * SQUARE, top - 3.6, "6 pixels of 16 channels", ha="center")
    words(ax, left - 0.8, top - 1.3, "pixel", fontsize=7.5, ha="right")
    box(ax, left, top, REACH * SQUARE, SPAN * SQUARE, line=0.9)
    for i in range(1, REACH):
        ax.plot([left + i * SQUARE] * 2, [top, top + SPAN * SQUARE], color=style.GREY, linewidth=0.7, linestyle=(0, (3, 3)))
    for i in range(REACH):
        ax.text(left + (i + 0.5) * SQUARE, top - 1.3, str(i - 1), fontsize=7.5, ha="center", va="center")
    for result in range(SPAN):
        words(ax, left - 0.8, top + (result + 0.5) * SQUARE, f"result {result}, 16 filters", ha="right", fontsize=7.5)
        for tap in range(TAPS):
            numbers16(ax, left + (result + tap) * SQUARE, top + result * SQUARE, TAP_COLOURS[tap], f"tap {tap}", height=SQUARE)
    box(ax, left + EXAMPLE * SQUARE, top + EXAMPLE * SQUARE, TAPS * SQUARE, SQUARE, fill="none", line=2)
    bracket(ax, left + 0.1, left + SQUARE - 0.1, top + SPAN * SQUARE + 1.4, -0.8)
    words(ax, left, top + SPAN * SQUARE + 3.2, "one product, 64 × N × 16; six a filter row")


def neighbours_figure(_):
    title = "Four neighbouring pixels of 16 channels as one row of 64 numbers"
    subtitle = ("16 channels, 16 filters, 3 × 3, stride 1. A colour of pixels is a span of four. White: zeros, which are multiplied as well.\n"
                "Framed: result 3 of span 0, its three taps, and the pixels under them, the last of which is in the next span.")
    fig, ax = canvas(5.37, 100, 64, title, subtitle, DRAWN + " Kernel 06o, one filter row of three. Another has another matrix a, and b begins at another row (06g).")
    left, y, top, low = 23, 75, 21.5, 39.5
    column = left + (SPAN - 1) * SQUARE
    row_of_spans(ax, left, 4)
    rows_of_memory(ax, 6, top)
    spans_of_b(ax, column, top)
    words(ax, (column + REACH * SQUARE + y) / 2, top + SPANS / 2 * ROW, "× a =", ha="center", fontsize=10)
    spans_of_y(ax, y, top)
    band_of_a(ax, column, low)
    words(ax, 70, low + 1.2, "A number of y is a row of b times a row of a,\nadded up over three filter rows.", fontsize=7.5, va="top")
    words(ax, 70, low + 6, "12 of 24 blocks of a are taps: half.", fontsize=7.5, va="top")
    counts = (("06g", 9, "nine products of 64 × N × 16\nfor N results; 48 of the 64 rows\nare of no filter"), ("06o", 15.2, "eighteen for 4 N results;\nall 64 rows are of a filter"))
    for kernel, down, meaning in counts:
        words(ax, 70, low + down, kernel, fontsize=7.5, fontweight="bold", va="top")
        words(ax, 74, low + down, meaning, fontsize=7.5, va="top")
    return fig, title


FIGURES = {"06-pairs": (pairs_figure, []), "06-groups": (groups_figure, []), "06-neighbours": (neighbours_figure, [])}
