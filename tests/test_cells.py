"""Entries of X out of line with the others of their row."""

import numpy as np
import pytest
from scipy.stats import kstest
from scipy.stats import t as student

from buttress.robust.cells import cell_law, deviating_cells, row_chances, student_law
from buttress.robust.tuning import ENTRIES


def columns_that_agree(n=400, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.normal(size=(n, 1))
    return np.column_stack([size + 0.2 * rng.normal(size=(n, 3)), rng.normal(size=n), rng.integers(2, size=n) == 0])


def test_predictions_are_the_least_squares_regressions_where_nothing_is_bounded():
    X = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1.0]])
    law = cell_law(X)
    U = law.scaled(X)
    assert np.abs(U).max() < ENTRIES.bound
    others = np.column_stack([U[:, 1:], np.ones(len(U))])
    fitted = others @ np.linalg.lstsq(others, U[:, 0], rcond=None)[0]
    np.testing.assert_allclose(law.expected(U)[:, 0], fitted, atol=0.01)  # but for the shrinkage


def test_the_law_of_a_column_is_the_likeliest_student():
    r = student.rvs(4, scale=2.5, size=4000, random_state=0)
    scale, degrees = student_law(r)
    assert degrees == 4
    assert scale == pytest.approx(student.fit(r, f0=4, floc=0)[2], rel=1e-3)


def test_p_values_of_ordinary_rows_are_about_uniform():
    X = np.random.default_rng(1).normal(size=(3000, 4))
    assert kstest(deviating_cells(X).p_value, "uniform").statistic < 0.04


def test_the_p_value_of_a_row_is_sidak_s():
    chances = np.array([[0.01, 0.5, 0.9]])
    assert row_chances(np.log(chances))[0] == pytest.approx(1 - 0.99**3)


@pytest.mark.parametrize("wrong", [-999.0, 2000.0, 5.0])
def test_the_wrong_entry_is_named_first_and_alone(wrong):
    X = columns_that_agree()
    X[7, 1] = wrong
    found = deviating_cells(X)
    assert found.p_value.argmin() == 7
    assert found.columns[7].tolist() == [1]


def test_an_entry_within_its_column_s_range_is_found_by_the_others():
    X = columns_that_agree()
    X[7, :3] = 1.5, -1.5, 1.5
    assert deviating_cells(X).columns[7].tolist() == [1]


def test_two_wrong_entries_are_both_named():
    X = columns_that_agree()
    X[7, 1], X[7, 3] = 50, -60
    assert sorted(deviating_cells(X).columns[7].tolist()) == [1, 3]


def test_columns_of_one_value_mostly_are_not_judged():
    X = columns_that_agree()
    X[:, 4] = np.arange(len(X)) < 3
    assert deviating_cells(X[:, 4:]).p_value.min() == 1
    assert not any(4 in named for named in deviating_cells(X).columns)
