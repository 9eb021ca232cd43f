"""How sure: intervals, probabilities of corrupt rows and standard errors, beside peers.

    python benchmarks/certainty_intervals.py coverage       intervals of four regressors beside MAPIE's CV+
    python benchmarks/certainty_intervals.py contaminated   of the robust two, a fifth of the training targets corrupt
    python benchmarks/certainty_intervals.py proba          reliability of outlier_proba_, and reports at fdr=.1
    python benchmarks/certainty_intervals.py errors         standard errors beside statsmodels' RLMDetSMM

``--data-dir`` is a folder with boston_housing.csv, concrete.csv and wine_quality_red.csv. MAPIE and statsmodels are
only needed where they are the peer. No constant was chosen on these sets. Times are processor time.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_moons,
)
from sklearn.preprocessing import RobustScaler
from threadpoolctl import threadpool_limits

from buttress import (
    SVR,
    KernelRegressor,
    Mean,
    RobustKernelClassifier,
    RobustKernelRegressor,
    RobustLinearRegressor,
    outlier_report,
)
from buttress.solvers.contamination.mm import bisquare, psi_slope
from buttress.solvers.contamination.tuning import TRIMMING

N_TRAIN = 200
MOST_TEST = 1000


def regressors():
    return {"SVR": SVR(), "KernelRegressor": KernelRegressor(risk=Mean()),
            "RobustKernelRegressor": RobustKernelRegressor(random_state=0),
            "RobustLinearRegressor": RobustLinearRegressor(random_state=0)}


def regression_sets(data_dir):
    """Return name: (X, y), columns scaled robustly and targets in units of their deviation."""
    rng = np.random.default_rng(0)
    made = {"diabetes": load_diabetes(return_X_y=True)}
    for name in ("boston_housing", "concrete", "wine_quality_red") if data_dir else ():
        rows = np.genfromtxt(Path(data_dir) / f"{name}.csv", delimiter=",", skip_header=1)
        made[name] = (rows[:, :-1], rows[:, -1])
    for k, make in enumerate((make_friedman1, make_friedman2, make_friedman3), 1):
        X, y = make(n_samples=1200, random_state=k)
        made[f"friedman{k}"] = (X, y + 0.3 * y.std() * rng.normal(size=1200))
    X = rng.normal(size=(1200, 4))
    signal = X[:, 0] - X[:, 1] + np.sin(2 * X[:, 2])
    made["normal noise"] = (X, signal + 0.5 * rng.normal(size=1200))
    made["heavy tails"] = (X, signal + 0.4 * rng.standard_t(3, size=1200))
    made["noise grows"] = (X, signal + (0.1 + 0.5 * np.abs(X[:, 3])) * rng.normal(size=1200))
    made["skewed"] = (X, signal + 0.5 * rng.exponential(size=1200))
    wide = rng.normal(size=(1200, 60))
    for k in range(8):
        name = f"generated {k}"
        d = 4 + 3 * k
        X = rng.normal(size=(1200, d)) * rng.uniform(0.5, 2, size=d)
        signal = X @ rng.normal(size=d) + np.abs(X[:, 0]) * X[:, 1]
        made[name] = (X, signal + (0.2 + 0.1 * k) * signal.std() * rng.standard_t(3 + k, size=1200))
    made["60 columns"] = (wide, wide[:, :5].sum(axis=1) + rng.normal(size=1200))
    return {name: (RobustScaler().fit_transform(X), (y - np.median(y)) / np.std(y)) for name, (X, y) in made.items()}


def split(X, y, seed, n_train=N_TRAIN):
    order = np.random.default_rng(seed).permutation(len(y))
    new = order[n_train : n_train + MOST_TEST]
    return X[order[:n_train]], y[order[:n_train]], X[new], y[new]


def judged(interval, y):
    return np.mean((interval[:, 0] <= y) & (y <= interval[:, 1])), np.mean(interval[:, 1] - interval[:, 0])


def timed(work, *args):
    start = time.process_time()
    return work(*args), time.process_time() - start


def with_peer(peer, Xt, yt, Xn):
    return peer.fit_conformalize(Xt, yt).predict_interval(Xn)


def with_statsmodels(peer, X, y):
    return peer(y, np.column_stack([np.ones(len(y)), X])).fit()


def summarised(X, y):
    return RobustLinearRegressor(random_state=0).fit(X, y).summary()


def header(*titles):
    print("| " + " | ".join(titles) + " |\n" + "| --- " * len(titles) + "|")


def conformal(model, folds=10):
    """Return MAPIE's CV+ of a model."""
    from mapie.regression import CrossConformalRegressor

    return CrossConformalRegressor(clone(model), confidence_level=0.9, cv=folds)


