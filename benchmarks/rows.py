"""The rows of the scoreboard: one number of this package and one of a peer, from the functions of the benchmarks here.

Every group of rows is a function that yields ``Row``; it takes the folder of the data, or None. A peer is imported by
the benchmark that needs it, and ``ImportError`` means that it is not installed.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import adbench
import attacks
import certainty
import certainty_intervals as intervals
import exact
import linear
import novelty
import numpy as np
import robust
import robust_trial as trial
import sklearn.svm
from scoreboard import Better, Row
from sklearn.datasets import load_digits
from trial_sets import CHOOSING, NAMES

from buttress import SVDD

CHOICES = 8  # sets for the choice of C: a grid search of 175 fits each


def exact_machines(folder: str | None) -> Iterator[Row]:
    """Fits and predictions of ``SVC``: float64 beside scikit-learn, float32 beside scikit-learn-intelex."""
    X, y = load_digits(return_X_y=True)
    problems = {"digits, 1,797 x 64, ten classes": ((X / 16, y), {"C": 1.0}, 5)}
    for name, (data, options) in exact.PROBLEMS.items():
        if "20k" not in name and (folder is not None or not name.startswith("MNIST")):
            problems[name] = data(folder), options, 2  # the first of ours compiles what was not called before
    for name, (data, options, repeat) in problems.items():
        fits = exact.measure(name, data, options, repeat, 1, leave_out=("sklearnex f64",))["fit"]
        for peer, kind, theirs in (("scikit-learn", "f64", "scikit-learn"),
                                   ("scikit-learn-intelex", "f32", "sklearnex f32")):
            for step, key in (("fit", "cpu"), ("scores of at most 5,000 rows", "predict")):
                yield Row(f"SVC, {name}: {step}", f"s ({kind})", fits[f"ours {kind}"][key], peer,
                          fits[theirs][key] if theirs in fits else None)


def linear_machines(folder: str | None) -> Iterator[Row]:
    """Linear SVM to within 1e-3 of its optimum; the peers at their best setting."""
    X, y = linear.problem(50_000, 50)
    C = 1 / (linear.LAM * len(X))
    exactly = linear.LinearSVC(C=C, tol=1e-7).fit(X, y)
    optimum = linear.objective(exactly, X, y)
    newton = linear.LinearSVC(C=C, tol=1e-3)
    liblinear = sklearn.svm.LinearSVC(C=C, loss="hinge", tol=1e-2)
    what = "linear SVM, 50,000 x 50, within .001 of the optimum"
    yield Row(f"{what}: Newton", "s", min(linear.timed(newton, X, y) for _ in range(2)),
              "scikit-learn, LinearSVC (hinge)", linear.timed(liblinear, X, y))
    fastest = {name: linear.fastest(models, X, y, optimum, 2)[0][0]
               for name, models in (("theirs", linear.peers(len(X))), ("ours", linear.ours(len(X))))}
    yield Row(f"{what}: stochastic gradients", "s", fastest["ours"],
              "scikit-learn, SGDClassifier at the best of 117 settings", fastest["theirs"])


def attacked(folder: str | None) -> Iterator[Row]:
    """PGD and ZOO on one RBF SVC."""
    sets = {"digits": (attacks.small_digits(), 1.0)}
    if folder is not None:
        sets["MNIST 1 and 7"] = attacks.ones_and_sevens(Path(folder) / "mnist"), 0.07
    for name, ((X, y), C) in sets.items():
        try:
            found = attacks.race_pgd(*attacks.trained(X, y, 1500, C), 50)
            zoo = attacks.race_zoo(*attacks.trained(X, y, 1500, C, likely=True), 5, 100)
        except ImportError:
            yield Row(f"attacks on an SVC, {name}", "s", np.nan, "ART", None)
            return
        seconds, accuracy, _ = found["ART"]
        yield Row(f"PGD, {name}, 50 rows", "s (f32)", found["float32"][0], "ART", seconds)
        yield Row(f"PGD, {name}: accuracy left", "share", found["float32"][1], "ART", accuracy, Better.LOWER)
        (time, queries, fooled, _), (our_time, our_queries, our_fooled, _) = zoo["ART"], zoo["buttress"]
        yield Row(f"ZOO, {name}, a query", "μs", 1e6 * our_time / our_queries, "ART", 1e6 * time / queries)
        yield Row(f"ZOO, {name}: rows fooled", "share", our_fooled, "ART", fooled, Better.MORE)


def novel_rows(folder: str | None) -> Iterator[Row]:
    """Speed of ``SVDD``, and its detection by its defaults on the judging sets of ADBench: means over them."""
    found = novelty.race(3)
    yield Row("SVDD, 10,000 x 30: fit", "s", found["SVDD"][2], "scikit-learn, OneClassSVM", found["OneClassSVM"][2])
    if folder is None or not (Path(folder) / "adbench").exists():
        return
    made = {"SVDD": adbench.Ours(SVDD), **adbench.peers(0)}
    for protocol, (names, values) in adbench.all_tasks(Path(folder), "judging", 1000, 1, made).items():
        means = dict(zip(names, values.mean(axis=0), strict=True))
        for name, value in means.items():
            if name != "SVDD":
                what = f"novel rows, {protocol}, {len(values)} sets"
                yield Row(what, "ROC AUC", means["SVDD"], f"PyOD, {name}", value, Better.MORE)


def sure(folder: str | None) -> Iterator[Row]:
    """Probabilities, prediction sets and the choice of C of ``SVC`` on the judging sets, medians or means over them."""
    sets = list(certainty.judging())[::2]
    ratios = np.array([certainty._log_loss(certainty.SVC(), sklearn.svm.SVC(), *certainty.split(X, y))
                       for _, X, y in sets])
    calibrated = "scikit-learn, CalibratedClassifierCV(SVC, cv=5)"
    of = f"median of {len(sets)} sets"
    yield Row(f"probabilities of SVC, {of}", "log loss, of theirs", np.median(ratios[:, 0]), calibrated, 1.0)
    yield Row(f"the same, {of}: fit and ask", "s, of theirs", np.median(ratios[:, 1]), calibrated, 1.0)
    choices = np.array([certainty.chosen(X, y, 0) for _, X, y in sets[:CHOICES]])
    grid = "scikit-learn, GridSearchCV(SVC, cv=5), 35 values"
    yield Row(f"C and gamma from rows left out, {CHOICES} sets", "accuracy", choices[:, 0].mean(), grid,
              choices[:, 1].mean(), Better.MORE)
    yield Row("the same: fit", "s", choices[:, 2].sum(), grid, choices[:, 3].sum())
    try:
        found = np.array([certainty.covered(X, y, 2, 2) for _, X, y in sets])
    except ImportError:
        yield Row("prediction sets", "coverage", np.nan, "MAPIE", None)
        return
    covered, size, _, their_cover, their_size, time, _ = found.mean(axis=0)
    yield Row("prediction sets of SVC at .9", "coverage", covered, "MAPIE", their_cover, Better.NEARER)
    yield Row("the same: classes in a set", "classes", size, "MAPIE", their_size)
    yield Row("the same: fit and ask", "s, of theirs", time, "MAPIE", 1.0)


def spans(folder: str | None) -> Iterator[Row]:
    """Prediction intervals at .9 beside MAPIE's CV+ of ten folds around the same estimator."""
    data = str(Path(folder) / "uci") if folder else None
    for title in ("SVR", "RobustLinearRegressor"):
        model = intervals.regressors()[title]
        try:
            sets = list(intervals.regression_sets(data).values())[::3]
            found = [intervals.beside_mapie(model, X, y, 1, 1) for X, y in sets]
        except ImportError:
            yield Row(f"intervals of {title}", "coverage", np.nan, "MAPIE", None)
            continue
        (cover, width), (their_cover, their_width), (time, their_time) = np.mean(found, axis=(0, 2))
        yield Row(f"intervals of {title} at .9, {len(found)} sets", "coverage", cover, "MAPIE", their_cover,
                  Better.NEARER)
        yield Row("the same: width", "deviations", width, "MAPIE", their_width)
        yield Row("the same: fit and ask", "s", time, "MAPIE", their_time)


