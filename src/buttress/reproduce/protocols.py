"""What the experiments ask of a fitted model."""

from typing import Any, Protocol

from numpy.typing import NDArray

from buttress._checks import Array


class Predictor(Protocol):
    """A fitted classifier or regressor."""

    def predict(self, X: Array, /) -> NDArray[Any]: ...
