"""Our models as estimators of the Adversarial Robustness Toolbox (ART), so that its whole suite runs on them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress._types import BoundsLike, Rows, VectorLike
from buttress.attacks.targets import Target, as_target
from buttress.scores import Scorable, as_classifier


def to_art(model: Scorable, clip_values: BoundsLike | None = None) -> Any:
    """Return a fitted classifier as an ART classifier with class gradients and loss gradients.

    Its prediction for class c is by how much c beats its best rival, so the largest wins and no score saturates; the
    loss is the negative margin of the label. (A vote of pairs may go to a class that lost one of its pairs; ART then
    sees the class whose worst pair is least bad.)

    Parameters
    ----------
    model : fitted classifier
        Anything the attacks here take.
    clip_values : (low, high) or None
        Box that ART's attacks keep to.

    Returns
    -------
    An instance of ``art.estimators.classification.ClassifierMixin``, ``ClassGradientsMixin``, ``LossGradientsMixin``.

    Raises
    ------
    ImportError
        Where ART is not installed.
    ValueError
        For a model that gives labels only.
    """
    try:
        from art.estimators.classification.classifier import ClassifierClassLossGradients
    except ImportError as error:
        raise ImportError(f"to_art needs ART. Install it with: pip install buttress[art] ({error})") from None

    return _margin_classifier(ClassifierClassLossGradients)(as_classifier(model), clip_values)


def _margin_classifier(base: Any) -> Any:
    """Return the adapter's class, derived from ART's."""

    class MarginClassifier(base):
        """Predicts margins."""

        estimator_params = base.estimator_params

        def __init__(self, model: Scorable, clip_values: BoundsLike | None):
            super().__init__(model=model, clip_values=clip_values)
            self.margins = Margins(as_target(model))
            self.nb_classes = len(self.margins.target.contrasts)
            self._input_shape = (int(self.model.n_features_in_),)

        @property
        def input_shape(self) -> tuple[int, ...]:
            return self._input_shape

        def fit(self, x: Any, y: VectorLike, **options: Any) -> None:
            raise NotImplementedError("Fit the model before to_art(model).")

        def predict(self, x: Any, **options: Any) -> Any:
            return self.margins.leads(np.asarray(x, dtype=np.float64)).min(axis=2).astype(np.float32)

        def class_gradient(self, x: Any, label: Any = None, **options: Any) -> Any:
            x = np.asarray(x, dtype=np.float64)
            every = [self.margins.gradient(x, np.full(len(x), c)) for c in range(self.nb_classes)]
            gradients = np.stack(every, axis=1).astype(np.float32)
            if label is None:
                return gradients
            return gradients[np.arange(len(x)), np.broadcast_to(label, len(x))][:, None]

        def loss_gradient(self, x: Any, y: VectorLike, **options: Any) -> Any:
            y = np.asarray(y)
            codes = y.argmax(axis=1) if y.ndim == 2 else y
            return -self.margins.gradient(np.asarray(x, dtype=np.float64), codes).astype(np.float32)

    return MarginClassifier


@dataclass
class Margins:
    """By how much each class beats its rivals, and the gradients of the least of that."""

    target: Target

    def leads(self, X: Array) -> Array:
        """Return by how much every class beats each of its rivals, (n, C, C - 1)."""
        return np.einsum("crk,ik->icr", self.target.contrasts, self.target.scores(X))

    def gradient(self, X: Array, codes: Rows) -> Array:
        """Return the gradients (n, d) of the leads of the classes ``codes`` over their best rivals."""
        rivals = self.leads(X).argmin(axis=2)[np.arange(len(X)), codes]
        return self.target.linearise(X)[1](self.target.contrasts[codes, rivals])
