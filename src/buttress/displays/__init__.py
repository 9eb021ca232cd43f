"""Pictures of models, in scikit-learn's style: compute once, plot as often as needed, on axes of your own."""

from buttress.displays.fits import (
    ConvergenceDisplay,
    KernelWeightsDisplay,
    NovelColumnsDisplay,
    OutlierDisplay,
    ReliabilityDisplay,
)
from buttress.displays.robustness import CertifiedBoundaryDisplay, RobustnessCurveDisplay

__all__ = ["CertifiedBoundaryDisplay", "ConvergenceDisplay", "KernelWeightsDisplay",
           "NovelColumnsDisplay", "OutlierDisplay", "ReliabilityDisplay", "RobustnessCurveDisplay"]
