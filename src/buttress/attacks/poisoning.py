"""Poisoned training data: the worst labels, targets and rows found that an attacker could put into what is fitted to.

The attacker knows the data and the learner, and wants a low score on rows with true labels. No set is proven to be
the worst; for models that are linear in their labels :func:`buttress.certificates.training_accuracy` says how far the
best attack can be away.

Every search asks a surrogate, kernel ridge regression on labels -1 and +1 (one class against the rest) or on targets,
whose scores move by h_i(x) times what label i moves by (``certificates/training/flips.py``). Its sets, found one label
after another and then exchanged one by one, are tried on the learner itself, beside the labels that it is surest of,
those it is least sure of, and labels drawn at random; the worst for the learner is returned.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_array, check_random_state

from buttress._as_given import check_names
from buttress._checks import Array, check_classes, check_count, check_rows, check_values
from buttress._types import BoundsLike, Labels, MatrixLike, RandomStateLike, Rows, Trainable, VectorLike
from buttress.attacks.swaps import rivals_of
from buttress.kernels import RBF, resolve_gamma

PENALTIES = (0.1, 1.0, 10.0)  # of the surrogates: different ones find different sets
DRAWS = 3  # sets of labels at random
EXCHANGES = 2  # times that each label of a surrogate's set is chosen anew


@dataclass(frozen=True)
class Poisoned:
    """Training data with what an attacker did to it.

    Parameters
    ----------
    X, y : arrays of shape (n, d) and (n,)
        To fit to. Rows that were put in come last.
    rows : int array
        The rows that are poisoned.
    clean, score : float
        Accuracy of a classifier, R^2 of a regressor on the rows asked about, fitted without and with the poison.
    """

    X: Array
    y: Labels
    rows: Rows
    clean: float
    score: float


def poison_labels(
    model: Trainable, X: MatrixLike, y: VectorLike, X_test: MatrixLike, y_test: VectorLike, *, flips: int,
    random_state: RandomStateLike = 0,
) -> Poisoned:
    """Change the ``flips`` training labels that lower the accuracy on X_test most, of the sets that are tried.

    Parameters
    ----------
    model : classifier
        The learner; it is cloned and fitted about ten times.
    X, y : arrays of shape (n, d) and (n,)
        Training rows and their true labels.
    X_test, y_test : arrays of shape (m, d) and (m,)
        Rows that the attacker wants to be got wrong.
    flips : int
        How many labels, >= 0.
    random_state : int, RandomState or None

    Returns
    -------
    Poisoned

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from buttress import LeastSquaresClassifier, attacks
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LeastSquaresClassifier(gamma=1e-6)
    >>> found = attacks.poison_labels(model, X[:300], y[:300], X[300:], y[300:], flips=30)
    >>> found.score < found.clean, len(found.rows)
    (True, 30)
    """
    posed = _Learner.of(model, X, y, X_test, y_test)
    k = min(check_count("flips", flips, 0), len(posed.codes))
    sets = _sets_of_labels(posed, k, check_random_state(random_state)) if k else ()
    return posed.worst((posed.X, _with(posed.codes, rows, truth), rows) for rows, truth in sets)


def poison_targets(
    model: Trainable, X: MatrixLike, y: VectorLike, X_test: MatrixLike, y_test: VectorLike, *, targets: int,
    bounds: tuple[float, float] | None = None, random_state: RandomStateLike = 0,
) -> Poisoned:
    """Move the ``targets`` training targets, each to an end of ``bounds``, that raise the error on X_test most.

    Parameters
    ----------
    model : regressor
        The learner; it is cloned and fitted about ten times.
    X, y : arrays of shape (n, d) and (n,)
        Training rows and their true targets.
    X_test, y_test : arrays of shape (m, d) and (m,)
        Rows that the attacker wants to be predicted badly.
    targets : int
        How many, >= 0. One that is at its end already is not among the ``rows``.
    bounds : (low, high) or None
        Between which targets a false one lies; the range of y if it is None.
    random_state : int, RandomState or None

    Returns
    -------
    Poisoned

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from buttress import attacks
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = attacks.poison_targets(Ridge(), X[:300], y[:300], X[300:], y[300:], targets=30)
    >>> found.score < found.clean - 0.2, len(found.rows)
    (True, 30)
    """
    posed = _Learner.of_targets(model, X, y, X_test, y_test)
    k = min(check_count("targets", targets, 0), len(posed.codes))
    low, high = _box((posed.codes.min(), posed.codes.max()) if bounds is None else bounds, 1)
    sets = _sets_of_targets(posed, (low[0], high[0]), k, check_random_state(random_state)) if k else ()
    return posed.worst((posed.X, _with(posed.codes, rows, moved), rows[moved != posed.codes[rows]])
                       for rows, moved in sets)


def poison_rows(
    model: Trainable, X: MatrixLike, y: VectorLike, X_test: MatrixLike, y_test: VectorLike, *, rows: int,
    bounds: BoundsLike | None = None, random_state: RandomStateLike = 0,
) -> Poisoned:
    """Put ``rows`` rows with false labels into a classifier's training data that lower its accuracy on X_test most.

    Parameters
    ----------
    model, X, y, X_test, y_test, random_state
        As in :func:`poison_labels`.
    rows : int
        How many rows are put in, >= 0.
    bounds : (low, high) or None
        Box that they lie in, numbers or one a column; the range of X if it is None.

    Returns
    -------
    Poisoned
    """
    posed = _Learner.of(model, X, y, X_test, y_test)
    low, high = _box((posed.X.min(axis=0), posed.X.max(axis=0)) if bounds is None else bounds, posed.X.shape[1])
    k, rng = check_count("rows", rows, 0), check_random_state(random_state)
    new = np.arange(len(posed.codes), len(posed.codes) + k)
    sets = _sets_of_rows(posed, k, rng) if k else ()
    return posed.worst((np.vstack([posed.X, np.clip(Z, low, high)]), np.concatenate([posed.codes, codes]), new)
                       for Z, codes in sets)


def _with(codes: Labels, rows: Rows, truth: Labels) -> Labels:
    """Return the classes or targets with others in some rows."""
    changed = codes.copy()
    changed[rows] = truth
    return changed


def _box(bounds: BoundsLike, width: int) -> tuple[Array, Array]:
    """Return both ends of the box that rows are put into, (width,); it need not hold the training rows."""
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), width) for side in bounds)
    except (TypeError, ValueError):
        low, high = np.full(width, np.nan), np.full(width, np.nan)
    if not (np.isfinite(low) & np.isfinite(high) & (low <= high)).all():
        each = f" or one for each of the {width} columns" if width > 1 else ""
        raise ValueError(f"bounds must be (low, high), finite numbers{each}, with low <= high. Got {bounds!r}.")
    return low, high


@dataclass(frozen=True)
class _Learner:
    """The learner, its data, and the rows that the attacker wants to be got wrong.

    ``codes`` (n,) and ``truth`` (m,) number ``classes``, or are targets where that is None.
    """

    model: Any
    X: Array
    codes: Labels
    classes: Labels | None
    Z: Array
    truth: Labels

    @classmethod
    def of(
        cls, model: Trainable, X: MatrixLike, y: VectorLike, X_test: MatrixLike, y_test: VectorLike
    ) -> "_Learner":
        if is_regressor(model):
            raise ValueError(f"Labels are of classifiers. Got {type(model).__name__}. Use poison_targets.")
        classes, codes = check_classes(y, "A poisoning attack")
        truth = np.asarray(y_test)
        X, Z = _rows(X, codes, X_test, truth)
        if not np.isin(truth, classes).all():
            raise ValueError(f"y_test must hold classes of y. Got {np.setdiff1d(truth, classes)[0]!r} too.")
        return cls(model, X, codes, classes, Z, np.searchsorted(classes, truth))

    @classmethod
    def of_targets(
        cls, model: Trainable, X: MatrixLike, y: VectorLike, X_test: MatrixLike, y_test: VectorLike
    ) -> "_Learner":
        if is_classifier(model):
            raise ValueError(f"Targets are of regressors. Got {type(model).__name__}. Use poison_labels.")
        targets, truth = (_targets(name, part) for name, part in (("y", y), ("y_test", y_test)))
        X, Z = _rows(X, targets, X_test, truth)
        if np.ptp(truth) == 0:
            raise ValueError("y_test must hold two different targets at least: without them R^2 is not defined. Got "
                             f"{truth[0]:g} in all of {len(truth)} rows.")
        return cls(model, X, targets, None, Z, truth)

    def labels(self, codes: Labels) -> Labels:
        """Return what the learner is given for them."""
        return codes if self.classes is None else self.classes[codes]

    def worst(self, poisons: Iterable[tuple[Array, Labels, Rows]]) -> Poisoned:
        """Return the poison, (X, codes, rows that are poisoned), that the learner does worst with; none if none is met.
        """
        clean = self._score(self.X, self.codes)
        found = (Poisoned(X, self.labels(codes), rows, clean, self._score(X, codes)) for X, codes, rows in poisons)
        unharmed = Poisoned(self.X, self.labels(self.codes), np.zeros(0, dtype=int), clean, clean)
        return min(found, key=lambda one: one.score, default=unharmed)

    def _score(self, X: Array, codes: Labels) -> float:
        """Return the score of the learner fitted to other data; with one class left nothing is fitted."""
        if self.classes is not None and len(np.unique(codes)) < 2:
            return float(np.mean(self.truth == codes[0]))
        predicted = cast(Any, clone(self.model)).fit(X, self.labels(codes)).predict(self.Z)
        score = r2_score if self.classes is None else accuracy_score
        return float(score(self.labels(self.truth), predicted))

    @property
    def signs(self) -> Array:
        """The labels of the surrogates, (n, n_classes): 1 for the class of each row, else -1."""
        return np.where(self.codes[:, None] == np.unique(self.codes), 1.0, -1.0)

    def weights(self, penalty: float, X: Array) -> Array:
        """Return the weights h_i(x) of the surrogate's labels for rows of X (m, d), shape (m, n)."""
        kernel = RBF(resolve_gamma("scale", self.X))
        A = kernel(self.X, self.X)
        A.flat[:: len(A) + 1] += penalty
        return np.asarray(cho_solve(cho_factor(A), kernel(self.X, X)).T)


