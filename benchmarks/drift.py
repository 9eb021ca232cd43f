"""False alarms of the audit against newer rows: pairs of tables drawn from one law, with any alarm counted.

    python benchmarks/drift.py            1,000 pairs without drift, and 100 for each of three kinds of drift
    python benchmarks/drift.py 100        so many pairs
    python benchmarks/drift.py 1000 120   as many of them as fit into 120 seconds of processor time
    python benchmarks/drift.py rows       novel rows: 1,000 pairs without any, by shape of the tables and by scorer, and
                                          the share found of novel ones

Each pair has its own sizes, columns (normal, lognormal, whole numbers, with gaps, categories) and task; in half of
them the newer table has its targets. An alarm is any drifted column, any novel row, or a model that is worse.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.neighbors import NearestNeighbors

from buttress import SVDD, ConformalDetector
from buttress.audit.against import RATE, Comparison, compare, unlike
from buttress.audit.reading.table import make_table
from buttress.certainty.conformal import p_values, rejected

Columns = dict[str, np.ndarray]


def drawn(rng: np.random.Generator, seed: int, n: int, shift: float = 0.0, flipped: float = 0.0):
    """Return n rows of the law of a seed; ``shift`` moves one column, ``flipped`` turns targets around."""
    law = np.random.default_rng(seed)
    X: Columns = {}
    for j in range(law.integers(2, 7)):
        kind = law.integers(4)
        values = rng.normal(size=n)
        gaps = np.where(rng.random(n) < 0.15, np.nan, values)
        X[f"c{j}"] = (values, np.exp(values), np.round(2 * values), gaps)[kind]
    X["k"] = rng.choice(list("abcdef"), n, p=law.dirichlet(np.ones(6))).astype(object)
    score = np.nan_to_num(X["c0"]) * law.normal() + np.nan_to_num(X["c1"]) * law.normal() + rng.normal(size=n)
    X["c0"] = X["c0"] + shift
    score = np.where(rng.random(n) < flipped, -score, score)
    return X, (score > 0).astype(int) if seed % 4 < 2 else score


def compared(seed: int, shift: float = 0.0, flipped: float = 0.0, targets: bool | None = None) -> Comparison:
    rng = np.random.default_rng(10_000 + seed)
    n = int(rng.integers(80, 400))
    table = make_table(*drawn(rng, seed, n), "y", "auto")
    newer, y = drawn(rng, seed, int(rng.integers(40, 300)), shift, flipped)
    if seed % 2 if targets is None else targets:
        newer["y"] = y
    rows = rng.permutation(n)
    return compare(table, newer, "newer rows", rows[: 7 * n // 10], rows[7 * n // 10 :], 0)


def alarms(found: Comparison) -> dict[str, bool]:
    return {"columns": bool(found.drifted), "rows": bool(found.novel), "told apart": found.apart, "worse": found.worse,
            "any": bool(found.drifted or found.novel or found.apart or found.worse)}


def line(what: str, found: list[dict[str, bool]]) -> str:
    shares = [f"{np.mean([one[key] for one in found]):.3f}" for key in found[0]]
    return f"| {what} | {len(found)} | {' | '.join(shares)} |"


def within(seconds: float, seeds: range) -> list[dict[str, bool]]:
    """Return the alarms of pairs without drift, as many as some seconds of processor time allow."""
    found: list[dict[str, bool]] = []
    for seed in seeds:
        if time.process_time() > seconds:
            break
        found.append(alarms(compared(seed)))
    return found


def repeated(rng, n, d, times, apart):
    """Return normal rows that are there several times, so that rows of a table are not drawn independently."""
    return rng.normal(size=(-(-n // times), d)).repeat(times, axis=0)[:n] + apart * rng.normal(size=(n, d))


SHAPES = {
    "normal": lambda rng, law, n, d: rng.normal(size=(n, d)) @ law.normal(size=(d, d)),
    "heavy tails": lambda rng, law, n, d: rng.standard_t(1.5, size=(n, d)),
    "skewed": lambda rng, law, n, d: np.exp(rng.normal(size=(n, d))),
    "clusters": lambda rng, law, n, d: 4 * law.normal(size=(6, d))[rng.integers(6, size=n)] + rng.normal(size=(n, d)),
    "categories": lambda rng, law, n, d: np.concatenate([np.eye(4)[rng.choice(4, n, p=law.dirichlet(np.ones(4)))]
                                                         for _ in range(d)], axis=1),
    "few values": lambda rng, law, n, d: rng.poisson(1.0, size=(n, d)) * 1.0,
    "copies": lambda rng, law, n, d: law.normal(size=(150, d))[rng.integers(150, size=n)],
    "near copies": lambda rng, law, n, d: (law.normal(size=(150, d))[rng.integers(150, size=n)]
                                           + 1e-6 * rng.normal(size=(n, d))),
    "each row twice": lambda rng, law, n, d: repeated(rng, n, d, 2, 0.0),
    "each row six times": lambda rng, law, n, d: repeated(rng, n, d, 6, 0.0),
    "each row twice, nearly": lambda rng, law, n, d: repeated(rng, n, d, 2, 1e-6),
    "each row four times, nearly": lambda rng, law, n, d: repeated(rng, n, d, 4, 1e-6),
}


def neighbours(old, new, rng):
    """Rows farther from half of the old ones, by the fifth neighbour, than the other half is."""
    near, ruler = np.array_split(rng.permutation(len(old)), 2)
    index = NearestNeighbors(n_neighbors=min(5, len(near))).fit(old[near])
    far = [index.kneighbors(rows)[0][:, -1] for rows in (new, old[ruler])]
    return np.flatnonzero(rejected(p_values(*far, np.ones(len(ruler))), RATE, adaptive=False))


def whole(old, new, rng):
    return np.flatnonzero(SVDD().fit(np.unique(old, axis=0)).novel(new, RATE))


def halved(old, new, rng):
    return np.flatnonzero(ConformalDetector(SVDD(), random_state=int(rng.integers(2**31))).fit(old).novel(
        new, RATE))


SCORERS = {"as in the audit": lambda old, new, rng: unlike(old, new, RATE), "fifth neighbour, half": neighbours,
           "SVDD, half": halved, "SVDD, left out": whole}


def novel(kind, rng, shape, law, n, d):
    """Return n novel rows: of the shape but far in a column, with the columns of different rows, or in a new place."""
    X = SHAPES[shape](rng, law, n, d)
    spread = np.ptp(X, axis=0).max()
    if kind == "far in a column":
        X[np.arange(n), rng.integers(X.shape[1], size=n)] += spread * rng.uniform(1, 3, n)
    elif kind == "columns of different rows":
        other = SHAPES[shape](rng, law, n, d)
        X = np.where(np.arange(X.shape[1]) % 2, X, other)
    else:
        X = X.mean(axis=0) + 0.5 * spread * np.sign(law.normal(size=X.shape[1])) + 0.1 * rng.normal(size=X.shape)
    return X


def pair(shape, seed, kind=None):
    """Return a pair of tables as numbers, and which of the newer rows are novel: a tenth, where a kind is given."""
    rng = np.random.default_rng(50_000 + seed)
    n, m, d = int(rng.integers(100, 1200)), int(rng.integers(20, 300)), int(rng.integers(2, 9))
    old, new = (SHAPES[shape](rng, np.random.default_rng(seed), rows, d) for rows in (n, m))
    some = np.arange(m) < (m // 10 if kind else 0)
    if kind:
        new[some] = novel(kind, rng, shape, np.random.default_rng(seed), m, d)[some]
    return old, new, some


def rows(pairs):
    """Print shares of pairs in which a row was called novel that is not, and of novel rows that were found."""
    warnings.simplefilter("ignore")
    print(f"| shape | pairs | {' | '.join(SCORERS)} |\n| --- | --- " + "| --- " * len(SCORERS) + "|")
    for shape in SHAPES:
        found = [[len(scorer(*pair(shape, seed)[:2], np.random.default_rng(seed))) > 0 for scorer in SCORERS.values()]
                 for seed in range(pairs // len(SHAPES))]
        cells = " | ".join(f"{share:.3f}" for share in np.mean(found, axis=0))
        print(f"| {shape}: an alarm | {len(found)} | {cells} |", flush=True)
    for kind in ("far in a column", "columns of different rows", "a new place"):
        for shape in ("normal", "heavy tails", "clusters", "near copies"):
            found = []
            for seed in range(pairs // 20):
                old, new, is_novel = pair(shape, seed, kind)
                named = [scorer(old, new, np.random.default_rng(seed)) for scorer in SCORERS.values()]
                found.append([is_novel[one].sum() / max(is_novel.sum(), 1) for one in named])
            cells = " | ".join(f"{share:.2f}" for share in np.mean(found, axis=0))
            print(f"| {shape}, {kind}: share found | {len(found)} | {cells} |", flush=True)


def main(pairs: int, seconds: float) -> None:
    print("| what | pairs | a column drifted | a row is novel | rows told apart | a model is worse | any |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    calm = within(seconds, range(pairs))
    print(line("no drift", calm), flush=True)
    few = max(1, len(calm) // 10)
    for shift in (0.3, 1.0):
        print(line(f"a column moved by {shift:g}", [alarms(compared(seed, shift)) for seed in range(few)]), flush=True)
    found = [alarms(compared(seed, flipped=0.5, targets=True)) for seed in range(few)]
    print(line("half of the targets turned around", found), flush=True)


if __name__ == "__main__" and sys.argv[1:2] == ["rows"]:
    rows(int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
elif __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, float(sys.argv[2]) if len(sys.argv) > 2 else np.inf)
