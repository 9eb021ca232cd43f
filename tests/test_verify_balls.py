"""What the verifier proves of balls: radius, gap, threshold and mixture by their formulas, at points no fit finds."""

import math
from fractions import Fraction

import numpy as np
import pytest

from buttress.verify.balls import ALIKE, BELOW, ball, in_logs, inside, mixed, reached, threshold, weights
from buttress.verify.core import WIDER, Real, U

RBF, LINEAR = {"class": "RBF", "gamma": 0.5}, {"class": "Linear", "coef0": 0.5}
TWICE = {"class": "Polynomial", "degree": 2, "gamma": 0.5, "coef0": 1.0}
X = np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, 1.0], [3.0, -2.0], [1.0, 1.0]])
WEIGHT = np.array([1.0, 2.0, 1.0, 4.0, 2.0])


def values(part, A, B):
    if part["class"] == "RBF":
        return np.exp(-part["gamma"] * ((A[:, None] - B) ** 2).sum(axis=2))
    product = A @ B.T * part.get("gamma", 1.0) + part["coef0"]
    return product ** part.get("degree", 1)


def file_of(part, a, **more):
    """Return what a file says of a ball with the coefficients a of the rows X, of any radius and offset."""
    support = np.flatnonzero(a)
    held = {"kernel": part, "centers": X[support], "coef": a[support, None], "intercept": np.zeros(1)}
    norm2 = float(a @ values(part, X, X) @ a)
    return {"class": "SVDD", "nu": 0.5, "contamination": None, "kernel_": part, "expansion_": held,
            "support_": support, "support_vectors_": X[support], "dual_coef_": a[None, support], "radius_": 1.25,
            "center_norm2_": norm2, "offset_": 0.0, "primal_objective_": 1e9, "dual_objective_": -1e9,
            "dual_gap_": 1e9, **more}


@pytest.mark.parametrize("a", [[0.0, 0.3, 0.15, 0.05, 0.0], [0.1, 0.3, 0.15, 0.25, 0.2], [0.6, 0.3, 0.0, 0.2, 0.0]],
                         ids=["sums to a half", "sums to 1", "above its box"])
@pytest.mark.parametrize("part", [RBF, TWICE], ids=["rbf", "poly"])
def test_a_ball_is_measured_by_its_formulas(part, a):
    a, K = np.array(a), values(part, X, X)
    found = {claim.name: claim for claim in ball(file_of(part, a), X, None, WEIGHT)}
    hi, R2 = WEIGHT / (0.5 * 10), 1.25**2
    f = K @ a
    d2 = np.diag(K) - 2 * f + a @ f
    primal = R2 + hi @ np.maximum(0, d2 - R2)
    b = np.minimum(a, hi)
    b = b / max(1.0, b.sum())
    terms = (hi * np.maximum(0, d2 - R2) - b * (d2 - R2)).sum()
    largest = 1.0 if part is RBF else np.abs(K[:, a > 0]).max()
    apart = np.abs(a - b / b.sum()).sum() ** 2 * largest * WIDER
    gap = terms + (1 - b.sum()) * R2 + apart
    assert found["primal objective"].proven == pytest.approx(primal, rel=1e-12)
    assert found["duality gap"].proven == pytest.approx(gap, rel=1e-12)
    assert found["dual objective"].proven == pytest.approx(primal - gap, rel=1e-12)
    assert gap >= primal - (b @ np.diag(K) - b @ K @ b / b.sum()) - 1e-12
    assert found["norm of the centre, squared"].holds


def test_what_is_said_of_a_balls_parts_is_true_to_a_billionth_of_its_distances():
    a = np.array([0.0, 0.3, 0.15, 0.05, 0.0])
    K = values(TWICE, X, X)
    scale = (np.diag(K) - 2 * K @ a + a @ K @ a).max()
    norm2 = file_of(TWICE, a)["center_norm2_"]
    for share, holds in ((0.5, True), (-0.5, True), (1.5, False), (-1.5, False)):
        held = file_of(TWICE, a, center_norm2_=norm2 + share * 1e-9 * scale)
        found = {claim.name: claim.holds for claim in ball(held, X, None, WEIGHT)}
        assert found["norm of the centre, squared"] == holds
    honest = file_of(TWICE, a)
    for name, other in (("expansion_", {**honest["expansion_"], "intercept": np.ones(1)}),
                        ("support_vectors_", X[1:4] + 1), ("dual_coef_", a[None, 1:4] * 2),
                        ("kernel_", {**TWICE, "coef0": 2.0})):
        assert not ball({**honest, name: other}, X, None, WEIGHT)[0].holds


def limits(low, high, given, room):
    """Yield values that must hold and values that must not, on both sides of [low, high] with so much room."""
    assert given(low - 0.9 * room)
    assert given(high + 0.9 * room)
    assert not given(low - 1.1 * room)
    assert not given(high + 1.1 * room)


