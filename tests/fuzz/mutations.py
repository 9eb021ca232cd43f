"""Changes of the bytes of a file that leave its checksum wrong: what disks, networks and editors do."""


def mutated(content, rng):
    """Return the bytes of a file with one to three random changes."""
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        start, stop = sorted(rng.integers(0, len(changed) + 1, 2).tolist())
        _CHANGES[rng.integers(len(_CHANGES))](changed, start, min(stop, start + 64), rng)
    return bytes(changed)


def _flip(content, start, stop, rng):
    if start < len(content):
        content[start] ^= 1 << int(rng.integers(8))


def _noise(content, start, stop, rng):
    content[start:stop] = rng.bytes(stop - start)


def _zeros(content, start, stop, rng):
    content[start:stop] = bytes(stop - start)


def _insert(content, start, stop, rng):
    content[start:start] = rng.bytes(stop - start)


def _delete(content, start, stop, rng):
    del content[start:stop]


def _repeat(content, start, stop, rng):
    content[start:start] = content[start:stop]


def _cut(content, start, stop, rng):
    del content[max(start, 1):]


_CHANGES = (_flip, _flip, _noise, _zeros, _insert, _delete, _repeat, _cut)
