"""Attacks: inputs within a small distance of given ones that a classifier gets wrong.

Each takes a fitted classifier, rows X (n, d) and their labels y, and returns perturbed rows of the same shape, the
worst it found; ``return_info=True`` adds an :class:`AttackInfo`. It attacks the margin: by how much the label's score
beats its best rival. The margin does not go flat where a hinge loss or a saturated probability does.

Classifiers of this package and scikit-learn's support vector, linear and kernel ridge ones, alone or behind scalers or
Nystroem features, give exact gradients; any other with ``decision_function`` or ``predict_proba`` is differentiated by
central differences, 2 d queries a gradient. A model that gives labels only is refused:
without scores, an attack that fails is no evidence of robustness.

Examples
--------
>>> import numpy as np
>>> from buttress import SVC, attacks
>>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
>>> model = SVC(kernel="linear").fit(X, y)
>>> attacks.fgsm(model, X, y, eps=0.25)
array([[-0.75],
       [ 0.75]])
"""

from buttress.attacks.art import to_art
from buttress.attacks.ensemble import worst_case
from buttress.attacks.gradient import fgsm, pgd
from buttress.attacks.nearest import carlini_wagner, zoo
from buttress.attacks.poisoning import Poisoned, poison_labels, poison_rows, poison_targets
from buttress.attacks.problem import AttackInfo
from buttress.attacks.scoring import AttackedAccuracy, tuned
from buttress.attacks.settling.attack import ExactInfo, exact
from buttress.attacks.swaps import swaps

__all__ = [
    "AttackInfo", "AttackedAccuracy", "ExactInfo", "Poisoned", "carlini_wagner", "exact", "fgsm", "pgd",
    "poison_labels", "poison_rows", "poison_targets", "swaps", "to_art", "tuned", "worst_case", "zoo",
]
