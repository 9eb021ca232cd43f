"""The kernel classifier trained on inputs that gradient steps have moved, all classes jointly."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve

from buttress._arrays import Place, namespace, place_of, to_numpy
from buttress._callbacks import all_or_nothing, with_callbacks
from buttress._checks import Array, check_count, check_option
from buttress._documented import ADVICE, advises
from buttress._state import Attribute, State
from buttress._threads import own_threads
from buttress._types import MatrixLike, Rows, VectorLike
from buttress.adversarial.machine import (
    MOST_CENTRES,
    LandmarkMachine,
    MachineProblem,
    ScoredRows,
    check_landmarks,
    cross_entropy_held_out,
)
from buttress.attacks.ball import Ball
from buttress.attacks.gradient import REACH
from buttress.certainty.probabilities import Certainty
from buttress.expansion import KernelExpansion
from buttress.features import NystroemMap, landmarks, nystroem
from buttress.solvers.gradient.worst_inputs import StretchedMachine, joint_descent, kernel_of, score_slopes


@advises(**ADVICE["AdversarialSVC"])
@dataclass(kw_only=True, eq=False, repr=False)
class AdversarialSVC(LandmarkMachine):
    """Kernel support vector classifier trained on the worst inputs within a radius that gradient steps find.

    With f(x) = sum_j a_j k(x, z_j) + b it minimises over a, b and, for kernels of a distance, the centres z too,

        1/2 ||f||^2 + C sum_i max over ||d_i|| <= eps of log(1 + sum_r exp(-lead_r(x_i + d_i))),

    where lead_r is the score of the row's class minus the score of class r, jointly for all classes. gamma of the RBF,
    Laplacian and Cauchy kernel is trained too. Training starts at ridge regression. Nothing is proven; for proofs use
    :class:`buttress.CertifiedSVC`. :class:`buttress.AdversarialClassifier` chooses between the two on held-out rows. If
    the result is no better on its own rows than the majority class, a warning says so.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the sum of the losses relative to the norm, > 0. On five small sets 10 was better than 1, with and
        without attack.
    eps : float or array of shape (d,) or (1, d), default=0.1
        Radius of the perturbations, one or one a column, >= 0, in the units of X; 0 moves nothing.
    norm : {"linf", "l2"}, default="linf"
    kernel : str, kernel or callable, default="rbf"
        Positive definite: a name (not "precomputed"), a kernel object, or a function.
    gamma : float, "scale" or "auto", default="scale"
    n_landmarks : int, "auto" or None, default="auto"
        Most centres; None takes every row, which is the exact kernel. "auto" is 300, or 50 for each class if that is
        more.
    bounds : (low, high) or None
        A box that holds the rows and that attackers stay in, numbers or arrays that broadcast to X.
    threat : ThreatModel or None
        What may be done to each column, in place of ``eps``, ``norm`` and ``bounds``. It is trained against the box
        that holds all moves and swaps together.
    attack_steps : int, default=5
        Gradient steps that search for each worst input in the last quarter of the training; before that, one step.
    max_iter : int, default=400
        Iterations of the training, which ends after them.
    max_time : float or None
        Most seconds a fit.
    random_state : int, RandomState or None
        For landmarks, batches and the starts of the search.
    device : str or None, default=None
        Train with torch on this device, such as "cuda" (``pip install buttress[torch]``), if the kernel depends on a
        distance or an inner product; None is numpy. The fitted model holds numpy arrays.
    progress : bool, default=False
        Show a progress line.

    Notes
    -----
    There is no ``sample_weight``: the search for worst inputs depends on signs of gradients, so one row of weight two
    and two equal rows could get different inputs.

    References
    ----------
    Madry, Makelov, Schmidt, Tsipras & Vladu, Towards deep learning models resistant to adversarial attacks, ICLR 2018.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress import AdversarialSVC
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> model = AdversarialSVC(eps=0.1, gamma=1.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _state = State(
        Attribute("history_", "history", meaning="The objective is divided by C n, on at most 250 rows."))

    C: float = 10.0
    n_landmarks: int | str | None = "auto"
    attack_steps: int = 5
    max_iter: int = 400

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike) -> "AdversarialSVC":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, a kernel that is not positive definite, NaN, inf or entries
        beyond 1e100 (naming the column), or fewer than two classes.
        """
        check_count("max_iter", self.max_iter)
        check_count("attack_steps", self.attack_steps)
        problem = self._problem(X, y, self.random_state, self.device, self.bounds, self.threat)
        phi = nystroem(problem.kernel, self._centres(problem))
        with own_threads():  # sums of a BLAS's threads are rounded otherwise, and many steps make much of that
            start = ridge_start(phi, problem.X, problem.codes, problem.contrasts)
            self._train(problem, start)
        self._certainty = Certainty(partial(cross_entropy_held_out, ScoredRows.of(problem), self.expansion_, self.C))
        self._warn_if_given_up(problem)
        return self

    def _centres(self, problem: MachineProblem) -> Array:
        n, classes = len(problem.X), len(problem.contrasts)
        if isinstance(self.n_landmarks, str):
            check_option("n_landmarks", self.n_landmarks, ("auto",))
            count = max(MOST_CENTRES, 50 * classes)
        else:
            check_landmarks(self.n_landmarks)
            count = self.n_landmarks or n
        # of many entries centres, which training moves, start at random rows: kmeans++ would take as long as training
        method = "uniform" if problem.X.size >= 100_000 else "kmeans++"
        return landmarks(problem.X, count, rng=problem.rng, method=method)

    def _train(self, problem: MachineProblem, start: StretchedMachine) -> None:
        kernel = problem.kernel
        # single precision halves the time of training
        place = Place(self.device, "float32" if problem.X.size >= 10_000 else "float64")
        attack = attack_of(self, problem, place)
        steps = joint_descent(kernel, attack.X, attack.V, StretchedMachine(*map(place, vars(start).values())), C=self.C,
                              worst=attack, batch=128, iterations=self.max_iter, rng=problem.rng, left=problem.clock)

        def expansion(machine: StretchedMachine) -> KernelExpansion:
            parts = machine.coef, machine.intercept, machine.centers
            coef, intercept, centers = (to_numpy(part).astype(np.float64) for part in parts)
            return KernelExpansion(kernel_of(kernel, machine), centers, coef, intercept)

        self._trained(problem, steps, expansion, "adversarial training")


def ridge_start(phi: NystroemMap, X: Array, codes: Rows, contrasts: Array) -> StretchedMachine:
    """Return ridge regression on features phi to a sure lead of each row's class over every rival."""
    label_scores = contrasts.mean(axis=1)
    label_scores = label_scores / (contrasts[0, 0] @ label_scores[0])
    targets = 10.0 * label_scores[codes]  # a loss of e^-10
    mean = targets.mean(axis=0)
    features = phi(X)
    A = features.T @ features
    A.flat[:: len(A) + 1] += 1e-3 * len(X)  # a row
    theta = solve(A, features.T @ (targets - mean), assume_a="pos")
    return StretchedMachine(phi.root @ theta, mean, phi.landmarks, np.zeros(1))


