"""Model files: what is saved comes back the same, whatever is changed is refused, and nothing in a file is run."""

import hashlib
import json
import os
import pickle
import pkgutil
import re
from contextlib import suppress
from importlib import import_module
from inspect import getmembers, isabstract, isclass
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import buttress
from buttress import (
    SVC,
    AdversarialSVC,
    CertifiedSVC,
    KernelClassifier,
    KernelRegressor,
    ModelFileError,
    StochasticLinearSVC,
    Subquantile,
    Tilted,
    load,
    save,
)
from buttress.files.container import PREFIX, VERSION, pack, unpack
from buttress.files.values import Encoder
from buttress.kernels import RBF, Combination, Laplacian, MultiscaleRBF, Stretched
from buttress.persistence import classes
from buttress.persistence.classes import NAMED, PARTS, SKLEARN, class_named, name_of, name_of_thing, thing_named
from buttress.persistence.models import encoded

from problems import KERNELS, iris, moons, points

NOT_IN_FILES = {  # no model keeps them
    "Custom": "holds a user's function, which no file can",
    "Mirrored": "the kernel of one fit without intercept; the model keeps the kernel in it",
    "OnDevice": "the kernel of one fit or prediction; the model keeps the kernel in it",
    "RowMixture": "the kernel of rows during one fit; the model keeps a Combination",
}
MODELS = [
    SVC(class_weight={0: 1.0, 1: 2.5, 2: 1.0}, max_time=1e9),
    SVC(kernel=Combination([RBF(0.2), Laplacian()], [0.3, 0.7])),
    AdversarialSVC(max_iter=5, random_state=np.random.RandomState(3)),
    CertifiedSVC(max_iter=10, n_landmarks=5, random_state=np.random.RandomState(3)),
    KernelClassifier(risk=Subquantile(np.float64(0.9))),
    KernelRegressor(risk=Tilted(-0.5)),
    make_pipeline(StandardScaler(), MinMaxScaler((-1, 1)), RobustScaler(), SVC()),
]


def write_unchecked(model, path):
    """Write a model's file without the check that it comes back, as an attacker would."""
    encoder = Encoder(encoded)
    path.write_bytes(b"".join(pack(encoder.encode(model, "model"), encoder.arrays, {}, grown=encoder.grown)))


def carrier(value):
    """An estimator that a file can hold without a fit, with any value in it."""
    return HashingVectorizer(ngram_range=value)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.buttress"


@pytest.mark.parametrize("model", MODELS, ids=lambda e: type(e).__name__)
def test_a_loaded_model_is_the_saved_one(model, path):
    X, y = iris()
    model = clone(model).fit(X, y)
    save(model, path)
    again = load(path)
    assert type(again) is type(model)
    draws = [m.random_state.get_state()[1] for m in (model, again) if isinstance(model, AdversarialSVC | CertifiedSVC)]
    assert len(draws) == 0 or (draws[0] == draws[1]).all()
    assert re.sub(r"0x\w+", "", str(again)) == re.sub(r"0x\w+", "", str(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if is_classifier(model):
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    last, same = (m[-1] if hasattr(m, "steps") else m for m in (model, again))
    assert set(vars(same)) == set(vars(last))
    assert same.history_ == last.history_
    clone(again).fit(X, y)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_pipeline_that_an_audit_gives_to_paste_comes_back(library, sparse, path):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 80))
    y = np.where(a > 0, "yes", "no")
    frame = frames.DataFrame({"a": np.where(b > 1, np.nan, a), "b": b, "word": np.array(["x", "y"] * 40, dtype=object)})
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=sparse, dtype=np.float32), ["word"]))
    model = make_pipeline(prepare, SVC()).fit(frame, y)
    save(model, path)
    again = load(path)
    np.testing.assert_array_equal(again.decision_function(frame), model.decision_function(frame))
    np.testing.assert_array_equal(again[:-1].get_feature_names_out(), model[:-1].get_feature_names_out())
    assert clone(again).fit(frame, y).score(frame, y) == model.score(frame, y)


def test_dtypes_number_types_and_slices_come_back(path):
    save(carrier([np.dtype("<f8"), slice(1, None, 2), np.float32]), path)
    assert load(path).ngram_range == [np.dtype(np.float64), slice(1, None, 2), np.float32]


def test_a_place_that_cannot_be_written_is_named_as_it_was_given(tmp_path):
    wanted = tmp_path / "nowhere" / "model.buttress"
    with pytest.raises(FileNotFoundError, match=re.escape(f"No such file or directory: '{wanted}'")):
        save(RBF(), wanted)


