"""Twelve kinds of joins that random schemas seldom have, each from a seed: what is joined in practice, in small."""

import numpy as np
import pandas as pd

from buttress.relational import Join, Table

ROWS = 14
BIG = 2**60  # neighbours of it are one 64-bit float


def _frame(rng, rows=ROWS, **keys):
    """Keys, one number, and one category for every second table."""
    made = {**keys, "x": rng.normal(size=rows).round(2)}
    if rng.random() < 0.5:
        made["c"] = rng.choice(["red", "it's", "green"], size=rows)
    return pd.DataFrame(made)


def _join(frames, on, names=None):
    frames[0]["y"] = np.arange(len(frames[0])) % 2
    tables = [Table(name, frame, features=[c for c in ("x", "c") if c in frame], label=None if i else "y")
              for i, (name, frame) in enumerate(zip(names or [f"t{i}" for i in range(len(frames))], frames))]
    return Join(tables, on)


def _zipf(rng, rows=ROWS):
    return np.minimum(rng.zipf(1.5, rows), 6)


def _few(rng, n=4, rows=ROWS):
    return rng.integers(0, n, rows)


def zipf_chain(rng):
    return _join([_frame(rng, a=_zipf(rng)), _frame(rng, a=_zipf(rng), b=_zipf(rng)), _frame(rng, b=_zipf(rng))],
                 [("t0.a", "t1.a"), ("t1.b", "t2.b")])


def zipf_star(rng):
    return _join([_frame(rng, a=_zipf(rng), b=_few(rng)), _frame(rng, a=_zipf(rng)), _frame(rng, b=_zipf(rng))],
                 [("t0.a", "t1.a"), ("t0.b", "t2.b")])


def left_of_left(rng):
    frames = [_frame(rng, a=_few(rng, 6)), _frame(rng, a=_few(rng, 8), b=_few(rng, 6)), _frame(rng, b=_few(rng, 8))]
    return _join(frames, [("t0.a", "t1.a", "left"), ("t1.b", "t2.b", "left")])


def left_beside_inner(rng):
    return _join([_frame(rng, a=_few(rng), b=_few(rng, 9)), _frame(rng, a=_few(rng)), _frame(rng, b=_few(rng, 9))],
                 [("t0.a", "t1.a"), ("t0.b", "t2.b", "left")])


def bridge(rng):
    """Rows of a and of b, many to many by a table that has no features."""
    frames = [_frame(rng, id=np.arange(ROWS)), pd.DataFrame({"a": _few(rng, ROWS), "b": _few(rng, ROWS)}),
              _frame(rng, id=np.arange(ROWS))]
    return _join(frames, [("t0.id", "t1.a"), ("t1.b", "t2.id")])


def shared_attribute(rng):
    """Three tables on one key, and a fourth on a key of two columns, one of them the same."""
    frames = [_frame(rng, a=_few(rng)), _frame(rng, a=_few(rng), b=_few(rng, 3)), _frame(rng, a=_few(rng)),
              _frame(rng, a=_few(rng), b=_few(rng, 3))]
    return _join(frames, [("t0.a", "t1.a"), ("t0.a", "t2.a"), ("t1.a", "t3.a"), ("t1.b", "t3.b")])


def self_join(rng):
    """A table with itself: other rows of the same key."""
    frame = _frame(rng, a=_few(rng))
    return _join([frame, frame], [("one.a", "two.a")], ["one", "two"])


def dates(rng):
    days = pd.Timestamp("2024-02-27") + pd.to_timedelta(np.arange(5), unit="D")
    times = pd.Series(days[_few(rng)]).mask(rng.random(ROWS) < 0.1)
    return _join([_frame(rng, a=times), _frame(rng, a=days[_few(rng, 5)])], [("t0.a", "t1.a")])


def big_keys(rng):
    """Whole numbers beyond 2^60 whose neighbours are told apart."""
    return _join([_frame(rng, a=BIG + _few(rng)), _frame(rng, a=BIG + _few(rng), b=-BIG - _few(rng)),
                  _frame(rng, b=-BIG - _few(rng))], [("t0.a", "t1.a"), ("t1.b", "t2.b")])


def composite(rng):
    """A key of a text and a number, NULL in places."""
    def text():
        found = rng.choice(["a", "A", "a b", ""], ROWS).astype(object)
        found[rng.random(ROWS) < 0.1] = None
        return found

    return _join([_frame(rng, a=text(), b=_few(rng, 3)), _frame(rng, a=text(), b=_few(rng, 3))],
                 [("t0.a", "t1.a"), ("t0.b", "t1.b")])


def snowflake(rng):
    frames = [_frame(rng, a=_few(rng), b=_few(rng)), _frame(rng, a=_few(rng), d=_few(rng, 3), e=_few(rng, 3)),
              _frame(rng, b=_few(rng)), _frame(rng, d=_few(rng, 3)),
              _frame(rng, e=_few(rng, 3))]
    return _join(frames, [("t0.a", "t1.a"), ("t0.b", "t2.b"), ("t1.d", "t3.d"), ("t1.e", "t4.e")])


def one_key_has_all(rng):
    """Skew at its worst: nearly all rows of two tables share one key."""
    def keys():
        return np.where(rng.random(ROWS) < 0.9, 7, _few(rng))

    return _join([_frame(rng, a=keys()), _frame(rng, a=keys())], [("t0.a", "t1.a")])


SHAPES = (zipf_chain, zipf_star, left_of_left, left_beside_inner, bridge, shared_attribute, self_join, dates, big_keys,
          composite, snowflake, one_key_has_all)
SEEDS = 3  # of each kind: 36 joins


def shaped(kind, seed):
    """The join of a kind and seed, or of the first seed from it on that has rows of both labels."""
    from relational_problems import materialise

    while True:
        join = kind(np.random.default_rng(seed))
        if materialise(join)[f"{join.tables[0].name}.y"].nunique() == 2:
            return join
        seed += 100
