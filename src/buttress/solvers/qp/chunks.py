"""The program of ``program.py`` with many rows: solved on the rows in question, the others looked at now and then.

A machine of a million rows needs the entries of its support vectors with all rows once, to know that the others are
none. Block SMO (``smo.py``) computes them several times. Here

1. a part of the rows is solved first, with larger bounds, and a part of that before it: the levels of ``levels.py``;
2. K b of that solution on the rows of the next level tells which of them may have a coefficient. K b is then kept on
   these rows alone, the first *circle*, and once the violation has fallen on a second, of those near a loss;
3. block SMO solves for some thousand rows of the inner circle at a time, a *chunk*, whose entries fit into the memory
   for rows. What they change is added to K b on that circle;
4. when the inner circle is solved, K b is brought up to date on the one around it, from all changes at once, and those
   of its rows that should move are solved for in turn. All rows are the outermost circle.

Products with rows outside of a chunk are summed panel by panel and never stored (``gram/products.py``).

Sources: Joachims, Making large-scale SVM learning practical (1999), for leaving rows at bounds out until the end; Graf,
Cosatto, Bottou, Durdanovic & Vapnik, Parallel support vector machines: the cascade SVM (2005), for solving parts first.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from buttress._checks import TINY, Array
from buttress._types import Rows, is_csr
from buttress.checkpoints.journal import Memory
from buttress.gram.products import unstored_sums
from buttress.gram.rounding import Summed
from buttress.gram.rows import KernelRows
from buttress.solvers.qp.certificate import objectives
from buttress.solvers.qp.levels import chunk_rows, in_question, level_of, level_sizes, part_of, started, unit
from buttress.solvers.qp.program import QP, Point, slopes, violation
from buttress.solvers.qp.smo import PAIRS_A_ROW, block_smo, working_set
from buttress.solvers.run import Step, Steps, restartable

LARGE = 25_000  # rows from which on this is used: 1.3 times as fast at 30,000, .8 times at 20,000
SLICE = 1e9  # entries that are computed between two steps, about a second of one core
LEAST_SLICE = 4096  # rows of a slice, so that threads have some each


@dataclass
class _Product:
    """A sum over columns of K (numbers of all rows) that is being added to f at the ``wanted`` rows of a level.

    ``guess`` says that it is K b of the b with which a level starts.
    """

    columns: Rows
    weights: Array
    wanted: Rows
    guess: bool = False
    done: int = 0


@dataclass
class _Circle:
    """Some rows of a level, and the b for which f is right on the rows between them and the circle around."""

    rows: Rows
    base: Array


@dataclass
class _ChunkState:
    """Where the solve is: at a level on the rows ``index``, with b and f = K b, which is right on the last circle.

    While ``guessed`` is False, f is that of the level before. ``added`` and ``moved`` are ``mass`` and ``moved`` of
    f (:class:`Summed`). ``objective`` is the level's at b. ``reached`` is the last point of the whole program with its
    objective, ``violation`` the last that was known on all rows, ``looked`` whether f has been right on all of them.
    ``stuck`` says that the last chunk moved by rounding only.
    """

    level: int
    index: Rows
    b: Array
    f: Array
    added: Array
    moved: Array
    circles: list[_Circle]
    reached: Array
    reached_objective: float
    violation: float
    objective: float
    guessed: bool = True
    mass: float = 0.0
    looked: bool = False
    stuck: bool = False
    product: _Product | None = None
    chunk: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    downwards: int = 0


class _View(NamedTuple):
    """The program on the inner circle, its slopes up and down, its violation and duality gap."""

    qp: QP
    up: Array
    down: Array
    violation: float
    gap: float


def suits(qp: QP) -> bool:
    """Say whether the program is large and its entries are cheap to compute, so that it is to be solved by chunks."""
    cache = qp.rows.cache
    cheap = not qp.rows.wide and not is_csr(cache.X) and cache.entries.cost(1, 1) > 0
    return len(qp.p) >= LARGE and qp.total == 0 and qp.rows.real == np.float32 and cheap


@restartable
def chunked_smo(
    qp: QP, *, tol: float, start: Point | None = None, gap: float | None = None, memory: Memory | None = None
) -> Steps:
    """Yield a :class:`Point` after each chunk, and in longer products between rows after each second or so.

    A step's gap is the KKT violation; where that is not known on all rows, the last that was, or more. The last step's
    is at most ``tol``, or its duality gap at most ``gap`` of the primal. A start other than 0 has no levels.
    """
    sizes = level_sizes(len(qp.p), chunk_rows(qp.rows))
    state = _first(qp, Point(qp.start) if start is None else start, sizes) if memory is None else _recalled(memory)
    pairs = 0 if memory is None else memory["pairs"]
    if memory is not None:
        qp.rows.cache.n_computed = memory["n_computed"]
    while True:
        last = state.level == len(sizes) - 1
        level = level_of(qp, state.index)
        view = None if state.product is not None else _view(level, state)
        yield _step(qp, state, view, pairs, _enough(state, view, gap) and last)
        pairs = 0
        if view is None:
            _advance(qp, level, state, last)
            continue
        # a level before the last is solved to a tenth of p
        aim = tol if last and state.looked else max(tol, 0.1 * unit(qp))
        within = len(state.circles) > 1
        aim *= 0.5 if within else 1  # the circles within are solved to half of that
        left = view.violation > aim and not (last and _enough(state, view, gap))
        if left and not (within and state.stuck):
            pairs = _solve_chunk(qp, level, state, view if state.stuck else _narrowed(level, state, view), aim)
            if not state.stuck:
                continue
        if len(state.circles) > 1:  # solved, or as good as rounding allows
            _close_circle(state)
        elif last:
            return
        else:
            state = _next_level(qp, state, sizes)


def _first(qp: QP, at: Point, sizes: list[int]) -> _ChunkState:
    """Return the state at the first level, or at the last one if the point is not 0."""
    given = bool(at.b.any())
    index = part_of(len(qp.p), len(qp.p) if given else sizes[0])
    b = at.b[index]
    everything = np.arange(len(index))
    f = np.zeros(len(b))
    if given:
        known = at.stored if at.f is None else at.f
        f = qp.rows.times(b) if known is None else known.copy()
    found = violation(f - qp.p, b, qp.lo, qp.hi, qp.l1) if given else violation(-qp.p, at.b, qp.lo, qp.hi, qp.l1)
    objective = _objective(level_of(qp, index), b, f)
    added = np.full(len(b), np.inf)
    return _ChunkState(len(sizes) - 1 if given else 0, index, b, f, added, np.zeros(len(qp.p)),
                       [_Circle(everything, np.zeros(len(b)))], at.b.copy(), objective, found, objective,
                       downwards=at.downwards)


def _next_level(qp: QP, state: _ChunkState, sizes: list[int]) -> _ChunkState:
    """Return the state at the next level, where K b of this one on its rows is still to be computed."""
    index = part_of(len(qp.p), sizes[state.level + 1])
    everything = np.arange(len(index))
    nothing = np.zeros(len(index))
    support = np.flatnonzero(state.b)
    product = _Product(state.index[support], state.b[support], everything)
    return _ChunkState(state.level + 1, index, nothing, nothing.copy(), nothing.copy(), np.zeros(len(qp.p)),
                       [_Circle(everything, nothing)], state.reached, state.reached_objective, state.violation, 0.0,
                       guessed=False, mass=float(np.abs(state.b).sum()) / 2, product=product, downwards=state.downwards)


def _advance(qp: QP, level: QP, state: _ChunkState, last: bool) -> None:
    """Compute a slice of the product; at its end say what is now known."""
    product = state.product
    assert product is not None, "there is a product to go on with"
    height = max(LEAST_SLICE, int(SLICE / max(1, len(product.columns))))
    wanted = product.wanted[product.done : product.done + height]
    for sign in (1.0, -1.0):
        some = sign * product.weights > 0
        part = _sums(qp, product.columns[some], np.abs(product.weights[some]), state.index[wanted])
        state.f[wanted] += sign * part
        state.added[wanted] += part
    product.done = min(product.done + height, len(product.wanted))
    if product.done < len(product.wanted):
        return
    state.product = None
    state.moved[product.columns] += np.abs(product.weights)
    if not state.guessed:
        _set_out(level, state, last)
    else:
        _reach(qp, level, state, guess=product.guess)


def _set_out(level: QP, state: _ChunkState, last: bool) -> None:
    """Choose b and the first circle from K b of the level before, and begin to compute K b."""
    state.guessed = True
    state.b, known = started(level, state.f, state.mass)
    known = known if len(known) else np.arange(len(state.b))  # its targets may all be equal, which tells nothing
    state.f, state.added = np.zeros((2, len(state.b)))
    state.moved = np.zeros(len(state.moved))
    circle = _Circle(known, np.zeros(len(state.b)))
    state.circles = [state.circles[0], circle] if last else [circle]  # only the last level looks at all its rows
    support = np.flatnonzero(state.b)
    state.product = _Product(state.index[support], state.b[support], known, guess=True)


def _view(level: QP, state: _ChunkState) -> _View:
    """Return what the slopes on the inner circle say."""
    inner = state.circles[-1].rows
    part = _restricted(level, inner)
    b = state.b[inner]
    f = state.f[inner]
    up, down = slopes(f - part.p, b, part.lo, part.hi, part.l1)
    primal, dual, _ = objectives(f, b, part.p, part.lo, part.hi, part.l1)
    return _View(part, up, down, float(down.max() - up.min()), primal - dual)


def _enough(state: _ChunkState, view: _View | None, gap: float | None) -> bool:
    """Say whether the duality gap is small enough on the inner circle, outside of which it is taken to be 0."""
    if view is None or gap is None:
        return False
    share = 0.7 if len(state.circles) > 1 else 1.0  # of the gap asked for, where the circle is an inner one
    return view.gap <= share * gap * abs(view.gap - state.objective)


def _step(qp: QP, state: _ChunkState, view: _View | None, pairs: int, enough: bool) -> Step:
    """Return the step of the point reached."""
    whole = view is not None and len(state.circles) == 1 and len(state.index) == len(qp.p)
    violation = state.violation
    if view is not None:
        violation = view.violation if whole else max(view.violation, violation)
    if whole:
        state.violation = violation
        state.looked = True
    f = state.f.copy()
    same = whole and np.array_equal(state.reached, state.b)
    summed = Summed(f, state.added.copy(), state.moved.copy()) if same else None
    point = Point(state.reached.copy(), stored=f if whole else None, summed=summed, downwards=state.downwards)
    return Step(point, state.reached_objective, violation=violation, done=whole and enough, iterations=pairs,
                shown=_shown(qp, state, view), memory=partial(_memory, state, pairs, qp.rows.cache.n_computed))


def _shown(qp: QP, state: _ChunkState, view: _View | None) -> str:
    """Return what the progress line says."""
    rows = f"{len(state.index)} of {len(qp.p)} rows"
    if view is not None:
        share = view.gap / max(abs(view.gap - state.objective), TINY)
        return f"{rows}, {len(state.circles[-1].rows)} in question, violation {view.violation:.3g}, gap {share:.2g}"
    assert state.product is not None, "without a view there is a product"
    return f"{rows}, looked at {state.product.done} of {len(state.product.wanted)}"


def _narrowed(level: QP, state: _ChunkState, view: _View) -> _View:
    """Draw a circle of the rows that are not clear of moving, if they are few enough, and return the view on it.

    None is drawn where it would leave out the other half of the pairs that violate most.
    """
    inner = state.circles[-1].rows
    some = inner[in_question(view.qp, state.b[inner], state.f[inner], view.gap, unit(level))]
    if not len(some) or len(some) > 0.6 * len(inner):  # of the rows of the one around it
        return view
    state.circles.append(_Circle(some, state.b.copy()))
    found = _view(level, state)
    if found.violation < 0.5 * view.violation:  # a new circle keeps half of the violation of the one around it
        state.circles.pop()
        return view
    state.chunk = state.chunk[np.isin(state.chunk, some, assume_unique=True)]
    return found


def _close_circle(state: _ChunkState) -> None:
    """Begin to bring f up to date on the rows between the inner circle and the one around it."""
    inner = state.circles.pop()
    change = state.b - inner.base
    moved = np.flatnonzero(change)
    others = np.setdiff1d(state.circles[-1].rows, inner.rows, assume_unique=True)
    state.product = _Product(state.index[moved], change[moved], others)


def _solve_chunk(qp: QP, level: QP, state: _ChunkState, view: _View, aim: float) -> int:
    """Solve for the inner circle's variables that violate the conditions most; return the number of pair updates."""
    inner = state.circles[-1].rows
    last = np.searchsorted(inner, state.chunk)
    chosen = working_set(view.up, view.down, min(chunk_rows(qp.rows), len(inner)), last)
    chunk = inner[chosen]
    cache = qp.rows.cache
    part = replace(_restricted(level, chunk), rows=KernelRows(
        cache.kernel, cache.X[qp.rows.index[state.index[chunk]]], cache.megabytes, cache.real))
    before = state.b[chunk]
    # a chunk is solved to .7 of what its circle is, or to .03 of the circle's violation while that is large
    target = max(0.7 * aim, 0.03 * view.violation)
    solved, pairs = _solved(part, Point(before, f=state.f[chunk]), target)
    change = solved.b - before
    moved = np.flatnonzero(change)
    g = state.f[chunk] - part.p
    inside = state.f[chunk]
    part.rows.add(inside, moved, change[moved])
    cache.n_computed += part.rows.n_computed * len(chunk) / len(qp.p)
    state.f[chunk] = inside
    outside = np.delete(inner, chosen)
    state.added[inner] = np.inf
    state.f[outside] += _sums(qp, state.index[chunk[moved]], change[moved], state.index[outside])
    rise = 0.5 * float(change @ (g + inside - part.p)) + float(part.l1 @ (np.abs(solved.b) - np.abs(before)))
    state.stuck = rise >= -1e-14 * abs(state.objective)  # it falls by more, or only rounding is left
    state.objective += rise
    state.b[chunk] = solved.b
    state.chunk = chunk[np.argsort(-np.abs(change), kind="stable")]
    state.downwards += solved.downwards
    _reach(qp, level, state)
    return pairs


