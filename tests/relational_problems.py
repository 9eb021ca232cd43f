"""Random joins, and the same joins materialised by pandas' own merge: the oracle of the relational tests."""

from itertools import pairwise

import numpy as np
import pandas as pd

from buttress.relational import Join, Table

SHAPES = ("path", "star", "snowflake", "composite", "keys", "mixed")
TREES = {
    "path": [(0, 1), (1, 2), (2, 3)],
    "star": [(0, 1), (0, 2), (0, 3)],
    "snowflake": [(0, 1), (1, 2), (1, 3), (0, 4)],
    "composite": [(0, 1), (1, 2)],
    "keys": [(0, 1), (0, 2), (1, 3)],
    "mixed": [(0, 1), (1, 2), (0, 3)],
}


def random_join(seed, shape=None, rows=8, weights=False, left=False, nulls=True):
    """A join of small tables with duplicates, dangling rows and NULL keys; the first table has the label."""
    rng = np.random.default_rng(seed)
    shape = shape or SHAPES[seed % len(SHAPES)]
    edges = TREES[shape]
    m = 1 + max(max(edge) for edge in edges)
    frames = [pd.DataFrame({f"x{j}": rng.normal(size=rows).round(2) for j in range(2)}) for _ in range(m)]
    frames[0]["y"] = rng.permutation(np.arange(rows) % 2)
    frames[-1]["c"] = rng.choice(["red", "green", "it's"], size=rows)
    on = []
    for e, (a, b) in enumerate(edges):
        for part in range(2 if shape == "composite" else 1):
            name = f"k{e}{part}"
            frames[a][name] = rng.integers(0, 3, size=rows)
            unique = shape == "keys" or (shape == "mixed" and e == 1)
            frames[b][name] = rng.permutation(rows) if unique else rng.integers(0, 4, size=rows)
            if nulls:
                frames[a][name] = frames[a][name].astype("Int64").mask(rng.random(rows) < 0.1)
            on.append((f"t{a}.{name}", f"t{b}.{name}", *(["left"] if left else [])))
    if weights:
        for frame in frames:
            frame["w"] = rng.integers(0, 4, size=rows) / 2
        frames[0]["w"] += 0.5
    tables = [Table(f"t{i}", frame, features=[c for c in frame if c[0] in "xc"], label="y" if i == 0 else None,
                    weights="w" if weights else None) for i, frame in enumerate(frames)]
    return Join(tables, on)


def joined(seed, **how):
    """The first of the random joins seed, seed + 100, ... that has rows of both labels."""
    while True:
        join = random_join(seed, **how)
        rows = materialise(join)
        weight = np.ones(len(rows))
        for table in join.tables:
            weight = weight * (rows[f"{table.name}.w"].fillna(1).to_numpy(float) if table.weights else 1.0)
        if set(rows.loc[weight > 0, "t0.y"]) == {0, 1}:
            return join
        seed += 100


def materialise(join):
    """Every row of the join as a frame with columns table.column, by pandas' merge; also the row number of table 0."""
    result, done = None, set()
    pairs = join.check()
    while len(done) < len(join.tables):
        near = {t for p in pairs for t, other in (p.ends, p.ends[::-1]) if other in done}
        t = min(near - done) if result is not None else join.root
        table = join.tables[t]
        frame = pd.DataFrame(table.source).add_prefix(f"{table.name}.")
        frame[f"{table.name}.#"] = np.arange(len(frame))
        if result is None:
            result, done = frame, {t}
            continue
        here = [p for p in pairs if (p.first[0] == t and p.second[0] in done)
                or (p.second[0] == t and p.first[0] in done)]
        sides = [(p.first, p.second) if p.second[0] == t else (p.second, p.first) for p in here]
        names = [[f"{join.tables[i].name}.{c}" for i, c in side] for side in zip(*sides)]
        frame = frame.dropna(subset=names[1])
        how = "left" if here[0].left else "inner"
        if how == "inner":
            result = result.dropna(subset=names[0])
        result = result.merge(frame, how=how, left_on=names[0], right_on=names[1])
        done.add(t)
    return result


def design(join, plan, rows):
    """Scaled features of materialised rows in the plan's order, labels -1/+1 and weights."""
    blocks, weight = [], np.ones(len(rows))
    for i, (table, data) in enumerate(zip(join.tables, plan.tables)):
        scale = iter(data.scale)
        for feature in data.features:
            values = rows[f"{table.name}.{feature.name}"]
            if feature.categories is None:
                blocks.append(values.astype(object).fillna(0).to_numpy(float) / next(scale))
            else:
                blocks += [(values == category).to_numpy(float) / next(scale) for category in feature.categories]
        if i == join.root and data.X.shape[1] > len(data.names):
            blocks.append(np.ones(len(rows)))
        if table.weights:
            weight = weight * rows[f"{table.name}.{table.weights}"].fillna(1).to_numpy(float)
    label = rows[f"{join.tables[join.root].name}.{join.tables[join.root].label}"].to_numpy()
    return np.column_stack(blocks), np.where(label == plan.classes[1], 1.0, -1.0), weight


def hinge_mean(X, y, weight, beta):
    return float(weight @ np.maximum(0, 1 - y * (X @ beta)) / weight.sum())


def chain(n, fan, m, seed=0, d=2):
    """A chain of m tables of n rows, fan rows a key; the label depends on the root's and the last table's features."""
    rng = np.random.default_rng(seed)
    keys = max(n // fan, 1)
    frames = [pd.DataFrame(rng.uniform(-1, 1, size=(n, d)), columns=[f"x{j}" for j in range(d)]) for _ in range(m)]
    for i in range(m):
        frames[i]["up"], frames[i]["down"] = rng.integers(0, keys, size=(2, n))
    frames[0]["y"] = np.where(frames[0]["x0"] + 0.5 * rng.normal(size=n) > 0, 1, -1)
    tables = [Table(f"t{i}", f, features=[f"x{j}" for j in range(d)], label="y" if i == 0 else None)
              for i, f in enumerate(frames)]
    return Join(tables, [(f"t{a}.down", f"t{b}.up") for a, b in pairwise(range(m))])
