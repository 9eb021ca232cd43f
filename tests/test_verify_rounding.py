"""The bounds of errors in the verifier: each is its law, computed here by exact fractions, and holds the exact number.

An entry is neither narrower than its law, which would prove what is false, nor wider, which would prove less.
"""

import hashlib
import json
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from buttress.verify.balls import BELOW, inside
from buttress.verify.core import TINY, WIDER, Real, U, agreed, inverse, plain, read_model, same, table, unit, within
from buttress.verify.gaps import LossProgram, balanced, objectives

LONG = np.longdouble
CLOSE = 1e-9  # of laws: far more than their own rounding, far less than any one term


def law(found, expected):
    np.testing.assert_allclose(np.asarray(found, float), WIDER * np.asarray(expected, float), rtol=CLOSE, atol=0)


def test_a_rounding_is_half_of_what_follows_1():
    assert 1 + U == 1 < 1 + 2 * U == np.nextafter(1, 2)
    assert unit(np.ones(1)) == U
    assert unit(np.ones(1, LONG)) == np.finfo(LONG).eps / 2
    assert 1 < WIDER < 1.1  # an error of errors is far below a hundredth, and no proof needs more
    assert 4e7 < TINY / np.finfo(float).tiny < 5e7  # so many products may be flushed to 0


def test_ends_hold_what_is_known_and_no_float_more():
    for v, e in ((3.0, 0.25), (-3.0, 0.25), (1.0, 1e-17), (-1.0, 1e-17), (0.0, 0.0)):
        found = Real(v, e / WIDER)
        low, high = Fraction(v) - Fraction(float(found.e)), Fraction(v) + Fraction(float(found.e))
        assert low >= Fraction(float(found.low)) >= Fraction(np.nextafter(float(low), -np.inf)) - Fraction(U) * abs(low)
        assert high <= Fraction(float(found.high)) <= Fraction(np.nextafter(float(high), 9)) + Fraction(U) * abs(high)
    law(Real(1.0, 0.25).e, 0.25)
    assert Real(Real(1.0, 0.25)).e == Real(1.0, 0.25).e


A, B = Real(3.0, 0.5), Real([-7.0, 0.0], [0.125, 0.25])


def test_the_errors_of_sums_and_products_are_their_laws():
    law((A + B).e, A.e + B.e + U * np.array([4.0, 3.0]))
    law((A - B).e, A.e + WIDER * B.e + U * np.array([10.0, 3.0]))
    law((A * B).e, A.e * (np.array([7.0, 0.0]) + B.e) + 3 * B.e + U * np.array([21.0, 0.0]))
    law((B @ B).e, float(B.e @ (np.array([7.0, 0.0]) + B.e) + 7 * B.e[0] + 2 * U * 7 * (7 + B.e[0])))
    law((-B).e, B.e)
    for found, exact in ((A + B, [-4, 3]), (A - B, [10, 3]), (A * B, [-21, 0]), (B @ B, 49), (-B, [7, 0])):
        np.testing.assert_array_equal(found.v, exact)


def test_roundings_alone_are_their_laws():
    one, row = Real(3.0), Real([3.0, 5.0, 0.0])
    law((one + 4.0).e, 7 * U)
    law((one * 4.0).e, 12 * U)
    law((row @ np.array([2.0, 1.0, 9.0])).e, 3 * U * 11)
    law((Real(np.eye(3)[:2]) @ np.arange(3.0)).e, 3 * U * np.arange(2.0) + TINY)
    law((one * 0.0).e, TINY)
    law((row @ np.zeros(3)).e, TINY)
    law(inverse(Real(4.0)).e, U / 4)
    law(inverse(Real(4.0, 1.0)).e, WIDER / (4 * (4 - WIDER)))
    law((Real(LONG(3)) + LONG(4)).e, 7 * np.finfo(LONG).eps / 2)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_products_that_cancel_hold_the_exact_ones(n):
    rng = np.random.default_rng(n)
    for _ in range(40):
        a, b = rng.normal(size=(2, n)) * 10.0 ** rng.integers(-9, 9, (2, n))
        off = 10.0 ** rng.integers(-20, 0, 2) * abs(rng.normal(size=2))
        real = [[Fraction(x) + Fraction(float(o)) * Fraction(s) for x, s in zip(part, rng.choice([-1.0, 1.0], n))]
                for part, o in zip((a, b), off)]
        found = Real(a, off[0]) @ Real(b, off[1])
        exact = sum(x * y for x, y in zip(*real))
        assert Fraction(float(found.low)) <= exact <= Fraction(float(found.high))
        found = (Real(a[:1], off[0]) - Real(b[:1], off[1])) * 0.1
        exact = (real[0][0] - real[1][0]) * Fraction(0.1)
        assert Fraction(float(found.low[0])) <= exact <= Fraction(float(found.high[0]))
        found, exact = inverse(Real(abs(a[0]) + 2, off[0])), 1 / (Fraction(abs(a[0]) + 2) + Fraction(float(off[0])))
        assert Fraction(float(found.low)) <= exact <= Fraction(float(found.high))


