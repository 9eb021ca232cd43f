"""The order of work of one pass over the join tree: blocks of rows, and products of two lists.

A child whose keys are unique is folded into its parent's rows (its score is added exactly, nothing is rounded there),
so that only the edges that fan out carry lists. A block with several lists to consult gets them multiplied first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from buttress._checks import Array
from buttress.relational.plan.plan import Index, Plan

BlockPart = tuple[int, Index | None]  # node number, its row for each row of the block (None: the same row)


@dataclass
class Block:
    """Rows whose scores are added up from ``parts`` and that consult the lists in ``lists`` at the given keys.

    ``start`` says where each key's rows begin (a root has one key); rows are sorted by key.
    """

    parts: list[BlockPart]
    start: Index
    lists: list[tuple[int, Index]] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        return int(self.start[-1])

    def order(self) -> Index:
        """Return the root's rows sorted by the lists they consult, the last one first.

        Rows that consult the same list then follow each other, which finds it in the processor's cache.
        """
        return np.lexsort([key for _, key in self.lists]) if self.lists else np.arange(self.n_rows)

    def part(self, rows: Index) -> "Block":
        """Return some of the root's rows."""
        parts: list[BlockPart] = [(node, rows if at is None else at[rows]) for node, at in self.parts]
        return Block(parts, np.array([0, len(rows)]), [(op, key[rows]) for op, key in self.lists])


@dataclass
class MinkowskiSum:
    """List p is the Minkowski sum of list ``keys[0][p]`` of operation ``left`` and ``keys[1][p]`` of ``right``."""

    left: int
    right: int
    keys: tuple[Index, Index]


Operation = Block | MinkowskiSum


def multiplied(
    lists: list[tuple[int, Index]], most: int, first: int
) -> tuple[list[MinkowskiSum], list[tuple[int, Index]]]:
    """Return the products that leave rows at most ``most`` lists to consult, numbered from ``first``, and these."""
    products: list[MinkowskiSum] = []
    while len(lists) > most:
        (left, a), (right, b), *rest = sorted(lists, key=lambda item: int(item[1].max(initial=0)))
        width = int(b.max(initial=0)) + 1
        pairs, place = np.unique(a * width + b, return_inverse=True)
        products.append(MinkowskiSum(left, right, (pairs // width, pairs % width)))
        lists = [*rest, (first + len(products) - 1, place.reshape(-1))]
    return products, lists


def is_exact(plan: Plan, child: int) -> bool:
    """Return whether each key of the node has one row, so that it folds into its parent."""
    return plan.nodes[child].n_rows == plan.nodes[child].n_keys


def schedule(plan: Plan, *, products: bool = True, fold: bool = True) -> tuple[list[Operation], Block]:
    """Return the operations for a plan, each after those it consults, and the block of the root's rows after all.

    With ``products`` rows consult one list at most, else those of all children.
    """
    operations: list[Operation] = []

    def gather(i: int) -> tuple[list[BlockPart], list[tuple[int, Index]]]:
        parts: list[BlockPart] = [(i, None)]
        lists: list[tuple[int, Index]] = []
        for child, key in plan.nodes[i].down.items():
            below, consulted = gather(child)
            if fold and is_exact(plan, child):
                parts += [(node, key if rows is None else rows[key]) for node, rows in below]
                lists += [(op, keys[key]) for op, keys in consulted]
            else:
                node = plan.nodes[child]
                start = np.searchsorted(node.key, np.arange(node.n_keys + 1))
                operations.append(multiply(below, consulted, start))
                lists.append((len(operations) - 1, key))
        return parts, lists

    def multiply(parts: list[BlockPart], lists: list[tuple[int, Index]], start: Index) -> Block:
        made, lists = multiplied(lists, 1 if products else len(lists), len(operations))
        operations.extend(made)
        return Block(parts, start, lists)

    root = multiply(*gather(0), np.array([0, plan.nodes[0].n_rows]))
    return operations, root


def blocks_of(operations: Sequence[Operation]) -> list[Block]:
    """Return the blocks of rows among operations."""
    return [operation for operation in operations if isinstance(operation, Block)]


def node_scores(plan: Plan, beta: Array) -> list[Array]:
    """Return s_i(t) = beta_i . X_i[t] of every node's rows."""
    scores = [np.asarray(table.X @ beta[part]) for table, part in zip(plan.tables, plan.slices)]
    return [sum((scores[t][rows] for t, rows in node.members), np.zeros(node.n_rows)) for node in plan.nodes]
