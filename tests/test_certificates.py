"""Certificates: never exceeded by an attack or a random move, exact where that is known, never below (1)."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC as SKLearnSVC
from sklearn.tree import DecisionTreeClassifier

from buttress import SVC, AdversarialSVC, KernelClassifier, attacks
from buttress.certificates import certified_radius, certified_within
from buttress.certificates.leads import Leads
from buttress.evidence import write_evidence
from buttress.expansion import KernelExpansion, binary_contrasts
from buttress.features import RandomExpansion, random_features
from buttress.kernels import RBF, Cauchy, Combination, InverseMultiquadric, Laplacian, Linear, Log, Polynomial, Sigmoid
from buttress.threats import ThreatModel

from problems import breast_cancer, iris, moons, noisy, points

STATIONARY = [
    RBF(0.3),
    Laplacian(0.5),
    Cauchy(0.4),
    InverseMultiquadric(1.3),
    Log(2, 0.5),
    Log(1.5, 0.5),
    Combination([RBF(0.2), Linear(), Cauchy(0.5)], [0.5, 0.02, 1.0]),
]
MODELS = [SVC(kernel=kernel, C=5.0) for kernel in STATIONARY] + [
    SVC(kernel="linear"),
    SVC(kernel="rbf", gamma=1.0, class_weight="balanced", break_ties=True),
    AdversarialSVC(max_iter=20, gamma=0.5, random_state=0),
    KernelClassifier(kernel=RBF(0.5)),
    SKLearnSVC(gamma=0.4, C=10.0),
    LogisticRegression(),
    make_pipeline(StandardScaler(), SKLearnSVC(gamma=0.4)),
    make_pipeline(MinMaxScaler(), SVC(kernel=Combination([RBF(3.0), Linear()]))),
    make_pipeline(StandardScaler(), Nystroem(n_components=30, random_state=0), LogisticRegression(C=10)),
]
models = pytest.mark.parametrize("model", MODELS, ids=lambda e: str(e).replace("\n", "")[:70])


@models
@pytest.mark.parametrize("problem", [moons, iris, breast_cancer], ids=lambda p: p.__name__)
def test_no_attack_succeeds_inside_the_radius(model, problem):
    X, y = problem()
    model = clone(model).fit(X, y)
    X = X[::7]
    predicted = model.predict(X)
    radius = certified_radius(model, X)
    assert (radius.l2 > 0).mean() > 0.8
    rng = np.random.default_rng(0)
    for norm, size in (("l2", radius.l2), ("linf", radius.linf)):
        inside = np.minimum(size, 20)[:, None]
        for _ in range(8):
            d = rng.normal(size=X.shape)
            d = np.sign(d) if norm == "linf" else d / np.linalg.norm(d, axis=1, keepdims=True)
            np.testing.assert_array_equal(model.predict(X + (1 - 1e-9) * inside * d), predicted)
        for share in (0.3, 0.999):  # a ball of its own for each row: the rows are attacked in units of their radius
            moved = attacks.pgd(model, X, predicted, eps=share * float(np.median(inside)), norm=norm, steps=15)
            allowed = size > share * np.median(inside)
            np.testing.assert_array_equal(model.predict(moved)[allowed], predicted[allowed])
    _, info = attacks.carlini_wagner(model, X, predicted, steps=60, rounds=4, random_state=0, return_info=True)
    assert (info.distance[info.success] >= radius.l2[info.success] * (1 - 1e-9)).all()


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("kernel", STATIONARY, ids=str)
def test_each_row_holds_against_pgd_at_its_own_radius(kernel, norm):
    X, y = iris()
    model = SVC(kernel=kernel, C=10.0).fit(X, y)
    radius = getattr(certified_radius(model, X), norm)
    predicted = model.predict(X)
    for i in range(0, 150, 29):
        if 0 < radius[i] < np.inf:
            row, label, eps = X[i : i + 1], predicted[i : i + 1], 0.9999 * radius[i]
            moved = attacks.worst_case(model, row, label, eps=eps, norm=norm, steps=10, restarts=2, random_state=0)
            assert model.predict(moved)[0] == predicted[i]


class Expansion(ClassifierMixin, BaseEstimator):
    """A fitted classifier that is a given expansion."""

    classes_ = np.array([0, 1])

    def __init__(self, expansion=None):
        self.expansion_, self.contrasts_ = expansion, binary_contrasts()

    def fit(self, X, y):
        """Nothing to fit."""

    def decision_function(self, X):
        return self.expansion_(X)[:, 0]

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


@pytest.mark.parametrize(
    ("kernel", "radius"),
    [
        (RBF(0.3), np.sqrt(np.log(2) / 0.3)),
        (Cauchy(0.4), np.sqrt(1 / 0.4)),
        (InverseMultiquadric(2.0), np.sqrt(16 - 4)),
        (Laplacian(0.5), np.log(2) / 0.5),
    ],
    ids=str,
)
def test_at_the_only_centre_the_radius_is_exact(kernel, radius):
    """f(z) = F(0) there, nothing is unknown about f, and it falls to half exactly where F does."""
    Z = points(1, 4)
    half = kernel.diagonal(Z)[0] / 2
    model = Expansion(KernelExpansion(kernel, Z, np.ones((1, 1)), np.array([-half])))
    found = certified_radius(model, Z)
    assert found.l2[0] == pytest.approx(radius, rel=1e-5)
    assert found.linf[0] == pytest.approx(radius / 2, rel=1e-5)  # sqrt(4) = 2


@pytest.mark.parametrize("problem", [moons, noisy, breast_cancer], ids=lambda p: p.__name__)
def test_linear_models_get_their_exact_distances(problem):
    X, y = problem()
    for model, w in (
        (SVC(kernel="linear").fit(X, y), lambda m: m.dual_coef_ @ m.support_vectors_),
        (LogisticRegression().fit(X, y), lambda m: m.coef_),
        (make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y), lambda m: m[-1].coef_ / m[0].scale_),
    ):
        lead, w = np.abs(model.decision_function(X)), w(model)[0]
        radius = certified_radius(model, X)
        np.testing.assert_allclose(radius.l2, lead / np.linalg.norm(w), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(radius.linf, lead / np.abs(w).sum(), rtol=1e-8, atol=1e-12)


def flipped_inside(model, X, w, norm, tries=40):
    """Count rows that get another prediction at inputs whose exact distance is at most their radius."""
    radius, predicted = getattr(certified_radius(model, X), norm), model.predict(X)
    side = np.where(model.decision_function(X) > 0, -1.0, 1.0)[:, None]
    unit = np.sign(w) if norm == "linf" else w / np.linalg.norm(w)
    rng, flipped = np.random.default_rng(0), np.zeros(len(X), dtype=bool)
    for trial in range(tries):
        noise = (trial % 3) * rng.normal(size=X.shape) * 1e-12 * np.abs(X)
        moved = (X + side * (1 - 10.0 ** -rng.uniform(2, 17)) * radius[:, None] * unit + noise).astype(X.dtype)
        away = np.abs(moved.astype(np.longdouble) - X.astype(np.longdouble))
        size = away.max(axis=1) if norm == "linf" else np.sqrt((away**2).sum(axis=1))
        flipped |= (size <= radius) & (model.predict(moved) != predicted)
    return flipped.sum()


@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("scaler", [None, StandardScaler(), MinMaxScaler()], ids=lambda s: type(s).__name__)
def test_what_rounding_changes_in_linear_scores_is_allowed_for(scaler, offset, real):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(400, 5)) + offset).astype(real)
    y = X[:, 0] + X[:, 1] - 2 * offset + 0.3 * rng.normal(size=400) > 0
    model = make_pipeline(clone(scaler) if scaler else "passthrough", LogisticRegression()).fit(X, y)
    w = model[-1].coef_[0]
    if scaler is not None:
        w = w * model[0].scale_ if isinstance(scaler, MinMaxScaler) else w / model[0].scale_
    assert [flipped_inside(model, X, w, norm) for norm in ("l2", "linf")] == [0, 0]
    if real is np.float64:
        exact = np.abs(model.decision_function(X)) / np.linalg.norm(w)
        np.testing.assert_allclose(certified_radius(model, X).l2, exact, atol=1e-12 + 1e-13 * offset)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_machines_of_float32_rows_are_certified_for_the_scores_they_compute(norm):
    X, y = moons()
    single = X.astype(np.float32)
    model = SVC(C=10.0).fit(single, y)
    radius = getattr(certified_radius(model, single, norm=norm), norm)
    wide = getattr(certified_radius(SVC(C=10.0).fit(X, y), X, norm=norm), norm)
    assert (radius > 0.5 * wide).mean() > 0.8
    assert (radius <= 1.01 * wide).all()
    options = {"eps": float(np.median(radius)) * 0.999, "norm": norm, "random_state": 0}
    moved = attacks.pgd(model, single, model.predict(single), **options)
    held = radius >= np.median(radius)
    np.testing.assert_array_equal(model.predict(moved)[held], model.predict(single)[held])


class Reversed(SVC):
    """A user's class whose scores are not those of its parent."""

    def decision_function(self, X):
        return -super().decision_function(X)

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


