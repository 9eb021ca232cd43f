"""Certified radii of data made to break them: the search in its short form, and what it found."""

import numpy as np
import pytest
from hostile_radii import broken, search

from buttress import SVC, certificates, kernels


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_no_point_within_a_radius_of_hostile_data_is_predicted_otherwise(seed):
    counts, false = search(seed, 3_000, 12)
    assert false == []
    assert len([kind for kind, tried in counts.items() if tried]) >= 5


KERNELS = {
    "linear": lambda gamma: kernels.Linear(), "rbf": kernels.RBF, "cauchy": kernels.Cauchy,
    "imq": lambda gamma: kernels.InverseMultiquadric(1 / gamma), "log": lambda gamma: kernels.Log(2.0, gamma),
    "laplacian": kernels.Laplacian, "cubes": lambda gamma: kernels.Polynomial(3, gamma, 1.0),
    "sum": lambda gamma: kernels.Combination([kernels.RBF(gamma), kernels.Linear()], [1.0, 1.0])}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.filterwarnings("ignore")
def test_norms_that_cancel_certify_nothing_false(name):
    """Rows that are nearly equal, with different labels: coefficients of 1e6 leave a lead of 1 whose norm is lost."""
    tried = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(15, 3))
        X = np.vstack([X, X + 10.0 ** rng.uniform(-9, -3) * rng.normal(size=X.shape)])
        kernel = KERNELS[name](10.0 ** rng.uniform(-2, 0.5))
        model = SVC(kernel=kernel, C=10.0 ** rng.uniform(2, 8), max_iter=2000).fit(X, np.repeat([0, 1], 15))
        rows = np.vstack([X[:4] * 1e-6, X[:4], X[:3] + 2])
        for norm in ("l2", "linf"):
            found = getattr(certificates.certified_radius(model, rows, norm=norm), norm)
            for row, radius in zip(rows, found, strict=True):
                if 0 < radius < 1e300:
                    points, wrong = broken(rng, model, row, float(radius), norm, None, 60)
                    tried += points
                    assert wrong == 0, (seed, norm, radius)
    assert tried > 1000
