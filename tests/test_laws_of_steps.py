"""What moved rows become step by step, and what rounding adds: each law of ``enclosures`` worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

from buttress._proof import UNIT, sum_error
from buttress.certificates import pipelines, trees_and_pipelines
from buttress.certificates.enclosures import LINES, UNDERFLOW, Enclosure, activated, affine, around, product, scaled
from buttress.certificates.pipelines import BoundedSteps, in_single, read_steps
from buttress.certificates.trees_and_pipelines import Chained

COARSE = 2.0**-6
ONE = sum_error(0, COARSE)


def near(number):
    return pytest.approx(number, rel=1e-12, abs=0)


def enclosed(centre, moves, slack, own=2, norm="l2"):
    return Enclosure(np.array([centre], float), np.array([moves], float), np.array([slack], float), own, norm, COARSE)


def first(parts):
    return [part[0].tolist() for part in parts]


Z = enclosed([1.0, -2.0], [[3.0, 0.0], [-4.0, 1.0], [2.0, -0.5]], [0.25, 0.0])  # 2 moves of the ball, and one more
RADIUS = np.array([5 + 2 + 0.25, 1 + 0.5]) * (1 + sum_error(3, COARSE))


def test_how_far_values_are_and_where_they_end():
    assert Z.radius[0].tolist() == near(RADIUS)
    assert enclosed([1.0, -2.0], Z.moves[0], Z.slack[0], norm="linf").radius[0, 0] == near(
        (3 + 4 + 2 + 0.25) * (1 + sum_error(3, COARSE)))
    assert enclosed([5.0], [[0.0]], [0.0], 1).radius[0, 0] == UNDERFLOW
    assert Z.size[0].tolist() == near([1, 2] + RADIUS)
    far = RADIUS + COARSE * ([1, 2] + RADIUS)
    assert first(Z.ends()) == [near([1, -2] - far), near([1, -2] + far)]
    assert [enclosed([5.0], [[m]], [s], 1).still for m, s in ((0, 0), (1, 0), (0, 1))] == [True, False, False]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_rows_move_in_their_ball_and_box(norm):
    X, free = np.array([[1.0, -2.0, 3.0]]), np.full((1, 3), np.inf)
    low, high = np.array([[0.5, -np.inf, 3.0]]), np.array([[9.0, -1.5, 3.0]])
    z = around(X, low, high, np.array([[1.0, 2.0, 4.0]]), norm, COARSE)
    centre, half = ([1.25, -2.75, 3.0], [0.75, 1.25, 0.0]) if norm == "linf" else ([1.0, -2.0, 3.0], [1.0, 2.0, 0.0])
    assert (z.centre[0].tolist(), z.moves[0].tolist()) == (centre, np.diag(half).tolist())
    slack = sum_error(0) * np.where(np.array(half) > 0, np.abs(centre) + np.array(half), 0)
    np.testing.assert_array_equal(z.slack[0], slack)
    assert (z.own, z.norm, z.unit) == (3, norm, COARSE)
    assert around(X, -free, free, np.zeros((1, 3)), norm, COARSE).still


def test_affine_maps_and_what_sums_over_columns_lose():
    A, b, shift = np.array([[2.0], [-3.0]]), np.array([0.5]), np.array([4.0, 1.0])
    z = affine(Z, A, b, shift)
    assert (z.centre[0, 0], z.moves[0, :, 0].tolist()) == (2 * -3 + -3 * -3 + 0.5, [6.0, -11.0, 5.5])
    sizes = 2 * (1 + RADIUS[0] + 4) + 3 * (2 + RADIUS[1] + 1) + 0.5
    assert z.slack[0, 0] == near(2 * 0.25 + 2 * sum_error(2, COARSE) * sizes)
    assert affine(enclosed([0.0], [[0.0]], [0.0], 1), np.ones((1, 1))).slack[0, 0] >= UNDERFLOW


def test_scaling_and_what_it_loses():
    a, b, shift = np.array([2.0, -3.0]), np.array([0.5, 0.0]), np.array([4.0, 1.0])
    z = scaled(Z, a, b, shift)
    assert (z.centre[0].tolist(), z.moves[0, :, 0].tolist()) == ([-5.5, 9.0], [6.0, -8.0, 4.0])
    lost = ONE * (np.array([1 + RADIUS[0] + 4, 2 + RADIUS[1] + 1]) * [2, 3] + b)
    assert z.slack[0].tolist() == near(np.array([0.25, 0]) * 2 * (1 + ONE) + lost)
    for moves, slack in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
        one = scaled(enclosed([5.0], [[moves]], [slack], 1), 1.0)
        size = 5 + float(enclosed([5.0], [[moves]], [slack], 1).radius[0, 0])
        assert one.slack[0, 0] == near(slack * (1 + ONE) + ONE * size)
    assert scaled(enclosed([0.0], [[0.0]], [0.0], 1), 1.0).slack[0, 0] >= UNDERFLOW


def test_products_and_what_is_not_linear_in_them():
    one, other = Z.of_columns(np.array([0])), Z.of_columns(np.array([1]))
    z = product(one, other)
    moves = np.array([0.0, 1.0, -0.5]) - 2 * np.array([3.0, -4.0, 2.0])
    assert (z.centre[0, 0], z.moves[0, :, 0].tolist()) == (-2.0, moves.tolist())
    kept = (2 * 0.25 + RADIUS[0] * RADIUS[1]) * (1 + ONE) + ONE * (1 + RADIUS[0]) * (2 + RADIUS[1])
    assert z.slack[0, 0] == near(kept)
    swapped = product(other, one)
    assert (swapped.slack[0, 0], swapped.moves[0].tolist()) == (near(kept), z.moves[0].tolist())
    assert product(*[enclosed([0.0], [[0.0]], [0.0], 1)] * 2).slack[0, 0] >= UNDERFLOW


@pytest.mark.parametrize(("low", "high"), [(-2.0, 1.0), (-1.0, 3.0), (0.5, 2.0), (-3.0, -0.25), (-0.125, 0.0)])
def test_lines_of_activations_are_as_near_as_two_ends_allow(low, high):
    t = np.append(np.linspace(low, high, 1001), np.clip(0, low, high))
    for name, value, slope_of in (("relu", lambda t: np.maximum(t, 0), None), ("tanh", np.tanh, lambda t: 1 - t**2),
                                  ("logistic", expit, lambda t: t * (1 - t))):
        slope, least, most = (float(part) for part in LINES[name](np.array(low), np.array(high)))
        apart = value(t) - slope * t
        assert (least, most) == (pytest.approx(apart.min(), abs=1e-12), pytest.approx(apart.max(), abs=1e-12))
        if slope_of is None:
            assert slope == min(max(high / (high - low), 0), 1)
        else:
            assert slope == min(slope_of(value(low)), slope_of(value(high))) - 16 * UNIT
    assert float(LINES["tanh"](np.array(-40.0), np.array(1.0))[0]) == 0


def test_an_activation_is_a_slope_a_move_of_its_own_and_what_rounding_adds():
    z = activated(Z, "tanh")
    low, high = (end[0] for end in Z.ends())
    slope, least, most = LINES["tanh"](low, high)
    np.testing.assert_allclose(z.centre[0], slope * [1, -2] + (least + most) / 2)
    np.testing.assert_allclose(z.moves[0], np.vstack([Z.moves[0] * slope, np.diag((most - least) / 2)]))
    np.testing.assert_allclose(z.slack[0], slope * [0.25, 0] + ONE * (1 + slope * ([1, 2] + RADIUS) + np.abs(least)
                                                                     + np.abs(most)), rtol=1e-12)
    dead = activated(enclosed([-9.0, 9.0], [[1.0, 1.0]], [0.0, 0.0], 1), "relu")
    assert dead.slack[0, 0] == 0 < dead.slack[0, 1]
    edge = Enclosure(np.array([[-1.0]]), np.zeros((1, 1, 1)), np.zeros((1, 1)), 1, "l2", 1.0)  # it ends at 0
    assert (edge.ends()[1][0, 0], activated(edge, "relu").slack[0, 0]) == (0.0, 0.0)
    assert activated(Z, "identity") is Z


RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3)) * [1.0, 5.0, 0.2] + [0.0, 20.0, -1.0]
Y = (X[:, 0] + X[:, 2] > -1).astype(int)
STEPS = [StandardScaler(), StandardScaler(with_mean=False), StandardScaler(with_std=False), RobustScaler(),
         RobustScaler(with_centering=False), RobustScaler(with_scaling=False), MaxAbsScaler(), MinMaxScaler(), PCA(2),
         PCA(2, whiten=True), TruncatedSVD(2), SelectKBest(k=2), SimpleImputer(),
         SimpleImputer(keep_empty_features=True), FunctionTransformer(), None,
         "passthrough", PolynomialFeatures(3), PolynomialFeatures(2, include_bias=False),
         make_pipeline(StandardScaler(), PCA(2)),
         ColumnTransformer([("b", PCA(1), [2, 0]), ("a", "drop", [0]), ("c", "passthrough", [1])])]


def widened(z):
    """The same with two more moves, of nothing."""
    return z.with_parts(z.centre, np.concatenate([z.moves, np.zeros((len(X), 2, z.centre.shape[1]))], axis=1), z.slack)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: " ".join(str(step).split())[:50])
def test_of_rows_that_stay_a_step_makes_what_the_model_makes_and_of_others_what_it_makes_of_them(step):
    fitted = step if step is None or isinstance(step, str) else step.fit(X, Y)
    made = X if fitted is step and not hasattr(step, "transform") else fitted.transform(X)
    bound, free, reach = pipelines._step(fitted), np.full(X.shape, np.inf), np.array([[0.1, 0.2, 0.0]])
    z = bound(widened(around(X, -free, free, 0 * reach, "linf", UNIT)))
    np.testing.assert_allclose(z.centre, made, rtol=1e-9, atol=1e-12)
    assert not z.moves.any()
    assert z.moves.shape == (30, 5, made.shape[1])
    low, high = bound(around(X, -free, free, reach, "linf", UNIT)).ends()
    for corner in ([1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]):
        moved = X + reach * corner
        at = moved if made is X else fitted.transform(moved)
        assert ((low <= at) & (at <= high)).all()


def test_what_is_not_known_is_asked_for_rows_that_stay_and_refused_for_others():
    free = np.full((30, 1), np.inf)
    levels = np.arange(30.0)[:, None] % 3
    encoder = OneHotEncoder().fit(levels)
    for known, step in ((False, encoder), (False, MinMaxScaler(clip=True).fit(X[:, :1])),
                        (False, SimpleImputer(missing_values=-1.0).fit(levels)),
                        (False, FunctionTransformer(np.abs)), (True, FunctionTransformer())):
        rows = X[:, :1] if isinstance(step, MinMaxScaler) else levels
        bound, still = pipelines._step(step), np.zeros((1, 1))
        made = bound(widened(around(rows, -free, free, still, "linf", UNIT)))
        expected = step.transform(rows)
        np.testing.assert_allclose(made.centre, expected.toarray() if step is encoder else expected)
        assert made.moves.shape == (30, 3, made.centre.shape[1])
        if not known:
            with pytest.raises(pipelines.UnknownStep, match="whose input moves"):
                bound(around(rows, -free, free, still + 0.1, "linf", UNIT))


def test_a_pipeline_is_read_to_its_last_step_and_one_model_alone_is_not():
    z = around(X, X, X, np.zeros((1, 3)), "linf", UNIT)
    for model in (make_pipeline(StandardScaler(), PCA(2), LogisticRegression()),
                  make_pipeline(PCA(2), SVC(kernel="linear")),
                  make_pipeline(make_pipeline(MinMaxScaler()), SVC(kernel="linear")),
                  make_pipeline(PCA(2), GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2))):
        steps = read_steps(model.fit(X, Y))
        scores, contrasts = steps.scores(steps.seen(z)).centre, steps.contrasts
        np.testing.assert_allclose(scores @ contrasts[1, 0], model.decision_function(X))
    kernel = read_steps(make_pipeline(PCA(2), SVC()).fit(X, Y))
    assert kernel.scores is None
    assert kernel.seen(z).centre.shape == (30, 2)
    assert read_steps(LogisticRegression().fit(X, Y)) is None


@pytest.mark.filterwarnings("ignore")
def test_a_network_is_read_layer_by_layer():
    z = around(X, X, X, np.zeros((1, 3)), "linf", UNIT)
    for layers, classes in (((4,), Y), ((4, 3), Y + (X[:, 1] > 20))):
        for activation in ("tanh", "relu"):
            network = MLPClassifier(layers, activation=activation, max_iter=5, random_state=0)
            model = make_pipeline(StandardScaler(), network).fit(X, classes)
            steps = read_steps(model)
            low, high = steps.scores(steps.seen(z)).ends()
            made = model.predict_proba(X)
            logits = np.log(made) if len(model.classes_) > 2 else (np.log(made[:, 1]) - np.log(made[:, 0]))[:, None]
            centre = steps.scores(steps.seen(z)).centre
            gap = logits - centre - (logits - centre)[:, :1] * (len(model.classes_) > 2)
            np.testing.assert_allclose(gap, 0, atol=1e-9)
            assert (high - low).max() < 1e-9
    inside = type("Inside", (), {"__module__": "buttress.some", "estimator_": model[-1]})()  # what chose the network
    assert read_steps(make_pipeline(model[0], inside)).scores is not None


def test_float32_is_found_in_any_step_also_of_columns():
    single = StandardScaler().fit(X.astype(np.float32))
    single.mean_ = single.mean_.astype(np.float32)
    double = StandardScaler().fit(X)
    columns = ColumnTransformer([("a", double, [0]), ("b", "passthrough", [1])])
    columns.transformers_ = [("a", double, [0]), ("b", "passthrough", [1])]
    inside = ColumnTransformer([])
    inside.transformers_ = [("a", single, [0]), ("b", "passthrough", [1])]
    last = LogisticRegression().fit(X, Y)
    for step, found in ((single, True), (double, False), (columns, False), (inside, True)):
        assert in_single(make_pipeline(step, last)) == found
    network = SimpleNamespace(coefs_=[np.ones(2), np.ones(2, np.float32)])
    assert in_single(make_pipeline(double, "passthrough", last)) is False
    assert in_single(network)


def of_scores(lead):
    """A model of two rows and two classes whose scores are 0 and ``lead``, known exactly."""
    def seen(z):
        return Enclosure(np.tile([0.0, lead], (2, 1)), np.zeros((2, 1, 2)), np.zeros((2, 2)), 1, "linf", 2.0**-40)

    contrasts = np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])
    model = Chained(BoundedSteps(seen, lambda z: z, None, contrasts), "float64", None)
    free = np.full((2, 3), np.inf)
    return model, model.within(np.zeros((2, 3)), np.ones((1, 3)), "linf", (-free, free))


@pytest.mark.parametrize(("lead", "stands"), [(1.0, True), (33.0 * 2**-40, True), (31.0 * 2**-40, False), (0.0, False)])
def test_scores_are_told_apart_by_32_units_of_rounding(lead, stands):
    assert of_scores(lead)[1].tolist() == [stands, stands]


def test_classes_are_those_of_rows_that_stay():
    assert of_scores(1.0)[0].classes(np.zeros((2, 3))).tolist() == [1, 1]
    assert of_scores(1.0)[0].classes(np.zeros((0, 3))).tolist() == []


def test_the_tie_of_large_scores_is_a_share_of_the_largest():
    unit = 2.0**-40

    def proven(lead):
        def seen(z):
            centre = np.array([[1000.0, 1000.0 - lead, 0.0]])
            return Enclosure(centre, np.zeros((1, 1, 3)), np.zeros((1, 3)), 1, "linf", unit)

        rivals = np.array([[[1.0, -1.0, 0.0]], [[-1.0, 1.0, 0.0]], [[-1.0, 0.0, 1.0]]])
        model = Chained(BoundedSteps(seen, lambda z: z, None, rivals), "float64", None)
        free = np.full((1, 2), np.inf)
        return bool(model.within(np.zeros((1, 2)), np.ones((1, 2)), "linf", (-free, free))[0])

    known = 2 * sum_error(3, unit) * 2000 + 32 * unit * 1001  # what the sum may be off, and the tie
    assert proven(1.01 * known)
    assert not proven(0.99 * known)


def test_radii_of_a_chain_are_found_to_a_ten_millionth_in_blocks(monkeypatch):
    rows = np.linspace(0.1, 70, 130)[:, None]
    model, asked = of_scores(1.0)[0], set()

    def stands(seen):
        asked.add(len(seen.centre))
        return (seen.moves[:, 0, 0] <= seen.centre[:, 0] - seen.slack[:, 0]) | (seen.centre[:, 0] > 69)

    object.__setattr__(model.steps, "seen", lambda z: z)
    monkeypatch.setattr(model, "_stands", stands)
    free = np.full((130, 1), np.inf)
    found = model.radius(rows[:128], np.full((1, 1), 2.0), "linf", (-free[:128], free[:128]))
    true = rows[:126, 0] / 2
    assert (found[:126] <= true).all()
    assert (found[:126] >= true * (1 - 1e-7)).all()
    assert np.isfinite(found).all()
    assert max(asked) == trees_and_pipelines.BLOCK
