"""The figures of docs/05_im2col_gemm.md."""


import plot_style as style
from figures_gpu import box, canvas
from figures_steps import DRAWN, LAYER

X, W, Y = style.SKY, style.ORANGE, style.GREEN


def matrix(ax, x, y, width, height, fill, name, across, down):
    """A matrix with its name inside, what its columns are above and its rows on the left."""
    box(ax, x, y, width, height, fill=fill + "90")
    ax.text(x + width / 2, y + height / 2, name, fontsize=9, fontweight="bold", ha="center", va="center")
    ax.text(x + width / 2, y - 0.9, across, fontsize=7.5, ha="center", va="bottom")
    ax.text(x - 0.7, y + height / 2, down, fontsize=7.5, ha="center", va="center", rotation=90)


def products(_):
    title = "Three passes, three products of the same three matrices"
    subtitle = "Sky: windows of x, one a column (never written from 05b on). Orange: filters, one a row. Green: y. The result of each product is framed."
    fig, ax = canvas(4.3, 100, 49, title, subtitle, DRAWN + f" Sizes: {LAYER}.")
    small, terms, pixels = 5.0, 9.0, 26.0
    columns, filters, result = "N·P·Q", "C·R·S", "K"

    def sign(x, y, text):
        ax.text(x, y, text, fontsize=12, ha="center", va="center")

    for top, name, note in ((9.5, "fprop", "reduction\nC·R·S = 576"), (24.5, "wgrad", "reduction\nN·P·Q = 50176"), (41, "dgrad", "reduction\nK = 128; then a\npixel adds up\nits windows")):
        ax.text(1, top, name, fontsize=10, fontweight="bold", va="center")
        ax.text(86, top, note, fontsize=8, va="center", linespacing=1.4)
        sign({"fprop": 40, "wgrad": 23, "dgrad": 40}[name], top, "=")
        sign({"fprop": 55, "wgrad": 56, "dgrad": 53}[name], top, "×")

    matrix(ax, 11, 7, pixels, small, Y, "y", columns, result)
    box(ax, 11, 7, pixels, small, fill="none", line=2.2)
    matrix(ax, 43.5, 7, terms, small, W, "w", filters, result)
    matrix(ax, 58.5, 5, pixels, terms, X, "windows", columns, filters)

    matrix(ax, 11, 22, terms, small, W, "dw", filters, result)
    box(ax, 11, 22, terms, small, fill="none", line=2.2)
    matrix(ax, 27, 22, pixels, small, Y, "dy", columns, result)
    matrix(ax, 60, 18, terms, 13, X, "windows,\nturned", filters, columns)

    matrix(ax, 11, 36.5, pixels, terms, X, "gradient of the windows", columns, filters)
    box(ax, 11, 36.5, pixels, terms, fill="none", line=2.2)
    matrix(ax, 43.5, 36.5, 7, terms, W, "w,\nturned", result, filters)
    matrix(ax, 58.5, 38.5, pixels, small, Y, "dy", columns, result)
    return fig, title


def hierarchy(_):
    title = "05e: who computes what of y's matrix"
    subtitle = "At one element of the reduction: a column of filters times a row of pixels. What is read is coloured."
    fig, ax = canvas(3.7, 100, 40, title, subtitle, DRAWN)
    parts = (
        (4, "a block", 128, 128, 22, "8 warps; from L2"),
        (40, "a warp", 32, 64, 8, "32 threads; from shared memory"),
        (74, "a thread", 8, 8, 8, "into registers"),
    )
    for left, name, rows, columns, high, note in parts:
        wide, x, y = high * columns / rows, left + 4, 8.5
        ax.text(left, 1.6, name, fontsize=10, fontweight="bold", va="center")
        ax.text(left + 9.5, 1.7, note, fontsize=8, va="center")
        box(ax, x, y - 2.6, wide, 1.8, fill=X, line=0.6)
        box(ax, x - 2.4, y, 1.6, high, fill=W, line=0.6)
        box(ax, x, y, wide, high, fill=Y + "70", line=0.9)
        ax.text(x + wide / 2, y - 2.9, f"{columns} pixels", fontsize=8, ha="center", va="bottom")
        ax.text(x - 2.8, y + high / 2, f"{rows} filters", fontsize=8, ha="right", va="center", rotation=90)
        ax.text(x + wide + 1.2, y + high / 2, f"{rows} × {columns}\nsums", fontsize=8.5, va="center", linespacing=1.3)
        ax.text(left, 35, f"{rows + columns} values, {rows * columns} multiply-adds:\n{rows * columns / (rows + columns):.0f} for each value", fontsize=8.5, va="center", linespacing=1.4)
    for i in range(4):  # the block's eight warps
        for j in range(2):
            box(ax, 8 + 11 * j, 8.5 + 5.5 * i, 11, 5.5, fill="none", line=0.4)
    return fig, title


