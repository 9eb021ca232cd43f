"""Findings of the audit on planted faults: how often each code is found, and how often it is raised on clean tables.

    python benchmarks/audit.py            (BUT001 to BUT013)
    python benchmarks/audit.py models     (BUT014 to BUT017; all but BUT016 fit models of 150 rows for each table)
    python benchmarks/audit.py BUT009 BUT016   (those only)
    python benchmarks/audit.py truth ...  (sixty public tables; see audit_truth.py)

Five tables that come with scikit-learn are taken for clean, of one kind (classes or numbers) where a code is about
targets of that kind only. Each fault is planted at three strengths into each table, three times (once where models are
fitted: the baselines and the plain machine); a false alarm is a code that is raised on a table as it is.
"""

import sys
from collections.abc import Callable

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_regression,
)

from buttress.audit import contenders
from buttress.audit.against import unlike
from buttress.audit.baselines import MAJORITY, MEAN, baselines, takes_logarithms
from buttress.audit.findings import CHECKS, Evidence, Finding, find_all
from buttress.audit.measurements.attacked import ATTACKED
from buttress.audit.measurements.scores import AS_IS, CORRUPTED, NOVELTY
from buttress.audit.measuring.cells import Cell
from buttress.audit.measuring.fits import better_than_guessing, recommended
from buttress.audit.measuring.measurement import measure
from buttress.audit.measuring.split_table import split_table
from buttress.audit.measuring.suspicion import Verdicts, judge
from buttress.audit.options import Options
from buttress.audit.reading.split import split
from buttress.audit.reading.table import make_table

OF_MODELS = ("BUT014", "BUT015", "BUT017")
TRIALS = 3  # of each fault, strength and table
Columns = dict[str, np.ndarray]
Fault = Callable[[Columns, np.ndarray, float, np.random.Generator], tuple[Columns, np.ndarray]]


def tables() -> dict[str, tuple[Columns, np.ndarray]]:
    """Return the clean tables, at most 400 rows of each."""
    loaded = {name: load(return_X_y=True) for name, load in (
        ("iris", load_iris), ("wine", load_wine), ("cancer", load_breast_cancer), ("diabetes", load_diabetes))}
    loaded["two classes"] = make_classification(300, 6, class_sep=1.5, flip_y=0, random_state=0)
    found = {}
    for name, (X, y) in loaded.items():
        rows = np.sort(np.random.default_rng(0).permutation(len(X))[:400])
        found[name] = {f"c{j}": X[rows, j] for j in range(X.shape[1])}, y[rows]
    return found


def tables_of_numbers() -> dict[str, tuple[Columns, np.ndarray]]:
    """Return five clean tables with a target of numbers."""
    made = {"friedman1": make_friedman1(300, noise=1.0, random_state=0),
            "friedman2": make_friedman2(300, noise=50.0, random_state=0),
            "friedman3": make_friedman3(300, noise=0.1, random_state=0),
            "linear": make_regression(300, 6, noise=20.0, random_state=0)}
    return {"diabetes": tables()["diabetes"]} | {
        name: ({f"c{j}": X[:, j] for j in range(X.shape[1])}, y) for name, (X, y) in made.items()}


def tables_of_classes() -> dict[str, tuple[Columns, np.ndarray]]:
    """Return five clean tables with a target of classes."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 3][:300], y[y < 3][:300]
    digits = {f"c{j}": X[:, j] for j in range(X.shape[1]) if X[:, j].std() > 1}
    return {name: table for name, table in tables().items() if name != "diabetes"} | {"digits": (digits, y)}


def findings_of(X: Columns, y: np.ndarray, judged: bool) -> list[Finding]:
    """Return all findings on a table that need no model but the judge's; without that no label looks wrong."""
    table = make_table(X, y, "y", "auto")
    classifies = table.classifies
    train, test, _ = split(table, 0)
    n = len(table)
    verdicts = Verdicts(table.target, table.target, np.zeros(n), np.zeros(n), np.zeros(n, bool), np.zeros((n, 1), int),
                        0.0, classifies)
    if judged:
        prepared = table.preparation().fit_transform(table.coded())
        verdicts, _ = judge(prepared, table.target, table.task, seed=0, logarithms=takes_logarithms(table))
    guess = MAJORITY if classifies else MEAN
    evidence = Evidence(table, train, test, np.arange(n), verdicts, {guess: {"as_is": Cell()}}, None, guess,
                        0.25)
    return find_all(evidence)


def codes_of(X: Columns, y: np.ndarray, judged: bool) -> set[str]:
    return {finding.code for finding in findings_of(X, y, judged)}


