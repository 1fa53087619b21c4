"""The kernel that our rule takes against cuDNN's fastest plan, layer by layer: one figure per suite, a column per pass, a block per arithmetic."""

import math
import re

from matplotlib.ticker import FixedLocator, NullLocator

import plot_data as data
import plot_style as style

NUMBERS = 0.92  # inches for the figures beside a column
NAMES = {"resnet50": "ResNet-50", "mobilenet": "Depthwise layers", "image": "Pictures", "seed": "The README's layer", "held_fp32": "Layers of other networks",
         "fresh_fp32": "Layers chosen unseen", "vgg16": "VGG-16", "resnext": "ResNeXt-50", "held_depthwise_fp16": "Depthwise layers of another network", "held_groups_fp32": "Grouped layers chosen unseen"}


def plots(rows, taken, source):
    """{name: figure} for every suite that has results beside cuDNN. taken: plot_data.rules()."""
    rows = [row for row in rows if row.on_gpu and row.cudnn_us]
    return {f"ratio-{suite}": plot(suite, members, taken, source) for suite, members in data.suites(rows).items()}


def plots_of_rule(rows, source):
    """The same from rows that have no other kernel than a rule's, the last step's rule first."""
    taken = {}
    for row in sorted(rows, key=lambda row: row.kernel, reverse=True):
        taken.setdefault((row.shape.text, row.conv_pass, row.dtype), []).append(row.kernel)
    return plots(rows, taken, source)


class Cell:
    """One layer, pass and arithmetic: the lowest medians of cuDNN and of the kernel that a rule takes; of the fastest, where no rule is known."""

    def __init__(self, rows, taken):
        ruled = data.ruled(rows, taken)
        ours = ruled or min(rows, key=lambda row: row.us)
        self.kernel, self.ratio, self.count, self.ruled = ours.kernel, data.cudnn_best(rows) / ours.us, ours.count, ruled is not None
        self.runs = len({row.cudnn_us for row in rows})


def cell(rows, taken):
    return Cell(rows, taken) if rows else None


def plot(suite, rows, taken, source):
    batches = sorted({row.shape.n for row in rows})
    images = f"{batches[0]} image{'s' * (batches != [1])}" if len(batches) == 1 else f"{batches[0]} to {batches[-1]} images"
    dtypes, passes = kinds(rows)
    panels = [(f"{conv_pass} {dtype}", [row for row in rows if (row.dtype, row.conv_pass) == (dtype, conv_pass)]) for dtype in dtypes for conv_pass in passes]
    base = re.sub(r"-mb\d+$", "", suite)
    return chart(f"{NAMES.get(base, f'Suite {suite}')}, {images}", rows, panels, taken, len(passes), lambda row: (row.shape.text, row.name), source)


def plot_batches(suite, rows, source):
    """One suite with several numbers of images: a column for each. None if there are no such rows."""
    rows = [row for row in rows if row.on_gpu and row.cudnn_us]
    rows = [row for name, members in data.suites(rows).items() if re.fullmatch(rf"{suite}(-mb\d+)?", name) for row in members]
    if not rows:
        return None
    panels = [(f"{n} image{'s' * (n > 1)}", [row for row in rows if row.shape.n == n]) for n in sorted({row.shape.n for row in rows})]
    what = " ".join(" and ".join(words) for words in reversed(kinds(rows)))
    every = {(row.shape.text, row.conv_pass, row.dtype): [row.kernel] for row in rows}  # the file has no other kernel than the rule's
    return chart(f"{NAMES.get(suite, f'Suite {suite}')}, {what}", rows, panels, every, 3, lambda row: (row.shape.without_batch, row.name), source)


def kinds(rows):
    """The arithmetics and the passes that there are, in the order in which they are shown."""
    return [d for d in data.DTYPES if any(row.dtype == d for row in rows)], [p for p in data.PASSES if any(row.conv_pass == p for row in rows)]


