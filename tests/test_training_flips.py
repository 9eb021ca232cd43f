"""How many wrong training labels change a prediction, against refits of every set of labels."""

from itertools import combinations, product

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress.certificates import training_accuracy, training_flips
from buttress.certificates.training.smoother import _least_eigenvalue
from buttress.certificates.training.wrong import cheapest

TWO_NUMBERS = [
    KernelRidge(alpha=0.5, kernel="rbf", gamma=0.7),
    KernelRidge(alpha=0.1, kernel="laplacian"),
    GaussianProcessRegressor(RBF(1.5) + WhiteKernel(0.3), optimizer=None),
    GaussianProcessRegressor(RBF(0.8), alpha=0.2, optimizer=None, normalize_y=True),
    LinearRegression(),
    Ridge(alpha=2.0, fit_intercept=False),
    make_pipeline(StandardScaler(), Ridge(alpha=0.3)),
]


def table(n, seed, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    score = X[:, 0] + 0.7 * rng.normal(size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)), rng.normal(size=(6, 2))


def classes_of(model, X, threshold):
    return model.predict(X) if hasattr(model, "classes_") else model.predict(X) > threshold


def fewest_by_force(model, X, y, Z, most, allowed=lambda row, label: True, costs=None, threshold=0.0, weight=None):
    """Return the least cost of relabelled rows, at most ``most`` of them, that changes each prediction; inf beyond."""
    given = {} if weight is None else {"sample_weight": weight}
    before = classes_of(model.fit(X, y, **given), Z, threshold)
    least = np.full(len(Z), np.inf)
    labels = np.unique(y)
    for k in range(1, most + 1):
        for rows in combinations(range(len(y)), k):
            for truth in product(labels, repeat=k):
                if any(y[i] == t or not allowed(i, t) for i, t in zip(rows, truth)):
                    continue
                other = y.copy()
                other[list(rows)] = truth
                if len(np.unique(other)) == len(labels):
                    changed = classes_of(model.fit(X, other, **given), Z, threshold) != before
                    least[changed] = np.minimum(least[changed], k if costs is None else costs[list(rows)].sum())
    model.fit(X, y, **given)
    return least


@pytest.mark.parametrize("model", TWO_NUMBERS, ids=lambda model: str(model)[:30])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_fewest_flips_are_those_of_brute_force(model, seed):
    X, y, Z = table(11, seed)
    y = 2.0 * y - 1
    truth = fewest_by_force(model, X, y, Z, 4)
    found = training_flips(model, X, y, Z)
    assert found.exact.all()
    few = found.needed <= 4
    np.testing.assert_array_equal(np.where(few, found.needed, np.inf), truth)


def test_the_named_labels_change_the_prediction():
    X, y, Z = table(60, 3)
    model = RidgeClassifier().fit(X, y)
    found = training_flips(model, X, y, Z)
    for row, (rows, labels) in enumerate(zip(found.rows, found.labels)):
        other = y.copy()
        other[rows] = labels
        assert len(rows) == found.needed[row]
        assert RidgeClassifier().fit(X, other).predict(Z[row : row + 1])[0] != found.prediction[row]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_several_classes_are_those_of_brute_force(seed):
    X, y, Z = table(9, seed, classes=3)
    model = RidgeClassifier(alpha=0.5)
    truth = fewest_by_force(model, X, y, Z, 2)
    found = training_flips(model, X, y, Z)
    few = found.needed <= 2  # of three flips brute force leaves those out that take a class away
    np.testing.assert_array_equal(np.where(few, found.needed, 9), np.minimum(truth, 9))


def test_directions_trusted_rows_and_weights():
    X, y, Z = table(12, 5)
    model, weight = RidgeClassifier(), np.arange(1.0, 13.0)
    eligible = np.arange(12) % 3 > 0
    truth = fewest_by_force(model, X, y, Z, 4, lambda i, label: eligible[i] and label == 1, weight=weight)
    found = training_flips(model, X, y, Z, directions=[(0, 1)], eligible=eligible, sample_weight=weight)
    np.testing.assert_array_equal(np.where(found.needed <= 4, found.needed, np.inf), truth)


def test_costs_are_those_of_brute_force():
    X, y, Z = table(10, 2)
    model = make_pipeline(StandardScaler(), RidgeClassifier())
    costs = np.random.default_rng(0).integers(1, 5, size=10).astype(float)
    truth = fewest_by_force(model, X, y, Z, 5, costs=costs)
    found = training_flips(model, X, y, Z, costs=costs)
    sure = np.isfinite(truth)
    np.testing.assert_array_equal(found.needed[sure], truth[sure])


