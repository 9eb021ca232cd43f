"""Novelty detectors on the classical sets of ADBench: ROC AUC, mean ranks and paired differences, p-values.

    python -m benchmarks.adbench --data-dir DIR             all detectors, and how far SVDD is ahead of each
    python -m benchmarks.adbench --sets choosing            on the sets that constants may be chosen on
    python -m benchmarks.adbench --what mixtures            SVDD beside other kernels and mixtures of seven
    python -m benchmarks.adbench --what widths              other widths, and the best of them in hindsight
    python -m benchmarks.adbench --what p-values            power and false share of p-values around each scorer

DIR has adbench/*.npz. The sets are those of ``trial_sets.py``: odd numbers choose, even ones judge. Of each at most
``--rows`` rows are drawn, which keep the share of anomalies, at least 50. Two protocols, as in ADBench:

    novelty         fit on half of the inliers, judge the others and all anomalies
    contaminated    fit on all rows, judge the same rows (a detector that can leaves each out in turn)

Columns are divided by their standard deviation over the training rows, for all detectors. All have their defaults.
Peers are PyOD's detectors where it is installed (``pip install pyod``), else those of scikit-learn; of p-values also
those of nonconform (``pip install nonconform``, Python 3.12).
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))

from trial_sets import ADBENCH_CHOOSING, ADBENCH_JUDGING, drawn

from buttress import SVDD, ConformalDetector, MultiKernelSVDD
from buttress.certainty.conformal import p_values, rejected

SETS = {"choosing": ADBENCH_CHOOSING, "judging": ADBENCH_JUDGING}
PROTOCOLS = ("novelty", "contaminated")
WIDTHS = (0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
LEVEL = 0.1  # false discovery rate of the rows named


class Theirs:
    """A detector of PyOD: larger scores are more novel, those of its training rows are ``decision_scores_``."""

    def __init__(self, module: str, name: str, **parameters: Any):
        self.kind = getattr(__import__(f"pyod.models.{module}", fromlist=[name]), name)
        self.parameters = parameters

    def __call__(self, train: np.ndarray, test: np.ndarray | None) -> np.ndarray:
        model = self.kind(**self.parameters).fit(train)
        return model.decision_scores_ if test is None else model.decision_function(test)


class Ours:
    """A detector of this package: training rows are judged by the fit without each."""

    def __init__(self, kind: type, **parameters: Any):
        self.kind = kind
        self.parameters = parameters

    def __call__(self, train: np.ndarray, test: np.ndarray | None) -> np.ndarray:
        model = self.kind(**self.parameters).fit(train)
        return -(model.loo_scores_ if test is None else model.score_samples(test))


class Sklearns(Ours):
    """A detector of scikit-learn: local outlier factor leaves out training rows where it is asked for them alone."""

    def __call__(self, train: np.ndarray, test: np.ndarray | None) -> np.ndarray:
        novelty = {"novelty": test is not None} if self.kind.__name__ == "LocalOutlierFactor" else {}
        model = self.kind(**self.parameters, **novelty).fit(train)
        if test is None and novelty:
            return -model.negative_outlier_factor_
        return -model.score_samples(train if test is None else test)


def peers(seed: int) -> dict[str, Callable[[np.ndarray, np.ndarray | None], np.ndarray]]:
    """Return eleven detectors of PyOD by name, or the three of scikit-learn."""
    try:
        import pyod  # noqa: F401
    except ImportError:
        print("PyOD is not installed: the detectors of scikit-learn take its place.", file=sys.stderr)
        return {"LOF": Sklearns(LocalOutlierFactor), "IForest": Sklearns(IsolationForest, random_state=seed),
                "OCSVM": Sklearns(OneClassSVM)}
    return {"KNN": Theirs("knn", "KNN"), "LOF": Theirs("lof", "LOF"),
            "IForest": Theirs("iforest", "IForest", random_state=seed), "OCSVM": Theirs("ocsvm", "OCSVM"),
            "KDE": Theirs("kde", "KDE"), "GMM": Theirs("gmm", "GMM", random_state=seed),
            "PCA": Theirs("pca", "PCA", random_state=seed), "MCD": Theirs("mcd", "MCD", random_state=seed),
            "HBOS": Theirs("hbos", "HBOS"), "ECOD": Theirs("ecod", "ECOD"), "COPOD": Theirs("copod", "COPOD")}


def mixtures() -> dict[str, Callable[[np.ndarray, np.ndarray | None], np.ndarray]]:
    """Return the ball of one kernel, of others, and of the default mixture with each objective."""
    single = {f"SVDD, {kernel}": Ours(SVDD, kernel=kernel) for kernel in ("laplacian", "cauchy")}
    learned = {f"MultiKernelSVDD, {objective}": Ours(MultiKernelSVDD, objective=objective)
               for objective in ("minimax", "joint", "spread", "uniform")}
    return {"SVDD": Ours(SVDD), **single, **learned}


class Widened(Ours):
    """SVDD with a multiple of the gamma that it would choose."""

    def __call__(self, train: np.ndarray, test: np.ndarray | None) -> np.ndarray:
        gamma = SVDD(max_iter=1).fit(train).kernel_.gamma
        return Ours(SVDD, gamma=self.parameters["times"] * gamma)(train, test)


def print_widths(args: argparse.Namespace) -> None:
    """Print how far each multiple of SVDD's gamma, and the best of each set in hindsight, is ahead of neighbours."""
    made = {f"gamma x {times:g}": Widened(SVDD, times=times) for times in WIDTHS}
    found = all_tasks(args.data_dir, args.sets, args.rows, args.seeds, {"KNN": peers(0)["KNN"]} | made)
    for protocol, (names, values) in found.items():
        best = np.column_stack([values[:, 1:], values[:, 1:].max(axis=1)]) - values[:, :1]
        for name, ahead in zip([*names[1:], "the best in hindsight"], best.T, strict=True):
            print(f"{protocol}, {name}: {ahead.mean():+.3f} ± {ahead.std(ddof=1) / np.sqrt(len(ahead)):.3f}")


