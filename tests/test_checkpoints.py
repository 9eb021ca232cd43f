"""A fit that is killed and taken up again ends in the bits of one that was not."""

import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from functools import partial
from types import ModuleType
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

from buttress import (
    SVC,
    SVR,
    InterruptedWarning,
    ModelFileError,
    NotConvergedWarning,
    NuSVC,
    NuSVR,
    OneClassSVM,
    load,
    save,
)
from buttress.checkpoints import fingerprint, journal
from buttress.checkpoints.folder import LOCK, SUFFIX, Folder
from buttress.checkpoints.journal import rng_state, set_rng_state
from buttress.files.disk import UNFINISHED
from buttress.kernels import RBF
from buttress.relational import Join, RelationalLinearSVC, Table
from buttress.solvers.qp import chunks, solve
from buttress.solvers.watch import Keeper

X, y = make_classification(200, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0, flip_y=0.1)
MANY, many = make_classification(2100, 6, n_informative=5, n_redundant=0, random_state=0, flip_y=0.1)  # float32 rows
WIDE, wide = make_classification(300, 140, n_informative=30, random_state=0, flip_y=0.1)  # entries from stored rows
TARGET = X[:, 0] + 0.1 * y

CASES = {
    "pairs of classes": (SVC(C=10, cache_size=0.1), X, y),
    "float32 rows": (SVC(C=10, cache_size=4), MANY, many),
    "chunks of many rows": (SVC(C=10, cache_size=0.2), MANY, many),
    "chunks, SVR": (SVR(C=1, cache_size=0.2), MANY, MANY[:, 0] + 0.1 * many),
    "many columns": (SVC(C=10, cache_size=0.2), WIDE, wide),
    "interior point": (SVC(C=10, multi_class="ovr", solver="ipm"), X, y),
    "hard margin": (SVC(C=np.inf, gamma=2.0), X[:, :2], (X[:, 0] > 0).astype(int)),
    "SVR": (SVR(C=10, cache_size=0.1), X, TARGET),
    "share nu": (NuSVC(nu=0.3, cache_size=0.1), X, y),
    "share nu, SVR": (NuSVR(nu=0.3, C=10, cache_size=0.1), X, TARGET),
    "one class": (OneClassSVM(nu=0.3, cache_size=0.1), X, None),
}
SHORT = ["pairs of classes", "float32 rows", "chunks of many rows", "SVR"]
EVERY = pytest.mark.parametrize("case", CASES)

def joined(seed=0):
    """Return a join whose rows are few and whose fit takes some dozen counts."""
    rng = np.random.default_rng(seed)
    loan = pd.DataFrame({"account": rng.integers(0, 30, 200), "sum": rng.normal(size=200)})
    loan["bad"] = loan["sum"] + rng.normal(size=200) > 0.3
    account = pd.DataFrame({"id": rng.integers(0, 30, 60), "age": rng.normal(size=60)})
    tables = [Table("loan", loan, features=["sum"], label="bad"), Table("account", account, features=["age"])]
    return Join(tables, on=[("loan.account", "account.id")])


# fits that keep calls
CASES |= {
    "join": (RelationalLinearSVC(tol=1e-5, random_state=0), joined(), None),
    "join, in a database": (RelationalLinearSVC(tol=1e-4, engine="sql", random_state=0), joined(), None),
}
SHORT += ["join"]


class Killed(BaseException):
    """Stands for the end of the process."""


def fit(case, **params):
    estimator, rows, targets = CASES[case]
    large = 2000 if case.startswith("chunks") else chunks.LARGE
    with warnings.catch_warnings(), patch.multiple(chunks, LARGE=large, LEAST_SLICE=500, SLICE=1e5):
        warnings.simplefilter("ignore", NotConvergedWarning)
        return clone(estimator).set_params(**params).fit(rows, targets)


