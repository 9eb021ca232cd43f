"""python -m reproduce.adv_svm: the paper's tables 2 and 3 and figures 2 and 3, its numbers beside ours."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from buttress.checkpoints.fingerprint import digest
from buttress.features import fourier
from reproduce.adv_svm.data import SETS, Split, digits_pair
from reproduce.adv_svm.protocol import MODELS, TOGETHER, Kept, figure_2, figure_3, measure
from reproduce.adv_svm.published import PUBLISHED
from reproduce.finished import Parts, finished_parts

SIZES = ("trials", "attacked", "folds", "sample", "features", "nearest", "nearest_trials")
AT_HAND = 2**32  # bytes of random features kept: 200,000 rows have 2.6e9, and drawing them anew is most of an attack


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m reproduce.adv_svm", description=__doc__)
    p.add_argument("--data-dir", type=Path, help="local copies of MNIST and CIFAR-10; default: download from OpenML")
    p.add_argument("--output", type=Path, default=Path("adv-svm-reproduction"), help="where to write the results")
    p.add_argument("--sets", nargs="*", choices=tuple(SETS), default=list(SETS), metavar="SET", help="only these sets")
    p.add_argument("--models", nargs="*", choices=MODELS, default=MODELS, metavar="MODEL", help="only these rows")
    p.add_argument("--trials", type=int, default=10, help="seeds of the batches, features and attacked rows")
    p.add_argument("--attacked", type=int, default=200, help="test rows attacked in each trial")
    p.add_argument("--nearest", type=int, default=20, help="test rows attacked by C&W and ZOO a trial; 0 for none")
    p.add_argument("--nearest-trials", type=int, default=10, help="trials with PGD-40, C&W, ZOO, which cost most")
    p.add_argument("--folds", type=int, default=5, help="of the choice of parameters")
    p.add_argument("--sample", type=int, default=5000, help="training rows on which parameters are chosen")
    p.add_argument("--features", type=int, default=1024, help="random features a block")
    p.add_argument("--rows", type=int, help="at most this many training rows; default: all")
    p.add_argument("--figures", action="store_true", help="also figures 2 and 3")
    p.add_argument("--resume", action="store_true", help="go on from what this command had finished when it was killed")
    p.add_argument("--short", action="store_true", help="scikit-learn's digits instead of the six sets: needs no file")
    return p


def line(name: str, row: str, scores: dict[str, tuple[float, float]], minutes: float) -> str:
    """Return one line of the table: ours +- deviation, and the paper's number in brackets where it printed one."""
    printed = PUBLISHED.get(name, {}).get(row, {})
    cells = []
    for column, (mean, deviation) in scores.items():
        theirs = f" ({printed[column][0]:.2f})" if column in printed else ""
        cells.append(f"{mean:.2f}±{deviation:.2f}{theirs}")
    took = f" ({printed['Normal'][2]:.0f})" if printed else ""
    return f"| {row} | {' | '.join(cells)} | {minutes:.2f}{took} |"


def figures_text(name: str, rows: dict[str, dict[str, Any]]) -> str:
    """Return figures 2 and 3 as tables of ours, with the paper's number in brackets where its tables have the point.

    The paper prints no number of its figures. PGD of 10 steps at 8/255 and the last batch are points of its tables.
    """
    text = ""
    for sweep, head in (("steps", "accuracy, PGD at 8/255, steps"), ("eps", "accuracy, PGD of 10 steps, 255ths")):
        curves = {row: found["figure 2"][sweep] for row, found in rows.items()}
        theirs = {row: _printed(name, row, "PGD") for row in curves}
        whole = {row: [(round(x * 255) if sweep == "eps" else x, value) for x, value in curve]
                 for row, curve in curves.items()}
        text += _curves(f"Figure 2, {head}", whole, theirs, 10 if sweep == "steps" else 8)
    kept = {row: found["figure 3"] for row, found in rows.items() if "figure 3" in found}
    for attack in next(iter(kept.values()), {}):
        theirs = {row: None if (number := _printed(name, row, attack)) is None else 100 - number for row in kept}
        curves = {row: found[attack] for row, found in kept.items()}
        what = "batches" if attack.endswith("l2") else "error, batches"
        text += _curves(f"Figure 3, {attack}, {what}", curves, theirs, max(x for x, _ in next(iter(curves.values()))))
    return text


def _printed(name: str, row: str, attack: str) -> float | None:
    found = PUBLISHED.get(name, {}).get(row, {}).get(attack)
    return None if found is None else found[0]


