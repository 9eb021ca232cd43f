"""Proofs through pipelines and networks: no point at the edge of a radius breaks one, and linear ones are exact."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC as Libsvm
from sklearn.svm import LinearSVC

from buttress import SVC, ThreatModel, attacks, certificates
from buttress.certificates.enclosures import activated, around, product

WINE = load_wine(return_X_y=True)
POINTS = 2000


def network(activation="relu", layers=(16,)):
    return MLPClassifier(layers, activation=activation, alpha=0.1, max_iter=300, random_state=0)


BY_COLUMN = ColumnTransformer([("a", StandardScaler(), [0, 3, 5]), ("b", "passthrough", slice(10, 12)),
                               ("c", make_pipeline(RobustScaler(), PCA(2)), [6, 7, 9]), ("d", "drop", [1])])
MODELS = {
    "imputer": make_pipeline(SimpleImputer(), StandardScaler(), SVC(gamma=0.02)),
    "PCA, rbf": make_pipeline(StandardScaler(), PCA(4), SVC(gamma=0.05)),
    "whitened": make_pipeline(PCA(5, whiten=True), Libsvm(gamma=0.05)),
    "SVD, linear": make_pipeline(MinMaxScaler(), TruncatedSVD(4), LogisticRegression(C=10)),
    "selection": make_pipeline(VarianceThreshold(), RobustScaler(), SelectKBest(k=5), SVC(gamma=0.05)),
    "polynomials": make_pipeline(MinMaxScaler(), PolynomialFeatures(2), LogisticRegression(max_iter=2000)),
    "by column": make_pipeline(BY_COLUMN, Libsvm(kernel="linear", C=0.1)),
    "one layer": make_pipeline(StandardScaler(), network()),
    "two layers": make_pipeline(StandardScaler(), network(layers=(12, 8))),
    "tanh": make_pipeline(StandardScaler(), network("tanh")),
    "logistic": make_pipeline(StandardScaler(), network("logistic")),
}


def directions(rng, norm, shape):
    """Return points of the unit sphere, many at the corners of a box."""
    u = rng.normal(size=shape)
    if norm == "l2":
        return u / np.linalg.norm(u, axis=1, keepdims=True)
    return np.where(rng.random((shape[0], 1)) < 0.7, np.sign(u), np.clip(u, -1, 1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", MODELS)
def test_no_point_at_the_edge_of_a_radius_breaks_it(name, norm):
    X, y = WINE
    scale = X.std(axis=0)
    model = MODELS[name].fit(X, y)
    rows = np.arange(0, len(X), 15)
    radius = getattr(certificates.certified_radius(model, X[rows], scale=scale, norm=norm), norm)
    assert (radius > 0.003).mean() > 0.6
    before = model.predict(X[rows])
    rng = np.random.default_rng(0)
    for row, size, label in zip(X[rows], radius, before, strict=True):
        u = directions(rng, norm, (POINTS, len(scale)))
        assert (model.predict(row + size * scale * u) == label).all()
    share = np.median(radius)
    proven = certificates.certified_within(model, X[rows], eps=share * scale[None], norm=norm)
    assert (proven[radius > share * 1.001]).all()
    if norm == "linf":
        found = attacks.pgd(model, X[rows], before, eps=share * scale, norm=norm, random_state=0, return_info=True)[1]
        assert not (found.success & proven).any()


ALONE = {
    "PCA, rbf": make_pipeline(StandardScaler(), PCA(4), SVC(gamma=0.05)),
    "PCA, cubic": make_pipeline(StandardScaler(), PCA(3), Libsvm(kernel="poly", degree=3, coef0=1.0)),
    "polynomials, linear": make_pipeline(MinMaxScaler(), PolynomialFeatures(2), LinearSVC()),
    "network": make_pipeline(StandardScaler(), network()),
    "forest": RandomForestClassifier(5, random_state=0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ALONE)
def test_a_row_has_the_same_proofs_alone_as_among_others_in_any_order(name):
    X, y = WINE
    model = ALONE[name].fit(X, y)
    rows, scale = X[::15] * np.geomspace(1, 1.2, 12)[:, None], X.std(axis=0)
    together = certificates.certified_radius(model, rows, scale=scale)
    assert (together.linf > 0).mean() > 0.6
    eps = np.median(together.linf) * scale[None]
    within = certificates.certified_within(model, rows, eps=eps, max_parts=0)
    assert 0 < within.mean() < 1
    for order in ([7], [2], np.random.default_rng(0).permutation(len(rows))):
        again = certificates.certified_radius(model, rows[order], scale=scale)
        np.testing.assert_array_equal(again.linf, together.linf[order])
        np.testing.assert_array_equal(again.l2, together.l2[order])
        proven = certificates.certified_within(model, rows[order], eps=eps, max_parts=0)
        np.testing.assert_array_equal(proven, within[order])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_attack_breaks_a_row_within_its_radius_behind_pca(norm):
    X, y = WINE
    X = X / X.std(axis=0)
    model, rows = make_pipeline(PCA(4), SVC(gamma=0.05)).fit(X, y), X[::15]
    before = model.predict(rows)
    radius = getattr(certificates.certified_radius(model, rows, norm=norm), norm)
    for row, size, label in zip(rows, radius, before, strict=True):
        info = attacks.pgd(model, row[None], [label], eps=size, norm=norm, restarts=3, random_state=0,
                           return_info=True)[1]
        assert not info.success.any()


@pytest.mark.filterwarnings("ignore")
def test_behind_affine_maps_a_linear_machine_is_proven_as_far_as_its_border():
    X, y = WINE
    y = y > 0
    model = make_pipeline(StandardScaler(), PCA(6), LogisticRegression()).fit(X, y)
    flat = model[0].scale_ ** -1 * (model[1].components_.T @ model[2].coef_[0])
    scores = np.abs(model.decision_function(X))
    radius = certificates.certified_radius(model, X)
    np.testing.assert_allclose(radius.linf, scores / np.abs(flat).sum(), rtol=1e-6)
    np.testing.assert_allclose(radius.l2, scores / np.linalg.norm(flat), rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_far_from_zero_rounding_is_allowed_for():
    X, y = WINE
    rng = np.random.default_rng(0)
    far = X + 1e9
    for last in (make_pipeline(PCA(4), LogisticRegression()), network()):
        model = make_pipeline(StandardScaler(), last)
        model.fit(far, y)
        radius = certificates.certified_radius(model, far[::30]).linf
        for row, size in zip(far[::30], radius, strict=True):
            moved = row + size * directions(rng, "linf", (POINTS, X.shape[1]))
            assert (model.predict(moved) == model.predict(row[None])).all()


@pytest.mark.filterwarnings("ignore")
def test_an_encoder_of_what_is_swapped_is_proven_by_every_swap_and_refused_where_its_column_moves():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(120, 2)), rng.integers(0, 3, 120)])
    y = (X[:, 0] + 0.6 * (X[:, 2] == 1) + 0.2 * rng.normal(size=120) > 0.2).astype(int)
    encode = ColumnTransformer([("numbers", StandardScaler(), [0, 1]), ("levels", OneHotEncoder(), [2])])
    for last in (SVC(gamma=0.2), network(), LogisticRegression()):
        model = make_pipeline(encode, last).fit(X, y)
        threat = ThreatModel({0: 0.1, 1: 0.1}, {2: [0, 1, 2]})
        proven = certificates.certified_within(model, X, threat=threat)
        assert 0.3 < proven.mean() < 1
        for level in (None, 0, 1, 2):
            for _ in range(40):
                moved = X + [0.1, 0.1, 0] * directions(rng, "linf", X.shape)
                moved[:, 2] = X[:, 2] if level is None else level
                assert (model.predict(moved) == model.predict(X))[proven].all()
        with pytest.raises(ValueError, match=r"OneHotEncoder, whose input moves"):
            certificates.certified_within(model, X, eps=0.1)


@pytest.mark.filterwarnings("ignore")
def test_columns_by_name_and_single_precision():
    X, y = WINE
    frame = pd.DataFrame(X, columns=[f"c{place}" for place in range(X.shape[1])])
    named = make_pipeline(ColumnTransformer([("a", StandardScaler(), ["c0", "c5", "c11"])]), network()).fit(frame, y)
    numbered = make_pipeline(ColumnTransformer([("a", StandardScaler(), [0, 5, 11])]), network()).fit(X, y)
    np.testing.assert_array_equal(certificates.certified_within(named, frame, eps=0.05),
                                  certificates.certified_within(numbered, X, eps=0.05))
    single = make_pipeline(StandardScaler(), network()).fit(X.astype(np.float32), y)
    radius = certificates.certified_radius(single, X[::30].astype(np.float32)).linf
    rng = np.random.default_rng(0)
    for row, size in zip(X[::30].astype(np.float32), radius, strict=True):
        moved = (row + 0.999 * size * directions(rng, "linf", (POINTS, X.shape[1]))).astype(np.float32)
        assert (single.predict(moved) == single.predict(row[None])).all()


@pytest.mark.filterwarnings("ignore")
def test_at_the_worst_corner_far_from_zero_no_rounding_breaks_a_linear_proof():
    X, y = WINE
    far = X + 1e11
    y = y > 0
    for steps in ([PCA(6)], []):
        model = make_pipeline(MinMaxScaler(), SimpleImputer(), *steps, LogisticRegression()).fit(far, y)
        maps = model[2].components_.T if steps else np.eye(X.shape[1])
        flat = model[0].scale_ * (maps @ model[-1].coef_[0])
        before = model.predict(far)
        down = np.where(before, -1, 1)[:, None] * np.sign(flat)
        step = np.spacing(1e11)  # corners at multiples of it are numbers
        border = np.round(np.abs(model.decision_function(far)) / np.abs(flat).sum() / step)
        for more in range(-4, 5):
            size = (border + more) * step
            proven = certificates.certified_within(model, far, eps=np.maximum(size, 0))
            assert (model.predict(far + size[:, None] * down) == before)[proven].all()
        assert certificates.certified_within(model, far, eps=0.8 * border * step).mean() > 0.5


def test_products_and_activations_hold_every_value_of_their_moves():
    rng = np.random.default_rng(0)
    X = np.concatenate([np.zeros((1, 3)), rng.normal(size=(20, 3))])
    reach = np.abs(rng.normal(size=(1, 3)))
    free = np.full(X.shape, np.inf)
    z = around(X, -free, free, reach, "linf", np.finfo(float).eps)
    first, second = z.of_columns(np.array([0])), z.of_columns(np.array([1]))
    found = {"product": product(first, second), "square": product(first, first),
             **{name: activated(z, name) for name in ("relu", "tanh", "logistic")}}
    value = {"product": lambda x: x[:, :1] * x[:, 1:2], "square": lambda x: x[:, :1] ** 2,
             "relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "logistic": expit}
    for name, each in found.items():
        low, high = each.ends()
        for _ in range(POINTS):
            at = value[name](X + reach * directions(rng, "linf", X.shape))
            assert ((low <= at) & (at <= high)).all(), name


def test_a_whitened_direction_of_next_to_no_variance_is_as_steep_as_the_model_has_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X = np.c_[X, X[:, 0] + 1e-9 * rng.normal(size=200)]
    y = (X[:, 0] > 0).astype(int)
    model = make_pipeline(PCA(whiten=True, svd_solver="full"), LogisticRegression(C=100)).fit(X, y)
    radius, predicted = certificates.certified_radius(model, X).linf, model.predict(X)
    for column in range(4):
        for side in (-1.0, 1.0):
            moved = X.copy()
            moved[:, column] += side * radius * (1 - 1e-9)
            np.testing.assert_array_equal(model.predict(moved), predicted)


def test_weights_of_a_column_transformer_are_no_part_of_a_proof_so_it_is_refused():
    X, y = WINE
    weighted = ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", StandardScaler(), [2, 3])],
                                 transformer_weights={"a": 5.0})
    model = make_pipeline(weighted, LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="without transformer_weights"):
        certificates.certified_radius(model, X)
    moved = attacks.pgd(model, X, y, eps=0.5)
    assert np.abs(moved - X).max() <= 0.5 * (1 + 1e-12)
    assert (model.predict(moved) == y).mean() < model.score(X, y)


def test_columns_in_another_order_are_refused_also_where_the_model_takes_them_by_name():
    X, y = WINE
    frame = pd.DataFrame(X[:, :4], columns=list("abcd"))
    by_name = ColumnTransformer([("a", StandardScaler(), ["a", "b"]), ("b", "passthrough", ["d"])])
    model = make_pipeline(by_name, LogisticRegression()).fit(frame, y)
    other = frame[list("badc")]
    np.testing.assert_array_equal(model.predict(other), model.predict(frame))
    with pytest.raises(ValueError, match="in their order: a, b, c, d"):
        certificates.certified_radius(model, other)
    assert certificates.certified_radius(model, frame).linf.max() > 0
