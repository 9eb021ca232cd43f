"""Attacks against finite differences, exact distances of linear models, brute force, and bad input."""

import itertools
import warnings
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler, scale
from sklearn.svm import OneClassSVM

from buttress import SVC, AdversarialSVC, KernelClassifier, attacks
from buttress.attacks.targets import as_target, label_codes
from buttress.expansion import margins

from problems import iris, margin, moons, noisy, points, problems

# One row a classifier: adding a classifier means adding a row here.
CLASSIFIERS = [
    SVC(kernel="linear"),
    SVC(gamma=0.5),
    SVC(kernel="poly", degree=2, coef0=1.0),
    SVC(kernel="laplacian", gamma=0.5, break_ties=True),
    AdversarialSVC(gamma=0.5, max_iter=30, random_state=0),
    KernelClassifier(kernel="cauchy"),
]
names = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda e: f"{type(e).__name__}-{e.kernel}")


@names
@problems
def test_gradient_of_the_margin_agrees_with_finite_differences(model, problem):
    X, y = problem()
    model = model.fit(X, y)
    X, y = X[::9] + 0.01, y[::9]
    target = as_target(model)
    contrast = margins(target.scores(X), label_codes(model, y, len(X)), target.contrasts)[1]
    numeric, h = np.empty_like(X), 1e-5
    for j in range(X.shape[1]):
        shift = h * np.eye(X.shape[1])[j]
        lead = np.einsum("ik,ik->i", target.scores(X + shift) - target.scores(X - shift), contrast)
        numeric[:, j] = lead / (2 * h)
    np.testing.assert_allclose(target.linearise(X)[1](contrast), numeric, atol=1e-6)


@names
@problems
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_attacks_stay_in_ball_and_box_and_say_what_they_did(model, problem, norm):
    X, y = problem()
    model = model.fit(X, y)
    low, high = X.min(axis=0), X.max(axis=0)
    for attack, options in [(attacks.fgsm, {}), (attacks.pgd, {"steps": 5, "restarts": 3, "random_state": 0})]:
        found, info = attack(model, X, y, eps=0.3, norm=norm, bounds=(low, high), return_info=True, **options)
        size = np.abs(found - X).max(axis=1) if norm == "linf" else np.linalg.norm(found - X, axis=1)
        assert size.max() <= 0.3 + 1e-12
        assert (found >= low).all()
        assert (found <= high).all()
        np.testing.assert_allclose(info.distance, size)
        np.testing.assert_allclose(info.margin, margin(model, found, y))
        np.testing.assert_array_equal(info.success, model.predict(found) != y)
        assert (info.success >= (model.predict(X) != y)).all()
        assert info.success.sum() > (model.predict(X) != y).sum()


@problems
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_more_steps_and_more_starts_are_never_weaker(problem, norm):
    X, y = problem()
    model = SVC(gamma=2.0, C=10.0).fit(X, y)
    options = {"eps": 0.3, "norm": norm, "step_size": 0.1, "random_state": 0, "return_info": True}
    runs = [attacks.pgd(model, X, y, steps=steps, **options)[1] for steps in (1, 3, 10)]
    runs.append(attacks.pgd(model, X, y, steps=10, restarts=4, **options)[1])
    for weaker, stronger in itertools.pairwise(runs):
        assert (stronger.success >= weaker.success).all()
        same = ~stronger.success  # a row that is broken is not attacked further
        assert (stronger.margin[same] <= weaker.margin[same] + 1e-12).all()  # batches of another size round otherwise
    assert runs[-1].margin.sum() < runs[0].margin.sum()
    whole = attacks.fgsm(model, X, y, eps=0.3, norm=norm, return_info=True)[1]
    assert (runs[-1].success >= whole.success).all()
    assert runs[-1].success.sum() > whole.success.sum() + 3  # rows that withstand one step of the whole radius


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_radius_much_wider_than_the_data_hides_nothing(norm):
    """Long steps leap over the border to where a narrow kernel is flat; who falls within 1 falls within more."""
    X, y = moons(60)
    model = SVC(gamma=5.0).fit(X, y)
    fell = [attacks.pgd(model, X, y, eps=eps, norm=norm, return_info=True)[1].success.mean() for eps in (1, 50, 1000)]
    assert fell[0] > 0.6
    assert min(fell[1:]) >= fell[0]


