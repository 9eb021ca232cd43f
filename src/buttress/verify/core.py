"""The core of every proof: numbers with bounds of their errors, the reader of model files, and the gap.

Every number is a value with a bound of its error (Near): a sum of n terms errs by n roundings, numpy's exp, log and
powers by 8 units. So upper bounds of primal objectives and lower bounds of dual ones hold for the real numbers.
"""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

U = 2.0**-53  # one rounding
WIDER = 1.01  # bounds of errors are multiplied by this, for their own rounding
ROUNDED = 1e-6  # share of the objective by which a stated number may be off: it was not bounded when it was written
Array = np.ndarray[Any, Any]
Model = dict[str, Any]
Columns = dict[str, list[str]]


class Claim(NamedTuple):
    """What is claimed, the number stated, what was proven, and whether that is enough."""

    name: str
    stated: float
    proven: float
    holds: bool


class Near:
    """Values v, float64 or longer, and bounds e of their errors: the real numbers lie between low and high."""

    def __init__(self, v: Any, e: Any = 0.0):
        v, e = (v.v, v.e) if isinstance(v, Near) else (v, np.asarray(e) * WIDER)
        self.v: Array = np.asarray(v, dtype=np.result_type(np.asarray(v).dtype, float))
        self.e: Array = np.broadcast_to(e, self.v.shape)

    @property
    def low(self) -> Array:
        return self.v - self.e - unit(self.v) * np.abs(self.v)

    @property
    def high(self) -> Array:
        return self.v + self.e + unit(self.v) * np.abs(self.v)

    def __add__(self, other: Any) -> "Near":
        other = Near(other)
        v = self.v + other.v
        return Near(v, self.e + other.e + unit(v) * np.abs(v))

    def __mul__(self, other: Any) -> "Near":
        v, e = Near(other).v, Near(other).e
        product = self.v * v
        rounding = unit(product) * np.abs(product) + 1e-300
        return Near(product, self.e * (np.abs(v) + e) + np.abs(self.v) * e + rounding)

    def __matmul__(self, other: Any) -> "Near":
        v, e = Near(other).v, Near(other).e
        product, size = self.v @ v, np.abs(v) + e
        rounding = (self.v.shape[-1] + 2) * unit(product) * (np.abs(self.v) @ size) + 1e-300
        return Near(product, self.e @ size + (np.abs(self.v) @ e if e.any() else 0.0) + rounding)

    def each(self, part: Callable[[Array], Array]) -> "Near":
        return Near(part(self.v), part(self.e))


def unit(values: Array) -> float:
    """Return one rounding of a sum or product of these numbers, as a share of it."""
    return U if values.dtype == np.float64 else float(np.finfo(values.dtype).eps) / 2


def plus(values: Array) -> Array:
    return np.maximum(values, 0)


def table(X: Any, name: str = "X") -> Array:
    """Return rows (n, d) in float64; ValueError where they are no table, or a number of it is missing or infinite."""
    rows = np.asarray(X, float)
    if rows.ndim != 2:
        raise ValueError(f"{name} must be rows of numbers, an array of shape (n, d). Got {type(X).__name__} of "
                         f"{rows.ndim} dimensions. Give all rows of the data.")
    for i, j in np.argwhere(~np.isfinite(rows))[:1]:
        raise ValueError(f"{name} must be finite. Got {rows[i, j]} in row {i}, column {j}. Fill it in or drop the row, "
                         "as was done for the fit.")
    return rows


def read_model(path: Any) -> Model:
    """Return the model of a file of format 4: dicts with "class" and attributes, lists, arrays, numbers and text.

    ValueError for a file that could be read in another way: keys that stand twice, objects of two kinds, bytes that
    belong to no array.
    """
    content = np.fromfile(path, np.uint8).tobytes()
    if hashlib.sha256(content[:-32]).digest() != content[-32:] or content[:8] != b"BUTTRESS" or content[8] != 4:
        raise ValueError(f"{path} is no model file of format 4, or was changed: its SHA-256 is wrong.")
    begin = 20 + int.from_bytes(content[12:20], "little")
    header = json.loads(content[20:begin], object_pairs_hook=single)
    arrays, place = [], begin
    for entry in header["arrays"]:
        shape, axes = entry["shape"], entry.get("axes", list(range(len(entry["shape"]))))
        if sorted(axes) != list(range(len(shape))) or min(shape, default=0) < 0 or not set(entry) <= ARRAY:
            raise ValueError(f"{path} describes an array that there cannot be.")
        flat = np.frombuffer(content, entry["dtype"], math.prod(shape), place)
        arrays.append(flat.reshape([shape[axis] for axis in axes]).transpose(np.argsort(axes)))
        place += flat.nbytes
    if place + 32 * (1 + header["signed"]) != len(content):
        raise ValueError(f"{path} has bytes that belong to no array.")
    return dict(plain(header["model"], arrays))


ARRAY = {"dtype", "shape", "axes"}  # keys of what describes an array
PAIRS = ({"objects", "shape"}, {"csr_array", "shape"}, {"csr_matrix", "shape"}, {"records", "columns"},
         {"column", "numpy"})  # of what has two keys


