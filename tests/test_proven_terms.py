"""Numbers with bounds, and the bounds of linear machines that are made of them: a case for each term that needs it.

Each term is taken out of the source in turn, and a bound is then false, in fractions, on some case crafted for it.
"""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from test_proven_gaps import without

from buttress import _proof
from buttress.solvers.linear import attacked_bounds as attacked
from buttress.solvers.linear import primal as linear


def exact(values):
    """Return an array of fractions."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(values, dtype=float))


def holds(near, truth):
    """Whether the numbers lie between the bounds."""
    low, high, truth = (np.ravel(part) for part in (exact(near.low), exact(near.high), np.asarray(truth, dtype=object)))
    return all(a <= t <= b for a, t, b in zip(low, truth, high, strict=True))


# numbers with bounds


def numbers(module):
    """Yield a number with bounds and what it must hold, in fractions."""
    Near, tiny = module.Near, 2.0**-60
    yield Near(1.0, 2.0**-54), 1 + Fraction(2) ** -54  # v + e is rounded down
    yield Near(1.0, 2.0**-55), 1 - Fraction(2) ** -55
    for x, y in ((1.0, tiny), (0.1, 0.7), (1 / 3, 1e-5), (3.0, 0.1)):
        yield Near(x) + y, Fraction(x) + Fraction(y)
        yield Near(x) * y, Fraction(x) * Fraction(y)
        for sign, other in itertools.product((-1, 1), repeat=2):  # each as wrong as it may be
            a, b = Fraction(x) + sign * Fraction(0.5), Fraction(y) + other * Fraction(0.25)
            yield Near(x, 0.5) + Near(y, 0.25), a + b
            yield Near(x, 0.5) * Near(y, 0.25), a * b
    yield Near(5.0, 1e-3) * Near(7.0, 0.0), Fraction(7) * (5 + Fraction(1e-3))
    yield Near(5.0, 0.0) * Near(7.0, 1e-3), Fraction(5) * (7 + Fraction(1e-3))
    yield Near(1e-200) * 1e-200, Fraction(1e-200) ** 2
    total, power, truth = Near(1.0), Near(1.0), Fraction(1)
    for _ in range(400):
        total, power, truth = total + 2.0**-54, power * 1.1, truth * Fraction(1.1)
    yield total, 1 + 400 * Fraction(2) ** -54
    yield power, truth
    many = np.append(1.0, np.full(4095, 2.0**-54))
    yield Near(many).sum(), sum(exact(many))
    yield Near(np.zeros(9), 0.1).sum(), 9 * Fraction(0.1)
    yield Near(-1.0, 2.0).each(module.plus), Fraction(1)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        wrong = 10.0 ** rng.uniform(-12, -2, 300)
        total, truth = Near(0.0), Fraction(0)
        for e in wrong:  # bounds of errors are rounded too
            total, truth = total + Near(0.0, e / 1.01), truth + Fraction(e / 1.01)
        yield total, truth
    rows = np.stack([many, -many])
    yield module.products(rows, Near(np.ones(4096))), [sum(exact(row)) for row in rows]
    yield module.products(np.ones((1, 3)), Near(np.zeros(3), 0.1)), [3 * Fraction(0.1)]
    yield module.products(np.full((1, 2), 1e-200), Near(np.full(2, 1e-200))), [2 * Fraction(1e-200) ** 2]
    yield module.sums_of_rows(many[:, None], np.ones(4096)), [sum(exact(many))]
    yield module.sums_of_rows(np.full((2, 1), 1e-200), np.full(2, 1e-200)), [2 * Fraction(1e-200) ** 2]
    ended = np.append(many, 0.0)  # what is lost comes from other rows than the last
    yield module.sums_of_rows(ended[:, None], np.ones(4097)), [sum(exact(many))]
    yield module.products(np.stack([many, 0 * many]), Near(np.ones(4096))), [sum(exact(many)), Fraction(0)]
    far = 1e6 + np.random.default_rng(0).normal(size=(50, 3))
    a = np.random.default_rng(1).normal(size=50)
    a -= a.mean()
    truth = [sum(x * y for x, y in zip(exact(column), exact(a))) for column in far.T]
    yield module.sharp_sums_of_rows(far, a), truth
    yield module.sharp_sums_of_rows(np.full((2, 1), 1e-200), np.full(2, 1e-200)), [2 * Fraction(1e-200) ** 2]


def false_numbers(module):
    return sum(not holds(near, truth) for near, truth in numbers(module))


def test_numbers_hold_in_fractions():
    assert false_numbers(_proof) == 0


@pytest.mark.parametrize(("term", "instead"), [
    ("return self.v - self.e - 2 * U * (np.abs(self.v) + self.e)", "return self.v - self.e"),
    ("return self.v + self.e + 2 * U * (np.abs(self.v) + self.e)", "return self.v + self.e"),
    ("np.asarray(e, dtype=np.float64) * SLACK", "np.asarray(e, dtype=np.float64)"),
    ("self.e + other.e + U * np.abs(v)", "self.e + other.e"),
    ("self.e + other.e + U", "other.e + U"),
    ("self.e + other.e + U", "self.e + U"),
    ("self.e * (np.abs(other.v) + other.e) + ", ""),
    ("self.e * (np.abs(other.v) + other.e)", "self.e * np.abs(other.v)"),
    ("np.abs(self.v) * other.e + ", ""),
    (" + U * np.abs(v) + UNDERFLOW)", " + UNDERFLOW)"),
    (" + U * np.abs(v) + UNDERFLOW)", " + U * np.abs(v))"),
    ("self.e.sum() + self.v.size", "self.v.size"),
    (" + self.v.size * U * np.abs(self.v).sum()", ""),
    ("Near(part(self.v), self.e)", "Near(part(self.v))"),
    ("lost + (X.shape[1]", "(X.shape[1]"),
    (" + (X.shape[1] + 2) * U * size", ""),
    (" + X.shape[1] * UNDERFLOW", ""),
    ("(X.shape[0] + 8) * U * size + ", ""),
    (" + X.shape[0] * UNDERFLOW", ""),
    ("range(0, X.shape[0], CHUNK)])", "range(-1, X.shape[0], CHUNK)])"),
    ("range(0, X.shape[0], CHUNK)),", "range(-1, X.shape[0], CHUNK)),"),
    ("U * np.abs(v) + len(a) * UNDERFLOW", "U * np.abs(v)"),
    (", *lost.tolist()", ""),
])
def test_each_term_of_a_number_is_needed(term, instead):
    assert false_numbers(without(_proof, term, instead)) > 0


# hyperplanes: the objective, in fractions, at one that is optimal but for rounding, is between the bounds


def objective(X, y, c, w, b, power=1, moved=0):
    """The objective in fractions; ``moved`` is what the worst moves add to each slack."""
    X, c, w, b = exact(X), exact(c), exact(w), Fraction(b)
    losses = [max(0, 1 - int(t) * (row @ w + b) + more) ** power
              for row, t, more in zip(X, y, np.broadcast_to(moved, len(y)), strict=True)]
    return w @ w / 2 + sum(weight * loss for weight, loss in zip(c, losses, strict=True))


def lines():
    """Yield rows in one column and an optimal hyperplane with multipliers, of which one is moved off their sum.

    A row without multiplier moves the mean, from which the bound is counted: b is then far from 0.
    """
    X, y, c = np.array([1.0, -1.0, 0.0]), np.array([1.0, -1.0, 1.0]), np.ones(3)
    for far, off in ((3.0, 1e-3), (300.0, 1e-3), (300.0, 5e-3), (30.0, 1e-7)):
        X[2] = far
        yield X[:, None].copy(), y, c, np.array([0.5 + off, 0.5, 0.0]), np.ones(1), 0.0, False
    # squares: row 0, at the mean, is on the wrong side of 5 by 5, so that its multiplier is 12 c
    X, y = np.array([0.0, 5.5, 4.5, -10.0]), np.array([1.0, 1.0, -1.0, -1.0])
    loss = np.array([6.0, 0.5, 0.5, 1.0])
    a = np.array([1.0, 10.0, 11.0, 0.0])
    w = float(a @ (y * X))
    loss = 1 - y * (w * (X - 5.0))
    c = np.where(a > 0, a / (2 * np.abs(loss)), 1.0)
    for change in (-1e-3, 1e-3):
        wrong = a.copy()
        wrong[1] += change
        yield X[:, None], y, c, wrong, np.array([w]), -5.0 * w, True


def false_planes(module):
    found = 0
    for X, y, c, a, w, b, squared in lines():
        above, below = module.LinearProblem(X, y, c, squared).proven(w, b, a)
        truth = objective(X, y, c, w, b, 2 if squared else 1)
        found += not (below == -np.inf or Fraction(below) <= truth) or truth > Fraction(above)
    rng = np.random.default_rng(0)
    for _ in range(30):  # far rows, of which the sums of products are rounded
        X, y, c = rng.normal(size=(4, 3)) + 1e7, np.tile([1.0, -1.0], 2), rng.uniform(0.5, 3, 4)
        w, a = rng.normal(size=3), np.repeat(rng.random(2), 2) * 0.5
        b = -float(X[0] @ w)
        above, below = module.LinearProblem(X, y, c).proven(w, b, a)
        v = exact(X).T @ exact(y * a)
        found += objective(X, y, c, w, b) > Fraction(above) or Fraction(below) > sum(exact(a)) - v @ v / 2
    return found


def test_bounds_of_hyperplanes_hold_in_fractions():
    assert false_planes(linear) == 0


@pytest.mark.parametrize(("term", "instead"), [
    (" - (self._fall(Z, a, v) if self.intercept else 0.0)", ""),
    ("SLACK * (abs(excess) * slope + 0.5", "SLACK * (0.5"),
    (" + 0.5 * excess**2 * bend", ""),
    ("slope = float(np.abs(self.margin).max()) + float", "slope = float"),
    ("float(np.abs([along.high, along.low]).max())", "0.0"),
    ("float(primal.high), float(dual.low) -", "float(primal.v), float(dual.low) -"),
    ("float(dual.low) -", "float(dual.v) -"),
])
def test_each_term_of_a_hyperplane_is_needed(term, instead):
    assert false_planes(without(linear, term, instead)) > 0


# hyperplanes against moved rows


def root(square):
    """The square root of a fraction to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction((Decimal(square.numerator) / Decimal(square.denominator)).sqrt())


