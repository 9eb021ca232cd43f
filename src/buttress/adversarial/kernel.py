"""The kernel classifier trained against perturbed inputs."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from buttress._arrays import check_device
from buttress._callbacks import CallbackSupportMixin, Report, step_callback, with_callbacks
from buttress._checks import (
    Array,
    check_classes,
    check_count,
    check_limits,
    check_number,
    check_option,
    check_X_y,
    warn_user,
)
from buttress._documented import ADVERSARIAL, advises
from buttress._predicting import ExpansionPredictions
from buttress._state import Attribute, State
from buttress._types import BoundsLike, MatrixLike, RandomStateLike, Rows, VectorLike
from buttress.adversarial.certified import can_certify, fit_certified
from buttress.adversarial.chosen import chosen
from buttress.adversarial.held_out import left_out, signs_of
from buttress.adversarial.input import fit_input
from buttress.adversarial.outdone import outdone_by
from buttress.adversarial.rkhs import fit_rkhs
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.checkpoints.resumable import resumable
from buttress.expansion import binary_contrasts, rival_contrasts
from buttress.kernels import Kernel, KernelLike, fitted_kernel
from buttress.solvers.run import SPENT, all_or_nothing, countdown

OUTDONE = ("defense='input' is no better than {} at eps={:g}. The model is that of defense='certified' in its place. "
           "Use a smaller eps, a larger C or another gamma for 'input'.")
INPUT = ("n_features_in_", "feature_names_in_")  # set by the checks of X


class AdversarialSVC(Probabilities, CallbackSupportMixin, ExpansionPredictions, ClassifierMixin, BaseEstimator):
    """Kernel support vector classifier trained against perturbations within a radius.

    ``defense="auto"`` fits "certified" and "input" to three quarters of the rows (of 2,000 at most) and attacks both on
    the other quarter. It takes "input" where that keeps more rows by more than chance would, else "certified", which
    has proofs, and fits it to all rows. Kernels that have no certificate get "input", and so do so
    many rows and columns that the certified machine would take minutes (ten classes of 784 columns from 1,600 rows on).

    ``defense="input"`` perturbs the inputs. With f(x) = sum_j a_j k(x, z_j) it minimises over a, b and, for kernels of
    a distance, the centres z too,

        1/2 ||f||^2 + C sum_i max over ||d_i|| <= eps of log(1 + sum_r exp(-lead_r(x_i + d_i))),

    where lead_r is by how much the score of the row's class exceeds that of class r, jointly for all classes. gamma of
    the RBF, Laplacian and Cauchy kernel is trained too, from the one given. Training starts at ridge regression;
    projected gradient steps perturb the inputs. Where the result is no better on its own
    rows than one class for all, or than the exact linear machine, the model is that of "certified", with a warning.
    eps = 0 attacks nothing and gives the plain machine of :class:`buttress.SVC`, each class against the rest.

    ``defense="certified"`` perturbs nothing. With a linear part, f(x) = sum_j (p_j - q_j) k(x, z_j) + W'x + b with
    p, q >= 0, lines below and above the kernel's values bound every lead from below over the whole ball, by a concave
    function L_i of all parameters. It minimises

        1/2 ||f||^2 + 1/2 ||W||^2 + C sum_i max(0, 1 - L_i),   L_i <= the least lead of row i within eps,

    jointly for all classes, from the exact linear machine, which is its case p = q = 0. The bounds are those of
    :func:`buttress.certificates.certified_within`: what it learns, it can prove.

    ``defense="rkhs"`` perturbs the features instead, for a kernel F(|x - z|^2). They move in a ball of radius
    r = sqrt(2 F(0) - 2 F(eps^2)), which contains the features of every perturbed input and much more. It minimises (Wu,
    Hu & Gu 2021, equation 6)

        1/2 ||f||^2 + C mean_i max(0, 1 - y_i (f(x_i) + b) + r ||f||).

    Its solution classifies exactly like the natural machine with the smaller C in ``natural_C_``. So this defence only
    renames C: a plain machine with another C gives every classifier that it can give.

    With more than two classes, "rkhs" trains each class against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses relative to the norm, > 0: of their mean for "rkhs", else of their sum.
    eps : float, default=0.1
        Radius of the perturbations, >= 0, in the units of X.
    norm : {"linf", "l2"}, default="linf"
        Norm of the perturbations. For "rkhs" the ball is in the l2 norm; with "linf" its radius is eps sqrt(d).
    defense : {"auto", "input", "certified", "rkhs"}, default="auto"
        What is perturbed: inputs; nothing, since a bound is trained; or features. "auto" takes one of the first two.
    solver : {"exact", "dsg", "sgd"}, default="exact"
        Solver of "rkhs": the exact solution by a search over the natural path, doubly stochastic gradients (batches of
        rows and blocks of random features), or stochastic gradients with the exact kernel. The others have one solver.
    step : {"diminishing", "constant"}, default="diminishing"
        Steps of "dsg" and "sgd": ``step_size`` / t, or ``step_size``.
    step_size : float or None
        None means 1 for diminishing steps and 0.1 for constant ones.
    kernel, degree, gamma, coef0
        As in :class:`buttress.SVC`; a positive definite kernel, for "rkhs" and "certified" one of RBF, Laplacian (l2),
        Cauchy and InverseMultiquadric.
    fit_intercept : bool, default=True
        Whether to fit an intercept b. The paper's machine has none; "input" and "certified" always have one.
    n_landmarks : int, "auto" or None, default="auto"
        Most centres of "input" and "certified"; None takes every row, which is the exact kernel. "auto" is 300, or for
        "input" 50 a class where that is more.
    bounds : (low, high) or None
        Of "input" and "certified": a box that holds the rows and that attackers stay in, numbers or arrays that
        broadcast to X.
    tune : {None, "attacked"}
        "attacked": C and gamma are chosen by accuracy under attack on a quarter of the rows, from those given, as by
        :func:`buttress.attacks.tuned`, at 8 more fits. For "auto" these are of "input"; up to 3 fits of "certified" are
        tried too, and it is taken where it keeps as many rows.
    attack_steps : int, default=5
        Gradient steps that search for each worst input in the last quarter of the training of "input"; before it is one
        step.
    n_features, batch_size, n_passes : int, default=1024, 500, 1
        Random features per block ("dsg"), rows per batch and passes over the rows ("dsg" and "sgd").
    tol : float, default=1e-3
        "exact": the largest relative duality gap. "input" and "certified": that of the plain and of the linear machine;
        their own training ends after ``max_iter``, "dsg" and "sgd" after ``n_passes``.
    max_iter : int or None
        Iterations of "input" (default 400) and "certified" (300; their steps get shorter until the last), most points
        of the path, or batches (no limit).
    max_time : float or None
        Most seconds a fit.
    random_state : int, RandomState or None
        For landmarks, batches and random features.
    device : str or None, default=None
        Train with torch on this device, such as "cuda" (``pip install buttress[torch]``); None is numpy. It works for
        "dsg" and "sgd", and for "input" and "certified" (except their starts) if the kernel depends on a distance or an
        inner product. The fitted model holds numpy arrays.
    progress : bool, default=False
        Show a progress line.
    checkpoint : str or None, default=None
        Folder in which the fit keeps, every few seconds, what it needs to go on if its process is killed.
    resume : bool or "approximately", default=False
        True: go on from what ``checkpoint`` holds of this fit, to the same bits, or start if it holds nothing.
        "approximately" accepts other versions or threads.

    Notes
    -----
    There is no ``sample_weight``: the search for worst inputs depends on signs of gradients, so one row of weight two
    and two equal rows could get different inputs.

    References
    ----------
    Madry, Makelov, Schmidt, Tsipras & Vladu, Towards deep learning models resistant to adversarial attacks, ICLR 2018.
    Wu, Hu & Gu, Fast and scalable adversarial training of kernel SVM via doubly stochastic gradients, AAAI 2021.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress import AdversarialSVC
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> model = AdversarialSVC(eps=0.1, gamma=1.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model = AdversarialSVC(defense="rkhs", C=100, eps=0.1, gamma=1.0).fit(X, y)
    >>> bool(model.natural_C_[0] < 100)
    True
    """

    _state = State(
        Attribute("contrasts_", "finite", "n_classes, *, n_scores",
                  "``contrasts_[c] @ scores`` are the leads of class c over its rivals."),
        Attribute("expansion_", "part", of="KernelExpansion, RandomExpansion", shares="n_features, n_scores",
                  meaning="The scores as a function of rows, for attacks."),
        Attribute("defense_", "text",
                  meaning='The defence of the model: what "auto" chose, or "certified" where "input" did not pay.'),
        Attribute("landmarks_", "finite", "n_landmarks, n_features",
                  "The centres.", when='with "input" and "certified"'),
        Attribute("certified_margin_", "real", "n_rows",
                  "L of the training rows; where it is positive, no attack within eps changes the class.",
                  when='with "certified"'),
        Attribute("feature_radius_", "nonnegative", meaning="r.", when='with "rkhs"'),
        Attribute("tuned_params_", "any", meaning="C, gamma and defense that ``tune`` chose.", when="with ``tune``"),
        Attribute("natural_C_", "real", "n_scores",
                  "The C (the weight of the mean loss) of the natural machine that gives the same classes.",
                  when='with "exact"'),
        Attribute("dual_gap_", "real", "n_scores", "Primal minus dual objective, with C mean as stated above.",
                  when='with "exact"'),
        Attribute("norm_", "nonnegative", "n_scores", "||f||, by its recursion.", when='with "dsg" and "sgd"'),
        Attribute("gradient_noise_", "real", "n_scores",
                  "l1 norm of the noise that random features add to the input gradient.", when='with "dsg"'),
        Attribute("gradient_signal_", "real", "n_scores", "l1 norm of the rest of it.", when='with "dsg"'),
        Attribute("n_iter_", "count", meaning="Steps against perturbed inputs, natural machines solved, or batches."),
        Attribute("history_", "history", columns="n_iter, seconds, gap, change, objective",
                  meaning='Of the last class; of "input" divided by C n, on at most 250 rows; for "dsg" and "sgd" an '
                          'estimate '
                          "from one batch."))

    @advises(**ADVERSARIAL)
    def __init__(
        self,
        *,
        C: float = 1.0,
        eps: float = 0.1,
        norm: str = "linf",
        defense: str = "auto",
        solver: str = "exact",
        step: str = "diminishing",
        step_size: float | None = None,
        kernel: KernelLike = "rbf",
        degree: float = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        fit_intercept: bool = True,
        n_landmarks: int | str | None = "auto",
        bounds: BoundsLike | None = None,
        tune: str | None = None,
        attack_steps: int = 5,
        n_features: int = 1024,
        batch_size: int = 500,
        n_passes: int = 1,
        tol: float = 1e-3,
        max_iter: int | None = None,
        max_time: float | None = None,
        random_state: RandomStateLike = None,
        device: str | None = None,
        progress: bool = False,
        checkpoint: str | None = None,
        resume: bool | str = False,
    ):
        self.C = C
        self.eps = eps
        self.norm = norm
        self.defense = defense
        self.solver = solver
        self.step = step
        self.step_size = step_size
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.n_landmarks = n_landmarks
        self.bounds = bounds
        self.tune = tune
        self.attack_steps = attack_steps
        self.n_features = n_features
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state
        self.device = device
        self.progress = progress
        self.checkpoint = checkpoint
        self.resume = resume

    @all_or_nothing
    @resumable
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike) -> "AdversarialSVC":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, a kernel the defence cannot use, an eps so large that "rkhs" has
        only the solution f = 0 (the message gives the largest usable eps), NaN, inf or entries beyond 1e100 (naming the
        column), or fewer than two classes. Warns with FeatureNoiseWarning if the noise of random features exceeds the
        input gradient.
        """
        self._check_parameters()
        X, y = check_X_y(self, X, y)
        classes, codes = check_classes(y, "AdversarialSVC")
        warn_of_units(X, self.eps)
        n_classes = len(classes)
        contrasts = binary_contrasts() if n_classes == 2 else rival_contrasts(n_classes)
        report = step_callback(self, X, y, None, {"classes_": classes, "contrasts_": contrasts})
        rng = check_random_state(self.random_state)
        choice = chosen(self, fitted_kernel(self, X), X, codes)
        model = choice.model
        kernel = fitted_kernel(model, X)
        found = fit_by(model, kernel, X, codes, contrasts, rng, report, told=self.defense == "input")
        defense = "certified" if "certified_margin_" in found else model.defense
        found |= {"classes_": classes, "contrasts_": contrasts, "defense_": defense}
        if choice.tuned:
            found["tuned_params_"] = choice.tuned
        for name in [name for name in vars(self) if name.endswith("_") and name not in INPUT]:
            delattr(self, name)  # another defence or solver sets others; a fit that fails keeps the last model
        for name, value in found.items():
            setattr(self, name, value)
        self._certainty = Certainty(left_out(model, kernel, X, codes, found))
        return self

    def _check_parameters(self) -> None:
        check_number("C", self.C, 0)
        check_number("eps", self.eps, 0, closed="left", fix="It is a radius in the units of X; 0 is natural training.")
        check_option("norm", self.norm, ("linf", "l2"))
        check_option("defense", self.defense, ("auto", "input", "certified", "rkhs"))
        check_option("solver", self.solver, ("exact", "dsg", "sgd"))
        if self.tune is not None:
            check_option("tune", self.tune, ("attacked",))
            if np.ndim(self.eps) == 0 and self.eps == 0:
                raise ValueError("tune='attacked' compares machines under attack. Got eps=0. Give a radius, or leave "
                                 "tune at None.")
        check_option("step", self.step, ("diminishing", "constant"))
        if self.step_size is not None:
            check_number("step_size", self.step_size, 0)
        if self.defense != "rkhs" and self.solver != "exact":
            raise ValueError(f"solver={self.solver!r} solves the machine of defense='rkhs'. Got "
                             f"defense={self.defense!r}. Use defense='rkhs', or leave solver at 'exact'.")
        if self.defense != "rkhs" and not self.fit_intercept:
            raise ValueError(f"defense={self.defense!r} always has an intercept. Got fit_intercept=False. Use "
                             "defense='rkhs', or leave fit_intercept at True.")
        if self.defense == "rkhs" and self.bounds is not None:
            raise ValueError(f"bounds limit moved inputs. Got bounds={self.bounds!r} and defense='rkhs', which moves "
                             "features. Use defense='input' or 'certified', or leave bounds at None.")
        if self.defense == "rkhs" and self.solver == "exact" and self.device is not None:
            raise ValueError(f"solver='exact' computes with numpy. Got device={self.device!r}. Use solver='dsg' or "
                             "'sgd', or leave device at None.")
        check_device(self.device)
        check_number("tol", self.tol, 0)
        if isinstance(self.n_landmarks, str):
            check_option("n_landmarks", self.n_landmarks, ("auto",))
        elif self.n_landmarks is not None:
            check_count("n_landmarks", self.n_landmarks)
        for name in ("attack_steps", "n_features", "batch_size", "n_passes"):
            check_count(name, getattr(self, name))
        check_limits(self.max_iter, self.max_time)


def fit_by(
    model: AdversarialSVC, kernel: Kernel, X: Array, codes: Rows, contrasts: Array, rng: np.random.RandomState,
    report: Report, *, told: bool,
) -> dict[str, Any]:
    """Return the attributes of the model's defence, or of "certified" in place of an "input" that did not pay.

    ``told`` says whether "input" was asked for by name, so that its user is to know.
    """
    clock = countdown(model.max_time)
    if model.defense == "certified":
        return fit_certified(model, kernel, X, codes, contrasts, rng, report, clock)
    if model.defense == "rkhs":
        return fit_rkhs(model, kernel, X, signs_of(codes, contrasts), rng, report, clock)
    found, whole = fit_input(model, kernel, X, codes, contrasts, rng, report, clock)
    if model.eps == 0 or not whole or not can_certify(kernel):
        return found  # who stopped it wants the model as it is
    better = outdone_by(model, X, codes, contrasts, found, rng, clock)
    if better is None or clock() == SPENT:
        return found
    if told:
        warn_user(OUTDONE.format(better, model.eps))
    return fit_certified(model, kernel, X, codes, contrasts, rng, report, clock)


def warn_of_units(X: Array, eps: float) -> None:
    """Warn if X looks like pixels from 0 to 255 while eps is for pixels from 0 to 1."""
    if 0 < eps < 1 and X.min() >= 0 and 128 <= X.max() <= 255 and (np.rint(X) == X).all():
        warn_user(f"X holds whole numbers from 0 to {X.max():g}, and eps={eps:g} is less than one of them. Divide "
                  "X by 255, or give eps in the units of X.", UserWarning)
