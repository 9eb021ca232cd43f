"""Run the tables and write them down, the paper's number beside ours."""

import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from buttress._types import Predictor
from reproduce.finished import Parts
from reproduce.subquantile import published, rows
from reproduce.subquantile.protocol import Trial, problem, trial


@dataclass(frozen=True)
class Column:
    """One column of a table: a set, a rate, and the kind of noise."""

    data: str
    rate: float
    kind: str = "label"

    def __str__(self) -> str:
        return f"{self.data} {self.kind} {self.rate:g}"


def columns(table: int, short: bool) -> list[Column]:
    """Return the paper's columns, or for short runs those on sets that need no file."""
    if table == 1:
        names = ["Polynomial"] if short else ["Concrete", "Wine", "Boston", "Drug", "Polynomial"]
        return [Column(name, rate) for name in names for rate in (0.2, 0.4)]
    if table == 2:
        names = ["Diabetes"] if short else ["Boston", "Wine", "Concrete", "Drug"]
        return [Column(name, 0.4, kind) for name in names for kind in ("label", "label+feature")]
    names = ["Breast cancer"] if short else ["Heart", "Breast cancer"]
    return [Column(name, rate, kind) for name in names for kind in ("label", "label+feature") for rate in (0.2, 0.4)]


ROWS = {1: rows.ROWS_1, 2: rows.ROWS_2, 3: rows.ROWS_3}
PUBLISHED = {1: published.TABLE_1, 2: published.TABLE_2, 3: published.TABLE_3}
DRUG_TRIALS = 5  # as in the paper; the set is large


def paper_cells(table: int) -> dict[tuple[str, str], published.Cell]:
    """Return the published numbers by (row, column name)."""
    names = [str(column) for column in columns(table, short=False) if column.data != "Polynomial"]
    return {(row, name): cell for row, cells in PUBLISHED[table].items()
            for name, cell in zip(names, cells, strict=True)}


def measure(
    table: int, column: Column, trials: int, data_dir: Path | None, only: str, parts: Parts
) -> Iterator[dict[str, Any]]:
    """Yield one record a row and trial of a column: its score and the processor seconds its fit took."""
    source = problem(column.data, data_dir)
    for seed in range(min(trials, DRUG_TRIALS) if column.data == "Drug" else trials):
        case = trial(source, column.rate, column.kind, seed)
        for name, row in ROWS[table].items():
            if only.lower() in name.lower():
                about = {"table": table, "column": str(column), "row": name, "seed": seed}
                yield parts.of(f"table {table}, {name}", [about, case.X, case.y],
                               partial(_record, about, row, case))


def _record(about: dict[str, Any], row: Callable[[Trial], Predictor], case: Trial) -> dict[str, Any]:
    start = time.process_time()
    with warnings.catch_warnings():
        # a fixed number of iterations is the paper's way to stop
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = row(case)
    seconds = time.process_time() - start
    return {**about, "score": case.score(model), "seconds": seconds,
            "contamination": getattr(model, "contamination_", None)}


def summary(records: list[dict[str, Any]], row: str, column: str) -> tuple[float, float, float] | None:
    """Return mean and standard deviation of the scores of a cell, and its mean seconds."""
    found = [(r["score"], r["seconds"]) for r in records if r["row"] == row and r["column"] == column]
    if not found:
        return None
    scores, seconds = np.array(found).T
    return float(scores.mean()), float(scores.std()), float(seconds.mean())


def agrees(ours: tuple[float, float, float], printed: tuple[float, float]) -> bool:
    """Say whether two means differ by at most the sum of their standard deviations over trials."""
    return abs(ours[0] - printed[0]) <= ours[1] + printed[1]


def markdown(table: int, records: list[dict[str, Any]]) -> str:
    """Return the table as text: each cell "paper / ours", ours as mean (standard deviation)."""
    names = list(dict.fromkeys(r["column"] for r in records))
    paper = paper_cells(table)
    lines = ["| | " + " | ".join(names) + " | agree | s |", "|" + "---|" * (len(names) + 3)]
    for row in dict.fromkeys(r["row"] for r in records):
        cells = []
        seconds = []
        agree = []
        for name in names:
            ours, printed = summary(records, row, name), paper.get((row, name))
            before = f"{printed[0]:.3f} ({printed[1]:.3f}) / " if printed else "- / "
            cells.append(before + (f"**{ours[0]:.3f}** ({ours[1]:.3f})" if ours else "-"))
            seconds += [ours[2]] if ours else []
            agree += [agrees(ours, printed)] if ours and printed else []
        verdict = f"{sum(agree)} of {len(agree)}" if agree else ""
        lines.append(f"| {row} | " + " | ".join(cells) + f" | {verdict} | {np.mean(seconds):.2f} |")
    measured = "test accuracy" if table == 3 else "test RMSE"
    head = (f"Table {table}: {measured}, paper / ours, mean (standard deviation over trials); agree: cells whose means "
            "differ by at most the two deviations together; s: processor seconds a fit.")
    return head + "\n\n" + "\n".join(lines) + "\n"


def save(output: Path, name: str, text: str, records: object) -> None:
    """Write NAME.md and NAME.json into the output directory."""
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.md").write_text(text, encoding="utf-8")
    (output / f"{name}.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