def leak(X, y, strength, rng):
    numbers = np.unique(y, return_inverse=True)[1] if len(np.unique(y)) < 10 else (y - y.mean()) / y.std()
    return X | {"leak": numbers + strength * rng.normal(size=len(y))}, y


def index(X, y, strength, rng):
    order = np.argsort(y + strength * y.std() * rng.normal(size=len(y)))  # a sorted file, more or less
    return {"": np.sort(rng.permutation(10 * len(y))[: len(y)])} | {n: c[order] for n, c in X.items()}, y[order]


def copies(X, y, strength, rng):
    rows = np.r_[np.arange(len(y)), rng.integers(0, len(y), max(1, int(strength * len(y))))]
    return {name: column[rows] for name, column in X.items()}, y[rows]


def near_copies(X, y, strength, rng):
    Z, targets = copies(X, y, strength, rng)
    return {n: np.r_[c[: len(y)], c[len(y) :] + 1e-5 * c.std() * rng.normal(size=len(c) - len(y))]
            for n, c in Z.items()}, targets


def nearly_constant(X, y, strength, rng):
    return X | {"flat": np.where(rng.random(len(y)) < strength, 1.0, 0.0)}, y


def missing(X, y, strength, rng):
    return X | {"c0": np.where(rng.random(len(y)) < strength, np.nan, X["c0"])}, y


def wrong(X, y, strength, rng):
    y = y.copy()
    rows = rng.choice(len(y), max(1, int(strength * len(y))), replace=False)
    labels = np.unique(y)
    if len(labels) < 10:
        y[rows] = labels[(np.searchsorted(labels, y[rows]) + rng.integers(1, len(labels), len(rows))) % len(labels)]
    else:
        y[rows] = y.mean() + 5 * y.std() * rng.normal(1, 1, len(rows))
    return X, y


def one_kind(X, y, strength, rng):
    y = y.copy()
    labels = np.unique(y)
    if len(labels) < 10:
        ones = np.flatnonzero(y == labels[1])
        y[rng.choice(ones, max(1, int(strength * len(ones))), replace=False)] = labels[0]
    return X, y


def sentinel(X, y, strength, rng):
    rows = rng.choice(len(y), max(1, int(strength * len(y))), replace=False)
    column = X["c0"].copy()
    column[rows] = -9999.0
    return X | {"c0": column}, y


def unit(X, y, strength, rng):
    few = rng.random(len(y)) < strength
    few[0] = True
    return X | {"c0": np.array([f"{1000 * v:.6g} g" if f else f"{v:.6g} kg" for v, f in zip(X["c0"], few)])}, y


def words(X, y, strength, rng):
    if len(np.unique(y)) >= 10:
        return X, y
    rows = rng.random(len(y)) < strength
    rows[0] = True
    return X, np.where(rows, "n.a.", y.astype(str)).astype(object)


def rare(X, y, strength, rng):
    labels = np.unique(y)
    rest = np.flatnonzero(y != labels[-1])
    largest = max(int((y == label).sum()) for label in labels[:-1])
    few = np.flatnonzero(y == labels[-1])[: max(4, int(largest / strength))]
    rows = np.sort(np.r_[rest, few])
    return {name: column[rows] for name, column in X.items()}, y[rows]


def skew(X, y, strength, rng):
    return X, np.exp(strength * (y - y.mean()) / y.std())


def weak_columns(X, y, strength, rng):
    """Many columns that each say a little, in place of the table's: what a small move of all of them undoes."""
    numbers = np.unique(y, return_inverse=True)[1]
    return {f"w{j}": numbers + 4.0 * rng.normal(size=len(y)) for j in range(int(strength))}, y


def noise_columns(X, y, strength, rng):
    return X | {f"n{j}": rng.normal(size=len(y)) for j in range(int(strength))}, y


def strangers(X, y, strength, rng):
    """Held-out rows each from a place of its own: where the table is split does not follow from the columns."""
    table = make_table(X, y, "y", "auto")
    held = table.places[split(table, 0)[1]]
    far = np.isin(np.arange(len(y)), rng.permutation(held)[: round(strength * len(held))])
    return {name: np.where(far, column + 6 * column.std() * rng.normal(size=len(y)), column)
            for name, column in X.items()}, y


def unrelated(X, y, strength, rng):
    y = y.copy()
    rows = np.flatnonzero(rng.random(len(y)) < strength)
    y[rows] = y[rng.permutation(rows)]
    return X, y


