"""What the verifier proves of fits that are linear in their targets, and of joins, against formulas and all cases."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from buttress.verify import certificate, from_moves, joins, prove_flips, prove_moves
from buttress.verify.core import WIDER, Real, U
from buttress.verify.joins import joined, lower_bound, matrix, relational
from buttress.verify.training import TrainingLabels, kernel_values, off, solved, weights

LINEAR = {"class": "Linear", "coef0": 0.0}
RBF = {"class": "RBF", "gamma": 0.5}
X = np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, 1.0], [3.0, -2.0], [1.0, 1.0]])
Z = np.array([[1.0, 0.5], [-1.0, 2.0], [0.0, 0.0]])
WEIGHT = np.array([1.0, 2.0, 1.0, 4.0, 2.0])


def law(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found, expected, rtol=rtol)


@pytest.mark.parametrize("case", ["target", "matrix", "asymmetry", "both", "trace", "residual"])
def test_a_solution_errs_by_its_residual_over_the_least_eigenvalue(case):
    """|A^-1 B - V| <= |B - A V| / least, which is half of that of the middle of A, less what A may be off."""
    least, A, B = 2.0, Real(np.diag([4.0, 8.0])), Real(np.ones((2, 1)))
    if case == "target":
        B = Real(B.v, 0.5)
        size = math.sqrt(2) * 0.5 * WIDER**2
    if case == "matrix":  # of Frobenius norm 0.2, also in the residual
        A = Real(A.v, 0.1)
        size, least = math.sqrt(2) * 0.1 * 0.375 * WIDER**4, 2 - 0.2 * WIDER**2
    if case in ("asymmetry", "both"):  # the middle is diagonal; A is 0.5 off it twice
        A, B = Real(np.array([[4.0, 0.5], [-0.5, 8.0]])), Real(B.v, 0.5 * (case == "both"))
        size, least = math.hypot(0.5 / 8 + B.e[0, 0] * WIDER, 0.5 / 4 + B.e[0, 0] * WIDER), 2 - math.sqrt(0.5) * WIDER
    if case == "trace":  # (n + 2) roundings of the trace
        A, B = Real(np.diag([4.0, 8e14])), Real(np.ones((2, 1)), 0.5)
        size, least = math.sqrt(2) * 0.5 * WIDER**2, 2 - 4 * U * 8e14 * WIDER - U * 8e14 * WIDER
    if case == "residual":
        size = math.sqrt(2) * WIDER**2 * 2 * U
    found = solved(A, B)
    law(found.v, [[0.25], [1 / A.v[1, 1]]], rtol=1e-15)
    law(found.e, np.full((2, 1), WIDER * WIDER * size / least), rtol=0.3 if case == "residual" else 1e-6)


def test_a_system_that_rounding_decides_is_refused():
    for A in (Real(np.diag([4.0, 8e16])), Real(np.diag([4.0, 8.0]), 1.0), Real(np.array([[4.0, 9.0], [-9.0, 8.0]]))):
        with pytest.raises(ValueError, match="rounding decides"):
            solved(A, Real(np.ones((2, 1))))


def by_formula(kernel, alpha, intercept, weight):
    """h of each row of Z: the conditions of optimality [K + D, 1; 1', 0] [h; .] = [k; 1], by elimination."""
    K, k = (A @ X.T if kernel == LINEAR else np.exp(-0.5 * ((A[:, None] - X) ** 2).sum(axis=2)) for A in (X, Z))
    K = K + np.diag(np.broadcast_to(alpha, 5) / weight)
    if intercept is True:
        ones = np.ones((5, 1))
        whole = np.block([[K, ones], [ones.T, np.zeros((1, 1))]])
        return np.linalg.solve(whole, np.vstack([k.T, np.ones(3)]))[:5].T
    h, mean = np.linalg.solve(K, k.T).T, weight / weight.sum()
    return h + (1 - h.sum(axis=1))[:, None] * mean if intercept else h


EACH = [0.5, 1.0, 0.25, 2.0, 1.5]


@pytest.mark.parametrize(("intercept", "alpha"), [(True, 0.5), (False, 0.5), ("targets", 0.5), (False, EACH),
                                                  ("targets", EACH)], ids=str)
@pytest.mark.parametrize("kernel", [LINEAR, RBF], ids=["columns", "rbf"])
def test_weights_of_targets_are_those_of_the_conditions_of_optimality(kernel, intercept, alpha):
    for weight in (np.ones(5), WEIGHT):
        found = weights({"kernel": kernel, "alpha": alpha, "intercept": intercept}, X, Z, weight)
        np.testing.assert_allclose(found.v, by_formula(kernel, alpha, intercept, weight), atol=1e-12)
        assert found.e.max() < 1e-11


def test_least_squares_without_a_penalty_have_weights_too():
    found = weights({"kernel": LINEAR, "alpha": 0.0, "intercept": True}, X, Z, np.ones(5))
    A = np.column_stack([X, np.ones(5)])
    np.testing.assert_allclose(found.v, np.column_stack([Z, np.ones(3)]) @ np.linalg.pinv(A), atol=1e-13)


def test_kernel_values_that_are_given_are_taken_as_symmetric():
    K, k = kernel_values(None, np.array([[1.0, 0.5], [0.25, 2.0]]), Z[:, :2])
    np.testing.assert_array_equal(K.v, [[1.0, 0.375], [0.375, 2.0]])
    np.testing.assert_array_equal(k.v, Z)
    assert K.e.max() <= 5 * U
    with pytest.raises(ValueError, match="as many as there are rows"):
        kernel_values(None, np.ones((3, 2)), Z)


def fewest(values, h, y, allowed, free, winner, threshold):
    """Return how few labels, of all sets of them, take the lead of a class."""
    def leads(codes):
        scores = h @ values[codes]
        if threshold is not None:
            return [(scores[0] - threshold) * (1 if winner else -1)]
        return [scores[winner] - scores[rival] for rival in range(values.shape[1]) if rival != winner]

    if min(leads(y)) <= 0:
        return 0
    options = [[y[i], *(c for c in range(len(values)) if free[i] and allowed[y[i], c])] for i in range(len(y))]
    return min((int(np.sum(np.array(codes) != y)) for codes in itertools.product(*options)
                if min(leads(np.array(codes))) <= 0), default=math.inf)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("k", "threshold"), [(2, None), (3, None), (2, 0.5)])
