"""Classifiers trained against perturbed inputs: a machine an objective, and the one that chooses between them."""

from buttress.adversarial.boosting import RobustBoostingClassifier, RobustBoostingRegressor
from buttress.adversarial.certified import CertifiedSVC
from buttress.adversarial.chooser import AdversarialClassifier
from buttress.adversarial.feature_ball import AdvSVM
from buttress.adversarial.linear import AdversarialLinearSVC, FreeRangeSVC
from buttress.adversarial.moved_inputs import AdversarialSVC
from buttress.adversarial.stochastic import StochasticAdvSVM

__all__ = [
    "AdvSVM", "AdversarialClassifier", "AdversarialLinearSVC", "AdversarialSVC", "CertifiedSVC", "FreeRangeSVC",
    "RobustBoostingClassifier", "RobustBoostingRegressor", "StochasticAdvSVM",
]