def bits(model):
    """Everything a model has learned that is a number, but the clock, as bytes."""
    parts = [getattr(model, name, None) for name in ("expansion_", "estimator_", "held_out_")]
    learned = {**vars(model), **{f"{k} {name}": value for k, part in enumerate(parts) if part is not None
                                 for name, value in vars(part).items()}}
    found = {name: np.asarray(value).tolist() if np.asarray(value).dtype == object else np.asarray(value).tobytes()
             for name, value in learned.items()
             if name not in model.get_params() and isinstance(value, np.ndarray | float | int)}
    history = [[np.asarray(v, float).tolist() for k, v in entry.items() if k != "seconds"]
               for entry in getattr(model, "history_", [])]
    return {**found, "history": repr(history)}


@contextmanager
def ended_at(monkeypatch, last, end=Killed):
    """Count the steps of runs and the calls that are kept; write the one numbered ``last``, and end the process there.
    """
    steps = []
    is_over = Keeper.over
    ended = journal.Journal.end

    def called(self, number, question, value):
        ended(self, number, question, value)
        if "best" in value:  # the end of a run, whose steps are counted
            return
        steps.append(value)
        if len(steps) == last:
            self._write({})
            raise end

    def noted(self, step):
        if self.journal is not None:
            steps.append(step)
        if self.journal is not None and len(steps) == last:
            self.journal._next_write = 0.0
        over = is_over(self, step)
        if self.journal is not None and len(steps) == last:
            raise end
        return over

    with monkeypatch.context() as patched, suppress(Killed):
        patched.setattr(Keeper, "over", noted)
        patched.setattr(journal.Journal, "end", called)
        yield steps


def killed(case, folder, monkeypatch, at=3):
    with ended_at(monkeypatch, at):
        fit(case, checkpoint=str(folder))


@pytest.mark.parametrize("case", SHORT)
def test_a_fit_killed_at_its_third_step_ends_in_the_same_bits(case, tmp_path, monkeypatch):
    killed(case, tmp_path, monkeypatch)
    assert bits(fit(case, checkpoint=str(tmp_path), resume=True)) == bits(fit(case))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@EVERY
def test_a_fit_killed_at_any_step_ends_in_the_same_bits(case, tmp_path, monkeypatch):
    whole = bits(fit(case))
    with ended_at(monkeypatch, None) as steps:
        assert bits(fit(case, checkpoint=str(tmp_path))) == whole
    rng = np.random.RandomState(len(case))
    for last in rng.choice(np.arange(1, len(steps)), min(5, len(steps) - 1), replace=False):
        for resume, stop in ((False, last), (True, 2)):
            with ended_at(monkeypatch, stop):
                fit(case, checkpoint=str(tmp_path), resume=resume)
        assert bits(fit(case, checkpoint=str(tmp_path), resume=True)) == whole
        assert list(tmp_path.iterdir()) == []


def kill_while_it_fits(case, seconds, folder):
    """Fit in another process from the checkpoint, and kill it after so many seconds."""
    child = os.fork()
    if child == 0:
        try:
            journal.FIRST = 0.01
            journal.INTERVAL = 0.01
            journal.TIME_SHARE = 1.0
            fit(case, checkpoint=folder, resume=True)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def check_kills(case, folder, instants, seed):
    started = time.perf_counter()
    whole = bits(fit(case))
    took = time.perf_counter() - started
    rng = np.random.RandomState(seed)
    for _ in range(instants):
        for seconds in rng.uniform(0, took, 2):  # killed, taken up, and killed again
            kill_while_it_fits(case, seconds, folder)
        assert bits(fit(case, checkpoint=folder, resume=True)) == whole


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")


@needs_fork
@pytest.mark.parametrize("case", ["pairs of classes", "float32 rows"])
def test_a_process_killed_at_random_moments(case, tmp_path):
    check_kills(case, str(tmp_path), 1, 0)


@pytest.mark.slow
@needs_fork
@EVERY
def test_a_process_killed_at_fifty_random_moments(case, tmp_path):
    check_kills(case, str(tmp_path), 25, 1)