def _solved(part: QP, start: Point, target: float) -> tuple[Point, int]:
    """Return the point at which block SMO has brought the violation below the target, and its pair updates."""
    pairs = 0
    with closing(block_smo(part, tol=target, start=start)) as steps:
        for step in steps:
            pairs += step.iterations
            assert step.violation is not None, "block SMO says its violation"
            if step.violation <= target or pairs >= PAIRS_A_ROW * len(part.p):
                break
    return step.state, pairs


def _reach(qp: QP, level: QP, state: _ChunkState, *, guess: bool = False) -> None:
    """Note the point of the whole program that b is, or makes when divided by how much larger its bounds are.

    Where b is the guess at the start of a level, the point of the level before stays if it is better. Where all of b is
    in the inner circle, the objective is computed anew, without the rounding of changes to it.
    """
    inner = state.circles[-1].rows
    if np.count_nonzero(state.b) == np.count_nonzero(state.b[inner]):
        state.objective = _objective(_restricted(level, inner), state.b[inner], state.f[inner])
    share = len(state.index) / len(qp.p)
    linear = float(level.p @ state.b - level.l1 @ np.abs(state.b))
    objective = share**2 * (state.objective + linear) - share * linear
    if guess and objective > state.reached_objective:
        return
    state.reached = np.zeros(len(qp.p))
    state.reached[state.index] = np.clip(share * state.b, qp.lo[state.index], qp.hi[state.index])
    state.reached_objective = objective


