"""A graph written down node by node: kernels, expansions, sums of random features, and probabilities.

Those are the calibration of ``certainty/calibration.py``, whose functions have their reasons there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from buttress._arrays import place_of
from buttress._checks import Array
from buttress._predicting import dense
from buttress._types import Labels
from buttress.certainty.calibration import EDGE, Calibration
from buttress.expansion import KernelExpansion, pairs_of
from buttress.features import RandomExpansion
from buttress.features.fourier import Scores
from buttress.gram.spectrum import SpectrumCorrected
from buttress.kernels import (
    RBF,
    Cauchy,
    Combination,
    InverseMultiquadric,
    Kernel,
    Laplacian,
    Linear,
    Log,
    MultiscaleRBF,
    Polynomial,
    Precomputed,
    Radial,
    Sigmoid,
    Stretched,
)
from buttress.outlier.kernel_values import of_one_width

NUMBERS = {np.dtype(np.float32): 1, np.dtype(np.int64): 7, np.dtype(np.float64): 11}  # TensorProto's, of each type


@dataclass(eq=False)
class GraphNodes:
    """Adds nodes and constants to skl2onnx's container; a value of the graph is known by its name.

    Parameters
    ----------
    scope, container
        As skl2onnx hands them to a converter.
    """

    scope: Any
    container: Any

    def constant(self, values: ArrayLike) -> str:
        """Add an array of doubles, or of whole numbers, and return its name."""
        array = np.asarray(values)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        name: str = self.scope.get_unique_variable_name("constant")
        self.container.add_initializer(name, NUMBERS[array.dtype], list(array.shape), array.ravel().tolist())
        return name

    def __call__(self, kind: str, *inputs: ArrayLike, output: str | None = None, **attributes: Any) -> str:
        """Add a node that takes values of the graph by name, or constants, and return the name of its output."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        made: str = self.scope.get_unique_variable_name(kind.lower()) if output is None else output
        operator = self.scope.get_unique_operator_name(kind)
        # of every node here: later versions of these nodes mean the same
        self.container.add_node(kind, names, [made], op_version=13, name=operator, **attributes)
        return made

    def cast(self, name: str, dtype: DTypeLike, output: str | None = None) -> str:
        """Return the value in another type."""
        return self("Cast", name, output=output, to=NUMBERS[np.dtype(dtype)])

    def labels(self, index: str, classes: Labels, output: str) -> None:
        """Put out the classes at the numbers in ``index`` (n,): whole numbers as int64, all others as strings."""
        whole = classes.dtype.kind in "iub"
        table: ArrayLike = classes.astype(np.int64) if whole else self.scope.get_unique_variable_name("classes")
        if not whole:
            # 8 is TensorProto's number of texts
            self.container.add_initializer(table, 8, [len(classes)], [str(name).encode() for name in classes])
        self("Gather", table, index, output=output, axis=0)


# the values of each kernel from squared distances, of the radial ones, or from inner products
PROFILES: dict[type[Kernel], Callable[[GraphNodes, Any, str], str]] = {
    RBF: lambda add, kernel, r2: add("Exp", add("Mul", r2, -float(kernel.gamma))),
    MultiscaleRBF: lambda add, kernel, r2: add(
        "Div", add("Sum", *[add("Exp", add("Mul", r2, -float(gamma))) for gamma in kernel.gammas]),
        float(len(kernel.gammas))),
    Laplacian: lambda add, kernel, r2: add("Exp", add("Mul", add("Sqrt", r2), -float(kernel.gamma))),
    InverseMultiquadric: lambda add, kernel, r2: add(
        "Div", 1.0, add("Sqrt", add("Add", r2, float(kernel.offset) ** 2))),
    Log: lambda add, kernel, r2: add("Neg", add("Log", add(
        "Add", add("Pow", add("Mul", r2, float(kernel.gamma)), float(kernel.degree) / 2), 1.0))),
    Cauchy: lambda add, kernel, r2: add("Div", 1.0, add("Add", add("Mul", r2, float(kernel.gamma)), 1.0)),
    Linear: lambda add, kernel, inner: add("Add", inner, float(kernel.coef0)),
    Polynomial: lambda add, kernel, inner: add("Pow", _affine(add, kernel, inner), float(kernel.degree)),
    Sigmoid: lambda add, kernel, inner: add("Tanh", _affine(add, kernel, inner)),
}


def _affine(add: GraphNodes, kernel: Polynomial | Sigmoid, inner: str) -> str:
    return add("Add", add("Mul", inner, float(kernel.gamma)), float(kernel.coef0))


def profile_of(kernel: Kernel) -> Callable[[GraphNodes, Any, str], str]:
    """Return the function of ``PROFILES`` for a kernel; NotImplementedError for one without a graph."""
    if type(kernel) not in PROFILES:
        known = ", ".join(sorted(kind.__name__ for kind in PROFILES))
        raise NotImplementedError(
            f"{type(kernel).__name__} has no ONNX graph. Kernels that have one: {known}, their Combination, Stretched, "
            "Precomputed, and corrected by indefinite='clip' or 'flip'. Fit the model with one of these.")
    return PROFILES[type(kernel)]