def test_another_fit_is_refused_with_the_reason(tmp_path, monkeypatch):
    killed("pairs of classes", tmp_path, monkeypatch)
    with pytest.raises(ValueError, match=r"of another fit: C was 10, now 11\. .*resume=False"):
        fit("pairs of classes", C=11, checkpoint=str(tmp_path), resume=True)
    with pytest.raises(ValueError, match="X differs"):
        SVC(C=10, cache_size=0.1, checkpoint=str(tmp_path), resume=True).fit(X + 1e-9, y)
    with pytest.raises(ValueError, match="estimator was SVC, now SVR"):
        SVR(checkpoint=str(tmp_path), resume=True).fit(X, y)
    fit("pairs of classes", C=11, checkpoint=str(tmp_path))  # starts anew in its place


def rbf(X, Z, gamma=0.1):
    return RBF(gamma)(X, Z)


def script(text, **names):
    """Return the kernel of a script that is run anew."""
    held = {"__name__": "script", "rbf": rbf, **names}
    exec(text, held)
    return held["kernel"]


def users_module(gamma):
    """Return a module of the user with another in it."""
    package = ModuleType("package_of_a_test")
    package.settings = ModuleType("package_of_a_test.settings")
    package.settings.gamma = gamma
    package.settings.package = package
    return package


BY_KEYWORD = "def kernel(X, Z, *, gamma={}): return rbf(X, Z, gamma)"
BY_NAME = "def kernel(X, Z): return rbf(X, Z, gamma[0])"
BY_FUNCTION = "def own(X, Z): return rbf(X, Z, {})\ndef kernel(X, Z): return own(X, Z)"
INSIDE = "gamma = {}\ndef kernel(X, Z): return (lambda: rbf(X, Z, gamma))()"
BY_CLASS = "class Own:\n    gamma = {}\n    def __call__(self, X, Z): return rbf(X, Z, self.gamma)\nkernel = Own()"
BY_CODE = "class Own:\n    def __call__(self, X, Z): return rbf(X, Z, {})\nkernel = Own()"
BY_CACHE = "from functools import cache\n@cache\ndef own(): return {}\ndef kernel(X, Z): return rbf(X, Z, own())"
BY_OBJECT = "from buttress.kernels import RBF\nown = RBF({})\ndef kernel(X, Z): return own(X, Z)"
BY_SET = "held = frozenset([{}])\ndef kernel(X, Z): return rbf(X, Z, min(held))"
BY_ITEM = ("class Own:\n    def __getitem__(self, place): return {}\nown = Own()\n"
           "def kernel(X, Z): return rbf(X, Z, own[0])")
BY_SLOT = ("class Own:\n    __slots__ = ('gamma',)\n    def __init__(self): self.gamma = {}\nown = Own()\n"
           "def kernel(X, Z): return rbf(X, Z, own.gamma)")
BY_SELF = ("class Own:\n    def __init__(self, gamma): self.gamma = gamma\n"
           "    def k(self, X, Z): return rbf(X, Z, self.gamma)\nkernel = Own({}).k")


@pytest.mark.parametrize("one", [
    lambda gamma: partial(rbf, gamma=gamma), lambda gamma: script(BY_NAME, gamma=[gamma]),
    *(lambda gamma, text=text: script(text.format(gamma)) for text in (BY_KEYWORD, BY_FUNCTION, INSIDE, BY_CLASS,
                                                                       BY_CODE, BY_SELF, BY_CACHE, BY_OBJECT, BY_SET,
                                                                       BY_ITEM, BY_SLOT)),
    lambda gamma: script("def kernel(X, Z): return rbf(X, Z, own.settings.gamma)", own=users_module(gamma))])
def test_a_users_kernel_that_goes_by_another_number_is_refused(one, tmp_path, monkeypatch):
    def fitted(kernel, **params):
        return SVC(C=10, cache_size=0.1, kernel=kernel, **params).fit(X, y)

    with ended_at(monkeypatch, 3):
        fitted(one(0.1), checkpoint=str(tmp_path))
    with pytest.raises(ValueError, match="of another fit: kernel was"):
        fitted(one(2.0), checkpoint=str(tmp_path), resume=True)
    assert bits(fitted(one(0.1), checkpoint=str(tmp_path), resume=True)) == bits(fitted(one(0.1)))