def test_pgd_finds_the_worst_point_of_a_fine_grid():
    X, y = moons()
    model = SVC(gamma=1.0).fit(X, y)
    X, y = X[:20], y[:20]
    side = np.linspace(-0.3, 0.3, 61)
    offsets = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    brute = np.array([margin(model, x + offsets, np.full(len(offsets), label)).min() for x, label in zip(X, y)])
    _, info = attacks.pgd(model, X, y, eps=0.3, steps=40, restarts=5, random_state=0, return_info=True)
    spread = np.abs(margin(model, X, y) - brute)
    assert (info.margin <= brute + 0.05 * spread).all()


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2)])
def test_linear_models_fall_at_their_exact_distance(norm, dual):
    X, y = noisy()
    model = SVC(kernel="linear").fit(X, y)
    w = (model.dual_coef_ @ model.support_vectors_)[0]
    right = model.predict(X) == y
    distance = np.abs(model.decision_function(X)) / np.linalg.norm(w, ord=dual)
    for eps in np.quantile(distance[right], [0.1, 0.5, 0.9]) * (1 + 1e-6):
        for attack in (attacks.fgsm, attacks.pgd):
            _, info = attack(model, X, y, eps=eps, norm=norm, return_info=True)
            np.testing.assert_array_equal(info.success, ~right | (distance < eps))


def test_the_worst_iterate_is_returned_not_the_last():
    """Steps of 3 jump to and fro over the dip of f(x) = k(x, 1) - k(x, -1); the lowest point passed is kept."""
    model = SVC(kernel="rbf", gamma=1.0).fit(np.array([[-1.0], [1.0]]), [0, 1])
    x, y = np.array([[0.5]]), np.array([1])
    seen = [x]
    target = as_target(model)
    for _ in range(6):
        seen.append(np.clip(seen[-1] - 3 * np.sign(target.linearise(seen[-1])[1](np.ones((1, 1)))), x - 4, x + 4))
    values = [float(margin(model, point, y)[0]) for point in seen]
    assert values[-1] > min(values)
    found, info = attacks.pgd(model, x, y, eps=4.0, step_size=3.0, steps=6, return_info=True)
    assert info.margin[0] == pytest.approx(min(values))
    np.testing.assert_allclose(found, seen[int(np.argmin(values))])


def test_fgsm_is_one_step_of_pgd():
    X, y = iris()
    model = SVC().fit(X, y)
    once = attacks.pgd(model, X, y, eps=0.2, steps=1, step_size=0.2)
    np.testing.assert_array_equal(attacks.fgsm(model, X, y, eps=0.2), once)


@problems
def test_models_with_probabilities_only_are_attacked(problem):
    X, y = problem()
    model = GaussianNB().fit(X, y)
    found, info = attacks.pgd(model, X, y, eps=0.3, steps=10, return_info=True)
    np.testing.assert_array_equal(info.success, model.predict(found) != y)
    assert info.success.sum() > 1.5 * (model.predict(X) != y).sum()


def test_text_labels_are_attacked():
    X, y = iris()
    text = np.array(["setosa", "versicolor", "virginica"])[y]
    found = attacks.pgd(SVC().fit(X, text), X, text, eps=0.2)
    np.testing.assert_array_equal(found, attacks.pgd(SVC().fit(X, y), X, y, eps=0.2))


def test_attacked_rows_and_the_input_are_left_alone():
    X, y = moons()
    kept = X.copy()
    attacks.pgd(SVC().fit(X, y), X, y, eps=0.5)
    np.testing.assert_array_equal(X, kept)


