"""ONNX graphs, run by onnxruntime, say what our models say."""

import numpy as np
import pandas as pd
import polars
import pytest
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from buttress import (
    CRR,
    STIR,
    SVC,
    SVDD,
    SVR,
    AdversarialSVC,
    BatchedRidge,
    BatchedRidgeClassifier,
    FreeRangeSVC,
    KernelClassifier,
    KernelRegressor,
    LeastSquaresClassifier,
    LinearSVC,
    LinearSVR,
    MultiKernelSVDD,
    NuSVC,
    NuSVR,
    OneClassSVM,
    RobustKernelClassifier,
    RobustKernelRegressor,
    RobustLinearRegressor,
    SeverClassifier,
    SeverRegressor,
    StochasticAdvSVM,
    TrimmedLikelihoodClassifier,
    TrimmedLikelihoodRegressor,
    to_onnx,
)
from buttress.certainty.calibration import coupled
from buttress.kernels import RBF, Combination, Custom, Laplacian, Linear, MultiscaleRBF, Stretched

pytest.importorskip("skl2onnx")
runtime = pytest.importorskip("onnxruntime")

MOONS, SIDES = make_moons(80, noise=0.2, random_state=0)
FLOWERS, SPECIES = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
CURVE = np.sin(3 * MOONS[:, 0]) + MOONS[:, 1]
KERNELS = ["linear", "poly", "rbf", "laplacian", "sigmoid", "imq", "log", "cauchy", MultiscaleRBF(),
           Combination([RBF(0.5), Linear(1.0)], [0.3, 2.0]), Stretched(RBF(0.5), [1.5, 0.7])]
CLOSE = 1e-5

CLASSIFIERS = [
    SVC(),
    SVC(multi_class="ovr"),
    SVC(break_ties=True, decision_function_shape="ovr"),
    SVC(decision_function_shape="ovo"),
    NuSVC(nu=0.1),
    LinearSVC(),
    FreeRangeSVC(),
    AdversarialSVC(random_state=0, max_iter=50),
    StochasticAdvSVM(n_features=64, random_state=0),
    KernelClassifier(),
    RobustKernelClassifier(random_state=0),
    SeverClassifier(),
    LeastSquaresClassifier(),
    BatchedRidgeClassifier(),
]
REGRESSORS = [SVR(), BatchedRidge(), NuSVR(), LinearSVR(), KernelRegressor(), RobustKernelRegressor(random_state=0),
              RobustLinearRegressor(random_state=0),
              CRR(), STIR(), TrimmedLikelihoodRegressor(), SeverRegressor()]


def name_of(model):
    return str(model).replace("\n", "")


def run(graph, X):
    """The outputs by name; X may be a dict of inputs."""
    session = runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    fed = X if isinstance(X, dict) else {"X": X.astype(np.float32)}
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, fed)))


def single(X):
    """Rows that float32 holds exactly, so that both sides see the same."""
    return X.astype(np.float32).astype(np.float64)


def assert_same_scores(found, expected):
    expected = expected[:, None] if expected.ndim == 1 else expected
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)


