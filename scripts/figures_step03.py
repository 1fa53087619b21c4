"""The figures of docs/03_shared_tiling.md."""

import math

import plot_data as data
import plot_style as style
from figures_gpu import box, canvas
from figures_steps import DRAWN, LAYER, read

PIXELS, FILTERS, SUMS = style.SKY, style.ORANGE, style.GREEN


# ---------------------------------------------------------------- drawn: reads and products of one tap

def reuse(_):
    title = "One tap: what a thread reads, and what it multiplies"
    subtitle = "A filled square is a value read from shared memory (03a's filter: from L1), each cell of a grid one multiply-add whose sum stays in a register."
    fig, ax = canvas(3.3, 100, 38, title, subtitle, DRAWN)
    cell = 2.5
    for left, name, rows, columns, reads in (
            (8, "03a", 1, 1, "2 reads, 1 multiply-add"),
            (38, "03b", 8, 1, "1 pixel, 8 filter values in 2 reads:\n3 reads, 8 multiply-adds"),
            (68, "03c, 03d", 8, 8, "8 pixels, 8 filter values in 2 reads:\n10 reads, 64 multiply-adds")):
        x, y = left + 4, 9
        ax.text(left, 2, name, fontsize=10, fontweight="bold", va="center")
        for j in range(columns):
            box(ax, x + j * cell, y - 3.4, cell, cell, fill=PIXELS, line=0.6)
        for k in range(rows):
            box(ax, x - 3.4, y + k * cell, cell, cell, fill=FILTERS, line=0.6)
            for j in range(columns):
                box(ax, x + j * cell, y + k * cell, cell, cell, fill=SUMS + "70", line=0.6)
        ax.text(x + columns * cell + 0.8, y - 2.2, "pixel" + "s" * (columns > 1), fontsize=8, va="center")
        ax.text(x - 3.4, y + rows * cell + 1.6, "filter value" + "s, one a channel" * (rows > 1), fontsize=8, va="center")
        ax.text(left, 34.5, reads, fontsize=8.5, va="center", linespacing=1.4)
    return fig, title


# ---------------------------------------------------------------- drawn: a block's tile and a thread's

def tile(_):
    title = "03c: what a block of 128 threads has, and what one of its threads"
    subtitle = f"On {LAYER}. For images of up to 16 columns a block is 16 × 8 pixels, and a thread one column of 8."
    fig, ax = canvas(4.0, 100, 45, title, subtitle, DRAWN + " 03d has two buffers of 4 channels in place of one of 8.")
    left, top, wide, high = 7, 6.4, 1.6, 1.5

    def words(x, y, text, **more):
        ax.text(x, y, text, va="center", **{"fontsize": 8.5, "linespacing": 1.4, **more})

    words(left, 1.6, "One input channel: 34 × 6 pixels, the tile's 32 × 4 and their halo", fontweight="bold")
    words(left + 17 * wide, 4.6, "34 columns", ha="center", fontsize=8)
    words(left - 0.8, top + 3 * high, "6 rows", ha="right", fontsize=8)
    for i in range(6):
        for j in range(34):
            inner = 1 <= i <= 4 and 1 <= j <= 32
            mine = inner and (j - 1) % 16 == 5
            box(ax, left + j * wide, top + i * high, wide, high, fill=SUMS if mine else PIXELS + "90" if inner else style.PALE, line=0.4)
    words(left + 35 * wide, top + 3 * high, "× 8 channels of a stage:\n8 × 34 × 6 floats = 6.4 KiB")
    words(left, top + 6 * high + 2.4, "A thread's 8 pixels: 2 columns, 16 apart, in 4 rows.\n16 lanes side by side read 16 pixels side by side.", fontsize=8)

    top, wide = 27.5, 0.86
    words(left, top - 2.4, "One tap of one input channel: 64 filters, side by side", fontweight="bold")
    for k in range(68):
        box(ax, left + k * wide, top, wide, 2.2, fill=style.PALE if k >= 64 else SUMS if 16 <= k < 24 else FILTERS + "90", line=0.3)
    words(left + 69 * wide, top + 1.1, "4 unused, for the banks", fontsize=8)
    words(left + 69 * wide, top + 5.4, "× 9 taps × 8 channels:\n8 × 9 × 68 floats = 19.1 KiB")
    words(left, top + 4.6, "A thread's 8 channels: two reads of 16 bytes.", fontsize=8)
    words(left, top + 12, "8 × 8 sums in a thread's registers; 8 × 16 threads: 64 channels × 128 pixels a block", fontsize=9, color=style.GREEN, fontweight="bold")
    return fig, title


# ---------------------------------------------------------------- drawn: banks of a tile, without and with a column of padding

