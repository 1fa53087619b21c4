"""The figures of docs/ that show ideas, not measurements, from coordinates. Lengths are in cells of a grid, y runs downwards."""

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

# Okabe and Ito's colours, which the colour-blind can tell apart; light ones are the same, mixed with white.
BLACK, GREY, LIGHT = "#000000", "#7f7f7f", "#e8e8e8"
ORANGE, SKY, GREEN, BLUE, RED, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
PALE = {ORANGE: "#fbe6bf", SKY: "#d5ecfa", GREEN: "#bfe7dc", BLUE: "#bfdcec", RED: "#f5d7bf", PURPLE: "#f2dde9"}
WIDTH = 8.3  # inches: 830 pixels on a page


class Canvas:
    """A page of `columns` x `rows` cells."""

    def __init__(self, columns, rows):
        self.figure = pyplot.figure(figsize=(WIDTH, WIDTH * rows / columns))
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_xlim(0, columns)
        self.axes.set_ylim(rows, 0)
        self.axes.axis("off")

    def box(self, x, y, width=1.0, height=1.0, fill="white", edge=BLACK, line=0.8, style="-", above=2):
        self.axes.add_patch(Rectangle((x, y), width, height, facecolor=fill, edgecolor=edge, linewidth=line, linestyle=style, zorder=above))

    def text(self, x, y, words, size=9.5, colour=BLACK, align="center", weight="normal", up="center"):
        self.axes.text(x, y, words, fontsize=size, color=colour, ha=align, va=up, weight=weight, zorder=9)

    def arrow(self, start, end, colour=BLACK, line=1.1, style="-|>", bend=0.0, dashes="-"):
        self.axes.add_patch(FancyArrowPatch(start, end, arrowstyle=style, mutation_scale=9, color=colour, linewidth=line, linestyle=dashes,
                                            connectionstyle=f"arc3,rad={bend}", shrinkA=0, shrinkB=0, zorder=6))

    def dot(self, x, y, radius=0.1, colour=BLACK):
        self.axes.add_patch(Circle((x, y), radius, color=colour, zorder=7))

    def numbers(self, x, y, rows, fill=None, size=10):
        """A grid of numbers. fill: (row, column) -> colour."""
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                self.box(x + j, y + i, fill=fill(i, j) if fill else "white")
                self.text(x + j + 0.5, y + i + 0.5, str(value).replace("-", "−"), size=size)


# The example of docs/convolution.md.
IMAGE = [[3, 0, 1, 2, 7], [1, 5, 8, 9, 3], [2, 7, 2, 5, 1], [0, 1, 3, 1, 7], [4, 2, 1, 6, 2]]
FILTER = [[1, 0, -1], [2, 0, -2], [1, 0, -1]]


def window_sum(p, q):
    return sum(IMAGE[p + r][q + s] * FILTER[r][s] for r in range(3) for s in range(3))


def window():
    page, p, q = Canvas(20, 8.1), 1, 2
    page.text(2.9, 0.45, "image x, H x W = 5 x 5", weight="bold")
    page.numbers(0.4, 0.9, IMAGE, lambda h, w: PALE[ORANGE] if 0 <= h - p < 3 and 0 <= w - q < 3 else "white")
    page.box(0.4, 0.9, 3, 3, fill="none", edge=GREY, line=1.6, style="--", above=4)
    page.box(0.4 + q, 0.9 + p, 3, 3, fill="none", edge=RED, line=2.4, above=5)
    page.arrow((0.75, 6.25), (5.05, 6.25), colour=GREY)
    page.text(2.9, 6.62, "the window slides over all positions", size=9, colour=GREY)
    page.text(6.55, 3.4, "∗", size=18)
    page.text(9.1, 1.45, "filter w, R x S = 3 x 3", weight="bold")
    page.numbers(7.6, 1.9, FILTER, lambda r, s: PALE[SKY])
    page.text(11.6, 3.4, "=", size=18)
    page.text(14.1, 1.45, "output y, P x Q = 3 x 3", weight="bold")
    page.numbers(12.6, 1.9, [[window_sum(i, j) for j in range(3)] for i in range(3)], lambda i, j: PALE[GREEN] if (i, j) == (p, q) else "white")
    page.box(12.6 + q, 1.9 + p, fill="none", edge=RED, line=2.4, above=5)
    page.text(16.1, 3.4, f"y[{p}][{q}] = {window_sum(p, q)}", align="left", colour=RED)
    terms = [f"{FILTER[r][s]}·{IMAGE[p + r][q + s]}" for r in range(3) for s in range(3)]
    terms = [f"(−{term[1:].replace('·', ')·')}" if term[0] == "-" else term for term in terms]
    page.text(10, 7.5, " + ".join(terms) + f" = {window_sum(p, q)}", size=10.5)
    return page