def test_objects_that_look_alike_are_other_data():
    def held(entry):
        out = np.empty(1, dtype=object)
        out[0] = entry
        return fingerprint.digest(out)

    one, other = np.zeros((2, 2000))
    other[1000] = 1.0  # numpy leaves it out of the text
    assert held(one) == held(one.copy()) != held(other)
    assert fingerprint.digest([[1], [2]]) != fingerprint.digest([[1, [2]]])


def test_what_a_script_gives_is_the_same_in_another_process():
    """Sets of text come in another order, and objects are in another place."""
    text = ("from functools import cache, partial; from sklearn.metrics.pairwise import laplacian_kernel\n"
            "import logging, threading\nfrom sklearn.tree import DecisionTreeClassifier\n"
            "log, lock, words = logging.getLogger(), threading.Lock(), {'a', 'b', 'c'}\n"
            "tree = DecisionTreeClassifier(random_state=0).fit([[0], [1]], [0, 1])\n"
            "@cache\ndef held(): return log, lock, words, tree\n"
            "from buttress.checkpoints.fingerprint import digest\n"
            "def again(n): return again(n - 1) if n else None\n"
            "def kernel(X, Z): return again(3), held() if X.kind in {'a', 'b', 'c'} else laplacian_kernel(X, Z)\n"
            "print(digest([kernel, laplacian_kernel, partial(laplacian_kernel, gamma=2)]))")
    seen = {subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
                           capture_output=True).stdout for seed in "12"}
    assert len(seen) == 1


def test_other_versions_are_refused_unless_bits_do_not_matter(tmp_path, monkeypatch):
    killed("pairs of classes", tmp_path, monkeypatch)
    here = fingerprint.environment()
    monkeypatch.setattr(fingerprint, "environment", lambda: {**here, "numpy": "0.9"})
    with pytest.raises(ValueError, match=r"numpy was .*, now 0\.9.*resume='approximately'"):
        fit("pairs of classes", checkpoint=str(tmp_path), resume=True)
    model = fit("pairs of classes", checkpoint=str(tmp_path), resume="approximately")
    assert np.all(model.dual_gap_ <= 1e-3 * model.primal_objective_)


def test_libraries_loaded_in_another_order_are_the_same_environment(monkeypatch):
    loaded = [{"user_api": "blas", "internal_api": "openblas", "version": version, "num_threads": 1}
              for version in ("0.3.30", "0.3.31")]
    monkeypatch.setattr(fingerprint, "threadpool_info", lambda: loaded)
    here = fingerprint.environment()
    monkeypatch.setattr(fingerprint, "threadpool_info", lambda: loaded[::-1])
    assert fingerprint.environment() == here
    monkeypatch.setattr(fingerprint, "threadpool_info", lambda: loaded[:1])
    assert fingerprint.environment() != here


def test_other_rows_of_a_join_are_noticed(tmp_path, monkeypatch):
    killed("join", tmp_path, monkeypatch)
    model = clone(CASES["join"][0]).set_params(checkpoint=str(tmp_path), resume=True)
    with pytest.warns(UserWarning, match="Step 0 of this fit differs"):
        model.fit(joined(1))
    assert bits(model) == bits(clone(CASES["join"][0]).fit(joined(1)))


def test_other_rows_in_a_database_are_refused(tmp_path, monkeypatch):
    """The plan of a join in a database holds scales and counts: rows that keep these are seen by the first count."""
    killed("join, in a database", tmp_path, monkeypatch)
    other = joined()
    loan = other.tables[0].source
    loan["sum"] = loan["sum"].to_numpy()[::-1].copy()
    model = clone(CASES["join, in a database"][0]).set_params(checkpoint=str(tmp_path), resume=True)
    with pytest.raises(ValueError, match="not those of the checkpoint"):
        model.fit(other)