def assert_same_classifier(model, X):
    found = run(to_onnx(model), X)
    decision = model.decision_function(X)
    assert_same_scores(found["scores"], decision)
    ordered = np.sort(decision, axis=1) if decision.ndim > 1 else np.abs(np.c_[decision * 0, decision])
    apart = ordered[:, -1] - ordered[:, -2] > CLOSE if decision.ndim > 1 else ordered[:, 1] > CLOSE
    assert apart.mean() > 0.9
    assert (found["label"] == model.predict(X).astype(found["label"].dtype))[apart].all()
    if not hasattr(model, "predict_proba"):
        return
    sure = run(to_onnx(model, probabilities=True), X)["probabilities"]
    np.testing.assert_allclose(sure[apart], model.predict_proba(X)[apart], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(sure.sum(axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_a_classifier_of_two_classes(model):
    assert_same_classifier(model.fit(MOONS, SIDES), single(MOONS + 0.1))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_a_classifier_of_three_named_classes(model):
    assert_same_classifier(model.fit(FLOWERS[::2], NAMES[::2]), single(FLOWERS + 0.05))


def test_a_classifier_of_two_classes_only():
    assert_same_classifier(TrimmedLikelihoodClassifier().fit(MOONS, SIDES), single(MOONS))


@pytest.mark.parametrize("model", REGRESSORS, ids=name_of)
def test_a_regressor(model):
    model.fit(MOONS, CURVE)
    X = single(MOONS + 0.1)
    assert_same_scores(run(to_onnx(model), X)["variable"], model.predict(X))


def test_counts_come_back_through_their_logarithm():
    counts = np.random.default_rng(0).poisson(np.exp(MOONS[:, 0]))
    model = TrimmedLikelihoodRegressor(family="poisson").fit(MOONS, counts)
    assert_same_scores(run(to_onnx(model), single(MOONS))["variable"], model.predict(single(MOONS)))


@pytest.mark.parametrize("kernel", KERNELS, ids=name_of)
@pytest.mark.parametrize("model", [SVC, SVDD])
@pytest.mark.filterwarnings("ignore")  # the sigmoid is indefinite
def test_every_kernel(model, kernel):
    fitted = model(kernel=kernel).fit(MOONS, SIDES)
    X = single(np.vstack([MOONS + 0.2, MOONS[:5]]))
    found = run(to_onnx(fitted), X)
    decision = fitted.decision_function(X)
    assert_same_scores(found["scores"], decision)
    apart = np.abs(decision) > CLOSE
    assert (found["label"].ravel() == fitted.predict(X))[apart].all()


def test_kernels_far_from_the_origin():
    far = MOONS + 1e4
    model = SVC(kernel=Laplacian(2.0)).fit(far, SIDES)
    assert_same_scores(run(to_onnx(model), far)["scores"], model.decision_function(single(far)))


@pytest.mark.parametrize("policy", ["clip", "flip"])
def test_corrected_kernels(policy):
    model = SVC(kernel="sigmoid", gamma=1.0, coef0=-1.0, indefinite=policy).fit(MOONS, SIDES)
    assert_same_classifier(model, single(MOONS + 0.1))


def test_a_gram_matrix_given_in_advance():
    model = SVC(kernel="precomputed").fit(RBF(1.0)(MOONS, MOONS), SIDES)
    assert_same_classifier(model, single(RBF(1.0)(MOONS + 0.1, MOONS)))


def test_a_mixture_of_kernels():
    model = MultiKernelSVDD([Linear(), RBF(1.0), Laplacian(1.0)]).fit(MOONS)
    X = single(MOONS + 0.3)
    found = run(to_onnx(model), X)
    assert_same_scores(found["scores"], model.decision_function(X))
    assert set(np.unique(found["label"])) == {-1, 1}


def test_rows_far_out_are_outside_of_a_mixture():
    model = MultiKernelSVDD([RBF(1.0), Laplacian(1.0)]).fit(MOONS)
    X = single(np.outer(10.0 ** np.arange(0, 20), [1.0, 1.0]))
    found = run(to_onnx(model), X)
    assert_same_scores(found["scores"], model.decision_function(X))
    assert (found["label"][:, 0] == model.predict(X)).all()


@pytest.mark.parametrize("model", [SVDD(), OneClassSVM(), MultiKernelSVDD([Linear(), RBF(1.0)])], ids=name_of)
def test_a_row_of_unknown_score_is_not_called_normal(model):
    found = run(to_onnx(model.fit(MOONS)), np.array([[np.nan, 0.0]]))
    assert found["label"] == -1
    assert np.isnan(found["scores"])


def test_a_pipeline_of_transformers():
    model = make_pipeline(StandardScaler(), PCA(3), SVC()).fit(FLOWERS, SPECIES)
    found = run(to_onnx(model, probabilities=True), FLOWERS)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(single(FLOWERS)), atol=1e-3)
    assert_same_scores(found["scores"], model.decision_function(single(FLOWERS)))
    assert (found["label"] == model.predict(single(FLOWERS))).mean() > 0.98


def test_a_pipeline_of_named_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": MOONS[:, 0], "b": MOONS[:, 1], "kind": np.where(MOONS[:, 0] > 0, "x", "z")})
    frame = frame.astype({"a": np.float32, "b": np.float32})
    columns = make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["kind"]))
    model = make_pipeline(columns, SVC()).fit(frame, SIDES)
    fed = {name: frame[[name]].to_numpy() for name in frame}
    fed["kind"] = fed["kind"].astype(str)
    assert_same_scores(run(to_onnx(model, frame), fed)["scores"], model.decision_function(frame))