def _curves(title: str, curves: dict[str, list[tuple[float, float]]], theirs: dict[str, float | None],
            at: float) -> str:
    """Return a table with a line a model; the paper's number stands in brackets in column ``at``."""
    places = [x for x, _ in next(iter(curves.values()), [])]
    text = f"\n| {title} | {' | '.join(f'{x:g}' for x in places)} |\n|{'---|' * (len(places) + 1)}\n"
    for row, curve in curves.items():
        number = theirs[row]
        cells = [f"{y:.2f}" + (f" ({number:.2f})" if x == at and number is not None else "") for x, y in curve]
        text += f"| {row} | {' | '.join(cells)} |\n"
    return text


def run_set(name: str, split: Split, options: argparse.Namespace, parts: Parts) -> dict[str, Any]:
    """Print the table of one set, and its figures; returns all numbers."""
    out = sys.stdout.write
    eps = 8 / 255 if name.startswith("CIFAR") else 0.1
    record: dict[str, Any] = {"set": name, "source": split.source, "rows": {}}
    out(f"\n## {name} ({split.source}: {len(split.X)} training rows, {len(split.X_test)} test rows)\n\n")
    sizes = {size: getattr(options, size) for size in (*SIZES, "figures") if size != "trials"}  # more go on from fewer
    basis = digest([split.X, split.y, split.X_test, split.y_test, sizes])
    for row in (row for row in MODELS if row in options.models):
        found = run_row(row, split, eps, options, partial(_told, parts, name, basis, options.trials))
        scores = found["scores"]
        if not record["rows"]:
            out(f"| model | {' | '.join(scores)} | minutes |\n|{'---|' * (len(scores) + 2)}\n")
        out(line(name, row, scores, found["minutes"]) + "\n")
        sys.stdout.flush()
        record["rows"][row] = found
    if options.figures:
        out(figures_text(name, record["rows"]))
    return record


def _told(parts: Parts, name: str, basis: object, trials: int, part: str, compute: Callable[[], Any]) -> Any:
    """Return a part of a set, kept or computed now; say that it is there, and how many minutes its like still take."""
    found = parts.of(f"{name}, {part}", basis, compute)
    if counted := re.search(r"trial (\d+)$", part):
        left = (trials - int(counted[1])) * found["minutes"]
        sys.stderr.write(f"{datetime.now(UTC):%H:%M} {name}, {part} of {trials}: {left:.0f} minutes left of this "
                         "column\n")
    return found


def run_row(row: str, split: Split, eps: float, options: argparse.Namespace, kept: Kept) -> dict[str, Any]:
    """Return the numbers of one row of the table of a set, and its figures."""
    sizes = {size: getattr(options, size) for size in SIZES}
    (_, scores, minutes, candidate), = measure(split, eps, **sizes, models=[row], beside=options.models, kept=kept)
    found: dict[str, Any] = {"scores": scores, "minutes": minutes, "model": repr(candidate.model)}
    if options.figures:
        found["figure 2"] = kept(f"{row}, figure 2", partial(figure_2, candidate, split, options.attacked))
        if row in TOGETHER:  # those with batches
            found["figure 3"] = kept(f"{row}, figure 3", partial(figure_3, candidate, split, options.attacked,
                                                                 options.nearest))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; returns the exit status."""
    options = parser().parse_args(arguments)
    for name in ("trials", "attacked", "nearest_trials", "sample", "features"):
        if getattr(options, name) < 1:
            sys.stderr.write(f"--{name.replace('_', '-')} must be at least 1. Got {getattr(options, name)}.\n")
            return 2
    if options.folds < 2:
        sys.stderr.write(f"--folds must be at least 2. Got {options.folds}.\n")
        return 2
    fourier.AT_HAND = AT_HAND
    options.output.mkdir(parents=True, exist_ok=True)
    names = ["digits 3 vs. 8"] if options.short else options.sets
    with finished_parts(options.output, options.resume) as parts:
        there = [_run_and_write(name, options, parts) for name in names]
    return 0 if any(there) else 1


def _run_and_write(name: str, options: argparse.Namespace, parts: Parts) -> bool:
    """Run one set and write its numbers down; False where its file is missing."""
    try:
        split = digits_pair(3, 8) if options.short else SETS[name](options.data_dir)
    except FileNotFoundError as error:
        sys.stderr.write(f"{name}: left out. {error}\n")
        return False
    if options.rows is not None:  # some files are sorted by class
        some = np.random.default_rng(0).permutation(len(split.X))[: options.rows]
        split.X, split.y = split.X[some], split.y[some]
    record = run_set(name, split, options, parts)
    path = options.output / f"{name.replace(' ', '-').replace('.', '').lower()}.json"
    path.write_text(json.dumps(record, indent=1))
    return True


if __name__ == "__main__":
    raise SystemExit(main())
