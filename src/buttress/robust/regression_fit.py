"""Kernel regression with corrupt rows: a search, a mixture fit by expectation and maximisation, and the guard.

The search (:func:`search`) finds good rows to start from: each start is fitted on coarse features, the rows with the
smallest residuals are kept, and those are fitted again. The mixture is then fitted to all rows, at one ridge after
another. The guard decides between that fit and plain kernel ridge (:func:`guarded`). Throughout, y (n,) is centred and
has spread 1.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, warn_user
from buttress._rows import drawn_rows
from buttress._threads import own_threads
from buttress.robust.design import Design, Regime
from buttress.robust.judged import RobustFit
from buttress.robust.tuning import MIXTURE
from buttress.solvers.contamination.residual_law import (
    Explained,
    Fitted,
    LawLimits,
    LeftOutResiduals,
    MixtureSchedule,
    em_rounds,
    explain,
    mixture_steps,
    residuals_of,
    reweighted_steps,
    shape_cost,
)
from buttress.solvers.contamination.trimmed import away_from_edge, concentrate, smallest, within
from buttress.solvers.contamination.tuning import GUARD, RESIDUALS, TRIMMING
from buttress.solvers.ridge.leave_one_out import Fit, Ridge
from buttress.solvers.run import Outcome, SharedBudget


@dataclass(frozen=True)
class RegressionTask:
    """Targets y (n,) on a design, the limits of the law, the ridge (None: choose it), and the budget."""

    design: Design
    y: Array
    limits: LawLimits
    alpha: float | None
    max_iter: int
    n_starts: int
    rng: np.random.RandomState
    budget: SharedBudget

    @property
    def shaped(self) -> bool:
        """Whether a law with a shape may lead the fit: on landmarks good rows near misfit ones have one too."""
        return self.design.regime is Regime.EXACT

    @property
    def rounds(self) -> int:
        """The number of EM rounds of the law between two fits; it depends on the cost of a fit."""
        return MIXTURE.rounds if self.design.regime is Regime.EXACT else MIXTURE.rounds_of_many

    @property
    def schedule(self) -> MixtureSchedule:
        """How a mixture of all rows is fitted, few a landmark."""
        return MixtureSchedule(MIXTURE.degrees, self.rounds, self.max_iter, RESIDUALS.settled)

    def residuals(self, fit: Fit) -> LeftOutResiduals:
        """Return the residuals of rows left out, with levels for laws with a shape."""
        return residuals_of(fit, self.design.ridge, self.y)


def robust_fit(task: RegressionTask) -> RobustFit:
    """Fit plain kernel ridge and the mixture, and return the fit that the guard decides for.

    The mixture starts from a search. After Ctrl-C, once the search has found good rows, the model is a fit to them.
    """
    y = task.y
    if task.limits.share == 0 or not y.any():
        return unsuspecting_fit(task, power=2)
    with own_threads():  # the products of the search are small
        good, votes = search(task)
    return task.budget.attempt(
        lambda: _fit_and_guard(task, good, votes), otherwise=lambda: _of_rows_found(task, good, votes),
        message="The fit was interrupted. The model is of the rows that the search took as good, and was not compared "
                "with plain kernel ridge.")


def fit_again(task: RegressionTask, robust: RobustFit) -> RobustFit:
    """Return the fit under another kernel than that of ``robust``: with no corrupt rows where that has none.

    The mixture starts from the rows that ``robust`` believes, at its ridge and with a shape where its law has one.
    """
    if robust.clean:
        return unsuspecting_fit(task, power=1)
    if task.design.regime is Regime.MANY:
        mixed, alpha = mixed_of_many(task, robust.weight[task.design.searched])
    else:
        schedule = replace(task.schedule, shaped=robust.known.law.shaped)
        mixed, alpha = _mixed_at_best(task, robust.weight, robust.alpha, schedule)
    return _guarded_mixture(replace(task, alpha=alpha), mixed, alpha, robust.votes)


def _fit_and_guard(task: RegressionTask, good: Array, votes: NDArray[np.bool_] | None) -> RobustFit:
    """Fit the mixture from the rows found; the guard decides unless the share of corrupt rows is known."""
    mixed, alpha = (mixed_of_many if task.design.regime is Regime.MANY else mixed_of_few)(task, good)
    return _guarded_mixture(task, mixed, alpha, votes)


def _guarded_mixture(
    task: RegressionTask, mixed: Fitted, alpha: float, votes: NDArray[np.bool_] | None
) -> RobustFit:
    fit = mixed.fit
    if task.design.regime is not Regime.MANY:
        fit = task.design.ridge.solve(task.y, mixed.known.responsibility, alpha)
    robust = RobustFit(fit, mixed.known, mixed.n_iter, alpha, clean=False, votes=votes, converged=mixed.converged)
    if task.limits.share is not None:
        return robust
    return task.budget.attempt(
        lambda: guarded(task, mixed.fit, robust), otherwise=lambda: robust,
        message="The fit was interrupted. The robust fit stays; it was not compared with plain kernel ridge.")


def _of_rows_found(task: RegressionTask, good: Array, votes: NDArray[np.bool_] | None) -> RobustFit:
    """Return a fit of one EM step to the rows that the search took as good."""
    alpha = task.design.unit if task.alpha is None else task.alpha
    mixed = mixed_at(task, good, alpha, alpha, replace(task.schedule, max_iter=1))
    return RobustFit(mixed.fit, mixed.known, 1, alpha, clean=False, votes=votes)


def guarded(task: RegressionTask, mixed: Fit, robust: RobustFit) -> RobustFit:
    """Return the robust fit if a law with an outlier density explains left-out rows best, else the plain one.

    Heavy tails need no such density. Then the robust fit must be likelier by a tenth of a nat a row, and rows are named
    by all laws of its residuals: the mixture takes a long tail for corrupt. Lighter tails leave each row its weight,
    and with it the plain fit. Where more than a tenth of the targets are the least or the largest one, only the others
    are evidence: such rows are two kinds of good ones.

    Two laws of two fits are compared: with an outlier density and without, of the fit ``mixed`` and of the plain one.
    No row of a plain fit is named. A law that takes half of the rows for corrupt says nothing. Where the plain fit
    predicts the bad rows, they agree with their neighbours, as beside a step of the function: it stays, with a warning.
    """
    no_choice = task.design.regime is Regime.MANY or task.budget.stop_if_spent()
    unsuspected = unsuspecting_fit(replace(task, alpha=robust.alpha) if no_choice else task, power=1)
    plain = unsuspected.fit
    clean = replace(unsuspected, n_iter=robust.n_iter, converged=robust.converged, votes=robust.votes)
    tried = [Fitted(fit, _explained(task, fit), robust.n_iter) for fit in (mixed, plain)]
    best = max(tried, key=lambda each: (each.known.law.share < RESIDUALS.most_bad, each.known.likelihood))
    law = best.known.law
    needed = 0.0 if law.share > 0 else GUARD.gain_a_row if law.nu <= 2 else np.inf
    if law.share >= RESIDUALS.most_bad or best.known.likelihood - unsuspected.known.likelihood <= needed:
        return clean
    if law.share == 0:
        return replace(robust, known=_explained(task, robust.fit))
    lost = law.share - robust.known.law.share > MIXTURE.reread or not away_from_edge(task.y).all()
    if lost and not no_choice:
        robust = _reread(task, robust, best)
    bad = robust.known.responsibility < 0.5
    missed = [float(np.median(np.abs(fit.loo[bad]))) for fit in (plain, robust.fit) if bad.any()]
    if not missed or missed[0] > GUARD.predicted * missed[1]:
        return robust
    warn_user(f"{bad.mean():.0%} of the rows contradict the others, but they lie together in X, as at a step of the "
              "function: none is taken as corrupt, and plain kernel ridge is fitted. If they are corrupt, give their "
              "share as contamination=.")
    return clean


def _reread(task: RegressionTask, robust: RobustFit, start: Fitted) -> RobustFit:
    """Return the fit to which the law of ``start`` leads, or ``robust`` where no fit on the way is likelier.

    The mixture may have lost the corrupt rows: with one number of degrees of freedom it takes them for a wide scale.
    Beside targets that are the least or largest one it is of all, and the law of ``start`` of the others: that stays.
    """
    ridge = task.design.ridge
    telling = away_from_edge(task.y)
    limits = LawLimits(task.limits.floor)
    steps = reweighted_steps(ridge, task.y, start.fit, start.known, alpha=robust.alpha, limits=limits,
                             shaped=task.shaped, telling=telling)
    fit, known = task.budget.run(steps, max_iter=task.max_iter).state
    if known.likelihood <= start.known.likelihood:
        if telling.all():
            return robust
        fit, known = start.fit, start.known
    alpha = _best_alpha(task, Fitted(fit, known, robust.n_iter)) if task.alpha is None else task.alpha
    return replace(robust, fit=ridge.solve(task.y, known.responsibility, alpha), known=known, alpha=alpha)


def _explained(task: RegressionTask, fit: Fit, share: float | None = None) -> Explained:
    return explain(task.residuals(fit), LawLimits(task.limits.floor, share), away_from_edge(task.y))


def place_explains(design: Design, bad: NDArray[np.bool_]) -> bool:
    """Say whether where a row lies in X explains whether it is bad.

    Kernel ridge predicts which rows are bad. It explains at most a fifth of the leave-one-out variance if rows are bad
    at random, and three quarters if one side of a step of the function contradicts the other.
    """
    target = bad - bad.mean()
    fit = design.ridge.solve(target, np.ones(len(bad)), design.steady)
    return bool(fit.loo @ fit.loo < GUARD.unexplained * target @ target)


def unsuspecting_fit(task: RegressionTask, power: int) -> RobustFit:
    """Return kernel ridge regression on all rows; an unknown ridge is chosen by this power of left-out errors.

    If rows may be corrupt the power is 1: with squares a few large errors would decide.
    """
    ridge = task.design.ridge
    everyone = np.ones(len(task.y))
    alpha = task.alpha
    if alpha is None:
        alphas = MIXTURE.ridges * task.design.unit
        fits = ridge.path(task.y, everyone, alphas, task.design.searched)
        alpha = float(alphas[np.argmin([np.sum(np.abs(fit.loo)**power) for fit in fits])])
    plain = ridge.solve(task.y, everyone, alpha)
    return RobustFit(plain, _explained(task, plain, 0.0), 1, alpha, clean=True, votes=everyone[None, :] > 0)


def mixed_of_few(task: RegressionTask, good: Array) -> tuple[Fitted, float]:
    """Fit the mixture to all rows from the rows found, then again at the ridge that is best for the rows it kept.

    A law with a shape is taken only where it gains by Schwarz's criterion and judges otherwise how many rows are
    corrupt: where both laws agree on that, the simpler one predicts better.

    Returns the mixture (``n_iter`` counts both fits) and the ridge of the last fit.
    """
    first = task.design.unit if task.alpha is None else task.alpha
    schedule = task.schedule
    state = mixed_at(task, good, first, first, schedule)
    if task.shaped:
        shaped = replace(schedule, shaped=True)
        other = mixture(task.design.ridge, task.y, state.fit, alpha=first, limits=task.limits, schedule=shaped,
                        budget=task.budget)
        gain = other.known.likelihood - state.known.likelihood - shape_cost(len(task.y)) / len(task.y)
        if gain > 0 and abs(other.known.law.share - state.known.law.share) > MIXTURE.reread:
            schedule = shaped
            state = other
    if task.alpha is not None or task.budget.stop_if_spent():
        return state, first
    last, alpha = _mixed_at_best(task, state.known.responsibility, _best_alpha(task, state), schedule)
    return replace(last, n_iter=state.n_iter + last.n_iter), alpha


def _mixed_at_best(
    task: RegressionTask, weight: Array, alpha: float, schedule: MixtureSchedule
) -> tuple[Fitted, float]:
    """Fit the mixture at ridge alpha from weights of all rows; return it and the best ridge for what it kept."""
    ridge = task.design.ridge
    fit = ridge.solve(task.y, weight, alpha)
    last = mixture(ridge, task.y, fit, alpha=alpha, limits=task.limits, schedule=schedule, budget=task.budget)
    return last, _best_alpha(task, last) if task.alpha is None else task.alpha


def mixed_of_many(task: RegressionTask, good: Array) -> tuple[Fitted, float]:
    """Fit the mixture on many rows a landmark at the steady ridge, then once nearer to the best ridge of the rows kept.

    With many rows per landmark, the residuals of good rows are not noise but the part of the function that landmarks
    cannot represent. They have heavier tails, and are similar over whole regions of X. With a small ridge, dropping a
    few rows of a region makes the fit worse there, so that the rows next to them are dropped too. Which ridge is small
    depends on the number of rows. The steady ridge, a twentieth of the mean eigenvalue of the Gram matrix, prevents
    this, but hides bad rows near the curve. So rows are judged once more at the geometric mean of the steady ridge and
    the best one. The fit at the best ridge uses only the rows kept there.
    """
    design = task.design
    ridge = design.ridge
    schedule = MixtureSchedule(MIXTURE.degrees_of_many, task.rounds, task.max_iter, 0.1)
    state = mixed_at(task, good, design.unit, design.steady, schedule)
    best = task.alpha
    if best is None:
        best = (design.unit if task.budget.stop_if_spent()
                else best_alpha_of_many(design, task.y, state.known.responsibility))
    fit = ridge.solve(task.y, state.known.responsibility, float(np.sqrt(best * design.steady)))
    seen = residuals_of(fit, ridge)
    law = em_rounds(state.known.law, seen.drawn(), task.limits, task.rounds)
    responsibility, total = law.e_step(seen)
    fit = ridge.solve(task.y, responsibility, best)
    law = law.m_step(residuals_of(fit, ridge).drawn(), responsibility[drawn_rows(len(task.y))], task.limits)
    known = Explained(law, responsibility, total / len(task.y))
    return Fitted(fit, known, state.n_iter + 1, converged=state.converged), best


def mixed_at(
    task: RegressionTask, responsibility: Array, first: float, alpha: float, schedule: MixtureSchedule
) -> Fitted:
    """Fit the mixture at ridge ``alpha`` from the responsibilities of the searched rows, fitted at ridge ``first``."""
    weights = np.zeros(len(task.y))
    weights[task.design.searched] = responsibility
    ridge = task.design.ridge
    fit = ridge.solve(task.y, weights, first)
    return mixture(ridge, task.y, fit, alpha=alpha, limits=task.limits, schedule=schedule, budget=task.budget)


def best_alpha_of_many(design: Design, y: Array, responsibility: Array) -> float:
    """Return the ridge with the least squared leave-one-out error of the good rows, on at most 10,000 rows.

    Errors are not bounded. In a region where other rows were dropped, the large errors of the good rows are the only
    evidence for a larger ridge. The error usually falls and then rises with the ridge, so the search stops at the first
    rise.
    """
    rows = np.arange(len(y))[drawn_rows(len(y))]
    alphas = MIXTURE.ridges[::2] * design.unit
    least = np.inf
    best = 0
    for k, fit in enumerate(design.ridge.path(y, responsibility, alphas, rows)):
        error = float(responsibility[rows] @ fit.loo**2)
        if error > least:
            break
        least = error
        best = k
    return float(alphas[best])


def _best_alpha(task: RegressionTask, state: Fitted) -> float:
    """Return the ridge with the least bounded leave-one-out error of the good rows, with fixed weights and bounds.

    If they changed with the ridge, each would keep only the rows it fits well, and the largest have the least bounds.
    """
    rows = task.design.searched
    law = state.known.law
    weight = state.known.responsibility[rows]
    bound = MIXTURE.bounded_at * law.scale * law.spread(task.residuals(state.fit).of(rows))

    def error(fit: Fit) -> float:
        return float(weight @ np.minimum(np.abs(fit.loo), bound) ** 2)

    alphas = MIXTURE.ridges * task.design.unit
    fits = task.design.ridge.path(task.y, state.known.responsibility, alphas, rows)
    return float(alphas[np.argmin([error(fit) for fit in fits])])


def search(task: RegressionTask) -> tuple[Array, NDArray[np.bool_] | None]:
    """Concentrate from several starts on coarse features; return the weights of rows in the likeliest mixture of three.

    The second result, (starts, n), says which rows each start classified as good; None on landmarks, where the
    starts see a part of the rows.
    """
    design = task.design
    y = task.y[design.searched]
    ends = _concentrated(task, y)
    votes = None
    if design.regime is Regime.EXACT:
        votes = np.array([within(end.state[0].loo / end.state[0].spread, TRIMMING.good_within, task.limits.floor)
                          for end in ends])
    best = sorted(ends, key=lambda end: end.objective)[: TRIMMING.followed]
    schedule = MixtureSchedule(MIXTURE.degrees, task.rounds, 12, RESIDUALS.settled)
    states = [mixture(design.coarse, y, end.state[0], alpha=design.unit, limits=task.limits, schedule=schedule,
                      budget=SharedBudget()) for end in best]
    return max(states, key=lambda state: state.known.likelihood).known.responsibility, votes


def _concentrated(task: RegressionTask, y: Array) -> list[Outcome]:
    """Return the end of concentration from each start; random starts are skipped once the time is used up."""
    h = max(int(TRIMMING.trusted * len(y)), min(len(y), 2))
    ends: list[Outcome] = []
    # all rows, and the half and the quarter nearest the centre
    fixed = [np.ones(len(y)), *(smallest(np.abs(y), size) for size in (h, max(len(y) // 4, 1)))]
    for k, u in enumerate(fixed + _random_starts(len(y), task.n_starts, task.rng)):
        if k >= len(fixed) and task.budget.stop_if_spent():
            break
        steps = concentrate(task.design.coarse, y, u, alpha=task.design.unit, h=h)
        ends.append(task.budget.run(steps, max_iter=10, progress=False))
    return ends


def _random_starts(n: int, n_starts: int, rng: np.random.RandomState) -> list[Array]:
    """Return the weights of starts from random tenths of the rows."""
    size = min(n, max(n // 10, 5))
    return [np.isin(np.arange(n), rng.permutation(n)[:size]).astype(np.float64) for _ in range(n_starts)]


def mixture(
    ridge: Ridge, y: Array, fit: Fit, *, alpha: float, limits: LawLimits, schedule: MixtureSchedule,
    budget: SharedBudget
) -> Fitted:
    """Run :func:`mixture_steps` from ``fit`` to the end of the schedule or of the budget."""
    steps = mixture_steps(ridge, y, fit, alpha=alpha, limits=limits, schedule=schedule)
    outcome = budget.run(steps, tol=schedule.tol, max_iter=schedule.max_iter, callback=budget.report)
    found: Fitted = outcome.state
    return replace(found, converged=outcome.converged)
