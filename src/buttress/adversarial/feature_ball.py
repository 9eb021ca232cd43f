"""The adversarial SVM of Wu, Hu & Gu: the machine against a ball in feature space, exact or by stochastic gradients."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress._arrays import Place, to_numpy
from buttress._callbacks import ModelOf, showing, with_callbacks
from buttress._checks import (
    Array,
    FeatureNoiseWarning,
    NotConvergedWarning,
    check_count,
    check_number,
    check_option,
    warn_user,
)
from buttress._documented import ADV_SVM, advises
from buttress._rows import drawn_rows
from buttress._state import Attribute, State, one_or_each
from buttress._types import MatrixLike, VectorLike
from buttress.adversarial.held_out import feature_ball_held_out
from buttress.adversarial.machine import AttackedMachine, Problem
from buttress.certainty.probabilities import Certainty
from buttress.expansion import KernelExpansion
from buttress.features import (
    RandomExpansion,
    feature_radius,
    gradient_noise,
    input_radius,
    random_features,
    spectrum_of,
)
from buttress.kernels import Kernel
from buttress.solvers.gradient.doubly_stochastic import KernelBasis, RandomBasis, doubly_stochastic, step_sizes
from buttress.solvers.qp.rkhs_path import Natural, first_point, natural_path, path_search
from buttress.solvers.run import Outcome, all_or_nothing, run

NEAR_COLLAPSE = 1e-6  # radii closer than this share to the one at which f = 0 becomes optimal are refused too
MOST_SINGLE = 1e30  # largest entry whose phases float32 can hold
GRADIENT_ROWS = 50  # rows on which the gradient of the features is compared with its noise
SHARPER = 10  # the tolerance of the path search is this many times that of each natural machine
JUDGED = 1000  # rows from which the radius at which f = 0 becomes optimal is estimated for a stochastic solver
OF_ONE_SOLVER = ("natural_C_", "dual_gap_", "gradient_noise_", "gradient_signal_")


@advises(**ADV_SVM)
@dataclass(kw_only=True, eq=False, repr=False)
class AdvSVM(AttackedMachine):
    """The adversarial SVM of Wu, Hu & Gu (2021): a kernel machine whose features, not its inputs, are perturbed.

    For a kernel F(|x - z|^2) features move in a ball of radius r = sqrt(2 F(0) - 2 F(eps^2)), which contains the
    features of every perturbed input and much more. It minimises (equation 6)

        1/2 ||f||^2 + C mean_i max(0, 1 - y_i (f(x_i) + b) + r ||f||).

    Its solution classifies exactly like the natural machine with the smaller C in ``natural_C_``. So as a defence it
    only renames C: a plain machine with another C gives every classifier that it can give. It is here to compare with;
    eps = 0 is natural training by doubly stochastic gradients. More than two classes are each trained against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the mean of the losses relative to the norm, > 0.
    eps : float, default=0.1
        Radius of the perturbations, >= 0, in the units of X.
    norm : {"linf", "l2"}, default="linf"
        The ball is in the l2 norm; with "linf" its radius is eps sqrt(d).
    kernel : str or kernel, default="rbf"
        RBF, Laplacian (l2), Cauchy or InverseMultiquadric.
    gamma : float, "scale" or "auto", default="scale"
    fit_intercept : bool, default=True
        Whether to fit an intercept b. The paper's machine has none.
    solver : {"exact", "dsg", "sgd"}, default="exact"
        The exact solution by a search over the natural path, doubly stochastic gradients (batches of rows and blocks
        of random features), or stochastic gradients with the exact kernel.
    step : {"diminishing", "constant"}, default="diminishing"
        Steps of "dsg" and "sgd": ``step_size`` / t, or ``step_size``.
    step_size : float, default=1.0
    n_features, batch_size, n_passes : int, default=1024, 500, 1
        Random features per block ("dsg"), rows per batch and passes over the rows ("dsg" and "sgd").
    tol : float, default=1e-3
        Of "exact": the largest relative duality gap. The others end after ``n_passes``.
    max_iter : int or None
        Most points of the path, or batches.
    max_time : float or None
        Most seconds a fit.
    random_state : int, RandomState or None
        For batches and random features.
    device : str or None, default=None
        Train "dsg" and "sgd" with torch on this device, such as "cuda" (``pip install buttress[torch]``); None is
        numpy. The fitted model holds numpy arrays.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Wu, Hu & Gu, Fast and scalable adversarial training of kernel SVM via doubly stochastic gradients, AAAI 2021.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress import AdvSVM
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> model = AdvSVM(C=100, eps=0.1, gamma=1.0).fit(X, y)
    >>> bool(model.natural_C_[0] < 100)
    True
    """

    _state = State(
        Attribute("feature_radius_", "nonnegative", meaning="r."),
        Attribute("rkhs_norm_", "nonnegative", "n_scores", '||f||; of "dsg" and "sgd" by its recursion.'),
        Attribute("natural_C_", "real", "n_scores",
                  "The C (the weight of the mean loss) of the natural machine that gives the same classes.",
                  when='with "exact"'),
        Attribute("dual_gap_", "real", "one or n_scores", "Primal minus dual objective, with C mean as stated above.",
                  when='with "exact"'),
        Attribute("gradient_noise_", "real", "n_scores",
                  "l1 norm of the noise that random features add to the input gradient.", when='with "dsg"'),
        Attribute("gradient_signal_", "real", "n_scores", "l1 norm of the rest of it.", when='with "dsg"'),
        Attribute("converged_", "bool", meaning="Whether ``tol`` was met; of batches, whether all were taken."),
        Attribute("n_iter_", "count", meaning="Natural machines solved, or batches."),
        Attribute("history_", "history", meaning='Of the last class; for "dsg" and "sgd" an estimate from one batch.'))

    fit_intercept: bool = True
    solver: str = "exact"
    step: str = "diminishing"
    step_size: float = 1.0
    n_features: int = 1024
    batch_size: int = 500
    n_passes: int = 1
    tol: float = 1e-3

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike) -> "AdvSVM":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, another kernel, an eps so large that f = 0 is the only solution
        (the message gives the largest usable eps), NaN, inf or entries beyond 1e100 (naming the column), or fewer than
        two classes. Warns with FeatureNoiseWarning if the noise of random features exceeds the input gradient.
        """
        self._check_solver()
        problem = self._problem(X, y)
        for name in OF_ONE_SOLVER:
            self.__dict__.pop(name, None)
        kernel, signs = problem.kernel, problem.signs
        spectrum_of(kernel, "AdvSVM")
        reach = np.sqrt(problem.X.shape[1]) if self.norm == "linf" else 1.0
        self.feature_radius_ = feature_radius(kernel, self.eps * reach)
        firsts = self._first_points(problem, signs)
        if self.feature_radius_ > 0:
            refuse_collapse(self.eps, kernel, self.feature_radius_, firsts, reach)
        if self.solver == "exact":
            self._fit_exact(problem, signs, firsts)
        else:
            self._fit_stochastic(problem, signs)
        self._certainty = Certainty(feature_ball_held_out(problem, self.expansion_, self.C, self.feature_radius_,
                                                          self.rkhs_norm_, intercept=self.fit_intercept))
        return self

    def _check_solver(self) -> None:
        check_option("solver", self.solver, ("exact", "dsg", "sgd"))
        check_option("step", self.step, ("diminishing", "constant"))
        check_number("step_size", self.step_size, 0)
        check_number("tol", self.tol, 0)
        for name in ("n_features", "batch_size", "n_passes"):
            check_count(name, getattr(self, name))
        if self.solver == "exact" and self.device is not None:
            raise ValueError(f"solver='exact' computes with numpy. Got device={self.device!r}. Use solver='dsg' or "
                             "'sgd', or leave device at None.")

    def _first_points(self, problem: Problem, signs: Array) -> list[Natural]:
        """Return the first point of each machine's natural path, of some rows where a stochastic solver needs it."""
        n = len(problem.X)
        few = problem.rng.permutation(n)[:JUDGED] if self.solver != "exact" and n > JUDGED else slice(None)
        if self.feature_radius_ == 0 and self.solver != "exact":
            return []
        return [first_point(problem.kernel, problem.X[few], y, fit_intercept=self.fit_intercept, left=problem.clock)
                for y in signs[few].T]

    def _fit_exact(self, problem: Problem, signs: Array, firsts: list[Natural]) -> None:
        """Search the natural path of each machine; C is the weight of the mean loss, so each row's loss has C/n."""
        X, kernel, n = problem.X, problem.kernel, len(problem.X)
        outcomes: list[Outcome] = []
        for y, first in zip(signs.T, firsts, strict=True):
            solve = natural_path(kernel, X, y, fit_intercept=self.fit_intercept, tol=self.tol / SHARPER,
                                 left=problem.clock)
            steps = path_search(solve, first, y, C=self.C / n, radius=self.feature_radius_, left=problem.clock)
            last = first is firsts[-1]  # only then a step is a model
            report = showing(problem.report, self._shown(kernel, X, outcomes)) if last else problem.report
            outcomes.append(run(steps, tol=self.tol, max_iter=self.max_iter, max_time=problem.clock(), callback=report,
                                progress=self.progress, name="path search", inner=not last))
        stuck = [outcome.gap for outcome in outcomes if outcome.status == "exhausted"]
        if stuck:
            warn_user(f"The path search ended with gap {max(stuck):.3g} > tol {self.tol:.3g}, at the accuracy of its "
                      "natural machines. Raise tol, or scale the data.", NotConvergedWarning)
        self.expansion_ = _exact_expansion(kernel, X, [outcome.state for outcome in outcomes])
        values = self.expansion_(self.expansion_.centers) - self.expansion_.intercept
        self.rkhs_norm_ = np.sqrt(np.maximum(np.einsum("jk,jk->k", self.expansion_.coef, values), 0.0))
        self.natural_C_ = np.array([outcome.state[2] for outcome in outcomes]) * n
        self.dual_gap_ = one_or_each(outcome.gap * outcome.objective for outcome in outcomes)
        self.converged_ = all(outcome.converged for outcome in outcomes)
        self.n_iter_ = sum(outcome.n_iter + 1 for outcome in outcomes)
        self.history_ = outcomes[-1].history

    @staticmethod
    def _shown(kernel: Kernel, X: Array, before: list[Outcome]) -> ModelOf:
        """Return what makes a model of a step of the last machine's search."""
        known = [outcome.state for outcome in before]
        return lambda step: {"expansion_": _exact_expansion(kernel, X, [*known, step.state])}

    def _fit_stochastic(self, problem: Problem, signs: Array) -> None:
        """Make ``n_passes`` passes of doubly stochastic gradients, or of the exact kernel's."""
        X, kernel = problem.X, problem.kernel
        n, k = signs.shape
        if self.solver == "dsg":
            n_terms = self.n_passes * -(-n // self.batch_size)
            features = self._features(problem)
            basis: Any = RandomBasis(features, X, n_terms, k, self.device)
        else:
            basis = KernelBasis(kernel, X, k, self.device)
        steps = doubly_stochastic(basis, Place(self.device)(signs), C=self.C, radius=self.feature_radius_,
                                  step=step_sizes(self.step, self.step_size), batch=self.batch_size,
                                  n_passes=self.n_passes, fit_intercept=self.fit_intercept, rng=problem.rng)

        def expansion(state: Any) -> KernelExpansion | RandomExpansion:
            coef, intercept, _ = map(to_numpy, state)
            if self.solver == "dsg":
                return RandomExpansion(features, coef, intercept)
            used = np.flatnonzero(coef.any(axis=1))
            return KernelExpansion(kernel, X[used], coef[used], intercept)

        outcome = run(steps, max_iter=self.max_iter, max_time=problem.clock(),
                      callback=showing(problem.report, lambda step: {"expansion_": expansion(step.state)}),
                      progress=self.progress, name=f"solver={self.solver!r}", keep="last")
        found: Any = expansion(outcome.state)
        if isinstance(found, RandomExpansion):
            self.gradient_noise_, self.gradient_signal_ = _feature_noise(found, X)
            found = RandomExpansion(features.fresh(), found.coef, found.intercept)
        self.expansion_ = found
        self.rkhs_norm_ = to_numpy(outcome.state[2])
        self.n_iter_ = outcome.n_iter
        self.converged_ = outcome.converged
        self.history_ = outcome.history

    def _features(self, problem: Problem) -> Any:
        largest = np.abs(problem.X).max()
        if largest > MOST_SINGLE:
            raise ValueError(f"solver='dsg' computes phases in float32. Got entries of X up to {largest:.3g}. Scale "
                             "the columns (StandardScaler).")
        seed = int(problem.rng.randint(2**31))
        return random_features(problem.kernel, problem.X.shape[1], self.n_features, seed=seed)


def refuse_collapse(eps: float, kernel: Kernel, radius: float, firsts: list[Natural], reach: float) -> None:
    """Raise ValueError if f = 0 is optimal for every C; the message gives the largest eps that can be used."""
    most = min(first.norm / first.total for first in firsts)
    if radius >= most * (1 - NEAR_COLLAPSE):
        largest = input_radius(kernel, most) / reach
        raise ValueError(
            f"eps={eps:g} is too large for AdvSVM with {kernel!r}: its ball in feature space (radius {radius:.4g}) "
            f"covers the distance between the classes (at most {most:.4g}), so that f = 0 is optimal for every C. Use "
            f"eps < {largest:.4g}, a wider kernel, or AdversarialSVC, which has no such limit."
        )


def _exact_expansion(kernel: Kernel, X: Array, states: list[Any]) -> KernelExpansion:
    """Return the scores of one state of the path search a machine."""
    coef = np.stack([state[0] for state in states], axis=1)
    used = np.flatnonzero(coef.any(axis=1))
    return KernelExpansion(kernel, X[used], coef[used], np.array([state[1] for state in states]))


def _feature_noise(expansion: RandomExpansion, X: Array) -> tuple[Array, Array]:
    """Return the l1 norms of the input gradient's noise and signal, (k,) each; warn if the noise is larger."""
    place = Place(dtype="float32")  # the precision of training, whose blocks are still stored
    rows = place(X[drawn_rows(len(X), GRADIENT_ROWS)])
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
            "solver='exact', or AdversarialSVC with its landmarks; more features (n_features) help slowly.",
            FeatureNoiseWarning)
    return noise, signal
