"""The code that runs on devices gives on torch what it gives on numpy; torch's own CPU stands for any device."""

import os
import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, SVR, AdversarialSVC, CertifiedSVC, StochasticAdvSVM, attacks
from buttress._arrays import Place, namespace, to_numpy
from buttress.features import RandomExpansion, nystroem, random_features
from buttress.kernels import RBF, Cauchy, Combination, Polynomial, Stretched
from buttress.kernels.points import centred

from problems import KERNELS, iris, moons, points

if "BUTTRESS_REQUIRE_ENGINES" in os.environ:
    import torch  # absent: a failure, not a skip
else:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install buttress[torch]")

QUIET = pytest.mark.filterwarnings("ignore::buttress.FeatureNoiseWarning")
# relative accuracy asked of each precision
PRECISIONS = {"float64": 1e-10, "float32": 1e-5}
precisions = pytest.mark.parametrize("dtype", PRECISIONS)
PLAIN = [kernel for kernel in KERNELS if not isinstance(kernel, Combination | Stretched)]


def close(there, here, dtype, scale=None):
    """Compare with the accuracy of the precision, relative to the largest entry (or ``scale``)."""
    there, here = to_numpy(there), np.asarray(here)
    scale = np.abs(here).max() if scale is None else scale
    np.testing.assert_allclose(there, here, rtol=0, atol=PRECISIONS[dtype] * scale)


@precisions
@pytest.mark.parametrize("same", [[], [0, 2]], ids=["columns-vary", "two-columns-do-not"])
@pytest.mark.parametrize("kernel", PLAIN, ids=lambda kernel: type(kernel).__name__)
def test_kernel_values_gradients_and_steps_agree(kernel, same, dtype):
    X, Z, V = points(15, 4), points(9, 4, seed=1), points(15, 9, seed=2)
    Z[:, same] = Z[0, same]
    rows, columns = np.array([3, 0]), np.array([[1, 2, 3], [0, 1, 3]])
    steps = np.array([0.3, -0.2, 0.1, 0.5])[columns]
    place = Place("cpu", dtype)
    assert namespace(place(X)).__name__ == "torch"
    here, there = centred(kernel, Z)(X), centred(kernel, place(Z))(place(X))
    close(there.values, kernel(X, Z), dtype)
    close(there.gradient(place(V)), kernel.gradient(X, Z, V), dtype)
    close(there.nudged(*map(place, (rows, columns, steps, V[rows]))), here.nudged(rows, columns, steps, V[rows]), dtype,
          scale=np.abs(V).sum(axis=1).max() * np.abs(here.values).max())


MODELS = [SVC(gamma=0.5), SVC(kernel="poly", degree=2, coef0=1.0), SVC(kernel="cauchy", gamma=0.3),
          make_pipeline(StandardScaler(), SVC(gamma=0.3)), LogisticRegression()]
ATTACKS = {
    "fgsm": (attacks.fgsm, {"eps": 0.2}),
    "fgsm l2": (attacks.fgsm, {"eps": 0.2, "norm": "l2"}),
    "pgd": (attacks.pgd, {"eps": 0.2, "steps": 5, "restarts": 2, "random_state": 0}),
    "pgd l2": (attacks.pgd, {"eps": 0.2, "norm": "l2", "steps": 5, "restarts": 2, "random_state": 0}),
    "carlini_wagner": (attacks.carlini_wagner, {"steps": 20, "rounds": 3, "random_state": 0}),
    "zoo": (attacks.zoo, {"steps": 10, "rounds": 2, "coordinates": 2, "random_state": 0}),
    "worst_case": (attacks.worst_case, {"eps": 0.2, "norm": "l2", "steps": 5, "restarts": 1, "random_state": 0}),
}


# the members of worst_case are compared on every model by themselves
PAIRS = [(model, name) for model in MODELS for name in ATTACKS if name != "worst_case" or model in MODELS[:1]]


