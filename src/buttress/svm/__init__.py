"""Exact kernel support vector machines: classifiers, regressors, and the classifier's path over C."""

from buttress.svm.classifier import SVC, svc_path
from buttress.svm.nu import NuSVC, NuSVR
from buttress.svm.one_class import OneClassSVM
from buttress.svm.regressor import SVR

__all__ = ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "svc_path"]
