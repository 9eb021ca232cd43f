"""Robust estimators against plain learners, rivals that know the contamination and an oracle, on corrupted data.

    python benchmarks/robust.py accuracy --data-dir DIR [--sets boston] [--kinds clean,label] [--first 100] [--trials 5]
    python benchmarks/robust.py linear   --data-dir DIR
    python benchmarks/robust.py labels   --data-dir DIR [--first 100]
    python benchmarks/robust.py few-flips [--first 100] [--trials 20]
    python benchmarks/robust.py scale    [--rows 100000] [--landmarks 1000] [--repeats 5]
    python benchmarks/robust.py descent  [--rows 20000] [--landmarks 1000]
    python benchmarks/robust.py label-scale [--rows 100000] [--landmarks 1000]
    python benchmarks/robust.py linear-scale [--rows 1000000]
    python benchmarks/robust.py small
    python benchmarks/robust.py lone [--trials 10]
    python benchmarks/robust.py sensitivity [--quick] [--only Guard]

Protocol: columns and target standardised on the whole set, a random four fifths to train on, the last share ``rate``
of them corrupted, test rows clean; means over trials, deviation in brackets. DIR holds boston_housing.csv,
concrete.csv, wine_quality_red.csv, heart_cleveland.csv and breast_cancer_wisconsin.csv, target in the last column; a
file that is missing is fetched from OpenML. "oracle" is the same learner on the good rows only, its ridge the best on
the test rows. Set OMP_NUM_THREADS; only ratios within one run mean anything.
"""

import argparse
import resource
import time
import warnings

import numpy as np
from robust_data import corrupted, easy, flipped, split, table, waves
from sensitivity import sensitivity
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import HuberRegressor, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, LinearSVC

from buttress import (
    KernelClassifier,
    KernelRegressor,
    NotConvergedWarning,
    RobustKernelClassifier,
    RobustKernelRegressor,
    RobustLinearRegressor,
    Subquantile,
    Tilted,
)
from buttress.kernels import RBF, MultiscaleRBF
from buttress.robust.design import kernel_design
from buttress.robust.tuning import DESIGN

RIDGES = np.geomspace(0.01, 10, 7)


def rmse(prediction, y):
    return float(np.sqrt(np.mean((prediction - y) ** 2)))


def show(label, names, rows):
    rows = np.array(rows)
    cells = [f"{name} {m:.3f}({s:.3f})" for name, m, s in zip(names, rows.mean(0), rows.std(0), strict=True)]
    print(f"{label:24s} " + "  ".join(cells), flush=True)


def cases(kinds):
    return [(kind, rate) for kind in kinds for rate in ((0.0,) if kind == "clean" else (0.2, 0.4))]


def accuracy(arguments):
    """Kernel regression, RBF with gamma = 1/d, "robust" with its default kernel: test RMSE."""
    names = ("robust", "its share", "one width", "ridge, alpha=1", "ridge, chosen", "subquantile", "tilted, t=-2",
             "oracle")
    print(f"| set | corruption | share | {' | '.join(names)} |\n" + "| --- " * 11 + "|")
    for name in arguments.sets:
        X0, y0 = table(name, arguments.data_dir)
        y0 = (y0 - y0.mean()) / y0.std()
        gamma = 1 / X0.shape[1]
        for kind, rate in cases(arguments.kinds):
            rows = []
            for trial in range(arguments.first, arguments.first + arguments.trials):
                Xa, ya, Xt, yt = split(X0, y0, trial)
                X, y, bad = corrupted(Xa, ya, rate, kind, trial)
                model = RobustKernelRegressor(random_state=trial).fit(X, y)
                narrow = RobustKernelRegressor(gamma=gamma, random_state=trial).fit(X, y)
                plain = RobustKernelRegressor(gamma=gamma, contamination=0, random_state=trial).fit(X, y)
                told = {"gamma": gamma, "alpha": 0.0, "max_iter": 300}
                found = [rmse(KernelRegressor(risk=risk, **told).fit(X, y).predict(Xt), yt)
                         for risk in (Subquantile(1 - rate), Tilted(-2.0))]
                middle = np.median(y[~bad])
                oracle = [rmse(KernelRidge(alpha=a, kernel="rbf", gamma=gamma).fit(X[~bad], y[~bad] - middle)
                               .predict(Xt) + middle, yt) for a in RIDGES]
                ridge = KernelRidge(alpha=1, kernel="rbf", gamma=gamma).fit(X, y).predict(Xt)
                rows.append([rmse(model.predict(Xt), yt), model.contamination_, rmse(narrow.predict(Xt), yt),
                             rmse(ridge, yt), rmse(plain.predict(Xt), yt), *found, min(oracle)])
            mean, deviation = np.mean(rows, axis=0), np.std(rows, axis=0)
            cells = [f"{mean[0]:.3f} ({deviation[0]:.2f})", f"{mean[1]:.2f}", *(f"{value:.3f}" for value in mean[2:])]
            print(f"| {name} | {kind} | {rate:g} | {' | '.join(cells)} |", flush=True)