def offsets(d2, a, weight, part, *, norm2=0.25, room=0.01, **stated):
    """Return a function that says whether a threshold of squared distances is proven."""
    a, logs = np.array(a, float), in_logs(part)
    k = float(values(part, X[:1], X[:1])[0, 0])

    def given(threshold_, left_out=False):
        if not logs:
            offset = -threshold_
        else:  # the density, or of a row left out k less what is written of it
            offset = math.log(k - threshold_ if left_out else (k + norm2 - threshold_) / 2)
        held = {"nu": 0.5, "support_vectors_": X, "center_norm2_": norm2, "offset_": offset, **stated}
        near = Real(np.array(d2, float), np.where(np.arange(len(d2)) > 0, 0.5 * room / WIDER, 0.0))
        claim, = threshold(held, part, near, a, np.array(weight, float), 0.3, 0.5 * room)
        return claim.holds
    return given


@pytest.mark.parametrize("part", [RBF, TWICE], ids=["rbf", "poly"])
def test_the_threshold_of_a_ball_is_its_radius_and_the_violation(part):
    """The second row is at its bound and may be far out; the last two have no weight, or no coefficient."""
    given = offsets([0.5, 0.95, 0.4, 0.99, 0.1, 0.05], [0.2, 0.5, 0.3, 0.0, 0.0, 0.0], [1, 1, 1, 0, 1, 1],
                    part, contamination=None, nu=0.4)  # 0.3 and the farthest that is free, 0.5, less the nearest, 0.4
    limits(0.4, 0.4, given, 0.01)
    given = offsets([0.5, 0.4, 0.2, 0.4], [0.5, 0.5, 0.0, 0.0], [1, 1, 1, 1], part, contamination=None)
    limits(0.3, 0.3, given, 0.01)  # no violation
    given = offsets([0.9, 0.4], [1.0, 1.0], [1, 1], part, contamination=None)  # nothing is free
    limits(0.3, 0.3, given, 0.01)


@pytest.mark.parametrize(("below", "free"), [(0.0, False), (0.5e-12, False), (1e-12, False), (1.5e-12, True)])
def test_a_coefficient_is_free_where_it_is_below_its_bound_by_1e12_of_it(below, free):
    hi = 1 / (0.5 * 4.0)
    given = offsets([0.9, 0.4, 0.4, 0.4], [hi * (1 - below), 0.3, 0.2, 0.0], [1, 1, 1, 1], TWICE, contamination=None)
    limits(0.3 + 0.5 * free, 0.3 + 0.5 * free, given, 0.01)


@pytest.mark.parametrize("part", [RBF, TWICE], ids=["rbf", "poly"])
def test_an_automatic_threshold_lies_between_the_farthest_tenth_and_the_rest(part):
    d2 = np.random.default_rng(0).permutation(np.append(np.arange(1, 21) / 25, 0.99))
    kept = np.where(d2 == 0.99, 0.0, 2.0)
    given = offsets(d2, np.zeros(21), kept, part, contamination="auto")
    limits(18 / 25, 19 / 25, given, 0.01)
    given = offsets([0.5, 0.4, 0.3, 0.2, 0.1], np.zeros(5), np.ones(5), part, contamination="auto")
    assert given(0.9)  # the farthest is more than a tenth: no row need be outside
    assert given(0.495)
    assert not given(0.48)


@pytest.mark.parametrize(("more", "first"), [(0.5e-9, 18), (1.5e-9, 19)])
def test_a_tenth_is_a_tenth_of_the_weight_to_a_billionth(more, first):
    weight = np.append(np.ones(18), np.full(2, 1 + more))
    given = offsets(np.arange(1, 21) / 25, np.zeros(20), weight, TWICE, contamination="auto")
    limits(first / 25, (first + 1) / 25, given, 0.01)


def test_rows_as_far_as_the_first_of_the_rest_are_of_the_rest():
    d2 = np.append(np.arange(1.0, 19.0), [18.5, 20.0])  # 18 is the first of the rest; 18.5 is it, within the room
    given = offsets(d2, np.zeros(20), np.ones(20), TWICE, room=0.5, contamination="auto")
    limits(18.0, 20.0, given, 0.5)


@pytest.mark.parametrize(("share", "at"), [(0.25, 1), (0.3, 2), (0.31, 2), (0.15, 0), (0.95, 8),
                                           (0.3 * (1 - 0.5e-12), 2), (0.3 * (1 - 1.5e-12), 1)])
