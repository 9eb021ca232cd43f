"""Certified radii and accuracies against the strongest attack, and attacked points near the radii for violations.

    python benchmarks/certificates.py                                   # tables on sets of scikit-learn
    python benchmarks/certificates.py --data-dir DIR                    # and MNIST 1 against 7, from its idx files
    python benchmarks/certificates.py --points 100000                   # points near the radius, violations counted

Machines are fixed in advance, not chosen by these figures; columns are standardised but for images, whose pixels are in
[0, 1]. Seconds are of the processor, on one thread.
"""

import argparse
import os
import time
import warnings

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402
from attacks import ones_and_sevens  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_moons  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler, scale  # noqa: E402

from buttress import SVC, AdversarialLinearSVC, CertifiedSVC, attacks, certificates  # noqa: E402
from buttress.certificates.leads import Leads  # noqa: E402
from buttress.certificates.radius import largest_by_norm  # noqa: E402
from buttress.scores import read_scores  # noqa: E402

ROWS = 40


def split(X, y, train):
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:train]], y[order[:train]], X[order[train:]], y[order[train:]]


def cases(folder):
    """Name, (training rows and labels, test rows and labels), machine, norm, radius, box."""
    X, y = load_breast_cancer(return_X_y=True)
    cancer = split(scale(X), y, 400)
    X, y = load_wine(return_X_y=True)
    wine = split(scale(X), y, 120)
    X, y = load_digits(return_X_y=True)
    digits = split(X / 16, y, 1000)
    moons = split(*make_moons(400, noise=0.15, random_state=0), 300)
    yield "breast cancer, RBF .02", cancer, SVC(gamma=0.02), "linf", 0.25, None
    yield "breast cancer, RBF .1", cancer, SVC(gamma=0.1), "linf", 0.25, None
    yield "breast cancer, RBF .2", cancer, SVC(gamma=0.2), "linf", 0.25, None
    yield "breast cancer, Laplacian .2", cancer, SVC(kernel="laplacian", gamma=0.2), "linf", 0.25, None
    yield "breast cancer, degree 2", cancer, SVC(kernel="poly", degree=2, gamma=1 / 30, coef0=1.0), "linf", 0.25, None
    yield "breast cancer, degree 3", cancer, SVC(kernel="poly", degree=3, gamma=1 / 30, coef0=1.0), "linf", 0.25, None
    yield "wine, RBF .05", wine, SVC(gamma=0.05), "linf", 0.25, None
    yield "moons, RBF 5", moons, SVC(gamma=5.0), "l2", 0.2, None
    yield "moons, RBF 100", moons, SVC(gamma=100.0), "l2", 0.1, None
    yield "digits, RBF .03, in [0, 1]", digits, SVC(gamma=0.03), "linf", 0.1, (0, 1)
    if folder is not None:
        mnist = split(*ones_and_sevens(folder), 1500)
        yield "MNIST 1v7, RBF .013", mnist, SVC(gamma=0.013), "linf", 0.1, None
        yield "MNIST 1v7, RBF .013, in [0, 1]", mnist, SVC(gamma=0.013), "linf", 0.1, (0, 1)


def further_cases():
    """More cases for counting points: trained certificates, l_1, exact second order, columns far from 0."""
    X, y = load_breast_cancer(return_X_y=True)
    cancer = split(scale(X), y, 400)
    X_wine, y_wine = load_wine(return_X_y=True)
    wine = split(scale(X_wine), y_wine, 120)
    linear = AdversarialLinearSVC(norm="l1", eps=0.25)
    trained = {"eps": 0.25, "gamma": 0.03, "n_landmarks": 100, "max_iter": 100}
    yield "breast cancer, certified", cancer, CertifiedSVC(**trained, random_state=0), "linf", 0.25, None
    yield "wine, certified", wine, CertifiedSVC(**trained, norm="l2", random_state=0), "l2", 0.25, None
    yield "breast cancer, exact linear", cancer, linear, "l1", 0.25, None
    yield "wine, certified", wine, CertifiedSVC(**trained, norm="l2", random_state=0), "l1", 0.25, None
    yield "breast cancer, degree 2", cancer, SVC(kernel="poly", degree=2, gamma=1 / 30, coef0=1.0), "l2", 0.25, None
    away = make_pipeline(StandardScaler(), SVC(gamma=0.02))
    yield "breast cancer + 1e7, RBF .02", split(X + 1e7, y, 400), away, "linf", 0.25, None


def by_norm(model, X, norm):
    """Radii by the norm, value and gradient in the kernel's space alone; zeros where there is no such bound."""
    leads = Leads(read_scores(model), X.shape[1])
    radii = [np.zeros(len(X)) if rival.falls is None else largest_by_norm(rival.margin, rival.falls, norm)
             for rival in leads.rivals(X, leads.scale)]
    return np.min(radii, axis=0)


