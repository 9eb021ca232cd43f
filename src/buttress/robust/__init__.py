"""Learning from corrupted training data: subquantile kernel machines and the methods they are compared with."""

from buttress.robust.likelihood import TrimmedLikelihoodClassifier, TrimmedLikelihoodRegressor
from buttress.robust.linear import CRR, STIR
from buttress.robust.scoring import bounded_loss, bounded_loss_scorer
from buttress.robust.sever import SeverClassifier, SeverRegressor
from buttress.robust.subquantile import KernelClassifier, KernelRegressor

__all__ = ["CRR", "STIR", "KernelClassifier", "KernelRegressor", "SeverClassifier", "SeverRegressor",
           "TrimmedLikelihoodClassifier", "TrimmedLikelihoodRegressor", "bounded_loss", "bounded_loss_scorer"]