def longest(w, norm):
    """The dual norm of exact w: what a move of length 1 changes at most."""
    size = np.abs(w)
    return {"linf": sum(size), "l2": root(w @ w), "l1": max(size)}[norm]


def balls():
    """Yield an optimal hyperplane of rows in one column, moved in a ball, with multipliers off their sum.

    At 2 and -2 moved by 1 they are at 1 and -1; a third one without multiplier moves the mean.
    """
    y, c = np.array([1.0, -1.0, 1.0]), np.ones(3)
    for norm, (far, off) in itertools.product(("linf", "l2", "l1"), ((6.0, 1e-3), (600.0, 1e-3), (600.0, 1e-2))):
        X = np.array([[2.0], [-2.0], [far]])
        yield X, y, c, np.ones(1), 0.0, np.array([0.5 + off, 0.5, 0.0]), attacked.BallMoves(1.0, norm)
    eps = 1.0  # moves of 1 in each of 9 columns: the row at the mean moves by 3
    X = np.zeros((3, 9))
    X[0], X[1], X[2] = 1 + 1 / 9, -1 - 1 / 9, 3 * 2 / 9 - 0.0
    yield X, y, c, np.ones(9), 0.0, np.array([0.5, 0.5, 0.0]), attacked.BallMoves(eps, "linf")
    rng = np.random.default_rng(0)
    radii = (("linf", 1.0), ("l2", 1.0), ("l1", 1.0), ("linf", rng.random(9)))
    for (norm, each), _ in itertools.product(radii, range(30)):
        w = 1e-6 * rng.random(9)
        moves = attacked.BallMoves(1e12 * each, norm)  # what moves add cancels with b
        size = float(longest(exact(w) * exact(moves.eps), norm))
        yield np.zeros((3, 9)), np.ones(3), c, w, size + 0.5, np.zeros(3), moves


