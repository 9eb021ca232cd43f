"""An audited estimator as code to paste: reading the data, preparing the columns and the estimator, in one pipeline."""

import sys
from collections.abc import Iterable

import numpy as np
from sklearn.base import BaseEstimator

from buttress.audit.reading.entries import Notation
from buttress.audit.reading.source import read_call
from buttress.audit.reading.table import DataTable


def paste(table: DataTable, estimator: object) -> str:
    """Return Python code that defines ``model``, a pipeline for a frame with the table's columns, and fits it.

    Data that came as objects are not read, and a comment stands for the fit; the code is for pandas if they came as a
    pandas frame, else for polars.
    """
    imports = ["from sklearn.pipeline import make_pipeline", "from sklearn.compose import make_column_transformer"]
    steps = []
    if table.numeric:
        imports += ["from sklearn.impute import SimpleImputer", "from sklearn.preprocessing import StandardScaler"]
        steps.append('(make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),\n     '
                     f"{_places(table, table.numeric)!r}),")
    if table.categorical:
        imports.append("from sklearn.preprocessing import OneHotEncoder")
        steps.append('(OneHotEncoder(handle_unknown="ignore", sparse_output=False),\n     '
                     f"{_places(table, table.categorical)!r}),")
    home = _home(type(estimator))
    names = [type(estimator).__name__]
    risk = getattr(estimator, "risk", None)
    if risk is not None:
        names.append(type(risk).__name__)
    imports.append(f"from {home} import {', '.join(sorted(names))}")
    columns = "\n    ".join(steps)
    if getattr(estimator, "threat", None) is not None:
        imports += ["from math import inf", "from buttress import Budget, ThreatModel"]
    # of a long one scikit-learn would leave out the middle
    code = estimator.__repr__(N_CHAR_MAX=np.inf) if isinstance(estimator, BaseEstimator) else repr(estimator)
    text = " ".join(code.split())
    more, reading, fitting = _data(table)
    return "\n".join([*more, *imports, "", *reading, f"prepare = make_column_transformer(\n    {columns}\n)",
                      f"model = make_pipeline(prepare, {text})", fitting])


def _home(cls: type) -> str:
    """Return the shortest module that offers a class: sklearn.ensemble, not sklearn.ensemble._forest."""
    parts = cls.__module__.split(".")
    modules = (".".join(parts[:count]) for count in range(1, len(parts)))
    return next((name for name in modules if getattr(sys.modules.get(name), cls.__name__, None) is cls), cls.__module__)


def _places(table: DataTable, names: Iterable[str]) -> list[int] | list[str]:
    """Return the columns as they are called in the data: by name, or for an array by number."""
    return [int(name[1:]) for name in names] if table.origin[1] == "array" else list(names)


def _data(table: DataTable) -> tuple[list[str], list[str], str]:
    """Return the imports, the lines that read the data, and the line that fits."""
    source, kind = table.origin
    if kind in ("csv", "parquet"):
        name = table.target_name
        reading = [f"frame = {read_call(source, kind)}", *_conversions(table), f"frame = frame.drop_nulls({name!r})"]
        packed = ["import zipfile"] if "zipfile." in reading[0] else []
        return [*packed, "import polars as pl"], reading, f"model.fit(frame, frame[{name!r}].to_numpy())"
    if kind == "bundled":
        reading = [f"X, y, names, _ = load_bundled({source!r})", "frame = pl.DataFrame(X, schema=names)"]
        return ["import polars as pl", "from buttress.datasets import load_bundled"], reading, "model.fit(frame, y)"
    if kind == "join":
        name = table.target_name
        reading = [f"rows = entity_table(read_join({source!r}, {name!r}))",
                   f"frame = pl.DataFrame({{**rows.columns, {name!r}: rows.label}}, nan_to_null=True)",
                   *_conversions(table), f"frame = frame.drop_nulls({name!r})"]
        more = ["import polars as pl", "from buttress.relational import entity_table, read_join"]
        return more, reading, f"model.fit(frame, frame[{name!r}].to_numpy())"
    columns = {name: notation for name, notation in table.read_as.items() if name != table.target_name}
    words = f", its texts turned into numbers: {table.target_name!r}" if table.target_name in table.read_as else ""
    if not columns or kind == "array":
        return [], [], f"# model.fit(X, y), with the X and y audited{words}"
    library = "pandas as pd" if kind == "pandas frame" else "polars as pl"
    write = _in_pandas if kind == "pandas frame" else _in_polars
    return [f"import {library}"], write(columns), f"# model.fit(with_numbers(X), y), with the X and y audited{words}"


def _in_polars(columns: dict[str, Notation]) -> list[str]:
    """Return a function that turns columns of texts of a polars frame into the numbers the audit read in them."""
    inner = [f"        {_conversion(name, notation)}," for name, notation in columns.items()]
    return ["def with_numbers(frame):", "    return frame.with_columns(", *inner, "    )", ""]


def _in_pandas(columns: dict[str, Notation]) -> list[str]:
    """Return the same function for a pandas frame."""
    inner = []
    for name, notation in columns.items():
        text = rf"frame[{name!r}].astype(str).str.extract({_spaced_pattern(notation)!r})[0]"
        for old, new in notation.replacements:
            text += f".str.replace({old!r}, {new!r}, regex=False)"
        inner.append(f"        {name!r}: pd.to_numeric({text}, errors='coerce'),")
    return ["def with_numbers(frame):", "    return frame.assign(**{", *inner, "    })", ""]


def _spaced_pattern(notation: Notation) -> str:
    """Return the pattern of an entry with spaces around it, the number being its first group."""
    return rf"(?i)^\s*({notation.pattern})\s*$"


def _conversions(table: DataTable) -> list[str]:
    """Return the lines that turn columns of texts into the numbers the audit read in them."""
    return [f"frame = frame.with_columns({_conversion(name, notation)})" for name, notation in table.read_as.items()]


def _conversion(name: str, notation: Notation) -> str:
    text = f"pl.col({name!r}).cast(pl.String)"
    if not notation.replacements:
        return f"{text}.str.strip_chars().cast(pl.Float64, strict=False)"
    text += f".str.extract({_spaced_pattern(notation)!r})"
    for old, new in notation.replacements:
        text += f".str.replace_all({old!r}, {new!r}, literal=True)"
    return f"{text}.cast(pl.Float64, strict=False)"
