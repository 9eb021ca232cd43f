"""Inner products of sparse rows: of columns that few rows have, work only where two rows have an entry."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress._types import Rows

Numbers = Rows | slice
DENSE = 0.15  # columns, and whole matrices, with a larger share of non-zeros are faster as dense arrays


class SparseProducts:
    """x_i'x_j of the rows of X (n, d), CSR, in its precision.

    The columns that many rows have are multiplied as a dense array. For each other entry of x_i the list of its column
    is gone through, which holds the rows with an entry there: of text, where most words are rare, few.

    Attributes
    ----------
    meetings : float
        The multiplications of a product, in the mean: the dense columns, and those others in which both rows have an
        entry.
    """

    def __init__(self, X: csr_matrix):
        often = np.bincount(X.indices, minlength=X.shape[1]) > DENSE * X.shape[0]
        self.dense = X[:, often].toarray()
        self.X = X[:, ~often]
        self.lists = self.X.tocsc()
        lengths = np.diff(self.lists.indptr).astype(np.float64)
        self.meetings = self.dense.shape[1] + float(lengths @ lengths) / max(1, X.shape[0]) ** 2

    def __call__(self, rows: Numbers, columns: Numbers) -> Array:
        """Return the products of these rows with those rows, (len(rows), number of columns)."""
        if isinstance(columns, slice):
            lists = self.lists
            start = columns.indices(self.X.shape[0])[0]
        else:
            lists = self.X[columns].tocsc()
            start = 0
        out: Array = self.dense[rows] @ self.dense[columns].T
        X = self.X
        numbers = np.arange(X.shape[0])[rows]
        _add_products(X.indptr, X.indices, X.data, numbers, lists.indptr, lists.indices, lists.data, start, out)
        return out

    def cost(self, height: int, width: int) -> float:
        """Return how many multiplications the products of so many rows with so many take, in the mean."""
        return height * width * self.meetings


@compile_kernel(
    [f"void({2 * 'int32[::1], '}{real}[::1], int64[::1], {2 * 'int32[::1], '}{real}[::1], int64, {real}[:,::1])"
     for real in ("float32", "float64")]
)
def _add_products(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], data: Array, rows: NDArray[np.intp],
    list_starts: NDArray[np.int32], list_rows: NDArray[np.int32], list_data: Array, start: int, out: Array,
) -> None:
    """Add to out_ij the product of row rows[i] of a CSR matrix with row start + j of that given by its columns."""
    base = np.uint64(start)  # places are unsigned, as in ``compiled.py``
    stop = start + out.shape[1]
    for i in range(rows.size):
        total = out[i]
        for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
            value = data[entry]
            first = list_starts[indices[entry]]
            last = list_starts[indices[entry] + 1]
            end = last
            while start > 0 and first < end:  # search by halves for the first row to add to
                middle = (first + end) // 2
                if list_rows[middle] < start:
                    first = middle + 1
                else:
                    end = middle
            for place in range(np.uint64(first), np.uint64(last)):
                row = list_rows[place]
                if row >= stop:
                    break
                total[np.uint64(row) - base] += value * list_data[place]
