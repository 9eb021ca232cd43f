"""Fits that stop at a duality gap, which the whole kernel matrix in float64 confirms."""

from dataclasses import replace

import numpy as np
import pytest
from hostile_gaps import LONG, PRECISE, values

from buttress import SVC, SVR, svc_path
from buttress.gram.products import Exact
from buttress.gram.rounding import Product
from buttress.gram.rows import KernelRows
from buttress.kernels import RBF
from buttress.solvers.linear.primal import best_intercept
from buttress.solvers.qp.certificate import certify
from buttress.solvers.qp.program import Start, classifier_qp

CS = [0.01, 0.1, 0.5, 2.0, 10.0]
ROWS = 2600  # more than are stored at once, so that blocks are solved one after another on float32 rows


def data(n=ROWS):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    return X, np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0, 1, -1)


def proven_gap(model, X, y, C, gamma):
    """(primal - dual) / primal from the coefficients alone."""
    b = np.zeros(len(X))
    b[model.support_] = model.dual_coef_[0]
    f = RBF(gamma)(X, X) @ b
    b0 = best_intercept(y - f, np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0), 0.0)
    primal = 0.5 * b @ f + C * np.maximum(0, 1 - y * (f + b0)).sum()
    return (primal - (np.abs(b).sum() - 0.5 * b @ f)) / primal


@pytest.mark.parametrize("gap", [0.3, 0.01])
def test_a_fit_stops_at_the_gap_asked_for(gap):
    X, y = data()
    exact = SVC(C=10.0, gamma=0.2).fit(X, y)
    model = SVC(C=10.0, gamma=0.2, gap=gap).fit(X, y)
    assert model.converged_
    assert proven_gap(model, X, y, 10.0, 0.2) <= gap * (1 + 1e-6)
    assert model.dual_gap_ <= gap * model.primal_objective_
    assert model.n_iter_ < exact.n_iter_
    assert model.dual_objective_ <= exact.primal_objective_
    assert exact.dual_objective_ <= model.primal_objective_


def test_every_model_of_a_path_has_the_gap_that_the_whole_matrix_gives():
    X, y = data()
    K = RBF(0.2)(X, X)
    for C, model in zip(CS, svc_path(X, y, CS, gamma=0.2), strict=True):
        alone = SVC(C=C, gamma=0.2).fit(X, y)
        b = np.zeros(len(X))
        b[model.support_] = model.dual_coef_[0]
        assert model.converged_
        assert 0 <= proven_gap(model, X, y, C, 0.2) <= model.dual_gap_ / model.primal_objective_ * (1 + 1e-6)
        assert model.dual_objective_ <= (np.abs(b).sum() - 0.5 * b @ K @ b) * (1 + 1e-12)
        assert model.dual_objective_ <= alone.primal_objective_
        assert alone.dual_objective_ <= model.primal_objective_


def test_both_objectives_of_a_regressor_enclose_those_that_the_whole_matrix_gives():
    X, _ = data()
    y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    model = SVR(C=2.0, epsilon=0.02, gamma=0.2).fit(X, y)
    b = np.zeros(len(X))
    b[model.support_] = model.dual_coef_[0]
    f = RBF(0.2)(X, X) @ b
    r = y - f - best_intercept(y - f, np.full(len(y), -2.0), np.full(len(y), 2.0), 0.02)
    primal = 0.5 * b @ f + 2 * np.maximum(0, np.abs(r) - 0.02).sum()
    dual = y @ b - 0.02 * np.abs(b).sum() - 0.5 * b @ f
    assert model.converged_
    rounding = 1e-12 * primal
    assert model.dual_objective_ - rounding <= dual <= primal <= model.primal_objective_ + rounding
    assert model.dual_gap_ <= primal - dual + 2e-4 * primal


def test_a_gap_below_what_tol_gives_is_met_too():
    X, y = data()
    model = SVC(C=10.0, gamma=0.2, tol=0.5, gap=1e-5).fit(X, y)
    assert model.converged_
    assert proven_gap(model, X, y, 10.0, 0.2) <= 1e-5 * (1 + 1e-6)


