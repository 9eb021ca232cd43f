"""Joins declared in a TOML file, and the commands on them, free of any command-line library.

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

``time = "column"`` of a table and ``as_of = "loan.date"`` of the join limit what each label row is joined to;
``order = "column"`` of a table is for its rows of the same time, ``delay = "30d"`` for when they became known.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import near
from buttress.files.container import Json
from buttress.files.disk import read_toml
from buttress.relational.declare import Join, Table
from buttress.relational.entities.transformer import entity_table
from buttress.relational.sources.dialects import DUCKDB
from buttress.relational.sources.files import is_files, matching, scanned
from buttress.relational.sources.tables import Source, read_columns
from buttress.relational.svm import RelationalLinearSVC

Kinds = Mapping[str, tuple[Callable[[Any], bool], str]]  # of entries: what they must be, and that in words
TEXT = (lambda value: isinstance(value, str), "text")
OF_JOINS: Kinds = {
    "on": (lambda value: True, ""),  # left to the Join
    "using": (lambda value: _all_are(value, str), "a list of columns, such as ['id']"),
    "table": (lambda value: _all_are(value, dict), "tables, each under [[table]]"),
    "max_bag_rows": (lambda value: type(value) is int and value >= 1, "a whole number of at least 1"),
    "as_of": (TEXT[0], "'table.column'"),
}
OF_TABLES: Kinds = {
    **dict.fromkeys(("name", "source", "database", "table", "label", "weights", "time", "order", "delay"), TEXT),
    "features": (lambda value: _all_are(value, str), "a list of columns, such as ['amount']"),
}


def _all_are(values: object, kind: type) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _check_entries(entries: Mapping[str, Any], kinds: Kinds, where: str) -> None:
    for key, value in entries.items():
        if key not in kinds:
            raise ValueError(f"There is an unknown entry {key!r} in {where}.{near(key, kinds)}")
        fits, words = kinds[key]
        if not fits(value):
            raise ValueError(f"{key} of {where} must be {words}. Got {value!r}.")


def read_join(path: str | Path, target: str | None = None) -> Join:
    """Return the Join a TOML file declares; ``target`` ("table.column") replaces its label.

    Raises ValueError naming the file and the entry at fault.
    """
    path = Path(path)
    content = _declared(path)
    entries = content.pop("table")
    tables = [_table(entry, path) for entry in entries]
    if target is not None:
        number, column = Join(tables).find_column(target)
        for table in tables:
            table.label = None
        tables[number].label = column
        tables[number].features = [name for name in tables[number].features if name != column]
    return Join(tables, **content)


def _declared(path: Path) -> Json:
    """Return the entries of a TOML file."""
    if path.suffix.lower() != ".toml" and path.exists():
        raise ValueError(f"A join is declared in a TOML file, of tables in a database too: see "
                         f"docs/relational/declaring.md. Got {path.name!r}. For one file of another kind use buttress "
                         "train.")
    try:
        content = read_toml(path)
    except FileNotFoundError:
        raise ValueError(f"There is no file {str(path)!r}.") from None
    _check_entries(content, OF_JOINS, path.name)
    if not content.get("table"):
        raise ValueError(f"{path.name} declares no [[table]]. Add one for each table of the join.")
    return content


def files_of(path: Path) -> list[Path]:
    """Return the files, databases among them, that the tables of a TOML file name."""
    named = [path.parent / str(entry[key]) for entry in _declared(path)["table"] for key in ("source", "database")
             if key in entry]
    return [file for name in named for file in matching(name)]


def _table(entry: Mapping[str, Any], path: Path) -> Table:
    _check_entries(entry, OF_TABLES, f"a [[table]] of {path.name}")
    if "name" not in entry:
        raise ValueError(f"A [[table]] of {path.name} has no name. Add name = '...'.")
    if ("source" in entry) == ("database" in entry) or ("database" in entry) != ("table" in entry):
        raise ValueError(f"Table {entry['name']!r} of {path.name} needs either source, or database and table.")
    if "source" in entry:
        source: Source = path.parent / entry["source"]
    else:
        address = entry["database"] if "://" in entry["database"] else str(path.parent / entry["database"])
        source = (address, tuple(entry["table"].split(".")))
    given = {key: value for key, value in entry.items() if key not in ("name", "source", "database", "table")}
    return Table(entry["name"], source, **given)


def fit_file(path: str | Path, target: str | None = None, **parameters: Any) -> RelationalLinearSVC:
    """Return RelationalLinearSVC(**parameters) fitted to the join of a TOML file, for ``buttress fit``.

    ``class_texts_`` are its classes as the file of the labels has them, where that is a text file.
    """
    join = read_join(path, target)
    model = RelationalLinearSVC(**parameters).fit(join)
    model.class_texts_ = class_texts(join, model.classes_)
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


def features_file(path: str | Path, target: str | None = None, functions: Sequence[str] | None = None,
                  known: Path | None = None) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the columns of ``buttress features``, keys, date, features and label of each row of the label's table.

    Also the number of rows whose aggregates were computed; the file ``known`` holds those of others.
    """
    join = read_join(path, target)
    table = join.tables[join.root]
    rows = entity_table(join, functions=functions, known=known)
    label = {} if rows.label is None else {f"{table.name}.{table.label}": as_written(join, rows.label)}
    return {**rows.keys, **rows.columns, **label}, rows.anew


def as_written(join: Join, label: Any) -> NDArray[Any]:
    """Return truth values as their text file has them; other labels as they are."""
    truth = set(map(type, label.tolist())) <= {bool, type(None)}
    words = class_texts(join, np.array([False, True])) if truth else ["False", "True"]
    if words == ["False", "True"]:
        return label
    return np.array([None if value is None else words[value] for value in label.tolist()], dtype=object)


def class_texts(join: Join, classes: NDArray[Any]) -> list[str]:
    """Return the commonest text of each class: yes or 1.0, where DuckDB reads True or 1 in a text file."""
    table = join.tables[join.root]
    if classes.dtype.kind == "f" and table.label is not None:  # whole numbers with gaps came as floats
        classes = classes.astype(read_columns(table.source, [table.label])[table.label].values.dtype)
    words = [str(word) for word in classes.tolist()]
    if not is_files(table.source) or classes.dtype.kind not in "biuf" or table.label is None or any(
            path.suffix.lower() == ".parquet" for path in matching(table.source)):
        return words
    label = DUCKDB.quote(table.label)
    read = scanned(table.source, lambda scan: f"SELECT {label} FROM ({scan})")
    written = scanned(table.source, lambda scan: f"SELECT {label} FROM ({scan[:-1]}, all_varchar=true))")
    counts: dict[object, Counter[str]] = {value: Counter() for value in classes.tolist()}
    for (value,), (text,) in zip(read, written, strict=True):
        if text is not None and value in counts:
            counts[value][text.strip()] += 1
    return [found.most_common(1)[0][0] if found else word for found, word in zip(counts.values(), words, strict=True)]


SHOWN = 10  # coefficients that a fit prints unless all are asked for


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
    shown = order if everything else order[:SHOWN]
    lines.append(f"{'':<30} {'coefficient':>14} {'per standard deviation':>24}")
    lines += [f"{model.coef_names_[j]:<30} {model.coef_[0, j]:>14.6g} {moved[j]:>24.6g}" for j in shown]
    lines.append(f"{'intercept':<30} {model.intercept_[0]:>14.6g}")
    if len(shown) < len(order):
        lines.append(f"{len(order) - len(shown)} more coefficients: --all-coefficients")
    return "\n".join(lines)
