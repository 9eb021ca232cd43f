"""Try to make certified radii false: ``python tests/hostile_radii.py --points 200000``; the exit code is 1 if one is.

Machines of every certified kind are fitted to the tables of ``hostile_gaps``: far entries, offsets, sizes, repeated
rows, some with the other label, float32 too, behind scalers, in a box. Points at the edge of their balls are predicted:
along the steepest descent of a lead, hardly beside it, at corners, and anywhere. A point counts if its stored numbers
lie within the radius.
"""

import argparse
import sys
import warnings
from collections import Counter

import numpy as np
from hostile_gaps import kernel, table
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC as SklearnSVC

import buttress
from buttress import SVC, AdversarialLinearSVC, LeastSquaresClassifier, LinearSVC, certificates, kernels
from buttress.scores import as_classifier, read_scores

LONG = np.longdouble
NEAR = 10.0 ** -np.arange(1, 17)  # how far beside the steepest descent
ROWS = 12


def machine(rng, X):
    """Return an unfitted classifier whose radii are certified, sometimes behind scalers."""
    C = 10.0 ** (rng.uniform(-2, 2) if rng.random() < 0.7 else rng.uniform(-5, 5))
    scaled = [[], [], [StandardScaler()], [RobustScaler()], [MinMaxScaler()], [StandardScaler(with_std=False)]][
        rng.integers(6)]
    seen = make_pipeline(*scaled).fit_transform(X) if scaled else X
    used = kernel(rng, seen)
    gamma = 10.0 ** rng.uniform(-2, 1) / (np.median(((seen - np.median(seen, axis=0)) ** 2).sum(axis=1)) or 1.0)
    made = {
        "SVC": lambda: SVC(kernel=used, C=C, max_iter=30_000),
        "of all": lambda: SVC(kernel=used, C=C, multi_class="ovr", max_iter=30_000),
        "fourth": lambda: SVC(kernel=kernels.Polynomial(4, gamma, 1.0), C=C, max_iter=30_000),
        "LinearSVC": lambda: LinearSVC(C=C),
        "attacked": lambda: AdversarialLinearSVC(C=C, eps=0.1),
        "squares": lambda: LeastSquaresClassifier(kernel=used, alpha=1 / C),
        "libsvm": lambda: SklearnSVC(kernel=str(rng.choice(["rbf", "linear", "poly"])), gamma=gamma, coef0=1.0, C=C,
                                     max_iter=100_000),
        "logistic": lambda: LogisticRegression(C=C), "ridge": lambda: RidgeClassifier(alpha=1 / C),
        "kernel ridge": lambda: KernelRidge(kernel="rbf", gamma=gamma, alpha=1 / C),
        "landmarks": lambda: make_pipeline(Nystroem(gamma=gamma, n_components=15, random_state=0), LinearSVC(C=C)),
    }
    kind = str(rng.choice(list(made), p=[0.4, 0.06, 0.06, 0.06, 0.06, 0.06, 0.1, 0.06, 0.05, 0.04, 0.05]))
    return kind, make_pipeline(*scaled, made[kind]())