def sizes():
    """(H + pad_lo + pad_hi - dil * (R - 1) - 1) / stride + 1, six times."""
    cases = [("none", 3, 0, 0, 1, 1), ("same", 3, 1, 1, 1, 1), ("full", 3, 2, 2, 1, 1), ("stride 2", 3, 1, 1, 2, 1), ("dilation 2", 3, 2, 2, 1, 2),
             ("uneven, a filter of 4", 4, 1, 2, 1, 1)]
    page, side = Canvas(31.5, 26.2), 5
    for number, (name, taps, low, high, stride, dilation) in enumerate(cases):
        x0, y0 = 0.75 + 10.5 * (number % 3), 2.6 + 12.7 * (number // 3)
        padded = side + low + high
        out = (padded - dilation * (taps - 1) - 1) // stride + 1
        left, top = x0 + (9 - padded) / 2, y0 + (9 - padded) / 2
        page.text(x0 + 4.5, y0 - 1.9, name, weight="bold", size=10.5)
        page.text(x0 + 4.5, y0 - 0.8, f"P = ({side} + {low} + {high} − {dilation}·{taps - 1} − 1) / {stride} + 1 = {out}", size=9)
        for i in range(padded):
            for j in range(padded):
                inside = low <= i < low + side and low <= j < low + side
                page.box(left + j, top + i, fill=PALE[SKY] if inside else "white", edge=GREY if inside else "#b8b8b8", line=0.7, style="-" if inside else ":")
        span, last = dilation * (taps - 1) + 1, stride * (out - 1)
        def reads(start):
            return {(start + r * dilation, start + s * dilation) for r in range(taps) for s in range(taps)}

        for start, colour, aside in ((0, RED, -0.17), (last, BLUE, 0.17)):
            page.box(left + start, top + start, span, span, fill="none", edge=colour, line=2.2, above=5)
            for i, j in sorted(reads(start)):
                page.dot(left + j + 0.5 + (aside if (i, j) in reads(0) & reads(last) else 0), top + i + 0.5, 0.15, colour)
    page.text(15.75, 25.8, "orange: the first window; blue: the last; dots: what each of them reads. Dotted cells are padding: zeros that are not stored",
              size=9, colour=GREY, up="bottom")
    return page


def groups():
    page = Canvas(21, 8.1)
    names = [("groups = 1", 1), ("groups = 2", 2), ("groups = 4 = C = K: depthwise", 4)]
    colours = [BLUE, ORANGE, GREEN, PURPLE]
    for number, (name, count) in enumerate(names):
        x0, channels = 0.7 + 7 * number, 4
        page.text(x0 + 2.8, 0.5, name, weight="bold")
        for c in range(channels):
            colour = colours[c * count // channels] if count > 1 else GREY
            pale = PALE.get(colour, LIGHT)
            page.box(x0, 1.2 + 1.4 * c, 1.3, 0.95, fill=pale)
            page.text(x0 + 0.65, 1.68 + 1.4 * c, f"c = {c}", size=9)
            page.box(x0 + 4.3, 1.2 + 1.4 * c, 1.3, 0.95, fill=pale)
            page.text(x0 + 4.95, 1.68 + 1.4 * c, f"k = {c}", size=9)
            for k in range(channels):
                if c * count // channels == k * count // channels:
                    page.arrow((x0 + 1.3, 1.68 + 1.4 * c), (x0 + 4.3, 1.68 + 1.4 * k), colour=colour, line=1.0)
        page.text(x0 + 2.8, 7.1, f"a filter has C / groups = {channels // count} channel{'s' if channels > count else ''}", size=9)
        page.text(x0 + 2.8, 7.65, f"weights: 4 · {channels // count} · R · S", size=9)
    return page


def layouts():
    page, colours = Canvas(26, 13.4), [BLUE, ORANGE]
    height, width, channels = 2, 3, 2
    page.text(4.1, 0.55, "one image: C = 2, H = 2, W = 3", weight="bold")
    for c in range(channels):
        for h in range(height):
            for w in range(width):
                page.box(0.8 + 4.4 * c + 1.1 * w, 1.3 + 1.1 * h, 1.1, 1.1, fill=PALE[colours[c]])
                page.text(1.35 + 4.4 * c + 1.1 * w, 1.85 + 1.1 * h, f"{h},{w}", size=9)
        page.text(2.45 + 4.4 * c, 3.85, f"channel {c}", size=9)
    page.text(10.6, 1.25, "offset of element (n, c, h, w)", align="left", weight="bold")
    page.text(10.6, 2.15, "NCHW   ((n · C + c) · H + h) · W + w", align="left")
    page.text(10.6, 2.95, "NHWC   ((n · H + h) · W + w) · C + c", align="left")
    page.text(10.6, 3.85, "in a cell: h,w; its colour: the channel", align="left", size=9, colour=GREY)
    rows = [("NCHW", 6.3, [(c, h, w) for c in range(channels) for h in range(height) for w in range(width)]),
            ("NHWC", 10.4, [(c, h, w) for h in range(height) for w in range(width) for c in range(channels)])]
    for name, y, order in rows:
        page.text(0.8, y + 0.75, name, weight="bold", align="left")
        for at, (c, h, w) in enumerate(order):
            page.box(4 + 1.5 * at, y, 1.5, 1.5, fill=PALE[colours[c]])
            page.text(4.75 + 1.5 * at, y + 0.75, f"{h},{w}", size=9)
            page.text(4.75 + 1.5 * at, y + 1.85, str(at), size=9, colour=GREY)
        steps = sorted((order.index(goal), words) for goal, words in (((0, 0, 1), "w + 1"), ((0, 1, 0), "h + 1"), ((1, 0, 0), "c + 1")))
        for level, (goal, words) in enumerate(steps):
            lift, end = y - 0.55 * (level + 1), 4.75 + 1.5 * goal
            page.axes.plot([4.45 + 0.3 * level] * 2 + [end], [y, lift, lift], color=GREY, linewidth=1.1)
            page.arrow((end, lift), (end, y), colour=GREY)
            page.text(4.3 + 0.3 * level, lift + 0.05, f"{words}: {goal} further", size=9, align="right")
    page.text(13, 12.95, "below each cell: its address, counted in elements", size=9, colour=GREY)
    return page


def passes():
    page = Canvas(21, 9.4)

    def tensor(x, y, name, colour):
        page.box(x, y, 1.9, 1.1, fill=PALE[colour])
        page.text(x + 0.95, y + 0.55, name, size=11)

    def operation(x, y, name):
        page.box(x, y, 2.7, 1.1, fill=LIGHT, line=1.4)
        page.text(x + 1.35, y + 0.55, name, weight="bold", size=11)

    page.text(0.4, 0.55, "forward", weight="bold", align="left")
    tensor(3.2, 1.6, "x", BLUE)
    tensor(7.6, 0.1, "w", ORANGE)
    operation(7.2, 1.6, "fprop")
    tensor(12.2, 1.6, "y", GREEN)
    page.arrow((5.1, 2.15), (7.2, 2.15))
    page.arrow((8.55, 1.2), (8.55, 1.6))
    page.arrow((9.9, 2.15), (12.2, 2.15))
    page.arrow((14.1, 2.15), (16.4, 2.15))
    page.text(16.6, 2.15, "next layer ... loss L", align="left")
    page.text(0.4, 2.15, "layer\nbefore", align="left")
    page.arrow((2.1, 2.15), (3.2, 2.15))

    page.text(0.4, 4.2, "backward", weight="bold", align="left")
    tensor(12.2, 5.0, "dy", GREEN)
    operation(7.2, 5.0, "dgrad")
    tensor(3.2, 5.0, "dx", BLUE)
    operation(7.2, 7.2, "wgrad")
    tensor(3.2, 7.2, "dw", ORANGE)
    page.arrow((16.4, 5.55), (14.1, 5.55))
    page.text(16.6, 5.55, "gradient of the loss", align="left")
    page.arrow((12.2, 5.55), (9.9, 5.55))
    page.arrow((12.2, 5.9), (9.9, 7.75))
    page.arrow((7.2, 5.55), (5.1, 5.55))
    page.arrow((7.2, 7.75), (5.1, 7.75))
    page.arrow((3.2, 5.55), (2.1, 5.55))
    page.text(0.4, 5.55, "layer\nbefore", align="left")
    page.arrow((3.2, 7.75), (2.1, 7.75))
    page.text(0.4, 7.75, "update\nof w", align="left")
    page.arrow((8.55, 4.3), (8.55, 5.0), dashes="--", colour=GREY)
    page.text(8.55, 4.0, "w", colour=GREY, size=11)
    page.arrow((8.55, 9.0), (8.55, 8.3), dashes="--", colour=GREY)
    page.text(8.9, 9.0, "x, kept since the forward pass", colour=GREY, align="left")
    return page


def transposed():
    """Stride 2, three taps, padding 1, along one axis: the same lines, read both ways."""
    page, pixels, outputs, colours = Canvas(21, 7.4), 6, 3, [RED, GREEN, BLUE]
    for side, (x0, title, top, bottom) in enumerate(((0.9, "fprop: y[p] gathers three pixels", "x", "y"), (11.4, "dgrad: dy[p] sends to three pixels", "dx", "dy"))):
        page.text(x0 + 4.5, 0.5, title, weight="bold")
        for h in range(pixels):
            page.box(x0 + 1.5 * h, 1.3, 1.3, 1.0, fill=PALE[SKY])
            page.text(x0 + 0.65 + 1.5 * h, 1.8, f"{top}[{h}]", size=9)
        for p in range(outputs):
            centre = x0 + 0.65 + 3 * p
            page.box(centre - 0.65, 4.9, 1.3, 1.0, fill=PALE[GREEN])
            page.text(centre, 5.4, f"{bottom}[{p}]", size=9)
            for r in range(3):
                h = 2 * p - 1 + r
                if not 0 <= h < pixels:
                    continue
                ends = (x0 + 0.65 + 1.5 * h + 0.12 * (1 - r), 2.3), (centre + 0.3 * (r - 1), 4.9)
                page.arrow(*(ends if side == 0 else ends[::-1]), colour=colours[r], line=1.5)
    for r in range(3):
        page.arrow((5.6 + 3.6 * r, 6.75), (6.5 + 3.6 * r, 6.75), colour=colours[r], line=1.8)
        page.text(6.7 + 3.6 * r, 6.75, f"times w[{r}]", align="left", size=9)
    return page


def turns():
    page = Canvas(26, 11.3)
    names = [("01a", PALE[SKY]), ("02a", PALE[ORANGE]), ("cuDNN", PALE[GREEN])]
    page.text(0.5, 0.45, "contenders take turns", weight="bold", align="left")
    x = 0.5
    for label, count in (("warm-up", 1), ("sample 1", 1), ("sample 2", 1), ("... 20", 1)):
        for name, colour in names:
            page.box(x, 1.4, 1.55, 1.2, fill=LIGHT if label == "warm-up" else colour)
            page.text(x + 0.78, 2.0, name, size=9)
            x += 1.55
        page.text(x - 2.33, 1.1, label, size=9)
        x += 0.3
    page.box(x + 0.2, 1.4, 1.5, 1.2, fill="white", style="--")
    page.text(x + 0.95, 2.0, "NaN", size=9)
    page.box(x + 1.7, 1.4, 1.55, 1.2, fill=PALE[SKY])
    page.text(x + 2.48, 2.0, "01a", size=9)
    page.box(x + 3.25, 1.4, 1.5, 1.2, fill="white", style="--")
    page.text(x + 4.0, 2.0, "verify", size=9)
    page.text(x + 2.48, 1.1, "last sample, each", size=9)

    page.text(3.4, 4.75, "one sample: a graph replay over all buffer sets", weight="bold", align="left")
    page.arrow((5.45, 2.65), (1.2, 5.35), colour=GREY, style="-", dashes=":")
    page.arrow((7.0, 2.65), (24.3, 5.35), colour=GREY, style="-", dashes=":")
    page.box(1.2, 5.4, 23.1, 1.3, fill="none", line=1.2)
    for i in range(6):
        page.box(1.35 + 3.83 * i, 5.55, 3.65, 1.0, fill=PALE[SKY])
        page.text(3.18 + 3.83 * i, 6.05, f"launch on set {i}" if i < 5 else "... set S − 1", size=9)
    for at, words in ((1.2, "event: start"), (24.3, "event: stop")):
        page.arrow((at, 7.7), (at, 6.75), colour=RED)
        page.text(at, 8.05, words, size=9, colour=RED, align="left" if at < 5 else "right")
    page.text(12.75, 7.4, "sample = (stop − start) / launches", size=9.5)
    page.text(0.5, 9.2, "one buffer set, its guards hatched", weight="bold", align="left")
    x = 1.2
    for name in ("x", "w", "y: NaN before", "workspace: NaN before"):
        for kind in ("guard", name, "guard"):
            wide = 0.75 if kind == "guard" else {"x": 3.4, "w": 1.8}.get(kind, 5.0)
            page.box(x, 9.7, wide, 1.1, fill="white" if kind == "guard" else PALE[SKY])
            if kind == "guard":
                page.axes.add_patch(Rectangle((x, 9.7), wide, 1.1, facecolor="none", edgecolor=GREY, hatch="////", linewidth=0, zorder=3))
            else:
                page.text(x + wide / 2, 10.25, kind, size=9)
            x += wide
        x += 0.25
    return page


def drawn(name, draw):
    """A figure as the others are drawn, but with matplotlib's own looks."""
    def figure(_):
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9.5})
            return draw().figure, name
    return figure


FIGURES = {name: (drawn(name, draw), []) for name, draw in {
    "convolution-window": window, "convolution-sizes": sizes, "convolution-groups": groups, "convolution-layouts": layouts, "convolution-passes": passes,
    "convolution-transposed": transposed, "measuring-turns": turns}.items()}