class Named(SVC):
    """One that only adds to its parent."""

    title = "a machine"

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight)


def test_what_a_subclass_computes_itself_is_not_certified():
    X, y = moons()
    with pytest.raises(ValueError, match="No certified radius is known for Reversed"):
        certified_radius(Reversed().fit(X, y), X)
    named = certified_radius(Named().fit(X, y), X).l2
    np.testing.assert_array_equal(named, certified_radius(SVC().fit(X, y), X).l2)
    assert attacks.pgd(Reversed().fit(X, y), X, y, eps=0.5, steps=3).shape == X.shape  # by differences


class Cautious:
    """Says 1 of scores above 1 only."""

    def predict(self, X):
        return (self.decision_function(X) > 1).astype(int)


class CautiousSearch(Cautious, GridSearchCV):
    pass


class CautiousPipeline(Cautious, Pipeline):
    pass


class FarNystroem(Nystroem):
    def transform(self, X):
        return super().transform(X + 1)


@pytest.mark.parametrize("model", [
    CautiousSearch(SKLearnSVC(kernel="linear"), {"C": [1.0]}), CautiousPipeline([("m", SKLearnSVC(kernel="linear"))]),
    make_pipeline(FarNystroem(n_components=20), LogisticRegression())], ids=lambda model: type(model).__name__)