def test_the_fewest_labels_are_those_of_all_sets_of_labels(k, threshold, seed):
    rng = np.random.default_rng(seed)
    y, h = np.append(np.arange(k), rng.integers(0, k, 5 - k)), rng.normal(size=5) + 0.2
    names = [1, 3] if threshold else list(range(10, 10 + k))
    directions = [[names[0], names[1]], [names[1], names[0]], [names[-1], names[0]]] if seed % 2 else None
    allowed = ~np.eye(k, dtype=bool)
    if directions is not None:
        allowed = np.zeros((k, k), bool)
        for given, truth in directions:
            allowed[names.index(given), names.index(truth)] = True
    free = np.ones(5, bool) if seed % 3 else np.arange(5) % 2 == 0
    stated = {"classes": names, "threshold": threshold, "directions": directions,
              "eligible": None if free.all() else np.flatnonzero(free).tolist()}
    labels = TrainingLabels(stated, np.array(names)[y])
    values = np.array(names, float)[:, None] if threshold else 2 * np.eye(k) - 1
    for winner in range(k):
        exact = fewest(values, h, y, allowed, free, winner, threshold)
        if k == 2:
            assert labels.fewest(Real(h), winner) == exact
        else:  # of more rivals than one the worst one counts
            assert labels.fewest(Real(h), winner) == exact


