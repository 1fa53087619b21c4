"""The figure of docs/06_window.md."""

import plot_style as style
from figures_gpu import canvas
from figures_step06 import CELL, bracket, grid, words
from figures_steps import DRAWN

IMAGE, HIGH, PITCH = 8, 4, 10  # columns of the image, rows of the tile, columns of its halo tile
FIRST, OTHER, JUNK, PADDING = style.SKY, style.ORANGE, style.PALE, style.PALE


def window(_):
    title = "A tap is the same tile, from another row on"
    subtitle = "A tile of 4 rows of an image 8 pixels wide, with its halo: 6 rows of 10 pixels, in shared memory one row of 64 channels after the other."
    fig, ax = canvas(5.0, 100, 56, title, subtitle, DRAWN + " Kernel 06g, a 3 × 3 filter, padding 1. A cell is a pixel: 64 channels, 128 bytes.")
    rows, count = HIGH + 2, (HIGH - 1) * PITCH + IMAGE  # positions of a product

    def text(i, j):
        return str(i * PITCH + j)

    def edge(i, j):
        return i == 0 or i == rows - 1 or j == 0 or j == PITCH - 1

    left, top = 3, 6
    for k, (row, column, colour, name) in enumerate(((0, 0, FIRST, "tap (0, 0): from row 0 on"), (1, 2, OTHER, "tap (1, 2): from row 1 × 10 + 2"))):
        x, start = left + k * 33, row * PITCH + column

        def fill(i, j, start=start, colour=colour):
            at = i * PITCH + j - start
            if not 0 <= at < count:
                return "white"
            return colour + "b0" if at % PITCH < IMAGE else colour + "38"

        words(ax, x, top - 2.2, name, fontsize=9, fontweight="bold")
        grid(ax, x, top, rows, PITCH, fill, text)
    x = left + 66
    words(ax, x, top - 2.2, "the results", fontsize=9, fontweight="bold")
    grid(ax, x, top, HIGH, PITCH, lambda i, j: style.GREEN + "b0" if j < IMAGE else (JUNK if i < HIGH - 1 else "white"),
         lambda i, j: str(i * PITCH + j) if i * PITCH + j < count else "")
    words(ax, x, top + HIGH * CELL + 3.4, "columns 8 and 9 lie between two\nrows: computed, and not stored", fontsize=8)

    y, cell = 34, 1.5
    words(ax, left, y - 8.2, "In shared memory: pixel after pixel, 128 bytes each", fontsize=9, fontweight="bold")
    grid_width = rows * PITCH
    for i in range(grid_width):
        inside = not edge(i // PITCH, i % PITCH)
        ax.add_patch(style.plt.Rectangle((left + i * cell, y), cell, 2.4, facecolor=style.BLACK + "18" if inside else "white", edgecolor=style.BLACK, linewidth=0.4))
        if i % PITCH == 0:
            words(ax, left + i * cell + 0.1, y + 3.7, str(i), fontsize=7)
    for start, colour, side, name in ((0, FIRST, -1, "38 pixels are matrix b of tap (0, 0)"), (12, OTHER, 1, "38 pixels are matrix b of tap (1, 2): its descriptor begins 12 × 128 bytes further on")):
        line = y - 1.2 if side < 0 else y + 6.6
        bracket(ax, left + start * cell, left + (start + count) * cell, line, 1.0 * -side)
        words(ax, left + start * cell, line + 2.2 * side, name, fontsize=8)
    words(ax, left, y + 14, "White cells of the row above: padding, which the copy engine has filled with zeros.", fontsize=8)
    words(ax, left, y + 18.5, "Loaded: 60 pixels, once. im2col would bring 9 × 32 = 288 of them.\nMultiplied: 9 × 38 positions for 9 × 32 wanted ones, 16 % in vain; with 56 columns, 3.4 %.", fontsize=8)
    return fig, title


FIGURES = {"06-window": (window, [])}
