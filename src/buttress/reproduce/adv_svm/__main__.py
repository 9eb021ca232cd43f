"""python -m buttress.reproduce.adv_svm: the paper's tables 2 and 3 and figures 2 and 3, its numbers beside ours."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from buttress.reproduce.adv_svm.data import SETS, Split, digits_pair
from buttress.reproduce.adv_svm.protocol import MODELS, figure_2, figure_3, measure
from buttress.reproduce.adv_svm.published import PUBLISHED


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m buttress.reproduce.adv_svm", description=__doc__)
    p.add_argument("--data-dir", type=Path, help="local copies of MNIST and CIFAR-10; default: download from OpenML")
    p.add_argument("--output", type=Path, default=Path("adv-svm-reproduction"), help="where to write the results")
    p.add_argument("--sets", nargs="*", choices=tuple(SETS), default=list(SETS), metavar="SET", help="only these sets")
    p.add_argument("--models", nargs="*", choices=MODELS, default=MODELS, metavar="MODEL", help="only these rows")
    p.add_argument("--trials", type=int, default=10, help="seeds of the batches, features and attacked rows")
    p.add_argument("--attacked", type=int, default=200, help="test rows attacked in each trial")
    p.add_argument("--nearest", type=int, default=20, help="test rows attacked by C&W and ZOO a trial; 0 for none")
    p.add_argument("--nearest-trials", type=int, default=10, help="trials with C&W and ZOO: they cost most of the time")
    p.add_argument("--folds", type=int, default=5, help="of the choice of parameters")
    p.add_argument("--sample", type=int, default=5000, help="training rows on which parameters are chosen")
    p.add_argument("--features", type=int, default=1024, help="random features a block")
    p.add_argument("--rows", type=int, help="at most this many training rows; default: all")
    p.add_argument("--figures", action="store_true", help="also figures 2 and 3")
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


def run_set(name: str, split: Split, options: argparse.Namespace) -> dict[str, Any]:
    """Print the table of one set, and its figures; returns all numbers."""
    out = sys.stdout.write
    eps = 8 / 255 if name.startswith("CIFAR") else 0.1
    record: dict[str, Any] = {"set": name, "source": split.source, "rows": {}}
    out(f"\n## {name} ({split.source}: {len(split.X)} training rows, {len(split.X_test)} test rows)\n\n")
    sizes = {"trials": options.trials, "attacked": options.attacked, "folds": options.folds, "sample": options.sample,
             "features": options.features, "nearest": options.nearest,
             "nearest_trials": options.nearest_trials, "models": options.models}
    for row, scores, minutes, candidate in measure(split, eps, **sizes):
        if not record["rows"]:
            out(f"| model | {' | '.join(scores)} | minutes |\n|{'---|' * (len(scores) + 2)}\n")
        out(line(name, row, scores, minutes) + "\n")
        sys.stdout.flush()
        record["rows"][row] = {"scores": scores, "minutes": minutes, "model": repr(candidate.model)}
        if options.figures:
            record["rows"][row]["figure 2"] = figure_2(candidate, split, options.attacked)
            if row in ("Natural", "adv-SVM(D)", "adv-SVM(C)"):
                record["rows"][row]["figure 3"] = figure_3(candidate, split, options.attacked)
    return record


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
    options.output.mkdir(parents=True, exist_ok=True)
    names = ["digits 3 vs. 8"] if options.short else options.sets
    missing = 0
    for name in names:
        try:
            split = digits_pair(3, 8) if options.short else SETS[name](options.data_dir)
            if options.rows is not None:  # some files are sorted by class
                some = np.random.default_rng(0).permutation(len(split.X))[: options.rows]
                split.X, split.y = split.X[some], split.y[some]
        except FileNotFoundError as error:
            sys.stderr.write(f"{name}: left out. {error}\n")
            missing += 1
            continue
        record = run_set(name, split, options)
        path = options.output / f"{name.replace(' ', '-').replace('.', '').lower()}.json"
        path.write_text(json.dumps(record, indent=1))
    return 1 if missing == len(names) else 0


if __name__ == "__main__":
    raise SystemExit(main())
