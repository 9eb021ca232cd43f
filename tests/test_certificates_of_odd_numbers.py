"""Proofs where numbers are odd: tiny units, columns of several types, scalers of float32, leads near ties."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC as SklearnSVC
from sklearn.tree import DecisionTreeClassifier

from buttress import SVC, attacks, certificates


def quadrants(n=24):
    X = np.random.default_rng(0).normal(size=(n, 2))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("unit", [1e-78, 1e-150])
@pytest.mark.parametrize("machine", [SklearnSVC, SVC])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_radii_hold_in_units_in_which_the_square_of_gamma_is_no_float(unit, machine, kernel):
    X, y = quadrants()
    X = X * unit
    model = machine(kernel=kernel, C=10, coef0=1).fit(X, y)
    radii = certificates.certified_radius(model, X, max_parts=5, norm="l2").l2
    codes = model.predict(X)
    assert 0.05 * unit < np.median(radii) < unit
    for row, code, radius in zip(X, codes, radii, strict=True):
        away = (X[codes != code] - row) / unit
        away = away / np.linalg.norm(away, axis=1, keepdims=True) * radius * (1 - 1e-9)
        assert (model.predict(row + away) == code).all()


def turning(model, rows_of, low=-3.0, high=3.0):
    """Two neighbouring numbers between which a model changes its mind."""
    first = model.predict(rows_of(low))[0]
    assert model.predict(rows_of(high))[0] != first
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if model.predict(rows_of(middle))[0] == first else (low, middle)
    return low, high


def nothing_is_proven_beside(model, rows_of):
    ends = turning(model, rows_of)
    assert not any(certificates.certified_within(model, rows_of(end), eps=1e-11).any() for end in ends)


def test_a_column_that_is_scaled_in_float32_beside_others_is_certified_as_such():
    X, _ = quadrants(60)
    frame = pd.DataFrame({"a": X[:, 0].astype(np.float32), "b": X[:, 1]})
    scalers = ColumnTransformer([("a", StandardScaler(), ["a"]), ("b", StandardScaler(), ["b"])])
    model = make_pipeline(scalers, LogisticRegression(C=1e3)).fit(frame, X.sum(axis=1) > 0)
    for a in np.float32([-0.7, 0.1, 0.9]):
        nothing_is_proven_beside(model, lambda b, a=a: pd.DataFrame({"a": np.array([a]), "b": [b]}))


def test_a_scaler_that_was_fitted_to_float32_is_read_in_float64():
    X, _ = quadrants(60)
    model = make_pipeline(MinMaxScaler(), LogisticRegression(C=1e3)).fit(X.astype(np.float32), X.sum(axis=1) > 0)
    for a in (-0.7, 0.1, 0.9):
        nothing_is_proven_beside(model, lambda b, a=a: np.array([[a, b]]))


@pytest.mark.parametrize("last", [LogisticRegression(), SklearnSVC(), DecisionTreeClassifier()])
def test_rows_of_float16_are_refused(last):
    X, y = quadrants()
    model = make_pipeline(StandardScaler(), last).fit(X, y)
    with pytest.raises(ValueError, match=r"float16.*astype\(float\)"):
        certificates.certified_radius(model, X.astype(np.float16))


def largest_settled(model, row, code, norm):
    """About the largest radius at which the exact attack says that a row stands."""
    low, high = 0.0, 1.0
    for _ in range(70):
        middle = (low + high) / 2
        info = attacks.exact(model, row, code, eps=middle, norm=norm, return_info=True)[1]
        low, high = (middle, high) if info.proven[0] and not info.success[0] else (low, middle)
    return low


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_planes_are_settled_for_what_the_model_computes(norm):
    found = 0
    for seed in range(16):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 3)) * [1.0, 100.0, 0.01]
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1e4)).fit(X, X @ [1.0, 0.02, -50.0] > 0.1)
        row, w = X[5:6], model[-1].coef_[0] / model[0].scale_
        code = model.predict(row)
        radius = largest_settled(model, row, code, norm)
        side = np.sign(model.decision_function(row)[0])
        worst = row[0] - side * radius * (np.sign(w) if norm == "linf" else w / np.linalg.norm(w))
        beside = worst + rng.integers(-2, 3, size=(60, 3)) * np.spacing(np.abs(worst))
        inside = [point for point in beside if within(point, row[0], radius, norm)]
        found += len(inside)
        assert (model.predict(np.array([row[0], *inside])) == code).all()
    assert found > 60


def within(point, row, radius, norm):
    """Whether a point is within a radius of a row, in real numbers."""
    moves = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(point, row, strict=True)]
    limit = Fraction(float(radius))
    return all(abs(move) <= limit for move in moves) if norm == "linf" else sum(m * m for m in moves) <= limit**2
