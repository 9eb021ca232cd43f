"""What is asked of models for their certificates: in which units, blocks and boxes, and with how many parts."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from test_laws_of_radii import model_of, near

from buttress import ThreatModel
from buttress._proof import UNIT
from buttress.certificates import certified_radius, certified_within, inputs
from buttress.certificates import leads as leads_module
from buttress.certificates.inputs import NORMS
from buttress.certificates.radius import OUTWARD, SHORTFALL
from buttress.certificates.region import Attacker
from buttress.certificates.trees_and_pipelines import MOST_WAYS, proven_under
from buttress.kernels import RBF, Laplacian


def of_swaps(count, **more):
    def ways():
        yield ()
        raise AssertionError("nothing is left to prove")

    given = {"count": lambda: count, "norm": "l2", "reach": np.ones((1, 1)), "limited": False, "most": True,
             "ways": ways, "swapped": lambda X, way: X, "box": lambda X, rows: (X, X)}
    return SimpleNamespace(**given | more)


def test_swaps_are_proven_one_by_one_up_to_ten_thousand_ways():
    X = np.zeros((2, 1))
    classes = lambda rows: np.zeros(len(rows), int)  # noqa: E731
    within = lambda rows, reach, norm, box: classes(rows) > 0  # noqa: E731
    with warnings.catch_warnings(action="error"):
        assert not proven_under(classes, within, X, of_swaps(10_000)).any()
    with pytest.warns(UserWarning, match="There are 10001 ways to swap"):
        proven_under(classes, within, X, of_swaps(10_001))
    once = {"limited": True, "of_numbers": lambda: iter([of_swaps(2)])}
    half = MOST_WAYS // 2
    with warnings.catch_warnings(action="error"):
        assert not proven_under(classes, within, X, of_swaps(2, choices_of_numbers=lambda: half, **once)).any()
    with pytest.warns(UserWarning, match="There are 10002 ways to choose"):
        proven_under(classes, within, X, of_swaps(2, choices_of_numbers=lambda: half + 1, **once))


def test_a_box_that_holds_all_swaps_is_reached_by_the_farthest_side_of_each_row():
    seen = []

    def within(rows, reach, norm, box):
        seen.append(reach.tolist())
        return np.ones(len(rows), bool)

    hull = lambda X: (np.array([[-2.0, -5.0, 0.0]]), np.array([[2.0, 3.0, 4.0]]))  # noqa: E731
    X = np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 4.0]])
    assert proven_under(lambda rows: np.zeros(len(rows), int), within, X, of_swaps(2, norm="linf", hull=hull)).all()
    assert seen[0] == [[far * OUTWARD for far in row] for row in ([3.0, 7.0, 3.0], [3.0, 5.0, 4.0])]


def test_a_swap_that_rounding_puts_at_the_threshold_is_reached():
    model = DecisionTreeClassifier().fit([[1.0], [-1.0]], [1, 0])
    model.tree_.threshold[0] = -5e-18
    threat = ThreatModel({}, {0: [-1e-17, 1.0]})  # 1 + 1e-17 is 1, and 1 - 1 beyond the threshold
    assert model.predict([[1.0], [-1e-17]]).tolist() == [1, 0]
    assert not certified_within(model, np.ones((1, 1)), threat=threat).any()


def test_the_radii_of_both_norms_follow_from_either():
    both = inputs._radii_of_both(np.array([3.0, 1.0, 8.0]), np.array([1.0, 2.0, 1.0]), 4)
    assert (both.l2.tolist(), both.linf.tolist()) == ([3.0, 2.0, 8.0], [1.5, 2.0, 4.0])
    model = model_of(Laplacian(1.0), [[0.0, 0.0]], [1.0], bias=-0.5)
    for norm in (None, *NORMS):
        radius = certified_radius(model, np.zeros((1, 2)), norm=norm)
        assert radius.l2[0] == pytest.approx(np.log(2) / (2**0.5 if norm == "linf" else 1), rel=1e-3)
        assert radius.linf[0] == pytest.approx(np.log(2) / 2**0.5, rel=1e-3)


@pytest.mark.parametrize("norm", ["l2", "linf", "l1"])
def test_a_linear_pipeline_is_proven_to_its_border_in_any_unit_of_its_columns(norm):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    model = make_pipeline(PolynomialFeatures(1, include_bias=False), LogisticRegression()).fit(X, X[:, 0] > 0)
    w, scores, units = model[-1].coef_[0], np.abs(model.decision_function(X)), np.array([2.0, 0.0, 0.5])
    for scale in (None, units):
        steep = np.abs(w * (1 if scale is None else scale))
        if norm != "l1":
            found = getattr(certified_radius(model, X, norm=norm, scale=scale), norm)
            other = getattr(certified_radius(model, X, norm=norm, scale=scale), "l2" if norm == "linf" else "linf")
            radius = scores / (np.linalg.norm(steep) if norm == "l2" else steep.sum())
            np.testing.assert_allclose(found, radius, rtol=1e-6)
            np.testing.assert_allclose(other, radius / (3**0.5 if norm == "l2" else 1), rtol=1e-6)
    size = 0.999 * scores.min() / np.linalg.norm(w)
    assert certified_within(model, X, eps=size, norm="l2").all()
    assert certified_within(model, X, eps=0.0, norm=norm).all()
    assert certified_within(model, X, eps=1.01 * scores / np.linalg.norm(w), norm="l2").sum() == 0
    assert not certified_within(model, X, eps=10 * scores.max() / np.abs(w).sum() * np.ones((1, 3)), norm=norm).any()


def test_parts_are_shared_by_all_ways_to_swap_and_none_is_searched_where_none_is_asked_for(monkeypatch):
    model, x = model_of(RBF(0.5), [[0.0, 0.0], [2.0, 0.0]], [1.0, -1.0]), np.array([[0.5, 1.0]] * 3)
    threat = ThreatModel({0: 0.1})
    assert certified_within(model, x, threat=threat).all()
    assert not certified_within(model, x, threat=ThreatModel({0: 0.9})).any()
    with monkeypatch.context() as patch:
        patch.setattr(leads_module, "prove", lambda *given: pytest.fail("branched"))
        assert not certified_within(model, x, eps=0.9, max_parts=0).any()
    given = []
    monkeypatch.setattr(inputs, "read_threat", lambda *rest: SimpleNamespace(count=lambda: 3))
    monkeypatch.setattr(inputs, "proven_under", lambda *rest: None)
    monkeypatch.setattr(inputs, "_proofs", lambda model, X, parts: given.append(parts) or (SimpleNamespace(
        classes=None, within=None), x))
    for max_parts in (0, 10):
        inputs._under_threat(model, x, threat, max_parts)
    assert given == [0, 4]


def test_columns_that_stay_are_measured_in_a_thousandth_of_the_least_that_moves():
    given = [[4.0, 0.0, 2.0], [0.25, 0.0, 0.5], [0.0, 0.0, 0.0]]
    used = [[4.0, 1e-3, 2.0], [0.25, 0.25e-3, 0.5], [1e-3] * 3]
    for row, units in zip(given, used, strict=True):
        assert inputs._measured(np.array([row])).tolist() == near(units)
    np.testing.assert_array_equal(inputs._measured(np.array(given)), used)


def test_rows_are_looked_at_in_blocks_of_two_million_kernel_values():
    def blocks(centres, rows):
        leads = SimpleNamespace(score=SimpleNamespace(expansion=SimpleNamespace(coef=np.zeros((centres, 7)))))
        return [(block[0], block[-1]) for block in inputs._blocks(leads, rows)]

    assert blocks(1_000_000, 5) == [(0, 1), (2, 3), (4, 4)]
    assert blocks(3_000_000, 2) == [(0, 0), (1, 1)]
    assert blocks(0, 7) == [(0, 6)]
    assert blocks(1, 2_000_001) == [(0, 1_999_999), (2_000_000, 2_000_000)]


def test_a_box_holds_rows_and_columns_without_a_unit_in_place():
    model = model_of(RBF(0.5), [[0.0, 0.0], [2.0, 0.0]], [1.0, -1.0])
    x = np.array([[0.5, 1.0], [0.25, 2.0]])

    def held(bounds, scale):
        return inputs._held(bounds, inputs._units("scale", scale, x), x)

    for scale in (None, [1.0, 2.0]):
        assert held(None, scale)[0] is None
        assert held(None, scale)[1].tolist() == (scale or [1.0, 1.0])
    low, high = held((0.0, 3.0), [1.0, 0.0])[0]
    assert (low.tolist(), high.tolist()) == ([[0.0, 1.0], [0.0, 2.0]], [[3.0, 1.0], [3.0, 2.0]])
    low, high = held(None, [1.0, 0.0])[0]
    assert (low.tolist(), high.tolist()) == ([[-np.inf, 1.0], [-np.inf, 2.0]], [[np.inf, 1.0], [np.inf, 2.0]])
    low, high = inputs._whole_box(None, x)
    assert (low == -np.inf).all()
    assert (high == np.inf).all()
    assert certified_within(model, x, eps=np.array([[0.4, 0.0]])).tolist() == [True, True]
    assert certified_within(model, x, eps=np.array([[0.6, 0.0]])).tolist() == [False, True]
    assert certified_within(model, x, eps=[0.4, 0.8]).tolist() == [True, False]
    for eps in (-1.0, np.inf, [1.0], np.nan):
        with pytest.raises(ValueError, match="eps must be"):
            certified_within(model, x, eps=eps)


def test_a_machine_behind_steps_is_asked_in_the_box_of_its_rows_reached_from_their_middle(monkeypatch):
    rng, seen = np.random.default_rng(0), []
    X = rng.normal(size=(20, 3))
    model = make_pipeline(PolynomialFeatures(2), SVC()).fit(X, X[:, 0] > 0)
    chain = inputs._proofs(model, X, 7)[0]
    monkeypatch.setattr(inputs, "_proven", lambda leads, centre, attacker, radius, max_parts: seen.append(
        (leads, attacker, radius.tolist(), max_parts)))
    centre = np.full((3, 10), 5.0) + rng.normal(size=(3, 1))
    far = rng.uniform(size=(2, 3, 10))
    for rows in ([0, 1, 2], [1]):
        chain.machine(centre[rows], centre[rows] - far[0, rows], centre[rows] + far[1, rows])
        leads, attacker, radius, max_parts = seen.pop()
        np.testing.assert_allclose(attacker.scale, far.max(axis=0)[rows] * OUTWARD, rtol=8 * UNIT)
        np.testing.assert_array_equal(attacker[np.array([0])].scale, attacker.scale[:1])
        assert (leads.score, attacker.norm, radius, max_parts) == (chain.steps.kernel, "linf", [1.0] * len(rows), 7)


def test_what_holds_without_a_box_holds_in_it_and_rows_are_asked_for_a_little_more(monkeypatch):
    asked = []
    leads = SimpleNamespace(
        rivals=lambda X, scale: [],
        within=lambda X, rivals, free, eps: asked.append(eps.tolist()) or eps > (1.5 if free.low is None else np.inf),
        radii=lambda X, rivals, free: np.array([5.0, 0.5])[: len(X)])
    attacker = Attacker("l2", np.ones(1), -np.ones((4, 1)), np.ones((4, 1)))
    radius = inputs._without_box(leads, np.zeros((4, 1)), [], attacker, np.array([1.0, 2.0, np.inf, 3.0]))
    assert asked[0] == near([1 + SHORTFALL, 2 + 2 * SHORTFALL, 0.0, 3 + 3 * SHORTFALL])
    assert radius.tolist() == [1.0, 5.0, np.inf, 3.0]
