"""What the verifier proves of machines: programs of classes, primal objectives, gaps and violations, by their formulas.

The points are none that a fit would find: every term counts.
"""

import itertools
import math

import numpy as np
import pytest

from buttress.verify import foreign
from buttress.verify.core import WIDER, Real
from buttress.verify.foreign import of_pairs, violation
from buttress.verify.gaps import LossProgram, balanced
from buttress.verify.machines import StatedMachine, contrasts, hyperplane, measured, problem, programs

LINEAR = {"class": "Linear", "coef0": 0.0}
X = np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, 1.0], [3.0, -2.0]])
WEIGHT = np.array([1.0, 2.0, 1.0, 4.0])


def classes(names, y, *, pairs=False, class_weight=None, C=3.0):
    stated = {"model": "SVC", "C": C, "classes": names, "pairs of classes": pairs, "class_weight": class_weight}
    return [tuple(part.tolist() for part in program) for program in programs(stated, y, WEIGHT)]


def test_programs_of_classes_are_one_against_the_rest_or_pairs():
    assert classes(["a", "b"], ["b", "a", "a", "b"]) == [([1, -1, -1, 1], [0, -6, -3, 0], [3, 0, 0, 12])]
    y = [0, 1, 2, 1]
    assert classes([0, 1, 2], y) == [
        ([1, -1, -1, -1], [0, -6, -3, -12], [3, 0, 0, 0]), ([-1, 1, -1, 1], [-3, 0, -3, 0], [0, 6, 0, 12]),
        ([-1, -1, 1, -1], [-3, -6, 0, -12], [0, 0, 3, 0])]
    assert classes([0, 1, 2], y, pairs=True) == [
        ([1, -1, -1, -1], [0, -6, 0, -12], [3, 0, 0, 0]), ([1, -1, -1, -1], [0, 0, -3, 0], [3, 0, 0, 0]),
        ([-1, 1, -1, 1], [0, 0, -3, 0], [0, 6, 0, 12])]
    assert classes([0, 1], [0, 1, 0, 1], class_weight={"0": 0.5}) == [
        ([-1, 1, -1, 1], [-1.5, 0, -1.5, 0], [0, 6, 0, 12])]
    assert classes([0, 1], [0, 1, 0, 1], class_weight="balanced", C=3.0) == [  # 8 rows: 2 of class 0, 6 of class 1
        ([-1, 1, -1, 1], [-6, 0, -6, 0], [0, 4, 0, 8])]
    numbers = programs({"model": "SVR", "C": 3.0}, ["1", "2", "3", "4"], WEIGHT)[0]
    assert [part.tolist() for part in numbers] == [[1, 2, 3, 4], [-3, -6, -3, -12], [3, 6, 3, 12]]


@pytest.mark.parametrize("k", [2, 3, 4])
def test_leads_are_differences_of_scores_and_scores_of_pairs(k):
    scores = np.arange(1.0, k + 1) ** 2
    if k > 2:
        assert contrasts(k, pairs=False) @ scores == pytest.approx(np.array(
            [[scores[i] - scores[j] for j in range(k) if j != i] for i in range(k)]))
    pairs = {pair: 3.0**n for n, pair in enumerate(itertools.combinations(range(k), 2))}
    lead = [[pairs[i, j] if i < j else -pairs[j, i] for j in range(k) if j != i] for i in range(k)]
    found = contrasts(k, pairs=True) @ np.array(list(pairs.values()))
    np.testing.assert_array_equal(found, np.array(lead) if k > 2 else -np.array(lead))  # of two: that of the second


@pytest.mark.parametrize("k", [2, 3, 4])
def test_pairs_are_stated_of_more_than_two_classes(k):
    held = {"class": "SVC", "C": 2.0, "multi_class": "ovo", "classes_": np.arange(k), "class_weight": None,
            "expansion_": {"kernel": LINEAR}}
    assert problem(held)["pairs of classes"] is (k > 2)
    assert not problem({**held, "multi_class": "ovr"})["pairs of classes"]
    for C in (0.0, math.inf, -1.0):
        with pytest.raises(ValueError, match="hard margin"):
            problem({**held, "C": C})


