"""The figures of docs/06_tensorcore_fp16.md: who holds what of an mma, and a swizzle."""

import plot_style as style
from figures_gpu import box, canvas
from figures_step06 import words
from figures_steps import DRAWN

REGISTERS = (style.SKY, style.ORANGE, style.GREEN, style.PURPLE)  # colours of the registers 0 to 3
CELL = 1.95
LANE = 5  # the one that is framed


def holder_a(row, k):
    """Of a [16][16]: the lane, and which of its registers; two neighbours along k are one register."""
    return row % 8 * 4 + k % 8 // 2, row // 8 + k // 8 * 2


def holder_b(k, column):
    """Of b [16][8]: two neighbours along k are one register."""
    return column * 4 + k % 8 // 2, k // 8


def holder_d(row, column):
    """Of d [16][8]: the first register of two, for two neighbours of a row."""
    return row % 8 * 4 + column // 2, row // 8 * 2


def holders(ax, left, top, rows, columns, high, wide, holder):
    """A matrix in cells of high x wide elements, the lane's number in each; the framed lane's last, above its neighbours."""
    framed = []
    for i in range(0, rows, high):
        for j in range(0, columns, wide):
            lane, register = holder(i, j)
            x, y = left + j * CELL, top + i * CELL
            box(ax, x, y, wide * CELL, high * CELL, fill=REGISTERS[register] + "70", line=0.4)
            ax.text(x + wide * CELL / 2, y + high * CELL / 2, str(lane), fontsize=6.8, ha="center", va="center", fontweight="bold" if lane == LANE else "normal")
            if lane == LANE:
                framed.append((x, y))
    for x, y in framed:
        box(ax, x, y, wide * CELL, high * CELL, fill="none", line=2.2)


def named(ax, x, y, register, text):
    box(ax, x, y, 1.8, 1.8, fill=REGISTERS[register] + "70", line=0.4)
    words(ax, x + 2.4, y + 0.9, text, fontsize=7.5)


def fragments(_):
    title = "mma.m16n8k16: which lane holds what"
    subtitle = f"A cell is two neighbours, its number the lane that holds them. Framed: all that lane {LANE} holds. Colours: in which of its registers."
    fig, ax = canvas(4.4, 100, 51.5, title, subtitle, DRAWN + " `make explain-fragment` says the same for any element, any lane.")
    top, a, b, d = 9, 8.5, 49, 74
    for left, columns, name, what in ((a, 16, "A: 16 pixels × 16 channels", "halves; a cell is one register: 2 channels"), (b, 8, "B: 16 channels × 8 filters", "halves; a cell is one register"),
                                      (d, 8, "D: 16 pixels × 8 filters", "floats; a cell is two registers")):
        words(ax, left + columns * CELL / 2, top - 6, name, ha="center", fontsize=9, fontweight="bold")
        words(ax, left + columns * CELL / 2, top - 3.6, what, ha="center", fontsize=7.5)
    holders(ax, a, top, 16, 16, 1, 2, holder_a)
    holders(ax, b, top, 16, 8, 2, 1, holder_b)
    holders(ax, d, top, 16, 8, 1, 2, holder_d)
    for i in (0, 8):
        words(ax, a - 0.8, top + (i + 4) * CELL, f"pixels\n{i}–{i + 7}", ha="right", fontsize=7.5)
        words(ax, b - 0.8, top + (i + 4) * CELL, f"channels\n{i}–{i + 7}", ha="right", fontsize=7.5)
        words(ax, a + (i + 4) * CELL, top - 1.3, f"channels {i}–{i + 7}", ha="center", fontsize=7.5)
        words(ax, d - 0.8, top + (i + 4) * CELL, f"pixels\n{i}–{i + 7}", ha="right", fontsize=7.5)
    for left in (b, d):
        words(ax, left + 4 * CELL, top - 1.3, "filters 0–7", ha="center", fontsize=7.5)
    under = top + 16 * CELL + 1.8
    for i, text in enumerate(("a0", "a1", "a2", "a3")):
        named(ax, a + 7.8 * i, under, i, text)
    for i, text in enumerate(("b0", "b1")):
        named(ax, b + 7.8 * i, under, i, text)
    for i, text in ((0, "d0, d1"), (2, "d2, d3")):
        named(ax, d + 4.5 * i, under, i, text)
    words(ax, 0, under + 5.2, "ldmatrix fills such registers: the lanes 0–7 say where the 8 rows of the first 8 × 8 part begin, 8–15 those of the second, and so on;")
    words(ax, 0, under + 7.8, "each row is 16 bytes, read at once, and each lane receives its two neighbours of each part: a0 to a3 by one instruction.")
    return fig, title


