"""What proofs about training data say of the steps before a model: inside the proof, held fixed, or refused by name."""

from itertools import combinations, product

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

from buttress import LeastSquaresClassifier
from buttress.certificates import (
    training_accuracy,
    training_conclusions,
    training_flips,
    training_moves,
    training_removals,
)

READ = "may read the labels, so other labels may prepare other columns"
CHOSE = "chose its parameters by the labels"


def table(n, seed):
    """Return rows with a hole and a column of three levels, numbers, and rows asked about."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), 9 * rng.normal(size=n), np.arange(n) % 3])
    X[1, 1] = np.nan
    return X, X[:, 0] + 0.3 * X[:, 2] + 0.5 * rng.normal(size=n), X[:4] + [0.1, 0.1, 0.0]


def prepared_by(last, columns=None):
    holes = make_pipeline(SimpleImputer(), StandardScaler())
    columns = columns or [("numbers", holes, [0, 1]), ("levels", OneHotEncoder(), [2])]
    return make_pipeline(ColumnTransformer(columns), last)


def reading(last):
    """Return pipelines whose steps read the labels, and what is said of each."""
    encoder = make_pipeline(TargetEncoder(cv=2), StandardScaler())
    inside = [("numbers", SimpleImputer(), [0, 1]), ("levels", encoder, [2])]
    return [
        (make_pipeline(SimpleImputer(), TargetEncoder(cv=2), last), f"TargetEncoder {READ}"),
        (prepared_by(last, inside), f"TargetEncoder {READ}"),
        (make_pipeline(SimpleImputer(), SelectKBest(f_classif, k=2), last), f"SelectKBest {READ}"),
        (make_pipeline(SimpleImputer(), GridSearchCV(last, {"alpha": [0.5, 1.0]}, cv=2)), f"GridSearchCV {CHOSE}"),
        (GridSearchCV(make_pipeline(SimpleImputer(), last), {}, cv=2), f"GridSearchCV {CHOSE}"),
    ]


@pytest.mark.parametrize("number", range(5))
def test_steps_that_read_the_labels_are_refused_by_name_with_the_reason(number):
    X, y, Z = table(24, 0)
    two = (y > 0).astype(int)
    for last in (RidgeClassifier(), LeastSquaresClassifier()):
        model, words = reading(last)[number]
        with pytest.raises(ValueError, match=words):
            training_flips(model.fit(X, two), X, two, Z)
        with pytest.raises(ValueError, match=words):
            training_accuracy(model, X, two, Z, two[:4], flips=1)
    model, words = reading(Ridge())[number]
    model.fit(X, two.astype(float))
    for call in (lambda: training_moves(model, X, two, Z, by=1.0, rows=1),
                 lambda: training_removals(model, X, two, Z, rows=1)):
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.parametrize("last", [RidgeClassifier(), LeastSquaresClassifier(gamma=0.3)], ids=str)
def test_scalers_imputers_and_encoders_are_inside_the_proof_of_flips(last):
    X, y, Z = table(9, 1)
    y = (y > np.median(y)).astype(int)
    model = prepared_by(last).fit(X, y)
    before, found = model.predict(Z), training_flips(model, X, y, Z)
    truth = np.full(4, np.inf)
    for k in (1, 2, 3):
        for rows in combinations(range(9), k):
            other = y.copy()
            other[list(rows)] ^= 1
            changed = prepared_by(last).fit(X, other).predict(Z) != before  # every step is fitted again
            truth[changed] = np.minimum(truth[changed], k)
    np.testing.assert_array_equal(np.minimum(found.needed, 4), np.minimum(truth, 4))


def test_they_are_inside_the_proof_of_moved_targets():
    X, y, Z = table(9, 2)
    found = training_moves(prepared_by(Ridge()).fit(X, y), X, y, Z, by=0.5, rows=2)
    seen = []
    for rows in combinations(range(9), 2):
        for signs in product([-0.5, 0.5], repeat=2):
            other = y.copy()
            other[list(rows)] += signs
            seen.append(prepared_by(Ridge()).fit(X, other).predict(Z))
    np.testing.assert_allclose(found.low, np.min(seen, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.high, np.max(seen, axis=0), rtol=1e-9)


def test_removals_hold_the_prepared_columns_fixed_and_say_so():
    X, y, Z = table(12, 3)
    model = prepared_by(Ridge(alpha=3.0)).fit(X, y)
    found = training_removals(model, X, y, Z, rows=1)
    columns, asked = model[0].transform(X), model[0].transform(Z)
    fixed = [Ridge(alpha=3.0).fit(np.delete(columns, i, 0), np.delete(y, i)).predict(asked) for i in range(12)]
    np.testing.assert_allclose(found.low, np.minimum(np.min(fixed, axis=0), found.prediction), rtol=1e-9)
    np.testing.assert_allclose(found.high, np.maximum(np.max(fixed, axis=0), found.prediction), rtol=1e-9)
    again = np.array([prepared_by(Ridge(alpha=3.0)).fit(np.delete(X, i, 0), np.delete(y, i)).predict(Z)
                      for i in range(12)])
    assert ((again < found.low - 1e-6) | (again > found.high + 1e-6)).any()  # so it has to be said
    assert "are held fixed" in " ".join(training_removals.__doc__.split())


def test_conclusions_refuse_them_too():
    X, y, _ = table(24, 0)
    model = make_pipeline(SimpleImputer(), SelectKBest(f_classif, k=2), LinearRegression()).fit(X, (y > 0) * 1.0)
    with pytest.raises(ValueError, match=f"SelectKBest {READ}"):
        training_conclusions(model, X, (y > 0) * 1.0)


class CautiousPipeline(Pipeline):
    """Says 1 of scores above a half only."""

    def predict(self, X):
        return (self.decision_function(X) > 0.5).astype(int)


def test_a_pipeline_that_predicts_otherwise_than_its_last_step_is_refused():
    X = np.linspace(-3, 3, 61)[:, None]
    model = CautiousPipeline([("scale", StandardScaler()), ("model", RidgeClassifier())]).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="CautiousPipeline is not known to be linear"):
        training_flips(model, X, X[:, 0] > 0, X)
