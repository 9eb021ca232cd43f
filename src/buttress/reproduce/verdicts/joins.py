"""Statements of the relational paper on queries, bounds and running times, on joins made here."""

import numpy as np
import pandas as pd

from buttress._checks import Array
from buttress.relational import Join, Table, evaluate, explain
from buttress.relational.counting.margins import hinge
from buttress.relational.counting.rank_oracle import RankOracle
from buttress.relational.counting.thresholds import sum_below, thresholds
from buttress.relational.plan.prepare import prepare

__all__ = ["corollary_14", "equation_6", "running_time", "section_b4", "theorem_16", "theorem_17"]


def section_b4() -> dict[str, float]:
    """The query for the least distance to the separator of a correctly classified negative row, printed and put right.

    Printed: min over products F_i = beta_i x_i and F_d = 1 for the label -1, else 0. A product there is a sum.
    """
    rng = np.random.default_rng(0)
    left = pd.DataFrame({"k": rng.integers(0, 5, 30), "a": rng.normal(size=30), "y": rng.choice([-1, 1], 30)})
    right = pd.DataFrame({"k": rng.integers(0, 5, 30), "b": rng.normal(size=30)})
    join = Join([Table("s", left), Table("t", right)], [("s.k", "t.k")])
    score = {"s.a": 1.0, "t.b": 1.0}
    printed = {"s.a": lambda v: v, "t.b": lambda v: v, "s.y": lambda v: (v == -1).astype(float)}
    righted = {"s.a": lambda v: -v, "t.b": lambda v: -v, "s.y": lambda v: np.where(v == -1, 0.0, np.inf)}
    rows = left.merge(right, on="k")
    correct = rows[(rows["y"] == -1) & (rows["a"] + rows["b"] <= 0)]
    return {
        "printed": evaluate(join, "min-plus", printed, where=(score, 0.0)).value,
        "put right": evaluate(join, "min-plus", righted, where=(score, 0.0)).value,
        "by listing": float(-(correct["a"] + correct["b"]).max()),
    }


def corollary_14() -> dict[str, float]:
    """Largest of 1 / (1 - eps/2) over 1 + eps: what Theorem 13 gives over what is promised, to eps = 1 and beyond."""
    def worst(most: float) -> float:
        eps = np.linspace(1e-3, most, 2000)
        return float((1 / (1 - eps / 2) / (1 + eps)).max())

    return {"eps up to 1": worst(1.0), "eps up to 1.5": worst(1.5)}


def printed_hat(value: Array, error: float) -> tuple[float, float]:
    """Return F-hat with H_k of floor((1 + error)^k) rows: weighted by (1 + error)^k as printed, and by its floor."""
    descending = np.sort(value)[::-1]
    powers = (1 + error) ** np.arange(200)
    floors = np.floor(powers)
    reached = floors <= len(value)
    H = descending[floors[reached].astype(int) - 1]
    drops = H - np.append(H[1:], 0.0)
    return float(powers[reached] @ drops), float(floors[reached] @ drops)


def equation_6() -> dict[str, float]:
    """F-hat over F for one row and for 40 random ones: as printed, with its floor, and with no floor at all."""
    many = np.random.default_rng(0).exponential(size=40)
    error = 0.9
    return {
        "one row, printed": printed_hat(np.ones(1), error)[0],
        "one row, floor": printed_hat(np.ones(1), error)[1],
        "one row, no floor": sum_below(*thresholds(np.ones(1), np.ones(1), error)),
        "40 rows, printed": printed_hat(many, error)[0] / many.sum(),
        "40 rows, no floor": sum_below(*thresholds(many, np.ones(40), error)) / many.sum(),
    }


def triangle(side: int) -> Join:
    """Three tables of side^2 rows: every pair of ``side`` keys."""
    a, b = (part.ravel() for part in np.meshgrid(np.arange(side), np.arange(side)))
    tables = [Table(name, pd.DataFrame({"a": a, "b": b})) for name in ("r", "s", "t")]
    return Join(tables, [("r.b", "s.a"), ("s.b", "t.a"), ("t.b", "r.a")])


def theorem_17() -> dict[str, float]:
    """Rows of the complete triangle over n^(3/2): the bound is attained."""
    return {f"rows over bound, n = {side**2}": evaluate(triangle(side)).value / side**3 for side in (10, 30)}


def theorem_16() -> dict[str, float]:
    """Most rows over n^(3/2) in 30 random triangles of n = 200 distinct pairs."""
    most = 0.0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        tables = []
        for name in ("r", "s", "t"):
            pairs = rng.choice(400, size=200, replace=False)
            tables.append(Table(name, pd.DataFrame({"a": pairs // 20, "b": pairs % 20})))
        join = Join(tables, [("r.b", "s.a"), ("s.b", "t.a"), ("t.b", "r.a")])
        most = max(most, explain(join).n_join_rows / 200**1.5)
    return {"most rows over bound": most}


def running_time() -> dict[str, float]:
    """Exponents of the work of one row counting, in entries gathered, in n and in 1/eps, on chains of four tables."""
    def work(n: int, error: float) -> float:
        rng = np.random.default_rng(0)
        frames = [pd.DataFrame({"up": rng.integers(0, n // 40, n), "down": rng.integers(0, n // 40, n),
                                "x": rng.normal(size=n), "y": rng.choice([-1, 1], n)}) for _ in range(4)]
        tables = [Table(f"t{i}", frame, features=["x"], label=None if i else "y") for i, frame in enumerate(frames)]
        plan = prepare(Join(tables, [(f"t{i}.down", f"t{i + 1}.up") for i in range(3)]))
        oracle = RankOracle(plan, error=error, guard=error, mean=False)
        gathered = 0
        sketch = oracle._block

        def counted(*arguments):  # type: ignore[no-untyped-def]
            nonlocal gathered
            made = sketch(*arguments)
            gathered += len(made.row)
            return made

        oracle._block = counted  # type: ignore[method-assign]
        oracle(np.ones(plan.width), hinge())
        return float(gathered)

    few, many = work(1000, 0.2), work(4000, 0.2)
    fine = work(1000, 0.05)
    return {"in n": float(np.log(many / few) / np.log(4)), "in 1/eps": float(np.log(fine / few) / np.log(4))}
