"""The defence of a fit, and with ``tune`` its C and gamma, by what keeps most held-out rows under attack."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from buttress._callbacks import without_callbacks
from buttress._checks import Array, check_box, silent
from buttress._types import BoundsLike, Mask, Rows
from buttress.adversarial.centres import centre_count
from buttress.adversarial.certified import can_certify
from buttress.attacks.gradient import pgd
from buttress.attacks.scoring import AttackedAccuracy
from buttress.attacks.tuning import best_of, fits_tried, quietly
from buttress.kernels import Kernel

if TYPE_CHECKING:
    from buttress.adversarial.kernel import AdversarialSVC

TUNING_FITS = 8  # most fits that choose C and gamma
CERTIFIED_FITS = 3  # most fits of "certified" beside "input"
COMPARED_ROWS = 2000  # most rows with which the two defences are compared, a quarter of them held out
HELD_OUT = 4  # of so many rows of a class one is held out
STEPS = 20  # of the attack on those
# the most that the certified machine may cost to be tried: rows times columns^2 times scores of its linear start, about
# 10 s, and rows times centres of its lines, about 1 GB
MOST_WORK = 1e10
MOST_LINES = 3e7


@dataclass
class Choice:
    """What a fit is to be: a copy of the model with one defence, and what was chosen by ``tune``."""

    model: "AdversarialSVC"
    tuned: dict[str, Any]


def chosen(model: "AdversarialSVC", kernel: Kernel, X: Array, codes: Rows) -> Choice:
    """Return what to fit to rows X of classes ``codes``: the model itself where it leaves nothing open."""
    open_defense = model.defense == "auto"
    compared = open_defense and model.eps > 0 and can_certify(kernel) and _affordable(model, X, codes)
    if model.tune is None and not open_defense:
        return Choice(model, {})
    # all fits share max_time equally
    fits = 3 if model.tune is None else TUNING_FITS + CERTIFIED_FITS + 1
    share = None if model.max_time is None or not (compared or model.tune) else model.max_time / fits
    seed = check_random_state(model.random_state).randint(2**31) if model.random_state is not None else 0
    copy = without_callbacks(clone(model))
    copy.set_params(defense="input" if open_defense else model.defense, tune=None, max_time=share, random_state=seed,
                    progress=False, checkpoint=None, resume=False)
    tuned = {}
    if model.tune is not None:
        tuned = _tuned(copy, X, codes, compared)
    elif compared:
        copy.set_params(defense=_better(copy, X, codes))
    return Choice(copy.set_params(**tuned, random_state=model.random_state, progress=model.progress), tuned)


def _affordable(model: "AdversarialSVC", X: Array, codes: Rows) -> bool:
    """Say whether a certified machine of all rows takes some seconds and not hours."""
    n, d = X.shape
    classes = int(codes.max()) + 1
    scores = 1 if classes == 2 else classes
    centres = centre_count(model.n_landmarks, n)
    return n * d**2 * scores <= MOST_WORK and n * centres <= MOST_LINES


def _tuned(copy: "AdversarialSVC", X: Array, codes: Rows, compared: bool) -> dict[str, Any]:
    """Return C, gamma and defence that keep most held-out rows; of equals the certified machine, which has proofs."""
    score = AttackedAccuracy(eps=copy.eps, norm=copy.norm, bounds=copy.bounds)
    best = best_of(fits_tried(copy, X, codes, score, TUNING_FITS))
    found = {**best.parameters, "defense": copy.defense}
    if compared:
        other = clone(copy).set_params(defense="certified")
        proven = best_of(fits_tried(other, X, codes, score, CERTIFIED_FITS))
        if proven.accuracy >= best.accuracy:
            found = {**proven.parameters, "defense": "certified"}
    return found


def _better(copy: "AdversarialSVC", X: Array, codes: Rows) -> str:
    """Return "input" where it keeps more held-out rows than "certified" does, by more than chance, else "certified".

    Both are fitted to the same rows. b rows that only one of them keeps and c that only the other does differ by
    b - c, whose standard error is sqrt(b + c) where neither is better (McNemar 1947). The certified machine has proofs,
    so a difference of less than that does not decide against it.
    """
    fitted, held_out = _parts(codes, check_random_state(copy.random_state))
    if not len(held_out):
        return "certified"
    kept = {}
    for defense in ("certified", "input"):
        trial = clone(copy).set_params(defense=defense, bounds=_bounds_of(copy.bounds, X, fitted))
        quietly(partial(trial.fit, X[fitted], codes[fitted]))
        kept[defense] = _kept(trial, X[held_out], codes[held_out], _bounds_of(copy.bounds, X, held_out))
    gained = int((kept["input"] & ~kept["certified"]).sum())
    lost = int((kept["certified"] & ~kept["input"]).sum())
    return "input" if gained - lost > np.sqrt(gained + lost) else "certified"


def _kept(model: "AdversarialSVC", X: Array, codes: Rows, bounds: BoundsLike | None) -> Mask:
    """Return which rows a fitted machine gets right under attack."""
    with silent(UserWarning):  # of units, and of machines that are not taken
        info = pgd(model, X, codes, eps=model.eps, norm=model.norm, bounds=bounds, steps=STEPS, random_state=0,
                   return_info=True)[1]
    return np.asarray(~info.success)


def _parts(codes: Rows, rng: np.random.RandomState) -> tuple[Rows, Rows]:
    """Draw rows to fit to and rows to hold out, every class in its proportion; none of a class of fewer than 4."""
    order = rng.permutation(len(codes))
    share = min(1.0, COMPARED_ROWS / len(codes))
    fitted, held_out = [], []
    for code in np.unique(codes):
        of_class = order[codes[order] == code]
        of_class = of_class[: max(HELD_OUT, int(share * len(of_class)))]
        count = len(of_class) // HELD_OUT
        held_out.append(of_class[:count])
        fitted.append(of_class[count:])
    return np.concatenate(fitted), np.concatenate(held_out)


def _bounds_of(bounds: BoundsLike | None, X: Array, rows: Rows) -> BoundsLike | None:
    """Return the box of some of the rows."""
    if bounds is None:
        return None
    low, high = (np.broadcast_to(side, X.shape)[rows] for side in check_box(bounds, X))
    return low, high