def classes(_):
    title = "Stride 2: four classes of pixels, 9 products for four pixels"
    subtitle = ("Left: pixels of dx, and in how many windows each lies. A dot: the centre of a window, that is, a pixel of dy. Framed: a window.\n"
                "Right: the taps by which these windows reach the pixel.")
    fig, ax = canvas(4.0, 100, 41, title, subtitle, DRAWN + " 3 × 3 filters, stride 2, pad 1; kernel 05i.")
    colors = {(0, 0): style.ORANGE, (0, 1): style.SKY, (1, 0): style.GREEN, (1, 1): style.PURPLE}
    names = {(0, 0): "even row, even column", (0, 1): "even row, odd column", (1, 0): "odd row, even column", (1, 1): "odd row, odd column"}
    taps = {parity: [(r, s) for r in range(3) for s in range(3) if (parity[0] + 1 - r) % 2 == 0 and (parity[1] + 1 - s) % 2 == 0] for parity in colors}

    cell, left, top, count = 5, 7, 4, 7
    ax.text(left + count * cell / 2, 1, "dx", fontsize=9.5, fontweight="bold", ha="center", va="center")
    for i in range(count):
        ax.text(left - 1, top + (i + 0.5) * cell, str(i), fontsize=7.5, ha="right", va="center")
        ax.text(left + (i + 0.5) * cell, top - 0.5, str(i), fontsize=7.5, ha="center", va="bottom")
        for j in range(count):
            parity = (i % 2, j % 2)
            box(ax, left + j * cell, top + i * cell, cell, cell, fill=colors[parity] + "80", line=0.5)
            ax.text(left + (j + 0.3) * cell, top + (i + 0.5) * cell, str(len(taps[parity])), fontsize=9, ha="center", va="center")
            if parity == (0, 0):
                ax.plot([left + (j + 0.68) * cell], [top + (i + 0.5) * cell], "o", color=style.BLACK, markersize=4.5)
    box(ax, left + 1 * cell, top + 1 * cell, 3 * cell, 3 * cell, fill="none", line=2.2)

    small = 3
    for number, (parity, color) in enumerate(colors.items()):
        x, y = 51 + number % 2 * 25, 6 + number // 2 * 19
        ax.text(x, y - 4.2, names[parity], fontsize=8.5, fontweight="bold", va="center")
        ax.text(x, y - 1.6, f"{len(taps[parity])} of 9 taps", fontsize=8, va="center")
        for r in range(3):
            for s in range(3):
                there = (r, s) in taps[parity]
                box(ax, x + s * small, y + r * small, small, small, fill=color + "80" if there else "white", line=0.6)
                ax.text(x + (s + 0.5) * small, y + (r + 0.5) * small, f"w{r}{s}" if there else "", fontsize=7, ha="center", va="center")
    return fig, title


def winograd(_):
    title = "05m: 4 × 4 outputs of a 3 × 3 filter by 36 products"
    subtitle = "Patches of x and filters are transformed; at each of the 36 points all channels make a matrix product; its result is transformed back."
    fig, ax = canvas(4.3, 100, 46, title, subtitle, DRAWN + " F(4 × 4, 3 × 3), one channel of one tile at the edges, all of them in the middle.")
    cell = 1.9

    def grid(x, y, side, fill):
        for i in range(side):
            for j in range(side):
                box(ax, x + j * cell, y + i * cell, cell, cell, fill=fill, line=0.4)

    def words(x, y, text, **more):
        ax.text(x, y, text, **{"fontsize": 8, "va": "center", "ha": "center", "linespacing": 1.35, **more})

    def arrow(x0, y0, x1, y1):
        ax.annotate("", (x1, y1), (x0, y0), arrowprops={"arrowstyle": "->", "color": style.BLACK, "linewidth": 1})

    def points(x, y, wide, high, fill, name, across, down):
        for i in (3, 2, 1, 0):
            box(ax, x + i * 1.1, y - i * 1.1, wide, high, fill="white", line=0.4)
            box(ax, x + i * 1.1, y - i * 1.1, wide, high, fill=fill + ("90" if i == 0 else "60"), line=0.6)
        words(x + wide / 2, y + high / 2, name, fontsize=10, fontweight="bold")
        words(x + wide / 2, y + high + 1.3, across, fontsize=7.5)
        words(x - 1.1, y + high / 2, down, fontsize=7.5, rotation=90)

    words(8, 1.2, "x", fontsize=9.5, fontweight="bold")
    grid(2.3, 3, 6, X + "70")
    box(ax, 2.3 + cell, 3 + cell, 4 * cell, 4 * cell, fill="none", line=2.2)
    words(8, 17.5, "a patch of 6 × 6 pixels;\nits neighbour begins\n4 columns further")
    words(8, 28, "w", fontsize=9.5, fontweight="bold")
    grid(8 - 1.5 * cell, 30, 3, W + "70")
    words(8, 39, "a filter of 3 × 3 taps\nof this channel")

    arrow(15, 8.7, 27, 12.5)
    words(21.2, 6.2, "sums of\npixels", fontsize=7.5)
    arrow(13, 32.8, 27, 32.8)
    words(20, 30.3, "sums of taps", fontsize=7.5)
    points(31, 9, 18, 8, X, "V", "tiles of all images", "C")
    points(36, 29, 8, 8, W, "U", "C", "K")
    words(40, 41.2, "36 matrices, one for each point", fontsize=8)
    words(53, 22.6, "36 times\nU × V", fontsize=9, fontweight="bold")
    arrow(53, 14.5, 60, 18.5)
    arrow(49, 30.5, 60, 24)
    points(63, 18, 18, 8, Y, "M", "tiles of all images", "K")
    words(72, 31.5, "sums over the channels", fontsize=8)
    arrow(85.5, 20.5, 90, 20.5)
    words(87.5, 17.3, "sums of\npoints", fontsize=7.5)
    words(95, 13.8, "y", fontsize=9.5, fontweight="bold")
    grid(95 - 2 * cell, 16, 4, Y + "70")
    words(94.5, 27.5, "4 × 4 outputs\nof a filter")
    return fig, title


FIGURES = {"05-classes": (classes, []), "05-hierarchy": (hierarchy, []), "05-products": (products, []), "05-winograd": (winograd, [])}
