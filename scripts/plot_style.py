"""What the plots share: colours, fonts, a header and a footer, and files that are the same whenever they are made again."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.transforms import blended_transform_factory

WIDTH = 8.6  # inches; a README shows about 830 pixels
LINE = 0.19  # inches of a row of text

# M. Okabe, K. Ito: colours that the colour-blind tell apart. One per step, and a marker each, so that colour is never alone.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY, PALE = "#595959", "#E8E8E8"
STEP_STYLE = {  # colour, marker
    "00": (GREY, "X"), "01": (ORANGE, "v"), "02": (SKY, "^"), "03": (GREEN, "s"), "04": (PURPLE, "p"), "05": (BLUE, "o"), "06": (YELLOW, "D"), "07": (BLACK, "*"),
}
OURS, CUDNN = BLUE, RED

plt.rcParams.update({
    "figure.facecolor": "white", "savefig.facecolor": "white", "axes.facecolor": "white",  # not transparent: pages may be dark
    "font.family": "DejaVu Sans", "font.size": 8.5, "axes.titlesize": 9, "axes.labelsize": 8.5, "xtick.labelsize": 8, "ytick.labelsize": 8.5,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": GREY, "axes.linewidth": 0.8,
    "svg.hashsalt": "convolution", "svg.fonttype": "path", "axes.unicode_minus": False,
})


def figure(height, title, subtitle, footer):
    """A figure of `height` inches between its header and its footer. Returns it and where that part begins and ends, as shares of its height."""
    lines = subtitle.count("\n") + 1
    top, bottom = 0.42 + 0.17 * lines, 0.12 + 0.15 * (footer.count("\n") + 1)
    total = height + top + bottom
    fig = plt.figure(figsize=(WIDTH, total))
    fig.text(0.012, 1 - 0.1 / total, title, fontsize=11, fontweight="bold", va="top")
    fig.text(0.012, 1 - 0.34 / total, subtitle, fontsize=8.5, color=GREY, va="top", linespacing=1.35)
    fig.text(0.012, 0.07 / total, footer, fontsize=7, color=GREY, va="bottom", linespacing=1.35)
    return fig, 1 - top / total, bottom / total


def panel(fig, left, right, top, bottom):
    """Axes between edges: left and right in inches, top and bottom as shares of the figure's height."""
    return fig.add_axes((left / WIDTH, bottom, (right - left) / WIDTH, top - bottom))


def beside(ax, x_inches, y, text, **style):
    """Text in a column right of the axes, at the height of a data point."""
    width = ax.get_position().width * WIDTH
    ax.text(1 + x_inches / width, y, text, transform=blended_transform_factory(ax.transAxes, ax.transData), va="center_baseline", **style)


def sample(ax, begin, end, y, **look):
    """A piece of a curve right of the axes, from one distance in inches to another, its marker in the middle."""
    width = ax.get_position().width * WIDTH
    x = [1 + place / width for place in (begin, (begin + end) / 2, end)]
    ax.plot(x, [y] * 3, transform=blended_transform_factory(ax.transAxes, ax.transData), clip_on=False, markevery=[1], **look)


def figures3(value):
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.{2 if value >= 1 else 3 if value >= 0.1 else 4}f}" if value < 10 else f"{value:.1f}"


def percent(share):
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %" if share >= 0.001 else "<0.1 %"


def save(fig, folder, name, title, source):
    """Writes NAME.svg, without a date or a version in it. A line above or below the picture that is too long for it is set smaller."""
    for text in fig.texts:
        end = text.get_window_extent().x1 / fig.bbox.width
        if end > 1:
            text.set_fontsize(text.get_fontsize() / end)
    fig.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None, "Title": title, "Source": source})
    plt.close(fig)