def test_rows_in_a_database_that_changed_beyond_the_margin_are_refused(tmp_path, monkeypatch):
    """They have no part in the slopes of a hinge where the fit starts, but in those of later points."""
    def model(**params):
        return RelationalLinearSVC(alpha=1e-4, tol=1e-5, engine="sql", random_state=0, **params)

    with ended_at(monkeypatch, 12):
        model(checkpoint=str(tmp_path)).fit(joined())
    other = joined()
    loan, account = (table.source for table in other.tables)
    rows = loan.reset_index().merge(account, left_on="account", right_on="id")
    scores = rows.assign(score=model().fit(joined()).decision_function(rows[["sum", "age"]].to_numpy()))
    least = scores.groupby("index")["score"].min().reindex(loan.index)
    far = (least > 1.5) & loan["bad"] & (loan["sum"] < 0.9 * loan["sum"].abs().max())
    assert far.any()
    loan.loc[far, "sum"] *= 0.95
    with pytest.raises(ValueError, match="not those of the checkpoint"):
        model(checkpoint=str(tmp_path), resume=True).fit(other)


def test_max_time_is_no_part_of_the_fingerprint_and_a_fit_that_it_ended_goes_on(tmp_path):
    whole = bits(fit("pairs of classes"))
    fit("pairs of classes", checkpoint=str(tmp_path), max_time=1e-6)
    assert (tmp_path / f"fit{SUFFIX}").exists()
    assert bits(fit("pairs of classes", checkpoint=str(tmp_path), resume=True, max_time=100)) == whole


def test_problems_small_and_large_go_on_under_another_limit(tmp_path, monkeypatch):
    """Small problems take one pass where nobody follows their steps: large ones must not get their records."""
    monkeypatch.setattr(solve, "ACTIVE_SET_ROWS", 100)
    model = SVC(C=10, checkpoint=str(tmp_path), resume=True)
    classes = np.repeat([0, 1, 2], [20, 20, 160])
    with pytest.warns(NotConvergedWarning):
        clone(model).set_params(max_time=1e-9).fit(X, classes)
    assert list(tmp_path.glob(f"*{SUFFIX}"))
    resumed = clone(model).fit(X, classes)
    assert bits(resumed) == bits(clone(model).set_params(max_time=1e9).fit(X, classes))


def test_a_fit_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    whole = bits(fit("float32 rows"))
    with ended_at(monkeypatch, 5, KeyboardInterrupt), pytest.warns(InterruptedWarning):
        fit("float32 rows", checkpoint=str(tmp_path))
    assert bits(fit("float32 rows", checkpoint=str(tmp_path), resume=True)) == whole


@pytest.mark.parametrize("place", [0, 20, 60, -5])
def test_a_changed_or_shortened_file_is_refused(place, tmp_path, monkeypatch):
    killed("pairs of classes", tmp_path, monkeypatch)
    file = tmp_path / f"now{SUFFIX}"
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content if place else content[:-7])
    with pytest.raises(ValueError, match=r"not a whole checkpoint file.*resume=False"):
        fit("pairs of classes", checkpoint=str(tmp_path), resume=True)


def test_a_folder_that_cannot_be_written_is_refused_before_the_fit(tmp_path):
    (tmp_path / "file").write_text("a file, no folder")
    with pytest.raises(OSError, match="checkpoint must be a folder in which files can be made"):
        fit("SVR", checkpoint=str(tmp_path / "file"))


def test_a_full_disk_costs_the_checkpoint_but_not_the_fit(tmp_path, monkeypatch):
    write = Folder.write

    def full(self, name, value):
        if name == "now":
            raise OSError(28, "No space left on device")
        write(self, name, value)

    monkeypatch.setattr(Folder, "write", full)
    monkeypatch.setattr(journal, "FIRST", 0.0)
    with pytest.warns(UserWarning, match="The checkpoint cannot be written.*No space left"):
        model = fit("pairs of classes", checkpoint=str(tmp_path))
    assert bits(model) == bits(fit("pairs of classes"))


def test_two_fits_cannot_share_a_folder(tmp_path):
    with Folder(str(tmp_path)).held(), pytest.raises(ValueError, match="in use by another fit"):
        fit("SVR", checkpoint=str(tmp_path))
    fit("SVR", checkpoint=str(tmp_path))


