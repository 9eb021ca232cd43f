"""Pictures of models, in scikit-learn's style: compute once, plot as often as needed, on axes of your own."""

from buttress.displays.boundary import CertifiedBoundaryDisplay
from buttress.displays.reliability import ReliabilityDisplay
from buttress.displays.robustness import RobustnessCurveDisplay
from buttress.displays.solving import ConvergenceDisplay, KernelWeightsDisplay

__all__ = ["CertifiedBoundaryDisplay", "ConvergenceDisplay", "KernelWeightsDisplay", "ReliabilityDisplay",
           "RobustnessCurveDisplay"]