def scaled(train: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Return the rows with columns of mean 0 and deviation 1 in ``train``, without those that are constant there."""
    kept = np.ptp(train, axis=0) > 0
    middle, spread = train[:, kept].mean(axis=0), train[:, kept].std(axis=0)
    return [(X[:, kept] - middle) / spread for X in (train, *others)]


def tasks(folder: Path, sets: tuple[str, ...], rows: int, seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the name, the rows and whether each is novel."""
    for name in sets:
        with np.load(folder / "adbench" / f"{name}.npz") as found:
            X, y = found["X"].astype(float), found["y"].ravel().astype(int)
        yield name, *drawn(X, y, rows, seed)


def halves(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return half of the inliers, the other rows, and whether these are novel."""
    inliers = np.random.default_rng(seed).permutation(np.flatnonzero(y == 0))
    rest = np.concatenate([inliers[len(inliers) // 2 :], np.flatnonzero(y == 1)])
    return X[inliers[: len(inliers) // 2]], X[rest], y[rest]


def measured(X: np.ndarray, y: np.ndarray, protocol: str, seed: int, made: dict[str, Callable]) -> dict[str, float]:
    """Return the ROC AUC of each detector; .5 for one that fails on these rows."""
    if protocol == "novelty":
        half, rest, judged = halves(X, y, seed)
        train, test = scaled(half, rest)
    else:
        (train,), test, judged = scaled(X), None, y
    found = {}
    for name, detector in made.items():
        try:
            found[name] = roc_auc_score(judged, np.nan_to_num(detector(train, test), posinf=1e300))
        except (ValueError, np.linalg.LinAlgError) as error:
            print(f"{name} fails: {error}", file=sys.stderr)
            found[name] = 0.5
    return found


def all_tasks(
    folder: Path, sets: str, rows: int, seeds: int, made: dict[str, Callable]
) -> dict[str, tuple[list[str], np.ndarray]]:
    """Return for each protocol the detectors and their ROC AUC, (sets, detectors), means over the seeds."""
    values: dict[str, list[np.ndarray]] = {protocol: [] for protocol in PROTOCOLS}
    for seed in range(seeds):
        for protocol in PROTOCOLS:
            found = []
            for name, X, y in tasks(folder, SETS[sets], rows, seed):
                found.append(list(measured(X, y, protocol, seed, made).values()))
                print(f"{protocol}, {name}, {seed}", file=sys.stderr, flush=True)
            values[protocol].append(np.array(found))
    return {protocol: (list(made), np.mean(found, axis=0)) for protocol, found in values.items()}


def print_auc(args: argparse.Namespace) -> None:
    """Print mean, mean rank and wins of each detector, and how far SVDD is ahead of it, with standard errors."""
    made = mixtures() if args.what == "mixtures" else {"SVDD": Ours(SVDD), **peers(0)}
    found = all_tasks(args.data_dir, args.sets, args.rows, args.seeds, made)
    names = found[PROTOCOLS[0]][0]
    columns = ["mean AUC", "mean rank", "wins", "SVDD ahead by"]
    print("| detector | " + " | ".join(f"{column}, {protocol}" for protocol in PROTOCOLS for column in columns) + " |")
    print("|---" * (1 + len(columns) * len(PROTOCOLS)) + "|")
    lines = {name: [name] for name in names}
    for protocol in PROTOCOLS:
        values = found[protocol][1]
        ranks = np.array([rankdata(-row) for row in values])
        for j, name in enumerate(names):
            ahead = values[:, 0] - values[:, j]
            error = ahead.std(ddof=1) / np.sqrt(len(ahead))
            lines[name] += [f"{values[:, j].mean():.3f}", f"{ranks[:, j].mean():.1f}",
                            str(int((values[:, j] == values.max(axis=1)).sum())),
                            f"{ahead.mean():+.3f} ± {error:.3f}" if j else ""]
    for name in sorted(names, key=lambda name: -float(lines[name][1])):
        print("| " + " | ".join(lines[name]) + " |")


class LeftOutKNN:
    """Distance to the fifth nearest training row, p-values from those of training rows to the others."""

    def fit(self, X: np.ndarray) -> "LeftOutKNN":
        self.index = NearestNeighbors(n_neighbors=5).fit(X)
        self.left_out = self.index.kneighbors()[0][:, -1]
        return self

    def p_values(self, X: np.ndarray) -> np.ndarray:
        return p_values(self.index.kneighbors(X)[0][:, -1], self.left_out, np.ones(len(self.left_out)))


class Nonconform:
    """p-values of the package nonconform around the nearest neighbours of PyOD."""

    def __init__(self, strategy: str, seed: int, **parameters: Any):
        self.strategy = getattr(__import__("nonconform"), strategy)(**parameters)
        self.seed = seed

    def fit(self, X: np.ndarray) -> "Nonconform":
        from nonconform import ConformalDetector as TheirDetector
        from pyod.models.knn import KNN

        self.model = TheirDetector(KNN(), self.strategy, seed=self.seed).fit(X)
        return self

    def p_values(self, X: np.ndarray) -> np.ndarray:
        return self.model.compute_p_values(X)


def rankers(seed: int) -> dict[str, Any]:
    """Return what gives p-values, by name."""
    forest = IsolationForest(random_state=seed)
    made = {"SVDD, left out": SVDD(), "SVDD, cross (10)": ConformalDetector(SVDD(), cv=10, random_state=seed),
            "SVDD, split": ConformalDetector(SVDD(), random_state=seed), "kNN, left out": LeftOutKNN(),
            "isolation forest, cross (10)": ConformalDetector(forest, cv=10, random_state=seed),
            "isolation forest, split": ConformalDetector(forest, random_state=seed)}
    try:
        return made | {"kNN, split, nonconform": Nonconform("Split", seed, n_calib=0.5),
                       "kNN, cross (10), nonconform": Nonconform("CrossValidation", seed, k=10)}
    except ImportError:
        print("nonconform is not installed: left out.", file=sys.stderr)
        return made


def print_p_values(args: argparse.Namespace) -> None:
    """Print power and false share of the rows named at .1 by Benjamini and Hochberg, and adaptively."""
    values: dict[str, list[list[float]]] = {}
    capped = set()
    for seed in range(args.seeds):
        for name, X, y in tasks(args.data_dir, SETS[args.sets], args.rows, seed):
            half, rest, new = halves(X, y, seed)
            if len(new) > LEVEL * new.sum() * (len(half) + 1):
                capped.add(name)
                continue
            train, test = scaled(half, rest)
            for label, model in rankers(seed).items():
                p = model.fit(train).p_values(test)
                both = [rejected(p, LEVEL, adaptive=adaptive) for adaptive in (False, True)]
                values.setdefault(label, []).append([cell for found in both for cell in (
                    found[new == 1].mean(), (found & (new == 0)).sum() / max(found.sum(), 1))])
            print(f"{name}, {seed}", file=sys.stderr, flush=True)
    print("| p-values | power | false share | power, adaptive | false share, adaptive |\n|---|---|---|---|---|")
    for label, rows in values.items():
        mean, error = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(len(rows))
        print(f"| {label} | " + " | ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)) + " |")
    print(f"No scorer can name a row of these sets: {', '.join(sorted(capped)) or 'none'}.", file=sys.stderr)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--what", choices=("auc", "p-values", "mixtures", "widths"), default="auc")
    parser.add_argument("--sets", choices=SETS, default="judging")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        {"p-values": print_p_values, "widths": print_widths}.get(args.what, print_auc)(args)


if __name__ == "__main__":
    main()
