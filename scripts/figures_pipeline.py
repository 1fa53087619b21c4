"""The figures of docs/06_pipeline.md: drawn from a few clocks of the text, not measured."""

import plot_style as style
from figures_gpu import box, canvas
from figures_steps import DRAWN

STAGE_COLOURS = (style.SKY, style.ORANGE, style.GREEN, style.PURPLE)
STAGES, STEPS = 4, 6
LATENCY, COPY, PRODUCTS = 1100, 983, 1024  # clocks: until a load's data come, for 48 KiB at 50 bytes a clock, of 128 x 256 x 64 products
LEFT, CLOCKS = 17.0, 8300                  # columns left of the picture, clocks shown
SCALE = (99.0 - LEFT) / CLOCKS


def at(clock):
    return LEFT + clock * SCALE


def words(ax, x, y, text, **more):
    ax.text(x, y, text, **{"fontsize": 8, "va": "center", "linespacing": 1.3, **more})


def bar(ax, begin, end, y, height, fill, text, **more):
    """A piece of time with a text in its middle."""
    box(ax, at(begin), y, (end - begin) * SCALE, height, fill=fill, line=0.7)
    words(ax, at((begin + end) / 2), y + height / 2, text, ha="center", **more)


def pointer(ax, clock, y, y_end, colour, clock_end=None):
    ax.annotate("", (at(clock if clock_end is None else clock_end), y_end), (at(clock), y),
                arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8})


def schedule():
    """For each step of the reduction: when it is asked for, when its bytes flow, when it is multiplied."""
    asked, flow, product = [], [], []
    for step in range(STEPS):
        asked.append(product[step - STAGES][1] if step >= STAGES else 60 * step)
        begin = max(asked[step] + LATENCY, flow[step - 1][1] if step else 0)
        flow.append((begin, begin + COPY))
        begin = max(flow[step][1], product[step - 1][1] if step else 0)
        product.append((begin, begin + PRODUCTS))
    return asked, flow, product


def ring(_):
    title = "06e: a ring of four stages, six steps of the reduction"
    subtitle = ("A number is a step: one tap and 64 channels. A colour is a stage of shared memory: step 4 goes where step 0 was.\n"
                "128 pixels × 256 filters. The consumers share the tensor cores, so the products of a step take both of them the whole step.")
    fig, ax = canvas(4.6, 100, 57, title, subtitle, DRAWN + " A load's data come after 1100 clocks, 50 bytes a clock; a step's products take the tensor cores 1024.")
    asked, flow, product = schedule()
    top, high = 3, 4.2
    rows = {"producer,\none thread": top, "copy engine": top + 7.5, "consumer 0,\n128 threads": top + 15, "consumer 1,\n128 threads": top + 22.5}
    for name, y in rows.items():
        words(ax, LEFT - 1, y + high / 2, name, ha="right", fontweight="bold")
        ax.plot([at(0), 99], [y + high, y + high], color=style.GREY, linewidth=0.4)
    producer, engine, first, second = rows.values()
    for step in range(STEPS):
        colour = STAGE_COLOURS[step % STAGES] + "B0"
        begin = asked[step] if step >= STAGES else 190 * step
        bar(ax, begin, begin + 170, producer, high, colour, str(step))
        bar(ax, *flow[step], engine, high, colour, f"copy {step}")
        for y in (first, second):
            bar(ax, *product[step], y, high, colour, f"products {step}")
    words(ax, at(900), producer + high / 2, "waits: no stage is empty", color=style.GREY, fontsize=7.5)
    words(ax, at(100), engine + high / 2, "on their way", color=style.GREY, fontsize=7.5)
    words(ax, at(100), first + high / 2, "wait for full[0]", color=style.GREY, fontsize=7.5)
    words(ax, at(100), second + high / 2, "wait for full[0]", color=style.GREY, fontsize=7.5)
    pointer(ax, flow[0][1], engine + high, first, style.BLACK)
    words(ax, at(flow[0][1]) - 0.6, engine + high + 1.6, "full[0]: 48 KiB are there", fontsize=7.5, ha="right")
    end = product[0][1]
    pointer(ax, end, first, producer + high, style.RED)
    words(ax, at(end) + 0.6, producer + high + 1.6, "empty[0]: both consumers have read stage 0", fontsize=7.5, color=style.RED)

    bottom, thin = 36, 3.4
    words(ax, LEFT - 1, bottom - 2, "shared memory", ha="right", fontweight="bold")
    for stage in range(STAGES):
        y, colour = bottom + 4.4 * stage, STAGE_COLOURS[stage]
        words(ax, LEFT - 1, y + thin / 2, f"stage {stage}", ha="right")
        for step in range(stage, STEPS, STAGES):
            begin, filled, read = flow[step][0], flow[step][1], product[step]
            bar(ax, asked[step], begin, y, thin, "white", "asked for", fontsize=7, color=style.GREY)
            bar(ax, begin, filled, y, thin, colour + "40", "is filled", fontsize=7)
            if read[0] - filled > 250:
                bar(ax, filled, read[0], y, thin, colour + "80", "full", fontsize=7)
            else:
                box(ax, at(filled), y, (read[0] - filled) * SCALE, thin, fill=colour + "80", line=0.5)
            bar(ax, *read, y, thin, colour + "D0", "is read", fontsize=7)
    words(ax, LEFT, bottom + 4.4 * STAGES + 1.3, "From step 1 on the tensor cores never wait: each copy is asked for three steps before its products are due.", va="center")
    return fig, title


