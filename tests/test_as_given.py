"""Labels, rows and files in the forms that people have them: taken as they are, or refused with words."""

from datetime import date
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import buttress
from buttress import (
    SVC,
    SVDD,
    SVR,
    AdversarialClassifier,
    AdversarialLinearSVC,
    CertifiedSVC,
    FreeRangeSVC,
    LinearSVC,
    LinearSVR,
    attacks,
    certificates,
)

from problems import breast_cancer, iris, moons

CLASSIFIERS = [SVC(), LinearSVC(), CertifiedSVC(max_iter=5), AdversarialLinearSVC()]


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(("kind", "numpy"), [("boolean", bool), ("Int64", np.int64), ("UInt8", np.uint8)])
def test_labels_of_pandas_keep_their_type(model, kind, numpy):
    X, y = moons(60)
    labels = pd.Series(y).astype("Int64").astype(kind)
    model.fit(X, labels)
    assert model.classes_.dtype == numpy
    assert model.predict(X).dtype == numpy
    np.testing.assert_array_equal(model.predict(X), model.fit(X, y).predict(X))
    labels[3] = pd.NA
    with pytest.raises(ValueError, match=r"y holds no value|Input y contains NaN"):
        model.fit(X, labels)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_a_missing_text_label_is_named_with_its_row(model):
    X, y = moons(60)
    texts = np.where(y, "yes", "no").tolist()
    texts[7] = ""
    read = pd.read_csv(StringIO("\n".join(["label", *texts])), skip_blank_lines=False)["label"]
    for labels in (read, read.to_numpy(dtype=object), read.astype("string")):
        with pytest.raises(ValueError, match=r"y holds no value in 1 rows, the first is row 7\. Drop those rows"):
            model.fit(X, labels)


def test_labels_may_be_texts_of_numpy():
    X, y = moons(40)
    mixed = np.array([np.str_("a") if label else "b" for label in y], dtype=object)
    assert SVC().fit(X, mixed).score(X, mixed) > 0.8
    with pytest.raises(TypeError, match="labels of one type"):
        SVC().fit(X, np.array([1 if label else "b" for label in y], dtype=object))


@pytest.mark.parametrize("kind", [lambda label: date(2024, 1, 1 + label), bool], ids=["date", "bool"])
def test_labels_that_are_objects_of_another_kind_are_refused_with_the_remedy(kind):
    X, y = moons(40)
    labels = np.array([kind(int(label)) for label in y], dtype=object)
    with pytest.raises(TypeError, match=rf"texts or .* in y\. Got {type(labels[0]).__name__}\. Make all"):
        SVC().fit(X, labels)
    assert SVC().fit(X, [str(label) for label in labels]).score(X, [str(label) for label in labels]) > 0.8


@pytest.mark.parametrize("model", [SVC(), LinearSVC(), SVR(), SVDD()], ids=lambda model: type(model).__name__)
def test_masked_entries_are_refused(model):
    X, y = moons(40)
    masked = np.ma.masked_array(X, mask=np.zeros(X.shape, dtype=bool))
    model.fit(masked, y)
    masked.mask[3, 1] = True
    for call in (lambda: model.fit(masked, y), lambda: model.predict(masked)):
        with pytest.raises(ValueError, match="X is a masked array with 1 masked entries"):
            call()
    if not isinstance(model, SVDD):
        with pytest.raises(ValueError, match="y is a masked array"):
            model.fit(X, np.ma.masked_array(y, mask=np.arange(40) == 2))


@pytest.mark.parametrize("model", [SVC(), SVR()], ids=lambda model: type(model).__name__)
def test_lazy_frames_are_refused_with_what_makes_rows_of_them(model):
    X, y = moons(40)
    frame = pytest.importorskip("polars").DataFrame(X, schema=["a", "b"])
    for call in (lambda: model.fit(frame.lazy(), y), lambda: model.fit(frame, y).predict(frame.lazy()),
                 lambda: buttress.audit(None, frame.lazy(), y)):
        with pytest.raises(ValueError, match=r"X is a lazy frame, .* as .collect\(\) makes it"):
            call()


@pytest.mark.parametrize("make", [csr_matrix, csr_array])
@pytest.mark.parametrize("kind", [SVC, LinearSVC, SVR])
def test_sparse_rows_may_have_wide_indices(make, kind):
    X, y = moons(60)
    wide = make(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    model = kind().fit(wide, y)
    np.testing.assert_array_equal(model.predict(wide), kind().fit(make(X), y).predict(make(X)))
    assert wide.indices.dtype == np.int64  # the caller's is left as it was


@pytest.mark.parametrize("kind", [SVC, LinearSVC, SVR, LinearSVR])
def test_frames_of_sparse_columns_are_sparse_rows(kind):
    X, y = moons(60)
    frame = pd.DataFrame(X * (X > 0)).astype(pd.SparseDtype(float, 0.0))
    model = kind().fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), model.predict(csr_array(X * (X > 0))))


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=["unix", "old mac", "dos"])
def test_lines_of_a_file_may_end_in_any_way(tmp_path, end):
    from buttress.audit.reading.source import read_file

    file = tmp_path / "table.csv"
    file.write_bytes(end.join(["a;b", "1,5;x", "2;\"y z\"", ""]).encode())
    found = read_file(str(file), None)
    assert [column.to_list() for column in found.values()] == [[1.5, 2.0], ["x", "y z"]]


