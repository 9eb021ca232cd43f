"""Novelty detection by the smallest soft ball (SVDD), with one kernel or a learned mixture of several."""

from buttress.outlier.multiple import MultiKernelSVDD
from buttress.outlier.single import SVDD

__all__ = ["SVDD", "MultiKernelSVDD"]