def test_a_threshold_of_rows_left_out_is_exceeded_by_the_share(share, at):
    """Of nine rows left out the i-th farthest has i + 1 of 10 rows as far; distances without a row are d2 / (1 - a)^2.
    """
    a = np.array([0.0, 0.5, 0.0, 0.2, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0])
    d2 = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.25, 0.6, 0.15, 0.9])
    weight = np.append(np.full(9, 3.0), 0.0)
    far = np.sort((d2 / (1 - a) ** 2)[:9])[::-1]
    limits(far[at], far[at], offsets(d2, a, weight, TWICE, contamination=share), 0.01)
    density = ((1 + 0.25 - d2) / 2 - a) / (1 - a)
    out = np.sort((1 - density)[:9])[::-1]
    given = offsets(d2, a, weight, RBF, contamination=share)
    limits(out[at], out[at], lambda value: given(value, left_out=True), 0.01)


def test_a_row_that_is_the_whole_ball_is_infinitely_far_without_itself():
    given = offsets([0.0, 0.2, 0.3], [1.0, 0.0, 0.0], np.ones(3), TWICE, contamination=0.5)
    limits(0.3, 0.3, given, 0.01)


def test_scores_are_logarithms_where_all_kernels_with_a_weight_allow_it():
    mixture = {"class": "Combination", "kernels": [RBF, TWICE]}
    assert in_logs({**mixture, "weights": [1.0, 0.0]})
    assert not in_logs({**mixture, "weights": [1.0, 0.5]})


A = np.array([0.0, 0.25, 0.5, 0.0, 0.125])


def test_a_lower_bound_is_reached_by_a_point_of_the_box():
    """In exact fractions: diag(K)'b - b'Kb / s of the point taken, and no lower than rounding makes it."""
    for hi in (np.ones(5), np.full(5, 0.3), np.full(5, 0.25)):
        b = [Fraction(value) for value in inside(A, hi)]
        rows = [[Fraction(value) for value in row] for row in X]
        K = [[sum(p * q for p, q in zip(x, z)) + Fraction(1, 2) for z in rows] for x in rows]
        spread = sum(b[i] * K[i][i] for i in range(5))
        spread -= sum(b[i] * b[j] * K[i][j] for i in range(5) for j in range(5)) / sum(b)
        low = Fraction(reached(LINEAR, X, A, hi))
        assert spread - Fraction(1e-13) <= low <= spread


def mixture(**stated):
    return {"kernels": [LINEAR, TWICE], "objective": "joint", "normalize": None, **stated}


def test_the_bound_over_all_weights_is_harmonic_where_they_are_joint_and_else_the_least():
    model, hi = {"bound_coef_": A, "kernel_scales_": np.array([2.0, 0.5])}, np.ones(5)
    cuts = np.array([reached(LINEAR, X, A, hi) / 2, reached(TWICE, X, A, hi) / 0.5])
    assert cuts.min() > 0
    for stated, exact in ((mixture(), 1 / (1 / cuts).sum()), (mixture(objective="spread"), cuts.min())):
        assert exact * (1 - 16 * U) <= mixed(model, X, hi, stated) < exact
    flat = np.zeros((5, 2))  # all rows are one: of no spread no share
    assert mixed(model, flat, hi, mixture()) <= 0


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("normalize", ["variance", None])
def test_a_mixtures_kernel_is_made_of_what_it_states(joint, normalize):
    share = WEIGHT / 10
    scales = np.array([float(share @ np.diag(K) - share @ K @ share) for K in
                       (values(part, X, X) for part in (LINEAR, TWICE))]) if normalize else np.ones(2)
    eta = np.array([0.36, 0.16]) if joint else np.array([0.25, 0.75])
    stated = mixture(objective="joint" if joint else "spread", normalize=normalize)

    def held(scales, eta):
        part = {"class": "Combination", "kernels": [LINEAR, TWICE], "weights": eta / scales}
        claims = weights({"kernel_weights_": eta, "kernel_scales_": scales, "kernel_": part}, stated, X, WEIGHT)
        return all(claim.holds for claim in claims)

    assert held(scales, eta)
    for p in range(2):
        for step, holds in ((0.5e-9, bool(normalize)), (1.5e-9, False), (-1.5e-9, False)):
            other = scales.copy()
            other[p] *= 1 + step
            assert held(other, eta) == holds
    power = 2 if joint else 1
    for step, holds in ((0.5e-9, True), (-0.5e-9, True), (1.5e-9, False), (-1.5e-9, False)):
        assert held(scales, eta * (1 + step) ** power) == holds
    stated["kernels"] = [LINEAR]
    part = {"class": "Combination", "kernels": [LINEAR], "weights": [1.0]}
    alone = {"kernel_weights_": np.ones(1), "kernel_scales_": np.ones(1), "kernel_": part}
    assert all(claim.holds for claim in weights(alone, stated, X, WEIGHT))


def test_allowances():
    assert ALIKE == 1e-9
    assert BELOW == 1 - 4 * U
