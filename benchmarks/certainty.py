"""Scores of rows left out, probabilities and prediction sets beside refits, CalibratedClassifierCV and grid search.

    python benchmarks/certainty.py left-out | cost | log-loss | wrong-labels | right-labels | dropped | coverage
    python benchmarks/certainty.py by-class | choice | picture

Curves and constants were chosen on ``choosing()``; figures are of ``judging()``. Times are processor time of one thread
(set OMP_NUM_THREADS=1).
"""

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import sklearn.svm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_circles,
    make_classification,
    make_moons,
)
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from buttress import SVC, AdversarialSVC, KernelClassifier, LinearSVC, RobustKernelClassifier
from buttress.certainty.calibration import calibrate
from buttress.svm.left_out import CS, GAMMAS

LEAST_REPEATS = 1
MOST_REPEATS = 15
REPEATED = 0.5  # seconds of processor time in which fits are repeated, to say what probabilities add to one
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "reliability.svg"


def choosing():
    """The sets that the family of curves was chosen on: two slopes, a slope alone and others lost to Platt's."""
    for seed in range(6):
        yield f"generated {seed}", *make_classification(
            300 + 150 * seed, 8 + 4 * seed, n_informative=4 + seed, flip_y=0.05 * (seed % 3),
            weights=[0.5 + 0.07 * seed], class_sep=0.6 + 0.2 * seed, random_state=seed)
    X, y = load_digits(return_X_y=True)
    for one, other in ((1, 8), (3, 9)):
        some = np.isin(y, (one, other))
        yield f"digits {one}, {other}", X[some], y[some]
    yield "digits odd", X, y % 2
    yield "moons .35", *make_moons(300, noise=0.35, random_state=1)
    yield "circles", *make_circles(300, noise=0.2, factor=0.5, random_state=1)


def judging():
    """Twenty sets that nothing was chosen on."""
    yield "breast cancer", *load_breast_cancer(return_X_y=True)
    yield "iris", *load_iris(return_X_y=True)
    yield "wine, three classes", *load_wine(return_X_y=True)
    X, y = load_digits(return_X_y=True)
    yield "digits, ten classes", X[::2], y[::2]
    for one, other in ((2, 7), (4, 9), (5, 6), (0, 3)):
        some = np.isin(y, (one, other))
        yield f"digits {one}, {other}", X[some], y[some]
    some = y < 4
    yield "digits below 4", X[some], y[some]
    for seed, noise in ((10, 0.1), (11, 0.25), (12, 0.5)):
        yield f"moons {noise}", *make_moons(300, noise=noise, random_state=seed)
    for seed in range(20, 28):
        yield f"generated {seed}", *generated(seed, seed)


def generated(seed, random_state):
    return make_classification(
        250 + 50 * (seed % 5), 10 + seed % 4 * 5, n_informative=5, n_classes=2 + seed % 3, flip_y=0.03 * (seed % 4),
        class_sep=0.7 + 0.1 * (seed % 6), weights=[0.7, 0.3] if seed % 3 == 0 else None, random_state=random_state)


class Unflipped(np.random.RandomState):
    """Random numbers by which make_classification makes the same rows, and flips no label.

    It flips where one uniform number a row is small, to as many whole numbers drawn next: these are drawn and dropped.
    """

    def __init__(self, seed, flip_y):
        super().__init__(seed)
        self.flip_y = flip_y
        self.flips = None

    def uniform(self, *args, size=None, **options):
        drawn = super().uniform(*args, size=size, **options)
        if isinstance(size, int) and not args and self.flips is None:
            self.flips = int((drawn < self.flip_y).sum())
            return drawn + 1
        return drawn

    def randint(self, *args, size=None, **options):
        if size != 0:
            return super().randint(*args, size=size, **options)
        super().randint(*args, size=self.flips, **options)
        return np.zeros(0, dtype=int)


def halves(X, y, seed):
    return next(StratifiedShuffleSplit(1, test_size=0.5, random_state=seed).split(X, y))


def split(X, y, seed=0):
    train, test = halves(X, y, seed)
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), scaler.transform(X[test]), y[train], y[test]


