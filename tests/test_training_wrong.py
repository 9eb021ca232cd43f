"""Wrong labels and targets: leads, slacks and the cheapest sets against brute force and exact fractions."""

from fractions import Fraction
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVC

from buttress import LinearSVC
from buttress.certificates import training_accuracy, training_flips, training_moves
from buttress.certificates.training import changed_rows, flips, together
from buttress.certificates.training.changed_rows import top
from buttress.certificates.training.flips import FlipLeads, _coded, _fewest, _leads
from buttress.certificates.training.reading import Refit, check_reproduced, refit
from buttress.certificates.training.smoother import ColumnSmoother, GramSmoother
from buttress.certificates.training.together import _attack, _dual, _most_lost
from buttress.certificates.training.wrong import Suspects, cheapest, check_suspects

EPS = 2.0**-52


def sets_of(n, most=None):
    return [list(s) for k in range((n if most is None else most) + 1) for s in combinations(range(n), k)]


@pytest.mark.parametrize("seed", range(20))
def test_the_cheapest_set_is_the_least_of_all(seed):
    rng = np.random.default_rng(seed)
    gains, costs = rng.integers(0, 9, 7).astype(float), rng.integers(1, 1 + seed % 5 + 1, 7).astype(float)
    costs[rng.integers(7)] = np.inf if seed % 2 else 1.0
    for need in (*range(-1, 30, 3), gains[np.isfinite(costs)].sum(), gains[np.isfinite(costs)].sum() + 1):
        prices = [costs[s].sum() for s in sets_of(7) if gains[s].sum() >= need and np.isfinite(costs[s]).all()]
        least, rows = cheapest(gains, costs, need)
        assert least == min(prices, default=np.inf)
        assert costs[rows].sum() == (least if prices else 0)
        assert gains[rows].sum() >= need or not prices
        assert len(set(rows.tolist())) == len(rows)


@pytest.mark.parametrize("seed", range(20))
def test_of_any_costs_the_bound_is_that_of_the_relaxation(seed):
    """The best ratios first and a part of the last, less the rounding of the sum."""
    rng = np.random.default_rng(seed)
    gains, costs = rng.integers(1, 9, 8) / 4, rng.integers(1, 9, 8) / 4 + 2.0**-20
    need = Fraction(float(rng.integers(1, int(4 * gains.sum())) / 4))
    left, law, count = need, Fraction(0), 0
    for gain, cost in sorted(zip(gains.tolist(), costs.tolist(), strict=True), key=lambda one: one[1] / one[0]):
        part = min(Fraction(1), left / Fraction(gain))
        law, left, count = law + part * Fraction(cost), left - part * Fraction(gain), count + (part > 0)
    least, rows = cheapest(gains, costs, float(need))
    assert len(rows) == count
    total = Fraction(float(costs[rows].sum()))
    assert abs(Fraction(least) - law + (count + 4) * Fraction(EPS) * total) <= Fraction(EPS) * total


def test_costs_are_searched_exactly_up_to_the_steps_that_are_allowed():
    gains = np.full(5, 10.0)
    for last, exact in ((101.0, True), (102.0, False)):  # 5 prices, of a sum of 200 and 201, squared: 200,000 steps
        costs = np.array([20.0, 24.0, 26.0, 29.0, last])
        assert (cheapest(gains, costs, 45.0)[0] == costs.sum()) == exact
        assert cheapest(gains, costs, 45.0)[0] == pytest.approx(costs.sum() - (not exact) * last / 2)
    assert cheapest(np.array([1.0, 0.0]), np.array([1.5, 2.5]), 0.5)[0] == 1.5  # a label that does nothing has no say
    assert cheapest(np.array([2.0]), np.array([0.1]), 1.0) == (0.1, [0])
    assert cheapest(np.ones(2), np.ones(2), 0.0)[0] == 0
    assert cheapest(np.zeros(2), np.ones(2), 1.0)[0] == np.inf


