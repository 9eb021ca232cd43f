"""Novelty detection by the smallest soft ball: support vector data description, with one kernel or a learned mixture."""

from buttress.outlier.multiple import MultiKernelSVDD
from buttress.outlier.single import SVDD

__all__ = ["SVDD", "MultiKernelSVDD"]
