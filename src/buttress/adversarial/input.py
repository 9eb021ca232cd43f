"""``defense="input"``: each class is trained in Nystroem space on rows that gradient steps have perturbed."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from buttress._arrays import Place, to_numpy
from buttress._callbacks import Report
from buttress._checks import Array
from buttress.attacks.gradient import direction
from buttress.attacks.problem import into_ball
from buttress.features import NystroemMap, landmarks, nystroem
from buttress.gram.rows import KernelRows
from buttress.kernels import Kernel, Linear
from buttress.solvers.gradient.worst_inputs import robust_descent
from buttress.solvers.qp.machines import SVMSolution, solve_svm
from buttress.solvers.run import Outcome, countdown, run

if TYPE_CHECKING:
    from buttress.adversarial.kernel import AdversarialSVC

BATCH = 500  # rows of one Adam iteration
MOST_STEPS = 200  # the default of max_iter, per class
ATTACK_REACH = 2  # total length of all steps of an attack, in radii of the ball: enough to cross the ball once


def fit_input(
    model: "AdversarialSVC", kernel: Kernel, X: Array, signs: Array, rng: np.random.RandomState, report: Report
) -> dict[str, Any]:
    """Return the attributes of a model fitted to labels ``signs`` (n, k) of -1 and 1, one machine a column."""
    count = len(X) if model.n_landmarks is None else model.n_landmarks
    phi = nystroem(kernel, landmarks(X, count, rng=rng))
    features = phi(X)
    clock = countdown(model.max_time)
    last = signs.shape[1] - 1
    fits = [_fit_column(model, phi, X, features, y, rng, report, clock, inner=column < last)
            for column, y in enumerate(signs.T)]
    theta = np.stack([to_numpy(outcome.state[0]) for _, outcome in fits], axis=1)
    return {
        "expansion_": phi.expansion(theta, np.array([outcome.state[1] for _, outcome in fits])),
        "landmarks_": phi.landmarks,
        "natural_gap_": np.array([natural.gap for natural, _ in fits]),
        "n_iter_": sum(outcome.n_iter for _, outcome in fits),
        "history_": fits[-1][1].history,
    }


def _fit_column(
    model: "AdversarialSVC", phi: NystroemMap, X: Array, features: Array, y: Array, rng: np.random.RandomState,
    report: Report, clock: Callable[[], float | None], *, inner: bool,
) -> tuple[SVMSolution, Outcome]:
    """Return the natural solution and the adversarial training that starts from it, on the model's device."""
    natural = solve_svm(KernelRows(Linear(), features), y, np.full(len(y), float(model.C)), tol=model.tol,
                        max_time=clock())
    theta = features.T @ natural.b
    if model.eps == 0:
        return natural, Outcome((theta, natural.intercept), "converged", 0, 0.0, natural.primal)
    place = Place(model.device)
    there = phi.moved(place)
    worst = partial(worst_inputs, there, model.eps, model.norm, model.attack_steps)
    steps = robust_descent(there, place(X), place(y), C=model.C, worst=worst, theta=place(theta),
                           intercept=natural.intercept, batch=BATCH, rng=rng)
    return natural, run(steps, tol=model.tol, max_iter=MOST_STEPS if model.max_iter is None else model.max_iter,
                        max_time=clock(), callback=report, progress=model.progress, name="adversarial training",
                        warn=("max_time",), inner=inner)


def worst_inputs(
    phi: NystroemMap, eps: float, norm: str, steps: int, X: Array, y: Array, theta: Array, intercept: float
) -> Array:
    """Return the inputs after a few steps from X that lower the margin: the last ones, because the model changes too.
    """
    coef = phi.root @ theta
    length = min(eps, ATTACK_REACH * eps / steps)
    moved = X
    for _ in range(steps):
        down = direction(phi.at(moved).gradient(-y[:, None] * coef), norm)
        down *= length
        moved = X + into_ball(moved + down - X, eps, norm)
    return moved