def test_what_wrong_labels_take_off_a_lead():
    codes, costs = np.array([0, 1, 2, 0]), np.array([1.0, 1.0, 1.0, np.inf])
    allowed = np.array([[False, True, True], [True, False, False], [False, False, False]])
    suspects, values, h = Suspects(codes, allowed, costs), np.array([1.0, -1.0, 3.0]), np.array([2.0, 5.0, 7.0, 9.0])
    np.testing.assert_array_equal(suspects.gains(h, values), [4.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(suspects.gains(-h[None], values), [[4.0, 10.0, 0.0, 0.0]])
    assert suspects.truth(np.array([0, 1]), h[:2], values).tolist() == [1, 0]
    assert suspects.truth(np.array([0]), -h[:1], values).tolist() == [2]
    pairs, eligible = [("a", "b"), ("b", "b")], np.array([True, False])
    found = check_suspects(np.array([0, 1]), np.array(["a", "b"]), pairs, eligible, None)
    assert found.allowed.tolist() == [[False, True], [False, False]]
    assert found.costs.tolist() == [1, np.inf]


def test_the_largest_are_summed_along_the_last_axis():
    values = np.array([[[3.0, -1.0, 2.0]], [[-1.0, -2.0, -3.0]]])
    for k, most in ((0, 0), (1, 3), (2, 5), (3, 5), (9, 5)):
        np.testing.assert_array_equal(top(values, k), [[most], [0]])
        assert top(values[0, 0], k) == most


def told(weights, error):
    """What a refit says, in numbers given."""
    weights = np.array(weights, float)
    return lambda model, X_train, X, sample_weight: Refit(weights, np.array(error, float), None, None, model)


def test_moves_are_bounded_by_the_largest_and_by_every_error(monkeypatch):
    X, y, weights = np.zeros((3, 1)), np.array([3.0, 4.0, 0.0]), [[0.5, -0.25, 1.0], [2.0, -1.5, 0.0]]
    model = SimpleNamespace(predict=lambda X: np.array([0.5, 0.0]) + off)
    for off, error in ((0.0, [0.0, 0.0]), (2.0**-21, [0.0, 0.0]), (-(2.0**-21), [0.25, 0.5])):
        monkeypatch.setattr(changed_rows, "refit", told(weights, error))
        found = training_moves(model, X, y, X, by=np.array([1.0, 2.0, 0.0]), rows=1)
        for row, size in enumerate((0.5, 3.0)):
            slack = abs(off) + error[row] * 5 + error[row] * np.sqrt(5) + 3 * EPS * size
            assert found.prediction[row] - found.low[row] - size == pytest.approx(slack, abs=2 * EPS * size)
            assert found.high[row] - found.prediction[row] - size == pytest.approx(slack, abs=2 * EPS * size)


def test_leads_and_their_slack_are_those_of_their_law(monkeypatch):
    weights, error = [[0.5, -0.25, 1.0, 0.0], [2.0, -1.5, 0.0, 1.0]], [0.25, 0.0]
    monkeypatch.setattr(flips, "refit", told(weights, error))
    off = np.array([2.0**-21, -(2.0**-22)])
    model, y = SimpleNamespace(predict=lambda X: np.array(weights) @ y + off), np.array([1.0, 5.0, 5.0, 1.0])
    asked = FlipLeads.of(model, np.zeros((4, 1)), y, np.zeros((2, 1)), None, None)
    lost = np.array(error) * 2 + 4 * EPS * np.abs(weights).sum(axis=1)
    np.testing.assert_allclose(asked.slack, 2 * (np.abs(off) + lost * (5 + 4)), rtol=1e-12)
    monkeypatch.setattr(flips, "refit", told(weights, [0.0, 0.0]))
    off = np.zeros(2)
    asked = FlipLeads.of(model, np.zeros((4, 1)), y, np.zeros((2, 1)), 4.25, None)
    np.testing.assert_allclose(asked.slack, 2 * 4 * EPS * np.abs(weights).sum(axis=1) * 9, rtol=1e-12)
    assert asked.lead.tolist() == [[0.0, 0.0], [0.0, 4.25 + 4.5]]
    assert asked.predicted.tolist() == [0, 0]  # at the threshold is not above it
    np.testing.assert_array_equal(asked.contrast(0, 1), [-1.0, -5.0])
    asked.predicted[:] = 1
    np.testing.assert_array_equal(asked.contrast(0, 0), [1.0, 5.0])
    assert _leads(np.array([[1.0, -2.0, 4.0]]), 0.0)[1].tolist() == [[3.0, 6.0, 0.0]]
    assert _leads(np.array([[7.0]]), 5.0)[1].tolist() == [[2.0, 0.0]]


def test_labels_are_fitted_as_their_codes():
    model = SimpleNamespace(classes_=0)
    np.testing.assert_array_equal(_coded(model, ["a", "b", "b"], None)[0], [[-1], [1]])
    np.testing.assert_array_equal(_coded(model, ["a", "b", "c"], None)[0], 2 * np.eye(3) - 1)
    assert _coded(SimpleNamespace(), [1.0, 5.0, 5.0], None)[1] == 3.0
    assert _coded(SimpleNamespace(), [1.0, 5.0, 5.0], -7.0)[1] == -7.0


def asked_of(weights, lead, slack, k=2):
    """Leads of class 1 of k over class 0, or over 0 and 2, and labels fitted as -1 and 1."""
    weights = np.array(weights, float)
    n = weights.shape[1]
    targets = np.array([[-1.0], [1.0]]) if k == 2 else 2 * np.eye(k) - 1
    refit = Refit(weights, np.zeros(len(weights)), None, None, None)
    return FlipLeads(refit, np.arange(k), np.ones(n, dtype=int), targets, np.ones(len(weights), dtype=int),
                     np.array([[each.get(rival, 0.0) for rival in range(k)] for each in lead]),
                     np.full(len(weights), slack))


def test_what_is_within_the_slack_is_neither_proven_nor_sure():
    suspects = check_suspects(np.ones(3, dtype=int), np.arange(2), None, None, None)
    for lead, needed, exact in ((1.5, 1, True), (1.75, 1, False), (2.25, 1, False), (2.5, 2, True),
                                (9.0, np.inf, True)):
        found = _fewest(asked_of([[1.0, 1.0, 0.5]], [{0: lead}], 0.25), suspects, 0)
        assert (found.needed, found.exact) == (needed, exact)
        assert len(found.rows) == (0 if needed == np.inf else needed)
        assert (found.truth == 0).all()


@pytest.mark.parametrize(("off", "exact"), [(0.5e-9, True), (1.5e-9, False)])
def test_a_cost_is_exact_to_nine_digits(off, exact):
    suspects = check_suspects(np.ones(2, dtype=int), np.arange(2), None, None, [1.0, 1 + 2.0**-40])
    found = _fewest(asked_of([[0.5, 0.5]], [{0: 2 - 2 * off - 0.01}], -0.01), suspects, 0)
    assert found.exact == exact


def test_of_rivals_that_are_as_near_the_sure_one_counts():
    suspects = check_suspects(np.ones(2, dtype=int), np.arange(3), None, None, None)
    for lead in ({0: 3.0, 2: 3.5}, {0: 3.5, 2: 3.0}):  # a label moves each by 4
        found = _fewest(asked_of([[1.0, 0.25]], [lead], 0.75, 3), suspects, 0)
        assert (found.needed, found.exact) == (1, True)
        assert found.truth.tolist() == [min(lead, key=lead.get)]


def test_of_a_machine_the_label_is_named_and_only_those_that_may_be_wrong():
    X, y = np.array([[8.0], [0.01], [-0.01]]), np.array(["b", "b", "a"])
    model = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, y)
    found = training_flips(model, X, y, [[9.0], [8.0]], flips=[0, 1, 3])
    assert found.needed.tolist() == [1, 1]
    assert [rows.tolist() for rows in found.rows] == [[0], [0]]
    assert [labels.tolist() for labels in found.labels] == [["a"], ["a"]]
    assert found.survives.tolist() == [1, 0, 0]
    assert training_flips(model, X, y, [[9.0]], directions=[("a", "b")]).needed == 2
    assert training_flips(model, X, y, [[9.0]], eligible=np.array([False, True, True])).needed == 2
    X = np.sign(np.arange(-60.0, 60.0) + 0.5)[:, None]
    model = LinearSVC(C=0.005, fit_intercept=False).fit(X, X[:, 0])
    assert training_flips(model, X, X[:, 0], [[1.0]], flips=[0, 3]).needed == 4


def test_numbers_of_flips_are_asked_of_strictly():
    X, y = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 1, 1, 1, 1])
    found = training_flips(RidgeClassifier().fit(X, y), X, y, X, flips=[0, 1, 2])
    assert found.needed.tolist() == [2, 2, 2, 1, 1, 2, 2, 2]
    assert found.survives.tolist() == [1, 0.75, 0]
    assert found.stands(1).sum() == 6
    assert not found.stands(2).any()