def test_a_function_of_the_users_is_refused():
    model = SVC(kernel=Custom(lambda X, Z: X @ Z.T)).fit(MOONS, SIDES)
    with pytest.raises(NotImplementedError, match="Custom has no ONNX graph"):
        to_onnx(model)


def test_models_that_are_not_fitted_are_refused():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        to_onnx(SVC())


def test_one_class_machine_says_what_it_says_here():
    model = OneClassSVM(nu=0.2).fit(MOONS)
    rows = np.vstack([MOONS, MOONS + 1.0]).astype(np.float32)
    graph = runtime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    label, scores = graph.run(None, {"X": rows})
    np.testing.assert_allclose(scores[:, 0], model.decision_function(rows.astype(float)), atol=CLOSE)
    apart = np.abs(scores[:, 0]) > CLOSE
    np.testing.assert_array_equal(label[apart, 0], model.predict(rows.astype(float))[apart])


def test_frames_of_wide_numbers_pass_an_imputer():
    frame = pd.DataFrame(FLOWERS, columns=list("abcd"))
    frame.loc[3, "a"] = np.nan
    columns = make_column_transformer((make_pipeline(SimpleImputer(), StandardScaler()), list("abcd")))
    model = make_pipeline(columns, SVC()).fit(frame, SPECIES)
    graph = runtime.InferenceSession(to_onnx(model, frame).SerializeToString(), providers=["CPUExecutionProvider"])
    label, _ = graph.run(None, {name: frame[[name]].to_numpy(dtype=np.float32) for name in "abcd"})
    np.testing.assert_array_equal(label, model.predict(frame))


def test_probabilities_of_ten_classes_of_which_the_voted_one_leads():
    """Rows on which the most votes and the largest coupled probability are not the same class are among them."""
    X, y = load_digits(return_X_y=True)
    model = SVC(C=0.05, gamma=0.001).fit(X[::3], y[::3])
    found = run(to_onnx(model, probabilities=True), X)["probabilities"]
    calibration = model._calibrated()
    z = calibration.logits(model._scores_of(X)[0])
    moved = np.mean(coupled(expit(z), 10).argmax(axis=1) != np.searchsorted(model.classes_, model.predict(X)))
    assert moved > 0.001
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("model", [SVR(), SeverClassifier()], ids=name_of)
def test_probabilities_that_there_are_not_are_refused(model):
    with pytest.raises(ValueError, match="probabilities=True needs a classifier"):
        to_onnx(model.fit(MOONS, SIDES), probabilities=True)


@pytest.mark.parametrize("model", [SVC(), SVR(), SVDD()], ids=name_of)
@pytest.mark.parametrize("names", [["a", "b", "c"], [0, 1, 2]], ids=str)
def test_a_model_of_a_frame_alone(model, names):
    """Of the inputs, one a column, only the first was read: wrong scores, and no word of it."""
    frame = pd.DataFrame(np.c_[single(MOONS), MOONS[:, 0] > 0], columns=names)
    model.fit(frame, SIDES)
    graph = to_onnx(model, frame)
    fed = {given.name: frame[[name]].to_numpy(np.float32) for given, name in zip(graph.graph.input, names)}
    scores = model.predict if isinstance(model, SVR) else model.decision_function
    assert_same_scores(run(graph, fed)["variable" if isinstance(model, SVR) else "scores"], scores(frame))


def test_frames_of_polars():
    frame = polars.DataFrame(FLOWERS, schema=list("abcd"))
    model = make_pipeline(SimpleImputer(), SVC()).fit(frame, SPECIES)
    found = run(to_onnx(model, frame), {name: frame[[name]].to_numpy().astype(np.float32) for name in "abcd"})
    np.testing.assert_array_equal(found["label"], model.predict(frame))
