"""The code that runs on devices gives on torch what it gives on numpy; torch's own CPU stands for any device."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, AdversarialSVC, attacks
from buttress._arrays import Place, namespace, to_numpy
from buttress.kernels import RBF, Cauchy, Combination, Linear
from buttress.kernels.points import centred

from problems import KERNELS, iris, moons, points

if "BUTTRESS_REQUIRE_ENGINES" in os.environ:
    import torch  # noqa: F401  (absent: a failure, not a skip)
else:
    pytest.importorskip("torch", reason="torch is not installed: pip install buttress[torch]")

QUIET = pytest.mark.filterwarnings("ignore::buttress.FeatureNoiseWarning")
# relative accuracy asked of each precision
PRECISIONS = {"float64": 1e-10, "float32": 1e-5}
precisions = pytest.mark.parametrize("dtype", PRECISIONS)
PLAIN = [kernel for kernel in KERNELS if not isinstance(kernel, Combination)]


def close(there, here, dtype, scale=None):
    """Compare with the accuracy of the precision, relative to the largest entry (or ``scale``)."""
    there, here = to_numpy(there), np.asarray(here)
    scale = np.abs(here).max() if scale is None else scale
    np.testing.assert_allclose(there, here, rtol=0, atol=PRECISIONS[dtype] * scale)


@precisions
@pytest.mark.parametrize("kernel", PLAIN, ids=lambda kernel: type(kernel).__name__)
def test_kernel_values_gradients_and_steps_agree(kernel, dtype):
    X, Z, V = points(15, 4), points(9, 4, seed=1), points(15, 9, seed=2)
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
    "carlini_wagner tanh": (attacks.carlini_wagner, {"steps": 20, "rounds": 3, "random_state": 0, "variable": "tanh"}),
    "zoo": (attacks.zoo, {"steps": 10, "rounds": 2, "coordinates": 2, "random_state": 0}),
    "worst_case": (attacks.worst_case, {"eps": 0.2, "norm": "l2", "steps": 5, "restarts": 1, "random_state": 0}),
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("problem", [moons, iris], ids=["two-classes", "three-classes"])
def test_attacks_move_rows_alike_on_a_device(problem, model, name):
    """In float64 the walk itself agrees, step by step."""
    X, y = problem()
    X, y = X[::4], y[::4]
    model, (attack, options) = model.fit(X, y), ATTACKS[name]
    options = {"bounds": (X.min(axis=0), X.max(axis=0)), "return_info": True, **options}
    here, ours = attack(model, X, y, **options)
    there, theirs = attack(model, X, y, device="cpu", **options)
    np.testing.assert_array_equal(theirs.success, ours.success)
    moved = np.abs(here - X).max()
    unlike = np.abs(there - here).max(axis=1) > 1e-10 * max(1.0, moved)
    assert unlike.mean() <= 0.1
    np.testing.assert_allclose(theirs.margin[~unlike], ours.margin[~unlike], atol=1e-9)
    assert moved > 0.01
