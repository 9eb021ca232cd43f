"""The adversarial SVM of Wu, Hu & Gu, the machine against a ball in feature space: exact, and what is shared."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from buttress._callbacks import all_or_nothing, showing, with_callbacks
from buttress._checks import Array, NotConvergedWarning, check_number, warn_user
from buttress._documented import ADVICE, advises
from buttress._rows import drawn_rows
from buttress._state import Attribute, State, one_or_each
from buttress._types import MatrixLike, RandomStateLike, Rows, VectorLike
from buttress.adversarial.machine import LANDMARKS, AttackedMachine, MachineProblem, ScoredRows, feature_ball_held_out
from buttress.certainty.probabilities import Certainty
from buttress.expansion import KernelExpansion
from buttress.features import feature_radius, input_radius, spectrum_of
from buttress.kernels import Kernel
from buttress.solvers.qp.rkhs_path import Natural, first_point, natural_path, path_search
from buttress.solvers.run import Outcome, run


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureBallMachine(AttackedMachine):
    """A machine whose features move in a ball; its objective is documented at :class:`AdvSVM`."""

    _state = State(
        Attribute("feature_radius_", "nonnegative", meaning="r."),
        Attribute("rkhs_norm_", "nonnegative", "n_scores", "||f||."))

    fit_intercept: bool = True
    max_iter: int | None = None

    def _posed(self, X: MatrixLike, y: VectorLike, random_state: RandomStateLike, device: str | None) -> MachineProblem:
        """Return the checked problem, and set the radius of the ball."""
        eps: Any = self.eps
        check_number("eps", eps, 0, closed="left", fix="It is a radius in the units of X; 0 is natural training.")
        problem = self._problem(X, y, random_state, device, None, None)
        spectrum_of(problem.kernel, type(self).__name__)
        self.feature_radius_ = feature_radius(problem.kernel, problem.region.radius * self._reach(problem.X))
        return problem

    def _reach(self, X: Array) -> float:
        """Return the l2 radius of a ball of radius 1."""
        return float(np.sqrt(X.shape[1])) if self.norm == "linf" else 1.0

    def _first_points(self, problem: MachineProblem, rows: Rows | slice) -> list[Natural]:
        """Return the first point of each machine's natural path on these rows.

        Raises ValueError if f = 0 is optimal there for every C; the message gives the largest eps that can be used.
        """
        firsts = [first_point(problem.kernel, problem.X[rows], y, fit_intercept=self.fit_intercept, left=problem.clock)
                  for y in problem.signs[rows].T]
        most = min(first.norm / first.total for first in firsts)
        if self.feature_radius_ > 0 and self.feature_radius_ >= most * (1 - 1e-6):  # a radius so near is refused too
            largest = input_radius(problem.kernel, most) / self._reach(problem.X)
            raise ValueError(
                f"eps={problem.region.radius:g} is too large for {type(self).__name__} with {problem.kernel!r}: its "
                f"ball in feature space (radius {self.feature_radius_:.4g}) covers the distance between the classes "
                f"(at most {most:.4g}), so that f = 0 is optimal for every C. Use eps < {largest:.4g}, a wider "
                "kernel, or AdversarialSVC, which has no such limit.")
        return firsts

    def _keep_left_out(self, problem: MachineProblem) -> None:
        landmarks = np.array(problem.X[drawn_rows(len(problem.X), LANDMARKS)])
        self._certainty = Certainty(partial(
            feature_ball_held_out, ScoredRows.of(problem), landmarks, self.expansion_, self.C, self.feature_radius_,
            self.rkhs_norm_, intercept=self.fit_intercept))


@advises(**ADVICE["AdvSVM"])
@dataclass(kw_only=True, eq=False, repr=False)
class AdvSVM(FeatureBallMachine):
    """The adversarial SVM of Wu, Hu & Gu (2021), exact: a kernel machine whose features, not its inputs, are perturbed.

    For a kernel F(|x - z|^2) features move in a ball of radius r = sqrt(2 F(0) - 2 F(eps^2)), which contains the
    features of every perturbed input and much more. It minimises (equation 6)

        1/2 ||f||^2 + C mean_i max(0, 1 - y_i (f(x_i) + b) + r ||f||).

    Its solution classifies exactly like the natural machine with the smaller C in ``natural_C_``, which a search over
    the natural path finds. So as a defence it only renames C: a plain machine with another C gives every classifier
    that it can give. It is here to compare with. More than two classes are each trained against the rest.

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
    tol : float, default=1e-3
        The largest relative duality gap.
    max_iter : int or None
        Most points of the path.
    max_time : float or None
        Most seconds a fit.
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
        Attribute("natural_C_", "real", "n_scores",
                  "The C (the weight of the mean loss) of the natural machine that gives the same classes."),
        Attribute("dual_gap_", "real", "one or n_scores", "Primal minus dual objective, with C mean as stated above."),
        Attribute("converged_", "bool", meaning="Whether ``tol`` was met."),
        Attribute("n_iter_", "count", meaning="Natural machines solved."),
        Attribute("history_", "history", meaning="Of the last class."))

    tol: float = 1e-3

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike) -> "AdvSVM":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, another kernel, an eps so large that f = 0 is the only solution
        (the message gives the largest usable eps), NaN, inf or entries beyond 1e100 (naming the column), or fewer than
        two classes.
        """
        check_number("tol", self.tol, 0)
        problem = self._posed(X, y, None, None)
        self._search(problem, self._first_points(problem, slice(None)))
        self._keep_left_out(problem)
        return self

    def _search(self, problem: MachineProblem, firsts: list[Natural]) -> None:
        """Search the natural path of each machine; C is the weight of the mean loss, so each row's loss has C/n."""
        X, kernel, n = problem.X, problem.kernel, len(problem.X)
        outcomes: list[Outcome] = []
        shown = showing(problem.report, lambda step: {
            "expansion_": _exact_expansion(kernel, X, [*(outcome.state for outcome in outcomes), step.state])})
        for y, first in zip(problem.signs.T, firsts, strict=True):
            # the machines on the path are solved to a tenth of the tolerance of its search
            solve = natural_path(kernel, X, y, fit_intercept=self.fit_intercept, tol=self.tol / 10,
                                 left=problem.clock)
            steps = path_search(solve, first, y, C=self.C / n, radius=self.feature_radius_, left=problem.clock)
            last = first is firsts[-1]  # only then a step is a model
            outcomes.append(run(steps, tol=self.tol, max_iter=self.max_iter, max_time=problem.clock(),
                                callback=shown if last else problem.report, progress=self.progress, name="path search",
                                inner=not last))
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


def _exact_expansion(kernel: Kernel, X: Array, states: list[Any]) -> KernelExpansion:
    """Return the scores of one state of the path search a machine."""
    coef = np.stack([state[0] for state in states], axis=1)
    used = np.flatnonzero(coef.any(axis=1))
    return KernelExpansion(kernel, X[used], coef[used], np.array([state[1] for state in states]))