@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
def test_a_model_of_sparse_rows_comes_back(kind, path):
    X, y = iris()
    X = kind(np.where(np.abs(X) > 0.5, X, 0))
    model = SVC().fit(X, y)
    save(model, path)
    again = load(path)
    assert type(again.support_vectors_) is type(model.support_vectors_)
    assert (again.support_vectors_ != model.support_vectors_).nnz == 0
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_sparse_rows_whose_indices_point_outside_are_refused(path):
    X, y = iris()
    model = SVC().fit(csr_matrix(X), y)
    model.support_vectors_.indices[3] = 10**6
    with pytest.raises(ModelFileError, match="indices"):
        save(model, path)
    write_unchecked(model, path)
    with pytest.raises(ModelFileError, match="indices"):
        load(path)


@pytest.mark.parametrize("pointers", [[0, 10**9, 0], [0, 2, 1], [1, 1, 1], [0, 1], [0, -1, 1]])
def test_row_pointers_that_point_outside_are_refused(pointers, path):
    n = pointers[-1]
    parts = [np.ones(n), np.zeros(n, dtype=np.int32), np.array(pointers, dtype=np.int32)]
    encoder = Encoder()
    inside = {"csr_matrix": [encoder.encode(part, "") for part in parts], "shape": [2, 3]}
    path.write_bytes(b"".join(pack(instance("RBF", gamma=inside), encoder.arrays, {})))
    with pytest.raises(ModelFileError, match="point outside"):
        load(path)


def test_text_labels_names_of_columns_and_types_come_back(path):
    pandas = pytest.importorskip("pandas")
    X, y = iris()
    text = np.array(["a", "bé", "c"], dtype=object)[y]
    frame = pandas.DataFrame(X, columns=["α", "b", "c", "d"])
    save(SVC().fit(frame, text), path)
    again = load(path)
    np.testing.assert_array_equal(again.predict(frame), SVC().fit(frame, text).predict(frame))
    assert list(again.feature_names_in_) == ["α", "b", "c", "d"]
    assert again.support_.dtype == np.int32
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"α": "z"}))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_come_back(kernel, path):
    save(kernel, path)
    np.testing.assert_array_equal(load(path)(points(), points()), kernel(points(), points()))


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e-310, 0.1, np.float32(0.1), True, None, (1, "a"), {1: [2.5]}])
def test_values_come_back_as_they_were(value, path):
    save(carrier(value), path)
    again = load(path).ngram_range
    assert type(again) is type(value)
    assert again == value


def test_nan_and_foreign_byte_orders_come_back(path):
    save(carrier([np.nan, np.arange(6, dtype=">f8").reshape(2, 3).T, np.zeros((0, 3), dtype="<U0")]), path)
    nan, numbers, empty = load(path).ngram_range
    assert np.isnan(nan)
    np.testing.assert_array_equal(numbers, np.arange(6.0).reshape(2, 3).T)
    assert empty.shape == (0, 3)


def test_a_change_of_any_byte_is_refused(path):
    save(RBF(np.array([0.5])[0]), path)
    good = path.read_bytes()
    assert len(good) < 500
    for place in range(len(good)):
        for flip in (1 << place % 8, 255):
            path.write_bytes(good[:place] + bytes([good[place] ^ flip]) + good[place + 1 :])
            with pytest.raises(ValueError, match=r"SHA-256|not a model file"):
                load(path)


def test_changes_of_a_fitted_model_are_refused(path):
    X, y = moons(12)
    save(SVC().fit(X, y), path)
    good = path.read_bytes()
    for place in range(0, len(good), 13):
        path.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
        with pytest.raises(ValueError, match=r"SHA-256|not a model file"):
            load(path)


def test_files_cut_short_or_lengthened_are_refused(path):
    save(RBF(), path)
    good = path.read_bytes()
    for bad in [good[:length] for length in range(len(good))] + [good + b"\0", good + good]:
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"cut short|not a model file|SHA-256"):
            load(path)


