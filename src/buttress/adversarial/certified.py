"""``defense="certified"``: trained on the certificate itself, from the exact linear machine."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from buttress._arrays import Place, to_numpy
from buttress._callbacks import Report, showing
from buttress._checks import Array, check_box
from buttress._types import BoundsLike, Rows
from buttress.adversarial.centres import centre_count
from buttress.adversarial.linear import AdversarialLinearSVC
from buttress.certificates.region import Attacker
from buttress.certificates.relaxation import can_relax, radial_lines
from buttress.expansion import KernelExpansion
from buttress.features import landmarks
from buttress.kernels import Kernel, Radial
from buttress.solvers.gradient.certified_hinge import Machine, Regions, bounds_of, certified_descent
from buttress.solvers.run import run

if TYPE_CHECKING:
    from buttress.adversarial.kernel import AdversarialSVC

BATCH = 250  # rows of one Adam iteration
MOST_STEPS = 300  # the default of max_iter


def fit_certified(
    model: "AdversarialSVC", kernel: Kernel, X: Array, codes: Rows, contrasts: Array, rng: np.random.RandomState,
    report: Report, clock: Callable[[], float | None],
) -> dict[str, Any]:
    """Return the attributes of a model fitted to classes ``codes`` (n,), all scores jointly.

    The rows are centred and divided by one number for it, so that W is of the size of p and q in any units.
    """
    if not can_certify(kernel):
        raise ValueError(f"defense='certified' needs lines below its kernel's values. Got {kernel!r}. Use 'rbf', "
                         "'laplacian', 'cauchy' or 'inverse_multiquadric', or defense='input'.")
    n = len(X)
    start = AdversarialLinearSVC(C=model.C, attack="ball", norm=model.norm, eps=model.eps, tol=model.tol,
                                 max_time=clock()).fit(X, codes)
    Z = landmarks(X, centre_count(model.n_landmarks, n), rng=rng)
    assert isinstance(kernel, Radial)
    regions = regions_of(kernel, X, Z, model.eps, model.norm, model.bounds, contrasts[codes])
    middle = X.mean(axis=0)
    unit = float(np.sqrt(np.mean(np.sum((X - middle) ** 2, axis=1)))) or 1.0
    place = Place(model.device)
    zeros = np.zeros((len(Z), contrasts.shape[2]))
    parts = (zeros, zeros, unit * start.coef_.T, start.intercept_ + start.coef_ @ middle)
    iterations = MOST_STEPS if model.max_iter is None else model.max_iter
    steps = certified_descent(_scaled(regions, middle, unit, place), place((Z - middle) / unit), place(kernel(Z, Z)),
                              Machine(*map(place, parts)), ridge=1 / (model.C * n),
                              linear_ridge=1 / (model.C * n * unit**2), batch=BATCH, iterations=iterations, rng=rng,
                              left=clock)

    def at(machine: Machine) -> dict[str, Any]:
        return {"expansion_": KernelExpansion(kernel, Z, machine.p - machine.q, machine.b, machine.W), "landmarks_": Z}

    outcome = run(steps, max_iter=iterations, max_time=clock(), progress=model.progress, name="certified training",
                  callback=showing(report, lambda step: at(_original(step.state, middle, unit))), warn=("max_time",))
    found = _original(outcome.state, middle, unit)
    return {
        **at(found),
        "certified_margin_": bounds_of(regions, Z, found),
        "n_iter_": outcome.n_iter,
        "history_": outcome.history,
    }


def _original(state: Machine, middle: Array, unit: float) -> Machine:
    """Return the machine for rows as they came, from one for rows less ``middle`` over ``unit``."""
    p, q, W, b = (to_numpy(part) for part in vars(state).values())
    return Machine(p, q, W / unit, b - middle @ W / unit)


def can_certify(kernel: Kernel) -> bool:
    """Say whether the kernel's values have lines that training can use."""
    return isinstance(kernel, Radial) and can_relax(kernel) and kernel.definiteness == "pd"


def regions_of(
    kernel: Radial, X: Array, Z: Array, eps: float, norm: str, bounds: BoundsLike | None, contrasts: Array
) -> Regions:
    """Return where the rows can come, with the certificate's lines of the kernel's values there.

    For l_2 it is the whole ball, whatever the box: what holds in the ball holds in its part.
    """
    attacker = Attacker(norm, np.ones(X.shape[1]))
    if bounds is not None:
        low, high = (np.broadcast_to(side, X.shape) for side in check_box(bounds, X))
        attacker = Attacker(norm, attacker.scale, low, high) if norm == "linf" else attacker
    region = attacker.region(X, np.full(len(X), float(eps)))
    lines = radial_lines(kernel, Z, region, region.spans(Z), np.zeros_like(X), np.zeros((len(X), len(Z))))
    half = region.half if norm == "linf" else None
    return Regions(region.anchor, half, eps, lines.below_value, lines.below_slope, lines.above_value, lines.above_slope,
                   contrasts)


def _scaled(regions: Regions, middle: Array, unit: float, place: Place) -> Regions:
    """Return the regions for rows (x - middle) / unit, on the device of ``place``."""
    half = None if regions.half is None else place(regions.half / unit)
    slopes = (regions.below_slope * unit**2, regions.above_slope * unit**2)
    return Regions(place((regions.anchor - middle) / unit), half, regions.radius / unit, place(regions.below_value),
                   place(slopes[0]), place(regions.above_value), place(slopes[1]), place(regions.contrasts))
