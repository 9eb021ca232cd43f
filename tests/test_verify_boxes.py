"""Boxes of rows in the verifier: trees, and rows under a threat, on trees and scores that are written by hand."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
from test_verify_quadratic import UNIT

from buttress import verify
from buttress.verify.core import Claim
from buttress.verify.inputs import threatened
from buttress.verify.inputs.trees import (
    as_json,
    check_trees,
    leads_of,
    least,
    reached,
    stays,
    tree_radii,
    widest,
    widest_cut,
)

ONE = np.ones(1)


def tree(feature, threshold, left, right, value):
    return {"feature": np.array(feature), "threshold": np.array(threshold, float), "left": np.array(left),
            "right": np.array(right), "value": np.array(value, float).reshape(len(left), -1)}


def stump(column, place, low, high):
    """low where x_column <= place, else high."""
    return tree([column, 0, 0], [place, 0, 0], [1, -1, -1], [2, -1, -1], [0, low, high])


def nested():
    """x_0 <= 1: (x_1 <= 2: 3, else -1); else 5."""
    return tree([0, 1, 0, 0, 0], [1, 2, 0, 0, 0], [1, 3, -1, -1, -1], [2, 4, -1, -1, -1], [9, 9, 5, 3, -1])


def forest(*trees, offset=(0.0,)):
    return {"offset": np.array(offset), "trees": list(trees)}


def box(low, high):
    return np.array(low, float), np.array(high, float)


def test_a_tree_is_one_whose_nodes_are_reached_once():
    check_trees([nested(), stump(1, 0, 1, 2), tree([0], [0], [-1], [-1], [1])], 2)
    for name, values in (("left", [1, 3, -1, -1, 0]), ("right", [2, 4, -1, -1, 0]), ("value", [[9], [9], [5], [3]]),
                         ("left", [0, 3, -1, -1, -1]), ("right", [0, 4, -1, -1, -1]), ("right", [2, 5, -1, -1, -1]),
                         ("left", [1, 2, -1, -1, -1]), ("feature", [0, 2, 0, 0, 0]), ("feature", [-1, 1, 0, 0, 0]),
                         ("threshold", [np.nan, 1, 0, 0, 0]), ("value", [[9], [9], [np.inf], [3], [-1]])):
        with pytest.raises(ValueError, match="no tree"):
            check_trees([nested() | {name: np.array(values)}], 2)
    for left, right in (([0, -1], [1, -1]), ([1, -1], [0, -1]), ([1, -1], [2, -1]), ([0], [-1]), ([-1], [0]),
                        ([2, -1, -1, -1], [3, -1, -1, -1])):
        zeros = [0] * len(left)
        with pytest.raises(ValueError, match="no tree"):
            check_trees([tree(zeros, zeros, left, right, zeros)], 1)


@pytest.mark.parametrize(("low", "high", "leaves"), [
    ([0, 0], [0, 0], [3]), ([1, 2], [1, 2], [3]), ([0, 2], [1, 2.5], [3, 4]), ([1, 3], [1.5, 3], [2, 4]),
    ([2, 0], [3, 9], [2])])
def test_a_box_comes_to_the_leaves_that_its_rows_come_to(low, high, leaves):
    found = reached(nested(), *box(low, high))
    assert [leaf for leaf in (2, 3, 4) if found[leaf]] == leaves
    lead = least(forest(nested()), ONE, *box(low, high))
    assert lead == pytest.approx(min(nested()["value"][leaves, 0]), abs=1e-13)


def test_the_least_lead_is_less_by_what_is_said_of_its_sizes():
    """4 (trees + scores + 4) units of 1 and the largest sizes of the offset and of each tree."""
    both = tree([0, 0, 0], [0, 0, 0], [1, -1, -1], [2, -1, -1], [[0, 0], [1, -2], [4, 0.5]])
    held = forest(both, both, offset=(1.0, -0.5))
    assert least(held, np.array([1.0, -2.0]), *box([-1], [1])) == 2 + 2 * 3 - 4 * (2 + 2 + 4) * UNIT * (1 + 2 + 2 * 5)
    assert least(forest(), ONE, *box([0], [0])) == -4 * (0 + 1 + 4) * UNIT


def zero():
    """An offset whose lead is 0 less what rounding may change."""
    return forest(offset=(20 * UNIT * (1 + 20 * UNIT),))


def test_a_lead_of_0_does_not_stay_above_it():
    assert least(zero(), ONE, *box([0], [0])) == 0
    assert not stays(zero(), ONE, *box([0], [0]))
    assert stays(forest(offset=(1e-10,)), ONE, *box([0], [0]))


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("place", [1.0, -3.0])
def test_a_lead_stays_where_it_does_in_both_parts_of_a_box(column, place):
    held = forest(stump(column, place, 1, -1), stump(column, place, -0.5, 2), stump(1 - column, 0, 0.1, 0.2))
    assert least(held, ONE, *box([-9, -9], [9, 9])) < -1
    assert stays(held, ONE, *box([-9, -9], [9, 9]))
    assert stays(held, ONE, *box([place, place], [np.nextafter(place, 9)] * 2))
    for worse in (stump(column, place, -1, 0), stump(column, place, 0, -1.5), stump(1 - column, 8, 0, -3),
                  stump(1 - column, -8, -3, 0)):
        assert not stays(forest(*held["trees"], worse), ONE, *box([-9, -9], [9, 9]))


def test_a_box_is_cut_where_the_tree_splits_it_whose_lead_varies_most():
    most, less, none = stump(0, 0.5, 1, -2), stump(1, 0.25, 4, 6), stump(1, 0.125, 7, 7)
    everywhere = box([-9, -9], [9, 9])
    for some in ([most, less], [less, most], [none, most, less]):
        assert widest_cut(forest(*some), ONE, *everywhere) == (0, 0.5)
    assert widest_cut(forest(less, stump(0, 3, 4, 6)), ONE, *everywhere) == (1, 0.25)
    assert widest_cut(forest(none), ONE, *everywhere) is None
    assert widest_cut(forest(most), ONE, *box([1, 0], [2, 0])) is None
    assert widest_cut(forest(nested()), ONE, *everywhere) == (0, 1.0)
    assert widest_cut(forest(nested()), ONE, *box([0, 0], [1, 9])) == (1, 2.0)


def names():
    """Scores of three classes: -x_0 by a step, .5, and x_1 by steps."""
    steps = [tree([0, 0, 0], [-1, 0, 0], [1, -1, -1], [2, -1, -1], [[0] * 3, [2, 0, 0], [-1, 0, 0]]),
             tree([1, 0, 0], [3, 0, 0], [1, -1, -1], [2, -1, -1], [[0] * 3, [0, 0, 0], [0, 0, 1.5]])]
    return forest(*steps, offset=(0.0, 0.5, 0.0))


def certified(rows, low, high):
    held = names()
    given = SimpleNamespace(offset=held["offset"], trees=[SimpleNamespace(**one) for one in held["trees"]])
    return verify.from_trees(given, ["no", "yes", "more"], rows, ["no"] * len(rows), low, high)


def test_claims_of_trees_are_those_of_their_rows():
    rows = np.array([[-2.0, 0.0], [0.0, 0.0], [0.0, 4.0], [-1.0, 9.0]])
    low, high = rows - [[1.0, 9.0], [0.5, 9.0], [0.0, 0.5], [0.0, 0.0]], rows + [[1, 9], [9, 3], [9, 0], [0, 0]]
    held = certified(rows, low, high)
    assert held["claim"]["prediction"] == ["no", "yes", "more", "no"]
    found = verify.prove_trees(held, rows, ["no"] * 4)
    kept = [Claim(f"row {i} keeps its class in its box", 1.0, 1.0, True) for i in range(4)]
    assert found == [Claim("the data are those of the certificate", 1.0, 1.0, True),
                     Claim("the trees are those of the problem", 1.0, 1.0, True), *kept]
    one = verify.prove_trees(certified(rows[:1], rows[:1], rows[:1]), rows[:1], ["no"])
    assert one[2:] == kept[:1]
    held["point"]["low"][2] = [0.0, 3.0]
    held["point"]["low"][1], held["point"]["high"][0] = [0.1, 0.0], [-2.1, 0.0]
    assert [claim.holds for claim in verify.prove_trees(held, rows, ["no"] * 4)[2:]] == [False, False, False, True]
    assert verify.prove_trees(held, rows, ["no"] * 4)[2] == Claim("row 0 keeps its class in its box", 1.0, 0.0, False)
    held["problem"]["sha256"], held["data"]["rows"] = "", 5
    assert [tuple(claim)[1:] for claim in verify.prove_trees(held, rows, ["no"] * 4)[:2]] == [(1.0, 0.0, False)] * 2


def test_two_classes_have_a_score_together_or_one_each():
    np.testing.assert_array_equal(leads_of(["a", "b"], forest(offset=(0.0, 0.0))), [[[1, -1]], [[-1, 1]]])
    np.testing.assert_array_equal(leads_of(["a", "b"], forest()), [[[-1]], [[1]]])
    assert leads_of(["a", "b", "c"], forest(offset=(0.0,) * 3)).shape == (3, 2, 3)
    for k, scores in ((2, 3), (3, 2), (3, 1), (4, 2), (4, 4 - 1)):
        with pytest.raises(ValueError, match="another number of scores"):
            leads_of(["a", "b", "c", "d"][:k], forest(offset=(0.0,) * scores))


def test_trees_are_written_as_they_are():
    held = names()
    held["trees"][0]["threshold"] = np.array([np.inf, np.nan, np.nan])
    written = as_json(SimpleNamespace(offset=held["offset"],
                                      trees=[SimpleNamespace(**one) for one in held["trees"]]))
    assert written["trees"][0]["threshold"] == [np.finfo(float).max, 0, 0]
    assert written["trees"][1]["threshold"] == [3, 0, 0]
    assert written["trees"][1]["left"] == [1, -1, -1]


def model(*trees, offset=(0.0,)):
    leads = np.array([[[-1.0]], [[1.0]]])
    return {"class": "RobustBoostingClassifier", "classes_": np.array([0, 1]),
            "forest_": forest(*trees, offset=offset) | {"contrasts": leads}}


def test_radii_of_trees_are_exact_to_the_last_digits():
    """A step at .3 and a smaller one at 2: from 1 the radius is .7, and from 5 it is 4.7."""
    held, rows = model(stump(0, 0.3, -2, 2), stump(1, 2, -1, 1)), np.array([[1.0, 9.0], [5.0, 9.0], [-1.0, 9.0]])
    exact = np.array([0.7, 4.7, 1.3])
    for stated in (None, np.full(3, 1e30), exact * (1 + 1e-9)):
        found = tree_radii(held, rows, stated)
        np.testing.assert_allclose([claim.proven for claim in found], exact, rtol=1e-15)
        assert [claim.holds for claim in found] == [stated is None] * 3
        expected = [claim.proven for claim in found] if stated is None else stated
        np.testing.assert_array_equal([claim.stated for claim in found], expected)
    proven = np.array([claim.proven for claim in tree_radii(held, rows)])
    assert all(claim.holds and claim.proven == claim.stated for claim in tree_radii(held, rows, proven))


def test_a_radius_of_trees_that_never_turn_is_beyond_all_places():
    same = tree([0, 1, 0, 0, 0], [-4, 0.5, 99, 99, 99], [1, 3, -1, -1, -1], [2, 4, -1, -1, -1], [7, 7, 1, 1, 1])
    found = tree_radii(model(same, stump(0, 2, 1, 1)), np.array([[0.5, -3.0]]))
    assert found == [Claim("l_inf radius of row 0", 16.0, 16.0, True)]
    assert tree_radii(model(offset=zero()["offset"]), np.array([[0.5]]))[0].proven == 0


def test_a_radius_is_halved_until_it_is_near():
    assert widest(lambda radius: radius < 1 / 3, 7.0) == pytest.approx(1 / 3, rel=1e-15)
    assert widest(lambda radius: False, 7.0) == 0


THREAT = {"reach": [0.5, 0.0, 0.0, 0.0], "most_swaps": 1,
          "groups": [{"places": [1], "choices": [[0], [1]]}, {"places": [2, 3], "choices": [[0, 1], [1, 0]]}]}


@pytest.mark.parametrize(("most", "count"), [(0, 1), (1, 5), (2, 9), (7, 9)])
def test_rows_are_swapped_in_every_way_and_in_no_other(most, count):
    x = np.array([3.0, 0.5, 0.0, 1.0])
    found = np.array(list(threatened.swapped(THREAT | {"most_swaps": most}, x)))
    assert len(found) == count
    np.testing.assert_array_equal(found[0], x)
    expected = [[3, 0.5, 0, 1], [3, 0, 0, 1], [3, 1, 0, 1], [3, 0.5, 1, 0], [3, 0, 1, 0], [3, 1, 1, 0]]
    seen = {tuple(row) for row in found.tolist()}
    assert seen == set(map(tuple, np.array(expected, float)[:{1: 1, 5: 4, 9: 6}[count]].tolist()))


def test_budgets_and_radii_of_0_and_no_swap_are_a_threat():
    np.testing.assert_array_equal(threatened.read_reach(THREAT | {"most_swaps": 0}, 4), THREAT["reach"])
    keeping = SimpleNamespace(keeps=lambda x, code, reach: True)
    assert threatened.keeps(keeping, THREAT, np.zeros(4), 0, np.zeros(4))
    for reach in ([-1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [np.inf, 0, 0, 0], [0.5, 0, 0]):
        with pytest.raises(ValueError, match="budget"):
            threatened.read_reach(THREAT | {"reach": reach}, 4)
    for places in ([4], [-1], [1, 2]):
        broken = copy.deepcopy(THREAT)
        broken["groups"][0]["places"] = places
        with pytest.raises(ValueError, match="budget"):
            threatened.read_reach(broken, 4)


def expansion(classes=2, pairs=False, **changed):
    scores = {2: 1, 3: 3}[classes]
    part = {"kernel": {"class": "Linear", "coef0": 0.0}, "pairs": pairs, "linear": None, "centers": [[1.0, 0.0]],
            "coef": [[1.0] * scores], "intercept": [0.0] * scores, "shift": [2.0, 0.0], "scale": [-4.0, 1.0],
            "origin": [8.0, 0.0]}
    return threatened.OfExpansion(part | changed, list(range(classes)), 2)


def test_boxes_of_scaled_rows_are_wider_by_what_scalers_round(monkeypatch):
    """By 64 units of the sizes of what they subtract, and by what is 0 in float64."""
    seen = []

    class Seen:
        def __init__(self, part, x, Z, V, coef, intercept, norm2, origin, linear):
            seen.append((x, V, origin, linear))

        def holds(self, moves):
            seen.append(moves)
            return True

    monkeypatch.setattr(threatened, "LeadAtRow", Seen)
    assert expansion().keeps(np.array([-1.0, 0.0]), 1, np.array([0.5, 0.0]))
    (x, V, origin, linear), moves = seen
    np.testing.assert_array_equal(x, [12.0, 0.0])
    np.testing.assert_array_equal(origin, [32.0, 0.0])
    np.testing.assert_array_equal(linear, np.zeros((2, 1)))
    assert V == [1.0]
    np.testing.assert_array_equal(moves.eps, [4 * (0.5 + 64 * UNIT * (1 + 0.5 + 2 + 8)), 1e-300])
    assert moves.columns == 2


def test_scores_of_an_expansion_have_the_shapes_of_its_classes():
    assert expansion(3, pairs=True).leads.shape == (3, 2, 3)
    held = expansion()
    assert held.gram.v == [[1.0]]
    for changed in ({"shift": [0.0]}, {"scale": [[1.0, 1.0]]}, {"origin": [-1.0, 0.0]}, {"intercept": [np.nan]},
                    {"centers": [[1.0]]}, {"linear": [[1.0]]}, {"coef": [[1.0, 1.0]]}):
        with pytest.raises(ValueError, match="other shapes"):
            expansion(**changed)


def test_boxes_of_trees_are_wider_by_what_a_radius_rounds(monkeypatch):
    seen = []
    monkeypatch.setattr(threatened, "stays", lambda forest, V, low, high: seen.append((low, high)) or True)
    trees = [{name: values.tolist() for name, values in stump(0, 0, 1, 2).items()}]
    held = threatened.TreeBoxes({"offset": [0.0], "trees": trees}, [0, 1], 2)
    assert held.keeps(np.array([0.25, 3.0]), 1, np.array([0.25, 0.0]))
    (low, high), wide = seen[0], 0.25 * (1 + 4 * UNIT)
    np.testing.assert_array_equal(low, [np.nextafter(0.25 - wide, -1), 3.0])
    np.testing.assert_array_equal(high, [np.nextafter(0.25 + wide, 1), 3.0])
    assert 0.25 - wide == -UNIT


def test_claims_under_a_threat_are_those_of_rows_with_a_radius():
    scores = {"kernel": {"class": "Linear", "coef0": 0.0}, "pairs": False, "linear": None, "centers": [[1.0, 0, 0, 0]],
              "coef": [[1.0]], "intercept": [0.0], "shift": [0.0] * 4, "scale": [1.0] * 4, "origin": [0.0] * 4}
    rows = np.array([[1.0, 0, 0, 1], [2.0, 0, 0, 1], [-1.0, 0, 0, 1]])
    claim = {"prediction": ["b", "b", "a"], "radius": [1.9, None, 2.1]}
    held = verify.from_threat(scores, ["a", "b"], THREAT, rows, ["a"] * 3, claim)
    found = verify.prove_threat(held, rows, ["a"] * 3)
    assert found == [Claim("the data are those of the certificate", 1.0, 1.0, True),
                     Claim("the scores are those of the problem", 1.0, 1.0, True),
                     Claim("radius of row 0", 1.9, 1.9, True), Claim("radius of row 2", 2.1, 0.0, False)]
    held["problem"]["sha256"], held["data"]["rows"] = "", 5
    assert [tuple(claim)[1:] for claim in verify.prove_threat(held, rows, ["a"] * 3)[:2]] == [(1.0, 0.0, False)] * 2