def add_kernel(add: GraphNodes, kernel: Kernel, X: str, Z: Array) -> str:
    """Add k(x_i, z_j), (n, m), for rows X (n, d) of the graph and fixed rows Z (m, d)."""
    if isinstance(kernel, Combination):
        terms = [add("Mul", add_kernel(add, part, X, Z), weight) for part, weight in kernel._terms()]
        return add("Sum", *terms)
    if isinstance(kernel, Stretched):
        scales = np.asarray(kernel.scales, dtype=np.float64)
        return add_kernel(add, kernel.kernel, add("Mul", X, scales), Z * scales)
    if isinstance(kernel, Precomputed):
        return add("Gather", X, Z[:, 0].astype(np.int64), axis=1)
    if type(kernel) is SpectrumCorrected and kernel.known is None:
        added = add("MatMul", add_kernel(add, kernel.kernel, X, kernel.landmarks), kernel.vectors)
        fixed = kernel.kernel(Z, kernel.landmarks) @ kernel.vectors
        return add("Add", add_kernel(add, kernel.kernel, X, Z), add("MatMul", added, fixed.T))
    profile = profile_of(kernel)
    argument = _squared_distances(add, X, Z) if isinstance(kernel, Radial) else add("MatMul", X, Z.T)
    return profile(add, kernel, argument)


def add_diagonal(add: GraphNodes, kernel: Kernel, X: str) -> str:
    """Add k(x_i, x_i), (n, 1)."""
    if isinstance(kernel, Combination):
        return add("Sum", *[add("Mul", add_diagonal(add, part, X), weight) for part, weight in kernel._terms()])
    if isinstance(kernel, Stretched):
        return add_diagonal(add, kernel.kernel, add("Mul", X, np.asarray(kernel.scales, dtype=np.float64)))
    if type(kernel) is SpectrumCorrected and kernel.known is None:
        added = add("MatMul", add_kernel(add, kernel.kernel, X, kernel.landmarks), kernel.vectors)
        return add("Add", add_diagonal(add, kernel.kernel, X), _sum(add, add("Mul", added, added)))
    squares = _sum(add, add("Mul", X, X))
    return profile_of(kernel)(add, kernel, add("Mul", squares, 0.0) if isinstance(kernel, Radial) else squares)


def _squared_distances(add: GraphNodes, X: str, Z: Array) -> str:
    """Add |x_i - z_j|^2, measured from the middle of the fixed rows, where rounding is least."""
    middle = Z.mean(axis=0)
    moved = add("Sub", X, middle)
    fixed = Z - middle
    squares = add("Add", _sum(add, add("Mul", moved, moved)), np.sum(fixed**2, axis=1)[None, :])
    return add("Max", add("Sub", squares, add("Mul", add("MatMul", moved, fixed.T), 2.0)), 0.0)


def add_scores(add: GraphNodes, scores: Scores, X: str) -> str:
    """Add the scores, (n, k), of a kernel expansion or of a sum of random features."""
    if isinstance(scores, RandomExpansion):
        return _waves(add, scores, X)
    total = _by_kernel(add, scores, X)
    return total if scores.linear is None else add("Add", total, add("MatMul", X, scores.linear))


def _by_kernel(add: GraphNodes, scores: KernelExpansion, X: str) -> str:
    Z = np.asarray(dense(scores.centers), dtype=np.float64)
    coef = np.asarray(scores.coef, dtype=np.float64)
    if type(scores.kernel) is Linear:  # one matrix in place of a row a centre
        shift = scores.intercept + scores.kernel.coef0 * coef.sum(axis=0)
        return add("Add", add("MatMul", X, Z.T @ coef), shift)
    return add("Add", add("MatMul", add_kernel(add, scores.kernel, X, Z), coef), np.asarray(scores.intercept))


def add_logs(add: GraphNodes, scores: KernelExpansion, X: str) -> str:
    """Add log sum_i a_i k(x_i, x), (n, 1), of kernels that have logarithms, with no exponential on the way."""
    Z = np.asarray(dense(scores.centers), dtype=np.float64)
    weights = np.log(np.asarray(scores.coef, dtype=np.float64)).T
    r2 = _squared_distances(add, X, Z)
    terms = [add("Add", _logarithm(add, part, r2), weights + np.log(weight))
             for part, weight in of_one_width(scores.kernel)]
    joined = terms[0] if len(terms) == 1 else add("Concat", *terms, axis=1)
    largest = add("ArgMax", joined, axis=1, keepdims=1)  # x less its log-softmax: the same in every column, but rounded
    return add("Sub", add("GatherElements", joined, largest, axis=1),
               add("GatherElements", add("LogSoftmax", joined, axis=1), largest, axis=1))