def test_a_model_around_another_that_computes_otherwise_is_not_certified(model):
    """Of the first two the border of the model inside was certified, not that of what is predicted."""
    X = np.linspace(-3, 3, 61)[:, None]
    model.fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match=r"No certified radius is known (for|behind) \w*"):
        certified_radius(model, X)


def test_pipelines_of_imbalanced_learn_are_read_as_those_of_scikit_learn():
    class Resampling(Pipeline):
        def predict(self, X):
            return super().predict(X)

    Resampling.__module__ = "imblearn.pipeline"
    X = np.linspace(-3, 3, 61)[:, None]
    steps = [("scale", StandardScaler()), ("m", SKLearnSVC(kernel="linear"))]
    theirs, known = (kind(steps).fit(X, X[:, 0] > 0) for kind in (Resampling, Pipeline))
    np.testing.assert_array_equal(certified_radius(theirs, X).linf, certified_radius(known, X).linf)


@pytest.mark.parametrize("problem", [moons, noisy, breast_cancer], ids=lambda p: p.__name__)
def test_the_radius_is_at_least_the_closed_form_of_the_norm_bound(problem):
    rows, y = problem()
    X = rows[:100]
    for gamma in (0.01, 0.1, 1.0):
        model = SVC(gamma=gamma).fit(rows, y)
        K = np.exp(-gamma * ((model.support_vectors_[:, None] - model.support_vectors_) ** 2).sum(axis=2))
        norm = np.sqrt(model.dual_coef_[0] @ K @ model.dual_coef_[0])
        share = np.minimum((model.decision_function(X) / norm) ** 2 / 2, 1)
        with np.errstate(divide="ignore"):
            plain = np.sqrt(-np.log1p(-share) / gamma)
        radius = certified_radius(model, X)
        assert (radius.l2 >= plain * (1 - 1e-6)).all()
        assert (radius.linf >= plain / np.sqrt(X.shape[1]) * (1 - 1e-6)).all()
        assert np.median(radius.l2) > 1.001 * np.median(plain)


