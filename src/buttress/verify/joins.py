"""RelationalLinearSVC: alpha |beta|^2 + sum_i share_i max(0, 1 - A_i beta) over the rows of a join of CSV tables."""

import math

import numpy as np

from .core import ROUNDED, Array, Claim, Columns, Model, Real, inverse, only, plus, same

STEPS = 100  # of the interior-point method
MOST_ROWS = 20_000  # of a join: more take too long
ATTRIBUTES = (
    "alpha C loss tol solver objective row_weight class_weight fit_intercept missing scaling unmatched "
    "n_samples engine memory_limit max_iter max_time random_state progress checkpoint resume "
    "coef_ intercept_ coef_per_deviation_ coef_names_ class_texts_ features_ label_table_ fills_ optional_tables_ "
    "objective_interval_ dual_bound_ gap_ alpha_ n_join_rows_ n_oracle_calls_ beta_ planes_ converged_ n_iter_ "
    "history_ classes_ feature_names_in_ n_features_in_ _certainty proof_")


def problem(model: Model) -> Model:
    """Return the problem that a model states; ValueError for what no proof knows."""
    only(model, ATTRIBUTES)
    plain = {"loss": "hinge", "objective": "rows", "class_weight": None, "missing": "raise", "scaling": "max"}
    if {name: model[name] for name in plain} != plain or model["fills_"] or len(model["optional_tables_"]):
        raise ValueError("Intervals are checked of the mean hinge loss of join rows, without class weights, NULLs, "
                         "rows without a match and robust scaling.")
    features = [[table, column, categories] for table, column, categories in model["features_"]]
    return {"model": model["class"], "alpha": float(model["alpha_"]), "row_weight": model["row_weight"],
            "fit_intercept": bool(model["fit_intercept"]), "features": features, "label_table": model["label_table_"],
            "classes": [str(label) for label in np.asarray(model["classes_"]).tolist()]}


def joined(tables: dict[str, Columns], on: list[list[str]]) -> list[dict[str, str]]:
    """Return the rows of the join: each a dict of texts by ``table.column``, and by table the number of its row.

    A key that is empty is NULL, and matches nothing.
    """
    rows: list[dict[str, str]] = [{}]
    for name, columns in tables.items():
        added = [{name: str(n), **{f"{name}.{column}": texts[n] for column, texts in columns.items()}}
                 for n in range(len(next(iter(columns.values()))))]
        rows = [old | new for old in rows for new in added
                if all((old | new)[a] == (old | new)[b] != "" for a, b in on if a in old | new and b in old | new)]
        if len(rows) > MOST_ROWS:
            raise ValueError(f"The join has more than {MOST_ROWS:,} rows, of which no interval is checked here.")
    return rows


def matrix(stated: Model, rows: list[dict[str, str]]) -> tuple[list[str], Array]:
    """Return the names of the columns of the coefficients, and their values in the rows of the join."""
    named = [(f"{table}.{column}", category) for table, column, categories in stated["features"]
             for category in ([None] if categories is None else categories)]
    X = np.array([[float(row[place]) if category is None else row[place] == category for place, category in named]
                  for row in rows], dtype=float).reshape(len(rows), len(named))
    return [place if category is None else f"{place}={category}" for place, category in named], X


def relational(model: Model, tables: dict[str, Columns], on: list[list[str]], label: str) -> list[Claim]:
    """Return the claims of the interval: the model's own objective is at most its upper end, the lower one a bound."""
    stated, rows = problem(model), joined(tables, on)
    names, X = matrix(stated, rows)
    place, alpha, free = stated["label_table"], stated["alpha"], stated["fit_intercept"]
    labels = np.array([row[f"{place}.{label}"] for row in rows])
    sign, known = np.where(labels == stated["classes"][1], 1.0, -1.0), np.isin(labels, stated["classes"]).all()
    used = np.array([int(row[place]) for row in rows])
    share = np.reciprocal(np.ones(len(rows)) if stated["row_weight"] == "join" else np.bincount(used)[used],
                          dtype=float)
    largest = np.abs(X).max(axis=0)
    share, scale = share / share.sum(), np.where(largest > 0, largest, 1.0)
    beta = np.append(np.ravel(model["coef_"]) * scale, model["intercept_"])
    A = np.column_stack([X / scale, np.full(len(X), float(free))]) * sign[:, None]
    high = float((Real(share) @ (Real(1.0) - Real(A) @ beta).each(plus) + Real(beta) @ beta * alpha).high)
    least, most = (float(end) for end in model["objective_interval_"])
    low = lower_bound(A, share, alpha)
    found = same((list(model["coef_names_"]), names), (model["n_join_rows_"], len(rows)), (bool(known), True),
                 (free or not np.any(model["intercept_"]), True), (len(stated["classes"]), 2))
    return [*found, Claim("upper end of the interval", most, high, high <= most + ROUNDED * abs(high)),
            Claim("lower end of the interval", least, low, low >= least - ROUNDED * abs(high))]


def lower_bound(A: Array, share: Array, alpha: float) -> float:
    """Return a lower bound of the optimum: every s in [0, 1]^n proves share's - |A'(share s)|^2 / 4 alpha.

    s is found by a primal-dual interior-point method, whose steps solve (diagonal + M'M) ds = rhs by Woodbury's
    identity.
    """
    M = (A * share[:, None]).T / math.sqrt(2 * alpha)
    s, z, u = np.full(len(A), 0.5), share, share
    for _ in range(STEPS):
        t = 1 - s
        gap = s @ z + t @ u
        if gap < 1e-11:  # a stated end may be off by far more
            break
        aim = 0.05 * gap / len(A)
        diagonal = z / s + u / t
        rhs = share - M.T @ (M @ s) + aim / s - aim / t
        scaled = M / diagonal
        ds = rhs / diagonal - scaled.T @ np.linalg.solve(np.eye(len(M)) + scaled @ M.T, scaled @ rhs)
        dz, du = (aim - z * ds) / s - z, (aim + u * ds) / t - u
        step = 1 / max(1.0, np.max([-ds / s, ds / t, -dz / z, -du / u]) / 0.99)
        s, z, u = s + step * ds, z + step * dz, u + step * du
    point = np.clip(share * s, 0, share)
    w = Real(A.T) @ point
    return float((Real(point) @ np.ones(len(point)) - w @ w * inverse(Real(4 * alpha))).low)