def standard_errors(folder: str | None) -> Iterator[Row]:
    """A robust line with its table of standard errors, targets of 1,000 x 5 a fifth corrupt."""
    try:
        from statsmodels.robust.resistant_linear_model import RLMDetSMM
    except ImportError:
        yield Row("a robust line with standard errors", "s", np.nan, "statsmodels", None)
        return
    X, y = intervals.linear_sets()["1000 x 5, 0.2 corrupt"]
    intervals.summarised(X, y)  # compiles
    table, mine = intervals.timed(intervals.summarised, X, y)
    peer, other = intervals.timed(intervals.with_statsmodels, RLMDetSMM, X, y)
    truth = np.arange(5.0)
    errors = [np.linalg.norm(np.asarray(found)[1:] - truth) for found in (table.estimate, peer.params)]
    yield Row("a robust line with standard errors, 1,000 x 5", "s", mine, "statsmodels, RLMDetSMM", other)
    yield Row("the same: distance from the true coefficients", "norm", errors[0], "statsmodels, RLMDetSMM", errors[1])
    next(robust.many_lines(20_000))  # compiles
    found = {name: (seconds, error) for name, seconds, error, _ in robust.many_lines(100_000)}
    ours, theirs = found["RobustLinearRegressor"], found["HuberRegressor"]
    what = "a line through 100,000 x 20, a fifth corrupt"
    yield Row(what, "s", ours[0], "scikit-learn, HuberRegressor", theirs[0])
    yield Row("the same: distance from the true coefficients", "norm", ours[1], "scikit-learn, HuberRegressor",
              theirs[1])