def labelled(rng, X, kind):
    """Return labels, of which repeated rows have some of either kind."""
    lead = X[:, 0] + X[:, -1] + 0.3 * rng.normal(size=len(X)) * X.std(axis=0)[0]
    most = 2 if kind in ("attacked", "kernel ridge") or rng.random() < 0.7 else 3
    y = np.searchsorted(np.quantile(lead, np.arange(1, most) / most), lead)
    if most == 2 and rng.random() < 0.3:  # rows that are equal or nearly so, in some tables, have different labels
        y[: len(X) // 2] = 1 - y[len(X) // 2 : len(X) // 2 * 2]
    y[:most] = np.arange(most)
    return 2 * y - 1 if kind == "kernel ridge" else y


def asked(rng, model, X):
    """Return rows to ask about: of the data, and between two of them with different predictions."""
    rows = X[rng.choice(len(X), ROWS)]
    labels = model.predict(rows)
    for i in range(ROWS // 2):
        others = np.flatnonzero(labels != labels[i])
        if len(others):
            low, high = 0.0, 1.0
            for _ in range(int(rng.integers(3, 45))):
                middle = (low + high) / 2
                same = model.predict((rows[i] + middle * (rows[others[0]] - rows[i]))[None])[0] == labels[i]
                low, high = (middle, high) if same else (low, middle)
            rows[i] = rows[i] + low * (rows[others[0]] - rows[i])
    return rows


def radii(rng, model, rows, norm, box):
    """Return certified radii; in l1, for which there is only the question whether one holds, by halving."""
    if norm != "l1":
        return getattr(certificates.certified_radius(model, rows, norm=norm, bounds=box), norm)
    low, high = np.zeros(len(rows)), np.full(len(rows), 2.0**20)
    for _ in range(70):
        middle = (low + high) / 2
        holds = certificates.certified_within(model, rows, eps=middle, norm=norm, bounds=box, max_parts=20)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low


def directions(rng, model, row, norm, count):
    """Return moves of length about 1: down each lead of the row's class, hardly beside that, at corners, anywhere."""
    score = read_scores(as_classifier(model))
    values = score(row[None].astype(float))
    leads = np.einsum("crk,k->cr", score.contrasts, values[0])
    steep = [-score.gradient(row[None].astype(float), V[None])[0] for V in
             score.contrasts[(leads > 0).sum(axis=1).argmax()]]
    found = []
    for number in range(count):
        d = steep[number % len(steep)].copy() if number % 3 else rng.normal(size=len(row))
        size = np.abs(d).max() or 1.0
        d = d + size * rng.choice(NEAR) * rng.normal(size=len(row)) if number % 3 == 2 else d
        if norm == "linf" and rng.random() < 0.8:
            d = np.where(d == 0, 1.0, np.sign(d)) * (1 - rng.choice(NEAR) * rng.random(len(row)) * (number % 2))
        if norm == "l1" and rng.random() < 0.8:
            d = d * (np.abs(d) == np.abs(d).max())
        found.append(d / (length(d[None], norm)[0] or 1.0))
    return np.array(found, dtype=float)


def length(D, norm):
    D = np.abs(np.asarray(D, LONG))
    return {"l2": np.sqrt((D**2).sum(axis=1)), "linf": D.max(axis=1), "l1": D.sum(axis=1)}[norm]


def broken(rng, model, row, radius, norm, box, count):
    """Return how many points there were within a row's radius, and how many of these are predicted otherwise."""
    away = directions(rng, model, row, norm, count)
    shrink = 1 - rng.choice([0.0, 1e-16, 1e-15, 1e-12, 1e-9], (count, 1))
    points = (row + radius * shrink * away).astype(row.dtype)
    points = points if box is None else np.clip(points, *box)
    inside = length(points.astype(LONG) - row.astype(LONG), norm) <= LONG(radius)
    label = model.predict(row[None])[0]
    points = points[inside & np.isfinite(points).all(axis=1)]
    return len(points), int((model.predict(points) != label).sum()) if len(points) else 0


def judged(seed, number, count):
    """Return how many points were tried around the rows of one model, and what is false."""
    rng = np.random.default_rng((seed, number))
    X = table(rng, int(rng.choice([12, 30, 60])))
    kind, model = machine(rng, X)
    y = labelled(rng, X, kind)
    single = rng.random() < 0.2
    X = X.astype(np.float32) if single else X
    norm = str(rng.choice(["l2", "linf", "l1"], p=[0.45, 0.4, 0.15]))
    try:
        model.fit(X, y)
        rows = asked(rng, as_classifier(model), X)[: ROWS // 4 if norm == "l1" else ROWS]  # of which radii take long
        box = (np.minimum(X.min(axis=0), rows.min(axis=0)), np.maximum(X.max(axis=0), rows.max(axis=0)))
        box = box if rng.random() < 0.15 else None
        found = radii(rng, model, rows, norm, box)
    except (ValueError, FloatingPointError) as error:
        return 0, [], f"refused: {type(error).__name__}"
    tried, false = 0, []
    for row, radius in zip(rows, found, strict=True):
        if 0 < radius < 1e300:
            points, wrong = broken(rng, as_classifier(model), row, float(radius), norm, box, count)
            tried += points
            if wrong:
                false.append(f"table {number} of seed {seed}: {kind} {str(model)[:150]}, {norm}, {X.dtype}: {wrong} of "
                             f"{points} points within {radius:.3g}")
    return tried, false, kind


def search(seed, points, count=60):
    """Return how many points were tried by kind of machine, and which radii are false."""
    counts, false, number = Counter(), [], 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        while sum(counts.values()) < points:
            tried, wrong, kind = judged(seed, number, count)
            counts[kind] += tried
            false += wrong
            number += 1
    return counts, false


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts, false = search(given.seed, given.points)
    kinds = ", ".join(f"{kind}: {tried}" for kind, tried in counts.items())
    sys.stdout.write("\n".join([f"buttress {buttress.__version__}: {sum(counts.values())} points, {len(false)} radii "
                                f"are false; {kinds}", *false, ""]))
    return int(bool(false))


if __name__ == "__main__":
    sys.exit(main())
