"""What a newcomer needs before the numbers of docs/gpu.md: a launch, a multiprocessor, divergence, a barrier, occupancy; and the shuffles of 02b."""

import plot_style as style
from figures_gpu import arrow, box, canvas, measured
from matplotlib.patches import FancyArrowPatch

DRAWN = "Drawn, not measured."


def words(ax, x, y, text, size=8, **more):
    ax.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": size, **more})


def points(ax, start, end, colour=style.BLACK, line=1.1, dashes="-"):
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, color=colour, linewidth=line, linestyle=dashes, shrinkA=0, shrinkB=0))


# ---------------------------------------------------------------- a launch

def grid(_):
    title = "A launch is a grid of blocks, a block is warps, a warp is 32 threads"
    subtitle = ("copy<<<4, 256>>> for n = 1000 floats. Unfolded from left to right: one block, one warp, and the thread that has i = 515.\n"
                "Grey: the 24 threads of the last block that find no work.")
    fig, ax = canvas(3.3, 100, 42, title, subtitle, DRAWN)
    words(ax, 10.5, 2, "the grid: 4 blocks", 9, fontweight="bold")
    for i in range(4):
        y = 4 + 9 * i
        box(ax, 1, y, 19, 7, fill=style.SKY + ("90" if i == 2 else "30"), line=1.6 if i == 2 else 0.8)
        words(ax, 2, y + 2.3, f"block {i}: blockIdx.x = {i}", ha="left")
        words(ax, 2, y + 4.8, f"i = {256 * i} to {256 * i + 255}", 7.6, ha="left", color=style.GREY)
    box(ax, 18.6, 31, 1.4, 7, fill=style.GREY + "90", line=0.5)
    words(ax, 10.5, 40, "24 threads with i ≥ 1000", 7.2, color=style.GREY)
    words(ax, 39, 2, "block 2: 256 threads are 8 warps", 9, fontweight="bold")
    for i in range(8):
        y = 4 + 4.5 * i
        box(ax, 28, y, 22, 3.7, fill=style.ORANGE + ("90" if i == 0 else "30"), line=1.6 if i == 0 else 0.8)
        words(ax, 39, y + 1.9, f"warp {i}: threads {32 * i} to {32 * i + 31}")
    for end in ((28, 4), (28, 39.2)):
        ax.plot([20, end[0]], [22 if end[1] < 20 else 29, end[1]], color=style.GREY, linewidth=0.9, linestyle="--")
    words(ax, 79, 2, "warp 0 of block 2: 32 lanes", 9, fontweight="bold")
    for i in range(32):
        x, y = 59 + 5 * (i % 8), 4 + 5 * (i // 8)
        box(ax, x, y, 5, 5, fill=style.GREEN + ("b0" if i == 3 else "28"), line=1.8 if i == 3 else 0.5)
        words(ax, x + 2.5, y + 2.5, str(i), 8, fontweight="bold" if i == 3 else "normal")
    for end in ((59, 4), (59, 24)):
        ax.plot([50, end[0]], [4 if end[1] < 20 else 7.7, end[1]], color=style.GREY, linewidth=0.9, linestyle="--")
    words(ax, 79, 26.4, "All 32 run the same instruction at the same time.", 8.2)
    box(ax, 59, 29.2, 40, 10.6, fill=style.GREEN + "28", line=1.2)
    words(ax, 79, 31.3, "lane 3: threadIdx.x = 3, blockDim.x = 256, blockIdx.x = 2", 8.2)
    words(ax, 79, 34.5, "i = blockIdx.x · blockDim.x + threadIdx.x", 8.2)
    words(ax, 79, 37.7, "= 2 · 256 + 3 = 515", 8.8, fontweight="bold")
    return fig, title


# ---------------------------------------------------------------- a multiprocessor

def multiprocessor(figures):
    sms, warps, registers, shared = (figures[f"device_{name}"] for name in ("sms", "warps", "registers", "shared"))
    title = "Inside a multiprocessor: four schedulers, each with warps to choose from"
    subtitle = (f"{figures.gpu}: {sms:.0f} of these. A warp stays in its quarter, and its variables in that quarter's registers, until its block ends.\n"
                "In every clock each scheduler starts one instruction of one warp that is ready.")
    fig, ax = canvas(4.3, 100, 54, title, subtitle, f"Drawn; how many warps, registers and bytes: {figures.gpu}, make calibrate.")
    box(ax, 0.5, 0.5, 99, 46.5, fill=style.PALE + "60", line=1.4)
    for quarter in range(4):
        x = 1.8 + 24.4 * quarter
        box(ax, x, 2, 23.2, 31.5, fill="white")
        words(ax, x + 11.6, 3.8, f"quarter {quarter}: room for {warps / 4:.0f} warps", 8)
        for i in range(int(warps / 4)):
            box(ax, x + 1 + 2.67 * (i % 8), 5.4 + 2.9 * (i // 8), 2.5, 2.6, fill=style.ORANGE + ("d0" if i == 5 else "38"), line=0.5)
        points(ax, (x + 5 * 2.67 + 2.25, 8.1), (x + 5 * 2.67 + 2.25, 14.9), style.RED, 1.3)
        box(ax, x + 1, 15, 21.2, 3.6, fill=style.YELLOW + "70")
        words(ax, x + 11.6, 16.9, "scheduler: one warp a clock", 8, fontweight="bold")
        box(ax, x + 1, 19.6, 21.2, 4, fill=style.GREEN + "40")
        words(ax, x + 11.6, 21.7, f"{registers / 4:.0f} KiB of registers", 8, fontweight="bold")
        for i in range(32):
            box(ax, x + 1 + 0.6625 * i, 24.6, 0.6625, 2.6, fill=style.BLUE + "60", line=0.3)
        words(ax, x + 11.6, 28.4, "32 fp32 units: a lane each", 8)
        box(ax, x + 1, 29.8, 10.2, 2.8, fill=style.PURPLE + "60")
        words(ax, x + 6.1, 31.3, "tensor core", 7.8)
        box(ax, x + 12, 29.8, 10.2, 2.8, fill=style.PALE)
        words(ax, x + 17.1, 31.3, "loads, stores", 7.8)
        arrow(ax, (x + 17.1, 32.6), (x + 17.1, 36))
    box(ax, 1.8, 36, 96.4, 9.2, fill=style.ORANGE + "40")
    words(ax, 50, 38.8, f"shared memory, up to {shared:.0f} KiB, and L1 cache, the rest: one memory for all four quarters", 9, fontweight="bold")
    words(ax, 50, 42.6, "32 banks of 4 bytes: up to 128 bytes a clock. A block lives in this frame: its barrier and its shared memory end here", 8)
    arrow(ax, (50, 45.2), (50, 49.2))
    box(ax, 0.5, 49.2, 99, 4, fill=style.SKY + "50")
    words(ax, 50, 51.3, f"L2 cache, for all {sms:.0f} multiprocessors, and behind it DRAM", 8.5)
    return fig, title


# ---------------------------------------------------------------- divergence

def lanes_in_time(ax, x, y, rows, colours, cell=2.6):
    """rows: one text a step, a letter a lane; '.' stands idle."""
    for step, row in enumerate(rows):
        for lane, letter in enumerate(row):
            idle = letter == "."
            box(ax, x + cell * lane, y + 4.1 * step, cell, 3.3, fill="white" if idle else colours[letter] + "a0", line=0.4)
            if not idle:
                words(ax, x + cell * (lane + 0.5), y + 4.1 * step + 1.75, letter, 7.5)


def divergence(_):
    title = "Divergence: where lanes of a warp go different ways, the warp goes both, one after the other"
    subtitle = ("Eight lanes stand for 32; each row is one step of the warp, from top to bottom. White: the lane is switched off by its predicate\n"
                "and waits. Right: a loop lasts as long as the lane with the most rounds.")
    fig, ax = canvas(2.75, 100, 36, title, subtitle, DRAWN)
    colours = {"T": style.YELLOW, "A": style.BLUE, "B": style.ORANGE, "C": style.GREEN, "L": style.SKY}
    for x, name, rows, labels in (
            (14, "if (lane % 2) A; else B;   C;", ("TTTTTTTT", ".A.A.A.A", "B.B.B.B.", "CCCCCCCC"), ("test", "A: odd lanes", "B: even lanes", "C: together again")),
            (49, "if (lane < 32) A; else B;   C;", ("TTTTTTTT", "AAAAAAAA", "CCCCCCCC"), ("", "", "")),
            (77, "for (i = 0; i < lane; i++) L;", (".LLLLLLL", "..LLLLLL", "...LLLLL", "....LLLL", ".....LLL", "......LL", ".......L"), ("",) * 7)):
        words(ax, x + 10.4, 1.6, name, 8.2, fontfamily="DejaVu Sans Mono")
        lanes_in_time(ax, x, 4, rows, colours)
        for step, label in enumerate(labels):
            words(ax, x - 0.8, 4 + 4.1 * step + 1.75, label, 8, ha="right")
    words(ax, 24.4, 22.6, "two ways: the time of A plus that of B", 8, fontweight="bold")
    words(ax, 59.4, 22.6, "all lanes agree: the\ntime of A alone", 8, fontweight="bold")
    words(ax, 87.4, 34.4, "28 rounds of lanes in the time of 56", 8, fontweight="bold")
    return fig, title


# ---------------------------------------------------------------- a barrier

def barrier(_):
    title = "A barrier: nobody goes on before all have come"
    subtitle = ("Four warps of a block fill a tile in shared memory (orange) and read what the others wrote (blue). Time runs to the right.")
    fig, ax = canvas(3.1, 100, 40, title, subtitle, DRAWN)
    ends = (24, 31, 20, 38)
    for part, (top, name) in enumerate(((4, "with __syncthreads() between"), (23, "without"))):
        words(ax, 1, top - 2.2, name, 9, ha="left", fontweight="bold")
        for warp, end in enumerate(ends):
            y = top + 3.6 * warp
            words(ax, 1, y + 1.4, f"warp {warp}", 8, ha="left")
            box(ax, 9, y, end - 9, 2.8, fill=style.ORANGE + "90", line=0.5)
            words(ax, (9 + end) / 2, y + 1.45, "writes its part", 7.6)
            start = 38 if part == 0 else end
            if start > end:
                box(ax, end, y, start - end, 2.8, fill="white", line=0.4)
                if start - end > 6:
                    words(ax, (start + end) / 2, y + 1.45, "waits", 7.6, color=style.GREY)
            box(ax, start, y, 20, 2.8, fill=style.BLUE + "50", line=0.5)
            words(ax, start + 10, y + 1.45, "reads all parts", 7.6)
        if part == 0:
            ax.plot([38, 38], [top - 1, top + 14.6], color=style.RED, linewidth=2.2)
            words(ax, 62, top + 2.2, "the last warp arrives: all go on.\nWhat was written before the barrier\nis seen by every thread behind it.", 8, ha="left", va="top", linespacing=1.4)
        else:
            ax.plot([20, 38], [top + 7.2 - 0.3, top + 7.2 - 0.3], color=style.RED, linewidth=2.6)
            words(ax, 62, top + 2.2, "a race: in the time under the thick line\nwarp 2 may read what warp 3 has not\nwritten yet. Some runs are right by luck;\nmake check finds it in every run.", 8, ha="left", va="top", linespacing=1.4)
    return fig, title


# ---------------------------------------------------------------- occupancy

def occupancy(figures):
    warps, registers = figures["device_warps"], figures["device_registers"] * 256
    title = "Occupancy: what a thread asks for decides how many blocks fit"
    cases = [("01a, fprop", 256, 32), ("02b, wgrad", 256, 40), ("03c, fprop", 128, 128)]
    subtitle = (f"One multiprocessor has room for {warps:.0f} warps and {registers:.0f} registers. A box is a warp, a colour is a block.\n"
                "Registers are given out for a whole block, or the block waits. 03c asks for 124 a thread, which is rounded up to 128.")
    fig, ax = canvas(3.0, 100, 38, title, subtitle, f"Drawn; room: {figures.gpu}, make calibrate.")
    shades = (style.ORANGE, style.SKY, style.GREEN, style.YELLOW, style.BLUE, style.RED, style.PURPLE, style.GREY)
    for column, (name, threads, asked) in enumerate(cases):
        x = 1 + 33.5 * column
        blocks = min(int(registers // (threads * asked)), int(warps * 32 // threads))
        full = blocks * threads // 32
        words(ax, x + 15.5, 1.5, name, 9.5, fontweight="bold")
        words(ax, x + 15.5, 4.4, f"{threads} threads × {asked} registers = {threads * asked} a block", 8)
        for i in range(int(warps)):
            fill = shades[i * 32 // threads % len(shades)] + "90" if i < full else "white"
            box(ax, x + 1.9 * (i % 16) + 0.3, 6.6 + 4 * (i // 16), 1.75, 3.4, fill=fill, line=0.4)
        share = blocks * threads * asked / registers
        words(ax, x + 15.5, 25, f"{registers:.0f} / {threads * asked} = {registers / (threads * asked):.3g}: {blocks} blocks, {full} warps", 8)
        words(ax, x + 15.5, 28.4, f"occupancy {full} / {warps:.0f} = {100 * full / warps:.0f} %", 9, fontweight="bold")
        words(ax, x, 32.6, "registers in use", 7.6, ha="left")
        box(ax, x + 11.5, 31.2, 19.5, 2.8, fill="white", line=0.6)
        box(ax, x + 11.5, 31.2, 19.5 * share, 2.8, fill=style.GREEN + "70", line=0.6)
        words(ax, x + 21, 32.65, f"{100 * share:.0f} %", 7.6)
    return fig, title


# ---------------------------------------------------------------- the shuffles at the end of 02b

def shuffle(_):
    title = "Five shuffles add 32 lanes; here three add eight"
    subtitle = ("__shfl_down_sync(mask, sum, d): every lane gets the sum of the lane d places on. After each step half as many lanes count.\n"
                "Grey: these go on adding, too; nobody reads the result.")
    fig, ax = canvas(3.2, 100, 41, title, subtitle, DRAWN)
    values, y, cell = [3, 1, 4, 1, 5, 9, 2, 6], 4, 9.2
    rows = [values]
    for distance in (4, 2, 1):
        last = rows[-1]
        rows.append([last[i] + last[i + distance] if i + distance < 8 else last[i] * 2 for i in range(8)])
    for lane in range(8):
        words(ax, 22 + cell * (lane + 0.5), 1.8, f"lane {lane}", 8)
    for step, row in enumerate(rows):
        top = y + 9.4 * step
        useful = 8 >> step
        label = ("each lane's own sum", "d = 4", "d = 2", "d = 1")[step]
        words(ax, 20, top + 2, label, 8.5, ha="right", fontweight="bold")
        for lane, value in enumerate(row):
            counts = lane < useful
            x = 22 + cell * lane + 1.6
            box(ax, x, top, 6, 4, fill=style.GREEN + "70" if counts else style.PALE, line=0.8 if counts else 0.3)
            if counts:
                words(ax, x + 3, top + 2.1, str(value), 9.5, fontweight="bold" if step == 3 else "normal")
            if step and counts:
                distance = 8 >> step
                centre = 22 + cell * (lane + 0.5)
                points(ax, (centre, top - 5.4), (centre, top), style.BLACK)
                points(ax, (centre + cell * distance, top - 5.4), (centre + 2.2, top), style.RED)
    words(ax, 12, 39, "Lane 0 has the sum of all, 31, and stores it. Among 32 lanes the distances are 16, 8, 4, 2, 1.", 8.5, ha="left")
    return fig, title


FIGURES = {"gpu-grid": (grid, []), "gpu-multiprocessor": measured(multiprocessor), "gpu-divergence": (divergence, []), "gpu-barrier": (barrier, []),
           "gpu-occupancy": measured(occupancy), "02-shuffle": (shuffle, [])}