@dataclass
class Attack:
    """Finds worst inputs by gradient steps on the loss, from random points of the ball.

    Parameters
    ----------
    ball : Ball
    steps : int
    rng : RandomState
    X : array of shape (n, d)
    V : array of shape (n, r, k)
        The contrasts of each row's class.
    box : (low, high) of arrays of shape (n, d), or None
    """

    ball: Ball
    steps: int
    rng: np.random.RandomState
    X: Array
    V: Array
    box: tuple[Array, Array] | None

    def __call__(self, at: Any, machine: StretchedMachine, rows: Rows, share: float, whole: bool = True) -> Array:
        """Return the last inputs met, within ``share`` of the radius: the machine changes too.

        Not the ``whole`` attack is its first step, as long as the radius.
        """
        X, V, ball = self.X[rows], self.V[rows], self.ball.shrunk(share)
        steps = self.steps if whole else 1
        length = min(ball.radius, REACH * ball.radius / steps)
        moved = self._into(rows, X, ball.draw(self.rng, tuple(X.shape), place_of(X)), ball)
        for _ in range(steps):
            point = at(moved)
            _, pull = score_slopes(point.values, machine, V)
            moved = moved - ball.step(point.gradient(pull @ machine.coef.T), length)
            moved = self._into(rows, X, moved - X, ball)
        return moved

    def _into(self, rows: Rows, X: Array, offset: Array, ball: Ball) -> Array:
        moved = ball.project(offset) + X
        return moved if self.box is None else namespace(X).clip(moved, self.box[0][rows], self.box[1][rows])


def attack_of(model: AdversarialSVC, problem: MachineProblem, place: Place) -> Attack:
    """Return the attack that the model is to withstand."""
    region, box = problem.region, problem.region.box
    return Attack(Ball(region.radius, region.norm), model.attack_steps, problem.rng, place(problem.X),
                  place(problem.contrasts[problem.codes]), None if box is None else (place(box[0]), place(box[1])))