def linear(arguments):
    """Linear regression: test RMSE, the oracle being ridge regression on the good rows."""
    for name in arguments.sets:
        X0, y0 = table(name, arguments.data_dir)
        y0 = (y0 - y0.mean()) / y0.std()
        for kind, rate in cases(("clean", "label", "both")):
            rows = []
            for trial in range(arguments.trials):
                Xa, ya, Xt, yt = split(X0, y0, trial)
                X, y, bad = corrupted(Xa, ya, rate, kind, trial)
                model = RobustLinearRegressor(random_state=trial).fit(X, y)
                fits = (model, Ridge(1.0).fit(X, y), Ridge(1.0).fit(X[~bad], y[~bad]))
                errors = [rmse(fitted.predict(Xt), yt) for fitted in fits]
                rows.append([errors[0], model.contamination_, *errors[1:]])
            show(f"{name} {kind} {rate:g}", ("robust", "rate^", "ridge", "oracle"), rows)


def labels(arguments):
    """Classification with the default kernel (digits: RBF, gamma 0.5 on entries in [0, 1]): test accuracy.

    Splits are numbered from ``--first``; the constants of the classifier were chosen on splits below 20.
    """
    for name in arguments.sets:
        X0, y0 = table(name, arguments.data_dir)
        y0 = np.unique(y0, return_inverse=True)[1]
        gamma = "multiscale" if name != "digits" else 0.5 / 16
        plain = 1 / X0.shape[1] if name != "digits" else gamma
        for kind, rate in cases(("clean", "label", "both")):
            rows = []
            for trial in range(arguments.first, arguments.first + arguments.trials):
                Xa, ya, Xt, yt = split(X0, y0, trial, 600 if name == "digits" else None)
                X, y, bad = flipped(Xa, ya, rate, kind, int(y0.max()) + 1, trial)
                model = RobustKernelClassifier(gamma=gamma, random_state=trial).fit(X, y)
                told = RobustKernelClassifier(gamma=gamma, contamination=rate, random_state=trial).fit(X, y)
                oracle = SVC(gamma=plain).fit(X[~bad], y[~bad])
                rows.append([model.score(Xt, yt), told.score(Xt, yt), model.contamination_,
                             SVC(gamma=plain).fit(X, y).score(Xt, yt), oracle.score(Xt, yt)])
            show(f"{name} {kind} {rate:g}", ("robust", "told", "rate^", "svc", "oracle"), rows)


def few_flips(arguments):
    """A few wrong labels among easy rows, each row once or twice: how many are counted and named.

    "ranked" is the share of wrong labels among as many rows of least margin; "none" the share of trials that name none.
    """
    for name in arguments.sets:
        for flips, copies in ((0, 1), (1, 1), (3, 1), (5, 1), (10, 1), (3, 2)):
            rows = []
            for trial in range(arguments.first, arguments.first + arguments.trials):
                X, right = easy(name, trial)
                rng, C = np.random.default_rng(trial + 1000), right.max() + 1
                bad = np.isin(np.arange(len(right)), rng.choice(len(right), flips, replace=False))
                y = np.where(bad, (right + rng.integers(1, C, len(right))) % C, right)
                X, y, bad = np.vstack([X] * copies), np.tile(y, copies), np.tile(bad, copies)
                model = RobustKernelClassifier(random_state=trial).fit(X, y)
                named, worst = ~model.inlier_mask_, np.argsort(model.loo_score_)[: bad.sum()]
                found = (bad[worst].mean(), named[bad].mean()) if flips else (1.0, 1.0)
                rows.append([model.outlier_proba_.sum() / copies, *found, named[~bad].mean(), not named.any()])
            show(f"{name} {flips} x {copies}", ("counted", "ranked", "named", "false", "none"), rows)