CHUNK = 2  # the one that is read
ROW = 5  # the row that is copied


def stage(ax, left, top, name, place):
    """8 rows of 8 places of 16 bytes; place(row, chunk): where the chunk lies."""
    wide, high = 4.7, 3.0
    words(ax, left + 4 * wide, top - 6.2, name, ha="center", fontsize=9, fontweight="bold")
    for j in range(8):
        words(ax, left + (j + 0.5) * wide, top - 3.4, f"{j}", ha="center", fontsize=7.5)
        words(ax, left + (j + 0.5) * wide, top - 1.3, f"{4 * j}–{4 * j + 3}", ha="center", fontsize=6.5, color=style.GREY)
    for row in range(8):
        for chunk in range(8):
            x, y = left + place(row, chunk) * wide, top + row * high
            box(ax, x, y, wide, high, fill=style.ORANGE + "b0" if chunk == CHUNK else style.SKY + "70" if row == ROW else "white", line=0.4)
            words(ax, x + wide / 2, y + high / 2, f"{row}.{chunk}", ha="center", fontsize=7.2, fontweight="bold" if chunk == CHUNK else "normal")
    return left + 8 * wide, top + 8 * high


def swizzle(_):
    title = "A swizzle, worked by hand: 8 rows of 128 bytes"
    subtitle = f"5.2 is chunk 2 (16 bytes, 8 channels) of row 5. Orange: what one part of ldmatrix reads, chunk {CHUNK} of eight rows.\nBlue: row {ROW}, as eight threads copy it."
    fig, ax = canvas(4.2, 100, 47.5, title, subtitle, DRAWN + " `make explain-swizzle` draws it for other sizes.")
    left, right, top = 9, 56, 7.5
    _, bottom = stage(ax, left, top, "chunk j at place j", lambda row, chunk: chunk)
    stage(ax, right, top, "chunk j of row i at place j XOR i", lambda row, chunk: chunk ^ row % 8)
    words(ax, left - 0.8, top - 3.4, "place", ha="right", fontsize=7.5)
    words(ax, left - 0.8, top - 1.3, "banks", ha="right", fontsize=6.5, color=style.GREY)
    for row in range(8):
        words(ax, left - 0.8, top + (row + 0.5) * 3.0, f"row {row}", ha="right", fontsize=7.5)
    words(ax, left, bottom + 2.2, "eight reads in the same four banks: 8 passes", fontsize=8)
    words(ax, right, bottom + 2.2, "eight reads in eight times four banks: 1 pass", fontsize=8)
    words(ax, 0, bottom + 6.6, "By hand:", fontweight="bold")
    for n, row in enumerate((0, 2, 5)):
        words(ax, 10 + 30 * n, bottom + 6.6, f"row {row}: {CHUNK:03b} XOR {row:03b} = {CHUNK ^ row:03b}, place {CHUNK ^ row}", fontsize=7.5)
    words(ax, 0, bottom + 10, "XOR with one number sends eight different places to eight different places:")
    words(ax, 0, bottom + 12.6, "so a row is still whole (blue: all 32 banks), and the same chunk of eight rows is in all 32 banks, too (orange).")
    return fig, title


FIGURES = {"06-fragments": (fragments, []), "06-swizzle": (swizzle, [])}
