"""Classifiers trained against perturbed inputs: kernel machines, and the linear free-range machine."""

from buttress.adversarial.kernel import AdversarialSVC
from buttress.adversarial.linear import AdversarialLinearSVC

__all__ = ["AdversarialLinearSVC", "AdversarialSVC"]