@pytest.mark.parametrize("kind", ["SVC", "SVR"])
def test_a_machine_is_measured_by_its_formulas(kind):
    coef, intercept = np.array([[2.0], [-1.5], [0.25]]), np.array([0.75])
    stated = {"model": kind, "C": 3.0, "kernel": LINEAR, "classes": [0, 1], "class_weight": None,
              "pairs of classes": False, **({"epsilon": 0.5} if kind == "SVR" else {})}
    y = [1, 0, 1, 0]
    (_, b, gap, primal), = measured(stated, X, y, WEIGHT, StatedMachine(np.array([0, 1, 3]), coef, intercept))
    np.testing.assert_array_equal(b, [2.0, -1.5, 0.0, 0.25])
    (p, lo, hi), = programs(stated, y, WEIGHT)
    f, l1 = X @ (X.T @ b), stated.get("epsilon", 0.0)
    r = p - f - 0.75
    loss = hi * np.maximum(0, r - l1) - lo * np.maximum(0, -r - l1)
    assert float(primal.v) == pytest.approx(b @ f / 2 + loss.sum(), rel=1e-13)
    assert primal.e < 1e-12
    point = balanced(b, lo, hi)
    assert np.abs(b - point).sum() > 0.5
    largest = WIDER * 13  # of all |x'z|, by Cauchy and Schwarz
    terms = (loss - point * r + l1 * np.abs(point)).sum()
    assert gap == pytest.approx(terms + np.abs(b - point).sum() ** 2 / 2 * largest * WIDER, rel=1e-12)
    dual = p @ point - l1 * np.abs(point).sum() - point @ (X @ (X.T @ point)) / 2
    assert gap >= float(primal.v) - dual


def line(loss, free, dual, **more):
    held = {"class": "LinearSVC", "C": 3.0, "loss": loss, "fit_intercept": free, "classes_": np.array([0, 1]),
            "class_weight": None, "coef_": np.array([[0.5, -0.25]]), "intercept_": np.array([0.75 if free else 0.0]),
            "dual_coef_": np.array([dual]), "primal_objective_": 1e9, "dual_objective_": -1e9, "dual_gap_": 1e9}
    return held | more


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("free", [False, True])
def test_a_hyperplane_is_measured_by_its_formulas(squared, free):
    dual = [2.0, -1.0, 1.0, -2.0]
    held = line("squared_hinge" if squared else "hinge", free, dual)
    found = hyperplane(held, X, [1, 0, 1, 0], WEIGHT)
    p, C, b, w = np.array([1, -1, 1, -1.0]), 3 * WEIGHT, np.array(dual), held["coef_"][0]
    r = p - X @ w - held["intercept_"][0]
    lost = np.maximum(0, p * r)
    primal = w @ w / 2 + C @ (lost**2 if squared else lost)
    terms = (C * (lost**2 if squared else lost) - b * r + (b**2 / (4 * C) if squared else 0)).sum()
    gap = terms + ((w - X.T @ b) ** 2).sum() / 2
    proven = {claim.name: claim.proven for claim in found}
    assert proven["primal objective 0"] == pytest.approx(primal, rel=1e-12)
    assert proven["duality gap 0"] == pytest.approx(gap, rel=1e-12)
    assert proven["dual objective 0"] == pytest.approx(primal - gap, rel=1e-12)
    assert all(claim.holds for claim in found)
    far = hyperplane({**held, "intercept_": held["intercept_"] - 1e7 * w.sum()}, X + 1e7, [1, 0, 1, 0], WEIGHT)
    if free:  # b sums to 0: where the rows stand does not matter
        assert {claim.name: claim.proven for claim in far}["duality gap 0"] == pytest.approx(gap, rel=1e-6)
    else:
        assert not far[0].holds