def test_a_set_of_any_costs_is_bounded():
    rng = np.random.default_rng(0)
    for _ in range(200):
        gains, costs = rng.random(9), rng.random(9) + 0.1
        need = rng.random() * gains.sum()
        sets = [s for k in range(10) for s in combinations(range(9), k) if gains[list(s)].sum() >= need]
        truth = min(costs[list(s)].sum() for s in sets)
        least, rows = cheapest(gains, costs, need)
        assert least <= truth + 1e-12
        assert gains[rows].sum() >= need
        whole = np.ceil(5 * costs)
        assert cheapest(gains, whole, need)[0] == min(whole[list(s)].sum() for s in sets)


def test_ties_count_as_changed():
    X = np.array([[-1.0], [1.0], [-1.0], [1.0]])
    model = Ridge(alpha=1.0, fit_intercept=False).fit(X, np.array([-1.0, 1.0, -1.0, 1.0]))
    found = training_flips(model, X, np.array([-1.0, 1.0, -1.0, 1.0]), np.array([[1.0]]))
    assert found.needed == [2]  # two of four equal voices are a tie
    assert not found.exact[0]


def test_what_is_not_linear_in_its_labels_is_refused():
    X, y = load_iris(return_X_y=True)
    two = y > 0
    for model, words in [
        (RandomForestClassifier(5), "not known to be linear"),
        (RidgeClassifier(class_weight="balanced"), "class_weight"), (Ridge(positive=True), "positive=True"),
        (GaussianProcessRegressor(RBF(1.0)), "optimizer=None"),
        (make_pipeline(SelectKBest(k=2), RidgeClassifier()), "SelectKBest"),
        (GridSearchCV(RidgeClassifier(), {"alpha": [1.0, 2.0]}), "best_estimator_"),
    ]:
        target = two.astype(float) if isinstance(model, Ridge | GaussianProcessRegressor) else two
        with pytest.raises(ValueError, match=words):
            training_flips(model.fit(X, target), X, target, X[:3])


def test_other_data_than_the_model_was_fitted_to_are_refused():
    X, y = load_iris(return_X_y=True)
    model = RidgeClassifier().fit(X, y > 0)
    with pytest.raises(ValueError, match="other values than the model"):
        training_flips(model, X[1:], (y > 0)[1:], X[:3])
    with pytest.raises(ValueError, match="y_train has 149 labels"):
        training_flips(model, X, (y > 0)[1:], X[:3])
    with pytest.raises(ValueError, match="two numbers"):
        training_flips(Ridge().fit(X, X[:, 0]), X, X[:, 0], X[:3])
    with pytest.raises(ValueError, match="costs"):
        training_flips(model, X, y > 0, X[:3], costs=np.zeros(150))
    with pytest.raises(ValueError, match="directions"):
        training_flips(model, X, y > 0, X[:3], directions=[("a", True)])


def test_flips_within_the_proof_change_nothing():
    X, y = load_breast_cancer(return_X_y=True)
    X, Z, y, _ = train_test_split(StandardScaler().fit_transform(X), 2.0 * y - 1, test_size=0.3, random_state=0)
    model = KernelRidge(alpha=1.0, kernel="rbf", gamma=0.01).fit(X, y)
    found = training_flips(model, X, y, Z, flips=5)
    before, rng = model.predict(Z) > 0, np.random.default_rng(0)
    for _ in range(30):
        rows = found.rows[rng.integers(len(Z))][:5]
        other = y.copy()
        other[rows] *= -1
        after = KernelRidge(alpha=1.0, kernel="rbf", gamma=0.01).fit(X, other).predict(Z) > 0
        assert not (before != after)[found.stands(5)].any()


def test_a_tie_is_neither_proven_nor_counted_as_lost():
    X, y = np.array([[1.0], [1.0], [0.0]]), np.array([1, 1, 0])
    model = RidgeClassifier(fit_intercept=False).fit(X, y)  # one of the first two labels wrong: its score is 0
    found = training_accuracy(model, X, y, [[1.0]], [1], flips=1)
    assert (found.each, found.attacked) == (0, 1)
    assert training_accuracy(model, X, y, [[1.0]], [1], flips=2).attacked == 0


@pytest.mark.parametrize("least", [-0.3, 0.0, 0.1, 0.49, 0.6, 2.0])
def test_the_least_eigenvalue_is_never_overstated(least):
    """A penalty that the matrix does not have must not be taken for a bound of its eigenvalues."""
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
    A = (Q * np.linspace(least, 5, 30)) @ Q.T
    bound = _least_eigenvalue((A + A.T) / 2, penalty=1.0)
    assert bound <= least + 1e-13
    assert bound > min(least, 0.5) - 1e-9
