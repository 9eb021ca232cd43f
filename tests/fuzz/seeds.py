"""Small fitted models whose files are changed, each with rows to predict."""

import warnings

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.isotonic import IsotonicRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

import buttress


def fitted():
    """Return (model, rows) of each kind; the same every time."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    words = np.array(["a wall", "a buttress", "one wall more"] * 25, dtype=object)
    levels = np.column_stack([X[:, 0], y, np.array(y) % 2])
    stochastic = buttress.StochasticLinearSVC(random_state=0)
    models = [
        (buttress.SVC(), X, y), (buttress.SVC(kernel="poly"), csr_matrix(X), y), (buttress.SVR(), X, X[:, 0]),
        (buttress.LinearSVC(), X, y), (buttress.SVDD(), X, None),
        (buttress.MultiKernelSVDD(["linear", "rbf"]), X, None),
        (buttress.AdversarialSVC(max_iter=3, random_state=np.random.RandomState(0)), X, y),
        (buttress.StochasticAdvSVM(n_features=16, random_state=0), X, y),
        (buttress.KernelClassifier(), X, y), (buttress.KernelRegressor(), X, X[:, 0]),
        (buttress.RobustKernelClassifier(random_state=0), X, y),
        (buttress.RobustLinearRegressor(random_state=0), X, X[:, 0]),
        (make_pipeline(StandardScaler(), SplineTransformer(), buttress.SVC()), X, y),
        (make_pipeline(OneHotEncoder(handle_unknown="ignore"), buttress.LinearSVC()), levels, y),
        (make_pipeline(TfidfVectorizer(), buttress.SVC()), words, y),
        (HistGradientBoostingClassifier(max_iter=3, categorical_features=[1]), levels, y),
        (IsotonicRegression(), X[:, 0], X[:, 1]),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [(model.fit(rows, target), rows[:5]) for model, rows, target in models]
        found.append((stochastic.partial_fit(X, y, classes=[0, 1, 2]), X[:5]))
    return found
