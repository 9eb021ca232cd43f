"""The rows of the tables: name -> a function of a trial that returns a fitted model. Adding a row is one entry.

Rows marked "told" are given the true rate; those marked "not told" estimate it.
"""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RANSACRegressor, Ridge
from sklearn.svm import SVC

from buttress._types import Labels, MatrixLike, Predictor
from buttress.kernels import RBF, Kernel, MultiscaleRBF
from buttress.risks import Mean, Risk, Subquantile, Tilted
from buttress.robust import (
    CRR,
    STIR,
    KernelClassifier,
    KernelRegressor,
    SeverClassifier,
    SeverRegressor,
    TrimmedLikelihoodRegressor,
)
from buttress.robust.tuning import DESIGN
from reproduce.subquantile.protocol import Trial

Row = Callable[[Trial], Predictor]
Rows = slice | NDArray[np.bool_]  # of a trial
ALL = slice(None)
RIDGES = np.geomspace(1e-3, 10, 9)


def kernel_ridge(t: Trial, alpha: float = 1.0, rows: Rows = ALL) -> KernelRidge:
    """KernelRidge on the Gram matrix of the trial's kernel, so that all rows of the table have the same kernel."""
    return KernelRidge(alpha=alpha, kernel="precomputed").fit(t.kernel(t.X[rows], t.X[rows]), t.y[rows])


class Precomputed:
    """A model fitted on a Gram matrix of some training rows, to predict from rows of X."""

    def __init__(self, model: Predictor, t: Trial, rows: Rows):
        self.model = model
        self.kernel = t.kernel
        self.Z = t.X[rows]

    def predict(self, X: MatrixLike) -> Labels:
        return self.model.predict(self.kernel(np.asarray(X), self.Z))


def ridge_row(t: Trial, alpha: float = 1.0, rows: Rows = ALL) -> Precomputed:
    return Precomputed(kernel_ridge(t, alpha, rows), t, rows)


def our_kernel(t: Trial) -> Kernel | str:
    """Our kernel of four widths where the table has the RBF kernel of one."""
    return "rbf" if isinstance(t.kernel, RBF) else t.kernel


def four_widths(t: Trial) -> Kernel:
    """The same as a kernel object."""
    return MultiscaleRBF([width / t.X.shape[1] for width in DESIGN.widths]) if isinstance(t.kernel, RBF) else t.kernel


def best_oracle(t: Trial) -> Precomputed:
    """Kernel ridge on the true inliers with the penalty that is best on the test rows: no method can know it."""
    return min((ridge_row(t, alpha, ~t.corrupt) for alpha in RIDGES), key=t.score)


def subquantile(t: Trial, kernel: Kernel | str, **options: Any) -> KernelRegressor:
    """Algorithm 3: no ridge, no centring, p = 1 - rate, a fixed number of iterations; it need not converge."""
    settings = {"acceleration": None, "step": "paper", "init": "glorot", "max_iter": 1000, "alpha": 0.0, **options}
    model = KernelRegressor(risk=Subquantile(1 - t.rate), kernel=kernel, fit_intercept=False, tol=1e-12,
                            n_landmarks=None, random_state=t.seed, **settings)
    return model.fit(t.X, t.y)


def term(t: Trial, kernel: Kernel | str, alpha: float) -> KernelRegressor:
    model = KernelRegressor(risk=Tilted(-2.0), kernel=kernel, alpha=alpha, fit_intercept=False, n_landmarks=None,
                            tol=1e-5, max_iter=10_000)
    return model.fit(t.X, t.y)


def sever(t: Trial) -> SeverRegressor:
    base = KernelRegressor(risk=Mean(), kernel=t.kernel, fit_intercept=False, acceleration=None,
                           step="preconditioned", n_landmarks=None)
    return SeverRegressor(base, contamination=t.rate).fit(t.X, t.y)


def sever_linear(t: Trial) -> SeverRegressor:
    base = Ridge(alpha=2.0, fit_intercept=False)
    return SeverRegressor(base, kernel="linear", contamination=t.rate, drop_share=t.rate / 4, n_rounds=8).fit(t.X, t.y)


def ransac(t: Trial) -> RANSACRegressor:
    base = Ridge(alpha=1.0, fit_intercept=False)
    n_rows = min(t.X.shape[1] + 1, len(t.y))
    return RANSACRegressor(base, min_samples=n_rows, max_trials=32, random_state=0).fit(t.X, t.y)


