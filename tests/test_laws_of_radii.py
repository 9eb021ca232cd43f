"""How radii are searched for, and what is asked of a model, its trees, its swaps and its box on the way."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_certificates import Expansion

from buttress._proof import UNIT, sum_error
from buttress.certificates import certified_radius, trees_and_pipelines
from buttress.certificates.leads import Leads, _cover, _Relaxing
from buttress.certificates.norm_bound import ModelRounding, norm_doubt
from buttress.certificates.radius import OUTWARD, SHORTFALL, largest_by_norm, largest_that_holds
from buttress.certificates.region import Attacker
from buttress.certificates.trees_and_pipelines import OfTrees
from buttress.expansion import KernelExpansion, class_contrasts
from buttress.kernels import RBF, Cauchy, Combination, Laplacian, Linear, Polynomial
from buttress.scores import read_scores


def near(number):
    return pytest.approx(number, rel=1e-12, abs=0)


def test_where_falls_stay_below_the_lead_is_found_to_the_last_digits():
    lead = np.array([1e-9, 0.3, 1.0, 7.0, 1e9, 0.0])
    found = largest_by_norm(lead, [lambda radius, norm: radius * {"l2": 1.0}[norm], lambda radius, norm: radius], "l2")
    np.testing.assert_allclose(found, lead / 2, rtol=1e-12)
    assert (found <= lead / 2).all()
    flat = [lambda radius, norm: np.full_like(radius, 2.0)]
    assert largest_by_norm(np.array([2.1, 2.0, 1.9]), flat, "l2").tolist() == [np.inf, 0.0, 0.0]


def test_a_radius_is_the_largest_that_holds_but_for_its_share():
    true = np.geomspace(1e-3, 1e4, 400)
    asked = []

    def holds(rows, radius):
        asked.extend(rows)
        return radius <= true[rows]

    ones = np.ones(400)
    found = largest_that_holds(holds, 0 * ones, np.inf * ones)
    assert (found <= true).all()
    assert (found >= true * (1 - SHORTFALL)).all()
    assert SHORTFALL == 1e-4  # what the docstrings of radii, and tests of attacks at them, take for granted
    asked.clear()
    some = largest_that_holds(holds, 0 * ones, np.where(true > 1, 0.0, np.inf))
    assert (some[true > 1] == 0).all()
    assert not (true[asked] > 1).any()


@pytest.mark.parametrize(("start", "limit", "first", "last", "expected"), [
    (0.0, 2.0, 0.0, 5.0, 2.0),  # the limit holds
    (0.0, 8.0, 0.0, 5.0, 5.0),
    (3.0, np.inf, 2.5, 10.0, 10.0),  # the bound fails below what another has proven
    (3.0, 3.0, 0.0, 1.0, 3.0),
    (3.0, np.inf, 0.0, 1.0, 3.0),
    (0.0, np.inf, 0.0, 1.0, 1.0),
    (0.0, np.inf, 0.0, 1e-200, 1e-200),
    (0.0, np.inf, 0.0, 0.0, 0.0),  # nothing holds
    (4.0, 5.0, 0.0, 4.5, 4.5)])
def test_a_search_begins_at_what_is_known_and_ends_at_its_limit(start, limit, first, last, expected):
    found = largest_that_holds(lambda rows, radius: (radius >= first) & (radius <= last), np.array([start]),
                               np.array([limit]))
    assert found[0] <= expected
    assert found[0] == expected if expected in (limit, start) else found[0] >= expected * (1 - SHORTFALL)


def test_a_limit_that_holds_is_the_radius_whatever_fails_below_it():
    found = largest_that_holds(lambda rows, radius: (radius < 1.5) | (radius > 2.2), np.zeros(1), np.full(1, 2.5))
    assert found.tolist() == [2.5]


def test_what_holds_without_end_ends_where_squares_of_radii_are_numbers():
    found = largest_that_holds(lambda rows, radius: np.full(len(rows), True), np.zeros(1), np.full(1, np.inf))
    assert 1e150 <= found[0] <= 2e150


def stump(thresholds):
    return SimpleNamespace(trees=[SimpleNamespace(threshold=np.array([t, np.inf])) for t in thresholds])


def test_boxes_of_trees_reach_beyond_all_thresholds_in_the_least_unit():
    X = np.array([[1.0, -7.0], [2.0, 0.0]])
    for scale, least in (([4.0, 0.0], 1.0), ([0.5, 0.25], 0.25), ([0.0, 0.0], 1.0)):
        found = trees_and_pipelines._beyond(stump([-3.0, 2.0]), X, np.array([scale]))
        np.testing.assert_array_equal(found, 2 * (np.array([7, 2]) + 3 + 1) / least)


def test_radii_of_trees_are_found_to_a_billionth_and_share_their_parts_among_forty(monkeypatch):
    true, parts = np.geomspace(1e-6, 5, 200), set()
    X = np.column_stack([true, np.full(200, 3.0)])

    def within(self, rows, reach, norm, box):
        parts.add(self.max_parts)
        low, high = np.maximum(rows - reach, box[0]), np.minimum(rows + reach, box[1])
        down, up = rows[:, 0] - low[:, 0], high[:, 0] - rows[:, 0]
        return (up <= rows[:, 0]) & (down >= up * 0.99) & (low[:, 1] >= 1) & (high[:, 1] <= 9)

    monkeypatch.setattr(OfTrees, "within", within)
    box = np.full(X.shape, -9.0), np.full(X.shape, 9.0)
    box[0][:, 1], box[1][:, 0] = 2.0, 99.0
    found = OfTrees(stump([5.0]), 41).radius(X, np.array([[0.5, 1.0]]), "linf", box)
    assert (found <= true / 0.5 * (1 + UNIT)).all()
    assert (found >= true / 0.5 * (1 - 1.001e-9)).all()
    assert parts == {2}
    still = OfTrees(stump([5.0]), 0).radius(X[:1], np.array([[0.0, 1.0]]), "linf", (X[:1], X[:1]))
    assert still.tolist() == [np.inf]
    assert 1 + sum_error(0) == OUTWARD


@pytest.mark.parametrize(("bound", "proven"), [(0.5, [False, False]), (0.5001, [True, True])])
def test_trees_stand_where_the_bound_of_every_rival_is_above_their_rounding(bound, proven):
    looked = []

    def searched(low, high, contrast, most):
        looked.append((low[:, 0].tolist(), contrast.tolist(), most))
        return SimpleNamespace(bound=np.full(len(low), bound if contrast[0] else 9.0))

    contrasts = np.array([[[1.0], [0.0]], [[-1.0], [0.0]]])
    forest = SimpleNamespace(scores=lambda X: X, contrasts=contrasts, searched=searched, rounding=lambda contrast: 0.5)
    X = np.array([[2.0], [-2.0]])
    free = np.full(X.shape, np.inf)
    assert OfTrees(forest, 6).within(X, np.ones((1, 1)), "linf", (-free, free)).tolist() == proven
    assert sorted(most for _, _, most in looked) == [7] * 4
    assert sorted(low[0] for low, _, _ in looked) == [-3.0, -3.0, 1.0, 1.0]


def model_of(kernel, Z, coef, bias=0.0, linear=None):
    coef = np.array(coef, float)[:, None]
    return Expansion(KernelExpansion(kernel, np.array(Z, float), coef, np.array([bias]), linear))


def leads_of(model, width, **more):
    return Leads(read_scores(model), width, **more)


def test_a_margin_is_less_what_rounding_may_take_from_the_sizes_of_scores():
    model = model_of(Linear(), [[2.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [1.0, -3.0, 0.5], bias=-0.25)
    x = np.array([[3.0, 4.0]])
    score = float(model.decision_function(x)[0])
    rival = leads_of(model, 2, real="float32").rivals(x, np.ones(2))[0]
    share = sum_error(2 + 3, float(np.finfo(np.float32).eps))
    sizes = 0.25 + 3 * (2 * 1 + 1 * 0.5) + 4 * (1 * 3 + 1 * 0.5)
    assert rival.margin[0] == near(score - share * sizes)
    moves = np.array([2 * 1 + 0.5, 3 + 0.5])
    assert rival.falls[0](np.ones(1), "linf")[0] == near(
        (moves * (1 + 2 * share)).sum() * (1 + share))


def test_a_lead_has_the_norm_weights_sizes_and_bias_of_its_contrast():
    Z, coef = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 4.0], [-2.0, 0.5]])
    expansion = KernelExpansion(RBF(0.5), Z, coef, np.array([3.0, -5.0]), np.array([[1.0, 0.0], [2.0, 7.0]]))
    V, rounding = np.array([[1.0, -1.0]]), ModelRounding(2.0**-10, np.array([3.0, 4.0]))
    lead = _Relaxing.of(expansion).lead(V, rounding)
    assert (lead.weights.tolist(), lead.sizes.tolist()) == ([[-3.0, -2.5]], [[5.0, 2.5]])
    assert lead.bias[0] == near(8 - sum_error(0, 2.0**-10) * 8)
    assert (lead.tilt.tolist(), lead.origin, lead.unit) == ([[1.0, -5.0]], 5.0, 2.0**-10)
    square = 9 + 6.25 + 2 * 7.5 * np.exp(-0.5)
    assert lead.square[0] == near(square + 7.5**2 * norm_doubt(RBF(0.5), Z))
    cubes = _Relaxing.of(KernelExpansion(Polynomial(3, 2.0, 1.0), np.array([[1.0], [2.0]]), coef[:, :1], np.ones(1)))
    assert cubes.lead(np.ones((1, 1)), rounding).square[0] == near(4**3 * (1 + 4 * 64 - 2 * 2 * 8))
    half = KernelExpansion(Combination([RBF(0.5)], [0.5]), Z, coef, np.ones(2))
    assert _Relaxing.of(half).lead(V, rounding).square[0] == near((square + 7.5**2 * norm_doubt(RBF(0.5), Z)) / 4)
    zero = np.zeros((2, 1))
    still = _Relaxing.of(KernelExpansion(half.kernel, zero, np.array([[4.0], [-4.0]]), np.ones(1)))
    assert still.lead(np.ones((1, 1)), rounding).square[0] == near(64 / 4 * norm_doubt(RBF(0.5), zero))
    many = KernelExpansion(Combination([RBF(1.0), Cauchy(1.0)]), Z[[0, 1, 1]], coef[[0, 1, 1]], np.ones(2))
    for kernel in (Cauchy(1.0), Polynomial(2, 1.0, 1.0), many.kernel):
        lead = _Relaxing.of(replace(many, kernel=kernel)).lead(V, rounding)
        assert lead.square.tolist() == [0.0]


@pytest.mark.parametrize("of_sizes", [None, 7.0])
def test_a_lead_of_features_is_lowered_by_twice_the_law_of_sums_of_their_own_sizes(of_sizes):
    score = read_scores(model_of(RBF(0.5), [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], [2.0, -1.0, 1.0], bias=0.5))
    sizes = None if of_sizes is None else np.full((3, 1), of_sizes)
    leads, x = Leads(replace(score, sizes=sizes), 2), np.array([[0.1, 0.0]])
    lead = leads.rivals(x, leads.scale)[0].lead
    plain = 0.5 - sum_error(0) * 0.5
    assert lead.bias[0] == pytest.approx(plain - (2 * sum_error(5) * (0.5 + 21) if of_sizes else 0), rel=UNIT, abs=0)


class Picked(list):
    """One part, which stands for any rows."""

    def __getitem__(self, rows):
        return super().__getitem__(0)


def test_of_three_classes_each_rival_counts_and_a_lead_of_0_is_none(monkeypatch):
    from buttress.certificates import leads as module

    model = Expansion(KernelExpansion(RBF(0.5), np.array([[0.0], [1.0], [4.0], [5.0]]), np.eye(4)[:, :3], np.zeros(3)))
    model.classes_, model.contrasts_ = np.arange(3), class_contrasts(3)
    x, eps = np.array([[0.2]]), np.array([0.05])
    leads = leads_of(model, 1)
    rivals, attacker = leads.rivals(x, leads.scale), leads.attacker(x, "linf", None)
    wanted = sorted(np.exp(-0.02) - np.exp(-0.5 * np.array([0.64, 14.44])))
    assert sorted(rival.margin[0] for rival in rivals) == pytest.approx(wanted)
    flat = replace(rivals[1], margin=np.zeros(1))
    assert leads.branched(x, [rivals[0], flat], attacker, np.array([0.25]), 5).tolist() == [0.25]
    with monkeypatch.context() as patch:
        patch.setattr(module, "_branched", lambda lead, Z, attacker, row, eps, most: eps <= (
            3.0 if lead is rivals[0].lead else 2.0))
        assert 1.98 <= leads.branched(x, rivals, attacker, np.array([0.25]), 5)[0] <= 2
    monkeypatch.setattr(module, "relaxed", lambda lead, region: (np.zeros(1), None))
    none = replace(rivals[0], second=None)
    assert not leads.holds(none, x, attacker, np.array([0]), eps).any()
    second = [SimpleNamespace(bound=lambda eps, norm: np.zeros(1))]
    assert not leads.holds(replace(none, second=Picked(second)), x, attacker, np.array([0]), eps).any()


@pytest.mark.parametrize("max_parts", [0, 3])
def test_a_box_in_which_the_lead_stays_is_proven_as_far_as_one_likes(max_parts):
    model = model_of(Laplacian(1.0), [[0.0]], [1.0], bias=-0.5)
    x = np.array([[0.1]])
    assert certified_radius(model, x, bounds=(-0.5, 0.5), max_parts=max_parts, norm="linf").linf.tolist() == [np.inf]
    leads = leads_of(model, 1)
    attacker = leads.attacker(x, "linf", (np.full((1, 1), -0.5), np.full((1, 1), 0.5)))
    cover = _cover(x, attacker)
    one = replace(leads.rivals(x, leads.scale)[0], lead=None)
    assert leads.branched(x, [one], attacker, cover, 1).tolist() == [np.inf]
    assert leads.branched(x, [one], attacker, cover / 2, 1).tolist() == [cover[0] / 2]


@pytest.mark.parametrize(("norm", "far"), [("l2", np.hypot(3, 2)), ("linf", 3.0)])
def test_a_ball_covers_a_box_from_its_farthest_corner_on(norm, far):
    still, scale = np.zeros((1, 30)), np.array([2.0, 0.5] + [1.0] * 30)
    attacker = Attacker(norm, scale, np.c_[[[-5.0, 0.0]], still], np.c_[[[2.0, 0.25]], still])
    found = _cover(np.c_[[[1.0, 1.0]], still], attacker)[0]
    assert found == pytest.approx(far * (1 + sum_error(32)), rel=2 * UNIT, abs=0)
    assert _cover(np.zeros((2, 1)), Attacker(norm, np.ones(1))).tolist() == [np.inf, np.inf]


def test_branching_shares_its_parts_among_a_few_tries(monkeypatch):
    from buttress.certificates import leads as module

    asked = []

    def prove(lead, region, most):
        asked.append(most)
        return region.radius[0] <= 1.0

    monkeypatch.setattr(module, "prove", prove)
    x, leads = np.array([[0.1, 0.0]]), leads_of(model_of(RBF(0.5), [[0.0, 0.0], [1.0, 0.0]], [2.0, -1.0]), 2)
    attacker = leads.attacker(x, "l2", None, np.array([2.0, 0.5]))
    rivals = leads.rivals(x, attacker.scale)
    assert 0.99 <= leads.branched(x, rivals * 2, attacker, np.array([0.25]), 27)[0] <= 1
    assert set(asked) == {1 + 27 // 4}  # of each rival
    assert len(asked) < 30
    asked.clear()
    rivals[0].margin[:] = 0
    assert leads.branched(x, rivals, attacker, np.array([0.25]), 5).tolist() == [0.25]
    assert asked == []


@pytest.mark.parametrize("max_parts", [0, 9])
def test_a_row_is_proven_by_parts_where_lines_do_not(monkeypatch, max_parts):
    from buttress.certificates import leads as module

    leads, x = leads_of(model_of(RBF(0.5), [[0.0], [1.0]], [2.0, -1.0]), 1), np.array([[0.1], [0.2]])
    rivals, attacker = leads.rivals(x, leads.scale), leads.attacker(x, "linf", None)
    monkeypatch.setattr(module, "relaxed", lambda lead, region: (np.full(len(region.anchor), -1.0), None))
    asked = []
    monkeypatch.setattr(module, "prove", lambda lead, region, most: asked.append(most) or region.anchor[0, 0] < 0.15)
    rival = replace(rivals[0], falls=None, second=None)
    assert leads.within(x, [rival, rival], attacker, np.ones(2), max_parts).tolist() == [max_parts > 0, False]
    assert asked == [max_parts] * (3 if max_parts else 0)  # a row that one rival takes is asked about no other


def test_a_row_without_a_margin_is_proven_by_nothing():
    model = model_of(RBF(0.5), [[0.0], [1.0]], [2.0, -1.0])
    x, eps = np.array([[0.1]]), np.array([1e-3])
    leads = leads_of(model, 1)
    rivals, attacker = leads.rivals(x, leads.scale), leads.attacker(x, "linf", None)
    rows = np.array([0])
    assert leads.holds(rivals[0], x, attacker, rows, eps).all()
    assert leads.within(x, [replace(rivals[0], falls=None)], attacker, eps, 1).all()
    rivals[0].margin[:] = 0
    assert not leads.holds(rivals[0], x, attacker, rows, eps).any()
    assert not leads.within(x, rivals, attacker, eps, 1).any()
    assert not leads.within(x, rivals, attacker, 0 * eps).any()


def test_a_linear_lead_is_proven_strictly_inside_its_distance():
    model = model_of(Linear(), [[1.0]], [1.0])
    leads = leads_of(model, 1)
    rivals, attacker = leads.rivals(np.ones((1, 1)), leads.scale), leads.attacker(np.ones((1, 1)), "linf", None)
    rivals[0].falls = [lambda eps, norm: eps]
    rivals[0].margin[:] = 2.0
    asked = [leads.within(np.ones((1, 1)), rivals, attacker, np.array([eps]))[0] for eps in (1.9, 2.0, 2.1)]
    assert asked == [True, False, False]
