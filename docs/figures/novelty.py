"""Draw the two figures of docs/novelty.md: ``python docs/figures/novelty.py`` writes them beside itself."""

from pathlib import Path

import numpy as np

from buttress import SVDD, MultiKernelSVDD
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Linear, Log, Polynomial, Sigmoid

HERE = Path(__file__).parent
KERNELS = {
    "linear": Linear(),
    "polynomial": Polynomial(2, 1.0, 1.0),
    "RBF": RBF(1.0),
    "Laplacian": Laplacian(1.0),
    "sigmoid (clipped)": Sigmoid(0.5, -1.0),
    "inverse multiquadric": InverseMultiquadric(0.7),
    "log": Log(2, 2.0),
    "Cauchy": Cauchy(2.0),
}


def bean(n=250, seed=0):
    """Rows along half a circle, and one in twenty-five scattered around it."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, np.pi, n)
    X = np.c_[np.cos(angle), np.sin(angle) - 0.4] + 0.13 * rng.normal(size=(n, 2))
    X[: n // 25] = rng.uniform(-1.8, 1.8, size=(n // 25, 2))
    return X


def boundaries():
    """Ten panels: the ball of each kernel and of the mixtures that both objectives learn, on the same rows."""
    import matplotlib.pyplot as plt
    from sklearn.inspection import DecisionBoundaryDisplay

    X = bean()
    models = {name: SVDD(kernel=kernel, nu=0.1, contamination=None, indefinite="clip")
              for name, kernel in KERNELS.items()}
    for objective in ("minimax", "spread"):
        mixture = MultiKernelSVDD(list(KERNELS.values()), objective=objective, nu=0.1, contamination=None,
                                  indefinite="clip")
        models[f"mixture, {objective}"] = mixture
    figure, axes = plt.subplots(2, 5, figsize=(13, 5.6), sharex=True, sharey=True, layout="constrained")
    for axis, (name, model) in zip(axes.flat, models.items(), strict=True):
        model.fit(X)
        shown = DecisionBoundaryDisplay.from_estimator(
            model, X, response_method="decision_function", plot_method="contourf", ax=axis, cmap="Blues", levels=12,
            grid_resolution=150, eps=0.6)
        axis.contour(shown.xx0, shown.xx1, shown.response, levels=[0], colors="black", linewidths=1.5)
        outside = model.predict(X) < 0
        axis.plot(*X[~outside].T, ".", color="0.35", markersize=3)
        axis.plot(*X[outside].T, "x", color="tab:red", markersize=5)
        axis.set(title=name, xlabel="", ylabel="")
    figure.suptitle("The boundary of each kernel's ball (nu = 0.1); crosses are rows outside")
    figure.savefig(HERE / "novelty-boundaries.png", dpi=90)


def weights():
    """The weights after each round, for "spread" and "minimax", and for "minimax" on two views."""
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(0)
    views = rng.normal(size=(200, 3))
    for j in range(3):
        views[10 * j : 10 * j + 10, j] *= 4 + j
    columns = {f"column {j}": (lambda A, B, j=j: A[:, j, None] * B[:, j]) for j in range(3)}
    definite = {name: kernel for name, kernel in KERNELS.items() if "sigmoid" not in name}
    X = bean()
    panels = [("spread, half circle", definite, X, "spread"), ("minimax, half circle", definite, X, "minimax"),
              ("minimax, three views", columns, views, "minimax")]
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
    for axis, (title, kernels, X, objective) in zip(axes, panels, strict=True):
        model = MultiKernelSVDD(list(kernels.values()), objective=objective, nu=0.1, tol=1e-6).fit(X)
        path = np.array([entry["weights"] for entry in model.history_])
        axis.plot(path, marker=".")
        axis.set(title=title, xlabel="round")
        axis.legend(list(kernels), fontsize=6)
    axes[0].set_ylabel("kernel weight")
    figure.savefig(HERE / "novelty-weights.png", dpi=90)


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    boundaries()
    weights()