def test_claims_hold_to_their_ends():
    assert same((1, 1), ([2.0], np.array([2.0]))) == [("parts of the file and rows of the data agree", 1.0, 1.0, True)]
    assert same((1, 1), (2, 3))[0][2:] == (0.0, False)
    assert agreed("both", True) == ("both", 1.0, 1.0, True)
    for value, proven, holds in ((2.0, 3.0, False), (2.5, 3.0, True), (3.0, 3.0, True), (4.0, 3.0, True),
                                 (4.5, 3.0, True), (5.0, 3.0, False)):
        assert within("it", value, 3.0, 4.0, 0.5) == [("it", value, 4.0 if value < 3 else proven, holds)]
    with pytest.raises(ValueError, match="Got nan in row 1, column 0"):
        table([[0.0, 1.0], [math.nan, math.inf]])
    with pytest.raises(ValueError, match="of 1 dim"):
        table([1.0])


def test_stated_objectives_may_be_worse_than_proven_and_better_by_a_millionth():
    primal = SimpleNamespace(high=1e6, low=1e6 - 2)
    for name, edge, better in (("primal_objective_", 999_999.0, -1), ("dual_objective_", 999_995.0 + 1, 1),
                               ("dual_gap_", 6.0, -1)):
        honest = {"primal_objective_": [9e9, 1e6], "dual_objective_": [9e9, 999_995.0], "dual_gap_": [9e9, 7.0]}
        assert [claim.holds for claim in objectives("", honest, 1, primal, 3.0, 7.0)] == [True] * 3
        for move, count in ((0.0, 3), (0.25 * better, 2), (-5.0 * better, 3)):
            stated = {**honest, name: [9e9, edge + move]}
            assert sum(claim.holds for claim in objectives("", stated, 1, primal, 3.0, 7.0)) == count
    assert objectives(" 0", None, 0, primal, 3.0, 7.0) == [
        ("primal objective 0", 1e6, 1e6, True), ("dual objective 0", 999_995.0, 999_995.0, True),
        ("duality gap 0", 7.0, 7.0, True)]
    assert all(isinstance(claim.stated, float) for claim in objectives("", {key: value[1] for key, value in
               honest.items()}, 0, primal, 3.0, 7.0))


@pytest.mark.parametrize("n", [1, 2, 3, 50, 4096])
def test_a_balanced_point_sums_to_0_exactly_in_its_box_and_near(n):
    rng = np.random.default_rng(n)
    for b in (rng.normal(size=n), np.full(n, 1.999), -np.full(n, 1.999), np.zeros(n), rng.choice([-1.0, 1.0], n),
              rng.normal(size=n) * 10.0 ** rng.integers(-30, 1, n)):
        lo, hi = -rng.choice([0.0, 0.7, 2.0], n), rng.choice([0.0, 0.7, 2.0], n)
        found, kept = balanced(b, lo, hi), np.clip(b, lo, hi)
        assert sum(map(Fraction, found)) == 0
        assert ((found >= lo) & (found <= hi)).all()
        assert np.abs(found - kept).sum() <= abs(math.fsum(kept)) + 2 * n**2 * U * np.abs(kept).max() * 4
        assert (found * kept >= 0).all()
    full = np.full(n, 2.0)  # so large that sums of all their steps just fit into 64 bits
    assert (balanced(full - 1e-3, -full, full) == 0).all()
    assert (balanced(np.array([np.inf, -1.0]), np.array([-np.inf] * 2), np.array([np.inf] * 2)) == 0).all()


LOSSES = [  # r, lo, hi, l1, squared, and its loss
    (2.0, -3.0, 5.0, 0.5, False, 5 * 1.5), (-2.0, -3.0, 5.0, 0.5, False, 3 * 1.5), (0.25, -3.0, 5.0, 0.5, False, 0.0),
    (2.0, 0.0, 5.0, 0.0, True, 5 * 4.0), (-2.0, -3.0, 0.0, 0.0, True, 3 * 4.0), (-2.0, 0.0, 5.0, 0.0, True, 0.0),
]


@pytest.mark.parametrize(("r", "lo", "hi", "l1", "squared", "loss"), LOSSES)
def test_losses_and_the_gap_of_a_row_are_those_of_fenchel_and_young(r, lo, hi, l1, squared, loss):
    """Of a row without error the gap is loss - b r + l1 |b| (+ b^2 / 4 c); of an interval that of its worse end."""
    program = LossProgram(Real([r]), np.array([lo]), np.array([hi]), l1, squared)
    assert float(program.total().v) == pytest.approx(loss)
    assert program.total().e < 1e-12
    box = [float(end[0]) for end in program.box()]
    assert box == ([-math.inf if lo else 0.0, math.inf if hi else 0.0] if squared else [lo, hi])

    def gap(r, b):
        part = (hi * max(0, r - l1) ** (1 + squared) - lo * max(0, -r - l1) ** (1 + squared))
        return part - b * r + l1 * abs(b) + (b**2 / (4 * (hi - lo)) if squared else 0)

    for b in (lo, hi, lo / 3, hi / 3, hi / 7):
        assert program.gap(np.array([b])) == pytest.approx(gap(r, b), rel=1e-12, abs=1e-12)
        assert Fraction(program.gap(np.array([b]))) >= 0
        wide = LossProgram(Real([r], 0.75 / WIDER), program.lo, program.hi, l1, squared)
        worse = max(gap(r - 0.75, b), gap(r + 0.75, b))
        assert worse <= wide.gap(np.array([b])) <= worse + 1e-12
    nothing = LossProgram(Real([r, r]), np.array([lo, 0.0]), np.array([hi, 0.0]), l1, squared)
    assert nothing.gap(np.array([hi, 0.0])) == pytest.approx(gap(r, hi), rel=1e-12, abs=1e-12)


