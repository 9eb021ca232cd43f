"""What half and double of each tuned constant do, on sets that constants may be chosen on.

    python benchmarks/constants.py [--only Residuals,Labels.coolest] [--seeds 2] [--first 80] [--jobs 2]

The sets are those of ``trial_sets.CHOOSING`` that are made or come with scikit-learn, corrupted as in
``robust_trial.py``. ``many`` is friedman1 of 4,000 rows on 150 landmarks, ``steep`` the set "long tail", whose noise
has a shape. A cell is a set x corruption x seed. Errors are RMSE on clean rows, in per cent of that with the constant
as it is, or the share of clean rows predicted wrongly, in hundredths; "doubt" is the mean squared error of the
probabilities that rows are corrupt, in hundredths. Those of intervals are their score (Winkler), in per cent, and the
share of rows outside; of ``Entries`` and ``Shares`` what ``sensitivity.py`` measures. Each number is the mean change
over the cells with its standard error, less is better. "time" is processor time over that with the constant as it is.
Constants of time and of precision, and those that no such cell reaches, are left out. Set OMP_NUM_THREADS=1.
"""

import argparse
import multiprocessing
import time
import warnings
from dataclasses import fields
from functools import cache, partial
from unittest.mock import patch

import numpy as np
from robust_trial import halves
from sensitivity import FAMILIES, OWN
from sklearn.datasets import make_friedman1
from trial_sets import corrupted_labels, corrupted_targets

from buttress import SVC, RobustKernelClassifier, RobustKernelRegressor, RobustLinearRegressor

TARGETS = (("clean", 0.0), ("shift", 0.4), ("mirrored", 0.3), ("gross", 0.3), ("group", 0.3), ("tails", 0.4),
           ("decimals", 0.1), ("constant", 0.3))
LABELS = (("clean", 0.0), ("uniform", 0.2), ("uniform", 0.4), ("one to one", 0.4), ("next", 0.3))
MADE = ("sine", "long tail", "friedman1")
CLASSES = ("two blobs", "four blobs", "moons", "wine", "overlap")
FEW = 200  # rows that an exact fit to targets has
MODELS = {
    "kernel": RobustKernelRegressor(random_state=0),
    "steep": RobustKernelRegressor(random_state=0),
    "columns": RobustKernelRegressor(kernel="columns", random_state=0),
    "landmarks": RobustKernelRegressor(n_landmarks=15, random_state=0),
    "many": RobustKernelRegressor(n_landmarks=150, random_state=0),
    "linear": RobustLinearRegressor(random_state=0),
    "labels": RobustKernelClassifier(random_state=0),
    "many labels": RobustKernelClassifier(n_landmarks=15, random_state=0),
    "labels of a machine": SVC(kernel="columns"),
}
# the cells of a constant, or of a family: only fits that it may change
USED = {"Designs": ("kernel",), "Designs.coarse": ("many",), "Designs.searched": ("many",),
        "Mixtures": ("kernel",), "Mixtures.degrees_of_many": ("many",), "Mixtures.rounds_of_many": ("many",),
        "Mixtures.reread": ("steep",), "Trimming": ("kernel",), "Trimming.good_within": ("kernel", "linear"),
        "Residuals": ("kernel",), "Residuals.least_width": ("kernel", "linear"),
        "Residuals.degrees": ("kernel", "linear"), "Residuals.cauchy_share": ("kernel", "linear"),
        "Residuals.far_level": ("steep",), "Guard": ("kernel", "linear"),
        "Labels": ("labels",), "NoisyLabels": ("many labels",), "Directions": ("labels",), "Columns": ("columns",),
        "Columns.ridge": ("labels of a machine",),
        "Leverages": ("many", "landmarks"), "Rounding": ("kernel",), "Intervals": ("intervals",),
        "Entries": ("entries",), "Shares": ("shares",)}
LEFT_OUT = ("Designs.exact_rows", "Designs.landmarks", "Designs.mostly_zero", "Designs.short", "Designs.isolated",
            "Trimming.descended", "Trimming.alike", "Trimming.wide", "Trimming.most_spent", "Leverages.few_rows",
            "Intervals.rows", "Intervals.landmarks", "Columns.rows")