def test_leftovers_of_a_killed_process_are_removed_and_nothing_else(tmp_path):
    (tmp_path / f"now.0123{UNFINISHED}").write_bytes(b"half")
    (tmp_path / LOCK).touch()
    (tmp_path / "notes.txt").write_text("the user's")
    fit("SVR", checkpoint=str(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_resume_needs_a_folder_and_a_known_word():
    with pytest.raises(ValueError, match="needs a checkpoint"):
        fit("SVR", resume=True)
    with pytest.raises(ValueError, match="resume must be"):
        fit("SVR", checkpoint="unused", resume="yes")


def test_a_record_of_another_problem_is_not_used(tmp_path, monkeypatch):
    killed("pairs of classes", tmp_path, monkeypatch)
    folder = Folder(str(tmp_path))
    kept = folder.read("now")
    kept["question"] = (1.5).hex()
    folder.write("now", kept)
    with pytest.warns(UserWarning, match="differs from the checkpoint"):
        model = fit("pairs of classes", checkpoint=str(tmp_path), resume=True)
    assert bits(model) == bits(fit("pairs of classes"))


def test_no_seed_is_no_obstacle(tmp_path, monkeypatch):
    model, join = RelationalLinearSVC(tol=1e-5, random_state=None), joined()
    np.random.seed(7)  # noqa: NPY002
    whole = bits(clone(model).fit(join))
    np.random.seed(7)  # noqa: NPY002
    with ended_at(monkeypatch, 2):
        clone(model).set_params(checkpoint=str(tmp_path)).fit(join)
    np.random.seed(1)  # noqa: NPY002
    assert bits(clone(model).set_params(checkpoint=str(tmp_path), resume=True).fit(join)) == whole


def test_values_come_back_as_they_were(tmp_path):
    rng = np.random.RandomState(0)
    rng.normal(size=3)
    value = {"f": np.asfortranarray(rng.normal(size=(3, 4))), "c": np.arange(3, dtype=np.int8), "e": np.zeros((0, 2)),
             "inf": -np.inf, "tiny": 5e-324, "large": 2**100, "none": None, "deep": [{"a": (1, 2.5)}, "text"],
             "rng": rng_state(rng), "array": {"array": 3}}
    value["again"] = [value["c"], partial(dict, inner=value["f"])]
    Folder(str(tmp_path)).write("it", value)
    back = Folder(str(tmp_path)).read("it")
    assert back["again"][0] is back["c"]
    assert back["f"].flags.f_contiguous
    for name in ("f", "c", "e"):
        assert back[name].dtype == value[name].dtype
        np.testing.assert_array_equal(back[name], value[name])
    assert [back[name] for name in ("inf", "tiny", "large", "none")] == [-np.inf, 5e-324, 2**100, None]
    assert back["deep"] == [{"a": [1, 2.5]}, "text"]
    assert back["array"] == {"array": 3}
    np.testing.assert_array_equal(back["again"][0], value["c"])
    np.testing.assert_array_equal(back["again"][1]["inner"], value["f"])
    other = np.random.RandomState(9)
    set_rng_state(other, back["rng"])
    np.testing.assert_array_equal(other.normal(size=5), rng.normal(size=5))


@pytest.mark.parametrize("value", [object(), {"a": lambda: 0}, np.array([object()])])
def test_only_data_are_kept(value, tmp_path):
    with pytest.raises(ModelFileError, match="which is not data"):
        Folder(str(tmp_path)).write("it", value)
    assert list(tmp_path.iterdir()) == []


def test_files_are_of_the_format_of_models_and_hold_no_model(tmp_path):
    Folder(str(tmp_path)).write("it", {"a": np.arange(3.0)})
    with pytest.raises(ModelFileError, match="no estimator and no kernel"):
        load(tmp_path / f"it{SUFFIX}")
    save(SVR().fit(X, TARGET), tmp_path / f"model{SUFFIX}")
    with pytest.raises(ValueError, match="not a whole checkpoint file"):
        Folder(str(tmp_path)).read("model")
