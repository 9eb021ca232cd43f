"""An audited estimator as code to paste: the preparation of the columns and the estimator, in one pipeline."""

from typing import Any

from buttress.audit.table import Table


def paste(table: Table, estimator: Any) -> str:
    """Return Python code that defines ``model``, a pipeline for a frame with the table's columns."""
    imports = ["from sklearn.pipeline import make_pipeline", "from sklearn.compose import make_column_transformer"]
    steps = []
    if table.numeric:
        imports += ["from sklearn.impute import SimpleImputer", "from sklearn.preprocessing import StandardScaler"]
        steps.append('(make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),\n     '
                     f"{list(table.numeric)!r}),")
    if table.categorical:
        imports.append("from sklearn.preprocessing import OneHotEncoder")
        steps.append('(OneHotEncoder(handle_unknown="ignore", sparse_output=False),\n     '
                     f"{list(table.categorical)!r}),")
    package = type(estimator).__module__.split(".")[0]
    home = package if package == "buttress" else type(estimator).__module__
    names = [type(estimator).__name__]
    risk = getattr(estimator, "risk", None)
    if risk is not None:
        names.append(type(risk).__name__)
    imports.append(f"from {home} import {', '.join(sorted(names))}")
    columns = "\n    ".join(steps)
    text = " ".join(repr(estimator).split())
    return "\n".join([*imports, "", f"prepare = make_column_transformer(\n    {columns}\n)",
                      f"model = make_pipeline(prepare, {text})",
                      f"# model.fit(frame, frame[{table.target_name!r}])"])
