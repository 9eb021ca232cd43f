"""What the subquantile paper concludes from its tables, by the tables themselves, and how its p is to be tuned."""

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

from buttress import NotConvergedWarning
from reproduce.subquantile.protocol import problem, trial
from reproduce.subquantile.published import TABLE_2
from reproduce.subquantile.rows import subquantile

__all__ = ["strongest_linear", "tuning_p"]

KEPT = Path(__file__).parents[2] / "benchmarks" / "results" / "subquantile-table-2.json"


def strongest_linear() -> dict[str, float]:
    """Columns of table 2, of eight, in which Subquantile is the lowest of the paper's methods: printed, and as run."""
    methods = [name for name in TABLE_2 if name != "Oracle"]
    printed = {name: [cell[0] for cell in TABLE_2[name] if cell is not None] for name in methods}
    kept = {row[0]: row[1:9] for row in json.loads(KEPT.read_text(encoding="utf-8"))["rows"]}
    run = {name: [float(re.findall(r"\*\*(.+?)\*\*", cell)[0]) for cell in kept[name]] for name in methods}
    return {f"columns, {name}": float(sum(column["Subquantile"] <= min(column.values()) for column in (
        {method: found[method][i] for method in methods} for i in range(8))))
        for name, found in (("printed", printed), ("run", run))}


def tuning_p() -> dict[str, float]:
    """Test RMSE of Subquantile told another share than the true .2, over that told .2: diabetes, five splits."""
    told = (0.0, 0.1, 0.3, 0.4, 0.5)
    source = problem("Diabetes")

    def error(share: float) -> float:
        trials = [trial(source, 0.2, "label", seed) for seed in range(5)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)  # 1,000 steps, as the paper's are of a fixed number
            return sum(t.score(subquantile(replace(t, rate=share), t.kernel)) for t in trials) / len(trials)

    right = error(0.2)
    return {f"told {share:g}": error(share) / right for share in told}
