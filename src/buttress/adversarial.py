"""Classifiers trained against perturbed inputs."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, step_callback, with_callbacks
from buttress._checks import (
    Array,
    check_classes,
    check_count,
    check_limits,
    check_number,
    check_option,
    check_X,
    check_X_y,
)
from buttress.attacks.gradient import direction, into_ball
from buttress.expansion import binary_contrasts, rival_contrasts, winners
from buttress.features import NystroemMap, landmarks, nystroem
from buttress.kernels import Linear, fitted_kernel
from buttress.solvers.adversarial import robust_descent
from buttress.solvers.classify import SVMSolution, solve_svm
from buttress.solvers.rows import KernelRows
from buttress.solvers.run import Outcome, run


class AdversarialSVC(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Kernel support vector classifier trained against the worst input within a radius.

    Minimises 1/2 ||theta||^2 + C sum_i max over ||d_i|| <= eps of max(0, 1 - y_i (theta'phi(x_i + d_i) + b)) with phi
    the Nystroem features of the kernel. The natural solution (eps = 0) is found exactly; for eps > 0 training goes on
    from there with inputs perturbed by projected gradient steps. More than two classes are each set against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge losses against the norm, > 0.
    eps : float, default=0.1
        Radius of the perturbations, >= 0, in the units of X.
    norm : {"linf", "l2"}, default="linf"
        Norm of the perturbations.
    defense : {"input"}, default="input"
        Where inputs are perturbed: in the space of the inputs.
    kernel, degree, gamma, coef0
        As in :class:`buttress.SVC`, positive definite kernels only.
    n_landmarks : int, default=300
        Most landmarks of the Nystroem features.
    attack_steps : int, default=3
        Gradient steps that look for each worst input in training.
    tol : float, default=1e-3
        Of the natural solution, as in :class:`buttress.SVC`; training against perturbed inputs ends when its objective
        fell by less than this share in 50 iterations.
    max_iter : int, default=200
        Most iterations of the training against perturbed inputs, per class.
    max_time : float or None
        Most seconds per class for each of the two stages.
    random_state : int, RandomState or None
        Of the landmarks and of the batches.
    progress : bool, default=False
        Show a progress line.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    landmarks_ : array of shape (m, d)
    natural_gap_ : array of shape (k,)
        Duality gap of the natural start, per column of scores (k = 1 for two classes).
    n_iter_ : int
        Steps taken against perturbed inputs.
    history_ : list of dict
        n_iter, seconds, gap and robust training objective (of the last class).

    Notes
    -----
    No ``sample_weight`` is taken: the search for worst inputs branches on signs of gradients, so a weight of two and
    two equal rows could part ways.

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

    def __init__(
        self,
        *,
        C: float = 1.0,
        eps: float = 0.1,
        norm: str = "linf",
        defense: str = "input",
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        n_landmarks: int = 300,
        attack_steps: int = 3,
        tol: float = 1e-3,
        max_iter: int = 200,
        max_time: float | None = None,
        random_state: Any = None,
        progress: bool = False,
    ):
        self.C = C
        self.eps = eps
        self.norm = norm
        self.defense = defense
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.attack_steps = attack_steps
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state
        self.progress = progress

    @with_callbacks
    def fit(self, X: Any, y: Any) -> "AdversarialSVC":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, a kernel that is not positive definite, NaN, inf or entries
        beyond 1e100 (naming the column), or fewer than two classes.
        """
        self._check_parameters()
        X, y = check_X_y(self, X, y)
        self.classes_, codes = check_classes(y, "AdversarialSVC")
        rng = check_random_state(self.random_state)
        phi = nystroem(fitted_kernel(self, X), landmarks(X, self.n_landmarks, rng=rng))
        report = step_callback(self, X, y, None)
        n_classes = len(self.classes_)
        positives = [1] if n_classes == 2 else range(n_classes)
        fits = [self._fit_class(phi, X, np.where(codes == c, 1.0, -1.0), rng, report) for c in positives]
        theta = np.stack([outcome.state[0] for _, outcome in fits], axis=1)
        self.expansion_ = phi.expansion(theta, np.array([outcome.state[1] for _, outcome in fits]))
        self.contrasts_ = binary_contrasts() if n_classes == 2 else rival_contrasts(n_classes)
        self.landmarks_ = phi.landmarks
        self.natural_gap_ = np.array([natural.gap for natural, _ in fits])
        self.n_iter_ = sum(outcome.n_iter for _, outcome in fits)
        self.history_ = fits[-1][1].history
        return self

    def _check_parameters(self) -> None:
        check_number("C", self.C, 0)
        check_number("eps", self.eps, 0, closed="left", fix="It is a radius in the units of X; 0 is natural training.")
        check_option("norm", self.norm, ("linf", "l2"))
        check_option("defense", self.defense, ("input",))
        check_number("tol", self.tol, 0)
        check_count("attack_steps", self.attack_steps)
        check_limits(self.max_iter, self.max_time)

    def _fit_class(self, phi: NystroemMap, X: Array, y: Array, rng: Any, report: Any) -> tuple[SVMSolution, Outcome]:
        """Return the natural solution and the run against perturbed inputs that starts from it."""
        features = phi(X)
        natural = solve_svm(KernelRows(Linear(), features), y, np.full(len(y), float(self.C)), tol=self.tol,
                            max_time=self.max_time)
        theta = features.T @ natural.b
        if self.eps == 0:
            return natural, Outcome((theta, natural.intercept), "converged", 0, 0.0, natural.primal)
        steps = robust_descent(phi, X, y, C=self.C, worst=partial(self._worst, phi), theta=theta,
                               intercept=natural.intercept, batch=500, rng=rng)
        return natural, run(steps, tol=self.tol, max_iter=self.max_iter, max_time=self.max_time, callback=report,
                            progress=self.progress, warn=False, name="adversarial training")

    def _worst(self, phi: NystroemMap, X: Array, y: Array, theta: Array, intercept: float) -> Array:
        """Return the inputs that a few steps down the margin reach from X; the last, for the model moves with them."""
        expansion = phi.expansion(theta[:, None], np.array([intercept]))
        length, moved = min(self.eps, 2 * self.eps / self.attack_steps), X
        for _ in range(self.attack_steps):
            down = direction(expansion.gradient(moved, -y[:, None]), self.norm)
            moved = X + into_ball(moved + length * down - X, self.eps, self.norm)
        return moved

    def decision_function(self, X: Any) -> Array:
        """Return the scores of X (n, d): (n,) for two classes, positive for ``classes_[1]``, else (n, n_classes)."""
        check_is_fitted(self)
        scores = self.expansion_(check_X(self, X))
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (n, d)."""
        check_is_fitted(self)
        return self.classes_[winners(self.expansion_(check_X(self, X)), self.contrasts_)]
