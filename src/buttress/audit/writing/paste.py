"""An audited estimator as code to paste: reading the data, preparing the columns and the estimator, in one pipeline."""

import sys
from collections.abc import Iterable

from buttress.audit.reading.entries import Notation
from buttress.audit.reading.source import read_call
from buttress.audit.reading.table import Table


def paste(table: Table, estimator: object) -> str:
    """Return Python code that defines ``model``, a pipeline for a frame with the table's columns, and fits it.

    Data that came as objects are not read, and a comment stands for the fit.
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
    text = " ".join(repr(estimator).split())
    more, reading, fitting = _data(table)
    return "\n".join([*more, *imports, "", *reading, f"prepare = make_column_transformer(\n    {columns}\n)",
                      f"model = make_pipeline(prepare, {text})", fitting])


def _home(cls: type) -> str:
    """Return the shortest module that offers a class: sklearn.ensemble, not sklearn.ensemble._forest."""
    parts = cls.__module__.split(".")
    modules = (".".join(parts[:count]) for count in range(1, len(parts)))
    return next((name for name in modules if getattr(sys.modules.get(name), cls.__name__, None) is cls), cls.__module__)


def _places(table: Table, names: Iterable[str]) -> list[int] | list[str]:
    """Return the columns as they are called in the data: by name, or for an array by number."""
    return [int(name[1:]) for name in names] if table.by_number else list(names)


def _data(table: Table) -> tuple[list[str], list[str], str]:
    """Return the imports, the lines that read the data, and the line that fits."""
    source, kind = table.origin or ("", "")
    if kind in ("csv", "parquet"):
        name = table.target_name
        reading = [f"frame = {read_call(source, kind)}", *_conversions(table), f"frame = frame.drop_nulls({name!r})"]
        packed = ["import zipfile"] if "zipfile." in reading[0] else []
        return [*packed, "import polars as pl"], reading, f"model.fit(frame, frame[{name!r}].to_numpy())"
    if kind == "bundled":
        reading = [f"X, y, names, _ = load_bundled({source!r})", "frame = pl.DataFrame(X, schema=names)"]
        return ["import polars as pl", "from buttress.datasets import load_bundled"], reading, "model.fit(frame, y)"
    words = f", the texts of {', '.join(map(repr, table.read_as))} turned into numbers" if table.read_as else ""
    return [], [], f"# model.fit(X, y), with the X and y audited{words}"


def _conversions(table: Table) -> list[str]:
    """Return the lines that turn columns of texts into the numbers the audit read in them."""
    return [f"frame = frame.with_columns({_conversion(name, notation)})" for name, notation in table.read_as.items()]


def _conversion(name: str, notation: Notation) -> str:
    text = f"pl.col({name!r}).cast(pl.String)"
    if not notation.replacements:
        return f"{text}.str.strip_chars().cast(pl.Float64, strict=False)"
    pattern = rf"(?i)^\s*({notation.pattern})\s*$"
    text += f".str.extract({pattern!r})"
    for old, new in notation.replacements:
        text += f".str.replace_all({old!r}, {new!r}, literal=True)"
    return f"{text}.cast(pl.Float64, strict=False)"
