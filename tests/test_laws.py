"""The laws for any model, against Bayes' rule with the truth that data were drawn from, and against hostile input."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from sklearn.datasets import make_blobs
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from buttress import RobustKernelClassifier, label_law, residual_law


def drawn_labels(rates, seed=0, n=3000):
    """Return probabilities (n, C), true classes drawn from them, and labels drawn by rates (C, C)."""
    rng = np.random.default_rng(seed)
    C = len(rates)
    chances = rng.dirichlet(np.full(C, 0.15), n)
    y = (chances.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    given = (rates[y].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return chances, y, given


def by_bayes(chances, rates, given):
    """Return P(label wrong), (n,), under the law that labels were drawn from."""
    joint = chances * rates[:, given].T
    return 1 - joint[np.arange(len(given)), given] / joint.sum(axis=1)


UNIFORM = np.full((3, 3), 0.08) + 0.76 * np.eye(3)
ONE_WAY = np.array([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("rates", [UNIFORM, ONE_WAY])
@pytest.mark.parametrize("sharpness", [1.0, 2.0])
def test_labels_are_judged_as_by_the_law_they_were_drawn_from_also_of_a_model_too_sure_of_itself(rates, sharpness):
    chances, y, given = drawn_labels(rates)
    said = chances**sharpness
    law = label_law(said / said.sum(axis=1, keepdims=True), given)
    truth = by_bayes(chances, rates, given)
    assert np.abs(law.outlier_proba - truth).mean() < 0.02
    assert law.contamination == pytest.approx(np.mean(given != y), abs=0.02)
    low, high = law.contamination_interval
    assert low <= np.mean(given != y) <= high
    assert np.abs(law.confusion - rates).max() < 0.05
    np.testing.assert_allclose(law.true_proba.sum(axis=1), 1)
    np.testing.assert_allclose(1 - law.true_proba[np.arange(len(given)), given], law.outlier_proba, atol=1e-12)


def test_one_way_errors_rank_better_than_by_the_probability_of_the_label():
    chances, y, given = drawn_labels(ONE_WAY)
    wrong = given != y
    law = label_law(chances, given)
    bound = roc_auc_score(wrong, by_bayes(chances, ONE_WAY, given))
    plain = roc_auc_score(wrong, -chances[np.arange(len(given)), given])
    assert plain < roc_auc_score(wrong, law.outlier_proba) <= bound + 1e-3
    assert roc_auc_score(wrong, law.outlier_proba) > bound - 0.01


@pytest.mark.parametrize("model", [LogisticRegression(max_iter=1000),
                                   HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0)])
def test_a_model_that_learned_to_read_each_class_as_the_next_is_seen_through(model):
    X, y = make_blobs(1000, centers=4, n_features=3, cluster_std=2.0, center_box=(-5, 5), random_state=4)
    wrong = np.random.default_rng(4).random(1000) < 0.3
    given = np.where(wrong, (y + 1) % 4, y)
    said = cross_val_predict(model, X, given, method="predict_proba")
    law = label_law(said, given)
    assert law.contamination == pytest.approx(wrong.mean(), abs=0.03)
    assert np.abs(law.confusion - (0.7 * np.eye(4) + 0.3 * np.roll(np.eye(4), 1, axis=1))).max() < 0.1
    assert roc_auc_score(wrong, -said[np.arange(1000), given]) < 0.91
    assert roc_auc_score(wrong, law.outlier_proba) > 0.97


def test_the_estimator_names_the_rows_that_the_law_names_given_its_left_out_probabilities():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-2, 1, (100, 2)), rng.normal(2, 1, (100, 2))])
    y = np.repeat([0, 1], 100)
    given = np.where(rng.random(200) < 0.15, 1 - y, y)
    model = RobustKernelClassifier(random_state=0).fit(X, given)
    law = label_law(model.loo_proba_, given)
    assert (~law.inlier_mask).sum() > 5
    assert np.mean(law.inlier_mask == model.inlier_mask_) > 0.97


def test_columns_may_come_in_any_order_with_names_and_with_classes_that_no_label_has():
    chances, _, given = drawn_labels(UNIFORM, n=300)
    names = np.array(["cat", "dog", "eel"])
    law = label_law(chances, names[given])
    turned = label_law(chances[:, [2, 0, 1]], names[given], classes=["eel", "cat", "dog"])
    assert turned.classes.tolist() == law.classes.tolist() == ["cat", "dog", "eel"]
    np.testing.assert_allclose(turned.outlier_proba, law.outlier_proba)
    more = label_law(np.column_stack([chances, np.zeros(300)]), names[given], classes=[*names, "fox"])
    assert more.true_proba.shape == (300, 4)
    assert more.true_proba[:, 3].max() < 0.01
    np.testing.assert_allclose(more.outlier_proba, law.outlier_proba)
    np.testing.assert_allclose(more.contamination_interval, law.contamination_interval)
    np.testing.assert_allclose(more.confusion.sum(axis=1), 1)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_a_frame_are_read_by_their_names_where_these_are_the_classes(frame):
    chances, _, given = drawn_labels(UNIFORM, n=300)
    names = np.array(["cat", "dog", "eel"])
    law = label_law(chances, names[given])
    turned = frame({name: chances[:, names.tolist().index(name)] for name in ("eel", "cat", "dog")})
    np.testing.assert_array_equal(label_law(turned, names[given]).true_proba, law.true_proba)
    numbers = frame({str(code): chances[:, code] for code in (2, 0, 1)})  # polars has no other names
    np.testing.assert_array_equal(label_law(numbers, given).true_proba, law.true_proba)
    others = frame(dict(zip("zyx", chances.T, strict=True)))
    np.testing.assert_array_equal(label_law(others, names[given]).true_proba, law.true_proba)


def test_rows_named_at_a_false_discovery_rate_are_wrong_but_for_that_share():
    chances, y, given = drawn_labels(UNIFORM, n=3000)
    named = label_law(chances, given).named(0.1)
    assert named.sum() > 100
    assert np.mean((given == y)[named]) < 0.13


def drawn_errors(share, seed=0, n=2000):
    """Return predictions, targets and which are wrong: normal errors, of bad rows 5 more and three times as wide."""
    rng = np.random.default_rng(seed)
    predicted = 10 * rng.normal(size=n)
    bad = rng.random(n) < share
    errors = np.where(bad, rng.normal(5, 3, n), rng.normal(0, 1, n))
    return predicted, predicted + errors, bad


@pytest.mark.parametrize("share", [0.02, 0.2, 0.4])
def test_targets_are_judged_as_by_the_law_they_were_drawn_from(share):
    predicted, y, bad = drawn_errors(share)
    law = residual_law(predicted, y)
    wide = share * norm.pdf(y - predicted, 5, 3)
    truth = wide / (wide + (1 - share) * norm.pdf(y - predicted))
    assert np.abs(law.outlier_proba - truth).mean() < 0.03
    assert law.contamination == pytest.approx(bad.mean(), abs=0.04)
    low, high = law.contamination_interval
    assert low <= bad.mean() <= high
    assert law.scale == pytest.approx(1, abs=0.2)


def test_units_of_the_targets_change_nothing():
    predicted, y, _ = drawn_errors(0.2, n=400)
    law = residual_law(predicted, y)
    other = residual_law(7 - 1e6 * predicted, 7 - 1e6 * y)
    np.testing.assert_allclose(other.outlier_proba, law.outlier_proba, atol=0.02)
    assert other.scale == pytest.approx(1e6 * law.scale, rel=0.05)


@pytest.mark.parametrize("draw", [lambda rng: rng.normal(size=600), lambda rng: rng.standard_t(3, 600),
                                  lambda rng: rng.gamma(9, size=600), lambda rng: rng.exponential(size=600),
                                  lambda rng: rng.lognormal(size=600)])
def test_good_errors_are_named_seldom(draw):
    law = residual_law(np.zeros(600), draw(np.random.default_rng(0)))
    assert np.mean(~law.inlier_mask) < 0.02
    assert law.contamination_interval[0] == 0


def test_named_errors_all_on_one_side_are_said_to_be_genuine_perhaps():
    rng = np.random.default_rng(0)
    errors = rng.normal(size=600) + 8.0 * (np.arange(600) < 60)
    with pytest.warns(UserWarning, match="like the long tail"):
        law = residual_law(np.zeros(600), errors)
    np.testing.assert_array_equal(law.inlier_mask, np.arange(600) >= 60)


@pytest.mark.parametrize(("chances", "y", "message"), [
    ([[0.5, 0.5], [0.9, 0.2]], [0, 1], r"sum to 1 in each row.*row 1.*predict_proba"),
    ([[1.2, -0.2], [0.9, 0.1]], [0, 1], "at least 0"),
    ([[0.5, 0.5], [np.nan, 0.2]], [0, 1], "pred_probs contains NaN"),
    ([[0.5, 0.5], [0.9, 0.1]], [0, 0], "at least 2 classes"),
    ([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]], [0, 1], r"column a class, \(2, 2\).*\(2, 3\).*classes="),
    ([[0.5, 0.5]], [0, 1], r"row a label"),
    ([0.5, 0.5], [0, 1], r"\(2, 2\). Got shape \(2,\). Give predict_proba whole"),
    ([[0.5, 0.5], [0.9, 0.1]], np.array(["a", np.nan], dtype=object), "y holds no value in 1 rows, the first is row 1"),
])
def test_what_is_no_probability_is_refused(chances, y, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        label_law(chances, y)


def test_labels_outside_the_classes_are_refused():
    with pytest.raises(ValueError, match="'bee', which is not among the classes"):
        label_law([[0.5, 0.5], [0.9, 0.1]], ["ant", "bee"], classes=["ant", "cat"])
    with pytest.raises(ValueError, match="each column once"):
        label_law([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]], ["ant", "bee"], classes=["ant", "bee", "ant"])


@pytest.mark.parametrize(("predicted", "y", "message"), [
    ([1.0, 2.0], [1.0, 2.0, 3.0], r"\(2,\).*\(3,\)"),
    ([[1.0], [2.0]], [1.0, 2.0], r"\(2, 1\)"),
    ([1.0, np.inf], [1.0, 2.0], "predictions contains inf"),
    ([1.0, 2.0], [1.0, np.nan], "y contains NaN"),
    ([1.0, 2.0], [1.0, 1e200], "column y"),
    ([1.0], [1.0], "minimum of 2"),
    ([1.0, 2.0], np.array([1.0, "2 kg"], dtype=object), "y must hold numbers. Got the text or time '2 kg' in row 1"),
    ([1.0, 2.0], np.array(["2024-05-01", "2024-05-02"], dtype="M8[D]"), "Got the text or time '2024-05-01' in row 0"),
])
def test_predictions_and_targets_that_do_not_fit_are_refused(predicted, y, message):
    with pytest.raises(ValueError, match=message):
        residual_law(predicted, y)


def test_exact_predictions_and_constant_targets_name_nothing():
    y = np.arange(50.0)
    assert residual_law(y, y).inlier_mask.all()
    assert residual_law(np.ones(50), np.ones(50)).inlier_mask.all()