def chart(what, rows, panels, taken, columns, layer_of, source):
    """A line for each layer; what: the layers, in words; panels: (head, rows), in so many columns if they are more than three."""
    layers = {}
    for row in rows:
        layers.setdefault(layer_of(row), row)
    cells = [[cell([row for row in members if layer_of(row) == layer], taken) for layer in layers] for _, members in panels]
    there = [c for column in cells for c in column if c]
    known = [c.ruled for c in there]
    several = any(c.runs > 1 for c in there)
    best = "; of several runs each side's best"
    ours = "the kernel that the step's rule takes" if all(known) else "the fastest kernel of all steps" if not any(known) else "the rule's kernel, or the fastest"
    title = f"{what}: ahead of cuDNN {'on all' if all(c.ratio >= 1 for c in there) else f'on {sum(c.ratio >= 1 for c in there)} of'} {len(there)} {'layers' if len(panels) == 1 else 'cases'}"
    subtitle = (f"cuDNN's time divided by ours: {ours} against cuDNN's fastest plan for the same pass and arithmetic.\n"
                "Bars to the right: ours is faster; to the left: cuDNN is. Twice as fast and half as fast are equally long. "
                "n×: so often in the network.")
    footer = f"{data.machine(rows)}. Median times, cold L2, timed in turns{best if several else ', one run each'}."
    columns = len(panels) if len(panels) <= 3 else columns
    block = style.LINE * len(layers) + 0.95
    fig, top, _ = style.figure(block * -(-len(panels) // columns), title, subtitle, footer)
    total = fig.get_figheight()
    names = [label(name, text, layers[text, name].count) for text, name in layers]
    left = 0.3 + 0.068 * max(len(name) for name in names)
    width = (style.WIDTH - left - 0.1) / columns
    ratios = [c.ratio for column in cells for c in column if c]
    low, high = min(ratios + [1 / 1.5]) / 1.15, max(ratios + [1.5]) * 1.15
    for number, ((head, _), mine) in enumerate(zip(panels, cells)):
        line, column = divmod(number, columns)
        edges = left + column * width, left + (column + 1) * width - NUMBERS
        ax = style.panel(fig, *edges, top - (line * block + 0.42) / total, top - ((line + 1) * block - 0.5) / total)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        ax.set_ylim(len(layers) - 0.5, -0.5)
        ticks(ax, low, high)
        ax.set_axisbelow(True)
        ax.set_yticks(range(len(layers)), names if column == 0 else [])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("cuDNN's time / ours (logarithmic)" if columns < 3 else "cuDNN's time / ours")
        ax.set_title(f"{head}\n{mean_words(mine)}", loc="left", fontweight="bold")
        draw(ax, mine)
    return fig, title, source


def ratio_text(ratio):
    return f"{ratio:.{2 if ratio >= 0.0995 else 3 if ratio >= 0.00995 else 4}f}"


def label(name, text, count):
    return f"{name or text}{f'  {count}×' if count > 1 else ''}"


def mean_words(cells):
    """The geometric mean, every layer as often as the network has it."""
    there = [cell for cell in cells if cell]
    if not there:
        return "no kernel"
    weight = sum(cell.count for cell in there)
    mean = math.exp(sum(cell.count * math.log(cell.ratio) for cell in there) / weight)
    part = "" if len(there) == len(cells) else f" ({len(there)} of {len(cells)})"
    return f"geometric mean {ratio_text(mean)}{part}"


def ticks(ax, low, high):
    for digits in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):  # as many as there is room for
        steps = [digit * 10.0**e for e in range(-4, 5) for digit in digits if low <= digit * 10.0**e <= high]
        if len(steps) <= 6:
            break
    ax.xaxis.set_major_locator(FixedLocator(steps))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.grid(axis="x", color=style.PALE, linewidth=0.8)


def draw(ax, cells):
    for y, cell in enumerate(cells):
        if cell is None:
            continue
        ahead = cell.ratio >= 1
        start, end = (1, cell.ratio) if ahead else (cell.ratio, 1)
        ax.barh(y, end - start, left=start, height=0.62, color=style.OURS if ahead else style.CUDNN)
        style.beside(ax, 0.45, y, ratio_text(cell.ratio), ha="right", fontsize=8)
        style.beside(ax, 0.52, y, cell.kernel, ha="left", fontsize=8, color=style.GREY)
    ax.axvline(1, color=style.BLACK, linewidth=1)
