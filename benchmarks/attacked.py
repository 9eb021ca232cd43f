"""Clean, attacked and certified accuracy of machines trained against attacks, and of others, in one table.

    python benchmarks/attacked.py                                # breast cancer, wine and digits of scikit-learn
    python benchmarks/attacked.py --data-dir DIR                 # and MNIST: 1 against 7, ten classes, from idx files
    python benchmarks/attacked.py --sets wine --seeds 1 --first 4

Each seed splits a set into rows to fit, to choose hyper-parameters on, and to judge; judging rows are used once. A
candidate is chosen by its accuracy on the choosing rows, under ``attacks.exact`` where that knows the machine, else
under PGD. The judges are ``attacks.exact`` for linear machines and trees (a row whose time is up counts as standing),
else ``attacks.worst_case``, and ``certified_within``; "-" is where no certificate is known. Machines that warn that
another defence took their place keep their name. Attacks and certificates know the box of the pixels, of which fewer
candidates are tried, with C = 10. Seconds are of the processor, one thread, all fits of the choice. A line of each
split goes to the error output as soon as it is known; the table of means comes last, with the standard error of the
attacked accuracy where there are several splits.
"""

import argparse
import os
import sys
import time
import warnings

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402
from attacks import ones_and_sevens, read  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_digits, load_wine  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from buttress import (  # noqa: E402
    SVC,
    AdversarialClassifier,
    AdversarialLinearSVC,
    AdversarialSVC,
    CertifiedSVC,
    attacks,
    certificates,
)

TEN_CLASSES = "MNIST, ten classes"
SIZES = {  # rows to fit, to choose on, to judge
    "breast cancer": (350, 119, 100), "wine": (80, 38, 60), "digits": (800, 200, 100), TEN_CLASSES: (5000, 100, 50),
}
OTHER_SIZES = (1200, 300, 100)
LEFT_OUT = {TEN_CLASSES: ("certified", "input")}  # minutes a fit; what the default is there
TREE_SECONDS = 0.2  # a row, for forests and boosting
ROUNDS = 15  # of the network: attack all rows, then a few passes over them
PASSES = 4


class AttackedNetwork(MLPClassifier):
    """A network of one hidden layer fitted to rows that PGD has moved, again in each round."""

    def __init__(self, eps=0.1, bounds=None, alpha=1e-4, hidden_layer_sizes=(128,), random_state=None):
        super().__init__(hidden_layer_sizes, alpha=alpha, random_state=random_state)
        self.eps = eps
        self.bounds = bounds

    def fit(self, X, y):
        moved = X
        for turn in range(ROUNDS):
            for _ in range(PASSES):
                self.partial_fit(moved, y, classes=np.unique(y))
            radius = self.eps * min(1.0, 2 * (turn + 1) / ROUNDS)
            moved = attacks.pgd(self, X, y, eps=radius, bounds=self.bounds, steps=7, random_state=turn)
        return self


def machines(eps, bounds, seed):
    """Name, candidates."""
    yield "linear, ball", [AdversarialLinearSVC(eps=eps, C=C) for C in (0.1, 1.0)]
    yield "certified", [CertifiedSVC(eps=eps, C=C, gamma=Width(1.0), bounds=bounds, random_state=seed)
                        for C in (0.1, 1.0)]
    tried = [(0.1, 1.0), (1.0, 1.0), (10.0, 1.0), (10.0, 3.0)][0 if bounds is None else 2 :]  # C and width
    moved = [AdversarialSVC(eps=eps, C=C, gamma=Width(width), bounds=bounds, random_state=seed) for C, width in tried]
    yield "input", moved
    yield "AdversarialClassifier()", [
        AdversarialClassifier([CertifiedSVC(C=one.C, gamma=one.gamma), one], eps=eps, bounds=bounds, random_state=seed)
        for one in moved]
    plain = [(C, width) for C in (0.1, 1.0, 10.0) for width in (0.1, 0.3, 1.0, 3.0)][0 if bounds is None else 8 :]
    yield "SVC", [SVC(C=C, gamma=Width(width)) for C, width in plain]
    yield "network on PGD rows", [AttackedNetwork(eps, bounds, alpha, random_state=seed) for alpha in (1e-4, 1e-2)]
    yield "random forest", [RandomForestClassifier(50, max_depth=depth, random_state=seed) for depth in (4, None)]
    yield "boosting", [HistGradientBoostingClassifier(max_iter=30, learning_rate=rate, random_state=seed)
                       for rate in (0.05, 0.2)]