@pytest.mark.parametrize("seed", range(12))
def test_what_one_common_set_takes_is_between_proof_and_attack(seed, monkeypatch):
    """In whole numbers: leads, of which some are 0 or lost at once, and gains of both signs; slack as given."""
    rng = np.random.default_rng(seed)
    weights, leads = rng.integers(-2, 4, (6, 5)) / 2.0, rng.integers(0, 6, 6).astype(float)
    asked = asked_of(weights, [{0: lead} for lead in leads.tolist()], 0.5 + 0.5 * (seed % 2))
    asked.predicted[4:] = 0
    asked.lead[4:] = np.column_stack([np.zeros(2), leads[4:]])
    monkeypatch.setattr(together.FlipLeads, "of", classmethod(lambda cls, *args: asked))
    truth, gains, slack = np.array([1, 1, 0, 1, 0, 1]), 2 * weights, asked.slack[0]
    gains[4:] *= -1
    right = asked.predicted == truth
    for k in range(4):
        found = training_accuracy(None, None, None, None, truth, flips=k)
        sets = sets_of(5, k)
        added = [gains[:, s].sum(axis=1) for s in sets]
        perhaps, surely = [gain >= leads - slack for gain in added], [gain > leads + slack for gain in added]
        most = max(int((right & gone).sum()) for gone in perhaps)
        net = [int((right & gone).sum()) - int((~right & back).sum())
               for gone, back in zip(surely, perhaps, strict=True)]
        net[0] = 0  # without wrong labels the accuracy is known
        worst = np.where(np.maximum(np.sort(gains)[:, ::-1][:, :k], 0).sum(axis=1) < leads - slack, right, False)
        assert found.clean == right.mean()
        assert found.each == worst.mean()
        assert found.each <= found.together <= (right.sum() - most) / 6
        assert found.together >= (right.sum() - most - 1) / 6
        assert found.attacked >= (right.sum() - max(net)) / 6
        named = next(place for place, s in enumerate(sets) if set(s) == set(found.rows.tolist()))
        assert found.attacked == (right.sum() - net[named]) / 6
        assert len(set(found.rows.tolist())) == len(found.rows) <= k


