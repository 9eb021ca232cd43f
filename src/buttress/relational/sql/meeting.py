"""A pass as SQL that tells the bins near margin 1 apart, and only those: what a hinge needs to know of the join's rows.

Below its bend a hinge's slope is 1, above it is 0. So the root's rows need not meet every entry of their last child's
message: entries far below the bend are met in buckets of many bins, those above it not at all, and those near it one
by one. The sums are the same, and the pairs that are met grow with the rows, whatever the number of bins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress.relational.sql.text import SqlTree, keys_of, message, message_parts, own_weight, same


@dataclass(frozen=True)
class Window:
    """Bins ``low`` to ``high`` of rows of the first and of the second class, which are told apart; both of one width.

    Rows of lower bins are counted in bin ``low - 1``, those of higher ones are not counted.
    """

    low: tuple[int, int]
    high: tuple[int, int]

    @property
    def width(self) -> int:
        return self.high[0] - self.low[0]


def window_around(reach: float, step: float) -> Window:
    """Return the window of margins in [1 - reach, 1 + reach], and a bin more on both sides, on a grid of ``step``."""
    low = int(np.floor((1 - reach) / step)) - 1
    high = int(np.ceil((1 + reach) / step)) + 1
    return Window((-high, low), (-low, high))


def numbers(rows: Sequence[tuple[Any, ...]]) -> Array:
    """Return the rows of a SELECT as floats, 0 where it gives NULL."""
    return np.array([[float(value or 0) for value in row] for row in rows])


def completed(rows: Array, totals: Array, window: Window) -> Array:
    """Return the rows of :func:`meeting_pass` and, per class, one more of all that lie above the window.

    A row is (label side, bin, weight, sums); ``totals`` (2, ...) holds weight and sums of all rows of both classes.
    """
    above = [[side, window.high[side] + 1, *(totals[side] - rows[rows[:, 0] == side, 2:].sum(axis=0))]
             for side in range(2)]
    return np.vstack([rows, above])


def meeting_pass(tree: SqlTree, betas: Sequence[Array], offset: float, step: float, window: Window) -> str:
    """Return the SELECT of :func:`buttress.relational.sql.text.counting_pass` with the bins of a window alone.

    A bin may come twice. The root must have a child.
    """
    last = tree.nodes[tree.root].children[-1]
    keys = [f"k{a}" for a in tree.nodes[last].shared]
    sums = [f"SUM({name}) AS {name}" for name in ("c", *(f"g{j}" for j in range(len(tree.owners(last)))))]
    bucket = _bucket(tree, "bin", window)
    our = tree.prefix
    parts = [*message_parts(tree, betas, offset, step),
             f"{our}e{tree.root} AS ({_begun(tree, window)})",
             f"{our}b{last} AS (SELECT {', '.join([*keys, f'{bucket} AS v', *sums])} FROM {our}m{last} "
             f"GROUP BY {', '.join([*keys, bucket])})"]
    selects = [_far(tree, window), _near(tree, window)]
    if tree.nodes[last].optional:
        selects.append(_unmatched(tree, window))
    return f"WITH {', '.join(parts)} {' UNION ALL '.join(selects)}"


def _bucket(tree: SqlTree, at: str, window: Window) -> str:
    """Return the expression of the bucket of a bin; a window touches two of them."""
    return f"CAST(FLOOR(({at}) / {tree.dialect.number(window.width)}) AS BIGINT)"


def of_side(bins: tuple[int, int]) -> str:
    """Return the expression of what holds for the class of a row t."""
    return f"CASE WHEN t.side = 1 THEN {bins[1]} ELSE {bins[0]} END"


def _begun(tree: SqlTree, window: Window) -> str:
    """Return the SELECT of the root's rows times all children's messages but the last.

    ``v`` is the bucket of the last child's bins with which the window begins.
    """
    root = tree.root
    node = tree.nodes[root]
    last = node.children[-1]
    if len(node.children) > 1:
        rows = message(tree, root, True, len(node.children) - 1)
    else:
        weight, more = own_weight(tree, root)
        columns = [*keys_of(tree, root), *(f"t.k{a}" for a in tree.nodes[last].shared), "t.bin", f"{weight} AS c",
                   *(f"{weight} * t.x{j} AS g{j}" for j in range(len(node.features)))]
        rows = f"SELECT {', '.join(columns)} FROM {tree.prefix}t{root} t {more}"
    return f"SELECT t.*, {_bucket(tree, f'{of_side(window.low)} - t.bin', window)} AS v FROM ({rows}) t"


def _sums(tree: SqlTree, alias: str) -> list[str]:
    """Return the weight and the sums of the root's rows times the entries of the last child that ``alias`` holds."""
    right = len(tree.owners(tree.nodes[tree.root].children[-1]))
    left = len(tree.owners(tree.root)) - right
    return [f"SUM(t.c * {alias}.c) AS c", *(f"SUM(t.g{j} * {alias}.c) AS g{j}" for j in range(left)),
            *(f"SUM(t.c * {alias}.g{j}) AS g{left + j}" for j in range(right))]


def _far(tree: SqlTree, window: Window) -> str:
    """Return the SELECT of rows times buckets that end below the window."""
    last = tree.nodes[tree.root].children[-1]
    below = f"{of_side(window.low)} - 1"
    chosen = ", ".join(["t.side", f"{below} AS bin", *_sums(tree, "b")])
    our = tree.prefix
    return (f"SELECT {chosen} FROM {our}e{tree.root} t JOIN {our}b{last} b "
            f"ON {same('t', 'b', tree.nodes[last].shared)} AND b.v < t.v GROUP BY t.side, {below}")


def _near(tree: SqlTree, window: Window) -> str:
    """Return the SELECT of rows times entries of the two buckets that touch the window."""
    last = tree.nodes[tree.root].children[-1]
    bucket = _bucket(tree, "m.bin", window)
    our = tree.prefix
    entries = f"(SELECT m.*, {bucket} - q.q AS v FROM {our}m{last} m CROSS JOIN (VALUES (0), (1)) AS q(q))"
    at = f"GREATEST(t.bin + m.bin, {of_side(window.low)} - 1)"
    chosen = ", ".join(["t.side", f"{at} AS bin", *_sums(tree, "m")])
    return (f"SELECT {chosen} FROM {our}e{tree.root} t JOIN {entries} m "
            f"ON {same('t', 'm', tree.nodes[last].shared)} AND m.v = t.v "
            f"WHERE t.bin + m.bin <= {of_side(window.high)} GROUP BY t.side, {at}")


def _unmatched(tree: SqlTree, window: Window) -> str:
    """Return the SELECT of the rows that a left join with the last child leaves as they are."""
    last = tree.nodes[tree.root].children[-1]
    right = len(tree.owners(last))
    left = len(tree.owners(tree.root)) - right
    zero = tree.dialect.number(0.0)
    at = f"GREATEST(t.bin, {of_side(window.low)} - 1)"
    sums = ["SUM(t.c) AS c", *(f"SUM(t.g{j}) AS g{j}" for j in range(left)),
            *(f"{zero} AS g{left + j}" for j in range(right))]
    keys = ", ".join(f"k{a}" for a in tree.nodes[last].shared)
    our = tree.prefix
    return (f"SELECT {', '.join(['t.side', f'{at} AS bin', *sums])} FROM {our}e{tree.root} t LEFT JOIN "
            f"(SELECT DISTINCT {keys}, 1 AS one FROM {our}b{last}) b ON {same('t', 'b', tree.nodes[last].shared)} "
            f"WHERE b.one IS NULL AND t.bin <= {of_side(window.high)} GROUP BY t.side, {at}")