@cache
def rows_of(kind, first, seeds):
    """Return the cells of a kind: training rows, which are bad, and clean rows to predict."""
    found = []
    for seed in range(first, first + seeds):
        rng = np.random.default_rng(seed)
        if "labels" in kind:
            for name in CLASSES:
                X, y, *test = halves(name, seed)
                found += [(X, *corrupted_labels(X, y, *how, rng), *test) for how in LABELS]
            continue
        for name in {"many": ("friedman1",), "steep": ("long tail",)}.get(kind, MADE):
            X, y, *test = many(seed) if kind == "many" else halves(name, seed)
            few = None if kind in ("many", "landmarks", "steep") else FEW
            X, y = X[:few], y[:few]
            kinds = TARGETS[:1] if kind == "intervals" else TARGETS[::2] if kind in ("many", "steep") else TARGETS
            found += [(X, *corrupted_targets(X, y, *how, rng), *test) for how in kinds]
    return found


def many(seed):
    """Return 4,000 rows of friedman1 with columns of spread .78, and 1,000 to predict."""
    X, y = make_friedman1(n_samples=5000, noise=1.0, random_state=seed)
    X, y = (X - 0.5) / 0.37, (y - y.mean()) / y.std()
    return X[:4000], y[:4000], X[4000:], y[4000:]


def judged(kind, cell):
    """Return the error and the doubt of a fit to a cell, both in hundredths."""
    X, y, bad, X_test, y_test = cell
    if kind == "intervals":
        low, high = MODELS["kernel"].fit(X, y).predict_interval(X_test, coverage=0.9).T
        beyond = np.maximum(low - y_test, 0) + np.maximum(y_test - high, 0)
        return 100 * np.log(np.mean(high - low + 20 * beyond)), 100 * np.mean(beyond > 0)
    model = MODELS[kind].fit(X, y)
    predicted = model.predict(X_test)
    wrong = np.mean(predicted != y_test) if "labels" in kind else np.log(np.mean((predicted - y_test) ** 2)) / 2
    doubt = getattr(model, "outlier_proba_", 1.0 * bad) - bad
    return 100 * wrong, 100 * np.mean(doubt ** 2)


def measured(kinds, first, seeds):
    """Return the errors and doubts (cells, 2) and the processor time."""
    begun = time.process_time()
    found = []
    for kind in kinds:
        if kind in OWN and kind != "intervals":
            found.append(100 * np.array(OWN[kind]()))
        else:
            found += [judged(kind, cell) for cell in rows_of(kind, first, seeds)]
    return np.array(found), time.process_time() - begun


unchanged = cache(measured)


def row(whole, given):
    """Return the line of one constant."""
    of, name = whole.split(".")
    family = FAMILIES[of][0]
    kinds = USED.get(whole, USED[of])
    value = getattr(family, name)
    before = unchanged(kinds, given.first, given.seeds)
    texts = [f"`{whole}`", ", ".join(f"{part:g}" for part in np.atleast_1d(value))]
    for factor in (0.5, 2.0):
        other = tuple(factor * part for part in value) if isinstance(value, tuple) else type(value)(factor * value)
        with patch.dict(vars(family), **{name: other}):
            try:
                after, spent = measured(kinds, given.first, given.seeds)
            except (ValueError, IndexError, AssertionError) as error:
                texts += [f"stops ({type(error).__name__})", "", ""]
                continue
        changes = after - before[0]
        errors = changes.std(axis=0, ddof=1) / len(changes) ** 0.5 if len(changes) > 1 else (0.0, 0.0)
        texts += [f"{mean:+.3f} ± {error:.3f}" if mean or error else "0"
                  for mean, error in zip(changes.mean(axis=0), errors, strict=True)]
        texts.append(f"{spent / before[1]:.2f}")
    return "| " + " | ".join(texts) + " |"


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="families of constants, or constants")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=80)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = [f"{what}, {factor}" for factor in ("half", "double") for what in ("error", "doubt", "time")]
    print(f"| constant | value | {' | '.join(found)} |\n" + "| --- " * 8 + "|", flush=True)
    whole = [f"{name}.{each.name}" for name in USED if name in FAMILIES for each in fields(FAMILIES[name][0])]
    asked = given.only.split(",") if given.only else [each for each in whole if each not in LEFT_OUT]
    chosen = [each for each in whole if {each, each.split(".")[0]} & set(asked)]
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        for line in pool.imap(partial(row, given=given), chosen):
            print(line, flush=True)


if __name__ == "__main__":
    main()
