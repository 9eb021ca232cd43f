"""The task of a classifier: checked training data, and the model that coefficients of its rows make."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress._callbacks import Report, showing
from buttress._checks import Array
from buttress._types import DenseOrSparse
from buttress.expansion import binary_contrasts, pair_contrasts, rival_contrasts
from buttress.gram.rows import KernelRows
from buttress.kernels import Kernel
from buttress.solvers.linear.intercept import hinge_intercept
from buttress.solvers.qp.program import Point
from buttress.solvers.qp.solve import SVMSolution
from buttress.solvers.run import Step
from buttress.svm.indefinite import Settled
from buttress.svm.machine import expansion
from buttress.svm.multiclass import Codes, class_pairs, libsvm_layout


@dataclass
class Task:
    """Checked training data: rows of positive weight in the order of their classes, and the cache they share."""

    X: DenseOrSparse  # all rows, as given
    kernel: Kernel
    order: Codes  # the rows solved on, by class
    codes: Codes  # of those rows
    weight: Array  # C_i / C of those rows
    groups: Codes | None  # of all rows, equal ones in one
    settled: Settled
    rows: KernelRows
    report: Report
    n_classes: int
    multi_class: str

    def described(self, coef: Array, intercept: Array) -> dict[str, Any]:
        """Return the attributes of the model with these coefficients (n, k) of the rows solved on, and intercepts."""
        changed, original = self.settled.original(coef, intercept)
        whole = np.zeros((self.X.shape[0], coef.shape[1]))
        whole[self.order] = changed
        used = changed.any(axis=1)
        support = self.order[used].astype(np.int32)
        codes = self.codes[used]
        found = expansion(self.kernel, self.X, support, whole, original)
        pairs = class_pairs(self.n_classes)
        apart = self.n_classes > 2 and self.multi_class == "ovo"
        layout = libsvm_layout(found.coef, codes, pairs) if apart else found.coef.T.copy()
        if self.n_classes == 2:
            contrasts = binary_contrasts()
        elif apart:
            contrasts = pair_contrasts(pairs, self.n_classes)
        else:
            contrasts = rival_contrasts(self.n_classes)
        return {
            "support_": support,
            "support_vectors_": self.X[support],
            "n_support_": np.bincount(codes, minlength=self.n_classes).astype(np.int32),
            "expansion_": found,
            "intercept_": original,
            "contrasts_": contrasts,
            "dual_coef_": layout,
        }

    def reporting(
        self, coef: Array, solutions: list[SVMSolution], index: Codes, y: Array
    ) -> Report:
        """Return the report of steps of the last problem as models, with the ``solutions`` of the others.

        Its rows are ``index`` of those solved on, of signs y. The intercept is the one of least loss on them.
        """

        def model_of(step: Step) -> dict[str, Any]:
            here = coef.copy()
            here[index, -1] = step.state.b if isinstance(step.state, Point) else step.state
            free = self.described(here, np.zeros(here.shape[1]))["expansion_"](self.X[self.order[index]])
            last = hinge_intercept(y - free[:, -1], y, self.weight[index])
            return self.described(here, np.array([*(solution.intercept for solution in solutions), last]))

        return showing(self.report, model_of)
