"""Joins declared in a TOML file, and the two commands on them, free of any command-line library.

    on = [["loan.account_id", "account.account_id"], ["loan.district", "district.id", "left"]]

    [[table]]
    name = "loan"
    source = "loan.parquet"          # beside the TOML file
    features = ["amount", "duration"]
    label = "status"

    [[table]]
    name = "account"
    database = "postgresql://localhost/bank"   # or the path of a DuckDB file
    table = "public.account"                   # instead of source
    features = ["frequency"]

``time = "column"`` of a table and ``as_of = "loan.date"`` of the join limit what EntityFeatures sees.
"""

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import near
from buttress.relational.declare import Join, Table
from buttress.relational.explanation import explain
from buttress.relational.sources.dialects import DUCKDB
from buttress.relational.sources.files import is_files, matching, scanned
from buttress.relational.sources.tables import connect
from buttress.relational.svm import RelationalLinearSVC

_ENTRIES = ("on", "using", "table", "max_bag_rows", "as_of")
_KEYS = ("name", "source", "database", "table", "features", "label", "weights", "time")


def read_join(path: str | Path, target: str | None = None) -> Join:
    """Return the Join a TOML file declares; ``target`` ("table.column") replaces its label.

    Raises ValueError naming the file and the entry at fault.
    """
    path = Path(path)
    if path.suffix.lower() != ".toml" and path.exists():
        raise ValueError(f"A join is declared in a TOML file. Got {path.name!r}. For one table use buttress train.")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"There is no file {str(path)!r}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name} is not valid TOML: {error}.") from None
    unknown = sorted(set(content) - set(_ENTRIES))
    if unknown:
        raise ValueError(f"{path.name} has an unknown entry {unknown[0]!r}.{near(unknown[0], _ENTRIES)}")
    if not content.get("table"):
        raise ValueError(f"{path.name} declares no [[table]]. Add one for each table of the join.")
    _check_kinds(content, path)
    connections: dict[str, Any] = {}
    tables = [_table(entry, path, connections) for entry in content["table"]]
    on = content.get("on", [])
    using = content.get("using", [])
    join = Join(tables, on, using=using, max_bag_rows=content.get("max_bag_rows", 10_000_000))
    if target is not None:
        number, column = join.find_column(target)
        for i, table in enumerate(tables):
            table.label = column if i == number else None
        if column in tables[number].features:
            tables[number].features.remove(column)
    return Join(tables, on, using=using, max_bag_rows=join.max_bag_rows, as_of=content.get("as_of"))


def _check_kinds(content: dict[str, Any], path: Path) -> None:
    """Refuse entries of a join, but for those of its tables, that are of another kind than they must be."""
    if not isinstance(content["table"], list) or not all(isinstance(entry, dict) for entry in content["table"]):
        raise ValueError(f"table of {path.name} must be tables, each under [[table]]. Got {content['table']!r}.")
    rows = content.get("max_bag_rows", 1)
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ValueError(f"max_bag_rows of {path.name} must be a whole number of at least 1. Got {rows!r}.")
    if not _are_texts(content.get("using", [])):
        raise ValueError(f"using of {path.name} must be a list of columns, such as ['id']. Got {content['using']!r}.")
    if not isinstance(content.get("as_of", ""), str):
        raise ValueError(f"as_of of {path.name} must be 'table.column'. Got {content['as_of']!r}.")


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _table(entry: dict[str, Any], path: Path, connections: dict[str, Any]) -> Table:
    unknown = sorted(set(entry) - set(_KEYS))
    if unknown:
        raise ValueError(f"A [[table]] of {path.name} has an unknown entry {unknown[0]!r}.{near(unknown[0], _KEYS)}")
    for key, value in entry.items():
        if not (_are_texts(value) if key == "features" else isinstance(value, str)):
            kind = "a list of columns, such as ['amount']" if key == "features" else "text"
            raise ValueError(f"{key} of a [[table]] of {path.name} must be {kind}. Got {value!r}.")
    if "name" not in entry:
        raise ValueError(f"A [[table]] of {path.name} has no name. Add name = '...'.")
    if ("source" in entry) == ("database" in entry) or ("database" in entry) != ("table" in entry):
        raise ValueError(f"Table {entry['name']!r} of {path.name} needs either source, or database and table.")
    source: Any = path.parent / entry["source"] if "source" in entry else None
    if source is None:
        address = entry["database"]
        if address not in connections:
            connections[address] = connect(address, path.parent)
        source = (connections[address], tuple(entry["table"].split(".")))
    return Table(entry["name"], source, features=entry.get("features", []), label=entry.get("label"),
                 weights=entry.get("weights"), time=entry.get("time"))


