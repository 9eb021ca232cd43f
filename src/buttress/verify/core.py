"""The core of every proof: numbers with bounds of their errors, claims, and the reader of model files.

Every number is a value with a bound of its error (Real): a sum of n products errs by n roundings of their sizes
(Higham 2002, section 3.1), in any order, and numpy's exp, log and powers by 8. So upper bounds of primal objectives and
lower bounds of dual ones hold for the real numbers.
"""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

U = float(np.finfo(float).eps) / 2  # one rounding
TINY = 1e-300  # bounds of errors are at least this where a product may be too small for relative roundings
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


class Real:
    """Values v, float64 or longer, and bounds e of their errors: the real numbers lie between low and high.

    ``e`` is taken WIDER times: what its own sum lost is far less. low and high are a float beyond what v and e say.
    """

    def __init__(self, v: Any, e: Any = 0.0):
        v, e = (v.v, v.e) if isinstance(v, Real) else (v, np.asarray(e) * WIDER)
        self.v: Array = np.asarray(v, dtype=np.result_type(np.asarray(v).dtype, float))
        self.e: Array = np.broadcast_to(e, self.v.shape)

    @property
    def low(self) -> Array:
        return np.nextafter(self.v - self.e, -np.inf)

    @property
    def high(self) -> Array:
        return np.nextafter(self.v + self.e, np.inf)

    def __add__(self, other: Any) -> "Real":
        other = Real(other)
        v = self.v + other.v
        return Real(v, self.e + other.e + unit(v) * np.abs(v))

    def __neg__(self) -> "Real":
        return Real(-self.v, self.e)

    def __sub__(self, other: Any) -> "Real":
        return self + -Real(other)

    def __mul__(self, other: Any) -> "Real":
        v, e = Real(other).v, Real(other).e
        product = self.v * v
        rounding = unit(product) * np.abs(product) + TINY
        return Real(product, self.e * (np.abs(v) + e) + np.abs(self.v) * e + rounding)

    def __matmul__(self, other: Any) -> "Real":
        v, e = Real(other).v, Real(other).e
        product, size = self.v @ v, np.abs(v) + e
        rounding = self.v.shape[-1] * unit(product) * (np.abs(self.v) @ size) + TINY
        return Real(product, self.e @ size + (np.abs(self.v) @ e if e.any() else 0.0) + rounding)

    def each(self, part: Callable[[Array], Array]) -> "Real":
        return Real(part(self.v), part(self.e))


def unit(values: Array) -> float:
    """Return one rounding of a sum or product of these numbers, as a share of it."""
    return float(np.finfo(values.dtype).eps) / 2


def inverse(values: Real) -> Real:
    """Return 1 / values, which are above 0."""
    v = 1 / values.v
    return Real(v, values.e / (values.low * values.v) + unit(v) * v)


def plus(values: Array) -> Array:
    return np.maximum(values, 0)


def table(X: Any, name: str = "X") -> Array:
    """Return rows (n, d) in float64; ValueError where they are no table, or a number of it is missing or infinite."""
    rows = np.asarray(X, float)
    if rows.ndim != 2:
        raise ValueError(f"{name} must be rows of numbers, an array of shape (n, d). Got {type(X).__name__} of "
                         f"{rows.ndim} dimensions. Give all rows of the data.")
    for i, j in np.argwhere(~np.isfinite(rows)):
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
        known = {"dtype", "shape", "axes"}
        if sorted(axes) != list(range(len(shape))) or min(shape, default=0) < 0 or not set(entry) <= known:
            raise ValueError(f"{path} describes an array that there cannot be.")
        flat = np.frombuffer(content, entry["dtype"], math.prod(shape), place)
        arrays.append(flat.reshape([shape[axis] for axis in axes]).transpose(np.argsort(axes)))
        place += flat.nbytes
    if place + 32 * (1 + header["signed"]) != len(content):
        raise ValueError(f"{path} has bytes that belong to no array.")
    return dict(plain(header["model"], arrays))


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
    return [agreed("parts of the file and rows of the data agree", agree)]


def agreed(name: str, holds: bool) -> Claim:
    """Return a claim that is 1 if it holds, else 0."""
    return Claim(name, 1.0, float(holds), holds)


def within(name: str, value: float, low: Any, high: Any, room: float) -> list[Claim]:
    """Return the claim that a stated value lies in [low, high], which were proven, but for ``room``."""
    return [Claim(name, float(value), float(high if value < low else low), bool(low - room <= value <= high + room))]
