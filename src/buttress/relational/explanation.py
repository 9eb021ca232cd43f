"""What a join will cost and how it is counted, in words and numbers."""

from dataclasses import dataclass

import numpy as np

from buttress._checks import check_number
from buttress.relational.counting.margins import FIRST_BINS
from buttress.relational.counting.schedule import is_exact, schedule
from buttress.relational.declare import Join
from buttress.relational.memory import needed_megabytes, streamed_megabytes
from buttress.relational.parameters import Parameters
from buttress.relational.plan.plan import Plan
from buttress.relational.plan.prepare import prepare


@dataclass(frozen=True)
class Explanation:
    """Facts of a join; printing it shows ``text``.

    ``edges`` maps a table (or the keys joined beforehand) to "exact" or "sketched", how its rows reach its parent;
    ``edge_cover`` maps each table to its weight in the least fractional edge cover of the join attributes, and
    ``agm_bound`` is the bound on the number of rows that it gives (times the most rows that share a key).
    ``cost`` estimates the additions of one oracle call, ``megabytes`` the memory that a fit in this process takes at
    its peak, beside the frames it is given, and ``stream_megabytes`` the most that one takes whose rows are streamed.
    """

    n_join_rows: int
    base_rows: dict[str, int]
    edges: dict[str, str]
    edge_cover: dict[str, float]
    agm_bound: float
    cost: float
    megabytes: float
    stream_megabytes: float
    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def explain(join: Join, memory_limit: float = 4000) -> Explanation:
    """Read the keys of a join, and a hundred rows of its features, and return its Explanation.

    ``memory_limit`` are the megabytes that a fit may take, > 0, as of RelationalLinearSVC.
    """
    check_number("memory_limit", memory_limit, 0)
    pairs = join.check()
    plan = prepare(join.bare(), root=join.root)
    names = ["+".join([plan.tables[t].name for t, _ in node.members] or [f"keys {', '.join(node.bound)}"])
             for node in plan.nodes]
    edges = {name: "exact" if is_exact(plan, i) else "sketched" for i, name in enumerate(names) if i}
    base = {table.name: rows for table, rows in zip(plan.tables, plan.base_rows)}
    cover = {table.name: abs(round(float(w), 6)) for table, w in zip(plan.tables, plan.cover)}
    with np.errstate(over="ignore"):
        bound = float(np.exp(plan.agm_log))
    cost = _cost(plan)
    megabytes = needed_megabytes(join, pairs, sampled=min(plan.n_rows, Parameters.n_samples))
    streamed = streamed_megabytes(join, plan, memory_limit)
    what = "root, has the label" if join.tables[join.root].label is not None else "root"
    lines = _tree_lines(plan, names, edges, what, 0, 0)
    lines += ["", f"rows of the join   {plan.n_rows:,} (exact), from {sum(base.values()):,} base rows",
              f"AGM bound          {bound:.4g} rows; fractional edge cover {sum(cover.values()):g}: "
              + ", ".join(f"{name} {w:g}" for name, w in cover.items()),
              f"cost of a call     about {cost:.3g} additions on a grid of {FIRST_BINS} steps",
              f"memory of a fit    about {megabytes:.3g} megabytes in this process",
              f"  streamed         at most {streamed:.3g} megabytes where memory_limit is {memory_limit:g}"]
    outside = needed_megabytes(join, pairs, outside_only=True)
    if outside:
        chosen = "streamed from files" if outside > memory_limit else "in memory"
        lines.append(f"engine='auto'      {chosen}; streamed where memory_limit is below {outside:.3g}")
    lines += [f"note               {note}" for note in plan.notes]
    return Explanation(plan.n_rows, base, edges, cover, bound, cost, megabytes, streamed, "\n".join(lines))


def _tree_lines(plan: Plan, names: list[str], edges: dict[str, str], root: str, i: int, depth: int) -> list[str]:
    """Return a line for node i and for each below it; ``root`` says what the root is."""
    node = plan.nodes[i]
    what = root
    if i:
        fan = node.n_rows / max(node.n_keys, 1)
        what = f"{edges[names[i]]}, {node.n_keys:,} keys, {fan:.3g} rows a key"
    if node.bound:
        what += f", keys {', '.join(node.bound)} joined beforehand because the join is cyclic"
    lines = [f"{'  ' * depth}{names[i]}: {node.n_rows:,} rows ({what})"]
    for child in node.down:
        lines += _tree_lines(plan, names, edges, root, child, depth + 1)
    return lines


def _cost(plan: Plan) -> float:
    """Estimate the additions of one oracle call: rows times the length of the lists they consult, up and down."""
    lengths: list[float] = []
    total = 0.0
    *others, root = schedule(plan, products=False).blocks
    for block in (*others, root):
        lists = block.lists if block is not root else block.lists[:-1] or block.lists  # two are met without a product
        consulted = float(np.prod([lengths[op] for op, _ in lists]))
        total += 2 * block.n_rows * consulted
        lengths.append(min(block.n_rows / max(len(block.start) - 1, 1) * consulted, FIRST_BINS))
    return total