def explain_file(path: str | Path, target: str | None = None) -> str:
    """Return the text of ``buttress explain``."""
    return str(explain(read_join(path, target)))


def fit_file(path: str | Path, target: str | None = None, **parameters: Any) -> RelationalLinearSVC:
    """Return RelationalLinearSVC(**parameters) fitted to the join of a TOML file, for ``buttress fit``.

    ``class_texts_`` are its classes as the file of the labels has them, where that is a text file.
    """
    join = read_join(path, target)
    model = RelationalLinearSVC(**parameters).fit(join)
    model.class_texts_ = _class_texts(join, model)
    return model


def predict_file(model: RelationalLinearSVC, path: str | Path) -> dict[str, NDArray[Any]]:
    """Return the columns row, prediction and score for the rows of the label's table of a join in a TOML file.

    Its labels are not read: new rows have none.
    """
    join = read_join(path)
    for table in join.tables:
        table.label = None
    scores = model.decision_function(join)
    if np.isnan(scores).any():
        raise ValueError(f"{int(np.isnan(scores).sum())} rows of {model.label_table_!r} join no row of the other "
                         "tables, so that no class can be predicted for them.")
    words = np.asarray(getattr(model, "class_texts_", model.classes_))
    return {"row": np.arange(len(scores)), "prediction": words[(scores > 0).astype(np.intp)], "score": scores}


def _class_texts(join: Join, model: RelationalLinearSVC) -> list[str]:
    """Return the commonest text of each class: yes or 1.0, where DuckDB reads True or 1 in a text file."""
    table = join.tables[join.root]
    words = [str(word) for word in model.classes_.tolist()]
    if not is_files(table.source) or model.classes_.dtype.kind not in "biuf" or table.label is None:
        return words
    if any(path.suffix.lower() == ".parquet" for path in matching(table.source)):
        return words
    label = DUCKDB.quote(table.label)
    read = scanned(table.source, lambda scan: f"SELECT {label} FROM ({scan})")
    written = scanned(table.source, lambda scan: f"SELECT {label} FROM ({scan[:-1]}, all_varchar=true))")
    counts: dict[str, Counter[str]] = {word: Counter() for word in words}
    for (value,), (text,) in zip(read, written, strict=True):
        if text is not None and str(value) in counts:
            counts[str(value)][text.strip()] += 1
    return [counts[word].most_common(1)[0][0] if counts[word] else word for word in words]


MOST_SHOWN = 10  # coefficients that a fit prints unless all are asked for


def summary(model: RelationalLinearSVC, everything: bool = False) -> str:
    """Return the text a fit ends with: the interval, rows, calls, and the coefficients that matter most, or all.

    What matters is what a standard deviation of a column does to the score.
    """
    low, high = model.objective_interval_
    lines = [f"rows of the join  {model.n_join_rows_:,}",
             f"optimum within    [{low:.6g}, {high:.6g}], relative gap {model.gap_:.2g}, "
             f"{model.n_oracle_calls_} oracle calls"]
    moved = model.coef_per_deviation_[0]
    order = np.argsort(-abs(np.where(np.isnan(moved), model.coef_[0], moved)), kind="stable")
    shown = order if everything else order[:MOST_SHOWN]
    lines.append(f"{'':<30} {'coefficient':>14} {'per standard deviation':>24}")
    lines += [f"{model.coef_names_[j]:<30} {model.coef_[0, j]:>14.6g} {moved[j]:>24.6g}" for j in shown]
    lines.append(f"{'intercept':<30} {model.intercept_[0]:>14.6g}")
    if len(shown) < len(order):
        lines.append(f"{len(order) - len(shown)} more coefficients: --all-coefficients")
    return "\n".join(lines)