def coverage(args):
    header("set", "estimator", "coverage", "worst split", "width", "MAPIE", "its width", "time of the fit",
           "of intervals", "of MAPIE")
    times = {}
    for name, (X, y) in regression_sets(args.data_dir).items():
        for title, model in regressors().items():
            if args.only not in (None, title):
                continue
            ours, theirs, spent = [], [], []
            for seed in range(args.splits):
                Xt, yt, Xn, yn = split(X, y, seed)
                _, fit = timed(model.fit, Xt, yt)
                ends, mine = timed(model.predict_interval, Xn, 0.9)
                ours.append(judged(ends, yn))
                if seed < args.peer_splits:
                    (_, ends), other = timed(with_peer, conformal(model), Xt, yt, Xn)
                    theirs.append(judged(ends[:, :, 0], yn))
                    spent.append((fit, mine, other))
            cover, width = np.mean(ours, axis=0)
            peer_cover, peer_width = np.mean(theirs, axis=0)
            fit, mine, other = np.mean(spent, axis=0)
            times.setdefault(title, []).append(((fit + mine) / other, mine / (other - fit)))
            worst = np.min(ours, axis=0)[0]
            print(f"| {name} | {title} | {cover:.3f} | {worst:.3f} | {width:.2f} | {peer_cover:.3f} | "
                  f"{peer_width:.2f} | {fit:.3f} | {mine:.3f} | {other:.2f} |", flush=True)
    for title, shares in times.items():
        whole, beyond = np.median(shares, axis=0)
        print(f"{title}: {whole:.2f} of MAPIE's time, and beyond one fit {beyond:.2f}; medians of the sets")


def beside_mapie(model, X, y, splits, peer_splits):
    """Return coverage and width by split, of ours and of MAPIE's CV+, and both times."""
    from mapie.regression import CrossConformalRegressor

    ours, theirs, spent = [], [], []
    for seed in range(splits):
        Xt, yt, Xn, yn = split(X, y, seed)
        _, fit = timed(model.fit, Xt, yt)
        ends, mine = timed(model.predict_interval, Xn, 0.9)
        ours.append(judged(ends, yn))
        if seed < peer_splits:
            peer = CrossConformalRegressor(model, confidence_level=0.9, cv=10)
            (_, ends), other = timed(with_peer, peer, Xt, yt, Xn)
            theirs.append(judged(ends[:, :, 0], yn))
            spent.append((fit + mine, other))
    return ours, theirs, spent


def contaminated(args):
    """Clean training targets, and a fifth of them corrupt; new rows are clean. MAPIE's CV+ is on the first splits."""
    header("set", "estimator", "coverage, clean", "corrupt", "width", "corrupt", "MAPIE", "corrupt", "its width",
           "corrupt", "time, of MAPIE's")
    means = {}
    for name, (X, y) in regression_sets(args.data_dir).items():
        for title, model in regressors().items():
            if args.only not in (None, title):
                continue
            mean = np.nanmean([_clean_and_corrupt(model, X, y, seed, seed < args.peer_splits)
                               for seed in range(args.splits)], axis=0)
            means.setdefault(title, []).append(mean)
            print(f"| {name} | {title} | " + _cells(mean), flush=True)
    for title, rows in means.items():
        print(f"| mean | {title} | " + _cells(np.mean(rows, axis=0)))


