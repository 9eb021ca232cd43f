"""Folders of evidence on twenty models, and what changes in them are found by.

    python -m tests.tampering --models        ten kinds on two tables: what is proven, and how long it takes
    python -m tests.tampering --changes       ten kinds of changes to each folder, with digests made right again
"""

import argparse
import contextlib
import csv
import io
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[threads] = "1"

from sklearn.datasets import load_breast_cancer, load_wine  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import SVC as LibSVC  # noqa: E402

from buttress import (  # noqa: E402
    SVC,
    CertifiedSVC,
    LeastSquaresClassifier,
    LinearSVC,
    RobustBoostingClassifier,
    verify,
)
from buttress.evidence import write_evidence  # noqa: E402
from buttress.verify.evidence import digest_of  # noqa: E402

KEY = b"0123456789abcdef"
MODELS = [SVC(), LinearSVC(), CertifiedSVC(), LeastSquaresClassifier(), LibSVC(), LogisticRegression(),
          RidgeClassifier(), RandomForestClassifier(random_state=0), GradientBoostingClassifier(random_state=0),
          HistGradientBoostingClassifier(), RobustBoostingClassifier()]


def number(folder, name, change):
    """Change a file of JSON."""
    held = json.loads((folder / name).read_text())
    change(held)
    (folder / name).write_text(json.dumps(held))


def statement(kind, **changed):
    """Return what changes the first statement of a kind."""
    def change(folder):
        number(folder, "evidence.json", lambda held: next(
            one for one in held["statements"] if one["kind"] == kind).update(changed))
    return change


def with_digests(change):
    """Return a change after which the digests are made right again, as somebody who changes files would."""
    def changed(folder):
        change(folder)
        number(folder, "evidence.json", lambda held: held["files"].update(
            {name: digest_of(folder / name) for name in held["files"]}))
    return changed


def larger_radius(folder):
    number(folder, "moved.json", lambda held: held["claim"]["radius"].__setitem__(0, 90.0))


def other_predictions(folder):
    number(folder, "moved.json", lambda held: held["claim"]["prediction"].reverse())


def other_scores(folder):
    def change(held):
        scores = held["point"]["scores"]
        ends = scores["intercept"] if "intercept" in scores else scores["offset"]
        ends[0] += 1e6
    number(folder, "moved.json", change)


def other_row(folder):
    rows = list(csv.reader((folder / "rows.csv").open()))
    rows[1][0] = repr(float(rows[1][0]) + 1.0)
    (folder / "rows.csv").write_text("\n".join(map(",".join, rows)) + "\n")


def other_label(folder):
    rows = list(csv.reader((folder / "rows.csv").open()))
    rows[1][-1] = next(row[-1] for row in rows[2:] if row[-1] != rows[1][-1])
    (folder / "rows.csv").write_text("\n".join(map(",".join, rows)) + "\n")


def other_page(folder):
    (folder / "evidence.html").write_text("all is proven")


CHANGES = {  # what is changed, and whether a proof finds it
    "the share of a proven statement": (statement("proven", value=1.0), True),
    "a larger radius of a row": (with_digests(larger_radius), True),
    "the predictions of rows": (with_digests(other_predictions), True),
    "the scores of the model": (with_digests(other_scores), True),
    "a value of a row": (with_digests(other_row), True),
    "the label of a row": (with_digests(other_label), True),
    "the page": (other_page, True),  # by its digest
    "the page, and its digest": (with_digests(other_page), False),
    "a measured number": (statement("measured", value=1.0), False),
    "what is declared": (statement("declared", says="anything"), False)}


def tables():
    """Yield name, rows and labels."""
    for load in (load_breast_cancer, load_wine):
        yield load.__name__[5:].replace("_", " "), *load(return_X_y=True, as_frame=True)


def written(model, X, y, folder):
    """Write the folder of a model that is fitted to every other row."""
    model = make_pipeline(StandardScaler(), model).fit(X[::2], y[::2])
    return write_evidence(model, dict(X[1::2]), y[1::2], "kind", folder, training=(dict(X[::2]), y[::2]), key=KEY,
                          declared={"purpose": "a benchmark"})


def code(folder, *arguments):
    """Return the exit code of the verifier."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return verify.main([str(folder), *arguments])


def line(*cells):
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.flush()


def models():
    line("model", "table", "accuracy", "under attack, at most", "proven, at least", "other proofs", "written, s",
         "checked, s")
    line(*["---"] * 8)
    for model in MODELS:
        for name, X, y in tables():
            with tempfile.TemporaryDirectory() as folder:
                start = time.process_time()
                found = written(model, X, y, folder)
                middle = time.process_time()
                assert code(folder) == 3, "a true folder is not proven"
                end = time.process_time()
            value = {one.name: one.value for one in found.statements}
            other = [one.name.split(",")[0] for one in found.statements if one.kind == "proven"][2:]
            shares = (f"{value[key]:.3f}" for key in ("accuracy", "accuracy under attack",
                                                      "accuracy under the threat, at least"))
            line(f"{type(model).__module__.split('.')[0]} {type(model).__name__}", name, *shares,
                 ", ".join(other) or "-", f"{middle - start:.1f}", f"{end - middle:.1f}")


def changes():
    line("what is changed", "folders", "found without a key", "found with the key")
    line(*["---"] * 4)
    with tempfile.TemporaryDirectory() as scratch:
        places = []
        for i, model in enumerate(MODELS[:10]):
            for name, X, y in tables():
                places.append(Path(scratch) / f"{i} {name}")
                written(model, X, y, places[-1])
        key = Path(scratch) / "key"
        key.write_bytes(KEY)
        for what, (change, _) in CHANGES.items():
            alone = signed = 0
            for place in places:
                copy = Path(scratch) / "copy"
                shutil.copytree(place, copy)
                change(copy)
                alone += code(copy) in (1, 2)
                signed += code(copy, "--key", str(key)) in (1, 2)
                shutil.rmtree(copy)
            line(what, len(places), alone, signed)


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    asked.add_argument("--models", action="store_true")
    asked.add_argument("--changes", action="store_true")
    given = asked.parse_args()
    warnings.simplefilter("ignore")
    if given.models:
        models()
    if given.changes:
        changes()
