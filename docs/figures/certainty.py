"""Draw the figures of docs/certainty.md, docs/intervals.md and docs/novelty.md beside this script.

    python docs/figures/certainty.py

The reliability diagram is drawn by ``python benchmarks/certainty.py picture``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from buttress import SVC, SVDD, SVR, explain

HERE = Path(__file__).parent


def band():
    """The intervals of SVR on targets whose noise grows to the right."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 300))
    y = np.sin(x) + (0.05 + 0.12 * x) * rng.normal(size=300)
    model = SVR(C=10.0).fit(x[:, None], y)
    at = np.linspace(0, 6, 300)[:, None]
    low, high = model.predict_interval(at, coverage=0.9).T
    figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    axis.fill_between(at[:, 0], low, high, color="tab:blue", alpha=0.2, label="predict_interval, coverage .9")
    axis.plot(at[:, 0], model.predict(at), color="tab:blue", label="predict")
    axis.plot(x, y, ".", color="0.35", markersize=3, label="training rows")
    axis.set(xlabel="x", ylabel="y", title="SVR: wider where the noise is larger")
    axis.legend(loc="lower left", fontsize=8)
    figure.savefig(HERE / "certainty-interval.png", dpi=90)


def p_values():
    """The p-values of rows like the training rows, which are even, and of novel ones, which are small."""
    rng = np.random.default_rng(0)
    model = SVDD(nu=0.5).fit(rng.normal(size=(2000, 4)))
    typical = model.p_values(rng.normal(size=(2000, 4)))
    novel = model.p_values(rng.normal(size=(200, 4)) + 3)
    figure, axis = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
    axis.hist([typical, novel], bins=20, range=(0, 1), stacked=True, color=["0.7", "tab:red"],
              label=["2,000 rows like the training rows", "200 rows three deviations off in each column"])
    axis.axhline(100, color="black", linewidth=0.8, linestyle=":")
    axis.set(xlabel="p-value", ylabel="rows", title="SVDD: p-values of typical rows are even")
    axis.legend(fontsize=8)
    figure.savefig(HERE / "certainty-p-values.png", dpi=90)


def explained():
    """The training rows that speak for a prediction and against it."""
    X, y = make_moons(200, noise=0.3, random_state=0)
    model = SVC().fit(X, y)
    why = explain(model, np.array([0.6, 0.3]))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    left.scatter(*X.T, c=y, cmap="coolwarm", s=8, alpha=0.4)
    shown = np.abs(why.share)
    left.scatter(*X[why.row].T, s=3000 * shown, c=np.where(why.contribution > 0, "tab:blue", "tab:red"), alpha=0.5)
    left.plot(0.6, 0.3, "k*", markersize=12)
    left.set(title="support vectors, as large as their share")
    why.plot(ax=right)
    figure.savefig(HERE / "certainty-explained.png", dpi=90)


if __name__ == "__main__":
    band()
    p_values()
    explained()