@problems
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_ensemble_is_never_weaker_than_its_members(problem, norm):
    X, y = problem()
    model = SVC(gamma=2.0, C=10.0).fit(X, y)
    box = (X.min(), X.max())
    found, info = attacks.worst_case(model, X, y, eps=0.4, norm=norm, bounds=box, random_state=0, return_info=True)
    size = np.abs(found - X).max(axis=1) if norm == "linf" else np.linalg.norm(found - X, axis=1)
    assert size.max() <= 0.4 + 1e-12
    np.testing.assert_array_equal(info.success, model.predict(found) != y)
    for attack in (attacks.fgsm, attacks.pgd):
        assert (info.success >= attack(model, X, y, eps=0.4, norm=norm, bounds=box, return_info=True)[1].success).all()
    if norm == "l2":
        nearest = attacks.carlini_wagner(model, X, y, bounds=box, return_info=True)[1]
        assert (info.success >= (nearest.distance <= 0.4)).all()


def test_the_ensemble_sees_trees_that_gradients_do_not():
    X, y = moons(60)
    model = RandomForestClassifier(10, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="blind"):
        blind = attacks.pgd(model, X, y, eps=0.3, steps=5, return_info=True)[1]
    info = attacks.worst_case(model, X, y, eps=0.3, steps=5, restarts=2, random_state=0, return_info=True)[1]
    assert info.success.sum() > blind.success.sum() + 10


def test_rows_with_a_slope_do_not_hide_those_without():
    """A few rows near a threshold of a tree say nothing about the others."""
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    model = RandomForestClassifier(10, random_state=0).fit(X[::2], y[::2])
    with pytest.warns(UserWarning, match=r"changed near \d+ of the \d+ rows it gets right.*worst_case"):
        info = attacks.pgd(model, X[1::2], y[1::2], eps=0.5, return_info=True)[1]
    assert info.distance.max() > 0  # some row had a slope
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = attacks.worst_case(model, X[1::2], y[1::2], eps=0.5, random_state=0, return_info=True)[1]
    assert found.success.mean() > info.success.mean() + 0.2


def test_a_constant_model_warns_that_the_attack_was_blind():
    X, y = moons(40)
    constant = DummyClassifier().fit(X, y)
    for attack, options in [(attacks.pgd, {"eps": 0.1}), (attacks.carlini_wagner, {}), (attacks.zoo, {"steps": 5})]:
        with pytest.warns(UserWarning, match="blind"):
            attack(constant, X, y, **options)


@pytest.mark.parametrize("attack", [attacks.carlini_wagner, attacks.zoo, partial(attacks.pgd, eps=0.1)])
def test_scores_without_a_value_are_refused(attack):
    X, y = moons(40)
    model = SVC().fit(X, y)
    model.expansion_.intercept[:] = np.nan
    with pytest.raises(ValueError, match="NaN or inf, so they have no margin"):
        attack(model, X, y)