def box_objective(X, y, c, w, b, moves):
    """The objective in fractions against moves towards the ends of a box."""
    X, w, low, high, share = exact(X), exact(w), exact(moves.low), exact(moves.high), Fraction(moves.share)
    total = w @ w / 2
    for row, t, weight in zip(X, y, exact(c)):
        part = share * (t > 0 or moves.both)
        worst = [part * min(t * z * (lo - x), t * z * (hi - x)) for x, z, lo, hi in zip(row, w, low, high)]
        total += weight * max(0, 1 - int(t) * (row @ w + Fraction(b)) - sum(worst))
    return total


def boxes():
    """Yield optimal hyperplanes of rows at 3 and -3 that move towards the ends of a box: to 1 and -1."""
    y, c = np.array([1.0, -1.0, 1.0]), np.ones(3)
    for far, off, end in itertools.product((3.0, 9.0, 1500.0), (1e-3, 1e-2), (3.0, 197.0, 997.0)):
        X = np.array([[3.0], [-3.0], [far]])
        moves = attacked.BoxMoves(np.array([-end]), np.array([end]), 2 / (3 + end), True)
        yield X, y, c, np.ones(1), 0.0, np.array([0.5 + off, 0.5, 0.0]), moves
    rng = np.random.default_rng(0)
    for _ in range(40):  # far boxes, of which the sums of products are rounded
        low = 1e12 * rng.normal(size=5)
        moves = attacked.BoxMoves(low, low + 1e12 * rng.random(5), float(rng.random()), bool(rng.random() < 0.5))
        X, w = rng.normal(size=(3, 5)), 1e-6 * rng.normal(size=5)
        shares = moves.rest(w, np.ones(3)).v
        yield X, y, c, w, float(-shares[0] + 0.5), np.zeros(3), moves