def _rows(X: MatrixLike, y: Labels, X_test: MatrixLike, y_test: Labels) -> tuple[Array, Array]:
    """Return the rows to train on and those asked about, in float64; ValueError unless each has one label."""
    rows = check_rows(X, None, "A poisoning attack")
    asked = check_rows(X_test, rows.shape[1], "A poisoning attack")
    check_names("X_test", X_test, getattr(X, "columns", None))
    if y.shape != (len(rows),) or y_test.shape != (len(asked),):
        raise ValueError("y and y_test must hold one label a row. Got "
                         f"{y.shape} for {len(rows)} rows and {y_test.shape} for {len(asked)}.")
    return rows.astype(np.float64), asked.astype(np.float64)


def _targets(name: str, y: VectorLike) -> Array:
    """Return targets (n,) in float64; ValueError naming them for NaN, inf, values beyond 1e100 and text."""
    targets: Array = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite=False, input_name=name)
    check_values(targets.reshape(-1, 1), [name], "A poisoning attack")
    return targets


def _sets_of_labels(posed: _Learner, k: int, rng: np.random.RandomState) -> Iterator[tuple[Rows, Rows]]:
    """Yield sets of k rows and the classes that their labels change to."""
    for penalty in PENALTIES:
        yield _most_lost(posed.weights(penalty, posed.Z), posed, k)
    rival, lead = rivals_of(posed.weights(1.0, posed.X) @ posed.signs, posed.codes)
    for order in (np.argsort(lead), np.argsort(-lead), *(rng.permutation(len(rival)) for _ in range(DRAWS))):
        yield order[:k], rival[order[:k]]