def seconds(work):
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def without(model, X, y, i):
    """The score of row i under the fit to all others."""
    return clone(model).fit(np.delete(X, i, 0), np.delete(y, i)).decision_function(X[i : i + 1])[0]


def left_out():
    """Errors of loo_decision_ against refits, of support vectors; rows without a coefficient are exact."""
    print("| set | C | median error | worst | median change | error of all rows: refits | ours |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, X, y in list(judging())[:2] + list(judging())[9:12]:
        keep = np.random.default_rng(0).permutation(np.flatnonzero(y < 2))[:200]
        Z, signs = StandardScaler().fit_transform(X[keep]), y[keep]
        for C in (1.0, 10.0):
            model = SVC(C=C, tol=1e-6, gamma=1 / Z.shape[1]).fit(Z, signs)
            refits = np.array([without(model, Z, signs, i) for i in range(len(Z))])
            error = np.abs(model.loo_decision_ - refits)[model.support_]
            change = np.abs(refits - model.decision_function(Z))[model.support_]
            wrong = [np.mean((s > 0) != (signs == 1)) for s in (refits, model.loo_decision_)]
            print(f"| {name} | {C:g} | {np.median(error):.4f} | {error.max():.2f} | {np.median(change):.3f} | "
                  f"{wrong[0]:.3f} | {wrong[1]:.3f} |", flush=True)


def cost():
    """Fit and probabilities over a fit, by rows; share of the fit that loo_decision_ takes at 10,000 x 30, of three."""
    for n in (150, 300, 1000, 2000, 10_000):
        X, y = make_classification(n + 300, 20, n_informative=8, flip_y=0.05, class_sep=0.8, random_state=3)
        print(f"{n} rows: {of_a_fit(SVC(), X[:n], X[n:], y[:n]):.2f} fits", flush=True)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 30))
    f = X[:, :3].sum(axis=1) + np.sin(2 * X[:, 3])
    for noise, C in ((0.1, 1.0), (2.0, 1.0), (2.0, 100.0)):
        y = (f + noise * rng.normal(size=len(f)) > 0).astype(int)
        times = []
        for _ in range(3):
            model, fit = seconds(lambda y=y, C=C: SVC(C=C).fit(X, y))
            times.append((fit, seconds(lambda model=model: model.loo_decision_)[1]))
        fit, spans = np.median(times, axis=0)
        print(f"noise {noise:g}, C={C:g}: fit {fit:.2f} s, {len(model.support_)} support vectors, loo_decision_ "
              f"{spans:.2f} s = {spans / fit:.2f} of the fit", flush=True)


def log_losses(only=None):
    """Log loss and time beside CalibratedClassifierCV, cv=5, of the same estimator; for SVC scikit-learn's.

    AdversarialSVC is run on the sets of two classes, as each pair of more is trained against perturbed inputs.
    """
    models = {"SVC": (SVC(), sklearn.svm.SVC()), "LinearSVC": (LinearSVC(), LinearSVC()),
              "KernelClassifier": (KernelClassifier(max_iter=200), None),
              "RobustKernelClassifier": (RobustKernelClassifier(random_state=0), None),
              "AdversarialSVC": (AdversarialSVC(random_state=0, eps=0.02), None)}
    print("| estimator | sets | median ratio | worst (set) | more than 1.1 | time, of theirs | of a fit "
          "|\n| --- | --- | --- | --- | --- | --- | --- |")
    for name, (model, peer) in models.items():
        if only not in (None, name):
            continue
        sets = [one for one in judging() if name != "AdversarialSVC" or len(np.unique(one[2])) == 2]
        rows = [_log_loss(model, peer or model, *split(X, y)) for _, X, y in sets]
        ratios, times, fits = np.array(rows).T
        worst = sets[int(ratios.argmax())][0]
        print(f"| {name} | {len(rows)} | {np.median(ratios):.3f} | {ratios.max():.3f} ({worst}) | "
              f"{(ratios > 1.1).sum()} | {np.median(times):.2f} | {np.median(fits):.2f} |", flush=True)