def wrong_labels(folder: str | None) -> Iterator[Row]:
    """Wrong labels of seven kinds in every seventh judging set, seed 0: ranking them, accuracy after them, time."""
    peers = {"cleanlab, logistic": "cleanlab, logistic regression", "cleanlab, boosting": "cleanlab, boosting"}
    results = defaultdict(lambda: defaultdict(list))
    known = trial.classifiers("all")
    learners = {who: learner for who, learner in known.items() if who in ("ours", *peers)}
    for name in [name for name in NAMES["labels"] if name not in CHOOSING["labels"]][::7]:
        for kind, rate in trial.LABELS[1:]:
            trial.label_cell(name, kind, rate, 0, learners, results, defaultdict(list), defaultdict(list))
    means = {who: {key: np.mean([value for (_, _, other), row in results.items() if other == who for value in row[key]])
                   for key in ("auroc", "accuracy", "time")} for who in learners}
    for who, peer in peers.items():
        theirs = means.get(who, dict.fromkeys(("auroc", "accuracy", "time")))
        for what, unit, key, better in (("wrong labels found", "ROC AUC", "auroc", Better.MORE),
                                        ("accuracy after them", "accuracy", "accuracy", Better.MORE),
                                        ("time with them", "s", "time", Better.LESS)):
            yield Row(what, unit, means["ours"][key], peer, theirs[key], better)


def corrupt_targets(folder: str | None) -> Iterator[Row]:
    """Corrupt targets of five kinds in every ninth judging set, seed 0: error over the same kernel's on good rows."""
    options = trial.options_of(["regression", "--seeds", "1"])
    errors = defaultdict(list)
    for name in trial.chosen_sets("regression", "judging", False)[::9]:
        for kind, rate in trial.TARGETS[1::2]:
            for who, error in trial.regression_cell(name, kind, rate, options)[0].items():
                errors[who].append(error)
    ours = trial.geometric(errors["ours"])
    for who in trial.regressors():
        theirs = trial.geometric(errors[who])
        yield Row("corrupt targets", "error, of an oracle's", ours, f"scikit-learn, {who}", theirs)
    yield from many_corrupt_targets(20_000, 300)


