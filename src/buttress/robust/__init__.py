"""Learning from corrupted training data: subquantile kernel machines and the methods they are compared with."""

from buttress.robust.subquantile import KernelClassifier, KernelRegressor

__all__ = ["KernelClassifier", "KernelRegressor"]
