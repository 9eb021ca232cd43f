"""The adversarial SVM of Wu, Hu & Gu by their algorithm, doubly stochastic gradients."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress._arrays import Place, to_numpy
from buttress._callbacks import all_or_nothing, showing, with_callbacks
from buttress._checks import Array, FeatureNoiseWarning, check_count, check_number, check_option, warn_user
from buttress._documented import ADVICE, advises
from buttress._rows import drawn_rows
from buttress._state import Attribute, State
from buttress._threads import own_threads
from buttress._types import MatrixLike, RandomStateLike, VectorLike
from buttress.adversarial.feature_ball import FeatureBallMachine
from buttress.adversarial.machine import MachineProblem
from buttress.expansion import KernelExpansion
from buttress.features import RandomExpansion, RandomFeatures, gradient_noise, random_features
from buttress.solvers.gradient.doubly_stochastic import KernelBasis, RandomBasis, doubly_stochastic, step_sizes
from buttress.solvers.run import Steps, run

JUDGED = 1000  # rows from which the radius at which f = 0 becomes optimal is estimated


@advises(**ADVICE["StochasticAdvSVM"])
@dataclass(kw_only=True, eq=False, repr=False)
class StochasticAdvSVM(FeatureBallMachine):
    """The machine of :class:`AdvSVM` by the paper's algorithm, doubly stochastic gradients.

    Each step is on a batch of rows and a block of random features. eps = 0 is natural training by such steps.

    Parameters
    ----------
    C, eps, norm, kernel, gamma, fit_intercept, max_time, progress
        As in :class:`AdvSVM`.
    step : {"diminishing", "constant"}, default="diminishing"
        Steps: ``step_size`` / t, or ``step_size``.
    step_size : float, default=1.0
    n_features : int or None, default=1024
        Random features a block; None takes the kernel itself.
    batch_size, n_passes : int, default=500, 1
        Rows a batch, and passes over the rows.
    max_iter : int or None
        Most batches.
    random_state : int, RandomState or None
        For batches and random features.
    device : str or None, default=None
        Train with torch on this device, such as "cuda" (``pip install buttress[torch]``); None is numpy. The fitted
        model holds numpy arrays.

    References
    ----------
    Wu, Hu & Gu, Fast and scalable adversarial training of kernel SVM via doubly stochastic gradients, AAAI 2021.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress import StochasticAdvSVM
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> model = StochasticAdvSVM(C=10, eps=0.01, n_features=None, batch_size=20, n_passes=5, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    _state = State(
        Attribute("gradient_noise_", "real", "n_scores", when="with random features",
                  meaning="l1 norm of the noise that random features add to the input gradient."),
        Attribute("gradient_signal_", "real", "n_scores", "l1 norm of the rest of it.", when="with random features"),
        Attribute("converged_", "bool", meaning="Whether all batches were taken."),
        Attribute("n_iter_", "count", meaning="Batches."),
        Attribute("history_", "history", meaning="The objective is an estimate from one batch."))

    step: str = "diminishing"
    step_size: float = 1.0
    n_features: int | None = 1024
    batch_size: int = 500
    n_passes: int = 1
    random_state: RandomStateLike = None
    device: str | None = None

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike) -> "StochasticAdvSVM":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError as :class:`AdvSVM` does. Warns with FeatureNoiseWarning if the noise of random features
        exceeds the input gradient.
        """
        check_option("step", self.step, ("diminishing", "constant"))
        check_number("step_size", self.step_size, 0)
        for name in ("batch_size", "n_passes", *(["n_features"] if self.n_features is not None else [])):
            check_count(name, getattr(self, name))
        for name in ("gradient_noise_", "gradient_signal_"):
            self.__dict__.pop(name, None)
        problem = self._posed(X, y, self.random_state, self.device)
        n = len(problem.X)
        few = problem.rng.permutation(n)[:JUDGED] if n > JUDGED else slice(None)
        if self.feature_radius_ > 0:
            self._first_points(problem, few)
        with own_threads():  # as in AdversarialSVC
            self._descend(problem)
        self._keep_left_out(problem)
        return self

    def _features(self, problem: MachineProblem, size: int) -> RandomFeatures:
        largest = np.abs(problem.X).max()
        if largest > 1e30:  # beyond, float32 cannot hold phases
            raise ValueError(f"Phases are computed in float32. Got entries of X up to {largest:.3g}. Scale the columns "
                             "(StandardScaler).")
        return random_features(problem.kernel, problem.X.shape[1], size, seed=int(problem.rng.randint(2**31)))

    def _descend(self, problem: MachineProblem) -> None:
        """Fit by ``n_passes`` passes of doubly stochastic gradients, or of the exact kernel's."""
        features = None if self.n_features is None else self._features(problem, self.n_features)

        def expansion(state: Any) -> KernelExpansion | RandomExpansion:
            coef, intercept = map(to_numpy, state[:2])
            if features is not None:
                return RandomExpansion(features, coef, intercept)
            used = np.flatnonzero(coef.any(axis=1))
            return KernelExpansion(problem.kernel, problem.X[used], coef[used], intercept)

        outcome = run(self._steps(problem, features), max_iter=self.max_iter, max_time=problem.clock(),
                      callback=showing(problem.report, lambda step: {"expansion_": expansion(step.state)}),
                      progress=self.progress, name=type(self).__name__, keep="last")
        found: Any = expansion(outcome.state)
        if features is not None:
            self.gradient_noise_, self.gradient_signal_ = _feature_noise(found, problem.X)
            found = RandomExpansion(features.fresh(), found.coef, found.intercept)
        self.expansion_ = found
        self.rkhs_norm_ = to_numpy(outcome.state[2])
        self.n_iter_ = outcome.n_iter
        self.converged_ = outcome.converged
        self.history_ = outcome.history

    def _steps(self, problem: MachineProblem, features: RandomFeatures | None) -> Steps:
        n, k = problem.signs.shape
        basis: Any
        if features is None:
            basis = KernelBasis(problem.kernel, problem.X, k, self.device)
        else:
            basis = RandomBasis(features, problem.X, self.n_passes * -(-n // int(self.batch_size)), k, self.device)
        return doubly_stochastic(basis, Place(self.device)(problem.signs), C=self.C, radius=self.feature_radius_,
                                 step=step_sizes(self.step, self.step_size), batch=int(self.batch_size),
                                 n_passes=self.n_passes, fit_intercept=self.fit_intercept, rng=problem.rng)


def _feature_noise(expansion: RandomExpansion, X: Array) -> tuple[Array, Array]:
    """Return the l1 norms of the input gradient's noise and signal, (k,) each; warn if the noise is larger."""
    place = Place(dtype="float32")  # the precision of training, whose blocks are still stored
    rows = place(X[drawn_rows(len(X), 50)])
    noise = gradient_noise(expansion)
    there = RandomExpansion(expansion.features, place(expansion.coef), place(expansion.intercept))
    total = np.array([np.abs(there.gradient(rows, np.tile(one, (len(rows), 1)))).sum(axis=1).mean()
                      for one in np.eye(len(noise), dtype=np.float32)])
    with np.errstate(invalid="ignore"):
        signal = np.where(np.isfinite(noise), np.sqrt(np.maximum(0, total**2 - noise**2)), 0.0)
    if (noise > signal).any():
        column = int(np.argmax(noise - signal))
        warn_user(
            f"The random features add noise of l1 norm {noise[column]:.3g} to the gradient in the inputs, whose signal "
            f"is {signal[column]:.3g}: an attacker can follow the noise, whatever eps the model was trained with. Use "
            "AdvSVM, or AdversarialSVC with its landmarks; more features (n_features) help slowly.",
            FeatureNoiseWarning)
    return noise, signal
