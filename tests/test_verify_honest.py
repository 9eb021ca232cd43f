"""Honest models of any size and scale are proven, in bounded memory, and so are fits of libsvm."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn import svm as libsvm
from sklearn.datasets import load_iris
from verify_cases import held

from buttress import SVC, SVDD, SVR, LinearSVC, MultiKernelSVDD, save, verify
from buttress.relational import Join, RelationalLinearSVC, Table
from buttress.verify.command import read_columns


def noisy(n, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    return X, np.where(rng.random(n) < 0.1, 1 - y, y)


def proven(model, X, y, folder):
    save(model.fit(X, y), folder / "model")
    return held(verify.read_model(folder / "model"), X, y, None)


SIZES = [(SVC(C=100.0), 1_600), (SVR(), 1_600), (SVC(), 3_000), (LinearSVC(), 3_000), (SVDD(), 3_000),
         (SVDD(contamination=0.05), 3_000), (MultiKernelSVDD(["rbf", "laplacian"]), 1_600)]


@pytest.mark.parametrize(("model", "n"), SIZES, ids=str)
def test_models_of_many_rows_are_proven(model, n, tmp_path):
    X, y = noisy(n)
    assert proven(model, X, None if "SVDD" in type(model).__name__ else y, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("model", [SVC(), SVR(), LinearSVC(), SVDD(nu=0.02)], ids=str)
def test_models_of_twenty_thousand_rows_are_proven(model, tmp_path):
    X, y = noisy(20_000, 10)
    assert proven(model, X, None if isinstance(model, SVDD) else y, tmp_path)


long = pytest.mark.skipif(np.finfo(np.longdouble).eps == np.finfo(float).eps, reason="no longer numbers than float64")


@long
@pytest.mark.parametrize("kind", [SVC, SVR, LinearSVC])
def test_models_of_a_huge_C_are_proven(kind, tmp_path):
    X, y = noisy(300)
    assert proven(kind(C=1e6), X, y, tmp_path)


@pytest.mark.parametrize("model", [SVC(), SVR(), LinearSVC(), SVDD()], ids=str)
def test_a_column_of_zeros_repeated_rows_and_float32_are_proven(model, tmp_path):
    X, y = noisy(200)
    X[:, 2] = 0
    X = np.repeat(X, 3, axis=0).astype(np.float32).astype(float)
    assert proven(model, X, None if isinstance(model, SVDD) else np.repeat(y, 3), tmp_path)
    save(model.fit(X.astype(np.float32), np.repeat(y, 3)), tmp_path / "single")
    assert held(verify.read_model(tmp_path / "single"), X, np.repeat(y, 3), None)


@pytest.mark.parametrize("model", [SVC(C=10.0, gamma=0.2), SVR(C=10.0, gamma=0.2)], ids=str)
def test_far_entries_are_proven(model, tmp_path):
    X, y = noisy(800)
    X[:5, 4] = 9999
    X[:, 3] += 1.6e9
    assert proven(model, X, y, tmp_path)


def test_memory_is_bounded_by_tiles(tmp_path):
    X, y = noisy(6_000, 3)
    y = np.random.default_rng(1).integers(0, 2, 6_000)  # nothing to learn: all rows are support vectors
    save(SVC(gamma=1.0).fit(X, y), tmp_path / "model")
    model = verify.read_model(tmp_path / "model")
    assert len(model["support_"]) > 5_000
    tracemalloc.start()
    try:
        assert held(model, X, y, None)
        assert tracemalloc.get_traced_memory()[1] < 60e6  # the whole Gram matrix takes 240 MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
def test_intervals_of_joins_are_proven_for_any_ridge_and_for_a_column_of_zeros(alpha, tmp_path):
    rng = np.random.default_rng(0)
    loan = pd.DataFrame({"who": rng.integers(0, 15, 60), "sum": rng.normal(size=60), "none": np.zeros(60)})
    loan["bad"] = np.where(loan["sum"] + rng.normal(size=60) > 0.3, "yes", "no")
    person = pd.DataFrame({"id": np.arange(15), "age": rng.normal(size=15)})
    for name, frame in (("loan", loan), ("person", person)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    tables = [Table("loan", loan, features=["sum", "none"], label="bad"), Table("person", person, features=["age"])]
    save(RelationalLinearSVC(alpha=alpha, random_state=0).fit(Join(tables, on=[("loan.who", "person.id")])),
         tmp_path / "model")
    read = {name: read_columns(tmp_path / f"{name}.csv") for name in ("loan", "person")}
    claims = verify.relational(verify.read_model(tmp_path / "model"), read, [["loan.who", "person.id"]], "bad")
    assert [claim for claim in claims if not claim.holds] == []


def by_hand(model, X, y):
    """Return primal objective, dual objective and violation of a two-class fit of libsvm with an RBF kernel."""
    K = np.exp(-model._gamma * ((X[:, None] - X) ** 2).sum(axis=2))
    b, p = np.zeros(len(X)), np.where(y == model.classes_[1], 1.0, -1.0)
    b[model.support_] = model.dual_coef_[0]
    f = K @ b
    primal = b @ f / 2 + model.C * np.maximum(0, 1 - p * (f + model.intercept_)).sum()
    lo, hi = np.minimum(model.C * p, 0), np.maximum(model.C * p, 0)
    return primal, np.abs(b).sum() - b @ f / 2, (f - p)[b > lo].max() - (f - p)[b < hi].min()


def test_a_fit_of_libsvm_is_proven_to_be_what_it_is(tmp_path):
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], np.array(["b", "c"])[y[50:] - 1]
    model = libsvm.SVC(C=10.0, tol=1e-4).fit(X, y)
    certificate = verify.from_duals(model, X, y)
    found = {claim.name: claim.proven for claim in verify.prove_certificate(certificate, X, y)}
    primal, dual, violation = by_hand(model, X, y)
    assert found["primal objective 0"] == pytest.approx(primal, rel=1e-9)
    assert found["dual objective 0"] == pytest.approx(dual, rel=1e-9)
    assert found["violation 0"] == pytest.approx(violation, abs=1e-10)
    (tmp_path / "libsvm.json").write_text(json.dumps(certificate))
    pd.DataFrame(X).assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    call = [str(tmp_path / "libsvm.json"), str(tmp_path / "data.csv"), "--problem", json.dumps(certificate["problem"])]
    assert verify.main(call) == (0 if violation <= 1e-4 else 1)
    assert verify.main([*call[:2], "--problem", json.dumps({**certificate["problem"], "C": 5.0})]) in (1, 3)


@pytest.mark.parametrize("model", [libsvm.SVC(kernel="poly", coef0=1.0, degree=2), libsvm.SVC(kernel="linear"),
                                   libsvm.SVC(class_weight="balanced"), libsvm.SVR(C=5.0), SVC(gamma=0.3)], ids=str)
def test_problems_of_pairs_and_of_numbers_are_read_from_libsvms_layout(model):
    X, y = load_iris(return_X_y=True)
    X = X / X.max(axis=0)
    model.set_params(tol=1e-8).fit(X, y)
    claims = verify.prove_certificate(verify.from_duals(model, X, y), X, y)
    scales = [claim.proven for claim in claims if claim.name.startswith("primal")]
    gaps = [claim.proven for claim in claims if claim.name.startswith("gap")]
    assert len(gaps) == len(model.intercept_)
    assert (np.array(gaps) <= 1e-4 * np.array(scales)).all()


def test_a_word_for_gamma_is_refused_with_the_fix():
    X, y = noisy(60, 2)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match=r"gamma must be the number .* keeps 'scale' only: give gamma="):
        verify.from_duals(model, X, y)
    certificate = verify.from_duals(model, X, y, gamma=1 / (2 * X.var()))
    assert all(claim.holds for claim in verify.prove_certificate(certificate, X, y))


def test_certificates_that_say_something_else_are_not_proven(tmp_path):
    X, y = noisy(60, 2)
    certificate = verify.from_duals(libsvm.SVC(tol=1e-6).fit(X, y), X, y)
    certificate["claim"] = {"gap": 1e-2}
    assert all(claim.holds for claim in verify.prove_certificate(certificate, X, y))
    moved = json.loads(json.dumps(certificate))
    moved["point"]["coef"][0][0] *= 1.3
    assert not all(claim.holds for claim in verify.prove_certificate(moved, X, y))
    assert not all(claim.holds for claim in verify.prove_certificate(certificate, X[::-1], y))
    for point in ({"support": [certificate["point"]["support"][0]] * 2}, {"support": [-1]}, {"intercept": [0.0, 1.0]}):
        with pytest.raises(ValueError, match="none of these programs"):
            verify.prove_certificate({**certificate, "point": {**certificate["point"], **point}}, X, y)
    text = json.dumps(certificate)
    (tmp_path / "twice.json").write_text(text.replace('"claim"', '"claim": {}, "claim"'))
    pd.DataFrame(X).assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    assert verify.main([str(tmp_path / "twice.json"), str(tmp_path / "data.csv")]) == 2
