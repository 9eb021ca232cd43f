"""Certificates: for each row a radius inside which no perturbation, found or not, changes the prediction.

Every row gets the best of several bounds on how far its lead over each rival can fall: by the norm, the value and the
gradient in the kernel's space (``norm_bound``), by lines below every kernel value (``relaxation``), by a Taylor series
(``second_order``), and with ``max_parts`` by halving the region until all is proven (``branch``), by parabolas too.

Examples
--------
>>> import numpy as np
>>> from buttress import SVC, certificates
>>> X, y = np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([0, 1])
>>> radius = certificates.certified_radius(SVC(kernel="linear").fit(X, y), X)
>>> radius.l2.round(6), radius.linf.round(6)
(array([1., 1.]), array([1., 1.]))
"""

from buttress.certificates.inputs import CertifiedRadius, certified_radius, certified_within
from buttress.certificates.training.changed_rows import TrainingInterval, training_moves, training_removals
from buttress.certificates.training.conclusions import TrainingConclusions, training_conclusions
from buttress.certificates.training.flips import TrainingFlips, training_flips
from buttress.certificates.training.together import TrainingAccuracy, training_accuracy

__all__ = [
    "CertifiedRadius",
    "TrainingAccuracy",
    "TrainingConclusions",
    "TrainingFlips",
    "TrainingInterval",
    "certified_radius",
    "certified_within",
    "training_accuracy",
    "training_conclusions",
    "training_flips",
    "training_moves",
    "training_removals",
]
