"""The figures of step 05's chapters."""

import csv

import plot_data as data
import plot_style as style
from matplotlib.patches import Rectangle

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
    subtitle = "Sky: windows of x, one a column (never written from 05b on). Orange: filters, one a row. Green: y. Framed: the result. ᵀ: transposed."
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
    matrix(ax, 60, 18, terms, 13, X, "windowsᵀ", filters, columns)

    matrix(ax, 11, 36.5, pixels, terms, X, "gradient of the windows", columns, filters)
    box(ax, 11, 36.5, pixels, terms, fill="none", line=2.2)
    matrix(ax, 43.5, 36.5, 7, terms, W, "wᵀ", result, filters)
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


def lanes(_):
    title = "05c to 05g: whose sums are whose in a warp's tile"
    subtitle = "32 filters x 64 pixels. A square: a quad of 4 x 4 sums, and the lane that has it. Every lane has four. Framed: lanes 0 and 19.".replace(" x ", " × ")
    fig, ax = canvas(3.9, 100, 43, title, subtitle, DRAWN + " tile_row() and tile_col() in 05_im2col_gemm/tile.h.")
    wide, high, left, top = 3.3, 3.6, 9, 8
    box(ax, left, top - 2.6, 16 * wide, 1.8, fill=X, line=0.6)
    box(ax, left - 2.4, top, 1.6, 8 * high, fill=W, line=0.6)
    ax.text(left + 8 * wide, top - 3.3, "64 pixels of one element of the reduction", fontsize=8, ha="center", va="bottom")
    ax.text(left - 4.2, top + 4 * high, "32 filters of it", fontsize=8, ha="center", va="center", rotation=90)
    mine = {0: style.RED, 19: style.BLUE}
    for lane in range(32):
        row, col = (lane >> 1 & 1) | (lane >> 3 & 2), (lane & 1) | (lane >> 1 & 6)
        for i in (0, 4):
            for j in (0, 8):
                x, y = left + (col + j) * wide, top + (row + i) * high
                box(ax, x, y, wide, high, fill=Y + "50" if lane not in mine else mine[lane] + "50", line=0.4)
                ax.text(x + wide / 2, y + high / 2, str(lane), fontsize=7.5, ha="center", va="center", fontweight="bold" if lane in mine else "normal")
    for lane, color in mine.items():
        row, col = (lane >> 1 & 1) | (lane >> 3 & 2), (lane & 1) | (lane >> 1 & 6)
        for i in (0, 4):
            for j in (0, 8):
                ax.add_patch(Rectangle((left + (col + j) * wide, top + (row + i) * high), wide, high, facecolor="none", edgecolor=color, linewidth=2))
    x = 67
    ax.text(x, 7, "A lane's number, bit by bit", fontsize=9, fontweight="bold", va="center")
    for k, (bit, where) in enumerate(((4, "down"), (3, "across"), (2, "across"), (1, "down"), (0, "across"))):
        box(ax, x + 6 * k, 9.5, 6, 4, fill=(W if where == "down" else X) + "90", line=0.6)
        ax.text(x + 6 * k + 3, 10.8, str(bit), fontsize=8.5, ha="center", va="center")
        ax.text(x + 6 * k + 3, 12.6, where, fontsize=7, ha="center", va="center")
    ax.text(x, 20.3, "19 = 10011: down 11 = 3, across 001 = 1", fontsize=8, va="center")
    ax.text(x, 28.6, "A vectorized load brings 16 bytes a lane.\nPixels: 8 places across, 128 bytes.\nFilters: 4 places down, 64 bytes.\nLanes that differ in bit 0 want the same\nfilters, in bit 1 the same pixels: so a\nload takes two passes, not four.", fontsize=8, va="center", linespacing=1.45)
    return fig, title


