"""The kernel classifier trained on its certificate, from the exact linear machine."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from buttress._arrays import Place, to_numpy
from buttress._callbacks import all_or_nothing, with_callbacks
from buttress._checks import Array, check_count
from buttress._documented import ADVICE, advises
from buttress._state import Attribute, State
from buttress._threads import own_threads
from buttress._types import MatrixLike, VectorLike
from buttress.adversarial.linear import AdversarialLinearSVC
from buttress.adversarial.machine import (
    MOST_CENTRES,
    LandmarkMachine,
    MachineProblem,
    ScoredRows,
    check_landmarks,
    hinge_held_out,
)
from buttress.certainty.probabilities import Certainty
from buttress.certificates.region import Attacker
from buttress.certificates.relaxation import RadialLines, can_relax
from buttress.expansion import KernelExpansion
from buttress.features import landmarks
from buttress.kernels import Radial
from buttress.solvers.gradient.certified_hinge import Regions, SplitMachine, bounds_of, certified_descent
from buttress.threats import BallInBox


@advises(**ADVICE["CertifiedSVC"])
@dataclass(kw_only=True, eq=False, repr=False)
class CertifiedSVC(LandmarkMachine):
    """Kernel support vector classifier trained on a provable bound of its margin within a radius.

    With a linear part, f(x) = sum_j (p_j - q_j) k(x, z_j) + W'x + b with p, q >= 0, lines below and above the kernel's
    values bound every lead from below over the whole ball, by a concave function L_i of all parameters. It minimises

        1/2 ||f||^2 + 1/2 ||W||^2 + C sum_i max(0, 1 - L_i),   L_i <= the least lead of row i within eps,

    jointly for all classes. Training starts from the exact linear machine, the case p = q = 0. The bounds are those of
    :func:`buttress.certificates.certified_within`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the sum of the losses relative to the norm, > 0.
    eps : float or array of shape (d,) or (1, d), default=0.1
        Radius of the perturbations, one or one a column, >= 0, in the units of X.
    norm : {"linf", "l2"}, default="linf"
    kernel : str or kernel, default="rbf"
        RBF, Laplacian (l2), Cauchy or InverseMultiquadric.
    gamma : float, "scale" or "auto", default="scale"
    n_landmarks : int or None, default=300
        Most centres; None takes every row, which is the exact kernel.
    bounds : (low, high) or None
        A box that holds the rows and that attackers stay in, numbers or arrays that broadcast to X.
    threat : ThreatModel or None
        What may be done to each column, in place of ``eps``, ``norm`` and ``bounds``. It is trained against the box
        that holds all moves and swaps together.
    max_iter : int, default=300
        Iterations of the training, which ends after them; its steps get shorter until the last.
    max_time : float or None
        Most seconds a fit.
    random_state : int, RandomState or None
        For landmarks and batches.
    device : str or None, default=None
        Train (except the linear start) with torch on this device, such as "cuda" (``pip install buttress[torch]``);
        None is numpy. The fitted model holds numpy arrays.
    progress : bool, default=False
        Show a progress line.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress import CertifiedSVC
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> model = CertifiedSVC(eps=0.1, gamma=1.0, random_state=0).fit(X, y)
    >>> bool((model.certified_margin_ > 0).mean() > 0.8)
    True
    """

    _state = State(
        Attribute("certified_margin_", "real", "n_rows",
                  "L of the training rows; where it is positive, no attack within eps changes the class."),
        Attribute("history_", "history", meaning="The objective is divided by C n."))

    n_landmarks: int | None = MOST_CENTRES
    max_iter: int = 300

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike) -> "CertifiedSVC":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, a kernel without such lines, NaN, inf or entries beyond 1e100
        (naming the column), or fewer than two classes.
        """
        check_count("max_iter", self.max_iter)
        check_landmarks(self.n_landmarks)
        problem = self._problem(X, y, self.random_state, self.device, self.bounds, self.threat)
        kernel = problem.kernel
        if not (isinstance(kernel, Radial) and can_relax(kernel) and kernel.definiteness == "pd"):
            raise ValueError(f"CertifiedSVC needs lines below its kernel's values. Got {kernel!r}. Use 'rbf', "
                             "'laplacian', 'cauchy' or 'inverse_multiquadric', or AdversarialSVC.")
        with own_threads():  # as in AdversarialSVC
            linear = self._linear(problem)
            Z = landmarks(problem.X, self.n_landmarks or len(problem.X), rng=problem.rng)
            regions = regions_of(kernel, problem.X, Z, problem.region, problem.contrasts[problem.codes])
            machine = self._train(problem, linear, Z, regions)
            self.certified_margin_ = bounds_of(regions, Z, machine)
        self._certainty = Certainty(partial(hinge_held_out, ScoredRows.of(problem), self.expansion_,
                                            self.certified_margin_, problem.X.mean(axis=0), self.C))
        self._warn_if_given_up(problem)
        return self

    def _linear(self, problem: MachineProblem) -> AdversarialLinearSVC:
        """Return the linear machine of the start: exact where one radius is that of all columns.

        Else the columns are measured in what they move by, those that hardly move in a tenth of the widest.
        """
        X, radius, shares = problem.X, problem.region.radius, np.ones(problem.X.shape[1])
        if problem.region.eps is None:
            low, high = problem.region.ends(X)
            half = np.mean(high - low, axis=0) / 2
            X, radius = (low + high) / 2, float(half.max())
            # of the widest move, for the conditioning of columns that hardly move
            shares = np.maximum(half / (radius or 1.0), 0.1)
        linear = AdversarialLinearSVC(C=self.C, norm=problem.region.norm, eps=radius, tol=1e-3,
                                      max_time=problem.clock()).fit(X / shares, problem.codes)
        linear.coef_ = linear.coef_ / shares
        return linear

    def _train(self, problem: MachineProblem, linear: AdversarialLinearSVC, Z: Array, regions: Regions) -> SplitMachine:
        """Return the trained machine, and set what its run leaves.

        The rows are centred and divided by one number for it, so that W is of the size of p and q in any units.
        """
        X, kernel = problem.X, problem.kernel
        middle = X.mean(axis=0)
        unit = float(np.sqrt(np.mean(np.sum((X - middle) ** 2, axis=1)))) or 1.0
        place = Place(self.device)
        zeros = np.zeros((len(Z), problem.contrasts.shape[2]))
        parts = (zeros, zeros, unit * linear.coef_.T, linear.intercept_ + linear.coef_ @ middle)
        steps = certified_descent(_scaled(regions, middle, unit, place), place((Z - middle) / unit),
                                  place(kernel(Z, Z)), SplitMachine(*map(place, parts)), ridge=1 / (self.C * len(X)),
                                  linear_ridge=1 / (self.C * len(X) * unit**2), batch=250, iterations=self.max_iter,
                                  rng=problem.rng, left=problem.clock)

        def expansion(state: SplitMachine) -> KernelExpansion:
            machine = _original(state, middle, unit)
            return KernelExpansion(kernel, Z, machine.p - machine.q, machine.b, machine.W)

        return _original(self._trained(problem, steps, expansion, "certified training"), middle, unit)


