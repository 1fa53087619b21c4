"""The figures of docs/06_depthwise.md, and of the classes in docs/06_training.md."""


import plot_style as style
from figures_gpu import box, canvas
from figures_steps import DRAWN

X, W, Y, NOTHING = style.SKY, style.ORANGE, style.GREEN, style.PALE
CELL = 1.9
SIZE, TILE, TILES, COLUMNS = 7, 7, 16, 8  # the filter; columns of a tile; the rows and columns of an mma's result


def grid(ax, x, y, rows, columns, fill, text=None, frame=None):
    """Cells; fill(i, j): a colour, text(i, j): what stands inside. frame: (first row, first column, rows, columns), drawn thick."""
    for i in range(rows):
        for j in range(columns):
            box(ax, x + j * CELL, y + i * CELL, CELL, CELL, fill=fill(i, j), line=0.4)
            if text and text(i, j):
                ax.text(x + (j + 0.5) * CELL, y + (i + 0.5) * CELL, text(i, j), fontsize=6.5, ha="center", va="center")
    if frame:
        i, j, high, wide = frame
        box(ax, x + j * CELL, y + i * CELL, wide * CELL, high * CELL, fill="none", line=2.2)


def words(ax, x, y, text, **more):
    ax.text(x, y, text, **{"fontsize": 8, "va": "center", "linespacing": 1.35, **more})


def bracket(ax, left, right, y, tick):
    ax.plot([left, left, right, right], [y + tick, y, y, y + tick], color=style.BLACK, linewidth=1)


