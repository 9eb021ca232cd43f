"""The linear fit on the sets of robust regression's textbooks: its rows, its coefficients and its scale."""

import time

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from test_linear_summary import STACKLOSS, STARS
from textbook_sets import MORE, table

from buttress import NotConvergedWarning, RobustLinearRegressor
from buttress.solvers.contamination import mm

pytestmark = pytest.mark.filterwarnings("ignore:.*named corrupt")


# R's package robustbase holds all of them. Hawkins, Bradu & Kass 1984: rows 0 to 9 bad, 10 to 13 good and far out
HBK = table(4, """
10.1 19.6 28.3 9.7 9.5 20.5 28.9 10.1 10.7 20.2 31 10.3 9.9 21.5 31.7 9.5 10.3 21.1 31.1 10 10.8 20.4 29.2 10
10.5 20.9 29.1 10.8 9.9 19.6 28.8 10.3 9.7 20.7 31 9.6 9.3 19.7 30.3 9.9 11 24 35 -0.2 12 23 37 -0.4 12 26 34 0.7
11 34 34 0.1 3.4 2.9 2.1 -0.4 3.1 2.2 0.3 0.6 0 1.6 0.2 -0.2 2.3 1.6 2 0 0.8 2.9 1.6 0.1 3.1 3.4 2.2 0.4
2.6 2.2 1.9 0.9 0.4 3.2 1.9 0.3 2 2.3 0.8 -0.8 1.3 2.3 0.5 0.7 1 0 0.4 -0.3 0.9 3.3 2.5 -0.8 3.3 2.5 2.9 -0.7
1.8 0.8 2 0.3 1.2 0.9 0.8 0.3 1.2 0.7 3.4 -0.3 3.1 1.4 1 0 0.5 2.4 0.3 -0.4 1.5 3.1 1.5 -0.6 0.4 0 0.7 -0.7
3.1 2.4 3 0.3 1.1 2.2 2.7 -1 0.1 3 2.6 -0.6 1.5 1.2 0.2 0.9 2.1 0 1.2 -0.7 0.5 2 1.2 -0.5 3.4 1.6 2.9 -0.1
0.3 1 2.7 -0.7 0.1 3.3 0.9 0.6 1.8 0.5 3.2 -0.7 1.9 0.1 0.6 -0.5 1.8 0.5 3 -0.4 3 0.1 0.8 -0.9 3.1 1.6 3 0.1
3.1 2.5 1.9 0.9 2.1 2.8 2.9 -0.4 2.3 1.5 0.4 0.7 3.3 0.6 1.2 -0.5 0.3 0.4 3.3 0.7 1.1 3 0.3 0.7 0.5 2.4 0.9 0
1.8 3.2 0.9 0.1 1.8 0.7 0.7 0.7 2.4 3.4 1.5 -0.1 1.6 2.1 3 -0.3 0.3 1.5 3.3 -0.9 0.4 3.4 3 -0.3 0.9 0.1 0.3 0.6
1.1 2.7 0.2 -0.3 2.8 3 2.9 -0.5 2 0.7 2.7 0.6 0.2 1.8 0.8 -0.9 1.6 2 1.2 -0.7 0.1 0 1.1 0.6 2 0.6 0.3 0.2
1 2.2 2.9 0.7 2.2 2.5 2.3 0.2 0.6 2 1.5 -0.2 0.3 1.7 2.2 0.4 0 2.2 1.6 -0.9 0.3 0.4 2.6 0.2""")
# Rousseeuw 1984, four rows of Draper & Smith's wood replaced
WOOD = table(6, """
.573 .1059 .465 .538 .841 .534 .651 .1356 .527 .545 .887 .535 .606 .1273 .494 .521 .92 .57
.437 .1591 .446 .423 .992 .45 .547 .1135 .531 .519 .915 .548 .444 .1628 .429 .411 .984 .431
.489 .1231 .562 .455 .824 .481 .413 .1673 .418 .43 .978 .423 .536 .1182 .592 .464 .854 .475
.685 .1564 .631 .564 .914 .486 .664 .1588 .506 .481 .867 .554 .703 .1335 .519 .484 .812 .519
.653 .1395 .625 .519 .892 .492 .586 .1114 .505 .565 .889 .517 .534 .1143 .521 .57 .889 .502
.523 .132 .505 .612 .919 .508 .58 .1249 .546 .608 .954 .52 .448 .1028 .522 .534 .918 .506
.417 .1687 .405 .415 .981 .401 .528 .1057 .424 .566 .909 .568""")
EXAM = table(2, "3 2 4 4 5 6 7 7 7 8 5 8 4 8 5 9 6 11 8 13 8 15 14 6")  # Antille & May 1992
SALINITY = table(4, """
8.2 4 23.005 7.6 7.6 5 23.873 7.7 4.6 0 26.417 4.3 4.3 1 24.868 5.9 5.9 2 29.895 5 5 3 24.2 6.5 6.5 4 23.215 8.3
8.3 5 21.862 8.2 10.1 0 22.274 13.2 13.2 1 23.83 12.6 12.6 2 25.144 10.4 10.4 3 22.43 10.8 10.8 4 21.785 13.1
13.1 5 22.38 12.3 13.3 0 23.927 10.4 10.4 1 33.443 10.5 10.5 2 24.859 7.7 7.7 3 22.686 9.5 10 0 21.789 12
12 1 22.041 12.6 12.1 4 21.033 13.6 13.6 5 21.005 14.1 15 0 25.865 13.5 13.5 1 26.29 11.5 11.5 2 22.932 12
12 3 21.313 13 13 4 20.769 14.1 14.1 5 21.393 15.1""")  # Ruppert & Carroll 1980
HEART = table(3, """
42.8 40 37 63.5 93.5 50 37.5 35.5 34 39.5 30 36 45.5 52 43 38.5 17 28 43 38.5 37 22.5 8.5 20 37 33 34 23.5 9.5 30
33 21 38 58 79 47""")  # Weisberg 1980
SETS = {"hbk": HBK, "wood": WOOD, "exAM": EXAM, "salinity": SALINITY, "heart": HEART, "stars": STARS,
        "stackloss": STACKLOSS, **MORE}


