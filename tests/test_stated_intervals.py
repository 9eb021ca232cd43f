"""Intervals are those of their definition: scales, widths, and the rows that count, on few numbers by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from buttress.certainty import intervals
from buttress.certainty.intervals import INTERVALS, HeldOutFits, interval
from buttress.solvers.ridge.leave_one_out import Fit


def held_of(fold, distance, weight=None, least=0.25, columns=4):
    n = len(fold)
    return HeldOutFits(np.zeros((0, columns)), np.zeros(columns), np.array(fold), np.array(distance, float),
                       np.ones(n) if weight is None else np.array(weight, float), least, np.arange(n), n)


def by_definition(held, values, coverage):
    """Of all ends, the least up to which rows weigh ``coverage`` of all and of one more at infinity."""
    scale = np.maximum(values[-1], held.least)
    needed = coverage * (held.weight.sum() + 1)

    def upper(sign):
        ends = sign * values[held.fold] + scale * held.distance
        return min(end for end in ends if held.weight[ends <= end].sum() >= needed * (1 - 1e-12))

    return sorted((-upper(-1), upper(1)))


@pytest.mark.parametrize("folds", [1, 2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_ends_are_those_of_all_rows(folds, weighted):
    """Of folds with many rows, with one and with none, at more and at fewer new rows than folds."""
    rng = np.random.default_rng(folds)
    for new in (1, 3, 7):
        fold = rng.integers(min(folds, 3), size=19)
        held = held_of(fold, rng.exponential(size=19), rng.random(19) + 0.5 if weighted else None, columns=folds + 1)
        values = rng.normal(size=(new, folds + 1))
        for coverage in (0.1, 0.5, 0.8, 0.9):
            expected = [by_definition(held, row, coverage) for row in values]
            np.testing.assert_allclose(interval(held, values, coverage), expected, rtol=1e-12)


@pytest.mark.parametrize(("off", "end"), [(4e-12, 5.0), (6e-12, 6.0)])
def test_weights_within_rounding_of_what_is_needed_are_enough(off, end):
    """Of 9 rows 5 are needed, to a share of 1e-12."""
    weight = np.ones(9)
    weight[0] -= off
    weight[-1] += off
    held = held_of(np.zeros(9, int), np.arange(1.0, 10.0), weight, columns=2)
    assert interval(held, np.array([[0.0, 1.0]]), 0.5) == pytest.approx(np.array([[-end, end]]))


def test_weights_that_are_just_enough_are(monkeypatch):
    monkeypatch.setattr(intervals, "ROUNDING", 0.0)
    held = held_of(np.zeros(9, int), np.arange(1.0, 10.0), columns=2)
    assert interval(held, np.array([[0.0, 1.0]]), 0.5).tolist() == [[-5.0, 5.0]]


def test_no_row_left_is_said():
    none = np.array([0, 0])
    best, end = intervals.farthest(np.zeros(2), 1.0, np.ones(2), none, none - 1)
    assert (best, end) == (-1, -np.inf)


def test_other_units_move_fits_and_stretch_the_scale():
    held = held_of([0, 1, 2], [1.0, 2.0, 3.0])
    moved = held.times(2.0, 5.0, np.ones((2, 4)), np.array([1.0, 2.0, 3.0, 4.0]))
    assert moved.intercept.tolist() == [6.0, 7.0, 8.0, 4.0]
    assert moved.coef.tolist() == [[1.0] * 4] * 2
    assert moved.least == 0.5


@pytest.mark.parametrize(("weight", "counted"), [
    ([1.0, 0.5, 9.0], [1.0, 0.5, 9.0]), ([2.0, 2.0, 9.0], [1.0, 1.0, 9.0]), ([4.0, 2.0, 9.0], [1.2, 0.6, 9.0]),
    ([0.0, 0.0, 9.0], [0.0, 0.0, 9.0]), ([0.5, 0.25, 9.0], [0.5, 0.25, 9.0])])
def test_rows_of_a_group_count_no_more_than_they_are(weight, counted):
    """Weights are scaled down to as many as unequal ones are worth, (sum w)^2 / sum w^2."""
    own = held_of([0, 1, 2], [1.0, 2.0, 3.0], weight).of_rows(np.array([0, 1]))
    assert own.weight == pytest.approx(np.array(counted[:2]))
    assert own.distance.tolist() == [1.0, 2.0]
    assert own.fold.tolist() == [0, 1]


def test_each_group_has_the_ends_of_its_own_rows():
    rng = np.random.default_rng(0)
    fold, distance = rng.integers(3, size=60), rng.exponential(size=60)
    held = held_of(fold, distance, np.r_[np.ones(27), np.full(30, 0.5), np.ones(3)])
    of = np.repeat(["a", "b", "c"], [27, 30, 3])
    values, new = rng.normal(size=(4, 4)), np.array(["b", "c", "a", "b"])
    with pytest.warns(UserWarning, match="cannot be promised") as told:
        found = interval(held, values, 0.8, (of, new))
    assert len(told) == 1  # half of the rows of b count, which is not less than half
    for row, (name, ends) in enumerate(zip(new, found)):
        own = of == name
        alone = held_of(fold[own], distance[own], held.weight[own])
        assert ends.tolist() == ([-np.inf, np.inf] if name == "c" else
                                 pytest.approx(by_definition(alone, values[row], 0.8)))
    few = replace(held, weight=held.weight * 0.99)
    with pytest.warns(UserWarning, match="30 training rows count"):
        interval(few, values[:1], 0.8, (of, new[:1]))


@pytest.mark.parametrize("coverage", [0.0, 1.0, 1.5])
def test_a_coverage_is_a_share_of_each_group_too(coverage):
    held = held_of(np.zeros(30, int), np.ones(30), columns=2)
    with pytest.raises(ValueError, match="coverage"):
        interval(held, np.zeros((1, 2)), coverage, (["a"] * 30, ["a"]))


def test_folds_are_ten_of_one_size():
    """So that each fit has nine tenths of the rows."""
    fold = intervals.folds_of(40, None, INTERVALS.folds)
    assert np.bincount(fold).tolist() == [4] * 10
    assert sorted(intervals.folds_of(4, None, 10).tolist()) == [0, 1, 2, 3]
    groups = np.array([0, 2, 1, 2])
    of_groups = intervals.folds_of(4, groups, 10)
    assert sorted({of_groups[k] for k in (0, 1, 2)}) == [0, 1, 2]
    assert of_groups[1] == of_groups[3]


def test_rows_for_the_quantiles_are_as_many_as_a_coverage_to_a_half_percent_asks():
    assert 0.9 * 0.1 / 0.005**2 <= INTERVALS.rows <= 1.2 * 0.9 * 0.1 / 0.005**2


# the local scale


def width(size, scale, weight):
    """Half the mean width of intervals that hold nine tenths: the quantile of the ratios times the mean scale."""
    ratio = size / scale
    reach = min(r for r in ratio if weight[ratio <= r].sum() >= 0.9 * weight.sum())
    return reach * (weight @ scale) / weight.sum()


def test_the_width_is_that_of_nine_tenths_of_the_rows():
    rng = np.random.default_rng(0)
    for n in (1, 5, 10, 40):
        size, scale, weight = rng.exponential(size=n), rng.random(n) + 0.5, rng.random(n)
        assert intervals._width(size, scale, weight) == pytest.approx(width(size, scale, weight))


class Ridges:
    """Fits whose values left out are ``scales``, one for each ridge in turn."""

    def __init__(self, size, scales):
        self.size, self.scales, self.asked = size, scales, []

    def solve(self, y, weight, alpha):
        self.asked.append(alpha)
        return Fit(np.array([alpha]), y, y - self.scales[alpha], y, weight)

    def path(self, y, weight, alphas, rows):
        return [Fit(np.array([alpha]), y, (y - self.scales[alpha])[rows], y, weight) for alpha in alphas]


SIZE = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
WEIGHT = np.array([1.0, 2.0, 1.0, 0.5, 1.0])
FIT = Fit(np.zeros(1), SIZE, SIZE, SIZE, np.ones(5))


@pytest.mark.parametrize("rows", [np.arange(5), np.array([0, 2, 3, 4])], ids=["all", "some"])
@pytest.mark.parametrize("best", [1.0, 10.0, 100.0, None])
def test_the_scale_is_that_of_the_ridge_with_the_narrowest_intervals(rows, best):
    mean = WEIGHT @ SIZE / WEIGHT.sum()
    good, bad = SIZE + 0.1, 20.0 - SIZE
    ridges = Ridges(SIZE, {2 * part: good if part == best else bad for part in (1.0, 10.0, 100.0)})
    coef, scale, least = intervals.local_scale(ridges, SIZE, FIT, 2.0, WEIGHT, rows)
    assert len(ridges.asked) == (3 if len(rows) == 5 else 1)
    if best is None:
        assert (coef.tolist(), scale.tolist(), least) == ([0.0], [1.0] * len(rows), 1.0)
        return
    assert coef.tolist() == [2 * best]
    assert least == pytest.approx(0.2 * mean)
    assert scale == pytest.approx(np.maximum(good, 0.2 * mean)[rows])


def test_a_constant_scale_is_no_better_than_none():
    ridges = Ridges(SIZE, {part: np.full(5, 2.0) for part in (1.0, 10.0, 100.0)})
    coef, scale, least = intervals.local_scale(ridges, SIZE, FIT, 1.0, WEIGHT, np.arange(5))
    assert (coef.tolist(), scale.tolist(), least) == ([0.0], [1.0] * 5, 1.0)


def test_without_errors_the_scale_is_1():
    for weight in (WEIGHT, 0 * WEIGHT):
        size = 0 * SIZE if weight is WEIGHT else SIZE
        coef, scale, least = intervals.local_scale(Ridges(SIZE, {}), size, FIT, 1.0, weight, np.arange(5))
        assert (coef.tolist(), scale.tolist(), least) == ([0.0], [1.0] * 5, 1.0)


# what is held


@pytest.mark.parametrize("by_folds", [True, False])
def test_distances_are_residuals_by_the_scale(by_folds, monkeypatch):
    """Of rows drawn; with folds, from the values of fits without them, else the residuals left out of the one fit."""
    monkeypatch.setattr(intervals, "INTERVALS", replace(INTERVALS, rows=15))
    y, values = np.arange(20.0), np.arange(20.0) ** 1.5
    coef = np.ones((3, 10))
    monkeypatch.setattr(intervals, "fits_without", lambda ridge, y, u, alpha, fold: (coef, values))
    seen = []

    def scale(ridge, size, fit, alpha, weight, rows):
        seen.append(size)
        return np.full(3, 7.0), np.full(len(rows), 2.0), 0.5

    monkeypatch.setattr(intervals, "local_scale", scale)
    fit = Fit(np.full(3, 5.0), y, -3 * y, y, np.ones(20))
    held = intervals.hold_out(None, y, fit, 0.3, groups=None, weight=np.arange(20.0), by_folds=by_folds)
    size = abs(y - values) if by_folds else 3 * y
    assert seen[0].tolist() == size.tolist()
    assert held.coef.shape == (3, 11 if by_folds else 2)
    assert held.coef[:, -1].tolist() == [7.0] * 3
    assert held.intercept.tolist() == [0.0] * held.coef.shape[1]
    assert held.distance.tolist() == (size[held.row] / 2).tolist()
    assert held.weight.tolist() == held.row.tolist()
    assert (len(held.row), held.least, held.given) == (15, 0.5, 20)
    fold = intervals.folds_of(20, None, 10) if by_folds else np.zeros(20, int)
    assert held.fold.tolist() == fold[held.row].tolist()


@pytest.mark.parametrize("rows", [np.ones((6, 2)), None], ids=["rows", "none"])
def test_a_machine_carries_its_scale_on_some_of_its_centres(rows, monkeypatch):
    """``root`` maps the scale in features of landmarks to kernel values; the last feature is the constant."""
    monkeypatch.setattr(intervals, "equal_rows", lambda X: None)
    monkeypatch.setattr(intervals, "landmark_root", lambda kernel, points: np.arange(1.0, 2 * len(points) + 1).reshape(
        len(points), 2))
    asked = {}

    def hold_out(ridge, y, fit, alpha, **more):
        asked.update(more, Z=ridge.Z, y=y, fit=fit)
        coef = np.column_stack([np.zeros(ridge.Z.shape[1]), np.arange(1.0, ridge.Z.shape[1] + 1)])
        return HeldOutFits(coef, np.zeros(2), np.zeros(6, int), np.ones(6), np.ones(6), 0.5)

    monkeypatch.setattr(intervals, "hold_out", hold_out)
    expansion = SimpleNamespace(kernel=lambda X, Z: X @ Z.T, centers=np.ones((301, 2)), coef=np.ones((301, 1)),
                                intercept=np.array([3.0]))
    missed = np.arange(6.0)
    held = intervals.jackknife(expansion, rows, missed, np.ones(6), 0.3)
    assert asked["fit"].loo is missed
    assert asked["fit"].coef.shape == (1 if rows is None else 3,)
    assert not asked["by_folds"]
    scale = held.coef[:, 1]
    assert held.coef[:, 0].tolist() == [1.0] * 301
    if rows is None:
        assert asked["Z"].tolist() == [[1.0]] * 6
        assert not scale.any()
        assert held.intercept.tolist() == [3.0, 1.0]
        return
    assert np.count_nonzero(scale) == 300  # a centre more than there are landmarks
    assert scale[scale != 0].tolist() == [k * 1.0 + (k + 1) * 2.0 for k in range(1, 600, 2)]
    assert asked["Z"].shape == (6, 3)
    assert asked["Z"][:, -1].tolist() == [1.0] * 6
    assert held.intercept.tolist() == [3.0, 3.0]
