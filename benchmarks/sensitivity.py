"""What a change of each tuned constant by a quarter, down and up, does to the corrupted-data fits.

    python benchmarks/robust.py sensitivity [--quick] [--only Guard,Labels]
    python benchmarks/results.py constants-seeds constants -- python benchmarks/robust.py sensitivity

Every constant of ``buttress.*.tuning`` and ``buttress._rows`` is varied alone, whole numbers rounded (and changed by at
least one), those of a tuple all together. The cells are small, clean and corrupted, and some are
made so that a branch is taken (many rows a landmark, steps, repeated targets, near copies). Only the cells of the
estimators that use a family are run. Errors are RMSE to the true function over the spread of the truth, or the share of
labels predicted wrongly; false alarms are the share of good rows named corrupt. Both are given as the largest change,
with its sign, in any cell, in hundredths; 0 stands for no change at all, "~0" for less than .005. "stops" means that
the fit refuses. Families that are not of fits have measures of their own, said in docs/constants.md. Set
OMP_NUM_THREADS=1.
"""

import warnings
from dataclasses import dataclass, fields
from functools import cache
from unittest.mock import patch

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs, make_moons
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import RobustScaler, scale

from buttress import RobustKernelClassifier, RobustKernelRegressor, RobustLinearRegressor, attacks
from buttress._rows import COPIES, SAMPLES, near_copies
from buttress.attacks.chain import SOFT
from buttress.certainty.intervals import INTERVALS
from buttress.robust.cells import deviating_cells
from buttress.robust.tuning import DESIGN, ENTRIES, MIXTURE
from buttress.solvers.contamination.tuning import (
    CONFUSION,
    GUARD,
    LABELS,
    NOISY_LABELS,
    RESIDUALS,
    SHARES,
    TRIMMING,
)
from buttress.solvers.ridge.tuning import COLUMNS, LEVERAGES, ROUNDING_OF_RIDGE


@dataclass(frozen=True)
class Cell:
    """Training rows, the truth at them, which are bad, and the model."""

    name: str
    kind: str
    model: object
    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    bad: np.ndarray