def moved(model):
    """How far the coefficients are from those of the summary, in standard errors."""
    told = model.summary()
    return np.abs((np.r_[model.intercept_, model.coef_] - told.estimate) / told.std_error).max()


@pytest.mark.parametrize(("data", "bad"), [
    (HBK, range(10)), (WOOD, (3, 5, 7, 18)), (EXAM, [11]), (SALINITY, [15]), (STARS, (10, 19, 29, 33)),
], ids=["hbk", "wood", "exAM", "salinity", "stars"])
def test_rows_known_to_be_bad_have_no_weight_and_the_estimate_is_that_of_the_summary(data, bad):
    model = RobustLinearRegressor(random_state=0).fit(data[:, :-1], data[:, -1])
    assert np.flatnonzero(model.weights_ == 0).tolist() == list(bad)
    assert not model.inlier_mask_[model.weights_ == 1].any() or model.inlier_mask_[model.weights_ == 1].all()
    assert moved(model) < 1


def scales(R, p):
    """The S scales of residuals (k, n) of p coefficients, by their definition: the interval is halved forty times."""
    low, high = np.zeros(len(R)), 5 * np.abs(R).max(axis=1)
    for _ in range(40):
        s = (low + high) / 2
        loss = 1 - np.clip(1 - (R / (1.547645 * s[:, None])) ** 2, 0, None) ** 3
        over = loss.sum(axis=1) > (R.shape[1] - p) / 2
        low, high = np.where(over, s, low), np.where(over, high, s)
    return high