def test_a_regressor_stops_at_the_gap_asked_for():
    X, _ = data()
    y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    model = SVR(C=10.0, gap=0.05).fit(X, y)
    assert model.converged_
    assert model.dual_gap_ <= 0.05 * model.primal_objective_
    assert model.n_iter_ < SVR(C=10.0).fit(X, y).n_iter_


@pytest.mark.parametrize("gap", [0, 1, -0.1, np.nan, "small"])
def test_a_gap_out_of_range_is_refused(gap):
    X, y = data(20)
    with pytest.raises((ValueError, TypeError), match="gap"):
        SVC(gap=gap).fit(X, y)


@pytest.fixture
def float64_entries(monkeypatch):
    """The numbers of entries that float64 products compute, as they go."""
    counts = []
    compute = Exact.__call__

    def counted(self, rows, columns):
        K = compute(self, rows, columns)
        counts.append(K.size)
        return K

    monkeypatch.setattr(Exact, "__call__", counted)
    return counts


def test_certificates_of_a_path_go_on_from_one_another(float64_entries):
    X, y = data()
    Cs = np.logspace(-2, 0, 7)
    path = svc_path(X, y, Cs, gamma=0.2)
    together = sum(float64_entries)
    float64_entries.clear()
    apart = [SVC(C=C, gamma=0.2).fit(X, y) for C in Cs]
    assert together < 0.6 * sum(float64_entries)
    for model, alone in zip(path, apart, strict=True):
        assert model.proof_ == alone.proof_ == "proven"
        assert model.primal_objective_ - model.dual_objective_ <= 1.5e-3 * alone.primal_objective_


@pytest.mark.skipif(not PRECISE, reason="no longer mantissas here")
@pytest.mark.parametrize("factor", [3.7, 1 / 3.7])
def test_a_product_that_goes_on_from_another_is_within_its_bounds(float64_entries, factor):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 5))
    X[7] *= 1e4  # float32 has no bounds for it
    y = np.where(rng.random(2100) < 0.5, -1.0, 1.0)
    rows = KernelRows(RBF(0.2), X, real=np.float32)
    b = np.where(rng.random(2100) < 0.7, 0.1, 0.0) * y
    product = certify(classifier_qp(rows, y, np.ones(2100)), b).product
    for step in range(4):
        before = b
        bound = 0.1 * factor ** (step + 1)
        start = Start(factor * b, None, replace(product, f=factor * product.f, errors=factor * product.errors))
        b = np.where(b == 0.1 * factor**step * y, bound * y, factor * b)
        some = rng.choice(2100, 60, replace=False)
        b[some] = rng.choice([0.0, 0.3, 1.0], 60) * bound * y[some]
        float64_entries.clear()
        found = certify(classifier_qp(rows, y, np.full(2100, bound), start), b).product
        few = sum(float64_entries)
        alone = certify(classifier_qp(rows, y, np.full(2100, bound)), b).product
        assert few < 0.5 * (sum(float64_entries) - few)
        watched = np.unique([7, *some, *rng.choice(2100, 60)])
        truth = values(RBF(0.2), X[watched], X) @ b.astype(LONG)
        assert (np.abs(found.f[watched] - truth) <= found.errors[watched]).all()
        used = b != 0
        assert (found.errors[used] <= 3 * (step + 2) * alone.errors[used]).all()
        assert (before != b).any()
        product = found


@pytest.mark.skipif(not PRECISE, reason="no longer mantissas here")
def test_rounding_of_what_a_solve_began_with_is_allowed_for():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.where(np.arange(300) == 0, -1.0, 1.0)
    c = rng.uniform(0.1, 0.5, 300)
    K = values(RBF(0.2), X, X)
    begun = Start(c, None, Product((K @ c).astype(float), np.zeros(300), proven=True))
    b = c * (1 + 3 * np.finfo(float).eps)  # so near that nothing is summed again
    found = certify(classifier_qp(KernelRows(RBF(0.2), X, real=np.float32), y, np.ones(300), begun), b).product
    assert (np.abs(found.f - K @ b.astype(LONG)) <= found.errors).all()
    np.testing.assert_allclose(found.f, begun.product.f, rtol=1e-14)