def _most_lost(H: Array, posed: _Learner, k: int) -> tuple[Rows, Rows]:
    """Return the labels that, one after another, take most test rows from the surrogate, nearest to be lost first.

    Then each is exchanged for the one with which most rows are lost.
    """
    rival, left = rivals_of(H @ posed.signs, posed.truth)
    drop = _drops(H, posed, rival)  # (n_classes, m, n): label i turned into class c lowers the lead of row t by that

    def gains(left: Array, exact: bool) -> Array:
        near = np.where(left > 0, 1 / (left + 0.1 * np.abs(left).mean() + 1e-12), 0.0)
        gain = np.einsum("t,ctn->cn", near, np.clip(drop, -np.inf, np.maximum(left, 0)[:, None]))
        if exact:
            lost = (drop >= left[:, None]).sum(axis=1)
            gain = lost + gain / (1 + np.abs(gain).max())
        gain[posed.codes, np.arange(len(posed.codes))] = -np.inf
        return gain

    return _exchanged(drop, left, gains, k)


def _exchanged(drop: Array, left: Array, gains: Callable[[Array, bool], Array], k: int) -> tuple[Rows, Rows]:
    """Choose k rows and what becomes of each, one after another, then each anew beside the others, by the most gain.

    Row i turned into c takes ``drop[c, :, i]`` from what is ``left`` (m,). The gains (choices, n) are of that, and of
    whether a row is exchanged.
    """
    chosen: list[tuple[int, int]] = []
    for turn in range(k * (1 + EXCHANGES)):
        if turn >= k:
            c, i = chosen.pop(0)
            left = left + drop[c, :, i]
        gain = gains(left, turn >= k)
        gain[:, [i for _, i in chosen]] = -np.inf
        c, i = divmod(int(gain.argmax()), gain.shape[1])
        chosen.append((c, i))
        left = left - drop[c, :, i]
    return np.array([i for _, i in chosen]), np.array([c for c, _ in chosen])