def targets(n, d, kind, seed):
    """Return X, y, the truth and which rows are bad, for a smooth function of d columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    truth = np.sin(2 * X[:, 0]) + X[:, 1] + X[:, 0] * X[:, d - 1] / 2
    bad = rng.random(n) < (0.0 if kind in ("clean", "heavy", "counts") else 0.25)
    if kind == "step":
        bad = np.zeros(n, bool)
        X = X[:, :1]
        truth = np.where(X[:, 0] > 0.3, 8.0, 0.0)
    y = truth + 0.3 * (rng.standard_t(3, n) if kind == "heavy" else rng.normal(size=n))
    y[bad] = {"far": y[bad] + 5 + rng.normal(size=bad.sum()), "gross": y[bad] * 1e6 + 1e6}.get(kind, y[bad])
    return X, np.maximum(np.round(y), 0) if kind == "counts" else y, truth, bad


def regression(quick):
    """Kernel regression, exact and on landmarks."""
    small = RobustKernelRegressor(random_state=0, n_starts=1)
    for kind in ("clean", "far") if quick else ("clean", "far", "gross", "step", "counts"):
        yield Cell(f"kernel {kind}", "kernel", small, *targets(60, 2, kind, 1))
    model = RobustKernelRegressor(random_state=0, n_starts=1, n_landmarks=10)
    yield Cell("kernel, 10 landmarks, far", "landmarks", model, *targets(250, 2, "far", 2))
    model = RobustKernelRegressor(kernel="columns", random_state=0, n_starts=1)
    yield Cell("kernel, learned columns, far", "columns", model, *targets(120, 6, "far", 2))


def lines(quick):
    """Linear regression."""
    model = RobustLinearRegressor(random_state=0, n_starts=1)
    for kind in ("far",) if quick else ("heavy", "gross"):
        X, y, truth, bad = targets(80, 3, kind, 3)
        slope = X @ [2.0, -1.0, 0.5]
        yield Cell(f"linear {kind}", "linear", model, X, slope + y - truth, slope, bad)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 20))
    slope = X @ rng.normal(size=20) / 5
    bad = np.arange(60) % 4 == 0
    y = slope + 0.5 * rng.normal(size=60) + 3 * bad
    yield Cell("linear, many columns", "linear", model, X, y, slope, bad)


def labelled(quick):
    """Classification, exact and on landmarks."""
    X, right = load_iris(return_X_y=True)
    sets = {"iris": (RobustScaler().fit_transform(X), right), "moons": make_moons(150, noise=0.25, random_state=0)}
    if not quick:
        X, right = load_breast_cancer(return_X_y=True)
        sets["cancer"] = RobustScaler().fit_transform(X)[:120], right[:120]
    for name, (X, right) in sets.items():
        for rate in (0.0, 0.2) if name == "moons" else (0.2,):
            rng = np.random.default_rng(5)
            bad = rng.random(len(right)) < rate
            y = np.where(bad, (right + 1) % (right.max() + 1), right)
            yield Cell(f"{name}, {rate:g} wrong", "labels", RobustKernelClassifier(random_state=0), X, y, right, bad)
            if name == "moons":
                model = RobustKernelClassifier(random_state=0, n_landmarks=5 if rate else 20)
                yield Cell(f"{name}, {rate:g} wrong, landmarks", "many labels", model, X, y, right, bad)


def one_way(quick):
    """Classification where wrong labels go from one class to one other, and where none are wrong."""
    X, right = load_digits(return_X_y=True)
    some = np.isin(right, (3, 5, 8))
    digits = X[some][:250] / 16, np.searchsorted((3, 5, 8), right[some][:250])
    blobs = make_blobs(300, centers=[[-2.5, 0.0], [2.5, 0.0]], random_state=0)
    for name, rows, rate in (("blobs", blobs, 0.0), ("blobs", blobs, 0.4), ("digits", digits, 0.4)):
        X, right = rows
        rng = np.random.default_rng(7)
        bad = (right == 1) & (rng.random(len(right)) < rate)
        y = np.where(bad, (right + 1) % (right.max() + 1), right)
        model = RobustKernelClassifier(random_state=0)
        told = f"{name}, {rate:g} of one class given as the next"
        yield Cell(told, "directions", model, X, y, right, bad)


def wrong_entries():
    """Return (share of wrong entries not named first, share of good rows named) of a table with wrong entries."""
    X, _ = load_breast_cancer(return_X_y=True)
    X = X[:, :10].copy()
    rng = np.random.default_rng(8)
    rows = rng.choice(len(X), 40, replace=False)
    columns = rng.integers(X.shape[1], size=40)
    X[rows, columns] *= rng.choice([-1.0, 10.0, 0.1, 1000.0], 40)
    found = deviating_cells(X)
    named = [len(found.columns[row]) > 0 and found.columns[row][0] == column
             for row, column in zip(rows, columns, strict=True)]
    return 1 - float(np.mean(named)), float(np.mean(np.delete(found.p_value, rows) < ENTRIES.level))


def interval():
    """Return (share of new targets outside, mean width over four deviations) of intervals of coverage .9."""
    X, y, _, _ = targets(400, 2, "clean", 9)
    y = y + 0.5 * np.abs(X[:, 0]) * np.random.default_rng(10).normal(size=400)
    model = RobustKernelRegressor(random_state=0, n_starts=1).fit(X[:200], y[:200])
    low, high = model.predict_interval(X[200:], coverage=0.9).T
    return float(np.mean((y[200:] < low) | (y[200:] > high))), float(np.mean(high - low) / (4 * y.std()))


def copies():
    """Rows of which a few repeat others but for rounding."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 3))
    X[100:110] = X[:10] * (1 + 1e-8)
    return X


def votes():
    """Return the share of rows of four tables that stand an attack on their neighbours' votes, and 0."""
    stand = []
    for load, eps in ((load_breast_cancer, 0.5), (load_wine, 0.5), (load_iris, 0.3), (load_digits, 0.3)):
        X, y = load(return_X_y=True)
        X = scale(X)
        for neighbours in (1, 5, 15):
            model = KNeighborsClassifier(neighbours).fit(X[::2], y[::2])
            found = attacks.pgd(model, X[1:400:2], y[1:400:2], eps=eps, random_state=0, return_info=True)[1]
            stand.append(1 - found.success.mean())
    return float(np.mean(stand)), 0.0


FAMILIES = {"Samples": (SAMPLES, ("landmarks", "linear", "many labels")), "Copies": (COPIES, ("copies",)),
            "Designs": (DESIGN, ("kernel", "landmarks", "labels")),
            "Mixtures": (MIXTURE, ("kernel", "landmarks")),
            "Trimming": (TRIMMING, ("kernel", "linear")), "Residuals": (RESIDUALS, ("kernel", "linear", "landmarks")),
            "Guard": (GUARD, ("kernel", "linear")), "Labels": (LABELS, ("labels", "many labels")),
            "NoisyLabels": (NOISY_LABELS, ("many labels",)),
            "Directions": (CONFUSION, ("directions",)), "Entries": (ENTRIES, ("entries",)),
            "Shares": (SHARES, ("shares",)),
            "Intervals": (INTERVALS, ("intervals",)),
            "SoftVotes": (SOFT, ("votes",)),
            "Columns": (COLUMNS, ("columns",)),
            "Leverages": (LEVERAGES, ("landmarks", "many labels")),
            "Rounding": (ROUNDING_OF_RIDGE, ("kernel", "labels"))}


@cache
def cells(quick):
    return [*regression(quick), *lines(quick), *labelled(quick), *one_way(quick)]