def _objective(qp: QP, b: Array, f: Array) -> float:
    return float(b @ (0.5 * f - qp.p) + qp.l1 @ np.abs(b))


def _restricted(level: QP, rows: Rows) -> QP:
    """Return the data of the program at these of its rows; its ``rows`` are still those of the whole."""
    if len(rows) == len(level.p):
        return level
    return QP(level.rows, level.p[rows], level.lo[rows], level.hi[rows], level.start[rows], level.l1[rows])


def _sums(qp: QP, columns: Rows, weights: Array, wanted: Rows) -> Array:
    """Return sum_j weights[j] k(x_i, x_columns[j]) for the wanted rows i, all numbers of the whole program."""
    qp.rows.cache.n_computed += len(columns) * len(wanted) / len(qp.p)
    return unstored_sums(qp.rows.cache.entries, qp.rows.index[columns], weights, qp.rows.index[wanted])


def _memory(state: _ChunkState, pairs: int, n_computed: float) -> Memory:
    """Return what the solve goes on from."""
    product = state.product
    kept = _copied(vars(state))
    return kept | {"circles": [vars(circle) for circle in state.circles], "pairs": pairs, "n_computed": n_computed,
                   "product": None if product is None else vars(product).copy()}


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def _recalled(memory: Memory) -> _ChunkState:
    kept = _copied({name: memory[name] for name in memory.keys() - {"pairs", "n_computed"}})
    product = kept["product"]
    kept["circles"] = [_Circle(**circle) for circle in kept["circles"]]
    kept["product"] = None if product is None else _Product(**product)
    return _ChunkState(**kept)
