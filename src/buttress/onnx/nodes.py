"""A graph written down node by node, in double precision."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from buttress._types import Labels

OPSET = 13  # of every node here; later versions of these nodes mean the same
NUMBERS = {np.dtype(np.float32): 1, np.dtype(np.int64): 7, np.dtype(np.float64): 11}  # TensorProto's, of each type
STRING = 8


class Nodes:
    """Adds nodes and constants to skl2onnx's container; a value of the graph is known by its name.

    Parameters
    ----------
    scope, container
        As skl2onnx hands them to a converter.
    """

    def __init__(self, scope: Any, container: Any):
        self.scope = scope
        self.container = container

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
        self.container.add_node(kind, names, [made], op_version=OPSET, name=operator, **attributes)
        return made

    def cast(self, name: str, dtype: DTypeLike, output: str | None = None) -> str:
        """Return the value in another type."""
        return self("Cast", name, output=output, to=NUMBERS[np.dtype(dtype)])

    def single(self, name: str, output: str) -> None:
        """Put the value out as float32."""
        self.cast(name, np.float32, output)

    def labels(self, index: str, classes: Labels, output: str) -> None:
        """Put out the classes at the numbers in ``index`` (n,): whole numbers as int64, all others as strings."""
        if classes.dtype.kind in "iub":
            self("Gather", classes.astype(np.int64), index, output=output, axis=0)
            return
        table: str = self.scope.get_unique_variable_name("classes")
        self.container.add_initializer(table, STRING, [len(classes)], [str(name).encode() for name in classes])
        self("Gather", table, index, output=output, axis=0)