def rounds(_):
    title = "Six tiles for four resident blocks: three ways to share the work"
    subtitle = "Across: time, in tiles. A row: room for one block. Hatched: what is added up afterwards. White: nothing to do."
    fig, ax = canvas(4.2, 100, 47, title, subtitle, DRAWN + " Toy sizes; beginnings and ends of blocks are left out.")
    colors = [style.ORANGE, style.SKY, style.GREEN, style.YELLOW, style.PURPLE, style.RED]
    unit, high, left = 31, 2.9, 27

    def panel(top, name, note, pieces, end, adds):
        ax.text(1, top + 1.2, name, fontsize=9, fontweight="bold", va="center")
        ax.text(1, top + 6.9, note, fontsize=8, va="center", linespacing=1.4)
        for row in range(4):
            box(ax, left, top + row * high, 2 * unit, high, line=0.4)
        for row, begin, length, tile, words in pieces:
            box(ax, left + begin * unit, top + row * high, length * unit, high, fill=colors[tile] + "90", line=0.6)
            ax.text(left + (begin + length / 2) * unit, top + (row + 0.5) * high, words, fontsize=7.5, ha="center", va="center")
        if adds:
            ax.add_patch(Rectangle((left + end * unit, top), adds * unit, 4 * high, facecolor=style.PALE, edgecolor=style.BLACK, linewidth=0.6, hatch="////"))
        ax.text(left + 2 * unit + 1.2, top + 2 * high, f"{end + adds:.2g}" if not adds else f"{end:.2g} + adding", fontsize=8.5, va="center")

    panel(2, "A block a tile", "the last round is half\nempty", [(t % 4, t // 4, 1, t, f"tile {t}") for t in range(6)], 2, 0)
    panel(18, "Split-K (05f)", "every tile in two slices:\n12 partial sums are written,\nread and added",
          [(u % 4, u // 4 * 0.5, 0.5, u // 2, f"tile {u // 2}, {'first' if u % 2 == 0 else 'second'}") for u in range(12)], 1.5, 0.2)
    panel(34, "Stream-K (05g)", "persistent blocks; only the\nlast two tiles are cut:\n4 partial sums",
          [(t, 0.5, 1, t, f"tile {t}") for t in range(4)] + [(b, 0, 0.5, 4 + b // 2, f"tile {4 + b // 2}, {'first' if b % 2 == 0 else 'second'}") for b in range(4)], 1.5, 0.08)
    return fig, title


PROFILES = {"dgrad": ("05i",), "dgrad-first": ("05j",), "wgrad": ("05k.1",), "fprop": ("05a.2", "05b", "05c", "05d", "05e", "05f", "05g", "05m.2")}


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def clocks(results):
    """Shares of a scheduler's clocks: multiply-adds, other instructions, second clocks of register conflicts, nothing."""
    bank = {(row["kernel"], row["function"]): int(row["two_in_one_bank"]) / int(row["ffma"]) for row in rows_of(results / "banks-05.csv")}
    bars, gpu = {}, ""
    for profile, kernels in PROFILES.items():
        for row in rows_of(results / f"profile-05-{profile}.csv"):
            if row["kernel"] in kernels and row["metric"] in ("issue slots", "fp32 multiply-adds"):
                function = row["launch"].replace(", 0>", ", false>").replace(", 1>", ", true>")
                bars.setdefault(row["kernel"], {"bank": bank[row["kernel"].split(".")[0], function]})[row["metric"]] = float(row["value"])
                gpu = row["gpu"]
    title = "In the kernels whose copies run ahead, register conflicts could be what is left"
    subtitle = "A scheduler's clocks while there is work. Hatched: a clock more for each multiply-add that reads two registers of one bank."
    fig, top, bottom = style.figure(3.3, title, subtitle, f"{gpu}: ncu's counters (docs/results, profile-05-*.csv) and machine code (banks-05.csv). The hatched part is computed, not measured.")
    ax = style.panel(fig, 0.75, style.WIDTH - 1.5, top - 0.01, bottom + 0.09)
    names = sorted(bars)
    for i, name in enumerate(names):
        bar = bars[name]
        adds, issued = bar["fp32 multiply-adds"], bar["issue slots"]
        second = adds * bar["bank"]
        ax.barh(i, adds, color=style.GREEN, edgecolor=style.BLACK, linewidth=0.5, height=0.72)
        ax.barh(i, issued - adds, left=adds, color=style.SKY, edgecolor=style.BLACK, linewidth=0.5, height=0.72)
        ax.barh(i, second, left=issued, color=style.ORANGE, edgecolor=style.BLACK, linewidth=0.5, height=0.72, hatch="////")
        ax.barh(i, 100 - issued - second, left=issued + second, color="white", edgecolor=style.GREY, linewidth=0.5, height=0.72)
        ax.text(adds / 2, i, f"{adds:.0f}", fontsize=8, ha="center", va="center")
        style.beside(ax, 0.1, i, f"{issued + second:.0f} %", fontsize=8)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlim(0, 100)
    ax.set_xlabel("% of the clocks")
    style.beside(ax, 0.1, -0.85, "started, and second", fontsize=7.5)
    for k, (x, text, color, hatch) in enumerate(((0, "multiply-adds", style.GREEN, ""), (18, "other instructions", style.SKY, ""), (41, "second clocks of conflicts", style.ORANGE, "////"), (71, "nothing starts", "white", ""))):
        ax.add_patch(Rectangle((x, -1.12), 2.4, 0.5, facecolor=color, edgecolor=style.BLACK, linewidth=0.5, hatch=hatch, clip_on=False))
        ax.text(x + 3.2, -0.87, text, fontsize=8, va="center")
    return fig, title


FIGURES = {
    "05-clocks": (clocks, ["banks-05", *(f"profile-05-{name}" for name in sorted(PROFILES))]),
    "05-classes": (classes, []), "05-hierarchy": (hierarchy, []), "05-lanes": (lanes, []), "05-products": (products, []), "05-rounds": (rounds, []), "05-winograd": (winograd, [])
}
