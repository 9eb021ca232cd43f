"""Bounds of machines against moved rows are those of the formulas beside them.

u = 2^-53 is one rounding. That no bound is false is shown in fractions (``test_proven_terms.py``); here each is no
wider than it says either.
"""

from dataclasses import replace

import numpy as np
import pytest

from buttress._proof import Near
from buttress.solvers.linear import attacked_bounds as attacked
from buttress.solvers.linear.attacked_bounds import BallMoves, BoxMoves

U = float(np.finfo(np.float64).eps) / 2
Y = np.array([1.0, -1.0, 1.0, -1.0])
W = np.array([0.5, -0.25, 2.0])
DUAL = {"linf": 1, "l2": 2, "l1": np.inf}
PRIMAL = {"linf": np.inf, "l2": 2, "l1": 1}


# moves in a ball


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_what_a_ball_adds_to_margins(norm):
    moves = BallMoves(0.5, norm)
    lost = 0.5 * np.linalg.norm(W, DUAL[norm])
    assert moves.shrunk(Y).tolist() == [1.0] * 4
    assert moves.rest(W, Y).v == pytest.approx(-lost)
    assert moves.rest(W, Y).e == pytest.approx(1.01 * 7 * U * lost, rel=1e-9, abs=0)
    reach = 0.5 * np.sqrt(3) if norm == "linf" else 0.5  # the longest move, in the Euclidean norm
    assert moves.length(2.0, np.zeros(3)) == pytest.approx(2.0 + reach)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_what_is_left_of_a_vector_is_its_way_to_a_ball_a_few_roundings_smaller(norm):
    a, v = np.full(4, 0.25), np.array([2.0, -4.0, 1.0])
    radius = 0.5
    away = v - attacked.nearest_in_ball(v, radius, norm)
    assert BallMoves(0.5, norm).square(Near(v), a, Y, v).v == pytest.approx(away @ away, rel=1e-12)
    inside = BallMoves(16.0, norm).square(Near(v), a, Y, v).v
    assert inside == pytest.approx(v @ v * (4 * 11 * U) ** 2, rel=1e-9, abs=0)
    outside = BallMoves(0.5, norm).square(Near(np.ones(1)), a, Y, v).v  # of 1 a half is left, and a little more
    assert outside == pytest.approx((0.5 + 0.5 * 4 * 9 * U) ** 2, rel=2 * U, abs=0)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_no_point_of_a_ball_is_nearer(norm):
    """The nearest point g is the one for which v - g is largest, over the ball, at g."""
    rng = np.random.default_rng(0)
    for radius in (0.0, 0.1, 0.5, 1.0, 2.0, None) * 12:
        v = rng.normal(size=5) * (rng.random(5) < 0.7)
        radius = float(np.linalg.norm(v, PRIMAL[norm])) if radius is None else radius
        g = attacked.nearest_in_ball(v, radius, norm)
        assert np.linalg.norm(g, PRIMAL[norm]) <= radius * (1 + 1e-12)
        assert (v - g) @ g == pytest.approx(radius * np.linalg.norm(v - g, DUAL[norm]), abs=1e-12)
        assert np.linalg.norm(v, PRIMAL[norm]) > radius or g.tolist() == v.tolist()


# moves towards the ends of a box


BOX = BoxMoves(np.array([-1.0, 0.0, 2.0]), np.array([1.0, 4.0, 2.5]), 0.25, True)


@pytest.mark.parametrize("both", [True, False])
def test_what_a_box_adds_to_margins(both):
    """The worst of row x is share times (end - x) along each column; the part of x is in ``shrunk``."""
    moves = replace(BOX, both=both)
    assert moves.shrunk(Y).tolist() == [0.75, 0.75 if both else 1.0] * 2
    worst = {y: 0.25 * sum(min(y * w * low, y * w * high) for w, low, high in zip(W, BOX.low, BOX.high))
             for y in (1.0, -1.0)}
    expected = [worst[y] if y > 0 or both else 0.0 for y in Y]
    rest = moves.rest(W, Y)
    assert rest.v == pytest.approx(np.array(expected))
    assert (rest.e <= 100 * U).all()
    centre = np.array([0.5, 1.0, -1.0])
    ends = abs(BOX.low - centre) + abs(BOX.high - centre)
    assert moves.length(2.0, centre) == pytest.approx(2 * (2 + 0.25 * np.linalg.norm(ends)))


