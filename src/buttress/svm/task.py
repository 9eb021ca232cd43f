"""The task of a machine: checked training data, how classes are told apart, and the model that coefficients make."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import issparse

from buttress._callbacks import Report, showing
from buttress._checks import Array
from buttress._types import Attributes, DenseOrSparse, Rows
from buttress.certainty.calibration import pairs_of
from buttress.expansion import KernelExpansion, class_contrasts, pair_contrasts
from buttress.gram.rows import KernelRows
from buttress.gram.spectrum import Settled
from buttress.kernels import Kernel, centers
from buttress.solvers.qp.program import Point
from buttress.solvers.qp.solve import SVMSolution
from buttress.solvers.run import Step


@dataclass(frozen=True)
class Classes:
    """How many classes there are; beyond two, one problem a pair of them, or with ``ovr`` one a class."""

    count: int
    ovr: bool

    @property
    def in_pairs(self) -> bool:
        """Whether each of several problems is of a pair of classes."""
        return self.count > 2 and not self.ovr

    def described(self, coef: Array, codes: Rows) -> Attributes:
        """Return what a classifier has beside a regressor, for coefficients (n_SV, n_problems) and classes (n_SV,)."""
        pairs = pairs_of(self.count)
        contrasts = pair_contrasts(pairs, self.count) if self.in_pairs else class_contrasts(self.count)
        found = {"n_support_": np.bincount(codes, minlength=self.count).astype(np.int32), "contrasts_": contrasts}
        return found | {"dual_coef_": libsvm_layout(coef, codes, pairs)} if self.in_pairs else found


@dataclass(frozen=True)
class Training:
    """Checked training data: the rows of positive weight, and the cached kernel rows that their problems share."""

    X: DenseOrSparse  # all rows, as given
    kernel: Kernel
    order: Rows  # the rows solved on; those of a classifier by class
    codes: Rows  # of those rows: equal ones have equal targets
    weight: Array  # C_i / C of those rows
    groups: Rows | None  # of all rows, those equal in x and target in one
    settled: Settled
    rows: KernelRows
    report: Report
    classes: Classes | None = None  # of a classifier

    def described(self, coef: Array, intercept: Array) -> Attributes:
        """Return the attributes of the model with these coefficients (n, k) of the rows solved on, and intercepts."""
        changed, original = self.settled.original(coef, intercept)
        used = changed.any(axis=1)
        support = self.order[used].astype(np.int32)
        found = KernelExpansion(self.kernel, centers(self.kernel, self.X)[support], changed[used], original)
        found.freeze()
        of_any = {"support_": support, "support_vectors_": self.X[support], "expansion_": found, "intercept_": original,
                  "dual_coef_": found.coef.T.copy(), "n_support_": np.array([len(support)], dtype=np.int32)}
        of_all = of_any if self.classes is None else of_any | self.classes.described(found.coef, self.codes[used])
        kind: Any = type(self.X)
        return of_all | {"dual_coef_": kind(of_all["dual_coef_"])} if issparse(self.X) else of_all

    def reporting(
        self, coef: Array, solutions: list[SVMSolution], index: Rows, best: Callable[[Array], float]
    ) -> Report:
        """Return the report of steps of the last problem as models, with the ``solutions`` of the others.

        Its rows are ``index`` of those solved on. ``best`` returns the intercept of least loss for their values without
        one.
        """

        def model_of(step: Step) -> Attributes:
            here = coef.copy()
            here[index, -1] = step.state.b if isinstance(step.state, Point) else step.state
            free = self.described(here, np.zeros(here.shape[1]))["expansion_"](self.X[self.order[index]])
            others = [solution.proof.intercept for solution in solutions]
            return self.described(here, np.array([*others, best(free[:, -1])]))

        return showing(self.report, model_of)


def libsvm_layout(coef: Array, codes: Rows, pairs: list[tuple[int, int]]) -> Array:
    """Return pairwise coefficients (n_SV, n_pairs), by class, laid out as scikit-learn's ``dual_coef_``."""
    n_classes = max(j for _, j in pairs) + 1
    dual = np.zeros((n_classes - 1, len(coef)))
    ends = codes.searchsorted(np.arange(n_classes + 1)).tolist()
    rows_of = [slice(*ends[k : k + 2]) for k in range(n_classes)]
    for column, (i, j) in enumerate(pairs):
        dual[j - 1, rows_of[i]] = coef[rows_of[i], column]
        dual[i, rows_of[j]] = coef[rows_of[j], column]
    return dual


@lru_cache(maxsize=8)
def _signs(n_classes: int) -> Array:
    """Return (n_pairs, n_classes), read-only: 1 for the first class of each pair and -1 for the second."""
    first, second = np.triu_indices(n_classes, 1)
    signs = np.zeros((len(first), n_classes))
    signs[np.arange(len(first)), first] = 1
    signs[np.arange(len(first)), second] = -1
    signs.flags.writeable = False
    return signs


def votes(scores: Array, n_classes: int) -> tuple[Array, Array]:
    """Return the votes (n, n_classes) of pairwise scores and the decision values, the votes with ties broken.

    A class's scores are summed and squeezed into (-1/3, 1/3), so that they decide between equal votes only.
    """
    sign = _signs(n_classes)
    won = np.where(scores > 0, 1.0, -1.0)
    counts = (won @ sign + n_classes - 1) / 2
    confidence = scores @ sign
    return counts, counts + confidence / (3 * (np.abs(confidence) + 1))
