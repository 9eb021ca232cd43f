"""Changes of what a file says, with a right checksum around it and, mostly, a right budget: what an attacker does."""

import copy
import hashlib
import json
import re
import struct
from contextlib import suppress

PREFIX = struct.Struct("<8sIQ")
VERSION = 4
HOSTILE = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**400, -(10**9), 0.5, 1e308, "", "os:system", "array", "nan", "\ud800",
    "x" * 300,
    [], {}, [[]], {"array": 0}, {"array": -1}, {"array": 10**9}, {"scalar": 0}, {"float": "nan"}, {"float": "-inf"},
    {"tuple": []}, {"dict": []}, {"dict": [[0, 0], [0, 1]]}, {"dict": [["a"], {"column": 0, "numpy": True}]},
    {"objects": [1, 2], "shape": [2, 10**9]},
    {"slice": [0, 1, 2]}, {"dtype": "<f8"}, {"dtype": "O"}, {"type": "<M8"}, {"named": "numpy.exp"},
    {"named": "os.system"}, {"named": "object"}, {"bunch": []}, {"column": 0, "numpy": False}, {"column": 0},
    {"records": ["a"], "columns": [{"column": 0, "numpy": False}]}, {"records": [], "columns": []},
    {"spline": [0, 0, 0, 0, 0]},
    {"random_state": {"tuple": ["MT19937", {"array": 0}, 700, 0, 0.0]}}, {"csr_matrix": [1, 2, 3], "shape": [2, 2]},
    {"class": "RBF", "state": {"gamma": 0.5}}, {"class": "Precomputed", "state": {}},
    {"class": "Combination", "state": {"kernels": [], "weights": []}}, {"class": "SVC", "state": {}},
    {"class": "sklearn.StandardScaler", "state": {}}, {"class": "subprocess:Popen", "state": {}},
)
DTYPES = ("<f8", "<f4", "<i8", "<i4", "<u1", "|b1", "<U1", "<U0", "<c16", "|O", "<M8[s]", ">f8", "<f2", "V8",
          "<U999999999")


def forged(content, rng):
    """Return a file with one to three changed parts, sealed again."""
    _, version, length = PREFIX.unpack_from(content)
    header = json.loads(content[PREFIX.size :][:length])
    data = bytearray(content[PREFIX.size + length : -32])
    for _ in range(rng.integers(1, 4)):
        with suppress(LookupError, TypeError, AttributeError, ValueError):  # an earlier change took the place away
            _change(header, data, rng)
    return sealed(header, bytes(data), version if rng.random() < 0.95 else 2, honest=rng.random() < 0.9)


def _change(header, data, rng):
    kind = rng.integers(10)
    if kind < 5:
        _change_part(header["model"], rng)
    elif kind < 7 and header["arrays"]:
        _change_array(header["arrays"], rng)
    elif kind < 9 and data:
        _change_entries(data, rng)
    else:
        _change_part(header, rng)


def sealed(header, data, version=VERSION, *, honest=True):
    """Return a file of this header and data with a right checksum; an honest one states what it has."""
    if honest and isinstance(header, dict) and {"nodes", "array_bytes"} <= header.keys():
        header["array_bytes"] = len(data)
        text = json.dumps(header)
        header["nodes"] = len(re.findall(r"[\[{,]", text))
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = PREFIX.pack(b"BUTTRESS", version, len(text)) + text + data
    return body + hashlib.sha256(body).digest()


def places(part, found):
    """Return every (container, key) in a JSON value."""
    if isinstance(part, dict | list):
        for key in list(part) if isinstance(part, dict) else range(len(part)):
            found.append((part, key))
            places(part[key], found)
    return found


def _change_part(root, rng):
    found = places(root, [])
    if not found:
        return
    part, key = found[rng.integers(len(found))]
    kind = rng.integers(6)
    if kind == 0:
        del part[key]
    elif kind == 1:
        other, name = found[rng.integers(len(found))]
        part[key] = copy.deepcopy(other[name])
    elif kind == 2 and isinstance(part, dict):
        part[("predict", "__class__", "n_features_in_", "a b", "coef_")[rng.integers(5)]] = part.pop(key)
    elif kind == 3 and isinstance(part[key], int | float) and not isinstance(part[key], bool):
        part[key] = part[key] * (-1, 2, 10**6, 10**30)[rng.integers(4)] + (0, 1)[rng.integers(2)]
    else:
        part[key] = copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])


def _change_array(arrays, rng):
    entry = arrays[rng.integers(len(arrays))]
    kind = rng.integers(6)
    if kind == 0:
        entry["dtype"] = DTYPES[rng.integers(len(DTYPES))]
    elif kind == 1:
        entry["shape"] = entry["shape"][::-1]
    elif kind == 2:
        entry["shape"] = [int(n) for n in rng.integers(-1, 2**40, rng.integers(4))]
    elif kind < 5:
        entry["axes"] = [int(n) for n in rng.integers(-2, 3, rng.integers(4))]
    else:
        arrays.append(dict(entry))


def _change_entries(data, rng):
    """Put infinities, no numbers, huge or negative ones in the place of some entries of eight bytes."""
    for _ in range(rng.integers(1, 5)):
        start = 8 * int(rng.integers(max(1, len(data) // 8)))
        entry = (struct.pack("<d", float("nan")), struct.pack("<d", float("-inf")), struct.pack("<d", 1e300),
                 struct.pack("<q", -1), struct.pack("<q", 2**40), rng.bytes(8))[rng.integers(6)]
        data[start : start + 8] = entry[: len(data) - start]