def ours(name: str, **options: object) -> Row | None:
    """Return a row of one of the library's own estimators, or None where it is not there."""
    try:
        made = getattr(importlib.import_module("buttress"), name)
    except (AttributeError, ImportError):
        return None

    def row(t: Trial) -> Predictor:
        settings = {key: value(t) if callable(value) else value for key, value in options.items()}
        fitted: Predictor = made(**settings).fit(t.X, t.y)
        return fitted

    return row


def kernel_classifier(t: Trial, risk: Risk, rows: Rows = ALL, **options: Any) -> KernelClassifier:
    settings = {"alpha": 0.1, "balanced": False, "tol": 1e-3, "max_iter": 2000, **options}
    return KernelClassifier(risk=risk, kernel=t.kernel, random_state=t.seed, **settings).fit(t.X[rows], t.y[rows])


def subquantile_classifier(t: Trial, balanced: bool) -> KernelClassifier:
    return kernel_classifier(t, Subquantile(1 - t.rate), alpha=0.0, balanced=balanced, acceleration=None,
                             step="paper", init="glorot", tol=1e-12, max_iter=1000)


def sever_classifier(t: Trial) -> SeverClassifier:
    base = KernelClassifier(risk=Mean(), kernel=t.kernel, tol=1e-3, max_iter=2000)
    return SeverClassifier(base, contamination=t.rate, n_rounds=4, balanced=False).fit(t.X, t.y)


def present(rows: dict[str, Row | None]) -> dict[str, Row]:
    return {name: row for name, row in rows.items() if row is not None}


ROWS_1 = present({
    "KRR": ridge_row,
    "TERM": lambda t: term(t, t.kernel, 1.0),
    "SEVER": sever,
    "Subquantile": lambda t: subquantile(t, t.kernel),
    "Subquantile, 10,000 steps": lambda t: subquantile(t, t.kernel, max_iter=10_000),
    "Subquantile, Polyak": lambda t: subquantile(t, t.kernel, acceleration=0.9),
    "Subquantile, Nesterov": lambda t: subquantile(t, t.kernel, acceleration="nesterov"),
    "Subquantile, ridge 1": lambda t: subquantile(t, t.kernel, alpha=1.0, step="preconditioned", init="zero",
                                                  max_iter=50),
    "RobustKernelRegressor, not told": ours("RobustKernelRegressor", kernel=our_kernel),
    "RobustKernelRegressor, one width": ours("RobustKernelRegressor", kernel=lambda t: t.kernel),
    "Oracle": lambda t: ridge_row(t, 1.0, ~t.corrupt),
    "Oracle, best ridge": best_oracle,
    "Oracle, four widths, best ridge": lambda t: best_oracle(replace(t, kernel=four_widths(t))),
})

ROWS_2 = present({
    "KRR": lambda t: Ridge(alpha=1.0, fit_intercept=False).fit(t.X, t.y),
    "RANSAC": ransac,
    "CRR": lambda t: CRR(contamination=t.rate, fit_intercept=False, tol=1e-4).fit(t.X, t.y),
    "STIR": lambda t: STIR(fit_intercept=False, tol=1e-4).fit(t.X, t.y),
    "SEVER": sever_linear,
    "TERM": lambda t: term(t, "linear", 2.0),
    "Subquantile": lambda t: subquantile(t, "linear", step="spectral", max_iter=300),
    "Trimmed likelihood": lambda t: TrimmedLikelihoodRegressor(contamination=t.rate,
                                                               fit_intercept=False).fit(t.X, t.y),
    "RobustLinearRegressor, not told": ours("RobustLinearRegressor", fit_intercept=False),
    "Oracle": lambda t: Ridge(alpha=1.0, fit_intercept=False).fit(t.X[~t.corrupt], t.y[~t.corrupt]),
})

ROWS_3 = present({
    "SVM": lambda t: SVC().fit(t.X, t.y),
    "SVM, gamma 1/d": lambda t: SVC(gamma="auto").fit(t.X, t.y),
    "SEVER": sever_classifier,
    "TERM": lambda t: kernel_classifier(t, Tilted(-2.0)),
    "Subquantile": lambda t: subquantile_classifier(t, balanced=False),
    "Subquantile, balanced": lambda t: subquantile_classifier(t, balanced=True),
    "RobustKernelClassifier, told": ours("RobustKernelClassifier", contamination=lambda t: t.rate),
    "RobustKernelClassifier, not told": ours("RobustKernelClassifier"),
    "Oracle": lambda t: kernel_classifier(t, Mean(), ~t.corrupt),
})