def false_attacked(module):
    found = 0
    for X, y, c, w, b, a, moves in [*balls(), *boxes()]:
        made = getattr(module, type(moves).__name__)(**vars(moves))
        above, below = module.attacked_bounds(X, y, c, w, b, a, made)
        if hasattr(moves, "norm"):
            truth = objective(X, y, c, w, b, moved=longest(exact(w) * exact(moves.eps), moves.norm))
        else:
            truth = box_objective(X, y, c, w, b, moves)
        found += truth > Fraction(above) or (below > -np.inf and Fraction(below) > truth)
    return found


def test_bounds_against_moves_hold_in_fractions():
    assert false_attacked(attacked) == 0


@pytest.mark.parametrize(("term", "instead"), [
    ("(len(w) + 4) * U * lost", "0.0"),
    ("max(float(of_positive.e), float(of_negative.e))", "0.0"),
    ("return float(primal.high), float(dual.low) -", "return float(primal.v), float(dual.low) -"),
    (" - SLACK * fall", ""),
    ("abs(excess) * (1 + math.sqrt(max(0.0, float(square.high))) * length) + ", ""),
    ("(1 + math.sqrt(", "(math.sqrt("),
    ("(1 + math.sqrt(max(0.0, float(square.high))) * length)", "1"),
    (" + 0.5 * (excess * length) ** 2", ""),
    ("size + float(np.linalg.norm(self.eps * np.ones(len(centre) if self.norm == \"linf\" else 1)))", "size"),
    ("return size + float(np.linalg.norm(self.eps", "return float(np.linalg.norm(self.eps"),
    ("2 * (size + self.share", "2 * (self.share"),
    (" + self.share * float(np.linalg.norm(ends))", ""),
])
def test_each_term_of_a_bound_against_moves_is_needed(term, instead):
    assert false_attacked(without(attacked, term, instead)) > 0
