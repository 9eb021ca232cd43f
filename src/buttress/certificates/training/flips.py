"""How many training labels would have to be wrong for a prediction to change: exact for squared losses.

f(x) = sum_i h_i(x) y_i is linear in the labels, so a wrong label moves a lead by an amount that depends on no other
label, and the fewest labels whose change takes the lead away are the largest of these amounts. With one-against-rest
and several classes the lead of class p over r falls by max(0, h_i (o_i + 1), h_i (o_i - 1)), o_i = [c_i = p] - [c_i =
r], in units of the distance between the two codes, so by up to twice |h_i|; the fewest over the rivals r count.

The attack that would make it false: leads that are ties but for rounding. Every comparison is made with the bounds of
``smoother``, and a tie counts as changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from buttress._checks import Array, check_classes, check_number
from buttress._proof import UNIT
from buttress._types import Labels, Mask, MatrixLike, Predictor, Rows, VectorLike
from buttress.certificates.training.hinge import fewest_wrong, is_hinge_machine
from buttress.certificates.training.reading import Refit, check_reproduced, prepared, refit
from buttress.certificates.training.wrong import Direction, Suspects, cheapest, check_suspects


@dataclass(frozen=True)
class TrainingFlips:
    """How many wrong training labels each prediction stands.

    Parameters
    ----------
    prediction : array of shape (m,)
        The classes that the model predicts.
    needed : array of shape (m,)
        The least number of labels (their least cost, if they have costs) that change it: no smaller one does, which is
        proven. inf where no labels do.
    rows : list of int arrays
        Training rows whose labels do it, for each prediction.
    labels : list of arrays
        What these labels change to.
    exact : bool array of shape (m,)
        Whether ``rows`` surely change the prediction at the cost ``needed``. It is False for ties and, with costs that
        are no small whole numbers, where ``needed`` is only a lower bound.
    flips : array of shape (k,)
        The numbers of wrong labels that were asked about.
    survives : array of shape (k,)
        The share of predictions that stand any so many wrong labels, each with the worst ones for itself.
    """

    prediction: Labels
    needed: Array
    rows: list[Rows]
    labels: list[Labels]
    exact: Mask
    flips: Array
    survives: Array

    def stands(self, flips: float) -> Mask:
        """Say which predictions no ``flips`` wrong labels (of that cost together) change."""
        return self.needed > flips


def training_flips(
    model: Predictor,
    X_train: MatrixLike,
    y_train: VectorLike,
    X: MatrixLike,
    *,
    flips: ArrayLike = (1, 2, 5, 10),
    costs: VectorLike | None = None,
    directions: Iterable[Direction] | None = None,
    eligible: VectorLike | None = None,
    threshold: float | None = None,
    sample_weight: VectorLike | None = None,
) -> TrainingFlips:
    """Return for each row of X the fewest wrong training labels that would change its predicted class.

    Parameters
    ----------
    model : fitted classifier or regressor
        ``LeastSquaresClassifier``, scikit-learn's ``RidgeClassifier``; ``KernelRidge``, ``Ridge``, ``LinearRegression``
        and ``GaussianProcessRegressor(optimizer=None)`` on two numbers, as classifiers at a threshold. Alone or behind
        steps of a pipeline that read no labels. For two classes also ``SVC`` of this package or scikit-learn, and
        ``LinearSVC``, by one fit for each label: ``needed`` is then only a lower bound, with an intercept at most 2
        (``certificates/training/hinge.py``).
    X_train, y_train : arrays of shape (n, d) and (n,)
        What it was fitted to.
    X : array of shape (m, d)
    flips : numbers
        For which ``survives`` is asked.
    costs : array of shape (n,) or None
        Cost of each wrong label, > 0, inf for a trusted label; ``needed`` is then the least total cost. Exact for small
        whole numbers.
    directions : pairs or None
        (given label, true label): only these errors are possible.
    eligible : bool array of shape (n,) or None
        Which labels may be wrong.
    threshold : float or None
        Of a regressor: larger values are the larger label. None is the middle of the two labels.
    sample_weight : array of shape (n,) or None
        What the model was fitted with.

    Returns
    -------
    TrainingFlips

    Raises
    ------
    ValueError
        For models that are not linear in their labels, steps that read labels, or if the model fitted again to the data
        gives other values than the model.

    Notes
    -----
    The proof is for the model's parameters and for columns that are prepared without the labels. If the parameters were
    tuned on the same labels, other labels might have chosen others.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from buttress import certificates
    >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> found = certificates.training_flips(RidgeClassifier().fit(X, y), X, y, X)
    >>> found.needed
    array([2., 2., 2., 1., 1., 2., 2., 2.])
    """
    count = np.atleast_1d(np.asarray(flips, dtype=np.float64))
    if not (count >= 0).all():
        raise ValueError(f"flips must be numbers >= 0. Got {flips!r}.")
    last, training, rows = prepared(model, X_train, X)
    if is_hinge_machine(last):
        if costs is not None or threshold is not None or sample_weight is not None:
            raise ValueError("For support vector machines costs, threshold and sample_weight are not covered. Leave "
                             "them out, or use LeastSquaresClassifier.")
        return _of_machine(last, training, y_train, rows, count, directions, eligible)
    asked = FlipLeads.of(model, X_train, y_train, X, threshold, sample_weight)
    suspects = check_suspects(asked.codes, asked.classes, directions, eligible, costs)
    found = [_fewest(asked, suspects, row) for row in range(len(asked.lead))]
    needed = np.array([one.needed for one in found])
    return TrainingFlips(
        asked.classes[asked.predicted], needed, [one.rows for one in found],
        [asked.classes[one.truth] for one in found], np.array([one.exact for one in found]), count,
        (needed > count[:, None]).mean(axis=1))


def _of_machine(
    model: Any, X: Array, y_train: VectorLike, Z: Array, flips: Array, directions: Iterable[Direction] | None,
    eligible: VectorLike | None,
) -> TrainingFlips:
    """Return what can be proven of a support vector machine."""
    classes, codes = check_classes(y_train, "training_flips")
    if len(classes) != 2 or len(codes) != len(X):
        raise ValueError(f"For support vector machines y_train must hold a label of two classes for each of the "
                         f"{len(X)} rows. Got {len(codes)} labels of {len(classes)} classes.")
    suspects = check_suspects(codes, classes, directions, eligible, None)
    free = suspects.allowed[codes, 1 - codes] & np.isfinite(suspects.costs)
    signs = np.where(codes == 1, 1.0, -1.0)
    needed, row, exact = fewest_wrong(model, X, signs, Z, np.flatnonzero(free), int(flips.max()))
    rows = [np.array([i] if i >= 0 else [], dtype=int) for i in row.tolist()]
    return TrainingFlips(model.predict(Z), needed, rows, [classes[1 - codes[each]] for each in rows], exact, flips,
                         (needed > flips[:, None]).mean(axis=1))


@dataclass(frozen=True)
class FlipLeads:
    """The leads of the predicted classes over their rivals, and what they are made of.

    Parameters
    ----------
    refit : Refit
    classes : array of shape (n_classes,)
    codes : int array of shape (n,)
        Classes of the training rows.
    targets : array of shape (n_classes, k)
        What a label of each class is fitted as.
    predicted : int array of shape (m,)
    lead : array of shape (m, n_classes)
        Over each class, 0 over the predicted one.
    slack : array of shape (m,)
        How far rounding may have moved a lead together with all that labels do to it.
    """

    refit: Refit
    classes: Labels
    codes: Rows
    targets: Array
    predicted: Rows
    lead: Array
    slack: Array

    @classmethod
    def of(
        cls, model: Predictor, X_train: MatrixLike, y_train: VectorLike, X: MatrixLike, threshold: float | None,
        sample_weight: VectorLike | None,
    ) -> "FlipLeads":
        """Fit the model again, compare it with what is given, and read off the leads."""
        found = refit(model, X_train, X, sample_weight)
        targets, middle, classes, codes = _coded(model, y_train, threshold)
        if len(codes) != found.weights.shape[1]:
            raise ValueError(f"y_train has {len(codes)} labels and X_train {found.weights.shape[1]} rows.")
        values = found.weights @ targets[codes]
        span = float(np.ptp(targets))
        away = check_reproduced(model, values, _values(model, X).reshape(values.shape), span)
        predicted, lead = _leads(values, middle)
        n = len(codes)
        slack = 2 * (away + (found.error * np.sqrt(n) + n * UNIT * np.abs(found.weights).sum(axis=1))
                     * (np.abs(targets).max() + span))
        return cls(found, classes, codes, targets, predicted, lead, slack)

    def contrast(self, row: int, rival: int) -> Array:
        """Return what a label of each class adds to the lead of the predicted class over a rival, times its weight."""
        if self.targets.shape[1] == 1:
            return self.targets.ravel() * (1.0 if self.predicted[row] == 1 else -1.0)
        return self.targets[:, self.predicted[row]] - self.targets[:, rival]


def _coded(model: Any, y_train: VectorLike, threshold: float | None) -> tuple[Array, float, Labels, Rows]:
    """Return the numbers that a label of each class is fitted as, the threshold of one score, classes and codes."""
    if hasattr(model, "classes_"):
        if threshold is not None:
            raise ValueError("threshold is for regressors; a classifier has its own. Leave it out.")
        classes, codes = check_classes(y_train, "training_flips")
        return (np.array([[-1.0], [1.0]]) if len(classes) == 2 else 2 * np.eye(len(classes)) - 1), 0.0, classes, codes
    classes, codes = np.unique(np.asarray(y_train), return_inverse=True)
    if codes.ndim != 1 or len(classes) != 2 or classes.dtype.kind not in "iuf":
        raise ValueError(f"A regressor is a classifier at a threshold only if y_train holds two numbers. Got "
                         f"{len(classes)} values. For targets that may be off, use certificates.training_moves.")
    targets = classes.astype(np.float64)
    middle = float(targets.mean()) if threshold is None else check_number("threshold", threshold, -np.inf)
    return targets[:, None], middle, classes, codes


def _values(model: Any, X: MatrixLike) -> Array:
    return np.asarray(model.decision_function(X) if hasattr(model, "classes_") else model.predict(X), dtype=np.float64)


def _leads(values: Array, middle: float) -> tuple[Rows, Array]:
    """Return the predicted classes and, for each row, the lead over every class, (m, n_classes)."""
    scores = values if values.shape[1] > 1 else np.column_stack([np.zeros(len(values)), values - middle])
    return scores.argmax(axis=1), scores.max(axis=1, keepdims=True) - scores


@dataclass(frozen=True)
class _Fewest:
    needed: float
    rows: Rows
    truth: Rows
    exact: bool


def _fewest(asked: FlipLeads, suspects: Suspects, row: int) -> _Fewest:
    """Return the cheapest wrong labels that change the prediction of one row, over all its rivals."""
    h, slack = asked.refit.weights[row], float(asked.slack[row])
    found = [_Fewest(np.inf, np.zeros(0, dtype=int), np.zeros(0, dtype=int), True)]
    for rival in np.flatnonzero(np.arange(len(asked.classes)) != asked.predicted[row]).tolist():
        lead = float(asked.lead[row, rival])
        values = asked.contrast(row, rival)
        gains = suspects.gains(h, values)
        needed, rows = cheapest(gains, suspects.costs, lead - slack)
        least = np.isclose(suspects.costs[rows].sum(), needed, rtol=1e-9, atol=0)
        exact = bool(gains[rows].sum() > lead + slack and least)
        found.append(_Fewest(needed, rows, suspects.truth(rows, h[rows], values), exact))
    return min(found, key=lambda one: (one.needed, not one.exact))