def _logarithm(add: GraphNodes, kernel: Kernel, r2: str) -> str:
    if isinstance(kernel, RBF):
        return add("Mul", r2, -float(kernel.gamma))
    if isinstance(kernel, Laplacian):
        return add("Mul", add("Sqrt", r2), -float(kernel.gamma))
    return add("Log", profile_of(kernel)(add, kernel, r2))


def _waves(add: GraphNodes, scores: RandomExpansion, X: str) -> str:
    """Add a sum of cosines, block by block; cos(p) is sin(p + pi/2), which runtimes have in double precision."""
    features = scores.features
    place = place_of(np.empty((0, features.width)))
    total = add("Add", add("Mul", _sum(add, X), 0.0), np.asarray(scores.intercept, dtype=np.float64)[None, :])
    for block, coef in enumerate(scores.coef):
        frequencies, phases = features.waves(block, place)
        turned = add("Add", add("MatMul", X, frequencies), np.asarray(phases) + np.pi / 2)
        weights = features.scale * np.asarray(coef, dtype=np.float64)
        total = add("Add", total, add("MatMul", add("Sin", turned), weights))
    return total


def add_probabilities(add: GraphNodes, calibration: Calibration, scores: str, winner: str) -> str:
    """Add the probabilities (n, C) of scores (n, k), of which that of the class number ``winner`` (n,) is the largest.

    Where float32 cannot tell it from the next, they are equal.
    """
    z = add("Add", add("Mul", scores, calibration.slope), calibration.shift)
    if calibration.n_classes == 2:
        p = add("Concat", add("Sigmoid", add("Neg", z)), add("Sigmoid", z), axis=1)
    elif calibration.pairs:
        p = _coupled(add, add("Sigmoid", z), calibration.n_classes)
    else:
        p = add("Softmax", z, axis=1)
    least = calibration.least
    return _leading(add, add("Add", add("Mul", p, 1 - least * calibration.n_classes), least), winner,
                    calibration.n_classes)


def _coupled(add: GraphNodes, r: str, C: int) -> str:
    """Add the coupled probabilities, (n, C), of those of pairs.

    The minimum over the simplex is, up to its sum, the solution of (Q + 1 1') p = 1, whose matrix is positive definite:
    Gauss and Jordan need no pivots.
    """
    first, second = np.transpose(pairs_of(C))
    pairs = np.arange(len(first))
    won, lost = np.zeros((2, len(first), C * C))
    won[pairs, first * C + second] = 1.0
    lost[pairs, second * C + first] = 1.0
    r = add("Max", add("Min", r, 1 - EDGE), EDGE)
    flat = add("Add", add("MatMul", r, won), add("MatMul", add("Sub", 1.0, r), lost))
    beats = add("Reshape", flat, np.array([-1, C, C]))
    crossed = add("Mul", beats, add("Transpose", beats, perm=[0, 2, 1]))
    squares = add("ReduceSum", add("Mul", beats, beats), np.array([1]), keepdims=1)
    Q = add("Add", add("Sub", add("Mul", squares, np.eye(C)), crossed), 1.0)
    ones = add("Add", add("Mul", add("Transpose", squares, perm=[0, 2, 1]), 0.0), 1.0)
    system = add("Concat", Q, ones, axis=2)
    for c, unit in enumerate(np.eye(C)[:, :, None]):
        at = np.array([c])
        row = add("Gather", system, at, axis=1)
        pivoted = add("Div", row, add("Gather", row, at, axis=2))
        column = add("Sub", add("Gather", system, at, axis=2), unit)
        system = add("Sub", system, add("Mul", column, pivoted))
    p = add("Max", add("Squeeze", add("Gather", system, np.array([C]), axis=2), np.array([2])), 0.0)
    return add("Div", p, _sum(add, p))


def _leading(add: GraphNodes, p: str, winner: str, C: int) -> str:
    """Add the probabilities after the winner was put first: it and all above its level share their mean."""
    own = add.cast(add("Equal", add("Unsqueeze", winner, np.array([1])), np.arange(C)[None, :]), np.float64)
    other = add("Sub", 1.0, own)
    below = add.cast(add("Less", add("Unsqueeze", p, np.array([1])), add("Unsqueeze", p, np.array([2]))), np.float64)
    above = add("Mul", add("Sub", 1.0, below), add("Unsqueeze", other, np.array([1])))  # which others, for each bound
    total = add("Add", _sum(add, add("Mul", above, add("Unsqueeze", p, np.array([1]))), 2),
                add("Unsqueeze", _sum(add, add("Mul", own, p)), np.array([1])))
    means = add("Div", total, add("Add", _sum(add, above, 2), 1.0))
    level = add("Max", *[add("Gather", add("Squeeze", means, np.array([2])), np.array([c]), axis=1) for c in range(C)])
    return add("Add", add("Mul", own, level), add("Mul", other, add("Min", p, level)))


def _sum(add: GraphNodes, values: str, axis: int = 1) -> str:
    return add("ReduceSum", values, np.array([axis]), keepdims=1)