def test_errors_of_both_classes_count():
    """That of class +1 is larger where the low ends, and that of class -1 where the high ends, are far."""
    for low, high in ((-1e9, 1.0), (-1.0, 1e9)):
        moves = BoxMoves(np.full(2, low), np.full(2, high), 0.5, True)
        for w in (np.array([0.3, 0.7]), np.array([-0.3, -0.7])):
            assert (moves.rest(w, Y).e >= U * 1e8).all()


@pytest.mark.parametrize("both", [True, False])
def test_what_is_left_of_a_vector_is_what_no_move_in_a_box_takes(both):
    """Of all sums of moves, column by column between their ends, the one nearest to v."""
    moves = replace(BOX, both=both)
    a, centre = np.array([0.5, 0.25, 1.0, 2.0]), np.array([0.5, 1.0, -1.0])
    for v in (np.array([3.0, -2.0, 4.0]), np.array([-3.0, 5.0, -9.0]), np.array([0.1, 0.2, -1.0])):
        ends = 0.25 * (BOX.low - centre), 0.25 * (BOX.high - centre)
        plus, minus = a[Y > 0].sum(), a[Y < 0].sum() * both
        least, most = plus * ends[0] - minus * ends[1], plus * ends[1] - minus * ends[0]
        left = np.clip(0, v + least, v + most)
        found = moves.square(Near(v), a, Y, centre)
        assert found.v == pytest.approx(left @ left, rel=1e-12)
        assert found.e <= 1e4 * U


# the bounds of a machine


X = np.array([[1.0, 2.0, 0.0], [-0.5, 3.0, 1.0], [2.0, -1.0, 0.5], [0.25, 0.5, -2.0]])
C = np.array([2.0, 1.0, 1.5, 3.0])
MOVES = [BallMoves(0.5, "linf"), BallMoves(np.array([0.5, 0.25, 0.0]), "linf"), BallMoves(0.5, "l2"),
         BallMoves(0.25, "l1"), BOX, replace(BOX, both=False)]


@pytest.mark.parametrize("moves", MOVES, ids=["cube", "sides", "ball", "diamond", "box", "one class"])
@pytest.mark.parametrize("s", [0.0, 2.0**-8, -(2.0**-8)])
@pytest.mark.parametrize("a", [(0.5, 0.75, 0.75, 0.5), (1.75, 0.0, 1.0, 2.75)], ids=["inside", "near"])
def test_bounds_against_moves_are_the_objectives_and_the_fall(moves, s, a):
    b, a = 0.25, np.array(a) + [0.0, 0.0, 0.0, s]
    kept, rest = moves.shrunk(Y), moves.rest(W, Y).v
    losses = np.maximum(0, 1 - (Y * (kept * (X @ W) + b) + rest))
    primal = W @ W / 2 + C @ losses
    centre = X.mean(axis=0)
    Z = X - centre
    v = Z.T @ (a * Y * kept)
    square = float(moves.square(Near(v), a, Y, centre).v)
    room = np.where(-s * Y > 0, a, C - a)
    j = room.argmax()
    length = moves.length(np.linalg.norm(Z[j]), centre)
    fall = 1.01 * (abs(s) * (1 + np.sqrt(square) * length) + 0.5 * (s * length) ** 2)
    above, below = attacked.attacked_bounds(X, Y, C, W, b, a, moves)
    assert above == pytest.approx(primal, rel=1e-13)
    assert below == pytest.approx(a.sum() - square / 2 - fall, rel=1e-13)
    assert (above >= primal * (1 - 1e-15)) & (below <= a.sum() - square / 2)


@pytest.mark.parametrize("heavy", [0, 1])
@pytest.mark.parametrize(("most", "known"), [(1.0, True), (0.99, False)])
def test_without_room_for_the_sum_there_is_no_bound(heavy, most, known):
    """A half too much of one class: a row with twice this to give, or to take of the other, is asked for."""
    a, c = np.zeros(4), np.full(4, 0.5)
    a[heavy], c[1 - heavy] = 0.5, most
    below = attacked.attacked_bounds(X, Y, c, W, 0.0, a, MOVES[0])[1]
    assert (below > -np.inf) == known
    assert below < np.inf
