"""Draws the figures of docs/05_im2col_gemm.md: `make figures`.

    figures_step05.py FOLDER      writes FOLDER/05-*.svg and .png

The same input gives the same bytes. Exit status: 0 all right, 2 with one line on stderr.
"""

import sys
from pathlib import Path

import plot_data as data
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
    title = "05c: who computes what of y's matrix"
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


FIGURES = {"05-hierarchy": hierarchy, "05-products": products}


def main(folder):
    for name, draw in FIGURES.items():
        fig, title = draw(None)
        style.save(fig, Path(folder), name, title, data.source([]))
        print(f"{Path(folder) / name}.svg, .png")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: figures_step05.py FOLDER")
    try:
        main(sys.argv[1])
    except (data.BadInput, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