def test_a_point_inside_a_box_is_below_its_sides_and_its_sum_below_1():
    rng = np.random.default_rng(0)
    assert 1 - 5 * U < BELOW < 1 - 3 * U
    for n in (1, 3, 40):
        for _ in range(30):
            hi = rng.random(n) + 1 / n
            found = inside(rng.random(n) - 0.2, hi)
            assert ((found >= 0) & (found <= hi * BELOW)).all()
            assert sum(map(Fraction, found)) <= 1
        b = inside(np.full(n, 0.5 / n), hi)
        assert (b == 0.5 / n).all()
        b = inside(np.full(n, 9.0), np.full(n, 9.0))
        assert 1 - 8 * U <= sum(map(Fraction, b)) <= 1


def written(path, model, arrays, *, signed=False, describe=lambda entry: entry, more=b""):
    """Write a model file of format 4 by docs/models.md: mark, format, header, arrays, a signature, SHA-256."""
    held = [{"dtype": array.dtype.str, "shape": list(array.shape), **axes} for array, axes in arrays]
    header = json.dumps({"model": model, "arrays": [describe(entry) for entry in held], "signed": signed}).encode()
    content = b"BUTTRESS" + bytes([4, 0, 0, 0]) + len(header).to_bytes(8, "little") + header
    content += b"".join(array.transpose(axes.get("axes", range(array.ndim))).tobytes() for array, axes in arrays)
    content += bytes(32 * signed) + more
    path.write_bytes(content + hashlib.sha256(content).digest())
    return path


@pytest.mark.parametrize("signed", [False, True])
def test_a_model_file_is_read_to_its_last_byte(signed, tmp_path):
    arrays = [(np.arange(6.0).reshape(2, 3), {"axes": [1, 0]}), (np.empty((0, 2)), {}), (np.arange(3), {})]
    model = {"class": "It", "state": {"a": {"array": 0}, "b": {"array": 1}, "c": {"scalar": 2}, "pad": "x" * 300,
                                      "pair": {"dict": [["k"], [{"tuple": [1, {"float": "inf"}]}]]}}}
    model["state"]["c"] = {"array": 2}
    found = read_model(written(tmp_path / "model", model, arrays, signed=signed))
    np.testing.assert_array_equal(found["a"], arrays[0][0])
    assert found["b"].shape == (0, 2)
    assert found["c"].tolist() == [0, 1, 2]
    assert found["pair"] == {"k": [1, math.inf]}
    for more in (b"0", bytes(32), bytes(64)):
        with pytest.raises(ValueError, match="bytes that belong to no array"):
            read_model(written(tmp_path / "model", model, arrays, signed=signed, more=more))
    for wrong in ({"shape": [-1, -6]}, {"axes": [0, 0]}, {"more": 1}):
        with pytest.raises(ValueError, match="an array that there cannot be"):
            read_model(written(tmp_path / "model", model, arrays, signed=signed,
                               describe=lambda entry, wrong=wrong: entry | wrong))
    content = bytearray(written(tmp_path / "model", model, arrays, signed=signed).read_bytes())
    for place in (0, 8, 15, 40, len(content) - 33, len(content) - 1):
        other = bytearray(content)
        other[place] ^= 1
        (tmp_path / "other").write_bytes(other)
        with pytest.raises(ValueError, match="was changed"):
            read_model(tmp_path / "other")
    for place in (0, 8):  # another mark, another format
        other = bytearray(content[:-32])
        other[place] += 1
        (tmp_path / "other").write_bytes(other + hashlib.sha256(other).digest())
        with pytest.raises(ValueError, match="no model file of format 4"):
            read_model(tmp_path / "other")


def test_parts_of_two_keys_are_those_that_are_known():
    assert plain({"objects": [1, {"float": "2"}], "shape": [2]}, []) == [1, 2.0]
    assert plain({"column": 0, "numpy": "int"}, [np.arange(2)]) == [0, 1]
    assert plain({"records": 1, "columns": 2}, []) == {"records": 1, "columns": 2}
    for part in ({"array": 0, "scalar": 0}, {"objects": [], "shape": [], "float": "1"}):
        with pytest.raises(ValueError, match="two kinds"):
            plain(part, [np.zeros(1)])
