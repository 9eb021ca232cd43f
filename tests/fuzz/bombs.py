"""Files that are small, or cheap to write, and would fill the memory or hold the processor if they were believed."""

import json

from .forgeries import PREFIX, sealed


def bombs(megabytes):
    """Yield (name, file) of about this many megabytes at most."""
    count = megabytes * 1_000_000
    eight = {"dtype": "<f8", "shape": [1], "start": 0}
    lists = "[" + "[]," * (count // 3) + "0]"
    yield "empty lists", _of_text(f'{{"model": {lists}, "arrays": []}}')
    dicts = "[" + "{}," * (count // 3) + "0]"
    yield "empty dicts", _of_text(f'{{"model": {dicts}, "arrays": []}}')
    texts = "[" + '"ab",' * (count // 5) + "0]"
    yield "short texts", _of_text(f'{{"model": {texts}, "arrays": []}}')
    yield "a long text of wide characters", _of_text(json.dumps({"model": "\U0001f600" + "a" * count, "arrays": []}))
    yield "a list in a list", _of_text('{"model": ' + "[" * (count // 2) + "]" * (count // 2) + ', "arrays": []}')
    yield "a long number", _of_text(f'{{"model": {"9" * count}, "arrays": []}}')
    entries = [{"dtype": "<f8", "shape": [count // 16], "start": 0}] * 20_000
    parts = [{"array": i} for i in range(20_000)]
    yield "many arrays over the same bytes", sealed({"model": parts, "arrays": entries}, bytes(count // 2))
    yield "one array in many places", sealed({"model": [{"array": 0}] * 20_000, "arrays": [eight]}, bytes(8))
    keys = [[k * (2**61 - 1), 0] for k in range(count // 30)]
    yield "keys of one hash", sealed({"model": {"dict": keys}, "arrays": []}, b"")
    apart = [[k << 45, 0] for k in range(count // 30)]
    yield "keys of one place", sealed({"model": {"dict": apart}, "arrays": []}, b"")
    words = {"numbered": [str(k) for k in range(count // 12)], "numbers": 0}
    numbers = {"dtype": "|u1", "shape": [count // 12], "start": 0}
    yield "a vocabulary", sealed({"model": words, "arrays": [numbers]}, bytes(count // 12))
    columns = [{"dtype": "<f2", "shape": [count // 8], "start": i * (count // 8) * 2} for i in range(4)]
    records = {"records": list("abcd"), "columns": [["float", i] for i in range(4)]}
    yield "records", sealed({"model": records, "arrays": columns}, bytes(count // 8 * 8))
    empty = {"dtype": "<U0", "shape": [10**12], "start": 0}
    yield "texts without characters", sealed({"model": {"array": 0}, "arrays": [empty]}, b"")
    yield "a stated header", PREFIX.pack(b"BUTTRESS", 2, 2**60) + bytes(count)


def _of_text(text):
    """Return a sealed file around a header given as text."""
    import hashlib

    raw = text.encode()
    body = PREFIX.pack(b"BUTTRESS", 2, len(raw)) + raw
    return body + hashlib.sha256(body).digest()