def test_a_radius_of_another_scale_warns():
    X, y = moons(40)
    X = 100 + 20 * X
    model = SVC().fit(X, y)
    with pytest.warns(UserWarning, match="in the units of X"):
        attacks.pgd(model, X, y, eps=8 / 255, bounds=(0, 255))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_as_many_rows_as_columns_stay_rows(library):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    framed = pytest.importorskip(library).DataFrame(dict(zip("abc", X.T, strict=True)))
    moved = attacks.pgd(SVC().fit(framed, y), framed[:3], y[:3], eps=0.1, random_state=0)
    assert np.abs(moved.to_numpy() - X[:3]).max() < 0.1 + 1e-12  # polars took the rows for columns


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_model_fitted_on_column_names_is_attacked_through_frames(library):
    frames = pytest.importorskip(library)
    X, y = moons(60)
    columns = {"it's 1": X[:, 0], "schema": X[:, 1]}  # pandas gives columns as attributes; polars has a schema
    frame = frames.DataFrame(columns)
    scaled = ColumnTransformer([("first", StandardScaler(), ["it's 1"]), ("second", RobustScaler(), ["schema"])])
    model = make_pipeline(scaled, SVC(gamma=1.0)).fit(frame, y)
    plain = make_pipeline(ColumnTransformer([("first", StandardScaler(), [0]), ("second", RobustScaler(), [1])]),
                          SVC(gamma=1.0)).fit(X, y)
    for attack, options in ((attacks.pgd, {"eps": 0.3}), (attacks.carlini_wagner, {"steps": 10}),
                            (attacks.zoo, {"steps": 5, "rounds": 1})):
        moved = attack(model, frame, y, random_state=0, **options)
        np.testing.assert_array_equal(moved, attack(plain, X, y, random_state=0, **options))
    frame = frame[::-1]
    moved = attacks.pgd(model, frame, y[::-1], eps=0.3, random_state=0)
    assert model.score(moved, y[::-1]) < model.score(frame, y[::-1])
    assert type(moved) is type(frame)
    assert list(getattr(moved, "index", [])) == list(getattr(frame, "index", []))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_every_member_of_the_ensemble_asks_a_model_fitted_on_column_names_with_frames(norm):
    pandas = pytest.importorskip("pandas")
    X, y = moons(12)
    frame = pandas.DataFrame({"first": X[:, 0], "second": X[:, 1]})
    model = make_pipeline(ColumnTransformer([("all", "passthrough", ["first", "second"])]), GaussianNB()).fit(frame, y)
    found, info = attacks.worst_case(model, frame, y, eps=0.2, norm=norm, steps=3, restarts=1, random_state=0,
                                     return_info=True)
    np.testing.assert_array_equal(info.success, model.predict(found) != y)
    assert not info.success.all()  # so that the last members were asked


class OwnGradient(LogisticRegression):
    """Scores that nothing here knows the gradient of, but for its own word."""

    asked = 0

    def input_gradient(self, X, V):
        self.asked += len(X)
        self.asked_with = type(X)
        return V @ self.coef_


def test_a_gradient_that_the_model_keeps_is_not_written_to():
    X, y = moons(40)
    model = OwnGradient().fit(X, y)
    fixed = np.broadcast_to(np.array([1.0, -2.0]), X.shape)     # read-only
    model.input_gradient = lambda X, V: fixed[: len(X)]
    attacks.pgd(model, X, y, eps=0.3, steps=5, random_state=0)
    kept = fixed.copy()
    model.input_gradient = lambda X, V: kept[: len(X)]
    attacks.pgd(model, X, y, eps=0.3, steps=5, random_state=0)
    np.testing.assert_array_equal(kept, fixed)


def test_a_gradient_of_the_models_own_is_used():
    X, y = moons(40)
    own, known = OwnGradient().fit(X, y), LogisticRegression().fit(X, y)
    moved, info = attacks.pgd(own, X, y, eps=0.3, steps=5, random_state=0, return_info=True)
    np.testing.assert_allclose(moved, attacks.pgd(known, X, y, eps=0.3, steps=5, random_state=0), atol=1e-12)
    assert own.asked > 0
    assert info.queries < len(X) * 20  # differences would ask four times a gradient
    own.input_gradient = lambda X, V: V
    with pytest.raises(ValueError, match=r"input_gradient gives an array of shape \(40, 1\). Expected \(40, 2\)"):
        attacks.fgsm(own, X, y, eps=0.3)
    own.input_gradient = lambda X, V: np.full(X.shape, np.nan)
    with pytest.raises(ValueError, match="NaN in column 0 of the model's input_gradient"):
        attacks.fgsm(own, X, y, eps=0.3)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_gradient_of_the_models_own_gets_rows_as_they_were_fitted(library):
    frames = pytest.importorskip(library)
    X, y = moons(40)
    frame = frames.DataFrame({"first": X[:, 0], "second": X[:, 1]})
    model = OwnGradient().fit(frame, y)
    moved = attacks.pgd(model, frame, y, eps=0.3, steps=5, random_state=0)
    assert model.asked_with is frames.DataFrame
    expected = attacks.pgd(OwnGradient().fit(X, y), X, y, eps=0.3, steps=5, random_state=0)
    np.testing.assert_allclose(moved, expected, atol=1e-12)  # frames lie otherwise in memory: sums round otherwise


