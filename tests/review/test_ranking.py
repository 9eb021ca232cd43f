"""Rows ranked anew: without decisions as the audit ranks them, dropped rows count for nothing, decided ones as said."""

import numpy as np
import pytest

from buttress.audit.measuring.suspicion import in_order
from buttress.audit.reading.table import make_table
from buttress.review.estimates import ranking_of, wrong_cells

NONE = np.empty(0, dtype=np.intp)


def problem(classifies, seed=0, n=150):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    wrong = np.isin(np.arange(n), rng.permutation(n)[:15])
    if classifies:
        true = np.where(X[:, 0] + X[:, 1] > 0, "a", "b")
        return X, np.where(wrong, np.where(true == "a", "b", "a"), true), true, wrong
    true = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=n)
    return X, true + 3.0 * wrong, true, wrong


@pytest.mark.parametrize("classifies", [True, False])
def test_without_decisions_the_order_is_the_audits(classifies):
    X, y, _, _ = problem(classifies)
    audited = np.random.default_rng(1).uniform(0.01, 0.99, len(y))
    # the regression goes on from its last weights: what it says without decisions is what it said at first
    said = ranking_of(X, y, audited, classifies=classifies).learn(NONE, y[:0], NONE)
    assert np.corrcoef(said.probability, audited)[0, 1] > (0.999999 if classifies else 0.9)


def test_a_dropped_row_counts_for_nothing():
    X, y, _, _ = problem(True)
    whole = ranking_of(X, y, np.full(len(y), 0.1), classifies=True)
    gone = np.array([3, 40])
    rest = np.setdiff1d(np.arange(len(y)), gone)
    part = ranking_of(X[rest], y[rest], np.full(len(rest), 0.1), classifies=True)
    part.alpha = whole.alpha
    decided = np.arange(len(y))[rest]  # every label is fixed, so that no law of them matters
    said = whole.fitted(decided, y[rest], gone)
    alone = part.fitted(np.arange(len(rest)), y[rest], NONE)
    np.testing.assert_allclose(said.score[rest], alone.score, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("classifies", [True, False])
def test_decisions_that_are_right_bring_the_other_wrong_rows_forward(classifies):
    X, y, true, wrong = problem(classifies)
    audited = np.full(len(y), 0.1)  # an audit that knows nothing
    decided = np.concatenate([np.flatnonzero(wrong)[:5], np.flatnonzero(~wrong)[:60]])
    said = ranking_of(X, y, audited, classifies=classifies)
    said = said.learn(decided, true[decided], NONE)
    left = np.setdiff1d(np.arange(len(y)), decided)
    assert np.isfinite(said.probability).all()
    first = left[in_order(said.probability[left], said.score[left])][:10]
    assert wrong[first].sum() >= 6


def test_classes_that_are_mixed_up_are_learned():
    X, y, _, _ = problem(True)
    ranking = ranking_of(X, y, np.full(len(y), 0.1), classifies=True)
    rows = np.flatnonzero((y == "a") & (ranking.before.expected == "b"))
    other = np.flatnonzero((y == "b") & (ranking.before.expected == "a"))
    odds = ranking.odds(rows, np.full(len(rows), "b"), NONE)
    assert odds[rows[0]] == pytest.approx((len(rows) + 1) / (0.1 * len(rows) + 1))
    assert odds[other[0]] == 1
    odds = ranking.odds(rows, y[rows], NONE)
    assert odds[rows[0]] == pytest.approx(1 / (0.1 * len(rows) + 1))


def test_wrong_cells_have_nearly_the_value_that_was_there():
    rng = np.random.default_rng(0)
    size = rng.normal(10, 1, 300)
    columns = {"a": size + 0.1 * rng.normal(size=300), "b": 2 * size + 0.1 * rng.normal(size=300),
               "c": -size + 0.1 * rng.normal(size=300)}
    there = columns["b"][7]
    columns["b"][7] *= 1000
    columns["a"][9] = np.nan
    table = make_table(columns, np.arange(300) % 2, "y", "auto")
    cell = wrong_cells(table, np.arange(300))[7]
    assert set(cell) == {"b"}
    assert cell["b"].value == pytest.approx(1000 * there)
    assert cell["b"].expected == pytest.approx(there, abs=1.0)
    assert 7 not in wrong_cells(table, np.arange(8, 300))
