"""Feature maps: short vectors whose inner products are, approximately, a kernel.

:class:`Nystroem` is the transformer for pipelines, :func:`nystroem` the map that it and the estimators use: its
features are exact at the landmarks and its models have smooth gradients.
:func:`random_features` draws waves from the spectrum of a stationary kernel. They need no data and no memory, but their
noise is added to the gradient of every model built on them (see :func:`gradient_noise`).

Examples
--------
>>> import numpy as np
>>> from buttress.features import landmarks, nystroem, random_features
>>> from buttress.kernels import RBF
>>> X = np.random.default_rng(0).normal(size=(50, 2))
>>> phi = nystroem(RBF(0.5), landmarks(X, 20, rng=np.random.RandomState(0)))
>>> phi(X).shape
(50, 20)
>>> waves = random_features(RBF(0.5), 2, 4096, seed=0)
>>> features = waves(X, 0)
>>> bool(np.abs(features @ features.T - RBF(0.5)(X, X)).max() < 0.1)
True
"""

from buttress.features.fourier import RandomExpansion, RandomFeatures, WavePoint, gradient_noise, random_features
from buttress.features.nystroem import Nystroem, NystroemMap, landmarks, nystroem
from buttress.features.spectral import STATIONARY, feature_radius, input_radius, spectrum_of

__all__ = [
    "Nystroem",
    "NystroemMap",
    "RandomExpansion",
    "RandomFeatures",
    "STATIONARY",
    "WavePoint",
    "feature_radius",
    "gradient_noise",
    "input_radius",
    "landmarks",
    "nystroem",
    "random_features",
    "spectrum_of",
]