def banks(_):
    title = "One column of padding: 32 lanes read a column in 1 wavefront, not in 32"
    subtitle = "The number in a cell is its bank, word number mod 32. Coloured: the first column, which the 32 lanes of a warp read at once."
    fig, ax = canvas(4.5, 100, 52, title, subtitle, DRAWN + " Rows and columns 5 to 30 are left out.")
    cell, shown = 3.4, (0, 1, 2, 3, 4, None, 31)

    def words(x, y, text, **more):
        ax.text(x, y, text, va="center", **{"fontsize": 8.5, "linespacing": 1.4, **more})

    for left, name, pitch, verdict in ((7, "float tile[32][32]", 32, "one bank, 32 words: 32 wavefronts"), (59, "float tile[32][33]", 33, "32 banks, a word each: 1 wavefront")):
        columns = shown + ((32,) if pitch == 33 else ())
        words(left, 1.6, name, fontweight="bold", family="monospace", fontsize=9)
        words(left - 1, 5.4, "column", ha="right", fontsize=7.5)
        for j, column in enumerate(columns):
            words(left + (j + 0.5) * cell, 5.4, "…" if column is None else str(column), ha="center", fontsize=7.5)
        for i, row in enumerate(shown):
            y = 7 + i * cell
            words(left - 1, y + cell / 2, "…" if row is None else f"row {row}" if row == 0 else str(row), ha="right", fontsize=7.5)
            for j, column in enumerate(columns):
                if row is None or column is None:
                    words(left + (j + 0.5) * cell, y + cell / 2, "…", ha="center", fontsize=8)
                    continue
                fill = FILTERS if column == 0 else style.PALE if column == 32 else "white"
                box(ax, left + j * cell, y, cell, cell, fill=fill, line=0.6)
                words(left + (j + 0.5) * cell, y + cell / 2, str((row * pitch + column) % 32), ha="center", fontsize=8.5)
        if pitch == 33:
            words(left + 7.5 * cell, 7 + 7 * cell + 2.4, "nobody\nreads it", ha="center", fontsize=7.5)
        top = 39.5
        words(left, top - 2.8, "Words that each bank must give for column 0:", fontsize=8.5)
        wide = 1.05
        for bank in range(32):
            count = 32 if pitch == 32 and bank == 0 else 0 if pitch == 32 else 1
            box(ax, left + bank * wide, top, wide, 2.6, fill=FILTERS if count else "white", line=0.5)
        words(left + wide / 2, top + 4.4, "32" if pitch == 32 else "1", ha="center", fontsize=8, fontweight="bold")
        if pitch == 33:
            words(left + 31.5 * wide, top + 4.4, "1", ha="center", fontsize=8, fontweight="bold")
            words(left + 16 * wide, top + 4.4, "one each", ha="center", fontsize=8)
        else:
            words(left + 16 * wide, top + 4.4, "31 banks idle", ha="center", fontsize=8)
        words(left, top + 8.6, verdict, fontsize=9, fontweight="bold", color=style.RED if pitch == 32 else style.GREEN)
    return fig, title


# ---------------------------------------------------------------- drawn: taking turns, and overlapping

def overlap(_):
    title = "Taking turns, and running ahead"
    subtitle = "One block. A copy begins with instructions (dark) and ends when the values have arrived (light)."
    fig, ax = canvas(2.7, 100, 30, title, subtitle, DRAWN + " Lengths are not to scale.")
    start, wait, work = 3, 7, 13

    def stage(x, y, width, text, fill):
        box(ax, x, y, width, 3.4, fill=fill, line=0.6)
        ax.text(x + width / 2, y + 1.7, text, fontsize=7.5, ha="center", va="center")

    ax.text(0, 2.2, "03c", fontsize=10, fontweight="bold", va="center")
    ax.text(0, 5.4, "one buffer", fontsize=8, va="center")
    x = 12
    for i in range(3):
        stage(x, 1.2, start, "", FILTERS)
        stage(x + start, 1.2, wait, f"copy {i}", FILTERS + "50")
        stage(x + start + wait, 5.4, work, f"multiply {i}", SUMS + "70")
        x += start + wait
        ax.plot([x, x], [0.4, 9.6], color=style.RED, linewidth=1.4)
        x += work
        ax.plot([x, x], [0.4, 9.6], color=style.RED, linewidth=1.4)
    ax.text(99, 6.6, "two barriers a stage", fontsize=8, color=style.RED, va="center", ha="right")

    ax.text(0, 15.2, "03d", fontsize=10, fontweight="bold", va="center")
    ax.text(0, 18.4, "two buffers", fontsize=8, va="center")
    stage(12, 14.2, start, "", FILTERS)
    stage(12 + start, 14.2, wait, "copy 0", FILTERS + "50")
    x = 12 + start + wait
    for i in range(4):
        ax.plot([x, x], [13.4, 22.6], color=style.RED, linewidth=1.4)
        if i < 3:
            stage(x, 14.2, start, "", FILTERS)
            stage(x + start, 14.2, wait, f"copy {i + 1}", FILTERS + "50")
        stage(x + (start if i < 3 else 0), 18.4, work, f"multiply {i}", SUMS + "70")
        x += start + work
    ax.text(99, 20.1, "one barrier a stage", fontsize=8, color=style.RED, va="center", ha="right")
    ax.text(12, 27, "The instructions that start a copy still take issue slots. Only the waiting is hidden.", fontsize=8.5, va="center")
    return fig, title


