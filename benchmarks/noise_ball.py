"""Draw docs/images/noise-ball.svg: constant steps end in a ball around the optimum, diminishing ones do not.

    python benchmarks/noise_ball.py [--output docs/images/noise-ball.svg]

Left, the lecture's model: z <- z - eta_t (mu z + noise), 2,000 chains, with the formula for each floor and the bound
for the best rate. Right, the compiled solver on a linear SVM, by passes over the rows.
"""

import argparse
from itertools import islice

import numpy as np
from sklearn.datasets import make_classification
from sklearn.preprocessing import scale

from buttress import LinearSVC
from buttress.solvers.linear.primal import LinearProblem, Rate, best_rate, default_rate
from buttress.solvers.linear.stochastic import stochastic_descent

MU, NOISE, START, STEPS, CHAINS = 0.5, 1.0, 2.0, 10_000, 2_000


def chains(rate):
    """Mean squared distance after each step."""
    rng = np.random.default_rng(0)
    z = np.full(CHAINS, START)
    squares = [np.mean(z**2)]
    for t in range(STEPS):
        z = z - rate(t) * (MU * z + NOISE**0.5 * rng.normal(size=CHAINS))
        squares.append(np.mean(z**2))
    return np.array(squares)


def few(count):
    """Row numbers 1..count, evenly spaced on a logarithmic axis: all that a picture can show."""
    return np.unique(np.geomspace(1, count, 400).astype(int))


def draw_model(axis):
    t = few(STEPS)
    for eta, colour in ((0.5, "tab:red"), (0.1, "tab:orange"), (0.02, "tab:olive")):
        axis.loglog(t, chains(Rate(eta))[t], color=colour, label=f"constant {eta}")
        axis.axhline(eta * NOISE / (2 * MU - eta * MU**2), color=colour, linestyle=":")
    best = best_rate(MU, NOISE, START**2)
    axis.loglog(t, chains(best)[t], color="tab:blue", label="best a0 / (1 + γt)")
    axis.loglog(t, 4 * NOISE * START**2 / (4 * NOISE + MU**2 * START**2 * t), "b:", label="its bound")
    timid = best_rate(MU, NOISE, START**2 / 50)
    axis.loglog(t, chains(timid)[t], color="tab:purple", label="p0 guessed 50 times too small")
    axis.set(title="the model: μ/2 z² with noise", xlabel="step", ylabel="mean squared distance")
    axis.legend()


def draw_svm(axis):
    X, y = make_classification(4000, 20, n_informative=8, flip_y=0.2, random_state=0)
    X, C = scale(X), 0.01
    problem = LinearProblem(X, 2.0 * y - 1, np.full(len(y), C))
    optimum = LinearSVC(C=C, tol=1e-10).fit(X, y).primal_objective_
    inverse = default_rate(problem, np.arange(len(X)))
    curves = [(Rate(0.02), False, "constant 0.02", "tab:red"), (Rate(0.002), False, "constant 0.002", "tab:orange"),
              (inverse, False, "a0 / (1 + γt)", "tab:blue"), (inverse, True, "a0 / (1 + γt), averaged", "tab:green")]
    for rate, average, label, colour in curves:
        runs = [[step.objective / optimum - 1 for step in
                 islice(stochastic_descent(problem, rate, average=average, rng=np.random.RandomState(seed)), 1, 1601)]
                for seed in range(5)]
        shown = few(1600)
        axis.loglog(shown / 16, np.mean(runs, axis=0)[shown - 1], color=colour, label=label)
    axis.set(title="StochasticLinearSVC", xlabel="passes over the rows", ylabel="relative excess of the objective")
    axis.legend()


def main():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "noise-ball"
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="docs/images/noise-ball.svg")
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    draw_model(axes[0])
    draw_svm(axes[1])
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.savefig(parser.parse_args().output, metadata={"Date": None})


if __name__ == "__main__":
    main()