def nearest_found(model, X, labels, norm, box, start):
    """Smallest distance at which an attack changes each prediction, on a grid of radii a tenth apart."""
    found = np.full(len(X), np.inf)
    for eps in start * 1.1 ** np.arange(60):
        rows = np.flatnonzero(np.isinf(found))
        if not len(rows):
            break
        info = attacks.pgd(model, X[rows], labels[rows], eps=eps, norm=norm, bounds=box, restarts=3, random_state=0,
                           return_info=True)[1]
        found[rows[info.success]] = info.distance[info.success]
    return found


def timed(work):
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def compare(name, data, model, norm, eps, box, max_parts):
    X, y, X_test, y_test = data
    model = model.fit(X, y)
    rows, truth = X_test[:ROWS], y_test[:ROWS]
    labels = model.predict(rows)
    old = by_norm(model, rows, norm)
    found, seconds = timed(lambda: certificates.certified_radius(model, rows, norm=norm, bounds=box))
    radius = getattr(found, norm)
    start = max(float(np.median(radius)) / 2, 1e-3)
    nearest = nearest_found(model, rows, labels, norm, box, start)
    middle = np.median(nearest)
    print(f"{name:32s} {norm:4s} median radius / nearest found {np.median(old) / middle:.2f} -> "
          f"{np.median(radius) / middle:.2f}  ({seconds:.2f} s, violations {(radius > nearest).sum()})", flush=True)
    right = labels == truth
    options = {"eps": eps, "norm": norm, "bounds": box}
    plain = certificates.certified_within(model, rows, **options)
    proven, spent = timed(lambda: certificates.certified_within(model, rows, max_parts=max_parts, **options))
    info = attacks.worst_case(model, rows, truth, steps=40, restarts=2, random_state=0, return_info=True, **options)[1]
    print(f"{'':32s}  eps {eps:g}: clean {right.mean():.3f}, attacked {1 - info.success.mean():.3f}, certified "
          f"{(right & plain).mean():.3f}, with {max_parts} parts a row {(right & proven).mean():.3f} "
          f"({spent / len(rows):.2f} s a row); by the norm alone {(right & (old > eps)).mean():.3f}", flush=True)


def at_border(d, norm, corner):
    """Return d drawn out to length 1: to corners for l_inf, for l_1 to corners or anywhere."""
    if norm == "linf":
        return np.sign(d)
    if norm == "l1" and corner:
        return np.sign(d) * (np.abs(d) == np.abs(d).max(axis=1, keepdims=True))
    return d / np.linalg.norm(d, 1 if norm == "l1" else 2, axis=1, keepdims=True)


def radius_l1(model, X):
    """Return radii in l_1, for which there is only the question whether one holds, by halving."""
    low, high = np.zeros(len(X)), np.full(len(X), 100.0)
    for _ in range(30):
        middle = (low + high) / 2
        holds = certificates.certified_within(model, X, eps=middle, norm="l1")
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low


def violations(name, data, model, norm, eps, box, points):
    """Count changed predictions among points at the border of the certified balls: corners, and attacks' (not l_1)."""
    X, y, X_test, _ = data
    model = model.fit(X, y)
    rows = X_test[:ROWS]
    labels = model.predict(rows)
    radius = radius_l1(model, rows) if norm == "l1" else getattr(
        certificates.certified_radius(model, rows, norm=norm, bounds=box), norm)
    rows, labels, radius = (part[(radius > 0) & np.isfinite(radius)] for part in (rows, labels, radius))
    low, high = (-np.inf, np.inf) if box is None else box
    rng, seen, wrong = np.random.default_rng(0), 0, 0
    reach = (1 - 1e-12) * radius[:, None]
    while seen < points:
        d = at_border(rng.normal(size=rows.shape), norm, rng.random() < 0.5)
        wrong += int((model.predict(np.clip(rows + reach * d, low, high)) != labels).sum())
        seen += len(rows)
    for row, label, size in zip(rows, labels, radius, strict=True) if norm != "l1" else ():
        info = attacks.pgd(model, row[None], [label], eps=float(size) * (1 - 1e-12), norm=norm, bounds=box, restarts=3,
                           random_state=0, return_info=True)[1]
        wrong += int(info.success[0])
        seen += info.queries
    print(f"{name:32s} {norm:4s} {seen} points, {wrong} violations", flush=True)
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--max-parts", type=int, default=20_000, help="parts of branch and bound, a row")
    parser.add_argument("--points", type=int, default=0, help="only count violations among this many points in all")
    parser.add_argument("--only", help="with --points: cases whose name holds this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    listed = list(cases(options.data_dir))
    if options.points:
        listed = [case for case in [*listed, *further_cases()] if not options.only or options.only in case[0]]
        total = sum(violations(*case, options.points // len(listed) + 1) for case in listed)
        print(f"{total} points in all")
        return
    for case in listed:
        compare(*case, options.max_parts)


if __name__ == "__main__":
    main()
