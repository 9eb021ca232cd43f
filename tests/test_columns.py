"""One radius a column: the same as one radius for rows that are divided by it, for attacks and certificates alike."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, attacks, certificates

from problems import iris, moons

UNITS = np.array([[0.5, 2.0, 4.0, 0.25]])  # powers of 2: dividing by them rounds nothing
EPS = 0.3
norms = pytest.mark.parametrize("norm", ["linf", "l2"])


def in_units(gamma=0.5):
    """A machine on iris in its units, and one that gives the same scores to rows in the units of X."""
    X, y = iris()
    inner = SVC(C=10.0, gamma=gamma).fit(X / UNITS, y)
    scaler = StandardScaler().fit(X)
    scaler.mean_, scaler.scale_ = np.zeros(4), UNITS[0]
    return X, y, inner, make_pipeline(scaler, inner)


@norms
@pytest.mark.parametrize("attack", [attacks.fgsm, attacks.pgd, attacks.worst_case])
def test_an_attack_is_that_in_units_of_the_columns(attack, norm):
    X, y, inner, outer = in_units()
    options = {"norm": norm, "return_info": True}
    if attack is not attacks.fgsm:
        options |= {"steps": 8, "restarts": 2, "random_state": 0}
    rows = slice(50, 120, 7)
    found, info = attack(outer, X[rows], y[rows], eps=EPS * UNITS, **options)
    _, told = attack(inner, (X / UNITS)[rows], y[rows], eps=EPS, **options)
    away = np.linalg.norm((found - X[rows]) / UNITS, np.inf if norm == "linf" else 2, axis=1)
    assert (away <= EPS * (1 + 1e-9)).all()
    assert info.margin.sum() == pytest.approx(told.margin.sum(), rel=0.05)
    if attack is not attacks.worst_case:  # whose draws are in other units
        np.testing.assert_allclose(info.margin, told.margin, atol=1e-6)


@norms
def test_the_exact_attack_on_linear_models_is_that_in_units_of_the_columns_also_in_a_box(norm):
    X, y = iris()
    y = (y == 2).astype(int)
    inner = LogisticRegression().fit(X / UNITS, y)
    outer = LogisticRegression().fit(X, y)
    outer.coef_, outer.intercept_ = inner.coef_ / UNITS, inner.intercept_
    for bounds, box in ((None, None), ((X - 0.2, X + 0.4), ((X - 0.2) / UNITS, (X + 0.4) / UNITS))):
        info = attacks.exact(outer, X, y, eps=EPS * UNITS, norm=norm, bounds=bounds, return_info=True)[1]
        told = attacks.exact(inner, X / UNITS, y, eps=EPS, norm=norm, bounds=box, return_info=True)[1]
        np.testing.assert_allclose(info.bound, told.bound, atol=1e-9)


def test_trees_too():
    X, y = iris()
    forest = RandomForestClassifier(5, random_state=0)
    info = attacks.exact(forest.fit(X, y), X[::9], y[::9], eps=EPS * UNITS, return_info=True)[1]
    told = attacks.exact(forest.fit(X / UNITS, y), (X / UNITS)[::9], y[::9], eps=EPS, return_info=True)[1]
    np.testing.assert_array_equal(info.success, told.success)


def test_columns_of_radius_0_stay():
    X, y, _, outer = in_units()
    eps = np.array([0.5, 0.0, 0.5, 0.0])
    for norm in ("linf", "l2"):
        found, info = attacks.worst_case(outer, X[::5], y[::5], eps=eps, norm=norm, steps=5, restarts=2, random_state=0,
                                         return_info=True)
        np.testing.assert_array_equal(found[:, [1, 3]], X[::5][:, [1, 3]])
        assert np.isfinite(info.distance).all()
        held = getattr(certificates.certified_radius(outer, X[::5], scale=eps, norm=norm), norm)
        low, high = X[::5].copy(), X[::5].copy()
        low[:, [0, 2]], high[:, [0, 2]] = -np.inf, np.inf
        boxed = getattr(certificates.certified_radius(outer, X[::5], bounds=(low, high), norm=norm), norm)
        assert (0.5 * held >= 0.99 * boxed).all()
        grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 15)] * 2), axis=-1).reshape(-1, 2)
        grid = grid[np.linalg.norm(grid, np.inf if norm == "linf" else 2, axis=1) <= 1]
        moves = np.zeros((len(grid), 4))
        moves[:, [0, 2]] = 0.5 * grid
        for row, size in zip(X[::5], held, strict=True):
            assert (outer.predict(row + min(size, 10) * moves) == outer.predict(row[None])).all()


@norms
def test_certificates_are_those_in_units_of_the_columns(norm):
    X, _, inner, outer = in_units()
    radius = getattr(certificates.certified_radius(outer, X[::5], scale=UNITS, norm=norm), norm)
    told = getattr(certificates.certified_radius(inner, (X / UNITS)[::5], norm=norm), norm)
    np.testing.assert_allclose(radius, told, rtol=1e-9)
    middle = float(np.median(told))
    within = certificates.certified_within(outer, X[::5], eps=middle * UNITS, norm=norm)
    np.testing.assert_array_equal(within, certificates.certified_within(inner, (X / UNITS)[::5], eps=middle, norm=norm))
    assert 0 < within.mean() < 1


@pytest.mark.parametrize("eps", [[0.1, 0.1, 0.1], [0.1, -0.1], [0.1, np.nan], [[0.1], [0.2]]])
def test_other_shapes_and_values_are_refused(eps):
    X, y = moons(20)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match=r"one for each of the 2 columns"):
        attacks.pgd(model, X, y, eps=eps)
    with pytest.raises(ValueError, match=r"scale must be a number >= 0, or one for each of the 2 columns"):
        certificates.certified_radius(model, X, scale=eps)


def test_what_holds_without_a_box_holds_in_it():
    X, _, _, outer = in_units(gamma=0.1)
    for norm in ("linf", "l2"):
        options = {"norm": norm}
        free = getattr(certificates.certified_radius(outer, X[::5], **options), norm)
        box = X.min(axis=0), X.max(axis=0)
        boxed = getattr(certificates.certified_radius(outer, X[::5], bounds=box, **options), norm)
        assert (boxed >= 0.999 * free).all()
