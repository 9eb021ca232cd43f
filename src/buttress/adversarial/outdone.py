"""Whether training on perturbed inputs paid: against one class for all rows, and against the exact linear machine."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from buttress._checks import Array, check_box
from buttress._types import Rows
from buttress.adversarial.input import attack_of
from buttress.adversarial.linear import AdversarialLinearSVC
from buttress.attacks import exact
from buttress.attacks.tuning import quietly
from buttress.expansion import KernelExpansion, winners
from buttress.kernels.points import centred
from buttress.solvers.gradient.worst_inputs import Machine
from buttress.solvers.run import SPENT

if TYPE_CHECKING:
    from buttress.adversarial.kernel import AdversarialSVC

JUDGED_ROWS = 1000  # most training rows that are compared
STEPS = 20  # of the attack on them
NO_BETTER = 0.01  # share of the rows by which a machine must be more often right than one class for all
# most rows times columns^2 times machines for which the exact linear machine is fitted to compare with, about 2 s
LINEAR_WORK = 2e9
LINEAR_TOL = 1e-2  # least relative duality gap of that machine: what is compared are shares of rows


def outdone_by(
    model: "AdversarialSVC", X: Array, codes: Rows, contrasts: Array, found: dict[str, Any],
    rng: np.random.RandomState, clock: Callable[[], float | None],
) -> str | None:
    """Return what the machine ``found`` is no better than on its own rows, None where it is better.

    It must be right, without an attack, for more rows than one class for all. Under attack it must keep at least as
    many rows as the exact linear machine does, where that keeps more than one class for all would. The linear machine
    is left out where it would take much longer than training did, or where the time of ``clock`` ends before its fit.
    """
    constant = float(np.bincount(codes).max()) / len(codes)
    expansion = found["expansion_"]
    if (winners(expansion(X), contrasts) == codes).mean() <= constant + NO_BETTER:
        return "one class for all training rows"
    if len(X) * X.shape[1] ** 2 * contrasts.shape[2] > LINEAR_WORK:
        return None
    rows = rng.permutation(len(X))[:JUDGED_ROWS]
    linear = AdversarialLinearSVC(C=model.C, attack="ball", norm=model.norm, eps=model.eps,
                                  tol=max(LINEAR_TOL, model.tol), max_time=clock())
    quietly(partial(linear.fit, X, codes))
    if clock() == SPENT:
        return None
    box = None
    if model.bounds is not None:
        low, high = (np.broadcast_to(side, X.shape)[rows] for side in check_box(model.bounds, X))
        box = (low, high)
    info = exact(linear, X[rows], codes[rows], eps=model.eps, norm=model.norm, bounds=box, return_info=True)[1]
    if 1 - info.success.mean() > max(constant + NO_BETTER, kept(model, X, contrasts[codes], rows, expansion, rng)):
        return "the exact linear machine under attack"
    return None


def kept(
    model: "AdversarialSVC", X: Array, V: Array, rows: Rows, expansion: KernelExpansion, rng: np.random.RandomState
) -> float:
    """Return the share of ``rows`` that gradient steps leave on their side; V (n, r, k) are the contrasts of rows X."""
    machine = Machine(expansion.coef, expansion.intercept, expansion.centers, np.zeros(1))
    attack = replace(attack_of(model, X, V, rng), steps=STEPS)
    moved = attack(centred(expansion.kernel, expansion.centers), machine, rows, 1.0)
    leads = [np.einsum("irk,ik->ir", V[rows], expansion(inputs)) for inputs in (X[rows], moved)]
    return float((np.minimum(*leads).min(axis=1) > 0).mean())