@pytest.mark.parametrize("kernel", [RBF(0.3), Cauchy(0.4), InverseMultiquadric(1.3)], ids=str)
def test_the_bound_is_attained_by_a_function_of_the_space(kernel):
    """f = k(x, .) - k(x + d, .) / 2 falls towards x + d as fast as its value, gradient and norm at x allow."""
    x, r = np.zeros((1, 3)), 0.7
    away = x + r * np.eye(3)[:1]
    f = KernelExpansion(kernel, np.vstack([x, away]), np.array([[1.0], [-0.5]]), np.zeros(1))
    f.intercept = -f(away)[0]
    assert certified_radius(Expansion(f), x).l2[0] == pytest.approx(r, rel=1e-6)


def test_a_constant_prediction_is_certified_everywhere():
    Z = points(5, 2)
    model = Expansion(KernelExpansion(RBF(), Z, 0.01 * np.ones((5, 1)), np.array([3.0])))
    radius = certified_radius(model, Z)
    assert np.isinf(radius.l2).all()
    assert np.isinf(radius.linf).all()


def test_kernel_ridge_on_signs_is_certified():
    X, y = moons()
    y = 2 * y - 1
    model = KernelRidge(kernel="rbf", gamma=1.0).fit(X, y)
    radius = certified_radius(model, X)
    predicted = np.where(model.predict(X) > 0, 1, -1)
    moved = attacks.pgd(model, X, predicted, eps=float(np.median(radius.linf)))
    same = np.where(model.predict(moved) > 0, 1, -1) == predicted
    assert same[radius.linf >= np.median(radius.linf)].all()
    assert (radius.l2 > 0).all()


def test_sums_of_random_features_are_certified_and_attacked():
    rng = np.random.default_rng(0)
    features = random_features(RBF(0.5), 3, 20, seed=1)
    model = Expansion(RandomExpansion(features, rng.normal(size=(2, 20, 1)), np.array([0.1])))
    X = points(60, 3)
    predicted, radius = model.predict(X), certified_radius(model, X)
    assert (radius.l2 > 0).all()
    assert (radius.linf <= radius.l2).all()
    for norm, size in (("l2", radius.l2), ("linf", radius.linf)):
        for i in range(0, 60, 6):
            options = {"eps": 0.9999 * size[i], "norm": norm, "steps": 10, "restarts": 2, "random_state": 0}
            info = attacks.pgd(model, X[i : i + 1], predicted[i : i + 1], return_info=True, **options)[1]
            assert not info.success[0]
    nearest = attacks.carlini_wagner(model, X, predicted, random_state=0, return_info=True)[1]
    assert (nearest.distance >= radius.l2)[nearest.success].all()
    assert np.median(radius.l2 / nearest.distance) > 0.2


def test_a_single_wave_has_its_exact_slope():
    """Where its phase is pi/2 a cosine has its largest slope, |w|, and that is the bound."""
    features = random_features(RBF(0.5), 2, 1, seed=0)
    w, phase = (part.ravel() for part in features.waves(0))
    x = ((np.pi / 2 - phase[0]) * w / (w @ w))[None]
    model = Expansion(RandomExpansion(features, np.ones((1, 1, 1)), np.array([0.01])))
    exact = 0.01 / (features.amplitude * np.linalg.norm(w))
    assert certified_radius(model, x).l2[0] == pytest.approx(exact, rel=1e-6)


def test_no_rows_give_no_radii():
    X, y = moons(40)
    assert certified_radius(SVC().fit(X, y), np.empty((0, 2))).l2.shape == (0,)


@pytest.mark.parametrize(
    ("model", "X", "message"),
    [
        (SVC(kernel=Polynomial(5)), None, "No certified radius is known for Polynomial"),
        (SVC(kernel=Sigmoid()), None, "stationary kernel"),
        (SVC(kernel=Log(3)), None, "No certified radius is known for Log"),
        (GaussianNB(), None, "No certified radius is known for GaussianNB"),
        (SVC(), points(5, 3), "fitted on 2"),
        (SVC(), np.full((3, 2), np.nan), "NaN in column 0"),
    ],
    ids=lambda value: str(value) if not isinstance(value, np.ndarray) else "X",
)
def test_models_without_a_certificate_and_bad_rows_are_refused(model, X, message):
    rows, y = moons(40)
    with pytest.raises(ValueError, match=message):
        certified_radius(model.fit(rows, y), rows if X is None else X)


