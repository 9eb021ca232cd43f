"""Declared state: what a class says that it holds is what fits set, what files are held against, and what docs list."""

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from test_persistence import write_unchecked

import buttress
from buttress import SVC, SVR, LinearSVC, ModelFileError, Nystroem, RobustKernelClassifier, load, save
from buttress._state import OF_ESTIMATORS, Attribute, State, StateError, attributes_of, check_state, parameters_of
from buttress.kernels import RBF
from buttress.kernels.kernel import Kernel
from buttress.persistence.classes import PARTS, PUBLIC

from problems import iris, moons

SOURCE = Path(buttress.__file__).parent


def declaring():
    """Every class with a state of its own that a file may name."""
    rooms = [import_module(name) for name in PUBLIC]
    found = [getattr(room, name) for room in rooms for name in room.__all__ if name[:1].isupper()]
    found += [getattr(import_module(module), name) for module, names in PARTS.items() for name in names]
    declared = {cls for cls in found if inspect.isclass(cls) and "_state" in vars(cls)}
    return sorted(declared, key=lambda cls: cls.__name__)


@cache
def words_but_declared():
    """Every word of all modules, but where it is declared."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    return set(re.findall(r"\w+", re.sub(r'Attribute\("\w+"', "", text)))


@pytest.mark.parametrize("cls", declaring(), ids=lambda cls: cls.__name__)
def test_every_declared_attribute_is_a_parameter_or_set_somewhere(cls):
    for name in attributes_of(cls).keys() - parameters_of(cls).keys() - {"_sklearn_output_config"}:
        assert name in words_but_declared(), f"{cls.__name__} declares {name}, which nothing sets"


@pytest.mark.parametrize("cls", declaring(), ids=lambda cls: cls.__name__)
def test_what_is_declared_is_listed_once_and_says_what_it_means(cls):
    doc = inspect.getdoc(cls) or ""
    for name, entry in attributes_of(cls).items():
        if name.endswith("_") and not name.startswith("_") and entry not in OF_ESTIMATORS:
            assert len(re.findall(rf"^{name} : ", doc, flags=re.M)) == 1, name
    assert doc.count("\nAttributes\n---") <= 1


def test_every_kernel_that_files_may_name_declares_its_parameters():
    kernels = [cls for cls in declaring() if issubclass(cls, Kernel)]
    assert len(kernels) >= 12
    for cls in kernels:
        assert set(parameters_of(cls)) == set(attributes_of(cls)) - set(attributes_of(Kernel))


def refused(model, tmp_path, match):
    """Neither saved nor, written without a check, loaded."""
    with pytest.raises(ModelFileError, match=match):
        save(model, tmp_path / "model")
    write_unchecked(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match=match):
        load(tmp_path / "model")


@pytest.mark.parametrize(("name", "value"), [("components_", np.nan), ("normalization_", np.inf)])
def test_landmarks_that_are_no_numbers_are_refused(name, value, tmp_path):
    model = Nystroem(n_components=5).fit(iris()[0])
    getattr(model, name)[1, 1] = value
    refused(model, tmp_path, f"Nystroem.{name}")


@pytest.mark.parametrize("value", [np.nan, -0.5, 2.0])
def test_probabilities_of_labels_that_are_none_are_refused(value, tmp_path):
    model = RobustKernelClassifier(random_state=0).fit(*iris())
    model._certainty.held.true[3, 1] = value
    refused(model, tmp_path, "HeldOut.true")


@pytest.mark.parametrize("code", [2**63 - 1, 3, -1])
def test_codes_of_classes_that_there_are_not_are_refused(code, tmp_path):
    for model in (LinearSVC(), SVC()):
        model.fit(*iris())
        held = model._certainty.held if isinstance(model, LinearSVC) else model._left_out
        held.codes[5] = code
        refused(model, tmp_path, "codes|code of a class")


@pytest.mark.parametrize("place", [-1, 150, 2**62])
def test_numbers_of_rows_that_there_are_not_are_refused(place, tmp_path):
    X, y = iris()
    for name in ("support_", "_start_rows"):
        model = SVC().fit(X, y)
        setattr(model, name, getattr(model, name).astype(np.int64))
        getattr(model, name)[0] = place
        refused(model, tmp_path, f"SVC.{name}")
    model = SVR().fit(X, X[:, 0])
    model._judged = np.append(model._judged[:-1], place)
    refused(model, tmp_path, "SVR._judged")


def test_parts_of_another_class_or_of_other_lengths_are_refused(tmp_path):
    model = SVC().fit(*moons(40))
    model.expansion_ = RBF(1.0)
    refused(model, tmp_path, "SVC.expansion_")
    model = SVC().fit(*moons(40))
    model._left_out = SVC().fit(*moons(30))._left_out
    refused(model, tmp_path, "SVC")


def test_attributes_that_are_missing_or_not_declared_are_refused(tmp_path):
    model = SVC().fit(*moons(40))
    model.more_ = 1.0
    refused(model, tmp_path, "sets 'more_'")
    del model.more_, model.intercept_
    refused(model, tmp_path, "no 'intercept_'")


def test_arrays_that_stand_in_two_places_are_written_once(tmp_path):
    model = SVC().fit(*moons(40))
    model.expansion_.centers = model.support_vectors_
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.expansion_.centers is again.support_vectors_


def test_a_class_says_what_it_expects():
    class Ranked:
        _state = State(Attribute("order", "index", "n_rows", below="n_rows"), Attribute("best", "share", "one or none"))

    ranked = Ranked()
    ranked.order, ranked.best = np.array([1, 0]), None
    assert check_state(ranked) == {"n_rows": 2}
    ranked.best = 1.5
    with pytest.raises(StateError, match=r"Ranked.best is '1.5', a float. Expected share, shape one or none"):
        check_state(ranked)


def test_what_is_made_later_can_be_deleted_and_is_made_when_asked():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = buttress.RobustLinearRegressor(random_state=0).fit(X, X @ [1.0, 2.0])
    assert hasattr(model, "held_out_")
    del model.held_out_, model.mm_
    assert not hasattr(model, "held_out_")
    with pytest.raises(AttributeError, match="RobustLinearRegressor has no mm_ to delete"):
        del model.mm_


def test_the_summary_names_the_coefficients_of_the_fit_whatever_parameters_became():
    X, noise = np.split(np.random.default_rng(0).normal(size=(60, 3)), [2], axis=1)
    model = buttress.RobustLinearRegressor(random_state=0).fit(X, X @ [1.0, 2.0] + noise[:, 0])
    names = list(model.summary().name)
    assert names == ["intercept", "x0", "x1"]
    assert list(model.set_params(fit_intercept=False).summary().name) == names