def many_corrupt_targets(n: int, landmarks: int) -> Iterator[Row]:
    """The robust regressor beside Huber's on the same landmarks: time, and error to the true function."""
    X, y, _, _ = robust.waves(n, 8, np.random.default_rng(0))
    Z, _, truth, _ = robust.waves(2000, 8, np.random.default_rng(1))
    kernel = {"gamma": 1 / 8, "n_landmarks": landmarks}
    model, mine = robust.timed(lambda: robust.RobustKernelRegressor(random_state=0, **kernel).fit(X, y))
    (features, fitted), other = robust.timed(lambda: robust.huber_on(model.expansion_.centers, 1 / 8, X, y))
    what = f"{n:,} x 8, a fifth of the targets corrupt"
    peer = "scikit-learn, Nystroem and HuberRegressor"
    yield Row(what, "s", mine, peer, other)
    yield Row("the same: error to the truth", "RMSE", robust.rmse(model.predict(Z), truth), peer,
              robust.rmse(fitted.predict(features.transform(Z)), truth))


def wrong_entries(folder: str | None) -> Iterator[Row]:
    """One wrong entry of X in 3% of the rows, five kinds, every ninth judging set, seed 0: ranking those rows."""
    results = defaultdict(lambda: defaultdict(list))
    for name in trial.chosen_sets("regression", "judging", False)[::9]:
        for kind in trial.CELLS:
            trial.cell_errors(name, kind, 0, results)
    means = {who: np.mean([value for (_, other), row in results.items() if other == who for value in row["auroc"]])
             for who in {who for _, who in results}}
    for who in ("pyod, kNN", "pyod, IForest"):
        yield Row("rows with a wrong entry", "ROC AUC", means["row of X"], who.replace("pyod", "PyOD"),
                  means.get(who), Better.MORE)


def joins(folder: str | None) -> Iterator[Row]:
    """A linear SVM over a join of 1e9 rows, beside the join of 1e6 rows made by DuckDB and fitted by liblinear."""
    what, peer = "linear SVM over a join: 1e9 rows here, 1e6 there", "scikit-learn, DuckDB and LinearSVC"
    try:
        import relational
    except ImportError:
        yield Row(what, "s", np.nan, peer, None)
        return
    star = relational.joins("star", relational.frames("star", 100_000, 100, 3))
    relational.certify("compiles", relational.joins("star", relational.frames("star", 1000, 10, 3)))
    _, took, _ = relational.certify("star of three", star, alpha=1e-2)
    yield Row(what, "s", took["cpu"], peer, relational.joined_apart(100, "squared_hinge", False, 1000)[1])


GROUPS: dict[str, tuple[str, str, Callable[[str | None], Iterator[Row]]]] = {
    "exact": ("Exact kernel machines", "benchmarks/exact.py", exact_machines),
    "linear": ("Linear machines", "benchmarks/linear.py", linear_machines),
    "attacks": ("Attacks", "benchmarks/attacks.py", attacked),
    "novelty": ("Novelty", "benchmarks/adbench.py", novel_rows),
    "labels": ("Wrong labels", "benchmarks/robust_trial.py labels", wrong_labels),
    "targets": ("Corrupt targets", "benchmarks/robust_trial.py regression", corrupt_targets),
    "entries": ("Wrong entries", "benchmarks/robust_trial.py cells", wrong_entries),
    "certainty": ("Probabilities, sets, and the choice of C", "benchmarks/certainty.py", sure),
    "intervals": ("Intervals", "benchmarks/certainty_intervals.py coverage", spans),
    "errors": ("Lines and their standard errors", "benchmarks/certainty_intervals.py errors", standard_errors),
    "joins": ("Joins", "benchmarks/relational.py", joins),
}


def rows_of(group: str, folder: str | None) -> list[Row]:
    """Return the rows of a group of ``GROUPS``; the peers' warnings are theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(GROUPS[group][2](folder))
