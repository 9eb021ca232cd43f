"""What every attack shares: its checked input, what it reports, and the best perturbed rows met so far."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from buttress._arrays import NUMPY, Place, check_device, namespace, to_numpy
from buttress._as_given import frames_like
from buttress._checks import Array, check_box, check_rows, warn_user
from buttress._types import BoundsLike, Classifier, Mask, MatrixLike, Rows, VectorLike
from buttress.attacks.ball import Ball
from buttress.attacks.targets import Target, as_target, label_codes
from buttress.expansion import margins, winners
from buttress.scores import Scorable, as_classifier, check_one_label
from buttress.threats.moves import warn_of_rounding


class BlindAttackWarning(UserWarning):
    """No score changed near most rows that stand: that the attack failed says nothing."""


@dataclass
class AttackInfo:
    """What an attack achieved, per row.

    Parameters
    ----------
    success : bool array of shape (n,)
        Whether the returned row is classified wrongly.
    margin : array of shape (n,)
        Margin of the returned row for its label.
    distance : array of shape (n,)
        How far it was moved, in the attack's norm; with one eps for each column, in terms of the widest column.
    queries : int
        Total number of scored rows. An exact gradient counts as one, a gradient by differences as 2 d.
    blind : bool array of shape (n,)
        Whether the row stayed right and no score changed near it, so the attack learned nothing there.
    """

    success: Mask
    margin: Array
    distance: Array
    queries: int
    blind: Mask


@dataclass
class AttackProblem:
    """The checked input of an attack: rows X (n, d) inside the box [low, high], their class numbers, and the target.

    All arrays are in one ``place``; the target's exact scores, in float64 on numpy, decide. ``as_given`` turns
    perturbed versions of all X into the type of X.
    """

    model: Classifier
    target: Target
    place: Place
    X: Array
    codes: Rows
    low: Array
    high: Array
    as_given: Callable[[Array], Any]

    def blocks(self, per_row: int = 1) -> list[Rows]:
        """Return the row numbers in blocks that the target works on at a time, with ``per_row`` queries a row."""
        rows, size = self.place(np.arange(len(self.X))), max(1, self.target.block // per_row)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def around(self, rows: Rows, X: Array, low: Array, high: Array) -> "AttackProblem":
        """Return the problem of some rows, of X in their place, in a box."""
        return replace(self, X=X, codes=self.codes[rows], low=low, high=high)

    def clip(self, rows: Rows, X: Array) -> Array:
        """Return X (of these rows) moved into the box."""
        return self.place.xp.clip(X, self.low[rows], self.high[rows])

    @property
    def width(self) -> Array:
        """Width of the box in each column, or the range of X where there is none; shape (d,), positive."""
        xp = self.place.xp
        width = xp.amax(self.high - self.low, axis=0)
        width = xp.where(xp.isfinite(width), width, xp.amax(self.X, axis=0) - xp.amin(self.X, axis=0))
        return xp.where(width > 0, width, 1.0)

    def judged(self, rows: Rows, X: Array) -> tuple[Array, Mask]:
        """Return the margins of numpy versions X of the rows in float64, and which the model itself gets wrong."""
        if not len(rows):
            return np.zeros(0), np.zeros(0, dtype=bool)
        codes, contrasts = to_numpy(self.codes)[rows], to_numpy(self.target.contrasts).astype(np.float64)
        scores, decides = self.target.exact(X.astype(np.float64, copy=False)), self.target.decides
        margin = margins(scores, codes, contrasts)[0]
        if decides is None:
            return margin, winners(scores, contrasts) != codes
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return margin, np.asarray(decides(X) != self.model.classes_[codes])


def pose(
    model: Scorable, X: MatrixLike, y: VectorLike, bounds: BoundsLike | None, device: str | None = None
) -> AttackProblem:
    """Check the arguments of an attack, and move the arrays to the device.

    A known score function is attacked in the precision of X, any other model in float64 (and with frames like X if it
    was fitted on column names). Raises ValueError for a model without scores, the wrong width, NaN, unknown labels, or
    a box that excludes X.
    """
    model = as_classifier(model)
    device = check_device(device)
    as_fitted: Any = frames_like(X) if hasattr(model, "feature_names_in_") else np.asarray
    index = getattr(X, "index", None) if as_fitted is not np.asarray else None
    X = check_rows(X, getattr(model, "n_features_in_", None), "An attack", getattr(model, "feature_names_in_", None))
    if not len(X):
        raise ValueError("X must have at least one row. Got none.")
    low, high = (np.float64(-np.inf), np.float64(np.inf)) if bounds is None else check_box(bounds, X)
    target = as_target(model, Place(device, X.dtype.name), as_fitted)
    check_one_label(model, as_fitted(X[:1]))
    codes, place = label_codes(model, y, len(X)), target.place
    low, high = (place.xp.broadcast_to(place(side), X.shape) for side in (low, high))
    return AttackProblem(model, target, place, place(X), place(codes), low, high,
                         as_fitted if index is None else lambda rows: as_fitted(rows).set_axis(index))


def warn_of_units(problem: AttackProblem, ball: Ball) -> None:
    """Warn of a radius that rounding hides, or that looks meant for another scale: below 1 in a box of 100 or more."""
    reach: Any = ball.reach
    warn_of_rounding(to_numpy(problem.X), to_numpy(reach) if np.ndim(reach) else reach)
    if np.ndim(ball.columns):  # somebody has looked at the columns
        return
    width = float((problem.high - problem.low).max())
    if 0 < ball.radius < 1 and 100 <= width < np.inf:  # an eps below 1 looks meant for a box of 1
        warn_user(f"eps={ball.radius:g} is tiny in a box {width:g} wide. It is in the units of X: 8/255 of images in "
                  f"[0, 255] is eps=8.")


def warn_if_flat(model: Classifier, blind: int, standing: int) -> None:
    """Warn where no score changed near more than half of the rows that stand."""
    if 2 * blind > standing:
        warn_user(f"No score of {type(model).__name__} changed near {blind} of the {standing} rows it gets right, so "
                  "this attack was blind there: its failure says nothing about robustness. Scores of trees and "
                  "constant models are flat. For trees use exact; worst_case also tries points farther away.",
                  BlindAttackWarning)


class Met(ABC):
    """The perturbed rows met so far. Subclasses say which of two versions of a row is kept."""

    def __init__(self, problem: AttackProblem):
        n = len(problem.X)
        self.problem = problem
        self.X = problem.X + 0
        self.margin = problem.place(np.full(n, np.inf))
        self.wrong = problem.place(np.zeros(n, dtype=bool))
        self.queries = 0
        self.sloped = problem.place(np.zeros(n, dtype=bool))
        self.near = problem.place(np.full(n, np.nan))  # the radius within which a row falls as far as its slope says

    @abstractmethod
    def better(self, rows: Rows, X: Array, wrong: Mask, margin: Array) -> Mask:
        """Say which of these versions X of the rows are to be kept instead."""

    def see(self, rows: Rows, X: Array, scores: Array) -> tuple[Array, Array, Mask]:
        """Keep what is better than before; return margins (b,), the contrasts (b, k) to walk down, and who is wrong.

        Those are the contrasts that attain the margins; where a vote stands although a pair is lost already, that of
        the pair nearest to being lost next.
        """
        xp = self.problem.place.xp
        contrasts = self.problem.target.contrasts
        codes = self.problem.codes[rows]
        leads = xp.einsum("irk,ik->ir", contrasts[codes], scores)
        margin = xp.amin(leads, axis=1)
        wrong = winners(scores, contrasts) != codes
        lost = (leads <= 0) & ~wrong[:, None]
        contrast = contrasts[codes, xp.where(lost, np.inf, leads).argmin(axis=1)]
        self.keep(rows, X, wrong, margin)
        return margin, contrast, wrong

    def keep(self, rows: Rows, X: Array, wrong: Mask, margin: Array) -> None:
        """Keep what is better than before."""
        if not self.problem.place.xp.isfinite(margin).all():
            raise ValueError(f"The scores of {type(self.problem.model).__name__} hold NaN or inf, so they have no "
                             "margin. Check the scale of X and the kernel's parameters.")
        self.queries += len(rows)
        keep = self.better(rows, X, wrong, margin)
        if not keep.all():
            rows, X = rows[keep], X[keep]
        self.X[rows] = X
        self.margin[rows] = margin[keep]
        self.wrong[rows] = wrong[keep]

    def meet(self, rows: Rows, X: Array) -> None:
        """See versions X of the rows, if there are any."""
        if len(rows):
            self.see(rows, X, self.problem.target.scores(X))

    def slope(self, rows: Rows, g: Array) -> None:
        """Note at which rows a gradient of the scores ever pointed anywhere."""
        if self.problem.target.shows_slopes:
            self.sloped[rows] |= (g != 0).any(axis=1)

    def look(self, rows: Rows, margin: Array, g: Array, ball: Ball) -> None:
        """Note the radius within which the margin would fall to 0 if it were as steep as g everywhere, at first sight.
        """
        xp = self.problem.place.xp
        if bool(xp.isnan(self.near[rows]).all()):
            steepest = ball.steepest(g)
            with np.errstate(over="ignore"):
                self.near[rows] = xp.where(steepest > 0, margin / xp.where(steepest > 0, steepest, 1.0), np.inf)

    def report(self, ball: Ball, return_info: bool = True) -> Any:
        """Return the rows met, as they were given, and what was achieved, in numpy arrays, judged by the model.

        Without ``return_info`` the rows alone. One that the model classified wrongly from the start is at distance 0.
        Warns where no score changed near half of the rows that stand, and nothing better was met there by chance.
        """
        problem = self.problem
        blind = to_numpy(~self.wrong & ~self.sloped & (self.X == problem.X).all(axis=1))
        if ball.radius > 0:
            warn_if_flat(problem.model, int(blind.sum()), int((~self.wrong).sum()))
        start = to_numpy(problem.X)
        found = to_numpy(self.X)
        margin = to_numpy(self.margin)
        wrong = to_numpy(self.wrong)
        if problem.place != NUMPY or problem.target.decides is not None:  # the attack saw other scores than the model
            seen, rows = wrong, np.arange(len(found))
            margin, wrong = problem.judged(rows, found)
            doubted = rows[~wrong & (seen | (problem.target.decides is not None))]
            first, missed = problem.judged(doubted, start[doubted])
            back = doubted[missed]
            found[back] = start[back]
            margin[back] = first[missed]
            wrong[back] = True
            self.queries += (len(found) + len(doubted)) * (1 if problem.target.decides is None else 2)
        far = distances(to_numpy(ball.measured(problem.place(found - start))), ball.norm)
        info = AttackInfo(wrong, margin, far, self.queries, blind & ~wrong)
        return (problem.as_given(found), info) if return_info else problem.as_given(found)


class Worst(Met):
    """Keeps a wrongly classified version of a row, then the one of least margin: for attacks within a ball."""

    def better(self, rows: Rows, X: Array, wrong: Mask, margin: Array) -> Mask:
        same = wrong == self.wrong[rows]
        return (wrong & ~self.wrong[rows]) | (same & (margin < self.margin[rows]))


class Closest(Met):
    """Keeps the nearest wrongly classified version of a row, the one of least margin until there is one."""

    def __init__(self, problem: AttackProblem, kappa: float):
        super().__init__(problem)
        self.kappa = kappa
        if problem.place.dtype == "float32":  # a point that float32 puts just over the border may lie before it
            # what float32 may be wrong by
            self.kappa = max(kappa, 1e-4 * float(abs(problem.target.scores(problem.X)).max()))
            self.queries += len(problem.X)
        self.distance = problem.place(np.zeros(len(problem.X)))

    def better(self, rows: Rows, X: Array, wrong: Mask, margin: Array) -> Mask:
        was = self.wrong[rows] & (self.margin[rows] <= -self.kappa)
        hit = wrong & (margin <= -self.kappa)
        distance = distances(X - self.problem.X[rows], "l2")
        keep = (hit & (~was | (distance < self.distance[rows]))) | (~hit & ~was & (margin < self.margin[rows]))
        self.distance[rows[keep]] = distance[keep]
        return keep


def distances(delta: Array, norm: str) -> Array:
    """Return the norm of each row."""
    xp = namespace(delta)
    return xp.amax(abs(delta), axis=1) if norm == "linf" else xp.linalg.norm(delta, axis=1)