@pytest.mark.parametrize(("model", "name"), PAIRS, ids=[f"{type(model).__name__}-{name}" for model, name in PAIRS])
@pytest.mark.parametrize("problem", [moons, iris], ids=["two-classes", "three-classes"])
def test_attacks_move_rows_alike_on_a_device(problem, model, name):
    """In float64 the walk itself agrees, step by step, for every row.

    The rows are not those of training: a support vector that is free against two classes leads both by exactly 1, and
    rounding alone decides which of them an attack on it goes for.
    """
    X, y = problem()
    model, (attack, options) = model.fit(X[::4], y[::4]), ATTACKS[name]
    X, y = X[2::4], y[2::4]
    options = {"bounds": (X.min(axis=0), X.max(axis=0)), "return_info": True, **options}
    here, ours = attack(model, X, y, **options)
    there, theirs = attack(model, X, y, device="cpu", **options)
    assert there.dtype == np.float64
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(theirs.success, ours.success)
    np.testing.assert_allclose(theirs.margin, ours.margin, rtol=0, atol=1e-10)
    assert np.abs(here - X).max() > 0.01


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_single_precision_is_kept_and_judged_in_double(device, norm):
    X, y = iris()
    model = SVC(gamma=0.5).fit(X, y)
    options = {"eps": 0.2, "norm": norm, "bounds": (-4, 4), "return_info": True}
    exact = attacks.fgsm(model, X, y, **options)[0]
    found, info = attacks.fgsm(model, X.astype(np.float32), y, device=device, **options)
    assert found.dtype == np.float32
    assert (np.abs(found - exact).max(axis=1) < 1e-4).mean() > 0.9  # nearly equal rivals may swap
    np.testing.assert_array_equal(info.success, model.predict(found) != y)
    scores = model.decision_function(found)
    np.testing.assert_array_equal(info.margin < 0, scores.argmax(axis=1) != y)


@precisions
def test_random_features_and_their_models_agree(dtype):
    X, V = points(30, 4), points(30, 2, seed=4)
    features = random_features(Cauchy(0.6), 4, 40, seed=0)
    expansion = RandomExpansion(features, points(80, 2, seed=3).reshape(2, 40, 2), np.array([0.1, -0.2]))
    place = Place("cpu", dtype)
    there = expansion.moved(place)
    scale = np.abs(expansion.coef).sum()
    close(features(place(X), 1), features(X, 1), dtype, scale=10)
    close(there(place(X)), expansion(X), dtype, scale=scale)
    close(there.gradient(place(X), place(V)), expansion.gradient(X, V), dtype, scale=10 * scale)


@precisions
def test_nystroem_features_agree(dtype):
    X, Z = points(30, 4), points(12, 4, seed=1)
    phi = nystroem(RBF(0.2), Z)
    there = phi.moved(Place("cpu", dtype))
    close(there(Place("cpu", dtype)(X)), phi(X), dtype, scale=np.abs(phi.root).max())


@QUIET
@pytest.mark.parametrize("problem", [moons, iris], ids=["two-classes", "three-classes"])
@pytest.mark.parametrize(
    ("machine", "parameters", "accuracy"),
    [
        (StochasticAdvSVM, {"n_features": 64, "batch_size": 20, "n_passes": 2}, 1e-5),
        (StochasticAdvSVM, {"n_features": None, "batch_size": 20, "n_passes": 2}, 1e-10),
        (CertifiedSVC, {"max_iter": 20, "n_landmarks": 30}, 1e-6),
        (CertifiedSVC, {"max_iter": 20, "n_landmarks": 30, "norm": "l2"}, 1e-6),
        # its steps follow signs: rounding is amplified a little
        (AdversarialSVC, {"max_iter": 30, "n_landmarks": 30}, 1e-6),
        (AdversarialSVC, {"max_iter": 30, "n_landmarks": 30, "norm": "l2", "kernel": Polynomial(2, 0.5, 1.0)}, 1e-6),
    ],
    ids=["dsg", "sgd", "certified", "certified-l2", "input", "input-poly"],
)
def test_training_on_a_device_gives_the_same_model(problem, machine, parameters, accuracy):
    X, y = problem()
    settings = {"C": 5.0, "eps": 0.05, "gamma": 0.5, "random_state": 0, **parameters}
    here = machine(**settings).fit(X, y)
    there = machine(device="cpu", **settings).fit(X, y)
    scores = here.decision_function(X)
    np.testing.assert_allclose(there.decision_function(X), scores, atol=accuracy * np.abs(scores).max())
    assert type(there.expansion_.coef) is np.ndarray


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
@pytest.mark.parametrize("problem", [moons, iris], ids=["two classes", "three"])
def test_a_machine_fitted_and_asked_on_a_device_is_the_same(problem, kernel):
    X, y = problem()
    settings = {"kernel": kernel, "gamma": 0.5, "coef0": 1.0}
    here = SVC(**settings).fit(X, y)
    there = SVC(device="cpu", **settings).fit(X, y)
    np.testing.assert_array_equal(there.predict(X), here.predict(X))
    np.testing.assert_allclose(there.decision_function(X), here.decision_function(X), atol=1e-8)
    # one is lowered by the rounding that is proven, the other as computed
    np.testing.assert_allclose(there.dual_objective_, here.dual_objective_, rtol=1e-8)
    assert type(there.expansion_.coef) is np.ndarray