def timed(job):
    """Return the result of ``job()`` and the processor seconds it took."""
    start = time.process_time()
    return job(), time.process_time() - start


def scale(arguments):
    """Many rows on Nystroem features, against building the features and one Gram matrix, and scikit-learn's Huber.

    The oracle is ridge regression on the same features of the good rows, its ridge the best on the test rows.
    """
    n, m, gamma = arguments.rows, arguments.landmarks, 1 / 8
    X, y, _, bad = waves(n, 8, np.random.default_rng(0))
    test = waves(2000, 8, np.random.default_rng(1))
    design, features = timed(lambda: kernel_design(RBF(gamma), X, n_landmarks=m, rng=np.random.RandomState(0)))
    ridge, expand = design.ridge, design.expand
    _, gram = timed(lambda: ridge.features.weighted_gram(np.arange(n), np.ones(n)))
    oracle = np.inf
    for alpha in (1e-3, 1e-2, 0.1, 1.0):
        coef = ridge.solve(y, (~bad).astype(float), alpha).coef
        oracle = min(oracle, rmse(expand(coef[:, None])(test[0])[:, 0], test[2]))
    floor = features + gram
    print(f"{n} rows, {m} landmarks: features {features:.1f} s, Gram {gram:.1f} s; oracle {oracle:.4f}", flush=True)
    design = ridge = None  # the features are large
    ratios = []
    for repeat in range(arguments.repeats):
        if repeat:
            again, features = timed(lambda: kernel_design(RBF(gamma), X, n_landmarks=m, rng=np.random.RandomState(0)))
            floor = features + timed(lambda again=again: again.features.weighted_gram(np.arange(n), np.ones(n)))[1]
            again = None
        model, seconds = timed(lambda: RobustKernelRegressor(gamma=gamma, n_landmarks=m, random_state=0).fit(X, y))
        ratios.append(seconds / floor)
        print(f"floor {floor:.1f} s, fit {seconds:.1f} s, ratio {ratios[-1]:.2f}", flush=True)
    error = rmse(model.predict(test[0]), test[2])
    print(f"RobustKernelRegressor {np.median(ratios):.2f} x floor; error {error:.4f}, "
          f"{error / oracle:.3f} x oracle; contamination {model.contamination_:.3f}; {model.n_iter_} iterations; good "
          f"rows flagged {np.mean(~model.inlier_mask_[~bad]):.4f}, bad {np.mean(~model.inlier_mask_[bad]):.4f}; peak "
          f"memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB", flush=True)
    if n <= 100_000:
        points = model.expansion_.centers
        (Z, fitted), seconds = timed(lambda: huber_on(points, gamma, X, y))
        error = rmse(fitted.predict(Z.transform(test[0])), test[2])
        print(f"Nystroem + HuberRegressor on the same landmarks {seconds:.1f} s; error {error:.4f}; "
              f"{fitted.n_iter_} iterations")


def huber_on(points, gamma, X, y):
    """Return scikit-learn's Nystroem features on given landmarks, and its HuberRegressor of them."""
    Z = Nystroem(gamma=gamma, n_components=len(points), random_state=0).fit(points)
    return Z, HuberRegressor(max_iter=100).fit(Z.transform(X), y)