@pytest.mark.parametrize("seed", range(6))
def test_a_bound_by_any_multipliers_is_its_law_in_fractions(seed):
    rng = np.random.default_rng(seed)
    gains, m, added = rng.normal(size=(3, 5)), rng.normal(size=3), rng.random(3)
    multipliers, k = rng.random(3) * 3 * (seed > 0), 2
    F = [[Fraction(v) for v in row] for row in gains.tolist()]
    M, B, L = ([Fraction(v) for v in each.tolist()] for each in (m, added, multipliers))
    sums = sorted((sum(a * row[i] for a, row in zip(L, F, strict=True)) for i in range(5)), reverse=True)
    terms = [a * b for a, b in zip(L, B, strict=True)]
    terms += [max(0, 1 - a * (c + b)) for a, b, c in zip(L, B, M, strict=True)]
    law = sum(terms) + sum(max(value, Fraction(0)) for value in sums[:k])
    size = sum(terms) + sum(a * (sum(map(abs, row)) + abs(c)) for a, row, c in zip(L, F, M, strict=True))
    found = Fraction(_dual(gains, m, added, multipliers, k))
    assert found >= law
    assert abs(found - law - 16 * Fraction(EPS) * size) <= 4 * Fraction(EPS) * size


def test_the_bound_of_a_common_set_is_that_of_the_linear_program():
    assert _most_lost(np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), np.array([1.5, 1.5, 1.5]), 1) == 1
    assert _most_lost(np.array([[2.0, -1.0], [-1.0, 2.0]]), np.array([1.0, 1.0]), 2) == 2
    assert _most_lost(np.array([[2.0, -3.0], [-3.0, 2.0]]), np.array([1.0, 1.0]), 1) == 1
    assert _most_lost(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), np.array([1.0, 0.0, -2.0]), 0) == 2
    assert _most_lost(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), np.array([1.0, 0.0, 2.0]), 1) == 2


@pytest.mark.parametrize("seed", range(12))
def test_the_multipliers_are_those_of_the_best_bound(seed):
    rng = np.random.default_rng(seed)
    gains, m, k = rng.normal(size=(6, 5)), 2 * rng.random(6), 2
    most, added = np.sort(gains)[:, -k:].clip(0).sum(axis=1), np.sort(-gains)[:, -k:].clip(0).sum(axis=1)
    upper = np.hstack([-gains, np.diag(m + added)])[most >= m]
    best = linprog([0.0] * 5 + [-1.0] * 6, np.vstack([upper, [1.0] * 5 + [0.0] * 6]), [*added[most >= m], k],
                   bounds=[(0, 1)] * 5 + [(0, float(row)) for row in most >= m])
    assert _most_lost(gains, m, k) == int(-best.fun + 1e-9)


def test_a_program_that_is_not_solved_proves_nothing(monkeypatch):
    monkeypatch.setattr(together, "linprog", lambda *args, **kwargs: SimpleNamespace(status=4))
    assert _most_lost(np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0]]), np.array([1.5, 1.5, -1.0]), 1) == 3