def test_a_lead_of_0_is_none_and_one_that_is_only_reached_is_taken():
    stated = {"classes": [0, 1], "threshold": None, "directions": None, "eligible": None}
    labels = TrainingLabels(stated, [1, 1, 0])
    assert labels.fewest(Real([0.0, 0.0, 0.0]), 1) == 0
    assert labels.fewest(Real([1.0, 0.0, 1.0]), 1) == 0
    assert labels.fewest(Real([1.0, 1.0, 0.0]), 1) == 1  # one of two equal voices ties
    many = TrainingLabels(stated, [1] * 7)
    assert many.fewest(Real(np.full(7, 0.25)), 1) == 4  # of seven equal voices
    assert labels.fewest(Real([np.nan, 1.0, 0.0]), 1) == 0


@pytest.mark.parametrize(("threshold", "names", "fits"), [
    (0.5, [0, 1], True), (0.5, [1, 0], False), (0.5, [0, 1, 2], False), (None, [0], False), (None, [1, 0], True)])
def test_a_machine_with_a_threshold_has_two_classes_in_order(threshold, names, fits):
    stated = {"classes": names, "threshold": threshold, "directions": None, "eligible": None}
    if fits:
        assert TrainingLabels(stated, names).allowed.sum() == 2
    else:
        with pytest.raises(ValueError, match="two classes, the lower one first"):
            TrainingLabels(stated, names)


STATED = {"kernel": LINEAR, "alpha": 0.5, "intercept": False}


@pytest.mark.parametrize(("weight", "fits"), [(WEIGHT, True), (WEIGHT * 0, False), (WEIGHT * np.inf, False),
                                              ([1, 1, 0, 1, 1], False)])
def test_weights_of_rows_are_above_0_and_finite(weight, fits):
    held = certificate({"model": "least squares", **STATED, "classes": [0, 1], "threshold": None, "directions": None,
                        "eligible": None}, {"rows": Z.tolist()}, X, [0, 1, 0, 1, 1],
                       {"prediction": [1, 1, 1], "needed": [0, 0, 0]})
    if fits:
        assert all(claim.holds for claim in prove_flips(held, X, [0, 1, 0, 1, 1], np.array(weight)))
    else:
        with pytest.raises(ValueError, match="weights must be finite and above 0"):
            prove_flips(held, X, [0, 1, 0, 1, 1], np.array(weight, float))


class Ends:
    low, high = np.array([-2.0, 0.0, 1.0]), np.array([1.0, 0.5, 3.0])


def test_a_written_interval_is_wider_by_a_billionth_of_its_ends():
    held = from_moves({**STATED, "rows": 1}, X, np.arange(5.0), Z, Ends)
    law(held["claim"]["low"], [-2 - 3e-9, -0.5e-9, 1 - 4e-9], rtol=1e-15)
    law(held["claim"]["high"], [1 + 3e-9, 0.5 + 0.5e-9, 3 + 4e-9], rtol=1e-15)


@pytest.mark.parametrize("rows", [0, 1, 2, 9])
def test_wrong_targets_move_a_prediction_by_their_largest_weights(rows):
    H = Real(np.array([[1.0, -4.0, 2.0, 0.5, -3.0], [0.0, 0.0, 0.0, 0.0, 1.0]]), 0.25 / WIDER)
    by = np.array([1.0, 0.5, 2.0, 0.0, 1.0])
    most = (np.abs(H.v) + 0.25) * by
    for some in (None, [0, 1, 3, 4]):
        kept = most if some is None else most[:, some]
        exact = [float(sum(sorted(each, reverse=True)[:rows])) for each in kept]
        down, up = off({"by": by.tolist(), "rows": rows, "eligible": some}, H)
        np.testing.assert_array_equal(down, up)
        assert (up >= exact).all()
        np.testing.assert_allclose(up, exact, rtol=20 * U, atol=1e-290)


