"""Rows drawn from many, equal rows and near copies: none of it may depend on the order in which rows come."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud

from buttress._rows import drawn_rows, equal_rows, near_copies
from buttress.solvers.contamination.label_law import explain_labels
from buttress.solvers.contamination.residual_law import LawLimits, LeftOutResiduals, explain


@pytest.mark.parametrize("n", [10, 100, 101, 5000])
def test_rows_are_drawn_evenly_and_alike_each_time(n):
    rows = np.arange(n)[drawn_rows(n, 100)]
    assert len(rows) == min(n, 100)
    assert len(np.unique(rows)) == len(rows)
    np.testing.assert_array_equal(rows, np.arange(n)[drawn_rows(n, 100)])
    assert abs(rows.mean() / (n - 1) - 0.5) < 0.1


@pytest.mark.parametrize("period", [2, 3, 5, 8])
def test_corrupt_rows_that_come_in_turns_are_counted(period):
    """The laws of residuals and labels are learned from some of the rows: not from every so many."""
    rng, n = np.random.default_rng(0), 40_000
    bad = (np.arange(n) % (3 * period) == 0)
    residuals = np.where(bad, rng.normal(8, 2, n), rng.normal(size=n))
    found = explain(LeftOutResiduals(residuals, np.ones(n)), LawLimits(1e-6))
    assert found.responsibility.mean() == pytest.approx(1 - bad.mean(), abs=0.02)
    codes = np.arange(n) % 3
    scores = np.where(np.arange(3) == ((codes + bad) % 3)[:, None], 2.0, -2.0) + rng.normal(size=(n, 3))
    assert explain_labels(scores, codes).rate == pytest.approx(bad.mean(), abs=0.02)


def test_rows_equal_in_a_combination_of_columns_only_are_not_equal():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, size=(500, 3)).astype(float)
    expected = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    found = equal_rows(rows)
    pairs = np.unique(np.column_stack([found, expected]), axis=0)
    assert len(pairs) == expected.max() + 1 == found.max() + 1
    assert equal_rows(rng.normal(size=(500, 3))) is None


@pytest.mark.parametrize(("step", "copies"), [(1e-15, 1), (1e-15, 40), (3e-8, 40)])
def test_rows_that_all_but_repeat_another_are_found(step, copies):
    X = np.random.default_rng(0).normal(size=(400, 3)) * [1, 1e3, 1e-3] + [1, 2e3, 5e-3]
    X[:copies] = X[400 - copies :] * (1 + step)
    found = near_copies(X)
    assert found.tolist() == [*range(copies), *range(400 - copies, 400)]


@pytest.mark.parametrize("load", [load_iris, load_diabetes, load_digits, load_breast_cancer, load_linnerud])
def test_ordinary_rows_are_no_near_copies(load):
    X = load(return_X_y=True)[0]
    assert len(near_copies(X)) == 0
    assert len(near_copies(np.repeat(X, 3, axis=0))) == 0  # nor are equal ones


@pytest.mark.parametrize("n", [2, 50, 1000, 100_000])
def test_a_single_column_has_near_copies_by_chance_only(n):
    assert len(near_copies(np.random.default_rng(1).random((n, 1)))) == 0


@pytest.mark.parametrize("name", ["p-values", "sizes"])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_column_dense_in_places_has_near_copies_by_chance_only(name, mixed):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = 10.0 ** -rng.uniform(3, 12, 1000) if name == "p-values" else np.exp(5 * rng.normal(size=1000))
        if mixed:
            x[:800] = rng.random(800)
        assert len(near_copies(x[:, None])) == 0
        x[7] = x[900] * (1 + 1e-15)
        assert near_copies(x[:, None]).tolist() == [7, 900]


@pytest.mark.parametrize("scale", [1.0, 1e18], ids=["unit", "codes lost in rounding"])
def test_rows_are_equal_in_their_codes_too(scale):
    rng = np.random.default_rng(3)
    rows = scale * rng.integers(1, 4, size=(200, 2)).astype(float)
    codes = rng.integers(0, 3, 200)
    found = equal_rows(rows, codes)
    same = (rows[:, None] == rows).all(axis=2) & (codes[:, None] == codes)
    np.testing.assert_array_equal(found[:, None] == found, same)
    assert equal_rows(rows[:1].repeat(3, axis=0), np.arange(3)) is None