FAULTS: dict[str, tuple[Fault, tuple[float, float, float]]] = {
    "BUT001": (leak, (0.3, 0.1, 0.0)), "BUT002": (index, (3.0, 1.0, 0.0)), "BUT003": (copies, (0.01, 0.05, 0.2)),
    "BUT004": (near_copies, (0.01, 0.05, 0.2)), "BUT005": (nearly_constant, (0.008, 0.004, 0.0)),
    "BUT006": (missing, (0.02, 0.1, 0.4)), "BUT007": (wrong, (0.01, 0.03, 0.1)),
    "BUT008": (one_kind, (0.05, 0.1, 0.2)), "BUT009": (sentinel, (0.003, 0.01, 0.03)),
    "BUT010": (unit, (0.02, 0.1, 0.4)), "BUT011": (words, (0.01, 0.03, 0.1)),
    "BUT012": (rare, (8.0, 15.0, 30.0)), "BUT013": (skew, (0.3, 0.7, 1.5)),
}
OF_MODELS: dict[str, tuple[Fault, tuple[float, float, float]]] = {
    "BUT014": (weak_columns, (10, 40, 160)), "BUT015": (noise_columns, (10, 40, 160)),
    "BUT016": (strangers, (0.05, 0.1, 0.2)), "BUT017": (unrelated, (0.8, 0.9, 1.0)),
}
OF_CLASSES = ("BUT008", "BUT011", "BUT012", "BUT014")  # codes that are about classes only
OF_NUMBERS = ("BUT013",)


JUDGED = ("BUT007", "BUT008")  # findings that rest on the verdicts on rows


def tables_for(code: str) -> dict[str, tuple[Columns, np.ndarray]]:
    return tables_of_classes() if code in OF_CLASSES else tables_of_numbers() if code in OF_NUMBERS else tables()


def measured(X: Columns, y: np.ndarray) -> set[str]:
    """Return what is found of the baselines and the plain machine on 150 training rows, the parts that need no more."""
    table = make_table(X, y, "y", "auto")
    plain = dict(list(contenders.contenders(table.task, 0.25, 0).items())[:1])
    options = Options(rows=min(150, int(0.7 * len(y))))
    split_rows = split_table(table, plain | baselines(table, 0), options)
    found = measure((AS_IS, ATTACKED, CORRUPTED), split_rows, lambda what, share: None, lambda line: None)
    n, classifies = len(table), split_rows.classifies
    verdicts = Verdicts(table.target, table.target, np.zeros(n), np.zeros(n), np.zeros(n, bool), np.zeros((n, 1), int),
                        0.0, classifies)
    evidence = Evidence(table, split_rows.train.places, split_rows.test.places, np.arange(n), verdicts,
                        found.rows(list(split_rows.entries)), recommended(split_rows, found), split_rows.baseline, 0.25,
                        better=better_than_guessing(split_rows, found))
    return {found.code for check in CHECKS if check.code in OF_MODELS for found in check.find(evidence)}


def unlike_rows(X: Columns, y: np.ndarray) -> set[str]:
    """Return BUT016 if any held-out row is unlike the others, which needs no model."""
    table = make_table(X, y, "y", "auto")
    train, test, _ = split(table, 0)
    raw = table.coded()
    prepare = table.preparation().fit(raw[train])
    found = unlike(prepare.transform(raw[train]), prepare.transform(raw[test]), NOVELTY)
    return {"BUT016"} if found.any() else set()


def of_columns(code: str) -> Callable[[Columns, np.ndarray], set[str]]:
    return lambda X, y: codes_of(X, y, code in JUDGED)


def line(code: str, fault: Fault, strengths: tuple[float, ...], codes: Callable[[Columns, np.ndarray], set[str]],
         trials: int) -> str:
    """Return a row of the table: the share of planted faults found by strength, and the tables it is raised on."""
    clean = tables_for(code)
    raised = [name for name, (X, y) in clean.items() if code in codes(X, y)]
    shares = []
    for strength in strengths:
        hits = [code in codes(*fault(X, y, strength, np.random.default_rng(seed)))
                for X, y in clean.values() for seed in range(trials)]
        shares.append(f"{np.mean(hits):.2f} of {len(hits)}")
    title = {check.code: check.title for check in CHECKS}[code]
    return f"| {code} | {title} | {' | '.join(shares)} | {', '.join(raised) or 'none'} |"


def main(wanted: list[str]) -> None:
    chosen = {code: fault for code, fault in (FAULTS | OF_MODELS).items() if code in wanted}
    chosen = OF_MODELS if "models" in wanted else chosen or FAULTS
    print("| code | what | weak | medium | strong | raised on the table as it is |")
    print("| --- | --- | --- | --- | --- | --- |")
    for code, (fault, strengths) in chosen.items():
        codes, trials = (measured, 1) if code in OF_MODELS else (of_columns(code), TRIALS)
        if code == "BUT016":
            codes, trials = unlike_rows, TRIALS
        print(line(code, fault, strengths, codes, trials), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["truth"]:
        import audit_truth

        audit_truth.main(sys.argv[2:])
    else:
        main(sys.argv[1:])