@pytest.mark.parametrize("by", [None, 0.5])
def test_an_interval_holds_to_its_last_digit(by):
    y = np.array([1.0, 0.0, 2.0, -1.0, 0.5])
    stated = {"model": "least squares, targets", **STATED, "rows": 1, "by": by, "eligible": None}
    some = {"low": [-9.0] * 3, "high": [9.0] * 3}
    proven = np.array([claim.proven for claim in prove_moves(certificate(stated, {"rows": Z.tolist()}, X, y, some),
                                                             X, y)[1:]]).reshape(3, 2)
    for steps, missed in ((0, 0), (1, 3)):
        low, high = proven.T
        for claim in ({"low": low if not steps else np.nextafter(low, 9), "high": high},
                      {"low": low, "high": high if not steps else np.nextafter(high, -9)}):
            held = certificate(stated, {"rows": Z.tolist()}, X, y, {name: end.tolist() for name, end in claim.items()})
            claims = prove_moves(held, X, y)
            assert [one.holds for one in claims].count(False) == missed
            assert [one.stated for one in claims[1:]] == np.column_stack([claim["low"], claim["high"]]).ravel().tolist()
    H = by_formula(LINEAR, 0.5, False, np.ones(5))
    if by is not None:
        exact = np.array([[h @ y - 0.5 * np.abs(h).max(), h @ y + 0.5 * np.abs(h).max()] for h in H])
    else:
        fits = []
        for out in range(5):
            A, t = np.delete(X, out, axis=0), np.delete(y, out)
            fits.append(Z @ np.linalg.solve(A.T @ A + 0.5 * np.eye(2), A.T @ t))
        fits = np.array([*fits, H @ y])
        exact = np.column_stack([fits.min(axis=0), fits.max(axis=0)])
    np.testing.assert_allclose(proven, exact, atol=1e-12)
    short = certificate(stated, {"rows": Z.tolist()}, X, y, {"low": [-9.0] * 2, "high": [9.0] * 2})
    with pytest.raises(ValueError, match="claimed for each row"):
        prove_moves(short, X, y)


def least(A, share, alpha):
    """Return the least of alpha b^2 + sum share max(0, 1 - A b) over one number b, in fractions."""
    A, share, alpha = [Fraction(a) for a in A], [Fraction(s) for s in share], Fraction(alpha)
    ends = sorted({1 / a for a in A if a})
    points = [*ends]
    for middle in [ends[0] - 1, *((a + b) / 2 for a, b in itertools.pairwise(ends)), ends[-1] + 1]:
        slope = sum(s * a for a, s in zip(A, share) if 1 - a * middle > 0)
        points.append(slope / (2 * alpha))
    return min(alpha * b**2 + sum(s * max(0, 1 - a * b) for a, s in zip(A, share)) for b in points)


@pytest.mark.parametrize("alpha", [1e-4, 0.25, 3.0])
@pytest.mark.parametrize("n", [1, 4, 9])
def test_the_lower_end_of_an_interval_is_the_optimum_to_eleven_digits(n, alpha):
    rng = np.random.default_rng(n)
    A, share = rng.normal(size=n) + 0.5, rng.random(n) + 0.5
    share /= share.sum()
    low, exact = lower_bound(A[:, None], share, alpha), least(A, share, alpha)
    assert Fraction(low) <= exact
    assert low >= float(exact) - 1e-11


def test_a_bound_from_a_point_that_is_none_of_the_dual_is_still_one(monkeypatch):
    monkeypatch.setattr(joins, "STEPS", 0)
    A, share = np.array([[2.0], [-1.0], [0.5]]), np.array([0.25, 0.25, 0.5])
    low = lower_bound(A, share, 0.25)
    assert low == pytest.approx(0.5 - (A.T @ share / 2)[0] ** 2, rel=1e-12)


TABLES = {"loan": {"who": ["1", "2", "1"], "sum": ["0.5", "-2", "4"], "bad": ["no", "yes", "no"]},
          "person": {"id": ["1", "1", "2", "3"], "job": ["a", "b", "a", "a"]}}
ON = [["loan.who", "person.id"]]


