"""The objective of the feature-space defence, and rows with labels -1 and 1 to try it on."""

import numpy as np
import pytest

from problems import moons

QUIET = pytest.mark.filterwarnings("ignore::buttress.FeatureNoiseWarning")


def signed(n=60, noise=0.3, seed=0):
    X, y = moons(n, noise=noise, seed=seed)
    return X, 2.0 * y - 1


def value(K, y, w, b, C, radius):
    """The objective with C the weight of the sum."""
    f, norm = K @ w, np.sqrt(w @ K @ w)
    return 0.5 * norm**2 + C * np.maximum(0, 1 - y * (f + b) + radius * norm).sum()