def test_the_violation_is_that_of_libsvm_between_what_is_free_to_fall_and_to_rise():
    lo, hi, b = np.array([-2.0, -2.0, -2.0, 0.0]), np.array([0.0, 2.0, 2.0, 2.0]), np.array([-2.0, 1.0, 2.0, 0.0])
    r = np.array([5.0, -1.0, 4.0, -3.0])  # rows 1 and 2 can fall, 0, 1 and 3 can rise
    assert violation(LossProgram(Real(r), lo, hi), b) == pytest.approx(1.0 + 5.0)
    assert violation(LossProgram(Real(r, 0.5 / WIDER), lo, hi), b) == pytest.approx(1.5 + 5.5)
    # with a width: slopes are l1 above 0 and - l1 below; at 0 they fall by - l1 and rise by l1
    lo, hi, r = -hi, hi, np.array([1.0, 2.0, 3.0, -1.0])
    for value, fall, rise in ((1.0, 0.25, 0.25), (-1.0, -0.25, -0.25), (0.0, -0.25, 0.25)):
        b = np.array([0.0, value, 0.0, 0.0])
        some = LossProgram(Real(np.array([-99.0, 2.0, 99.0, 9.0])), lo * [0, 1, 0, 0], hi * [0, 1, 0, 0], 0.25)
        assert violation(some, b) == pytest.approx(fall - rise)


@pytest.mark.parametrize("share", [0.5, 1.5])
def test_a_coefficient_counts_as_at_its_bound_within_1e12_of_its_range(share):
    """Of two rows that both fall only; the one at its upper bound may not rise."""
    r, lo, hi = Real([0.0, 7.0]), np.zeros(2), np.full(2, 4.0)
    b = np.array([1.0, 4.0 - share * 4e-12])
    assert violation(LossProgram(r, lo, hi), b) == pytest.approx(0.0 - 0.0 if share < 1 else 7.0)
    b = np.array([share * 4e-12, 2.0])  # at its lower bound it may not fall
    assert violation(LossProgram(-r, lo, hi), b) == pytest.approx(7.0)


def test_coefficients_of_pairs_are_read_from_libsvms_layout():
    """Of class i the row j - 1, or j of a lower class, belongs to the pair with class j."""
    dual = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    np.testing.assert_array_equal(of_pairs(dual, np.array([1, 2, 1])), [
        [1.0, 2.0, 3.0, 0.0], [5.0, 0.0, 0.0, 4.0], [0.0, 6.0, 7.0, 8.0]])


def test_a_certificate_claims_its_gap_and_violation_one_for_all_or_one_each():
    stated = {"model": "SVC", "C": 3.0, "kernel": LINEAR, "classes": [0, 1, 2], "class_weight": None,
              "pairs of classes": True}
    y, support = [0, 1, 2, 1], [0, 1, 2, 3]
    coef = [[0.5, 0.25, 0.0], [-0.5, 0.0, 0.5], [0.0, -0.25, -0.5], [0.0, 0.0, 0.0]]
    point = {"support": support, "coef": coef, "intercept": [0.1, 0.2, 0.3]}
    proven = {claim.name: claim.proven for claim in foreign.prove_certificate(
        foreign.certificate(stated, point, X, y, {}), X, y)}
    gaps = [proven[f"gap {q}"] for q in range(3)]
    assert len({*gaps}) == 3
    for claimed, missed in ((gaps, 0), ([gaps[0], 0.0, gaps[2]], 1), (sorted(gaps)[1], 1), ([max(gaps)], 0),
                            (np.nextafter(gaps, 0).tolist(), 3)):
        held = foreign.certificate(stated, point, X, y, {"gap": claimed})
        assert held["certificate"] == 1  # the version of docs/certificate-files.md
        assert held["data"]["rows"] == 4
        assert held["data"]["columns"] == 2
        found = foreign.prove_certificate(held, X, y)
        assert found[0] == ("the data are those of the certificate", 1.0, 1.0, True)
        assert [claim.holds for claim in found if "gap" in claim.name].count(False) == missed
        assert {"primal objective 1", "dual objective 1"} < {claim.name for claim in found}
        assert not any("duality gap" in claim.name for claim in found)
    held = foreign.certificate(stated, point, X, y, {"gap": 1e9, "violation": 1e9})
    assert all(claim.holds for claim in foreign.prove_certificate(held, X, y))
    with pytest.raises(ValueError, match="claims a gap and a violation"):
        foreign.prove_certificate({**held, "claim": {"gap": 1.0, "radius": 1.0}}, X, y)
