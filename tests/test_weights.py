"""Weights of rows: one of weight two is two equal rows, one of weight 0 is not there; who takes them, and who not."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import is_classifier

import buttress
from buttress import STIR, AdversarialLinearSVC, FreeRangeSVC
from buttress._weights import weighted_median

from problems import moons

X, LABELS = moons(60)
TARGETS = np.sin(2 * X[:, 0]) + X[:, 1]
WEIGHT = np.random.default_rng(0).integers(0, 4, size=60).astype(float)
COPIES = np.repeat(np.arange(60), WEIGHT.astype(int))
PAGE = Path(__file__).parents[1] / "docs" / "weights.md"


@pytest.mark.parametrize("model", [
    STIR(), STIR(fit_intercept=False), FreeRangeSVC(C_f=0.05), AdversarialLinearSVC(eps=0.05),
    AdversarialLinearSVC(norm="l2", eps=0.05),
], ids=str)
def test_weights_are_copies(model):
    y = LABELS if is_classifier(model) else TARGETS
    weighted = model.fit(X, y, sample_weight=WEIGHT)
    coef, intercept = weighted.coef_.copy(), weighted.intercept_
    repeated = model.fit(X[COPIES], y[COPIES])
    np.testing.assert_allclose(repeated.coef_, coef, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(repeated.intercept_, intercept, rtol=1e-6, atol=1e-8)


def test_stir_reaches_the_weighted_least_absolute_deviations_of_a_linear_program():
    rng = np.random.default_rng(1)
    Z, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    weight = rng.uniform(0.2, 3, size=40)
    model = STIR(tol=1e-9).fit(Z, y, sample_weight=weight)
    columns = np.column_stack([Z, np.ones(40)])
    found = linprog(np.concatenate([np.zeros(3), weight, weight]), A_eq=np.hstack([columns, np.eye(40), -np.eye(40)]),
                    b_eq=y, bounds=[(None, None)] * 3 + [(0, None)] * 80)
    ours = weight @ np.abs(y - Z @ model.coef_ - model.intercept_)
    assert found.fun <= ours <= found.fun * (1 + 1e-4)


def test_the_weighted_median_is_that_of_copies():
    values = np.random.default_rng(2).normal(size=60)
    assert weighted_median(values, WEIGHT) == pytest.approx(np.median(values[COPIES]))
    assert weighted_median(values[:4], np.ones(4)) == pytest.approx(np.median(values[:4]))


def test_a_class_without_weight_is_refused():
    with pytest.raises(ValueError, match="zero for every row of class 1"):
        FreeRangeSVC().fit(X, LABELS, sample_weight=(LABELS == 0).astype(float))
    with pytest.raises(ValueError, match="must not be negative"):
        STIR().fit(X, TARGETS, sample_weight=np.full(60, -1.0))


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are in a checkout")
def test_the_page_says_of_every_estimator_whether_it_takes_weights():
    said = {name: answer.strip() for name, answer in re.findall(r"^\| `(\w+)` \| (yes|no)", PAGE.read_text(), re.M)}
    estimators = {name: getattr(buttress, name) for name in buttress.__all__}
    fits = {name: kind.fit for name, kind in estimators.items() if inspect.isclass(kind) and hasattr(kind, "fit")}
    takes = {name: "yes" if "sample_weight" in inspect.signature(fit).parameters else "no"
             for name, fit in fits.items()}
    assert said == takes