def outcome(cell, seed=0):
    """Return the error and the false alarms of the fit to a cell, None where it refuses."""
    try:
        model = clone(cell.model).set_params(random_state=seed).fit(cell.X, cell.y)
    except ValueError:
        return None
    predicted = model.predict(cell.X)
    if cell.kind in ("labels", "many labels", "directions"):
        error = np.mean(predicted != cell.truth)
    else:
        error = np.sqrt(np.mean((predicted - cell.truth) ** 2)) / cell.truth.std()
    return float(error), float(np.mean(~model.inlier_mask_[~cell.bad]))


def varied(value, share):
    """Return a constant changed by a share; a whole number is rounded and moves by at least one."""
    if isinstance(value, tuple):
        return tuple(varied(part, share) for part in value)
    if isinstance(value, int):
        return max(1, value + (max(1, round(value * share)) if share > 0 else -max(1, round(-value * share))))
    return value * (1 + share)


def largest(before, after, which):
    """Return the change of error (0) or of false alarms (1) that is largest in size over the cells, as text."""
    if any((one is None) != (other is None) for one, other in zip(before, after, strict=True)):
        return "stops"
    changes = [other[which] - one[which] for one, other in zip(before, after, strict=True) if one is not None]
    change = 100 * max(changes, key=abs)
    if change == 0:
        return "0"
    return f"{change:+.2f}" if abs(change) >= 0.005 else "~0"


def shares():
    """Return the share of small fits whose interval misses the true share of bad rows, and the mean width."""
    missed, widths = [], []
    for cell in cells(True):
        if cell.kind in ("kernel", "linear", "labels"):
            low, high = clone(cell.model).fit(cell.X, cell.y).contamination_interval_
            missed.append(not low <= cell.bad.mean() <= high)
            widths.append(high - low)
    return float(np.mean(missed)), float(np.mean(widths))


OWN = {"shares": shares, "copies": lambda: (float(len(near_copies(copies()))), 0.0), "entries": wrong_entries,
       "intervals": interval, "votes": votes}


def outcomes(kinds, quick, seed=0):
    if kinds[0] in OWN:
        return [OWN[kinds[0]]()]
    return [outcome(cell, seed) for cell in cells(quick) if cell.kind in kinds]


def noise(quick):
    """Print the lines of the table of what another seed of the fits does, a line a kind of cell."""
    for kind in ("kernel", "landmarks", "linear", "labels", "many labels", "directions"):
        before, after = (outcomes((kind,), quick, seed) for seed in (0, 1))
        print(f"| {kind} | {largest(before, after, 0)} | {largest(before, after, 1)} |", flush=True)


def tenfold(family, name, before, kinds, quick):
    """Return what a tenth and ten times a constant do to the error and to the false alarms, as text."""
    value = getattr(family, name)
    if isinstance(value, tuple):
        return "none"
    told = []
    for factor, word in ((0.1, "a tenth"), (10, "tenfold")):
        other = max(1, round(value * factor)) if isinstance(value, int) else value * factor
        with patch.dict(vars(family), **{name: other}):
            after = outcomes(kinds, quick)
        effects = [largest(before, after, which) for which in (0, 1)]
        if effects != ["0", "0"]:
            told.append(f"{word} {effects[0]}, {effects[1]}")
    return "; ".join(told) or "none"


def row(name, family, constant, before, kinds, quick):
    """Return the line of the table for one constant."""
    value = getattr(family, constant.name)
    found = []
    for share in (-0.25, 0.25):
        with patch.dict(vars(family), **{constant.name: varied(value, share)}):
            found.append(outcomes(kinds, quick))
    effects = [largest(before, after, which) for which in (0, 1) for after in found]
    note = tenfold(family, constant.name, before, kinds, quick) if effects == ["0"] * 4 else ""
    shown = ", ".join(f"{part:g}" for part in value) if isinstance(value, tuple) else f"{value:g}"
    told = constant.metadata
    texts = [f"`{name}.{constant.name}`", told["unit"], shown, told["meaning"], *effects, note, told["origin"]]
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


SEEDS = "| cells | error | false alarms |\n| --- | --- | --- |"
EFFECTS = ("| constant | unit | value | meaning | error, -25 % | +25 % | false alarms, -25 % | +25 % | effect | "
           "chosen on |\n" + "| --- " * 10 + "|")


def sensitivity(arguments):
    """Print what another seed does, and what a change of every constant by a quarter does."""
    warnings.simplefilter("ignore")
    print(SEEDS, flush=True)
    noise(arguments.quick)
    print(f"\n{EFFECTS}", flush=True)
    for name in arguments.only.split(",") if arguments.only else list(FAMILIES):
        family, kinds = FAMILIES[name]
        before = outcomes(kinds, arguments.quick)
        for constant in fields(family):
            print(row(name, family, constant, before, kinds, arguments.quick), flush=True)