def toeplitz(_):
    title = "A filter row of 7 taps as a product with a banded matrix"
    subtitle = "One channel and one row of the image. Framed: the pixels under one tile, the taps of one output, and that output, which is their product."
    fig, ax = canvas(5.5, 100, 64.5, title, subtitle, DRAWN + " Kernels 06p and 06q, 7 × 7 filters, stride 1; instruction mma.sync m16n8k16.")

    left, top, count = 22, 5.2, 30  # a row of the image, from column -3 on
    words(ax, 0, top + CELL / 2, "a row of x", fontsize=9, fontweight="bold")
    grid(ax, left, top, 1, count, lambda i, j: NOTHING if j < 3 else X + "90", lambda i, j: "" if j < 3 else str(j - 3))
    for tile, y in ((0, top - 1.0), (1, top - 2.9)):
        first = left + tile * TILE * CELL
        bracket(ax, first, first + (TILE + SIZE - 1) * CELL, y, 0.8)
        words(ax, first + 0.4 if tile == 0 else first + (TILE + SIZE - 1) * CELL - 0.4, y - 0.9, f"13 under tile {tile}", ha="left" if tile == 0 else "right")
    words(ax, left - 0.8, top + CELL / 2, "padding", ha="right", fontsize=7.5)
    words(ax, 0, top + 5.2, "the same row of y", fontsize=9, fontweight="bold")
    for j in range(21):
        box(ax, left + (j + 3) * CELL, top + 4.2, CELL, CELL, fill=Y + "90" if j // TILE % 2 == 0 else Y + "40", line=0.4)
        ax.text(left + (j + 3.5) * CELL, top + 4.2 + CELL / 2, str(j), fontsize=6.5, ha="center", va="center")
    for tile in range(3):
        words(ax, left + (3 + tile * TILE + TILE / 2) * CELL, top + 7.2, f"tile {tile}: {TILE} outputs", ha="center")

    top, a, t, d, row, column = 24, 10, 48, 72, 1, 2
    words(ax, a + 8 * CELL, top - 4.4, "A: pixels", ha="center", fontsize=9, fontweight="bold")
    words(ax, a + 8 * CELL, top - 1.7, "16 columns from a tile's first on", ha="center")
    grid(ax, a, top, TILES, 16, lambda i, j: X + "90" if j < TILE + SIZE - 1 else NOTHING, frame=(row, 0, 1, 16))
    for i in range(TILES):
        words(ax, a - 0.8, top + (i + 0.5) * CELL, f"tile {i}", ha="right", fontsize=7.5)
    words(ax, (a + 16 * CELL + t) / 2, top + 8 * CELL, "×", ha="center", fontsize=12)

    def tap(i, j):
        return f"w{i - j}" if j < TILE and 0 <= i - j < SIZE else ""

    words(ax, t + 4 * CELL, top - 4.4, "T: a filter row, 7 times", ha="center", fontsize=9, fontweight="bold")
    words(ax, t + 4 * CELL, top - 1.7, "an output's taps below one another", ha="center")
    grid(ax, t, top, 16, COLUMNS, lambda i, j: W + "90" if tap(i, j) else "white", tap, frame=(0, column, 16, 1))
    words(ax, (t + COLUMNS * CELL + d) / 2, top + 8 * CELL, "=", ha="center", fontsize=12)

    words(ax, d + 4 * CELL, top - 4.4, "D: sums", ha="center", fontsize=9, fontweight="bold")
    words(ax, d + 4 * CELL, top - 1.7, "7 columns of a row of y", ha="center")
    grid(ax, d, top, TILES, COLUMNS, lambda i, j: Y + "90" if j < TILE else NOTHING, frame=(row, column, 1, 1))
    words(ax, d + COLUMNS * CELL + 0.8, top + (row + 0.5) * CELL, "column 9 of y,\ntaps of one\nfilter row", fontsize=7.5)

    words(ax, a, top + 16 * CELL + 3.4, "Grey columns are there and not used. White: zeros of T. Of the 2048 products of the instruction 16 · 7 · 7 = 784 are wanted.")
    words(ax, a, top + 16 * CELL + 6.4, "A row of x is multiplied by the T of each of the 7 filter rows, into the sums of 7 rows of y. The next row of x is another A; T stays put.")
    return fig, title


def diagonal(_):
    title = "wgrad: two diagonals of a product"
    subtitle = "16 pixels and 8 channels. Framed: one channel of dy, the same channel of x, and what they add to a tap of that channel's filter."
    fig, ax = canvas(4.2, 100, 49, title, subtitle, DRAWN + " Kernel 06r; instruction mma.sync m16n8k16.")
    top, a, t, d, channel = 8, 10, 48, 72, 2
    words(ax, a + 8 * CELL, top - 4.4, "dy, transposed", ha="center", fontsize=9, fontweight="bold")
    words(ax, a + 8 * CELL, top - 1.7, "16 pixels side by side", ha="center")
    grid(ax, a, top, 16, 16, lambda i, j: Y + ("90" if i < 8 else "40"), frame=(channel, 0, 1, 16))
    for i, text in ((0, "row p"), (8, "row p − 1")):
        words(ax, a - 0.8, top + (i + 4) * CELL, f"{text},\n8 channels", ha="right", fontsize=7.5)
    words(ax, (a + 16 * CELL + t) / 2, top + 8 * CELL, "×", ha="center", fontsize=12)
    words(ax, t + 4 * CELL, top - 4.4, "x, a row, moved by s", ha="center", fontsize=9, fontweight="bold")
    words(ax, t + 4 * CELL, top - 1.7, "8 channels", ha="center")
    grid(ax, t, top, 16, 8, lambda i, j: X + "90", frame=(0, channel, 16, 1))
    words(ax, (t + 8 * CELL + d) / 2, top + 8 * CELL, "=", ha="center", fontsize=12)
    words(ax, d + 4 * CELL, top - 4.4, "sums", ha="center", fontsize=9, fontweight="bold")
    words(ax, d + 4 * CELL, top - 1.7, "8 channels", ha="center")
    grid(ax, d, top, 16, 8, lambda i, j: W if i % 8 == j else "white", frame=(channel, channel, 1, 1))
    for i, tap in ((0, "r"), (8, "r + 1")):
        words(ax, d + 8 * CELL + 0.8, top + (i + 4) * CELL, f"dw[{tap}][s]", fontsize=8)
    words(ax, a, top + 16 * CELL + 3.4, "White: a channel of dy times another channel of x. Computed, added up, and thrown away: 112 of 128 sums.")
    words(ax, a, top + 16 * CELL + 6.4, "A lane keeps its 4 of the 128 sums for the whole walk. The diagonals are picked out once, at the end.")
    return fig, title


# ---------------------------------------------------------------- drawn: 06k's residue classes

# Of a 3 x 3 filter, stride 2, padding 1: the class's name, its rows' and columns' residues, its colour; {(row, column) of dy: tap} of its first pixel.
CLASSES = (
    ("A", 0, 0, style.ORANGE, {(0, 0): "w11"}),
    ("b", 0, 1, style.SKY, {(0, 0): "w12", (0, 1): "w10"}),
    ("c", 1, 0, style.GREEN, {(0, 0): "w21", (1, 0): "w01"}),
    ("D", 1, 1, style.PURPLE, {(0, 0): "w22", (0, 1): "w20", (1, 0): "w02", (1, 1): "w00"}),
)


def residues(_):
    title = "A stride of 2 in dgrad: four convolutions of dy with stride 1"
    subtitle = "3 × 3 filter, padding 1. Left: the pixels of dx, by the residues of row and column. Right: a class as a convolution of its own;\nframed, its first pixel, and the pixels of dy that this one needs, each with its tap."
    fig, ax = canvas(4.15, 100, 43, title, subtitle, DRAWN + " Kernel 06k.")
    left, top, cell = 4, 7.5, 4.4
    words(ax, left + 3 * cell, 1.2, "dx, 6 × 6 pixels", ha="center", fontsize=9, fontweight="bold")
    for i in range(6):
        words(ax, left - 1, top + (i + 0.5) * cell, str(i), ha="right")
        words(ax, left + (i + 0.5) * cell, top - 1.8, str(i), ha="center")
        for j in range(6):
            name, _, _, colour, _ = CLASSES[2 * (i % 2) + j % 2]
            box(ax, left + j * cell, top + i * cell, cell, cell, fill=colour + "80", line=2.2 if i < 2 and j < 2 else 0.5)
            words(ax, left + (j + 0.5) * cell, top + (i + 0.5) * cell, name, ha="center", fontsize=9, fontweight="bold" if i < 2 and j < 2 else "normal")
    words(ax, left, top + 6 * cell + 3.6, "9 products for four pixels: 1 + 2 + 2 + 4.\nWith zeros between dy's pixels: 36.", fontsize=8.5)
    for k, (name, h, w, colour, taps) in enumerate(CLASSES):
        x, y, small = 38 + k % 2 * 32, 5.5 + k // 2 * 20.5, 3.3
        kinds = ("even", "odd")
        words(ax, x, y - 3.4, f"{name}: {kinds[h]} rows, {kinds[w]} columns; {len(taps)} tap{'s' * (len(taps) > 1)}", fontweight="bold")
        words(ax, x + 1.5 * small, y - 0.9, "dy", ha="center")
        words(ax, x + 17.5 + 1.5 * small, y - 0.9, "class of dx", ha="center")
        for i in range(3):
            for j in range(3):
                tap = taps.get((i, j), "")
                box(ax, x + j * small, y + 0.6 + i * small, small, small, fill=colour + "80" if tap else "white", line=2.2 if tap else 0.5)
                words(ax, x + (j + 0.5) * small, y + 0.6 + (i + 0.5) * small, tap, ha="center", fontsize=7.5)
                box(ax, x + 17.5 + j * small, y + 0.6 + i * small, small, small, fill=colour + "80", line=2.2 if i + j == 0 else 0.5)
                words(ax, x + 17.5 + (j + 0.5) * small, y + 0.6 + (i + 0.5) * small, f"{2 * i + h},{2 * j + w}", ha="center", fontsize=7)
        ax.annotate("", xy=(x + 16.2, y + 0.6 + 1.5 * small), xytext=(x + 11.2, y + 0.6 + 1.5 * small), arrowprops={"arrowstyle": "-|>", "color": style.BLACK, "linewidth": 1})
    return fig, title


FIGURES = {"06-diagonal": (diagonal, []), "06-residues": (residues, []), "06-toeplitz": (toeplitz, [])}