def interval(**more):
    held = {"class": "RelationalLinearSVC", "loss": "hinge", "objective": "rows", "class_weight": None,
            "missing": "raise", "scaling": "max", "fills_": {}, "optional_tables_": [], "alpha_": 0.25,
            "row_weight": "join", "fit_intercept": True, "label_table_": "loan", "classes_": np.array(["no", "yes"]),
            "features_": [["loan", "sum", None], ["person", "job", ["a", "b", "c"]]], "n_join_rows_": 5,
            "coef_": np.array([[-0.5, 1.0, 0.25, 2.0]]), "intercept_": np.array([0.125]),
            "coef_names_": ["loan.sum", "person.job=a", "person.job=b", "person.job=c"],
            "objective_interval_": [-9.0, 9.0]}
    return held | more


def test_a_join_is_every_pair_of_rows_that_match():
    rows = joined(TABLES, ON)
    assert [(row["loan"], row["person"]) for row in rows] == [
        ("0", "0"), ("0", "1"), ("1", "2"), ("2", "0"), ("2", "1")]
    without = {name: {column: [text.replace("1", "") for text in texts] for column, texts in table.items()}
               for name, table in TABLES.items()}
    assert [(row["loan"], row["person"]) for row in joined(without, ON)] == [("1", "2")]  # NULL matches nothing
    table = {"one": {"x": ["0"] * 20_000}}
    assert len(joined(table, [])) == 20_000
    table["one"]["x"].append("0")
    with pytest.raises(ValueError, match="more than 20,000 rows"):
        joined(table, [])
    names, A = matrix({"features": interval()["features_"]}, rows)
    assert names == interval()["coef_names_"]
    assert A.tolist() == [[0.5, 1, 0, 0], [0.5, 0, 1, 0], [-2, 1, 0, 0], [4, 1, 0, 0], [4, 0, 1, 0]]


@pytest.mark.parametrize("weight", ["join", "label"])
@pytest.mark.parametrize("free", [True, False])
def test_the_interval_of_a_join_is_that_of_its_formula(weight, free):
    intercept = np.array([0.125 * free])
    held = interval(row_weight=weight, fit_intercept=free, intercept_=intercept)
    found = relational(held, TABLES, ON, "bad")
    A = np.array([[0.5, 1, 0, 0], [0.5, 0, 1, 0], [-2, 1, 0, 0], [4, 1, 0, 0], [4, 0, 1, 0]])
    y = np.array([-1, -1, 1, -1, -1])
    share = np.full(5, 0.2) if weight == "join" else np.array([0.5, 0.5, 1, 0.5, 0.5]) / 3
    scaled = np.append(np.array([4, 1, 1, 1]) * held["coef_"][0], intercept)
    high = 0.25 * scaled @ scaled + share @ np.maximum(0, 1 - y * (A @ held["coef_"][0] + intercept))
    assert all(claim.holds for claim in found)
    assert found[1].proven == pytest.approx(high, rel=1e-13)
    unit = np.column_stack([A / [4, 1, 1, 1], np.full(5, float(free))]) * y[:, None]
    assert found[2].proven == lower_bound(unit, share, 0.25)
    low = found[2].proven
    for share_, holds in ((0.9e-6, True), (1.1e-6, False)):
        for ends in ([low + share_ * high, 99.0], [-99.0, high * (1 - share_)]):
            claims = relational({**held, "objective_interval_": ends}, TABLES, ON, "bad")
            assert all(claim.holds for claim in claims) == holds
    edges = []
    for end, room in ((high_ := found[1].proven, 1e-6 * high_), (-low, 1e-6 * high_)):
        edge = end - room
        while edge + room < end:
            edge = float(np.nextafter(edge, np.inf))
        edges.append(edge)
    claims = relational({**held, "objective_interval_": [-edges[1], edges[0]]}, TABLES, ON, "bad")
    assert all(claim.holds for claim in claims)  # also where what is stated is just as far off as it may be
    for wrong in ({"n_join_rows_": 4}, {"coef_names_": held["coef_names_"][::-1]}, {"classes_": np.array(["no"] * 3)},
                  {"classes_": np.array(["no", "maybe"])}):
        assert not relational({**held, **wrong}, TABLES, ON, "bad")[0].holds
    if not free:
        assert not relational({**held, "intercept_": np.ones(1)}, TABLES, ON, "bad")[0].holds