def test_a_regressor_fitted_and_asked_on_a_device_is_the_same():
    X, _ = moons()
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    here = SVR(C=10.0, gamma=0.5).fit(X, y)
    there = SVR(C=10.0, gamma=0.5, device="cpu").fit(X, y)
    np.testing.assert_allclose(there.predict(X), here.predict(X), atol=1e-8)
    # one is lowered by the rounding that is proven, the other as computed
    np.testing.assert_allclose(there.dual_objective_, here.dual_objective_, rtol=1e-8)
    np.testing.assert_allclose(there.set_params(device=None).predict(X), here.predict(X), atol=1e-8)
    with pytest.raises(ValueError, match="device must be None or one"):
        SVR(device="gpu").fit(X, y)


def test_a_spectrum_is_changed_here_and_rows_in_reverse_are_asked_there():
    X, y = moons()
    settings = {"kernel": "sigmoid", "gamma": 0.5, "indefinite": "clip"}
    there = SVC(device="cpu", **settings).fit(X, y)
    here = SVC(**settings).fit(X, y)
    np.testing.assert_allclose(there.decision_function(X[::-1]), here.decision_function(X)[::-1], atol=1e-8)


def test_single_precision_rows_on_a_device_meet_the_tolerance():
    X, y = moons(2300)
    X = X.astype(np.float32) + 50  # far from 0: rows are centred before they are rounded
    there = SVC(device="cpu", C=10.0, gamma=0.5, tol=1e-4).fit(X, y)
    assert there.converged_
    here = SVC(C=10.0, gamma=0.5, tol=1e-4).fit(X, y)
    assert there.dual_objective_ == pytest.approx(here.dual_objective_, rel=1e-4)
    scores = there.decision_function(X[:300])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, here.decision_function(X[:300]), atol=5e-3)


def test_a_model_of_random_features_is_attacked_on_a_device():
    X, y = moons(60)
    model = StochasticAdvSVM(C=5.0, eps=0, gamma=0.5, n_features=256, batch_size=20, random_state=0).fit(X, y)
    here, there = (attacks.pgd(model, X, y, eps=0.2, steps=5, device=device) for device in (None, "cpu"))
    np.testing.assert_allclose(there, here, atol=1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: attacks.pgd(RandomForestClassifier(3).fit(X, y), X, y, eps=0.1, device="cpu"), "scores itself"),
        (lambda X, y: attacks.pgd(SVC().fit(X, y), X, y, eps=0.1, device="gpu"), "device must be None or one"),
        (lambda X, y: attacks.pgd(SVC().fit(X, y), X, y, eps=0.1, device=3.5), "device must be None or one"),
        (lambda X, y: attacks.pgd(SVC(kernel=Combination([RBF(1.0)])).fit(X, y), X, y, eps=0.1, device="cpu"),
         "a distance or an inner product"),
        (lambda X, y: AdversarialSVC(device="meta:").fit(X, y), "device must be None or one"),
        (lambda X, y: StochasticAdvSVM(device="meta:").fit(X, y), "device must be None or one"),
        (lambda X, y: SVC(device="gpu").fit(X, y), "device must be None or one"),
        (lambda X, y: SVC(device="cpu").fit(csr_matrix(X), y), "dense rows"),
        (lambda X, y: SVC(device="cpu", kernel=Combination([RBF(1.0)])).fit(X, y), "a distance or an inner product"),
        (lambda X, y: SVC(device="cpu", kernel="precomputed").fit(X @ X.T, y), "a distance or an inner product"),
    ],
    ids=["forest", "unknown", "number", "kernel", "estimator", "exact", "svc", "sparse", "sum", "given"],
)
def test_devices_that_cannot_be_used_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(*moons(30))


def test_a_device_without_double_precision_is_refused(monkeypatch):
    zeros = torch.zeros

    def single_only(*shape, device, dtype=torch.float32):  # as on an Apple GPU
        if dtype == torch.float64:
            raise TypeError("Cannot convert a tensor to float64 dtype.")
        return zeros(*shape, dtype=dtype)

    monkeypatch.setattr(torch, "zeros", single_only)
    with pytest.raises(ValueError, match=r"device must be None or one .* float64"):
        attacks.fgsm(SVC(kernel="linear").fit(*moons(30)), *moons(30), eps=0.1, device="mps")


def test_missing_torch_is_named_with_the_extra(monkeypatch):
    X, y = moons(30)
    model = SVC(kernel="linear").fit(X, y)
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it now fails
    attacks.fgsm(model, X, y, eps=0.1)
    with pytest.raises(ImportError, match=r"pip install buttress\[torch\]"):
        attacks.fgsm(model, X, y, eps=0.1, device="cpu")