class NaNScores(LogisticRegression):
    def decision_function(self, X):
        return np.full(len(X), np.nan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": VotingClassifier([("bayes", GaussianNB())])}, "labels only"),
        ({"model": NaNScores()}, "NaN"),
        ({"model": OneClassSVM()}, "no classes_"),
        ({"model": Ridge()}, "no classes_"),
        ({"y": np.full(40, 7)}, "label .*7"),
        ({"y": np.zeros(39)}, "one label for each of the 40 rows"),
        ({"bounds": (0.0, 0.1)}, "bounds exclude the data: row"),
        ({"X": points(40, 3)}, "3 features, but the model was fitted on 2"),
        ({"X": points(40, 2)[0]}, "two-dimensional"),
        ({"X": np.full((40, 2), np.nan)}, "NaN in column 0"),
        ({"eps": -0.1}, "eps must be in"),
        ({"eps": "large"}, "eps must be a number"),
        ({"norm": "l1"}, "norm must be one of 'linf', 'l2'"),
        ({"bounds": 3}, "bounds must be .low, high."),
        ({"X": csr_matrix(points(40, 2))}, "needs dense rows"),
        ({"X": points(40, 2) + 1j}, "needs real numbers"),
        ({"X": [["a", 1.0]] * 40}, "Column 0 of X holds entries that are not numbers"),
        ({"model": MultiOutputClassifier(GaussianNB()), "labels": 2}, "several labels a row"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("attack", [attacks.fgsm, attacks.pgd, attacks.worst_case])
def test_bad_input_is_refused_with_its_reason(attack, change, message):
    X, y = moons(40)
    given = {"model": SVC(), "X": X, "y": y, "eps": 0.1, **change}
    given["model"] = given["model"].fit(X, np.column_stack([y] * given.pop("labels")) if "labels" in given else y)
    with pytest.raises(ValueError, match=message):
        attack(given.pop("model"), given.pop("X"), given.pop("y"), **given)


ATTACKS = [
    (attacks.fgsm, {"eps": 0.3}),
    (attacks.pgd, {"eps": 0.3, "steps": 5, "random_state": 0}),
    (attacks.carlini_wagner, {"steps": 20, "rounds": 2, "random_state": 0}),
    (attacks.zoo, {"steps": 20, "rounds": 2, "random_state": 0}),
    (attacks.worst_case, {"eps": 0.3, "steps": 5, "restarts": 1, "random_state": 0}),
    (attacks.worst_case, {"eps": 0.3, "norm": "l2", "steps": 5, "restarts": 1, "random_state": 0}),
]


@pytest.mark.parametrize(("attack", "options"), ATTACKS, ids=[attack.__name__ for attack, _ in ATTACKS])
@problems
def test_what_every_attack_owes(attack, options, problem):
    X, y = problem()
    model = SVC(gamma=0.5).fit(X, y)
    box = X.min(axis=0), X.max(axis=0)
    found, info = attack(model, X, y, bounds=box, return_info=True, **options)
    assert found.shape == X.shape
    assert ((found >= box[0]) & (found <= box[1])).all()
    np.testing.assert_array_equal(info.success, model.predict(found) != y)
    assert info.success.mean() > (model.predict(X) != y).mean()
    assert info.queries >= len(X)
    np.testing.assert_array_equal(attack(model, X, y, bounds=box, **options), found)
    with pytest.raises(ValueError, match="labels only"):
        attack(VotingClassifier([("bayes", GaussianNB())]).fit(X, y), X, y, **options)
