"""The data of ``benchmarks/robust.py``: public sets, made sets, and how their training rows are corrupted."""

from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_openml, load_digits, load_iris, load_wine, make_moons
from sklearn.preprocessing import RobustScaler

FILES = {"boston": ("boston_housing.csv", 531), "concrete": ("concrete.csv", 4353),
         "wine": ("wine_quality_red.csv", 40691), "heart": ("heart_cleveland.csv", 53),
         "cancer": ("breast_cancer_wisconsin.csv", 1510)}


def table(name, folder):
    """Return standardised X and the raw target of a set, from ``folder`` or from OpenML."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 4.0, y
    file, number = FILES[name]
    path = Path(folder) / file if folder else None
    if path is not None and path.exists():
        data = np.genfromtxt(path, delimiter=",", skip_header=1)
        X, y = data[:, :-1], data[:, -1]
    else:
        X, y = fetch_openml(data_id=number, return_X_y=True, as_frame=False, parser="liac-arff")
        X = X.astype(float)
    X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    y = (y > 0).astype(int) if name == "heart" else y
    return (X - X.mean(0)) / X.std(0), y


def split(X, y, trial, n_train=None):
    order = np.random.default_rng(trial).permutation(len(y))
    k = len(y) // 5 if n_train is None else len(y) - n_train
    return X[order[k:]], y[order[k:]], X[order[:k]], y[order[:k]]


def corrupted(X, y, rate, kind, trial):
    """Return corrupted copies of the training rows and which are bad."""
    rng = np.random.default_rng(trial + 1000)
    X, y, n = X.copy(), y.astype(float), len(y)
    bad = np.zeros(n, dtype=bool)
    bad[n - int(rate * n) :] = rate > 0
    if kind == "region" and rate:
        near = np.sum((X - X[rng.integers(n)]) ** 2, axis=1)
        bad = np.isin(np.arange(n), np.argsort(near)[: int(rate * n)])
    b, good = int(bad.sum()), y[bad]
    slope = rng.normal(size=X.shape[1])
    y[bad] = {"clean": lambda: good, "label": lambda: rng.normal(5, 5, b), "both": lambda: good * 1e4,
              "mirrored": lambda: -good, "second": lambda: 2 * X[bad] @ slope / np.linalg.norm(slope),
              "shifted": lambda: good + 2, "constant": lambda: np.full(b, 3.0), "region": lambda: good + 3,
              "permuted": lambda: rng.permutation(good), "heavy": lambda: good + rng.standard_cauchy(b)}[kind]()
    if kind == "both":
        X[bad] *= 100
    return X, y, bad


def flipped(X, y, rate, kind, n_classes, trial):
    rng = np.random.default_rng(trial + 1000)
    X, y, b = X.copy(), y.copy(), int(rate * len(y))
    bad = np.arange(len(y)) >= len(y) - b
    y[bad] = (y[bad] + rng.integers(1, n_classes, b)) % n_classes
    if kind == "both":
        X[bad] *= 100
    return X, y, bad


def easy(name, trial):
    """Return X, scaled, and right labels of an easy set: four fifths of a real one, or two classes far apart."""
    rng = np.random.default_rng(trial)
    if name == "blobs":
        y = rng.integers(0, 2, 100)
        return rng.normal(size=(100, 2)) + np.outer(y, [6.0, 0.0]), y
    if name == "moons":
        return make_moons(100, noise=0.15, random_state=trial)
    X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
    rows = rng.permutation(len(y))[: len(y) * 4 // 5]
    return RobustScaler().fit_transform(X[rows]), y[rows]


def waves(n, d, rng):
    """Return X, noisy y with a fifth of it corrupt, and the true function."""
    X = rng.normal(size=(n, d))
    truth = np.sin(X[:, 0]) + np.cos(2 * X[:, 1]) + X[:, 2] * X[:, 3] / 2
    y = truth + 0.1 * rng.normal(size=n)
    bad = rng.random(n) < 0.2
    y[bad] = rng.normal(5, 5, bad.sum())
    return X, y, truth, bad