def sealed(header, data=b"", version=VERSION, length=None):
    """A file with a right SHA-256 around any header, as an attacker would make one."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = PREFIX.pack(b"BUTTRESS", version, len(text) if length is None else length) + text + data
    return body + hashlib.sha256(body).digest()


def made(content, arrays=(), n_bytes=0, grown=0):
    """The header of a file that states what it takes."""
    text = content if isinstance(content, str) else json.dumps(content)
    rest = f'"array_bytes": {n_bytes}, "signed": false, "model": {text}, "arrays": {json.dumps(list(arrays))}, '
    rest += '"written_by": {}, "written_at": ""}'
    nodes = sum(rest.count(sign) for sign in "[{,") + 3
    return f'{{"nodes": {nodes}, "grown": {grown}, {rest}'.encode()


def instance(name, **state):
    return {"class": name, "state": state}


EIGHT = {"dtype": "<f8", "shape": [1]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (sealed(made(instance("os:system"))), "not on the list"),
        (sealed(made(instance("builtins:eval"))), "not on the list"),
        (sealed(made(instance("sklearn.pipeline:FeatureUnion"))), "not on the list"),
        (sealed(made(instance("buttress.svm:SVC"))), "not on the list"),
        (sealed(made(instance("Custom"))), "not on the list"),
        (sealed(made(instance("ConvergenceDisplay"))), "not on the list"),
        (sealed(made(instance(["SVC"]))), "not on the list"),
        (sealed(made(instance("buttress...svm:SVC"))), "not on the list"),
        (sealed(made(instance("SVC", predict=1))), "sets 'predict'|no 'C'"),
        (sealed(made(instance("RBF", gamma=1.0, predict=1))), "sets 'predict'"),
        (sealed(made(instance("RBF", gamma=1.0, __class__=1))), "sets '__class__'"),
        (sealed(made(instance("RBF", gamma=1.0, _state=1))), "sets '_state'"),
        (sealed(made(instance("RBF", gamma={"float": "1.5"}))), "more, or other"),
        (sealed(made(instance("SVC", fit={"array": 0}))), "array 0, and has 0"),
        (sealed(made({"lambda": 1})), "kind 'lambda', which this release does not know"),
        (sealed(made({"named": "os.system"})), "names 'os.system', which is not on the list"),
        (sealed(made({"named": "type"})), "not on the list"),
        (sealed(made(instance("sklearn.CountVectorizer", vocabulary_={"dict": [["a"], [7]]}), grown=1)),
         "number its words"),
        (sealed(made({"spline": [[0], [0], 3, True, 0]})), "not a well-formed|knots|least"),
        (sealed(made({"spline": [[0, 1, 2, 3, 4, 5, 6, 7], [[0, 1, 2, 3]], 3, True, 1]})), "axis 1"),
        (sealed(made({"dtype": "<M8"})), "dtype '<M8'"),
        (sealed(made({"type": "i4,f8"})), "dtype 'i4,f8'"),
        (sealed(made({"type": "os.system"})), "dtype 'os.system'"),
        (sealed({"model": 1}), "well-formed"),
        (sealed(b"[" * 100_000), "well-formed"),
        (sealed(b"{"), "well-formed"),
        (sealed(made("[" * 90 + "]" * 90)), "nested too deeply"),
        (sealed(made("[" * 90_000 + "]" * 90_000)), "well-formed"),
        (sealed(made(1), version=VERSION + 1), f"format version {VERSION + 1}.*Update buttress"),
        (sealed(made(1), version=3), "format version 3, of an earlier release.*fit the model again"),
        (sealed(made(1), version=1), "format version 1, of an earlier release"),
        (sealed(made(1), length=2**60), "cannot hold"),
        (sealed(made({"array": 0}, [{"dtype": "<f8", "shape": [10**12]}])), "does not hold"),
        (sealed(made({"array": 0}, [{"dtype": "<f8", "shape": [-1]}], 8), b"12345678"), "does not hold"),
        (sealed(made({"array": 0}, [{"dtype": "|O", "shape": [1]}], 8), b"12345678"), "does not hold"),
        (sealed(made({"array": 0}, [{"dtype": "<U0", "shape": [10**12]}])), "does not hold"),
        (sealed(made({"array": 0}, [{"dtype": "|b1", "shape": [1]}], 1), b"\2"), "truth values"),
        (sealed(made({"array": 0}, [{"dtype": "<U1", "shape": [1]}], 4), b"\xff" * 4), "characters"),
        (sealed(made(instance("RBF", gamma={"array": 0}), [{"dtype": ">f8", "shape": []}], 8), b"1" * 8), "gamma is"),
        (sealed(made(1, [EIGHT], 8), b"12345678"), "no part of it"),
        (sealed(made({"array": 0}, [EIGHT], 10), b"1234567890"), "belong to no array"),
        (sealed(made({"array": 0}, [EIGHT], 7), b"12345678"), "states 7 bytes of arrays"),
        (sealed(made([{"array": 0}, {"array": -1}], [EIGHT], 8), b"12345678"), "an array -1, and has 1"),
        (sealed(made({"scalar": 0}, [EIGHT], 8), b"12345678"), "has a shape"),
        (sealed(made({"dict": [[k * (2**61 - 1) for k in range(100)], [0] * 100]}, grown=100)), "collide"),
        (sealed(made({"dict": [[{"tuple": [k, k * (2**61 - 1)]} for k in (1, 1)], [0, 0]]}, grown=2)), "the same"),
        (sealed(made({"dict": [[{"slice": [0, 1, 2]}], [0]]}, grown=1)), "Expected numbers and text|unhashable"),
        (sealed(made({"dict": [["a"], [0]]})), "than its header states"),
        (sealed(made({"column": 0, "numpy": False}, [EIGHT], 8), b"12345678"), "than its header states"),
        (sealed(made({"records": ["a"], "columns": [[1]]})), "than its header states"),
        (sealed(made(instance("MultiscaleRBF", gammas={"column": 0, "numpy": False}),
                     [{"dtype": "<f4", "shape": [1]}], 4, grown=1), np.float32([0.5]).tobytes()), "more, or other"),
        (sealed(made("[" + "[]," * 1_000_000 + "[]]")), "more memory"),
        (sealed(made('"é"')), "ASCII"),
        (sealed(made([1.0])), "no estimator and no kernel"),
    ],
)
def test_forged_files_are_refused(content, message, path):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        load(path)


def with_parts(path, change):
    """The file with its header changed, as bytes with a right SHA-256."""
    content = path.read_bytes()
    _, version, length = PREFIX.unpack_from(content)
    header, data = content[PREFIX.size :][:length], content[PREFIX.size + length : -32]
    return sealed(change(header), data, version)


@pytest.mark.parametrize(("old", "new", "message"), [
    (rb'"nodes": \d+', b'"nodes": 7', "states 7 parts"),
    (rb'"array_bytes": \d+', b'"array_bytes": 7', "states 7 bytes"),
    (rb'"grown": \d+', b'"grown": 0', "than its header states"),
    (rb'"grown": \d+', b'"grown": 999999999', "more memory"),
    (rb'"signed": false', b'"signed": true', "bytes of arrays"),
])
def test_what_a_header_states_of_itself_is_held_against_it(old, new, message, path):
    save(SVC(max_iter=10_000).fit(*moons(40)), path)
    path.write_bytes(with_parts(path, lambda header: re.sub(old, new, header)))
    with pytest.raises(ModelFileError, match=message):
        load(path)


@pytest.mark.parametrize(("attribute", "value"), [
    ("dual_coef_", np.array([[np.nan]])), ("support_", np.array([-1])), ("intercept_", np.zeros(3)),
    ("intercept_", np.array(["a"])), ("n_features_in_", 3), ("n_features_in_", -1),
    ("support_vectors_", np.zeros((2, 2))),
    ("contrasts_", np.zeros((2, 1, 5))), ("converged_", 1), ("expansion_", 3), ("classes_", np.zeros((2, 1))),
])
def test_attributes_that_no_fit_gives_are_refused(attribute, value, path):
    model = SVC().fit(*moons(40))
    setattr(model, attribute, value)
    with pytest.raises(ModelFileError, match="SVC"):
        save(model, path)
    assert not path.exists()
    write_unchecked(model, path)
    with pytest.raises(ModelFileError, match="SVC"):
        load(path)


@pytest.mark.parametrize(("holder", "name"), [("_left_out", "codes"), ("expansion_", "coef")])
def test_a_part_that_lacks_what_it_cannot_be_without_is_refused(holder, name, path):
    save(SVC().fit(*moons(40)), path)
    old = json.dumps(name).encode() + b":"
    path.write_bytes(with_parts(path, lambda header: header.replace(old, b'"other":')))
    with pytest.raises(ModelFileError, match=f"no '{name}'|sets 'other'|parts"):
        load(path)
    path.write_bytes(sealed(made(instance("Combination", weights=None))))
    with pytest.raises(ModelFileError, match="no 'kernels' of Combination"):
        load(path)


@pytest.mark.parametrize("kernel", [RBF(-1.0), RBF(np.nan), RBF("a"), Combination([RBF()], [-1.0]),
                                    Stretched(RBF(), [1.0, -1.0])])
def test_a_model_whose_kernel_is_out_of_range_is_refused(kernel, path):
    model = SVC().fit(*moons(40))
    model.expansion_.kernel = kernel
    with pytest.raises(ModelFileError, match=r"Expected (positive|nonnegative)"):
        save(model, path)


@pytest.mark.parametrize(("place", "value"), [(2, 625), (2, -1), (2, 2**40), (3, 7), (4, float("nan")), (0, "PCG64")])
def test_a_random_generator_that_points_outside_its_state_is_refused(place, value, path):
    state = list(np.random.RandomState(0).get_state(legacy=True))
    state[place] = value
    encoder = Encoder()
    forged = {"class": "RBF", "state": {"gamma": {"random_state": encoder.encode(tuple(state), "")}}}
    path.write_bytes(b"".join(pack(forged, encoder.arrays, {})))
    with pytest.raises(ModelFileError, match="random generator"):
        load(path)


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_the_order_in_memory_is_kept(axes, path):
    array = np.ascontiguousarray(np.arange(24.0).reshape(2, 3, 4)).transpose(axes)
    save(carrier(array), path)
    again = load(path).ngram_range
    np.testing.assert_array_equal(again, array)
    assert again.strides == array.strides
    assert again.flags.writeable


def test_a_descent_goes_on_from_a_file_as_it_would_have(path):
    X, y = iris()
    model = StochasticLinearSVC(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    save(model, path)
    again = load(path).partial_fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.partial_fit(X, y).coef_)
    model._walks[0][0].v = np.zeros(3)
    with pytest.raises(ModelFileError, match="_walks"):
        save(model, path)


def test_a_signed_file_is_taken_with_its_key_only(path):
    key, other = b"k" * 16, b"l" * 16
    save(MultiscaleRBF(np.arange(1.0, 4.0)), path, key=key)
    for given in (key, None):
        np.testing.assert_array_equal(load(path, key=given).gammas, np.arange(1.0, 4.0))
    forged = with_parts(path, lambda header: header.replace(b'"MultiscaleRBF"', b'"Log"'))
    unsigned = with_parts(path, lambda header: header)[:-64]
    plain = path.with_name("plain")
    save(MultiscaleRBF(np.arange(1.0, 4.0)), plain)
    for content, given in [(path.read_bytes(), other), (forged, key), (plain.read_bytes(), key),
                           (unsigned + hashlib.sha256(unsigned).digest(), key)]:
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="not signed with this key"):
            load(path, key=given)
    for bad in (b"short", "a text that is long enough", 5):
        with pytest.raises(ValueError, match="at least 16 secret bytes"):
            save(RBF(), path, key=bad)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(ModelFileError, match="no regular file"):
            load(place)


@pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")
def test_mode_links_and_devices_stay_as_they_are(tmp_path):
    target, link = tmp_path / "folder" / "model", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(target)
    save(RBF(0.5), link)
    target.chmod(0o640)
    save(RBF(0.25), link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert load(link).gamma == load(target).gamma == 0.25
    save(RBF(), os.devnull)
    assert Path(os.devnull).is_char_device()
    reading, writing = os.pipe()
    save(RBF(0.25), f"/dev/fd/{writing}")
    (tmp_path / "piped").write_bytes(os.read(reading, 65536))
    assert load(tmp_path / "piped").gamma == 0.25
    for end in (reading, writing):
        os.close(end)
    assert [entry.name for entry in target.parent.iterdir()] == ["model"]


def test_a_disk_that_loses_bytes_is_noticed_and_the_old_file_stays(path, monkeypatch):
    save(RBF(0.5), path)
    monkeypatch.setattr(os, "fsync", lambda descriptor: os.ftruncate(descriptor, 100))
    with pytest.raises(ModelFileError, match="other bytes"):
        save(RBF(0.25), path)
    monkeypatch.undo()
    assert load(path).gamma == 0.5
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_nothing_that_a_file_names_is_imported(path, monkeypatch):
    asked = []
    real = classes.import_module
    monkeypatch.setattr(classes, "import_module", lambda name: asked.append(name) or real(name))
    for name in ("antigravity:fly", "this", "sklearn.tree:DecisionTreeClassifier", "RBF"):
        for content in (instance(name), {"named": name}, {"dtype": name}, {"type": name}):
            path.write_bytes(sealed(made(content)))
            with suppress(ModelFileError):
                load(path)
    assert set(asked) <= {"buttress.kernels", *classes.PUBLIC}


class Trap:
    def __reduce__(self):
        return os.mkdir, (self.place,)


def test_pickles_are_not_read_unless_asked_for(tmp_path):
    trap, path = Trap(), tmp_path / "model.pkl"
    trap.place = str(tmp_path / "sprung")
    path.write_bytes(pickle.dumps(trap))
    with pytest.raises(ValueError, match="can run any code"):
        load(path)
    assert not (tmp_path / "sprung").exists()
    path.write_bytes(pickle.dumps(RBF(0.25)))
    assert load(path, pickle_can_run_any_code_and_i_trust_this_file=True).gamma == 0.25


def test_large_files_are_not_read(path):
    save(RBF(), path)
    with pytest.raises(ValueError, match="at most max_bytes=100"):
        load(path, max_bytes=100)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SVC(kernel=lambda X, Z: X @ Z.T).fit(*moons(12)), r"SVC.kernel is a builtins.function"),
        (DecisionTreeClassifier().fit(*moons(12)), "DecisionTreeClassifier, which a model file cannot hold"),
        (make_pipeline(SelectFromModel(RandomForestClassifier(2))).fit(*moons(12)), "RandomForestClassifier, which"),
        (SVC(), "SVC is not fitted"),
        (make_pipeline(StandardScaler(), SVC()), "Pipeline is not fitted"),
        (GridSearchCV(SVC(), {"C": [1]}), "GridSearchCV is not fitted"),
        (GridSearchCV(SVC(), {"C": [1]}, refit=False, cv=2).fit(*moons(30)), "without a best estimator"),
        (make_pipeline(FunctionTransformer(lambda X: X), SVC()).fit(*moons(12)), r"\.func is a builtins.function"),
        (SVC().fit([[0.0], [1.0]], np.array(["2024-01-01", "2025-01-01"], dtype="datetime64[D]")),
         r"SVC\.classes_ is an array of datetime64\[D\].*make text of dates, with astype\(str\)"),
        ([1, 2], "Only estimators and kernels"),
        (3, "Only estimators and kernels"),
    ],
    ids=["function", "foreign", "foreign-step", "unfitted", "unfitted-pipeline", "unfitted-search", "no-best",
         "function-step", "dates", "list", "number"],
)
def test_what_a_file_cannot_hold_is_named_and_no_file_is_left(model, message, path):
    with pytest.raises(ValueError, match=message):
        save(model, path)
    assert not list(path.parent.iterdir())


def test_a_file_has_the_rights_of_any_new_file(path):
    plain = path.with_name("plain")
    plain.touch()
    save(RBF(0.5), path)
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_failed_save_keeps_the_file_that_was_there(path):
    save(RBF(0.5), path)
    with pytest.raises(ValueError, match="cannot hold"):
        save(DecisionTreeClassifier().fit(*moons(12)), path)
    assert load(path).gamma == 0.5


def classes_of_the_package():
    """Every final scikit-learn object of this package that a model may hold: estimators, kernels, risks."""
    found = set()
    for module in pkgutil.walk_packages(buttress.__path__, "buttress."):
        if module.name.startswith("buttress.attacks.art"):  # not part of models
            continue
        for _, cls in getmembers(import_module(module.name), isclass):
            own = cls.__module__ == module.name and issubclass(cls, BaseEstimator)
            if own and not isabstract(cls) and not cls.__subclasses__():
                found.add(cls)
    return sorted(found, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", classes_of_the_package(), ids=lambda cls: cls.__name__)
def test_every_class_a_model_can_hold_has_a_name_in_files(cls):
    assert (name_of(cls) is None) == (cls.__name__ in NOT_IN_FILES)


@pytest.mark.parametrize("name", [*(name for names in PARTS.values() for name in names), *SKLEARN])
def test_every_name_in_the_tables_is_a_class_that_finds_its_name_again(name):
    assert name_of(class_named(name)) == name


@pytest.mark.parametrize("name", NAMED)
def test_every_function_and_type_finds_its_name_again(name):
    assert name_of_thing(thing_named(name)) == name


def test_no_module_path_is_written(path):
    X, y = moons(40)
    save(make_pipeline(StandardScaler(), SVC(kernel="laplacian")).fit(X, y), path)
    assert "buttress." not in json.dumps(unpack(path.name, path.read_bytes()).model)


def test_a_class_that_is_not_in_the_table_is_refused_though_it_derives_from_one_that_is(path):
    class Mine(RBF):
        pass

    with pytest.raises(ValueError, match="Mine, which a model file cannot hold"):
        save(Mine(0.5), path)