# ---------------------------------------------------------------- where the time of each kernel goes

def slots(results):
    """Every kernel's time in shares: scheduler clocks by what was started in them, by the counts of code-03.csv."""
    machine = {row["name"]: float(row["value"]) for row in read(results / "calibrate.csv") if not row["parameter"]}
    sms, clock = machine["device_sms"], machine["device_clock"]
    bench = {row["kernel"]: row for row in read(results / "bench.csv") if row["shape"] == LAYER and row["pass"] == "fprop" and row["status"] == "right"}
    code = read(results / "code-03.csv")
    shape = data.Shape(LAYER)
    warps = {"03a": (8, 1, 8, 32), "03b": (8, 8, 8, 32), "03c": (4, 64, 4, 32), "03d": (4, 64, 4, 32)}  # of a block; its channels, rows, columns
    kinds = [("useful multiply-adds", style.GREEN), ("multiply-adds past the edge", "#8FD3BE"), ("reading, addresses, loops", style.SKY),
             ("copying", style.ORANGE), ("SMs that have finished", style.PALE), ("nothing started: waiting", "#BBBBBB")]
    title = "Where the clocks of the schedulers go"
    subtitle = f"fprop of {LAYER}. Instructions counted in the machine code, as shares of the measured time."
    gpu, date = bench["03a"]["gpu"], bench["03a"]["date"][:10]
    fig, top, bottom = style.figure(2.5, title, subtitle, f"{gpu}, {date}; nvcc {code[0]['nvcc']}.")
    ax = style.panel(fig, 1.15, 8.35, top - 0.19, bottom + 0.1)
    useful = shape.flops / 2 / 32
    for at, (kernel, (block_warps, channels, rows, columns)) in enumerate(warps.items()):
        if kernel not in bench:
            raise data.BadInput(f"bench.csv: expected a row {kernel}, fprop, of {LAYER}")
        parts = [row for row in code if row["kernel"] == kernel]
        blocks = shape.n * math.ceil(shape.k / channels) * math.ceil(shape.p / rows) * math.ceil(shape.q / columns)
        stages = blocks * block_warps * shape.c / int(parts[0]["channels"])
        count = {"copy": 0.0, "other": 0.0}
        adds = 0.0
        for row in parts:
            times = float(row["times"]) * stages
            adds += times * int(row["multiply_adds"])
            count["copy" if row["part"] in ("pixels", "filters") else "other"] += times * (int(row["instructions"]) - int(row["multiply_adds"]))
        clocks = 4 * sms * clock * float(bench[kernel]["us_median"])
        started = adds + count["copy"] + count["other"]
        finished = started * (math.ceil(blocks / sms) * sms / blocks - 1)
        values = [useful, adds - useful, count["other"], count["copy"], finished, clocks - started - finished]
        x = 0.0
        for value, (label, colour) in zip(values, kinds):
            share = 100 * value / clocks
            ax.barh(at, share, 0.62, left=x, color=colour, edgecolor="white", linewidth=0.6, label=label if at == 0 else None)
            if share >= 3.5:
                ax.text(x + share / 2, at, f"{share:.0f} %", fontsize=7.5, ha="center", va="center")
            x += share
    ax.set_yticks(range(len(warps)), [f"{kernel}\n{style.figures3(float(bench[kernel]['us_median']) / 1e3)} ms" for kernel in warps])
    ax.set_ylim(len(warps) - 0.5, -0.5)
    ax.set_xlim(0, 100)
    ax.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    ax.legend(loc="lower left", bbox_to_anchor=(-0.16, 1.02), frameon=False, fontsize=8, ncols=3, columnspacing=1.5)
    return fig, title


FIGURES = {  # what draws it, and from which files
    "03-banks": (banks, []), "03-overlap": (overlap, []), "03-reuse": (reuse, []), "03-slots": (slots, ["bench", "calibrate", "code-03"]), "03-tile": (tile, []),
}
