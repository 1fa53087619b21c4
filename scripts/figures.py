"""Draws the figures of the chapters: `make figures`.

    figures.py RESULTS FOLDER      RESULTS: docs/results/GPU

What is drawn from coordinates goes to FOLDER, what shows measurements to FOLDER/GPU, each as NAME.svg. A module has its figures in a table: the name, what
draws it, and which CSV files it shows; a figure carries "source: FILE sha256=..." of those. The same input gives the same bytes, apart from what another
matplotlib changes. Exit status: 0 all right, 2 with one line on stderr.
"""

import sys
from pathlib import Path

import plot_data as data
import plot_style as style

import figures_basics
import figures_first
import figures_fragments
import figures_fusion
import figures_gpu
import figures_ideas
import figures_pipeline
import figures_step03
import figures_step04
import figures_step05
import figures_step06
import figures_steps
import figures_window

MODULES = (figures_ideas, figures_basics, figures_gpu, figures_steps, figures_step03, figures_step04, figures_step05, figures_step06, figures_fragments, figures_pipeline, figures_window, figures_first, figures_fusion)


def main(results, folder):
    for name, (draw, files) in (figure for module in MODULES for figure in module.FIGURES.items()):
        paths = [results / f"{file}.csv" for file in files]
        missing = [path for path in paths if not path.exists()]
        if missing:
            print(f"{name}: not drawn: {missing[0]} is not there")
            continue
        place = folder / results.name if files else folder
        place.mkdir(parents=True, exist_ok=True)
        fig, title = draw(results)
        style.save(fig, place, name, title, data.source(paths))
        print(f"{place / name}.svg")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: figures.py RESULTS FOLDER")
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except (data.BadInput, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
