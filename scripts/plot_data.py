"""Result rows for the plots: the CSV files of `make bench` and `make batch`, read and grouped. Standard library only."""

import csv
import hashlib
import re
from pathlib import Path

PASSES = ("fprop", "dgrad", "wgrad")
DTYPES = ("fp32", "fp16")
NEEDED = ("gpu", "driver", "cuda", "cudnn", "date", "shape", "name", "count", "pass", "dtype", "kernel", "status", "us_median", "gbps", "floor_us", "cudnn_best_us")
BYTES = {"fp32": 4, "fp16": 2}
ROOT = Path(__file__).resolve().parent.parent


class BadInput(Exception):
    """One line that names the thing and what was expected."""


class Shape:
    """A benchdnn string as the harness prints it (common/conv/problem.h): what is left out is square, or has its default."""

    def __init__(self, text):
        field = {name: int(value) for name, value in re.findall(r"([a-z]+)(\d+)", text)}
        try:
            h = {name: field[name + "h"] for name in "iok"}
            square = "iw" not in field
            w = h if square else {name: field[name + "w"] for name in "iok"}
            self.n, self.c, self.k, self.groups = field["mb"], field["ic"], field["oc"], field.get("g", 1)
        except KeyError as missing:
            raise BadInput(f'shape: expected a benchdnn string as the harness prints it, got "{text}" without {missing}') from None
        self.text = text
        self.h, self.w, self.p, self.q, self.r, self.s = h["i"], w["i"], h["o"], w["o"], h["k"], w["k"]
        self.stride = field.get("sh", 1)

    @property
    def without_batch(self):
        return re.sub(r"mb\d+", "", self.text)

    @property
    def flops(self):
        return 2.0 * self.n * self.k * self.p * self.q * (self.c // self.groups) * self.r * self.s

    def bytes(self, dtype):
        """Of the two inputs and the result, each once: what any implementation must move, whatever the pass."""
        x, w, y = self.n * self.c * self.h * self.w, self.k * (self.c // self.groups) * self.r * self.s, self.n * self.k * self.p * self.q
        return float(BYTES[dtype] * (x + w + y))

    def words(self, batch=True):
        images = f"{self.n} image{'s' * (self.n > 1)} of " if batch else ""
        stride = f", stride {self.stride}" if self.stride > 1 else ""
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{images}{self.h} × {self.w} pixels, {self.c} → {self.k} channels, {self.r} × {self.s} filter{stride}{groups}"


class Row:
    """One timed, right result."""

    def __init__(self, fields):
        self.gpu, self.driver, self.cuda, self.cudnn, self.date = (fields[k] for k in ("gpu", "driver", "cuda", "cudnn", "date"))
        self.shape, self.name, self.kernel = Shape(fields["shape"]), fields["name"], fields["kernel"]
        self.conv_pass, self.dtype, self.count = fields["pass"], fields["dtype"], int(fields["count"])
        self.us = float(fields["us_median"])
        self.bytes = float(fields["gbps"]) * self.us * 1e3  # what the pass touches, as the harness counts it
        self.floor_us = float(fields["floor_us"] or 0)
        self.cudnn_us = float(fields["cudnn_best_us"] or 0)
        self.cudnn_plan = fields.get("cudnn_best_plan", "")
        self.on_gpu = self.driver != ""

    @property
    def step(self):
        return self.kernel[:2]

    def tflops(self, us=None):
        return self.shape.flops / (us or self.us) / 1e6


def read(paths):
    """The timed rows of all files that compute a convolution alone; fused ones (a column "graph" says so) have other baselines."""
    rows = []
    for path in paths:
        with open(path, newline="") as file:
            table = csv.DictReader(file)
            missing = [name for name in NEEDED if name not in (table.fieldnames or ())]
            if missing:
                raise BadInput(f"{path}: expected the columns of common/harness/report.c, {missing[0]} is missing")
            for number, fields in enumerate(table, 2):
                if fields["status"] != "right" or not fields["us_median"] or fields.get("graph", "conv") not in ("", "conv"):
                    continue
                try:
                    rows.append(Row(fields))
                except (ValueError, TypeError, BadInput) as error:
                    raise BadInput(f"{path}:{number}: expected a row of common/harness/report.c: {error}") from None
                if fields["pass"] not in PASSES or fields["dtype"] not in DTYPES:
                    raise BadInput(f'{path}:{number}: expected one of {" ".join(PASSES + DTYPES)}, got "{fields["pass"]}" and "{fields["dtype"]}"')
    names = {row.shape.text: row.name for row in rows if row.name}
    for row in rows:  # run with --shape: the same layer as one that a suite has named
        row.name = row.name or names.get(row.shape.text, "")
    gpus = sorted({row.gpu for row in rows if row.on_gpu})
    if len(gpus) > 1:
        raise BadInput(f"{paths[0]}: expected results of one GPU, got {' and '.join(gpus)}")
    return rows


def machine(rows):
    """Where the figures come from, in one line."""
    def values(name, of):
        return sorted({getattr(row, name) for row in of} - {""})

    gpu = [row for row in rows if row.on_gpu]
    days = sorted({row.date[:10] for row in gpu or rows})
    parts = values("gpu", gpu)
    parts += [f"driver for CUDA {', '.join(values('driver', gpu))}", f"CUDA {', '.join(values('cuda', gpu))}"] if gpu else []
    parts += [f"cuDNN {version}" for version in values("cudnn", gpu)]
    parts.append(days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}")
    text = ", ".join(parts)
    cpus = values("gpu", [row for row in rows if not row.on_gpu])
    return text + (f"; step 00: {', '.join(cpus)}" if cpus and gpu else "")


def source(paths):
    """Every file with its hash: a figure that carries another hash than its file has is stale."""
    parts = []
    for path in paths:
        path = Path(path).resolve()
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
        parts.append(f"{shown} sha256={hashlib.sha256(path.read_bytes()).hexdigest()}")
    return "source: " + "; ".join(parts)


def fastest(rows, key):
    """The fastest row for each key, in the order in which the keys appear."""
    best = {}
    for row in rows:
        k = key(row)
        if k not in best or row.us < best[k].us:
            best[k] = row
    return best


def on_layers(rows, others):
    """Of the rows those on layers that the others have, by the others' names."""
    names = {row.shape.text: (row.name, row.count) for row in others}
    same = [row for row in rows if row.shape.text in names]
    for row in same:
        row.name, row.count = names[row.shape.text]
    return same


def rules(results):
    """({(layer, pass, arithmetic): [the kernels that the steps' rules take, the last step's first]}, the files: which-NN.csv of `make emulated`)."""
    taken, paths = {}, sorted(results.glob("which-*.csv"), reverse=True)
    for path in paths:
        with open(path, newline="") as file:
            for number, fields in enumerate(csv.DictReader(file), 2):
                if not all(fields.get(name) for name in ("shape", "pass", "dtype", "kernel")):
                    raise BadInput(f"{path}:{number}: expected the columns of --which")
                taken.setdefault((fields["shape"], fields["pass"], fields["dtype"]), []).append(fields["kernel"])
    return taken, paths


def ruled(rows, taken):
    """Of one layer's rows the fastest of the kernel that a rule takes; None if there is no such row."""
    for kernel in taken.get((rows[0].shape.text, rows[0].conv_pass, rows[0].dtype), []):
        mine = [row for row in rows if row.kernel == kernel]
        if mine:
            return min(mine, key=lambda row: row.us)
    return None


def middle(values):
    """The median: of an even number the mean of two."""
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def cudnn_best(rows):
    """cuDNN's lowest median of a group of rows; 0 if it was not timed. Several steps time it beside the same problem: its best run counts."""
    return min((row.cudnn_us for row in rows if row.cudnn_us), default=0)


def step_title(step):
    """"02": what its folder is called."""
    folder = next(iter(sorted(ROOT.glob(f"{step}_*/"))), None)
    return folder.name[3:].replace("_", " ") if folder else ""


def kernel_title(kernel):
    """"02b": what its file is called."""
    pattern = re.match(r"(\d\d)([a-z])", kernel)
    files = sorted(ROOT.glob(f"{pattern[1]}_*/{pattern[2]}_*.c*")) if pattern else []
    return f"{kernel}  {files[0].stem[2:].replace('_', ' ')}" if files else kernel


def suites(rows):
    """{name: rows} for each suite of common/suites that the rows come from; "-mbN" where they ran with another batch than the file's. A layer may be
    in several suites and then counts in each; but a suite of which only such layers were run was not run itself. What is in no suite is "other"."""
    lines = {}
    for path in sorted((ROOT / "common" / "suites").iterdir()):
        for shape, name in re.findall(r'^([^#"]*)n"(.*?)(?:\*\d+)?"$', path.read_text(), re.MULTILINE):
            lines.setdefault((re.sub(r"mb\d+", "", shape), name), []).append((path.name, int(re.search(r"mb(\d+)", shape)[1])))
    groups, own = {}, {"other"}
    for row in rows:
        homes = lines.get((row.shape.without_batch, row.name), [("other", row.shape.n)])
        for suite, batch in homes:
            groups.setdefault((suite, row.shape.n if row.shape.n != batch else 0), []).append(row)
        if len(homes) == 1:
            own.add(homes[0][0])
    order = {line: number for number, line in enumerate(lines)}  # layers as the files have them
    for members in groups.values():
        members.sort(key=lambda row: order.get((row.shape.without_batch, row.name), len(order)))
    return {suite + (f"-mb{batch}" if batch else ""): members for (suite, batch), members in sorted(groups.items()) if suite in own}
