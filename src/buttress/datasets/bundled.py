"""The sets that come with scikit-learn, by name, with their classes' names for labels."""

from typing import Any

from sklearn import datasets

from buttress._checks import check_option

BUNDLED = {
    "breast_cancer": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
}


def load_bundled(name: str) -> tuple[Any, Any, list[str], str]:
    """Return (X, y, feature names, target name) of a bundled set; class targets are given by name.

    Examples
    --------
    >>> from buttress.datasets import load_bundled
    >>> X, y, features, target = load_bundled("iris")
    >>> X.shape, features[0], str(y[0])
    ((150, 4), 'sepal length (cm)', 'setosa')
    """
    bunch = BUNDLED[check_option("name", name, tuple(BUNDLED))]()
    y = bunch.target
    if "target_names" in bunch:
        y = bunch.target_names[y]
    return bunch.data, y, [str(feature) for feature in bunch.feature_names], "target"