def test_an_attack_uses_no_label_twice_and_names_none_that_it_does_not_need():
    lost, rows = _attack(np.array([[1.0, 1.0]]), np.array([1.5]), np.zeros((0, 2)), np.zeros(0), 9)
    assert lost == 1
    assert sorted(rows) == [0, 1]
    lost, rows = _attack(np.array([[1.0, 1.0]]), np.array([2.0]), np.zeros((0, 2)), np.zeros(0), 9)
    assert lost == len(rows) == 0


@pytest.mark.parametrize("seed", [2, 5, 8, 15, 28, 38, 47, 73, 187, 289])
def test_the_attack_finds_the_best_set_where_one_weight_of_near_rows_does_not(seed):
    rng = np.random.default_rng(seed)
    gains, leads = rng.normal(size=(12, 9)) + 0.3, 3 * rng.random(12)
    lost = _attack(gains, leads, np.zeros((0, 9)), np.zeros(0), 4)[0]
    assert lost == max(int((gains[:, s].sum(axis=1) > leads).sum()) for s in sets_of(9, 4))


def test_how_far_a_refit_may_be_from_its_model():
    """A millionth of the spread, and a billionth of the largest value."""
    for found, values, spread, right in (([1e-6], [0.0], 1.0, True), ([1.5e-6], [0.0], 1.0, False),
                                         ([1e-9, 1.0], [0.0, 1.0], 0.0, True), ([1.5e-9, 1.0], [0.0, 1.0], 0.0, False),
                                         ([0.9e-6, 9.0], [0.0, 9.0], 0.9, True)):
        if right:
            assert check_reproduced(None, np.array(found), np.array(values), spread)[0] == found[0]
        else:
            with pytest.raises(ValueError, match="other values"):
                check_reproduced(None, np.array(found), np.array(values), spread)
    values = np.array([[1.0, 2.0], [4.0, 3.0]])
    assert check_reproduced(None, values, values + [[0, 0], [0, 2.0**-20]], 1.0).tolist() == [0, 2.0**-20]


@pytest.mark.parametrize("intercept", [True, False])
def test_a_machine_is_read_as_the_form_that_is_smaller(intercept):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4, 6)), rng.normal(size=4)
    for d, kind in ((6, GramSmoother), (4, ColumnSmoother), (2, ColumnSmoother)):
        model = Ridge(fit_intercept=intercept).fit(X[:, :d], y)
        assert isinstance(refit(model, X[:, :d], X[:, :d], None).smoother, kind)
    with pytest.raises(ValueError, match="rounding decides"):  # without a penalty
        refit(LinearRegression(fit_intercept=intercept).fit(X, y), X, X, None)


def test_what_is_read_of_pipelines_processes_and_weights():
    X, y = np.random.default_rng(0).normal(size=(6, 2)), np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(refit(make_pipeline(Ridge()).fit(X, y), X, X, None).training, X)
    model = make_pipeline(make_pipeline(StandardScaler(), PolynomialFeatures()), Ridge()).fit(X, y)
    np.testing.assert_array_equal(refit(model, X, X, None).training, model[0].transform(X))
    model = make_pipeline(StandardScaler(), PolynomialFeatures(), Ridge()).fit(X, y)
    np.testing.assert_array_equal(refit(model, X, X, None).training, model[:2].transform(X))
    fixed = GaussianProcessRegressor(RBF(1.0, "fixed"), alpha=0.1, normalize_y=True).fit(X, y)
    assert refit(fixed, X, X, np.full(6, 2.0)).weights.sum(axis=1) == pytest.approx(1.0, abs=10)
    np.testing.assert_allclose(refit(fixed, X, X[:2], None).weights @ y, fixed.predict(X[:2]), rtol=1e-9)
    with pytest.raises(ValueError, match="takes no sample_weight"):
        refit(fixed, X, X, np.array([1.0, 1, 1, 1, 1, 2]))
    steps = make_pipeline(StandardScaler(), PolynomialFeatures(include_bias=False), SelectKBest(k=1))
    reads = make_pipeline(steps, Ridge())
    with pytest.raises(ValueError, match="SelectKBest may read the labels"):
        refit(reads.fit(X, y), X, X, None)
    wide = np.column_stack([X] * 4)
    with pytest.raises(ValueError, match="sample_weight is 0"):
        refit(Ridge().fit(wide, y), wide, wide, np.array([1.0, 1, 1, 1, 1, 0]))
