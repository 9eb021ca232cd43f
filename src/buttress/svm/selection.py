"""C and gamma chosen by how rows left out are classified, which every fit gives for a part of its cost.

Errors of a few hundred rows come in steps of one row, and the least of 35 counts is often luck. So what is compared is
the probability of an error, mean over the rows left out: p_i = 1 / (1 + exp(lead of the right class over its strongest
rival)), in the log odds of the model's own calibration.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from buttress.certainty.calibration import Calibration, HeldOut, calibrate
from buttress.solvers.qp.program import Start
from buttress.solvers.qp.solve import SVMSolution
from buttress.solvers.run import Budget

LOO = "loo"  # the value of C and gamma that asks for a choice
CS = (0.1, 0.316, 1.0, 3.16, 10.0, 31.6, 100.0)  # tried for C="loo", half a decade apart
GAMMAS = (0.03, 0.1, 0.316, 1.0, 3.16)  # times gamma="scale", tried for gamma="loo"


def left_out_error(held: HeldOut) -> float:
    """Return the weighted share of the rows whose class does not win every comparison when they are left out."""
    plain = Calibration(np.ones(1), np.zeros(1), held.n_classes, held.pairs, 0.0)
    own, weight = plain.own_leads(held)
    return float(np.average(~(own > 0), weights=weight))


def left_out_risk(held: HeldOut) -> float:
    """Return the mean probability, by the calibration of these scores, that a row left out is not of its class."""
    own, weight = calibrate(held).own_leads(held)
    return float(np.average(expit(-own), weights=weight))


def walk(value: Callable[[int], float], start: int, many: int, budget: Budget) -> tuple[int, float]:
    """Return a place of 0, ..., many - 1 and its value: upwards from ``start`` while it falls, else downwards."""
    best = start
    least = value(start)
    for step in (1, -1):
        place = best + step
        while 0 <= place < many and not budget.spent():
            found = value(place)
            if not found < least:
                break
            best = place
            least = found
            place += step
        if best != start:
            break
    return best, least


def scaled(solution: SVMSolution, most: float) -> Start:
    """Return the coefficients times the best factor s up to ``most``: the one that maximises s sum|b| - s^2/2 b'Kb."""
    total = float(np.abs(solution.b).sum())
    quadratic = 2 * (total - solution.proof.dual)
    best = min(total / quadratic, most) if quadratic > 0 else min(1.0, most)
    return Start(best * solution.b, None if solution.stored is None else best * solution.stored)