ASK, ROUNDING, STORING = 700, 1400, 1500  # clocks: from a block's beginning to its first load, and so on


def tile_rows(ax, top, high, names, line_end):
    for i, name in enumerate(names):
        y = top + i * (high + 1.4)
        words(ax, LEFT - 1, y + high / 2, name, ha="right")
        ax.plot([at(0), line_end], [y + high, y + high], color=style.GREY, linewidth=0.4)
    return [top + i * (high + 1.4) for i in range(len(names))]


def persistent(_):
    title = "The end of a tile: one block after the other, and one that stays"
    subtitle = ("One multiprocessor: the last steps of a tile (blue), the first ones of the next (orange). White: rounding and the way out.\n"
                "What the tensor cores do not do between the two is what a tile's end costs.")
    fig, ax = canvas(4.2, 100, 52, title, subtitle, DRAWN + " Tiles of 128 × 256, steps of 1024 clocks, three stages in 06f. How long 06e's threads store is a guess.")
    names, old, new, high = ("copies in", "tensor cores", "consumers' threads", "copies out"), style.SKY + "B0", style.ORANGE + "B0", 3.6

    words(ax, LEFT, 1.2, "06e: a block a tile", fontweight="bold", fontsize=9)
    load, products, threads, out = tile_rows(ax, 3.6, high, names, 99)
    end = 2 * PRODUCTS
    bar(ax, 0, COPY, load, high, old, "last")
    bar(ax, 0, PRODUCTS, products, high, old, "last but one")
    bar(ax, PRODUCTS, end, products, high, old, "last")
    done = end + ROUNDING + STORING
    bar(ax, end, end + ROUNDING, threads, high, "white", "round, write to\nshared memory", fontsize=6.5)
    bar(ax, end + ROUNDING, done, threads, high, "white", "threads store", fontsize=7)
    data = done + ASK + LATENCY
    bar(ax, done, done + ASK, threads, high, style.PALE, "next block:\nbarriers", fontsize=6.5)
    bar(ax, done + ASK, data, load, high, "white", "first load\non its way", fontsize=6.5)
    bar(ax, data, data + COPY, load, high, new, "first")
    gap(ax, end, data + COPY, products, high, "idle until the next block's first stage is full")
    box(ax, at(data + COPY), products, 99 - at(data + COPY), high, fill=new, line=0.7)
    words(ax, at(0) + 0.8, out + high / 2, "nothing: threads store", fontsize=7.5, color=style.GREY)

    words(ax, LEFT, 27.2, "06f: a block that stays", fontweight="bold", fontsize=9)
    load, products, threads, out = tile_rows(ax, 29.6, high, names, 99)
    bar(ax, 0, COPY, load, high, old, "last")
    bar(ax, COPY, 2 * COPY, load, high, new, "next tile's first")
    bar(ax, 0, PRODUCTS, products, high, old, "last but one")
    bar(ax, PRODUCTS, end, products, high, old, "last")
    bar(ax, end, end + ROUNDING, threads, high, "white", "round, write to\nshared memory", fontsize=6.5)
    begin = end + ROUNDING
    gap(ax, end, begin, products, high, "idle")
    for step, name in enumerate(("next tile's first", "second", "third")):
        bar(ax, begin + step * PRODUCTS, begin + (step + 1) * PRODUCTS, products, high, new, name)
    for name, empty in (("second", PRODUCTS), ("third", end), ("fourth", begin + PRODUCTS)):  # three stages: each waits for one that has been read
        bar(ax, empty + LATENCY, empty + LATENCY + COPY, load, high, new, name)
    bar(ax, begin, begin + STORING, out, high, "white", "one tensor store", fontsize=7)
    words(ax, at(begin + STORING) + 0.8, out + high / 2, "nobody waits for it before the next tile's end", fontsize=7.5, color=style.GREY)
    return fig, title


def gap(ax, begin, end, y, high, text):
    """Time in which the tensor cores have nothing to do."""
    ax.add_patch(style.plt.Rectangle((at(begin), y), (end - begin) * SCALE, high, facecolor="white", edgecolor=style.RED, linewidth=1, hatch="////", alpha=0.35))
    words(ax, at((begin + end) / 2), y + high / 2, text, ha="center", color=style.RED, fontweight="bold")


FIGURES = {"06-persistent": (persistent, []), "06-ring": (ring, [])}
