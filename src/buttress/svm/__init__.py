"""Exact kernel support vector machines: a classifier, a regressor and the classifier's path over C."""

from buttress.svm.classifier import SVC, svc_path
from buttress.svm.regressor import SVR

__all__ = ["SVC", "SVR", "svc_path"]