@pytest.mark.parametrize("ask", [certified_radius, lambda model, X: attacks.pgd(model, X, [0] * len(X), eps=0.1)])
def test_a_frame_of_another_width_is_told_which_columns(ask):
    X, y = moons(40)
    model = SVC().fit(pd.DataFrame({"width": X[:, 0], "height": X[:, 1]}), y)
    with pytest.raises(ValueError, match=r"fitted on 2. Give those columns. Missing: 'height'. Not known: 'a', 'b'."):
        ask(model, pd.DataFrame({"width": X[:, 0], "a": 0.0, "b": 0.0}))


def test_a_box_costs_little_more_than_none(monkeypatch):
    """Counted in rows for which a bound is asked; what holds without the box still holds in it."""
    X, y = breast_cancer()
    model = SVC(gamma=0.05).fit(X[:200], y[:200])
    asked = [0]
    holds = Leads.holds

    def counted(self, rival, Z, attacker, rows, eps):
        asked[0] += len(rows)
        return holds(self, rival, Z, attacker, rows, eps)

    monkeypatch.setattr(Leads, "holds", counted)
    free = certified_radius(model, X[200:220], norm="linf").linf
    alone, asked[0] = asked[0], 0
    boxed = certified_radius(model, X[200:220], norm="linf", bounds=(X.min(axis=0), X.max(axis=0))).linf
    assert asked[0] < 1.3 * alone
    assert (boxed >= 0.999 * free).all()


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), RandomForestClassifier(5), MLPClassifier((4,), max_iter=5),
                                   RidgeClassifier(), make_pipeline(StandardScaler(), RidgeClassifier())], ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_radius_is_of_one_label_so_models_of_several_are_refused(model, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3))
    Y = (X[:, :2] > 0).astype(int)
    fitted = clone(model).fit(X, Y)
    threat, frame = ThreatModel(numbers={0: 0.1}), pd.DataFrame(X, columns=list("abc"))
    for asked in (lambda: certified_radius(fitted, X), lambda: certified_within(fitted, X, eps=0.1),
                  lambda: certified_within(fitted, X, threat=threat),
                  lambda: attacks.exact(fitted, X, Y[:, 0], eps=0.1),
                  lambda: attacks.worst_case(fitted, X, Y[:, 0], eps=0.1),
                  lambda: write_evidence(fitted, frame, Y[:, 0], "y", tmp_path / "evidence")):
        with pytest.raises(ValueError, match="several labels a row"):
            asked()


@pytest.mark.parametrize("max_parts", [0, 100])
@pytest.mark.parametrize("unit", [1e-19, 1e-25])
def test_radii_in_small_units_end_where_an_input_of_another_class_is(unit, max_parts):
    X, y = moons(40)
    model = SVC(gamma=1.0).fit(X, y)
    rows, named = X[:4], model.predict(X[:4])
    other = np.array([np.abs(X[model.predict(X) != name] - row).max(axis=1).min() for row, name in zip(rows, named)])
    found = certified_radius(model, rows, norm="linf", scale=[unit, unit], max_parts=max_parts).linf
    assert (found * unit < other).all()
    np.testing.assert_allclose(found * unit, certified_radius(model, rows, norm="linf").linf, rtol=0.5)


@pytest.mark.parametrize("max_parts", [0, 50])
def test_nearly_constant_scores_are_not_called_constant(max_parts):
    X = np.random.default_rng(0).normal(size=(40, 2))
    flat = SVC(kernel="poly", degree=2, gamma=1e-25).fit(X, X[:, 0] > 0.5)
    far = np.full((1, 2), 1e30)
    assert flat.predict(far)[0] != flat.predict(X[:1])[0]
    assert certified_radius(flat, X[:1], max_parts=max_parts).linf[0] < 1e30
    slight = Expansion(KernelExpansion(Linear(), np.array([[1e-25]]), np.ones((1, 1)), np.array([-1.0])))
    assert certified_radius(slight, np.zeros((1, 1)), max_parts=max_parts).linf[0] == pytest.approx(1e25)
