"""False alarms of the audit against newer rows: pairs of tables drawn from one law, with any alarm counted.

    python benchmarks/drift.py            1,000 pairs without drift, and 100 for each of three kinds of drift
    python benchmarks/drift.py 100        so many pairs
    python benchmarks/drift.py 1000 120   as many of them as fit into 120 seconds of processor time

Each pair has its own sizes, columns (normal, lognormal, whole numbers, with gaps, categories) and task; in half of
them the newer table has its targets. An alarm is any drifted column, any novel row, or a model that is worse.
"""

import sys
import time

import numpy as np

from buttress.audit.against.compare import Comparison, compare
from buttress.audit.reading.table import make_table

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
    table, task = make_table(*drawn(rng, seed, n), "y", "auto")
    newer, y = drawn(rng, seed, int(rng.integers(40, 300)), shift, flipped)
    if seed % 2 if targets is None else targets:
        newer["y"] = y
    rows = rng.permutation(n)
    return compare(table, task == "classification", newer, "newer rows", rows[: 7 * n // 10], rows[7 * n // 10 :], 0)


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


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, float(sys.argv[2]) if len(sys.argv) > 2 else np.inf)