def descent(arguments):
    """Subquantile descent on Nystroem features, told the share: preconditioned steps against steps of 1 / beta."""
    n, m = arguments.rows, arguments.landmarks
    X, y, _, _ = waves(n, 8, np.random.default_rng(0))
    test = waves(2000, 8, np.random.default_rng(1))
    options = {"risk": Subquantile(0.75), "gamma": 1 / 8, "n_landmarks": m, "max_iter": 400, "random_state": 0}
    for alpha in (1.0, 0.01):
        for step in ("preconditioned", "spectral"):
            model = KernelRegressor(step=step, alpha=alpha, **options)
            model, seconds = timed(lambda model=model: model.fit(X, y))
            print(f"{n} rows, {m} landmarks, alpha={alpha:g}, {step}: {seconds:.1f} s, {model.n_iter_} iterations, "
                  f"converged {model.converged_}, objective {model.objective_:.5f}, error "
                  f"{rmse(model.predict(test[0]), test[2]):.4f}", flush=True)
    model = KernelClassifier(step="preconditioned", **options)
    model, seconds = timed(lambda: model.fit(X, y > 0))
    print(f"KernelClassifier, preconditioned: {seconds:.1f} s, {model.n_iter_} iterations, accuracy "
          f"{model.score(test[0], test[2] > 0):.3f}; peak memory of the process "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


def label_scale(arguments):
    """Three classes, a fifth of the labels wrong, on Nystroem features: accuracy and processor seconds.

    The rivals have scikit-learn's Nystroem features of as many landmarks, gamma 1/d; "oracle" is the same logistic
    regression on the rows whose labels are right.
    """
    n, m = arguments.rows, arguments.landmarks
    (X, _, truth, _), (Xt, _, seen, _) = (waves(k, 8, np.random.default_rng(seed)) for seed, k in ((0, n), (1, 10_000)))
    right, yt = np.digitize(truth, [-0.5, 0.8]), np.digitize(seen, [-0.5, 0.8])
    _, y, bad = flipped(X, right, 0.2, "label", 3, 0)
    kernel = MultiscaleRBF(np.array(DESIGN.widths) / 8)
    ridge, features = timed(lambda: kernel_design(kernel, X, n_landmarks=m, rng=np.random.RandomState(0)).ridge)
    _, gram = timed(lambda: ridge.features.weighted_gram(np.arange(n), np.ones(n)) if n > m
                    else ridge.solve(np.ones(n), np.ones(n), 1.0))
    floor, ridge = features + gram, None  # the features are large
    print(f"{n} rows, {m} landmarks: features {features:.1f} s, Gram {gram:.1f} s", flush=True)
    model, seconds = timed(lambda: RobustKernelClassifier(n_landmarks=m, random_state=0).fit(X, y))
    named = ~model.inlier_mask_
    print(f"RobustKernelClassifier {seconds:.1f} s, {seconds / floor:.1f} x floor; accuracy {model.score(Xt, yt):.4f}; "
          f"contamination {model.contamination_:.3f}; wrong labels named {named[bad].mean():.3f}, right ones "
          f"{named[~bad].mean():.3f}", flush=True)
    given = RobustKernelClassifier(contamination=0, n_landmarks=m, random_state=0).fit(X, y)
    print(f"the same, told that no label is wrong: accuracy {given.score(Xt, yt):.4f}", flush=True)
    Z, mapped = timed(lambda: Nystroem(gamma=1 / 8, n_components=m, random_state=0).fit(X[:20_000]))
    (Za, Zt), more = timed(lambda: (Z.transform(X), Z.transform(Xt)))
    for name, learner, rows in (("LogisticRegression", LogisticRegression(C=10.0, max_iter=200), np.ones(n, bool)),
                                ("LinearSVC", LinearSVC(C=1.0, dual=False, max_iter=20), np.ones(n, bool)),
                                ("oracle", LogisticRegression(C=10.0, max_iter=200), ~bad)):
        fitted, seconds = timed(lambda learner=learner, rows=rows: learner.fit(Za[rows], y[rows]))
        print(f"Nystroem + {name} {mapped + more + seconds:.1f} s; accuracy {fitted.score(Zt, yt):.4f}", flush=True)


def linear_scale(arguments):
    """Many rows of 20 columns, a fifth of the targets far off, by ``RobustLinearRegressor`` and scikit-learn's."""
    n = arguments.rows
    for name, seconds, error, fitted in many_lines(n):
        share = f"; contamination {fitted.contamination_:.3f}" if hasattr(fitted, "contamination_") else ""
        print(f"{n} rows: {name} {seconds:.1f} s; error of the coefficients {error:.4f}"
              f"{share}; peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB", flush=True)


def many_lines(n):
    """Yield name, processor seconds, error of the coefficients and model of the learners of ``linear-scale``."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, 20)), rng.normal(size=20)
    y, bad = X @ w + rng.normal(size=n), rng.random(n) < 0.2
    y[bad] = rng.normal(15, 15, bad.sum())
    for name, learner, rows in (("RobustLinearRegressor", RobustLinearRegressor(random_state=0), np.ones(n, bool)),
                                ("HuberRegressor", HuberRegressor(max_iter=200), np.ones(n, bool)),
                                ("Ridge", Ridge(), np.ones(n, bool)), ("oracle (ridge)", Ridge(), ~bad)):
        fitted, seconds = timed(lambda learner=learner, rows=rows: learner.fit(X[rows], y[rows]))
        yield name, seconds, np.linalg.norm(fitted.coef_ - w), fitted


def lone(arguments):
    """One target of a noisy line off by so many deviations of the noise: the probability that it is wrong."""
    print("| rows | fit | 8 | 12 | 16 | 20 | 30 |\n" + "| --- " * 7 + "|")
    for n in (50, 200, 1000):
        for name, model in (("kernel", RobustKernelRegressor), ("linear", RobustLinearRegressor)):
            cells = []
            for far in (8, 12, 16, 20, 30):
                p = []
                for trial in range(arguments.first, arguments.first + arguments.trials):
                    rng = np.random.default_rng(trial)
                    X, noise = rng.normal(size=(n, 1)), rng.normal(size=n)
                    noise[5] += far
                    p.append(model(random_state=0).fit(X, 3 * X[:, 0] + 0.1 * noise).outlier_proba_[5])
                cells.append(f"{np.mean(p):.2f}, {np.mean(np.array(p) > 0.5):.1f}")
            print(f"| {n:,} | {name} | {' | '.join(cells)} |", flush=True)


def small(arguments):
    """Time on small data over plain kernel ridge with a grid of 12 ridges and five folds."""
    for n in (200, 500, 1000, 2000):
        X, y, truth, _ = waves(n, 8, np.random.default_rng(0))
        grid = GridSearchCV(KernelRidge(kernel="rbf", gamma=1 / 8), {"alpha": np.geomspace(0.01, 100, 12)})
        _, plain = timed(lambda X=X, y=y, grid=grid: grid.fit(X, y))
        _, ours = timed(lambda X=X, y=y: RobustKernelRegressor(random_state=0).fit(X, y))
        _, ours_c = timed(lambda X=X, t=truth: RobustKernelClassifier(random_state=0).fit(X, t > 0))
        print(f"n={n}: kernel ridge with grid {plain:.2f} s; robust regressor {ours / plain:.1f} x, "
              f"robust classifier {ours_c / plain:.1f} x", flush=True)


RUNS = {"accuracy": (accuracy, "boston,concrete,wine"), "linear": (linear, "boston,concrete,wine"),
        "labels": (labels, "heart,cancer,digits"), "few-flips": (few_flips, "blobs,moons,iris,wine"),
        "scale": (scale, ""), "label-scale": (label_scale, ""),
        "linear-scale": (linear_scale, ""), "descent": (descent, ""), "small": (small, ""),
        "lone": (lone, ""), "sensitivity": (sensitivity, "")}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--sets", default=None)
    parser.add_argument("--kinds", default="clean,label,mirrored,second,shifted,constant,region,permuted,heavy")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="first split of the runs accuracy, labels and few-flips")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=1, help="times the run scale takes floor and fit, in turns")
    parser.add_argument("--quick", action="store_true", help="fewer cells in the run sensitivity")
    parser.add_argument("--only", default=None, help="families of constants in the run sensitivity")
    chosen = parser.parse_args()
    chosen.sets = [name for name in (chosen.sets or RUNS[chosen.run][1]).split(",") if name]
    chosen.rows = chosen.rows or (20_000 if chosen.run == "descent" else 100_000)
    chosen.kinds = chosen.kinds.split(",")
    warnings.simplefilter("ignore", NotConvergedWarning)
    RUNS[chosen.run][0](chosen)