def _log_loss(model, peer, X, Z, y, truth):
    fitted, fit = seconds(lambda: clone(model).fit(X, y))
    ours, asked = seconds(lambda: fitted.predict_proba(Z))
    assert (fitted.classes_[ours.argmax(axis=1)] == fitted.predict(Z)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, took = seconds(lambda: CalibratedClassifierCV(clone(peer), cv=5).fit(X, y).predict_proba(Z))
    return log_loss(truth, ours) / log_loss(truth, theirs), (fit + asked) / took, of_a_fit(model, X, Z, y)


def of_a_fit(model, X, Z, y):
    """Return (fit + probabilities - scores) / fit, medians over repeats; both are first calls, of two equal fits."""
    times = []
    start = time.process_time()
    while len(times) < LEAST_REPEATS or (time.process_time() - start < REPEATED and len(times) < MOST_REPEATS):
        fitted, fit = seconds(lambda: clone(model).fit(X, y))
        _, asked = seconds(lambda fitted=fitted: fitted.predict_proba(Z))
        fitted, again = seconds(lambda: clone(model).fit(X, y))
        _, scored = seconds(lambda fitted=fitted: fitted.decision_function(Z))
        times.append(((fit + again) / 2, asked - scored))
    fit, more = np.median(times, axis=0)
    return 1 + more / fit


def wrong_labels(share=0.15):
    """Log loss of RobustKernelClassifier beside CalibratedClassifierCV, labels as they are and a share flipped.

    ``all right`` calibrates on the labels as given. Flips are of training labels only.
    """
    print("| sets | labels | median ratio | worst (set) | more than 1.1 | all right: median | worst |\n"
          + "| --- " * 7 + "|")
    for kind, sets in (("choosing", choosing), ("judging", judging)):
        for wrong in (0.0, share):
            rows = [_with_wrong_labels(wrong, *split(X, np.unique(y, return_inverse=True)[1])) for _, X, y in sets()]
            ours, right = np.array(rows).T
            worst = [name for name, _, _ in sets()][int(ours.argmax())]
            labels = f"{wrong:.0%} flipped" if wrong else "as given"
            print(f"| {kind} | {labels} | {np.median(ours):.3f} | {ours.max():.3f} ({worst}) | {(ours > 1.1).sum()} | "
                  f"{np.median(right):.3f} | {right.max():.3f} |", flush=True)


def _with_wrong_labels(share, A, B, inner, truth):
    given = inner.copy()
    flipped = np.random.default_rng(0).permutation(len(inner))[: int(share * len(inner))]
    given[flipped] = (given[flipped] + 1) % (inner.max() + 1)
    model = RobustKernelClassifier(random_state=0).fit(A, given)
    peer = CalibratedClassifierCV(RobustKernelClassifier(random_state=0), cv=5).fit(A, given)
    theirs = log_loss(truth, peer.predict_proba(B))
    ours = log_loss(truth, model.predict_proba(B))
    model._certainty.calibration = calibrate(replace(model._certainty.held, true=None))
    return ours / theirs, log_loss(truth, model.predict_proba(B)) / theirs


def right_labels(seed=27, splits=4):
    """Log loss of RobustKernelClassifier beside CalibratedClassifierCV on a judging set, by given and right labels."""
    X, y = generated(seed, seed)
    same, right = generated(seed, Unflipped(seed, 0.03 * (seed % 4)))
    assert np.array_equal(X, same)
    print("| split | wrong | taken for wrong | by given labels | right ones | all right: by given | right ones |\n"
          + "| --- " * 7 + "|")
    for number in range(splits):
        A, B, inner, truth = split(X, y, number)
        train, test = halves(X, y, number)
        model = RobustKernelClassifier(random_state=0).fit(A, inner)
        theirs = CalibratedClassifierCV(RobustKernelClassifier(random_state=0), cv=5).fit(A, inner).predict_proba(B)
        ours = model.predict_proba(B)
        model._certainty.calibration = calibrate(replace(model._certainty.held, true=None))
        plain = model.predict_proba(B)
        cells = [log_loss(by, p) / log_loss(by, theirs) for p in (ours, plain) for by in (truth, right[test])]
        print("| {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |".format(
            number, np.mean(right[train] != inner), model.outlier_proba_.mean(), *cells), flush=True)


def dropped(share=0.15):
    """Log loss of KernelClassifier calibrated on all rows and on those that its risk kept, labels clean and flipped."""
    print("| set | all rows | kept rows | all, flipped | kept, flipped |\n" + "| --- " * 5 + "|")
    for name, X, y in list(choosing())[:6]:
        A, B, inner, truth = split(X, y)
        row = []
        for wrong in (0.0, share):
            given = inner.copy()
            flipped = np.random.default_rng(0).permutation(len(inner))[: int(wrong * len(inner))]
            given[flipped] = 1 - given[flipped]
            model = KernelClassifier(max_iter=200).fit(A, given)
            held = model._certainty.held
            for weight in (held.weight, held.weight * model.inlier_mask_):
                model._certainty.calibration = calibrate(replace(held, weight=weight))
                row.append(log_loss(truth, model.predict_proba(B)))
        print("| {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |".format(name, *row), flush=True)


def coverage(splits=50, peer_splits=3):
    """Coverage of the sets of SVC at .9 over splits of each set, and their mean size, beside MAPIE's by five folds.

    Times are of fit and sets, and of what the sets take beyond one fit, of theirs.
    """
    print("| set | coverage | mean size | accuracy | MAPIE | its size | time, of MAPIE's | beyond a fit |\n"
          + "| --- " * 8 + "|")
    means = []
    for name, X, y in judging():
        means.append(covered(X, y, splits, peer_splits))
        print(f"| {name} | " + _cells(means[-1]), flush=True)
    print("| mean | " + _cells(np.mean(means, axis=0)))


def _cells(row):
    return "{:.3f} | {:.2f} | {:.3f} | {:.3f} | {:.2f} | {:.2f} | {:.2f} |".format(*row)


def covered(X, y, splits, peer_splits):
    """Return coverage, mean size and accuracy, coverage and mean size of MAPIE's, and both ratios of the times."""
    from mapie.classification import CrossConformalClassifier

    found, theirs, times = [], [], []
    for seed in range(splits):
        A, B, inner, truth = split(X, y, seed)
        model, fit = seconds(lambda A=A, inner=inner: SVC().fit(A, inner))
        sets, asked = seconds(lambda model=model, B=B: model.predict_set(B))
        own = np.searchsorted(model.classes_, truth)
        found.append((sets[np.arange(len(B)), own].mean(), sets.sum(axis=1).mean(), model.score(B, truth)))
        if seed < peer_splits:
            peer = CrossConformalClassifier(SVC(), confidence_level=0.9, conformity_score="lac", cv=5)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sets, took = seconds(
                    lambda A=A, B=B, inner=inner, peer=peer: peer.fit_conformalize(A, inner).predict_set(B)[1])
            sets = sets[:, :, 0]
            theirs.append((sets[np.arange(len(B)), own].mean(), sets.sum(axis=1).mean()))
            times.append(((fit + asked) / took, asked / (took - fit)))
    return [*np.mean(found, axis=0), *np.mean(theirs, axis=0), *np.median(times, axis=0)]


def by_class(splits=50):
    """Coverage of the rarest class by the sets of SVC at .9, for all rows and by class, and mean sizes.

    Of the last class of each set a fifth of the rows are kept.
    """
    print("| set | rows of it | covered, all rows | size | covered, by class | its size |\n" + "| --- " * 6 + "|")
    means = []
    for name, X, y in judging():
        last = np.flatnonzero(y == y.max())
        kept = np.setdiff1d(np.arange(len(y)), last[np.arange(len(last)) % 5 > 0])
        means.append(np.mean([covered_by_class(X[kept], y[kept], seed) for seed in range(splits)], axis=0))
        print(f"| {name} | " + "{:.0f} | {:.3f} | {:.2f} | {:.3f} | {:.2f} |".format(*means[-1]), flush=True)
    print("| mean | " + "{:.0f} | {:.3f} | {:.2f} | {:.3f} | {:.2f} |".format(*np.mean(means, axis=0)))


def covered_by_class(X, y, seed):
    A, B, inner, truth = split(X, y, seed)
    model = SVC().fit(A, inner)
    found = [np.count_nonzero(inner == y.max())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes of fewer than nine rows
        for sets in (model.predict_set(B), model.predict_set(B, by_class=True)):
            found += [sets[truth == y.max(), -1].mean(), sets.sum(axis=1).mean()]
    return found


def choice(splits=3):
    """Accuracy and time of SVC(C="loo", gamma="loo") beside GridSearchCV(cv=5) of scikit-learn over the same values."""
    print("| set | ours | grid search | difference | time, of its |\n" + "| --- " * 5 + "|")
    apart, times = [], []
    for name, X, y in list(judging())[:15]:
        mine, other, ours, theirs = np.array([chosen(X, y, seed) for seed in range(splits)]).T
        apart.extend(mine - other)
        times.append(ours.sum() / theirs.sum())
        print(f"| {name} | {mine.mean():.3f} | {other.mean():.3f} | {(mine - other).mean():+.3f} | {times[-1]:.2f} |",
              flush=True)
    error = np.std(apart) / np.sqrt(len(apart))
    print(f"mean difference {np.mean(apart):+.4f}, standard error {error:.4f}; median of the times "
          f"{np.median(times):.2f}")


def chosen(X, y, seed):
    """Return the accuracies and the processor seconds of SVC(C="loo", gamma="loo") and of the grid search."""
    A, B, inner, truth = split(X, y, seed)
    unit = 1 / (A.shape[1] * A.var())
    search = GridSearchCV(sklearn.svm.SVC(), {"C": list(CS), "gamma": [unit * g for g in GAMMAS]}, cv=5)
    model, ours = seconds(lambda: SVC(C="loo", gamma="loo").fit(A, inner))
    _, theirs = seconds(lambda: search.fit(A, inner))
    return model.score(B, truth), search.score(B, truth), ours, theirs


def picture():
    """Draw the reliability of SVC's probabilities over all judging sets of two classes, beside the peer's."""
    kinds = {"#0072b2": [], "#d55e00": []}
    for _, X, y in judging():
        if len(np.unique(y)) > 2:
            continue
        A, B, inner, truth = split(X, y)
        peer = CalibratedClassifierCV(sklearn.svm.SVC(), cv=5).fit(A, inner)
        for points, model in zip(kinds.values(), (SVC().fit(A, inner), peer), strict=True):
            points.append(np.column_stack([model.predict_proba(B)[:, 1], truth == model.classes_[1]]))
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 360 330" font-family="sans-serif" font-size="12">',
             '<rect width="360" height="330" fill="white"/>',
             '<path d="M40 280V20M40 280H340M40 280L340 20" stroke="#999" fill="none"/>',
             '<text x="120" y="315">probability of the second class</text>',
             '<text x="14" y="230" transform="rotate(-90 14 230)">share of the second class</text>']
    for place, ((colour, points), label) in enumerate(zip(kinds.items(), ("SVC", "CalibratedClassifierCV(cv=5)"))):
        p, truth = np.concatenate(points).T
        bins = np.minimum((10 * p).astype(int), 9)
        filled = np.unique(bins)
        means = [(p[bins == k].mean(), truth[bins == k].mean(), (bins == k).sum()) for k in filled]
        dots = " ".join(f"{40 + 300 * x:.1f},{280 - 260 * share:.1f}" for x, share, _ in means)
        lines.append(f'<polyline points="{dots}" stroke="{colour}" fill="none" stroke-width="2"/>')
        lines.append(f'<text x="60" y="{35 + 16 * place}" fill="{colour}">{label}</text>')
        error = sum(abs(x - share) * count for x, share, count in means) / len(p)
        print(f"{label}: expected calibration error {error:.3f} over {len(p)} rows")
    PICTURE.write_text("\n".join([*lines, "</svg>"]) + "\n")


if __name__ == "__main__":
    commands = {"left-out": left_out, "cost": cost, "log-loss": log_losses, "wrong-labels": wrong_labels,
                "right-labels": right_labels, "coverage": coverage, "by-class": by_class, "choice": choice,
                "dropped": dropped, "picture": picture}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=commands)
    parser.add_argument("--splits", type=int, help="of coverage and by-class (50) and choice (3)")
    parser.add_argument("--only", help="one estimator of log-loss")
    args = parser.parse_args()
    options = {"splits": args.splits, "only": args.only}
    commands[args.what](**{name: value for name, value in options.items() if value is not None})
