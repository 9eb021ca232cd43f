"""Statements of the relational paper on queries, bounds and running times, on joins made here."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from buttress._checks import Array
from buttress.relational import Join, Table, describe, evaluate
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import hinge
from buttress.relational.counting.queries import thresholds
from buttress.relational.plan.plan import Plan
from buttress.relational.plan.prepare import prepare
from reproduce.pseudo_gradient import RankOracle, projected_descent, sum_below

__all__ = ["corollary_14", "definition_8", "equation_6", "lemma_7", "running_time", "section_b4", "theorem_6",
           "theorem_13", "theorem_16", "theorem_17"]


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


def regret(gradients: Sequence[float], radius: float) -> float:
    """Return the mean regret of steps 1/sqrt t on g_t(beta) = s_t beta from 0, over 2/sqrt T: D = G = 1.

    The best fixed hypothesis lies at a distance of at most D from 0 and of at most the radius of the region.
    """
    beta = 0.0
    total = 0.0
    for t, s in enumerate(gradients, start=1):
        total += s * beta
        beta = min(max(beta - s / math.sqrt(t), -radius), radius)
    return (total + min(1.0, radius) * abs(sum(gradients))) / (2 * math.sqrt(len(gradients)))


def theorem_6() -> dict[str, float]:
    """Regret over (7) where D bounds the first distance only: on a line, in the ball of that radius; and in one half.

    On the line gradients of -1 turn to 1 half-way. In the ball they take turns and end in a run of one sign. A ball of
    radius D/2 has the diameter D.
    """
    T = 1000
    turning = [-1.0] * (T // 2) + [1.0] * (T // 2)
    alternating = [[(-1.0) ** k for k in range(T - run)] + [-1.0] * run for run in (25, 50, 100)]
    return {
        "line, 1,000 steps": regret(turning, math.inf),
        "ball of radius D, 1,000 steps": max(regret(g, 1.0) for g in alternating),
        "ball of diameter D, 1,000 steps": max(regret(g, 0.5) for g in alternating),
    }


def definition_8() -> dict[str, float]:
    """Mean hinge at eps = .2 of 200 rows of positive features: perturbed as printed, not, and by the sign of y beta x.

    The last is also the hinge of 1 - y beta.x - eps |beta|.|x|, which the proof of Lemma 9 takes it to be.
    """
    rng = np.random.default_rng(0)
    X = rng.random((200, 4))
    y = rng.choice([-1.0, 1.0], 200)
    beta = rng.normal(size=4)
    eps = 0.2

    def mean_hinge(Z: Array) -> float:
        return float(np.maximum(0, 1 - y * (Z @ beta)).mean())

    def perturbed(lowered: NDArray[np.bool_]) -> float:
        return mean_hinge(X * np.where(lowered, 1 - eps, 1 + eps))

    return {
        "as printed": perturbed(y[:, None] * beta >= 0),
        "unperturbed": mean_hinge(X),
        "by the sign of y beta x": perturbed(y[:, None] * beta * X < 0),
        "of the proof": float(np.maximum(0, 1 - y * (X @ beta) - eps * (X @ np.abs(beta))).mean()),
        "least of 1,000 at random": min(perturbed(rng.random(X.shape) < 0.5) for _ in range(1000)),
    }


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
    """F-hat over F for one row, two and 40 random ones: as printed, with its floor, and with no floor at all."""
    many = np.random.default_rng(0).exponential(size=40)
    error = 0.9
    return {
        "one row, printed": printed_hat(np.ones(1), error)[0],
        "one row, printed, eps = 0.1": printed_hat(np.ones(1), 0.1)[0],
        "one row, printed, eps = 0.01": printed_hat(np.ones(1), 0.01)[0],
        "one row, floor": printed_hat(np.ones(1), error)[1],
        "two rows, floor": printed_hat(np.ones(2), error)[1] / 2,
        "two rows, least": 1 / (1 + error),
        "one row, no floor": sum_below(*thresholds(np.ones(1), np.ones(1), error)),
        "40 rows, printed": printed_hat(many, error)[0] / many.sum(),
        "40 rows, no floor": sum_below(*thresholds(many, np.ones(40), error)) / many.sum(),
    }


def listed_chain(m: int, fan: int, seed: int) -> tuple[Plan, Array, Array]:
    """Return the plan of a chain of m tables of 24 rows, ``fan`` rows a key, and its listed rows: scaled X, and y."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(m):
        keys = rng.integers(0, 24 // fan, size=(2, 24))
        made.append(pd.DataFrame({f"k{i}": keys[0], f"k{i + 1}": keys[1], **{
            f"x{i}{j}": rng.uniform(-1, 1, size=24) for j in range(2)}}))
    made[0]["y"] = np.where(made[0]["x00"] + 0.5 * rng.normal(size=24) > 0, 1, -1)
    tables = [Table(f"t{i}", frame, features=[f"x{i}{j}" for j in range(2)], label=None if i else "y")
              for i, frame in enumerate(made)]
    plan = prepare(Join(tables, [(f"t{i}.k{i + 1}", f"t{i + 1}.k{i + 1}") for i in range(m - 1)]), intercept=False)
    rows = made[0]
    for i, frame in enumerate(made[1:], start=1):
        rows = rows.merge(frame, on=f"k{i}")
    X = rows[[f"x{i}{j}" for i in range(m) for j in range(2)]].to_numpy()
    return plan, X / np.concatenate([table.scale for table in plan.tables]), rows["y"].to_numpy(dtype=float)


SIGNS = [(label, sign) for label in (-1.0, 1.0) for sign in (-1.0, 1.0)]


def counted_parts(plan: Plan, beta: Array, eps: float) -> tuple[Array, list[Array]]:
    """Return the counted sum of y x over the far rows, and its parts by label and sign of the value, as ``SIGNS``."""
    oracle = RankOracle(plan, error=eps, guard=eps)
    counts = {}
    one_label = oracle._one_label

    def kept(label, local):  # type: ignore[no-untyped-def]
        found = one_label(label, local)
        counts[label] = found[0]
        return found

    oracle._one_label = kept  # type: ignore[method-assign]
    found = oracle(beta).b * plan.n_rows
    parts = []
    for label, sign in SIGNS:
        part = replace(plan, tables=[replace(t, X=np.maximum(sign * np.asarray(t.X), 0)) for t in plan.tables])
        total = np.zeros(plan.width)
        rows = RankOracle(part, error=eps).rows
        for i, count in counts[label]:
            rows[i].add(count, total)
        parts.append(np.abs(total))
    return found, parts


def lemma_7() -> dict[str, float]:
    """The pseudo-gradient on 24 chains, all tables counted in one pass, against the listed rows.

    It is the gradient at a perturbation of the far rows where in each coordinate it differs from their own by at most
    eps times the sum of their absolute values: the largest difference over that. Also the runs in which the sum of the
    positive or of the negative values of a coordinate, over the far rows of one label, is not within 1 + eps.
    """
    worst = 0.0
    runs = 0
    for m, fan in ((4, 12), (5, 6)):
        for seed in range(4):
            plan, X, y = listed_chain(m, fan, seed)
            beta = np.random.default_rng(seed).normal(size=plan.width)
            for eps in (0.1, 0.3, 0.9):
                far = 1 - y * (X @ beta) >= eps * (np.abs(X) @ np.abs(beta))
                found, parts = counted_parts(plan, beta, eps)
                own = (y[:, None] * X)[far]
                allowed = eps * np.abs(own).sum(axis=0)
                worst = max(worst, float((np.abs(found - own.sum(axis=0)) / allowed).max()))
                exact = [np.maximum(sign * X[far & (y == label)], 0).sum(axis=0) for label, sign in SIGNS]
                runs += not all((part <= e * (1 + 1e-9)).all() and (part * (1 + eps) >= e * (1 - 1e-9)).all()
                                for part, e in zip(parts, exact, strict=True))
    return {"largest difference over what is allowed": worst, "runs with a part outside 1 + eps": float(runs)}


def theorem_13() -> dict[str, float]:
    """Most of the mean iterate's excess over 2DG/sqrt T, of T = 10, 100 and 400, on 20 chains at two alphas each.

    D is the distance of the start from the optimum, the least that the theorem allows; G the largest gradient met. The
    optimum and the excess are of the listed rows, by liblinear; the gradients are counted.
    """
    worst = 0.0
    runs = 0
    for seed in range(20):
        plan, X, y = listed_chain(2 + seed % 3, 6, seed)
        for alpha in (0.5, 0.05):
            shares = excess_shares(plan, X, y, alpha)
            worst = max(worst, *shares)
            runs += len(shares)
    return {"largest excess over the bound": worst, "runs": float(runs)}


def excess_shares(plan: Plan, X: Array, y: Array, alpha: float) -> list[float]:
    """Return the excess over its bound after 10, 100 and 400 steps."""
    def objective(beta: Array) -> float:
        return float(np.maximum(0, 1 - y * (X @ beta)).mean() + alpha * beta @ beta)

    model = LinearSVC(loss="hinge", C=1 / (2 * alpha * len(y)), fit_intercept=False, tol=1e-8, max_iter=200_000)
    best = np.asarray(model.fit(X, y).coef_[0], dtype=np.float64)
    D = float(np.linalg.norm(best))
    G = 2 * alpha * D + float(np.linalg.norm(X, axis=1).max())  # of gradients in the ball of radius D
    oracle = grid_oracle(plan)
    shares = []
    for T in (10, 100, 400):
        descent = projected_descent(np.zeros(plan.width), D, lambda t: D / (G * math.sqrt(t)))
        _, beta = next(descent)
        total = np.zeros(plan.width)
        for _ in range(T):
            total += beta
            _, beta = descent.send(2 * alpha * beta - oracle(beta, hinge(), 1 << 16).b)
        shares.append((objective(total / T) - objective(best)) * math.sqrt(T) / (2 * D * G))
    return shares


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
        most = max(most, describe(join).n_join_rows / 200**1.5)
    return {"most rows over bound": most}


def running_time() -> dict[str, float]:
    """Exponents of the work of one row counting, in entries gathered, in n, 1/eps and N alone, on chains of four.

    The join has N = n fan^3 rows, fan being the rows of a key: with n at one fan N grows in proportion; with the fan at
    one n, N alone grows.
    """
    def work(n: int, error: float, fan: int = 40) -> float:
        rng = np.random.default_rng(0)
        frames = [pd.DataFrame({"up": rng.integers(0, n // fan, n), "down": rng.integers(0, n // fan, n),
                                "x": rng.normal(size=n), "y": rng.choice([-1, 1], n)}) for _ in range(4)]
        tables = [Table(f"t{i}", frame, features=["x"], label=None if i else "y") for i, frame in enumerate(frames)]
        plan = prepare(Join(tables, [(f"t{i}.down", f"t{i + 1}.up") for i in range(3)]))
        oracle = RankOracle(plan, error=error, guard=error)
        gathered = 0
        sketch = oracle._block

        def counted(*arguments):  # type: ignore[no-untyped-def]
            nonlocal gathered
            made = sketch(*arguments)
            gathered += len(made.row)
            return made

        oracle._block = counted  # type: ignore[method-assign]
        oracle(np.ones(plan.width))
        return float(gathered)

    few, many = work(1000, 0.2), work(4000, 0.2)
    fine = work(1000, 0.05)
    wide = work(1000, 0.2, 160)
    return {"in n": float(np.log(many / few) / np.log(4)), "in 1/eps": float(np.log(fine / few) / np.log(4)),
            "in N at one n": float(np.log(wide / few) / np.log(4**3))}
