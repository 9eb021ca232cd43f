"""Estimators for training data that may be corrupt: risks that trim, and fits that find the bad rows by themselves."""

from buttress.robust.kernel_classifier import RobustKernelClassifier
from buttress.robust.kernel_regressor import RobustKernelRegressor
from buttress.robust.laws import LabelsJudged, TargetsJudged, label_law, residual_law
from buttress.robust.linear_regressor import RobustLinearRegressor
from buttress.robust.published.likelihood import TrimmedLikelihoodClassifier, TrimmedLikelihoodRegressor
from buttress.robust.published.linear import CRR, STIR
from buttress.robust.published.sever import SeverClassifier, SeverRegressor
from buttress.robust.published.under_risk import KernelClassifier, KernelRegressor
from buttress.robust.report import outlier_report

__all__ = [
    "CRR",
    "STIR",
    "KernelClassifier",
    "KernelRegressor",
    "LabelsJudged",
    "RobustKernelClassifier",
    "RobustKernelRegressor",
    "RobustLinearRegressor",
    "SeverClassifier",
    "SeverRegressor",
    "TargetsJudged",
    "TrimmedLikelihoodClassifier",
    "TrimmedLikelihoodRegressor",
    "label_law",
    "outlier_report",
    "residual_law",
]
