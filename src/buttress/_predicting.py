"""What estimators share: their input tags, how those with an expansion predict, parameters for scikit-learn's sake.

Those are what its machines have and ours need not, taken so that one changed import is enough. ``verbose`` shows
progress. ``random_state`` is kept and never read: a fit draws nothing, so every value gives the same model. What else
changes nothing is told once in a process, and what would need another objective is refused.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from buttress._checks import Array, check_number, check_option, check_X, warn_user
from buttress._state import Attribute, State
from buttress._types import GetParams, Labels, MatrixLike, RandomStateLike, Rows
from buttress.expansion import HasExpansion, KernelExpansion, class_contrasts, winners
from buttress.kernels import Linear, kernel_takes_sparse


def sparse_or_dense(tags: Tags, pairwise: bool) -> Tags:
    """Set the input tags of a machine that takes sparse rows, or a Gram matrix."""
    tags.input_tags.pairwise = pairwise
    tags.input_tags.sparse = not pairwise
    return tags


def rows_to_score(estimator: HasExpansion, X: MatrixLike, *, single: bool = False) -> Array:
    """Check X, (n, d), against the training columns; it may be sparse where estimator and kernel can be."""
    takes = not isinstance(X, np.ndarray) and get_tags(estimator).input_tags.sparse
    return check_X(estimator, X, sparse=takes and kernel_takes_sparse(estimator.expansion_.kernel), single=single)


class Mixed:
    """What the classes below ask of the estimator that they are mixed into."""

    get_params: GetParams


class Decisions(Mixed):
    """Scores and classes of a classifier from its ``_raw_scores`` (n, k), ``contrasts_`` and ``classes_``."""

    contrasts_: Any
    classes_: Labels
    _raw_scores: Callable[[MatrixLike], Array]

    def decision_function(self, X: MatrixLike) -> Array:
        """Return the scores of X (n, d): (n,) for two classes, positive for ``classes_[1]``, else (n, n_classes)."""
        scores = self._raw_scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: MatrixLike) -> Labels:
        """Return the class of each row of X (n, d)."""
        _, best = self._scores_of(X)
        return self.classes_[best]

    def _scores_of(self, X: MatrixLike) -> tuple[Array, Rows]:
        """Return the scores (n, k) and the number of the class predicted (n,)."""
        scores = self._raw_scores(X)
        return scores, winners(scores, self.contrasts_)


class ExpansionPredictions(Decisions):
    """Scores and classes of a classifier with an ``expansion_``."""

    expansion_: KernelExpansion

    def _raw_scores(self, X: MatrixLike) -> Array:
        check_is_fitted(self)
        return self.expansion_(rows_to_score(self, X))


class PlanePredictions(Decisions):
    """Scores and classes of a linear classifier: those of its ``coef_`` and ``intercept_``, one row for two classes."""

    _state = State(
        Attribute("coef_", "finite", "n_scores, n_features", "One row for two classes, else one a class."),
        Attribute("intercept_", "finite", "n_scores"))

    coef_: Array
    intercept_: Array

    @property
    def expansion_(self) -> KernelExpansion:
        """The scores as an expansion in the linear kernel, for attacks."""
        check_is_fitted(self)
        return KernelExpansion(Linear(), dense(self.coef_), np.eye(len(self.intercept_)), self.intercept_)

    @property
    def contrasts_(self) -> Array:
        """The contrasts of scores that decide, for attacks."""
        return class_contrasts(len(self.classes_))

    def _raw_scores(self, X: MatrixLike) -> Array:
        check_is_fitted(self)
        rows = check_X(self, X, sparse=get_tags(self).input_tags.sparse)
        return dense(rows @ self.coef_.T) + self.intercept_


def dense(values: Any) -> Array:
    """Return values, an array or sparse, as an array."""
    return np.asarray(values.toarray() if issparse(values) else values)


def beside(planes: Iterable[tuple[Array, float]], w: Array, b: float) -> dict[str, Array]:
    """Return the attributes of a plane w'x + b = 0 and those of the classes before it."""
    every = [*planes, (w, b)]
    return {"coef_": np.vstack([w for w, _ in every]), "intercept_": np.hstack([b for _, b in every])}


class PlaneValues(Mixed):
    """Values of a linear regressor: those of its ``coef_`` and ``intercept_``."""

    coef_: Array
    intercept_: Any

    def predict(self, X: MatrixLike) -> Array:
        """Return f(x) for each row of X (n, d)."""
        check_is_fitted(self)
        rows = check_X(self, X, sparse=get_tags(self).input_tags.sparse)
        return dense(rows @ self.coef_) + self.intercept_


class ExpansionValues(Mixed):
    """Values of a regressor from its ``expansion_`` and ``intercept_``."""

    expansion_: KernelExpansion
    intercept_: float

    def predict(self, X: MatrixLike) -> Array:
        """Return f(x) for each row of X (n, d)."""
        check_is_fitted(self)
        return self.expansion_(rows_to_score(self, X))[:, 0] + self.intercept_


JOINT = "crammer_singer"
_told: set[tuple[str, str]] = set()


@dataclass(kw_only=True, eq=False, repr=False)
class Shrinking:
    """Of libsvm's machines."""

    shrinking: bool = True
    verbose: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class Seeded:
    """Of the machines that draw at random elsewhere."""

    _draws = False

    random_state: RandomStateLike = None


@dataclass(kw_only=True, eq=False, repr=False)
class Liblinear(Seeded):
    """Of liblinear's machines."""

    penalty: str = "l2"
    dual: bool | str = "auto"
    intercept_scaling: float = 1.0
    verbose: bool = False

    @property
    def _penalises(self) -> str:
        """The form whose intercept is penalised: the other norm, or all classes jointly; empty where it is not."""
        return "l1" if self.penalty == "l1" else JOINT if getattr(self, "multi_class", "") == JOINT else ""

    def _check_spelling(self) -> None:
        """Refuse sets of arguments that are no machine here, or none of scikit-learn's; tell of what has no effect."""
        check_option("penalty", self.penalty, ("l2", "l1"))
        check_option("dual", self.dual, ("auto", True, False))
        several = getattr(self, "multi_class", None)
        if several is not None:
            check_option("multi_class", several, ("ovr", JOINT))
        loss = vars(self)["loss"]
        squared = loss.startswith("squared")
        sparse = self.penalty == "l1"
        known = squared and several == "ovr" and self.dual is not True if sparse else (
            not squared if several == JOINT else squared or self.dual is not False)
        if not known:
            raise ValueError(f"Unsupported set of arguments: penalty={self.penalty!r}, loss={loss!r}, "
                             f"dual={self.dual!r}, multi_class={several!r}. In scikit-learn dual=False "
                             "means a squared loss, which is not the default here: give it as loss=. penalty='l1' is "
                             "LinearSVC's, with loss='squared_hinge' and dual=False; multi_class='crammer_singer' has "
                             "the hinge.")
        check_number("intercept_scaling", self.intercept_scaling, 0)
        if not self._penalises:
            note_idle(self, dual="the optimum is the same, and both bounds of it are computed.",
                      intercept_scaling="the intercept is not penalised, so nothing has to make up for that.")


def note_idle(estimator: object, **why: str) -> None:
    """Tell, once a process and class, of each of these parameters that is set and changes nothing, and why not."""
    kind = type(estimator)
    for name, reason in why.items():
        value: Any = getattr(estimator, name)
        if value != getattr(kind, name) and (kind.__name__, name) not in _told:
            _told.add((kind.__name__, name))
            warn_user(f"{kind.__name__}({name}={value!r}) gives the same model as without it: {reason}")
