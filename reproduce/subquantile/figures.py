"""The figures of the paper as numbers, and as pictures where matplotlib is there."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress.losses import Squared
from buttress.risks import Subquantile
from buttress.solvers.gradient.descent import descent
from buttress.solvers.gradient.space import Dual
from reproduce.subquantile.protocol import Problem, problem, trial

Curve = dict[str, Any]
RATES = (0.1, 0.2, 0.3, 0.4)
SCHEMES = {"plain": None, "Polyak (60)-(61)": 0.9, "Nesterov": "nesterov"}


def trace(
    source: Problem, rate: float, seed: int, iterations: int, acceleration: str | float | None
) -> tuple[Array, Array]:
    """Return test RMSE and the share of the kept rows that are corrupt at each iteration, RBF kernel, paper's step."""
    t = trial(source, rate, "label", seed)
    n = len(t.y)
    K = t.kernel(t.X, t.X)
    K_test = t.kernel(t.X_test, t.X)
    risk = Subquantile(1 - rate)
    reach = np.sqrt(6 / n)
    steps = descent(Dual(K, np.full(n, 1 / n)), t.y, Squared(), risk, ridge=0.0,
                    start=np.random.RandomState(seed).uniform(-reach, reach, n), sample_weight=np.ones(n),
                    acceleration=acceleration, step="paper")
    errors, left = [], []
    for step in islice(steps, iterations + 1):
        errors.append(float(np.sqrt(np.mean((K_test @ step.state - t.y_test) ** 2))))
        q = risk.weights((K @ step.state - t.y) ** 2)
        left.append(float(q[t.corrupt].sum()))
    return np.array(errors), np.array(left)


def mean_trace(source: Problem, rate: float, trials: int, iterations: int, acceleration: str | float | None) -> Curve:
    runs = [trace(source, rate, seed, iterations, acceleration) for seed in range(trials)]
    errors, left = (np.mean([run[part] for run in runs], axis=0) for part in (0, 1))
    return {"rmse": errors.tolist(), "corrupt_share": left.tolist()}


def figure_1(trials: int, iterations: int, data_dir: Path | None, short: bool) -> list[Curve]:
    """Test RMSE, and corrupt rows among those kept, by iteration and noise level."""
    names = ["Polynomial"] if short else ["Concrete", "Boston", "Polynomial"]
    curves = []
    for name in names:
        source = problem(name, data_dir)
        steps = 10 * iterations if source.oblivious else iterations  # the paper caps this set at ten times the others
        curves += [{"panel": name, "label": f"{rate:.0%} noise", **mean_trace(source, rate, trials, steps, None)}
                   for rate in RATES]
    return curves


def figure_2(trials: int, iterations: int, data_dir: Path | None, short: bool) -> list[Curve]:
    """The effect of momentum, at 20 % noise."""
    names = ["Polynomial"] if short else ["Boston", "Concrete", "Wine"]  # the paper shows the first two
    curves = []
    for name in names:
        source = problem(name, data_dir)
        curves += [{"panel": name, "label": label, **mean_trace(source, 0.2, trials, iterations, scheme)}
                   for label, scheme in SCHEMES.items()]
    return curves


def figure_3(trials: int, sizes: Array, d: int = 20, K: float = 1.0) -> list[Curve]:
    """|sum_i eta_i x_i| against the bound (73) of lemma 29, x and eta standard normal."""
    measured = []
    for n in sizes.astype(int):
        rng = np.random.RandomState(n)
        measured.append(float(np.mean([np.linalg.norm(rng.normal(size=n) @ rng.normal(size=(n, d)))
                                       for _ in range(trials)])))
    bound = 0.5 * K * K * np.exp(0.25) * np.sqrt(8 * np.pi * sizes * d)
    return [{"n": sizes.tolist(), "label": "mean of the trials", "value": measured},
            {"n": sizes.tolist(), "label": "upper bound (73)", "value": bound.tolist()}]


def figure_4(trials: int, sizes: Array, d: int = 20, K: float = 4.0) -> list[Curve]:
    """The least eigenvalue of sum_i x_i x_i' against the bound (81) of lemma 30, x standard normal."""
    measured = []
    for n in sizes.astype(int):
        rng = np.random.RandomState(n)
        samples = (rng.normal(size=(n, d)) for _ in range(trials))
        measured.append(float(np.mean([np.linalg.eigvalsh(X.T @ X)[0] for X in samples])))
    bound = sizes - (np.sqrt(2 * (d * K - 1) * sizes * np.log(2 * d)) + d * K * np.log(2 * d) / 3)
    return [{"n": sizes.tolist(), "label": "mean of the trials", "value": measured},
            {"n": sizes.tolist(), "label": "lower bound (81)", "value": bound.tolist()}]


def describe(number: int, curves: list[Curve]) -> str:
    """Return the ends of the curves as a small table."""
    if number > 2:
        measured, bound = curves
        held = [m <= b if number == 3 else m >= b for m, b in zip(measured["value"], bound["value"], strict=True)]
        lines = [f"| {n:.0f} | {m:.4g} | {b:.4g} |"
                 for n, m, b in zip(measured["n"], measured["value"], bound["value"], strict=True)]
        return (f"Figure {number}: the bound holds at {sum(held)} of {len(held)} sizes.\n\n"
                f"| n | {measured['label']} | {bound['label']} |\n|---|---|---|\n" + "\n".join(lines) + "\n")
    marks = [k for k in (0, 10, 30, 100, 300, 1000, 3000, 10_000) if k < max(len(c["rmse"]) for c in curves)]
    head = "| | " + " | ".join(f"iteration {k}" for k in marks) + " |\n|" + "---|" * (len(marks) + 1)

    def cell(c: Curve, k: int) -> str:
        return f"{c['rmse'][k]:.3f} / {c['corrupt_share'][k]:.3f}" if k < len(c["rmse"]) else ""

    lines = [f"| {c['panel']}, {c['label']} | " + " | ".join(cell(c, k) for k in marks) + " |" for c in curves]
    return f"Figure {number}: test RMSE / corrupt share of the kept rows.\n\n{head}\n" + "\n".join(lines) + "\n"


def draw(number: int, curves: list[Curve], path: Path) -> bool:
    """Draw the figure; returns False where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    measures = ["value"] if number > 2 else ["rmse", "corrupt_share"]
    panels = list(dict.fromkeys(c.get("panel", "") for c in curves))
    figure = Figure(figsize=(4 * len(panels) + 1, 3 * len(measures) + 0.5), layout="constrained")
    axes = figure.subplots(len(measures), len(panels), squeeze=False)
    for curve in curves:
        for line, measure in enumerate(measures):
            axis = axes[line, panels.index(curve.get("panel", ""))]
            axis.plot(curve.get("n", range(len(curve[measure]))), curve[measure], label=curve["label"])
            axis.set(title=curve.get("panel", ""), xlabel="n" if number > 2 else "iteration", ylabel=measure)
            axis.legend(fontsize="small")
    figure.savefig(path)
    return True