def _original(state: SplitMachine, middle: Array, unit: float) -> SplitMachine:
    """Return the machine for rows as they came, from one for rows less ``middle`` over ``unit``."""
    p, q, W, b = map(to_numpy, (state.p, state.q, state.W, state.b))
    return SplitMachine(p, q, W / unit, b - middle @ W / unit)


def regions_of(kernel: Radial, X: Array, Z: Array, threat: BallInBox, contrasts: Array) -> Regions:
    """Return where the rows can come, with the certificate's lines of the kernel's values there.

    For l_2 it is the whole ball, whatever the box: what holds in the ball holds in its part.
    """
    box = threat.box if threat.norm == "linf" else None
    region = Attacker(threat.norm, np.ones(X.shape[1]), *(box or ())).region(X, np.full(len(X), threat.radius))
    over = RadialLines.over(kernel, Z, region)
    below, above = over.tangents(over.square), over.chords()
    half = region.half if threat.norm == "linf" else None
    return Regions(region.anchor, half, threat.radius, *below, *above, contrasts)


def _scaled(regions: Regions, middle: Array, unit: float, place: Place) -> Regions:
    """Return the regions for rows (x - middle) / unit, on the device of ``place``."""
    half = None if regions.half is None else place(regions.half / unit)
    return Regions(place((regions.anchor - middle) / unit), half, regions.radius / unit, place(regions.below_value),
                   place(regions.below_slope * unit**2), place(regions.above_value),
                   place(regions.above_slope * unit**2), place(regions.contrasts))