# --- how sure the machine trained on moved inputs is


@pytest.mark.parametrize("model", [
    AdversarialLinearSVC(eps=0.1), AdversarialLinearSVC(eps=0.3, norm="l2"), AdversarialLinearSVC(eps=0.3, norm="l1"),
    FreeRangeSVC(C_f=0.1), FreeRangeSVC(C_f=0.1, attacked_class="both")], ids=str)
def test_probabilities_of_the_attacked_linear_machines(model):
    """Against the base rate and a logistic model on rows it has not seen, and against refits without single rows."""
    X, y = breast_cancer()
    model = clone(model).fit(X[:300], y[:300])
    probability = model.predict_proba(X[300:])
    np.testing.assert_array_equal(probability.argmax(axis=1), model.predict(X[300:]))

    def loss(probability):
        return np.mean((probability[:, 1] - y[300:]) ** 2)

    logistic = LogisticRegression().fit(X[:300], y[:300]).predict_proba(X[300:])
    assert loss(probability) < loss(logistic) + 0.03
    assert loss(probability) < 0.3 * np.mean((np.mean(y[:300]) - y[300:]) ** 2)
    inside = model.predict_set(X[300:], coverage=0.9)[np.arange(len(X) - 300), y[300:]]
    assert inside.mean() > 0.85


@pytest.mark.parametrize("model", [AdversarialLinearSVC(eps=0.1), FreeRangeSVC(C_f=0.1)], ids=str)
def test_left_out_scores_are_nearer_to_refits_than_the_scores_are(model):
    X, y = (part[:150] for part in breast_cancer())
    if isinstance(model, FreeRangeSVC):
        model = clone(model).set_params(bounds=(X.min(axis=0), X.max(axis=0)))
    model = clone(model).fit(X, y)
    own = model.decision_function(X)
    hardest = np.argsort((2 * y - 1) * own)[:6]
    refitted = []
    for i in hardest:
        kept = np.arange(150) != i
        again = clone(model).fit(X[kept], y[kept])
        refitted.append(again.decision_function(X[i:i + 1])[0])
    held = model._certainty.held.scores[hardest, 0]
    assert np.abs(held - refitted).mean() < 0.6 * np.abs(own[hardest] - refitted).mean()


def test_so_has_what_the_chooser_holds():
    X, y = iris()
    model = AdversarialClassifier([AdversarialLinearSVC()], eps=0.1, random_state=0).fit(X, y)
    probability = model.predict_proba(X)
    assert probability.shape == (150, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1)


def test_explanations_and_sets_behind_a_scaler():
    X, y = breast_cancer()
    model = make_pipeline(StandardScaler(), SVC()).fit(3 * X + 1, y)
    plain = SVC().fit(X, y)
    there, here = buttress.explain(model, 3 * X[:1] + 1), buttress.explain(plain, X[:1])
    np.testing.assert_array_equal(np.sort(there.row), np.sort(here.row))
    np.testing.assert_allclose(there.score, here.score, atol=1e-6)
    np.testing.assert_array_equal(model[-1].predict_set(model[:-1].transform(3 * X + 1)), plain.predict_set(X))


def test_masked_entries_are_refused_by_all_that_takes_a_table():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    model, hidden = SVC().fit(X, y), np.arange(40) == 3
    rows = np.ma.masked_array(np.where(hidden[:, None], 999.0, X), mask=np.repeat(hidden[:, None], 2, axis=1))
    one = np.ma.masked_array(np.ones(40), mask=hidden)
    shares = np.full((40, 2), 0.5)
    for name, call in [("X", lambda: buttress.audit(None, rows, y)), ("y", lambda: buttress.audit(None, X, one)),
                       ("X", lambda: certificates.certified_radius(model, rows)),
                       ("X", lambda: attacks.pgd(model, rows, y, eps=0.1)),
                       ("sample_weight", lambda: SVC().fit(X, y, sample_weight=one)),
                       ("y", lambda: buttress.label_law(shares, np.ma.masked_array(y, mask=hidden))),
                       ("predictions", lambda: buttress.residual_law(one, X[:, 0])),
                       ("y", lambda: buttress.residual_law(X[:, 0], one))]:
        with pytest.raises(ValueError, match=f"{name} is a masked array with [12] masked entries"):
            call()
