"""Random schemas as SQL tables, and the database's own join of them: the oracle of the exactness tests."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from buttress.relational import Join, Table

NAMES = ["loan", "order", "a.b", "two words", 'q"t', "x"]
TEXTS = np.array(["red", "it's", "", "a,b"], dtype=object)
KINDS = ("int", "int", "text", "big", "date", "float")


@dataclass
class Schema:
    """A join of frames, and what SQL needs to make it: parents come first in ``order``."""

    join: Join
    order: list[str]

    def select(self, dialect, place):
        """The SELECT of all rows of the join; ``place`` gives each table's name in the database."""
        frames = {table.name: table for table in self.join.tables}
        pairs = [tuple((dialect.quote(t), dialect.quote(c)) for t, c in pair) for pair in self.pairs]
        columns, text = [], ""
        for n, name in enumerate(self.order):
            table = frames[name]
            used = dict.fromkeys([*table.features, *filter(None, (table.label, table.weights))])
            columns += [f"{dialect.quote(name)}.{dialect.quote(c)} AS {dialect.quote(f'{name}.{c}')}" for c in used]
            done = {dialect.quote(t) for t in self.order[: n + 1]}
            on = [f"{a}.{x} = {b}.{y}" for (a, x), (b, y) in pairs
                  if {a, b} <= done and dialect.quote(name) in (a, b)]
            how = f" {'LEFT ' if name in self.left else ''}JOIN " if n else ""
            text += f"{how}{dialect.table(place(name))} AS {dialect.quote(name)}"
            text += f" ON {' AND '.join(on)}" if n else ""
        return f"SELECT {', '.join(['1 AS one', *columns])} FROM {text}"

    @property
    def pairs(self):
        return [((self.join.tables[p.first[0]].name, p.first[1]), (self.join.tables[p.second[0]].name, p.second[1]))
                for p in self.join.check()]

    @property
    def left(self):
        return {self.join.tables[p.second[0]].name for p in self.join.check() if p.left}


def _keys(rng, rows, kind, unique):
    """Values of a key column: few distinct ones, some NULL; all different if ``unique``."""
    codes = rng.permutation(rows) if unique else rng.integers(0, 4, size=rows)
    gone = rng.random(rows) < 0.06
    if kind in ("int", "big"):
        return pd.Series(codes + (2**60 if kind == "big" else 0), dtype="Int64").mask(gone)
    if kind == "float":
        return pd.Series(codes / 2).mask(gone)
    if kind == "date":
        return pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(codes, unit="D")).mask(gone)
    text = np.array([TEXTS[c] if c < len(TEXTS) else str(c) for c in codes], dtype=object)
    return pd.Series(np.where(gone, None, text), dtype=object)


def _columns(rng, rows):
    """Features of a table: numbers of several kinds, text, all-zero columns."""
    made = {"x": rng.normal(size=rows).round(2), "i": rng.integers(-3, 4, size=rows), "b": rng.random(rows) < 0.5,
            "c": rng.choice(TEXTS, size=rows), "zero": np.zeros(rows), "huge": rng.normal(size=rows) * 1e6}
    kept = rng.permutation(list(made))[: rng.integers(0, 4)].tolist()
    return {name: made[name] for name in kept}


def random_schema(seed, cyclic=False):
    """One to five tables in a random tree (or with one more edge): paths, stars, snowflakes and all between.

    Composite keys, keys shared by several tables, keys that are features too, duplicates, dangling rows, NULL keys,
    tables without rows or features, left joins, weights, labels of several types in any table.
    """
    rng = np.random.default_rng(seed)
    m = int(rng.integers(3, 6)) if cyclic else int(rng.integers(1, 6))
    names = rng.permutation(NAMES)[:m].tolist()
    sizes = [0 if rng.random() < 0.01 else int(rng.integers(6, 15)) for _ in range(m)]
    frames = [_columns(rng, rows) for rows in sizes]
    features = [list(columns) for columns in frames]
    on, lefts, kinds = [], set(), {}

    def pair(a, b, e, left=False):
        """Make a key column in b, and one in a unless one of the same kind is shared; join them."""
        kind = str(rng.choice(KINDS))
        shared = [c for c in kinds if c[0] == a and kinds[c] == kind]
        column = shared[0][1] if shared and rng.random() < 0.4 else f"k {e}"
        if column not in frames[a]:
            frames[a][column], kinds[a, column] = _keys(rng, sizes[a], kind, False), kind
        frames[b][f"k {e}"], kinds[b, f"k {e}"] = _keys(rng, sizes[b], kind, rng.random() < 0.25), kind
        ends = (f"{names[a]}.{column}", f"{names[b]}.k {e}")
        on.append((*ends, "left") if left else ends if rng.random() < 0.5 else ends[::-1])
        if not left and kind in ("int", "text", "float") and rng.random() < 0.2:
            features[b].append(f"k {e}")

    for child in range(1, m):
        parent = int(rng.integers(0, child))
        if parent in lefts or rng.random() < 0.15:  # what hangs on a left join is joined left too
            lefts.add(child)
        for part in range(1 + (rng.random() < 0.25)):
            pair(parent, child, 10 * child + part, child in lefts)
    if cyclic:
        inner = [i for i in range(m) if i not in lefts]
        a, b = sorted(rng.choice(m, size=2, replace=False).tolist())
        if a in inner:
            pair(a, b, 99, b in lefts)
    labels = [np.array([0, 1]), np.array([False, True]), np.array(["no", "it's"], dtype=object), np.array([-1.5, 2.0])]
    frames[0]["label"] = labels[rng.integers(0, 4)][rng.permutation(np.arange(sizes[0]) % 2)]
    weighted = rng.random(m) < 0.15
    for i in np.flatnonzero(weighted):
        frames[i]["w"] = rng.integers(0 if i else 1, 4, size=sizes[i]) / 2
    tables = [Table(name, pd.DataFrame(frame), features=used, label="label" if i == 0 else None,
                    weights="w" if weighted[i] else None)
              for i, (name, frame, used) in enumerate(zip(names, frames, features))]
    return Schema(Join([tables[i] for i in rng.permutation(m)], on), names)
