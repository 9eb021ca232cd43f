"""Draw the figure of docs/svm.md: ``python docs/figures/svm.py`` writes it beside itself, from svm-scaling.csv.

The rows of that file are what ``python benchmarks/scaling.py --csv docs/figures/svm-scaling.csv`` appends.
"""

import csv
from itertools import pairwise
from math import log
from pathlib import Path

HERE = Path(__file__).parent


def scaling():
    """CPU and wall seconds of a fit over the rows, with the exponent of CPU time between sizes."""
    import matplotlib.pyplot as plt

    with (HERE / "svm-scaling.csv").open(newline="") as file:
        rows = [{name: float(row[name]) for name in ("rows", "cpu", "wall", "n_sv")} for row in csv.DictReader(file)
                if not row["gap_asked"]]
    n, cpu, wall = ([row[name] for row in rows] for name in ("rows", "cpu", "wall"))
    figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
    axis.loglog(n, cpu, "o-", color="tab:blue", label="CPU seconds")
    axis.loglog(n, wall, "s--", color="0.4", label="wall seconds, two threads")
    for before, after in pairwise(rows):
        exponent = log(after["cpu"] / before["cpu"]) / log(after["rows"] / before["rows"])
        middle = ((before["rows"] * after["rows"]) ** 0.5, (before["cpu"] * after["cpu"]) ** 0.5)
        axis.annotate(f"$n^{{{exponent:.2f}}}$", middle, xytext=(-30, 8), textcoords="offset points")
    axis.set(xlabel="rows", ylabel="seconds", title="SVC() on n x 30 made rows, certified")
    axis.legend()
    figure.savefig(HERE / "svm-scaling.png", dpi=90)


if __name__ == "__main__":
    scaling()
