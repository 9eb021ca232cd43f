"""A prediction of a kernel model explained: the rows that speak for it and against it, and how loudly."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_outlier_detector
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from buttress._as_given import one_row
from buttress._checks import Array, check_count
from buttress._predicting import PlanePredictions, rows_to_score
from buttress._types import Labels, MatrixLike, Rows, VectorLike
from buttress.certificates.training.flips import training_flips
from buttress.displays.axes import COLOURS, Display, given_or_new
from buttress.expansion import HasExpansion, KernelExpansion, margins, winners

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class Explanation(Display):
    """What each centre of a kernel model adds to one score: ``contribution.sum() + intercept == score``. A display.

    The score is a regressor's prediction, the decision of OneClassSVM, or by how much the predicted class leads its
    closest rival. The centres, the largest contribution (in size) first, are the support vectors, or the training rows,
    or landmarks.

    Attributes
    ----------
    score, intercept : float
    prediction, rival
        The predicted class or number; the class that the score is a lead over, None where there are none.
    row : array of shape (m,)
        Row number of each centre among the training rows where the model knows it (``support_``), else the number of
        the centre; or the labels that were given for rows that it knows.
    contribution : array of shape (m,)
        Coefficient times kernel value: positive where the row speaks for the prediction (or raises the number).
    share : array of shape (m,)
        Contribution over the sum of all sizes, so that sizes sum to 1.
    similarity : array of shape (m,)
        k(x, z).
    needed : float or None
        How many training labels would have to be others to change the prediction, no fewer, which is proven; None if no
        training data were given.
    hangs_on : array or None
        The training rows whose labels do it: their numbers, or the labels that were given.
    ax_, figure_ : matplotlib axes and figure, once plotted.
    bars_ : matplotlib container of the bars, once plotted.
    """

    score: float
    intercept: float
    prediction: Any
    rival: Any
    row: Labels
    contribution: Array
    share: Array
    similarity: Array
    needed: float | None = None
    hangs_on: Labels | None = None

    def columns(self) -> dict[str, Labels]:
        """Return one row a centre as a dict of columns, which any frame library takes."""
        return {name: getattr(self, name) for name in ("row", "contribution", "share", "similarity")}

    def frame(self, library: str = "pandas") -> Any:
        """Return the columns as a DataFrame of ``"pandas"`` or ``"polars"``."""
        return importlib.import_module(library).DataFrame(self.columns())

    def plot(self, ax: "Axes | None" = None, *, most: int = 10) -> "Explanation":
        """Draw the ``most`` largest contributions as bars on ``ax``, new axes by default, and the sum of the others.

        Returns self. Bars of what speaks against the prediction are hatched too.
        """
        check_count("most", most)
        ax = given_or_new(ax)
        others = [float(self.contribution[most:].sum())] * (len(self.row) > most)
        names = [*map(str, self.row[:most]), *(f"{len(self.row) - most} others" for _ in others), "intercept"]
        sizes = [*self.contribution[:most], *others, self.intercept]
        places = np.arange(len(names))[::-1]
        against = [size < 0 for size in sizes]
        self.bars_ = ax.barh(places, sizes, color=[COLOURS[5] if negative else COLOURS[0] for negative in against],
                             hatch=["//" if negative else "" for negative in against])
        ax.set_yticks(places, names)
        ax.axvline(0, color="grey", linewidth=0.8)
        ax.set(xlabel="contribution to the score", title=f"{self.prediction}: score {self.score:.3g}")
        return self.drawn_on(ax)


def explain(
    model: HasExpansion | Pipeline, x: MatrixLike, *, labels: ArrayLike | None = None,
    training: tuple[MatrixLike, VectorLike] | None = None,
) -> Explanation:
    """Return what each support vector adds to the score of one row x, of shape (d,) or (1, d).

    Parameters
    ----------
    model : fitted kernel estimator
        Any with an ``expansion_``: ``SVC``, ``SVR``, the kernel and robust kernel estimators; or a Pipeline that ends
        in one (x is then the row before any step).
    x : the row, as the model takes it
    labels : array of shape (n,) or None
        Names of the training rows, such as the index of their frame, for models that know the rows of their centres
        (``support_``). Of others, which may count equal rows once, they name only what ``training`` tells.
    training : (X, y) or None
        The training data of a classifier: the explanation then says on which labels the prediction depends, and how
        many would have to be wrong to change it (:func:`buttress.certificates.training_flips`).

    Raises
    ------
    ValueError
        For several rows at once, SVDD, a model without ``expansion_``, labels that are not one a training row, or of a
        model that knows no rows, or with ``training`` a model whose wrong labels cannot be counted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from buttress import SVC, explain
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC().fit(X, y)
    >>> why = explain(model, X[70])
    >>> int(why.prediction), bool(abs(why.contribution.sum() + why.intercept - why.score) < 1e-9)
    (1, True)

    Which of the 150 labels would have to be wrong to change it?

    >>> from buttress import LeastSquaresClassifier
    >>> why = explain(LeastSquaresClassifier().fit(X, y), X[70], training=(X, y))
    >>> int(why.needed) == len(why.hangs_on) > 0
    True
    """
    check_is_fitted(model)
    given = one_row(x)
    needed, hangs_on = (None, None) if training is None else _fewest(model, training, given, labels)
    if isinstance(model, Pipeline):
        given, model = model[:-1].transform(given), model[-1]
    if isinstance(model, PlanePredictions) or not isinstance(getattr(model, "expansion_", None), KernelExpansion):
        raise ValueError(f"{type(model).__name__} is no sum over training rows. Explain a kernel machine, as its "
                         "estimator_ may be one; coef_, where there is one, says what each column adds.")
    if hasattr(model, "center_norm2_"):
        raise ValueError(f"{type(model).__name__} scores by a distance, no sum over rows. Explain a OneClassSVM.")
    rows = rows_to_score(model, given)
    if rows.shape[0] != 1:
        raise ValueError(f"explain takes one row, of shape (d,) or (1, d). Got {rows.shape[0]} rows. Give one "
                         "at a time.")
    base = model.expansion_
    scores = base(rows)
    contrast, prediction, rival = _contrast_and_labels(model, scores)
    similarity = np.asarray(base.kernel(rows, base.centers))[0]
    contribution = similarity * (base.coef @ contrast)
    flat = base.intercept if base.linear is None else base.intercept + (rows @ base.linear)[0]  # of no row
    intercept = float(flat @ contrast) + _constant(model)
    total = float(np.abs(contribution).sum()) or 1.0
    order = np.argsort(-np.abs(contribution), kind="stable")
    names = _row_names(model, len(base.coef), labels, training is not None)[order]
    return Explanation(float(scores[0] @ contrast) + _constant(model), intercept, prediction, rival, names,
                       contribution[order], contribution[order] / total, similarity[order], needed, hangs_on)


def _fewest(
    model: Any, training: tuple[MatrixLike, VectorLike], row: MatrixLike, labels: ArrayLike | None
) -> tuple[float, Labels]:
    """Return how many wrong labels change the prediction of a row, and which."""
    if not (isinstance(training, tuple) and len(training) == 2):
        raise TypeError(f"training must be a pair (X, y). Got {type(training).__name__}.")
    counted = training_flips(model, *training, row)
    rows = counted.rows[0]
    return float(counted.needed[0]), rows if labels is None else np.asarray(labels)[rows]


def _contrast_and_labels(model: HasExpansion, scores: Array) -> tuple[Array, Any, Any]:
    """Return the contrast (k,) of the scores that makes the score, the prediction, and the closest rival."""
    judged: Any = model
    if not hasattr(model, "classes_"):
        inlier = 1 if scores[0, 0] >= 0 else -1
        return np.ones(1), inlier if is_outlier_detector(model) else float(scores[0, 0]) + _constant(model), None
    code = winners(scores, judged.contrasts_)
    _, contrast = margins(scores, code, judged.contrasts_)
    rivals = np.delete(np.arange(len(judged.classes_)), code[0])
    leads = judged.contrasts_[code[0]] @ scores[0]
    return contrast[0], judged.classes_[code[0]], judged.classes_[rivals[int(leads.argmin())]]


def _constant(model: HasExpansion) -> float:
    """Return what a regressor adds to its expansion."""
    apart = not hasattr(model, "classes_") and isinstance(getattr(model, "intercept_", None), float)
    return float(getattr(model, "intercept_", 0.0)) if apart else 0.0


def _row_names(model: HasExpansion, m: int, labels: ArrayLike | None, counted: bool) -> Labels:
    """Return what to call the m centres; ``counted``: labels are of use even where they cannot name the centres."""
    support: Rows | None = getattr(model, "support_", None)
    known = support is not None and len(support) == m
    rows = np.asarray(support) if known else np.arange(m)
    if labels is None or (counted and not known):
        return rows
    if not known:
        raise ValueError(f"{type(model).__name__} does not say which training rows its centres are, so labels cannot "
                         "name them. Leave labels out: `row` then numbers expansion_.centers.")
    names = np.asarray(labels)
    if names.ndim != 1 or len(names) <= rows.max(initial=-1):
        raise ValueError(f"labels must be one for each training row, at least {rows.max() + 1}. Got shape "
                         f"{names.shape}.")
    return np.asarray(names[rows])
