"""Estimators for training data that may be corrupt: risks that trim, and fits that find the bad rows by themselves."""

from buttress.robust.concentration import RobustKernelClassifier
from buttress.robust.mixture import RobustKernelRegressor
from buttress.robust.mm import RobustLinearRegressor
from buttress.robust.report import OutlierDisplay, outlier_report
from buttress.robust.subquantile import KernelClassifier, KernelRegressor

__all__ = [
    "KernelClassifier",
    "KernelRegressor",
    "OutlierDisplay",
    "RobustKernelClassifier",
    "RobustKernelRegressor",
    "RobustLinearRegressor",
    "outlier_report",
]