def least_scale(X, y, starts):
    """The least scale by brute force: from exact fits to p random rows each, the best hundred followed to their ends.
    """
    n, p = X.shape
    rng = np.random.default_rng(0)
    rows = np.argsort(rng.random((starts, n)), axis=1)[:, :p]
    rows = rows[np.linalg.cond(X[rows]) < 1e10]
    B = np.linalg.solve(X[rows], y[rows][:, :, None])[:, :, 0]
    for steps, kept in ((2, 100), (100, 1)):
        for _ in range(steps):
            R = y - B @ X.T
            U = np.clip(1 - (R / (1.547645 * scales(R, p))[:, None]) ** 2, 0, None) ** 2
            A = np.einsum("kn,ni,nj->kij", U, X, X) + 1e-12 * n * np.eye(p)
            B = np.linalg.solve(A, ((U * y) @ X)[:, :, None])[:, :, 0]
        B = B[np.argsort(scales(y - B @ X.T, p))[:kept]]
    return scales(y - B @ X.T, p)[0]


@pytest.mark.parametrize("name", SETS)
def test_the_scale_is_the_least_and_the_coefficients_are_those_of_the_summary(name):
    data = SETS[name]
    X, y = data[:, :-1], data[:, -1]
    model = RobustLinearRegressor(random_state=0).fit(X, y)
    assert moved(model) < 1
    Z = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    assert model.summary().scale < 1.01 * least_scale(Z, y, 3000)


@pytest.mark.parametrize("name", SETS)
def test_where_no_row_is_bad_the_summary_is_that_of_least_squares(name):
    data = SETS[name]
    model = RobustLinearRegressor(random_state=0).fit(data[:, :-1], data[:, -1])
    plain = LinearRegression().fit(data[:, :-1], data[:, -1])
    told = model.summary()
    same = np.allclose(told.estimate, np.r_[plain.intercept_, plain.coef_], rtol=1e-5)
    assert same == model.clean_ == (told.weights == 1).all()


@pytest.mark.parametrize("width", [1e-1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("seed", range(4))
def test_columns_that_nearly_depend_on_others_do_not_part_the_estimate_from_the_summary(width, seed):
    """The slope across is far from 0 in its own unit, which a ridge on columns in their own units would bring there."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 4))
    across = X[:, 3].copy()
    X[:, 3] = X[:, 0] + X[:, 1] + width * across
    y = X[:, 0] - X[:, 2] + 1.5 * (seed % 2) * across + 0.3 * rng.normal(size=100)
    y[:20] += 10
    model = RobustLinearRegressor(random_state=0).fit(X, y)
    assert not model.weights_[:20].any()
    assert moved(model) < 1


@pytest.mark.parametrize("share", [0.2, 0.3, 0.4])
@pytest.mark.parametrize("spread", [0.1, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_at_distance_ten_has_no_weight(seed, spread, share):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 3))
    y = X @ [1.0, -1.0, 2.0] + 0.5 * rng.normal(size=100)
    bad = np.arange(100) < 100 * share
    X[bad], y[bad] = 10 + spread * X[bad], -10 + spread * rng.normal(size=bad.sum())
    model = RobustLinearRegressor(random_state=0).fit(X, y)
    assert not model.weights_[bad].any()
    good = LinearRegression().fit(X[~bad], y[~bad])
    np.testing.assert_allclose(model.coef_, good.coef_, atol=0.15)
    np.testing.assert_allclose(model.summary().estimate[1:], good.coef_, atol=0.15)


def test_time_is_up_within_the_descents(monkeypatch):
    """By a clock that moves on a second a look three seconds are a few steps, and the fit says so."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 60))
    y = X @ rng.normal(size=60) + rng.normal(size=600)
    y[:150] += 30
    passed, clock = iter(range(100_000)), time.monotonic
    monkeypatch.setattr("time.monotonic", lambda: clock() + next(passed))
    taken, lower = [], mm._lower
    monkeypatch.setattr(mm, "_lower", lambda *args: taken.append(1) or lower(*args))
    with pytest.warns(NotConvergedWarning, match="max_time"):
        RobustLinearRegressor(max_time=3.0, random_state=0).fit(X, y)
    assert len(taken) <= 4
    taken.clear()
    RobustLinearRegressor(random_state=0).fit(X, y)
    assert len(taken) > 10