def single(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; ValueError where a key stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("The file has an object in which a key stands twice.")
    return found


def plain(part: Any, arrays: Sequence[Array]) -> Any:
    """Return the value of a part of a file; what no proof reads stays as it is written."""
    if isinstance(part, list):
        return [plain(entry, arrays) for entry in part]
    if not isinstance(part, dict):
        return part
    if "class" in part and part.keys() == {"class", "state"}:
        return {"class": part["class"], **{key: plain(held, arrays) for key, held in part["state"].items()}}
    if len(part) > 1:
        if part.keys() in PAIRS:
            return plain(part["objects"], arrays) if "objects" in part else list(
                numbered(part["column"], arrays)) if "column" in part else part
        raise ValueError(f"The file has an object of two kinds: {sorted(part)}.")
    ((kind, held),) = part.items()
    readers: dict[str, Callable[[], Any]] = {
        "array": lambda: numbered(held, arrays), "scalar": lambda: numbered(held, arrays)[()],
        "float": lambda: float(held), "tuple": lambda: plain(held, arrays),
        "dict": lambda: single(list(zip(*(plain(half, arrays) for half in held), strict=True)))}
    return readers[kind]() if kind in readers else part


def numbered(i: Any, arrays: Sequence[Array]) -> Array:
    """Return the i-th array; ValueError where there is none."""
    if not (type(i) is int and 0 <= i < len(arrays)):
        raise ValueError("The file names an array that there is not.")
    return arrays[i]


def only(part: Model, names: str) -> None:
    """Raise ValueError where an object has an attribute that no proof knows: it may change what is predicted."""
    unknown = part.keys() - set(names.split()) - {"class"}
    if unknown:
        raise ValueError(f"{part['class']} has attributes that no proof knows: {', '.join(sorted(unknown))}.")


def same(*pairs: tuple[Any, Any]) -> list[Claim]:
    """Return the claim that the copies of numbers in a file, and the rows of the data, agree."""
    agree = all(np.array_equal(a, b) for a, b in pairs)
    return [Claim("parts of the file and rows of the data agree", 1.0, float(agree), agree)]


def within(name: str, value: float, low: Any, high: Any, room: float) -> list[Claim]:
    """Return the claim that a stated value lies in [low, high], which were proven, but for ``room``."""
    return [Claim(name, float(value), float(high if value < low else low), bool(low - room <= value <= high + room))]


def balanced(b: Array, lo: Array, hi: Array) -> Array:
    """Return the point nearest to b, nearly, that lies in the box and whose sum is exactly 0 (lo <= 0 <= hi).

    Its entries are whole multiples of a power of two, so few of them that their sums are exact.
    """
    b = np.clip(b, lo, hi)
    largest = np.abs(b).max(initial=0.0)
    if largest == 0 or not np.isfinite(largest):
        return np.zeros_like(b)
    bits = min(52, 62 - math.frexp(len(b))[1])
    step = 2.0 ** (math.frexp(largest)[1] - bits)
    steps = np.trunc(b / step).astype(np.int64)
    excess = int(steps.sum())
    heavy = np.flatnonzero(steps * np.sign(excess) > 0)
    order = heavy[np.argsort((b[heavy] == lo[heavy]) | (b[heavy] == hi[heavy]), kind="stable")]  # free ones first
    sizes = np.abs(steps[order])
    steps[order] -= np.sign(excess) * np.clip(abs(excess) - np.cumsum(sizes) + sizes, 0, sizes)
    return steps * step


class Losses(NamedTuple):
    """A program: residuals r, bounds lo <= 0 <= hi of its dual point, the width l1 and the power of the losses.

    Its losses are sum_i hi_i max(0, r_i - l1)^power - lo_i max(0, -r_i - l1)^power.
    """

    r: Near
    lo: Array
    hi: Array
    l1: float = 0.0
    squared: bool = False

    def each(self, r: Near) -> Near:
        above, below = ((part + -self.l1).each(plus) for part in (r, r * -1))
        above, below = (above * above, below * below) if self.squared else (above, below)
        return above * self.hi + below * -self.lo

    def total(self) -> Near:
        return self.each(self.r) @ np.ones(len(self.lo))

    def box(self) -> tuple[Array, Array]:
        """Return the bounds of a dual point: of squared losses it has none but its sign."""
        if not self.squared:
            return self.lo, self.hi
        return np.where(self.lo < 0, -np.inf, 0.0), np.where(self.hi > 0, np.inf, 0.0)

    def gap(self, b: Array) -> float:
        """Return an upper bound of sum_i loss_i(r_i) - b_i r_i + l1 |b_i| (+ b_i^2 / 4 c_i for squares).

        Each term is at least 0, the gap of its row (Fenchel and Young), and convex in r_i: it is largest at an end.
        """
        c = np.where(self.hi - self.lo > 0, self.hi - self.lo, 1.0)
        conjugate = Near(b) * self.l1 * np.sign(b)
        if self.squared:
            conjugate = conjugate + Near(b) * b * Near(0.25 / c, U / c)
        ends = [(self.each(Near(end)) + Near(end) * -b + conjugate).high for end in (self.r.low, self.r.high)]
        return float((Near(plus(np.maximum(*ends))) @ np.ones(len(b))).high)


def objectives(suffix: str, stated: Model | None, q: int, primal: Near, gap: float, most: float) -> list[Claim]:
    """Return the claims of problem q: the objective reached, a lower bound of the optimum, and a gap.

    Each is one-sided: what is stated may be worse than what is proven. Where nothing is stated it is what is proven.
    ``gap`` is that of the dual point, ``most`` the one that is claimed.
    """
    high, low = float(primal.high), float(primal.low) - gap
    proven = {"primal_objective_": high, "dual_objective_": low, "dual_gap_": most}
    value, bound, least = (float(np.atleast_1d((proven if stated is None else stated)[name])[q if stated else 0])
                           for name in proven)
    room = ROUNDED * abs(high)
    return [Claim(f"primal objective{suffix}", value, high, high <= value + room),
            Claim(f"dual objective{suffix}", bound, low, bound <= low + room),
            Claim(f"duality gap{suffix}", least, most, most <= least + room)]
