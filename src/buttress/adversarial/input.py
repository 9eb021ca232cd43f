"""``defense="input"``: a kernel expansion trained on rows that gradient steps have perturbed, all classes jointly."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve

from buttress._arrays import NUMPY, Place, namespace, place_of, to_numpy
from buttress._callbacks import Report, showing
from buttress._checks import Array, check_box
from buttress._types import Rows
from buttress.adversarial.centres import centre_count
from buttress.attacks.ball import direction, into_ball, random_in_ball
from buttress.attacks.gradient import REACH
from buttress.expansion import KernelExpansion
from buttress.features import NystroemMap, landmarks, nystroem
from buttress.gram.rows import KernelRows
from buttress.kernels import Kernel, Linear, Radial
from buttress.kernels.named import can_stretch
from buttress.solvers.gradient.worst_inputs import Machine, Trained, joint_descent, kernel_of, score_slopes
from buttress.solvers.qp.solve import solve_svm
from buttress.solvers.run import run

if TYPE_CHECKING:
    from buttress.adversarial.kernel import AdversarialSVC

BATCH = 128  # rows of one Adam iteration
MOST_STEPS = 400  # the default of max_iter
START_RIDGE = 1e-3  # of the ridge start, a row
SURE = 10.0  # the lead that the start aims at: a loss of e^-10
SINGLE_FROM = 10_000  # entries of X from which training is in single precision, which halves its time
# entries of X from which centres, which training moves, start at random rows: kmeans++ would take as long as training
UNIFORM_FROM = 100_000


def fit_input(
    model: "AdversarialSVC", kernel: Kernel, X: Array, codes: Rows, contrasts: Array, rng: np.random.RandomState,
    report: Report, clock: Callable[[], float | None],
) -> tuple[dict[str, Any], bool]:
    """Return the attributes of a model fitted to classes ``codes`` (n,), and whether training went to its end.

    For eps = 0 it is the plain machine.
    """
    method = "uniform" if X.size >= UNIFORM_FROM else "kmeans++"
    count = centre_count(model.n_landmarks, len(X), len(contrasts))
    phi = nystroem(kernel, landmarks(X, count, rng=rng, method=method))
    if model.eps == 0:
        return _natural(model, phi, X, codes, contrasts.shape[2], clock), True
    place = Place(model.device, "float32" if X.size >= SINGLE_FROM else "float64")
    attack = attack_of(model, X, contrasts[codes], rng, place)
    start = Machine(*map(place, vars(ridge_start(phi, X, codes, contrasts)).values()))
    iterations = MOST_STEPS if model.max_iter is None else model.max_iter
    steps = joint_descent(kernel, attack.X, attack.V, start, C=model.C, worst=attack, batch=BATCH,
                          iterations=iterations, trained=Trained(isinstance(kernel, Radial), can_stretch(kernel)),
                          rng=rng, left=clock)

    def at(machine: Machine) -> dict[str, Any]:
        coef, intercept, centers, _ = (to_numpy(part).astype(np.float64) for part in vars(machine).values())
        return {"expansion_": KernelExpansion(kernel_of(kernel, machine), centers, coef, intercept),
                "landmarks_": centers}

    outcome = run(steps, max_iter=iterations, max_time=clock(), callback=showing(report, lambda step: at(step.state)),
                  progress=model.progress, name="adversarial training", warn=("max_time",))
    found = {**at(outcome.state), "n_iter_": outcome.n_iter, "history_": outcome.history}
    return found, outcome.status in ("converged", "max_iter")


def ridge_start(phi: NystroemMap, X: Array, codes: Rows, contrasts: Array) -> Machine:
    """Return ridge regression on features phi to a lead of ``SURE`` of each row's class over every rival."""
    targets = SURE * _label_scores(contrasts)[codes]
    mean = targets.mean(axis=0)
    features = phi(X)
    A = features.T @ features
    A.flat[:: len(A) + 1] += START_RIDGE * len(X)
    theta = solve(A, features.T @ (targets - mean), assume_a="pos")
    return Machine(phi.root @ theta, mean, phi.landmarks, np.zeros(1))


def _label_scores(contrasts: Array) -> Array:
    """Return scores (n_classes, k) of each class that lead over every rival by 1."""
    scores: Array = contrasts.mean(axis=1)
    return scores / (contrasts[0, 0] @ scores[0])


@dataclass
class Attack:
    """Finds worst inputs by gradient steps on the loss, from random points of the ball.

    Parameters
    ----------
    eps, norm : float, str
    steps : int
    rng : RandomState
    X : array of shape (n, d)
    V : array of shape (n, r, k)
        The contrasts of each row's class.
    low, high : arrays of shape (n, d) or None
    """

    eps: float
    norm: str
    steps: int
    rng: np.random.RandomState
    X: Array
    V: Array
    low: Array | None
    high: Array | None

    def __call__(self, at: Any, machine: Machine, rows: Rows, share: float, whole: bool = True) -> Array:
        """Return the last inputs met, within ``share`` of the radius: the machine changes too.

        Not the ``whole`` attack is its first step, as long as the radius.
        """
        X, V, radius = self.X[rows], self.V[rows], self.eps * share
        steps = self.steps if whole else 1
        length = min(radius, REACH * radius / steps)
        offset = place_of(X)(random_in_ball(self.rng, tuple(X.shape), radius, self.norm))
        moved = self._into(rows, X, offset, radius)
        for _ in range(steps):
            point = at(moved)
            _, pull = score_slopes(point, machine, V)
            down = direction(point.gradient(pull @ machine.coef.T), self.norm)
            down *= -length
            down += moved
            down -= X
            moved = self._into(rows, X, down, radius)
        return moved

    def _into(self, rows: Rows, X: Array, offset: Array, radius: float) -> Array:
        moved = into_ball(offset, radius, self.norm)
        moved += X
        if self.low is None or self.high is None:
            return moved
        return namespace(X).clip(moved, self.low[rows], self.high[rows])


def attack_of(
    model: "AdversarialSVC", X: Array, V: Array, rng: np.random.RandomState, place: Place = NUMPY
) -> Attack:
    """Return the attack that the model is to withstand, on rows X whose classes have contrasts V."""
    low = high = None
    if model.bounds is not None:
        low, high = (place(np.broadcast_to(side, X.shape)) for side in check_box(model.bounds, X))
    return Attack(float(model.eps), model.norm, model.attack_steps, rng, place(X), place(V), low, high)


def _natural(
    model: "AdversarialSVC", phi: NystroemMap, X: Array, codes: Rows, k: int, clock: Callable[[], float | None]
) -> dict[str, Any]:
    """Return the attributes of the plain machine: of more than two classes, each against the rest."""
    features = phi(X)
    rows = KernelRows(Linear(), features)
    signs = np.where(codes[:, None] == ([1] if k == 1 else range(k)), 1.0, -1.0)
    fits = [solve_svm(rows, y, np.full(len(y), float(model.C)), tol=model.tol, max_time=clock()) for y in signs.T]
    theta = np.stack([features.T @ fit.b for fit in fits], axis=1)
    return {"expansion_": phi.expansion(theta, np.array([fit.intercept for fit in fits])),
            "landmarks_": phi.landmarks, "n_iter_": 0, "history_": []}