def _clean_and_corrupt(model, X, y, seed, peer):
    """Return coverage and width of ours, of the peer's, each clean and corrupt, and the share of the peer's time."""
    Xt, yt, Xn, yn = split(X, y, seed)
    bad = yt.copy()
    bad[: N_TRAIN // 5] = np.random.default_rng(seed).normal(5, 5, size=N_TRAIN // 5)
    row, spent = [], []
    for given in (yt, bad):
        ends, took = timed(lambda given=given: model.fit(Xt, given).predict_interval(Xn))
        theirs, other = (np.nan, np.nan), np.nan
        if peer:
            (_, its), other = timed(with_peer, conformal(model), Xt, given, Xn)
            theirs = judged(its[:, :, 0], yn)
        row.append((judged(ends, yn), theirs))
        spent.append((took, other))
    (clean, peer_clean), (corrupt, peer_corrupt) = row
    mine, other = np.sum(spent, axis=0)
    return [clean[0], corrupt[0], clean[1], corrupt[1], peer_clean[0], peer_corrupt[0], peer_clean[1],
            peer_corrupt[1], mine / other]


def _cells(mean):
    return ("| {:.3f} | {:.3f} | {:.2f} | {:.2f} | {:.3f} | {:.3f} | {:.2f} | {:.2f} | {:.2f} |".format(*mean))[2:]


def flipped(X, y, kind, share, rng):
    """Return labels of which a share is wrong, and which: anywhere, from one class to one other, or near a border."""
    n_classes = int(y.max()) + 1
    given = y.copy()
    if kind == "uniform":
        rows = rng.permutation(len(y))[: int(share * len(y))]
        given[rows] = (y[rows] + rng.integers(1, n_classes, size=len(rows))) % n_classes
    elif kind == "one class":
        own = np.flatnonzero(y == 0)
        rows = rng.permutation(own)[: int(min(share * len(y), 0.4 * len(own)))]
        given[rows] = 1
    else:
        far = ((X[:, None] - X[None]) ** 2).sum(axis=2)
        other = np.where(y[:, None] != y[None], far, np.inf)
        rows = np.argsort(other.min(axis=1))[: int(share * len(y))]
        given[rows] = y[other.argmin(axis=1)[rows]]
    return given, given != y


def calibration(proba, wrong):
    """Return the expected calibration error over ten bins of equal width."""
    number = np.minimum((10 * proba).astype(int), 9)
    return sum(abs(proba[number == b].sum() - wrong[number == b].sum()) for b in range(10)) / len(proba)


def proba(args):
    header("kind", "ECE, mean", "largest set", "right among rows at fdr=.1", "largest set", "wrong ones named")
    found, bins = {}, []
    label_sets = [load_iris(return_X_y=True), load_wine(return_X_y=True), load_breast_cancer(return_X_y=True),
                  make_moons(300, noise=0.2, random_state=0)]
    for k, (X, y) in enumerate(label_sets):
        X = RobustScaler().fit_transform(X)
        for kind in ("uniform", "one class", "near the border"):
            for seed in range(args.first, args.first + args.splits):
                given, wrong = flipped(X, y, kind, 0.15, np.random.default_rng(seed))
                model = RobustKernelClassifier(random_state=0).fit(X, given)
                record(found, bins, f"labels, {kind}", k, model, X, given, wrong)
    for k, (X, y) in enumerate(list(regression_sets(args.data_dir).values())):
        for kind, off in (("gross", 20.0), ("mild", 4.0)):
            for seed in range(args.first, args.first + args.splits):
                Xt, yt, _, _ = split(X, y, seed)
                wrong = np.arange(N_TRAIN) < N_TRAIN * 15 // 100
                scale = 1.4826 * np.median(np.abs(RobustKernelRegressor(random_state=0).fit(Xt, yt).loo_residual_))
                yt[wrong] += off * scale * np.random.default_rng(seed).choice([-1, 1], size=wrong.sum())
                for title, model in list(regressors().items())[2:]:
                    record(found, bins, f"{title}, {kind}", k, model.fit(Xt, yt), Xt, yt, wrong)
    for kind, rows in found.items():
        table = np.array(rows)
        sets = np.array([table[table[:, 0] == k].mean(axis=0) for k in np.unique(table[:, 0])])
        worst, most = sets[:, 1:3].max(axis=0)
        error, right, named = table[:, 1:].mean(axis=0)
        print(f"| {kind} | {error:.3f} | {worst:.3f} | {right:.3f} | {most:.3f} | {named:.2f} |")
    every, wrong = map(np.concatenate, zip(*bins, strict=True))
    number = np.minimum((10 * every).astype(int), 9)
    print()
    header("probability", *(f"{b / 10:.1f} to {(b + 1) / 10:.1f}" for b in range(10)))
    print("| share wrong | " + " | ".join(f"{wrong[number == b].mean():.2f}" for b in range(10)) + " |")
    print("| rows | " + " | ".join(str((number == b).sum()) for b in range(10)) + " |")


def record(found, bins, kind, k, model, X, y, wrong):
    named = np.asarray(outlier_report(model, X, y, fdr=0.1)["row"], dtype=int)
    right = (~wrong[named]).mean() if len(named) else 0.0
    error = calibration(model.outlier_proba_, wrong)
    found.setdefault(kind, []).append((k, error, right, wrong[named].sum() / wrong.sum()))
    bins.append((model.outlier_proba_, wrong))


def errors(args):
    from statsmodels.robust.resistant_linear_model import RLMDetSMM

    header("data", "largest difference of estimates, in errors", "of errors, relative", "by its formula",
           "time of fit and table", "of statsmodels")
    for name, (X, y) in linear_sets().items():
        table, mine = timed(summarised, X, y)
        peer, other = timed(with_statsmodels, RLMDetSMM, X, y)
        apart = np.abs(table.estimate - peer.params) / table.std_error
        ratio = np.abs(table.std_error / peer.bse - 1)
        same = np.abs(symmetric_errors(table, X, y) / peer.bse - 1)
        print(f"| {name} | {apart.max():.4f} | {ratio.max():.3f} | {same.max():.3f} | {mine:.2f} | {other:.2f} |",
              flush=True)


def symmetric_errors(table, X, y):
    """Return the standard errors that statsmodels' formula (H1) gives at our estimate.

    Huber's formula takes errors to be symmetric and of one variance, ours does not; see solvers/contamination/mm.py.
    """
    Z = np.column_stack([np.ones(len(y)), X])
    u = (y - Z @ table.estimate) / table.scale
    psi = bisquare(u, TRIMMING.tukey) * u
    slope = psi_slope(u, TRIMMING.tukey)
    n, p = Z.shape
    correction = 1 + p / n * slope.var() / slope.mean() ** 2
    spread = (correction * table.scale / slope.mean()) ** 2 * (psi**2).sum() / (n - p)
    return np.sqrt(spread * np.diagonal(np.linalg.inv(Z.T @ Z)))


def linear_sets():
    from statsmodels.datasets import stackloss

    rng = np.random.default_rng(0)
    given = stackloss.load_pandas()
    sets = {"stackloss": (given.exog.to_numpy(), given.endog.to_numpy())}
    star = rng.normal(4.4, 0.1, size=(47, 1))
    light = 2.2 * star[:, 0] - 4.7 + 0.35 * rng.normal(size=47)
    star[:4] = 3.5
    light[:4] = 5.8
    sets["like starsCYG: 47 rows, four giants"] = (star, light)
    for n, d, bad in ((100, 3, 0.1), (1000, 5, 0.2), (1000, 5, 0.0)):
        X = rng.normal(size=(n, d))
        y = X @ np.arange(d) + rng.normal(size=n)
        y[: int(bad * n)] += 30
        sets[f"{n} x {d}, {bad:g} corrupt"] = (X, y)
    return sets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["coverage", "contaminated", "proba", "errors"])
    parser.add_argument("--data-dir")
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first split of proba")
    parser.add_argument("--only", choices=list(regressors()), help="one of the regressors")
    parser.add_argument("--peer-splits", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        globals()[args.command](args)


if __name__ == "__main__":
    main()
