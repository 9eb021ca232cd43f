"""How much columns say the same: the target and the columns that say most of it, each pair by one number from 0 to 1.

It is the largest correlation that can be made of the two: of numbers the rank correlation of Spearman, with its sign;
of a category and a number the correlation ratio of the ranks; of two categories the first canonical correlation of
their indicators, Cramer's V where both have two values. Categories of few rows count together.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.shown import Associations
from buttress.audit.measuring.split_table import SplitTable


def _take(split: SplitTable, measured: Measured) -> Course:
    yield "associations of columns", 0.0
    table, places = split.table, split.train.places
    target: NDArray[Any] = table.target[places]
    first = of_categories(target.astype(str)) if split.classifies else of_numbers(target.astype(np.float64))
    bases = {name: of_numbers(column[places]) for name, column in table.numeric.items()}
    bases |= {name: of_categories(column[places]) for name, column in table.categorical.items()}
    with_target = {name: associated(first, basis) for name, basis in bases.items()}
    chosen = sorted(bases, key=lambda name: -with_target[name])[:12]  # beside the target
    all_of = [(first, not split.classifies), *((bases[name], name in table.numeric) for name in chosen)]
    values = [[associated(one, other) * (np.sign(one.T @ other).item() if numbers and too else 1.0)
               for other, too in all_of] for one, numbers in all_of]
    return Measured(associations=Associations([table.target_name, *chosen], values, len(places)))


def of_numbers(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the centred ranks (n, 1) of numbers, of length 1; missing ones in the middle."""
    known = ~np.isnan(column)
    ranks = np.zeros(len(column))
    ranks[known] = rankdata(column[known])
    ranks[known] -= ranks[known].mean() if known.any() else 0.0
    return ranks[:, None] / max(float(np.linalg.norm(ranks)), np.finfo(np.float64).tiny)


def of_categories(column: NDArray[Any]) -> NDArray[np.float64]:
    """Return an orthonormal basis (n, k) of what centred indicators of categories can say; k is 0 where they are one.
    """
    values, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
    # the indicator of one row fits anything
    codes = np.unique(np.where(counts >= 10, np.arange(len(values)), -1)[codes], return_inverse=True)[1]
    indicators = (codes[:, None] == np.arange(codes.max() + 1)).astype(np.float64)
    left, sizes, _ = np.linalg.svd(indicators - indicators.mean(axis=0), full_matrices=False)
    return np.asarray(left[:, sizes > 1e-9 * np.sqrt(len(column))])


def associated(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the largest correlation of combinations of two orthonormal bases, (n, k) and (n, l)."""
    between = one.T @ other
    return float(np.clip(np.linalg.norm(between, 2), 0.0, 1.0)) if between.size else 0.0


ASSOCIATIONS = Measurement("associations of columns", _take, Cost(0.03))