def _drops(H: Array, posed: _Learner, rival: Rows) -> Array:
    """Return by how much label i changed into class c lowers the lead of test row t, shape (n_classes, m, n)."""
    def vote(codes: Rows) -> Array:
        return 1.0 * (codes == posed.truth[:, None]) - 1.0 * (codes == rival[:, None])

    now = vote(posed.codes[None, :])
    return np.stack([2 * H * (now - vote(np.full((1, 1), c))) for c in range(posed.signs.shape[1])])


def _sets_of_targets(
    posed: _Learner, ends: tuple[float, float], k: int, rng: np.random.RandomState
) -> Iterator[tuple[Rows, Array]]:
    """Yield sets of k rows and the ends that their targets move to: the surrogate's, the farthest, and any."""
    moves = np.subtract.outer(np.array(ends), posed.codes)  # (2, n)
    for penalty in PENALTIES:
        yield _most_moved(posed.weights(penalty, posed.Z), posed, ends, k)
    for order in (np.argsort(-np.abs(moves).max(axis=0)), *(rng.permutation(len(posed.codes)) for _ in range(DRAWS))):
        yield order[:k], np.array(ends)[np.abs(moves).argmax(axis=0)[order[:k]]]


def _most_moved(H: Array, posed: _Learner, ends: tuple[float, float], k: int) -> tuple[Rows, Array]:
    """Return the targets that, one after another, add most to the squares of the surrogate's errors; then exchanged.

    A move of target i by delta changes the errors r (m,) by delta h_i, their squares by 2 delta h_i'r + delta^2
    |h_i|^2.
    """
    moves, middle = np.subtract.outer(np.array(ends), posed.codes), posed.codes.mean()
    errors = middle + H @ (posed.codes - middle) - posed.truth
    size = (H**2).sum(axis=0)
    rows, to = _exchanged(-moves[:, None] * H, errors, lambda left, _: 2 * moves * (left @ H) + moves**2 * size, k)
    return rows, np.array(ends)[to]


def _sets_of_rows(posed: _Learner, k: int, rng: np.random.RandomState) -> Iterator[tuple[Array, Rows]]:
    """Yield k rows to put in and their false classes: test rows with a rival's label, those of most effect or any."""
    rival, lead = rivals_of(posed.weights(1.0, posed.Z) @ posed.signs, posed.truth)
    near: NDArray[Any] = RBF(resolve_gamma("scale", posed.X))(posed.Z, posed.Z)
    orders = [np.argsort(np.where(lead > 0, lead, np.inf)), np.argsort(-near.sum(axis=1)), np.argsort(-np.abs(lead))]
    for order in (*orders, *(rng.permutation(len(rival)) for _ in range(DRAWS))):
        taken = np.resize(order, k)
        yield posed.Z[taken], rival[taken]