class Width:
    """A width in units of gamma="scale", which is known only with the rows."""

    def __init__(self, factor):
        self.factor = factor


def fitted(candidate, X, y):
    gamma = getattr(candidate, "gamma", None)
    if isinstance(gamma, Width):
        candidate.set_params(gamma=gamma.factor / (X.shape[1] * X.var()))
    return candidate.fit(X, y)


def ten_digits(folder):
    return read(folder, "train-images").reshape(60000, -1) / 255.0, read(folder, "train-labels")


def splits(name, folder, seed):
    """Rows and labels to fit, to choose, to judge; radius; box."""
    load = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}.get(name)
    if load:
        X, y = load(return_X_y=True)
    else:
        X, y = ten_digits(folder) if name == TEN_CLASSES else ones_and_sevens(folder)
    order = np.random.default_rng(seed).permutation(len(X))
    ends = np.cumsum(SIZES.get(name, OTHER_SIZES))
    parts = [order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] : ends[2]]]
    if name in ("breast cancer", "wine"):
        X = StandardScaler().fit(X[parts[0]]).transform(X)
    elif name == "digits":
        X = X / 16
    eps, bounds = {"breast cancer": (0.25, None), "wine": (0.5, None), "MNIST 1v7, .3": (0.3, (0, 1))}.get(
        name, (0.1, (0, 1)))
    return [(X[part], y[part]) for part in parts], eps, bounds


def attacked(model, X, y, eps, bounds):
    """Accuracy under attack, by which candidates are chosen."""
    options = {"eps": eps, "bounds": bounds, "return_info": True}
    try:
        info = attacks.exact(model, X, y, max_row_time=TREE_SECONDS, **options)[1]
    except ValueError:  # neither linear nor trees, to which PGD is blind
        info = attacks.pgd(model, X, y, steps=20, random_state=0, **options)[1]
    return 1 - info.success.mean()


def judged(model, X, y, eps, bounds):
    """Clean accuracy, accuracy under the strongest attack, certified accuracy or nan."""
    right = model.predict(X) == y
    options = {"eps": eps, "bounds": bounds, "return_info": True}
    try:
        info = attacks.exact(model, X, y, max_row_time=TREE_SECONDS, **options)[1]
        proven = info.proven & ~info.success
    except ValueError:  # neither linear nor trees
        info = attacks.worst_case(model, X, y, random_state=0, **options)[1]
        try:
            proven = right & certificates.certified_within(model, X, eps=eps, bounds=bounds)
        except ValueError:
            proven = np.full(len(X), np.nan)
    return right.mean(), 1 - info.success.mean(), proven.mean()


def one_split(name, folder, seed, only):
    ((X, y), (X_choose, y_choose), (X_judge, y_judge)), eps, bounds = splits(name, folder, seed)
    rows = {}
    for machine, candidates in machines(eps, bounds, seed):
        if (only and machine not in only) or machine in LEFT_OUT.get(name, ()):
            continue
        start = time.process_time()
        models = [fitted(candidate, X, y) for candidate in candidates]
        spent = time.process_time() - start
        score = [attacked(model, X_choose, y_choose, eps, bounds) for model in models]
        model = models[int(np.argmax(score))]
        rows[machine] = (*judged(model, X_judge, y_judge, eps, bounds), spent)
        figures = " ".join(f"{figure:.3f}" for figure in rows[machine])
        chose = getattr(model, "chosen_", "")
        print(f"{name}, split {seed}, {machine}: {figures} {chose}", file=sys.stderr, flush=True)
    return eps, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--machines", nargs="*", help="only these")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ["breast cancer", "wine", "digits"]
    names += [] if options.data_dir is None else ["MNIST 1v7, .1", "MNIST 1v7, .3", TEN_CLASSES]
    print("| set, eps | machine | clean | attacked | standard error | certified | s |\n|---|---|---|---|---|---|---|")
    for name in options.sets or names:
        seeds = range(options.first, options.first + options.seeds)
        made = [one_split(name, options.data_dir, seed, options.machines) for seed in seeds]
        for machine in made[0][1]:
            figures = np.array([rows[machine] for _, rows in made])
            clean, worst, proven, spent = figures.mean(axis=0)
            error = f"{figures[:, 1].std(ddof=1) / np.sqrt(len(made)):.3f}" if len(made) > 1 else "-"
            last = "-" if np.isnan(proven) else f"{proven:.3f}"
            print(f"| {name}, {made[0][0]:g} | {machine} | {clean:.3f} | {worst:.3f} | {error} | {last} | "
                  f"{spent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
