"""The training curve of `make train`: the loss of every step, and how many held-out pictures are read right.

    plot_train.py TRAIN.csv OUT     draws OUT/train.svg, prints its name. Exit status: 0 all right, 2 with one line on stderr.
"""

import csv
import sys
from pathlib import Path

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

import plot_data as data
import plot_style as style

HEIGHT = 3.1
COLUMNS = ["gpu", "network", "step", "loss", "held_out"]
WINDOW = 10  # steps of the mean that is drawn over the single ones


def read(path):
    """(machine and network, [(step, loss, share or None)])."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    if not rows or rows[0] != COLUMNS or len(rows) < 2:
        raise data.BadInput(f"{path}: expected the columns {','.join(COLUMNS)} and a row for every step (make train)")
    try:
        steps = [(int(step), float(loss), float(share) if share else None) for _, _, step, loss, share in rows[1:]]
    except ValueError as error:
        raise data.BadInput(f"{path}: expected numbers: {error}") from None
    return rows[1][0], rows[1][1], steps


def plot(path):
    gpu, network, steps = read(path)
    title = "A network learns to read digits"
    subtitle = "Three convolutions, forward and backward by the kernels of step 06, weights kept in fp32. Left the loss of each step, thick its mean over\n" \
               f"{WINDOW} steps; right how many of the digits it never learned from are read right. Guessing would be 10 %."
    fig, top, bottom = style.figure(HEIGHT, title, subtitle, f"{gpu}, the {network} network.")
    total = fig.get_figheight()
    low = bottom + 0.45 / total
    left = style.panel(fig, 0.75, style.WIDTH / 2 - 0.2, top - 0.3 / total, low)
    right = style.panel(fig, style.WIDTH / 2 + 0.6, style.WIDTH - 0.3, top - 0.3 / total, low)
    x = [step for step, _, _ in steps]
    loss = [value for _, value, _ in steps]
    mean = [sum(loss[max(0, i - WINDOW + 1):i + 1]) / len(loss[max(0, i - WINDOW + 1):i + 1]) for i in range(len(loss))]
    left.set_yscale("log")
    left.plot(x, loss, color=style.SKY, linewidth=0.8)
    left.plot(x, mean, color=style.BLUE, linewidth=2)
    left.yaxis.set_major_locator(LogLocator(numticks=10, subs=(1, 2, 5)))
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    left.yaxis.set_minor_formatter(NullFormatter())
    left.set_title("loss", loc="left", fontweight="bold")
    shown = [(step, 100 * share) for step, _, share in steps if share is not None]
    if shown:
        right.plot(*zip(*shown), color=style.BLUE, marker="o", markersize=4, linewidth=1.5)
        right.annotate(f"{shown[-1][1]:.1f} %", shown[-1], textcoords="offset points", xytext=(0, -14), ha="right")
    right.set_ylim(0, 103)
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    right.set_title("held-out digits read right", loc="left", fontweight="bold")
    for ax in (left, right):
        ax.set_xlabel("step")
        ax.set_xlim(0, x[-1] * 1.02)
        ax.grid(color=style.PALE, linewidth=0.8)
        ax.set_axisbelow(True)
    return fig, title, data.source([path])


def main(path, out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    made = plot(Path(path))
    style.save(made[0], out, "train", *made[1:])
    print(f"{out / 'train'}.svg")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: plot_train.py TRAIN.csv OUT")
    try:
        main(*sys.argv[1:])
    except (data.BadInput, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
